//! What comes before the part of a program that is timed.

use serde_json::json;
use tiertune_policy::registry::PAGE_4K;
use tiertune_policy::{Config, Context, Needs, Policy};
use tiertune_sim::scenario::Mode;
use tiertune_sim::{Workload, WorkloadModel};

use crate::support::{compile, request};

/// Systems act while a program loads its input, which neither the time nor the footprint of a run counts.
#[test]
fn what_is_before_the_run_is_not_timed() {
    let phase = |name: &str, object: &str, ops: f64| {
        json!({"name": name, "groups": [{"name": "w", "threads": 2, "ops": ops, "cpu_ns_per_op": 50.0, "streams": [
            {"object": object, "law": {"kind": "uniform"}, "class": "chase", "reads_per_op": 1.0}]}]})
    };
    let with = |loaded: bool, runs: u32| {
        let (mut load, mut start) = (phase("load", "input", 400_000.0), phase("start", "a", 1.0));
        load["allocate"] = json!(["input"]);
        start["free"] = json!(["input"]);
        start["allocate"] = json!(["b"]);
        let run = json!({"repeat": runs, "phases": [phase("run", "a", 200_000.0), phase("more", "b", 100_000.0)]});
        let object = |name: &str, pages: u64| json!({"name": name, "bytes": pages * PAGE_4K});
        let objects = [object("a", 512), object("b", 512), object("input", 2048)];
        if loaded {
            json!({"objects": objects, "blocks": [{"untimed": true, "phases": [load, start]}, run]})
        } else {
            json!({"objects": objects[..2], "blocks": [run]})
        }
    };
    for mode in [Mode::Fast, Mode::Reference] {
        let run = |loaded, give_up_s| {
            let workload = compile(with(loaded, 2), PAGE_4K);
            let mut request = request("notier", Config::new(), PAGE_4K, 4096 * PAGE_4K, 1);
            request.machine.llc_bytes = 64;
            request.mode = mode;
            request.give_up_s = give_up_s;
            request.timeline_points = 100;
            tiertune_sim::run(&workload, &request).expect("a run")
        };
        let (alone, after) = (run(false, None), run(true, None));
        let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.01;
        assert_eq!(alone.metrics.loading_s, 0.0);
        assert!(close(after.metrics.runtime_s, alone.metrics.runtime_s), "{mode:?}");
        assert!(
            close(after.metrics.throughput_mops, alone.metrics.throughput_mops),
            "{mode:?}"
        );
        // As many operations as in two thirds of the run, each as long.
        assert!(
            close(after.metrics.loading_s, alone.metrics.runtime_s * 2.0 / 3.0),
            "{mode:?}"
        );
        assert!(after.metrics.simulated_accesses > 1.6 * alone.metrics.simulated_accesses);
        let names: Vec<&str> = after.phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["load", "start", "run", "more", "run", "more"]);
        if mode == Mode::Fast {
            let given_up = run(true, Some(alone.metrics.runtime_s / 2.0));
            assert!(given_up.gave_up && given_up.metrics.runtime_s > 0.4 * alone.metrics.runtime_s);
            assert!(
                !run(true, Some(alone.metrics.runtime_s * 1.1)).gave_up,
                "loading does not count"
            );
        }
    }
    let described: WorkloadModel = serde_json::from_value(with(true, 1)).expect("a valid model");
    assert_eq!(described.peak_bytes(), 1024 * PAGE_4K, "the footprint is of the run");
    assert_eq!(compile(with(true, 1), PAGE_4K).peak_pages, 2560);
    let mut nothing = with(true, 1);
    nothing["blocks"][1]["untimed"] = json!(true);
    let model = serde_json::from_value(nothing).expect("a valid model");
    let error = Workload::compile(&model, PAGE_4K)
        .expect_err("nothing is measured")
        .to_string();
    assert!(error.contains("none of its phases is timed"), "{error}");
}

/// Marks all pages every millisecond.
struct MarksAll;

impl Policy for MarksAll {
    fn needs(&self) -> Needs {
        Needs {
            hint_faults: true,
            ..Needs::default()
        }
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        cx.arm(0..512);
        cx.wake_at(cx.now + 1_000_000);
    }
}

/// What is not there yet cannot be marked, so that a page comes without a hint fault, however long its object has been allocated.
#[test]
fn pages_take_no_hint_fault_as_they_come() {
    let filled = |first_touch: bool| {
        let stream = json!({"object": "a", "law": {"kind": "uniform"}, "class": "stream", "reads_per_op": 0.0,
            "writebacks_per_op": 1.0, "missed_llc": true, "first_touch": first_touch});
        // Lines of all pages, once, in 33 ms.
        let phase = json!({"name": "fill", "groups": [{"name": "w", "threads": 1, "ops": 32768.0,
            "cpu_ns_per_op": 1000.0, "streams": [stream]}]});
        compile(
            json!({"objects": [{"name": "a", "bytes": 512 * PAGE_4K}], "blocks": [{"phases": [phase]}]}),
            PAGE_4K,
        )
    };
    for mode in [Mode::Fast, Mode::Reference] {
        let faults = |first_touch| {
            let mut request = request("notier", Config::new(), PAGE_4K, 512 * PAGE_4K, 1);
            request.mode = mode;
            let (run, _) = tiertune_sim::run_policy(&filled(first_touch), &request, Box::new(MarksAll)).expect("a run");
            run.metrics.hint_faults
        };
        assert_eq!(faults(true), 0.0, "{mode:?}");
        assert!(faults(false) > 300.0, "{mode:?}: {}", faults(false));
    }
}
