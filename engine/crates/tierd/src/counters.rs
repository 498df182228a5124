//! What policies are told of requests to memory: counted by hardware, or else what samples stand for at the latencies that
//! the machine was configured with. A policy that balances latencies sees no contention through the latter.

use std::io;

use tiertune_host::perf::requests::{Counted, MemoryCounters};
use tiertune_policy::Counters;

/// Counters of hardware.
pub trait Measured {
    /// What was counted since the last call.
    ///
    /// # Errors
    /// Where they can no longer be read.
    fn more(&mut self) -> io::Result<Counted>;
}

impl Measured for MemoryCounters {
    fn more(&mut self) -> io::Result<Counted> {
        MemoryCounters::more(self)
    }
}

/// Latency of a read from each tier, and the frequency at which cores count cycles.
#[derive(Debug, Clone, Copy)]
pub struct Assumed {
    /// Nanoseconds by tier.
    pub latency_ns: [f64; 2],
    /// Cycles a nanosecond.
    pub cycles_per_ns: f64,
}

const LINE_BYTES: f64 = 64.0;

/// Brings the counters up to date: `events` reads by tier since the start, of which there were so many at `before`.
pub fn count(counters: &mut Counters, events: [f64; 2], elapsed_ns: f64, cpu_ns: f64, assumed: &Assumed) {
    let mut occupancy_ns = 0.0;
    for (tier, counter) in counters.tiers.iter_mut().enumerate().take(2) {
        let more = (events[tier] - counter.inserts).max(0.0);
        counter.inserts += more;
        counter.occupancy_ns += more * assumed.latency_ns[tier];
        // No more of the time than has passed, and at least one request in flight while there are any.
        counter.busy_ns += (more * assumed.latency_ns[tier]).min(elapsed_ns);
        counter.read_bytes += more * LINE_BYTES;
        occupancy_ns += more * assumed.latency_ns[tier];
        counters.cores.reads += more;
    }
    let cores = &mut counters.cores;
    cores.cycles += cpu_ns * assumed.cycles_per_ns;
    cores.occupancy_cycles += occupancy_ns * assumed.cycles_per_ns;
    let outstanding = occupancy_ns.min(cpu_ns) * assumed.cycles_per_ns;
    cores.outstanding_cycles += outstanding;
    cores.stall_cycles += outstanding;
}

/// Adds what hardware has counted. Bytes are those of demand reads: what is prefetched is not among the requests.
pub fn add(counters: &mut Counters, counted: &Counted) {
    for (counter, more) in counters.tiers.iter_mut().zip(counted.tiers) {
        counter.inserts += more.inserts;
        counter.occupancy_ns += more.occupancy_ns;
        counter.busy_ns += more.busy_ns;
        counter.read_bytes += more.inserts * LINE_BYTES;
    }
    let (cores, more) = (&mut counters.cores, counted.cores);
    cores.cycles += more.cycles;
    cores.stall_cycles += more.stall_cycles;
    cores.outstanding_cycles += more.outstanding_cycles;
    cores.occupancy_cycles += more.occupancy_cycles;
    cores.reads += more.reads;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiertune_policy::TierCounters;

    #[test]
    fn latency_is_the_configured_one() {
        let mut counters = Counters {
            tiers: vec![TierCounters::default(); 2],
            ..Counters::default()
        };
        let assumed = Assumed {
            latency_ns: [100.0, 300.0],
            cycles_per_ns: 2.0,
        };
        count(&mut counters, [10.0, 5.0], 1e6, 1e5, &assumed);
        count(&mut counters, [10.0, 8.0], 1e6, 1e5, &assumed);
        let slow = counters.tiers[1];
        assert_eq!((slow.inserts, slow.occupancy_ns / slow.inserts), (8.0, 300.0));
        assert_eq!(counters.tiers[0].busy_ns, 1000.0);
        assert_eq!((counters.cores.reads, counters.cores.cycles), (18.0, 4e5));
    }
}
