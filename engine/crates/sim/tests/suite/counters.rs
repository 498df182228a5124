//! Performance counters in the fast mode against those in the reference mode, which counts access by access.

use std::sync::{Arc, Mutex};

use crate::support::{MIB, compile, hot_set, machine, request, scan_and_gather, skewed_chase};
use serde_json::{Value, json};
use tiertune_policy::registry::PAGE_2M;
use tiertune_policy::{Config, Context, Counters, Nanos, Needs, Policy};
use tiertune_sim::scenario::Mode;

/// Counters and the bits that hold a run's beginning back: caches are empty there.
const WARM_NS: Nanos = 5_000_000;

/// Keeps the counters after the start and the last ones.
struct Reads(Arc<Mutex<[Counters; 2]>>);

impl Policy for Reads {
    fn needs(&self) -> Needs {
        Needs {
            counters: true,
            ..Needs::default()
        }
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        let mut read = self.0.lock().expect("one thread");
        let slot = usize::from(cx.now > WARM_NS);
        read[slot] = cx.counters.clone();
        cx.wake_at(cx.now + 1_000_000);
    }
}

/// Every counter by name, from after the start to the end of `seconds`.
fn counters(model: &Value, fast_bytes: u64, mode: Mode) -> Vec<(String, f64)> {
    let workload = compile(model.clone(), PAGE_2M);
    let mut request = request("notier", Config::new(), PAGE_2M, fast_bytes, 1);
    request.machine = machine(2);
    request.mode = mode;
    let read = Arc::new(Mutex::new([Counters::default(), Counters::default()]));
    let policy = Box::new(Reads(read.clone()));
    let run = tiertune_sim::run_policy(&workload, &request, policy);
    run.expect("a run");
    let [from, to] = read.lock().expect("one thread").clone();
    let mut named = Vec::new();
    for (number, (to, from)) in to.tiers.iter().zip(&from.tiers).enumerate() {
        for (name, value) in [
            ("inserts", to.inserts - from.inserts),
            ("occupancy", to.occupancy_ns - from.occupancy_ns),
            ("busy", to.busy_ns - from.busy_ns),
            ("bytes read", to.read_bytes - from.read_bytes),
            ("bytes written", to.written_bytes - from.written_bytes),
        ] {
            named.push((format!("{name} of tier {number}"), value));
        }
    }
    let (to, from) = (to.cores, from.cores);
    for (name, value) in [
        ("cycles", to.cycles - from.cycles),
        ("stalls", to.stall_cycles - from.stall_cycles),
        ("A1", to.outstanding_cycles - from.outstanding_cycles),
        ("A2", to.occupancy_cycles - from.occupancy_cycles),
        ("A3", to.reads - from.reads),
    ] {
        named.push((name.to_string(), value));
    }
    named
}

/// `model`'s phases, for a time instead of an amount of work, so that both modes see as much.
fn timed(mut model: Value, seconds: f64) -> Value {
    for block in model["blocks"].as_array_mut().expect("blocks") {
        for phase in block["phases"].as_array_mut().expect("phases") {
            phase["seconds"] = json!(seconds);
            for group in phase["groups"].as_array_mut().expect("groups") {
                group.as_object_mut().expect("a group").remove("ops");
            }
        }
    }
    model
}

/// Every counter within 2 % (of time, for a tier that is hardly ever busy or idle).
fn check(name: &str, model: &Value, fast_bytes: u64) {
    let (fast, reference) = (
        counters(model, fast_bytes, Mode::Fast),
        counters(model, fast_bytes, Mode::Reference),
    );
    let mut wrong = Vec::new();
    for ((what, fast), (_, reference)) in fast.iter().zip(&reference) {
        let error = if *reference == 0.0 {
            *fast
        } else {
            fast / reference - 1.0
        };
        println!(
            "{name}: {what}: {fast:.4e} against {reference:.4e}, {:.2} %",
            error * 100.0
        );
        if error.abs() > 0.02 {
            wrong.push(format!("{what}: {fast} against {reference}"));
        }
    }
    assert!(wrong.is_empty(), "{name}: {wrong:?}");
}

