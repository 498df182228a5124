//! The reference mode: every access through an explicit cache and page table.
//!
//! Slow and for small runs; it exists to keep the fast mode honest. Policy, page table, migrator
//! and latency curves are the same objects; accesses, cache hits, sampling counters, waiting for
//! pages under copy, and the thread clocks are explicit here, where the fast mode has rates.

use tiertune_policy::{CopyMode, CounterRng, Nanos, PageMap, Sample};

use crate::cache::ExplicitCache;
use crate::driver::{Driver, RunResult, domain, is_store};
use crate::error::RunError;
use crate::latency::LatencySolver;
use crate::metrics::Stretch;
use crate::migration::{Copying, Migrator, Step};
use crate::operation::unloaded_ns;
use crate::sampler::RecordBudget;
use crate::scenario::{Machine, Request};
use crate::workload::{LINE_BYTES, Phase, Popularity, Stream, Workload};

/// Latencies are updated and the policy hears of samples this often.
const QUANTUM_NS: u64 = 50_000;
/// Reads over which a thread overlaps prefetching with computing, and after which another thread may
/// have its turn: a core's prefetchers run some tens of lines ahead (20 per stream on Intel).
const READS_PER_BATCH: f64 = 32.0;

/// Runs `workload` as `request` says.
pub fn run(workload: &Workload, request: &Request) -> Result<RunResult, RunError> {
    let mut simulation = Reference::new(workload, request)?;
    for phase in workload.phases_in_order() {
        simulation.run_phase(phase);
    }
    Ok(simulation.driver.finish(simulation.now))
}

/// One application thread.
struct Thread {
    group: usize,
    clock_ns: f64,
    rng: CounterRng,
    /// Events until the next record, by sampler.
    until_record: Vec<i64>,
    /// Fractions of reads, write-backs and stores owed, by stream of the group.
    owed: Vec<[f64; 3]>,
    /// Lines read by sweeps, by stream of the group.
    swept_lines: Vec<u64>,
    /// Position among the threads of the group.
    index: u32,
}

struct Reference<'w> {
    driver: Driver<'w>,
    machine: &'w Machine,
    solver: LatencySolver,
    cache: ExplicitCache,
    budget: RecordBudget,
    /// Initial phases of the sampling counters, by thread and sampler.
    phases: Vec<Vec<i64>>,
    now: Nanos,
    phase_number: u64,
    samples: Vec<Sample>,
    multipliers: Vec<f64>,
    lines: Vec<[f64; 2]>,
    /// Copies of this quantum, also those that end within it.
    recent: Vec<Copying>,
}

impl<'w> Reference<'w> {
    fn new(workload: &'w Workload, request: &'w Request) -> Result<Self, RunError> {
        let driver = Driver::new(workload, request)?;
        let mut rng = CounterRng::new(driver.key, &[domain::PHASES]);
        let phases = (0..workload.max_threads)
            .map(|_| driver.samplers.iter().map(|s| 1 + rng.below(s.period) as i64).collect())
            .collect();
        let tiers = request.machine.tiers.len();
        Ok(Self {
            budget: RecordBudget::new(driver.overheads.record_ns),
            machine: &request.machine,
            solver: LatencySolver::new(&request.machine),
            cache: ExplicitCache::new(request.machine.llc_bytes),
            driver,
            phases,
            now: 0,
            phase_number: 0,
            samples: Vec::new(),
            multipliers: vec![1.0; tiers],
            lines: vec![[0.0; 2]; tiers],
            recent: Vec::new(),
        })
    }

