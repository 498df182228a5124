//! A workload that gives every policy something to do: a hot set larger than fast memory that
//! moves, over a cold background, beside an allocation too small for some to manage.

use tiertune_policy::registry::{PAGE_2M, PAGE_4K, Tiering};
use tiertune_policy::{Config, CounterRng, Event, Gauge, Nanos, Page, PageMap, Policy, Tier, Topology};

use crate::driver::{Driver, Entry, MS};

const SMALL_PAGES: u32 = 64;
const HOT_PAGES: u32 = 600;
const FAST_PAGES: u32 = 200;
const FREE_FAST_PAGES: i64 = 20;
const BATCH_NS: Nanos = 5 * MS;
/// The same for policies with hint faults.
const SLOW_BATCH_NS: Nanos = 40 * MS;
/// The same for systems that see nothing but accessed bits, which take seconds to tell pages apart.
const SLOWEST_BATCH_NS: Nanos = 250 * MS;
const BATCHES: u64 = 240;
/// Batches between two moves of the hot set.
const PHASE_BATCHES: u64 = 80;
const ACCESSES_PER_BATCH: u64 = 10_000_000;
/// More take longer, for hundreds of knobs; with 4000 some of FlexMem's moves find no space.
const MAX_SAMPLES_PER_BATCH: u64 = 10_000;
/// Pages of an allocation that comes late and goes early.
const LATE_PAGES: u32 = 32;
const LATE_BATCHES: std::ops::Range<u64> = 100..200;
/// Somebody else takes all room in slow memory for so long, right after that allocation, where reclaim is
/// to be seen to fail.
const FULL_BATCHES: std::ops::Range<u64> = 100..135;
/// Cold pages that are touched in a batch, beside the hot set.
const COLD_TOUCHES: u64 = 200;
const PROFILED_ACCESSES_PER_BATCH: u64 = 200_000;
/// Latency per unit of parallelism, in cycles: by phase, and while a program is profiled, one after the other.
const AOL_CYCLES: [f64; 3] = [90.0, 45.0, 130.0];
const PROFILED_AOL_CYCLES: [f64; 6] = [90.0, 45.0, 130.0, 70.0, 52.0, 35.0];
/// Batches after which a daemon is restarted.
const RESTARTS: [u64; 2] = [60, 130];

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

/// The policy; a config that does not fit ends the run.
pub fn built(system: &dyn Tiering, config: &Config, topology: &Topology) -> Box<dyn Policy> {
    let policy = system.build(config, topology);
    policy.unwrap_or_else(|error| panic!("{}: {error}", system.name()))
}

/// Runs a workload on 4 KiB pages whose hot ones are few in each of many huge pages, beside pages that are in none:
/// for systems that treat the two differently, which the machine above is too small for.
/// The hot ones change when half of `batches` are over.
pub fn run_scattered(system: &dyn Tiering, config: &Config, batches: u64) -> Observed {
    const RUN: u32 = 512;
    const HOT_PER_RUN: u64 = 8;
    // 120000 a second: what sampling threads with a quota of a few percent of a CPU settle at.
    const SAMPLES_PER_BATCH: u64 = 600;
    let pages = 100 * RUN + 300;
    let topology = Topology {
        page_bytes: PAGE_4K,
        pages,
        capacity_pages: vec![12 * RUN, pages],
    };
    let policy = built(system, config, &topology);
    let mut driver = Driver::new(policy, &topology);
    driver.alloc(0, pages);
    rehearse(&mut driver, &topology);
    let mut rng = CounterRng::new(8, &[]);
    for batch in 0..batches {
        driver.run_until(batch * BATCH_NS);
        let first_run = if batch < batches / 2 { 10 } else { 40 };
        let mut accesses = Vec::new();
        for (event, period) in driver.periods.clone() {
            for _ in 0..(ACCESSES_PER_BATCH / period).min(SAMPLES_PER_BATCH) {
                let run = first_run + rng.below(60) as Page;
                let part = rng.below(HOT_PER_RUN) as Page * (RUN / HOT_PER_RUN as Page);
                let cold = rng.below(10) == 0;
                let page = if cold {
                    rng.below(pages.into()) as Page
                } else {
                    run * RUN + part
                };
                accesses.push((page, event));
            }
        }
        driver.sample(&accesses);
    }
    driver.run_until(batches * BATCH_NS);
    let policy = &driver.policy;
    Observed {
        gauges: policy.gauges(),
        declared: format!("{:?} {:?}", policy.samplers(), policy.mechanics()),
        tiers: (0..pages).map(|page| driver.tier_of(page)).collect(),
        log: driver.log,
    }
}

