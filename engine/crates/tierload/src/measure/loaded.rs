//! Streams of full or reduced speed, and a pointer chase beside them.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tiertune_workload::kernels::prelude::CounterRng;

use super::host::{pin, processor_s, processors};
use super::{LINE_BYTES, Plan, Region};

const WORDS: usize = LINE_BYTES / 8;
/// Lines between pauses: a page of 4 KiB, the stretch that prefetchers know.
const BURST_LINES: usize = 64;
/// After so many lines those that are written repeat.
const PATTERN: usize = 128;
/// Hops between two looks at the clock, tens of microseconds.
const BLOCK_HOPS: u64 = 128;
/// Shorter than the turns that threads get on a shared host, and long beside a block.
const SLOT_NS: f64 = 5e5;
/// A slot counts in which every thread had its processor for this share of it.
const ON_CORE: f64 = 0.9;
/// Counts and time are read within this.
const AT_ONCE: Duration = Duration::from_micros(20);
/// A window goes on until it has so many of these …
const ENOUGH_SLOTS: u64 = 12;
/// … but for at most so many times its length.
const MOST_WINDOWS: f64 = 10.0;
/// Load comes up, and caches forget what they held, for this share of a window before it begins.
const WARM_SHARE: f64 = 0.2;
/// Random-number domain of the cycle.
const DOMAIN: u64 = 0x6d65_6173;

/// What one streaming thread has moved, alone on its lines so that counting moves nothing between caches.
#[derive(Default)]
#[repr(align(128))]
struct Moved {
    lines: AtomicU64,
    processor_ns: AtomicU64,
}

/// How a thread streams.
#[derive(Clone, Copy)]
struct Stream {
    write_share: f64,
    pauses: u64,
}

/// Lines that are written: evenly spread, so many of each [`PATTERN`].
fn written(share: f64) -> [bool; PATTERN] {
    std::array::from_fn(|line| ((line + 1) as f64 * share) as u64 > (line as f64 * share) as u64)
}

/// Goes through the buffer over and over until told to stop; `tick` is called every few microseconds.
fn stream(buffer: &mut [u64], how: Stream, moved: &Moved, stop: &AtomicBool, mut tick: impl FnMut()) {
    let pattern = written(how.write_share);
    // Asking for the time takes as long as a burst: now and then is enough, but often within a slot.
    let between = (64 / (1 + how.pauses / 8)).max(1);
    let (mut sum, mut bursts) = (0u64, 0u64);
    'all: loop {
        for burst in buffer.chunks_exact_mut(BURST_LINES * WORDS) {
            if stop.load(Relaxed) {
                break 'all;
            }
            if how.write_share == 0.0 {
                sum = burst.iter().fold(sum, |sum, word| sum.wrapping_add(*word));
            } else {
                for (line, write) in burst.chunks_exact_mut(WORDS).zip(pattern.iter().cycle()) {
                    sum = sum.wrapping_add(line[0]);
                    if *write {
                        line[0] = sum;
                    }
                }
            }
            moved.lines.fetch_add(BURST_LINES as u64, Relaxed);
            bursts += 1;
            if bursts % between == 0 {
                moved.processor_ns.store((processor_s() * 1e9) as u64, Relaxed);
                tick();
            }
            for _ in 0..how.pauses {
                spin_loop();
            }
        }
    }
    black_box(sum);
}

/// Makes a random cycle through all lines of the buffer (Sattolo): word 0 of each holds the place of the next.
pub fn cycle(buffer: &mut [u64], seed: u64) {
    let count = buffer.len() / WORDS;
    let mut rng = CounterRng::new(seed, &[DOMAIN]);
    let mut next: Vec<u32> = (0..count as u32).collect();
    for last in (1..count).rev() {
        next.swap(last, rng.below(last as u64) as usize);
    }
    for (line, next) in buffer.chunks_exact_mut(WORDS).zip(next) {
        line[0] = u64::from(next) * WORDS as u64;
    }
}

/// Follows the cycle for so many hops; returns where it is.
#[must_use]
pub fn chase(buffer: &[u64], from: u64, hops: u64) -> u64 {
    let mut at = from;
    for _ in 0..hops {
        at = buffer[at as usize];
    }
    black_box(at)
}

/// What was seen in a slot of a window.
#[derive(Clone, Copy)]
struct Seen {
    latency_ns: f64,
    lines_per_ns: f64,
    /// The least share of the slot that one of the threads had its processor.
    on_core: f64,
}

/// Cuts a window into slots, each with what all threads did in it; kept by one of these threads.
///
/// On a shared host a slot is shorter than the turns that threads get, so that some slots are undisturbed.
struct Slots<'a> {
    moved: &'a [Moved],
    /// How many of the slots were undisturbed, for those who wait for enough.
    undisturbed: &'a AtomicU64,
    begun: Instant,
    processor_s: f64,
    hops: u64,
    before: Vec<(u64, u64)>,
    seen: Vec<Seen>,
}

