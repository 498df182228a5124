//! What both modes of the simulated machine share: the policy, its memory and its migrations.

use serde::Serialize;
use tiertune_policy::{
    Context, CounterRng, Event, Extent, Migrated, Move, Nanos, Outcome, Overheads, PageMap, Placement, Policy, Sample,
    SamplerRequest, Topology, registry,
};

use crate::error::RunError;
use crate::latency::{TierLatency, Traffic};
use crate::memory::Memory;
use crate::metrics::{Metrics, Stretch, Timeline, TimelineColumns};
use crate::migration::{Migrator, Step};
use crate::scenario::{Noise, Request};
use crate::timings::Timings;
use crate::workload::Workload;

/// Domains of random numbers, so that no two purposes share a stream.
pub(crate) mod domain {
    pub const POLICY: u64 = 1;
    pub const PHASES: u64 = 2;
    pub const ACCESSES: u64 = 3;
}

/// What a run returns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunResult {
    /// Figures.
    pub metrics: Metrics,
    /// Series over time; empty when none was asked for.
    pub timeline: TimelineColumns,
    /// What the policy reports of itself, by name.
    pub gauges: std::collections::BTreeMap<String, f64>,
    /// The system's knobs as they applied, defaults filled in.
    pub config: tiertune_policy::Config,
    /// Where the run's own time went, if that was asked for; the only part that is not reproducible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings: Option<Timings>,
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
    moves: Vec<Move>,
    ended: Vec<Migrated>,
    config: tiertune_policy::Config,
    co_runners: Vec<Traffic>,
    unbooked_bytes: Vec<[f64; 2]>,
}

impl<'w> Driver<'w> {
    /// Builds the policy and places the workload's pages.
    pub fn new(workload: &'w Workload, request: &Request) -> Result<Self, RunError> {
        let system = registry::find(&request.system)?;
        if !system.page_bytes.contains(&request.page_bytes) {
            return Err(RunError::PageSize {
                system: system.name.to_string(),
                page_bytes: request.page_bytes,
                supported: system
                    .page_bytes
                    .iter()
                    .map(u64::to_string)
                    .collect::<Vec<_>>()
                    .join(" and "),
            });
        }
        let pages_in = |bytes: u64| u32::try_from(bytes / request.page_bytes).unwrap_or(u32::MAX);
        let mut capacity = vec![pages_in(request.fast_bytes)];
        capacity.extend(request.machine.tiers[1..].iter().map(|t| pages_in(t.capacity_bytes)));
        let topology = Topology {
            page_bytes: request.page_bytes,
            pages: workload.pages,
            capacity_pages: capacity.clone(),
        };
        let config = tiertune_policy::knob::resolve(system.name, &(system.knobs)(), &request.config)
            .map_err(tiertune_policy::SystemError::from)?;
        let policy = registry::build(system.name, &request.config, &topology)?;
        let key = noise_key(request, &config);
        let mut driver = Self {
            workload,
            memory: Memory::new(workload, capacity),
            migrator: Migrator::new(policy.mechanics(), request.page_bytes),
            samplers: policy.samplers(),
            overheads: policy.overheads(),
            totals: Stretch::default(),
            metrics: Metrics::default(),
            key,
            policy,
            rng: CounterRng::new(key, &[domain::POLICY]),
            wake: None,
            timeline: Timeline::new(request.timeline_points),
            moves: Vec::new(),
            ended: Vec::new(),
            config,
            co_runners: vec![Traffic::default(); request.machine.tiers.len()],
            unbooked_bytes: vec![[0.0; 2]; request.machine.tiers.len()],
        };
        for contention in &request.contention {
            let tier = &mut driver.co_runners[contention.tier];
            tier.read_gbps += contention.read_gbps;
            tier.write_gbps += contention.write_gbps;
        }
        driver.place_all(request)?;
        driver.wake = Some(0);
        driver.wake_if_due(0);
        Ok(driver)
    }

    fn place_all(&mut self, request: &Request) -> Result<(), RunError> {
        for (index, object) in self.workload.objects.iter().enumerate() {
            let extent = Extent {
                start: object.first_page,
                pages: object.pages,
            };
            let placement = self.call(0, |policy, cx| policy.on_alloc(&extent, cx));
            let tiers = self.memory.capacity().len();
            let room: u64 = (0..tiers).map(|t| u64::from(self.memory.free_pages(t as u8))).sum();
            if placement != Placement::FastUnbounded && room < u64::from(object.pages) {
                return Err(RunError::Footprint {
                    footprint_bytes: u64::from(self.workload.pages) * request.page_bytes,
                    fast_bytes: request.fast_bytes,
                    slow_bytes: request.machine.tiers[1..].iter().map(|t| t.capacity_bytes).sum(),
                });
            }
            self.memory.place(index, object, placement);
        }
        Ok(())
    }

