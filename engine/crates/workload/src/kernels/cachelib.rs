//! A cache of large values with a hot and a cold part, as CacheBench drives CacheLib.

use std::sync::Mutex;
use std::sync::atomic::{Ordering, fence};

use super::popularity::scrambled;
use super::prelude::*;
use super::silo::slab::Slab;
use super::silo::tree::pause;

/// GETs and updates of items in slabs, with a hash table and a list by recency.
#[derive(Debug)]
pub struct Cachelib;

// Measured with `cargo run --release -p tiertune-workload --example cpu_cost -- cachelib` and 60 keys, most of it
// the 64 lines of a value.
const OPERATION_NS: f64 = 168.0;

/// An item: version, next in chain plus 1, key, last promotion, neighbours by recency (plus 1 each); then the key's bytes
/// and the value.
const VERSION: usize = 0;
const NEXT: usize = 1;
const KEY: usize = 2;
const PROMOTED: usize = 3;
const NEWER: usize = 4;
const OLDER: usize = 5;
const HEADER_WORDS: usize = 8;
/// Keys of 64 bytes, as CacheBench's HeMemKV configuration has them.
const KEY_WORDS: usize = 8;
const VALUE: usize = HEADER_WORDS + KEY_WORDS;

const CHUNK: usize = 1024;
const DOMAIN: u64 = 0x6361_6368;

fn item_words(values: &Values) -> usize {
    VALUE + (values.int("value_bytes") / 8) as usize
}

fn buckets(values: &Values) -> u64 {
    // CacheBench's configurations have about twice as many buckets as items.
    (2 * values.int("keys")).next_power_of_two()
}

/// The ends of the list by recency, plus 1 each.
#[derive(Debug, Default)]
struct Ends {
    newest: u64,
    oldest: u64,
}

/// The cache after a run.
#[derive(Debug)]
pub struct Cache {
    buckets: SharedArray<u64>,
    items: Slab,
    ends: Mutex<Ends>,
    found: u64,
    torn: u64,
    updates: u64,
    hot: u64,
    promotions: u64,
}

impl Cache {
    fn word(&self, item: u64, word: usize) -> &AtomicU64 {
        self.items.word(item, word)
    }

    fn get(&self, item: u64, word: usize) -> u64 {
        self.word(item, word).load(Relaxed)
    }

    fn load<M: Memory>(&mut self, memory: &mut M, key: u64) {
        self.items.reserve(memory, 1);
        let item = self.items.take();
        let quiet = &mut crate::memory::Native;
        let bucket = scrambled(key) as usize & (self.buckets.len() - 1);
        let first = self.buckets.load(quiet, bucket, AccessClass::Random);
        self.word(item, NEXT).store(first, Relaxed);
        self.word(item, KEY).store(key, Relaxed);
        for word in VALUE..self.items.words(item).len() {
            self.word(item, word).store(0, Relaxed);
        }
        self.buckets.store(quiet, bucket, item + 1, AccessClass::Random);
        self.push(item);
    }

    /// Puts an item that is not in the list at its front.
    fn push(&self, item: u64) {
        let mut ends = self.ends();
        self.word(item, NEWER).store(0, Relaxed);
        self.word(item, OLDER).store(ends.newest, Relaxed);
        match ends.newest {
            0 => ends.oldest = item + 1,
            front => self.word(front - 1, NEWER).store(item + 1, Relaxed),
        }
        ends.newest = item + 1;
    }

    fn ends(&self) -> std::sync::MutexGuard<'_, Ends> {
        // A poisoned lock means that another thread panicked, which ends the run anyhow.
        self.ends.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn find<M: Memory>(&self, memory: &mut M, key: u64) -> Option<u64> {
        let bucket = scrambled(key) as usize & (self.buckets.len() - 1);
        let mut item = self.buckets.load(memory, bucket, AccessClass::Random);
        while item > 0 {
            self.items
                .announce_load(memory, item - 1, 0..HEADER_WORDS, AccessClass::Chase);
            if self.get(item - 1, KEY) == key {
                return Some(item - 1);
            }
            item = self.get(item - 1, NEXT);
        }
        None
    }

    /// Moves an item to the front of the list by recency, which writes to its neighbours and to the old front.
    fn promote<M: Memory>(&self, memory: &mut M, item: u64, now: u64) {
        let store = |memory: &mut M, item: u64, word: usize, value: u64| {
            self.items
                .announce_load(memory, item, word..word + 1, AccessClass::Chase);
            self.items.announce_store(memory, item, word..word + 1);
            self.word(item, word).store(value, Relaxed);
        };
        store(memory, item, PROMOTED, now);
        let mut ends = self.ends();
        let (newer, older) = (self.get(item, NEWER), self.get(item, OLDER));
        if newer == 0 {
            return;
        }
        store(memory, newer - 1, OLDER, older);
        match older {
            0 => ends.oldest = newer,
            older => store(memory, older - 1, NEWER, newer),
        }
        let front = ends.newest;
        store(memory, front - 1, NEWER, item + 1);
        store(memory, item, NEWER, 0);
        store(memory, item, OLDER, front);
        ends.newest = item + 1;
    }

