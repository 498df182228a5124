//! The main mode: rates between events, samples by thinning.
//!
//! Time advances in slices (1 ms while a sampler or copies run) in which nothing changes place.
//! In a slice the share of each stream's accesses per tier is known exactly, so operations per
//! second follow from loaded latencies and loaded latencies from operations per second, copies
//! and co-runners (solved together). Samples are the thread counters' overflows, each on a page
//! drawn from its stream's law. So the cost of a run grows with samples, copies and slices, not
//! with accesses.

use tiertune_policy::{CopyMode, CounterRng, Event, Nanos, PageMap, Sample};

use crate::alias::AliasTable;
use crate::cache::hit_shares;
use crate::driver::{Driver, RunResult, domain, is_store};
use crate::error::RunError;
use crate::latency::LatencySolver;
use crate::memory::Memory;
use crate::metrics::Stretch;
use crate::migration::{Migrator, Step};
use crate::operation::{Operation, operation_time};
use crate::sampler::{RecordBudget, ThreadCounters};
use crate::scenario::{Machine, Request};
use crate::sweep::Sweep;
use crate::timings::Stopwatch;
use crate::workload::{LINE_BYTES, Object, Phase, Popularity, Stream, Workload};

/// Longest slice when nothing samples or copies: only sweeps then change the rates.
const QUIET_SLICE_NS: u64 = 50_000_000;

/// Runs `workload` as `request` says.
pub fn run(workload: &Workload, request: &Request) -> Result<RunResult, RunError> {
    let mut simulation = Fast::new(workload, request)?;
    for phase in workload.phases_in_order() {
        simulation.run_phase(phase);
    }
    let Fast {
        driver, now, stopwatch, ..
    } = simulation;
    Ok(RunResult {
        timings: stopwatch.finish(),
        ..driver.finish(now)
    })
}

struct Fast<'w> {
    driver: Driver<'w>,
    machine: &'w Machine,
    request: &'w Request,
    solver: LatencySolver,
    counters: Vec<ThreadCounters>,
    budget: RecordBudget,
    now: Nanos,
    slice: u64,
    samples: Vec<Sample>,
    stopwatch: Stopwatch,
    /// Thread time lost in earlier phases and not yet charged.
    debt_ns: f64,
}

/// What changes while a phase runs.
struct Progress {
    /// Share of each stream's missed reads per tier, `[stream * tiers + tier]`.
    mass: Vec<f64>,
    /// Where a stream's missed reads go, if the cache takes enough of them to make a difference.
    missed: Vec<Option<MissedReads>>,
    /// Share of each stream's reads that miss the last-level cache.
    miss: Vec<f64>,
    /// Positions of sweeps, by stream.
    sweeps: Vec<Option<Sweep>>,
    /// Operations left, by group.
    left: Vec<f64>,
    /// Thread time lost to samples and blocked pages and not yet charged, by group.
    debt_ns: Vec<f64>,
    /// Operations per nanosecond, by group.
    rate: Vec<f64>,
    /// Thread time per operation, by group.
    op_ns: Vec<f64>,
}

/// Records of one group and sampler in a slice.
struct Counted {
    group: usize,
    event: Event,
    /// Events per operation, by stream of the group.
    visible: Vec<f64>,
    records: u64,
}

/// The law of the reads that a cache lets through: it holds the hottest lines, so what misses is
/// flatter than what is read.
struct MissedReads {
    density: Vec<f32>,
    alias: AliasTable,
}

/// A cache that takes less than this share of a stream's reads leaves its law as it is.
const NEGLIGIBLE_HITS: f64 = 1e-4;

/// Density of a stream's missed reads, by piece; none for sweeps.
fn miss_density<'a>(missed: &'a Option<MissedReads>, stream: &'a Stream) -> Option<&'a [f32]> {
    match (missed, &stream.popularity) {
        (Some(missed), _) => Some(&missed.density),
        (None, Popularity::Stationary { density, .. }) => Some(density),
        (None, Popularity::Sweep) => None,
    }
}