/// Everything about a run that can be seen from outside.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// What happened, in order.
    pub log: Vec<Entry>,
    /// What the policy reported at the end.
    pub gauges: Vec<Gauge>,
    /// Samplers, mechanics, overheads and needs.
    pub declared: String,
    /// The tier of every page at the end: a system that never moves one still differs in this.
    pub tiers: Vec<Tier>,
}

/// Runs the workload.
pub fn run(system: &dyn Tiering, config: &Config, page_bytes: u64, tiers: usize) -> Observed {
    observe(system, config, page_bytes, tiers, &[])
}

/// Runs the workload; now and then the policy is saved and a new one takes up its state.
pub fn run_with_restart(system: &dyn Tiering, config: &Config, page_bytes: u64, tiers: usize) -> Observed {
    observe(system, config, page_bytes, tiers, &RESTARTS)
}

fn observe(system: &dyn Tiering, config: &Config, page_bytes: u64, tiers: usize, restarts: &[u64]) -> Observed {
    let topology = topology(page_bytes, tiers);
    let policy = built(system, config, &topology);
    let mut driver = Driver::new(policy, &topology);
    know(&mut driver, 0..HOT_PAGES); // the future is known before it begins
    // Some of fast memory is free at the start, for policies that only fill what is free.
    driver.occupy(0, FREE_FAST_PAGES);
    driver.alloc(0, SMALL_PAGES);
    driver.alloc(SMALL_PAGES, topology.pages - SMALL_PAGES - LATE_PAGES);
    driver.occupy(0, -FREE_FAST_PAGES);
    rehearse(&mut driver, &topology);
    let needs = driver.policy.needs();
    let bits_only = needs.accessed_bits && !needs.hint_faults && driver.periods.is_empty();
    let mut rng = CounterRng::new(7, &[]);
    let mut swept = 0;
    let mut occupied: Vec<i64> = Vec::new();
    // Scanners of page tables begin after a second and come by again a second later.
    let batch_ns = match needs.hint_faults {
        true => SLOW_BATCH_NS,
        false if bits_only => SLOWEST_BATCH_NS,
        false => BATCH_NS,
    };
    for batch in 0..BATCHES {
        driver.run_until(batch * batch_ns);
        if restarts.contains(&batch) {
            let mut fresh = built(system, config, &topology);
            fresh
                .restore(&driver.policy.save())
                .expect("it is the state of such a policy");
            driver.policy = fresh;
        }
        let late = topology.pages - LATE_PAGES;
        if batch == LATE_BATCHES.start {
            driver.alloc(late, LATE_PAGES);
        } else if batch == LATE_BATCHES.end {
            driver.free(late);
        }
        if needs.hint_faults && needs.accessed_bits {
            if FULL_BATCHES.contains(&batch) {
                // Frames that come free meanwhile are taken as well.
                occupied.resize(tiers, 0);
                for (taken, tier) in occupied.iter_mut().zip(0..).skip(1) {
                    let free = i64::from(driver.pages.free_pages(tier));
                    driver.occupy(tier, free);
                    *taken += free;
                }
            } else if batch == FULL_BATCHES.end {
                for (taken, tier) in occupied.iter().zip(0..) {
                    driver.occupy(tier, -taken);
                }
            }
        }
        let phase = (batch / PHASE_BATCHES) as u32;
        let hot_start = SMALL_PAGES + (late - SMALL_PAGES - HOT_PAGES) / 2 * ((1 + phase) % 3);
        let mut accesses: Vec<(Page, Event)> = Vec::new();
        for (event, period) in driver.periods.clone() {
            // Three loads to a store, as common programs have.
            let share = if event == Event::Store { 4 } else { 1 };
            let records = (ACCESSES_PER_BATCH / share / period).min(MAX_SAMPLES_PER_BATCH);
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
                    rng.below(late.into()) as u32
                } else {
                    hot_start + hot
                };
                accesses.push((page, event));
            }
        }
        driver.sample(&accesses);
        if needs.hint_faults || needs.accessed_bits {
            let cold = (0..COLD_TOUCHES).map(|_| rng.below(late.into()) as Page);
            let pages: Vec<Page> = (hot_start..hot_start + HOT_PAGES).chain(cold).collect();
            let (written, read): (Vec<Page>, Vec<Page>) = pages.into_iter().partition(|page| page % 4 == 0);
            driver.touch(&read, false);
            driver.touch(&written, true);
        }
        let hot = hot_start..hot_start + HOT_PAGES;
        count(&mut driver, phase, AOL_CYCLES[phase as usize % 3], hot.clone());
        if batch % PHASE_BATCHES == 0 {
            know(&mut driver, hot);
        }
    }
    driver.run_until(BATCHES * batch_ns);
    let policy = &driver.policy;
    let declared = format!(
        "{:?} {:?} {:?} {needs:?}",
        policy.samplers(),
        policy.mechanics(),
        policy.overheads()
    );
    Observed {
        gauges: policy.gauges(),
        declared,
        tiers: (0..topology.pages - LATE_PAGES)
            .map(|page| driver.tier_of(page))
            .collect(),
        log: driver.log,
    }
}

