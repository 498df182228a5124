//! The fast mode against the reference mode on recorded appends (a database, and a cache of keys and values, that grow)
//! and recorded sweeps (passes over arrays that are all alike). The bounds are those of
//! `support/fidelity.rs`.

use crate::support::fidelity::{Scene, check_errors, runtimes};
use serde_json::{Value, json};
use tiertune_policy::Config;
use tiertune_policy::registry::PAGE_4K;
use tiertune_sim::Workload;
use tiertune_sim::scenario::Mode;
use tiertune_workload::{CarrySpec, RecordRequest};

const REFERENCE_SEEDS: u64 = 4;
const FAST_SEEDS: u64 = 16;

/// A recording replayed as it is on four threads, and its footprint in bytes.
fn recorded(asked: Value) -> (Workload, u64) {
    let asked = RecordRequest::try_from(asked).expect("a valid request");
    let profile = tiertune_workload::record(&asked).expect("a profile");
    let replay = profile.carry(&CarrySpec::new(PAGE_4K)).expect("carried");
    let footprint = replay.footprint_bytes();
    let model = tiertune_sim::replay::workload_of(replay, 4);
    (Workload::compile(&model, PAGE_4K).expect("compiles"), footprint)
}

/// Settings under which pages of a run of some hundredths of a second move: short periods, low thresholds.
fn configs() -> Vec<Config> {
    [
        (100, 1000, 1, 1, 3, 1),
        (100, 1000, 2, 1, 5, 2),
        (200, 1000, 1, 2, 2, 5),
        (200, 2000, 2, 1, 4, 1),
        (400, 1000, 1, 1, 6, 10),
        (400, 2000, 1, 1, 2, 2),
        (800, 1000, 1, 2, 3, 1),
    ]
    .into_iter()
    .map(
        |(period, stores, reads_hot, stores_hot, cooling, tick_ms): (i64, i64, i64, i64, i64, i64)| {
            Config::from([
                ("sampling_period".to_string(), period.into()),
                ("write_sampling_period".to_string(), stores.into()),
                ("read_hot_threshold".to_string(), reads_hot.into()),
                ("write_hot_threshold".to_string(), stores_hot.into()),
                ("cooling_threshold".to_string(), cooling.into()),
                ("migration_period_ms".to_string(), tick_ms.into()),
                ("mmap_filter_size_bytes".to_string(), 0i64.into()),
            ])
        },
    )
    .collect()
}

fn check(name: &str, (workload, footprint): (Workload, u64), least_promotions: f64) {
    let started = std::time::Instant::now();
    let scene = Scene {
        workload: &workload,
        system: "hemem",
        configs: &configs(),
        fast_bytes: footprint / 5,
        // As often as the reference mode tells the policy: a slice of the usual 1 ms is a good part of such a run.
        slice_ns: 50_000,
    };
    let fast = scene.means(Mode::Fast, FAST_SEEDS);
    let truth = scene.means(Mode::Reference, REFERENCE_SEEDS);
    let moved = truth.iter().map(|means| means.promotions).fold(f64::MAX, f64::min);
    assert!(
        moved >= least_promotions,
        "{name}: a setting moves {moved} pages, which shows nothing"
    );
    println!("{name}: at least {moved} promotions, {:?}", started.elapsed());
    check_errors(name, &runtimes(&fast), &runtimes(&truth));
}

#[test]
fn appends_of_a_database() {
    let asked = json!({"kernel": "tpcc", "warehouses": 1, "transactions": 5000, "seed": 1, "llc_bytes": 262_144});
    check("recorded tpcc", recorded(asked), 50.0);
}

#[test]
fn appends_of_keys_and_values() {
    let asked = json!({"kernel": "gpt2", "layers": 4, "width": 128, "heads": 4, "vocabulary": 1024, "context": 64,
        "batch": 8, "prompt": 16, "generated": 48, "seed": 1, "llc_bytes": 65_536});
    check("recorded gpt2", recorded(asked), 3.0);
}

#[test]
fn sweeps_of_transforms() {
    let asked = json!({"kernel": "npb_ft", "nx": 64, "ny": 64, "nz": 64, "iterations": 6, "llc_bytes": 65_536});
    check("recorded ft", recorded(asked), 50.0);
}

#[test]
fn sweeps_of_line_solves() {
    let asked = json!({"kernel": "npb_sp", "edge": 40, "iterations": 4, "llc_bytes": 65_536});
    check("recorded sp", recorded(asked), 50.0);
}