#[test]
fn updates_of_a_hot_set() {
    let bytes = 512 * MIB;
    check("hot set", &timed(hot_set(bytes, 1.0), 0.06), bytes / 9);
}

#[test]
fn a_chase_that_the_cache_serves_in_part() {
    let bytes = 512 * MIB;
    check("chase", &timed(skewed_chase(bytes, 1.0), 0.12), bytes / 9);
}

#[test]
fn prefetched_scans_beside_gathers() {
    let bytes = 512 * MIB;
    check("scan and gather", &timed(scan_and_gather(bytes, 1.0), 0.12), bytes / 3);
}

/// Two kinds of threads wait for one tier at different rates.
#[test]
fn a_scan_beside_a_chase_in_threads_of_their_own() {
    let bytes = 512 * MIB;
    let model = json!({"objects": [{"name": "s", "bytes": bytes / 2}, {"name": "c", "bytes": bytes / 2}],
        "blocks": [{"phases": [{"name": "p", "seconds": 0.12, "groups": [
            {"name": "scan", "threads": 1, "cpu_ns_per_op": 2.0,
             "streams": [{"object": "s", "law": {"kind": "sweep"}, "class": "stream", "reads_per_op": 1.0}]},
            {"name": "chase", "threads": 2, "cpu_ns_per_op": 10.0,
             "streams": [{"object": "c", "law": {"kind": "uniform"}, "class": "chase", "reads_per_op": 1.0}]}]}]}]});
    check("scan beside chase", &model, bytes / 4);
}

/// Reads that were recorded behind a cache, with the hits beside them.
#[test]
fn recorded_misses_and_hits() {
    let bytes = 512 * MIB;
    let model = json!({"objects": [{"name": "t", "bytes": bytes}],
        "blocks": [{"phases": [{"name": "p", "seconds": 0.06, "groups": [
            {"name": "w", "threads": 4, "cpu_ns_per_op": 20.0,
             "streams": [{"object": "t", "law": {"kind": "uniform"}, "class": "gather", "reads_per_op": 0.5, "prefetched_share": 0.2,
                          "missed_llc": true, "llc_hits_per_op": 1.5}]}]}]}]});
    check("recorded", &model, bytes / 3);
}

/// Lists that are looked up, of which two lie in a window, and gathers that hardly overlap between locked instructions.
#[test]
fn lookups_and_gathers_between_locked_instructions() {
    let bytes = 512 * MIB;
    let model = json!({"objects": [{"name": "i", "bytes": bytes / 2}, {"name": "t", "bytes": bytes / 2}],
        "blocks": [{"phases": [{"name": "p", "seconds": 0.06, "groups": [
            {"name": "w", "threads": 4, "cpu_ns_per_op": 20.0, "locked_per_op": 0.8, "streams": [
                {"object": "i", "law": {"kind": "uniform"}, "class": "lookup", "reads_per_op": 2.0},
                {"object": "t", "law": {"kind": "uniform"}, "class": "gather", "reads_per_op": 1.5}]}]}]}]});
    check("lookups", &model, bytes / 3);
}

/// More threads than cores: a thread without a core waits for no memory.
#[test]
fn threads_that_share_cores() {
    let bytes = 512 * MIB;
    let model = json!({"objects": [{"name": "t", "bytes": bytes}],
        "blocks": [{"phases": [{"name": "p", "seconds": 0.03, "groups": [
            {"name": "w", "threads": 30, "cpu_ns_per_op": 300.0,
             "streams": [{"object": "t", "law": {"kind": "uniform"}, "class": "chase", "reads_per_op": 0.4}]}]}]}]});
    check("shared cores", &model, bytes / 3);
}
