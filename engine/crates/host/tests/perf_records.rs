//! Records of perf rings, made up: across the end of the ring, lost, throttled, cut off, unknown, and arbitrary bytes.

use proptest::prelude::*;
use tiertune_host::perf::record::{Record, Sample, decode, field};
use tiertune_host::perf::{data_source, ibs, ring};

const FIELDS: u64 = field::THREAD | field::TIME | field::ADDRESS | field::WEIGHT | field::DATA_SOURCE;

fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_ne_bytes().to_vec();
    bytes.extend(2_u16.to_ne_bytes());
    bytes.extend(u16::try_from(8 + body.len()).expect("short").to_ne_bytes());
    bytes.extend(body);
    bytes
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// A sample of [`FIELDS`].
fn sample(address: u64, time_ns: u64) -> Vec<u8> {
    let thread = u64::from(77_u32) | (78 << 32);
    record(9, &words(&[thread, time_ns, address, 300, 2 | (0xd << 33)]))
}

fn all(bytes: &[u8]) -> (Vec<Record<'_>>, usize) {
    let mut found = Vec::new();
    let left = decode(bytes, FIELDS, |record| found.push(record));
    (found, left)
}

fn expected(address: u64, time_ns: u64) -> Record<'static> {
    Record::Sample(Sample {
        pid: 77,
        thread: 78,
        time_ns,
        address,
        weight: 300,
        data_source: 2 | (0xd << 33),
        ..Sample::default()
    })
}

#[test]
fn samples_and_what_comes_between_them() {
    let mut bytes = sample(0x1000, 5);
    bytes.extend(record(5, &words(&[9, 1, 1])));
    bytes.extend(record(2, &words(&[1, 42])));
    bytes.extend(record(13, &words(&[7])));
    bytes.extend(record(6, &words(&[10, 1, 1])));
    bytes.extend(record(4711, &words(&[0; 3])));
    bytes.extend(sample(0x2000, 6));
    let between = [
        Record::Throttled,
        Record::Lost(42),
        Record::Lost(7),
        Record::Unthrottled,
        Record::Other(4711),
    ];
    let mut wanted = vec![expected(0x1000, 5)];
    wanted.extend(between);
    wanted.push(expected(0x2000, 6));
    assert_eq!(all(&bytes), (wanted, 0));
}

#[test]
fn all_fields_in_the_kernels_order() {
    // Address of the instruction, thread, time, address, processor, period; then 4 + 12 raw bytes, weight, data source.
    let mut body = words(&[0xa1, 1 | (2 << 32), 3, 4, 5, 6]);
    body.extend(12_u32.to_ne_bytes());
    body.extend([9; 12]);
    body.extend(words(&[7, 8]));
    let bytes = record(9, &body);
    let mut found = Vec::new();
    assert_eq!(decode(&bytes, field::KNOWN, |record| found.push(record)), 0);
    let wanted = Sample {
        instruction: 0xa1,
        pid: 1,
        thread: 2,
        time_ns: 3,
        address: 4,
        processor: 5,
        period: 6,
        raw: &[9; 12],
        weight: 7,
        data_source: 8,
    };
    assert_eq!(found, [Record::Sample(wanted)]);
}

#[test]
fn records_that_end_too_soon_are_told_apart_from_the_rest() {
    let mut bytes = record(9, &words(&[1, 2]));
    bytes.extend(record(2, &words(&[1])));
    bytes.extend(sample(0x3000, 7));
    assert_eq!(
        all(&bytes),
        (vec![Record::Malformed(9), Record::Malformed(2), expected(0x3000, 7)], 0)
    );
}

#[test]
fn a_tail_that_is_cut_off_is_left() {
    let whole = [sample(0x1000, 5), sample(0x2000, 6)].concat();
    let one = sample(0, 0).len();
    for cut in 1..one {
        let bytes = &whole[..whole.len() - cut];
        assert_eq!(
            all(bytes),
            (vec![expected(0x1000, 5)], one - cut),
            "{cut} bytes cut off"
        );
    }
}