    /// Reads the value; says whether all of it is from one update.
    fn read<M: Memory>(&self, memory: &mut M, item: u64) -> bool {
        let words = self.items.words(item);
        self.items.announce_stream(memory, item, VALUE, false);
        let mut turns = 0;
        loop {
            let version = words[VERSION].load(Ordering::Acquire);
            if version & 1 == 0 {
                let first = words[VALUE].load(Relaxed);
                let whole = words[VALUE..].iter().all(|word| word.load(Relaxed) == first);
                fence(Ordering::Acquire);
                if words[VERSION].load(Relaxed) == version {
                    return whole && first == version / 2;
                }
            }
            pause(&mut turns);
        }
    }

    /// Overwrites the value with the number of its updates.
    fn update<M: Memory>(&self, memory: &mut M, item: u64) {
        let words = self.items.words(item);
        let mut turns = 0;
        let version = loop {
            let version = words[VERSION].load(Relaxed);
            let locked = version & 1 == 1
                || words[VERSION]
                    .compare_exchange(version, version + 1, Ordering::Acquire, Relaxed)
                    .is_err();
            if !locked {
                break version;
            }
            pause(&mut turns);
        };
        fence(Ordering::Release);
        self.items.announce_store(memory, item, VERSION..VERSION + 1);
        self.items.announce_stream(memory, item, VALUE, true);
        for word in &words[VALUE..] {
            word.store(version / 2 + 1, Relaxed);
        }
        words[VERSION].store(version + 2, Ordering::Release);
    }

    /// Items in the list from its front; as many as there are if it is whole.
    fn listed(&self) -> u64 {
        let ends = self.ends();
        let (mut item, mut count, mut before) = (ends.newest, 0, 0);
        while item > 0 && count <= self.items.used() as u64 {
            if self.get(item - 1, NEWER) != before {
                return count;
            }
            count += 1;
            before = item;
            item = self.get(item - 1, OLDER);
        }
        if before == ends.oldest { count } else { 0 }
    }
}

