//! Signals and actions against closed forms: policies made for the purpose ask for one thing, and what
//! comes of it is worked out by hand. Both modes of the simulator have to agree with that, not only
//! with each other.

use std::sync::{Arc, Mutex};

use crate::support::{compile, request};
use serde_json::{Value, json};
use tiertune_policy::registry::{PAGE_2M, PAGE_4K};
use tiertune_policy::{
    Config, Context, CopyMode, Extent, Fault, FaultKind, Migrated, MigrationMechanics, Nanos, Needs, Outcome, Page,
    Placement, Policy,
};
use tiertune_sim::scenario::{Mode, Request};
use tiertune_sim::{RunResult, Workload, WorkloadModel};

const MODES: [Mode; 2] = [Mode::Fast, Mode::Reference];
const PAGES: u32 = 4096;

/// `threads` threads that visit uniform pages, one an operation, dependent on each other.
fn uniform(threads: u32, ops: f64, stores_per_op: f64) -> Workload {
    compile(
        json!({"objects": [{"name": "t", "bytes": u64::from(PAGES) * PAGE_4K}],
        "blocks": [{"phases": [{"name": "p", "groups": [{"name": "w", "threads": threads, "ops": ops, "cpu_ns_per_op": 50.0,
            "streams": [{"object": "t", "law": {"kind": "uniform"}, "class": "chase", "reads_per_op": 1.0,
                         "stores_per_op": stores_per_op}]}]}]}]}),
        PAGE_4K,
    )
}

fn run(workload: &Workload, mode: Mode, policy: impl Policy + 'static) -> RunResult {
    let mut request = base(workload);
    request.mode = mode;
    let run = tiertune_sim::run_policy(workload, &request, Box::new(policy));
    run.expect("a run").0
}

/// Fast memory for half of the pages; a cache so small that all reads miss it.
fn base(workload: &Workload) -> Request {
    let mut request = request(
        "notier",
        Config::new(),
        workload.page_bytes,
        u64::from(workload.pages) / 2 * workload.page_bytes,
        1,
    );
    request.machine.llc_bytes = 64;
    request
}

fn close(measured: f64, expected: f64, within: f64, what: &str) {
    let error = (measured / expected - 1.0).abs();
    assert!(error <= within, "{what}: {measured} instead of {expected}");
}

/// What a test policy tells the test.
#[derive(Default)]
struct Seen {
    faults: Vec<Fault>,
    accessed: Vec<f64>,
    ended: Vec<Migrated>,
}

type Shared = Arc<Mutex<Seen>>;

/// Arms all pages once and keeps what it hears.
struct Arms(Shared);

impl Policy for Arms {
    fn needs(&self) -> Needs {
        Needs {
            hint_faults: true,
            ..Needs::default()
        }
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        cx.arm(0..PAGES);
    }

    fn on_faults(&mut self, faults: &[Fault], _: &mut Context<'_>) {
        self.0.lock().expect("one thread").faults.extend(faults);
    }
}

/// `n` visits of uniform pages touch each for the first time after an exponential time: with as many
/// visits as pages, a share of 1 - 1/e of the pages, half of them within ln 2 of the mean.
#[test]
fn armed_pages_fault_once_at_their_first_touch() {
    let workload = uniform(4, f64::from(PAGES), 0.0);
    for mode in MODES {
        let seen = Shared::default();
        let result = run(&workload, mode, Arms(seen.clone()));
        let seen = seen.lock().expect("one thread");
        let expected = f64::from(PAGES) * (1.0 - (-1.0f64).exp());
        close(seen.faults.len() as f64, expected, 0.04, "faults");
        let mut pages: Vec<Page> = seen.faults.iter().map(|fault| fault.page).collect();
        pages.sort_unstable();
        assert!(pages.windows(2).all(|pair| pair[0] < pair[1]), "a page faults twice");
        assert!(
            seen.faults
                .iter()
                .all(|f| f.kind == FaultKind::Hint && f.armed_at <= f.at)
        );
        assert_eq!(result.metrics.hint_faults, seen.faults.len() as f64);
        close(
            result.metrics.fault_stall_s,
            seen.faults.len() as f64 * 1.5e-6,
            1e-6,
            "time in faults",
        );
    }
}

