//! Lookups in a B-tree whose nodes were split off in random order, as the B-tree of the Mitosis project has them.

use super::prelude::*;
use super::silo::slab::Slab;

/// Lookups in a B+ tree of order 6.
#[derive(Debug)]
pub struct Btree;

// Measured with `cargo run --release -p tiertune-workload --example cpu_cost -- btree` and 1500 keys.
const LOOKUP_NS: f64 = 115.0;

/// Most children of an inner node; a leaf has one key less.
pub const ORDER: usize = 6;
/// Leaves hold this many keys in the mean after random insertions. A leaf of k keys takes the next one with probability
/// in proportion to k and splits from 6 into 3 and 3, so leaves of 3, 4 and 5 keys are as 5 to 3 to 2.
pub const LEAF_FILL: f64 = 3.7;
/// Children of an inner node in the mean: it splits from 7 into 3 and 4, so those of 3 to 6 are as 15 to 21 to 14 to 10.
pub const FANOUT: f64 = 259.0 / 60.0;

/// A header, the pointers and the keys, a line each, as the original allocates them.
const NODE_WORDS: usize = 24;
const POINTERS: usize = 8;
const KEYS: usize = 16;
/// Header words: number of keys, and whether the node is a leaf.
const COUNT: usize = 0;
const LEAF: usize = 1;
/// A record has a line: the element's number plus 1, and how often it was found.
const RECORD_WORDS: usize = 8;
const ELEMENT: usize = 0;
const FOUND: usize = 1;
const ELEMENT_WORDS: usize = 8;
/// What the original asks its allocator for at a time for nodes and records, large enough to be mapped by itself.
const SLAB_BYTES: u64 = 1 << 20;

const CHUNK: usize = 4096;
const DOMAIN: u64 = 0x6274_7265;

/// A tree and what it points to.
#[derive(Debug)]
pub struct Forest {
    nodes: Slab,
    records: Slab,
    elements: Slab,
    root: u64,
    matches: u64,
    expected: u64,
    sum: u64,
    expected_sum: u64,
}

impl Forest {
    /// Nodes by level, leaves first; nothing if a node is out of order.
    #[must_use]
    pub fn levels(&self) -> Option<Vec<u64>> {
        let mut levels = Vec::new();
        let mut row = vec![(self.root, 0, u64::MAX)];
        loop {
            levels.push(row.len() as u64);
            let mut below = Vec::new();
            let mut leaves = 0;
            for (node, from, to) in row {
                let count = self.word(node, COUNT) as usize;
                let keys: Vec<u64> = (0..count).map(|slot| self.word(node, KEYS + slot)).collect();
                let sorted = keys.windows(2).all(|pair| pair[0] < pair[1]);
                if !sorted || keys.iter().any(|key| *key < from || *key >= to) {
                    return None;
                }
                if self.word(node, LEAF) == 1 {
                    leaves += 1;
                    continue;
                }
                let mut low = from;
                for slot in 0..=count {
                    let high = keys.get(slot).copied().unwrap_or(to);
                    below.push((self.word(node, POINTERS + slot), low, high));
                    low = high;
                }
            }
            if below.is_empty() {
                levels.reverse();
                return Some(levels);
            }
            if leaves > 0 {
                return None;
            }
            row = below;
        }
    }

    fn word(&self, node: u64, word: usize) -> u64 {
        self.nodes.word(node, word).load(Relaxed)
    }

    fn set(&self, node: u64, word: usize, value: u64) {
        self.nodes.word(node, word).store(value, Relaxed);
    }

    /// The child or place that a key belongs to: the number of keys at most as large.
    fn upper(&self, node: u64, key: u64) -> usize {
        let count = self.word(node, COUNT) as usize;
        (0..count)
            .find(|slot| self.word(node, KEYS + slot) > key)
            .unwrap_or(count)
    }

    fn insert<M: Memory>(&mut self, memory: &mut M, key: u64, element: u64) {
        self.records.reserve(memory, 1);
        let record = self.records.take();
        self.records.word(record, ELEMENT).store(element + 1, Relaxed);
        let mut path = Vec::new();
        let mut node = self.root;
        while self.word(node, LEAF) == 0 {
            let slot = self.upper(node, key);
            path.push(node);
            node = self.word(node, POINTERS + slot);
        }
        let mut split = self.add(memory, node, (key, record));
        while let Some(entry) = split {
            let Some(parent) = path.pop() else {
                self.nodes.reserve(memory, 1);
                let root = self.nodes.take();
                self.set(root, COUNT, 1);
                self.set(root, KEYS, entry.0);
                self.set(root, POINTERS, self.root);
                self.set(root, POINTERS + 1, entry.1);
                self.root = root;
                return;
            };
            split = self.add(memory, parent, entry);
        }
    }

