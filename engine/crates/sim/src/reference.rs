//! The reference mode: every access through an explicit cache and page table.
//!
//! Slow and for small runs; it exists to keep the fast mode honest. Policy, page table, migrator
//! and latency curves are the same objects; accesses, cache hits, sampling counters, waiting for
//! pages under copy, and the thread clocks are explicit here, where the fast mode has rates.

mod flow;
mod lines;

use tiertune_policy::{
    CopyMode, CounterRng, Event, Fault, FaultKind, How, MigrationMechanics, Move, Nanos, PageMap, Policy, Sample,
};

use crate::cache::ExplicitCache;
use crate::driver::{Accessed, Driver, RunResult, domain};
use crate::error::RunError;
use crate::guards::Guards;
use crate::latency::{LatencySolver, TierLatency, Traffic};
use crate::metrics::Stretch;
use crate::migration::{Copies, Copying, Migrator, Step, Waiting, blocking};
use crate::operation::{Demand, Operation, misses_in_flight, operation_time, unloaded_ns};
use crate::sampler::RecordBudget;
use crate::scenario::{Machine, Request};
use crate::walk::{Walk, walks};
use crate::workload::{LINE_BYTES, Phase, Popularity, Stream, Workload};
use flow::{Flow, Lines, add_lines};

/// Latencies are updated and the policy hears of samples this often.
const QUANTUM_NS: u64 = 50_000;
/// The first quantum of a phase is short, as its threads go by latencies of the phase before; each that follows is as long as
/// all before it together, until they make up a whole one.
const FIRST_QUANTUM_NS: u64 = 1_000;
/// Reads over which a thread overlaps prefetching with computing, and after which another thread may
/// have its turn: a core's prefetchers run some tens of lines ahead (20 per stream on Intel).
const READS_PER_BATCH: f64 = 32.0;

/// Reads by which the cache is filled before a run: enough for hot lines to be found and for cold ones to go.
const FILLING_READS_PER_LINE: f64 = 8.0;

/// Runs `workload` as `request` says, whose config has every knob of the system that `policy` is.
pub fn run(
    workload: &Workload,
    request: &Request,
    policy: Box<dyn Policy>,
) -> Result<(RunResult, Box<dyn Policy>), RunError> {
    let mut simulation = Reference::new(workload, request, policy)?;
    if let Some(first) = workload.phases_in_order().next() {
        simulation.fill_cache(first);
    }
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
    /// Fractions of reads, write-backs, stores and hits beside reads owed, by stream of the group.
    owed: Vec<[f64; 4]>,
    /// Lines read by sweeps, by stream of the group.
    swept_lines: Vec<u64>,
    /// The pages that it goes through, by stream of the group; none before the first.
    visits: Vec<Option<Visit>>,
    /// Pages read last by the streams of the group.
    read_pages: Vec<Vec<u32>>,
    /// Position among the threads of the group.
    index: u32,
    /// Position among all threads.
    number: u32,
}

/// A page that a thread goes through in order.
#[derive(Debug, Clone, Copy)]
struct Visit {
    page: u32,
    /// Line of the page that was taken last.
    line: u64,
    /// Lines that are left.
    left: f64,
}

struct Reference<'w> {
    driver: Driver<'w>,
    machine: &'w Machine,
    solver: LatencySolver,
    phase_from: Nanos,
    cache: ExplicitCache,
    budget: RecordBudget,
    /// Initial phases of the sampling counters, by thread and sampler.
    phases: Vec<Vec<i64>>,
    now: Nanos,
    phase_number: u64,
    samples: Vec<Sample>,
    multipliers: Vec<f64>,
    lines: Vec<Lines>,
    flow: Flow,
    /// Pages that move in this quantum, also those that arrive within it.
    blocked: Vec<Blocked>,
    /// Pages that are armed for a hint fault.
    armed: Guards,
    /// When each page with a kept frame got it; empty until the first did.
    watched: Guards,
    faults: Vec<Fault>,
    /// Time that each thread waited for each tier and that is not yet counted, `[thread * tiers + tier]`.
    waited_ns: Vec<f64>,
    /// Time that threads owe for moves in faults, by thread.
    charges: Vec<(u32, f64)>,
    /// Time that each thread has slept, as others move its page, and that is not yet counted.
    asleep_ns: Vec<f64>,
    /// Stores of this quantum and of the one before, where copies are transactions.
    stores: [Vec<(u32, f64)>; 2],
    /// What translating costs the reads of each stream of this phase: by the same law as in the fast mode.
    walks: Vec<Walk>,
}

