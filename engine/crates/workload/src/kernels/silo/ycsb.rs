//! YCSB's workloads A to F (Cooper et al., SoCC'10) as transactions of one operation each.

use super::slab::Slab;
use super::transaction::{Database, HEADER, Table, Transaction};
use super::tree::{NODE_WORDS, Nodes, Tree, pause, sorted_bytes};
use crate::kernels::popularity::{self, Popularity};
use crate::kernels::prelude::*;

/// Key-value operations on a transaction engine.
#[derive(Debug)]
pub struct Ycsb;

// Measured with `cargo run --release -p tiertune-workload --example cpu_cost -- ycsb` and 1000 records, for a to f.
const OPERATION_NS: [f64; 6] = [139.0, 130.0, 127.0, 137.0, 907.0, 198.0];

const WORKLOADS: &[&str] = &["a", "b", "c", "d", "e", "f"];
/// Operations that a thread takes on at a time.
const CHUNK: usize = 1024;
const DOMAIN: u64 = 0x7963_7362;
/// A record's first field counts read-modify-writes; all others hold the stamp of the last write.
const STAMP: usize = 1;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Read,
    Update,
    Insert,
    Scan,
    Modify,
}

/// Percentages of the operations, as YCSB's files have them.
fn mix(workload: &str) -> &'static [(Kind, u64)] {
    match workload {
        "a" => &[(Kind::Read, 50), (Kind::Update, 50)],
        "b" => &[(Kind::Read, 95), (Kind::Update, 5)],
        "c" => &[(Kind::Read, 100)],
        "d" => &[(Kind::Read, 95), (Kind::Insert, 5)],
        "e" => &[(Kind::Scan, 95), (Kind::Insert, 5)],
        _ => &[(Kind::Read, 50), (Kind::Modify, 50)],
    }
}

fn fields(values: &Values) -> usize {
    (values.int("value_bytes") as usize).div_ceil(8)
}

/// Most insertions of a run: eight standard deviations above the mean.
fn inserts(values: &Values) -> u64 {
    let percent: u64 = mix(values.word("workload"))
        .iter()
        .filter(|(kind, _)| *kind == Kind::Insert)
        .map(|(_, percent)| percent)
        .sum();
    if percent == 0 {
        return 0;
    }
    let mean = values.int("operations") as f64 * percent as f64 / 100.0;
    (mean + 8.0 * mean.sqrt()) as u64 + 16
}

/// What a run leaves behind.
#[derive(Debug)]
pub struct Store {
    base: Database,
    found: u64,
    missing: u64,
    torn: u64,
    modified: u64,
    inserted: u64,
    aborts: u64,
    rows_scanned: u64,
    scans_short: u64,
}

#[derive(Debug, Default)]
struct Counts {
    found: AtomicU64,
    missing: AtomicU64,
    torn: AtomicU64,
    modified: AtomicU64,
    aborts: AtomicU64,
    scanned: AtomicU64,
    short: AtomicU64,
}