#[test]
fn a_size_of_nothing_ends_the_reading() {
    let bytes = [sample(0x1000, 5), vec![0; 64]].concat();
    assert_eq!(all(&bytes), (vec![expected(0x1000, 5)], 64));
}

/// A ring as the kernel keeps it: positions that count on for ever.
struct Writer {
    data: Vec<u8>,
    head: u64,
}

impl Writer {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let place = (self.head % self.data.len() as u64) as usize;
            self.data[place] = *byte;
            self.head = self.head.wrapping_add(1);
        }
    }
}

#[test]
fn records_lie_across_the_end_of_the_ring() {
    // The first begins 8 bytes before the end of the ring, and the position itself runs over, too.
    let mut writer = Writer {
        data: vec![0xee; 256],
        head: u64::MAX - 7,
    };
    let tail = writer.head;
    writer.write(&sample(0x1000, 5));
    writer.write(&sample(0x2000, 6));
    let mut bytes = vec![];
    assert!(ring::copy_out(&writer.data, tail, writer.head, &mut bytes));
    assert_eq!(all(&bytes), (vec![expected(0x1000, 5), expected(0x2000, 6)], 0));
    let before = bytes.len();
    assert!(ring::copy_out(&writer.data, writer.head, writer.head, &mut bytes));
    assert_eq!(bytes.len(), before, "nothing new");
}

#[test]
fn a_ring_that_was_overrun_gives_nothing() {
    let mut bytes = vec![];
    assert!(!ring::copy_out(&[0; 64], 10, 75, &mut bytes));
    assert!(
        !ring::copy_out(&[0; 64], 11, 10, &mut bytes),
        "a position behind the reader's"
    );
    assert!(ring::copy_out(&[7; 64], 10, 74, &mut bytes));
    assert_eq!(bytes, [7; 64]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    /// Nothing panics, no byte is read twice or beyond the end, and it comes to an end.
    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..600), fields in 0_u64..1 << 17) {
        let mut records = 0;
        let left = decode(&bytes, fields & field::KNOWN, |record| {
            records += 1;
            if let Record::Sample(sample) = record {
                let _ = ibs::read(sample.raw);
                let _ = data_source::read(sample.data_source);
            }
        });
        prop_assert!(left <= bytes.len());
        prop_assert!(records <= bytes.len() / 8);
    }

    /// The same for bytes that are records in form, so that their bodies are reached.
    #[test]
    fn records_of_arbitrary_bodies(
        bodies in prop::collection::vec((0_u32..20, prop::collection::vec(any::<u8>(), 0..120)), 0..20),
        fields in 0_u64..1 << 17,
    ) {
        let bytes: Vec<u8> = bodies.iter().flat_map(|(kind, body)| record(*kind, body)).collect();
        let mut found = Vec::new();
        prop_assert_eq!(decode(&bytes, fields & field::KNOWN, |record| found.push(record)), 0);
        prop_assert_eq!(found.len(), bodies.len());
        for (record, (kind, body)) in found.iter().zip(&bodies) {
            match record {
                Record::Sample(sample) => {
                    prop_assert_eq!(*kind, 9);
                    prop_assert!(sample.raw.len() <= body.len());
                    let _ = ibs::read(sample.raw);
                }
                Record::Lost(_) => prop_assert!(*kind == 2 || *kind == 13),
                Record::Throttled => prop_assert_eq!(*kind, 5),
                Record::Unthrottled => prop_assert_eq!(*kind, 6),
                Record::Other(other) | Record::Malformed(other) => prop_assert_eq!(other, kind),
            }
        }
    }

    /// Whatever lies between two positions comes out as it went in.
    #[test]
    fn any_ring(power in 3_u32..10, start in any::<u64>(), bytes in prop::collection::vec(any::<u8>(), 0..700)) {
        let mut writer = Writer { data: vec![0; 1 << power], head: start };
        writer.write(&bytes);
        let mut copied = vec![];
        let fits = bytes.len() <= writer.data.len();
        prop_assert_eq!(ring::copy_out(&writer.data, start, writer.head, &mut copied), fits);
        prop_assert_eq!(copied, if fits { bytes } else { vec![] });
    }
}