impl<'w> Fast<'w> {
    fn new(workload: &'w Workload, request: &'w Request) -> Result<Self, RunError> {
        let mut stopwatch = Stopwatch::new(request.timings);
        let driver = Driver::new(workload, request)?;
        stopwatch.lap(|t| &mut t.placement_s);
        let mut rng = CounterRng::new(driver.key, &[domain::PHASES]);
        let counters = driver
            .samplers
            .iter()
            .map(|s| ThreadCounters::new(*s, workload.max_threads, &mut rng))
            .collect();
        Ok(Self {
            budget: RecordBudget::new(driver.overheads.record_ns),
            machine: &request.machine,
            solver: LatencySolver::new(&request.machine),
            driver,
            request,
            counters,
            now: 0,
            slice: 0,
            samples: Vec::new(),
            stopwatch,
            debt_ns: 0.0,
        })
    }

    fn run_phase(&mut self, phase: &Phase) {
        let end = phase.seconds.map(|s| self.now + (s * 1e9) as Nanos);
        let mut progress = self.begin(phase);
        self.stopwatch.lap(|t| &mut t.phases_s);
        loop {
            let working = progress.left.iter().any(|l| *l > 0.0 && l.is_finite());
            let worked = !working && phase.groups.iter().any(|g| g.ops.is_some());
            if worked || end.is_some_and(|end| self.now >= end) {
                // What is not paid yet is paid by the next phase.
                self.debt_ns = progress.debt_ns.iter().sum();
                if cfg!(debug_assertions) {
                    self.driver.assert_consistent();
                    self.assert_mass(phase, &progress);
                }
                return;
            }
            self.run_slice(phase, &mut progress, end);
        }
    }

    fn begin(&mut self, phase: &Phase) -> Progress {
        let tiers = self.machine.tiers.len();
        let threads: f64 = phase.groups.iter().map(|g| f64::from(g.threads)).sum();
        let mut progress = Progress {
            mass: vec![0.0; phase.streams.len() * tiers],
            missed: phase.streams.iter().map(|_| None).collect(),
            miss: vec![1.0; phase.streams.len()],
            sweeps: vec![None; phase.streams.len()],
            left: phase.groups.iter().map(|g| g.ops.unwrap_or(f64::INFINITY)).collect(),
            debt_ns: phase
                .groups
                .iter()
                .map(|g| self.debt_ns * f64::from(g.threads) / threads)
                .collect(),
            rate: vec![0.0; phase.groups.len()],
            op_ns: vec![1.0; phase.groups.len()],
        };
        for group in &phase.groups {
            for s in group.streams.clone() {
                if let Popularity::Sweep = phase.streams[s].popularity {
                    let object = &self.driver.workload.objects[phase.streams[s].object];
                    progress.sweeps[s] = Some(Sweep::new(object, group.threads));
                }
            }
        }
        self.weigh(phase, &mut progress);
        if phase.streams.iter().any(|s| !s.missed_llc) {
            self.filter_reads(phase, &mut progress);
            self.weigh(phase, &mut progress);
        }
        progress
    }

    /// Works out what the last-level cache lets through.
    fn filter_reads(&mut self, phase: &Phase, progress: &mut Progress) {
        // Hits depend on the rates' proportions and the rates on hits: one round from the rates
        // without a cache is enough to get the proportions.
        self.place_sweeps(phase, progress);
        // Over a time so long that debts of earlier phases do not matter.
        self.solve(phase, progress, 1e15);
        let mut reads = vec![0.0; phase.streams.len()];
        for (group, rate) in phase.groups.iter().zip(&progress.rate) {
            for s in group.streams.clone() {
                reads[s] = rate * phase.streams[s].reads_per_op;
            }
        }
        let objects = &self.driver.workload.objects;
        let page_bytes = self.driver.workload.page_bytes;
        let hits = hit_shares(&phase.streams, objects, &reads, page_bytes, self.machine.llc_bytes);
        for (s, (stream, hits)) in phase.streams.iter().zip(hits).enumerate() {
            match &stream.popularity {
                Popularity::Sweep => progress.miss[s] = 1.0 - hits[0],
                Popularity::Stationary { density, .. } => {
                    let edges = objects[stream.object].edges.windows(2).map(|e| f64::from(e[1] - e[0]));
                    let mass: Vec<f64> = density
                        .iter()
                        .zip(&hits)
                        .zip(edges.clone())
                        .map(|((d, h), n)| f64::from(*d) * (1.0 - h) * n)
                        .collect();
                    let miss: f64 = mass.iter().sum();
                    if miss < 1.0 - NEGLIGIBLE_HITS {
                        progress.miss[s] = miss;
                        let density = mass
                            .iter()
                            .zip(edges)
                            .map(|(m, n)| (m / miss.max(1e-300) / n) as f32)
                            .collect();
                        progress.missed[s] = Some(MissedReads {
                            density,
                            alias: AliasTable::new(&mass),
                        });
                    }
                }
            }
        }
    }

