//! The fast mode against the reference mode for `nomad`: hint faults, transactions, shadows and write faults.

use crate::support::fidelity::{WORST, check_errors};
use crate::support::{MIB, compile, machine, request};
use serde_json::json;
use tiertune_policy::registry::PAGE_4K;
use tiertune_policy::{Config, Value};
use tiertune_sim::run_many;
use tiertune_sim::scenario::Mode;

const SEEDS: u64 = 16;
/// Runs in which pages wait in batches differ by more.
const SEEDS_OF_BATCHES: u64 = 48;

/// Medians of runtime in s, promotions, write faults and shadow hits, by setting: a hot quarter that is read and at times written,
/// over a cold rest; slow memory has room for shadows.
fn medians(mode: Mode, activation_batch: i64, seeds: u64) -> Vec<[f64; 4]> {
    let model = json!({"objects": [{"name": "t", "bytes": 32 * MIB}],
        "blocks": [{"phases": [{"name": "p", "groups": [{"name": "w", "threads": 4, "ops": 12e6, "cpu_ns_per_op": 50.0,
            "streams": [{"object": "t", "law": {"kind": "pieces", "edges": [0.0, 0.25, 1.0], "weights": [0.9, 0.1]},
                         "class": "chase", "reads_per_op": 1.0, "stores_per_op": 0.02}]}]}]}]});
    let workload = compile(model, PAGE_4K);
    let configs: Vec<Config> = [(1000, 20, 512), (200, 20, 64), (1000, 5, 64), (200, 20, 512)]
        .into_iter()
        .map(|(factor, distance, queue)| {
            Config::from([
                ("scan_delay_ms".to_string(), Value::Int(0)),
                ("scan_period_min_ms".to_string(), Value::Int(20)),
                ("numa_balancing_mode".to_string(), Value::Int(2)),
                ("demote_scale_factor".to_string(), Value::Int(factor)),
                ("pf_lookback_dist".to_string(), Value::Int(distance)),
                ("promote_queue_len".to_string(), Value::Int(queue)),
                ("activation_batch".to_string(), Value::Int(activation_batch)),
            ])
        })
        .collect();
    let mut requests = Vec::new();
    for config in &configs {
        for seed in 0..seeds {
            let mut request = request("nomad", config.clone(), PAGE_4K, 12 * MIB, seed);
            request.mode = mode;
            request.machine = machine(2);
            // As often as the reference mode tells the policy: a worker that hears later promotes less.
            request.slice_ns = 50_000;
            requests.push(request);
        }
    }
    let results = run_many(&workload, &requests, 2);
    let figures: Vec<[f64; 4]> = results
        .into_iter()
        .map(|result| result.expect("a run"))
        .map(|result| {
            let m = &result.metrics;
            [m.runtime_s, m.promotions, m.write_faults, result.gauges["shadow_hits"]]
        })
        .collect();
    let median = |runs: &[[f64; 4]]| {
        std::array::from_fn(|i| {
            let mut sorted: Vec<f64> = runs.iter().map(|run| run[i]).collect();
            sorted.sort_by(f64::total_cmp);
            f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
        })
    };
    figures.chunks(seeds as usize).map(median).collect()
}

/// Both modes, with runtimes that agree.
fn compared(activation_batch: i64, seeds: u64) -> [Vec<[f64; 4]>; 2] {
    let figures = [Mode::Fast, Mode::Reference].map(|mode| medians(mode, activation_batch, seeds));
    let [fast, truth] = &figures;
    println!("fast {fast:?}\nreference {truth:?}");
    let runtimes = |of: &[[f64; 4]]| of.iter().map(|figures| figures[0]).collect::<Vec<_>>();
    check_errors("nomad", &runtimes(fast), &runtimes(truth));
    figures
}

#[test]
fn transactions_and_shadows_cost_the_same_in_both_modes() {
    let [fast, truth] = compared(1, SEEDS);
    for (fast, truth) in fast.iter().zip(&truth) {
        assert!(
            truth[1] > 500.0 && truth[2] > 50.0,
            "the runs show something: {truth:?}"
        );
        for figure in 1..3 {
            let error = (fast[figure] / truth[figure] - 1.0).abs();
            assert!(error <= WORST, "figure {figure}: {fast:?} for {truth:?}");
        }
    }
}

/// Whether another CPU's batch holds a page hangs on whose faults follow each other. In the reference mode a thread that has just
/// faulted is still in its fault when others fault, in the fast mode it may be the next, and promotes 5 to 7 % less for it in all but the
/// first setting. So promotions are compared where pages are activated one by one, and runtimes here.
#[test]
fn batches_of_pages_to_be_activated_take_as_long_in_both_modes() {
    let [_, truth] = compared(15, SEEDS_OF_BATCHES);
    // In the first setting faults come so thick that batches are full at once. The last one lost more than half of its promotions
    // until a page without room ended the worker's batch, and loses three in ten since.
    let most = [1.0 + WORST, 0.5, 0.5, 0.8];
    for ((held, unheld), most) in truth.iter().zip(&medians(Mode::Reference, 1, SEEDS)).zip(most) {
        assert!(
            held[1] < most * unheld[1],
            "batches hold pages back: {held:?} for {unheld:?}"
        );
    }
}
