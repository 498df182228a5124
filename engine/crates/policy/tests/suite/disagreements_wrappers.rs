//! Where papers and published code of the wrappers disagree: both behaviours, side by side. Numbers
//! are those of the project's list of such places. The hosts here are as small as hosts can be.

use std::ops::Range;

use crate::harness::workload;
use crate::harness::{Driver, Entry, MS};
use serde::{Deserialize, Serialize};
use tiertune_policy::registry::{self, PAGE_2M};
use tiertune_policy::{
    Config, Context, Event, Extent, Fault, Needs, Order, Outcome, Page, Placement, Policy, Takeover, Topology, Value,
    alto, colloid,
};

/// Arms all pages every 100 ms, in one scan of `scan_pages` pages that goes round, and promotes
/// what faults in slow memory.
#[derive(Serialize, Deserialize)]
struct Promoter {
    pages: u32,
    cursor: Page,
    scan_pages: u32,
    factor: f64,
    /// Whether somebody else gates promotions, so that fast pages are armed too.
    gated: bool,
}

impl Promoter {
    fn around(topology: &Topology, scan_pages: u32) -> Box<dyn Policy> {
        Box::new(Self {
            pages: topology.pages,
            cursor: 0,
            scan_pages,
            factor: 1.0,
            gated: false,
        })
    }
}

const SCAN_PERIOD: u64 = 100 * MS;

impl Policy for Promoter {
    tiertune_policy::saves_itself!();

    fn needs(&self) -> Needs {
        Needs {
            hint_faults: true,
            ..Needs::default()
        }
    }

    fn hand_over(&mut self, taken: Takeover) -> bool {
        self.gated = taken == Takeover::Gate;
        self.gated
    }

    fn widen_scans(&mut self, factor: f64) -> bool {
        self.factor = factor;
        true
    }

    fn on_alloc(&mut self, _: &Extent, _: &mut Context<'_>) -> Placement {
        Placement::FastestFree
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        if cx.now > 0 {
            let pages = (f64::from(self.scan_pages) * self.factor) as u32;
            let end = (self.cursor + pages).min(self.pages);
            if self.gated {
                cx.arm(self.cursor..end);
            } else {
                (self.cursor..end)
                    .filter(|page| cx.pages.tier_of(*page) > 0)
                    .for_each(|page| cx.arm(page..page + 1));
            }
            cx.spend_in_application(100.0 * f64::from(end - self.cursor));
            self.cursor = if end == self.pages { 0 } else { end };
        }
        cx.wake_at(cx.now + SCAN_PERIOD);
    }

    fn on_faults(&mut self, faults: &[Fault], cx: &mut Context<'_>) {
        for fault in faults.iter().filter(|fault| fault.tier > 0) {
            if cx.pages.free_pages(0) as usize > cx.moves.len() {
                cx.migrate_in_fault(fault, 0);
            }
        }
    }
}

fn topology(fast: u32, slow: u32, pages: u32) -> Topology {
    Topology {
        page_bytes: PAGE_2M,
        pages,
        capacity_pages: vec![fast, slow],
    }
}

fn config(values: &[(&str, Value)]) -> Config {
    values
        .iter()
        .map(|(name, value)| ((*name).to_string(), value.clone()))
        .collect()
}

/// Requests to both tiers at these latencies since the last call.
fn count(driver: &mut Driver, latency_ns: [f64; 2], requests: [f64; 2]) {
    for tier in 0..2 {
        driver.counters.tiers[tier].inserts += requests[tier];
        driver.counters.tiers[tier].occupancy_ns += requests[tier] * latency_ns[tier];
    }
}

/// Core counters since the last call.
fn read(driver: &mut Driver, aol: f64, load_latency: f64) {
    let cores = &mut driver.counters.cores;
    cores.reads += 1e6;
    cores.outstanding_cycles += 1e6 * aol;
    cores.occupancy_cycles += 1e6 * load_latency;
}

fn asked(driver: &Driver) -> Vec<(Page, u8)> {
    let asked = |entry: &Entry| match entry {
        Entry::Ask { request, .. } => Some((request.page, request.to)),
        _ => None,
    };
    driver.log.iter().filter_map(asked).collect()
}

fn armed(driver: &Driver) -> Vec<Page> {
    (0..driver.existing_pages())
        .filter(|page| driver.is_armed(*page))
        .collect()
}

/// A machine with `fast` frames of fast memory taken, so that all `pages` start in slow memory, and then
/// given back.
fn all_in_slow(policy: Box<dyn Policy>, topology: &Topology) -> Driver {
    let mut driver = Driver::new(policy, topology);
    let fast = i64::from(topology.capacity_pages[0]);
    driver.occupy(0, fast);
    driver.alloc(0, topology.pages);
    driver.occupy(0, -fast);
    driver
}