impl<'a> Slots<'a> {
    fn new(moved: &'a [Moved], undisturbed: &'a AtomicU64) -> Self {
        let mut slots = Self {
            moved,
            undisturbed,
            begun: Instant::now(),
            processor_s: 0.0,
            hops: 0,
            before: Vec::new(),
            seen: Vec::new(),
        };
        slots.begin();
        slots
    }

    fn look(&self) -> Vec<(u64, u64)> {
        let one = |moved: &Moved| (moved.lines.load(Relaxed), moved.processor_ns.load(Relaxed));
        self.moved.iter().map(one).collect()
    }

    fn begin(&mut self) {
        self.hops = 0;
        // A look that takes long was interrupted: counts and time would not be of one moment.
        loop {
            let asked = Instant::now();
            self.before = self.look();
            self.processor_s = processor_s();
            self.begun = Instant::now();
            if self.begun - asked < AT_ONCE {
                return;
            }
        }
    }

    /// Counts hops; closes the slot when it is over.
    fn tick(&mut self, hops: u64) {
        self.hops += hops;
        let asked = Instant::now();
        let wall_ns = (asked - self.begun).as_nanos() as f64;
        if wall_ns < SLOT_NS {
            return;
        }
        let (spent_ns, after) = (1e9 * (processor_s() - self.processor_s), self.look());
        let at_once = asked.elapsed() < AT_ONCE;
        let pairs = || self.before.iter().zip(&after);
        let lines: u64 = pairs().map(|(a, b)| b.0 - a.0).sum();
        let shares = pairs().map(|(a, b)| (b.1 - a.1) as f64 / wall_ns);
        let on_core = if at_once {
            shares.fold((spent_ns / wall_ns).min(1.0), f64::min)
        } else {
            0.0
        };
        self.undisturbed.fetch_add(u64::from(on_core >= ON_CORE), Relaxed);
        self.seen.push(Seen {
            latency_ns: spent_ns / self.hops as f64,
            lines_per_ns: lines as f64 / wall_ns,
            on_core,
        });
        self.begin();
    }
}

/// Chases, if there is a buffer and a place in it, beside streams, for the length of a window; longer where too
/// few of its slots are undisturbed.
fn window(chased: Option<(&[u64], &mut u64)>, streamed: &mut [Region], how: Stream, window_s: f64) -> Vec<Seen> {
    let pins = processors();
    let stop = AtomicBool::new(false);
    let moved: Vec<Moved> = streamed.iter().map(|_| Moved::default()).collect();
    let first = usize::from(chased.is_some());
    let warm = Duration::from_secs_f64(window_s * WARM_SHARE);
    let undisturbed = AtomicU64::new(0);
    let begun = Instant::now();
    let goes_on = || {
        let (enough, past) = (undisturbed.load(Relaxed) >= ENOUGH_SLOTS, begun.elapsed().as_secs_f64());
        past < window_s * (1.0 + WARM_SHARE) || (!enough && past < window_s * MOST_WINDOWS)
    };
    std::thread::scope(|scope| {
        let mut streams = Vec::new();
        for (number, buffer) in streamed.iter_mut().enumerate() {
            let (stop, pins, moved, undisturbed) = (&stop, &pins, &moved, &undisturbed);
            streams.push(scope.spawn(move || {
                pin(number + first, pins);
                let mut slots = Slots::new(moved, undisturbed);
                // Without a chase, the first of the streams keeps the slots.
                let keeps = number == 0 && first == 0;
                let begun = Instant::now();
                stream(buffer, how, &moved[number], stop, || {
                    if keeps && begun.elapsed() < warm {
                        slots.begin();
                    } else if keeps {
                        slots.tick(0);
                    }
                });
                slots.seen
            }));
        }
        // The chase has a thread of its own, too, so that pinning it leaves the caller free.
        let seen = if let Some((buffer, at)) = chased {
            let (pins, moved, undisturbed, goes_on) = (&pins, &moved, &undisturbed, &goes_on);
            let follower = scope.spawn(move || {
                pin(0, pins);
                let begun = Instant::now();
                while begun.elapsed() < warm {
                    *at = chase(buffer, *at, BLOCK_HOPS);
                }
                let mut slots = Slots::new(moved, undisturbed);
                while goes_on() {
                    *at = chase(buffer, *at, BLOCK_HOPS);
                    slots.tick(BLOCK_HOPS);
                }
                slots.seen
            });
            follower.join().unwrap_or_default()
        } else {
            while goes_on() {
                std::thread::sleep(Duration::from_secs_f64(window_s / 10.0));
            }
            Vec::new()
        };
        stop.store(true, Relaxed);
        let kept = streams.into_iter().map(|stream| stream.join().unwrap_or_default());
        kept.fold(seen, |all, more| if all.is_empty() { more } else { all })
    })
}