/// A page whose accesses wait.
#[derive(Debug, Clone, Copy)]
struct Blocked {
    request: Move,
    waiting: Waiting,
    from_ns: f64,
    to_ns: f64,
}

/// What copies do in the reference mode.
struct ExplicitCopies<'a> {
    curves: &'a [TierLatency],
    multipliers: &'a [f64],
    mechanics: MigrationMechanics,
    blocked: &'a mut Vec<Blocked>,
    armed: &'a mut Guards,
    watched: &'a mut Guards,
    charges: &'a mut Vec<(u32, f64)>,
    stores: &'a [Vec<(u32, f64)>; 2],
    pages: u32,
}

impl Copies for ExplicitCopies<'_> {
    fn duration_ns(&self, migrator: &Migrator, request: &Move, from: u8) -> Nanos {
        migrator.duration_ns(self.curves, self.multipliers, request, from)
    }

    /// Copies of a quantum run before its accesses, so writes one quantum earlier stand for those meanwhile.
    fn written(&mut self, copying: &Copying) -> bool {
        let earlier = |at: Nanos| at as f64 - QUANTUM_NS as f64;
        let (from, to) = (earlier(copying.start), earlier(copying.end));
        let mut stores = self.stores.iter().flatten();
        stores.any(|(page, at)| copying.request.range().contains(page) && (from..to).contains(at))
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Begun(copying) => {
                let (waiting, blocked_ns) = blocking(&self.mechanics, copying);
                let to_ns = copying.end as f64;
                self.blocked.push(Blocked {
                    request: copying.request,
                    waiting,
                    from_ns: to_ns - blocked_ns as f64,
                    to_ns,
                });
                if let How::InFault { thread } = copying.request.how {
                    self.charges.push((thread, (copying.end - copying.start) as f64));
                }
            }
            Step::Aborted(_) => {}
            Step::Moved { page, kept, at, .. } => {
                self.armed.take(*page);
                self.watched.take(*page);
                if *kept {
                    self.watched.arm(*page, *at, self.pages);
                }
            }
        }
    }
}

impl<'w> Reference<'w> {
    fn new(workload: &'w Workload, request: &'w Request, policy: Box<dyn Policy>) -> Result<Self, RunError> {
        let lines = u64::from(workload.pages) * (workload.page_bytes / LINE_BYTES as u64);
        if lines > ExplicitCache::LINES {
            let most_gib = ((ExplicitCache::LINES + 1) * LINE_BYTES as u64) >> 30;
            return Err(RunError::Workload(format!(
                "reference mode, which makes every access, holds at most {most_gib} GiB"
            )));
        }
        let driver = Driver::new(workload, request, policy)?;
        let mut rng = CounterRng::new(driver.key, &[domain::PHASES]);
        let phases = (0..workload.max_threads)
            .map(|_| driver.samplers.iter().map(|s| 1 + rng.below(s.period) as i64).collect())
            .collect();
        let tiers = request.machine.tiers.len();
        Ok(Self {
            budget: RecordBudget::new(driver.overheads.record_ns),
            machine: &request.machine,
            solver: LatencySolver::new(&request.machine),
            phase_from: 0,
            cache: ExplicitCache::new(request.machine.llc_bytes),
            driver,
            phases,
            now: 0,
            phase_number: 0,
            samples: Vec::new(),
            multipliers: vec![1.0; tiers],
            lines: vec![Lines::default(); tiers],
            flow: Flow::new(tiers, workload.max_threads),
            blocked: Vec::new(),
            armed: Guards::default(),
            watched: Guards::default(),
            faults: Vec::new(),
            waited_ns: vec![0.0; tiers * workload.max_threads as usize],
            charges: Vec::new(),
            asleep_ns: vec![0.0; workload.max_threads as usize],
            stores: [Vec::new(), Vec::new()],
            walks: Vec::new(),
        })
    }

