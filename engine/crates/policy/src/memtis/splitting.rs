//! Which huge pages to split: as many as the hit rate that base pages would have suggests, the most skewed first.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use super::hotness::{HUGE, Hotness, SKEW_BUCKETS};
use super::lists::SIDES;
use crate::Page;

/// Latencies in the formula, in nanoseconds; constants of the original, whatever the machine has.
const FAST_NS: u64 = 80;
const PMEM_NS: u64 = 270;
const CXL_NS: u64 = 170;
/// A threshold above every bucket: nothing is split.
const OFF: u8 = SKEW_BUCKETS as u8;

/// Knobs of splitting.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SplitKnobs {
    /// Whether huge pages are ever split.
    pub enabled: bool,
    /// Pages in use, shifted right by this, are the samples wanted between two rounds.
    pub period_shift: u32,
    /// Damping in tenths.
    pub gamma: u64,
    /// Whether the slow tier is remote DRAM.
    pub cxl: bool,
    /// Believed share of the estimate, in percent.
    pub ehr_scale_pct: u64,
    /// Gain in percent without which splitting ends.
    pub gain_stop_pct: f64,
}

/// Samples from fast memory, as they were and as they would have been with base pages only.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct FastSamples {
    /// Real ones.
    pub real: u64,
    /// Estimated ones.
    pub as_base: u64,
}

/// The state of splitting.
#[derive(Serialize, Deserialize)]
pub struct Splitting {
    knobs: SplitKnobs,
    /// 4 KiB pages still to be split in buckets above the threshold's.
    wanted: u64,
    /// The same in the bucket just below the threshold.
    wanted_in_tail: u64,
    /// Buckets from this on are split.
    pub threshold: u8,
    armed: bool,
    happened: bool,
    samples: u64,
    /// Huge pages that wait to be split, by side.
    pub queues: [VecDeque<Page>; SIDES],
}

impl Splitting {
    /// Nothing to split yet.
    #[must_use]
    pub fn new(knobs: SplitKnobs) -> Self {
        Self {
            knobs,
            wanted: 0,
            wanted_in_tail: 0,
            threshold: OFF,
            armed: false,
            happened: false,
            samples: 0,
            queues: Default::default(),
        }
    }

    /// Whether a split has changed the histogram since the last decision.
    #[must_use]
    pub fn changed_histogram(&self) -> bool {
        self.happened && self.knobs.enabled
    }

    /// Takes note of samples.
    pub fn sampled(&mut self, samples: usize) {
        self.samples += samples as u64;
    }

    /// Takes note of a round that split something.
    pub fn done(&mut self) {
        self.happened = true;
    }

    /// After a halving: arms a decision when enough samples were seen, or spreads what is left over the new buckets.
    /// `now` and `before` are the decayed fast samples at this halving and at the one before.
    pub fn after_halving(&mut self, hotness: &Hotness, used: u64, fast: u64, now: u64, before: u64) {
        if self.armed || !self.knobs.enabled {
            return;
        }
        if self.samples > (used >> self.knobs.period_shift).max(fast) {
            let gain = (before as f64 * (100.0 + self.knobs.gain_stop_pct) / 100.0) as u64;
            if self.happened && now < gain {
                self.knobs.enabled = false;
                return;
            }
            self.happened = false;
            self.armed = true;
        } else {
            self.wanted += self.wanted_in_tail;
            self.wanted_in_tail = 0;
            self.set_threshold(hotness);
        }
    }

    /// The decision, at the first adaptation after a halving, if one is armed.
    pub fn plan(&mut self, hotness: &Hotness, fast: FastSamples, cooling_period: u64) {
        if !self.armed {
            return;
        }
        (self.wanted, self.wanted_in_tail) = (self.count(hotness, fast, cooling_period), 0);
        self.set_threshold(hotness);
        self.samples = 0;
        self.armed = false;
    }

    /// How many 4 KiB pages of huge pages to split, in whole numbers as the original.
    fn count(&self, hotness: &Hotness, fast: FastSamples, cooling_period: u64) -> u64 {
        let expected = fast.as_base * self.knobs.ehr_scale_pct / 100;
        let skewness = &hotness.skewness;
        if expected <= fast.real || skewness.with_hot_parts == 0 {
            return 0;
        }
        let each = skewness.samples / skewness.with_hot_parts;
        if each == 0 {
            return 0;
        }
        // Halving by halving, so many samples are what the counts add up to.
        let older = cooling_period.checked_shr(hotness.clock.saturating_sub(1)).unwrap_or(0);
        let records = (2 * cooling_period - older).max(1);
        let slow_ns = if self.knobs.cxl { CXL_NS } else { PMEM_NS };
        let pages = u128::from(expected - fast.real) * u128::from(skewness.samples) / u128::from(records);
        let pages = pages / u128::from(each) * u128::from(slow_ns - FAST_NS) / u128::from(FAST_NS);
        u64::try_from(pages * u128::from(HUGE) * u128::from(self.knobs.gamma) / 10).unwrap_or(u64::MAX)
    }

    /// Takes buckets from the top until `wanted` is covered.
    fn set_threshold(&mut self, hotness: &Hotness) {
        if self.wanted == 0 {
            self.threshold = OFF;
            return;
        }
        let mut left = self.wanted;
        let mut at = SKEW_BUCKETS - 1;
        while at > 0 {
            let pages = hotness.skewness.huge_pages[at] * HUGE;
            if left < pages {
                self.wanted_in_tail = left;
                self.wanted -= left;
                break;
            }
            left -= pages;
            at -= 1;
        }
        if at != SKEW_BUCKETS - 1 {
            self.threshold = at as u8 + 1;
        }
    }

    /// Whether to split a huge page of bucket `skew` that a walk has come to.
    pub fn takes(&mut self, hotness: &mut Hotness, skew: u8) -> bool {
        if !self.knobs.enabled || skew + 1 < self.threshold {
            return false;
        }
        let tail = skew + 1 == self.threshold || self.wanted == 0;
        if tail && self.wanted_in_tail == 0 {
            return false;
        }
        let left = if tail {
            &mut self.wanted_in_tail
        } else {
            &mut self.wanted
        };
        *left = left.saturating_sub(HUGE);
        let bucket = &mut hotness.skewness.huge_pages[usize::from(skew)];
        *bucket = bucket.saturating_sub(1);
        true
    }
}
