//! Where papers on Nomad and its code differ, in the numbering of the list of disagreements (17).

use crate::harness::{Driver, Entry, MS};
use tiertune_policy::registry::{self, PAGE_4K};
use tiertune_policy::{Config, Order, Page, Topology, Value};

const PAGES: u32 = 40;

/// All pages in slow memory, marked; fast memory empty.
fn machine(config: &[(&str, Value)]) -> Driver {
    let topology = Topology {
        page_bytes: PAGE_4K,
        pages: PAGES,
        capacity_pages: vec![400, 400],
    };
    let config: Config = config
        .iter()
        .map(|(name, value)| ((*name).to_string(), value.clone()))
        .collect();
    let policy = registry::build("nomad", &config, &topology).expect("valid");
    let mut driver = Driver::new(policy, &topology);
    driver.occupy(0, 400);
    driver.alloc(0, PAGES);
    driver.occupy(0, -400);
    driver.run_until(1000 * MS);
    driver
}

fn promoted(driver: &Driver) -> Vec<Page> {
    let asked = driver.log.iter().filter_map(|entry| match entry {
        Entry::Ask { request, .. } if request.to == 0 => Some(request.page),
        _ => None,
    });
    asked.collect()
}

/// 17: a page that faults is judged only when others fault after it, whatever happens to it meanwhile; three later faults
/// of other pages are enough in the module's code, and no touch of the page itself is needed.
#[test]
fn disagreement_17_a_page_is_judged_when_later_pages_fault() {
    let mut driver = machine(&[("activation_batch", Value::Int(1))]);
    driver.touch(&[0], false);
    for _ in 0..100 {
        driver.run_until(driver.now + MS);
        driver.touch(&[0], false); // hot, and alone
    }
    assert!(promoted(&driver).is_empty());
    for page in 1..=3 {
        driver.touch(&[page], false);
    }
    assert_eq!(promoted(&driver), [0]);

    // With accessed bits cleared, as its authors planned, pages that rest do not rise.
    let mut driver = machine(&[("lookback_clears_accessed", Value::Bool(true))]);
    for page in 0..10 {
        driver.touch(&[page], false);
    }
    assert!(promoted(&driver).is_empty());
}

/// 17: but for the kernel, which collects pages that are to become active, 15 for each CPU, and moves none of them meanwhile. More than three
/// faults go by, and a page that another CPU's batch holds when it becomes active is copied until its passes are used up.
#[test]
fn disagreement_17_pages_wait_in_batches_of_cpus() {
    let faulting_one_by_one = || {
        let mut driver = machine(&[]);
        for page in 0..20 {
            driver.touch(&[page], false); // always the same thread
            driver.run_until(driver.now + MS);
        }
        driver
    };
    let driver = faulting_one_by_one();
    let faults_back = 19 - promoted(&driver).len();
    assert!(faults_back > 3, "{faults_back}");
    assert_eq!(driver.gauge("held_copies"), 0.0, "one thread has one batch");

    let mut driver = machine(&[]);
    for first in (0..PAGES).step_by(4) {
        driver.touch(&[first, first + 1, first + 2, first + 3], false); // four threads
        driver.run_until(driver.now + MS);
    }
    let given_up = driver.gauge("held_promotions");
    assert!(given_up > 0.0);
    assert!(driver.gauge("held_copies") >= 10.0 * given_up, "ten passes each");
    assert!(!promoted(&driver).is_empty(), "some are in no other batch");
}

/// 17: looking back is done under one lock, so that threads that fault at once wait for each other.
#[test]
fn disagreement_17_faults_at_once_wait_for_each_other() {
    // What faults cost the application: those of four threads at a time, or of one thread now and then.
    let spent = |at_once: usize| {
        let mut driver = machine(&[]);
        let mut spent = 0;
        for pages in (0..4).collect::<Vec<Page>>().chunks(at_once) {
            driver.run_until(driver.now + MS);
            let before = driver.log.len();
            driver.touch(pages, false);
            let orders = driver.log[before..].iter().filter_map(|entry| match entry {
                Entry::Order {
                    order: Order::InApplication(ns),
                    ..
                } => Some(*ns),
                _ => None,
            });
            spent += orders.sum::<u64>();
        }
        spent
    };
    let apart = spent(1);
    // The second waits for one, the third for two and the fourth for three that look at less than it does.
    assert!(apart > 0 && spent(4) > 3 * apart / 2, "{} for {apart}", spent(4));
}

/// 17: a page that is not accessed is forgotten once more than so many have faulted between it and the one that looks back.
#[test]
fn disagreement_17_twenty_faults_are_looked_back_on() {
    for distance in [20, 5] {
        let mut driver = machine(&[
            ("lookback_clears_accessed", Value::Bool(true)),
            ("pf_lookback_dist", Value::Int(distance)),
        ]);
        let dropped = |driver: &Driver| driver.gauge("lookback_dropped");
        let last = distance as Page + 2;
        for page in 0..last {
            driver.touch(&[page], false);
        }
        assert_eq!(dropped(&driver), 0.0, "{distance}");
        driver.touch(&[last], false);
        assert_eq!(dropped(&driver), 1.0, "{distance}");
    }
}

/// 17: the patch wants 2 % of fast memory free, the runs of the Alto artifact 10 %.
#[test]
fn disagreement_17_the_share_kept_free_is_a_knob() {
    let free_after = |factor: i64| {
        let topology = Topology {
            page_bytes: PAGE_4K,
            pages: 1 << 18,
            capacity_pages: vec![1 << 18, 1 << 18],
        };
        let config = Config::from([("demote_scale_factor".to_string(), Value::Int(factor))]);
        let policy = registry::build("nomad", &config, &topology).expect("valid");
        let mut driver = Driver::new(policy, &topology);
        driver.alloc(0, 1 << 18); // fast memory down to its low watermark
        driver.run_until(3000 * MS);
        f64::from(driver.capacity(0) - driver.used(0)) / f64::from(driver.capacity(0))
    };
    for (factor, share) in [(200, 0.02), (1000, 0.1)] {
        let free = free_after(factor);
        assert!((free - share).abs() < 0.002, "{factor}: {free}");
    }
    let default = registry::find("nomad").expect("listed").knobs();
    let default = default.iter().find(|knob| knob.name == "demote_scale_factor");
    assert_eq!(default.expect("declared").default, Value::Int(200));
}
