//! The host as a report says it, and what can be run on it.

use std::fs;

use serde::Serialize;
use tiertune_host::descriptors;
use tiertune_host::numa::{self, Node};
use tiertune_host::perf::requests::MemoryCounters;
use tiertune_host::source::SOURCES;
use tiertune_host::value_of;

/// A memory node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeFacts {
    /// Its number.
    pub node: u32,
    /// All memory.
    pub total_bytes: u64,
    /// Memory that nobody used.
    pub free_bytes: u64,
    /// Processors.
    pub cpus: u32,
    /// Latency of a read, where the firmware says.
    pub read_latency_ns: Option<f64>,
}

impl From<Node> for NodeFacts {
    fn from(node: Node) -> Self {
        Self {
            node: node.number,
            total_bytes: node.total_bytes,
            free_bytes: node.free_bytes,
            cpus: node.cpus,
            read_latency_ns: node.read_latency_ns,
        }
    }
}

/// What differs between hosts and matters for memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Facts {
    /// Release of the kernel.
    pub kernel: String,
    /// Model of the processor.
    pub processor: String,
    /// Nodes with memory.
    pub nodes: Vec<NodeFacts>,
    /// Settings of the kernel that move or merge pages by themselves, by file; those that this kernel has.
    pub settings: Vec<(String, String)>,
}

const SETTINGS: &[&str] = &[
    "/proc/sys/kernel/numa_balancing",
    "/sys/kernel/mm/numa/demotion_enabled",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/defrag",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
    "/sys/kernel/mm/ksm/run",
    "/sys/kernel/mm/lru_gen/enabled",
    "/proc/sys/vm/zone_reclaim_mode",
    "/proc/sys/vm/min_free_kbytes",
    "/proc/sys/vm/watermark_scale_factor",
    "/proc/sys/vm/compaction_proactiveness",
    "/proc/sys/vm/swappiness",
];

/// Reads them.
#[must_use]
pub fn facts() -> Facts {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .and_then(|rest| rest.split_once(':'));
    let setting = |path: &&str| Some(((*path).to_owned(), value_of(path.as_ref()).ok()?));
    Facts {
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        processor: model.map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned()),
        nodes: numa::nodes().into_iter().map(NodeFacts::from).collect(),
        settings: SETTINGS.iter().filter_map(setting).collect(),
    }
}

/// Threads of DAMON, whoever set them up.
#[must_use]
pub fn kdamonds() -> usize {
    let threads = fs::read_dir("/proc").into_iter().flatten().flatten().filter(|entry| {
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        name.starts_with("kdamond")
    });
    threads.count()
}

/// What other parts of the system may be moving pages meanwhile, in words.
#[must_use]
pub fn rivals() -> Vec<String> {
    let mut found = Vec::new();
    if value_of("/sys/kernel/mm/numa/demotion_enabled".as_ref()).is_ok_and(|value| value == "true") {
        found.push("the kernel demotes pages when memory is short; tierd leaves that as it is".to_owned());
    }
    let kdamonds = kdamonds();
    if kdamonds > 0 {
        found.push(format!(
            "{kdamonds} DAMON thread(s) of somebody else run on this host and may move or reclaim pages; tierd leaves them \
             as they are"
        ));
    }
    found
}

/// A source and whether it works here.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SourceFacts {
    /// Its name.
    pub name: &'static str,
    /// What it sees.
    pub meaning: &'static str,
    /// Why not, if it does not.
    pub problem: Option<String>,
}

/// What can be run here.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Probe {
    /// Whether memory can be tiered at all.
    pub fit: bool,
    /// Why not, and what would help.
    pub problems: Vec<String>,
    /// Sources in the order in which they are preferred.
    pub sources: Vec<SourceFacts>,
    /// Counters of requests to the first two nodes, `hardware` or `software`.
    pub counters: &'static str,
    /// Why not those of hardware.
    pub counters_problem: Option<String>,
    /// What else may move pages.
    pub rivals: Vec<String>,
    /// The host.
    pub host: Facts,
}

/// Tries everything out; changes nothing.
#[must_use]
pub fn probe() -> Probe {
    descriptors::raise();
    let host = facts();
    let sources: Vec<SourceFacts> = SOURCES
        .iter()
        .map(|known| SourceFacts {
            name: known.name,
            meaning: known.meaning,
            problem: (known.probe)().err().map(|error| error.to_string()),
        })
        .collect();
    let counters_problem = match host.nodes.as_slice() {
        [fast, slow, ..] => MemoryCounters::open([fast.node, slow.node])
            .err()
            .map(|reason| reason.to_string()),
        _ => Some("there is one memory node".to_owned()),
    };
    let mut problems = Vec::new();
    if host.nodes.len() < 2 {
        problems.push(too_few_nodes(&host.nodes));
    }
    if sources.iter().all(|source| source.problem.is_some()) {
        problems.push("no source of accesses works here; run as root".to_owned());
    }
    Probe {
        fit: problems.is_empty(),
        problems,
        sources,
        counters: if counters_problem.is_none() {
            "hardware"
        } else {
            "software"
        },
        counters_problem,
        rivals: rivals(),
        host,
    }
}

/// The sentence for a host with one node.
#[must_use]
pub fn too_few_nodes(nodes: &[NodeFacts]) -> String {
    let numbers: Vec<String> = nodes.iter().map(|node| node.node.to_string()).collect();
    format!(
        "two memory nodes are needed and this host has {} (node {}); CXL or persistent memory becomes a node of its own by \
         `daxctl reconfigure-device --mode=system-ram`",
        nodes.len(),
        numbers.join(", ")
    )
}