/// The median of the slots in which every thread had its processor, as a document with the traffic in bytes a
/// nanosecond; figures are null where there is none.
fn summary(seen: &[Seen], write_share: f64, chases: bool) -> Json {
    let kept: Vec<&Seen> = seen.iter().filter(|slot| slot.on_core >= ON_CORE).collect();
    let middle = |figure: fn(&Seen) -> f64| -> Option<f64> {
        let mut figures: Vec<f64> = kept.iter().map(|slot| figure(slot)).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied()
    };
    let latency_ns = middle(|slot| slot.latency_ns).filter(|_| chases);
    let lines = middle(|slot| slot.lines_per_ns);
    // The chase reads, too.
    let bytes = LINE_BYTES as f64;
    let own = latency_ns.map_or(0.0, |latency_ns| bytes / latency_ns);
    json!({
        "latency_ns": latency_ns, "read_gbps": lines.map(|lines| lines * bytes + own),
        "write_gbps": lines.map(|lines| lines * bytes * write_share), "slots": seen.len(), "undisturbed": kept.len(),
    })
}

fn regions(plan: &Plan, count: usize) -> Result<Vec<Region>, String> {
    (0..count)
        .map(|_| Region::new(plan.buffer_bytes, true, plan.node))
        .collect()
}

/// A sample's document: where it stands, and what was seen.
fn said(mut at: Json, seen: Json) -> Json {
    if let (Some(at), Json::Object(seen)) = (at.as_object_mut(), seen) {
        at.extend(seen);
    }
    at
}

/// Samples of latency beside streams of every kind, idle ones first in every round.
pub fn latencies(
    plan: &Plan,
    threads: usize,
    write_shares: &[f64],
    pauses: &[u64],
    sample: &mut impl FnMut(Json),
) -> Result<(), String> {
    let mut chased = Region::new(plan.buffer_bytes, true, plan.node)?;
    cycle(&mut chased, 1);
    let mut streamed = regions(plan, threads)?;
    let mut at = 0;
    for round in 0..plan.samples {
        let idle = Stream {
            write_share: 0.0,
            pauses: 0,
        };
        let seen = window(Some((&chased, &mut at)), &mut [], idle, plan.window_s);
        let place = json!({
            "event": "sample", "measure": "loaded", "round": round, "threads": 0, "write_share": 0.0, "pauses": null,
        });
        sample(said(place, summary(&seen, 0.0, true)));
        let kinds = write_shares
            .iter()
            .flat_map(|share| pauses.iter().map(move |pauses| (*share, *pauses)));
        for (write_share, pauses) in kinds.filter(|_| threads > 0) {
            let how = Stream { write_share, pauses };
            let seen = window(Some((&chased, &mut at)), &mut streamed, how, plan.window_s);
            let place = json!({
                "event": "sample", "measure": "loaded", "round": round, "threads": threads, "write_share": write_share,
                "pauses": pauses,
            });
            sample(said(place, summary(&seen, write_share, true)));
        }
    }
    Ok(())
}

/// Samples of what so many threads stream at full speed.
pub fn bandwidths(
    plan: &Plan,
    threads: &[usize],
    write_shares: &[f64],
    sample: &mut impl FnMut(Json),
) -> Result<(), String> {
    let mut streamed = regions(plan, threads.iter().copied().max().unwrap_or(0))?;
    for round in 0..plan.samples {
        for (threads, write_share) in threads
            .iter()
            .flat_map(|count| write_shares.iter().map(move |share| (*count, *share)))
        {
            let how = Stream { write_share, pauses: 0 };
            let seen = window(None, &mut streamed[..threads], how, plan.window_s);
            let place = json!({
                "event": "sample", "measure": "stream", "round": round, "threads": threads, "write_share": write_share,
            });
            sample(said(place, summary(&seen, write_share, false)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_goes_through_every_line() {
        let mut buffer = vec![0u64; 1000 * WORDS];
        cycle(&mut buffer, 3);
        let mut seen = [false; 1000];
        let mut at = 0;
        for _ in 0..1000 {
            at = chase(&buffer, at, 1);
            assert_eq!(at % WORDS as u64, 0);
            seen[at as usize / WORDS] = true;
        }
        assert_eq!(at, 0);
        assert!(seen.iter().all(|seen| *seen));
    }

    #[test]
    fn shares_of_written_lines() {
        for (share, lines) in [(0.0, 0), (0.25, 32), (0.5, 64), (1.0, 128)] {
            assert_eq!(
                written(share).iter().filter(|written| **written).count(),
                lines,
                "{share}"
            );
        }
    }
}
