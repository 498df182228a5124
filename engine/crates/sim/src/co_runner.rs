//! Traffic of somebody else on the same memory, constant between given times.

use tiertune_policy::Nanos;

use crate::latency::Traffic;
use crate::scenario::Contention;

/// All co-runners of a run, and what they do at the moment.
#[derive(Debug, Clone)]
pub struct CoRunners {
    contention: Vec<Contention>,
    traffic: Vec<Traffic>,
}

fn nanos(seconds: f64) -> Nanos {
    (seconds * 1e9).round() as Nanos
}

impl CoRunners {
    /// The co-runners at time 0, on a machine of `tiers` tiers.
    #[must_use]
    pub fn new(contention: &[Contention], tiers: usize) -> Self {
        let mut co_runners = Self {
            contention: contention.to_vec(),
            traffic: vec![Traffic::default(); tiers],
        };
        co_runners.set_time(0);
        co_runners
    }

    /// What they do now, by tier.
    #[must_use]
    pub fn traffic(&self) -> &[Traffic] {
        &self.traffic
    }

    /// Time is `now`.
    pub fn set_time(&mut self, now: Nanos) {
        self.traffic.fill(Traffic::default());
        for contention in &self.contention {
            let until = contention.until_s.map_or(Nanos::MAX, nanos);
            if (nanos(contention.from_s)..until).contains(&now) {
                let tier = &mut self.traffic[contention.tier];
                tier.read_gbps += contention.read_gbps;
                tier.write_gbps += contention.write_gbps;
            }
        }
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