    /// Has the cache as `phase` keeps it, as both modes have a run begin.
    fn fill_cache(&mut self, phase: &Phase) {
        let tiers = self.machine.tiers.len();
        let mut all_fast = vec![0.0; phase.streams.len() * tiers];
        all_fast.iter_mut().step_by(tiers).for_each(|share| *share = 1.0);
        let miss = vec![1.0; phase.streams.len()];
        let ops = phase.groups.iter().map(|group| {
            let operation = Operation {
                group,
                streams: &phase.streams,
                mass: &all_fast,
                miss: &miss,
                walks: &[],
            };
            QUANTUM_NS as f64 / operation_time(self.machine, &operation, &vec![1.0; tiers])
        });
        let ops: Vec<f64> = ops.collect();
        let cached = |s: &usize| !phase.streams[*s].missed_llc && phase.streams[*s].reads_per_op > 0.0;
        let reads = |thread: &Thread| -> f64 {
            let group = &phase.groups[thread.group];
            let per_op: f64 = group
                .streams
                .clone()
                .filter(cached)
                .map(|s| phase.streams[s].reads_per_op)
                .sum();
            ops[thread.group] * per_op
        };
        let mut threads = self.threads(phase);
        let per_round: f64 = threads.iter().map(reads).sum();
        if per_round <= 0.0 {
            return;
        }
        let rounds = (FILLING_READS_PER_LINE * self.cache.lines() as f64 / per_round).ceil();
        for thread in &mut threads {
            // Other accesses than those that follow, and sweeps end where they will begin.
            thread.rng = CounterRng::new(self.driver.key, &[domain::CACHE, u64::from(thread.number)]);
            let group = &phase.groups[thread.group];
            for (i, s) in group.streams.clone().enumerate() {
                let stream = &phase.streams[s];
                let lines = self.lines_swept(stream, group.threads);
                let ahead = (rounds * ops[thread.group] * stream.reads_per_op) as u64 % lines;
                thread.swept_lines[i] = (lines - ahead) % lines;
            }
        }
        for _ in 0..rounds as u64 {
            for thread in &mut threads {
                let group = &phase.groups[thread.group];
                for (i, s) in group.streams.clone().enumerate().filter(|(_, s)| cached(s)) {
                    let stream = &phase.streams[s];
                    for _ in 0..take_whole(&mut thread.owed[i][0], ops[thread.group] * stream.reads_per_op) {
                        let (_, line) = self.next_line(stream, thread, i, group.threads);
                        self.cache.touch(line);
                    }
                }
            }
        }
    }

