//! A scheme: which regions are to move, in what order, and how much of them in a window of time (DAMOS).

use serde::{Deserialize, Serialize};

use super::knobs::HmsdkConfig;
use super::regions::Region;
use crate::Nanos;

/// Highest priority.
const MAX_SCORE: u32 = 99;
const MAX_SUBSCORE: i64 = 100;
const MAX_AGE_IN_LOG: i64 = 32;
/// What a window of time is taken to let through as long as nothing was measured: 4 MiB per ms.
const FIRST_BYTES_PER_MS: u64 = 4096 * 1024;
/// Intervals that `thresholds` = kernel leaves the conversion at.
const GENERATED_SAMPLES: f64 = 20.0;
const GENERATED_AGGREGATION_US: f64 = 2e6;
/// A goal that is met, and the smallest input of the feedback loop.
const GOAL: u64 = 10_000;
/// Basis points of fast memory that promoting is to keep used and demoting is to keep free (mtier.c).
const USED_GOAL_BP: u64 = 9_970;
const FREE_GOAL_BP: u64 = 50;

/// Which way a scheme moves pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Up: `migrate_hot`.
    Promote,
    /// Down: `migrate_cold`.
    Demote,
}

/// Both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Smallest.
    pub min: u64,
    /// Largest.
    pub max: u64,
}

impl Window {
    fn holds(self, value: u64) -> bool {
        (self.min..=self.max).contains(&value)
    }
}

/// What a quota allows and has given out; bytes are those of regions, moved or not.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Quota {
    ms: u64,
    bytes: u64,
    reset_ns: Nanos,
    goal_bp: Option<u64>,
    /// Input of the goal's feedback loop.
    steered: u64,
    /// Bytes of the window that began at `since`; 0 for all.
    effective: u64,
    since: Option<Nanos>,
    charged: u64,
    total_charged: u64,
    total_ns: f64,
    min_score: u32,
    /// Frame where the last window ran out.
    resume_at: Option<u32>,
    exceeded: u64,
}

/// A scheme and its quota.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Scheme {
    /// Which way.
    pub action: Action,
    /// Bytes of a region.
    pub size: Window,
    /// Accesses per aggregation.
    pub accesses: Window,
    /// Age in aggregations.
    pub age: Window,
    weight_accesses: i64,
    weight_age: i64,
    max_accesses: i64,
    aggr_interval_us: u64,
    page_bytes: u64,
    quota: Quota,
}

impl Scheme {
    /// The scheme that HMSDK's generator writes for one direction.
    #[must_use]
    pub fn new(action: Action, config: &HmsdkConfig, page_bytes: u64) -> Self {
        let kernel = config.thresholds == "kernel";
        let (samples, aggregation_us) = if kernel {
            (GENERATED_SAMPLES, GENERATED_AGGREGATION_US)
        } else {
            (f64::from(config.aggr_ratio), config.aggr_interval_us() as f64)
        };
        // As damo does: cut off, not rounded.
        let looks = |percent: f64| (percent * samples / 100.0) as u64;
        let aggregations = |seconds: f64| (seconds * 1e6 / aggregation_us) as u64;
        let or_all = |value: f64, limit: u64| if value == 0.0 { u64::MAX } else { limit };
        let promotes = action == Action::Promote;
        let (accesses, age, ms, gib) = if promotes {
            (
                Window {
                    min: looks(config.prom_accesses_min_percent),
                    max: looks(config.prom_accesses_max_percent),
                },
                Window {
                    min: aggregations(config.prom_age_min_s),
                    max: or_all(config.prom_age_max_s, aggregations(config.prom_age_max_s)),
                },
                config.prom_quota_ms,
                config.prom_quota_gib,
            )
        } else {
            (
                Window {
                    min: 0,
                    max: looks(config.dem_accesses_ratio * config.prom_accesses_min_percent),
                },
                Window {
                    min: aggregations(config.dem_age_min_s),
                    max: u64::MAX,
                },
                config.dem_quota_ms,
                config.dem_quota_gib,
            )
        };
        let goal_bp = if promotes { USED_GOAL_BP } else { FREE_GOAL_BP };
        Self {
            action,
            size: Window {
                min: config.region_min_sz_bytes,
                max: or_all(config.region_max_sz_bytes as f64, config.region_max_sz_bytes),
            },
            accesses,
            age,
            weight_accesses: config.weight_accesses_permil.into(),
            weight_age: config.weight_age_permil.into(),
            max_accesses: config.aggr_ratio.into(),
            aggr_interval_us: config.aggr_interval_us(),
            page_bytes,
            quota: Quota {
                ms,
                bytes: (gib * config.footprint_scale * f64::from(1 << 30)).round() as u64,
                reset_ns: (config.quota_reset_interval_s * 1e9).round() as Nanos,
                goal_bp: config.quota_goal.then_some(goal_bp),
                steered: 0,
                effective: 0,
                since: None,
                charged: 0,
                total_charged: 0,
                total_ns: 0.0,
                min_score: 0,
                resume_at: None,
                exceeded: 0,
            },
        }
    }

    fn bytes(&self, frames: u32) -> u64 {
        u64::from(frames) * self.page_bytes
    }

    /// Whether size, accesses and age are as the scheme asks.
    #[must_use]
    pub fn matches(&self, region: &Region) -> bool {
        self.size.holds(self.bytes(region.frames()))
            && self.accesses.holds(region.accesses.into())
            && self.age.holds(region.age.into())
    }

