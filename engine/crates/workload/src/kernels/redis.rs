//! A key-value store with chained hashing and an object for every part of a record, as Redis keeps strings.

use super::popularity::{self, Popularity, scrambled};
use super::prelude::*;
use super::silo::slab::Slab;

/// GET and SET on a hash table of strings, one thread.
#[derive(Debug)]
pub struct Redis;

// Measured with `cargo run --release -p tiertune-workload --example cpu_cost -- redis` and 150 records.
const LOOKUP_NS: f64 = 119.0;

/// Sizes of the allocator's classes: an entry of 24 bytes, a key of some 20, an object header of 16.
const ENTRY_WORDS: usize = 4;
const KEY_WORDS: usize = 4;
const HEADER_WORDS: usize = 2;
/// Entry: key, object header, next entry plus 1.
const KEY: usize = 0;
const OBJECT: usize = 1;
const NEXT: usize = 2;
/// Header: the value, and the time of the last access in the upper half of the other word.
const VALUE: usize = 0;
const CLOCK: usize = 1;
/// Replies go through a buffer that stays in the cache.
const BUFFER_BYTES: u64 = 16 << 10;
const DOMAIN: u64 = 0x7265_6469;

/// Value of jemalloc's size class for a string of so many bytes with its header of 3 bytes and its final zero.
fn value_words(values: &Values) -> usize {
    let bytes = values.int("value_bytes") + 4;
    let class = if bytes <= 128 {
        bytes.div_ceil(16) * 16
    } else {
        // Four classes between powers of two.
        let step = (bytes - 1).next_power_of_two().max(256) / 8;
        bytes.div_ceil(step) * step
    };
    (class / 8) as usize
}

fn buckets(values: &Values) -> u64 {
    values.int("records").next_power_of_two()
}

/// The store after a run.
#[derive(Debug)]
pub struct Dictionary {
    buckets: SharedArray<u64>,
    entries: Slab,
    keys: Slab,
    headers: Slab,
    values: Slab,
    buffer: ObjectId,
    found: u64,
    wrong: u64,
    sets: u64,
}

impl Dictionary {
    fn new<M: Memory>(memory: &mut M, values: &Values) -> Self {
        let specs = Redis::objects(values);
        let records = values.int("records") as usize;
        let slab = |spec: &ObjectSpec, words| Slab::new(spec.clone(), words, records, 0);
        let mut store = Self {
            buckets: SharedArray::new(memory, &specs[0], vec![0; buckets(values) as usize]),
            entries: slab(&specs[1], ENTRY_WORDS),
            keys: slab(&specs[2], KEY_WORDS),
            headers: slab(&specs[3], HEADER_WORDS),
            values: slab(&specs[4], value_words(values)),
            buffer: memory.allocate(&specs[5]),
            found: 0,
            wrong: 0,
            sets: 0,
        };
        for key in 0..records as u64 {
            store.load(memory, key);
        }
        store
    }

    fn load<M: Memory>(&mut self, memory: &mut M, key: u64) {
        for slab in [&mut self.keys, &mut self.values, &mut self.headers, &mut self.entries] {
            slab.reserve(memory, 1);
        }
        let (name, value) = (self.keys.take(), self.values.take());
        let (header, entry) = (self.headers.take(), self.entries.take());
        self.keys.word(name, 0).store(key, Relaxed);
        for word in self.values.words(value) {
            word.store(stamp(key, 0), Relaxed);
        }
        self.values.word(value, 0).store(0, Relaxed);
        self.headers.word(header, VALUE).store(value, Relaxed);
        let quiet = &mut crate::memory::Native;
        let bucket = scrambled(key) as usize & (self.buckets.len() - 1);
        let first = self.buckets.load(quiet, bucket, AccessClass::Random);
        for (word, content) in [(KEY, name), (OBJECT, header), (NEXT, first)] {
            self.entries.word(entry, word).store(content, Relaxed);
        }
        self.buckets.store(quiet, bucket, entry + 1, AccessClass::Random);
    }