    /// Adds up where the missed reads of stationary streams go.
    fn weigh(&self, phase: &Phase, progress: &mut Progress) {
        let tiers = self.machine.tiers.len();
        for (s, stream) in phase.streams.iter().enumerate() {
            for tier in 0..tiers {
                let pages = self.driver.memory.piece_pages(stream.object, tier);
                if let Some(density) = miss_density(&progress.missed[s], stream) {
                    progress.mass[s * tiers + tier] = density
                        .iter()
                        .zip(pages)
                        .map(|(d, n)| f64::from(*d) * f64::from(*n))
                        .sum();
                }
            }
        }
    }

    /// Every stream's reads go to some tier, however many pages have moved meanwhile.
    fn assert_mass(&self, phase: &Phase, progress: &Progress) {
        for (s, shares) in progress.mass.chunks(self.machine.tiers.len()).enumerate() {
            let total: f64 = shares.iter().sum();
            let name = &self.driver.workload.objects[phase.streams[s].object].name;
            assert!(
                (total - 1.0).abs() < 1e-4,
                "simulator bug: stream {s} on '{name}' has mass {total}"
            );
        }
    }

    /// Share of sweeps' windows per tier.
    fn place_sweeps(&self, phase: &Phase, progress: &mut Progress) {
        let tiers = self.machine.tiers.len();
        for (s, sweep) in progress.sweeps.iter().enumerate() {
            if let Some(sweep) = sweep {
                let object = &self.driver.workload.objects[phase.streams[s].object];
                sweep.shares(
                    object,
                    &self.driver.memory,
                    &mut progress.mass[s * tiers..(s + 1) * tiers],
                );
            }
        }
    }

    /// Share of a core that each running application thread gets beside the system's busy threads.
    fn core_share(&self, phase: &Phase, left: &[f64]) -> f64 {
        let running = phase.groups.iter().zip(left).filter(|(_, left)| **left > 0.0);
        let threads: u32 = running.map(|(group, _)| group.threads).sum();
        let cores = (f64::from(self.machine.cores) - self.driver.overheads.busy_cores).max(1.0);
        (cores / f64::from(threads.max(1))).min(1.0)
    }

    /// Rates and loaded latencies that agree with each other.
    fn solve(&mut self, phase: &Phase, progress: &mut Progress, dt_ns: f64) {
        let tiers = self.machine.tiers.len();
        let share = self.core_share(phase, &progress.left);
        let copies = self.driver.foreign_traffic(self.solver.tiers(), dt_ns);
        let machine = self.machine;
        let Progress {
            mass,
            miss,
            rate,
            op_ns,
            left,
            debt_ns,
            ..
        } = progress;
        self.solver.solve(|multipliers, traffic| {
            traffic.clear();
            traffic.extend_from_slice(&copies);
            for (g, group) in phase.groups.iter().enumerate() {
                rate[g] = 0.0;
                if left[g] <= 0.0 {
                    continue;
                }
                let operation = Operation {
                    group,
                    streams: &phase.streams,
                    mass,
                    miss,
                };
                op_ns[g] = operation_time(machine, &operation, multipliers);
                let available = f64::from(group.threads) * share * dt_ns;
                rate[g] = (available - debt_ns[g]).max(0.0) / dt_ns / op_ns[g];
                for s in group.streams.clone() {
                    let stream = &phase.streams[s];
                    let bytes = rate[g] * LINE_BYTES * miss[s];
                    for tier in 0..tiers {
                        traffic[tier].read_gbps += bytes * stream.reads_per_op * mass[s * tiers + tier];
                        traffic[tier].write_gbps += bytes * stream.writebacks_per_op * mass[s * tiers + tier];
                    }
                }
            }
        });
    }