/// A sweep touches every armed page exactly once a pass.
#[test]
fn a_sweep_takes_the_fault_of_every_page_in_order() {
    let lines = f64::from(PAGES) * 64.0;
    let workload = compile(
        json!({"objects": [{"name": "t", "bytes": u64::from(PAGES) * PAGE_4K}],
        "blocks": [{"phases": [{"name": "p", "groups": [{"name": "w", "threads": 2, "ops": 1.5 * lines, "cpu_ns_per_op": 5.0,
            "streams": [{"object": "t", "law": {"kind": "sweep"}, "class": "stream", "reads_per_op": 1.0}]}]}]}]}),
        PAGE_4K,
    );
    for mode in MODES {
        let seen = Shared::default();
        run(&workload, mode, Arms(seen.clone()));
        let faults = &seen.lock().expect("one thread").faults;
        assert_eq!(faults.len(), PAGES as usize, "{mode:?}");
        // Each thread's own part is passed front to back.
        for half in [0..PAGES / 2, PAGES / 2..PAGES] {
            let times: Vec<Nanos> = faults.iter().filter(|f| half.contains(&f.page)).map(|f| f.at).collect();
            assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{mode:?}");
        }
    }
}

/// Tests and clears the bits of some pages every millisecond.
struct Scans(Shared);

const SCANNED: u32 = 2000;

impl Policy for Scans {
    fn needs(&self) -> Needs {
        Needs {
            accessed_bits: true,
            ..Needs::default()
        }
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        let set = (0..SCANNED).filter(|page| cx.accessed.test_and_clear(*page)).count();
        self.0
            .lock()
            .expect("one thread")
            .accessed
            .push(set as f64 / f64::from(SCANNED));
        cx.wake_at(cx.now + 1_000_000);
    }
}

#[test]
fn accessed_bits_are_set_as_often_as_visits_say() {
    let workload = uniform(4, 400_000.0, 0.0);
    for mode in MODES {
        let seen = Shared::default();
        let result = run(&workload, mode, Scans(seen.clone()));
        let visits_per_ms = 400_000.0 / (result.metrics.runtime_s * 1e3);
        let expected = 1.0 - (-visits_per_ms / f64::from(PAGES)).exp();
        let accessed = &seen.lock().expect("one thread").accessed;
        assert_eq!(accessed[0], 1.0, "the faults that mapped the pages have set their bits");
        let later = &accessed[1..accessed.len() - 1];
        let mean = later.iter().sum::<f64>() / later.len() as f64;
        close(mean, expected, 0.02, "share of bits set in a millisecond");
    }
}

/// Looks at bits without clearing them, then clears them, every millisecond.
struct Looks(Shared);

impl Policy for Looks {
    fn needs(&self) -> Needs {
        Needs {
            accessed_bits: true,
            ..Needs::default()
        }
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        let first: Vec<bool> = (0..SCANNED).map(|page| cx.accessed.test(page)).collect();
        let again: Vec<bool> = (0..SCANNED).map(|page| cx.accessed.test(page)).collect();
        assert_eq!(first, again, "looking changes nothing, and no time has passed");
        let cleared: Vec<bool> = (0..SCANNED).map(|page| cx.accessed.test_and_clear(page)).collect();
        assert_eq!(first, cleared, "what was seen is what is cleared");
        assert!((0..SCANNED).all(|page| !cx.accessed.test(page)));
        let set = first.iter().filter(|set| **set).count();
        let mut seen = self.0.lock().expect("one thread");
        seen.accessed.push(set as f64 / f64::from(SCANNED));
        cx.wake_at(cx.now + 1_000_000);
    }
}

#[test]
fn a_bit_that_was_only_looked_at_stays_set() {
    let workload = uniform(4, 400_000.0, 0.0);
    for mode in MODES {
        let seen = Shared::default();
        let result = run(&workload, mode, Looks(seen.clone()));
        let visits_per_ms = 400_000.0 / (result.metrics.runtime_s * 1e3);
        let expected = 1.0 - (-visits_per_ms / f64::from(PAGES)).exp();
        let accessed = &seen.lock().expect("one thread").accessed;
        let later = &accessed[1..accessed.len() - 1];
        let mean = later.iter().sum::<f64>() / later.len() as f64;
        close(mean, expected, 0.02, "share of bits set in a millisecond");
    }
}

