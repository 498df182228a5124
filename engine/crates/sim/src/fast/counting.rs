//! Performance counters in the fast mode: what occupancy, stall and offcore counters would read.

use crate::operation::{Operation, misses_in_flight, unloaded_ns};
use crate::workload::Phase;

use super::{Fast, Progress};

/// What a group did in a slice.
pub(super) struct Spent {
    /// Operations.
    pub ops: f64,
    /// Threads times their share of a core.
    pub threads: f64,
    /// Length of the slice.
    pub dt_ns: f64,
}

impl Fast<'_> {
    /// Adds what group `g` did at loaded latencies of `multipliers`.
    ///
    /// Occupancy is requests times latency; a thread waits for a demand miss its latency over the
    /// misses in flight with it, and a tier is busy while any thread waits for it. Hits of the
    /// last-level cache go off core too, so they count in the core's counters, not in a tier's; so do entries of page tables.
    pub(super) fn read_counters(
        &mut self,
        phase: &Phase,
        g: usize,
        spent: &Spent,
        progress: &Progress,
        multipliers: &[f64],
    ) {
        let tiers = multipliers.len();
        let machine = self.machine;
        let mut waited_ns = vec![0.0; tiers];
        let (mut hit_wait_ns, mut hit_occupancy_ns, mut hits, mut dependent_ns) = (0.0, 0.0, 0.0, 0.0);
        let operation = Operation {
            group: &phase.groups[g],
            streams: &phase.streams,
            mass: &progress.mass,
            miss: &progress.miss,
            walks: &progress.walks,
        };
        let computing_ns = phase.groups[g].cpu_ns_per_op;
        let needed = operation.demand(machine, multipliers);
        let counters = &mut self.driver.counters;
        let (mut occupancy_ns, mut inserts) = (0.0, 0.0);
        let (mut entries, mut entries_ns, mut entries_wait_ns) = (0.0, 0.0, 0.0);
        for s in phase.groups[g].streams.clone() {
            let stream = &phase.streams[s];
            let mlp = misses_in_flight(machine, stream);
            let reads = spent.ops * stream.reads_per_op;
            let demand = reads * progress.miss[s] * (1.0 - stream.prefetched_share);
            let in_flight = needed.in_flight(machine, stream, computing_ns);
            let walk_ns = operation.walk_ns(s, machine, multipliers);
            if !stream.class.independent() {
                dependent_ns += demand * walk_ns / in_flight;
            }
            let walk = progress.walks.get(s).copied().unwrap_or_default();
            let waited = reads * (1.0 - stream.prefetched_share);
            entries += waited * walk.off_core(machine);
            entries_ns += waited * walk_ns;
            entries_wait_ns += waited * walk_ns / in_flight;
            for tier in 0..tiers {
                let share = progress.mass[s * tiers + tier];
                let latency_ns = unloaded_ns(machine, tier, stream.class) * multipliers[tier];
                counters.tiers[tier].inserts += demand * share;
                counters.tiers[tier].occupancy_ns += demand * share * latency_ns;
                inserts += demand * share;
                occupancy_ns += demand * share * latency_ns;
                let wait_ns = demand * share * latency_ns / in_flight;
                waited_ns[tier] += wait_ns;
                if !stream.class.independent() {
                    dependent_ns += wait_ns;
                }
            }
            let all_hits = reads * (1.0 - progress.miss[s]) + spent.ops * stream.llc_hits_per_op;
            let hit = all_hits * (1.0 - stream.prefetched_share);
            hits += hit;
            hit_wait_ns += hit * machine.llc_hit_ns / mlp;
            hit_occupancy_ns += hit * machine.llc_hit_ns;
        }
        let threads = f64::from(phase.groups[g].threads);
        for (idle, waited) in self.idle.iter_mut().zip(&waited_ns) {
            let each = (waited / threads / spent.dt_ns).min(1.0);
            *idle *= (1.0 - each).powf(threads);
        }
        let late_ns = spent.ops * needed.stalled_beside_computing_ns(machine, computing_ns);
        let missed_ns: f64 = waited_ns.iter().sum();
        let cores = &mut counters.cores;
        cores.cycles += spent.threads * spent.dt_ns * machine.clock_ghz;
        cores.stall_cycles += (dependent_ns + late_ns) * machine.clock_ghz;
        cores.outstanding_cycles += (missed_ns + hit_wait_ns + entries_wait_ns) * machine.clock_ghz;
        cores.occupancy_cycles += (occupancy_ns + hit_occupancy_ns + entries_ns) * machine.clock_ghz;
        cores.reads += inserts + hits + entries;
    }
}
