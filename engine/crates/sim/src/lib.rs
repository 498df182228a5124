//! The simulated machine: drives a policy on a virtual clock over modelled tiers.
//!
//! [`run`] takes a compiled [`workload::Workload`] and a [`scenario::Request`] and returns what was
//! measured. [`fast`] is the main mode, [`reference`] executes every access and keeps it honest.
//! Equal inputs give bit-equal results, whatever runs beside them.

pub mod alias;
pub mod binomial;
pub mod cache;
pub mod co_runner;
pub mod driver;
pub mod error;
pub mod fast;
pub mod guards;
pub mod latency;
pub(crate) mod law;
pub mod lifetime;
pub mod memory;
pub mod metrics;
pub mod migration;
pub mod observe;
pub mod operation;
pub mod page_map;
pub mod reference;
pub mod replay;
pub mod sampler;
pub mod scatter;
pub mod scenario;
pub mod sweep;
pub mod timings;
pub mod touches;
pub mod truth;
pub mod walk;
pub mod watch;
pub mod workload;

use co_runner::CoRunners;
use rayon::prelude::*;
use tiertune_policy::registry::{self, Tiering};
use tiertune_policy::{CounterRng, Policy, SystemError};

pub use driver::RunResult;
pub use error::RunError;
use scenario::{Contention, MOST_TIERS};
pub use scenario::{Mode, Request, WorkloadModel};
pub use workload::Workload;

/// Runs one request under the system of the registry that it names.
pub fn run(workload: &Workload, request: &Request) -> Result<RunResult, RunError> {
    run_system(workload, request, &registry::find(&request.system)?)
}

/// Runs one request under `system`, whatever the request calls it.
pub fn run_system(workload: &Workload, request: &Request, system: &dyn Tiering) -> Result<RunResult, RunError> {
    check_machine(request)?;
    check_page_size(system, request)?;
    let request = &with_all_knobs(request, system)?;
    let topology = driver::topology(workload, request);
    let mut policy = system.build(&request.config, &topology).map_err(SystemError::from)?;
    let mut profiling_s = 0.0;
    if let Some(rehearsal) = policy.rehearsal() {
        // Another run on another day: its noise is its own.
        let earlier = Request {
            seed: CounterRng::new(request.seed, &[driver::domain::REHEARSAL]).next_u64(),
            timeline_points: 0,
            page_map: None,
            observe: Vec::new(),
            ..request.clone()
        };
        let (result, rehearsed) = run_mode(workload, &earlier, rehearsal)?;
        profiling_s = result.metrics.loading_s + result.metrics.runtime_s;
        policy.learn(&rehearsed.save()).map_err(|error| RunError::Rehearsal {
            system: system.name(),
            problem: error.to_string(),
        })?;
    }
    let (mut result, _) = run_mode(workload, request, policy)?;
    result.metrics.profiling_s = profiling_s;
    Ok(result)
}

/// Runs one request with `policy` in the place of the system that it names, and gives it back.
pub fn run_policy(
    workload: &Workload,
    request: &Request,
    policy: Box<dyn Policy>,
) -> Result<(RunResult, Box<dyn Policy>), RunError> {
    let system = registry::find(&request.system)?;
    run_mode(workload, &with_all_knobs(request, &system)?, policy)
}

fn with_all_knobs(request: &Request, system: &dyn Tiering) -> Result<Request, RunError> {
    Ok(Request {
        config: system.resolve(&request.config).map_err(SystemError::from)?,
        ..request.clone()
    })
}

fn run_mode(
    workload: &Workload,
    request: &Request,
    policy: Box<dyn Policy>,
) -> Result<(RunResult, Box<dyn Policy>), RunError> {
    match request.mode {
        Mode::Fast => fast::run(workload, request, policy),
        Mode::Reference => reference::run(workload, request, policy),
    }
}

fn check_page_size(system: &dyn Tiering, request: &Request) -> Result<(), RunError> {
    if system.page_bytes().contains(&request.page_bytes) {
        return Ok(());
    }
    let supported: Vec<String> = system.page_bytes().iter().map(u64::to_string).collect();
    Err(RunError::PageSize {
        system: system.name(),
        page_bytes: request.page_bytes,
        supported: supported.join(" and "),
    })
}

/// Runs many requests on `threads` threads; the results do not depend on how many.
pub fn run_many(workload: &Workload, requests: &[Request], threads: usize) -> Vec<Result<RunResult, RunError>> {
    run_each(requests, threads, |request| run(workload, request))
}

