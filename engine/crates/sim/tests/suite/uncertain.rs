//! Figures of a machine that the model takes as its own unless told otherwise: cost of moves, misses in flight.

use crate::support::{MIB, compile, request};
use serde_json::{Value, json};
use tiertune_sim::run;
use tiertune_sim::scenario::Mode;

const PAGE_2M: u64 = 2 << 20;
const PAGE_4K: u64 = 4 << 10;

/// Random reads of fast memory and nothing else, so that run time is latency over misses in flight.
fn random_reads(mlp: Option<f64>) -> Value {
    json!({"objects": [{"name": "t", "bytes": 64 * MIB}], "blocks": [{"phases": [{"name": "p", "groups": [
        {"name": "w", "threads": 2, "ops": 1e6, "cpu_ns_per_op": 0.0, "streams": [
            {"object": "t", "law": {"kind": "uniform"}, "class": "random", "reads_per_op": 1.0, "mlp": mlp}]}]}]}]})
}

fn runtime_s(mode: Mode, own: Option<f64>, of_machine: Option<f64>) -> f64 {
    let mut request = request("all-fast", Default::default(), PAGE_2M, 64 * MIB, 1);
    request.machine.llc_bytes = 1024;
    request.machine.parallelism.random = of_machine;
    request.mode = mode;
    run(&compile(random_reads(own), PAGE_2M), &request)
        .expect("a run")
        .metrics
        .runtime_s
}

#[test]
fn a_machine_says_how_many_misses_of_a_class_overlap() {
    for mode in [Mode::Fast, Mode::Reference] {
        let usual = runtime_s(mode, None, None);
        let half = runtime_s(mode, None, Some(4.0)) / usual;
        // Half the misses in flight is a little less than twice the time: traffic and with it latency fall.
        assert!((1.9..=2.01).contains(&half), "{mode:?}: {half}");
        let own = runtime_s(mode, Some(8.0), Some(4.0)) / usual;
        assert!(
            (own - 1.0).abs() < 1e-9,
            "{mode:?}: a stream's own number comes first, {own}"
        );
        // There are 12 fill buffers.
        let most = runtime_s(mode, None, Some(64.0)) / runtime_s(mode, None, Some(12.0));
        assert!((most - 1.0).abs() < 1e-9, "{mode:?}: {most}");
    }
}

/// Moves of the hot set that first touch leaves in slow memory.
fn busy_s_per_move(cost: f64) -> f64 {
    let workload = json!({"objects": [{"name": "t", "bytes": 1024 * MIB}], "blocks": [{"phases": [
        {"name": "p", "groups": [{"name": "w", "threads": 4, "ops": 4e7, "cpu_ns_per_op": 20.0, "streams": [
            {"object": "t", "law": {"kind": "pieces", "edges": [0.0, 0.9, 1.0], "weights": [0.1, 0.9]}, "class": "random",
             "reads_per_op": 1.0}]}]}]}]});
    let mut config = tiertune_policy::Config::new();
    for (knob, value) in [
        ("sampling_period", 200.0),
        ("read_hot_threshold", 2.0),
        ("migration_period_ms", 10.0),
    ] {
        config.insert(knob.into(), value.into());
    }
    let mut request = request("hemem", config, PAGE_2M, 128 * MIB, 1);
    request.machine.migration_cost = cost;
    let metrics = run(&compile(workload, PAGE_2M), &request).expect("a run").metrics;
    let moves = metrics.promotions + metrics.demotions;
    assert!(moves > 20.0, "{moves} moves show nothing");
    metrics.migration_busy_s / moves
}

#[test]
fn a_machine_multiplies_the_time_of_moves() {
    let ratio = busy_s_per_move(3.0) / busy_s_per_move(1.0);
    // Loaded latencies differ a little between the two runs.
    assert!((2.9..3.1).contains(&ratio), "{ratio}");
}

/// Promotions by faulting threads, each of a page alone: first touch leaves the hot half in slow memory.
fn fault_stall_s_per_promotion(cost: f64) -> f64 {
    let workload = json!({"objects": [{"name": "t", "bytes": 64 * MIB}], "blocks": [{"phases": [
        {"name": "p", "groups": [{"name": "w", "threads": 2, "ops": 2e7, "cpu_ns_per_op": 20.0, "streams": [
            {"object": "t", "law": {"kind": "pieces", "edges": [0.0, 0.5, 1.0], "weights": [0.001, 0.999]},
             "class": "random", "reads_per_op": 1.0}]}]}]}]});
    let mut config = tiertune_policy::Config::new();
    for (knob, value) in [("scan_delay_ms", 1.0), ("scan_period_min_ms", 20.0)] {
        config.insert(knob.into(), value.into());
    }
    let mut request = request("nbt", config, PAGE_4K, 32 * MIB, 1);
    request.machine.migration_cost = cost;
    // What is left of a stall is the move.
    request.machine.hint_fault_ns = 0.0;
    let metrics = run(&compile(workload, PAGE_4K), &request).expect("a run").metrics;
    assert!(
        metrics.promotions > 100.0,
        "{} promotions show nothing",
        metrics.promotions
    );
    metrics.fault_stall_s / metrics.promotions
}

#[test]
fn a_machine_multiplies_the_time_of_moves_in_faults() {
    let ratio = fault_stall_s_per_promotion(3.0) / fault_stall_s_per_promotion(1.0);
    assert!((2.9..3.1).contains(&ratio), "{ratio}");
}

#[test]
fn figures_that_no_machine_has_are_refused() {
    for (cost, random) in [(0.0, None), (f64::NAN, None), (1.0, Some(0.5)), (1.0, Some(f64::NAN))] {
        let mut request = request("all-fast", Default::default(), PAGE_2M, 64 * MIB, 1);
        request.machine.migration_cost = cost;
        request.machine.parallelism.random = random;
        assert!(
            run(&compile(random_reads(None), PAGE_2M), &request).is_err(),
            "{cost} {random:?}"
        );
    }
}
