//! The last-level cache: analytically for rates, explicitly for single accesses.

use crate::workload::{LINE_BYTES, Object, Popularity, Stream};

/// Share of reads that hit a cache of `llc_bytes`, by stream and piece of its object (sweeps: one
/// figure), by Che's approximation (Che, Tung and Wang, JSAC 2002): a line stays in an LRU cache
/// for a characteristic time T, the same for all lines, such that the expected number of lines
/// touched within T fills the cache.
///
/// Sets differ, as addresses are hashed: while the cache at large sees x lines a set touched, one set sees a
/// Poisson number of mean x, and keeps a line while that is below its ways. Poisson(x) < ways is as likely as
/// Gamma(ways) > x, so hits are those of Che's cache with a Gamma-distributed number of lines a set.
///
/// `reads_per_ns` are the streams' rates. Recorded streams (`missed_llc`) are past the cache.
#[must_use]
pub fn hit_shares(
    streams: &[Stream],
    objects: &[Object],
    reads_per_ns: &[f64],
    page_bytes: u64,
    llc_bytes: u64,
) -> Vec<Vec<f64>> {
    let lines_per_page = page_bytes as f64 / LINE_BYTES;
    let cached: Vec<Vec<CachedLines>> = objects
        .iter()
        .enumerate()
        .map(|(index, object)| {
            let mut pieces: Vec<CachedLines> = object
                .edges
                .windows(2)
                .map(|e| CachedLines {
                    lines: f64::from(e[1] - e[0]) * lines_per_page,
                    rate: 0.0,
                    sweeps: vec![],
                })
                .collect();
            for (stream, rate) in streams
                .iter()
                .zip(reads_per_ns)
                .filter(|(s, _)| s.object == index && !s.missed_llc)
            {
                match &stream.popularity {
                    Popularity::Stationary { density, .. } => {
                        for (piece, density) in pieces.iter_mut().zip(density) {
                            piece.rate += rate * f64::from(*density) / lines_per_page;
                        }
                    }
                    Popularity::Sweep => {
                        let pass_ns = pass_time_ns(object, *rate, lines_per_page);
                        pieces.iter_mut().for_each(|p| p.sweeps.push(pass_ns));
                    }
                }
            }
            pieces
        })
        .collect();
    let touched = Touched::new(&cached);
    let sets = llc_bytes as f64 / LINE_BYTES / WAYS as f64;
    let times = touched.characteristic_times(llc_bytes as f64 / LINE_BYTES);
    let hits = |stream: &Stream, rate: f64| -> Vec<f64> {
        let pieces = &cached[stream.object];
        match &stream.popularity {
            _ if stream.missed_llc => vec![0.0; pieces.len()],
            // A line that somebody touched within T is there, whoever it was.
            Popularity::Stationary { .. } => {
                let mean = |p: &CachedLines| times.iter().map(|t| p.resident(*t)).sum::<f64>() / times.len() as f64;
                pieces.iter().map(mean).collect()
            }
            Popularity::Sweep => {
                let pass_ns = pass_time_ns(&objects[stream.object], rate, lines_per_page);
                vec![kept(touched.lines(pass_ns) / sets)]
            }
        }
    };
    streams.iter().zip(reads_per_ns).map(|(s, r)| hits(s, *r)).collect()
}

/// Share of each stream's reads that miss the cache when `hits` of each piece hit, as from [`hit_shares`].
#[must_use]
pub fn miss_shares(streams: &[Stream], objects: &[Object], hits: &[Vec<f64>]) -> Vec<f64> {
    let miss = streams.iter().zip(hits).map(|(stream, hits)| {
        if stream.missed_llc {
            return 1.0;
        }
        match &stream.popularity {
            Popularity::Sweep => 1.0 - hits[0],
            Popularity::Stationary { density, .. } => {
                let pages = objects[stream.object].edges.windows(2).map(|e| f64::from(e[1] - e[0]));
                let missed = density.iter().zip(hits).zip(pages);
                missed.map(|((d, hit), n)| f64::from(*d) * (1.0 - hit) * n).sum()
            }
        }
    });
    miss.collect()
}

fn pass_time_ns(object: &Object, reads_per_ns: f64, lines_per_page: f64) -> f64 {
    f64::from(object.pages) * lines_per_page / reads_per_ns.max(1e-300)
}

/// Means of the eighths of a Gamma distribution of shape 16 (the ways of a set), as multiples of its mean.
const SET_ROOM: [f64; 8] = [
    0.630_178, 0.774_841, 0.863_086, 0.940_924, 1.018_956, 1.105_882, 1.217_750, 1.448_383,
];

/// How likely a set keeps a line until `mean` others of the set have been touched in the mean.
fn kept(mean: f64) -> f64 {
    let mut chance = (-mean).exp();
    let mut sum = 0.0;
    for others in 0..WAYS {
        sum += chance;
        chance *= mean / (others + 1) as f64;
    }
    sum.min(1.0)
}

/// Lines that somebody reads.
struct Touched<'a>(Vec<&'a CachedLines>);

impl<'a> Touched<'a> {
    fn new(cached: &'a [Vec<CachedLines>]) -> Self {
        let read = |p: &&CachedLines| p.rate > 0.0 || !p.sweeps.is_empty();
        Self(cached.iter().flatten().filter(read).collect())
    }

    /// How many are touched within `t`.
    fn lines(&self, t: f64) -> f64 {
        self.0.iter().map(|l| l.lines * l.resident(t)).sum()
    }

