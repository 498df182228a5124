//! One thread reads a buffer in sequence while another follows pointers through one of the same size (Soar, section 2.1).

use std::ops::Range;

use super::prelude::*;

/// Random-number domain of the cycle.
const DOMAIN: u64 = 0x6379_636c;
/// A node of the chase fills a line.
const NODE_BYTES: u64 = 64;
/// Lines of a page: what two threads that fill a buffer each at one pace touch of them in turn.
const PAGE_LINES: usize = 64;

// Least of 15 runs of the example `cpu_cost` on buffers of 16 KiB, on a busy machine: both walks in turn on one thread.
const TURN_NS: f64 = 17.8;

/// Sequential reads beside a pointer chase.
#[derive(Debug)]
pub struct SeqChase;

/// Where the chase ended, its steps, and the sum of what was read in sequence.
#[derive(Debug, PartialEq, Eq)]
pub struct Walk {
    chased: u64,
    last: u64,
    sum: u64,
}

fn nodes(values: &Values) -> u64 {
    values.int("buffer_bytes") / NODE_BYTES
}

/// Puts elements that hold their own number into the order of a random cycle through all of them (Sattolo).
fn into_cycle<T>(elements: &mut [T], seed: u64) {
    let mut rng = CounterRng::new(seed, &[DOMAIN]);
    for last in (1..elements.len()).rev() {
        elements.swap(last, rng.below(last as u64) as usize);
    }
}

/// A buffer of lines, which is two objects where its halves are touched at different times.
struct Buffer {
    objects: [ObjectId; 2],
    half: usize,
    lines: Vec<[u64; 8]>,
}

impl Buffer {
    fn fill(&mut self, range: Range<usize>, line: impl Fn(usize) -> [u64; 8]) {
        for at in range {
            self.lines[at] = line(at);
        }
    }

    #[inline(always)]
    fn load<M: Memory>(&self, memory: &mut M, at: usize, class: AccessClass) -> u64 {
        let (object, place) = if at < self.half {
            (self.objects[0], at)
        } else {
            (self.objects[1], at - self.half)
        };
        memory.load(object, place * NODE_BYTES as usize, class);
        self.lines[at][0]
    }
}

/// Both buffers, touched in the order that is asked for: memory that nothing was written to is touched by nobody.
fn buffers<M: Memory>(memory: &mut M, values: &Values) -> (Buffer, Buffer) {
    let count = nodes(values) as usize;
    let ids: Vec<ObjectId> = SeqChase::objects(values)
        .iter()
        .map(|spec| memory.allocate(spec))
        .collect();
    let buffer = |objects: [ObjectId; 2], half: usize| Buffer {
        objects,
        half,
        lines: vec![[0; 8]; count],
    };
    let whole = |number: usize| buffer([ids[number]; 2], count);
    let halves = |first: usize, second: usize| buffer([ids[first], ids[second]], count / 2);
    let ones = |_: usize| [1u64; 8];
    let own_number = |at: usize| [at as u64; 8];
    let (seq, mut chase) = match values.word("first") {
        "both" => {
            let (mut seq, mut chase) = (halves(0, 2), halves(1, 3));
            for start in (0..count).step_by(PAGE_LINES) {
                let page = start..count.min(start + PAGE_LINES);
                seq.fill(page.clone(), ones);
                chase.fill(page, own_number);
            }
            (seq, chase)
        }
        "chase" => {
            let (mut seq, mut chase) = (whole(1), whole(0));
            chase.fill(0..count, own_number);
            seq.fill(0..count, ones);
            (seq, chase)
        }
        _ => {
            let (mut seq, mut chase) = (whole(0), whole(1));
            seq.fill(0..count, ones);
            chase.fill(0..count, own_number);
            (seq, chase)
        }
    };
    into_cycle(&mut chase.lines, values.int("seed"));
    (seq, chase)
}

