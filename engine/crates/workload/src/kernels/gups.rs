//! Random updates of a table with a hot set that moves, as HeMem's `gups-hotset-move`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Deserialize;
use tiertune_policy::CounterRng;

use crate::class::AccessClass;
use crate::kernel::{Check, Program};
use crate::memory::{Memory, ObjectSpec, Phase, Unit};
use crate::parameter::{Default, Parameter, ParameterError, Values, within};
use crate::profile::Profile;
use crate::{CarryError, CarrySpec, Replay};

/// What one operation is.
pub const OP_MEANING: &str = "one update (a load, an addition and a store)";

// Measured like those in `bc.rs`, with a table of 64 KiB.
/// Nanoseconds per update: two random numbers and the update itself.
pub const UPDATE_NS: f64 = 11.2;

/// Bytes per element, as in HeMem.
pub const ELEMENT_BYTES: u64 = 8;

/// Most of a table that is recorded.
const MOST_RECORDED_BYTES: u64 = 8 << 30;
/// Elements of the table that are backed while recording.
const RECORDED_BACKING: usize = 1 << 10;
/// Part of the hot set that HeMem replaces.
const HEMEM_TURNOVER: f64 = 0.25;
const MOST_MOVES: usize = 64;

fn table(bytes: u64) -> ObjectSpec {
    ObjectSpec::new("table", bytes, ELEMENT_BYTES as u32)
        .built()
        .partitioned()
}

/// Random updates with a hot set.
#[derive(Debug)]
pub struct Gups;