    /// The times within which the lines touched fill caches with each of [`SET_ROOM`]; infinite when all fit.
    fn characteristic_times(&self, capacity_lines: f64) -> [f64; SET_ROOM.len()] {
        let all: f64 = self.0.iter().map(|l| l.lines).sum();
        let mut low = 0.0f64;
        SET_ROOM.map(|room| {
            let capacity = room * capacity_lines;
            if all <= capacity {
                return f64::INFINITY;
            }
            let mut high = if low > 0.0 { 1.25 * low } else { 1.0 };
            while self.lines(high) < capacity {
                (low, high) = (high, 2.0 * high);
            }
            while high - low > 1e-6 * high {
                let middle = 0.5 * (low + high);
                if self.lines(middle) < capacity {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            0.5 * (low + high)
        })
    }
}

struct CachedLines {
    lines: f64,
    /// Reads per line and nanosecond.
    rate: f64,
    /// Pass times of sweeps over these lines.
    sweeps: Vec<f64>,
}

impl CachedLines {
    /// Share of the lines touched within `t`.
    fn resident(&self, t: f64) -> f64 {
        if t.is_infinite() {
            return 1.0;
        }
        let untouched = self
            .sweeps
            .iter()
            .fold((-self.rate * t).exp(), |u, pass| u * (1.0 - t / pass).max(0.0));
        1.0 - untouched
    }
}

/// A set-associative cache of lines with least-recently-used replacement.
#[derive(Debug)]
pub struct ExplicitCache(Vec<Set>);

const WAYS: usize = 16;

/// Numbers of lines, most recent first: one line of the real cache each, which most of a run's time goes to fetching.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Set([u32; WAYS]);

impl ExplicitCache {
    /// Numbers of lines are below this: 256 GiB of them.
    pub const LINES: u64 = u32::MAX as u64;

    /// An empty cache of about `bytes` (whole sets of 16 lines).
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let sets = (bytes / (LINE_BYTES as u64 * WAYS as u64)).max(1);
        Self(vec![Set([u32::MAX; WAYS]); sets as usize])
    }

    /// Lines that it holds.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.0.len() * WAYS
    }

    /// Touches `line`, which is below [`Self::LINES`]; whether it was cached.
    #[inline]
    pub fn touch(&mut self, line: u64) -> bool {
        debug_assert!(line < Self::LINES, "line {line}");
        // Lines of large pages would fall in few sets without hashing, as on real processors.
        let set = ((u128::from(tiertune_policy::random::mix(line)) * self.0.len() as u128) >> 64) as usize;
        let Set(ways) = &mut self.0[set];
        let line = line as u32;
        // All at once, which is a few vector instructions.
        let equal = ways
            .iter()
            .enumerate()
            .fold(0u32, |equal, (way, other)| equal | u32::from(*other == line) << way);
        let last = (equal.trailing_zeros() as usize).min(WAYS - 1);
        ways.copy_within(0..last, 1);
        ways[0] = line;
        equal != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::WorkloadModel;
    use crate::workload::Workload;
    use tiertune_policy::CounterRng;

    /// Hits per read of a stream with `law` on 64 MiB in a cache of 8 MiB: of the explicit cache, and as approximated.
    fn measured_and_expected(law: &serde_json::Value) -> (f64, f64) {
        let model: WorkloadModel = serde_json::from_value(serde_json::json!({
            "objects": [{"name": "o", "bytes": 64 << 20}],
            "blocks": [{"phases": [{"name": "p", "groups": [{"name": "g", "threads": 1, "ops": 1.0, "cpu_ns_per_op": 1.0,
                "streams": [{"object": "o", "law": law, "class": "random", "reads_per_op": 1.0}]}]}]}],
        }))
        .unwrap();
        let workload = Workload::compile(&model, 4096).unwrap();
        let phase = &workload.phases[0];
        let llc_bytes = 8 << 20;
        let Popularity::Stationary { alias, density } = &phase.streams[0].popularity else {
            unreachable!()
        };
        let object = &workload.objects[0];
        let expected: f64 = hit_shares(&phase.streams, &workload.objects, &[1.0], 4096, llc_bytes)[0]
            .iter()
            .zip(density)
            .zip(object.edges.windows(2))
            .map(|((hit, density), e)| hit * f64::from(*density) * f64::from(e[1] - e[0]))
            .sum();
        let mut cache = ExplicitCache::new(llc_bytes);
        let mut rng = CounterRng::new(5, &[]);
        let (mut hits, n) = (0u32, 2_000_000u32);
        for i in 0..2 * n {
            let piece = alias.draw((rng.next_u64() >> 32) as u32);
            let (from, to) = (object.edges[piece], object.edges[piece + 1]);
            let page = from + rng.below(u64::from(to - from)) as u32;
            let hit = cache.touch(u64::from(page) * 64 + rng.below(64));
            hits += u32::from(hit && i >= n);
        }
        (f64::from(hits) / f64::from(n), expected)
    }

    #[test]
    fn the_approximation_agrees_with_the_explicit_cache() {
        for law in [
            serde_json::json!({"kind": "zipf", "theta": 0.8}),
            // A hot set as large as the cache: where full sets matter most.
            serde_json::json!({"kind": "pieces", "edges": [0.0, 0.125, 1.0], "weights": [0.9, 0.1]}),
            serde_json::json!({"kind": "pieces", "edges": [0.0, 0.1, 1.0], "weights": [0.99, 0.01]}),
        ] {
            let (measured, expected) = measured_and_expected(&law);
            println!("{law}: explicit {measured}, approximation {expected}");
            assert!(
                (measured - expected).abs() < 0.003,
                "{law}: explicit {measured}, approximation {expected}"
            );
        }
    }
}