/// A sweep is in a page of 2 MiB for milliseconds, and sets its bit again however often it is cleared meanwhile.
#[test]
fn a_sweep_sets_the_bit_of_a_page_as_long_as_it_is_in_it() {
    let pages = f64::from(SCANNED);
    let ops = pages * 32768.0 / 20.0;
    let workload = compile(
        json!({"objects": [{"name": "t", "bytes": u64::from(SCANNED) << 21}],
        "blocks": [{"phases": [{"name": "p", "groups": [{"name": "w", "threads": 4, "ops": ops, "cpu_ns_per_op": 50.0,
            "streams": [{"object": "t", "law": {"kind": "sweep"}, "class": "stream", "reads_per_op": 1.0}]}]}]}]}),
        PAGE_2M,
    );
    for mode in MODES {
        let seen = Shared::default();
        run(&workload, mode, Scans(seen.clone()));
        let accessed = &seen.lock().expect("one thread").accessed;
        let later = &accessed[1..accessed.len() - 1];
        let mean = pages * later.iter().sum::<f64>() / later.len() as f64;
        // Four threads are in a page each; now and then one is in two of them within the millisecond.
        assert!(later.len() > 10, "{} milliseconds", later.len());
        assert!((4.0..8.0).contains(&mean), "{mode:?}: {mean} pages a millisecond");
    }
}

/// Promotes every page that faults, in the fault.
struct InFault(Shared);

impl Policy for InFault {
    fn needs(&self) -> Needs {
        Needs {
            hint_faults: true,
            ..Needs::default()
        }
    }

    fn mechanics(&self) -> MigrationMechanics {
        MigrationMechanics {
            lanes: 1,
            fixed_ns: 10_000,
            alone_fixed_ns: 10_000,
            run_fixed_ns: 0,
            remap_ns: 0,
            copy_gbps: 4.096,
            mode: CopyMode::Unmapped,
            shootdowns: 1.0,
        }
    }

    fn on_alloc(&mut self, _: &Extent, _: &mut Context<'_>) -> Placement {
        Placement::SlowestFree
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        cx.arm(0..1000);
    }

    fn on_faults(&mut self, faults: &[Fault], cx: &mut Context<'_>) {
        for fault in faults {
            cx.migrate_in_fault(fault, 0);
        }
    }

    fn on_migrations(&mut self, ended: &[Migrated], _: bool, _: &mut Context<'_>) {
        self.0.lock().expect("one thread").ended.extend(ended);
    }
}

/// A fault costs 1.5 us, the move 10 us and a microsecond of copying 4 KiB at 4.096 GB/s, a little more under
/// load; the threads lose exactly that, beside what others wait for pages that they move.
#[test]
fn a_move_in_the_fault_is_the_faulting_threads_time() {
    let workload = uniform(4, 200_000.0, 0.0);
    for mode in MODES {
        let seen = Shared::default();
        let result = run(&workload, mode, InFault(seen.clone()));
        let m = &result.metrics;
        let ended = &seen.lock().expect("one thread").ended;
        assert_eq!(m.promotions, 1000.0, "{mode:?}");
        assert!(ended.iter().all(|migrated| migrated.outcome == Outcome::Done));
        close(m.fault_stall_s, 1000.0 * 12.5e-6, 0.02, "time in faults and moves");
        assert!(
            m.stall_s >= m.fault_stall_s * 0.999,
            "{mode:?}: {} of {}",
            m.fault_stall_s,
            m.stall_s
        );
        assert_eq!(m.migration_busy_s, 0.0, "no thread of the system moved anything");
        assert_eq!(m.shootdown_stall_s, 0.0, "a fault finds its page unmapped");
    }
}

/// Promotes 500 pages as transactions that keep their frames.
struct Shadows(Shared);

impl Policy for Shadows {
    fn mechanics(&self) -> MigrationMechanics {
        MigrationMechanics {
            lanes: 1,
            fixed_ns: 1000,
            alone_fixed_ns: 1000,
            run_fixed_ns: 0,
            remap_ns: 500,
            copy_gbps: 0.4096,
            mode: CopyMode::Transactional { passes: 2 },
            shootdowns: 0.5,
        }
    }

    fn on_alloc(&mut self, _: &Extent, _: &mut Context<'_>) -> Placement {
        Placement::SlowestFree
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        (0..500).for_each(|page| cx.migrate_keeping(page, 0));
    }

    fn on_faults(&mut self, faults: &[Fault], cx: &mut Context<'_>) {
        faults.iter().for_each(|fault| cx.release(fault.page));
        self.0.lock().expect("one thread").faults.extend(faults);
    }

