//! What both modes of the simulated machine share: the policy, its memory and its migrations.

use std::ops::Range;

use serde::Serialize;
use tiertune_policy::{
    AccessedBits, Context, CounterRng, Counters, Event, Extent, Fault, FaultKind, How, Migrated, MigrationMechanics,
    Move, Nanos, Needs, Order, Outcome, Overheads, Page, Placement, Policy, Sample, SamplerRequest, TierCounters,
    Topology, Truth,
};

use crate::co_runner::CoRunners;
use crate::error::RunError;
use crate::latency::{TierLatency, Traffic};
use crate::lifetime;
use crate::memory::Memory;
use crate::metrics::{Metrics, Stretch, Timeline, TimelineColumns};
use crate::migration::{Copies, Copying, Migrator, Step};
use crate::observe::Observer;
use crate::page_map::{PageMap, Recorder};
use crate::scenario::{Mode, Noise, Request};
use crate::timings::Timings;
use crate::touches::Touches;
use crate::truth::Foresight;
use crate::workload::{Phase, Workload};

/// Domains of random numbers, so that no two purposes share a stream.
pub(crate) mod domain {
    pub const POLICY: u64 = 1;
    pub const PHASES: u64 = 2;
    pub const ACCESSES: u64 = 3;
    pub const TOUCHES: u64 = 4;
    pub const GUARDS: u64 = 5;
    pub const COPIES: u64 = 6;
    pub const REHEARSAL: u64 = 7;
    pub const CACHE: u64 = 8;
}

/// When a phase began.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseStart {
    /// Its name.
    pub name: String,
    /// Seconds since the start.
    pub start_s: f64,
}

/// What a run returns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunResult {
    /// Figures.
    pub metrics: Metrics,
    /// Series over time; empty when none was asked for.
    pub timeline: TimelineColumns,
    /// When each phase began, with the series; phases of one name in a row count as one.
    pub phases: Vec<PhaseStart>,
    /// Whether the run was given up, so that its figures are those of a part of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub gave_up: bool,
    /// What the policy reports of itself, by name.
    pub gauges: std::collections::BTreeMap<String, f64>,
    /// What was asked for beside the metrics, by name.
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub observed: std::collections::BTreeMap<String, f64>,
    /// The system's knobs as they applied, defaults filled in.
    pub config: tiertune_policy::Config,
    /// Which pages were read and where they were, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_map: Option<PageMap>,
    /// Where the run's own time went, if that was asked for; the only part that is not reproducible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings: Option<Timings>,
}

/// Accessed bits as a mode keeps them.
pub enum Accessed<'w> {
    /// Nobody reads them.
    Unread,
    /// Drawn from rates.
    Rates(Touches<'w>),
    /// Set by every access, a bool a page.
    Bits(Vec<bool>),
}

impl AccessedBits for Accessed<'_> {
    fn test_and_clear(&mut self, page: Page) -> bool {
        match self {
            Accessed::Unread => panic!("the policy reads accessed bits, but does not say that it needs them"),
            Accessed::Rates(touches) => touches.test_and_clear(page),
            Accessed::Bits(bits) => std::mem::take(&mut bits[page as usize]),
        }
    }

    fn test(&mut self, page: Page) -> bool {
        match self {
            Accessed::Unread => panic!("the policy reads accessed bits, but does not say that it needs them"),
            Accessed::Rates(touches) => touches.test(page),
            Accessed::Bits(bits) => bits[page as usize],
        }
    }

    fn fetch(&self, page: Page) {
        if let Accessed::Rates(touches) = self {
            touches.fetch(page);
        }
    }
}