    /// Calls the policy and takes up what it asks for.
    fn call<R>(&mut self, now: Nanos, f: impl FnOnce(&mut dyn Policy, &mut Context<'_>) -> R) -> R {
        let mut context = Context {
            now,
            pages: &self.memory,
            rng: &mut self.rng,
            moves: &mut self.moves,
            wake_at: &mut self.wake,
        };
        let result = f(self.policy.as_mut(), &mut context);
        self.migrator.request(&mut self.moves, now);
        result
    }

    /// Traffic by tier of co-runners and of copies, for a stretch of `ns`: those under way, and what
    /// [`Self::settle_copies`] found to have been copied beyond what was counted before.
    #[must_use]
    pub fn foreign_traffic(&self, curves: &[TierLatency], ns: f64) -> Vec<Traffic> {
        let mut copies = vec![Traffic::default(); self.co_runners.len()];
        for copying in self.migrator.copying() {
            let gbps = self.workload.page_bytes as f64 / (copying.end - copying.start) as f64;
            copies[usize::from(copying.from)].read_gbps += gbps;
            copies[usize::from(copying.request.to)].write_gbps += gbps;
        }
        let mut traffic = self.co_runners.clone();
        for (tier, copies) in copies.iter_mut().enumerate() {
            copies.read_gbps = (copies.read_gbps + self.unbooked_bytes[tier][0] / ns).max(0.0);
            copies.write_gbps = (copies.write_gbps + self.unbooked_bytes[tier][1] / ns).max(0.0);
            let (wanted, room) = (
                curves[tier].utilisation(*copies),
                curves[tier].room_for_copies(self.co_runners[tier]),
            );
            let fit = if wanted > room { room / wanted } else { 1.0 };
            traffic[tier].read_gbps += copies.read_gbps * fit;
            traffic[tier].write_gbps += copies.write_gbps * fit;
        }
        traffic
    }

    /// Notes by how much the copies of the last `ns` differ from the `foreign` traffic assumed for them.
    pub fn settle_copies(&mut self, foreign: &[Traffic], ns: f64) {
        let copied = self.migrator.take_copied();
        for (tier, unbooked) in self.unbooked_bytes.iter_mut().enumerate() {
            let (assumed, others) = (foreign[tier], self.co_runners[tier]);
            unbooked[0] += copied[tier][0] - (assumed.read_gbps - others.read_gbps) * ns;
            unbooked[1] += copied[tier][1] - (assumed.write_gbps - others.write_gbps) * ns;
        }
    }

    /// When the policy wants to be woken.
    #[must_use]
    pub fn wake_at(&self) -> Option<Nanos> {
        self.wake
    }

    /// Runs migrations until `until`; `on_begun` prices what a copy costs the application, and
    /// every change of place goes to `on_moved`.
    pub fn migrate(
        &mut self,
        until: Nanos,
        duration: impl FnMut(&Migrator, u8, u8) -> Nanos,
        mut on_step: impl FnMut(&Step),
        stretch: &mut Stretch,
    ) {
        let objects = &self.workload.objects;
        let (metrics, page_bytes) = (&mut self.metrics, self.workload.page_bytes);
        self.migrator
            .advance(until, &mut self.memory, objects, duration, |step| {
                match step {
                    Step::Begun(copying) => metrics.migration_busy_s += (copying.end - copying.start) as f64 / 1e9,
                    Step::Moved { from, to, .. } => {
                        metrics.migrated_bytes += page_bytes as f64;
                        if to < from {
                            stretch.promotions += 1.0;
                        } else {
                            stretch.demotions += 1.0;
                        }
                    }
                }
                on_step(&step);
            });
    }

    /// Hands samples to the policy.
    pub fn deliver_samples(&mut self, now: Nanos, samples: &[Sample]) {
        if !samples.is_empty() {
            self.metrics.samples += samples.len() as f64;
            self.metrics.sampler_cpu_s += samples.len() as f64 * self.overheads.record_ns / 1e9;
            self.call(now, |policy, cx| policy.on_samples(samples, cx));
        }
    }

    /// Reports ended migrations to the policy.
    pub fn deliver_migrations(&mut self, now: Nanos) {
        let mut ended = std::mem::take(&mut self.ended);
        self.migrator.take_ended(&mut ended);
        if !ended.is_empty() {
            let failed = ended.iter().filter(|m| m.outcome == Outcome::NoSpace).count();
            self.metrics.migrations_failed += failed as f64;
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

    /// Books a stretch of time.
    pub fn book(&mut self, stretch: &mut Stretch) {
        stretch.fast_used_byte_ns = f64::from(self.memory.used()[0]) * self.workload.page_bytes as f64 * stretch.ns;
        self.totals.add(stretch);
        self.timeline.push(stretch);
    }

    /// Recounts the page table; see [`Memory::check`].
    ///
    /// # Panics
    /// When a count is off, which is a bug of the simulator.
    pub fn assert_consistent(&self) {
        let copying: Vec<u8> = self.migrator.copying().map(|c| c.request.to).collect();
        if let Err(problem) = self.memory.check(&self.workload.objects, &copying) {
            panic!("simulator bug: {problem}");
        }
    }

    /// The result after the last operation at `now`.
    #[must_use]
    pub fn finish(mut self, now: Nanos) -> RunResult {
        let unfinished: u64 = self.migrator.copying().map(|c| c.end.saturating_sub(now)).sum();
        let t = &self.totals;
        let m = &mut self.metrics;
        m.migration_busy_s -= unfinished as f64 / 1e9;
        m.runtime_s = now as f64 / 1e9;
        m.throughput_mops = t.ops / t.ns * 1e3;
        m.fast_hit_ratio = if t.reads > 0.0 { t.fast_reads / t.reads } else { 0.0 };
        m.promotions = t.promotions;
        m.demotions = t.demotions;
        m.fast_latency_ns = t.fast_latency_ns2 / t.ns;
        m.slow_latency_ns = t.slow_latency_ns2 / t.ns;
        m.fast_bandwidth_gbps = t.fast_traffic_bytes / t.ns;
        m.slow_bandwidth_gbps = t.slow_traffic_bytes / t.ns;
        m.simulated_accesses = t.reads;
        RunResult {
            gauges: self
                .policy
                .gauges()
                .into_iter()
                .map(|g| (g.name.to_string(), g.value))
                .collect(),
            metrics: self.metrics,
            timeline: self.timeline.columns(),
            config: self.config,
            timings: None,
        }
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
