//! Artificial access patterns by a configuration file of masim.

pub mod config;

use super::prelude::*;
use crate::parameter::Kind;
use config::{Config, Mode, Order, Pattern};

/// Patterns of a configuration, phase after phase.
#[derive(Debug)]
pub struct Masim;

// Measured with `cargo run --release -p tiertune-workload --example cpu_cost -- masim`, one pattern on 128 KiB a phase.
const RANDOM_NS: f64 = 2.5;
const SEQUENTIAL_NS: f64 = 1.4;
const CHASE_NS: f64 = 4.4;

const DOMAIN: u64 = 0x6d61_7369;
const LINE: u64 = 64;
const WORD: u64 = 8;
/// Accesses to one region before the next choice, as in masim.
const BURST: u64 = 1 << 17;
/// A phase makes at least so many choices, so that regions get the share that they should.
const CHOICES: u64 = 256;

/// The configuration; nothing when it cannot be read, which `check` has said before.
fn parsed(values: &Values) -> Config {
    let mut config = config::parse(values.text("config")).unwrap_or(Config {
        regions: Vec::new(),
        stages: Vec::new(),
    });
    for region in &mut config.regions {
        region.bytes *= values.int("growth");
    }
    config
}

fn accesses(values: &Values, ms: u64) -> u64 {
    ms * values.int("accesses_per_ms") * values.int("growth")
}

fn class(pattern: &Pattern) -> AccessClass {
    match (pattern.order, pattern.mode) {
        (Order::Chase, _) => AccessClass::Chase,
        (Order::Sequential, _) => AccessClass::Stream,
        (Order::Random, Mode::Both) => AccessClass::Update,
        (Order::Random, _) => AccessClass::Random,
    }
}

fn access_ns(pattern: &Pattern) -> f64 {
    match pattern.order {
        Order::Random => RANDOM_NS,
        Order::Sequential => SEQUENTIAL_NS,
        Order::Chase => CHASE_NS,
    }
}

/// A region's memory and where its patterns are.
#[derive(Debug)]
struct Area {
    words: Array<u64>,
    bytes: u64,
    sequential: u64,
    chased: u64,
}

impl Area {
    /// The first word of each line holds the line that follows in a random cycle.
    fn new<M: Memory>(memory: &mut M, spec: &ObjectSpec, seed: u64, number: u64) -> Self {
        let mut words = vec![0; (spec.bytes.div_ceil(LINE) * LINE / WORD) as usize];
        let lines = words.len() / 8;
        let mut rng = CounterRng::new(seed, &[DOMAIN, number]);
        let mut next: Vec<u64> = (0..lines as u64).collect();
        for last in (1..lines).rev() {
            next.swap(last, rng.below(last as u64) as usize);
        }
        for (line, next) in next.into_iter().enumerate() {
            words[line * 8] = next;
        }
        let whole = ObjectSpec {
            bytes: words.len() as u64 * WORD,
            ..spec.clone()
        };
        Self {
            words: Array::new(memory, &whole, words),
            bytes: spec.bytes,
            sequential: 0,
            chased: 0,
        }
    }

    /// One access; returns the word that it read.
    #[inline(always)]
    fn access<M: Memory>(&mut self, memory: &mut M, pattern: &Pattern, rng: &mut CounterRng) -> u64 {
        let class = class(pattern);
        let offset = match pattern.order {
            Order::Random => rng.below(self.bytes),
            Order::Sequential => {
                let place = self.sequential;
                let next = place + pattern.stride_bytes;
                self.sequential = if next < self.bytes { next } else { 0 };
                place
            }
            Order::Chase => {
                self.chased = self.words.load(memory, (self.chased * 8) as usize, class);
                return self.chased;
            }
        };
        let word = (offset / WORD) as usize;
        let mut value = 0;
        if pattern.mode != Mode::Write {
            value = self.words.load(memory, word, class);
        }
        if pattern.mode != Mode::Read {
            // Beside the first word of a line, which belongs to the cycle.
            self.words.store(memory, word | 1, offset, class);
        }
        value
    }
}

/// What happened: accesses of each pattern of each phase, and what the regions hold.
#[derive(Debug)]
pub struct Patterns {
    areas: Vec<Area>,
    done: Vec<Vec<u64>>,
    sum: u64,
}

