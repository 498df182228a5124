//! `memtis` against plain descriptions: counts and histograms kept page by page in maps, and what must hold of
//! its decisions whatever is sampled.

use std::collections::BTreeMap;

use crate::harness::{Driver, Entry, MS};
use proptest::prelude::*;
use tiertune_policy::memtis::hotness::{BINS, Counting, HUGE, Hotness, bin, fitting_bin};
use tiertune_policy::registry::{self, PAGE_2M, PAGE_4K};
use tiertune_policy::{Config, Event, Outcome, Page, Topology, Value};

const RUN: u32 = 512;
const RUNS: u32 = 4;
/// Pages after the last huge page that are none.
const LOOSE: u32 = 5;
const PAGES: u32 = RUNS * RUN + LOOSE;

fn topology(page_bytes: u64, pages: u32, capacity_pages: Vec<u32>) -> Topology {
    Topology {
        page_bytes,
        pages,
        capacity_pages,
    }
}

/// Counts page by page, halved at once; a huge page's count apart from those of its parts.
#[derive(Default)]
struct Plain {
    huge: BTreeMap<u32, u32>,
    pages: Vec<u32>,
}

impl Plain {
    fn new() -> Self {
        Self {
            huge: (0..RUNS).map(|run| (run, 0)).collect(),
            pages: vec![0; PAGES as usize],
        }
    }

    fn sample(&mut self, page: Page) {
        self.pages[page as usize] += HUGE as u32;
        if let Some(count) = self.huge.get_mut(&(page / RUN)) {
            *count += 1;
        }
    }

    fn halve(&mut self) {
        self.huge.values_mut().for_each(|count| *count /= 2);
        self.pages.iter_mut().for_each(|count| *count /= 2);
    }

    fn histograms(&self) -> ([u64; BINS], [u64; BINS]) {
        let (mut real, mut as_base) = ([0; BINS], [0; BINS]);
        for count in self.huge.values() {
            real[log_bin(*count)] += HUGE;
        }
        for (page, count) in self.pages.iter().enumerate() {
            as_base[log_bin(*count)] += 1;
            if !self.huge.contains_key(&(page as u32 / RUN)) {
                real[log_bin(*count)] += 1;
            }
        }
        (real, as_base)
    }
}

/// The bin by trying one after the other.
fn log_bin(count: u32) -> usize {
    (1..BINS).rev().find(|at| u64::from(count) + 1 >= 1 << at).unwrap_or(0)
}

