//! How near the fast mode is to the reference mode: means over seeds, and the project's promise.

use super::{machine, request};
use tiertune_policy::Config;
use tiertune_sim::scenario::Mode;
use tiertune_sim::{Workload, run_many};

/// Most that the median and the worst runtime of some settings may be off.
pub const MEDIAN: f64 = 0.01;
pub const WORST: f64 = 0.05;

/// Means over seeds of one setting.
#[derive(Debug, Clone, Copy)]
pub struct Means {
    pub runtime_s: f64,
    pub promotions: f64,
}

/// What is run: a system with some settings on a workload, told of what happened every `slice_ns`.
pub struct Scene<'a> {
    pub workload: &'a Workload,
    pub system: &'a str,
    pub configs: &'a [Config],
    pub fast_bytes: u64,
    pub slice_ns: u64,
}

impl Scene<'_> {
    /// Means over `seeds` for every setting, in one mode.
    pub fn means(&self, mode: Mode, seeds: u64) -> Vec<Means> {
        let mut requests = Vec::new();
        for config in self.configs {
            for seed in 0..seeds {
                let page_bytes = self.workload.page_bytes;
                let mut request = request(self.system, config.clone(), page_bytes, self.fast_bytes, seed);
                request.mode = mode;
                request.machine = machine(2);
                request.slice_ns = self.slice_ns;
                requests.push(request);
            }
        }
        let runs: Vec<_> = run_many(self.workload, &requests, 2)
            .into_iter()
            .map(|run| run.expect("a run").metrics)
            .collect();
        runs.chunks(seeds as usize)
            .map(|runs| Means {
                runtime_s: runs.iter().map(|run| run.runtime_s).sum::<f64>() / seeds as f64,
                promotions: runs.iter().map(|run| run.promotions).sum::<f64>() / seeds as f64,
            })
            .collect()
    }
}

/// Runtimes of the settings, for [`check_errors`].
pub fn runtimes(of: &[Means]) -> Vec<f64> {
    of.iter().map(|means| means.runtime_s).collect()
}

/// Holds runtimes of the fast mode to those of the reference mode: median and worst error within the promise.
pub fn check_errors(name: &str, fast: &[f64], truth: &[f64]) {
    assert_eq!(fast.len(), truth.len());
    let mut errors: Vec<f64> = fast.iter().zip(truth).map(|(f, t)| (f / t - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let (median, worst) = (errors[errors.len() / 2], errors[errors.len() - 1]);
    println!(
        "{name}: median error {:.2} %, worst {:.2} %",
        median * 100.0,
        worst * 100.0
    );
    assert!(
        median <= MEDIAN,
        "{name}: median error {median}; fast {fast:?}, reference {truth:?}"
    );
    assert!(
        worst <= WORST,
        "{name}: worst error {worst}; fast {fast:?}, reference {truth:?}"
    );
}

#[test]
fn an_error_beyond_the_promise_is_found() {
    let truth = [1.0; 3];
    check_errors("within", &[1.0099, 0.9951, 1.049], &truth);
    for fast in [[1.011, 0.989, 1.0], [1.0, 1.0, 0.949]] {
        let beyond = std::panic::catch_unwind(|| check_errors("beyond", &fast, &truth));
        assert!(beyond.is_err(), "{fast:?}");
    }
}
