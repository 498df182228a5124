//! Random reads that wait for each other, random reads that do not, and random updates, plain and by locked instructions.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use serde_json::{Value as Json, json};
use tiertune_workload::kernels::prelude::CounterRng;

use super::host::{locked_add, pin, processor_s, processors};
use super::loaded::{chase, cycle};
use super::{LINE_BYTES, Plan, Region};

const WORDS: u64 = LINE_BYTES as u64 / 8;
/// Accesses between two looks at the clock.
const BLOCK: u64 = 4096;

/// What one access is.
#[derive(Clone, Copy)]
enum Kind {
    /// A read whose place the read before tells.
    Chase,
    /// A read of a place that is known beforehand.
    Read,
    /// A read and a write of such a place.
    Update,
    /// Both in a locked instruction.
    Locked,
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::Chase, "chase"),
    (Kind::Read, "read"),
    (Kind::Update, "update"),
    (Kind::Locked, "locked"),
];

/// Xorshift: next to nothing beside a miss, and the next place is known long before it is needed.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn block(buffer: &mut [u64], kind: Kind, state: &mut u64, at: &mut u64) {
    let lines = (buffer.len() as u64 / WORDS) as u128;
    let mut place = || ((u128::from(next(state)) * lines) >> 64) as u64 * WORDS;
    match kind {
        Kind::Chase => *at = chase(buffer, *at, BLOCK),
        Kind::Read => {
            let mut sum = 0u64;
            for _ in 0..BLOCK {
                sum = sum.wrapping_add(buffer[place() as usize]);
            }
            black_box(sum);
        }
        Kind::Update => {
            for _ in 0..BLOCK {
                // Word 0 is the chase's.
                let word = &mut buffer[place() as usize + 1];
                *word ^= (*word << 1) | 1;
            }
        }
        Kind::Locked => {
            for _ in 0..BLOCK {
                locked_add(&mut buffer[place() as usize + 1], 2);
            }
        }
    }
}

/// Samples of nanoseconds per access of a thread, its own processor time, as a median over the threads.
pub fn rates(plan: &Plan, threads: &[usize], sample: &mut impl FnMut(Json)) -> Result<(), String> {
    let pins = processors();
    let most = threads.iter().copied().max().unwrap_or(0);
    let mut buffers = Vec::with_capacity(most);
    for number in 0..most {
        let mut buffer = Region::new(plan.buffer_bytes, true, plan.node)?;
        cycle(&mut buffer, number as u64 + 1);
        buffers.push(buffer);
    }
    let mut places = vec![0u64; most];
    for round in 0..plan.samples {
        for (threads, (kind, name)) in threads.iter().flat_map(|count| KINDS.map(|kind| (*count, kind))) {
            let start = Barrier::new(threads);
            let spent: Vec<(f64, f64)> = std::thread::scope(|scope| {
                let workers: Vec<_> = buffers[..threads]
                    .iter_mut()
                    .zip(&mut places)
                    .enumerate()
                    .map(|(number, (buffer, at))| {
                        let (start, pins) = (&start, &pins);
                        let mut state = CounterRng::new(u64::from(round), &[number as u64]).next_u64() | 1;
                        scope.spawn(move || {
                            pin(number, pins);
                            start.wait();
                            let (begun, used, mut accesses) = (Instant::now(), processor_s(), 0);
                            // Once at least: a thread may have lost its core for all of the window.
                            loop {
                                block(buffer, kind, &mut state, at);
                                accesses += BLOCK;
                                if begun.elapsed().as_secs_f64() >= plan.window_s {
                                    break;
                                }
                            }
                            let (spent_s, wall_s) = (processor_s() - used, begun.elapsed().as_secs_f64());
                            (1e9 * spent_s / accesses as f64, spent_s / wall_s)
                        })
                    })
                    .collect();
                workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
            });
            let mut each: Vec<f64> = spent.iter().map(|(ns, _)| *ns).collect();
            each.sort_by(f64::total_cmp);
            let on_core = spent.iter().map(|(_, share)| *share).fold(1.0, f64::min);
            sample(json!({
                "event": "sample", "measure": "updates", "round": round, "threads": threads, "kind": name,
                "ns_per_access": each[each.len() / 2], "on_core": on_core,
            }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_leave_the_cycle_alone() {
        let mut buffer = vec![0u64; 256 * WORDS as usize];
        cycle(&mut buffer, 1);
        let before: Vec<u64> = buffer.iter().step_by(WORDS as usize).copied().collect();
        let (mut state, mut at) = (1, 0);
        for (kind, _) in KINDS {
            block(&mut buffer, kind, &mut state, &mut at);
        }
        let after: Vec<u64> = buffer.iter().step_by(WORDS as usize).copied().collect();
        assert_eq!(before, after);
        assert!(buffer.iter().skip(1).step_by(WORDS as usize).all(|word| *word != 0));
    }
}
