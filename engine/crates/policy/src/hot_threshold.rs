//! Hot-page selection of Linux 6.1: how soon a marked page was touched decides whether it is hot.
//!
//! A page touched within the threshold of being marked is a candidate. Candidates, not successes, are
//! counted against a limit per second, and beyond it nothing is promoted for the rest of that second. Every
//! adjustment period (`scan_period_max`) the threshold goes a step down when there were 10 % more
//! candidates than the limit allows, and a step up, to at most twice the default, when there were 10 % fewer
//! (kernel/sched/fair.c, `should_numa_migrate_memory`).

use crate::{Gauge, Nanos};
use serde::{Deserialize, Serialize};

const SECOND_NS: Nanos = 1_000_000_000;
const MS_NS: Nanos = 1_000_000;

/// What the threshold is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// The default threshold.
    pub hot_threshold_ns: Nanos,
    /// Bytes of candidates allowed per second.
    pub limit_bytes_per_s: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Time between two adjustments.
    pub adjust_period_ns: Nanos,
    /// Steps from zero to twice the default.
    pub steps: u32,
}

/// What becomes of a page that was touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// It is to be promoted.
    Hot,
    /// It was touched too late.
    Cold,
    /// It is hot, but this second's limit is reached.
    Limited,
}

/// The threshold and its counts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HotThreshold {
    selection: Selection,
    threshold_ns: Nanos,
    candidates: u64,
    adjusted_at: Nanos,
    candidates_then: u64,
    second_began_at: Nanos,
    candidates_before_second: u64,
    limited: u64,
}

impl HotThreshold {
    /// The default threshold, nothing counted.
    #[must_use]
    pub fn new(selection: Selection) -> Self {
        Self {
            threshold_ns: selection.hot_threshold_ns,
            selection,
            candidates: 0,
            adjusted_at: 0,
            candidates_then: 0,
            second_began_at: 0,
            candidates_before_second: 0,
            limited: 0,
        }
    }

    /// The threshold that applies.
    #[must_use]
    pub fn threshold_ns(&self) -> Nanos {
        self.threshold_ns
    }

    /// Candidates so far.
    #[must_use]
    pub fn candidates(&self) -> u64 {
        self.candidates
    }

    /// Candidates that the limit stopped.
    #[must_use]
    pub fn limited(&self) -> u64 {
        self.limited
    }

    /// Fast memory has so much room that the workload must have changed: back to the default.
    pub fn reset(&mut self) {
        self.threshold_ns = self.selection.hot_threshold_ns;
    }

    /// Judges a page touched at `at`, `after_ns` after it was marked.
    pub fn judge(&mut self, at: Nanos, after_ns: Nanos) -> Judgement {
        self.adjust(at);
        if after_ns >= self.threshold_ns {
            return Judgement::Cold;
        }
        self.candidates += 1;
        if at.saturating_sub(self.second_began_at) > SECOND_NS {
            self.second_began_at = at;
            self.candidates_before_second = self.candidates;
        }
        let in_second = (self.candidates - self.candidates_before_second).saturating_mul(self.selection.page_bytes);
        if in_second >= self.selection.limit_bytes_per_s {
            self.limited += 1;
            return Judgement::Limited;
        }
        Judgement::Hot
    }

    /// What it reports.
    #[must_use]
    pub fn gauges(&self) -> [Gauge; 3] {
        let gauge = |name, meaning, value| Gauge { name, meaning, value };
        [
            gauge(
                "hot_threshold_ms",
                "time from mark to touch below which a page is hot",
                self.threshold_ns as f64 / 1e6,
            ),
            gauge("candidate_pages", "hot pages, promoted or not", self.candidates as f64),
            gauge(
                "limited_pages",
                "hot pages not promoted since the rate limit was reached",
                self.limited as f64,
            ),
        ]
    }