    /// Priority from 0 to 99, by accesses and by the logarithm of the age; an idle region is the colder
    /// the older, any other the hotter the older.
    #[must_use]
    pub fn score(&self, region: &Region) -> u32 {
        let accesses = i64::from(region.accesses) * MAX_SUBSCORE / self.max_accesses;
        let seconds = u64::from(region.age) * self.aggr_interval_us / 1_000_000;
        let log = i64::from(64 - seconds.leading_zeros()).min(MAX_AGE_IN_LOG);
        let log = if accesses == 0 { -log } else { log };
        let age = (log + MAX_AGE_IN_LOG) * MAX_SUBSCORE / MAX_AGE_IN_LOG / 2;
        let weights = self.weight_accesses + self.weight_age;
        let weighed = self.weight_accesses * accesses + self.weight_age * age;
        let hotness = weighed / weights.max(1) * i64::from(MAX_SCORE) / MAX_SUBSCORE;
        let hotness = hotness.clamp(0, i64::from(MAX_SCORE)) as u32;
        match self.action {
            Action::Promote => hotness,
            Action::Demote => MAX_SCORE - hotness,
        }
    }

    /// Begins a window if the last is over, and finds the lowest priority that the quota has room for.
    /// `fast_bp` is what the goal counts: used (promoting) or free (demoting) basis points of fast memory.
    pub fn adjust(&mut self, regions: &[Region], now: Nanos, fast_bp: u64) {
        let quota = &mut self.quota;
        if quota.ms == 0 && quota.bytes == 0 && quota.goal_bp.is_none() {
            return;
        }
        if quota.since.is_none_or(|since| now >= since + quota.reset_ns) {
            quota.exceeded += u64::from(quota.effective > 0 && quota.charged >= quota.effective);
            quota.total_charged += quota.charged;
            quota.since = Some(now);
            quota.charged = 0;
            quota.set_effective(fast_bp);
        }
        let mut histogram = [0u64; MAX_SCORE as usize + 1];
        for region in regions.iter().filter(|region| self.matches(region)) {
            histogram[self.score(region) as usize] += self.bytes(region.frames());
        }
        let highest = histogram.iter().rposition(|bytes| *bytes > 0).unwrap_or(0);
        let mut bytes = 0;
        let mut lowest = highest;
        loop {
            bytes += histogram[lowest];
            if bytes >= self.quota.effective || lowest == 0 {
                break;
            }
            lowest -= 1;
        }
        self.quota.min_score = lowest as u32;
    }

    /// Whether the window has nothing left.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.quota.effective > 0 && self.quota.charged >= self.quota.effective
    }

    /// Leaves out what the last window has got to: cuts it off `region` into `before`; `false` when
    /// nothing of it is left.
    pub fn skip_charged(&mut self, region: &mut Region, is_last: bool, before: &mut Vec<Region>) -> bool {
        let Some(resume_at) = self.quota.resume_at else {
            return true;
        };
        if is_last {
            self.quota.resume_at = None;
            return false;
        }
        if region.end <= resume_at {
            return false;
        }
        if region.start <= resume_at {
            // The kernel remembers the address after the last byte, so at least one frame is left out.
            let skipped = (resume_at - region.start).max(1);
            if skipped >= region.frames() {
                return false;
            }
            let rest = region.cut_off_after(skipped);
            before.push(std::mem::replace(region, rest));
        }
        self.quota.resume_at = None;
        true
    }

    /// Whether a region that matches has the priority that is called for.
    #[must_use]
    pub fn admits(&self, region: &Region) -> bool {
        self.matches(region) && (self.quota.effective == 0 || self.score(region) >= self.quota.min_score)
    }

    /// Charges a region that is admitted, cut to what the window has left; the rest goes to `after`.
    /// `false` when not even a frame is left.
    pub fn charge(&mut self, region: &mut Region, after: &mut Option<Region>) -> bool {
        let left = self.quota.effective.saturating_sub(self.quota.charged);
        if self.quota.effective > 0 && self.bytes(region.frames()) > left {
            let frames = (left / self.page_bytes) as u32;
            if frames == 0 {
                return false;
            }
            *after = Some(region.cut_off_after(frames));
        }
        self.quota.charged += self.bytes(region.frames());
        if self.is_spent() {
            self.quota.resume_at = Some(region.end);
        }
        true
    }

    /// Books time that applying the scheme took.
    pub fn took(&mut self, ns: f64) {
        self.quota.total_ns += ns;
    }

    /// Bytes of the current window, 0 for no limit.
    #[must_use]
    pub fn effective_bytes(&self) -> u64 {
        self.quota.effective
    }

    /// Windows that ran out.
    #[must_use]
    pub fn exceeded(&self) -> u64 {
        self.quota.exceeded
    }
}

impl Quota {
    fn set_effective(&mut self, fast_bp: u64) {
        let mut effective = u64::MAX;
        if let Some(goal_bp) = self.goal_bp {
            self.steered = next_input(self.steered.max(GOAL), fast_bp * GOAL / goal_bp);
            effective = self.steered / GOAL;
        }
        if self.ms > 0 {
            let bytes_per_ms = if self.total_ns > 0.0 {
                (self.total_charged as f64 * 1e6 / self.total_ns) as u64
            } else {
                FIRST_BYTES_PER_MS
            };
            effective = effective.min(bytes_per_ms.saturating_mul(self.ms));
        }
        if self.bytes > 0 {
            effective = effective.min(self.bytes);
        }
        // To the kernel, too, an effective quota of 0 is none.
        self.effective = effective;
    }
}

/// The next input of a feedback loop whose last input made `score`, where [`GOAL`] is wanted: more in
/// proportion to what is missing, or less.
fn next_input(last: u64, score: u64) -> u64 {
    if score >= GOAL * 2 {
        return GOAL;
    }
    let change = (u128::from(last) * u128::from(score.abs_diff(GOAL)) / u128::from(GOAL)) as u64;
    if score > GOAL {
        last.saturating_sub(change).max(GOAL)
    } else {
        last.saturating_add(change)
    }
}
