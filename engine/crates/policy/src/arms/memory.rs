//! What `arms` measures of the machine: latencies, how much bandwidth they leave, and what a move takes.

use serde::{Deserialize, Serialize};

use crate::{Counters, Migrated, Nanos, Outcome, Tier, TierCounters};

/// Fewer requests in a round say too little about a tier's latency.
const MIN_REQUESTS: f64 = 1_000.0;
/// Weight of the latest move in the time that moves take, as smoothed latencies have it in Colloid's port.
const MOVE_WEIGHT: f64 = 1.0 / 16.0;

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Latency {
    /// In the last round that had enough requests.
    now_ns: f64,
    /// In the fastest of all rounds: what an idle tier needs, as far as is known.
    least_ns: f64,
}

/// Measurements.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Memory {
    latencies: Vec<Option<Latency>>,
    last: Counters,
    /// Share of the time of an outstanding read in which its core has no other one.
    stall_share: f64,
    move_ns: f64,
    /// When the copying thread began with what it does now.
    began: Nanos,
}

fn grown(now: f64, before: f64) -> f64 {
    (now - before).max(0.0)
}

impl Memory {
    /// Nothing measured; a move is taken to last `move_ns`.
    #[must_use]
    pub fn new(tiers: usize, move_ns: f64) -> Self {
        Self {
            latencies: vec![None; tiers],
            last: Counters {
                tiers: vec![TierCounters::default(); tiers],
                ..Counters::default()
            },
            stall_share: 1.0,
            move_ns,
            began: 0,
        }
    }

    /// Reads the counters at the end of a round.
    pub fn read(&mut self, counters: &Counters) {
        for ((latency, now), before) in self.latencies.iter_mut().zip(&counters.tiers).zip(&self.last.tiers) {
            let requests = grown(now.inserts, before.inserts);
            if requests < MIN_REQUESTS {
                continue;
            }
            let now_ns = grown(now.occupancy_ns, before.occupancy_ns) / requests;
            let least_ns = latency.map_or(now_ns, |known| known.least_ns.min(now_ns));
            *latency = Some(Latency { now_ns, least_ns });
        }
        let (now, before) = (&counters.cores, &self.last.cores);
        let occupancy = grown(now.occupancy_cycles, before.occupancy_cycles);
        if occupancy > 0.0 {
            let outstanding = grown(now.outstanding_cycles, before.outstanding_cycles);
            self.stall_share = (outstanding / occupancy).min(1.0);
        }
        self.last.clone_from(counters);
    }

    /// Thread time that a load from `tier` costs more than one from fast memory. A tier that has served nothing
    /// is taken to be as slow as the slowest known, and unused fast memory to take no time, so that it is tried.
    #[must_use]
    pub fn extra_ns(&self, tier: Tier) -> f64 {
        let known = |tier: usize| self.latencies[tier].map(|latency| latency.now_ns);
        let slowest = || (1..self.latencies.len()).filter_map(known).fold(0.0, f64::max);
        let slow_ns = known(usize::from(tier)).unwrap_or_else(slowest);
        (slow_ns - known(0).unwrap_or(0.0)) * self.stall_share
    }

    /// Share of the bandwidth that is left: a tier twice as slow as at its best is taken to be half in use.
    #[must_use]
    pub fn free_share(&self) -> f64 {
        let share = |latency: &Latency| (latency.least_ns / latency.now_ns).min(1.0);
        self.latencies.iter().flatten().map(share).product()
    }

    /// Time of a move, as measured.
    #[must_use]
    pub fn move_ns(&self) -> f64 {
        self.move_ns
    }

    /// The copying thread begins with a batch.
    pub fn begin(&mut self, now: Nanos) {
        self.began = now;
    }

    /// It has ended these, one after the other.
    pub fn ended(&mut self, moves: &[Migrated]) {
        for migrated in moves {
            let took = migrated.at.saturating_sub(self.began) as f64;
            self.began = self.began.max(migrated.at);
            if migrated.outcome == Outcome::Done {
                self.move_ns += MOVE_WEIGHT * (took - self.move_ns);
            }
        }
    }
}
