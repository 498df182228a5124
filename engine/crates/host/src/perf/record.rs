//! Records of a perf ring, decoded from bytes; see `PERF_RECORD_*` in Linux's `perf_event.h`.

/// What a record of a sample consists of, in this order where asked for.
pub mod field {
    /// Address of the instruction.
    pub const INSTRUCTION: u64 = 1 << 0;
    /// Process and thread.
    pub const THREAD: u64 = 1 << 1;
    /// Time.
    pub const TIME: u64 = 1 << 2;
    /// Address of the data.
    pub const ADDRESS: u64 = 1 << 3;
    /// Processor.
    pub const PROCESSOR: u64 = 1 << 7;
    /// Events since the sample before.
    pub const PERIOD: u64 = 1 << 8;
    /// Bytes that only the driver of the event knows.
    pub const RAW: u64 = 1 << 10;
    /// What the access cost, in cycles.
    pub const WEIGHT: u64 = 1 << 14;
    /// Where the data came from.
    pub const DATA_SOURCE: u64 = 1 << 15;
    /// All that is decoded here.
    pub const KNOWN: u64 = INSTRUCTION | THREAD | TIME | ADDRESS | PROCESSOR | PERIOD | RAW | WEIGHT | DATA_SOURCE;
}

/// Bytes of the head that every record begins with: kind, flags, size.
const HEAD_BYTES: usize = 8;

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// So many records were lost before this one, since the ring was full or the hardware could not keep them.
    Lost(u64),
    /// The kernel stops the event until the next tick: samples cost too much.
    Throttled,
    /// It goes on.
    Unthrottled,
    /// Nothing about samples; its kind.
    Other(u32),
    /// Shorter than its kind needs.
    Malformed(u32),
}

/// A sample; what was not asked for is zero or empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Address of the instruction.
    pub instruction: u64,
    /// Process.
    pub pid: i32,
    /// Thread.
    pub thread: i32,
    /// Time, by the clock that the event was opened with.
    pub time_ns: u64,
    /// Address of the data; 0 where the hardware did not know it.
    pub address: u64,
    /// Processor.
    pub processor: u32,
    /// Events since the sample before.
    pub period: u64,
    /// Bytes of the driver.
    pub raw: &'a [u8],
    /// Cycles of the access.
    pub weight: u64,
    /// Where the data came from, as [`super::data_source`] reads it.
    pub data_source: u64,
}

/// Reads whole numbers off the front.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(count)?;
        self.0 = left;
        Some(taken)
    }

    fn short(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.bytes(8)?.try_into().ok()?))
    }
}

fn sample(body: &[u8], fields: u64) -> Option<Sample<'_>> {
    let mut words = Words(body);
    let mut found = Sample::default();
    let has = |field: u64| fields & field != 0;
    if has(field::INSTRUCTION) {
        found.instruction = words.long()?;
    }
    if has(field::THREAD) {
        (found.pid, found.thread) = (words.short()? as i32, words.short()? as i32);
    }
    if has(field::TIME) {
        found.time_ns = words.long()?;
    }
    if has(field::ADDRESS) {
        found.address = words.long()?;
    }
    if has(field::PROCESSOR) {
        found.processor = words.short()?;
        words.short()?;
    }
    if has(field::PERIOD) {
        found.period = words.long()?;
    }
    if has(field::RAW) {
        let count = words.short()?;
        found.raw = words.bytes(count as usize)?;
        // The size and the bytes together fill whole words of 8.
        words.bytes((8 - (4 + found.raw.len()) % 8) % 8)?;
    }
    if has(field::WEIGHT) {
        found.weight = words.long()?;
    }
    if has(field::DATA_SOURCE) {
        found.data_source = words.long()?;
    }
    Some(found)
}

/// Number at `place` of the body of a record.
fn number(body: &[u8], place: usize) -> Option<u64> {
    let mut words = Words(body.get(place * 8..)?);
    words.long()
}

fn record(kind: u32, body: &[u8], fields: u64) -> Record<'_> {
    let found = match kind {
        2 => number(body, 1).map(Record::Lost),
        5 => Some(Record::Throttled),
        6 => Some(Record::Unthrottled),
        9 => sample(body, fields).map(Record::Sample),
        13 => number(body, 0).map(Record::Lost),
        other => Some(Record::Other(other)),
    };
    found.unwrap_or(Record::Malformed(kind))
}

/// Calls `visit` with each whole record of `bytes`, in order; `fields` are those of its samples.
///
/// Returns how many bytes at the end are no whole record: 0 in what a kernel wrote.
pub fn decode<'a>(bytes: &'a [u8], fields: u64, mut visit: impl FnMut(Record<'a>)) -> usize {
    debug_assert_eq!(fields & !field::KNOWN, 0, "fields that shift those behind them");
    let mut left = bytes;
    while left.len() >= HEAD_BYTES {
        let mut words = Words(left);
        let (Some(kind), Some(rest)) = (words.short(), words.short()) else {
            break;
        };
        // The upper half of the second word on little-endian machines, where this runs.
        let size = (rest >> 16) as usize;
        if size < HEAD_BYTES || size > left.len() {
            break;
        }
        visit(record(kind, &left[HEAD_BYTES..size], fields));
        left = &left[size..];
    }
    left.len()
}
