//! The fast mode against the reference mode for the systems that act on counters and on samples of slow loads.

use crate::support::{MIB, compile, hot_set, machine, request};
use serde_json::{Value, json};
use tiertune_policy::Config;
use tiertune_policy::registry::{PAGE_2M, PAGE_4K};
use tiertune_sim::operation::misses_in_flight;
use tiertune_sim::scenario::{Machine, Mode};
use tiertune_sim::workload::Stream;
use tiertune_sim::{RunResult, Workload, run_many};
use tiertune_workload::{AccessClass, CarrySpec, RecordRequest};

const FAST_SEEDS: u64 = 16;
const REFERENCE_SEEDS: u64 = 6;

fn run(system: &str, config: &Config, workload: &Workload, fast_bytes: u64, mode: Mode, seeds: u64) -> Vec<RunResult> {
    let of_seed = |seed| {
        let mut request = request(system, config.clone(), workload.page_bytes, fast_bytes, seed);
        request.mode = mode;
        request.machine = machine(2);
        request
    };
    let requests: Vec<_> = (0..seeds).map(of_seed).collect();
    let results = run_many(workload, &requests, 2);
    results.into_iter().map(|result| result.expect("a run")).collect()
}

fn mean(results: &[RunResult], of: impl Fn(&RunResult) -> f64) -> f64 {
    results.iter().map(of).sum::<f64>() / results.len() as f64
}

/// A scan that most reads belong to, beside threads that chase pointers: Soar's microbenchmark in small.
fn scan_beside_chase(bytes: u64) -> Value {
    json!({"objects": [{"name": "scanned", "bytes": bytes / 2}, {"name": "chased", "bytes": bytes / 2}],
        "blocks": [{"phases": [{"name": "p", "groups": [
            {"name": "scan", "threads": 2, "ops": 4e6, "cpu_ns_per_op": 5.0, "streams": [
                {"object": "scanned", "law": {"kind": "uniform"}, "class": "gather", "mlp": 8.0, "reads_per_op": 1.0}]},
            {"name": "chase", "threads": 2, "ops": 8e5, "cpu_ns_per_op": 5.0, "streams": [
                {"object": "chased", "law": {"kind": "uniform"}, "class": "chase", "reads_per_op": 1.0}]}]}]}]})
}

/// Runtime within 5 %, promotions within a tenth where there are many.
fn check(name: &str, system: &str, config: &Config, workload: &Workload, fast_bytes: u64) -> Vec<RunResult> {
    let fast = run(system, config, workload, fast_bytes, Mode::Fast, FAST_SEEDS);
    let reference = run(system, config, workload, fast_bytes, Mode::Reference, REFERENCE_SEEDS);
    let both = |of: fn(&RunResult) -> f64| (mean(&fast, of), mean(&reference, of));
    let runtime = both(|result| result.metrics.runtime_s);
    let promotions = both(|result| result.metrics.promotions);
    let samples = both(|result| result.metrics.samples);
    println!("{name}: runtime {runtime:?}, promotions {promotions:?}, samples {samples:?}");
    assert!(
        (runtime.0 / runtime.1 - 1.0).abs() < 0.05,
        "{name}: runtime {runtime:?}"
    );
    if promotions.1 > 20.0 {
        assert!(
            (promotions.0 / promotions.1 - 1.0).abs() < 0.1,
            "{name}: promotions {promotions:?}"
        );
    }
    if samples.1 > 1000.0 {
        assert!(
            (samples.0 / samples.1 - 1.0).abs() < 0.05,
            "{name}: samples {samples:?}"
        );
    }
    fast
}

#[test]
fn pact_on_a_moving_hot_set() {
    let bytes = 512 * MIB;
    let workload = compile(hot_set(bytes, 6e6), PAGE_2M);
    let fast = check("hot set", "pact", &Config::new(), &workload, bytes / 9);
    assert!(mean(&fast, |result| result.metrics.promotions) > 3.0, "it moves pages");
}