impl Program for SeqChase {
    const NAME: &'static str = "seq_chase";
    const FAMILY: &'static str = "micro";
    const SUMMARY: &'static str = "one thread reads in sequence, one chases pointers, over buffers of one size";
    const SOURCE: &'static str = "Soar/Alto (OSDI'25), section 2.1";
    const OP_MEANING: &'static str =
        "one pointer followed, and lines_per_hop lines read in sequence by the other thread";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::bytes("buffer_bytes", 4096, 1 << 37, "each of the two buffers").carried(),
        Parameter::int("hops", 1, 1 << 40, "pointers followed").work(),
        Parameter::real("lines_per_hop", 0.0, 1000.0, "lines read in sequence for each pointer").or(Default::Real(6.5)),
        Parameter::word(
            "first",
            "a buffer",
            &["seq", "chase", "both"],
            "which buffer is touched first; both: at the same pace, so that first the first halves are",
        )
        .or(Default::Word("seq")),
        Parameter::int("seed", 0, u64::MAX, "seed of the order of the nodes").or(Default::Int(1)),
    ];
    const CLASSES: &'static [AccessClass] = &[AccessClass::Chase, AccessClass::Stream];
    const SMALL: &'static str = r#"{"buffer_bytes": 1048576, "hops": 200000}"#;

    type Output = Walk;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        let bytes = values.int("buffer_bytes");
        let seq = |name, bytes| ObjectSpec::new(name, bytes, 8).built().swept();
        let chase = |name, bytes| {
            ObjectSpec::new(name, bytes, NODE_BYTES as u32)
                .built()
                .layout(Layout::Vertices)
        };
        // In the order in which they are touched; published runs touch the sequential buffer first.
        match values.word("first") {
            "both" => vec![
                seq("seq-1", bytes / 2),
                chase("chase-1", bytes / 2),
                seq("seq-2", bytes / 2),
                chase("chase-2", bytes / 2),
            ],
            "chase" => vec![chase("chase", bytes), seq("seq", bytes)],
            _ => vec![seq("seq", bytes), chase("chase", bytes)],
        }
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> Walk {
        let (count, hops) = (nodes(values), values.int("hops"));
        let (seq, chase) = buffers(memory, values);
        let lines = |hops: u64| (hops as f64 * values.real("lines_per_hop")) as u64;
        let (last, sum) = (AtomicU64::new(0), AtomicU64::new(0));
        memory.phase(Phase::new("both", Unit::Operations, TURN_NS).stationary());
        let read = |memory: &mut M, place: &mut usize, lines: u64| {
            let mut part = 0;
            for _ in 0..lines {
                part += seq.load(memory, *place, AccessClass::Stream);
                *place = if *place + 1 == count as usize { 0 } else { *place + 1 };
            }
            part
        };
        if memory.threads() > 1 {
            // Two chunks, one for each of two threads.
            memory.for_chunks(0..2, 1, |memory, part| {
                if part.start == 0 {
                    let mut at = 0;
                    for _ in 0..hops {
                        at = chase.load(memory, at as usize, AccessClass::Chase);
                    }
                    last.store(at, Relaxed);
                    memory.ops(hops);
                } else {
                    sum.store(read(memory, &mut 0, lines(hops)), Relaxed);
                }
            });
        } else {
            // In turns, so that a recording has both going at once.
            let (mut at, mut place, mut done, mut total) = (0, 0, 0, 0);
            for hop in 0..hops {
                at = chase.load(memory, at as usize, AccessClass::Chase);
                let until = lines(hop + 1);
                total += read(memory, &mut place, until - done);
                done = until;
                memory.ops(1);
            }
            last.store(at, Relaxed);
            sum.store(total, Relaxed);
        }
        Walk {
            chased: hops,
            last: last.into_inner(),
            sum: sum.into_inner(),
        }
    }

    fn verify(values: &Values, walk: &Walk) -> Vec<Check> {
        // The cycle, its length and where so many hops lead, found without the walk itself.
        let mut order: Vec<u32> = (0..nodes(values) as u32).collect();
        into_cycle(&mut order, values.int("seed"));
        let (mut length, mut at) = (0u64, 0usize);
        loop {
            at = order[at] as usize;
            length += 1;
            if at == 0 || length > order.len() as u64 {
                break;
            }
        }
        let mut expected = 0usize;
        for _ in 0..walk.chased % length {
            expected = order[expected] as usize;
        }
        let lines = (values.int("hops") as f64 * values.real("lines_per_hop")) as u64;
        let whole = length == order.len() as u64;
        vec![
            Check::new("cycle", whole, format!("{length} of {} nodes", order.len())),
            Check::new(
                "chase",
                walk.last == expected as u64,
                format!("ended at {}, expected {expected}", walk.last),
            ),
            Check::new(
                "sequence",
                walk.sum == lines,
                format!("{} lines of ones read, {lines} asked for", walk.sum),
            ),
        ]
    }

    fn check(values: &Values) -> Result<(), ParameterError> {
        let bytes = values.int("buffer_bytes");
        let halves = if values.word("first") == "both" { 2 } else { 1 };
        if bytes % (halves * NODE_BYTES) != 0 {
            let near = bytes / (halves * NODE_BYTES) * halves * NODE_BYTES;
            let what = if halves == 2 { "lines in each half" } else { "lines" };
            let text = format!("is {bytes}, which is no whole number of {what}; the nearest is {near}");
            return Err(ParameterError::new("buffer_bytes", text));
        }
        Ok(())
    }

    fn ops(values: &Values) -> u64 {
        values.int("hops")
    }

    fn resize(recorded: &Values, sizes: &[(&str, u64)]) -> Values {
        let bytes = recorded.int("buffer_bytes");
        let larger = sizes.first().map_or(bytes, |(_, value)| *value);
        let hops = recorded.int("hops") as f64 * larger as f64 / bytes as f64;
        recorded
            .clone()
            .with("buffer_bytes", larger)
            .with("hops", hops.round() as u64)
    }
}
