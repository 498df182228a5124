//! What `arms` computes, against the definitions written out: averages, weights, ranks, and moves that pay.

use crate::harness::{Driver, Entry, MS};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tiertune_policy::arms::averages::{Averages, Trust};
use tiertune_policy::registry::{self, PAGE_2M};
use tiertune_policy::{Config, Event, Outcome, Page, PageMap, Topology};

const PAGES: u32 = 12;
const SHORT_HALF_ROUNDS: f64 = 2.0;
const LONG_HALF_ROUNDS: f64 = 12.0;

/// Counts of each round, by page.
fn rounds() -> impl Strategy<Value = Vec<Vec<u32>>> {
    let count = prop_oneof![2 => Just(0u32), 1 => 1u32..4, 1 => 10u32..60];
    prop::collection::vec(prop::collection::vec(count, PAGES as usize), 1..40)
}

/// The average of all rounds so far, the last one first, each counting as much less as its age says; rounds before the
/// first do not exist.
fn average(counts: impl DoubleEndedIterator<Item = f64>, half_rounds: f64) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (age, count) in counts.rev().enumerate() {
        let weight = (-(age as f64) / half_rounds).exp2();
        sum += weight * count;
        weights += weight;
    }
    if weights > 0.0 { sum / weights } else { 0.0 }
}

/// Both averages of a page after so many rounds.
fn averages(rounds: &[Vec<u32>], page: usize) -> [f64; 2] {
    let counts = || rounds.iter().map(|round| f64::from(round[page]));
    [
        average(counts(), SHORT_HALF_ROUNDS),
        average(counts(), LONG_HALF_ROUNDS),
    ]
}

/// What one round adds to the sums of the least-squares fit of counts by `long + w (short - long)`.
fn fit(before: &[Vec<u32>], now: &[u32]) -> (f64, f64) {
    let (mut product, mut square) = (0.0, 0.0);
    for (page, count) in now.iter().enumerate() {
        let [short, long] = averages(before, page);
        // After one round both are its count.
        if (short - long).abs() > 1e-4 * short.max(long) {
            product += (f64::from(*count) - long) * (short - long);
            square += (short - long) * (short - long);
        }
    }
    (product, square)
}