#[test]
fn pact_on_a_scan_beside_a_chase() {
    let bytes = 512 * MIB;
    let workload = compile(scan_beside_chase(bytes), PAGE_2M);
    let mut config = Config::new();
    config.insert("bin_count".into(), 6i64.into());
    check("scan beside chase", "pact", &config, &workload, bytes / 4);
}

/// Soar finds the chase, whose samples are few, and its counters read what the published papers print.
#[test]
fn soar_on_a_scan_beside_a_chase() {
    let bytes = 512 * MIB;
    let workload = compile(scan_beside_chase(bytes), PAGE_2M);
    let mut config = Config::new();
    config.insert("pebs_period".into(), 500i64.into());
    config.insert("window_s".into(), tiertune_policy::Value::Float(0.05));
    let fast = check("soar", "soar", &config, &workload, bytes / 2 + 16 * MIB);
    println!("{:?}", fast[0].gauges);
    let aol = |result: &RunResult| result.gauges["profile_aol_cycles"];
    let reference = run("soar", &config, &workload, bytes / 2 + 16 * MIB, Mode::Reference, 1);
    assert!(
        (mean(&fast, aol) / aol(&reference[0]) - 1.0).abs() < 0.02,
        "A1/A3 {} against {}",
        mean(&fast, aol),
        aol(&reference[0])
    );
}

/// Computing behind a miss that a core's window holds, at two instructions a cycle.
fn window_ns(machine: &Machine) -> f64 {
    machine.window_instructions / 2.0 / machine.clock_ghz
}

/// Classes of misses that wait for no other.
const INDEPENDENT: [AccessClass; 3] = [AccessClass::Random, AccessClass::Gather, AccessClass::Update];
/// Updates in flight, and the share of them that locked instructions leave (docs/model.md).
const UPDATES_IN_FLIGHT: f64 = 8.0;
const KEPT_BY_LOCKED: f64 = 0.57;

/// How much longer independent misses take with so many locked instructions to each.
fn slowed_by_locked(to_each: f64) -> f64 {
    let at_one_each = 1.0 / KEPT_BY_LOCKED;
    (1.0 + (at_one_each.powi(2) - 1.0) * to_each.powi(2)).sqrt()
}

/// Latencies that the independent misses of an operation take, as many at a time as overlap.
fn waits_of(streams: &[Stream], machine: &Machine) -> f64 {
    let independent = streams.iter().filter(|s| INDEPENDENT.contains(&s.class));
    independent
        .map(|s| s.reads_per_op * (1.0 - s.prefetched_share) / misses_in_flight(machine, s))
        .sum()
}

/// Cycles per demand read that goes off core, as many at a time as overlap, with all memory fast and at rest.
fn at_rest(workload: &Workload) -> f64 {
    let machine = machine(2);
    let (mut outstanding_ns, mut reads) = (0.0, 0.0);
    for phase in workload.phases_in_order() {
        for group in &phase.groups {
            let ops = group.ops.expect("a recorded phase has its operations");
            let reads_of = |classes: &[AccessClass]| -> f64 {
                let streams = phase.streams[group.streams.clone()].iter();
                streams
                    .filter(|s| classes.contains(&s.class))
                    .map(|s| s.reads_per_op * (1.0 - s.prefetched_share))
                    .sum()
            };
            let independent = reads_of(&INDEPENDENT);
            let window = window_ns(&machine) / group.cpu_ns_per_op;
            let in_window = 1.0 + independent * window;
            let one_by_one = independent / waits_of(&phase.streams[group.streams.clone()], &machine);
            let slowed = slowed_by_locked(group.locked_per_op / independent).min(one_by_one.max(1.0));
            // An element is looked up by two reads.
            let elements = reads_of(&[AccessClass::Lookup]) / 2.0;
            // No locked instruction is no bound: a number over 0 is infinite.
            let between_locked = elements * KEPT_BY_LOCKED * UPDATES_IN_FLIGHT / group.locked_lookups_per_op;
            let looked_up = (elements * window).min(between_locked).clamp(1.0, machine.fill_buffers);
            for stream in &phase.streams[group.streams.clone()] {
                let demand = ops * (1.0 - stream.prefetched_share);
                let (misses, hits) = (demand * stream.reads_per_op, demand * stream.llc_hits_per_op);
                let most = misses_in_flight(&machine, stream);
                let in_flight = match stream.class {
                    AccessClass::Chase | AccessClass::Stream => most,
                    AccessClass::Lookup => looked_up,
                    _ => (most / slowed).min(in_window),
                };
                outstanding_ns += misses * machine.tiers[0].latency_ns / in_flight + hits * machine.llc_hit_ns / most;
                reads += misses + hits;
            }
        }
    }
    outstanding_ns * machine.clock_ghz / reads
}