impl Program for Ycsb {
    const NAME: &'static str = "ycsb";
    const FAMILY: &'static str = "silo";
    const SUMMARY: &'static str = "key-value operations on a transaction engine with an ordered index";
    const SOURCE: &'static str = "YCSB's workloads on Silo (Tu et al., SOSP'13)";
    const OP_MEANING: &'static str = "one transaction of one operation";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::int("records", 16, 1 << 36, "records that are loaded").carried(),
        Parameter::int("operations", 1, 1 << 44, "operations of all threads together").work(),
        Parameter::word(
            "workload",
            "one of YCSB's workloads",
            WORKLOADS,
            "a, b: reads and updates; c: reads; d: reads and inserts; e: scans and inserts; f: reads and read-modify-writes",
        )
        .or(Default::Word("c")),
        Parameter::word(
            "distribution",
            "a distribution",
            popularity::WORDS,
            "which records are popular: the first ones (zipf), any (scrambled), the newest (latest), all alike (uniform)",
        )
        .or(Default::Word("scrambled")),
        Parameter::real("theta", 0.0, 2.0, "exponent of the zipf law").or(Default::Real(0.99)),
        Parameter::bytes("value_bytes", 16, 4096, "bytes of a record beside its header").or(Default::Int(100)),
        Parameter::int("longest_scan", 1, 1000, "most records of a scan; lengths are uniform").or(Default::Int(100)),
        Parameter::int("seed", 0, u64::MAX, "seed of the operations").or(Default::Int(1)),
    ];
    const CLASSES: &'static [AccessClass] = &[AccessClass::Chase, AccessClass::Random, AccessClass::Update];
    const METRICS: &'static [Metric] = &[
        Metric {
            name: "aborts",
            unit: "",
            role: Role::Covariate,
            meaning: "transactions that had to be repeated",
        },
        Metric {
            name: "rows_scanned",
            unit: "",
            role: Role::Covariate,
            meaning: "records that scans handed out",
        },
    ];
    const SMALL: &'static str = r#"{"records": 20000, "operations": 40000, "workload": "f"}"#;

    type Output = Store;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        let (records, added) = (values.int("records"), inserts(values));
        let (leaves, inner) = sorted_bytes(records);
        let (more_leaves, more_inner) = if added > 0 { sorted_bytes(added) } else { (0, 0) };
        let row = ((HEADER + fields(values)) * 8) as u64;
        let layout = if values.word("distribution") == "scrambled" {
            Layout::Vertices
        } else {
            Layout::Positional
        };
        let spec = |name, bytes, element: usize| {
            // Told how much memory to take, Silo reserves each core's share in one piece before it fills it.
            let spec = ObjectSpec::new(name, bytes, element as u32).mapping(Mapping::Arena);
            spec.layout(layout).built()
        };
        vec![
            spec("tuples", (records + added) * row, row as usize),
            spec("leaves", leaves + more_leaves, NODE_WORDS * 8),
            spec("inner nodes", inner + more_inner, NODE_WORDS * 8),
        ]
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> Store {
        let (records, added) = (values.int("records"), inserts(values));
        let mut base = load(memory, values);
        if added > 0 {
            base.tables[0].rows.start(added as usize);
            base.tables[0].rows.reserve(memory, added as usize);
            let [leaves, inner] = <[u64; 2]>::from(sorted_bytes(added)).map(|bytes| bytes as usize / (NODE_WORDS * 8));
            base.nodes.leaves.start(leaves);
            base.nodes.inner.start(inner);
            base.nodes.leaves.reserve(memory, leaves);
            base.nodes.inner.reserve(memory, inner);
        }
        let workload = values.word("workload");
        let place = WORKLOADS.iter().position(|word| *word == workload).unwrap_or(0);
        let phase = Phase::new("transactions", Unit::Operations, OPERATION_NS[place]);
        memory.phase(if added > 0 { phase } else { phase.stationary() });
        let popularity = Popularity::named(values.word("distribution"), records, values.real("theta"));
        let (counts, next) = (Counts::default(), AtomicU64::new(records));
        let acknowledged = AtomicU64::new(records);
        let (seed, longest) = (values.int("seed"), values.int("longest_scan"));
        let width = fields(values);
        memory.for_chunks(0..values.int("operations") as usize, CHUNK, |memory, part| {
            let mut rng = CounterRng::new(seed, &[DOMAIN, part.start as u64]);
            let mut client = Client {
                base: &base,
                counts: &counts,
                transaction: Transaction::default(),
                width,
            };
            for number in part {
                let kind = pick(mix(workload), &mut rng);
                if kind == Kind::Insert {
                    let key = next.fetch_add(1, Relaxed);
                    client.insert(memory, key);
                    // In the order of keys, so that all below the newest are there.
                    let mut turns = 0;
                    while acknowledged.load(std::sync::atomic::Ordering::Acquire) != key {
                        pause(&mut turns);
                    }
                    acknowledged.store(key + 1, std::sync::atomic::Ordering::Release);
                } else {
                    let items = acknowledged.load(std::sync::atomic::Ordering::Acquire);
                    let key = popularity.draw(&mut rng, items);
                    match kind {
                        Kind::Scan => client.scan(memory, key, 1 + rng.below(longest), items),
                        _ => client.access(memory, kind, key, number as u64 + 1),
                    }
                }
                memory.ops(1);
            }
        });
        Store {
            base,
            found: counts.found.into_inner(),
            missing: counts.missing.into_inner(),
            torn: counts.torn.into_inner(),
            modified: counts.modified.into_inner(),
            inserted: acknowledged.into_inner() - records,
            aborts: counts.aborts.into_inner(),
            rows_scanned: counts.scanned.into_inner(),
            scans_short: counts.short.into_inner(),
        }
    }

    fn report(_values: &Values, store: &Store) -> Vec<(&'static str, f64)> {
        vec![
            ("aborts", store.aborts as f64),
            ("rows_scanned", store.rows_scanned as f64),
        ]
    }

    fn verify(values: &Values, store: &Store) -> Vec<Check> {
        let keys = store.base.keys(0, 0, u64::MAX);
        let expected = values.int("records") + store.inserted;
        let in_order = keys.iter().zip(0..).all(|((key, _), place)| *key == place);
        let counted: u64 = keys.iter().map(|(_, row)| store.base.field(0, *row, 0)).sum();
        vec![
            Check::new(
                "index",
                in_order && keys.len() as u64 == expected,
                format!("{} keys in order: {in_order}; {expected} expected", keys.len()),
            ),
            Check::new(
                "found",
                store.missing == 0,
                format!("{} found, {} missing", store.found, store.missing),
            ),
            Check::new(
                "whole",
                store.torn == 0,
                format!("{} half-written records read", store.torn),
            ),
            Check::new(
                "counts",
                counted == store.modified,
                format!(
                    "records count {counted}, {} read-modify-writes committed",
                    store.modified
                ),
            ),
            Check::new(
                "scans",
                store.scans_short == 0,
                format!("{} scans with too few records", store.scans_short),
            ),
        ]
    }

    fn ops(values: &Values) -> u64 {
        values.int("operations")
    }

    fn resize(recorded: &Values, sizes: &[(&str, u64)]) -> Values {
        let records = recorded.int("records");
        let target = sizes
            .iter()
            .fold(recorded.clone(), |values, (name, value)| values.with(name, *value));
        let growth = target.int("records") as f64 / records as f64;
        let operations = (recorded.int("operations") as f64 * growth) as u64;
        target.with("operations", operations)
    }

    fn traffic_growth(recorded: &Values, target: &Values, object: &str, _class: AccessClass) -> f64 {
        if object == "inner nodes" {
            1.0
        } else {
            law_growth(recorded, target).0
        }
    }

    fn skew_growth(recorded: &Values, target: &Values, _object: &str) -> f64 {
        law_growth(recorded, target).1
    }
}