impl Program for Gups {
    const NAME: &'static str = "gups";
    const FAMILY: &'static str = "gups";
    const SUMMARY: &'static str = "random updates of a table with a hot set that moves";
    const SOURCE: &'static str = "HeMem's gups-hotset-move";
    const OP_MEANING: &'static str = OP_MEANING;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::bytes("table_bytes", 1 << 20, 1 << 46, "table that is updated").carried(),
        Parameter::bytes(
            "hot_bytes",
            8,
            1 << 46,
            "hot part of the table, of all threads together",
        )
        .carried(),
        Parameter::real("hot_share", 0.0, 1.0, "share of the updates that go to the hot part").or(Default::Real(0.9)),
        Parameter::int("updates", 1, 10_000_000_000_000, "updates of all threads together").work(),
        Parameter::new(
            "moves",
            crate::parameter::Kind::Other,
            "how often a quarter of the hot part moves on, evenly spaced; or a list of {at_update, share}",
        )
        .or(Default::Int(0)),
        Parameter::int("threads", 1, 256, "threads, each with its own part of the table").or(Default::Int(12)),
        Parameter::int("seed", 0, u64::MAX, "seed of the updates").or(Default::Int(1)),
    ];
    const CLASSES: &'static [AccessClass] = &[AccessClass::Update];
    const SMALL: &'static str =
        r#"{"table_bytes": 4194304, "hot_bytes": 524288, "updates": 400000, "moves": 1, "threads": 2}"#;

    type Output = Vec<u64>;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        vec![table(values.int("table_bytes"))]
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> Vec<u64> {
        let shape = Shape::of(values);
        let backed = if M::ADDRESSES_ONLY {
            RECORDED_BACKING
        } else {
            ((shape.table_bytes / ELEMENT_BYTES) as usize).next_power_of_two()
        };
        let moves = read_moves(values).unwrap_or_default();
        run(
            memory,
            &shape,
            values.int("updates"),
            &moves,
            values.int("seed"),
            backed,
        )
    }

    fn verify(values: &Values, table: &Vec<u64>) -> Vec<Check> {
        let (found, asked) = (table.iter().sum::<u64>(), values.int("updates"));
        vec![Check::new(
            "updates",
            found == asked,
            format!("{found} in the table, {asked} asked for"),
        )]
    }

    fn check(values: &Values) -> Result<(), ParameterError> {
        within(
            "hot_bytes",
            values.int("hot_bytes"),
            values.int("threads") * ELEMENT_BYTES,
            values.int("table_bytes"),
        )?;
        let moves = read_moves(values)?;
        if moves.len() > MOST_MOVES {
            let text = format!("asks for {} moves, the most is {MOST_MOVES}", moves.len());
            return Err(ParameterError::new("moves", text));
        }
        if moves.windows(2).any(|pair| pair[0].at_update >= pair[1].at_update) {
            return Err(ParameterError::new(
                "moves",
                "must be in rising order of at_update".to_owned(),
            ));
        }
        for step in &moves {
            within("moves.at_update", step.at_update, 1, values.int("updates") - 1)?;
            if !(step.share > 0.0 && step.share <= 1.0) {
                let text = format!("is {}, it must be above 0 and at most 1", step.share);
                return Err(ParameterError::new("moves.share", text));
            }
        }
        Ok(())
    }

    fn check_recording(values: &Values) -> Result<(), ParameterError> {
        within("table_bytes", values.int("table_bytes"), 1 << 20, MOST_RECORDED_BYTES)?;
        within("updates", values.int("updates"), 1, 10_000_000_000)
    }

    fn ops(values: &Values) -> u64 {
        values.int("updates")
    }

    fn resize(recorded: &Values, sizes: &[(&str, u64)]) -> Values {
        let asked = |name: &str| sizes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let table = recorded.int("table_bytes");
        let larger = asked("table_bytes").unwrap_or(table);
        let along = |value: u64| (u128::from(value) * u128::from(larger) / u128::from(table)) as u64;
        let grown = recorded
            .clone()
            .with("table_bytes", larger)
            .with(
                "hot_bytes",
                asked("hot_bytes").unwrap_or(along(recorded.int("hot_bytes"))),
            )
            .with("updates", along(recorded.int("updates")));
        let mut moves = recorded.other("moves").clone();
        for step in moves.as_array_mut().into_iter().flatten() {
            if let Some(at) = step["at_update"].as_u64() {
                step["at_update"] = along(at).into();
            }
        }
        grown.with_other("moves", moves)
    }

    fn carry(profile: &Profile, spec: &CarrySpec) -> Result<Replay, CarryError> {
        crate::carry::gups::carry(profile, spec)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HotMove {
    at_update: u64,
    #[serde(default = "hemem_turnover")]
    share: f64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Moves {
    Count(u32),
    List(Vec<HotMove>),
}

fn hemem_turnover() -> f64 {
    HEMEM_TURNOVER
}

/// The moves that the parameters ask for: so many evenly spaced, or those of a list.
pub(crate) fn read_moves(values: &Values) -> Result<Vec<Move>, ParameterError> {
    let given = values.other("moves");
    let moves: Moves = serde_json::from_value(given.clone()).map_err(|_| {
        let text = format!("is {given}, it must be a number of moves or a list of mappings with at_update and share");
        ParameterError::new("moves", text)
    })?;
    let updates = u128::from(values.int("updates"));
    Ok(match moves {
        Moves::Count(count) => (1..=u64::from(count))
            .take(MOST_MOVES + 1)
            .map(|turn| Move {
                at_update: (updates * u128::from(turn) / (u128::from(count) + 1)) as u64,
                share: HEMEM_TURNOVER,
            })
            .collect(),
        Moves::List(list) => list
            .iter()
            .map(|step| Move {
                at_update: step.at_update,
                share: step.share,
            })
            .collect(),
    })
}

/// A shift of every thread's hot set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Move {
    /// Number of updates, of all threads together, after which it happens.
    pub at_update: u64,
    /// Part of the hot set that is replaced: the set slides by this share of its length.
    pub share: f64,
}

/// The shape of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Bytes of the table.
    pub table_bytes: u64,
    /// Bytes of the hot set, of all threads together.
    pub hot_bytes: u64,
    /// Probability that an update goes to the hot set; the others go anywhere in the region, hot part included.
    pub hot_share: f64,
    /// Threads; each has a private region with its hot set at the start.
    pub threads: u32,
}

impl Shape {
    /// The shape that the parameters ask for.
    #[must_use]
    pub fn of(values: &Values) -> Self {
        Self {
            table_bytes: values.int("table_bytes"),
            hot_bytes: values.int("hot_bytes"),
            hot_share: values.real("hot_share"),
            threads: values.int("threads") as u32,
        }
    }

    /// Elements of one thread's region.
    #[must_use]
    pub fn region(&self) -> u64 {
        self.table_bytes / ELEMENT_BYTES / u64::from(self.threads)
    }

    /// Elements of one thread's hot set.
    #[must_use]
    pub fn hot(&self) -> u64 {
        self.hot_bytes / ELEMENT_BYTES / u64::from(self.threads)
    }