fn colloid_around_promoter(topology: &Topology, values: &[(&str, Value)]) -> Box<dyn Policy> {
    let plain = [
        ("colloid_ewma_alpha", Value::Float(1.0)),
        ("colloid_static_limit_mib", Value::Float(0.0)),
        ("colloid_latency_sample_interval_us", Value::Int(0)),
        ("colloid_quantum_ms", Value::Float(1000.0)),
    ];
    let config = config(&[&plain[..], values].concat());
    colloid::wrap(&config, topology, Promoter::around(topology, topology.pages)).expect("a valid config")
}

/// 9: the port to HeMem finds the shift in closed form, without delta and epsilon.
#[test]
fn closed_form_does_without_delta_and_epsilon() {
    let run = |mode: &str, knob: &str, value: f64| {
        let config = config(&[("colloid_shift_mode", mode.into()), (knob, value.into())]);
        workload::run("colloid+hemem", &config, PAGE_2M, 2).log
    };
    assert!(run("closed_form", "colloid_delta", 0.005) == run("closed_form", "colloid_delta", 0.5));
    assert!(run("closed_form", "colloid_epsilon", 0.001) == run("closed_form", "colloid_epsilon", 0.2));
    assert!(run("binary_search", "colloid_delta", 0.005) != run("binary_search", "colloid_delta", 0.5));
}

/// 9: it moves 50 pages of 2 MiB in a tick at most, by the pairs that shift most; the paper goes by lists.
#[test]
fn fifty_pages_a_tick_by_pairs_or_by_lists() {
    let run = |find: &str| {
        let topology = topology(100, 200, 200);
        let config = config(&[
            ("mmap_filter_size_bytes", 0i64.into()),
            ("colloid_ewma_alpha", 1.0.into()),
            ("colloid_page_find", find.into()),
        ]);
        let mut driver = all_in_slow(
            registry::build("colloid+hemem", &config, &topology).expect("valid"),
            &topology,
        );
        let samples: Vec<(Page, Event)> = (0..200)
            .flat_map(|page| vec![(page, Event::LoadMiss); 1 + page as usize % 16])
            .collect();
        driver.sample(&samples);
        count(&mut driver, [80.0, 300.0], [0.0, 1e9]);
        driver.run_until(10 * MS);
        asked(&driver)
    };
    let (pairs, lists) = (run("sort_pairs"), run("bins"));
    assert_eq!((pairs.len(), lists.len()), (50, 50));
    let samples_of = |asked: &[(Page, u8)]| -> Vec<u32> { asked.iter().map(|(page, _)| 1 + page % 16).collect() };
    // Pairs take the most sampled pages strictly in order; a list is in the order of arrival.
    assert!(samples_of(&pairs).is_sorted_by(|one, next| one >= next));
    assert!(!samples_of(&lists).is_sorted_by(|one, next| one >= next));
    assert!(
        samples_of(&lists).iter().all(|samples| *samples >= 10),
        "the two highest lists"
    );
}

/// 10: the port to TPP looks at the direction only: whatever faults may go up while fast memory is the
/// faster one, and nothing when it is not. The paper lets up what makes up the shift.
#[test]
fn the_gate_of_the_port_knows_the_direction_only() {
    let run = |mode: &str, latency_ns: [f64; 2], requests: [f64; 2]| {
        let topology = topology(8, 16, 16);
        let mut driver = all_in_slow(
            colloid_around_promoter(
                &topology,
                &[
                    ("colloid_shift_mode", mode.into()),
                    ("colloid_dynamic_limit", Value::Bool(false)),
                ],
            ),
            &topology,
        );
        driver.run_until(SCAN_PERIOD + 10);
        // 2.5 requests in the 10 ms that pages stay untouched: each page that faults then is taken for
        // two fifths of all accesses, and half of them is to move.
        count(&mut driver, latency_ns, requests);
        driver.run_until(SCAN_PERIOD + 10 * MS + 10);
        driver.touch(&[0, 1, 2, 3], false);
        asked(&driver)
    };
    let up = |pages: Range<Page>| pages.map(|page| (page, 0)).collect::<Vec<_>>();
    assert_eq!(run("boolean", [80.0, 300.0], [0.0, 2.5]), up(0..4));
    assert_eq!(run("boolean", [300.0, 150.0], [2.0, 0.5]), []);
    assert_eq!(run("binary_search", [80.0, 300.0], [0.0, 2.5]), up(0..1));
    assert_eq!(run("binary_search", [300.0, 150.0], [2.0, 0.5]), []);
}