    fn run_phase(&mut self, phase: &'w Phase) {
        self.driver.begin_phase(self.now, phase);
        self.driver.foresee(self.now, phase);
        self.phase_number += 1;
        let workload = self.driver.workload;
        self.walks = walks(workload, phase, self.machine, Some(&self.driver.memory));
        let end = phase.seconds.map(|s| self.now + (s * 1e9) as Nanos);
        let mut left: Vec<f64> = phase.groups.iter().map(|g| g.ops.unwrap_or(f64::INFINITY)).collect();
        let mut threads = self.threads(phase);
        self.phase_from = self.now;
        self.flow.clear();
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
            let finished = (ended_ns(phase, &threads, &left).unwrap_or_default() as Nanos).min(self.now);
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
                let mut rng = CounterRng::new(self.driver.key, &[domain::ACCESSES, self.phase_number, number as u64]);
                // Phases are cut anywhere: what a thread owes at the start of one is, on average, what it leaves undone at
                // the end. Starting at nothing would lose half an access of every stream in each slice of a recording.
                let owed = model
                    .streams
                    .clone()
                    .map(|_| std::array::from_fn(|_| rng.next_f64()))
                    .collect();
                threads.push(Thread {
                    group,
                    clock_ns: self.now as f64,
                    rng,
                    until_record: self.phases[number].clone(),
                    owed,
                    swept_lines: vec![0; model.streams.len()],
                    visits: vec![None; model.streams.len()],
                    read_pages: vec![Vec::new(); model.streams.len()],
                    index,
                    number: number as u32,
                });
            }
        }
        threads
    }

    fn run_quantum(&mut self, phase: &Phase, threads: &mut [Thread], left: &mut [f64], end: Option<Nanos>) {
        let mut until = self.now + quantum_ns(self.now - self.phase_from);
        self.driver.set_co_runners(self.now);
        if let Some(at) = self.driver.next_stop(self.now, end) {
            until = until.min(at.max(self.now + 1));
        }
        let ns = (until - self.now) as f64;
        let mut stretch = Stretch {
            ns,
            ..Stretch::default()
        };
        self.solver.multipliers(&mut self.multipliers);
        self.take_guards();
        self.migrate(until, &mut stretch);
        self.stores.swap(0, 1);
        self.stores[0].clear();
        self.lines.fill(Lines::default());
        self.budget.advance(ns);
        self.samples.clear();
        let cores = (f64::from(self.machine.cores) - self.driver.busy_cores(ns)).max(1.0);
        self.driver.pay_background(ns);
        let running = threads.iter().filter(|t| left[t.group] > 0.0).count();
        let share = (cores / running.max(1) as f64).min(1.0);
        self.charge(threads, left, share);
        let quantum_ns = self.now as f64..until as f64;
        self.flow.begin();
        for thread in &*threads {
            self.flow.go_on(thread.number, thread.clock_ns, &quantum_ns);
        }
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
            let (from_ns, before) = (thread.clock_ns, self.lines.clone());
            self.run_batch(phase, thread, ops, share, &mut stretch);
            let lines = self
                .lines
                .iter()
                .zip(&before)
                .map(|(now, then)| std::array::from_fn(|kind| now[kind] - then[kind]));
            let batch_ns = from_ns..thread.clock_ns;
            self.flow
                .add(thread.number, lines, &self.multipliers, batch_ns, &quantum_ns);
        }
        self.driver.settle_co_runners(&self.multipliers);
        let foreign = self.driver.foreign_traffic(self.solver.tiers(), ns);
        self.driver.settle_copies(&foreign, ns);
        let beside = |lines: &[Lines], ns: f64| -> Vec<Traffic> {
            let add = |(traffic, lines): (&Traffic, &Lines)| {
                let [read, written, random_read, random_written] = lines.map(|lines| lines * LINE_BYTES / ns);
                Traffic {
                    read_gbps: traffic.read_gbps + read,
                    write_gbps: traffic.write_gbps + written,
                    random_read_gbps: traffic.random_read_gbps + random_read,
                    random_write_gbps: traffic.random_write_gbps + random_written,
                }
            };
            foreign.iter().zip(lines).map(add).collect()
        };
        let traffic = beside(&self.lines, ns);
        let last = traffic.len() - 1;
        stretch.fast_latency_ns2 = self.machine.tiers[0].latency_ns * self.multipliers[0] * ns;
        stretch.slow_latency_ns2 = self.machine.tiers[last].latency_ns * self.multipliers[last] * ns;
        stretch.fast_traffic_bytes = (traffic[0].read_gbps + traffic[0].write_gbps) * ns;
        stretch.slow_traffic_bytes = (traffic[last].read_gbps + traffic[last].write_gbps) * ns;
        self.count_time(ns, running as f64, share, &traffic);
        for thread in threads.iter().filter(|thread| left[thread.group] > 0.0) {
            let asleep_ns = &mut self.asleep_ns[thread.number as usize];
            // A wait that lasts beyond the quantum is slept through in the next one.
            let slept_ns = asleep_ns.min(ns);
            *asleep_ns -= slept_ns;
            self.driver.run(thread.number as usize, share * (ns - slept_ns));
        }
        // The last lines of a phase pass until it ends, which is within its last quantum.
        let passing_ns = match ended_ns(phase, threads, left) {
            Some(end_ns) => (end_ns - self.now as f64).clamp(1.0, ns),
            None => ns,
        };
        self.solver
            .follow(&beside(&self.flow.passing_at(&self.multipliers), passing_ns));
        self.now = until;
        let samples = std::mem::take(&mut self.samples);
        let taken = self.budget.take(samples.len() as u64) as usize;
        self.driver.metrics.samples_dropped += (samples.len() - taken) as f64;
        self.driver.deliver_samples(until, &samples[..taken]);
        self.samples = samples;
        let mut faults = std::mem::take(&mut self.faults);
        faults.sort_by_key(|fault| (fault.at, fault.page));
        self.driver.deliver_faults(until, &faults);
        faults.clear();
        self.faults = faults;
        self.driver.deliver_migrations(until);
        self.driver.wake_if_due(until);
        self.driver.book(until, &mut stretch);
    }

    fn migrate(&mut self, until: Nanos, stretch: &mut Stretch) {
        let now = self.now as f64;
        self.blocked.retain(|blocked| blocked.to_ns > now);
        let mut copies = ExplicitCopies {
            curves: self.solver.tiers(),
            multipliers: &self.multipliers,
            mechanics: *self.driver.migrator.mechanics(),
            blocked: &mut self.blocked,
            armed: &mut self.armed,
            watched: &mut self.watched,
            charges: &mut self.charges,
            stores: &self.stores,
            pages: self.driver.workload.pages,
        };
        self.driver.migrate(until, &mut copies, stretch);
    }

    /// Sets the guards that the policy has asked for.
    fn take_guards(&mut self) {
        for pages in std::mem::take(&mut self.driver.freed) {
            self.armed.disarm_all(&pages);
            self.watched.disarm_all(&pages);
        }
        for page in std::mem::take(&mut self.driver.moved) {
            self.armed.take(page);
            self.watched.take(page);
        }
        let all = self.driver.workload.pages;
        for pages in std::mem::take(&mut self.driver.arms) {
            for page in pages.filter(|page| self.driver.memory.exists(*page)) {
                self.armed.arm(page, self.now, all);
            }
        }
        for page in std::mem::take(&mut self.driver.released) {
            self.watched.take(page);
        }
    }

    /// Threads lose the time of their moves in faults and of work for the tiering system.
    fn charge(&mut self, threads: &mut [Thread], left: &[f64], share: f64) {
        for (thread, ns) in std::mem::take(&mut self.charges) {
            self.driver.metrics.fault_stall_s += ns / 1e9;
            self.driver.metrics.stall_s += ns / 1e9;
            let last = threads.len() - 1;
            threads[(thread as usize).min(last)].clock_ns += ns / share;
        }
        for (thread, times) in std::mem::take(&mut self.driver.repeated_faults) {
            let ns = f64::from(times) * self.machine.repeated_fault_ns();
            self.driver.metrics.fault_stall_s += ns / 1e9;
            self.driver.metrics.stall_s += ns / 1e9;
            let last = threads.len() - 1;
            threads[(thread as usize).min(last)].clock_ns += ns / share;
        }
        let owed = std::mem::take(&mut self.driver.application_ns);
        if owed > 0.0 {
            self.driver.metrics.stall_s += owed / 1e9;
            let mut running: Vec<&mut Thread> = threads.iter_mut().filter(|t| left[t.group] > 0.0).collect();
            let each = owed / running.len().max(1) as f64 / share;
            running.iter_mut().for_each(|thread| thread.clock_ns += each);
        }
    }

    /// What a thread notices of a page table as it touches `page` by `stream` at `at_ns`: the time that it loses.
    fn touch(&mut self, number: u32, page: u32, stream: &Stream, write: bool, at_ns: f64) -> f64 {
        if let Accessed::Bits(bits) = &mut self.driver.accessed {
            bits[page as usize] = true;
        }
        let mut lost_ns = 0.0;
        let guards = [
            (FaultKind::Hint, &mut self.armed, !stream.first_touch),
            (FaultKind::Write, &mut self.watched, write),
        ];
        for (kind, guard, notices) in guards {
            if let Some(armed_at) = notices.then(|| guard.take(page)).flatten() {
                lost_ns += self.machine.hint_fault_ns;
                self.faults.push(Fault {
                    page,
                    tier: self.driver.memory.tier_of(page),
                    kind,
                    armed_at,
                    at: at_ns as Nanos,
                    thread: number,
                });
            }
        }
        self.driver.metrics.fault_stall_s += lost_ns / 1e9;
        if write && matches!(self.driver.migrator.mechanics().mode, CopyMode::Transactional { .. }) {
            self.stores[0].push((page, at_ns));
        }
        lost_ns
    }

    /// `ops` operations of one thread, access by access.
    fn run_batch(&mut self, phase: &Phase, thread: &mut Thread, ops: f64, share: f64, stretch: &mut Stretch) {
        let group = &phase.groups[thread.group];
        let tiers = self.lines.len();
        let (mut demand, mut lost_ns) = (Demand::default(), 0.0);
        // Latency of demand misses by stream and tier.
        let mut latencies_ns = vec![0.0; group.streams.len() * tiers];
        // Time that demand misses wait for their translations, by stream.
        let mut walks_ns = vec![0.0; group.streams.len()];
        // The same with those of hits.
        let mut entries_ns = vec![0.0; group.streams.len()];
        for (i, s) in group.streams.clone().enumerate() {
            let stream = &phase.streams[s];
            let mlp = misses_in_flight(self.machine, stream);
            let walk = self.walks[s];
            let walk_ns = walk.latency_ns(self.machine, &self.multipliers);
            let writes_per_read = if stream.reads_per_op > 0.0 {
                stream.writebacks_per_op / stream.reads_per_op
            } else {
                0.0
            };
            let reads = take_whole(&mut thread.owed[i][0], ops * stream.reads_per_op);
            let hits = take_whole(&mut thread.owed[i][3], ops * stream.llc_hits_per_op);
            if reads + hits > 0 {
                thread.read_pages[i].clear();
            }
            for _ in 0..reads {
                let (page, line) = self.next_line(stream, thread, i, group.threads);
                thread.read_pages[i].push(page);
                lost_ns += self.touch(thread.number, page, stream, false, thread.clock_ns + lost_ns);
                // Translation comes first: a page on the move is waited for also where a cache has the line.
                lost_ns += self.wait_for(thread.number, page, false, thread.clock_ns + lost_ns);
                let tier = usize::from(self.driver.memory.tier_of(page));
                let prefetched = thread.rng.next_f64() < stream.prefetched_share;
                if !prefetched {
                    for (lines, reads) in self.lines.iter_mut().zip(&walk.reads) {
                        lines[0] += reads;
                        lines[2] += reads;
                    }
                    entries_ns[i] += walk_ns;
                    let cores = &mut self.driver.counters.cores;
                    cores.reads += walk.off_core(self.machine);
                    cores.occupancy_cycles += walk_ns * self.machine.clock_ghz;
                }
                if !stream.missed_llc && self.cache.touch(line) {
                    if !prefetched {
                        demand.hit(self.machine, stream, 1.0, walk_ns);
                    }
                    self.count_hit(prefetched, mlp);
                    continue;
                }
                add_lines(&mut self.lines[tier], 1.0, writes_per_read, stream);
                stretch.reads += 1.0;
                self.driver.observer.read(stream.object, 1.0);
                stretch.fast_reads += f64::from(u8::from(tier == 0));
                let latency = unloaded_ns(self.machine, tier, stream.class) * self.multipliers[tier];
                if prefetched {
                    demand.prefetch(self.machine, latency);
                } else {
                    demand.miss(self.machine, stream, 1.0, latency + walk_ns);
                    walks_ns[i] += walk_ns;
                    latencies_ns[i * tiers + tier] += latency;
                    self.count_miss(tier, latency);
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
                lost_ns += self.touch(thread.number, page, stream, false, thread.clock_ns + lost_ns);
                lost_ns += self.wait_for(thread.number, page, false, thread.clock_ns + lost_ns);
                let tier = usize::from(self.driver.memory.tier_of(page));
                add_lines(&mut self.lines[tier], 0.0, 1.0, stream);
            }
            for _ in 0..hits {
                let page = match (&stream.popularity, thread.visits[i]) {
                    (Popularity::Sweep, _) => self.swept_line(stream, thread, i, group.threads).0,
                    (_, Some(visit)) if stream.reads_per_op > 0.0 => visit.page,
                    _ => self.next_line(stream, thread, i, group.threads).0,
                };
                thread.read_pages[i].push(page);
                lost_ns += self.touch(thread.number, page, stream, false, thread.clock_ns + lost_ns);
                lost_ns += self.wait_for(thread.number, page, false, thread.clock_ns + lost_ns);
                let prefetched = thread.rng.next_f64() < stream.prefetched_share;
                if !prefetched {
                    demand.hit(self.machine, stream, 1.0, 0.0);
                }
                self.count_hit(prefetched, mlp);
            }
            let stores = take_whole(&mut thread.owed[i][2], ops * stream.stores_per_op);
            for nth in 0..stores {
                // A store goes where the operation has read, if it reads.
                let read = thread.read_pages[i].len() as u64;
                let page = match stream.popularity {
                    Popularity::Sweep => self.swept_line(stream, thread, i, group.threads).0,
                    Popularity::Stationary { .. } if read > 0 => {
                        thread.read_pages[i][((nth * read / stores + read - 1) % read) as usize]
                    }
                    Popularity::Stationary { .. } if stream.reads_per_op + stream.writebacks_per_op > 0.0 => {
                        match thread.visits[i] {
                            Some(visit) => visit.page,
                            None => self.next_line(stream, thread, i, group.threads).0,
                        }
                    }
                    Popularity::Stationary { .. } => self.next_line(stream, thread, i, group.threads).0,
                };
                lost_ns += self.touch(thread.number, page, stream, true, thread.clock_ns + lost_ns);
                lost_ns += self.wait_for(thread.number, page, true, thread.clock_ns + lost_ns);
                let tier = self.driver.memory.tier_of(page);
                lost_ns += self.count(thread, page, tier, true) / share;
            }
        }
        self.driver.metrics.stall_s += lost_ns / 1e9;
        let computing_ns = ops * group.cpu_ns_per_op;
        demand.lock(group, ops);
        let mut stalled_ns = demand.stalled_beside_computing_ns(self.machine, computing_ns);
        for (i, s) in group.streams.clone().enumerate() {
            let stream = &phase.streams[s];
            let in_flight = demand.in_flight(self.machine, stream, computing_ns);
            if !stream.class.independent() {
                stalled_ns += walks_ns[i] / in_flight;
            }
            self.driver.counters.cores.outstanding_cycles += entries_ns[i] / in_flight * self.machine.clock_ghz;
            for tier in 0..tiers {
                let wait_ns = latencies_ns[i * tiers + tier] / in_flight;
                self.waited_ns[thread.number as usize * tiers + tier] += wait_ns;
                self.driver.counters.cores.outstanding_cycles += wait_ns * self.machine.clock_ghz;
                if !stream.class.independent() {
                    stalled_ns += wait_ns;
                }
            }
        }
        self.driver.counters.cores.stall_cycles += stalled_ns * self.machine.clock_ghz;
        thread.clock_ns += demand.duration_ns(self.machine, computing_ns) / share + lost_ns;
    }

    /// How long an access of thread `number` at `at_ns` waits for its page.
    fn wait_for(&mut self, number: u32, page: u32, write: bool, at_ns: f64) -> f64 {
        let waits = |b: &&Blocked| {
            b.request.range().contains(&page)
                && b.from_ns <= at_ns
                && at_ns < b.to_ns
                && (write || b.waiting == Waiting::All)
        };
        let waited_ns = self.blocked.iter().find(waits).map_or(0.0, |b| b.to_ns - at_ns);
        self.asleep_ns[number as usize] += waited_ns;
        waited_ns
    }

    /// Counts what goes by time: cycles, busy tiers and traffic of a quantum of `ns`.
    fn count_time(&mut self, ns: f64, threads: f64, share: f64, traffic: &[Traffic]) {
        let counters = &mut self.driver.counters;
        counters.cores.cycles += threads * share * ns * self.machine.clock_ghz;
        let tiers = traffic.len();
        for (number, (tier, traffic)) in counters.tiers.iter_mut().zip(traffic).enumerate() {
            let mut idle = 1.0;
            for waited_ns in self.waited_ns.iter_mut().skip(number).step_by(tiers) {
                // A batch may end after the quantum; what it waits there counts for the next one.
                let now = waited_ns.min(ns);
                *waited_ns -= now;
                idle *= 1.0 - now / ns;
            }
            tier.busy_ns += ns * (1.0 - idle);
            tier.read_bytes += traffic.read_gbps * ns;
            tier.written_bytes += traffic.write_gbps * ns;
        }
    }

    /// Counts a demand read that hits the last-level cache.
    fn count_hit(&mut self, prefetched: bool, mlp: f64) {
        if !prefetched {
            let cores = &mut self.driver.counters.cores;
            let cycles = self.machine.llc_hit_ns * self.machine.clock_ghz;
            cores.reads += 1.0;
            cores.occupancy_cycles += cycles;
            cores.outstanding_cycles += cycles / mlp;
        }
    }

    /// Counts a demand read that misses it.
    fn count_miss(&mut self, tier: usize, latency_ns: f64) {
        let counters = &mut self.driver.counters;
        counters.tiers[tier].inserts += 1.0;
        counters.tiers[tier].occupancy_ns += latency_ns;
        counters.cores.reads += 1.0;
        counters.cores.occupancy_cycles += latency_ns * self.machine.clock_ghz;
    }

    /// Counts an event; returns the time that a record costs the thread.
    fn count(&mut self, thread: &mut Thread, page: u32, tier: u8, store: bool) -> f64 {
        let mut assist_ns = 0.0;
        for (request, until) in self.driver.samplers.iter().zip(&mut thread.until_record) {
            let counts = match request.event {
                Event::Store => store,
                Event::LoadMiss => !store,
                Event::SlowLoadMiss => !store && tier > 0,
            };
            if counts {
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
}

/// When the last operation of a phase ended, once none is left to begin; none where it ends by time alone.
fn ended_ns(phase: &Phase, threads: &[Thread], left: &[f64]) -> Option<f64> {
    let working = || threads.iter().filter(|t| phase.groups[t.group].ops.is_some());
    if working().any(|thread| left[thread.group] > 0.0) {
        return None;
    }
    working().map(|thread| thread.clock_ns).reduce(f64::max)
}

/// Length of the quantum that begins so long after its phase.
fn quantum_ns(since_ns: u64) -> u64 {
    let rest_ns = QUANTUM_NS.saturating_sub(since_ns);
    if rest_ns == 0 {
        QUANTUM_NS
    } else {
        since_ns.max(FIRST_QUANTUM_NS).min(rest_ns)
    }
}

/// Adds `amount` to what is owed and takes the whole part.
fn take_whole(owed: &mut f64, amount: f64) -> u64 {
    *owed += amount;
    let whole = owed.floor();
    *owed -= whole;
    whole as u64
}
