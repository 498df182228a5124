//! Random updates of a table with a hot set that moves, as HeMem's `gups-hotset-move`.

use tiertune_policy::CounterRng;

use crate::class::AccessClass;
use crate::memory::{Layout, Memory, ObjectSpec, Phase, Unit};

/// What one operation is.
pub const OP_MEANING: &str = "one update (a load, an addition and a store)";

// Measured like those in `bc.rs`, with a table of 64 KiB.
/// Nanoseconds per update: two random numbers and the update itself.
pub const UPDATE_NS: f64 = 11.2;

/// Bytes per element, as in HeMem.
pub const ELEMENT_BYTES: u64 = 8;

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
    let spec = ObjectSpec {
        name: "table",
        bytes: shape.table_bytes,
        element_bytes: ELEMENT_BYTES as u32,
        layout: Layout::Positional,
        sweeps: false,
        built: true,
    };
    assert!(
        backed_elements.is_power_of_two(),
        "{backed_elements} is not a power of two"
    );
    let object = memory.allocate(&spec);
    let mut table = vec![0u64; backed_elements];
    let (region, hot) = (shape.region(), shape.hot());
    let threads = u64::from(shape.threads);
    let mut rngs: Vec<CounterRng> = (0..threads).map(|thread| CounterRng::new(seed, &[thread])).collect();
    let mut done = 0;
    for phase in 0..=moves.len() {
        let until = moves.get(phase).map_or(updates, |step| step.at_update.min(updates));
        let start = shape.hot_start(&moves[..phase]);
        memory.phase(Phase {
            name: phase_name(phase),
            unit: Unit::Updates,
            cpu_ns_per_op: UPDATE_NS,
            divisible: true,
        });
        let mut thread = (done % threads) as usize;
        while done < until {
            let rng = &mut rngs[thread];
            let offset = if rng.next_f64() < shape.hot_share {
                let within = start + rng.below(hot);
                if within >= region { within - region } else { within }
            } else {
                rng.below(region)
            };
            let element = (thread as u64 * region + offset) as usize;
            memory.load(object, element * ELEMENT_BYTES as usize, AccessClass::Update);
            memory.store(object, element * ELEMENT_BYTES as usize, AccessClass::Update);
            let value = &mut table[element & (backed_elements - 1)];
            *value = value.wrapping_add(1);
            memory.ops(1);
            done += 1;
            thread = if thread + 1 == rngs.len() { 0 } else { thread + 1 };
        }
    }
    table
}
