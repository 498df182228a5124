//! Hardware samplers: per-thread event counters with a period, a random phase, and limits.

use tiertune_policy::{CounterRng, SamplerRequest};

/// Counters of one sampler on all threads.
///
/// Each thread counts its own events and records one every `period`; the random initial phase
/// keeps threads from sampling in step, which a single shared counter would do.
#[derive(Debug, Clone)]
pub struct ThreadCounters {
    /// What is counted.
    pub request: SamplerRequest,
    /// Fraction of a period counted so far, by thread.
    progress: Vec<f64>,
}

impl ThreadCounters {
    /// Counters of `threads` threads with random phases.
    #[must_use]
    pub fn new(request: SamplerRequest, threads: u32, rng: &mut CounterRng) -> Self {
        Self {
            request,
            progress: (0..threads).map(|_| rng.next_f64()).collect(),
        }
    }

    /// Counts `events` more on each of `threads`; returns how many records that makes.
    pub fn count(&mut self, threads: std::ops::Range<usize>, events: f64) -> u64 {
        let periods = events / self.request.period as f64;
        let mut records = 0.0;
        for progress in &mut self.progress[threads] {
            let total = *progress + periods;
            let whole = total.floor();
            *progress = total - whole;
            records += whole;
        }
        records as u64
    }
}

/// The sampling thread: handles so many records per second and loses the rest.
#[derive(Debug, Clone)]
pub struct RecordBudget {
    record_ns: f64,
    spare_ns: f64,
}

/// Records wait in a ring buffer, so a burst of this length is taken up later instead of lost:
/// 2^16 pages of 4 KiB hold some 5 million records, a second or more of handling; 100 ms is what
/// a busy sampler on a shared machine is sure to have.
const RING_NS: f64 = 100e6;

impl RecordBudget {
    /// A thread that needs `record_ns` per record; 0 means no limit.
    #[must_use]
    pub fn new(record_ns: f64) -> Self {
        Self {
            record_ns,
            spare_ns: RING_NS,
        }
    }

    /// Time passes.
    pub fn advance(&mut self, dt_ns: f64) {
        self.spare_ns = (self.spare_ns + dt_ns).min(RING_NS);
    }

    /// Takes up to `records`; returns how many were handled.
    pub fn take(&mut self, records: u64) -> u64 {
        if self.record_ns <= 0.0 {
            return records;
        }
        let taken = records.min((self.spare_ns / self.record_ns).max(0.0) as u64);
        self.spare_ns -= taken as f64 * self.record_ns;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiertune_policy::Event;

    #[test]
    fn every_event_is_counted_once() {
        let mut rng = CounterRng::new(1, &[]);
        let request = SamplerRequest {
            event: Event::LoadMiss,
            period: 1000,
        };
        let mut counters = ThreadCounters::new(request, 12, &mut rng);
        let mut records = 0;
        for _ in 0..10_000 {
            records += counters.count(0..12, 123.4);
        }
        let exact = 12.0 * 10_000.0 * 123.4 / 1000.0;
        assert!((records as f64 - exact).abs() <= 12.0, "{records} against {exact}");
    }

    #[test]
    fn an_overloaded_sampler_loses_records() {
        let mut budget = RecordBudget::new(500.0);
        let mut taken = 0;
        for _ in 0..1000 {
            budget.advance(1e6);
            taken += budget.take(5000);
        }
        // 1 s at 500 ns a record is 2 million, and the ring holds 0.1 s more.
        assert!((2_000_000..=2_200_000).contains(&taken), "{taken}");
    }
}