impl Program for Masim {
    const NAME: &'static str = "masim";
    const FAMILY: &'static str = "micro";
    const SUMMARY: &'static str = "artificial access patterns by a configuration of masim, with pointer chasing added";
    const SOURCE: &'static str = "masim (S. Park), by the format of its configurations; one thread";
    const OP_MEANING: &'static str = "one access";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new("config", Kind::Text, "regions and phases in the format of masim"),
        Parameter::int(
            "accesses_per_ms",
            1,
            1 << 30,
            "accesses that stand for a millisecond of a phase",
        )
        .or(Default::Int(1000)),
        Parameter::int(
            "growth",
            1,
            1 << 20,
            "how many times as long regions and phases are as configured",
        )
        .or(Default::Int(1))
        .carried(),
        Parameter::int("seed", 0, u64::MAX, "seed of choices and places").or(Default::Int(1)),
    ];
    const CLASSES: &'static [AccessClass] = &[
        AccessClass::Chase,
        AccessClass::Random,
        AccessClass::Update,
        AccessClass::Stream,
    ];
    const SMALL: &'static str = r##"{"config": "# regions\na, 1048576, none\nb, 524288\nc, 262144\n\nfirst\n100\na, 1, 8, 60, ro\nb, 0, 64, 40\n\nsecond\n100\na, 1, 8, 1, rw\nc, chase, 64, 2\nb, 0, 4096, 1, wo\n"}"##;

    type Output = Patterns;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        let regions = parsed(values).regions;
        let object = |region: &config::Region| ObjectSpec::new(region.name, region.bytes, 1).built().swept();
        regions.iter().map(object).collect()
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> Patterns {
        let config = parsed(values);
        let seed = values.int("seed");
        let specs = Self::objects(values);
        let mut areas: Vec<Area> = (0..)
            .zip(&specs)
            .map(|(n, spec)| Area::new(memory, spec, seed, n))
            .collect();
        let (mut done, mut sum) = (Vec::new(), 0u64);
        for (number, stage) in config.stages.iter().enumerate() {
            let mut rng = CounterRng::new(seed, &[DOMAIN, 1 << 32, number as u64]);
            let weights: u64 = stage.patterns.iter().map(|pattern| pattern.weight).sum();
            let cost: f64 = stage
                .patterns
                .iter()
                .map(|pattern| pattern.weight as f64 * access_ns(pattern))
                .sum();
            memory.phase(Phase::new(stage.name.clone(), Unit::Operations, cost / weights as f64));
            let mut counts = vec![0; stage.patterns.len()];
            let mut left = accesses(values, stage.ms);
            let burst = BURST.min(left.div_ceil(CHOICES));
            while left > 0 {
                let mut draw = rng.below(weights);
                let mut choice = 0;
                while draw >= stage.patterns[choice].weight {
                    draw -= stage.patterns[choice].weight;
                    choice += 1;
                }
                let pattern = &stage.patterns[choice];
                let count = burst.min(left);
                for _ in 0..count {
                    sum = sum.wrapping_add(areas[pattern.region].access(memory, pattern, &mut rng));
                }
                memory.ops(count);
                counts[choice] += count;
                left -= count;
            }
            done.push(counts);
        }
        Patterns { areas, done, sum }
    }

    fn verify(values: &Values, found: &Patterns) -> Vec<Check> {
        let config = parsed(values);
        let (mut asked, mut made, mut worst) = (0, 0, 0f64);
        for (stage, counts) in config.stages.iter().zip(&found.done) {
            let all = accesses(values, stage.ms);
            asked += all;
            made += counts.iter().sum::<u64>();
            let weights: u64 = stage.patterns.iter().map(|pattern| pattern.weight).sum();
            for (pattern, count) in stage.patterns.iter().zip(counts) {
                let share = pattern.weight as f64 / weights as f64;
                let burst = BURST.min(all.div_ceil(CHOICES)) as f64;
                // Choices are drawn: off by so many standard deviations.
                let deviation = (share * (1.0 - share) * all as f64 * burst).sqrt() + burst;
                worst = worst.max((*count as f64 - share * all as f64).abs() / deviation);
            }
        }
        // Stores leave their place behind, so every word is a place of a pattern that stores or untouched.
        let mut strange = 0;
        for (number, area) in found.areas.iter().enumerate() {
            let storing = config.stages.iter().flat_map(|stage| &stage.patterns);
            let storing: Vec<&Pattern> = storing
                .filter(|pattern| pattern.region == number && pattern.mode != Mode::Read)
                .collect();
            for (word, value) in area.words.data().iter().enumerate().filter(|(word, _)| word % 8 != 0) {
                let here = *value < area.bytes && (value / WORD) as usize | 1 == word && !storing.is_empty();
                strange += usize::from(*value != 0 && !here);
            }
        }
        vec![
            Check::new("accesses", asked == made, format!("{made} of {asked}")),
            Check::new(
                "shares",
                worst < 5.0,
                format!("off by {worst:.1} standard deviations at most"),
            ),
            Check::new(
                "stores",
                strange == 0,
                format!("{strange} words that nothing stored; {} read in all", found.sum),
            ),
        ]
    }

    fn check(values: &Values) -> Result<(), ParameterError> {
        config::parse(values.text("config"))
            .map(|_| ())
            .map_err(|text| ParameterError::new("config", text))
    }

    fn ops(values: &Values) -> u64 {
        parsed(values)
            .stages
            .iter()
            .map(|stage| accesses(values, stage.ms))
            .sum()
    }
}
