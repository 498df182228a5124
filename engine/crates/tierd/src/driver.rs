//! Drives a policy on the clock of a real machine: the same objects that the simulated machine drives, in the same order
//! (faults, samples, ended migrations, wake-ups).

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tiertune_host::follow::MOST_PROCESSES;
use tiertune_host::source::{Access, Source};
use tiertune_host::{Area, HostError};
use tiertune_policy::{
    Context, CounterRng, Counters, FaultKind, Gauge, Move, Nanos, Order, Outcome, Page, Policy, TierCounters, Topology,
};

use crate::counters::{self, Assumed, Measured};
use crate::kernel::Kernel;
use crate::mover::{Mover, Tally};
use crate::series::{Point, Series};
use crate::signals::{Translator, kind_of};
use crate::table::{Accessed, FRAME_BYTES, Table};

/// Domain of the policy's random numbers.
const POLICY: u64 = 1;
/// The daemon's own work on one task takes at most about this share of the time.
const MOST_SHARE: f64 = 0.05;
/// Work that comes again and again is put off by at most so many of its intervals, unless it takes most of them.
const MOST_INTERVALS: u64 = 10;
/// Longest rest, so that the end of the workload is noticed.
const LONGEST_REST_NS: u64 = 50_000_000;

/// Why a run ends before its workload: the memory of a process is looked at through its first thread.
const UNSEEN: &str = "the first thread of the workload's first process has ended while others go on, so that its memory \
    cannot be looked at any more; keep that thread until the end (pthread_join)";

/// How long to leave work alone that took so long and should be done every `interval_ns`.
fn rest_after(took_ns: u64, interval_ns: u64) -> u64 {
    let rest = (took_ns as f64 / MOST_SHARE) as u64;
    // Of very much memory a fifth of the time is taken before it is looked at more rarely than that.
    rest.clamp(interval_ns, (interval_ns * MOST_INTERVALS).max(4 * took_ns))
}

/// What the driver is set up with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes of a managed page.
    pub page_bytes: u64,
    /// Node of the fast and of the slow tier.
    pub nodes: [u32; 2],
    /// Bytes that the fast tier may hold.
    pub cap_bytes: u64,
    /// Bytes of the slow tier.
    pub slow_bytes: u64,
    /// Least time from one drain of the sources to the next.
    pub drain_ns: u64,
    /// Least time from one look for new and freed memory to the next.
    pub refresh_ns: u64,
    /// Least time from one question to the kernel where all pages are to the next.
    pub resync_ns: u64,
    /// Most bytes moved a second.
    pub most_bytes_per_s: Option<f64>,
    /// Seed of the policy's random numbers.
    pub seed: u64,
    /// Memory that is there at the start is placed as new memory is; otherwise it stays where it is.
    pub place_first: bool,
    /// What the software counters assume.
    pub assumed: Assumed,
}

impl Options {
    /// The machine as a policy is told of it: page numbers for all memory of both tiers, and an eighth more for blocks
    /// that are not full.
    #[must_use]
    pub fn topology(&self) -> Topology {
        let pages = |bytes: u64| u32::try_from(bytes / self.page_bytes).unwrap_or(u32::MAX / 2);
        let both = u64::from(pages(self.cap_bytes)) + u64::from(pages(self.slow_bytes));
        let block = (2 << 20) / self.page_bytes;
        let most = (both + both / 8).div_ceil(block) * block + 64 * block;
        Topology {
            page_bytes: self.page_bytes,
            pages: u32::try_from(most).unwrap_or(u32::MAX / 2),
            capacity_pages: vec![pages(self.cap_bytes), pages(self.slow_bytes)],
        }
    }
}

/// Processor time of the daemon by what it was spent on, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spent {
    /// Reading sources and making signals of what they say.
    pub sampling_ns: u64,
    /// In the policy.
    pub policy_ns: u64,
    /// Moving pages: what the kernel does in the name of the daemon.
    pub migration_ns: u64,
    /// Following processes and their memory.
    pub memory_ns: u64,
}

