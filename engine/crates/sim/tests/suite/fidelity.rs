//! The fast mode against the reference mode, over random knobs of `hemem` on five workloads.
//!
//! Bounds are the project's promise: median runtime error at most 1 %, worst 5 %, and the setting
//! that the fast mode ranks best is within 1 % of the true best. Both modes run several seeds,
//! because one seed of a short run decides by chance which of the few migrations happen first;
//! the comparison is of means.

use crate::support::{
    MIB, compile, hot_set, machine, private_hot_sets, random_hemem, request, scan_and_gather, skewed_chase,
};
use tiertune_policy::CounterRng;
use tiertune_policy::registry::{PAGE_2M, PAGE_4K};
use tiertune_sim::scenario::Mode;
use tiertune_sim::{Workload, run_many};
use tiertune_workload::{CarrySpec, RecordRequest};

const CONFIGS: usize = 7;
const REFERENCE_SEEDS: u64 = 8;
const FAST_SEEDS: u64 = 32;

/// Mean runtime and promotions over `seeds` for every config, in one mode.
fn means(workload: &Workload, fast_bytes: u64, mode: Mode, seeds: u64) -> Vec<(f64, f64)> {
    let mut rng = CounterRng::new(42, &[]);
    let mut requests = Vec::new();
    for i in 0..CONFIGS {
        let mut config = random_hemem(&mut rng);
        if i < 2 {
            // The default, sampling at the rate of a short run, and a keener one: random settings
            // alone often promote nothing.
            config.retain(|name, _| name == "mmap_filter_size_bytes");
            config.insert("sampling_period".into(), 300i64.into());
            config.insert("read_hot_threshold".into(), if i == 0 { 8i64 } else { 3i64 }.into());
        }
        for seed in 0..seeds {
            let mut request = request("hemem", config.clone(), workload.page_bytes, fast_bytes, seed);
            request.mode = mode;
            request.machine = machine(2);
            requests.push(request);
        }
    }
    let results = run_many(workload, &requests, 2);
    let figures: Vec<(f64, f64)> = results
        .into_iter()
        .map(|r| r.expect("a run").metrics)
        .map(|m| (m.runtime_s, m.promotions))
        .collect();
    let n = seeds as f64;
    let mean = |c: &[(f64, f64)]| c.iter().fold((0.0, 0.0), |s, f| (s.0 + f.0 / n, s.1 + f.1 / n));
    figures.chunks(seeds as usize).map(mean).collect()
}

fn check(name: &str, workload: &Workload, fast_bytes: u64) {
    let (fast, _): (Vec<f64>, Vec<f64>) = means(workload, fast_bytes, Mode::Fast, FAST_SEEDS).into_iter().unzip();
    let (truth, promotions): (Vec<f64>, Vec<f64>) = means(workload, fast_bytes, Mode::Reference, REFERENCE_SEEDS)
        .into_iter()
        .unzip();
    let moving = promotions.iter().filter(|p| **p >= 1.0).count();
    assert!(
        moving >= 3,
        "{name}: pages move with {moving} of {CONFIGS} settings only, so this shows nothing"
    );
    let mut errors: Vec<f64> = fast.iter().zip(&truth).map(|(f, t)| (f / t - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let (median, worst) = (errors[CONFIGS / 2], errors[CONFIGS - 1]);
    let best = |of: &[f64]| (0..CONFIGS).min_by(|a, b| of[*a].total_cmp(&of[*b])).expect("configs");
    let regret = truth[best(&fast)] / truth[best(&truth)] - 1.0;
    println!(
        "{name}: median error {:.2} %, worst {:.2} %, regret {:.2} %",
        median * 100.0,
        worst * 100.0,
        regret * 100.0
    );
    assert!(
        median <= 0.01,
        "{name}: median error {median}; fast {fast:?}, reference {truth:?}"
    );
    assert!(
        worst <= 0.05,
        "{name}: worst error {worst}; fast {fast:?}, reference {truth:?}"
    );
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

#[test]
fn recorded_betweenness_centrality() {
    let asked = serde_json::json!({"kernel": "bc", "graph": "kron", "scale": 13, "seed": 1, "llc_bytes": 65_536});
    let asked = RecordRequest::try_from(asked).expect("a valid request");
    let profile = tiertune_workload::record(&asked).expect("a profile");
    let asked = serde_json::json!({"scale": 18, "page_bytes": PAGE_4K, "runs": 2});
    let spec: CarrySpec = serde_json::from_value(asked).expect("a valid size");
    let replay = profile.carry(&spec).expect("carried");
    let footprint = replay.footprint_bytes();
    let model = tiertune_sim::replay::workload_of(replay, 4);
    let workload = Workload::compile(&model, PAGE_4K).expect("compiles");
    check("recorded bc", &workload, footprint / 9);
}
