//! What only a simulator knows: how often each page is going to be read, and what that costs where.

use tiertune_policy::{Alike, Horizon, Truth};

use crate::cache::{hit_shares, miss_shares};
use crate::co_runner::CoRunners;
use crate::latency::{LatencySolver, Traffic};
use crate::memory::Memory;
use crate::operation::{Operation, operation_time, unloaded_ns};
use crate::scenario::Machine;
use crate::walk::{Walk, add_reads, walks};
use crate::workload::{LINE_BYTES, Phase, Popularity, Workload};

/// Reads of a page of a piece, and what they cost in each tier more than in the fastest.
#[derive(Debug, Clone, Default, PartialEq)]
struct Value {
    reads: f64,
    stall_ns: Vec<f64>,
}

/// By object and piece.
type Values = Vec<Vec<Value>>;

/// The truth about a run.
pub struct Foresight<'w> {
    workload: &'w Workload,
    machine: &'w Machine,
    run: Values,
    now: Values,
    /// What the run is made of, and for how long.
    run_flows: Vec<(Flow<'w>, f64)>,
    now_flow: Vec<(Flow<'w>, f64)>,
    co_runners: CoRunners,
    busy_cores: f64,
}

/// What runs now.
struct Flow<'w> {
    phase: &'w Phase,
    /// Share of each stream's reads that miss the cache.
    miss: Vec<f64>,
    /// What translating costs the reads of each stream.
    walks: Vec<Walk>,
    /// Share of a core that each thread has.
    core_share: f64,
}

/// Latencies over the run are worked out from so many of its phases, the longest.
const MOST_PHASES: usize = 16;

impl<'w> Foresight<'w> {
    /// Adds up all phases of `workload`, which runs beside co-runners and threads of the tiering system.
    #[must_use]
    pub fn new(workload: &'w Workload, machine: &'w Machine, co_runners: CoRunners, busy_cores: f64) -> Self {
        let mut foresight = Self {
            workload,
            machine,
            run: Vec::new(),
            now: Vec::new(),
            run_flows: Vec::new(),
            now_flow: Vec::new(),
            co_runners,
            busy_cores,
        };
        foresight.run = foresight.nothing();
        foresight.now = foresight.nothing();
        let mut run = foresight.nothing();
        // Phases repeat, so each is worked out once.
        let mut flows = Vec::new();
        for (phases, repeat) in &workload.schedule {
            for phase in phases.clone().map(|p| &workload.phases[p]) {
                let (ops, repeat) = (foresight.ops_at_best(phase), f64::from(*repeat));
                foresight.add(phase, &ops, repeat, &mut run);
                let (flow, rates) = foresight.flow_of(phase, &foresight.all_fast(phase));
                let longest = ops.iter().zip(rates).map(|(ops, rate)| ops / rate).fold(0.0, f64::max);
                flows.push((flow, repeat * phase.seconds.map_or(longest, |s| longest.min(s * 1e9))));
            }
        }
        flows.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        flows.truncate(MOST_PHASES);
        foresight.run_flows = flows;
        foresight.run = run;
        foresight
    }

    fn nothing(&self) -> Values {
        let value = Value {
            reads: 0.0,
            stall_ns: vec![0.0; self.machine.tiers.len()],
        };
        let objects = self.workload.objects.iter();
        objects.map(|o| vec![value.clone(); o.pieces()]).collect()
    }

    /// All reads go to the fastest tier.
    fn all_fast(&self, phase: &Phase) -> Vec<f64> {
        let tiers = self.machine.tiers.len();
        let share = |i: usize| if i % tiers == 0 { 1.0 } else { 0.0 };
        (0..phase.streams.len() * tiers).map(share).collect()
    }

    /// Operations of each group of a phase; where time is given, as many as fit with all memory fast.
    fn ops_at_best(&self, phase: &Phase) -> Vec<f64> {
        let tiers = self.machine.tiers.len();
        let mass = self.all_fast(phase);
        let miss = vec![1.0; phase.streams.len()];
        let ops = phase.groups.iter().map(|group| {
            let operation = Operation {
                group,
                streams: &phase.streams,
                mass: &mass,
                miss: &miss,
                walks: &[],
            };
            let op_ns = operation_time(self.machine, &operation, &vec![1.0; tiers]);
            let fit = phase
                .seconds
                .map_or(f64::INFINITY, |s| s * 1e9 * f64::from(group.threads) / op_ns);
            group.ops.unwrap_or(f64::INFINITY).min(fit)
        });
        let ops: Vec<f64> = ops.collect();
        // A group without an end of its own runs as long as the others do; its share is what matters.
        let longest = ops.iter().copied().filter(|ops| ops.is_finite()).fold(1.0, f64::max);
        ops.into_iter()
            .map(|ops| if ops.is_finite() { ops } else { longest })
            .collect()
    }