/// Policy, page table and migrator on a virtual clock.
pub struct Driver<'w> {
    /// The workload.
    pub workload: &'w Workload,
    /// The page table.
    pub memory: Memory,
    /// Migrations.
    pub migrator: Migrator,
    /// Samplers that the policy asked for.
    pub samplers: Vec<SamplerRequest>,
    /// What running the policy costs.
    pub overheads: Overheads,
    /// The signals it needs.
    pub needs: Needs,
    /// Accessed bits.
    pub accessed: Accessed<'w>,
    /// Counters.
    pub counters: Counters,
    /// The truth, for policies that need it.
    pub truth: Option<Foresight<'w>>,
    /// Pages to guard, as asked and not yet taken up.
    pub arms: Vec<Range<Page>>,
    /// Pages that were freed; their guards are gone with the mapping.
    pub freed: Vec<Range<Page>>,
    /// Pages that moved between two slices; their guards are gone.
    pub moved: Vec<Page>,
    /// Pages whose kept frame was given up.
    pub released: Vec<Page>,
    /// Time that application threads owe for work of the tiering system.
    pub application_ns: f64,
    /// Threads of the phase.
    threads: u32,
    cores: u32,
    /// Time that a core loses to an interrupt for a page that moves.
    shootdown_ns: f64,
    /// Threads that take a fault again, and how often, not yet charged.
    pub repeated_faults: Vec<(u32, u32)>,
    /// Time that the tiering system's threads have yet to spend.
    background_ns: f64,
    /// Sums so far.
    pub totals: Stretch,
    /// Counts beside the sums.
    pub metrics: Metrics,
    /// Key of all random numbers.
    pub key: u64,
    policy: Box<dyn Policy>,
    rng: CounterRng,
    wake: Option<Nanos>,
    timeline: Timeline,
    /// Which pages are read, and where they are.
    pub page_map: Recorder,
    /// What is counted beside the metrics.
    pub observer: Observer,
    /// When each phase began, phases of one name in a row as one.
    phases: Vec<PhaseStart>,
    moves: Vec<Move>,
    orders: Vec<Order>,
    ended: Vec<Migrated>,
    config: tiertune_policy::Config,
    co_runners: CoRunners,
    unbooked_bytes: Vec<[f64; 2]>,
    curves: Vec<TierLatency>,
    /// What is there before the first phase was placed before the run, so that what makes room for it costs nothing.
    placing: bool,
    /// Phases before the run: when the last of them began, if it is under way, and what they took.
    untimed: Untimed,
}

/// Time and operations that do not count.
#[derive(Debug, Default)]
struct Untimed {
    since: Option<(Nanos, f64)>,
    ns: Nanos,
    ops: f64,
}

impl Untimed {
    /// A phase begins, or the run ends, after so many operations.
    fn turn(&mut self, now: Nanos, ops: f64, timed: bool) {
        if let Some((since, before)) = self.since.take() {
            self.ns += now - since;
            self.ops += ops - before;
        }
        self.since = (!timed).then_some((now, ops));
    }
}

impl<'w> Driver<'w> {
    /// Places the workload's first pages, as `policy` says. The request's config has every knob.
    pub fn new(workload: &'w Workload, request: &'w Request, policy: Box<dyn Policy>) -> Result<Self, RunError> {
        let topology = topology(workload, request);
        let config = request.config.clone();
        let key = noise_key(request, &config);
        let needs = policy.needs();
        let tiers = request.machine.tiers.len();
        let mut driver = Self {
            workload,
            migrator: Migrator::new(
                policy.mechanics(),
                request.machine.migration_cost,
                request.page_bytes,
                workload.pages,
            ),
            memory: Memory::new(workload, topology.capacity_pages),
            samplers: policy.samplers(),
            overheads: policy.overheads(),
            needs,
            accessed: Accessed::Unread,
            counters: Counters {
                tiers: vec![TierCounters::default(); tiers],
                run_ns: vec![
                    0.0;
                    if needs.hint_faults {
                        workload.max_threads as usize
                    } else {
                        0
                    }
                ],
                first_thread: (!workload.first_thread_waits).then_some(0),
                ..Counters::default()
            },
            truth: None,
            arms: Vec::new(),
            freed: Vec::new(),
            moved: Vec::new(),
            released: Vec::new(),
            application_ns: 0.0,
            threads: 0,
            cores: request.machine.cores,
            shootdown_ns: request.machine.shootdown_ns,
            repeated_faults: Vec::new(),
            background_ns: 0.0,
            totals: Stretch::default(),
            metrics: Metrics::default(),
            key,
            policy,
            rng: CounterRng::new(key, &[domain::POLICY]),
            wake: None,
            timeline: Timeline::new(request.timeline_points),
            page_map: Recorder::new(request.page_map.filter(|_| request.mode == Mode::Fast), workload),
            observer: Observer::new(&request.observe, workload),
            phases: Vec::new(),
            moves: Vec::new(),
            orders: Vec::new(),
            ended: Vec::new(),
            config,
            co_runners: CoRunners::new(&request.contention, &request.machine.tiers),
            unbooked_bytes: vec![[0.0; 2]; tiers],
            curves: request.machine.tiers.iter().map(TierLatency::new).collect(),
            placing: true,
            untimed: Untimed::default(),
        };
        if needs.truth {
            let (co_runners, busy_cores) = (driver.co_runners.clone(), driver.overheads.busy_cores);
            driver.truth = Some(Foresight::new(workload, &request.machine, co_runners, busy_cores));
        }
        if needs.accessed_bits {
            let rng = CounterRng::new(key, &[domain::TOUCHES]);
            driver.accessed = match request.mode {
                Mode::Fast => Accessed::Rates(Touches::new(workload, rng)),
                // The fault that maps a page sets its bit.
                Mode::Reference => Accessed::Bits(vec![true; workload.pages as usize]),
            };
        }
        for index in 0..workload.objects.len() {
            if workload.objects[index].initial {
                driver.allocate(0, index, Some(request))?;
                for freed in lifetime::freed_after(&workload.objects, index) {
                    driver.free(0, freed);
                }
            }
        }
        driver.placing = false;
        driver.wake = Some(0);
        driver.wake_if_due(0);
        Ok(driver)
    }

