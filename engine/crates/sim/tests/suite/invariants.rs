//! Properties of every run, over random workloads, knobs, page sizes and tiers.
//!
//! In debug builds, as here, the simulator recounts its page table after every phase (each page in
//! exactly one tier, no tier above its capacity, counts by piece right) and checks that every
//! stream's accesses add up to one; these tests drive that with random inputs.

use crate::support::{MIB, compile, hot_set, machine, random_hemem, request, scan_and_gather, skewed_chase};
use proptest::prelude::*;
use tiertune_policy::registry::{PAGE_2M, PAGE_4K, listed};
use tiertune_policy::{Config, CounterRng};
use tiertune_sim::scenario::{Mode, Noise};
use tiertune_sim::{Workload, run, run_many};

/// Slices are whole nanoseconds.
const ROUNDED: f64 = 1.0 + 1e-6;

fn workload(kind: usize, bytes: u64, page_bytes: u64) -> Workload {
    let model = match kind {
        0 => hot_set(bytes, 2e6),
        1 => skewed_chase(bytes, 2e6),
        _ => scan_and_gather(bytes, 2e6),
    };
    compile(model, page_bytes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn counts_and_mass_are_conserved(
        kind in 0usize..3, page_4k in any::<bool>(), tiers in 2usize..4, pages in 40u64..400,
        fast_share in 0.05f64..0.95, knobs in any::<u64>(), seed in any::<u64>(), reference in any::<bool>(),
    ) {
        let page_bytes = if page_4k { PAGE_4K } else { PAGE_2M };
        let bytes = pages * page_bytes;
        let workload = workload(kind, bytes, page_bytes);
        let config = random_hemem(&mut CounterRng::new(knobs, &[]));
        let mut request = request("hemem", config, page_bytes, (bytes as f64 * fast_share) as u64, seed);
        request.machine = machine(tiers);
        request.machine.llc_bytes = 64 * 1024;
        request.timeline_points = 10;
        if reference {
            request.mode = Mode::Reference;
        }
        let result = run(&workload, &request).expect("a run");
        let m = &result.metrics;
        prop_assert!(m.runtime_s > 0.0 && m.runtime_s.is_finite());
        prop_assert!((0.0..=1.0).contains(&m.fast_hit_ratio));
        prop_assert_eq!(m.migrated_bytes, (m.promotions + m.demotions) * page_bytes as f64);
        // Work is fixed: what the policy does changes when it ends, never how much is done.
        let ops: f64 = m.throughput_mops * 1e6 * m.runtime_s;
        prop_assert!((ops / 2e6 - 1.0).abs() < 1e-3, "{} operations done", ops);
        prop_assert!(result.timeline.time_s.windows(2).all(|w| w[0] < w[1]));
    }
}

#[test]
fn equal_requests_give_equal_bits_on_any_number_of_threads() {
    let workload = workload(0, 256 * MIB, PAGE_2M);
    let mut rng = CounterRng::new(9, &[]);
    let mut requests = Vec::new();
    for seed in 0..6 {
        let mut request = request("hemem", random_hemem(&mut rng), PAGE_2M, 32 * MIB, seed);
        request.timeline_points = 20;
        requests.push(request.clone());
        request.mode = Mode::Reference;
        requests.push(request);
    }
    let text = |threads| {
        run_many(&workload, &requests, threads)
            .into_iter()
            .map(|r| serde_json::to_string(&r.expect("a run")).expect("serialises"))
            .collect::<Vec<_>>()
    };
    let alone = text(1);
    assert_eq!(alone, text(2));
    assert_eq!(alone, text(5));
}

#[test]
fn independent_noise_differs_between_configs_and_paired_noise_does_not() {
    let workload = workload(1, 256 * MIB, PAGE_2M);
    // `cool_when_full` does nothing here, so only the noise can differ.
    let sampled = |noise, value: bool| {
        let mut config = Config::new();
        config.insert("sampling_period".into(), 700i64.into());
        config.insert("read_hot_threshold".into(), 64i64.into());
        config.insert("cool_when_full".into(), value.into());
        let mut request = request("hemem", config, PAGE_2M, 32 * MIB, 1);
        request.noise = noise;
        run(&workload, &request).expect("a run").metrics
    };
    assert_eq!(sampled(Noise::Paired, false), sampled(Noise::Paired, true));
    assert_ne!(sampled(Noise::Independent, false), sampled(Noise::Independent, true));
}

/// Nothing is faster than all memory fast, and nothing slower than all memory slow but by what its own work takes.
///
/// That work is accounted: time that threads lost, and the latency that copies added to the slow tier, which every
/// missed read waits for (one at a time in a chase). Latencies are means over time, of which slow stretches have more
/// than of the reads, so the sum is a bound.
#[test]
fn reference_lines_hold() {
    for page_bytes in [PAGE_2M, PAGE_4K] {
        let workload = workload(1, 512 * MIB, page_bytes);
        let threads = 4.0;
        let run = |system: &str| {
            let request = request(system, Config::new(), page_bytes, 512 * MIB / 9, 1);
            run(&workload, &request).expect("a run").metrics
        };
        let (fast, slow) = (run("all-fast"), run("all-slow"));
        assert!(fast.runtime_s < slow.runtime_s);
        for system in listed()
            .iter()
            .filter(|system| system.page_bytes().contains(&page_bytes))
        {
            let here = run(&system.name());
            let added_latency_s = (here.slow_latency_ns - slow.slow_latency_ns) / 1e9 * here.simulated_accesses;
            let line = slow.runtime_s + (here.stall_s + added_latency_s) / threads;
            println!(
                "{} {page_bytes}: {} of {} to {line}",
                system.name(),
                here.runtime_s,
                fast.runtime_s
            );
            assert!(
                (fast.runtime_s * 0.999..=line * ROUNDED).contains(&here.runtime_s),
                "{} with pages of {page_bytes}: {} outside {} to {line}",
                system.name(),
                here.runtime_s,
                fast.runtime_s
            );
        }
    }
}

/// Uniform accesses hit the fastest tier in its share of a round, until it is full.
#[test]
fn interleaved_pages_take_their_share_of_uniform_accesses() {
    let bytes = 512 * MIB;
    let model = serde_json::json!({"objects": [{"name": "t", "bytes": bytes}], "blocks": [{"phases": [{"name": "p",
        "groups": [{"name": "w", "threads": 4, "ops": 2e6, "cpu_ns_per_op": 20.0, "streams": [
            {"object": "t", "law": {"kind": "uniform"}, "class": "gather", "reads_per_op": 1.0}]}]}]}]});
    let workload = compile(model, PAGE_2M);
    for (fast, slow, tiers, fast_bytes, expected) in [
        (1i64, 1i64, 2, bytes, 0.5),
        (3, 1, 2, bytes, 0.75),
        (1, 3, 2, bytes, 0.25),
        (2, 1, 3, bytes, 0.5),
        (3, 1, 2, bytes / 8, 0.125),
    ] {
        let config = [("weight_fast", fast), ("weight_slow", slow)];
        let config = config.map(|(name, weight)| (name.to_string(), weight.into())).into();
        let mut request = request("interleave", config, PAGE_2M, fast_bytes, 1);
        request.machine = machine(tiers);
        let metrics = run(&workload, &request).expect("a run").metrics;
        let share = metrics.fast_hit_ratio;
        assert!(
            (share / expected - 1.0).abs() < 0.01,
            "{fast}:{slow} on {tiers} tiers: {share}"
        );
        assert_eq!((metrics.samples, metrics.migrated_bytes), (0.0, 0.0));
    }
}

/// A sweep passes the pages of both tiers, however far it comes in a slice.
#[test]
fn interleaved_pages_take_their_share_of_a_sweep() {
    for (pages, threads) in [(1u64 << 15, 1), (1 << 15, 4), (3 << 13, 2)] {
        let model = serde_json::json!({"objects": [{"name": "t", "bytes": pages * PAGE_4K}], "blocks": [{"phases": [{"name": "p",
            "groups": [{"name": "w", "threads": threads, "ops": pages * 64, "cpu_ns_per_op": 5.0, "streams": [
                {"object": "t", "law": {"kind": "sweep"}, "class": "stream", "reads_per_op": 1.0}]}]}]}]});
        let workload = compile(model, PAGE_4K);
        let mut request = request("interleave", Config::new(), PAGE_4K, pages * PAGE_4K, 1);
        request.machine = machine(2);
        let share = run(&workload, &request).expect("a run").metrics.fast_hit_ratio;
        assert!((share - 0.5).abs() < 0.005, "{pages} pages, {threads} threads: {share}");
    }
}

#[test]
fn a_footprint_that_does_not_fit_is_refused() {
    let workload = workload(1, 512 * MIB, PAGE_2M);
    let mut request = request("notier", Config::new(), PAGE_2M, 64 * MIB, 1);
    request.machine.tiers[1].capacity_bytes = 64 * MIB;
    let error = run(&workload, &request).expect_err("too small").to_string();
    assert!(error.contains("does not fit"), "{error}");
}