    fn run_slice(&mut self, phase: &Phase, progress: &mut Progress, end: Option<Nanos>) {
        let tiers = self.machine.tiers.len();
        let busy = !self.counters.is_empty() || !self.driver.migrator.idle();
        let longest = if busy {
            self.request.slice_ns
        } else {
            QUIET_SLICE_NS.max(self.request.slice_ns)
        };
        // Copies that are due have begun before their traffic is counted.
        let mut stretch = Stretch::default();
        self.migrate(phase, progress, self.now, &mut stretch);
        self.place_sweeps(phase, progress);
        self.solve(phase, progress, longest as f64);
        let longest = self.expect_sweeps(phase, progress, longest);
        self.stopwatch.lap(|t| &mut t.solve_s);
        let dt = self.slice_length(phase, progress, longest, end);
        let dt_ns = dt as f64;
        let until = self.now + dt;
        let share = self.core_share(phase, &progress.left);
        stretch.ns = dt_ns;
        let mut multipliers = Vec::with_capacity(tiers);
        self.solver.multipliers(&mut multipliers);
        let foreign = self.driver.foreign_traffic(self.solver.tiers(), dt_ns);
        let mut traffic = foreign.clone();
        self.samples.clear();
        self.budget.advance(dt_ns);
        let mut rng = CounterRng::new(self.driver.key, &[domain::ACCESSES, self.slice]);
        self.slice += 1;
        let mut first_thread = 0usize;
        let mut counted = Vec::new();
        for (g, group) in phase.groups.iter().enumerate() {
            let threads = first_thread..first_thread + group.threads as usize;
            first_thread = threads.end;
            if progress.left[g] <= 0.0 {
                continue;
            }
            let available = f64::from(group.threads) * share * dt_ns;
            let paid = progress.debt_ns[g].min(available);
            progress.debt_ns[g] -= paid;
            self.driver.metrics.stall_s += paid / share / 1e9;
            let ops = ((available - paid) / progress.op_ns[g]).min(progress.left[g]);
            progress.left[g] -= ops;
            if progress.left[g] < 1e-6 * ops {
                progress.left[g] = 0.0;
            }
            progress.rate[g] = ops / dt_ns;
            stretch.ops += ops;
            for s in group.streams.clone() {
                let stream = &phase.streams[s];
                let reads = ops * stream.reads_per_op * progress.miss[s];
                stretch.reads += reads;
                stretch.fast_reads += reads * progress.mass[s * tiers];
                let shares = &progress.mass[s * tiers..(s + 1) * tiers];
                for (traffic, share) in traffic.iter_mut().zip(shares) {
                    let lines = share * LINE_BYTES / dt_ns;
                    traffic.read_gbps += reads * lines;
                    traffic.write_gbps += ops * stream.writebacks_per_op * progress.miss[s] * lines;
                }
                if let Some(sweep) = &mut progress.sweeps[s] {
                    sweep.advance(ops * stream.reads_per_op * LINE_BYTES / self.driver.workload.page_bytes as f64);
                }
            }
            self.count_events(phase, g, threads, ops, progress, &mut counted);
        }
        self.sample(phase, progress, &counted, &mut rng);
        self.stopwatch.lap(|t| &mut t.samples_s);
        let last = tiers - 1;
        stretch.fast_latency_ns2 = self.machine.tiers[0].latency_ns * multipliers[0] * dt_ns;
        stretch.slow_latency_ns2 = self.machine.tiers[last].latency_ns * multipliers[last] * dt_ns;
        stretch.fast_traffic_bytes = (traffic[0].read_gbps + traffic[0].write_gbps) * dt_ns;
        stretch.slow_traffic_bytes = (traffic[last].read_gbps + traffic[last].write_gbps) * dt_ns;
        self.migrate(phase, progress, until, &mut stretch);
        self.driver.settle_copies(&foreign, dt_ns);
        self.stopwatch.lap(|t| &mut t.migrations_s);
        self.now = until;
        let samples = std::mem::take(&mut self.samples);
        self.driver.deliver_samples(until, &samples);
        self.samples = samples;
        self.driver.deliver_migrations(until);
        self.driver.wake_if_due(until);
        self.stopwatch.lap(|t| &mut t.policy_s);
        self.driver.book(&mut stretch);
    }

