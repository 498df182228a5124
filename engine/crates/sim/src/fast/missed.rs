//! What the last-level cache lets through.

use crate::alias::AliasTable;
use crate::cache::hit_shares;
use crate::workload::{Phase, Popularity, Stream};

use super::{Fast, Progress};

/// The law of the reads that a cache lets through: it holds the hottest lines, so what misses is
/// flatter than what is read.
pub(super) struct MissedReads {
    density: Vec<f32>,
    pub(super) alias: AliasTable,
}

/// A cache that takes less than this share of a stream's reads leaves its law as it is.
const NEGLIGIBLE_HITS: f64 = 1e-4;

/// Density of a stream's missed reads, by piece; none for sweeps.
pub(super) fn miss_density<'a>(missed: &'a Option<MissedReads>, stream: &'a Stream) -> Option<&'a [f32]> {
    match (missed, &stream.popularity) {
        (Some(missed), _) => Some(&missed.density),
        (None, Popularity::Stationary { density, .. }) => Some(density),
        (None, Popularity::Sweep) => None,
    }
}

impl Fast<'_> {
    /// Works out what the last-level cache lets through.
    pub(super) fn filter_reads(&mut self, phase: &Phase, progress: &mut Progress) {
        // Hits depend on the rates' proportions and the rates on hits: one round from the rates
        // without a cache is enough to get the proportions.
        self.place_sweeps(phase, progress);
        // Over a time so long that debts of earlier phases do not matter.
        self.solve(phase, progress, 1e15);
        let mut reads = vec![0.0; phase.streams.len()];
        for (group, rate) in phase.groups.iter().zip(&progress.rate) {
            for s in group.streams.clone() {
                reads[s] = rate * phase.streams[s].reads_per_op;
            }
        }
        let objects = &self.driver.workload.objects;
        let page_bytes = self.driver.workload.page_bytes;
        let hits = hit_shares(&phase.streams, objects, &reads, page_bytes, self.machine.llc_bytes);
        for (s, (stream, hits)) in phase.streams.iter().zip(hits).enumerate() {
            match &stream.popularity {
                Popularity::Sweep => progress.miss[s] = 1.0 - hits[0],
                Popularity::Stationary { density, .. } => {
                    let edges = objects[stream.object].edges.windows(2).map(|e| f64::from(e[1] - e[0]));
                    let mass: Vec<f64> = density
                        .iter()
                        .zip(&hits)
                        .zip(edges.clone())
                        .map(|((d, h), n)| f64::from(*d) * (1.0 - h) * n)
                        .collect();
                    let miss: f64 = mass.iter().sum();
                    if miss < 1.0 - NEGLIGIBLE_HITS {
                        progress.miss[s] = miss;
                    }
                    // Where all is in the cache, nothing goes anywhere, by whatever law.
                    if (f64::MIN_POSITIVE..1.0 - NEGLIGIBLE_HITS).contains(&miss) {
                        let density = mass.iter().zip(edges).map(|(m, n)| (m / miss / n) as f32).collect();
                        progress.missed[s] = Some(MissedReads {
                            density,
                            alias: AliasTable::new(&mass),
                        });
                    }
                }
            }
        }
    }
}