/// 12: hot is a page that faults soon after it was armed, as the code has it; the paper's text has it
/// the other way round. When fast memory is the slower one, only the hot page goes down.
#[test]
fn a_page_that_faults_soon_is_the_hot_one() {
    let topology = topology(8, 16, 8);
    let policy = colloid_around_promoter(&topology, &[("colloid_shift_mode", "boolean".into())]);
    let mut driver = Driver::new(policy, &topology);
    driver.alloc(0, 8);
    driver.run_until(SCAN_PERIOD + MS);
    assert_eq!(armed(&driver), (0..8).collect::<Vec<_>>(), "fast memory is armed too");
    count(&mut driver, [300.0, 150.0], [1e6, 1e6]);
    driver.touch(&[3], false); // 1 ms after it was armed
    driver.run_until(SCAN_PERIOD + 1500 * MS);
    count(&mut driver, [300.0, 150.0], [1e6, 1e6]);
    driver.touch(&[5], false); // 1.5 s after it was armed, beyond Linux's first threshold of 1 s
    assert_eq!(asked(&driver), [(3, 1)]);
}

/// Refused promotions are reported to the host, and the driver hears nothing of them.
#[test]
fn a_host_hears_of_what_was_refused() {
    struct Deaf(Vec<Outcome>, bool);
    impl Policy for Deaf {
        fn needs(&self) -> Needs {
            Needs {
                hint_faults: true,
                ..Needs::default()
            }
        }
        fn hand_over(&mut self, _: Takeover) -> bool {
            true
        }
        fn on_faults(&mut self, faults: &[Fault], cx: &mut Context<'_>) {
            faults.iter().for_each(|fault| cx.migrate_in_fault(fault, 0));
        }
        fn on_migrations(&mut self, ended: &[tiertune_policy::Migrated], idle: bool, cx: &mut Context<'_>) {
            self.0.extend(ended.iter().map(|migrated| migrated.outcome));
            self.1 |= idle;
            assert!(cx.now > 0);
        }
        fn on_wake(&mut self, cx: &mut Context<'_>) {
            cx.arm(0..2);
        }
        fn gauges(&self) -> Vec<tiertune_policy::Gauge> {
            let refused = self.0.iter().filter(|outcome| **outcome == Outcome::Refused).count();
            vec![tiertune_policy::Gauge {
                name: "refused",
                meaning: "refusals heard of",
                value: if self.1 { refused as f64 } else { -1.0 },
            }]
        }
    }
    let topology = topology(4, 4, 2);
    let values = config(&[("colloid_shift_mode", "boolean".into())]);
    let policy = colloid::wrap(&values, &topology, Box::new(Deaf(Vec::new(), false))).expect("valid");
    let mut driver = all_in_slow(policy, &topology);
    driver.run_until(50 * MS);
    count(&mut driver, [400.0, 150.0], [1e6, 1e6]);
    driver.run_until(100 * MS);
    driver.touch(&[0, 1], false);
    driver.run_until(110 * MS);
    assert_eq!(asked(&driver), []);
    assert_eq!(driver.gauge("refused"), 2.0, "the host's");
}

const HUNDRED_MS: (&str, Value) = ("alto_sample_period_s", Value::Float(0.1));

fn alto_around_promoter(topology: &Topology, scan_pages: u32, values: &[(&str, Value)]) -> Driver {
    let config = config(&[&[HUNDRED_MS][..], values].concat());
    let policy = alto::wrap(&config, topology, Promoter::around(topology, scan_pages)).expect("a valid config");
    all_in_slow(policy, topology)
}

/// 15: the paper scales between the bounds in proportion; the run scripts in steps, and only while
/// loads take more than 100 cycles.
#[test]
fn shipped_steps_and_guard_are_not_the_papers_line() {
    let armed_at = |curve: &str, guard: i64, aol: f64, load_latency: f64| {
        let topology = topology(8, 64, 64);
        let values = [
            ("alto_curve", curve.into()),
            ("alto_min_load_latency_cycles", Value::Int(guard)),
        ];
        let mut driver = alto_around_promoter(&topology, 64, &values);
        driver.run_until(50 * MS);
        read(&mut driver, aol, load_latency);
        driver.run_until(SCAN_PERIOD + MS);
        armed(&driver).len()
    };
    assert_eq!(armed_at("linear", 0, 70.0, 300.0), 32, "half way");
    assert_eq!(armed_at("step", 0, 70.0, 300.0), 16, "4 of 16");
    assert_eq!(armed_at("step", 0, 40.0, 90.0), 0);
    assert_eq!(
        armed_at("step", 100, 40.0, 90.0),
        64,
        "loads are so quick that nothing changes"
    );
    assert_eq!(armed_at("step", 100, 40.0, 110.0), 0);
}

