//! The oracle that moves pages at no cost is a bound: nothing that is registered runs faster.
//!
//! A bound can be wrong. It would be if the truth were not what the simulator does, if moves were not
//! free, if a phase began unnoticed, or if the balanced share were no optimum.

use std::collections::BTreeMap;

use crate::support::{MIB, compile, hot_set, machine, private_hot_sets, request, scan_and_gather, skewed_chase};
use serde_json::{Value, json};
use tiertune_policy::registry::{self, Composed, PAGE_2M, PAGE_4K};
use tiertune_policy::{Config, Value as KnobValue};
use tiertune_sim::scenario::{Contention, Mode};
use tiertune_sim::{Request, Workload, run, run_many};

/// So much faster may another system be by the errors of rounding and of the search for a share.
const SLACK: f64 = 1.002;

fn config(words: &[(&str, &str)]) -> Config {
    let pairs = words.iter();
    pairs
        .map(|(name, word)| ((*name).into(), KnobValue::from(*word)))
        .collect()
}

/// Twelve threads that want more bandwidth than the fast tier has.
fn heavy_stream(bytes: u64, ops: f64) -> Value {
    json!({"objects": [{"name": "t", "bytes": bytes}], "blocks": [{"phases": [{"name": "p", "groups": [
        {"name": "w", "threads": 18, "ops": ops, "cpu_ns_per_op": 2.0, "streams": [
            {"object": "t", "law": {"kind": "pieces", "edges": [0.0, 0.1, 1.0], "weights": [0.9, 0.1]}, "class": "gather",
             "mlp": 10.0, "reads_per_op": 1.0}]}]}]}]})
}

/// The second of two objects comes late and goes early.
fn passing_object(bytes: u64, ops: f64) -> Value {
    let phase = |name: &str, object: &str, lists: Value| {
        let mut phase = json!({"name": name, "groups": [{"name": "w", "threads": 4, "ops": ops, "cpu_ns_per_op": 20.0,
            "streams": [{"object": object, "law": {"kind": "pieces", "edges": [0.0, 0.2, 1.0], "weights": [0.9, 0.1]},
                "class": "gather", "reads_per_op": 1.0}]}]});
        for (key, list) in lists.as_object().expect("lists by key") {
            phase[key] = list.clone();
        }
        phase
    };
    json!({"objects": [{"name": "a", "bytes": bytes}, {"name": "b", "bytes": bytes / 4}],
        "blocks": [{"phases": [phase("1", "a", json!({})), phase("2", "b", json!({"allocate": ["b"]})),
            phase("3", "a", json!({"free": ["b"]}))]}]})
}

/// Compares all systems on pages of `page_bytes`, and those that do not manage such on pages that they do.
fn check(name: &str, model: &Value, page_bytes: u64, fast_bytes: u64) {
    // All-fast has more fast memory than there is.
    let systems: Vec<Composed> = registry::listed()
        .into_iter()
        .filter(|s| s.name() != "all-fast")
        .collect();
    let mut sizes: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for system in systems {
        let managed = system.page_bytes();
        let size = if managed.contains(&page_bytes) {
            page_bytes
        } else {
            managed[0]
        };
        sizes.entry(size).or_default().push(system.name());
    }
    let slowest = sizes.into_iter().map(|(size, mut names)| {
        names.retain(|name| name != "oracle");
        let name = format!("{name} in pages of {size}");
        slowest(&name, &compile(model.clone(), size), fast_bytes, &names)
    });
    let slowest = slowest.fold(0.0, f64::max);
    assert!(slowest > 1.05, "{name}: nothing is to be gained here");
}

/// The longest runtime of the systems called `names`, as a multiple of the oracle's, which is the shortest.
fn slowest(name: &str, workload: &Workload, fast_bytes: u64, names: &[String]) -> f64 {
    let on = |system: &str| Request {
        machine: machine(2),
        ..request(system, Config::new(), workload.page_bytes, fast_bytes, 3)
    };
    let requests: Vec<Request> = names.iter().map(|name| on(name)).chain([on("oracle")]).collect();
    let mut runtimes: Vec<f64> = run_many(workload, &requests, 2)
        .into_iter()
        .map(|result| result.expect("a run").metrics.runtime_s)
        .collect();
    let bound = runtimes.pop().expect("the oracle's");
    for (system, runtime) in names.iter().zip(&runtimes) {
        println!("{name}: {system} {:.3} of the oracle", runtime / bound);
    }
    for (system, runtime) in names.iter().zip(&runtimes) {
        assert!(
            bound <= runtime * SLACK,
            "{name}: {system} takes {runtime} s, the oracle {bound} s"
        );
    }
    runtimes
        .iter()
        .fold(0.0, |most: f64, runtime| most.max(runtime / bound))
}

const BYTES: u64 = 1024 * MIB;

#[test]
fn nothing_beats_it_on_a_moving_hot_set() {
    check("moving hot set", &hot_set(BYTES, 4e7), PAGE_2M, BYTES / 9);
}

#[test]
fn nothing_beats_it_on_private_hot_sets() {
    check("private hot sets", &private_hot_sets(BYTES, 4e7), PAGE_2M, BYTES / 9);
}

#[test]
fn nothing_beats_it_on_a_skewed_chase() {
    check("skewed chase", &skewed_chase(BYTES, 4e7), PAGE_2M, BYTES / 9);
    check(
        "skewed chase in small pages",
        &skewed_chase(BYTES / 8, 4e7),
        PAGE_4K,
        BYTES / 72,
    );
}

