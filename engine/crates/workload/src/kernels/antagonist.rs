//! Takes memory bandwidth from others: threads go through a buffer in sequence, as fast or as slowly as asked.

use super::prelude::*;

const LINE_BYTES: u64 = 64;
/// After so many lines those that are written repeat.
const PATTERN: usize = 128;
/// Lines that a thread takes at a time.
const CHUNK: usize = 1 << 12;

// Least of 15 runs of the example `cpu_cost` on a buffer of 16 KiB.
const LINE_NS: f64 = 0.8;
/// What a turn of the pause takes differs by machine.
const PAUSE_NS: f64 = 48.0;

/// A bandwidth antagonist.
#[derive(Debug)]
pub struct Antagonist;

fn lines(values: &Values) -> u64 {
    values.int("buffer_bytes") / LINE_BYTES
}

/// Whether a line is written: evenly spread, so many of each [`PATTERN`].
fn written(line: u64, share: f64) -> bool {
    ((line + 1) as f64 * share) as u64 > (line as f64 * share) as u64
}

impl Program for Antagonist {
    const NAME: &'static str = "antagonist";
    const FAMILY: &'static str = "micro";
    const SUMMARY: &'static str = "threads stream through a buffer to take bandwidth, with an intensity";
    const SOURCE: &'static str = "the memory antagonist of Colloid (SOSP'24), whose intensity is its number of cores";
    const OP_MEANING: &'static str = "one line read, or read and written";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::bytes("buffer_bytes", 4096, 1 << 46, "buffer that is streamed through").carried(),
        Parameter::int("passes", 1, 1 << 40, "how often").work(),
        Parameter::real("write_share", 0.0, 1.0, "share of the lines that are also written").or(Default::Real(0.5)),
        Parameter::int(
            "pauses",
            0,
            1 << 20,
            "turns of a waiting loop after each line: 0 is full intensity",
        )
        .or(Default::Int(0)),
    ];
    const CLASSES: &'static [AccessClass] = &[AccessClass::Stream];
    const SMALL: &'static str = r#"{"buffer_bytes": 1048576, "passes": 8}"#;

    type Output = u64;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        vec![ObjectSpec::new("buffer", values.int("buffer_bytes"), 8).built().swept()]
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> u64 {
        let (count, share, pauses) = (lines(values), values.real("write_share"), values.int("pauses"));
        let words = (LINE_BYTES / 8) as usize;
        let buffer = SharedArray::new(memory, &Self::objects(values)[0], vec![0u64; count as usize * words]);
        let pattern: [bool; PATTERN] = std::array::from_fn(|line| written(line as u64, share));
        let sum = AtomicU64::new(0);
        let cost = LINE_NS + PAUSE_NS * pauses as f64;
        memory.phase(Phase::new("stream", Unit::Operations, cost));
        for _ in 0..values.int("passes") {
            memory.for_chunks(0..count as usize, CHUNK, |memory, part| {
                let (mut found, lines) = (0, part.len() as u64);
                for line in part {
                    let value = buffer.load(memory, line * words, AccessClass::Stream);
                    found += value;
                    if pattern[line % PATTERN] {
                        buffer.store(memory, line * words, value + 1, AccessClass::Stream);
                    }
                    for _ in 0..pauses {
                        std::hint::spin_loop();
                    }
                }
                sum.fetch_add(found, Relaxed);
                memory.ops(lines);
            });
        }
        sum.into_inner()
    }

    fn verify(values: &Values, sum: &u64) -> Vec<Check> {
        // Pass p finds p in every line that is written: 0 + 1 + ... of each.
        let passes = values.int("passes");
        let share = values.real("write_share");
        let lines = (0..lines(values))
            .filter(|line| written(line % PATTERN as u64, share))
            .count() as u64;
        let expected = lines * (passes * (passes - 1) / 2);
        vec![Check::new("sum", *sum == expected, format!("{sum} against {expected}"))]
    }

    fn check(values: &Values) -> Result<(), ParameterError> {
        let bytes = values.int("buffer_bytes");
        if bytes % LINE_BYTES != 0 {
            let near = bytes / LINE_BYTES * LINE_BYTES;
            let text = format!("is {bytes}, which is no whole number of lines; the nearest is {near}");
            return Err(ParameterError::new("buffer_bytes", text));
        }
        Ok(())
    }

    fn ops(values: &Values) -> u64 {
        values.int("passes") * lines(values)
    }
}
