//! The main mode: rates between events, samples by thinning.
//!
//! Time advances in slices (1 ms while a sampler or copies run) in which nothing changes place.
//! In a slice the share of each stream's accesses per tier is known exactly, so operations per
//! second follow from loaded latencies and loaded latencies from operations per second, copies
//! and co-runners (solved together). Samples are the thread counters' overflows, each on a page
//! drawn from its stream's law. So the cost of a run grows with samples, copies and slices, not
//! with accesses.

mod copies;
mod counting;
mod faults;
mod heat;
mod missed;
mod waits;

use tiertune_policy::{CounterRng, Event, Fault, Nanos, PageMap, Policy, Sample};

use crate::alias::AliasTable;
use crate::binomial::binomial;
use crate::driver::{Accessed, Driver, RunResult, domain, is_store};
use crate::error::RunError;
use crate::latency::LatencySolver;
use crate::memory::Memory;
use crate::metrics::Stretch;
use crate::operation::{Operation, operation_time};
use crate::sampler::{RecordBudget, ThreadCounters};
use crate::scenario::{Machine, Request};
use crate::sweep::Sweep;
use crate::timings::Stopwatch;
use crate::walk::{Walk, add_reads, walks};
use crate::watch::{Noticed, Watch};
use crate::workload::{LINE_BYTES, Object, Phase, Popularity, Workload};

/// Longest slice when nothing samples or copies: only sweeps then change the rates.
const QUIET_SLICE_NS: u64 = 50_000_000;

/// Runs `workload` as `request` says, whose config has every knob of the system that `policy` is.
pub fn run(
    workload: &Workload,
    request: &Request,
    policy: Box<dyn Policy>,
) -> Result<(RunResult, Box<dyn Policy>), RunError> {
    let mut simulation = Fast::new(workload, request, policy)?;
    for phase in workload.phases_in_order() {
        simulation.run_phase(phase);
    }
    let gave_up = simulation.is_hopeless();
    let Fast {
        mut driver,
        now,
        stopwatch,
        debt_ns,
        ..
    } = simulation;
    if !gave_up {
        driver.application_ns += debt_ns;
    }
    let (result, policy) = driver.finish(now);
    let timings = stopwatch.finish();
    Ok((
        RunResult {
            timings,
            gave_up,
            ..result
        },
        policy,
    ))
}

use copies::FastCopies;
use counting::Spent;
use faults::FaultCosts;
use missed::{MissedReads, miss_density};
use waits::Waits;

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
    /// Pages armed for hint faults.
    hints: Watch<'w>,
    /// Pages with a kept frame, whose first write is reported.
    writes: Watch<'w>,
    faults: Vec<Fault>,
    fault_costs: FaultCosts,
    copies_rng: CounterRng,
    waits: Waits,
    /// The chance that no thread waits for each tier, in this slice.
    idle: Vec<f64>,
    /// Cores that the tiering system takes in this slice.
    busy_cores: f64,
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
    /// What translating costs the reads of each stream.
    walks: Vec<Walk>,
    /// Positions of sweeps, by stream.
    sweeps: Vec<Option<Sweep>>,
    /// Operations left, by group.
    left: Vec<f64>,
    /// Thread time lost to samples and blocked pages and not yet charged, by group.
    debt_ns: Vec<f64>,
    /// The part of it in which threads sleep, as others move the page that they wait for.
    asleep_ns: Vec<f64>,
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