    /// The header of a key's value; announces the walk along the chain.
    fn find<M: Memory>(&self, memory: &mut M, key: u64) -> Option<u64> {
        let bucket = scrambled(key) as usize & (self.buckets.len() - 1);
        let mut entry = self.buckets.load(memory, bucket, AccessClass::Random);
        while entry > 0 {
            let word = |word| self.entries.word(entry - 1, word).load(Relaxed);
            self.entries.announce_load(memory, entry - 1, 0..3, AccessClass::Chase);
            self.keys.announce_load(memory, word(KEY), 0..3, AccessClass::Chase);
            if self.keys.word(word(KEY), 0).load(Relaxed) == key {
                return Some(word(OBJECT));
            }
            entry = word(NEXT);
        }
        None
    }

    /// The number of a key's value; notes the time of the access, as Redis does for its eviction.
    fn touch<M: Memory>(&self, memory: &mut M, key: u64, now: u64) -> Option<u64> {
        let header = self.find(memory, key)?;
        self.headers
            .announce_load(memory, header, 0..HEADER_WORDS, AccessClass::Chase);
        self.headers.announce_store(memory, header, CLOCK..CLOCK + 1);
        self.headers.word(header, CLOCK).store(now, Relaxed);
        Some(self.headers.word(header, VALUE).load(Relaxed))
    }

    /// Whether every word of the value is what was last set; copies it to the reply.
    fn get<M: Memory>(&self, memory: &mut M, key: u64, value: u64) -> bool {
        let words = self.values.words(value);
        let length = words.len();
        self.values.announce_load(memory, value, 0..1, AccessClass::Chase);
        self.values.announce_stream(memory, value, 0, false);
        memory.store_lines(
            self.buffer,
            0,
            (length * 8).min(BUFFER_BYTES as usize),
            AccessClass::Stream,
        );
        let expected = stamp(key, words[0].load(Relaxed));
        words[1..].iter().all(|word| word.load(Relaxed) == expected)
    }

    fn set<M: Memory>(&self, memory: &mut M, key: u64, value: u64) {
        memory.load_lines(self.buffer, 0, BUFFER_BYTES as usize / 16, AccessClass::Stream);
        self.values.announce_stream(memory, value, 0, true);
        let words = self.values.words(value);
        let version = words[0].load(Relaxed) + 1;
        words[0].store(version, Relaxed);
        for word in &words[1..] {
            word.store(stamp(key, version), Relaxed);
        }
    }

    /// Entries of all chains, and whether each is in the bucket of its key and no key is there twice.
    fn walk(&self) -> (u64, bool) {
        let mut seen = vec![false; self.keys.used()];
        let (mut entries, mut right) = (0, true);
        let quiet = &mut crate::memory::Native;
        for bucket in 0..self.buckets.len() {
            let mut entry = self.buckets.load(quiet, bucket, AccessClass::Random);
            while entry > 0 {
                entries += 1;
                let name = self.entries.word(entry - 1, KEY).load(Relaxed);
                let key = self.keys.word(name, 0).load(Relaxed);
                right &= scrambled(key) as usize & (self.buckets.len() - 1) == bucket;
                right &= !std::mem::replace(&mut seen[key as usize], true);
                entry = self.entries.word(entry - 1, NEXT).load(Relaxed);
            }
        }
        (entries, right)
    }
}

/// What the words of a value are, from its key and how often it was set.
fn stamp(key: u64, version: u64) -> u64 {
    scrambled(key) ^ version
}