/// The larger of a page's averages, as they are kept, over what a sample leaves after a long half-life: under 1, the
/// page is forgotten.
fn kept_share(rounds: &[Vec<u32>], page: usize) -> f64 {
    let kept = |half_rounds: f64| -> f64 {
        let decay = (-1.0 / half_rounds).exp2();
        let counts = rounds.iter().rev().enumerate();
        counts
            .map(|(age, round)| (1.0 - decay) * decay.powi(age as i32) * f64::from(round[page]))
            .sum()
    };
    kept(SHORT_HALF_ROUNDS).max(kept(LONG_HALF_ROUNDS)) / ((1.0 - (-1.0 / LONG_HALF_ROUNDS).exp2()) / 2.0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scores_and_ranks_are_what_they_are_defined_as(rounds in rounds(), hottest in 1u32..PAGES) {
        let mut kept = Averages::new(PAGES, SHORT_HALF_ROUNDS, LONG_HALF_ROUNDS, Trust::Learned);
        let mut hot_rounds: BTreeMap<Page, u32> = BTreeMap::new();
        let (mut so_far, mut product, mut square) = (Vec::<Vec<u32>>::new(), 0.0, 0.0);
        for counts in &rounds {
            for (page, count) in (0..PAGES).zip(counts) {
                (0..*count).for_each(|_| { kept.see(page); });
            }
            kept.round(1.0, hottest, |_| ());
            let (products, squares) = fit(&so_far, counts);
            let older = (-1.0 / SHORT_HALF_ROUNDS).exp2();
            (product, square) = (products + older * product, squares + older * square);
            let weight = if square > 0.0 { f64::clamp(product / square, 0.0, 1.0) } else { 1.0 };
            so_far.push(counts.clone());
            for page in 0..PAGES {
                let share = kept_share(&so_far, page as usize);
                // A single sample is at the very limit after a long half-life: rounding decides.
                let forgotten = if (share - 1.0).abs() < 1e-5 { !kept.has(page) } else { share < 1.0 };
                prop_assert_eq!(forgotten, !kept.has(page), "page {} is kept at a share of {}", page, share);
                if forgotten {
                    so_far.iter_mut().for_each(|round| round[page as usize] = 0);
                    hot_rounds.remove(&page);
                }
            }
            prop_assert!((kept.short_weight() - weight).abs() < 1e-3, "{} for {weight}", kept.short_weight());
            let hot = kept.records().iter().filter(|record| kept.is_hot(record)).count() as u32;
            // As many as there is room for, and those that are as hot as the last of them (to a sixteenth of an octave).
            let tracked = kept.records().len() as u32;
            prop_assert!(hot >= hottest.min(tracked));
            for record in kept.records() {
                let [short, long] = averages(&so_far, record.page as usize);
                let expected = long + weight * (short - long);
                let score = f64::from(record.score);
                prop_assert!((score - expected).abs() < 1e-3 * (1.0 + expected), "{score} for {expected}");
                let hotter = kept.records().iter().filter(|other| f64::from(other.score) > score * (1.0 + 1.0 / 15.0)).count() as u32;
                if kept.is_hot(record) {
                    prop_assert!(hotter < hottest, "{hotter} are hotter than a hot one");
                }
                let rounds = hot_rounds.entry(record.page).or_default();
                *rounds = if kept.is_hot(record) { *rounds + 1 } else { 0 };
                prop_assert_eq!(record.hot_rounds, *rounds);
            }
        }
    }

    /// A page freed at any time leaves the others as they are.
    #[test]
    fn forgotten_pages_are_gone_and_others_stay(rounds in rounds(), gone in 0..PAGES) {
        let mut kept = Averages::new(PAGES, SHORT_HALF_ROUNDS, LONG_HALF_ROUNDS, Trust::Short);
        let mut without = kept.clone();
        for counts in &rounds {
            for (page, count) in (0..PAGES).zip(counts) {
                for _ in 0..*count {
                    kept.see(page);
                    if page != gone {
                        without.see(page);
                    }
                }
            }
            kept.forget(gone);
            kept.round(1.0, 3, |_| ());
            without.round(1.0, 3, |_| ());
            let scores = |of: &Averages| -> BTreeMap<Page, String> {
                of.records().iter().map(|record| (record.page, format!("{:.6}", record.score))).collect()
            };
            prop_assert_eq!(scores(&kept), scores(&without));
        }
    }

    /// Whatever is sampled: requests succeed as long as nobody else takes room, tiers hold what they can, and no round asks for more than fits into it.
    #[test]
    fn books_are_kept(batches in prop::collection::vec((0..40u32, 1..60usize, 0u8..4), 1..60), fast in 1u32..20) {
        let topology = Topology { page_bytes: PAGE_2M, pages: 40, capacity_pages: vec![fast, 45] };
        let policy = registry::build("arms", &Config::new(), &topology).expect("defaults are valid");
        let mut driver = Driver::new(policy, &topology);
        driver.alloc(0, 30);
        driver.alloc(30, 10);
        let mut there = true;
        for (nth, (page, times, kind)) in batches.iter().enumerate() {
            driver.run_until(nth as u64 * 60 * MS);
            for tier in 0..2 {
                driver.counters.tiers[tier].inserts += 1e5;
                driver.counters.tiers[tier].occupancy_ns += 1e5 * [90.0, 180.0][tier];
            }
            if *kind == 0 && there {
                driver.free(30);
                there = false;
            }
            if *page < 30 || there {
                driver.sample(&vec![(*page, Event::LoadMiss); *times]);
            }
        }
        driver.run_until(batches.len() as u64 * 60 * MS + 200 * MS);
        let mut asked: BTreeMap<u64, f64> = BTreeMap::new();
        for entry in &driver.log {
            match entry {
                Entry::Ended(migrated) => prop_assert!(
                    matches!(migrated.outcome, Outcome::Done | Outcome::Gone), "{migrated:?}"
                ),
                Entry::Ask { at, .. } => *asked.entry(*at).or_default() += 0.733,
                _ => {}
            }
        }
        prop_assert!(asked.values().all(|ms| *ms <= 100.0));
        // A copy under way holds a frame on both sides.
        if driver.idle() {
            let used: u32 = (0..2).map(|tier| driver.capacity(tier) - driver.pages.free_pages(tier)).sum();
            prop_assert_eq!(used, if there { 40 } else { 30 });
        }
    }
}