#[derive(Debug, Clone)]
enum Step {
    Sample(Vec<Page>),
    Halve,
    Split(u32),
    Collapse(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few pages, so that counts get high, of huge pages and loose ones.
    let page = prop_oneof![3 => 0..12u32, 2 => 500..520u32, 1 => 0..PAGES, 1 => PAGES - LOOSE..PAGES];
    let step = prop_oneof![
        6 => proptest::collection::vec(page, 1..200).prop_map(Step::Sample),
        2 => Just(Step::Halve),
        1 => (0..RUNS).prop_map(Step::Split),
        1 => (0..RUNS).prop_map(Step::Collapse),
    ];
    proptest::collection::vec(step, 1..40)
}

fn counting() -> Counting {
    Counting {
        keep: 0.5,
        very_hot_bin: 13,
        skew_divisor: 11,
    }
}

/// A hot huge page moves as a whole; with transparent huge pages off its pages are single ones.
#[test]
fn what_moves_is_a_huge_page_only_where_there_are_any() {
    for (thp, pages) in [(true, RUN), (false, 1)] {
        let config: Config = [
            ("thp", Value::Bool(thp)),
            ("htmm_adaptation_period", Value::Int(1000)),
            // Halved base pages that nobody samples are active until the threshold is adapted.
            ("cooling_ratio", Value::Int(200)),
            ("demo_wm_pct", Value::Float(10.0)),
            ("demo_wm_min_mib", Value::Float(0.0)),
            ("promo_wm_min_mib", Value::Float(0.0)),
            // Else the other pages, none of which is sampled, are warm and make no room.
            ("htmm_nowarm", Value::Bool(true)),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into();
        let topology = topology(PAGE_4K, 20 * RUN, vec![10 * RUN, 20 * RUN]);
        let policy = registry::build("memtis", &config, &topology).expect("it is valid");
        let mut driver = Driver::new(policy, &topology);
        driver.alloc(0, 20 * RUN);
        for round in 1..390 {
            let sampled: Vec<_> = (0..RUN).map(|page| (12 * RUN + page, Event::LoadMiss)).collect();
            driver.sample(&sampled);
            driver.run_until(round * 10 * MS);
        }
        let promoted = driver.log.iter().filter_map(|entry| match entry {
            Entry::Ended(ended) if ended.request.to == 0 => Some(ended.request.pages),
            _ => None,
        });
        let promoted: Vec<u32> = promoted.collect();
        assert_eq!(promoted.iter().sum::<u32>(), RUN, "{thp}");
        assert!(promoted.iter().all(|moved| *moved == pages), "{thp}: {promoted:?}");
    }
}

proptest! {
    /// Lazily halved counts in packed words give the histograms of counts in a map, halved at once.
    #[test]
    fn histograms_are_those_of_plain_counts(steps in steps()) {
        let mut hotness = Hotness::new(&topology(PAGE_4K, PAGES, vec![PAGES, PAGES]), counting(), 1);
        let mut plain = Plain::new();
        let units = |plain: &Plain| -> Vec<Page> {
            (0..PAGES).filter(|page| !plain.huge.contains_key(&(page / RUN)) || page % RUN == 0).collect()
        };
        for unit in units(&plain) {
            hotness.admit(unit, unit / RUN < RUNS, 0, false);
        }
        // Units enter the histogram when they are first looked at.
        hotness.start_halving();
        for unit in units(&plain) {
            hotness.catch_up(unit);
        }
        for step in steps {
            match step {
                Step::Sample(pages) => for page in pages {
                    let counted = hotness.count(page).expect("it exists");
                    plain.sample(page);
                    let whole = plain.huge.get(&(page / RUN));
                    let count = whole.copied().unwrap_or(plain.pages[page as usize]);
                    prop_assert_eq!(usize::from(counted.to), log_bin(count));
                },
                Step::Halve => {
                    hotness.start_halving();
                    plain.halve();
                    for unit in units(&plain) {
                        hotness.catch_up(unit);
                    }
                }
                Step::Split(run) => if plain.huge.remove(&run).is_some() {
                    hotness.split(run * RUN);
                },
                Step::Collapse(run) => if !plain.huge.contains_key(&run) {
                    let parts = (run * RUN) as usize..((run + 1) * RUN) as usize;
                    let sum: u64 = plain.pages[parts].iter().map(|count| u64::from(*count)).sum();
                    plain.huge.insert(run, (sum / HUGE) as u32);
                    hotness.collapse(run * RUN);
                },
            }
            prop_assert_eq!((hotness.histogram, hotness.as_base), plain.histograms());
        }
    }

    #[test]
    fn the_fitting_bin_is_the_lowest_that_fits(histogram in proptest::array::uniform16(0..50u64), capacity in 0..400u64) {
        let above = |at: usize| histogram[at..].iter().sum::<u64>();
        let (found, pages) = fitting_bin(&histogram, capacity);
        let expected = (0..BINS).find(|at| above(*at) <= capacity).unwrap_or(BINS);
        prop_assert_eq!(usize::from(found), expected.min(BINS - 1));
        prop_assert_eq!(pages, if expected == BINS { 0 } else { above(expected) });
    }

    #[test]
    fn bins_are_whole_logarithms(count in prop_oneof![any::<u32>(), 0..70_000u32]) {
        prop_assert_eq!(usize::from(bin(count)), log_bin(count));
    }

    /// Whatever is sampled, allocated and freed on machines with and without huge pages: the promoting thread
    /// leaves its reserve but for the rest of a huge page, and no move fails while nobody else takes memory.
    #[test]
    fn promotion_leaves_its_reserve(
        huge in any::<bool>(),
        samples in proptest::collection::vec((0..12u32, 1..400usize), 1..60),
    ) {
        let (page_bytes, unit) = if huge { (PAGE_4K, RUN) } else { (PAGE_2M, 1) };
        let capacity = vec![10 * unit, 20 * unit];
        let config: Config = [
            ("htmm_adaptation_period", Value::Int(1000)),
            ("htmm_promotion_period_in_ms", Value::Int(20)),
            ("htmm_demotion_period_in_ms", Value::Int(20)),
            ("demo_wm_pct", Value::Float(10.0)),
            ("promo_wm_gap_pct", Value::Float(10.0)),
            ("promo_wm_max_mib", Value::Float(100_000.0)),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into();
        let topology = topology(page_bytes, 20 * unit, capacity);
        let policy = registry::build("memtis", &config, &topology).expect("it is valid");
        let mut driver = Driver::new(policy, &topology);
        driver.alloc(0, 20 * unit);
        for (nth, (run, times)) in samples.iter().enumerate() {
            let page = (run + 8) * unit + (nth as u32 * 37) % unit;
            driver.sample(&vec![(page, Event::LoadMiss); *times]);
            let before = driver.log.len();
            driver.run_until((nth as u64 + 1) * 7 * MS);
            for entry in &driver.log[before..] {
                if let Entry::Ended(ended) = entry {
                    prop_assert_eq!(ended.outcome, Outcome::Done);
                }
            }
            let promoted = driver.log[before..].iter().any(|entry| matches!(entry, Entry::Ended(e) if e.request.to == 0));
            // 20 % of ten units are two, of which a huge page may take its rest.
            prop_assert!(!promoted || driver.capacity(0) - driver.used(0) >= 2 * unit - (unit - 1));
        }
    }
}