    fn run_phase(&mut self, phase: &Phase) {
        self.phase_number += 1;
        let end = phase.seconds.map(|s| self.now + (s * 1e9) as Nanos);
        let mut left: Vec<f64> = phase.groups.iter().map(|g| g.ops.unwrap_or(f64::INFINITY)).collect();
        let mut threads = self.threads(phase);
        loop {
            let working = left.iter().any(|l| *l > 0.0 && l.is_finite());
            let worked = !working && phase.groups.iter().any(|g| g.ops.is_some());
            if worked || end.is_some_and(|end| self.now >= end) {
                break;
            }
            self.run_quantum(phase, &mut threads, &mut left, end);
        }
        if end.is_none_or(|end| self.now < end) {
            // The phase ends with its last operation, not with the quantum.
            let last = threads
                .iter()
                .filter(|t| phase.groups[t.group].ops.is_some())
                .map(|t| t.clock_ns);
            let finished = (last.fold(0.0, f64::max) as Nanos).min(self.now);
            let excess_ns = (self.now - finished) as f64;
            let (tiers, totals) = (&self.machine.tiers, &mut self.driver.totals);
            let slowest = tiers.len() - 1;
            totals.ns -= excess_ns;
            totals.fast_latency_ns2 -= tiers[0].latency_ns * self.multipliers[0] * excess_ns;
            totals.slow_latency_ns2 -= tiers[slowest].latency_ns * self.multipliers[slowest] * excess_ns;
            self.now = finished;
        }
        for (kept, thread) in self.phases.iter_mut().zip(threads) {
            *kept = thread.until_record;
        }
    }

    fn threads(&self, phase: &Phase) -> Vec<Thread> {
        let mut threads = Vec::new();
        for (group, model) in phase.groups.iter().enumerate() {
            for index in 0..model.threads {
                let number = threads.len();
                threads.push(Thread {
                    group,
                    clock_ns: self.now as f64,
                    rng: CounterRng::new(self.driver.key, &[domain::ACCESSES, self.phase_number, number as u64]),
                    until_record: self.phases[number].clone(),
                    owed: vec![[0.0; 3]; model.streams.len()],
                    swept_lines: vec![0; model.streams.len()],
                    index,
                });
            }
        }
        threads
    }

    fn run_quantum(&mut self, phase: &Phase, threads: &mut [Thread], left: &mut [f64], end: Option<Nanos>) {
        let mut until = self.now + QUANTUM_NS;
        for at in [self.driver.wake_at(), end].into_iter().flatten() {
            until = until.min(at.max(self.now + 1));
        }
        let ns = (until - self.now) as f64;
        let mut stretch = Stretch {
            ns,
            ..Stretch::default()
        };
        self.solver.multipliers(&mut self.multipliers);
        self.migrate(until, &mut stretch);
        self.lines.iter_mut().for_each(|l| *l = [0.0; 2]);
        self.budget.advance(ns);
        self.samples.clear();
        let cores = (f64::from(self.machine.cores) - self.driver.overheads.busy_cores).max(1.0);
        let running = threads.iter().filter(|t| left[t.group] > 0.0).count();
        let share = (cores / running.max(1) as f64).min(1.0);
        // Whoever is furthest behind goes next, so that the last operations of a phase are shared
        // out as dynamic scheduling would.
        let waiting = |threads: &[Thread], left: &[f64]| {
            let ready = threads
                .iter()
                .enumerate()
                .filter(|(_, t)| t.clock_ns < until as f64 && left[t.group] > 0.0);
            ready
                .min_by(|a, b| a.1.clock_ns.total_cmp(&b.1.clock_ns))
                .map(|(i, _)| i)
        };
        while let Some(next) = waiting(threads, left) {
            let thread = &mut threads[next];
            let reads: f64 = phase.groups[thread.group]
                .streams
                .clone()
                .map(|s| phase.streams[s].reads_per_op)
                .sum();
            let ops = (READS_PER_BATCH / reads.max(1e-9))
                .ceil()
                .clamp(1.0, 1e6)
                .min(left[thread.group]);
            left[thread.group] -= ops;
            stretch.ops += ops;
            self.run_batch(phase, thread, ops, share, &mut stretch);
        }
        let foreign = self.driver.foreign_traffic(self.solver.tiers(), ns);
        self.driver.settle_copies(&foreign, ns);
        let mut traffic = foreign;
        for (traffic, lines) in traffic.iter_mut().zip(&self.lines) {
            traffic.read_gbps += lines[0] * LINE_BYTES / ns;
            traffic.write_gbps += lines[1] * LINE_BYTES / ns;
        }
        let last = traffic.len() - 1;
        stretch.fast_latency_ns2 = self.machine.tiers[0].latency_ns * self.multipliers[0] * ns;
        stretch.slow_latency_ns2 = self.machine.tiers[last].latency_ns * self.multipliers[last] * ns;
        stretch.fast_traffic_bytes = (traffic[0].read_gbps + traffic[0].write_gbps) * ns;
        stretch.slow_traffic_bytes = (traffic[last].read_gbps + traffic[last].write_gbps) * ns;
        self.solver.step(&traffic);
        self.now = until;
        let samples = std::mem::take(&mut self.samples);
        let taken = self.budget.take(samples.len() as u64) as usize;
        self.driver.metrics.samples_dropped += (samples.len() - taken) as f64;
        self.driver.deliver_samples(until, &samples[..taken]);
        self.samples = samples;
        self.driver.deliver_migrations(until);
        self.driver.wake_if_due(until);
        self.driver.book(&mut stretch);
    }

