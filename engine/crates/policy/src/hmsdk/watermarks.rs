//! Whether a context's thread works: free memory of the machine between two watermarks (DAMOS).

use serde::{Deserialize, Serialize};

use super::knobs::HmsdkConfig;
use crate::{Nanos, PageMap, Tier};

/// Watermarks in thousandths of all memory, and whether the thread works.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Watermarks {
    high: u64,
    mid: u64,
    low: u64,
    interval_ns: Nanos,
    works: bool,
}

impl Watermarks {
    /// Those of `config`, or none where they are off. A thread begins as one that works.
    #[must_use]
    pub fn new(config: &HmsdkConfig) -> Option<Self> {
        let high = f64::from(config.wmark_high_permil);
        let mid = high * config.wmark_mid_ratio;
        (config.wmark_metric == "free_mem_rate").then(|| Self {
            high: high as u64,
            mid: mid.round() as u64,
            low: (mid.round() * config.wmark_low_ratio).round() as u64,
            interval_ns: config.wmark_interval_ms * 1_000_000,
            works: true,
        })
    }

    /// How long the thread rests before it looks again; `None` where it works (core.c, `damos_wmark_wait_us`). Below
    /// the low watermark reclaim has more urgent things to do, above the high one there is nothing to do.
    pub fn rest_ns(&mut self, free_permil: u64) -> Option<Nanos> {
        let between = (self.low..=self.high).contains(&free_permil);
        self.works = between && (self.works || free_permil < self.mid);
        (!self.works).then_some(self.interval_ns)
    }
}

/// Free memory of all tiers in thousandths.
#[must_use]
pub fn free_permil(pages: &dyn PageMap, capacity_pages: &[u32]) -> u64 {
    let all: u64 = capacity_pages.iter().copied().map(u64::from).sum();
    let free = |tier: usize| u64::from(pages.free_pages(tier as Tier).min(capacity_pages[tier]));
    (0..capacity_pages.len()).map(free).sum::<u64>() * 1000 / all.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::{Config, Value};

    fn marks() -> Watermarks {
        let on = [("wmark_metric".to_owned(), Value::Text("free_mem_rate".to_owned()))];
        let config = HmsdkConfig::from_config(&Config::from(on)).expect("a valid config");
        Watermarks::new(&config).expect("watermarks are on")
    }

    #[test]
    fn a_thread_works_between_low_and_high_once_free_memory_was_below_mid() {
        let mut marks = marks();
        let resting = Some(5_000_000_000);
        for (free_permil, expected) in [
            (450, None), // it begins as one that works
            (501, resting),
            (500, resting),
            (400, resting),
            (399, None),
            (500, None),
            (200, None),
            (199, resting),
            (400, resting),
            (200, None),
        ] {
            assert_eq!(marks.rest_ns(free_permil), expected, "{free_permil}");
        }
    }

    #[test]
    fn off_there_are_none() {
        let config = HmsdkConfig::from_config(&Config::default()).expect("a valid config");
        assert!(Watermarks::new(&config).is_none());
    }
}
