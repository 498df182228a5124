//! Where descriptions of Memtis and its code differ, or the code does what no description says: items 6, 7 and 8 of
//! the project's list of disagreements. Where there is a switch, both behaviours are shown.

use crate::harness::{Driver, Entry, MS, workload};
use tiertune_policy::registry::{self, PAGE_2M, PAGE_4K};
use tiertune_policy::{Config, Event, Page, Topology, Value};

fn config(knobs: &[(&str, Value)]) -> Config {
    knobs
        .iter()
        .map(|(name, value)| ((*name).to_string(), value.clone()))
        .collect()
}

fn driver(page_bytes: u64, capacity_pages: &[u32], knobs: &[(&str, Value)]) -> Driver {
    let topology = Topology {
        page_bytes,
        pages: capacity_pages.iter().sum(),
        capacity_pages: capacity_pages.to_vec(),
    };
    let policy = registry::build("memtis", &config(knobs), &topology).expect("it is valid");
    Driver::new(policy, &topology)
}

fn load(driver: &mut Driver, pages: std::ops::Range<Page>, times: usize) {
    let samples: Vec<_> = pages.flat_map(|page| vec![(page, Event::LoadMiss); times]).collect();
    driver.sample(&samples);
}

/// 6: files that exist and are shown, and that nothing reads.
#[test]
fn item_6_four_files_change_nothing() {
    let run = |knobs: &[(&str, Value)]| workload::run("memtis", &config(knobs), PAGE_2M, 2);
    let default = run(&[]);
    for (knob, value) in [
        ("htmm_sample_period", Value::Int(19_997)),
        ("htmm_util_weight", Value::Int(100)),
        ("ksampled_min_sample_ratio", Value::Int(1)),
        ("ksampled_max_sample_ratio", Value::Int(100)),
    ] {
        assert!(run(&[(knob, value)]) == default, "{knob} is said to do nothing");
    }
    // What the first of them was meant to set is the entry of a table at the start.
    let policy = driver(PAGE_2M, &[4, 8], &[("htmm_sample_period", Value::Int(19_997))]).policy;
    assert_eq!(policy.samplers()[0].period, 199);
    let policy = driver(PAGE_2M, &[4, 8], &[("initial_period_index", Value::Int(29))]).policy;
    assert_eq!(policy.samplers()[0].period, 19_997);
}

/// 6: mode 1 at boot and mode 2, "only used", are one; only 0 is another.
#[test]
fn item_6_modes_one_to_three_are_alike() {
    let run = |mode: i64| workload::run("memtis", &config(&[("htmm_mode", Value::Int(mode))]), PAGE_2M, 2);
    assert!(run(1) == run(2) && run(3) == run(2));
    assert!(run(0) != run(2));
}

/// 6: half a second between rounds, where a comment says 50 ms; and no cap of 2048 MB/s, a macro that nothing uses.
#[test]
fn item_6_periods_are_half_a_second_and_nothing_caps_the_rate() {
    for (period_ms, knobs) in [
        (500, vec![]),
        (50, vec![("htmm_promotion_period_in_ms", Value::Int(50))]),
    ] {
        let mut driver = driver(PAGE_2M, &[2000, 2000], &knobs);
        driver.occupy(0, 2000);
        driver.alloc(0, 1500);
        driver.occupy(0, -2000);
        driver.run_until(MS);
        load(&mut driver, 0..1500, 1);
        driver.run_until(period_ms * MS - 1);
        assert_eq!(driver.used(0), 0, "nothing before the round at {period_ms} ms");
        driver.run_until(period_ms * MS);
        let asked = driver
            .log
            .iter()
            .filter(|entry| matches!(entry, Entry::Ask { .. }))
            .count();
        assert_eq!(asked, 1500, "3 GiB in one round");
    }
}

/// 6: a direct demotion goes 50 MiB beyond the promotion watermark, where a comment says 100.
#[test]
fn item_6_direct_demotion_goes_50_mib_further() {
    // 8 GiB of fast memory: 3 % are 245.76 MiB, 123 pages.
    for (extra_mib, free) in [(None, 123 + 25), (Some(100.0), 123 + 50)] {
        let knobs: Vec<_> = extra_mib
            .map(|mib| ("direct_demotion_extra_mib", Value::Float(mib)))
            .into_iter()
            .collect();
        let mut driver = driver(PAGE_2M, &[4096, 4096], &knobs);
        driver.alloc(0, 4200);
        driver.run_until(400 * MS);
        assert_eq!(driver.capacity(0) - driver.used(0), free);
    }
}

