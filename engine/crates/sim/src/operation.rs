//! How long an operation takes a thread.

use tiertune_workload::AccessClass;

use crate::scenario::Machine;
use crate::workload::{Group, Stream};

/// An operation of a group: its streams and where their accesses go.
pub struct Operation<'a> {
    /// The group.
    pub group: &'a Group,
    /// All streams of the phase.
    pub streams: &'a [Stream],
    /// Share of each stream's reads per tier, `[stream * tiers + tier]`.
    pub mass: &'a [f64],
    /// Share of each stream's reads that miss the last-level cache.
    pub miss: &'a [f64],
}

/// Unloaded latency that a stream sees on a tier.
#[must_use]
pub fn unloaded_ns(machine: &Machine, tier: usize, class: AccessClass) -> f64 {
    let tier = &machine.tiers[tier];
    match class {
        AccessClass::Stream => tier.sequential_latency_ns.unwrap_or(tier.latency_ns),
        _ => tier.latency_ns,
    }
}

/// Thread time per operation at the given latency multipliers.
///
/// Prefetched lines come in beside the computation, as many at once as the core has fill buffers,
/// so the longer of the two counts; demand misses are waited for, divided by how many of their
/// class overlap (stall = misses x latency / parallelism: Soar section 3, PACT section 4).
#[must_use]
pub fn operation_time(machine: &Machine, operation: &Operation<'_>, multipliers: &[f64]) -> f64 {
    let tiers = multipliers.len();
    let (mut prefetched_ns, mut demand_ns) = (0.0, 0.0);
    for s in operation.group.streams.clone() {
        let stream = &operation.streams[s];
        let (reads, miss) = (stream.reads_per_op, operation.miss[s]);
        let mlp = stream.mlp.min(machine.fill_buffers);
        if miss > 0.0 {
            let latency: f64 = (0..tiers)
                .map(|t| operation.mass[s * tiers + t] * unloaded_ns(machine, t, stream.class) * multipliers[t])
                .sum();
            prefetched_ns += reads * miss * stream.prefetched_share * latency / machine.fill_buffers;
            demand_ns += reads * miss * (1.0 - stream.prefetched_share) * latency / mlp;
        }
        demand_ns += reads * (1.0 - miss) * (1.0 - stream.prefetched_share) * machine.llc_hit_ns / mlp;
    }
    operation.group.cpu_ns_per_op.max(prefetched_ns) + demand_ns
}