    fn extent(&self, index: usize) -> Extent {
        let object = &self.workload.objects[index];
        Extent {
            object: index as u32,
            site: object.site,
            start: object.first_page,
            pages: object.pages,
            whole_pages: object.mapping_pages,
        }
    }

    /// Allocates an object; `request` when the whole footprint has yet to be checked.
    fn allocate(&mut self, now: Nanos, index: usize, request: Option<&Request>) -> Result<(), RunError> {
        let extent = self.extent(index);
        let placement = self.call(now, |policy, cx| policy.on_alloc(&extent, cx));
        let room: u64 = self.memory.capacity().iter().map(|pages| u64::from(*pages)).sum();
        if let Some(request) =
            request.filter(|_| placement != Placement::FastUnbounded && room < u64::from(self.workload.peak_pages))
        {
            return Err(RunError::Footprint {
                footprint_bytes: u64::from(self.workload.peak_pages) * request.page_bytes,
                fast_bytes: request.fast_bytes,
                slow_bytes: request.machine.tiers[1..].iter().map(|t| t.capacity_bytes).sum(),
            });
        }
        // Allocations go before kept frames and copies under way.
        if self.memory.free_pages_in_all() < u64::from(extent.pages) {
            self.released.extend(self.memory.release_all());
            self.migrator.cancel(0..Page::MAX, now, &mut self.memory);
        }
        let object = &self.workload.objects[index];
        let together = if self.placing && object.side_by_side {
            let beside = self.workload.objects[index..].iter();
            beside
                .filter(|other| other.initial && other.side_by_side)
                .map(|other| u64::from(other.pages))
                .sum()
        } else {
            u64::from(object.pages)
        };
        self.memory.place(index, object, placement, together);
        Ok(())
    }

    /// Frees an object.
    fn free(&mut self, now: Nanos, index: usize) {
        let extent = self.extent(index);
        let pages = extent.start..extent.start + extent.pages;
        self.call(now, |policy, cx| policy.on_free(&extent, cx));
        self.migrator.cancel(pages.clone(), now, &mut self.memory);
        self.freed.push(pages);
        self.memory.remove(index, &self.workload.objects[index]);
    }

    /// Frees and allocates what a phase begins with.
    pub fn begin_phase(&mut self, now: Nanos, phase: &'w Phase) {
        self.untimed.turn(now, self.totals.ops, phase.timed);
        self.threads = phase.groups.iter().map(|group| group.threads).sum();
        if self.timeline.is_on() && self.phases.last().is_none_or(|last| last.name != phase.name) {
            self.phases.push(PhaseStart {
                name: phase.name.clone(),
                start_s: now as f64 / 1e9,
            });
        }
        for index in &phase.free {
            self.free(now, *index);
        }
        if !phase.free.is_empty() {
            self.deliver_migrations(now);
        }
        for index in &phase.allocate {
            self.allocate(now, *index, None)
                .expect("the most that ever exists was checked to fit");
        }
        if let Accessed::Rates(touches) = &mut self.accessed {
            touches.begin(phase);
        }
    }