/// Counts beside migrations.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Counts {
    /// Drains of the sources.
    pub drains: u64,
    /// Records that sources read.
    pub records: u64,
    /// Records that sources lost.
    pub lost: u64,
    /// How often sources were throttled.
    pub throttled: u64,
    /// Accesses to memory that is not managed.
    pub elsewhere: u64,
    /// Samples that the policy was given.
    pub samples: u64,
    /// Hint faults that the policy was given.
    pub hint_faults: u64,
    /// Wake-ups of the policy.
    pub wakes: u64,
    /// Looks for new and freed memory.
    pub refreshes: u64,
    /// Questions to the kernel where all pages are.
    pub resyncs: u64,
    /// Pages that the kernel had moved by itself.
    pub foreign_pages: u64,
    /// Times at which the fast tier held more than its cap, before the excess was moved.
    pub over_cap: u64,
    /// Most bytes above the cap that were found.
    pub most_over_cap_bytes: u64,
    /// Most bytes above the cap that were left after moving the excess.
    pub most_left_over_cap_bytes: u64,
    /// Processes that were managed.
    pub processes: u64,
    /// Child processes that no source could watch; their memory is managed all the same.
    pub unwatched: u64,
    /// Most processes at a time that were not managed, since there were too many.
    pub unmanaged_processes: u64,
    /// Most bytes for which there were no page numbers left.
    pub unmanaged_bytes: u64,
    /// Most bytes of the fast tier at a time.
    pub most_fast_bytes: u64,
    /// Most bytes in memory at a time.
    pub most_present_bytes: u64,
}

/// A process that is managed.
#[derive(Debug)]
pub(crate) struct Managed {
    pub image: String,
    pub areas: Vec<Area>,
    /// Number of each mapping, in the order of `areas`.
    pub objects: Vec<u32>,
}

/// Policy, page table, sources and migrations.
pub struct Driver<K> {
    pub(crate) kernel: K,
    pub(crate) options: Options,
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) sources: Vec<Box<dyn Source>>,
    pub(crate) translator: Translator,
    pub(crate) table: Table,
    pub(crate) mover: Mover,
    pub(crate) accessed: Accessed,
    pub(crate) managed: BTreeMap<i32, Managed>,
    pub(crate) sites: Vec<String>,
    pub(crate) next_object: u32,
    pub(crate) frames_seen: BTreeSet<u64>,
    pub(crate) counts: Counts,
    pub(crate) spent: Spent,
    pub(crate) placing: bool,
    /// Why something of the workload's memory could not be looked at.
    pub(crate) refused: Option<String>,
    needs_counters: bool,
    needs_run_times: bool,
    counters: Counters,
    /// What hardware counts, where it does.
    measured: Option<Box<dyn Measured>>,
    /// What is missing of each thread's own count to the policy's time, by number.
    run_begun_ns: Vec<f64>,
    counted_at: Nanos,
    counted_cpu_ns: u64,
    rng: CounterRng,
    wake: Option<Nanos>,
    start_ns: u64,
    next_drain_ns: u64,
    next_refresh_ns: u64,
    next_resync_ns: u64,
    accesses: Vec<Access>,
    moves: Vec<Move>,
    orders: Vec<Order>,
    series: Series,
}

impl<K: Kernel> Driver<K> {
    /// Sets up; nothing is looked at before the first [`Self::turn`].
    #[must_use]
    pub fn new(
        mut kernel: K,
        options: Options,
        policy: Box<dyn Policy>,
        sources: Vec<Box<dyn Source>>,
        translator: Translator,
    ) -> Self {
        let topology = options.topology();
        let start_ns = kernel.now_ns();
        Self {
            table: Table::new(
                options.page_bytes,
                topology.pages,
                options.cap_bytes,
                topology.capacity_pages[1],
            ),
            mover: Mover::new(options.nodes, options.most_bytes_per_s),
            accessed: Accessed::default(),
            managed: BTreeMap::new(),
            sites: Vec::new(),
            next_object: 0,
            frames_seen: BTreeSet::new(),
            counts: Counts::default(),
            spent: Spent::default(),
            placing: options.place_first,
            refused: None,
            needs_counters: policy.needs().counters,
            // Where faults are made up of what a process has accessed, nobody knows which thread it was.
            needs_run_times: policy.needs().hint_faults && translator.names_threads(),
            run_begun_ns: Vec::new(),
            counters: Counters {
                tiers: vec![TierCounters::default(); 2],
                ..Counters::default()
            },
            measured: None,
            counted_at: 0,
            counted_cpu_ns: 0,
            rng: CounterRng::new(options.seed, &[POLICY]),
            wake: Some(0),
            start_ns,
            next_drain_ns: start_ns + options.drain_ns,
            next_refresh_ns: start_ns,
            next_resync_ns: start_ns + options.resync_ns,
            accesses: Vec::new(),
            moves: Vec::new(),
            orders: Vec::new(),
            series: Series::default(),
            kernel,
            options,
            policy,
            sources,
            translator,
        }
    }