    fn adjust(&mut self, at: Nanos) {
        let Selection {
            hot_threshold_ns,
            limit_bytes_per_s,
            page_bytes,
            adjust_period_ns,
            steps,
        } = self.selection;
        if at.saturating_sub(self.adjusted_at) <= adjust_period_ns {
            return;
        }
        let allowed = u128::from(limit_bytes_per_s) * u128::from(adjust_period_ns) / u128::from(SECOND_NS);
        let came = u128::from(self.candidates - self.candidates_then) * u128::from(page_bytes);
        // The kernel counts milliseconds: of a default under 8 of them a step is none, and the threshold stays.
        let step_ns = 2 * (hot_threshold_ns / MS_NS) / Nanos::from(steps) * MS_NS;
        if came * 10 > allowed * 11 {
            self.threshold_ns = self.threshold_ns.saturating_sub(step_ns).max(step_ns);
        } else if came * 10 < allowed * 9 {
            self.threshold_ns = (self.threshold_ns + step_ns).min(2 * hot_threshold_ns);
        }
        self.adjusted_at = at;
        self.candidates_then = self.candidates;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn threshold(limit_pages_per_s: u64) -> HotThreshold {
        HotThreshold::new(Selection {
            hot_threshold_ns: 1000 * MS,
            limit_bytes_per_s: limit_pages_per_s << 12,
            page_bytes: 1 << 12,
            adjust_period_ns: 2000 * MS,
            steps: 16,
        })
    }

    #[test]
    fn the_limit_counts_attempts_and_lasts_until_the_second_is_over() {
        let mut hot = threshold(3);
        let at = |hot: &mut HotThreshold, ms: Nanos| hot.judge(ms * MS, 10 * MS);
        let first: Vec<Judgement> = (0..5).map(|_| at(&mut hot, 500)).collect();
        // The count of the second includes the candidate itself, so of three two pass.
        use Judgement::{Cold, Hot, Limited};
        assert_eq!(first, [Hot, Hot, Limited, Limited, Limited]);
        assert_eq!(at(&mut hot, 1000), Limited);
        // The candidate that opens a second is not counted in it.
        assert_eq!([at(&mut hot, 1001), at(&mut hot, 1001)], [Hot, Hot]);
        assert_eq!(hot.judge(1001 * MS, 1000 * MS), Cold);
        assert_eq!((hot.candidates(), hot.limited()), (8, 4));
    }

    #[test]
    fn the_threshold_follows_the_number_of_candidates() {
        let mut hot = threshold(10);
        let step = 125 * MS;
        hot.judge(2001 * MS, 0); // nobody came in two seconds
        assert_eq!(hot.threshold_ns(), 1000 * MS + step);
        let come = |hot: &mut HotThreshold, times: u32, ms: Nanos| {
            for _ in 0..times {
                hot.judge(ms * MS, 0);
            }
        };
        come(&mut hot, 23, 3000); // 24 with the one before, 20 are allowed
        hot.judge(4002 * MS, 0);
        assert_eq!(hot.threshold_ns(), 1000 * MS);
        come(&mut hot, 19, 5000);
        hot.judge(6003 * MS, 0); // 20: within the band
        assert_eq!(hot.threshold_ns(), 1000 * MS);
        for round in 0..40 {
            hot.judge((9000 + round * 2001) * MS, 0);
        }
        assert_eq!(hot.threshold_ns(), 2000 * MS);
        hot.reset();
        assert_eq!(hot.threshold_ns(), 1000 * MS);
    }

    #[test]
    fn steps_are_whole_milliseconds() {
        let after_a_step = |hot_threshold_ms: Nanos| {
            let mut hot = HotThreshold::new(Selection {
                hot_threshold_ns: hot_threshold_ms * MS,
                ..threshold(10).selection
            });
            hot.judge(2001 * MS, 0); // nobody came in two seconds
            hot.threshold_ns() / MS
        };
        assert_eq!([7, 8, 100].map(after_a_step), [7, 9, 112]);
    }
}