    /// Time since the run began, as far as it counts.
    #[must_use]
    pub fn timed_ns(&self, now: Nanos) -> Nanos {
        now - self.untimed.ns - self.untimed.since.map_or(0, |(since, _)| now - since)
    }

    /// Calls the policy and takes up what it asks for.
    fn call<R>(&mut self, now: Nanos, f: impl FnOnce(&mut dyn Policy, &mut Context<'_>) -> R) -> R {
        let mut context = Context {
            now,
            pages: &self.memory,
            accessed: &mut self.accessed,
            counters: &self.counters,
            truth: self.truth.as_ref().map(|truth| truth as &dyn Truth),
            rng: &mut self.rng,
            moves: &mut self.moves,
            orders: &mut self.orders,
            wake_at: &mut self.wake,
        };
        let result = f(self.policy.as_mut(), &mut context);
        self.move_at_once(now);
        self.migrator.request(&mut self.moves, now);
        for order in std::mem::take(&mut self.orders) {
            self.obey(order);
        }
        result
    }

    /// Carries out the requested moves that are over before anything else happens.
    fn move_at_once(&mut self, now: Nanos) {
        if !self.moves.iter().any(|request| request.how.is_at_once()) {
            return;
        }
        let (at_once, later): (Vec<Move>, Vec<Move>) = std::mem::take(&mut self.moves)
            .into_iter()
            .partition(|request| request.how.is_at_once());
        self.moves = later;
        let objects = &self.workload.objects;
        for request in at_once {
            assert!(
                request.how != How::Free || self.needs.truth,
                "only an offline oracle moves pages at no cost"
            );
            let Ok(from) = self.migrator.move_at_once(request, now, &mut self.memory, objects) else {
                continue;
            };
            self.moved.extend(request.range());
            if self.placing && request.how == How::Reclaim {
                continue;
            }
            let pages = f64::from(request.pages);
            if request.to < from {
                self.totals.promotions += pages;
            } else {
                self.totals.demotions += pages;
            }
            if request.how == How::Reclaim {
                // At unloaded latency: the application does nothing else while it allocates.
                let unloaded = vec![1.0; self.curves.len()];
                let ns = self.migrator.duration_ns(&self.curves, &unloaded, &request, from) as f64;
                self.application_ns += ns;
                self.metrics.fault_stall_s += ns / 1e9;
                let bytes = pages * self.workload.page_bytes as f64;
                self.metrics.migrated_bytes += bytes;
                self.unbooked_bytes[usize::from(from)][0] += bytes;
                self.unbooked_bytes[usize::from(request.to)][1] += bytes;
            }
        }
    }

    /// The truth changes with the phase, and the policy may act on it before anything is accessed.
    pub fn foresee(&mut self, now: Nanos, phase: &'w Phase) {
        let Some(truth) = &mut self.truth else { return };
        truth.begin(phase, &self.memory);
        self.call(now, |policy, cx| policy.on_wake(cx));
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Arm(pages) => self.arms.push(pages),
            Order::Release(page) => {
                if self.memory.release(page) {
                    self.released.push(page);
                }
            }
            Order::SamplingPeriod(event, period) => {
                for sampler in self.samplers.iter_mut().filter(|sampler| sampler.event == event) {
                    sampler.period = period.max(1);
                }
            }
            Order::Background(ns) => {
                self.background_ns += ns as f64;
                self.metrics.policy_cpu_s += ns as f64 / 1e9;
            }
            Order::InApplication(ns) => {
                self.application_ns += ns as f64;
                self.metrics.scan_stall_s += ns as f64 / 1e9;
            }
            Order::FaultAgain { thread, times } => self.repeated_faults.push((thread, times)),
        }
    }

    /// Cores that the tiering system's threads take in the next `ns`.
    #[must_use]
    pub fn busy_cores(&self, ns: f64) -> f64 {
        self.overheads.busy_cores + (self.background_ns / ns.max(1.0)).min(1.0)
    }

