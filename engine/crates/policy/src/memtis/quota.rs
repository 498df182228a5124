//! The sampling thread's CPU time, held near its quota by changing how often the hardware takes a sample.

use serde::{Deserialize, Serialize};

use crate::mover::RECORD_NS;
use crate::{Context, Event, Nanos, Overheads, SamplerRequest};

/// Load periods, all prime.
pub const LOAD_PERIODS: [u64; 30] = [
    199, 293, 401, 499, 599, 701, 797, 907, 997, 1201, 1399, 1601, 1801, 1999, 2503, 3001, 3499, 4001, 4507, 4999,
    6007, 7001, 7993, 9001, 10_007, 12_007, 13_999, 16_001, 17_989, 19_997,
];
/// Store periods that follow the one at the start.
pub const STORE_PERIODS: [u64; 5] = [100_003, 300_007, 600_011, 1_000_003, 1_500_003];

/// Time to look at all buffers once: three for each of 20 cores at about 35 ns (ours).
const ROUND_NS: f64 = 2_000.0;

/// Knobs of the control.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QuotaKnobs {
    /// Target in thousandths of a CPU; 0 for none.
    pub permil: u64,
    /// Distance from it that changes nothing.
    pub deadband_permil: f64,
    /// Time between two looks.
    pub check_ns: Nanos,
    /// Sleep between two rounds over the buffers.
    pub sleep_ns: f64,
    /// Entry of [`LOAD_PERIODS`] at the start.
    pub load_index: u8,
    /// Stores per sample at the start.
    pub store_period: u64,
}

/// The control: at each look the periods go one table entry up or down, or stay.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Quota {
    knobs: QuotaKnobs,
    load_index: usize,
    /// `None` as long as the period at the start holds.
    store_index: Option<usize>,
    records: u64,
    looked_at: Nanos,
    /// CPU time of the thread over the last interval, in thousandths.
    pub used_permil: f64,
}

impl Quota {
    /// At the start.
    #[must_use]
    pub fn new(knobs: QuotaKnobs) -> Self {
        Self {
            load_index: usize::from(knobs.load_index),
            store_index: None,
            knobs,
            records: 0,
            looked_at: 0,
            used_permil: 0.0,
        }
    }

    /// What the sampling threads ask of the hardware.
    #[must_use]
    pub fn samplers(&self) -> Vec<SamplerRequest> {
        vec![
            SamplerRequest {
                event: Event::LoadMiss,
                period: self.load_period(),
            },
            SamplerRequest {
                event: Event::Store,
                period: self.store_period(),
            },
        ]
    }

    /// Load misses per sample.
    #[must_use]
    pub fn load_period(&self) -> u64 {
        LOAD_PERIODS[self.load_index]
    }

    /// Stores per sample.
    #[must_use]
    pub fn store_period(&self) -> u64 {
        self.store_index
            .map_or(self.knobs.store_period, |index| STORE_PERIODS[index])
    }

    /// What the thread costs: with a quota it sleeps between rounds, without it polls.
    #[must_use]
    pub fn overheads(&self) -> Overheads {
        let busy_cores = if self.knobs.permil == 0 {
            1.0
        } else {
            ROUND_NS / (self.knobs.sleep_ns + ROUND_NS)
        };
        Overheads {
            busy_cores,
            record_ns: RECORD_NS,
        }
    }

    /// Takes note of records that the thread has handled.
    pub fn handled(&mut self, records: usize) {
        self.records += records as u64;
    }

    /// When to look next, if there is a quota.
    #[must_use]
    pub fn next_look(&self) -> Option<Nanos> {
        (self.knobs.permil > 0).then(|| self.looked_at + self.knobs.check_ns)
    }

    /// Looks, if it is time to.
    pub fn look(&mut self, cx: &mut Context<'_>) {
        if self.next_look().is_none_or(|at| cx.now < at) {
            return;
        }
        let elapsed_ns = (cx.now - self.looked_at) as f64;
        let rounds_ns = elapsed_ns * self.overheads().busy_cores;
        let used_ns = self.records as f64 * RECORD_NS + rounds_ns;
        self.used_permil = 1000.0 * used_ns / elapsed_ns;
        (self.looked_at, self.records) = (cx.now, 0);
        let quota = self.knobs.permil as f64;
        let stores = self.store_index.unwrap_or(0);
        let (load_index, store_index) = if self.used_permil > quota + self.knobs.deadband_permil {
            let last = LOAD_PERIODS.len() - 1;
            let last_store = STORE_PERIODS.len() - 1;
            ((self.load_index + 1).min(last), (stores + 1).min(last_store))
        } else if self.used_permil < quota - self.knobs.deadband_permil {
            (self.load_index.saturating_sub(1), stores.saturating_sub(1))
        } else {
            return;
        };
        // The store period at the start is in force until something changes for the first time.
        if (load_index, store_index) != (self.load_index, stores) {
            (self.load_index, self.store_index) = (load_index, Some(store_index));
            cx.set_sampling_period(Event::LoadMiss, self.load_period());
            cx.set_sampling_period(Event::Store, self.store_period());
        }
    }
}