    /// With counters of hardware in place of those made of samples.
    #[must_use]
    pub fn with_counters(mut self, measured: Box<dyn Measured>) -> Self {
        self.measured = Some(measured);
        self
    }

    /// The time as the policy is told of it.
    pub fn now(&mut self) -> Nanos {
        self.kernel.now_ns().saturating_sub(self.start_ns)
    }

    /// Calls the policy and takes up what it asks for.
    pub(crate) fn call<R>(&mut self, work: impl FnOnce(&mut dyn Policy, &mut Context<'_>) -> R) -> R {
        let now = self.now();
        let begun = self.kernel.own_cpu_ns();
        let mut context = Context {
            now,
            pages: &self.table,
            accessed: &mut self.accessed,
            counters: &self.counters,
            truth: None,
            rng: &mut self.rng,
            moves: &mut self.moves,
            orders: &mut self.orders,
            wake_at: &mut self.wake,
        };
        let result = work(self.policy.as_mut(), &mut context);
        self.spent.policy_ns += self.kernel.own_cpu_ns() - begun;
        if self.moves.iter().any(|request| request.how.is_at_once()) {
            let (at_once, later): (Vec<Move>, Vec<Move>) = std::mem::take(&mut self.moves)
                .into_iter()
                .partition(|request| request.how.is_at_once());
            self.moves = later;
            let begun = self.kernel.own_cpu_ns();
            self.mover.at_once(at_once, &mut self.kernel, &mut self.table, now);
            self.spent.migration_ns += self.kernel.own_cpu_ns() - begun;
        }
        self.mover.ask(&mut self.moves);
        for order in std::mem::take(&mut self.orders) {
            self.obey(order, now);
        }
        result
    }

    fn obey(&mut self, order: Order, now: Nanos) {
        match order {
            Order::Arm(pages) => {
                self.translator.arm(pages.clone(), now);
                if self.sources.iter().any(|source| source.signals().hint_faults) {
                    self.arm(pages);
                }
            }
            Order::SamplingPeriod(event, period) => {
                if self.translator.set_period(event, period) {
                    for source in &mut self.sources {
                        source.set_period(kind_of(event), period);
                    }
                }
            }
            // Frames are never kept, and what work costs is felt here, not charged.
            Order::Release(_) | Order::Background(_) | Order::InApplication(_) | Order::FaultAgain { .. } => {}
        }
    }

    /// Asks sources for the first touch of pages.
    fn arm(&mut self, pages: std::ops::Range<Page>) {
        let mut by_process: BTreeMap<i32, Vec<std::ops::Range<u64>>> = BTreeMap::new();
        let bytes = self.options.page_bytes;
        for page in pages {
            if !self.table.exists(page) {
                continue;
            }
            let (number, from, _) = self.table.frames_of(page);
            let block = self.table.block(number);
            let start = (block.chunk << 21) + from as u64 * FRAME_BYTES;
            let ranges = by_process.entry(block.pid).or_default();
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end += bytes,
                _ => ranges.push(start..start + bytes),
            }
        }
        for source in self.sources.iter_mut().filter(|source| source.signals().hint_faults) {
            for (pid, ranges) in &by_process {
                // The guards of a process that ends meanwhile are of no use any more.
                let _ = source.arm(*pid, ranges);
            }
        }
    }