fn law_growth(recorded: &Values, target: &Values) -> (f64, f64) {
    let (word, theta) = (recorded.word("distribution"), recorded.real("theta"));
    popularity::growth(word, theta, recorded.int("records"), target.int("records"))
}

fn load<M: Memory>(memory: &mut M, values: &Values) -> Database {
    let specs = Ycsb::objects(values);
    let records = values.int("records");
    let (leaves, inner) = sorted_bytes(records);
    let node = NODE_WORDS as u64 * 8;
    let words = HEADER + fields(values);
    let added = inserts(values) as usize;
    let mut nodes = Nodes {
        leaves: Slab::new(specs[1].clone(), NODE_WORDS, (leaves / node) as usize, added / 15),
        inner: Slab::new(specs[2].clone(), NODE_WORDS, (inner / node) as usize, added / 225),
    };
    let rows = Slab::new(specs[0].clone(), words, records as usize, added);
    let index = Tree::new(memory, &mut nodes);
    let mut base = Database {
        nodes,
        tables: vec![Table { rows, index }],
    };
    let fields = vec![0; words - HEADER];
    for key in 0..records {
        base.load(memory, 0, key, &fields);
    }
    base
}

fn pick(mix: &[(Kind, u64)], rng: &mut CounterRng) -> Kind {
    let mut draw = rng.below(100);
    for (kind, percent) in mix {
        if draw < *percent {
            return *kind;
        }
        draw -= percent;
    }
    mix[0].0
}

/// A worker with its transaction, reused.
struct Client<'a> {
    base: &'a Database,
    counts: &'a Counts,
    transaction: Transaction,
    width: usize,
}

impl Client<'_> {
    fn commit<M: Memory>(&mut self, memory: &mut M) -> bool {
        let done = self.transaction.commit(memory, self.base).is_ok();
        if !done {
            self.counts.aborts.fetch_add(1, Relaxed);
        }
        done
    }

    fn insert<M: Memory>(&mut self, memory: &mut M, key: u64) {
        let mut value = vec![key; self.width];
        value[0] = 0;
        loop {
            self.transaction.clear();
            self.transaction.insert(0, key, &value);
            if self.commit(memory) {
                return;
            }
        }
    }

    fn access<M: Memory>(&mut self, memory: &mut M, kind: Kind, key: u64, stamp: u64) {
        loop {
            self.transaction.clear();
            let Some(row) = self.transaction.find(memory, self.base, 0, key) else {
                self.counts.missing.fetch_add(1, Relaxed);
                return;
            };
            let mut whole = true;
            if kind != Kind::Update {
                let width = self.width;
                let copied = self.transaction.read(memory, self.base, 0, row, 0..width);
                let Some(copied) = copied else {
                    self.counts.missing.fetch_add(1, Relaxed);
                    return;
                };
                let first = self.transaction.field(copied, STAMP);
                whole = (STAMP..width).all(|place| self.transaction.field(copied, place) == first);
                if kind == Kind::Modify {
                    let count = self.transaction.field(copied, 0) + 1;
                    self.transaction.write(0, row, 0, &[count]);
                }
            }
            if kind != Kind::Read {
                let value = vec![stamp; self.width - STAMP];
                self.transaction.write(0, row, STAMP, &value);
            }
            if self.commit(memory) {
                self.counts.found.fetch_add(1, Relaxed);
                self.counts.torn.fetch_add(u64::from(!whole), Relaxed);
                self.counts.modified.fetch_add(u64::from(kind == Kind::Modify), Relaxed);
                return;
            }
        }
    }

    fn scan<M: Memory>(&mut self, memory: &mut M, key: u64, length: u64, items: u64) {
        loop {
            self.transaction.clear();
            let mut rows = Vec::with_capacity(length as usize);
            self.transaction.scan(memory, self.base, 0, key, |_, _, row| {
                rows.push(row);
                rows.len() < length as usize
            });
            let mut there = 0;
            for row in &rows {
                let width = self.width;
                there += u64::from(self.transaction.read(memory, self.base, 0, *row, 0..width).is_some());
            }
            if self.commit(memory) {
                self.counts.scanned.fetch_add(there, Relaxed);
                let short = there < length.min(items - key);
                self.counts.short.fetch_add(u64::from(short), Relaxed);
                return;
            }
        }
    }
}
