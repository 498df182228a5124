//! The fast mode against the reference mode for a system that sees nothing but accessed bits: `hmsdk` with intervals
//! short enough for a run of a fraction of a second. The bounds are those of `support/fidelity.rs`.

use crate::support::fidelity::{Scene, check_errors, runtimes};
use crate::support::{MIB, compile};
use serde_json::{Value, json};
use tiertune_policy::knob::Config;
use tiertune_policy::registry::PAGE_2M;
use tiertune_sim::Workload;
use tiertune_sim::scenario::Mode;

const FAST_SEEDS: u64 = 64;

fn configs() -> Vec<Config> {
    let base = [
        ("sample_interval_us", 1_000i64.into()),
        ("min_regions", 200i64.into()),
        ("quota_reset_interval_s", 0.5.into()),
    ];
    let with = |changes: &[(&str, tiertune_policy::Value)]| -> Config {
        let all = base.iter().chain(changes);
        all.map(|(name, value)| ((*name).to_string(), value.clone())).collect()
    };
    vec![
        with(&[("dem_age_min_s", 0.1.into())]),
        with(&[("dem_age_min_s", 0.1.into()), ("young_filter", false.into())]),
        with(&[
            ("dem_age_min_s", 0.1.into()),
            ("aggr_ratio", 5i64.into()),
            ("prom_accesses_min_percent", 60.0.into()),
        ]),
        with(&[
            ("dem_age_min_s", 0.1.into()),
            ("prom_quota_ms", 10i64.into()),
            ("weight_accesses_permil", 1000i64.into()),
        ]),
        with(&[
            ("dem_accesses_ratio", 0.9.into()),
            ("prom_accesses_min_percent", 80.0.into()),
            ("dem_age_min_s", 0.1.into()),
        ]),
    ]
}

/// Where regions are cut decides by chance when the hot ones are found, and so how many runs make a mean.
fn check(name: &str, workload: &Workload, fast_bytes: u64, reference_seeds: u64) {
    let scene = Scene {
        workload,
        system: "hmsdk",
        configs: &configs(),
        fast_bytes,
        slice_ns: 1_000_000,
    };
    let fast = scene.means(Mode::Fast, FAST_SEEDS);
    let truth = scene.means(Mode::Reference, reference_seeds);
    println!("{name}: fast {fast:?}, reference {truth:?}");
    let moving = truth.iter().filter(|means| means.promotions >= 1.0).count();
    assert!(
        moving >= 3,
        "{name}: pages move with {moving} settings only, so this shows nothing"
    );
    check_errors(name, &runtimes(&fast), &runtimes(&truth));
}

/// A hot tenth in slow memory and an idle rest: what regions can tell apart.
fn hot_tenth(bytes: u64, ops: f64) -> Value {
    json!({"objects": [{"name": "t", "bytes": bytes}], "blocks": [{"phases": [{"name": "p", "groups": [
        {"name": "w", "threads": 4, "ops": ops, "cpu_ns_per_op": 100.0, "streams": [
            {"object": "t", "law": {"kind": "uniform", "from": 0.6, "to": 0.7}, "class": "update", "mlp": 1.0,
             "reads_per_op": 1.0, "writebacks_per_op": 1.0, "stores_per_op": 1.0},
            {"object": "t", "law": {"kind": "uniform"}, "class": "update", "mlp": 1.0,
             "reads_per_op": 0.0001, "writebacks_per_op": 0.0001, "stores_per_op": 0.0001}]}]}]}]})
}

/// A sweep beside a hot set: bits are set in order by the one and at random by the other.
fn sweep_and_gather(bytes: u64, ops: f64) -> Value {
    json!({"objects": [{"name": "s", "bytes": bytes / 2}, {"name": "h", "bytes": bytes / 2}],
        "blocks": [{"phases": [{"name": "p", "groups": [{"name": "w", "threads": 4, "ops": ops, "cpu_ns_per_op": 60.0,
            "streams": [
                {"object": "s", "law": {"kind": "sweep"}, "class": "stream", "reads_per_op": 0.7},
                {"object": "h", "law": {"kind": "pieces", "edges": [0.0, 0.1, 1.0], "weights": [0.9999, 0.0001]},
                 "class": "gather", "reads_per_op": 0.3}]}]}]}]})
}

#[test]
fn a_hot_tenth() {
    let bytes = 1024 * MIB;
    check("hot tenth", &compile(hot_tenth(bytes, 6e6), PAGE_2M), bytes / 9, 8);
}

#[test]
fn a_sweep_beside_a_hot_set() {
    let bytes = 1024 * MIB;
    check(
        "sweep and gather",
        &compile(sweep_and_gather(bytes, 2.5e7), PAGE_2M),
        bytes / 9,
        4,
    );
}
