//! What `colloid` promises whatever happens: it moves no more probability than the shift says, no more
//! bytes than the limits allow, only in the direction that balances latencies, and never a page for a
//! hotter one. Shift and probabilities are worked out here a second time, from the description.

use std::collections::BTreeMap;

use crate::harness::{Driver, Entry, MS};
use proptest::prelude::*;
use tiertune_policy::registry::{self, PAGE_2M};
use tiertune_policy::{Config, Event, Page, Topology, Value};

const PAGES: u32 = 40;
const FAST_PAGES: u32 = 12;
const TICK: u64 = 10 * MS;

/// One quantum of an application: samples of pages, latency and requests of both tiers.
#[derive(Debug, Clone)]
struct Step {
    samples: Vec<(Page, u8)>,
    latency_ns: [f64; 2],
    share: f64,
    requests: f64,
}

fn step() -> impl Strategy<Value = Step> {
    let samples = prop::collection::vec((0..PAGES, 1..6u8), 0..12);
    let latency = || 80.0..500.0f64;
    (samples, latency(), latency(), 0.0..1.0f64, 1e3..1e7f64).prop_map(|(samples, fast, slow, share, requests)| Step {
        samples,
        latency_ns: [fast, slow],
        share,
        requests,
    })
}

/// The paper's rule, word for word.
struct Rule {
    low: f64,
    high: f64,
}

impl Rule {
    fn shift(&mut self, step: &Step) -> f64 {
        let [fast, slow] = step.latency_ns;
        if (fast - slow).abs() < 0.05 * fast {
            return 0.0;
        }
        if fast < slow {
            self.low = step.share;
        } else {
            self.high = step.share;
        }
        if self.high < self.low + 0.01 {
            if fast < slow {
                self.high = 1.0;
            } else {
                self.low = 0.0;
            }
        }
        ((self.low + self.high) / 2.0 - step.share).abs()
    }
}

fn config(find: &str, limit_mib: f64) -> Config {
    let values: [(&str, Value); 6] = [
        ("mmap_filter_size_bytes", 0i64.into()),
        // Out of the way of what is sampled here, so that nothing cools.
        ("cooling_threshold", 128i64.into()),
        ("colloid_ewma_alpha", 1.0.into()),
        ("colloid_page_find", find.into()),
        ("colloid_static_limit_mib", limit_mib.into()),
        ("colloid_lat_floor_slow_ns", 0.0.into()),
    ];
    values.map(|(name, value)| (name.to_string(), value)).into()
}

/// Runs `steps` and checks every quantum; returns the number of pages moved.
fn run(find: &str, limit_mib: f64, slow_room: u32, steps: &[Step]) -> usize {
    let topology = Topology {
        page_bytes: PAGE_2M,
        pages: PAGES,
        capacity_pages: vec![FAST_PAGES, PAGES - FAST_PAGES + slow_room],
    };
    let policy = registry::build("colloid+hemem", &config(find, limit_mib), &topology).expect("a valid config");
    let mut driver = Driver::new(policy, &topology);
    driver.alloc(0, PAGES);
    driver.run_until(TICK / 2);
    let mut counts: BTreeMap<Page, u32> = BTreeMap::new();
    let mut rule = Rule { low: 0.0, high: 1.0 };
    let mut moved = 0;
    for (nth, step) in steps.iter().enumerate() {
        // Between two quanta, which come 100 ms apart: all copies have ended before the next.
        for (page, times) in &step.samples {
            let count = counts.entry(*page).or_default();
            let times = u32::from(*times).min(100u32.saturating_sub(*count));
            *count += times;
            driver.sample(&vec![(*page, Event::LoadMiss); times as usize]);
        }
        for (tier, requests) in [step.share * step.requests, (1.0 - step.share) * step.requests]
            .into_iter()
            .enumerate()
        {
            driver.counters.tiers[tier].inserts += requests;
            driver.counters.tiers[tier].occupancy_ns += requests * step.latency_ns[tier];
        }
        let before: Vec<u8> = (0..PAGES).map(|page| driver.tier_of(page)).collect();
        let seen = driver.log.len();
        driver.run_until(TICK / 2 + (nth as u64 * 10 + 1) * TICK);
        let asked: Vec<(Page, u8)> = driver.log[seen..]
            .iter()
            .filter_map(|entry| match entry {
                Entry::Ask { request, .. } => Some((request.page, request.to)),
                _ => None,
            })
            .collect();
        let probability = rule.shift(step);
        let up = step.latency_ns[0].max(70.0) < step.latency_ns[1];
        let total: u32 = counts.values().sum();
        let of = |page: &Page| f64::from(counts.get(page).copied().unwrap_or(0)) / f64::from(total.max(1));
        let (mut net, mut bytes) = (0.0, 0);
        for (page, to) in &asked {
            assert_ne!(before[*page as usize], *to);
            let with_the_shift = (*to == 0) == up;
            net += if with_the_shift { of(page) } else { -of(page) };
            bytes += PAGE_2M;
        }
        assert!(net <= probability + 1e-9, "moved {net} of {probability}: {asked:?}");
        let static_limit = limit_mib * f64::from(1 << 20);
        let dynamic_limit = probability * step.requests * 64.0;
        // The HeMem port looks at its limit between pairs.
        let over = if find == "sort_pairs" { 2 * PAGE_2M } else { 0 };
        assert!(
            bytes as f64 <= static_limit.min(dynamic_limit) + over as f64 + 1.0,
            "{bytes} bytes of {static_limit}, {dynamic_limit}"
        );
        // A page that goes the other way makes room for the next one, which is the hotter of the two.
        for pair in asked.windows(2).filter(|pair| (pair[0].1 == 0) != up) {
            assert_eq!(pair[1].1 == 0, up, "{asked:?}");
            assert!(of(&pair[0].0) < of(&pair[1].0), "{asked:?}");
        }
        if let Some((page, to)) = asked.last() {
            assert_eq!(*to == 0, up, "the last move makes room for nobody: page {page}");
        }
        moved += asked.len();
        driver.run_until(TICK / 2 + (nth as u64 * 10 + 10) * TICK);
        let free: u32 = (0..2)
            .map(|tier| tiertune_policy::PageMap::free_pages(&driver.pages, tier))
            .sum();
        assert_eq!(free, slow_room, "frames are lost or made up");
    }
    moved
}

proptest! {
    #[test]
    fn a_shift_moves_no_more_than_it_says(
        find in prop::sample::select(vec!["bins", "sort_pairs", "list"]),
        limit_mib in 1.0..200.0f64,
        slow_room in 0..20u32,
        steps in prop::collection::vec(step(), 1..12),
    ) {
        run(find, limit_mib, slow_room, &steps);
    }
}

/// The property above would hold for a policy that does nothing.
#[test]
fn shifts_do_move_pages() {
    for find in ["bins", "sort_pairs", "list"] {
        let steps: Vec<Step> = (0..10u32)
            .map(|nth| Step {
                samples: (0..PAGES)
                    .map(|page| (page, 1 + ((page * 7 + nth) % 4) as u8))
                    .collect(),
                latency_ns: if nth < 6 { [300.0, 150.0] } else { [90.0, 300.0] },
                share: 0.4,
                requests: 1e7,
            })
            .collect();
        assert!(run(find, 100.0, 12, &steps) > 8, "{find}");
    }
}
