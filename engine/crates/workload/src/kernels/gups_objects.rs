//! Random updates of objects from 8 bytes to 4 KiB with a hot set, as the variants of Colloid and PACT: objects of several
//! lines are read and written whole, the hot set may be replaced, and random phases may alternate with sequential ones.

use super::prelude::*;

/// Updates that a thread does at a time.
const CHUNK: usize = 1 << 12;
/// Random-number domain of the updates.
const DOMAIN: u64 = 0x6f62_6a73;
/// Bytes of a cache line and of the words that are updated.
const LINE: u64 = 64;
const WORD: u64 = 8;
/// Least elements of the data while only addresses count.
const RECORDED_WORDS: usize = 1 << 10;

// Least of 15 runs of the originals' loop on 8 KiB, on one core of a Sapphire Rapids server: two steps of xorshift, two
// remainders and vectors of words added to, 5.9 ns with objects of 64 bytes and 57 with 4 KiB, 0.4 and 42 in sequence. The loop
// here takes longer (16 ns with 64 bytes): its words are atomic, so that the compiler makes no vectors of them, and its random
// numbers come from a counter.
const RANDOM_NS: f64 = 5.2;
const SEQUENTIAL_NS: f64 = 0.4;
/// For each further word of an object.
const WORD_NS: f64 = 0.09;

/// Random updates of objects.
#[derive(Debug)]
pub struct GupsObjects;

struct Shape {
    objects: u64,
    object_bytes: u64,
    hot: u64,
    hot_share: f64,
    turnover: f64,
}

impl Shape {
    fn of(values: &Values) -> Self {
        let object_bytes = values.int("object_bytes");
        Self {
            objects: values.int("table_bytes") / object_bytes,
            object_bytes,
            hot: (values.int("hot_bytes") / object_bytes).max(1),
            hot_share: values.real("hot_share"),
            turnover: values.real("turnover"),
        }
    }

    /// Where the hot set starts in the n-th phase, in objects: it slides by the part of it that is replaced.
    fn hot_start(&self, phase: u64) -> u64 {
        (phase as f64 * self.turnover * self.hot as f64).round() as u64 % self.objects
    }
}

fn table(values: &Values) -> ObjectSpec {
    ObjectSpec::new("table", values.int("table_bytes"), values.int("object_bytes") as u32)
        .built()
        .swept()
}

/// Updates before a phase begins.
fn done_before(values: &Values, phase: u64) -> u64 {
    let (updates, phases) = (values.int("updates"), values.int("phases"));
    let share = values.real("first_share");
    if share == 0.0 || phase == 0 || phases == 1 {
        return updates * phase / phases;
    }
    let first = (updates as f64 * share).round() as u64;
    first + (updates - first) * (phase - 1) / (phases - 1)
}