    /// Until something happens, at most `longest`.
    fn slice_length(&self, phase: &Phase, progress: &Progress, longest: u64, end: Option<Nanos>) -> u64 {
        let share = self.core_share(phase, &progress.left);
        let mut dt = longest;
        for at in [self.driver.wake_at(), end, self.driver.migrator.drained_at()]
            .into_iter()
            .flatten()
        {
            dt = dt.min(at.saturating_sub(self.now));
        }
        for (g, group) in phase.groups.iter().enumerate() {
            if progress.left[g] > 0.0 && progress.left[g].is_finite() {
                let thread_ns = progress.left[g] * progress.op_ns[g] + progress.debt_ns[g];
                dt = dt.min((thread_ns / (f64::from(group.threads) * share)).ceil() as u64);
            }
        }
        dt.max(1)
    }

    /// Counts the events of group `g` in `ops` operations; adds the records that they make.
    fn count_events(
        &mut self,
        phase: &Phase,
        g: usize,
        threads: std::ops::Range<usize>,
        ops: f64,
        progress: &mut Progress,
        counted: &mut Vec<Counted>,
    ) {
        let group = &phase.groups[g];
        for counters in &mut self.counters {
            let event = counters.request.event;
            let visible: Vec<f64> = group
                .streams
                .clone()
                .map(|s| {
                    let stream = &phase.streams[s];
                    if is_store(event) {
                        stream.stores_per_op
                    } else {
                        stream.reads_per_op * progress.miss[s] * (1.0 - stream.prefetched_share)
                    }
                })
                .collect();
            let per_op: f64 = visible.iter().sum();
            if per_op > 0.0 {
                let records = counters.count(threads.clone(), ops * per_op / f64::from(group.threads));
                // The sampled thread pays for the record whether or not somebody reads it.
                progress.debt_ns[g] += records as f64 * self.machine.sample_assist_ns;
                if records > 0 {
                    counted.push(Counted {
                        group: g,
                        event,
                        visible,
                        records,
                    });
                }
            }
        }
    }

    /// Draws the pages of the records that the sampling thread can handle: of all alike when it is
    /// overloaded, whoever made them.
    fn sample(&mut self, phase: &Phase, progress: &Progress, counted: &[Counted], rng: &mut CounterRng) {
        let records: u64 = counted.iter().map(|c| c.records).sum();
        let mut handled = self.budget.take(records);
        self.driver.metrics.samples_dropped += (records - handled) as f64;
        let mut waiting = records;
        for Counted {
            group,
            event,
            visible,
            records,
        } in counted
        {
            let mut left = if handled == waiting {
                *records
            } else {
                binomial(*records, handled as f64 / waiting as f64, rng).min(handled)
            };
            waiting -= records;
            left = left.max(handled.saturating_sub(waiting));
            handled -= left;
            let mut rest: f64 = visible.iter().sum();
            for (i, s) in phase.groups[*group].streams.clone().enumerate() {
                // Conditional binomial shares of the records, so that streams get whole counts.
                let share = if rest > 0.0 { (visible[i] / rest).min(1.0) } else { 0.0 };
                let count = if share >= 1.0 { left } else { binomial(left, share, rng) };
                rest -= visible[i];
                left -= count;
                self.samples.reserve(count as usize);
                let source = match (&progress.missed[s], &phase.streams[s].popularity, &progress.sweeps[s]) {
                    (Some(missed), _, _) if !is_store(*event) => Source::Law(&missed.alias),
                    (_, Popularity::Stationary { alias, .. }, _) => Source::Law(alias),
                    (_, Popularity::Sweep, Some(sweep)) => Source::Window(sweep),
                    (_, Popularity::Sweep, None) => unreachable!("begin() gives every sweep a position"),
                };
                let object = &self.driver.workload.objects[phase.streams[s].object];
                draw_pages(
                    &source,
                    object,
                    &self.driver.memory,
                    count,
                    *event,
                    rng,
                    &mut self.samples,
                );
            }
        }
    }

