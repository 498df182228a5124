//! The fast mode against the reference mode, over random knobs of `hemem` on six workloads.
//!
//! Bounds are the project's promise: median runtime error at most 1 %, worst 5 %, and the setting
//! that the fast mode ranks best is within 1 % of the true best. Both modes run several seeds,
//! because one seed of a short run decides by chance which of the few migrations happen first;
//! the comparison is of means.

use crate::support::fidelity::{Scene, check_errors, runtimes};
use crate::support::{MIB, compile, hot_set, private_hot_sets, random_hemem, scan_and_gather, skewed_chase};
use tiertune_policy::registry::{PAGE_2M, PAGE_4K};
use tiertune_policy::{Config, CounterRng};
use tiertune_sim::Workload;
use tiertune_sim::scenario::Mode;
use tiertune_workload::{CarrySpec, RecordRequest};

const CONFIGS: usize = 7;
const REFERENCE_SEEDS: u64 = 24;
const FAST_SEEDS: u64 = 48;

/// The default, sampling at the rate of a short run, and a keener one, as random settings alone often promote nothing;
/// then random ones.
fn configs() -> Vec<Config> {
    let mut rng = CounterRng::new(42, &[]);
    let mut configs = Vec::new();
    for i in 0..CONFIGS {
        let mut config = random_hemem(&mut rng);
        if i < 2 {
            config.retain(|name, _| name == "mmap_filter_size_bytes");
            config.insert("sampling_period".into(), 300i64.into());
            config.insert("read_hot_threshold".into(), if i == 0 { 8i64 } else { 3i64 }.into());
        }
        configs.push(config);
    }
    configs
}

fn check(name: &str, workload: &Workload, fast_bytes: u64) {
    let scene = Scene {
        workload,
        system: "hemem",
        configs: &configs(),
        fast_bytes,
        slice_ns: 1_000_000,
    };
    let fast = runtimes(&scene.means(Mode::Fast, FAST_SEEDS));
    let reference = scene.means(Mode::Reference, REFERENCE_SEEDS);
    let moving = reference.iter().filter(|means| means.promotions >= 1.0).count();
    assert!(
        moving >= 3,
        "{name}: pages move with {moving} of {CONFIGS} settings only, so this shows nothing"
    );
    let truth = runtimes(&reference);
    check_errors(name, &fast, &truth);
    let best = |of: &[f64]| (0..CONFIGS).min_by(|a, b| of[*a].total_cmp(&of[*b])).expect("configs");
    let regret = truth[best(&fast)] / truth[best(&truth)] - 1.0;
    println!("{name}: regret {:.2} %", regret * 100.0);
    assert!(
        regret <= 0.01,
        "{name}: regret {regret}; fast {fast:?}, reference {truth:?}"
    );
}

#[test]
fn moving_hot_set() {
    let bytes = 1024 * MIB;
    check("moving hot set", &compile(hot_set(bytes, 6e6), PAGE_2M), bytes / 9);
}

#[test]
fn private_hot_sets_of_threads() {
    let bytes = 1024 * MIB;
    check(
        "private hot sets",
        &compile(private_hot_sets(bytes, 6e6), PAGE_2M),
        bytes / 9,
    );
}

#[test]
fn skewed_pointer_chase() {
    let bytes = 1024 * MIB;
    check("skewed chase", &compile(skewed_chase(bytes, 6e6), PAGE_2M), bytes / 9);
}

#[test]
fn scan_beside_a_hot_set() {
    let bytes = 1024 * MIB;
    check(
        "scan and gather",
        &compile(scan_and_gather(bytes, 6e6), PAGE_2M),
        bytes / 9,
    );
}

/// Betweenness centrality on a graph that got into memory like this.
fn check_betweenness_centrality(name: &str, loading: Option<&str>) {
    let asked = serde_json::json!({"kernel": "bc", "graph": "kron", "scale": 13, "seed": 1, "llc_bytes": 65_536});
    let asked = RecordRequest::try_from(asked).expect("a valid request");
    let profile = tiertune_workload::record(&asked).expect("a profile");
    let mut asked = serde_json::json!({"scale": 18, "page_bytes": PAGE_4K, "runs": 2});
    if let Some(loading) = loading {
        asked["loading"] = loading.into();
    }
    let spec: CarrySpec = serde_json::from_value(asked).expect("a valid size");
    let replay = profile.carry(&spec).expect("carried");
    let footprint = replay.footprint_bytes();
    let model = tiertune_sim::replay::workload_of(replay, 4);
    let workload = Workload::compile(&model, PAGE_4K).expect("compiles");
    check(name, &workload, footprint / 9);
}

#[test]
fn recorded_betweenness_centrality() {
    check_betweenness_centrality("recorded bc", None);
}

/// The system acts while the graph is read, and what it moved is where it is when the timed part begins.
#[test]
fn recorded_betweenness_centrality_after_reading() {
    check_betweenness_centrality("recorded bc, read", Some("read"));
}
