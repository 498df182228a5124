//! Machines, workloads and configurations that the integration tests share.

pub mod fidelity;

use serde_json::{Value, json};
use tiertune_policy::knob::{Config, KnobKind};
use tiertune_policy::{CounterRng, registry};
use tiertune_sim::scenario::{Machine, Mode, Noise, Request};
use tiertune_sim::{Workload, WorkloadModel};

pub const MIB: u64 = 1 << 20;

/// Two tiers in the proportions of a server with remote memory.
pub fn machine(tiers: usize) -> Machine {
    let mut all = vec![
        json!({"name": "dram", "capacity_bytes": 96_000_000_000u64, "latency_ns": 95.0, "read_gbps": 56.0, "write_gbps": 40.3,
            "curve": [[0.0, 1.0], [0.25, 1.13], [0.5, 1.23], [0.7, 1.4], [0.85, 1.75], [0.95, 2.1], [0.98, 2.5]]}),
        json!({"name": "remote", "capacity_bytes": 96_000_000_000u64, "latency_ns": 180.0, "read_gbps": 22.0, "write_gbps": 20.0,
            "duplex": true, "curve": [[0.0, 1.0], [0.5, 1.09], [0.85, 1.33], [0.98, 1.9]]}),
        json!({"name": "cxl", "capacity_bytes": 96_000_000_000u64, "latency_ns": 300.0, "read_gbps": 20.0, "write_gbps": 18.0,
            "duplex": true, "curve": [[0.0, 1.0], [0.95, 1.2]]}),
    ];
    all.truncate(tiers);
    serde_json::from_value(json!({
        "name": "test", "cores": 20, "clock_ghz": 2.2, "llc_bytes": 8 * MIB, "llc_hit_ns": 20.0, "fill_buffers": 12.0,
        "sample_assist_ns": 250.0, "tiers": all
    }))
    .expect("a valid machine")
}

pub fn compile(model: Value, page_bytes: u64) -> Workload {
    let model: WorkloadModel = serde_json::from_value(model).expect("a valid workload");
    Workload::compile(&model, page_bytes).expect("a workload that compiles")
}

pub fn request(system: &str, config: Config, page_bytes: u64, fast_bytes: u64, seed: u64) -> Request {
    Request {
        machine: machine(2),
        system: system.into(),
        config,
        page_bytes,
        fast_bytes,
        seed,
        noise: Noise::Independent,
        mode: Mode::Fast,
        timeline_points: 0,
        contention: vec![],
        page_map: None,
        observe: vec![],
        timings: false,
        give_up_s: None,
        slice_ns: 1_000_000,
    }
}

/// Random values of all tunable knobs of `hemem`; sampling periods are at the short end of the
/// declared range, so that runs of a fraction of a second have samples to act on.
pub fn random_hemem(rng: &mut CounterRng) -> Config {
    let mut config = Config::new();
    for knob in registry::find("hemem")
        .expect("registered")
        .knobs()
        .iter()
        .filter(|k| k.tunable)
    {
        let longest = 1_000.0;
        let mut draw = |min: f64, max: f64, log: bool| {
            let max = if knob.name.ends_with("sampling_period") {
                max.min(longest)
            } else {
                max
            };
            let u = rng.next_f64();
            if log {
                min * (max / min).powf(u)
            } else {
                min + (max - min) * u
            }
        };
        let value = match knob.kind {
            KnobKind::Int { min, max, log } => (draw(min as f64, max as f64, log).round() as i64).into(),
            KnobKind::Float { min, max, log } => draw(min, max, log).into(),
            KnobKind::Bool | KnobKind::Choice { .. } => knob.default.clone(),
        };
        config.insert(knob.name.into(), value);
    }
    // The objects of these tests are small; by default hemem leaves such ones alone.
    config.insert("mmap_filter_size_bytes".into(), 0i64.into());
    config
}

/// A hot set that moves half-way; updates, moderately overlapped.
pub fn hot_set(bytes: u64, ops: f64) -> Value {
    let phase = |from: f64| {
        json!({"name": "p", "groups": [{"name": "w", "threads": 4, "ops": ops / 2.0, "cpu_ns_per_op": 20.0, "streams": [
            {"object": "t", "law": {"kind": "uniform", "from": from, "to": from + 0.08}, "class": "update", "mlp": 1.5,
             "reads_per_op": 0.9, "writebacks_per_op": 0.9, "stores_per_op": 0.9},
            {"object": "t", "law": {"kind": "uniform"}, "class": "update", "mlp": 1.5,
             "reads_per_op": 0.1, "writebacks_per_op": 0.1, "stores_per_op": 0.1}]}]})
    };
    json!({"objects": [{"name": "t", "bytes": bytes}], "blocks": [{"phases": [phase(0.0), phase(0.06)]}]})
}

/// Four threads with a private quarter each, hot at its start: a page under copy stops its owner only.
pub fn private_hot_sets(bytes: u64, ops: f64) -> Value {
    let edges = [0.0, 0.03, 0.25, 0.28, 0.5, 0.53, 0.75, 0.78, 1.0];
    let weights = [9.0, 1.0, 9.0, 1.0, 9.0, 1.0, 9.0, 1.0];
    json!({"objects": [{"name": "t", "bytes": bytes}], "blocks": [{"phases": [{"name": "p", "groups": [
        {"name": "w", "threads": 4, "ops": ops, "cpu_ns_per_op": 20.0, "streams": [
            {"object": "t", "law": {"kind": "pieces", "edges": edges, "weights": weights}, "class": "update", "mlp": 1.5,
             "partitioned": true, "reads_per_op": 1.0, "writebacks_per_op": 1.0, "stores_per_op": 1.0}]}]}]}]})
}

/// Dependent reads with a skew, hot pages scattered, part of them in the last-level cache.
pub fn skewed_chase(bytes: u64, ops: f64) -> Value {
    json!({"objects": [{"name": "t", "bytes": bytes, "scattered": true}],
        "blocks": [{"phases": [{"name": "p", "groups": [{"name": "w", "threads": 4, "ops": ops, "cpu_ns_per_op": 30.0,
            "streams": [{"object": "t", "law": {"kind": "zipf", "theta": 0.6}, "class": "chase", "reads_per_op": 1.0}]}]}]}]})
}

/// Sequential scans beside a small hot set, as in graph kernels.
pub fn scan_and_gather(bytes: u64, ops: f64) -> Value {
    json!({"objects": [{"name": "s", "bytes": bytes / 2}, {"name": "h", "bytes": bytes / 2}],
        "blocks": [{"phases": [{"name": "p", "groups": [{"name": "w", "threads": 4, "ops": ops, "cpu_ns_per_op": 60.0,
            "streams": [
                {"object": "s", "law": {"kind": "sweep"}, "class": "stream", "reads_per_op": 0.7},
                {"object": "h", "law": {"kind": "pieces", "edges": [0.0, 0.1, 1.0], "weights": [0.9, 0.1]}, "class": "gather",
                 "reads_per_op": 0.3, "stores_per_op": 0.05, "writebacks_per_op": 0.05}]}]}]}]})
}