    /// Thread `number` has run on a core for `ns`.
    pub fn run(&mut self, number: usize, ns: f64) {
        if let Some(run_ns) = self.counters.run_ns.get_mut(number) {
            *run_ns += ns;
        }
    }

    /// The tiering system's threads have run for `ns`.
    pub fn pay_background(&mut self, ns: f64) {
        self.background_ns = (self.background_ns - ns).max(0.0);
    }

    /// Traffic by tier of co-runners and of copies, for a stretch of `ns`: those under way, and what
    /// [`Self::settle_copies`] found to have been copied beyond what was counted before.
    #[must_use]
    pub fn foreign_traffic(&self, curves: &[TierLatency], ns: f64) -> Vec<Traffic> {
        let mut traffic = self.copy_traffic(curves, ns);
        for (traffic, others) in traffic.iter_mut().zip(self.co_runners.traffic()) {
            traffic.read_gbps += others.read_gbps;
            traffic.write_gbps += others.write_gbps;
        }
        traffic
    }

    /// The part of [`Self::foreign_traffic`] that is copies.
    #[must_use]
    pub fn copy_traffic(&self, curves: &[TierLatency], ns: f64) -> Vec<Traffic> {
        let co_runners = self.co_runners.constant();
        let mut copies = vec![Traffic::default(); co_runners.len()];
        for copying in self.migrator.copying() {
            let gbps = self.migrator.gbps(copying);
            copies[usize::from(copying.from)].read_gbps += gbps;
            copies[usize::from(copying.request.to)].write_gbps += gbps;
        }
        for (tier, copies) in copies.iter_mut().enumerate() {
            copies.read_gbps = (copies.read_gbps + self.unbooked_bytes[tier][0] / ns).max(0.0);
            copies.write_gbps = (copies.write_gbps + self.unbooked_bytes[tier][1] / ns).max(0.0);
            let (wanted, room) = (
                curves[tier].utilisation(*copies),
                curves[tier].room_for_copies(co_runners[tier]),
            );
            let fit = if wanted > room { room / wanted } else { 1.0 };
            copies.read_gbps *= fit;
            copies.write_gbps *= fit;
        }
        copies
    }

    /// What co-runners do.
    #[must_use]
    pub fn co_runners(&self) -> &CoRunners {
        &self.co_runners
    }

    /// Latencies have settled at these multiples of the unloaded ones, which co-runners feel too.
    pub fn settle_co_runners(&mut self, multipliers: &[f64]) {
        self.co_runners.settle(multipliers);
    }

    /// Notes by how much the copies of the last `ns` differ from the `foreign` traffic assumed for them.
    pub fn settle_copies(&mut self, foreign: &[Traffic], ns: f64) {
        let copied = self.migrator.take_copied();
        for (tier, unbooked) in self.unbooked_bytes.iter_mut().enumerate() {
            let (assumed, others) = (foreign[tier], self.co_runners.traffic()[tier]);
            unbooked[0] += copied[tier][0] - (assumed.read_gbps - others.read_gbps) * ns;
            unbooked[1] += copied[tier][1] - (assumed.write_gbps - others.write_gbps) * ns;
        }
    }

    /// Co-runners do what they do at `now`.
    pub fn set_co_runners(&mut self, now: Nanos) {
        let changed = self.co_runners.set_time(now);
        if let Some(truth) = self.truth.as_mut().filter(|_| changed) {
            truth.set_co_runners(self.co_runners.clone());
            self.call(now, |policy, cx| policy.on_wake(cx));
        }
    }

    /// When a mode has to stop at the latest, at or after `now`: the policy is to be woken, its last copy has ended, a
    /// co-runner changes what it does, or the run is at its `end`.
    #[must_use]
    pub fn next_stop(&self, now: Nanos, end: Option<Nanos>) -> Option<Nanos> {
        let next = [
            self.wake,
            self.migrator.drained_at(),
            self.co_runners.next_change(now),
            end,
        ];
        next.into_iter().flatten().min()
    }