    /// Adds an entry to a node; where that was full, splits it and hands out the separator and the new right neighbour.
    fn add<M: Memory>(&mut self, memory: &mut M, node: u64, entry: (u64, u64)) -> Option<(u64, u64)> {
        let leaf = self.word(node, LEAF) as usize;
        // The child at the right of a key has the next number; a leaf's records have their keys' numbers.
        let extra = 1 - leaf;
        let count = self.word(node, COUNT) as usize;
        let place = self.upper(node, entry.0);
        let mut keys: Vec<u64> = (0..count).map(|slot| self.word(node, KEYS + slot)).collect();
        let mut pointers: Vec<u64> = (0..count + extra)
            .map(|slot| self.word(node, POINTERS + slot))
            .collect();
        keys.insert(place, entry.0);
        pointers.insert(place + extra, entry.1);
        let write = |forest: &Self, node: u64, keys: &[u64], pointers: &[u64]| {
            forest.set(node, COUNT, keys.len() as u64);
            forest.set(node, LEAF, leaf as u64);
            for (slot, key) in keys.iter().enumerate() {
                forest.set(node, KEYS + slot, *key);
            }
            for (slot, pointer) in pointers.iter().enumerate() {
                forest.set(node, POINTERS + slot, *pointer);
            }
        };
        if keys.len() < ORDER {
            write(self, node, &keys, &pointers);
            return None;
        }
        self.nodes.reserve(memory, 1);
        let right = self.nodes.take();
        // A leaf keeps 3 of 6 keys; an inner node 3 of 7 children, and its third key moves up.
        let kept = ORDER / 2 - extra;
        write(self, node, &keys[..kept], &pointers[..kept + extra]);
        write(self, right, &keys[kept + extra..], &pointers[kept + extra..]);
        Some((keys[kept], right))
    }

    fn find<M: Memory>(&self, memory: &mut M, key: u64) -> Option<u64> {
        let mut node = self.root;
        loop {
            let line = |first: usize| first..first + 8;
            self.nodes.announce_load(memory, node, line(0), AccessClass::Chase);
            self.nodes.announce_load(memory, node, line(KEYS), AccessClass::Chase);
            // The header gives the address of the pointers as early as that of the keys.
            self.nodes
                .announce_load(memory, node, line(POINTERS), AccessClass::Random);
            let slot = self.upper(node, key);
            if self.word(node, LEAF) == 0 {
                node = self.word(node, POINTERS + slot);
                continue;
            }
            if slot == 0 || self.word(node, KEYS + slot - 1) != key {
                return None;
            }
            return Some(self.word(node, POINTERS + slot - 1));
        }
    }
}