    /// Draws an element of a region whose hot set starts at `start`.
    fn draw(&self, rng: &mut CounterRng, start: u64) -> u64 {
        let (region, hot) = (self.region(), self.hot());
        if rng.next_f64() < self.hot_share {
            let within = start + rng.below(hot);
            if within >= region { within - region } else { within }
        } else {
            rng.below(region)
        }
    }

    /// Where the hot set starts within each region, in elements, after the given moves.
    #[must_use]
    pub fn hot_start(&self, moves: &[Move]) -> u64 {
        let slid: f64 = moves.iter().map(|step| step.share).sum();
        (slid * self.hot() as f64).round() as u64 % self.region()
    }

    /// The hot bytes of the whole table after the given moves, as sorted ranges of byte offsets.
    #[must_use]
    pub fn hot_ranges(&self, moves: &[Move]) -> Vec<(u64, u64)> {
        let (region, hot, start) = (self.region(), self.hot(), self.hot_start(moves));
        let mut ranges = Vec::new();
        for thread in 0..u64::from(self.threads) {
            let base = thread * region;
            let end = start + hot;
            if end > region {
                ranges.push((base, base + end - region));
            }
            ranges.push((base + start, base + end.min(region)));
        }
        ranges
            .iter()
            .map(|(from, to)| (from * ELEMENT_BYTES, to * ELEMENT_BYTES))
            .collect()
    }
}

/// Name of the phase after so many moves.
#[must_use]
pub fn phase_name(moves: usize) -> String {
    format!("hot set {}", moves + 1)
}

/// Runs `updates` updates, threads taking turns, and returns the table.
///
/// Addresses do not depend on the table's content, so a recording needs no memory behind it: with `backed_elements`
/// below the table's length, element i lives at i modulo that power of two.
///
/// # Panics
/// When `backed_elements` is not a power of two.
pub fn run<M: Memory>(
    memory: &mut M,
    shape: &Shape,
    updates: u64,
    moves: &[Move],
    seed: u64,
    backed_elements: usize,
) -> Vec<u64> {
    assert!(
        backed_elements.is_power_of_two(),
        "{backed_elements} is not a power of two"
    );
    let object = memory.allocate(&table(shape.table_bytes));
    let table: Vec<AtomicU64> = (0..backed_elements).map(|_| AtomicU64::new(0)).collect();
    let threads = u64::from(shape.threads);
    let rngs: Vec<Mutex<CounterRng>> = (0..threads)
        .map(|thread| Mutex::new(CounterRng::new(seed, &[thread])))
        .collect();
    let mut done = 0;
    for phase in 0..=moves.len() {
        let until = moves.get(phase).map_or(updates, |step| step.at_update.min(updates));
        let start = shape.hot_start(&moves[..phase]);
        memory.phase(Phase::new(phase_name(phase), Unit::Updates, UPDATE_NS).stationary());
        let update = |memory: &mut M, thread: u64, rng: &mut CounterRng| {
            let element = (thread * shape.region() + shape.draw(rng, start)) as usize;
            memory.load(object, element * ELEMENT_BYTES as usize, AccessClass::Update);
            memory.store(object, element * ELEMENT_BYTES as usize, AccessClass::Update);
            // Regions are private, so that no other thread comes between.
            let value = &table[element & (backed_elements - 1)];
            value.store(value.load(Relaxed).wrapping_add(1), Relaxed);
            memory.ops(1);
        };
        if memory.threads() > 1 {
            memory.for_chunks(0..threads as usize, 1, |memory, part| {
                let thread = part.start as u64;
                // A poisoned lock means that another thread panicked, and that ends the run anyway.
                let Ok(mut rng) = rngs[part.start].lock() else { return };
                // As many as this thread has when all take turns.
                let turns = |until: u64| until.saturating_sub(thread).div_ceil(threads);
                for _ in turns(done)..turns(until) {
                    update(memory, thread, &mut rng);
                }
            });
            done = until;
            continue;
        }
        let mut own: Vec<_> = rngs.iter().filter_map(|rng| rng.lock().ok()).collect();
        let mut thread = done % threads;
        while done < until {
            update(memory, thread, &mut own[thread as usize]);
            done += 1;
            thread = if thread + 1 == threads { 0 } else { thread + 1 };
        }
    }
    table.into_iter().map(AtomicU64::into_inner).collect()
}