/// 7: the threshold falls by one bin per halving, where the histogram alone would let it fall at once.
#[test]
fn item_7_the_threshold_falls_one_bin_per_halving() {
    let knobs = [
        ("htmm_adaptation_period", Value::Int(1000)),
        ("cooling_ratio", Value::Int(2)),
    ];
    let mut driver = driver(PAGE_2M, &[4, 40], &knobs);
    driver.alloc(0, 40);
    driver.run_until(MS);
    load(&mut driver, 0..8, 125);
    assert_eq!(
        driver.gauge("active_threshold_bin"),
        8.0,
        "eight pages in bin 7 do not fit"
    );
    // Nothing but one page is sampled from here on; its samples drive the clock. All else cools down for good.
    let mut seen = vec![8];
    for round in 0..12u64 {
        load(&mut driver, 30..31, 1000);
        driver.run_until((round + 1) * 1000 * MS); // both lists are walked
        let (threshold, coolings) = (
            driver.gauge("active_threshold_bin") as i64,
            driver.gauge("coolings") as i64,
        );
        assert!(8 - threshold <= coolings, "{threshold} after {coolings} halvings");
        seen.push(threshold);
    }
    assert!(seen.windows(2).all(|pair| pair[0] - pair[1] <= 1), "{seen:?}");
    assert!(*seen.last().expect("not empty") <= 4, "it does fall: {seen:?}");
    // It rises as far as it has to at once.
    load(&mut driver, 10..20, 400);
    assert!(driver.gauge("active_threshold_bin") >= 8.0);
}

/// 7: a halving before the lists were walked for the last one turns the clock on and does nothing else.
#[test]
fn item_7_overlapping_halvings_only_turn_the_clock() {
    let knobs = [
        ("htmm_adaptation_period", Value::Int(1000)),
        ("cooling_ratio", Value::Int(2)),
        ("htmm_skip_cooling", Value::Bool(false)),
        ("htmm_thres_hot", Value::Int(3)),
    ];
    let hot_after = |walk_between: bool| {
        let mut driver = driver(PAGE_2M, &[20, 20], &knobs);
        driver.alloc(0, 20);
        driver.run_until(MS);
        load(&mut driver, 0..10, 40); // 16 at first, 56 now: bin 5
        load(&mut driver, 10..11, 1600);
        if walk_between {
            driver.run_until(600 * MS);
        }
        load(&mut driver, 10..11, 2000);
        (driver.gauge("overlapping_coolings"), driver.gauge("adaptations"), {
            driver.run_until(1200 * MS);
            driver.gauge("coolings")
        })
    };
    assert_eq!(hot_after(true), (0.0, 2.0, 2.0));
    assert_eq!(hot_after(false), (1.0, 2.0, 2.0));
}

/// 8: new pages start with the count of the bin above the hot threshold.
#[test]
fn item_8_new_pages_start_above_the_hot_threshold() {
    for threshold in [1, 5, 9] {
        let knobs = [("htmm_thres_hot", Value::Int(threshold))];
        let mut huge = driver(PAGE_2M, &[4, 8], &knobs);
        huge.alloc(0, 8);
        huge.run_until(MS);
        assert_eq!(
            huge.gauge("hot_pages"),
            0.0,
            "a new huge page is in the inactive list, in bin 0"
        );
        load(&mut huge, 6..7, 1);
        assert_eq!(huge.gauge("hot_pages"), 1.0, "a single sample makes it hot");
    }
    // A base page is above the threshold even without: it is never demoted for pages that wait.
    let mut base = driver(PAGE_4K, &[16, 64], &[]);
    base.alloc(0, 64);
    base.run_until(MS);
    load(&mut base, 40..44, 1);
    base.run_until(2000 * MS);
    assert_eq!((base.gauge("hot_pages_waiting"), base.used(0)), (4.0, 16));
}

/// 8: with `htmm_skip_cooling` a new page is left out of the next halving.
#[test]
fn item_8_new_pages_may_skip_a_halving() {
    let demoted = |skip: bool| {
        let knobs = [
            ("htmm_adaptation_period", Value::Int(1000)),
            ("cooling_ratio", Value::Int(2)),
            ("htmm_skip_cooling", Value::Bool(skip)),
            ("htmm_thres_hot", Value::Int(2)),
        ];
        // Base pages start at 8, bin 3; halved once they are at 4, bin 2, still hot; twice, bin 1 and cold.
        let mut driver = driver(PAGE_4K, &[32, 64], &knobs);
        driver.alloc(0, 60);
        driver.run_until(MS);
        for round in 1..=2 {
            load(&mut driver, 50..51, 2000);
            driver.run_until(round * 1001 * MS);
        }
        driver.used(0) < 32
    };
    assert!(demoted(false) && !demoted(true));
}
