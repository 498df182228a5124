//! Where the time of a run goes, for benchmarks.

use std::time::Instant;

use serde::Serialize;

/// Seconds by part of the simulator.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Timings {
    /// Building the policy and placing pages.
    pub placement_s: f64,
    /// Adding up where accesses go when a phase begins.
    pub phases_s: f64,
    /// Solving for rates and loaded latencies.
    pub solve_s: f64,
    /// Drawing samples.
    pub samples_s: f64,
    /// The policy: samples, migrations, wake-ups.
    pub policy_s: f64,
    /// Executing migrations.
    pub migrations_s: f64,
}

/// A stopwatch that does nothing unless asked to.
#[derive(Debug)]
pub struct Stopwatch {
    since: Option<Instant>,
    /// Sums so far.
    pub timings: Timings,
}

impl Stopwatch {
    /// Running if `enabled`.
    #[must_use]
    pub fn new(enabled: bool) -> Self {
        Self {
            since: enabled.then(Instant::now),
            timings: Timings::default(),
        }
    }

    /// Books the time since the last call on a part.
    #[inline]
    pub fn lap(&mut self, part: fn(&mut Timings) -> &mut f64) {
        if let Some(since) = &mut self.since {
            let now = Instant::now();
            *part(&mut self.timings) += (now - *since).as_secs_f64();
            *since = now;
        }
    }

    /// The sums, if it ran.
    #[must_use]
    pub fn finish(self) -> Option<Timings> {
        self.since.map(|_| self.timings)
    }
}