/// Recorded hits of the last-level cache count in A1 and A3, or AOL would be that of misses alone.
#[test]
fn latency_per_parallelism_of_a_recorded_graph_kernel() {
    let asked = json!({"kernel": "bc", "graph": "kron", "scale": 13, "seed": 1, "llc_bytes": 65_536});
    let asked = RecordRequest::try_from(asked).expect("a valid request");
    let profile = tiertune_workload::record(&asked).expect("a profile");
    let asked = json!({"scale": 18, "page_bytes": PAGE_4K, "runs": 4});
    let spec: CarrySpec = serde_json::from_value(asked).expect("a valid size");
    let replay = profile.carry(&spec).expect("carried");
    let footprint = replay.footprint_bytes();
    let (mut hits, mut reads) = (0.0, 0.0);
    for slice in &replay.slices {
        for stream in &slice.streams {
            hits += slice.ops * stream.llc_hits_per_op;
            reads += slice.ops * stream.reads_per_op;
        }
    }
    let model = tiertune_sim::replay::workload_of(replay, 4);
    let workload = Workload::compile(&model, PAGE_4K).expect("compiles");
    let mut config = Config::new();
    config.insert("window_s".into(), tiertune_policy::Value::Float(0.05));
    // What moves follows from which object is at the boundary. With a fifth of the footprint no two objects of nearly
    // the same score compete for it; with a sixth, or a twelfth, samples decide by lot in one run of ten.
    let fast_bytes = footprint / 5;
    config.insert("pebs_period".into(), 500i64.into());
    let fast = check("soar on bc", "soar", &config, &workload, fast_bytes);
    let aol = fast[0].gauges["profile_aol_cycles"];
    println!("hits per read {}, AOL {aol} cycles, {:?}", hits / reads, fast[0].gauges);
    // A1/A3 with all memory fast and at rest; the profiling run loads memory a little.
    let (unloaded, machine) = (at_rest(&workload), machine(2));
    let all_fast = run("all-fast", &Config::new(), &workload, fast_bytes, Mode::Fast, 1);
    let loaded = 1.0 + all_fast[0].metrics.fast_bandwidth_gbps / machine.tiers[0].read_gbps;
    assert!(
        (unloaded * 0.999..unloaded * loaded).contains(&aol),
        "AOL is {aol} cycles, {unloaded} at rest"
    );
    let mut model = model;
    for stream in model
        .blocks
        .iter_mut()
        .flat_map(|b| &mut b.phases)
        .flat_map(|p| &mut p.groups)
        .flat_map(|g| &mut g.streams)
    {
        stream.llc_hits_per_op = 0.0;
    }
    let deaf = Workload::compile(&model, PAGE_4K).expect("compiles");
    let deaf = run("soar", &config, &deaf, fast_bytes, Mode::Fast, 1);
    assert!(
        deaf[0].gauges["profile_aol_cycles"] > aol,
        "hits take less time than misses"
    );
}