#[test]
fn nothing_beats_it_beside_a_scan() {
    check("scan and gather", &scan_and_gather(BYTES, 4e7), PAGE_2M, BYTES / 9);
}

#[test]
fn nothing_beats_it_where_the_fast_tier_is_full_of_traffic() {
    check("heavy stream", &heavy_stream(BYTES, 4e8), PAGE_2M, BYTES / 2);
}

#[test]
fn nothing_beats_it_when_objects_come_and_go() {
    check("passing object", &passing_object(BYTES, 2e7), PAGE_2M, BYTES / 5);
}

/// A co-runner that comes later makes the fast tier the slower one: the share that was best is not any more.
#[test]
fn the_balanced_oracle_notices_a_co_runner() {
    let workload = compile(hot_set(BYTES, 8e7), PAGE_2M);
    let of = |value| {
        let mut request = request("oracle", config(&[("value", value)]), PAGE_2M, BYTES / 2, 3);
        request.contention = vec![Contention {
            tier: 0,
            read_gbps: 55.0,
            from_s: 0.3,
            ..Contention::default()
        }];
        run(&workload, &request).expect("a run").metrics.runtime_s
    };
    let (stall, balanced) = (of("stall"), of("latency-balanced"));
    assert!(balanced < 0.97 * stall, "stall {stall}, balanced {balanced}");
}

fn runtime(workload: &Workload, system: &str, words: &[(&str, &str)], mode: Mode) -> f64 {
    let fast_bytes = u64::from(workload.pages) * workload.page_bytes / 9;
    let mut request = request(system, config(words), workload.page_bytes, fast_bytes, 3);
    request.mode = mode;
    run(workload, &request).expect("a run").metrics.runtime_s
}

/// Where the hot set moves, each grade gives up what the one before it could do.
#[test]
fn grades_are_in_order() {
    let workload = compile(hot_set(BYTES, 4e7), PAGE_2M);
    let of = |grade| runtime(&workload, "oracle", &[("grade", grade)], Mode::Fast);
    let (free, costs, fixed) = (of("free"), of("costs"), of("static"));
    assert!(
        free < costs && costs < fixed,
        "free {free}, costs {costs}, static {fixed}"
    );
    // The split with all of the hot set is a static placement too, by reads instead of stalls.
    let split = runtime(&workload, "static", &[], Mode::Fast);
    assert!(fixed <= split * SLACK, "static grade {fixed}, static {split}");
}

/// A scan reads most, a chase beside it waits most.
#[test]
fn stalls_are_worth_more_than_reads_where_parallelism_differs() {
    let model = json!({"objects": [{"name": "s", "bytes": BYTES / 16}, {"name": "c", "bytes": BYTES / 16}, {"name": "x", "bytes": BYTES}],
        "blocks": [{"phases": [{"name": "p", "groups": [
            {"name": "w", "threads": 4, "ops": 4e7, "cpu_ns_per_op": 20.0, "streams": [
                {"object": "s", "law": {"kind": "uniform"}, "class": "gather", "mlp": 10.0, "reads_per_op": 2.0},
                {"object": "c", "law": {"kind": "uniform"}, "class": "chase", "mlp": 1.0, "reads_per_op": 1.0}]}]}]}]});
    let workload = compile(model, PAGE_2M);
    let of = |value| {
        let mut request = request("oracle", config(&[("value", value)]), PAGE_2M, BYTES / 16, 3);
        request.machine = machine(3);
        run(&workload, &request).expect("a run").metrics.runtime_s
    };
    let (freq, stall) = (of("freq"), of("stall"));
    assert!(stall < 0.95 * freq, "stall {stall}, freq {freq}");
}

/// Where the fast tier is the bottleneck, only the balanced oracle leaves something below.
#[test]
fn a_balanced_split_beats_all_hot_pages_in_a_saturated_tier() {
    let workload = compile(heavy_stream(BYTES, 4e8), PAGE_2M);
    for grade in ["free", "static", "costs"] {
        let of = |value| {
            let words = [("grade", grade), ("value", value)];
            let request = request("oracle", config(&words), PAGE_2M, BYTES / 2, 3);
            run(&workload, &request).expect("a run").metrics.runtime_s
        };
        let (stall, balanced) = (of("stall"), of("latency-balanced"));
        println!("{grade}: stall {stall}, balanced {balanced}");
        assert!(balanced < 0.97 * stall, "{grade}: stall {stall}, balanced {balanced}");
    }
}

/// Moves at no cost happen at the same times in both modes, and cost nothing in either.
#[test]
fn both_modes_agree() {
    let workload = compile(hot_set(BYTES, 6e6), PAGE_2M);
    for (system, words) in [
        ("oracle", vec![]),
        ("oracle", vec![("grade", "static")]),
        ("oracle", vec![("grade", "costs")]),
        ("static", vec![]),
    ] {
        let (fast, reference) = (
            runtime(&workload, system, &words, Mode::Fast),
            runtime(&workload, system, &words, Mode::Reference),
        );
        println!("{system} {words:?}: fast {fast}, reference {reference}");
        assert!(
            (fast / reference - 1.0).abs() <= 0.02,
            "{system} {words:?}: fast {fast}, reference {reference}"
        );
    }
}
