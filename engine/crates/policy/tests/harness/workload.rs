//! A workload that gives every policy something to do: a hot set larger than fast memory that
//! moves, over a cold background, beside an allocation too small for some to manage.

use tiertune_policy::registry::{self, PAGE_2M};
use tiertune_policy::{Config, CounterRng, Event, Gauge, Nanos, Page, Tier, Topology};

use super::{Driver, Entry, MS};

const SMALL_PAGES: u32 = 64;
const HOT_PAGES: u32 = 600;
const FAST_PAGES: u32 = 200;
const FREE_FAST_PAGES: i64 = 20;
const BATCH_NS: Nanos = 5 * MS;
const BATCHES: u64 = 240;
/// Batches between two moves of the hot set.
const PHASE_BATCHES: u64 = 80;
const ACCESSES_PER_BATCH: u64 = 10_000_000;
const MAX_SAMPLES_PER_BATCH: u64 = 20_000;

/// The machine: 4 GiB in 2 MiB pages or a little over 1 GiB in 4 KiB pages, most of it slow.
pub fn topology(page_bytes: u64, tiers: usize) -> Topology {
    let pages = if page_bytes == PAGE_2M { 2048 } else { 300_000 };
    let mut capacity_pages = vec![FAST_PAGES];
    capacity_pages.extend(vec![pages / (tiers as u32 - 1); tiers - 1]);
    // Room for what is in fast memory, so that two full tiers can still exchange pages.
    *capacity_pages.last_mut().expect("two tiers at least") += FAST_PAGES;
    Topology {
        page_bytes,
        pages,
        capacity_pages,
    }
}

/// Everything about a run that can be seen from outside.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub log: Vec<Entry>,
    pub gauges: Vec<Gauge>,
    pub declared: String,
    /// The tier of every page at the end: a system that never moves one still differs in this.
    pub tiers: Vec<Tier>,
}

/// Runs the workload.
pub fn run(system: &str, config: &Config, page_bytes: u64, tiers: usize) -> Observed {
    let topology = topology(page_bytes, tiers);
    let policy = registry::build(system, config, &topology).unwrap_or_else(|error| panic!("{system}: {error}"));
    let mut driver = Driver::new(policy, &topology);
    // Some of fast memory is free at the start, for policies that only fill what is free.
    driver.occupy(0, FREE_FAST_PAGES);
    driver.alloc(0, SMALL_PAGES);
    driver.alloc(SMALL_PAGES, topology.pages - SMALL_PAGES);
    driver.occupy(0, -FREE_FAST_PAGES);
    let samplers = driver.policy.samplers();
    let mut rng = CounterRng::new(7, &[]);
    let mut swept = 0;
    for batch in 0..BATCHES {
        driver.run_until(batch * BATCH_NS);
        let phase = (batch / PHASE_BATCHES) as u32;
        let hot_start = SMALL_PAGES + (topology.pages - SMALL_PAGES - HOT_PAGES) / 2 * ((1 + phase) % 3);
        let mut accesses: Vec<(Page, Event)> = Vec::new();
        for sampler in &samplers {
            // Three loads to a store, as common programs have.
            let share = if sampler.event == Event::Store { 4 } else { 1 };
            let records = (ACCESSES_PER_BATCH / share / sampler.period).min(MAX_SAMPLES_PER_BATCH);
            for _ in 0..records {
                let cold = rng.below(10) == 0;
                // Sweeps make all of the hot set equally hot at a time, draws some of it more than others.
                swept = (swept + 1) % HOT_PAGES;
                let hot = if phase % 2 == 0 {
                    swept
                } else {
                    rng.below(HOT_PAGES.into()) as u32
                };
                let page = if cold {
                    rng.below(topology.pages.into()) as u32
                } else {
                    hot_start + hot
                };
                accesses.push((page, sampler.event));
            }
        }
        driver.sample(&accesses);
    }
    driver.run_until(BATCHES * BATCH_NS);
    let policy = &driver.policy;
    let declared = format!("{samplers:?} {:?} {:?}", policy.mechanics(), policy.overheads());
    Observed {
        gauges: policy.gauges(),
        declared,
        tiers: (0..topology.pages).map(|page| driver.tier_of(page)).collect(),
        log: driver.log,
    }
}