    /// Runs migrations until `until`; `copies` prices copies and hears of every step.
    pub fn migrate<C: Copies>(&mut self, until: Nanos, copies: &mut C, stretch: &mut Stretch) {
        let mut counted = Counted {
            inner: copies,
            metrics: &mut self.metrics,
            page_bytes: self.workload.page_bytes as f64,
            stretch,
            mechanics: *self.migrator.mechanics(),
            shootdowns: 0.0,
        };
        self.migrator
            .advance(until, &mut self.memory, &self.workload.objects, &mut counted);
        // Threads beyond the cores sleep, and those that run are interrupted wherever they are.
        let running = self.threads.min(self.cores);
        let interrupted_ns = counted.shootdowns * f64::from(running) * self.shootdown_ns;
        self.application_ns += interrupted_ns;
        self.metrics.shootdown_stall_s += interrupted_ns / 1e9;
    }

    /// Reports faults to the policy.
    pub fn deliver_faults(&mut self, now: Nanos, faults: &[Fault]) {
        if faults.is_empty() {
            return;
        }
        let hints = faults.iter().filter(|fault| fault.kind == FaultKind::Hint).count();
        self.metrics.hint_faults += hints as f64;
        self.metrics.write_faults += (faults.len() - hints) as f64;
        self.call(now, |policy, cx| policy.on_faults(faults, cx));
    }

    /// Hands samples to the policy.
    pub fn deliver_samples(&mut self, now: Nanos, samples: &[Sample]) {
        if !samples.is_empty() {
            self.metrics.samples += samples.len() as f64;
            self.metrics.sampler_cpu_s += samples.len() as f64 * self.overheads.record_ns / 1e9;
            self.observer.sampled(samples);
            self.call(now, |policy, cx| policy.on_samples(samples, cx));
        }
    }

    /// Reports ended migrations to the policy.
    pub fn deliver_migrations(&mut self, now: Nanos) {
        let mut ended = std::mem::take(&mut self.ended);
        self.migrator.take_ended(&mut ended);
        if !ended.is_empty() {
            let pages = |outcome: Outcome| -> u32 {
                let ended = ended.iter().filter(|m| m.outcome == outcome);
                ended.map(|m| m.request.pages).sum()
            };
            self.metrics.migrations_failed += f64::from(pages(Outcome::NoSpace));
            self.metrics.migrations_given_up += f64::from(pages(Outcome::Aborted));
            let idle = self.migrator.idle();
            self.call(now, |policy, cx| policy.on_migrations(&ended, idle, cx));
        }
        self.ended = ended;
    }

    /// Wakes the policy if its time has come.
    pub fn wake_if_due(&mut self, now: Nanos) {
        if self.wake.is_some_and(|at| at <= now) {
            self.wake = None;
            self.call(now, |policy, cx| policy.on_wake(cx));
        }
    }

    /// Whether somebody reads the performance counters.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.needs.counters || self.observer.counts()
    }

    /// Books a stretch of time that ends at `now`.
    pub fn book(&mut self, now: Nanos, stretch: &mut Stretch) {
        if self.observer.wants_gauges(now) {
            self.observer.gauged(now, &self.policy.gauges());
        }
        stretch.fast_used_byte_ns = f64::from(self.memory.used()[0]) * self.workload.page_bytes as f64 * stretch.ns;
        self.totals.add(stretch);
        self.timeline.push(stretch);
    }

    /// Recounts the page table; see [`Memory::check`].
    ///
    /// # Panics
    /// When a count is off, which is a bug of the simulator.
    pub fn assert_consistent(&self) {
        let copying = self.migrator.copying().filter(|c| c.request.how != How::Remap);
        let copying: Vec<(u8, u32)> = copying.map(|c| (c.request.to, c.request.pages)).collect();
        if let Err(problem) = self.memory.check(&self.workload.objects, &copying) {
            panic!("simulator bug: {problem}");
        }
    }

    /// The result after the last operation at `now`.
    #[must_use]
    pub fn finish(mut self, now: Nanos) -> (RunResult, Box<dyn Policy>) {
        // Counted where it arose, and never paid, as the program has ended.
        self.metrics.stall_s += self.application_ns / 1e9;
        let background = |c: &&Copying| !matches!(c.request.how, How::InFault { .. });
        let unfinished: u64 = self
            .migrator
            .copying()
            .filter(background)
            .map(|c| c.end.saturating_sub(now))
            .sum();
        self.untimed.turn(now, self.totals.ops, true);
        let timed_ns = self.timed_ns(now) as f64;
        let loading_ns = self.untimed.ns as f64;
        let t = &self.totals;
        let m = &mut self.metrics;
        m.migration_busy_s -= unfinished as f64 / 1e9;
        m.runtime_s = timed_ns / 1e9;
        m.loading_s = loading_ns / 1e9;
        m.throughput_mops = (t.ops - self.untimed.ops) / (t.ns - loading_ns) * 1e3;
        m.fast_hit_ratio = if t.reads > 0.0 { t.fast_reads / t.reads } else { 0.0 };
        m.promotions = t.promotions;
        m.demotions = t.demotions;
        m.fast_latency_ns = t.fast_latency_ns2 / t.ns;
        m.slow_latency_ns = t.slow_latency_ns2 / t.ns;
        m.fast_bandwidth_gbps = t.fast_traffic_bytes / t.ns;
        m.slow_bandwidth_gbps = t.slow_traffic_bytes / t.ns;
        m.simulated_accesses = t.reads;
        let result = RunResult {
            gauges: self
                .policy
                .gauges()
                .into_iter()
                .map(|g| (g.name.to_string(), g.value))
                .collect(),
            observed: self.observer.finish(&self.counters, self.workload, &self.memory),
            metrics: self.metrics,
            timeline: self.timeline.columns(),
            phases: self.phases,
            config: self.config,
            page_map: self.page_map.finish(),
            timings: None,
            gave_up: false,
        };
        (result, self.policy)
    }
}

