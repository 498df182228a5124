//! What is a touch of a page, and what it costs: once for an access that reads and writes, whether or not a cache has
//! the line, and only while the page is mapped. Both modes against closed forms.

use std::sync::{Arc, Mutex};

use crate::support::{compile, request};
use serde_json::{Value, json};
use tiertune_policy::registry::PAGE_4K;
use tiertune_policy::{
    Config, Context, CopyMode, Extent, Fault, MigrationMechanics, Nanos, Needs, Page, Placement, Policy,
};
use tiertune_sim::scenario::Mode;
use tiertune_sim::{RunResult, Workload};

const MODES: [Mode; 2] = [Mode::Fast, Mode::Reference];
const PAGES: u32 = 512;

/// One thread that chases through uniform pages, as `stream` and `group` say besides.
fn chase(stream: &Value, group: &Value) -> Workload {
    let mut only =
        json!({"object": "t", "law": {"kind": "uniform"}, "class": "chase", "reads_per_op": 1.0, "missed_llc": true});
    let mut threads = json!({"name": "w", "threads": 1, "cpu_ns_per_op": 50.0});
    for (to, from) in [(&mut only, stream), (&mut threads, group)] {
        for (key, value) in from.as_object().expect("keys") {
            to[key] = value.clone();
        }
    }
    threads["streams"] = json!([only]);
    let phase = json!({"name": "p", "groups": [threads]});
    let model =
        json!({"objects": [{"name": "t", "bytes": u64::from(PAGES) * PAGE_4K}], "blocks": [{"phases": [phase]}]});
    compile(model, PAGE_4K)
}

fn run(workload: &Workload, mode: Mode, slice_ns: Nanos, policy: impl Policy + 'static) -> RunResult {
    let fast_bytes = u64::from(workload.pages) * PAGE_4K;
    let mut request = request("notier", Config::new(), PAGE_4K, fast_bytes, 1);
    request.mode = mode;
    request.slice_ns = slice_ns;
    let run = tiertune_sim::run_policy(workload, &request, Box::new(policy));
    run.expect("a run").0
}

fn close(measured: f64, expected: f64, within: f64, what: &str) {
    let error = (measured / expected - 1.0).abs();
    assert!(error <= within, "{what}: {measured} instead of {expected}");
}

/// Leaves all where it is.
struct Nothing;

impl Policy for Nothing {}

/// The machine's cache answers after 20 ns, and a chase waits for each answer.
#[test]
fn hits_beside_recorded_misses_are_waited_for() {
    let time = |mode: Mode, hits: f64| {
        let workload = chase(&json!({"llc_hits_per_op": hits}), &json!({"ops": 100_000.0}));
        run(&workload, mode, 1_000_000, Nothing).metrics.runtime_s
    };
    for mode in MODES {
        close(
            time(mode, 10.0) - time(mode, 0.0),
            100_000.0 * 10.0 * 20e-9,
            0.01,
            "time of hits",
        );
    }
}

/// Moves one page after the other to slow memory and back.
struct Restless(Page);

const COPY_NS: Nanos = 20_000;

impl Policy for Restless {
    fn mechanics(&self) -> MigrationMechanics {
        MigrationMechanics {
            lanes: 1,
            fixed_ns: COPY_NS,
            alone_fixed_ns: COPY_NS,
            run_fixed_ns: 0,
            remap_ns: 0,
            copy_gbps: 1000.0,
            mode: CopyMode::Unmapped,
            shootdowns: 0.0,
        }
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        let page = self.0 % PAGES;
        cx.migrate(page, 1 - cx.pages.tier_of(page));
        self.0 += 1;
        cx.wake_at(cx.now + 2 * COPY_NS);
    }
}