impl Program for Redis {
    const NAME: &'static str = "redis";
    const FAMILY: &'static str = "redis";
    const SUMMARY: &'static str = "GET and SET on a single-threaded hash table of strings";
    const SOURCE: &'static str = "Redis's dictionary under memtier or YCSB";
    const OP_MEANING: &'static str = "one GET or SET";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::int("records", 16, 1 << 34, "records that are loaded").carried(),
        Parameter::int("operations", 1, 1 << 44, "GETs and SETs").work(),
        Parameter::real("set_share", 0.0, 1.0, "share of SETs").or(Default::Real(0.0)),
        Parameter::bytes("value_bytes", 16, 16 << 10, "bytes of a value").or(Default::Int(1000)),
        Parameter::word(
            "distribution",
            "a distribution",
            popularity::WORDS,
            "which records are popular: the first ones (zipf), any (scrambled), the newest (latest), all alike (uniform)",
        )
        .or(Default::Word("zipf")),
        Parameter::real("theta", 0.0, 2.0, "exponent of the zipf law").or(Default::Real(0.99)),
        Parameter::int(
            "request_ns",
            0,
            1_000_000,
            "work on a request beside the store: sockets and protocol",
        )
        .unit("ns")
        .or(Default::Int(0)),
        Parameter::int("seed", 0, u64::MAX, "seed of the operations").or(Default::Int(1)),
    ];
    const CLASSES: &'static [AccessClass] = &[
        AccessClass::Chase,
        AccessClass::Random,
        AccessClass::Update,
        AccessClass::Stream,
    ];
    const METRICS: &'static [Metric] = &[Metric {
        name: "sets",
        unit: "",
        role: Role::Covariate,
        meaning: "operations that were SETs",
    }];
    const SMALL: &'static str = r#"{"records": 6000, "operations": 20000, "set_share": 0.1}"#;

    type Output = Dictionary;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        let records = values.int("records");
        let layout = match values.word("distribution") {
            "scrambled" => Layout::Vertices,
            _ => Layout::Positional,
        };
        let spec = |name, words: usize| {
            let bytes = words as u64 * 8;
            ObjectSpec::new(name, records * bytes, bytes as u32)
                .layout(layout)
                .built()
        };
        vec![
            ObjectSpec::new("buckets", buckets(values) * 8, 8)
                .layout(Layout::Vertices)
                .built(),
            spec("entries", ENTRY_WORDS),
            spec("keys", KEY_WORDS),
            spec("object headers", HEADER_WORDS),
            spec("values", value_words(values)),
            ObjectSpec::new("reply buffer", BUFFER_BYTES, 64).built(),
        ]
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> Dictionary {
        let mut store = Dictionary::new(memory, values);
        let records = values.int("records");
        let request_ns = values.int("request_ns");
        let phase = Phase::new("requests", Unit::Operations, LOOKUP_NS + request_ns as f64);
        memory.phase(phase.stationary());
        let popularity = Popularity::named(values.word("distribution"), records, values.real("theta"));
        let share = values.real("set_share");
        let mut rng = CounterRng::new(values.int("seed"), &[DOMAIN]);
        for number in 0..values.int("operations") {
            let key = popularity.draw(&mut rng, records);
            if let Some(value) = store.touch(memory, key, number + 1) {
                store.found += 1;
                if rng.next_f64() < share {
                    store.set(memory, key, value);
                    store.sets += 1;
                } else {
                    store.wrong += u64::from(!store.get(memory, key, value));
                }
            }
            memory.ops(1);
            if request_ns > 0 && !M::ADDRESSES_ONLY {
                let start = std::time::Instant::now();
                while start.elapsed().as_nanos() < u128::from(request_ns) {
                    std::hint::spin_loop();
                }
            }
        }
        store
    }

    fn report(_values: &Values, store: &Dictionary) -> Vec<(&'static str, f64)> {
        vec![("sets", store.sets as f64)]
    }

    fn verify(values: &Values, store: &Dictionary) -> Vec<Check> {
        let (entries, right) = store.walk();
        let versions: u64 = (0..store.values.used() as u64)
            .map(|value| store.values.word(value, 0).load(Relaxed))
            .sum();
        vec![
            Check::new(
                "found",
                store.found == values.int("operations"),
                format!("{} of {} keys found", store.found, values.int("operations")),
            ),
            Check::new(
                "values",
                store.wrong == 0,
                format!("{} values are not what was set", store.wrong),
            ),
            Check::new(
                "sets",
                versions == store.sets,
                format!("{} SETs, values count {versions}", store.sets),
            ),
            Check::new(
                "chains",
                right && entries == values.int("records"),
                format!("{entries} entries, each where its key belongs: {right}"),
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
        let growth = target.int("records") as f64 / recorded.int("records") as f64;
        target.with("operations", (recorded.int("operations") as f64 * growth) as u64)
    }

    fn traffic_growth(recorded: &Values, target: &Values, object: &str, _class: AccessClass) -> f64 {
        // A key that is there is found after half of the others in its chain.
        let chain = |values: &Values| 1.0 + values.int("records") as f64 / buckets(values) as f64 / 2.0;
        let misses = law_growth(recorded, target).0;
        match object {
            "reply buffer" => 1.0,
            "entries" | "keys" => misses * chain(target) / chain(recorded),
            _ => misses,
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