    fn on_migrations(&mut self, ended: &[Migrated], _: bool, _: &mut Context<'_>) {
        self.0.lock().expect("one thread").ended.extend(ended);
    }
}

/// A page is written every `1/w` in the mean, a copy takes `t`: it is thrown away with probability
/// 1 - exp(-w t), and given up after two.
#[test]
fn a_written_page_aborts_its_transaction() {
    let ops = 3e6;
    let workload = uniform(8, ops, 1.0);
    for mode in MODES {
        let seen = Shared::default();
        let result = run(&workload, mode, Shadows(seen.clone()));
        let m = &result.metrics;
        let seen = seen.lock().expect("one thread");
        assert_eq!(seen.ended.len(), 500, "{mode:?}: {} s", m.runtime_s);
        let attempts = m.migrations_aborted + m.promotions;
        let copy_ns = m.migration_busy_s * 1e9 / attempts;
        let writes_per_ns = ops / (m.runtime_s * 1e9) / f64::from(PAGES);
        let abort = 1.0 - (-writes_per_ns * copy_ns).exp();
        assert!((0.05..0.6).contains(&abort), "the test has something to see: {abort}");
        close(
            m.migrations_aborted,
            500.0 * (abort + abort * abort),
            0.2,
            "aborted copies",
        );
        let given_up = seen.ended.iter().filter(|e| e.outcome == Outcome::Aborted).count();
        assert_eq!(m.migrations_given_up, given_up as f64);
        assert_eq!(m.promotions + m.migrations_given_up, 500.0);
        // Twice a half for each copy, on each of the eight threads' cores.
        close(m.shootdown_stall_s, attempts * 8.0 * 750e-9, 1e-6, "interrupts");
        // Every promoted page is written sooner or later, once with a guard.
        close(m.write_faults, m.promotions, 0.01, "write faults");
        assert!(seen.faults.iter().all(|fault| fault.kind == FaultKind::Write));
    }
}

/// Counts demand misses of a bare chase: latency is what it is, nothing overlaps.
struct Counts(Arc<Mutex<tiertune_policy::Counters>>);

impl Policy for Counts {
    fn needs(&self) -> Needs {
        Needs {
            counters: true,
            ..Needs::default()
        }
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        *self.0.lock().expect("one thread") = cx.counters.clone();
        cx.wake_at(cx.now + 100_000);
    }
}

#[test]
fn counters_of_a_bare_chase_read_its_latency() {
    let ops = 400_000.0;
    let workload = uniform(1, ops, 0.0);
    for mode in MODES {
        let shared = Arc::new(Mutex::new(tiertune_policy::Counters::default()));
        run(&workload, mode, Counts(shared.clone()));
        let counters = shared.lock().expect("one thread").clone();
        for (tier, latency_ns) in [(0, 95.0), (1, 180.0)] {
            let tier = &counters.tiers[tier];
            close(tier.occupancy_ns / tier.inserts, latency_ns, 0.02, "loaded latency");
            close(
                tier.busy_ns,
                tier.occupancy_ns,
                0.02,
                "one request at a time keeps the tier busy alone",
            );
        }
        close(
            counters.tiers[0].inserts,
            counters.tiers[1].inserts,
            0.02,
            "half of the pages are fast",
        );
        let cores = &counters.cores;
        // 137.5 ns in the mean, at 2.2 GHz.
        close(cores.outstanding_cycles / cores.reads, 137.5 * 2.2, 0.02, "A1/A3");
        close(cores.occupancy_cycles / cores.reads, 137.5 * 2.2, 0.02, "A2/A3");
        close(
            cores.cycles / cores.reads,
            187.5 * 2.2,
            0.02,
            "cycles a read, 50 ns of computing included",
        );
        // A cache of one line still has a hit now and then.
        close(
            cores.stall_cycles,
            cores.outstanding_cycles,
            1e-4,
            "stalled whenever it waits",
        );
    }
}