/// Counts what migrations do, beside what the mode makes of it.
struct Counted<'a, C> {
    inner: &'a mut C,
    metrics: &'a mut Metrics,
    page_bytes: f64,
    stretch: &'a mut Stretch,
    mechanics: MigrationMechanics,
    /// Interrupts of each core that runs the program.
    shootdowns: f64,
}

impl<C: Copies> Copies for Counted<'_, C> {
    fn duration_ns(&self, migrator: &Migrator, request: &Move, from: u8) -> Nanos {
        self.inner.duration_ns(migrator, request, from)
    }

    fn written(&mut self, copying: &Copying) -> bool {
        self.inner.written(copying)
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Begun(copying) => {
                self.shootdowns += self.mechanics.shootdowns_of(&copying.request, copying.from);
                if !matches!(copying.request.how, How::InFault { .. }) {
                    self.metrics.migration_busy_s += (copying.end - copying.start) as f64 / 1e9;
                }
            }
            Step::Aborted(copying) => {
                self.metrics.migrations_aborted += 1.0;
                self.metrics.migrated_bytes += self.page_bytes * f64::from(copying.request.pages);
            }
            Step::Moved { from, to, copied, .. } => {
                self.metrics.migrated_bytes += if *copied { self.page_bytes } else { 0.0 };
                if to < from {
                    self.stretch.promotions += 1.0;
                } else {
                    self.stretch.demotions += 1.0;
                }
            }
        }
        self.inner.step(step);
    }
}

/// The machine as the policy is told of it.
#[must_use]
pub fn topology(workload: &Workload, request: &Request) -> Topology {
    let pages_in = |bytes: u64| u32::try_from(bytes / request.page_bytes).unwrap_or(u32::MAX);
    let mut capacity_pages = vec![pages_in(request.fast_bytes)];
    capacity_pages.extend(request.machine.tiers[1..].iter().map(|t| pages_in(t.capacity_bytes)));
    Topology {
        page_bytes: request.page_bytes,
        pages: workload.pages,
        capacity_pages,
    }
}

/// The random key of a run: with independent noise another config draws other numbers.
fn noise_key(request: &Request, config: &tiertune_policy::Config) -> u64 {
    let mut path = Vec::new();
    if request.noise == Noise::Independent {
        let text = serde_json::to_string(&(&request.system, config)).expect("plain values serialise");
        path.extend(text.as_bytes().chunks(8).map(|chunk| {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        }));
    }
    CounterRng::new(request.seed, &path).next_u64()
}

/// Whether a sampler records accesses of this kind.
#[must_use]
pub fn is_store(event: Event) -> bool {
    event == Event::Store
}