    /// Does what is due, and rests until something is. False when the workload has ended.
    ///
    /// # Errors
    /// When a source fails for good, or the first process cannot be watched.
    pub fn turn(&mut self) -> Result<bool, HostError> {
        if !self.kernel.lives() {
            // What was left of it is let go of in good order.
            self.refresh(true)?;
            return Ok(false);
        }
        let clock_ns = self.kernel.now_ns();
        if clock_ns >= self.next_refresh_ns {
            let full = clock_ns >= self.next_resync_ns;
            let before_ns = self.spent.memory_ns;
            self.refresh(full)?;
            // Its own work, without the moves and the policy's part, which are rested for by nobody.
            let took_ns = self.spent.memory_ns - before_ns;
            let now_ns = self.kernel.now_ns();
            if full {
                self.next_resync_ns = now_ns + rest_after(took_ns, self.options.resync_ns);
            }
            self.next_refresh_ns = now_ns + rest_after(took_ns, self.options.refresh_ns);
            if self.managed.is_empty() {
                // What has ended is no failure; what goes on unseen is one.
                return if self.kernel.lives() {
                    Err(HostError::Unfit(UNSEEN.to_owned()))
                } else {
                    Ok(false)
                };
            }
        }
        let clock_ns = self.kernel.now_ns();
        if clock_ns >= self.next_drain_ns {
            let before_ns = self.spent.sampling_ns;
            self.drain()?;
            let took_ns = self.spent.sampling_ns - before_ns;
            self.next_drain_ns = clock_ns + rest_after(took_ns, self.options.drain_ns);
        }
        let (now, begun) = (self.now(), self.kernel.own_cpu_ns());
        self.mover.step(&mut self.kernel, &mut self.table, now);
        self.spent.migration_ns += self.kernel.own_cpu_ns() - begun;
        self.deliver_migrations();
        let now = self.now();
        if self.wake.is_some_and(|at| at <= now) {
            self.wake = None;
            self.counts.wakes += 1;
            self.call(|policy, cx| policy.on_wake(cx));
        }
        self.note();
        self.rest();
        Ok(true)
    }

    fn rest(&mut self) {
        let now_ns = self.kernel.now_ns();
        let wake_ns = self.wake.map(|at| self.start_ns + at);
        let next = [
            Some(self.next_drain_ns),
            Some(self.next_refresh_ns),
            wake_ns,
            self.mover.next_at_ns(),
        ];
        let next = next.into_iter().flatten().min().unwrap_or(u64::MAX);
        let until = next.min(now_ns + LONGEST_REST_NS);
        if until > now_ns {
            self.kernel.rest(until);
        }
    }

    /// Reads the sources and tells the policy.
    fn drain(&mut self) -> Result<(), HostError> {
        let begun = self.kernel.own_cpu_ns();
        self.accesses.clear();
        for source in &mut self.sources {
            let drained = source.drain(&mut self.accesses)?;
            self.counts.records += drained.records;
            self.counts.lost += drained.lost;
            self.counts.throttled += drained.throttled;
        }
        self.counts.drains += 1;
        let start_ns = self.start_ns;
        let news = self
            .translator
            .translate(&self.accesses, &mut self.table, &mut self.accessed, |time_ns| {
                time_ns.saturating_sub(start_ns)
            });
        self.counts.elsewhere = self.translator.elsewhere;
        if self.needs_counters {
            self.count()?;
        }
        if self.needs_run_times {
            self.read_run_times();
        }
        self.spent.sampling_ns += self.kernel.own_cpu_ns() - begun;
        if !news.faults.is_empty() {
            self.counts.hint_faults += news.faults.iter().filter(|fault| fault.kind == FaultKind::Hint).count() as u64;
            self.call(|policy, cx| policy.on_faults(&news.faults, cx));
        }
        if !news.samples.is_empty() {
            self.counts.samples += news.samples.len() as u64;
            self.call(|policy, cx| policy.on_samples(&news.samples, cx));
        }
        Ok(())
    }

    /// Reads how long threads have run; one that was not known is taken to have run until now.
    fn read_run_times(&mut self) {
        let now = self.now() as f64;
        for (thread, number) in self.translator.threads() {
            let (run_ns, number) = (self.kernel.thread_run_ns(thread), number as usize);
            if number >= self.run_begun_ns.len() {
                self.run_begun_ns.resize(number + 1, f64::NAN);
                self.counters.run_ns.resize(number + 1, now);
            }
            let Some(run_ns) = run_ns.map(|ns| ns as f64) else {
                continue;
            };
            if self.run_begun_ns[number].is_nan() {
                self.run_begun_ns[number] = now - run_ns;
            }
            self.counters.run_ns[number] = self.run_begun_ns[number] + run_ns;
            if self.managed.contains_key(&thread) {
                // The thread that a process begins with has its number.
                self.counters.first_thread.get_or_insert(number as u32);
            }
        }
    }

