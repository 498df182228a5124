//! Time, work and bytes add up: each test is an identity that holds whatever the figures are.

use crate::support::{MIB, compile, request};
use serde_json::{Value, json};
use tiertune_policy::Config;
use tiertune_policy::registry::PAGE_2M;
use tiertune_sim::run;
use tiertune_sim::scenario::{Contention, Mode};

fn groups(ops: &[f64]) -> Value {
    let group = |i: usize, ops: f64| {
        json!({"name": format!("g{i}"), "threads": 20, "ops": ops, "cpu_ns_per_op": 10.0, "streams": [
            {"object": "t", "law": {"kind": "uniform"}, "class": "random", "reads_per_op": 0.01}]})
    };
    let groups: Vec<Value> = ops.iter().enumerate().map(|(i, ops)| group(i, *ops)).collect();
    json!({"objects": [{"name": "t", "bytes": 64 * MIB}], "blocks": [{"phases": [{"name": "p", "groups": groups}]}]})
}

#[test]
fn a_group_that_is_done_gives_its_cores_back() {
    for mode in [Mode::Fast, Mode::Reference] {
        let seconds = |ops: &[f64]| {
            let mut request = request("notier", Config::new(), PAGE_2M, 8 * MIB, 1);
            request.mode = mode;
            run(&compile(groups(ops), PAGE_2M), &request)
                .expect("a run")
                .metrics
                .runtime_s
        };
        // 20 cores: the work is the same whoever does it.
        let (whole, split) = (seconds(&[1e7]), seconds(&[0.9e7, 0.1e7]));
        assert!((split / whole - 1.0).abs() < 0.01, "{mode:?}: {split} against {whole}");
    }
}

/// Keen settings, so that pages keep moving.
fn keen() -> Config {
    let mut config = Config::new();
    config.insert("sampling_period".into(), 200i64.into());
    config.insert("read_hot_threshold".into(), 2i64.into());
    config.insert("mmap_filter_size_bytes".into(), 0i64.into());
    config
}

/// Hot memory at the far end, which first touch places in slow memory; one phase or many.
fn far_hot_set(phases: u32) -> Value {
    json!({"objects": [{"name": "t", "bytes": 1024 * MIB}], "blocks": [{"repeat": phases, "phases": [
        {"name": "p", "groups": [{"name": "w", "threads": 4, "ops": 4e7 / f64::from(phases), "cpu_ns_per_op": 20.0, "streams": [
            {"object": "t", "law": {"kind": "pieces", "edges": [0.0, 0.9, 1.0], "weights": [0.1, 0.9]}, "class": "random",
             "reads_per_op": 1.0, "stores_per_op": 0.01}]}]}]}]})
}

#[test]
fn every_copied_byte_is_traffic_on_both_tiers() {
    for page_bytes in [4096, PAGE_2M] {
        let mut request = request("hemem", keen(), page_bytes, 128 * MIB, 1);
        request.machine.llc_bytes = 1024;
        let m = run(&compile(far_hot_set(1), page_bytes), &request)
            .expect("a run")
            .metrics;
        let all = (m.fast_bandwidth_gbps + m.slow_bandwidth_gbps) * 1e9 * m.runtime_s;
        let copies = all - m.simulated_accesses * 64.0;
        assert!(
            m.promotions > 20.0,
            "{page_bytes}: {} promotions show nothing",
            m.promotions
        );
        let share = copies / (2.0 * m.migrated_bytes);
        assert!(
            (share - 1.0).abs() < 0.05,
            "{page_bytes}: {share} of the bytes copied were traffic"
        );
    }
}

#[test]
fn stalls_outlive_the_phase_that_they_fall_into() {
    let figures = |phases: u32| {
        // Samples only: migrations would fall differently.
        let mut config = keen();
        config.insert("read_hot_threshold".into(), 64i64.into());
        let mut request = request("hemem", config, PAGE_2M, 128 * MIB, 1);
        request.machine.sample_assist_ns = 2500.0;
        run(&compile(far_hot_set(phases), PAGE_2M), &request)
            .expect("a run")
            .metrics
    };
    let (one, many) = (figures(1), figures(1000));
    assert!(
        one.stall_s > 0.1 * one.runtime_s,
        "stalls of {} s show nothing",
        one.stall_s
    );
    assert!(
        (many.runtime_s / one.runtime_s - 1.0).abs() < 0.05,
        "{} against {}",
        many.runtime_s,
        one.runtime_s
    );
}

#[test]
fn a_sweep_meets_fast_memory_as_often_as_there_is_of_it() {
    let sweep = json!({"objects": [{"name": "t", "bytes": 64 * MIB}], "blocks": [{"phases": [{"name": "p", "groups": [
        {"name": "w", "threads": 1, "ops": 1048576.0, "cpu_ns_per_op": 1.0, "streams": [
            {"object": "t", "law": {"kind": "sweep"}, "class": "stream", "reads_per_op": 1.0}]}]}]}]});
    let mut request = request("notier", Config::new(), PAGE_2M, 8 * MIB, 1);
    request.machine.llc_bytes = 1024;
    let hit = run(&compile(sweep, PAGE_2M), &request)
        .expect("a run")
        .metrics
        .fast_hit_ratio;
    assert!(
        (hit - 0.125).abs() < 0.02,
        "one pass over 8 of 64 MiB in fast memory hit {hit}"
    );
}

