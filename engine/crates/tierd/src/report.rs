//! The one document that a run leaves behind.

use std::collections::BTreeMap;

use serde::Serialize;
use tiertune_policy::{Config, Gauge};

use crate::driver::{Counts, Spent};
use crate::facts::Facts;
use crate::mover::Tally;
use crate::series::Point;
use crate::signals::Emulated;

/// Version of the document; fields are only ever added under one version.
pub const REPORT_VERSION: u32 = 1;

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The workload ended with success, or the process that was named has ended.
    Done,
    /// The workload ended with another exit code than 0, or by a signal.
    WorkloadFailed,
    /// A signal stopped the daemon; the workload goes on, unless it was to be ended.
    Stopped,
    /// A source failed, so that nothing was managed any more; the workload was waited for.
    SourceFailed,
}

/// The workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Workload {
    /// The command; empty for a process that ran already.
    pub command: Vec<String>,
    /// Its first process.
    pub pid: i32,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Seconds for which it was managed.
    pub runtime_s: f64,
    /// Processor time of its processes.
    pub cpu_s: f64,
}

/// A tier.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TierFacts {
    /// Its memory node.
    pub node: u32,
    /// What it may hold.
    pub bytes: u64,
    /// Latency that software counters assume.
    pub latency_ns: f64,
    /// Where that comes from: `given`, `firmware` or `assumed`.
    pub latency_from: &'static str,
}

/// A sampler as the policy asked for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Period {
    /// The event.
    pub event: String,
    /// Events a record at the end of the run.
    pub events_per_record: u64,
    /// Whether hardware counted them.
    pub hardware: bool,
}

/// Where the policy's signals came from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Signals {
    /// Sources that were read.
    pub sources: Vec<&'static str>,
    /// Sources that were tried and not used, with the reason.
    pub not_used: Vec<(String, String)>,
    /// Samplers.
    pub periods: Vec<Period>,
    /// Signals that were made of others.
    pub emulated: Vec<Emulated>,
    /// `hardware` or `software` where the policy needs counters, otherwise `none`.
    pub counters: &'static str,
    /// Why they are not those of hardware, where these were wanted.
    pub counters_problem: Option<String>,
}

/// What the daemon itself cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overhead {
    /// Processor seconds of the daemon, copies included.
    pub cpu_s: f64,
    /// Reading sources.
    pub sampling_s: f64,
    /// In the policy.
    pub policy_s: f64,
    /// Moving pages.
    pub migration_s: f64,
    /// Following memory.
    pub memory_s: f64,
    /// Sampling and policy for a million samples; absent below a thousand samples.
    pub cpu_s_per_million_samples: Option<f64>,
    /// Bytes kept about pages, without the policy's.
    pub own_bytes: u64,
    /// The same for each page in memory at most.
    pub own_bytes_per_page: f64,
}

/// A setting of the host that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its file.
    pub path: String,
    /// What it held before, or holds again.
    pub value: String,
    /// What it was set to meanwhile.
    pub during: Option<String>,
    /// Why it could not be put back.
    pub problem: Option<String>,
}

/// The whole document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Version of the document.
    pub version: u32,
    /// Version of the daemon.
    pub tierd: &'static str,
    /// How it ended.
    pub status: Status,
    /// The policy.
    pub policy: String,
    /// Its knobs.
    pub knobs: Config,
    /// Seed.
    pub seed: u64,
    /// Bytes of a managed page.
    pub page_bytes: u64,
    /// The tiers, the fast one first.
    pub tiers: Vec<TierFacts>,
    /// How new memory came to its tier.
    pub placement: &'static str,
    /// The workload.
    pub workload: Workload,
    /// Where signals came from.
    pub signals: Signals,
    /// Counts.
    pub counts: Counts,
    /// What came of migrations.
    pub migrations: Tally,
    /// What the policy reports of itself, by name.
    pub gauges: BTreeMap<&'static str, f64>,
    /// Figures over time.
    pub series: Vec<Point>,
    /// What the daemon cost.
    pub overhead: Overhead,
    /// Settings of the host that were changed, and put back.
    pub settings: Vec<Setting>,
    /// Settings that an earlier run had left changed, put back at the start.
    pub left_over: Vec<Setting>,
    /// Rights that the daemon kept, by name.
    pub capabilities: Vec<&'static str>,
    /// The host before the run.
    pub host: Facts,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

/// Gauges by name.
#[must_use]
pub fn by_name(gauges: Vec<Gauge>) -> BTreeMap<&'static str, f64> {
    gauges.into_iter().map(|gauge| (gauge.name, gauge.value)).collect()
}

/// The costs.
#[must_use]
pub fn overhead(spent: &Spent, counts: &Counts, cpu_ns: u64, own_bytes: u64, page_bytes: u64) -> Overhead {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let told = counts.samples + counts.hint_faults;
    let pages = (counts.most_present_bytes / page_bytes).max(1);
    Overhead {
        cpu_s: seconds(cpu_ns),
        sampling_s: seconds(spent.sampling_ns),
        policy_s: seconds(spent.policy_ns),
        migration_s: seconds(spent.migration_ns),
        memory_s: seconds(spent.memory_ns),
        cpu_s_per_million_samples: (told >= 1000)
            .then(|| seconds(spent.sampling_ns + spent.policy_ns) / (told as f64 / 1e6)),
        own_bytes,
        own_bytes_per_page: own_bytes as f64 / pages as f64,
    }
}