    fn migrate(&mut self, until: Nanos, stretch: &mut Stretch) {
        let (curves, multipliers) = (self.solver.tiers(), &self.multipliers);
        let duration = |migrator: &Migrator, from: u8, to: u8| migrator.duration_ns(curves, multipliers, from, to);
        let (now, recent) = (self.now, &mut self.recent);
        recent.retain(|copying| copying.end > now);
        let on_step = |step: &Step| {
            if let Step::Begun(copying) = step {
                recent.push(*copying);
            }
        };
        self.driver.migrate(until, duration, on_step, stretch);
    }

    /// `ops` operations of one thread, access by access.
    fn run_batch(&mut self, phase: &Phase, thread: &mut Thread, ops: f64, share: f64, stretch: &mut Stretch) {
        let group = &phase.groups[thread.group];
        let (mut prefetched_ns, mut demand_ns, mut lost_ns) = (0.0, 0.0, 0.0);
        let mode = self.driver.migrator.mechanics().mode;
        for (i, s) in group.streams.clone().enumerate() {
            let stream = &phase.streams[s];
            let mlp = stream.mlp.min(self.machine.fill_buffers);
            let writes_per_read = if stream.reads_per_op > 0.0 {
                stream.writebacks_per_op / stream.reads_per_op
            } else {
                0.0
            };
            for _ in 0..take_whole(&mut thread.owed[i][0], ops * stream.reads_per_op) {
                let (page, line) = self.next_line(stream, thread, i, group.threads);
                let tier = usize::from(self.driver.memory.tier_of(page));
                let prefetched = thread.rng.next_f64() < stream.prefetched_share;
                if !stream.missed_llc && self.cache.touch(line) {
                    demand_ns += if prefetched { 0.0 } else { self.machine.llc_hit_ns / mlp };
                    continue;
                }
                if mode == CopyMode::Unmapped {
                    lost_ns += self.wait_for(page, thread.clock_ns + lost_ns);
                }
                self.lines[tier][0] += 1.0;
                self.lines[tier][1] += writes_per_read;
                stretch.reads += 1.0;
                stretch.fast_reads += f64::from(u8::from(tier == 0));
                let latency = unloaded_ns(self.machine, tier, stream.class) * self.multipliers[tier];
                if prefetched {
                    prefetched_ns += latency / self.machine.fill_buffers;
                } else {
                    demand_ns += latency / mlp;
                    lost_ns += self.count(thread, page, tier as u8, false) / share;
                }
            }
            for _ in 0..take_whole(
                &mut thread.owed[i][1],
                if stream.reads_per_op > 0.0 {
                    0.0
                } else {
                    ops * stream.writebacks_per_op
                },
            ) {
                let (page, _) = self.next_line(stream, thread, i, group.threads);
                self.lines[usize::from(self.driver.memory.tier_of(page))][1] += 1.0;
            }
            for _ in 0..take_whole(&mut thread.owed[i][2], ops * stream.stores_per_op) {
                let (page, _) = match stream.popularity {
                    Popularity::Sweep => self.swept_line(stream, thread, i, group.threads),
                    Popularity::Stationary { .. } => self.next_line(stream, thread, i, group.threads),
                };
                lost_ns += self.wait_for(page, thread.clock_ns + lost_ns);
                let tier = self.driver.memory.tier_of(page);
                lost_ns += self.count(thread, page, tier, true) / share;
            }
        }
        self.driver.metrics.stall_s += lost_ns / 1e9;
        thread.clock_ns += ((ops * group.cpu_ns_per_op).max(prefetched_ns) + demand_ns) / share + lost_ns;
    }