    /// Tells sweeps how far they will come, so that their shares are of what lies ahead; returns the
    /// longest slice over which those stand.
    fn expect_sweeps(&mut self, phase: &Phase, progress: &mut Progress, longest: u64) -> u64 {
        if progress.sweeps.iter().all(Option::is_none) {
            return longest;
        }
        let pages_per_line = LINE_BYTES / self.driver.workload.page_bytes as f64;
        let mut bounded = longest as f64;
        let mut speeds = Vec::new();
        for (group, rate) in phase.groups.iter().zip(&progress.rate) {
            for s in group.streams.clone() {
                if let Some(sweep) = &progress.sweeps[s] {
                    let pages_per_ns = rate * phase.streams[s].reads_per_op * pages_per_line;
                    speeds.push((s, pages_per_ns));
                    if pages_per_ns > 0.0 {
                        bounded = bounded.min(sweep.longest_step_pages() / pages_per_ns);
                    }
                }
            }
        }
        let bounded = bounded.max(1.0);
        for (s, pages_per_ns) in speeds {
            if let Some(sweep) = &mut progress.sweeps[s] {
                sweep.expect(pages_per_ns * bounded);
            }
        }
        self.place_sweeps(phase, progress);
        self.solve(phase, progress, bounded);
        bounded as u64
    }

    fn migrate(&mut self, phase: &Phase, progress: &mut Progress, until: Nanos, stretch: &mut Stretch) {
        if self.driver.migrator.idle() {
            return;
        }
        let tiers = self.machine.tiers.len();
        let share = self.core_share(phase, &progress.left);
        let mut multipliers = Vec::new();
        self.solver.multipliers(&mut multipliers);
        let curves = self.solver.tiers();
        let duration = |migrator: &Migrator, from: u8, to: u8| migrator.duration_ns(curves, &multipliers, from, to);
        let mode = self.driver.migrator.mechanics().mode;
        let objects = &self.driver.workload.objects;
        let Progress {
            mass,
            debt_ns,
            op_ns,
            miss,
            left,
            missed,
            ..
        } = progress;
        let on_step = |step: &Step| match step {
            Step::Begun(copying) => {
                let index = objects.partition_point(|o| o.first_page <= copying.request.page) - 1;
                let piece = objects[index].piece_of(copying.request.page);
                let blocked_ns = (copying.end - copying.start) as f64;
                for (g, group) in phase.groups.iter().enumerate() {
                    if left[g] <= 0.0 {
                        continue;
                    }
                    let threads = f64::from(group.threads);
                    // Touches of the page per operation, of threads that share it and of its owner.
                    let (mut shared, mut owned) = (0.0, 0.0);
                    for s in group.streams.clone().filter(|s| phase.streams[*s].object == index) {
                        let stream = &phase.streams[s];
                        let per_op = match mode {
                            CopyMode::WriteProtected => stream.stores_per_op,
                            CopyMode::Unmapped => stream.reads_per_op * miss[s] + stream.stores_per_op,
                        };
                        let touches = match &stream.popularity {
                            Popularity::Stationary { density, .. } => per_op * f64::from(density[piece]),
                            Popularity::Sweep => per_op / f64::from(objects[index].pages),
                        };
                        // Threads sweep parts of their own.
                        if matches!(stream.popularity, Popularity::Sweep) {
                            owned += touches * threads;
                        } else {
                            shared += touches;
                        }
                    }
                    // Until a thread touches the page it runs at full speed: the average rate has
                    // the waiting in it already.
                    let speed = share / op_ns[g];
                    let owners = if owned > 0.0 { 1.0 } else { 0.0 };
                    // A wait is time of a thread, which has only a share of a core to lose.
                    debt_ns[g] += share
                        * (owners * expected_wait_ns(speed * (shared + owned), blocked_ns)
                            + (threads - owners) * expected_wait_ns(speed * shared, blocked_ns));
                }
            }
            Step::Moved {
                object,
                piece,
                from,
                to,
            } => {
                for (s, stream) in phase.streams.iter().enumerate().filter(|(_, s)| s.object == *object) {
                    if let Some(density) = miss_density(&missed[s], stream) {
                        let moved = f64::from(density[*piece]);
                        let from = &mut mass[s * tiers + usize::from(*from)];
                        *from = (*from - moved).max(0.0);
                        mass[s * tiers + usize::from(*to)] += moved;
                    }
                }
            }
        };
        self.driver.migrate(until, duration, on_step, stretch);
    }
}

