//! What is counted beside the metrics: it changes nothing, and both modes count alike.

use std::collections::BTreeMap;

use crate::support::{MIB, compile, hot_set, request, scan_and_gather};
use serde_json::json;
use tiertune_policy::knob::{Config, Value};
use tiertune_policy::registry::PAGE_2M;
use tiertune_sim::observe::Observe;
use tiertune_sim::scenario::Mode;
use tiertune_sim::{Request, RunResult, Workload};

const ALL: [Observe; 3] = [Observe::Counters, Observe::Objects, Observe::Gauges];

fn hemem(period: i64, fast_bytes: u64, observe: &[Observe]) -> Request {
    let config = Config::from([("sampling_period".to_string(), Value::Int(period))]);
    Request {
        observe: observe.to_vec(),
        ..request("hemem", config, PAGE_2M, fast_bytes, 1)
    }
}

fn run(workload: &Workload, request: &Request) -> RunResult {
    tiertune_sim::run(workload, request).expect("a run")
}

#[test]
fn observing_changes_nothing() {
    let workload = compile(hot_set(512 * MIB, 4e6), PAGE_2M);
    for mode in [Mode::Fast, Mode::Reference] {
        let plain = Request {
            mode,
            timeline_points: 20,
            ..hemem(500, 64 * MIB, &[])
        };
        let alone = run(&workload, &plain);
        assert!(alone.observed.is_empty());
        let watched = run(
            &workload,
            &Request {
                observe: ALL.to_vec(),
                ..plain
            },
        );
        assert!(watched.observed.len() > 16);
        assert_eq!(
            RunResult {
                observed: BTreeMap::new(),
                ..watched
            },
            alone
        );
    }
}

/// One object whose pages are read equally often.
fn uniform(ops: f64) -> serde_json::Value {
    json!({"objects": [{"name": "t", "bytes": 512 * MIB}],
        "blocks": [{"phases": [{"name": "p", "groups": [{"name": "w", "threads": 4, "ops": ops, "cpu_ns_per_op": 20.0,
            "streams": [{"object": "t", "law": {"kind": "uniform"}, "class": "update", "reads_per_op": 1.0}]}]}]}]})
}

/// Each of n samples falls on one of k pages by chance: variance over mean is (1 - 1/k) k/(k-1) = 1, up to its own
/// chance, sqrt(2 / k) of it.
#[test]
fn samples_of_equal_pages_scatter_as_thinning_does() {
    let workload = compile(uniform(2e7), PAGE_2M);
    let tolerance = 4.0 * (2.0_f64 / 256.0).sqrt();
    for mode in [Mode::Fast, Mode::Reference] {
        let mut before = 0.0;
        for period in [500, 5000] {
            let observed = run(
                &workload,
                &Request {
                    mode,
                    ..hemem(period, 64 * MIB, &[Observe::Objects])
                },
            )
            .observed;
            let of = |figure: &str| observed[&format!("object.t.{figure}")];
            let mean = 2e7 / period as f64 / 256.0;
            assert!(
                (of("samples_per_page") / mean - 1.0).abs() < 0.03,
                "{mode:?} {observed:?}"
            );
            assert!(
                (of("samples_dispersion") - 1.0).abs() < tolerance,
                "{mode:?} {observed:?}"
            );
            let cv = (of("samples_dispersion") / of("samples_per_page")).sqrt();
            assert!((of("samples_cv") / cv - 1.0).abs() < 1e-9, "one set of pages");
            assert!(of("samples_cv") > 2.0 * before, "sparser samples scatter more");
            before = of("samples_cv");
        }
    }
}

/// Pages of a hot set are compared with each other, not with the others.
#[test]
fn unequal_pages_are_sets_of_their_own() {
    let laws = json!({"kind": "pieces", "edges": [0.0, 0.25, 1.0], "weights": [0.9, 0.1]});
    let mut model = uniform(2e7);
    model["blocks"][0]["phases"][0]["groups"][0]["streams"][0]["law"] = laws;
    let observed = run(&compile(model, PAGE_2M), &hemem(500, 64 * MIB, &[Observe::Objects])).observed;
    let dispersion = observed["object.t.samples_dispersion"];
    assert!((0.6..1.4).contains(&dispersion), "{dispersion}");
}

#[test]
fn objects_have_their_reads_and_places() {
    let workload = compile(scan_and_gather(512 * MIB, 2e7), PAGE_2M);
    let fast = Request {
        system: "notier".into(),
        config: Config::new(),
        ..hemem(500, 256 * MIB, &ALL)
    };
    let reference = Request {
        mode: Mode::Reference,
        ..fast.clone()
    };
    let (fast, reference) = (run(&workload, &fast), run(&workload, &reference));
    // First touch: the first object fills fast memory, but for what a kernel keeps free.
    assert!(fast.observed["object.s.fast_share"] > 0.98);
    assert!(fast.observed["object.h.fast_share"] < 0.02);
    let reads: f64 = ["s", "h"]
        .iter()
        .map(|name| fast.observed[&format!("object.{name}.reads_per_page")])
        .sum();
    assert!((reads * 128.0 / fast.metrics.simulated_accesses - 1.0).abs() < 1e-9);
    for name in [
        "counter.stall_cycles",
        "counter.misses",
        "counter.parallelism",
        "object.h.reads_per_page",
    ] {
        let (a, b) = (fast.observed[name], reference.observed[name]);
        assert!((a / b - 1.0).abs() < 0.05, "{name}: {a} against {b}");
    }
    assert!(fast.observed["counter.stall_cycles"] < fast.observed["counter.cycles"]);
    assert_eq!(
        fast.observed["counter.fast_misses"] + fast.observed["counter.slow_misses"],
        fast.observed["counter.misses"]
    );
}

#[test]
fn gauges_have_their_range_over_time() {
    let workload = compile(hot_set(512 * MIB, 4e7), PAGE_2M);
    let run = run(
        &workload,
        &Request {
            system: "memtis".into(),
            config: Config::new(),
            ..hemem(500, 64 * MIB, &[Observe::Gauges])
        },
    );
    assert!(run.metrics.runtime_s > 0.4, "several readings");
    let mut moved = 0;
    for name in run.gauges.keys() {
        let [low, mean, high] = ["lowest", "mean", "highest"].map(|of| run.observed[&format!("gauge.{name}.{of}")]);
        assert!(low <= mean && mean <= high, "{name}: {low} {mean} {high}");
        moved += usize::from(low < mean && mean < high);
    }
    assert!(moved > 0, "{:?}", run.observed);
}
