//! Systems that have a knob for how much they may move keep to it, in every stretch of a run, with the slack that
//! their own way of counting has and no more; and the same run with the limit out of the way would break it, so the
//! limit is what holds them.

use crate::harness::workload;
use crate::harness::{Entry, MS};
use tiertune_policy::registry::{self, PAGE_2M};
use tiertune_policy::{Config, Nanos, Value};

const S: Nanos = 1000 * MS;
const MIB: u64 = 1 << 20;

/// How a system counts what it moves.
#[derive(Clone, Copy)]
enum Counting {
    /// Bytes are earned evenly, and what is not used is kept up to this many and a page.
    Earned { kept_bytes: u64 },
    /// So many in each window; windows begin when they like, one after the other.
    Windows,
    /// So many in one decision, however soon the next one comes.
    Decision,
}

struct Limit {
    system: &'static str,
    knobs: &'static [(&'static str, Set)],
    /// What lifts the limit.
    lifted: (&'static str, Set),
    /// In `span_ns`.
    bytes: u64,
    span_ns: Nanos,
    counting: Counting,
    /// Whether pages that go down count as well.
    down_too: bool,
}

#[derive(Clone, Copy)]
enum Set {
    Int(i64),
    Float(f64),
    Bool(bool),
    Word(&'static str),
}

impl From<Set> for Value {
    fn from(set: Set) -> Self {
        match set {
            Set::Int(value) => Value::Int(value),
            Set::Float(value) => Value::Float(value),
            Set::Bool(value) => Value::Bool(value),
            Set::Word(word) => Value::Text(word.to_string()),
        }
    }
}

use Set::{Bool, Float, Int, Word};

/// 0.1 GiB, the least that several knobs go down to.
const TENTH_GIB: u64 = (1 << 30) / 10 + 1;

const LIMITS: &[Limit] = &[
    Limit {
        system: "hemem",
        knobs: &[
            ("max_migration_rate_gib", Float(0.1)),
            ("mmap_filter_size_bytes", Int(0)),
        ],
        lifted: ("max_migration_rate_gib", Float(32.0)),
        bytes: TENTH_GIB,
        span_ns: S,
        counting: Counting::Earned {
            kept_bytes: TENTH_GIB / 100,
        },
        down_too: false,
    },
    Limit {
        system: "hemem",
        knobs: &[
            ("max_migration_rate_gib", Float(0.1)),
            ("rate_mode", Word("per_tick")),
            ("mmap_filter_size_bytes", Int(0)),
        ],
        lifted: ("max_migration_rate_gib", Float(32.0)),
        bytes: TENTH_GIB,
        span_ns: 1,
        counting: Counting::Decision,
        down_too: false,
    },
    Limit {
        system: "random",
        knobs: &[("promotion_rate_mib", Float(64.0))],
        lifted: ("promotion_rate_mib", Float(32_768.0)),
        bytes: 64 * MIB,
        span_ns: S,
        counting: Counting::Earned {
            kept_bytes: 64 * MIB / 100,
        },
        down_too: false,
    },
    Limit {
        system: "oracle",
        knobs: &[
            ("grade", Word("costs")),
            ("epoch_ms", Float(100.0)),
            ("max_migration_gbps", Float(0.1)),
        ],
        lifted: ("max_migration_gbps", Float(32.0)),
        bytes: 100_000_000,
        span_ns: S,
        counting: Counting::Earned { kept_bytes: 10_000_000 },
        down_too: true,
    },
    Limit {
        system: "nbt",
        knobs: &[("promote_rate_limit_mbps", Int(16))],
        lifted: ("promote_rate_limit_mbps", Int(65_536)),
        bytes: 16 * MIB,
        span_ns: S,
        counting: Counting::Windows,
        down_too: false,
    },
    Limit {
        system: "autonuma",
        knobs: &[("variant", Word("tiering-0.8")), ("rate_limit_mbps", Int(16))],
        lifted: ("rate_limit_mbps", Int(65_536)),
        bytes: 16 * MIB,
        span_ns: S,
        counting: Counting::Windows,
        down_too: false,
    },
    Limit {
        system: "hmsdk",
        knobs: &[
            ("prom_quota_gib", Float(0.1)),
            ("prom_quota_ms", Int(0)),
            ("quota_reset_interval_s", Float(5.0)),
            // So that there is room to fill.
            ("dem_age_min_s", Float(0.1)),
        ],
        lifted: ("prom_quota_gib", Float(100.0)),
        bytes: TENTH_GIB,
        span_ns: 5 * S,
        counting: Counting::Windows,
        down_too: false,
    },
    Limit {
        system: "mru",
        knobs: &[("batch_pages", Int(2))],
        lifted: ("batch_pages", Int(4096)),
        bytes: 0, // two pages, see `bytes_of`
        span_ns: 1,
        counting: Counting::Decision,
        down_too: false,
    },
    Limit {
        system: "colloid+hemem",
        knobs: &[
            ("colloid_static_limit_mib", Float(8.0)),
            ("colloid_dynamic_limit", Bool(false)),
            ("mmap_filter_size_bytes", Int(0)),
        ],
        lifted: ("colloid_static_limit_mib", Float(8192.0)),
        bytes: 8 * MIB,
        span_ns: 10 * MS,
        counting: Counting::Windows,
        down_too: true,
    },
    Limit {
        system: "colloid+memtis",
        knobs: &[
            ("colloid_static_limit_mib", Float(2.0)),
            ("colloid_dynamic_limit", Bool(false)),
            ("colloid_quantum_ms", Float(50.0)),
        ],
        lifted: ("colloid_static_limit_mib", Float(8192.0)),
        bytes: 2 * MIB,
        span_ns: 50 * MS,
        counting: Counting::Windows,
        // Memtis demotes cold pages beside it.
        down_too: false,
    },
    Limit {
        system: "colloid+tpp",
        knobs: &[
            ("colloid_static_limit_mib", Float(8.0)),
            ("colloid_dynamic_limit", Bool(false)),
            ("colloid_quantum_ms", Float(500.0)),
        ],
        lifted: ("colloid_static_limit_mib", Float(8192.0)),
        bytes: 8 * MIB,
        span_ns: 500 * MS,
        counting: Counting::Windows,
        down_too: false,
    },
    Limit {
        system: "colloid+nbt",
        knobs: &[
            ("colloid_static_limit_mib", Float(8.0)),
            ("colloid_dynamic_limit", Bool(false)),
            ("colloid_quantum_ms", Float(500.0)),
        ],
        lifted: ("colloid_static_limit_mib", Float(8192.0)),
        bytes: 8 * MIB,
        span_ns: 500 * MS,
        counting: Counting::Windows,
        down_too: false,
    },
    Limit {
        system: "pact",
        knobs: &[("max_migrations_per_cycle", Int(64)), ("demotion_margin", Int(1000))],
        lifted: ("max_migrations_per_cycle", Int(65_536)),
        bytes: 0, // 64 pages
        span_ns: 1,
        counting: Counting::Decision,
        down_too: false,
    },
    Limit {
        system: "arms",
        knobs: &[("period_ms", Float(10.0))],
        lifted: ("period_ms", Float(500.0)),
        // Copies that fit into 10 ms: 9 GB/s at most.
        bytes: 90_000_000,
        span_ns: 1,
        counting: Counting::Decision,
        down_too: true,
    },
];

/// A limit in pages is one in bytes that depends on the page; hmsdk has a context, and so a quota, for each slow tier.
fn bytes_of(limit: &Limit, page_bytes: u64, tiers: usize) -> u64 {
    match (limit.system, limit.knobs[0].1) {
        ("mru" | "pact", Int(pages)) => pages as u64 * page_bytes,
        ("hmsdk", _) => limit.bytes * (tiers as u64 - 1),
        _ => limit.bytes,
    }
}

/// By how much the worst stretch of a run goes beyond what is allowed there; negative when none does.
fn excess(asked: &[(Nanos, u64)], bytes: u64, page_bytes: u64, limit: &Limit) -> f64 {
    let mut worst = f64::NEG_INFINITY;
    for (nth, (from, _)) in asked.iter().enumerate() {
        let mut moved = 0;
        for (until, size) in &asked[nth..] {
            moved += size;
            let span = (until - from) as f64 / limit.span_ns as f64;
            let allowed = match limit.counting {
                Counting::Earned { kept_bytes } => bytes as f64 * span + (kept_bytes + page_bytes) as f64,
                // A stretch may begin in one window and end in another.
                Counting::Windows => (bytes + page_bytes) as f64 * (span.floor() + 2.0),
                Counting::Decision if until > from => break,
                Counting::Decision => (bytes + page_bytes) as f64,
            };
            worst = worst.max(moved as f64 - allowed);
        }
    }
    worst
}

/// What the contract workload has a system move: when, and how many bytes; the sum by time.
fn asked(limit: &Limit, config: &Config, page_bytes: u64, tiers: usize) -> Vec<(Nanos, u64)> {
    let mut asked: Vec<(Nanos, u64)> = Vec::new();
    for entry in workload::run(limit.system, config, page_bytes, tiers).log {
        let Entry::Ask { at, request, .. } = entry else {
            continue;
        };
        // The thread that allocates reclaims as much as it needs.
        let counts = (limit.down_too || request.to == 0) && !request.how.is_at_once();
        let bytes = u64::from(request.pages) * page_bytes;
        match asked.last_mut() {
            _ if !counts => {}
            Some((last, sum)) if *last == at => *sum += bytes,
            _ => asked.push((at, bytes)),
        }
    }
    asked
}

#[test]
fn limits_are_kept_and_are_what_holds() {
    let mut wrong = Vec::new();
    for limit in LIMITS {
        let system = registry::find(limit.system).expect("it is registered");
        let config: Config = limit
            .knobs
            .iter()
            .map(|(name, set)| (name.to_string(), (*set).into()))
            .collect();
        for page_bytes in system.page_bytes() {
            for tiers in [2, 3] {
                let bytes = bytes_of(limit, *page_bytes, tiers);
                let moves = asked(limit, &config, *page_bytes, tiers);
                let over = excess(&moves, bytes, *page_bytes, limit);
                if moves.is_empty() || over > 0.0 {
                    wrong.push(format!(
                        "{} with pages of {page_bytes} bytes on {tiers} tiers: {over} bytes too many, {} times of moves",
                        limit.system,
                        moves.len()
                    ));
                }
            }
        }
        let mut lifted = config;
        lifted.insert(limit.lifted.0.to_string(), limit.lifted.1.into());
        let moves = asked(limit, &lifted, PAGE_2M, 2);
        if excess(&moves, bytes_of(limit, PAGE_2M, 2), PAGE_2M, limit) <= 0.0 {
            wrong.push(format!("{} would keep to it without the limit, too", limit.system));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every knob that caps what is moved is in the table above, or is said here to cap something else.
#[test]
fn every_knob_that_caps_moves_is_looked_at() {
    let looked_at = |system: &str, knob: &str| {
        let by_name = |limit: &&Limit| limit.system == system && limit.knobs.iter().any(|(name, _)| *name == knob);
        LIMITS.iter().find(by_name).is_some()
    };
    let elsewhere = [
        "dem_quota_gib",        // as prom_quota_gib, the same code
        "prom_quota_ms",        // time, from which bytes are estimated: golden script time_quota
        "dem_quota_ms",         // likewise
        "promote_queue_len",    // what waits, not what is moved
        "demote_batch_pages",   // how many go down before the goal is looked at again
        "shadow_reclaim_batch", // frames given up, nothing is moved
        "pac_update_batch",     // samples
    ];
    let mut wrong = Vec::new();
    for system in registry::listed() {
        for knob in system.knobs() {
            let caps = ["rate", "quota_", "limit", "batch", "max_migration", "queue_len"]
                .iter()
                .any(|word| knob.name.contains(word));
            let base = system.wrappers.is_empty() || knob.name.starts_with(system.wrappers[0].name);
            let of_bytes = ["B", "pages", "iB", "ms"].iter().any(|unit| knob.unit.contains(unit));
            if caps
                && base
                && of_bytes
                && knob.tunable
                && !elsewhere.contains(&knob.name)
                && !looked_at(&system.name(), knob.name)
            {
                wrong.push(format!("{} {}", system.name(), knob.name));
            }
        }
    }
    assert!(wrong.is_empty(), "nobody holds them to: {}", wrong.join(", "));
}