    /// How long an access at `at_ns` waits for a copy of its page.
    fn wait_for(&self, page: u32, at_ns: f64) -> f64 {
        let blocking = |c: &&Copying| c.request.page == page && c.start as f64 <= at_ns && at_ns < c.end as f64;
        self.recent.iter().find(blocking).map_or(0.0, |c| c.end as f64 - at_ns)
    }

    /// Counts an event; returns the time that a record costs the thread.
    fn count(&mut self, thread: &mut Thread, page: u32, tier: u8, store: bool) -> f64 {
        let mut assist_ns = 0.0;
        for (request, until) in self.driver.samplers.iter().zip(&mut thread.until_record) {
            if is_store(request.event) == store {
                *until -= 1;
                if *until <= 0 {
                    *until += request.period as i64;
                    self.samples.push(Sample {
                        page,
                        tier,
                        event: request.event,
                    });
                    assist_ns += self.machine.sample_assist_ns;
                }
            }
        }
        assist_ns
    }

    /// The next line of a stream: page and line number over all memory.
    fn next_line(&self, stream: &Stream, thread: &mut Thread, i: usize, threads: u32) -> (u32, u64) {
        let object = &self.driver.workload.objects[stream.object];
        let lines_per_page = self.driver.workload.page_bytes / LINE_BYTES as u64;
        match &stream.popularity {
            Popularity::Stationary { alias, .. } => {
                let piece = alias.draw((thread.rng.next_u64() >> 32) as u32);
                let (from, to) = (object.edges[piece], object.edges[piece + 1]);
                let page = object.page_at(from + thread.rng.below(u64::from(to - from)) as u32);
                (
                    page,
                    u64::from(page) * lines_per_page + thread.rng.below(lines_per_page),
                )
            }
            Popularity::Sweep => {
                let line = self.swept_line(stream, thread, i, threads);
                thread.swept_lines[i] += 1;
                line
            }
        }
    }

    /// Where the sweep of a thread stands.
    fn swept_line(&self, stream: &Stream, thread: &Thread, i: usize, threads: u32) -> (u32, u64) {
        let object = &self.driver.workload.objects[stream.object];
        let lines_per_page = self.driver.workload.page_bytes / LINE_BYTES as u64;
        let lines = u64::from(object.pages) * lines_per_page;
        let part = lines / u64::from(threads);
        let line = u64::from(thread.index) * part + thread.swept_lines[i] % part.max(1);
        let page = object.page_at((line / lines_per_page) as u32);
        (page, u64::from(page) * lines_per_page + line % lines_per_page)
    }
}

/// Adds `amount` to what is owed and takes the whole part.
fn take_whole(owed: &mut f64, amount: f64) -> u64 {
    *owed += amount;
    let whole = owed.floor();
    *owed -= whole;
    whole as u64
}