#[test]
fn co_runners_leave_room_or_are_refused() {
    let mut request = request("notier", Config::new(), PAGE_2M, 8 * MIB, 1);
    let load = |read_gbps| {
        vec![Contention {
            tier: 1,
            read_gbps,
            ..Contention::default()
        }]
    };
    request.contention = load(20.5);
    let loaded = run(&compile(groups(&[1e6]), PAGE_2M), &request).expect("a run").metrics;
    assert!(loaded.slow_latency_ns < 2000.0, "{}", loaded.slow_latency_ns);
    for wrong in [22.0, 30.0, -1.0, f64::NAN] {
        request.contention = load(wrong);
        let error = run(&compile(groups(&[1e6]), PAGE_2M), &request)
            .expect_err("no room")
            .to_string();
        assert!(error.contains("contention"), "{error}");
    }
}

/// Half of the time beside a co-runner is as much work as half of a run without and half of one with it.
#[test]
fn a_co_runner_that_comes_and_goes_slows_the_time_in_between() {
    for mode in [Mode::Fast, Mode::Reference] {
        let chase = json!({"objects": [{"name": "t", "bytes": 64 * MIB}], "blocks": [{"phases": [{"name": "p", "groups": [
            {"name": "w", "threads": 4, "ops": 400_000.0, "cpu_ns_per_op": 10.0, "streams": [
                {"object": "t", "law": {"kind": "uniform"}, "class": "chase", "reads_per_op": 1.0}]}]}]}]});
        let workload = compile(chase, PAGE_2M);
        let runtime_s = |contention: Vec<Contention>| {
            let mut request = request("all-slow", Config::new(), PAGE_2M, 8 * MIB, 1);
            (request.contention, request.mode) = (contention, mode);
            request.machine.llc_bytes = 1024;
            run(&workload, &request).expect("a run").metrics.runtime_s
        };
        let loaded = |from_s, until_s| {
            vec![Contention {
                tier: 1,
                read_gbps: 20.0,
                from_s,
                until_s,
                ..Contention::default()
            }]
        };
        let (alone_s, beside_s) = (runtime_s(vec![]), runtime_s(loaded(0.0, None)));
        assert!(beside_s > 1.2 * alone_s, "{mode:?}: {beside_s} against {alone_s}");
        let (from_s, until_s) = (0.2 * alone_s, 0.6 * alone_s);
        let expected_s = alone_s + (until_s - from_s) * (1.0 - alone_s / beside_s);
        let measured_s = runtime_s(loaded(from_s, Some(until_s)));
        assert!(
            (measured_s / expected_s - 1.0).abs() < 0.01,
            "{mode:?}: {measured_s} s instead of {expected_s} s"
        );
    }
    let mut request = request("all-slow", Config::new(), PAGE_2M, 8 * MIB, 1);
    for (from_s, until_s) in [(-1.0, None), (2.0, Some(2.0)), (f64::NAN, None)] {
        request.contention = vec![Contention {
            tier: 0,
            read_gbps: 1.0,
            from_s,
            until_s,
            ..Contention::default()
        }];
        let refused = run(&compile(groups(&[1e4]), PAGE_2M), &request).expect_err("no such time");
        assert!(refused.to_string().contains("must begin at 0 or later"), "{refused}");
    }
}

/// Lines in flight and a chase of as many threads get the same bandwidth, at any load.
#[test]
fn a_co_runner_with_lines_in_flight_waits_like_a_thread() {
    for mode in [Mode::Fast, Mode::Reference] {
        let chase = json!({"objects": [{"name": "t", "bytes": 64 * MIB}], "blocks": [{"phases": [{"name": "p", "groups": [
            {"name": "w", "threads": 8, "ops": 400_000.0, "cpu_ns_per_op": 0.0, "streams": [
                {"object": "t", "law": {"kind": "uniform"}, "class": "chase", "reads_per_op": 1.0}]}]}]}]});
        let workload = compile(chase, PAGE_2M);
        for read_lines in [0.0, 8.0, 80.0, 800.0] {
            let mut request = request("all-slow", Config::new(), PAGE_2M, 8 * MIB, 1);
            request.mode = mode;
            request.machine.llc_bytes = 1024;
            request.contention = vec![Contention {
                tier: 1,
                read_lines,
                ..Contention::default()
            }];
            let metrics = run(&workload, &request).expect("a run").metrics;
            let own_gbps = 400_000.0 * 64.0 / metrics.runtime_s / 1e9;
            let expected = own_gbps * (8.0 + read_lines) / 8.0;
            assert!(
                (metrics.slow_bandwidth_gbps / expected - 1.0).abs() < 0.03,
                "{mode:?}, {read_lines} lines: {} GB/s instead of {expected}",
                metrics.slow_bandwidth_gbps
            );
            // The reference mode starts from unloaded latencies, which it follows a step each slice.
            let most_gbps = 1.02 * request.machine.tiers[1].read_gbps;
            assert!(mode == Mode::Reference || metrics.slow_bandwidth_gbps < most_gbps);
        }
    }
    let mut request = request("all-slow", Config::new(), PAGE_2M, 8 * MIB, 1);
    for read_lines in [-1.0, f64::NAN, 1e12] {
        request.contention = vec![Contention {
            read_lines,
            ..Contention::default()
        }];
        let refused = run(&compile(groups(&[1e4]), PAGE_2M), &request).expect_err("no such number");
        assert!(refused.to_string().contains("lines in flight"), "{refused}");
    }
}