/// Profiles offline, for systems that do: most of the samples fall on a part of the large object, some on the
/// small one and on the one that comes late.
fn rehearse(driver: &mut Driver, topology: &Topology) {
    let Some(rehearsal) = driver.policy.rehearsal() else {
        return;
    };
    let mut roomy = topology.clone();
    roomy.capacity_pages[0] = topology.pages;
    let mut earlier = Driver::new(rehearsal, &roomy);
    earlier.alloc(0, SMALL_PAGES);
    let late = topology.pages - LATE_PAGES;
    earlier.alloc(SMALL_PAGES, late - SMALL_PAGES);
    earlier.alloc(late, LATE_PAGES);
    for batch in 0..BATCHES {
        earlier.run_until(batch * BATCH_NS);
        let hot = match batch % 16 {
            0 => 0,
            8 => late,
            _ => SMALL_PAGES,
        };
        for (event, period) in earlier.periods.clone() {
            let records = (PROFILED_ACCESSES_PER_BATCH / period) as Page;
            let accesses: Vec<(Page, Event)> = (0..records).map(|nth| (hot + nth % LATE_PAGES, event)).collect();
            earlier.sample(&accesses);
        }
        let aol_cycles = PROFILED_AOL_CYCLES[(batch * 6 / BATCHES) as usize];
        count(&mut earlier, (batch / PHASE_BATCHES) as u32, aol_cycles, 0..SMALL_PAGES);
        if batch == 0 {
            know(&mut earlier, 0..SMALL_PAGES);
        }
    }
    let notes = earlier.policy.save();
    driver.policy.learn(&notes).expect("they are its own notes");
}

/// Lets counters and true latencies go on as in phase `phase`: in the second phase fast memory is so loaded that it is
/// the slower one, and parallelism differs by phase.
fn count(driver: &mut Driver, phase: u32, aol_cycles: f64, hot: std::ops::Range<Page>) {
    let tiers = driver.tiers();
    let fast_ns = [90.0, 400.0, 110.0][phase as usize % 3];
    let in_fast = hot.filter(|page| driver.tier_of(*page) == 0).count() as f64;
    let requests = 1e5;
    for tier in 0..tiers {
        let share = if tier == 0 {
            in_fast / f64::from(HOT_PAGES)
        } else {
            (1.0 - in_fast / f64::from(HOT_PAGES)) / (tiers - 1) as f64
        };
        let latency_ns = if tier == 0 { fast_ns } else { 180.0 + 40.0 * tier as f64 };
        let counters = &mut driver.counters.tiers[tier];
        counters.inserts += requests * share;
        counters.occupancy_ns += requests * share * latency_ns;
        counters.busy_ns += requests * share * latency_ns / 4.0;
        counters.read_bytes += requests * share * 64.0;
        driver.hidden.latency_ns[tier] = latency_ns;
    }
    let cores = &mut driver.counters.cores;
    cores.reads += requests;
    cores.outstanding_cycles += requests * aol_cycles;
    cores.occupancy_cycles += requests * aol_cycles * 3.0;
    cores.stall_cycles += requests * aol_cycles * 0.9;
    cores.cycles += requests * aol_cycles * 1.5;
}

/// How often pages are read, while `hot` is hot.
fn know(driver: &mut Driver, hot: std::ops::Range<Page>) {
    for page in 0..driver.hidden.reads_now.len() as Page {
        let reads = if hot.contains(&page) { 1e4 } else { 1e2 };
        driver.hidden.reads_now[page as usize] = reads;
        driver.hidden.reads_in_run[page as usize] = if page < hot.end { 50.0 } else { 1.0 };
    }
}