/// Where a record's page comes from.
enum Source<'a> {
    /// A law over pieces.
    Law(&'a AliasTable),
    /// What a sweep has just gone through.
    Window(&'a Sweep),
}

/// Draws `count` records. This is the hottest loop of the simulator, so what does not change from
/// record to record is decided outside of it.
fn draw_pages(
    source: &Source<'_>,
    object: &Object,
    memory: &Memory,
    count: u64,
    event: Event,
    rng: &mut CounterRng,
    into: &mut Vec<Sample>,
) {
    let start = into.len();
    let sample = |page: u32| Sample { page, tier: 0, event };
    match source {
        Source::Law(alias) => {
            let edges = object.edges.as_slice();
            let mut position = || {
                let bits = rng.next_u64();
                let piece = alias.draw((bits >> 32) as u32);
                let (from, to) = (edges[piece], edges[piece + 1]);
                from + (((bits & 0xffff_ffff) * u64::from(to - from)) >> 32) as u32
            };
            match &object.scatter {
                None => into.extend((0..count).map(|_| sample(object.first_page + position()))),
                Some(scatter) => {
                    into.extend((0..count).map(|_| sample(object.first_page + scatter.index(position()))));
                }
            }
        }
        Source::Window(sweep) => into.extend((0..count).map(|_| sample(sweep.draw(object, rng)))),
    }
    // In a loop of its own, so that many of these cache misses are under way at once.
    for sample in &mut into[start..] {
        sample.tier = memory.tier_of(sample.page);
    }
}

/// How long a thread that touches a page `rate` times per nanosecond waits for it in the mean, when
/// the page is blocked for `blocked_ns`: from its first touch to the end.
fn expected_wait_ns(rate: f64, blocked_ns: f64) -> f64 {
    if rate <= 0.0 {
        return 0.0;
    }
    (blocked_ns + (-rate * blocked_ns).exp_m1() / rate).max(0.0)
}

/// A binomial count: by trials when small, by Poisson or normal approximation when large.
fn binomial(n: u64, p: f64, rng: &mut CounterRng) -> u64 {
    if n == 0 || p <= 0.0 {
        return 0;
    }
    if n <= 32 {
        return (0..n).filter(|_| rng.next_f64() < p).count() as u64;
    }
    let mean = n as f64 * p;
    if mean < 20.0 {
        return rng.poisson(mean).min(n);
    }
    if n as f64 - mean < 20.0 {
        return n - rng.poisson(n as f64 - mean).min(n);
    }
    let (u, v) = (1.0 - rng.next_f64(), rng.next_f64());
    let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
    (mean + (mean * (1.0 - p)).sqrt() * normal).round().clamp(0.0, n as f64) as u64
}