/// 15: the paper means a scan to arm fewer pages; the patched one goes on until it has armed as many,
/// over more of the address space, unless the share is 0.
#[test]
fn the_patched_scanner_arms_as_many_pages() {
    let armed_by = |mode: &str, aol: f64| {
        let topology = topology(8, 256, 256);
        let mut driver = alto_around_promoter(&topology, 64, &[("alto_scan_scale_mode", mode.into())]);
        driver.run_until(50 * MS);
        read(&mut driver, aol, 300.0);
        driver.run_until(SCAN_PERIOD + MS);
        armed(&driver)
    };
    let sixteenths = |of: Range<Page>, scale: u32| of.filter(|page| page % 16 < scale).collect::<Vec<_>>();
    assert_eq!(armed_by("budgeted", 55.0), sixteenths(0..64, 4));
    assert_eq!(armed_by("as_patched", 55.0), sixteenths(0..256, 4));
    assert!(armed_by("budgeted", 30.0).is_empty());
    assert!(armed_by("as_patched", 30.0).is_empty());
    assert_eq!(armed_by("as_patched", 200.0), sixteenths(0..64, 16));
}

/// 15: around Colloid the paper thins what goes up; the patched scanner does not look at the tier, so
/// pages of fast memory fault less as well, and less goes down.
#[test]
fn around_colloid_the_patch_thins_both_directions() {
    let armed_in = |thins: &str| {
        let topology = topology(32, 64, 64);
        let inner = colloid_around_promoter(&topology, &[("colloid_shift_mode", "boolean".into())]);
        let values = config(&[HUNDRED_MS, ("alto_thins", thins.into())]);
        let mut driver = Driver::new(alto::wrap(&values, &topology, inner).expect("valid"), &topology);
        driver.alloc(0, 64); // half of it in fast memory
        driver.run_until(50 * MS);
        read(&mut driver, 70.0, 300.0);
        driver.run_until(SCAN_PERIOD + MS);
        let armed = armed(&driver);
        let in_fast = armed.iter().filter(|page| driver.tier_of(**page) == 0).count();
        (in_fast, armed.len() - in_fast)
    };
    assert_eq!(armed_in("slow"), (32, 16));
    assert_eq!(armed_in("all"), (16, 16));
}

/// The hook of TPP's patch: faults are paid for, and of each ten candidates of a thread the first few pass.
#[test]
fn the_promotion_hook_counts_candidates_of_each_thread() {
    let topology = topology(60, 64, 64);
    let mut driver = alto_around_promoter(&topology, 64, &[("alto_hook", "promote".into())]);
    driver.run_until(50 * MS);
    read(&mut driver, 58.0, 300.0); // 0.3 of the way: 3 of 10
    driver.run_until(SCAN_PERIOD + MS);
    assert_eq!(armed(&driver).len(), 64, "all are armed");
    driver.touch(&(0..48).collect::<Vec<_>>(), false); // by four threads in turn, twelve candidates each
    // The first three of a thread's first ten pass, then the first two of its next.
    let nth = |page: &Page| page / 4;
    let expected: Vec<(Page, u8)> = (0..48)
        .filter(|page| nth(page) % 10 < 3)
        .map(|page| (page, 0))
        .collect();
    assert_eq!(asked(&driver), expected);
}

/// What is not armed is not paid for: scans cost as much less as they arm fewer pages.
#[test]
fn a_thinned_scan_costs_less() {
    let cost = |aol: f64| {
        let topology = topology(8, 64, 64);
        let mut driver = alto_around_promoter(&topology, 64, &[]);
        driver.run_until(50 * MS);
        read(&mut driver, aol, 300.0);
        driver.run_until(SCAN_PERIOD + MS);
        let ns = |entry: &Entry| match entry {
            Entry::Order {
                order: Order::InApplication(ns),
                ..
            } => *ns,
            _ => 0,
        };
        driver.log.iter().map(ns).sum::<u64>()
    };
    assert_eq!((cost(200.0), cost(70.0), cost(30.0)), (6400, 3200, 0));
}

#[test]
fn senseless_compositions_are_refused_with_a_reason() {
    for (name, reason) in [
        ("alto+hemem", "takes no hint faults"),
        ("alto+colloid+hemem", "takes no hint faults"),
        ("colloid+notier", "offers neither"),
        ("colloid+mru", "offers neither"),
        ("colloid+alto+hemem", "'alto' goes around 'colloid'"),
        ("colloid+colloid+hemem", "'colloid' twice"),
    ] {
        let error = registry::find(name)
            .err()
            .unwrap_or_else(|| panic!("{name} is accepted"));
        assert!(error.to_string().contains(reason), "{name}: {error}");
    }
}