impl Program for Cachelib {
    const NAME: &'static str = "cachelib";
    const FAMILY: &'static str = "cachelib";
    const SUMMARY: &'static str = "GETs and updates of large values, a hot part of the keys more often than the others";
    const SOURCE: &'static str = "CacheLib's CacheBench with the HeMemKV configuration of Colloid (SOSP'24)";
    const OP_MEANING: &'static str = "one GET or update";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::int("keys", 16, 1 << 34, "items in the cache").carried(),
        Parameter::int("operations", 1, 1 << 44, "operations of all threads together").work(),
        Parameter::bytes("value_bytes", 64, 1 << 20, "bytes of a value").or(Default::Int(4096)),
        Parameter::real("hot_keys", 0.0, 1.0, "share of the keys that are hot").or(Default::Real(0.2)),
        Parameter::real("hot_share", 0.0, 1.0, "share of the operations that go to hot keys").or(Default::Real(0.9)),
        Parameter::real("update_share", 0.0, 1.0, "share of the operations that write the value")
            .or(Default::Real(0.1)),
        Parameter::real(
            "refresh",
            0.0,
            1e9,
            "operations per key until a GET moves its item to the front of the list by recency again",
        )
        // CacheLib's 60 s, at 1.5 million operations a second on 15 million items.
        .or(Default::Real(6.0)),
        Parameter::int("seed", 0, u64::MAX, "seed of the operations").or(Default::Int(1)),
    ];
    const CLASSES: &'static [AccessClass] = &[
        AccessClass::Chase,
        AccessClass::Random,
        AccessClass::Update,
        AccessClass::Stream,
    ];
    const METRICS: &'static [Metric] = &[
        Metric {
            name: "hot_share",
            unit: "",
            role: Role::Covariate,
            meaning: "share of the operations that went to hot keys",
        },
        Metric {
            name: "recency_moves",
            unit: "",
            role: Role::Covariate,
            meaning: "moves to the front of the list by recency",
        },
    ];
    const SMALL: &'static str = r#"{"keys": 1500, "operations": 30000}"#;

    type Output = Cache;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        let item = item_words(values) as u64 * 8;
        vec![
            ObjectSpec::new("buckets", buckets(values) * 8, 8)
                .layout(Layout::Vertices)
                .built(),
            ObjectSpec::new("items", values.int("keys") * item, item as u32)
                .layout(Layout::Vertices)
                .built(),
        ]
    }

    fn check(values: &Values) -> Result<(), ParameterError> {
        let (keys, hot) = (values.int("keys"), hot_keys(values));
        if hot == 0 || hot == keys {
            let text = format!("is {}, which leaves {hot} of {keys} keys hot", values.real("hot_keys"));
            return Err(ParameterError::new("hot_keys", text));
        }
        let bytes = values.int("value_bytes");
        if bytes % 8 > 0 {
            return Err(ParameterError::new(
                "value_bytes",
                format!(
                    "is {bytes}, it must be a multiple of 8; the nearest is {}",
                    bytes / 8 * 8
                ),
            ));
        }
        Ok(())
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> Cache {
        let mut cache = build(memory, values);
        let (keys, hot, seed) = (values.int("keys"), hot_keys(values), values.int("seed"));
        let (hot_share, update_share) = (values.real("hot_share"), values.real("update_share"));
        let refresh = (values.real("refresh") * keys as f64) as u64;
        memory.phase(Phase::new("requests", Unit::Operations, OPERATION_NS).stationary());
        let counts: [AtomicU64; 5] = std::array::from_fn(|_| AtomicU64::new(0));
        let shared = &cache;
        memory.for_chunks(0..values.int("operations") as usize, CHUNK, |memory, part| {
            let mut rng = CounterRng::new(seed, &[DOMAIN, part.start as u64]);
            let mut sums = [0u64; 5];
            for number in part {
                let warm = rng.next_f64() < hot_share;
                let key = if warm {
                    rng.below(hot)
                } else {
                    hot + rng.below(keys - hot)
                };
                let write = rng.next_f64() < update_share;
                sums[3] += u64::from(warm);
                if let Some(item) = shared.find(memory, key) {
                    sums[0] += 1;
                    let now = number as u64 + 1;
                    if write {
                        shared.update(memory, item);
                        sums[2] += 1;
                    } else {
                        sums[1] += u64::from(!shared.read(memory, item));
                    }
                    if now >= shared.get(item, PROMOTED).saturating_add(refresh) {
                        shared.promote(memory, item, now);
                        sums[4] += 1;
                    }
                }
                memory.ops(1);
            }
            for (count, sum) in counts.iter().zip(sums) {
                count.fetch_add(sum, Relaxed);
            }
        });
        [cache.found, cache.torn, cache.updates, cache.hot, cache.promotions] = counts.map(AtomicU64::into_inner);
        cache
    }

    fn report(values: &Values, cache: &Cache) -> Vec<(&'static str, f64)> {
        vec![
            ("hot_share", cache.hot as f64 / values.int("operations") as f64),
            ("recency_moves", cache.promotions as f64),
        ]
    }

    fn verify(values: &Values, cache: &Cache) -> Vec<Check> {
        let items = cache.items.used() as u64;
        let versions: u64 = (0..items).map(|item| cache.get(item, VERSION) / 2).sum();
        let listed = cache.listed();
        vec![
            Check::new(
                "found",
                cache.found == values.int("operations"),
                format!("{} of {} keys found", cache.found, values.int("operations")),
            ),
            Check::new(
                "whole",
                cache.torn == 0,
                format!("{} half-written values read", cache.torn),
            ),
            Check::new(
                "updates",
                versions == cache.updates,
                format!("{} updates, items count {versions}", cache.updates),
            ),
            Check::new(
                "recency",
                listed == values.int("keys"),
                format!("{listed} of {items} items in the list"),
            ),
        ]
    }

    fn ops(values: &Values) -> u64 {
        values.int("operations")
    }

    fn resize(recorded: &Values, sizes: &[(&str, u64)]) -> Values {
        let target = sizes
            .iter()
            .fold(recorded.clone(), |values, (name, value)| values.with(name, *value));
        let growth = target.int("keys") as f64 / recorded.int("keys") as f64;
        target.with("operations", (recorded.int("operations") as f64 * growth) as u64)
    }
}

fn hot_keys(values: &Values) -> u64 {
    (values.int("keys") as f64 * values.real("hot_keys")).round() as u64
}

/// The filled cache: items lie in the order of insertion, which knows nothing of which keys are hot.
fn build<M: Memory>(memory: &mut M, values: &Values) -> Cache {
    let specs = Cachelib::objects(values);
    let keys = values.int("keys");
    let mut cache = Cache {
        buckets: SharedArray::new(memory, &specs[0], vec![0; buckets(values) as usize]),
        items: Slab::new(specs[1].clone(), item_words(values), keys as usize, 0),
        ends: Mutex::default(),
        found: 0,
        torn: 0,
        updates: 0,
        hot: 0,
        promotions: 0,
    };
    let mut order: Vec<u64> = (0..keys).collect();
    let mut rng = CounterRng::new(values.int("seed"), &[DOMAIN, u64::MAX]);
    for last in (1..order.len()).rev() {
        order.swap(last, rng.below(last as u64 + 1) as usize);
    }
    for key in order {
        cache.load(memory, key);
    }
    cache
}
