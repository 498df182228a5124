//! Where the sources on HMSDK disagree: the tuning study gives thresholds in counts and seconds, the generator in
//! percent and seconds, and the kernel keeps counts of samples and of aggregations, whatever an aggregation lasts.

use crate::harness::{Driver, Entry, MS};
use tiertune_policy::registry::{self, PAGE_2M};
use tiertune_policy::{Config, Topology, Value};

const FAST: u32 = 8;
const SLOW: u32 = 16;

fn machine(config: &[(&str, Value)]) -> Driver {
    let topology = Topology {
        page_bytes: PAGE_2M,
        pages: FAST + SLOW,
        capacity_pages: vec![FAST, SLOW],
    };
    let mut all = Config::from([
        ("young_filter".to_string(), Value::Bool(false)),
        ("prom_accesses_min_percent".to_string(), Value::Float(100.0)),
    ]);
    all.extend(config.iter().map(|(name, value)| ((*name).to_string(), value.clone())));
    let policy = registry::build("hmsdk", &all, &topology).expect("a valid config");
    Driver::new(policy, &topology)
}

/// Seconds until the first page of idle fast memory is demoted.
fn first_demotion_s(config: &[(&str, Value)]) -> f64 {
    let mut driver = machine(config);
    driver.alloc(0, FAST);
    driver.run_until(400_000 * MS);
    let asked = driver.log.iter().find_map(|entry| match entry {
        Entry::Ask { at, .. } => Some(*at),
        _ => None,
    });
    asked.expect("idle memory is demoted at last") as f64 / 1e9
}

/// Disagreement 20: 30 s are 15 aggregations of 2 s. An aggregation of 0.5 s makes that 7.5 s if the number stays,
/// and 60 aggregations if it is derived again.
#[test]
fn an_age_lasts_as_long_as_aggregations_do_unless_it_is_derived_again() {
    let shorter = ("sample_interval_us", Value::Int(25_000));
    let kernel = ("thresholds", Value::Text("kernel".to_string()));
    let close =
        |seconds: f64, expected: f64| assert!((seconds - expected).abs() < 0.1, "{seconds} s, not {expected} s");
    close(first_demotion_s(&[]), 30.0);
    close(first_demotion_s(std::slice::from_ref(&kernel)), 30.0);
    close(first_demotion_s(std::slice::from_ref(&shorter)), 30.0);
    close(first_demotion_s(&[shorter, kernel]), 7.5);
}

/// Pages promoted in 20 s when slow memory is touched between every fourth pair of looks: a rate of 25 %.
fn promoted(config: &[(&str, Value)]) -> u32 {
    let mut driver = machine(config);
    driver.occupy(0, i64::from(FAST));
    driver.alloc(0, SLOW);
    driver.occupy(0, -i64::from(FAST));
    let pages: Vec<u32> = (0..SLOW).collect();
    for look in 0..200 {
        driver.run_until(look * 100 * MS + 50 * MS);
        if look % 4 == 0 {
            driver.touch(&pages, false);
        }
    }
    (0..SLOW).filter(|page| driver.tier_of(*page) == 0).count() as u32
}

/// Disagreement 20: 20 % are 4 of 20 samples. Of 12 samples a quarter are 3: enough for 20 %, but not for 4 samples.
#[test]
fn a_rate_is_a_count_of_samples_unless_it_is_derived_again() {
    let rate = ("prom_accesses_min_percent", Value::Float(20.0));
    let fewer = ("aggr_ratio", Value::Int(12));
    let kernel = ("thresholds", Value::Text("kernel".to_string()));
    assert_eq!(promoted(std::slice::from_ref(&rate)), FAST);
    assert_eq!(promoted(&[rate.clone(), fewer.clone()]), FAST);
    assert_eq!(promoted(&[rate, fewer, kernel]), 0);
}