    /// Adds what `ops` operations of each group of `phase` read.
    fn add(&self, phase: &Phase, ops: &[f64], times: f64, into: &mut Values) {
        let objects = &self.workload.objects;
        let mut reads = vec![0.0; phase.streams.len()];
        for (group, ops) in phase.groups.iter().zip(ops) {
            for s in group.streams.clone() {
                reads[s] = ops * phase.streams[s].reads_per_op;
            }
        }
        let page_bytes = self.workload.page_bytes;
        let hits = hit_shares(&phase.streams, objects, &reads, page_bytes, self.machine.llc_bytes);
        let waits = self.waits(phase, &miss_shares(&phase.streams, objects, &hits));
        for (s, stream) in phase.streams.iter().enumerate() {
            let object = &objects[stream.object];
            let extra_ns: Vec<f64> = (0..self.machine.tiers.len())
                .map(|tier| {
                    let extra =
                        unloaded_ns(self.machine, tier, stream.class) - unloaded_ns(self.machine, 0, stream.class);
                    let [prefetched, miss] = waits[s][tier];
                    extra * (prefetched * stream.prefetched_share + miss * (1.0 - stream.prefetched_share))
                })
                .collect();
            for (piece, value) in into[stream.object].iter_mut().enumerate() {
                let (density, hit) = match &stream.popularity {
                    Popularity::Stationary { density, .. } => (f64::from(density[piece]), hits[s].get(piece)),
                    Popularity::Sweep => (1.0 / f64::from(object.pages), hits[s].first()),
                };
                let miss = if stream.missed_llc {
                    1.0
                } else {
                    1.0 - hit.copied().unwrap_or(0.0)
                };
                let read = times * reads[s] * density * miss;
                value.reads += read;
                for (stall, extra) in value.stall_ns.iter_mut().zip(&extra_ns) {
                    *stall += read * extra;
                }
            }
        }
    }

    /// What a nanosecond of latency of a prefetched line and of a demand miss costs, by stream and tier: the mean of all
    /// memory fast and all of it there, because what hides behind computing in one may not in the other.
    fn waits(&self, phase: &Phase, miss: &[f64]) -> Vec<Vec<[f64; 2]>> {
        let tiers = self.machine.tiers.len();
        let mut waits = vec![vec![[0.0; 2]; tiers]; phase.streams.len()];
        for group in &phase.groups {
            let marginal = |tier: usize, s: usize| {
                let share = |i: usize| if i % tiers == tier { 1.0 } else { 0.0 };
                let mass: Vec<f64> = (0..phase.streams.len() * tiers).map(share).collect();
                let operation = Operation {
                    group,
                    streams: &phase.streams,
                    mass: &mass,
                    miss,
                    walks: &[],
                };
                let demand = operation.demand(self.machine, &vec![1.0; tiers]);
                demand.marginal(self.machine, &phase.streams[s], group.cpu_ns_per_op)
            };
            for s in group.streams.clone() {
                let fast = marginal(0, s);
                for (tier, waits) in waits[s].iter_mut().enumerate() {
                    let there = marginal(tier, s);
                    *waits = [f64::midpoint(fast[0], there[0]), f64::midpoint(fast[1], there[1])];
                }
            }
        }
        waits
    }

    /// What flows in `phase` when reads go where `mass` says, and operations per nanosecond of each group.
    fn flow_of(&self, phase: &'w Phase, mass: &[f64]) -> (Flow<'w>, Vec<f64>) {
        let threads: u32 = phase.groups.iter().map(|group| group.threads).sum();
        let cores = (f64::from(self.machine.cores) - self.busy_cores).max(1.0);
        let mut flow = Flow {
            phase,
            miss: vec![1.0; phase.streams.len()],
            walks: Vec::new(),
            core_share: (cores / f64::from(threads.max(1))).min(1.0),
        };
        // Hits depend on the rates' proportions: one round from the rates without a cache is enough.
        let (rates, _) = self.flow(&flow, mass);
        flow.miss = self.miss(phase, &rates);
        let workload = self.workload;
        flow.walks = walks(workload, phase, self.machine, None);
        let (rates, _) = self.flow(&flow, mass);
        (flow, rates)
    }

    /// A phase begins with pages as they are in `memory`.
    pub fn begin(&mut self, phase: &'w Phase, memory: &Memory) {
        let (flow, rates) = self.flow_of(phase, &self.mass(phase, memory));
        let per_s: Vec<f64> = rates.iter().map(|rate| rate * 1e9).collect();
        let mut now = self.nothing();
        self.add(phase, &per_s, 1.0, &mut now);
        self.now = now;
        self.now_flow = vec![(flow, 1.0)];
    }