impl Program for GupsObjects {
    const NAME: &'static str = "gups_objects";
    const FAMILY: &'static str = "gups";
    const SUMMARY: &'static str = "random updates of whole objects of 8 B to 4 KiB with a hot set that is replaced";
    const SOURCE: &'static str =
        "the GUPS of Colloid (SOSP'24: objects of 64 B to 4 KiB, hot set replaced) and of PACT (alternating phases)";
    const OP_MEANING: &'static str = "one object read and written whole";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::bytes("table_bytes", 1 << 16, 1 << 46, "table that is updated").carried(),
        Parameter::bytes("hot_bytes", 8, 1 << 46, "hot part of the table").carried(),
        Parameter::bytes("object_bytes", 8, 4096, "one object, a power of two").or(Default::Int(64)),
        Parameter::real("hot_share", 0.0, 1.0, "share of the updates that go to the hot part").or(Default::Real(0.9)),
        Parameter::int(
            "updates",
            1,
            10_000_000_000_000,
            "updates of all threads together, all phases",
        )
        .work(),
        Parameter::int(
            "phases",
            1,
            64,
            "phases, of equally many updates unless first_share says otherwise; the hot set moves between them",
        )
        .or(Default::Int(1)),
        Parameter::real(
            "first_share",
            0.0,
            1.0,
            "share of the updates in the first phase; 0: as many as in each other one",
        )
        .or(Default::Real(0.0)),
        Parameter::real("turnover", 0.0, 1.0, "part of the hot set that a move replaces").or(Default::Real(1.0)),
        Parameter::flag(
            "alternate",
            "every second phase goes through the table in order instead",
        ),
        Parameter::int("seed", 0, u64::MAX, "seed of the updates").or(Default::Int(1)),
    ];
    // Lines of an object after its first follow each other, so they are a stream.
    const CLASSES: &'static [AccessClass] = &[AccessClass::Update, AccessClass::Stream];
    const SMALL: &'static str = r#"{"table_bytes": 4194304, "hot_bytes": 524288, "object_bytes": 256, "updates": 200000,
        "phases": 3, "alternate": true}"#;

    type Output = u64;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        vec![table(values)]
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> u64 {
        let shape = Shape::of(values);
        let words = (shape.objects * shape.object_bytes / WORD) as usize;
        let backed = if M::ADDRESSES_ONLY {
            RECORDED_WORDS.min(words)
        } else {
            words
        };
        let object = memory.allocate(&table(values));
        let data: Vec<AtomicU64> = (0..backed).map(|_| AtomicU64::new(0)).collect();
        let lines = shape.object_bytes.div_ceil(LINE);
        let line_words = (shape.object_bytes.min(LINE) / WORD) as usize;
        for phase in 0..values.int("phases") {
            let count = (done_before(values, phase + 1) - done_before(values, phase)) as usize;
            let sequential = values.flag("alternate") && phase % 2 == 1;
            let (name, ns) = if sequential {
                ("sequential", SEQUENTIAL_NS)
            } else {
                ("random", RANDOM_NS)
            };
            let cost = ns + WORD_NS * (shape.object_bytes / WORD - 1) as f64;
            let start = shape.hot_start(phase);
            memory.phase(Phase::new(format!("{name} {}", phase + 1), Unit::Operations, cost).stationary());
            memory.for_chunks(0..count, CHUNK, |memory, part| {
                let mut place = part.start as u64 % shape.objects;
                let mut rng = CounterRng::new(values.int("seed"), &[DOMAIN, phase, (part.start / CHUNK) as u64]);
                for _ in part {
                    let number = if sequential {
                        let next = if place + 1 == shape.objects { 0 } else { place + 1 };
                        std::mem::replace(&mut place, next)
                    } else if rng.next_f64() < shape.hot_share {
                        let within = start + rng.below(shape.hot);
                        if within >= shape.objects {
                            within - shape.objects
                        } else {
                            within
                        }
                    } else {
                        rng.below(shape.objects)
                    };
                    for line in 0..lines {
                        let offset = (number * shape.object_bytes + line * LINE) as usize;
                        let class = if sequential || line > 0 {
                            AccessClass::Stream
                        } else {
                            AccessClass::Update
                        };
                        memory.load(object, offset, class);
                        memory.store(object, offset, class);
                        let word = offset / WORD as usize;
                        let first = if M::ADDRESSES_ONLY { word % backed } else { word };
                        // Plain loads and stores: two threads that meet at a word may lose an update, as in the original.
                        for word in &data[first..(first + line_words).min(backed)] {
                            word.store(word.load(Relaxed).wrapping_add(1), Relaxed);
                        }
                    }
                    memory.ops(1);
                }
            });
        }
        // The least that every update left behind: words of one object are counted together.
        let words_per_update = shape.object_bytes / WORD;
        data.iter().map(|word| word.load(Relaxed)).sum::<u64>() / words_per_update
    }

    fn verify(values: &Values, updated: &u64) -> Vec<Check> {
        let asked = values.int("updates");
        // Two threads may lose an update where they meet at a word, as in the original; that is rare.
        let lost = asked.saturating_sub(*updated) as f64 / asked as f64;
        let detail = format!("{updated} in the table, {asked} asked for");
        vec![Check::new("updates", *updated <= asked && lost < 0.01, detail)]
    }

    fn check(values: &Values) -> Result<(), ParameterError> {
        let (table, object) = (values.int("table_bytes"), values.int("object_bytes"));
        if !object.is_power_of_two() {
            let near = object.next_power_of_two();
            let text = format!("is {object}, it must be a power of two; the nearest is {near}");
            return Err(ParameterError::new("object_bytes", text));
        }
        if table % object != 0 {
            let near = table / object * object;
            let text = format!("is {table}, which is no whole number of objects; the nearest is {near}");
            return Err(ParameterError::new("table_bytes", text));
        }
        let share = values.real("first_share");
        if share > 0.0 && values.int("phases") == 1 {
            let text = format!("is {share}, but there is one phase; the valid value is 0, or give phases");
            return Err(ParameterError::new("first_share", text));
        }
        within("hot_bytes", values.int("hot_bytes"), object, table)
    }

    fn ops(values: &Values) -> u64 {
        values.int("updates")
    }

    /// The hot part keeps its share of the table unless another one is asked for.
    fn resize(recorded: &Values, sizes: &[(&str, u64)]) -> Values {
        let asked = |name: &str| sizes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let (table, hot) = (recorded.int("table_bytes"), recorded.int("hot_bytes"));
        let larger = asked("table_bytes").unwrap_or(table);
        let kept = (hot as f64 * larger as f64 / table as f64).round() as u64;
        let updates = (recorded.int("updates") as f64 * larger as f64 / table as f64).round() as u64;
        recorded
            .clone()
            .with("table_bytes", larger)
            .with("hot_bytes", asked("hot_bytes").unwrap_or(kept))
            .with("updates", updates)
    }

    fn carry(profile: &crate::profile::Profile, spec: &crate::CarrySpec) -> Result<crate::Replay, crate::CarryError> {
        let recorded = profile.metadata.request.values();
        let sizes: Vec<(&str, u64)> = spec.sizes().filter(|(name, _)| *name == "table_bytes").collect();
        let kept = Self::resize(recorded, &sizes).int("hot_bytes");
        if let Some(hot) = spec.size("hot_bytes").filter(|hot| *hot != kept) {
            return Err(crate::CarryError(format!(
                "carry.hot_bytes is {hot}, but the share of the recorded hot part is kept; the nearest is {kept}"
            )));
        }
        crate::carry::stretch::carry::<Self>(profile, spec)
    }
}