impl<'w> Fast<'w> {
    fn new(workload: &'w Workload, request: &'w Request, policy: Box<dyn Policy>) -> Result<Self, RunError> {
        let mut stopwatch = Stopwatch::new(request.timings);
        let driver = Driver::new(workload, request, policy)?;
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
            hints: Watch::new(
                Noticed::Visits,
                workload,
                CounterRng::new(driver.key, &[domain::GUARDS, 0]),
            ),
            writes: Watch::new(
                Noticed::Writes,
                workload,
                CounterRng::new(driver.key, &[domain::GUARDS, 1]),
            ),
            copies_rng: CounterRng::new(driver.key, &[domain::COPIES]),
            waits: Waits::new(workload.max_threads),
            faults: Vec::new(),
            fault_costs: FaultCosts::default(),
            idle: vec![1.0; request.machine.tiers.len()],
            busy_cores: driver.overheads.busy_cores,
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

    /// Whether so much time has passed that the run is given up.
    fn is_hopeless(&self) -> bool {
        self.request
            .give_up_s
            .is_some_and(|s| self.driver.timed_ns(self.now) as f64 > s * 1e9)
    }

    fn run_phase(&mut self, phase: &'w Phase) {
        self.driver.begin_phase(self.now, phase);
        self.take_guards();
        self.hints.begin(phase);
        self.writes.begin(phase);
        let end = phase.seconds.map(|s| self.now + (s * 1e9) as Nanos);
        let mut progress = self.begin(phase);
        self.stopwatch.lap(|t| &mut t.phases_s);
        loop {
            let working = progress.left.iter().any(|l| *l > 0.0 && l.is_finite());
            let worked = !working && phase.groups.iter().any(|g| g.ops.is_some());
            if worked || end.is_some_and(|end| self.now >= end) || self.is_hopeless() {
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

    fn begin(&mut self, phase: &'w Phase) -> Progress {
        let tiers = self.machine.tiers.len();
        let threads: f64 = phase.groups.iter().map(|g| f64::from(g.threads)).sum();
        let mut progress = Progress {
            mass: vec![0.0; phase.streams.len() * tiers],
            missed: phase.streams.iter().map(|_| None).collect(),
            miss: vec![1.0; phase.streams.len()],
            walks: Vec::new(),
            sweeps: vec![None; phase.streams.len()],
            left: phase.groups.iter().map(|g| g.ops.unwrap_or(f64::INFINITY)).collect(),
            debt_ns: phase
                .groups
                .iter()
                .map(|g| self.debt_ns * f64::from(g.threads) / threads)
                .collect(),
            asleep_ns: vec![0.0; phase.groups.len()],
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
        let workload = self.driver.workload;
        progress.walks = walks(workload, phase, self.machine, Some(&self.driver.memory));
        self.driver.foresee(self.now, phase);
        progress
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
        self.core_share_beside(self.busy_cores, phase, left)
    }

    fn core_share_beside(&self, busy_cores: f64, phase: &Phase, left: &[f64]) -> f64 {
        let running = phase.groups.iter().zip(left).filter(|(_, left)| **left > 0.0);
        let threads: u32 = running.map(|(group, _)| group.threads).sum();
        let cores = (f64::from(self.machine.cores) - busy_cores).max(1.0);
        (cores / f64::from(threads.max(1))).min(1.0)
    }

    /// Rates and loaded latencies that agree with each other.
    fn solve(&mut self, phase: &Phase, progress: &mut Progress, dt_ns: f64) {
        let tiers = self.machine.tiers.len();
        let share = self.core_share(phase, &progress.left);
        let copies = self.driver.copy_traffic(self.solver.tiers(), dt_ns);
        let co_runners = self.driver.co_runners();
        let machine = self.machine;
        let Progress {
            mass,
            miss,
            rate,
            op_ns,
            left,
            debt_ns,
            walks,
            ..
        } = progress;
        self.solver.solve(|multipliers, traffic| {
            traffic.clear();
            traffic.extend_from_slice(&copies);
            co_runners.add_at(multipliers, traffic);
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
                    walks,
                };
                op_ns[g] = operation_time(machine, &operation, multipliers);
                let available = f64::from(group.threads) * share * dt_ns;
                rate[g] = (available - debt_ns[g]).max(0.0) / dt_ns / op_ns[g];
                add_reads(traffic, rate[g] * LINE_BYTES, group, &phase.streams, walks);
                for s in group.streams.clone() {
                    let stream = &phase.streams[s];
                    let bytes = rate[g] * LINE_BYTES * miss[s];
                    for tier in 0..tiers {
                        let bytes = bytes * mass[s * tiers + tier];
                        traffic[tier].add(
                            bytes * stream.reads_per_op,
                            bytes * stream.writebacks_per_op,
                            stream.random_share,
                        );
                    }
                }
            }
        });
    }

    fn run_slice(&mut self, phase: &Phase, progress: &mut Progress, end: Option<Nanos>) {
        let tiers = self.machine.tiers.len();
        self.driver.set_co_runners(self.now);
        if self.take_guards() {
            self.weigh(phase, progress);
        }
        let busy =
            !self.counters.is_empty() || !self.driver.migrator.idle() || self.hints.count() + self.writes.count() > 0;
        let longest = if busy {
            self.request.slice_ns
        } else {
            QUIET_SLICE_NS.max(self.request.slice_ns)
        };
        self.busy_cores = self.driver.busy_cores(longest as f64);
        self.charge_application(phase, progress);
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
        self.driver.settle_co_runners(&multipliers);
        let foreign = self.driver.foreign_traffic(self.solver.tiers(), dt_ns);
        let mut traffic = foreign.clone();
        self.samples.clear();
        self.budget.advance(dt_ns);
        let mut rng = CounterRng::new(self.driver.key, &[domain::ACCESSES, self.slice]);
        self.slice += 1;
        self.idle.fill(1.0);
        let mut first_thread = 0usize;
        let mut counted = Vec::new();
        for (g, group) in phase.groups.iter().enumerate() {
            let threads = first_thread..first_thread + group.threads as usize;
            first_thread = threads.end;
            if progress.left[g] <= 0.0 {
                continue;
            }
            let available = f64::from(group.threads) * share * dt_ns;
            let paid = self.pay(g, threads.clone(), available, progress);
            self.driver.metrics.stall_s += paid / share / 1e9;
            let ops = ((available - paid) / progress.op_ns[g]).min(progress.left[g]);
            progress.left[g] -= ops;
            if progress.left[g] < 1e-6 * ops {
                progress.left[g] = 0.0;
            }
            progress.rate[g] = ops / dt_ns;
            stretch.ops += ops;
            let lines = ops * LINE_BYTES / dt_ns;
            add_reads(&mut traffic, lines, group, &phase.streams, &progress.walks);
            for s in group.streams.clone() {
                let stream = &phase.streams[s];
                let reads = ops * stream.reads_per_op * progress.miss[s];
                stretch.reads += reads;
                stretch.fast_reads += reads * progress.mass[s * tiers];
                self.driver.observer.read(stream.object, reads);
                let shares = &progress.mass[s * tiers..(s + 1) * tiers];
                for (traffic, share) in traffic.iter_mut().zip(shares) {
                    let lines = share * LINE_BYTES / dt_ns;
                    let written = ops * stream.writebacks_per_op * progress.miss[s];
                    traffic.add(reads * lines, written * lines, stream.random_share);
                }
                if let Some(sweep) = &mut progress.sweeps[s] {
                    sweep.advance(ops * stream.reads_per_op * LINE_BYTES / self.driver.workload.page_bytes as f64);
                }
                if let Accessed::Rates(touches) = &mut self.driver.accessed {
                    touches.count(s, ops);
                }
            }
            self.take_faults(phase, g, threads.clone(), ops, dt_ns, progress);
            if self.driver.counts() {
                let spent = Spent {
                    ops,
                    threads: f64::from(group.threads) * share,
                    dt_ns,
                };
                self.read_counters(phase, g, &spent, progress, &multipliers);
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
        for (tier, traffic) in self.driver.counters.tiers.iter_mut().zip(&traffic) {
            tier.read_bytes += traffic.read_gbps * dt_ns;
            tier.written_bytes += traffic.write_gbps * dt_ns;
        }
        if self.driver.counts() {
            for (tier, idle) in self.driver.counters.tiers.iter_mut().zip(&self.idle) {
                tier.busy_ns += dt_ns * (1.0 - idle);
            }
        }
        self.driver.pay_background(dt_ns);
        self.migrate(phase, progress, until, &mut stretch);
        self.driver.settle_copies(&foreign, dt_ns);
        self.stopwatch.lap(|t| &mut t.migrations_s);
        self.now = until;
        let samples = std::mem::take(&mut self.samples);
        self.driver.deliver_samples(until, &samples);
        self.samples = samples;
        let mut faults = std::mem::take(&mut self.faults);
        faults.sort_by_key(|fault| (fault.at, fault.page));
        self.driver.deliver_faults(until, &faults);
        faults.clear();
        self.faults = faults;
        for (counters, sampler) in self.counters.iter_mut().zip(&self.driver.samplers) {
            counters.request.period = sampler.period;
        }
        self.driver.deliver_migrations(until);
        self.driver.wake_if_due(until);
        self.stopwatch.lap(|t| &mut t.policy_s);
        self.driver.book(until, &mut stretch);
        if self.driver.page_map.is_due(until) {
            let heat = self.heat(phase, progress);
            self.driver.page_map.take(until, &heat, &self.driver.memory);
        }
    }

    /// Until something happens, at most `longest`.
    fn slice_length(&self, phase: &Phase, progress: &Progress, longest: u64, end: Option<Nanos>) -> u64 {
        let share = self.core_share(phase, &progress.left);
        let mut dt = longest;
        if let Some(at) = self.driver.next_stop(self.now, end) {
            dt = dt.min(at.saturating_sub(self.now));
        }
        for (g, group) in phase.groups.iter().enumerate() {
            if progress.left[g] > 0.0 && progress.left[g].is_finite() {
                let thread_ns = progress.left[g] * progress.op_ns[g] + progress.debt_ns[g];
                dt = dt.min((thread_ns / (f64::from(group.threads) * share)).ceil() as u64);
            }
            if progress.left[g] > 0.0 {
                dt = dt.min(self.affordable_ns(phase, g, share, progress).ceil() as u64);
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
        let tiers = self.machine.tiers.len();
        for counters in &mut self.counters {
            let event = counters.request.event;
            let visible: Vec<f64> = group
                .streams
                .clone()
                .map(|s| {
                    let stream = &phase.streams[s];
                    let misses = stream.reads_per_op * progress.miss[s] * (1.0 - stream.prefetched_share);
                    let shares = &progress.mass[s * tiers..(s + 1) * tiers];
                    match event {
                        Event::Store => stream.stores_per_op,
                        Event::LoadMiss => misses,
                        Event::SlowLoadMiss => misses * slow_share(shares),
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
                let tiers = self.machine.tiers.len();
                let draw = Draw {
                    source,
                    object,
                    memory: &self.driver.memory,
                    event: *event,
                    slow_share: slow_share(&progress.mass[s * tiers..(s + 1) * tiers]),
                };
                draw.records(count, rng, &mut self.samples);
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
        let share = self.core_share(phase, &progress.left);
        let mut multipliers = Vec::new();
        self.solver.multipliers(&mut multipliers);
        let mut copies = FastCopies {
            curves: self.solver.tiers(),
            multipliers: &multipliers,
            mechanics: *self.driver.migrator.mechanics(),
            objects: &self.driver.workload.objects,
            machine: self.machine,
            phase,
            share,
            swept_until: until,
            page_bytes: self.driver.workload.page_bytes as f64,
            progress,
            rng: &mut self.copies_rng,
            waits: &mut self.waits,
            hints: &mut self.hints,
            writes: &mut self.writes,
            fault_stall_ns: 0.0,
        };
        self.driver.migrate(until, &mut copies, stretch);
        let fault_stall_ns = copies.fault_stall_ns;
        self.fault_costs.more(fault_stall_ns);
        self.driver.metrics.fault_stall_s += fault_stall_ns / 1e9;
    }
}

/// Where a record's page comes from.
enum Source<'a> {
    /// A law over pieces.
    Law(&'a AliasTable),
    /// What a sweep has just gone through.
    Window(&'a Sweep),
}

/// Share of missed reads that other tiers than the first serve.
fn slow_share(shares: &[f64]) -> f64 {
    shares[1..].iter().sum::<f64>().min(1.0)
}

/// How records of one stream and event get their pages.
struct Draw<'a> {
    source: Source<'a>,
    object: &'a Object,
    memory: &'a Memory,
    event: Event,
    slow_share: f64,
}

/// Draws for each record that is looked for in slow memory, in proportion to its share of the reads: what
/// is not found after so many is where a sweep has no slow page ahead any more.
const DRAWS_PER_RECORD: f64 = 32.0;

impl Draw<'_> {
    /// Draws the pages of `count` records.
    fn records(&self, count: u64, rng: &mut CounterRng, into: &mut Vec<Sample>) {
        let start = into.len();
        if self.event != Event::SlowLoadMiss {
            return draw_pages(self, count, rng, into);
        }
        let mut draws = DRAWS_PER_RECORD * count as f64 / self.slow_share.max(1e-9);
        while into.len() < start + count as usize && draws > 0.0 {
            let missing = start + count as usize - into.len();
            let more = (missing as f64 / self.slow_share.max(1e-9))
                .ceil()
                .min(draws)
                .min(65_536.0);
            draws -= more.max(1.0);
            let seen = into.len();
            draw_pages(self, more as u64, rng, into);
            let mut kept = seen;
            for at in seen..into.len() {
                if into[at].tier > 0 && kept < start + count as usize {
                    into[kept] = into[at];
                    kept += 1;
                }
            }
            into.truncate(kept);
        }
    }
}

/// Draws the pages of `count` reads or stores, wherever they are. This is the hottest loop of the
/// simulator, so what does not change from record to record is decided outside of it.
fn draw_pages(draw: &Draw<'_>, count: u64, rng: &mut CounterRng, into: &mut Vec<Sample>) {
    let Draw {
        source,
        object,
        memory,
        event,
        ..
    } = draw;
    let start = into.len();
    let sample = |page: u32| Sample {
        page,
        tier: 0,
        event: *event,
    };
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