    /// Brings the counters up to date.
    fn count(&mut self) -> Result<(), HostError> {
        if let Some(measured) = &mut self.measured {
            let failed = |error| HostError::Unfit(format!("the counters of requests to memory: {error}"));
            counters::add(&mut self.counters, &measured.more().map_err(failed)?);
            return Ok(());
        }
        let now = self.now();
        let cpu_ns = self.kernel.workload_cpu_ns();
        counters::count(
            &mut self.counters,
            self.translator.events,
            (now - self.counted_at) as f64,
            cpu_ns.saturating_sub(self.counted_cpu_ns) as f64,
            &self.options.assumed,
        );
        (self.counted_at, self.counted_cpu_ns) = (now, cpu_ns.max(self.counted_cpu_ns));
        Ok(())
    }

    /// Reports ended migrations to the policy.
    pub(crate) fn deliver_migrations(&mut self) {
        let ended = self.mover.take_ended();
        if ended.is_empty() {
            return;
        }
        for migrated in ended.iter().filter(|migrated| migrated.outcome == Outcome::Done) {
            migrated.request.range().for_each(|page| self.translator.disarm(page));
        }
        let idle = self.mover.idle();
        self.call(|policy, cx| policy.on_migrations(&ended, idle, cx));
    }

    fn note(&mut self) {
        let now = self.now();
        self.counts.most_fast_bytes = self.counts.most_fast_bytes.max(self.table.fast_bytes());
        self.counts.most_present_bytes = self.counts.most_present_bytes.max(self.table.present_bytes());
        if self.series.is_due(now) {
            let point = self.point(now);
            self.series.push(point);
        }
    }

    fn point(&self, now: Nanos) -> Point {
        Point {
            at_s: now as f64 / 1e9,
            fast_bytes: self.table.fast_bytes(),
            present_bytes: self.table.present_bytes(),
            promoted_bytes: self.mover.tally.promoted_bytes,
            demoted_bytes: self.mover.tally.demoted_bytes,
            samples: self.counts.samples,
            hint_faults: self.counts.hint_faults,
            lost: self.counts.lost,
        }
    }

    /// Asks the kernel where everything is, now.
    ///
    /// # Errors
    /// When the first process cannot be watched.
    pub fn resync(&mut self) -> Result<(), HostError> {
        self.refresh(true)
    }

    /// What a reader of the report has to know of the sources, and of what is not managed.
    pub fn notes(&self) -> Vec<String> {
        let of_sources = self.sources.iter().flat_map(|source| source.notes());
        of_sources.chain(self.crowd()).collect()
    }

    /// That there are too many processes, where there are.
    #[must_use]
    pub fn crowd(&self) -> Option<String> {
        let left_out = self.counts.unmanaged_processes;
        (left_out > 0).then(|| {
            format!(
                "the workload has more than {MOST_PROCESSES} processes: {left_out} or more at a time are not managed, and \
                 their memory is neither moved nor counted in the fast tier"
            )
        })
    }

    /// Ends the watching; nothing is asked of the policy any more.
    pub fn detach(&mut self) {
        let now = self.now();
        let point = self.point(now);
        self.series.push(point);
        self.sources.iter_mut().for_each(|source| source.detach());
    }

    /// How things are now.
    pub fn latest(&mut self) -> Point {
        let now = self.now();
        self.point(now)
    }

    /// Series so far.
    #[must_use]
    pub fn series(&self) -> &Series {
        &self.series
    }

    /// Counts so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What came of migrations so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.mover.tally
    }

    /// Processor time so far.
    #[must_use]
    pub fn spent(&self) -> &Spent {
        &self.spent
    }

    /// What the policy reports of itself.
    #[must_use]
    pub fn gauges(&self) -> Vec<Gauge> {
        self.policy.gauges()
    }

    /// What signals were made of.
    #[must_use]
    pub fn translator(&self) -> &Translator {
        &self.translator
    }

    /// The page table.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The operating system.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel
    }

    /// Bytes that the daemon keeps about pages, without the policy's own.
    #[must_use]
    pub fn own_bytes(&self) -> u64 {
        self.table.own_bytes() + self.accessed.own_bytes() + self.translator.own_bytes()
    }
}