    /// Co-runners have changed what they do.
    pub fn set_co_runners(&mut self, co_runners: CoRunners) {
        self.co_runners = co_runners;
    }

    /// Share of each stream's reads per tier, sweeps taken over the whole object.
    fn mass(&self, phase: &Phase, memory: &Memory) -> Vec<f64> {
        let tiers = self.machine.tiers.len();
        let mut mass = Vec::with_capacity(phase.streams.len() * tiers);
        for stream in &phase.streams {
            for tier in 0..tiers {
                let pages = memory.piece_pages(stream.object, tier).iter().map(|n| f64::from(*n));
                mass.push(match &stream.popularity {
                    Popularity::Stationary { density, .. } => pages.zip(density).map(|(n, d)| n * f64::from(*d)).sum(),
                    Popularity::Sweep => pages.sum::<f64>() / f64::from(self.workload.objects[stream.object].pages),
                });
            }
        }
        mass
    }

    /// Share of each stream's reads that miss the cache.
    fn miss(&self, phase: &Phase, rates: &[f64]) -> Vec<f64> {
        let objects = &self.workload.objects;
        let mut reads = vec![0.0; phase.streams.len()];
        for (group, rate) in phase.groups.iter().zip(rates) {
            for s in group.streams.clone() {
                reads[s] = rate * phase.streams[s].reads_per_op;
            }
        }
        let page_bytes = self.workload.page_bytes;
        let hits = hit_shares(&phase.streams, objects, &reads, page_bytes, self.machine.llc_bytes);
        miss_shares(&phase.streams, objects, &hits)
    }

    /// Operations per nanosecond of each group, and latency multipliers, that agree with each other.
    fn flow(&self, flow: &Flow<'_>, mass: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let tiers = self.machine.tiers.len();
        let (phase, miss) = (flow.phase, &flow.miss);
        let mut rates = vec![0.0; phase.groups.len()];
        let mut solver = LatencySolver::new(self.machine);
        solver.solve(|multipliers, traffic| {
            traffic.clear();
            traffic.resize(tiers, Traffic::default());
            self.co_runners.add_at(multipliers, traffic);
            for (group, rate) in phase.groups.iter().zip(&mut rates) {
                let operation = Operation {
                    group,
                    streams: &phase.streams,
                    mass,
                    miss,
                    walks: &flow.walks,
                };
                *rate =
                    f64::from(group.threads) * flow.core_share / operation_time(self.machine, &operation, multipliers);
                add_reads(traffic, *rate * LINE_BYTES, group, &phase.streams, &flow.walks);
                for s in group.streams.clone() {
                    let stream = &phase.streams[s];
                    let bytes = *rate * LINE_BYTES * miss[s];
                    for (tier, traffic) in traffic.iter_mut().enumerate() {
                        let bytes = bytes * mass[s * tiers + tier];
                        traffic.add(
                            bytes * stream.reads_per_op,
                            bytes * stream.writebacks_per_op,
                            stream.random_share,
                        );
                    }
                }
            }
        });
        let mut multipliers = Vec::new();
        solver.multipliers(&mut multipliers);
        (rates, multipliers)
    }
}

impl Truth for Foresight<'_> {
    fn for_each(&self, horizon: Horizon, visit: &mut dyn FnMut(&Alike<'_>)) {
        let values = match horizon {
            Horizon::Run => &self.run,
            Horizon::Now => &self.now,
        };
        for (object, values) in self.workload.objects.iter().zip(values) {
            for (edges, value) in object.edges.windows(2).zip(values) {
                visit(&Alike {
                    pages: edges[1] - edges[0],
                    page: &|n| object.page_at(edges[0] + n),
                    reads: value.reads,
                    stall_ns: &value.stall_ns,
                });
            }
        }
    }

    fn latency_at(&self, horizon: Horizon, shares: &[f64]) -> Vec<f64> {
        let flows = match horizon {
            Horizon::Run => &self.run_flows,
            Horizon::Now => &self.now_flow,
        };
        let all_ns: f64 = flows.iter().map(|(_, ns)| ns).sum();
        let mut mean = vec![0.0; shares.len()];
        for (flow, ns) in flows {
            let (_, multipliers) = self.flow(flow, &shares.repeat(flow.phase.streams.len()));
            for ((mean, tier), multiplier) in mean.iter_mut().zip(&self.machine.tiers).zip(multipliers) {
                *mean += tier.latency_ns * multiplier * ns / all_ns;
            }
        }
        mean
    }
}
