//! One thread reads a buffer in sequence while another follows pointers through one of the same size (Soar, section 2.1).

use super::prelude::*;

/// Random-number domain of the cycle.
const DOMAIN: u64 = 0x6379_636c;
/// A node of the chase fills a line.
const NODE_BYTES: u64 = 64;

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

/// A random cycle through all nodes (Sattolo).
fn cycle(count: u64, seed: u64) -> Vec<u32> {
    let mut rng = CounterRng::new(seed, &[DOMAIN]);
    let mut next: Vec<u32> = (0..count as u32).collect();
    for last in (1..count).rev() {
        next.swap(last as usize, rng.below(last) as usize);
    }
    next
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
        Parameter::int("hops", 1, 1 << 40, "pointers followed"),
        Parameter::real("lines_per_hop", 0.0, 1000.0, "lines read in sequence for each pointer").or(Default::Real(6.5)),
        Parameter::int("seed", 0, u64::MAX, "seed of the order of the nodes").or(Default::Int(1)),
    ];
    const CLASSES: &'static [AccessClass] = &[AccessClass::Chase, AccessClass::Stream];
    const SMALL: &'static str = r#"{"buffer_bytes": 1048576, "hops": 200000}"#;

    type Output = Walk;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        let bytes = values.int("buffer_bytes");
        // Published runs touch the sequential buffer first.
        vec![
            ObjectSpec::new("seq", bytes, 8).built().swept(),
            ObjectSpec::new("chase", bytes, NODE_BYTES as u32)
                .built()
                .layout(Layout::Vertices),
        ]
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> Walk {
        let specs = Self::objects(values);
        let (count, hops) = (nodes(values), values.int("hops"));
        let seq = Array::new(memory, &specs[0], vec![[1u64; 8]; count as usize]);
        let order = cycle(count, values.int("seed"));
        let chase = Array::new(
            memory,
            &specs[1],
            order.iter().map(|next| [u64::from(*next); 8]).collect(),
        );
        drop(order);
        let lines = |hops: u64| (hops as f64 * values.real("lines_per_hop")) as u64;
        let (last, sum) = (AtomicU64::new(0), AtomicU64::new(0));
        memory.phase(Phase::new("both", Unit::Operations, TURN_NS).stationary());
        let read = |memory: &mut M, place: &mut usize, lines: u64| {
            let mut part = 0;
            for _ in 0..lines {
                part += seq.load(memory, *place, AccessClass::Stream)[0];
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
                        at = chase.load(memory, at as usize, AccessClass::Chase)[0];
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
                at = chase.load(memory, at as usize, AccessClass::Chase)[0];
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
        let order = cycle(nodes(values), values.int("seed"));
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
        if bytes % NODE_BYTES != 0 {
            let near = bytes / NODE_BYTES * NODE_BYTES;
            let text = format!("is {bytes}, which is no whole number of lines; the nearest is {near}");
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