/// What `run` makes of each request, on `threads` threads.
pub fn run_each<T: Send>(requests: &[Request], threads: usize, run: impl Fn(&Request) -> T + Sync) -> Vec<T> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build();
    match pool {
        Ok(pool) => pool.install(|| requests.par_iter().map(&run).collect()),
        // Without threads to be had the work is still done.
        Err(_) => requests.iter().map(&run).collect(),
    }
}

/// Most of a tier's bandwidth that co-runners may take: their traffic is constant, so at the peak
/// nothing would be left and no latency could be found.
const MOST_CONTENTION: f64 = 0.99;

/// Most lines that a co-runner may have in flight: more than all fill buffers of any machine.
const MOST_LINES: f64 = 1e6;

/// Checks the machine of a request.
fn check_machine(request: &Request) -> Result<(), RunError> {
    let machine = &request.machine;
    let bad = |problem: String| {
        Err(RunError::Machine {
            name: machine.name.clone(),
            problem,
        })
    };
    if machine.tiers.len() < 2 || machine.tiers.len() > MOST_TIERS {
        return bad(format!(
            "it has {} tiers; 2 to {MOST_TIERS} are supported",
            machine.tiers.len()
        ));
    }
    for tier in &machine.tiers {
        let positive = [tier.latency_ns, tier.read_gbps, tier.write_gbps];
        if positive.iter().any(|v| !(*v > 0.0 && v.is_finite())) {
            return bad(format!("tier '{}': latency and bandwidths must be positive", tier.name));
        }
        let ascending = tier.curve.windows(2).all(|w| w[0][0] < w[1][0] && w[0][1] <= w[1][1]);
        if tier.curve.first() != Some(&[0.0, 1.0]) || !ascending {
            return bad(format!("tier '{}': the curve must rise from [0, 1]", tier.name));
        }
        if tier.curve.last().is_none_or(|[utilisation, _]| *utilisation < 0.9) {
            return bad(format!(
                "tier '{}': the curve must reach a utilisation of 0.9; beyond its end the tier is saturated",
                tier.name
            ));
        }
    }
    if request.fast_bytes > machine.tiers[0].capacity_bytes {
        return bad(format!(
            "{} bytes of fast memory asked for, tier '{}' has {}",
            request.fast_bytes, machine.tiers[0].name, machine.tiers[0].capacity_bytes
        ));
    }
    if let Some(contention) = request.contention.iter().find(|c| c.tier >= machine.tiers.len()) {
        return bad(format!(
            "contention on tier {}; the nearest is {}",
            contention.tier,
            machine.tiers.len() - 1
        ));
    }
    let lines = |c: &&Contention| {
        ![c.read_lines, c.write_lines]
            .iter()
            .all(|n| (0.0..=MOST_LINES).contains(n))
    };
    if let Some(c) = request.contention.iter().find(lines) {
        return bad(format!(
            "contention on tier {} has {} read and {} write lines in flight; both must be from 0 to {MOST_LINES}",
            c.tier, c.read_lines, c.write_lines
        ));
    }
    if let Some(c) = request
        .contention
        .iter()
        .find(|c| !(c.from_s >= 0.0 && c.until_s.is_none_or(|until_s| until_s > c.from_s)))
    {
        return bad(format!(
            "contention on tier {} lasts from {} s to {} s; it must begin at 0 or later and end after that",
            c.tier,
            c.from_s,
            c.until_s.unwrap_or(f64::INFINITY)
        ));
    }
    let mut co_runners = CoRunners::new(&request.contention, &machine.tiers);
    for at in co_runners.changes() {
        co_runners.set_time(at);
        for (tier, load) in machine.tiers.iter().zip(co_runners.constant()) {
            let utilisation = latency::TierLatency::new(tier).utilisation(*load);
            let valid = load.read_gbps >= 0.0 && load.write_gbps >= 0.0 && utilisation <= MOST_CONTENTION;
            if !valid {
                return bad(format!(
                    "contention takes {:.0} % of tier '{}'; from 0 to {:.0} % leave room for the workload",
                    100.0 * utilisation,
                    tier.name,
                    100.0 * MOST_CONTENTION
                ));
            }
        }
    }
    if machine.cores == 0 || machine.fill_buffers.is_nan() || machine.fill_buffers < 1.0 {
        return bad("it needs at least one core and one fill buffer".into());
    }
    if !(0.01..=100.0).contains(&machine.migration_cost) {
        return bad(format!(
            "migration_cost is {}, it must lie in 0.01 to 100",
            machine.migration_cost
        ));
    }
    let parallelism = machine.parallelism;
    for given in [parallelism.gather, parallelism.random, parallelism.update]
        .into_iter()
        .flatten()
    {
        if !(1.0..=64.0).contains(&given) {
            return bad(format!("parallelism {given} must lie in 1 to 64"));
        }
    }
    Ok(())
}