/// A page is touched every `1/r`: of a copy of `t` a thread waits for `t - (1 - exp(-r t)) / r`.
#[test]
fn a_store_behind_a_read_is_no_second_touch_and_a_hit_is_one() {
    let streams = [
        (json!({}), 1.0),
        (json!({"stores_per_op": 1.0}), 1.0),
        (json!({"llc_hits_per_op": 3.0}), 4.0),
    ];
    for mode in MODES {
        for (stream, touches_per_op) in &streams {
            let ops = 4_000_000.0;
            let workload = chase(stream, &json!({"ops": ops}));
            let m = run(&workload, mode, 1_000_000, Restless(0)).metrics;
            let moves = m.promotions + m.demotions;
            let (copy_ns, running_ns) = (m.migration_busy_s * 1e9 / moves, (m.runtime_s - m.stall_s) * 1e9);
            let per_ns = ops * touches_per_op / running_ns / f64::from(PAGES);
            let waited_ns = copy_ns - (1.0 - (-per_ns * copy_ns).exp()) / per_ns;
            close(
                m.stall_s * 1e9 / moves,
                waited_ns,
                0.06,
                &format!("{mode:?}, {stream}: wait for a page"),
            );
        }
    }
}

/// Guards all pages that there are, once, and hears of faults.
struct Guards {
    at: Nanos,
    faults: Arc<Mutex<Vec<Fault>>>,
}

impl Policy for Guards {
    fn needs(&self) -> Needs {
        Needs {
            hint_faults: true,
            ..Needs::default()
        }
    }

    fn on_alloc(&mut self, _: &Extent, cx: &mut Context<'_>) -> Placement {
        if cx.now == 0 {
            cx.wake_at(self.at);
        }
        Placement::FastestFree
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        if cx.now >= self.at {
            cx.arm(0..PAGES);
        } else {
            cx.wake_at(self.at);
        }
    }

    fn on_faults(&mut self, faults: &[Fault], _: &mut Context<'_>) {
        self.faults.lock().expect("one thread").extend(faults);
    }
}

/// Microseconds do not fit in 32 bits after 71 minutes.
#[test]
fn a_guard_knows_its_time_after_hours() {
    let at = 7_200_000_000_000;
    let workload = chase(&json!({}), &json!({"ops": 7300.0, "cpu_ns_per_op": 1e9}));
    let faults = Arc::default();
    run(
        &workload,
        Mode::Fast,
        1_000_000_000,
        Guards {
            at,
            faults: Arc::clone(&faults),
        },
    );
    let faults = faults.lock().expect("one thread");
    assert!(faults.len() > 50, "{} faults", faults.len());
    assert!(
        faults
            .iter()
            .all(|fault| fault.armed_at >= at && fault.armed_at <= fault.at)
    );
}

/// What is freed is unmapped: of guards that were set before, a new mapping knows nothing.
#[test]
fn guards_end_with_what_they_guard() {
    let phase = |object: &str, ops: f64, free: &[&str], allocate: &[&str]| {
        json!({"name": object, "free": free, "allocate": allocate, "groups": [{"name": "w", "threads": 1, "ops": ops,
            "cpu_ns_per_op": 50.0, "streams": [{"object": object, "law": {"kind": "uniform"}, "class": "chase",
            "reads_per_op": 1.0, "missed_llc": true}]}]})
    };
    let bytes = u64::from(PAGES) * PAGE_4K;
    let workload = compile(
        json!({"objects": [{"name": "t", "bytes": bytes}, {"name": "other", "bytes": bytes}], "blocks": [{"phases": [
            phase("other", 20_000.0, &[], &["t"]),
            phase("other", 10_000.0, &["t"], &[]),
            phase("t", 100_000.0, &[], &["t"]),
            phase("other", 1.0, &["t"], &[]),
        ]}]}),
        PAGE_4K,
    );
    assert_eq!(workload.objects[0].first_page, 0, "the guarded pages are those of t");
    for mode in MODES {
        let faults: Arc<Mutex<Vec<Fault>>> = Arc::default();
        let guards = Guards {
            at: 1_000_000,
            faults: Arc::clone(&faults),
        };
        run(&workload, mode, 100_000, guards);
        assert_eq!(faults.lock().expect("one thread").len(), 0, "{mode:?}");
    }
}