impl Program for Btree {
    const NAME: &'static str = "btree";
    const FAMILY: &'static str = "mitosis";
    const SUMMARY: &'static str = "lookups in a B-tree that was built by insertions in random order";
    const SOURCE: &'static str = "the B-tree benchmark of Mitosis (Achermann et al., ASPLOS'20)";
    const OP_MEANING: &'static str = "one lookup";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::int("keys", 16, 1 << 36, "keys in the tree").carried(),
        Parameter::int(
            "lookups",
            1,
            1 << 44,
            "lookups of all threads together; every second one finds its key",
        )
        .work(),
        Parameter::int("seed", 0, u64::MAX, "seed of insertions and lookups").or(Default::Int(1)),
    ];
    const CLASSES: &'static [AccessClass] = &[AccessClass::Chase, AccessClass::Random, AccessClass::Update];
    const METRICS: &'static [Metric] = &[Metric {
        name: "matches",
        unit: "",
        role: Role::Covariate,
        meaning: "lookups that found their key",
    }];
    const SMALL: &'static str = r#"{"keys": 20000, "lookups": 40000}"#;

    type Output = Forest;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        let keys = values.int("keys");
        let nodes = keys as f64 / LEAF_FILL / (1.0 - 1.0 / FANOUT);
        let spec = |name, count: u64, words: usize| {
            let bytes = words as u32 * 8;
            ObjectSpec::new(name, count * u64::from(bytes), bytes)
                .layout(Layout::Vertices)
                .built()
        };
        let slabs = Mapping::Pieces(SLAB_BYTES);
        vec![
            spec("elements", keys, ELEMENT_WORDS),
            spec("nodes", nodes.round() as u64 + 2, NODE_WORDS).mapping(slabs),
            spec("records", keys, RECORD_WORDS).mapping(slabs),
        ]
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> Forest {
        let mut forest = build(memory, values);
        let (keys, lookups, seed) = (values.int("keys"), values.int("lookups"), values.int("seed"));
        memory.phase(Phase::new("lookup", Unit::Operations, LOOKUP_NS).stationary());
        let (matches, expected) = (AtomicU64::new(0), AtomicU64::new(0));
        let (sum, expected_sum) = (AtomicU64::new(0), AtomicU64::new(0));
        let tree = &forest;
        memory.for_chunks(0..lookups as usize, CHUNK, |memory, part| {
            let mut rng = CounterRng::new(seed, &[DOMAIN, part.start as u64]);
            let (mut found, mut even, mut total, mut total_even) = (0, 0, 0u64, 0u64);
            for _ in part {
                // Keys are even.
                let key = rng.below(2 * keys);
                if key % 2 == 0 {
                    even += 1;
                    total_even = total_even.wrapping_add(payload(key));
                }
                if let Some(record) = tree.find(memory, key) {
                    found += 1;
                    tree.records
                        .announce_load(memory, record, 0..RECORD_WORDS, AccessClass::Chase);
                    let element = tree.records.word(record, ELEMENT).load(Relaxed) - 1;
                    tree.records.announce_store(memory, record, FOUND..FOUND + 1);
                    tree.records.word(record, FOUND).fetch_add(1, Relaxed);
                    tree.elements
                        .announce_load(memory, element, 0..ELEMENT_WORDS, AccessClass::Chase);
                    total = total.wrapping_add(tree.elements.word(element, 0).load(Relaxed));
                }
                memory.ops(1);
            }
            matches.fetch_add(found, Relaxed);
            expected.fetch_add(even, Relaxed);
            sum.fetch_add(total, Relaxed);
            expected_sum.fetch_add(total_even, Relaxed);
        });
        forest.matches = matches.into_inner();
        forest.expected = expected.into_inner();
        forest.sum = sum.into_inner();
        forest.expected_sum = expected_sum.into_inner();
        forest
    }

    fn report(_values: &Values, forest: &Forest) -> Vec<(&'static str, f64)> {
        vec![("matches", forest.matches as f64)]
    }

    fn verify(values: &Values, forest: &Forest) -> Vec<Check> {
        let levels = forest.levels();
        let counted: u64 = (0..forest.records.used() as u64)
            .map(|record| forest.records.word(record, FOUND).load(Relaxed))
            .sum();
        vec![
            Check::new(
                "matches",
                forest.matches == forest.expected && counted == forest.matches,
                format!(
                    "{} found, {} counted by records, {} keys asked for are there",
                    forest.matches, counted, forest.expected
                ),
            ),
            Check::new(
                "values",
                forest.sum == forest.expected_sum,
                format!("{} against {}", forest.sum, forest.expected_sum),
            ),
            Check::new(
                "order",
                levels.is_some() && forest.records.used() as u64 == values.int("keys"),
                format!("nodes by level: {levels:?}"),
            ),
        ]
    }

    fn ops(values: &Values) -> u64 {
        values.int("lookups")
    }

    fn resize(recorded: &Values, sizes: &[(&str, u64)]) -> Values {
        let target = sizes
            .iter()
            .fold(recorded.clone(), |values, (name, value)| values.with(name, *value));
        let growth = target.int("keys") as f64 / recorded.int("keys") as f64;
        target.with("lookups", (recorded.int("lookups") as f64 * growth) as u64)
    }
}

fn payload(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The tree that the parameters ask for, without any lookup done.
pub fn build<M: Memory>(memory: &mut M, values: &Values) -> Forest {
    let specs = Btree::objects(values);
    let keys = values.int("keys");
    let nodes = specs[1].bytes as usize / (NODE_WORDS * 8);
    let mut forest = Forest {
        elements: Slab::new(specs[0].clone(), ELEMENT_WORDS, keys as usize, 0),
        nodes: Slab::new(specs[1].clone(), NODE_WORDS, nodes, 0),
        records: Slab::new(specs[2].clone(), RECORD_WORDS, keys as usize, 0),
        root: 0,
        matches: 0,
        expected: 0,
        sum: 0,
        expected_sum: 0,
    };
    forest.nodes.reserve(memory, 1);
    forest.root = forest.nodes.take();
    forest.set(forest.root, LEAF, 1);
    // Elements are one array that is filled first; the tree points into it from random places.
    for _ in 0..keys {
        forest.elements.reserve(memory, 1);
        forest.elements.take();
    }
    let mut order: Vec<u64> = (0..keys).collect();
    let mut rng = CounterRng::new(values.int("seed"), &[DOMAIN, u64::MAX]);
    for last in (1..order.len()).rev() {
        order.swap(last, rng.below(last as u64 + 1) as usize);
    }
    for (element, number) in order.into_iter().enumerate() {
        let (element, key) = (element as u64, 2 * number);
        forest.elements.word(element, 0).store(payload(key), Relaxed);
        forest.insert(memory, key, element);
    }
    forest
}
