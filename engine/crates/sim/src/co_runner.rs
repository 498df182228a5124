//! Traffic of somebody else on the same memory, between given times: constant, or that of threads with so many
//! cache lines in flight, which slow down themselves as latency rises.

use std::ops::Range;

use tiertune_policy::Nanos;

use crate::latency::Traffic;
use crate::scenario::{Contention, TierModel};
use crate::workload::LINE_BYTES;

/// All co-runners of a run, and what they do at the moment.
#[derive(Debug, Clone)]
pub struct CoRunners {
    contention: Vec<Contention>,
    latencies_ns: Vec<f64>,
    /// What does not give way, by tier.
    constant: Vec<Traffic>,
    /// What threads with lines in flight would move at the unloaded latency.
    unloaded: Vec<Traffic>,
    /// Both together, at the latencies of the last call of [`Self::settle`].
    traffic: Vec<Traffic>,
    /// While this lasts they go on as they are.
    steady: Range<Nanos>,
}

fn nanos(seconds: f64) -> Nanos {
    (seconds * 1e9).round() as Nanos
}

impl CoRunners {
    /// The co-runners at time 0, on a machine of `tiers`.
    #[must_use]
    pub fn new(contention: &[Contention], tiers: &[TierModel]) -> Self {
        let nothing = vec![Traffic::default(); tiers.len()];
        let mut co_runners = Self {
            contention: contention.to_vec(),
            latencies_ns: tiers.iter().map(|tier| tier.latency_ns).collect(),
            constant: nothing.clone(),
            unloaded: nothing.clone(),
            traffic: nothing,
            steady: 0..0,
        };
        co_runners.set_time(0);
        co_runners
    }

    /// What they do, by tier, at the latencies that were last settled.
    #[must_use]
    pub fn traffic(&self) -> &[Traffic] {
        &self.traffic
    }

    /// What they do now whatever the latencies are, by tier.
    #[must_use]
    pub fn constant(&self) -> &[Traffic] {
        &self.constant
    }

    /// Adds what they do at these multiples of the unloaded latencies, by Little's law: a thread with n lines in
    /// flight moves n lines per latency.
    pub fn add_at(&self, multipliers: &[f64], into: &mut [Traffic]) {
        let sources = self.constant.iter().zip(&self.unloaded).zip(multipliers);
        for (into, ((constant, unloaded), multiplier)) in into.iter_mut().zip(sources) {
            into.read_gbps += constant.read_gbps + unloaded.read_gbps / multiplier;
            into.write_gbps += constant.write_gbps + unloaded.write_gbps / multiplier;
        }
    }

    /// Latencies have settled at these multiples of the unloaded ones.
    pub fn settle(&mut self, multipliers: &[f64]) {
        let mut traffic = std::mem::take(&mut self.traffic);
        traffic.fill(Traffic::default());
        self.add_at(multipliers, &mut traffic);
        self.traffic = traffic;
    }

    /// Time is `now`. Returns whether they do something else than before.
    pub fn set_time(&mut self, now: Nanos) -> bool {
        if self.steady.contains(&now) {
            return false;
        }
        self.steady = now..self.next_change(now).unwrap_or(Nanos::MAX);
        let before = (self.constant.clone(), self.unloaded.clone());
        self.constant.fill(Traffic::default());
        self.unloaded.fill(Traffic::default());
        for contention in &self.contention {
            let until = contention.until_s.map_or(Nanos::MAX, nanos);
            if (nanos(contention.from_s)..until).contains(&now) {
                let constant = &mut self.constant[contention.tier];
                constant.read_gbps += contention.read_gbps;
                constant.write_gbps += contention.write_gbps;
                let per_line = LINE_BYTES / self.latencies_ns[contention.tier];
                let unloaded = &mut self.unloaded[contention.tier];
                unloaded.read_gbps += contention.read_lines * per_line;
                unloaded.write_gbps += contention.write_lines * per_line;
            }
        }
        let changed = before.0 != self.constant || before.1 != self.unloaded;
        if changed {
            // Until latencies are known again, only what does not depend on them.
            self.traffic.clone_from(&self.constant);
        }
        changed
    }

    /// When what they do changes next after `now`.
    #[must_use]
    pub fn next_change(&self, now: Nanos) -> Option<Nanos> {
        let changes = self
            .contention
            .iter()
            .flat_map(|c| [Some(c.from_s), c.until_s])
            .flatten();
        changes.map(nanos).filter(|at| *at > now).min()
    }

    /// Every time at which what they do changes, 0 included.
    #[must_use]
    pub fn changes(&self) -> Vec<Nanos> {
        let mut changes = vec![0];
        while let Some(next) = self.next_change(changes[changes.len() - 1]) {
            changes.push(next);
        }
        changes
    }
}