/// An object comes in the second phase and goes before the third, pages on the move included.
#[test]
fn objects_come_and_go_with_phases() {
    let phase = |object: &str, more: Value| {
        let mut phase = json!({"name": object, "groups": [{"name": "w", "threads": 2, "ops": 100_000.0, "cpu_ns_per_op": 50.0,
            "streams": [{"object": object, "law": {"kind": "uniform"}, "class": "chase", "reads_per_op": 1.0}]}]});
        for (key, value) in more.as_object().expect("keys") {
            phase[key] = value.clone();
        }
        phase
    };
    let model = json!({
    "objects": [{"name": "a", "bytes": 1024 * PAGE_4K}, {"name": "b", "bytes": 1024 * PAGE_4K}, {"name": "c", "bytes": 1024 * PAGE_4K}],
    "blocks": [{"phases": [
        phase("a", json!({})),
        phase("b", json!({"allocate": ["b"]})),
        phase("c", json!({"free": ["b"], "allocate": ["c"]})),
    ]}]});
    let workload = compile(model.clone(), PAGE_4K);
    assert_eq!((workload.pages, workload.peak_pages), (3072, 2048));
    let described: WorkloadModel = serde_json::from_value(model.clone()).expect("a valid model");
    assert_eq!(described.peak_bytes(), 2048 * PAGE_4K);
    for (mode, cached) in MODES.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut request = request("notier", Config::new(), PAGE_4K, 1536 * PAGE_4K, 1);
        request.machine.llc_bytes = if cached { 64 << 20 } else { 64 };
        request.mode = mode;
        let policy = Box::new(ComesAndGoes(seen.clone()));
        let run = tiertune_sim::run_policy(&workload, &request, policy);
        let m = run.expect("a run").0.metrics;
        let seen = seen.lock().expect("one thread");
        // Fast memory has room for all of a and half of b; c takes the room that b has left.
        assert_eq!(*seen, ["+0", "+1", "-1", "gone", "+2"], "{mode:?}");
        if !cached {
            close(
                m.fast_hit_ratio,
                (1.0 + 0.5 + 0.5) / 3.0,
                0.01,
                "reads from fast memory",
            );
        }
    }
    let mistakes = [
        (json!({"free": ["c"]}), "frees, but nothing has allocated"),
        (
            json!({"allocate": ["b"], "free": []}),
            "touches, but nothing has allocated",
        ),
    ];
    for (change, expected) in mistakes {
        let mut model = model.clone();
        for (key, value) in change.as_object().expect("keys") {
            model["blocks"][0]["phases"][0][key] = value.clone();
        }
        if expected.starts_with("touches") {
            model["blocks"][0]["phases"][1]["allocate"] = json!([]);
            model["blocks"][0]["phases"][0]["allocate"] = json!(["a", "b"]);
            model["blocks"][0]["phases"][0]["free"] = json!([]);
            model["blocks"][0]["phases"][2]["allocate"] = json!([]);
            model["blocks"][0]["phases"][1]["free"] = json!(["b"]);
            model["blocks"][0]["phases"][2]["free"] = json!([]);
        }
        let model = serde_json::from_value(model).expect("a valid workload");
        let error = Workload::compile(&model, PAGE_4K)
            .expect_err("it does not hang together")
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// What is there while a program loads its input makes room for what is placed after it has gone, and counts for the peak.
#[test]
fn objects_of_the_load_phase_are_gone_when_the_run_begins() {
    let object = |name: &str, freed_after: Option<&str>| match freed_after {
        Some(last) => json!({"name": name, "bytes": 1024 * PAGE_4K, "freed_after": last}),
        None => json!({"name": name, "bytes": 1024 * PAGE_4K}),
    };
    let model = |last: &str, read: &str| {
        json!({
        "objects": [object("read", Some(last)), object("a", None), object("b", None), object("c", None)],
        "blocks": [{"phases": [{"name": "p", "groups": [{"name": "w", "threads": 2, "ops": 100_000.0, "cpu_ns_per_op": 50.0,
            "streams": [{"object": read, "law": {"kind": "uniform"}, "class": "chase", "reads_per_op": 1.0}]}]}]}]})
    };
    for (object, fast) in [("a", 0.5), ("b", 0.0), ("c", 1.0)] {
        let workload = compile(model("b", object), PAGE_4K);
        assert_eq!((workload.pages, workload.peak_pages), (4096, 3072));
        let described: WorkloadModel = serde_json::from_value(model("b", object)).expect("a valid model");
        assert_eq!(described.peak_bytes(), 3072 * PAGE_4K);
        let with_more_read = {
            let mut model = model("b", object);
            model["objects"][0]["bytes"] = json!(4096 * PAGE_4K);
            model
        };
        let larger = compile(with_more_read.clone(), PAGE_4K);
        assert_eq!((larger.pages, larger.peak_pages), (7168, 6144));
        let described: WorkloadModel = serde_json::from_value(with_more_read).expect("a valid model");
        assert_eq!(described.peak_bytes(), 3072 * PAGE_4K, "the footprint is of the run");
        for mode in MODES {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let mut request = request("notier", Config::new(), PAGE_4K, 1536 * PAGE_4K, 1);
            request.machine.llc_bytes = 64;
            request.mode = mode;
            let run = tiertune_sim::run_policy(&workload, &request, Box::new(Watches(seen.clone())));
            let m = run.expect("a run").0.metrics;
            assert_eq!(
                *seen.lock().expect("one thread"),
                ["+0", "+1", "+2", "-0", "+3"],
                "{mode:?}"
            );
            let found = m.fast_hit_ratio;
            assert!(
                (found - fast).abs() < 0.01,
                "{mode:?}: {object} is read from fast memory by {found}, not {fast}"
            );
        }
    }
    let compiled = |model| Workload::compile(&serde_json::from_value(model).expect("a valid model"), PAGE_4K);
    for (last, read, expected) in [
        ("read", "a", "must be placed after it"),
        ("d", "a", "no object 'd'; did you mean"),
        ("b", "read", "touches, but nothing has allocated"),
    ] {
        let error = compiled(model(last, read)).expect_err(last).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Places first come, first served, and notes what comes and goes.
struct Watches(Arc<Mutex<Vec<String>>>);

impl Policy for Watches {
    fn on_alloc(&mut self, extent: &Extent, _: &mut Context<'_>) -> Placement {
        self.0.lock().expect("one thread").push(format!("+{}", extent.object));
        Placement::FastestFree
    }

    fn on_free(&mut self, extent: &Extent, _: &mut Context<'_>) {
        self.0.lock().expect("one thread").push(format!("-{}", extent.object));
    }
}

struct ComesAndGoes(Arc<Mutex<Vec<String>>>);

impl Policy for ComesAndGoes {
    fn mechanics(&self) -> MigrationMechanics {
        MigrationMechanics {
            lanes: 1,
            fixed_ns: 1_000_000_000,
            alone_fixed_ns: 1_000_000_000,
            run_fixed_ns: 0,
            remap_ns: 0,
            copy_gbps: 1.0,
            mode: CopyMode::WriteProtected,
            shootdowns: 0.0,
        }
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.0.lock().expect("one thread").push(format!("+{}", extent.object));
        if extent.object == 1 {
            cx.wake_at(cx.now + 1_000_000);
        }
        Placement::FastestFree
    }

    fn on_free(&mut self, extent: &Extent, _: &mut Context<'_>) {
        self.0.lock().expect("one thread").push(format!("-{}", extent.object));
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        if cx.now > 0 {
            cx.migrate(1024, 1); // takes longer than the page lives
        }
    }

    fn on_migrations(&mut self, ended: &[Migrated], _: bool, _: &mut Context<'_>) {
        assert!(
            ended.iter().all(|migrated| migrated.outcome == Outcome::Gone),
            "{ended:?}"
        );
        self.0.lock().expect("one thread").push("gone".into());
    }
}

/// What HeMem does not manage lies in fast memory although it is touched last, as beside its pool, and that costs nothing.
#[test]
fn a_small_object_has_room_made_for_it() {
    let workload = compile(
        json!({"objects": [{"name": "large", "bytes": 512 * PAGE_2M}, {"name": "small", "bytes": 16 * PAGE_2M}],
        "blocks": [{"phases": [{"name": "p", "groups": [{"name": "w", "threads": 4, "ops": 1e6, "cpu_ns_per_op": 50.0,
            "streams": [{"object": "small", "law": {"kind": "uniform"}, "class": "chase", "reads_per_op": 1.0}]}]}]}]}),
        PAGE_2M,
    );
    for (filter_bytes, in_fast) in [(32 * PAGE_2M, 1.0), (0, 0.0)] {
        let config = Config::from([("mmap_filter_size_bytes".to_string(), (filter_bytes as i64).into())]);
        let asked = request("hemem", config, PAGE_2M, 64 * PAGE_2M, 1);
        for mode in MODES {
            let run = tiertune_sim::run(&workload, &Request { mode, ..asked.clone() }).expect("a run");
            let (share, moved) = (run.metrics.fast_hit_ratio, run.metrics.migrated_bytes);
            if in_fast > 0.0 {
                assert_eq!((share, moved), (1.0, 0.0), "{mode:?}");
            } else {
                assert!(share < 0.9, "{mode:?}: {share} of the reads hit without a filter");
            }
        }
    }
}
