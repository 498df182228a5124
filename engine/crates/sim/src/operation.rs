//! How long an operation takes a thread.

use tiertune_workload::AccessClass;

use crate::scenario::Machine;
use crate::walk::Walk;
use crate::workload::{Group, Stream};

/// An operation of a group: its streams and where their accesses go.
pub struct Operation<'a> {
    /// The group.
    pub group: &'a Group,
    /// All streams of the phase.
    pub streams: &'a [Stream],
    /// Share of each stream's reads per tier, `[stream * tiers + tier]`.
    pub mass: &'a [f64],
    /// Share of each stream's reads that miss the last-level cache.
    pub miss: &'a [f64],
    /// What translating costs the reads of each stream; empty for nothing.
    pub walks: &'a [Walk],
}

/// Unloaded latency that a stream sees on a tier.
#[must_use]
pub fn unloaded_ns(machine: &Machine, tier: usize, class: AccessClass) -> f64 {
    let tier = &machine.tiers[tier];
    match class {
        AccessClass::Stream => tier.sequential_latency_ns.unwrap_or(tier.latency_ns),
        _ => tier.latency_ns,
    }
}

/// Demand misses of a stream that a core keeps in flight: its own number, this machine's for its class, or the
/// model's; never more than there are fill buffers.
#[must_use]
pub fn misses_in_flight(machine: &Machine, stream: &Stream) -> f64 {
    let mlp = stream.mlp.unwrap_or_else(|| class_in_flight(machine, stream.class));
    mlp.min(machine.fill_buffers)
}

/// Instructions of the reorder buffer for each gather in flight: branches that hang on gathers end what a core begins
/// ahead. Our judgement from three points: 3 to 5 in the literature on graph kernels (taken to be of buffers of 168 to
/// 224), 6 to 8 measured with GAPBS on Zen 4 (320), and 8 to 11 with which the model takes as long as GAPBS did on
/// Emerald Rapids (512; docs/model.md).
const INSTRUCTIONS_PER_GATHER: f64 = 50.0;

/// Demand misses of a class that a core keeps in flight: this machine's figure, or the model's.
///
/// Dependent loads wait for each other; what is left of a stream after prefetching are page starts; eight to nine
/// independent loads overlap (measured ratio of random to chase throughput).
fn class_in_flight(machine: &Machine, class: AccessClass) -> f64 {
    machine.parallelism.of(class).unwrap_or_else(|| match class {
        AccessClass::Chase | AccessClass::Stream | AccessClass::Lookup => 1.0,
        AccessClass::Gather => (machine.window_instructions / INSTRUCTIONS_PER_GATHER).max(1.0),
        AccessClass::Random | AccessClass::Update => 8.0,
    })
}

/// Share of updates in flight that a core keeps when each is by a locked instruction: 6.5 of 11.5, which
/// `tiertune calibrate` measured on Emerald Rapids (docs/model.md).
const KEPT_BY_LOCKED: f64 = 0.57;

/// Locked instructions under way, each of which misses: this machine's figure, or the model's share of its updates.
fn locked_under_way(machine: &Machine) -> f64 {
    let updates = class_in_flight(machine, AccessClass::Update);
    machine.parallelism.locked.unwrap_or(KEPT_BY_LOCKED * updates)
}

/// Instructions that a core retires in a cycle while it misses nothing. Our judgement: SPEC CPU 2017 reaches 1.6 to 1.7
/// on average on Intel's servers, misses included (Limaye and Adegbija, ISPASS'18), of 4 to 6 that can be dispatched.
const INSTRUCTIONS_PER_CYCLE: f64 = 2.0;

/// Computing that fits into a core's reorder buffer, behind a miss at its head.
#[must_use]
pub fn window_ns(machine: &Machine) -> f64 {
    machine.window_instructions / INSTRUCTIONS_PER_CYCLE / machine.clock_ghz
}

/// Lookups of an element, one after the other: its place in an index, and what lies there.
const LOOKUPS_PER_ELEMENT: f64 = 2.0;

/// Whether as many accesses of `stream` overlap as the window has room for.
fn looks_up(stream: &Stream) -> bool {
    stream.class == AccessClass::Lookup && stream.mlp.is_none()
}

/// What some operations need from memory, summed over them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Demand {
    /// Prefetched lines: latency over fill buffers.
    prefetched_ns: f64,
    /// Misses that wait for no other.
    independent: f64,
    /// Their latency.
    independent_ns: f64,
    /// The same over as many as their class keeps in flight.
    overlapped_ns: f64,
    /// Hits of such classes, latency over parallelism.
    overlapped_hits_ns: f64,
    /// What the next instructions wait for, latency over parallelism.
    dependent_ns: f64,
    /// Lookups, hits of the last-level cache included.
    lookups: f64,
    /// Their latency.
    lookups_ns: f64,
    /// Locked instructions that wait for misses.
    locked: f64,
    /// Locked instructions with a lookup since the one before.
    locked_lookups: f64,
}

impl Demand {
    /// Adds prefetched lines of `latency_ns` altogether.
    pub fn prefetch(&mut self, machine: &Machine, latency_ns: f64) {
        self.prefetched_ns += latency_ns / machine.fill_buffers;
    }

    /// Adds the locked instructions of `ops` operations of `group`.
    pub fn lock(&mut self, group: &Group, ops: f64) {
        self.locked += ops * group.locked_per_op;
        self.locked_lookups += ops * group.locked_lookups_per_op;
    }

    /// Adds demand reads of `stream` that hit the last-level cache, each after a wait of `walk_ns` for its translation.
    pub fn hit(&mut self, machine: &Machine, stream: &Stream, hits: f64, walk_ns: f64) {
        let latency_ns = hits * (machine.llc_hit_ns + walk_ns);
        let wait_ns = latency_ns / misses_in_flight(machine, stream);
        if looks_up(stream) {
            self.lookups += hits;
            self.lookups_ns += latency_ns;
        } else if stream.class.independent() {
            self.overlapped_hits_ns += wait_ns;
        } else {
            self.dependent_ns += wait_ns;
        }
    }

    /// Adds demand misses of `stream`, of `latency_ns` altogether.
    pub fn miss(&mut self, machine: &Machine, stream: &Stream, misses: f64, latency_ns: f64) {
        let wait_ns = latency_ns / misses_in_flight(machine, stream);
        if looks_up(stream) {
            self.lookups += misses;
            self.lookups_ns += latency_ns;
        } else if stream.class.independent() {
            self.independent += misses;
            self.independent_ns += latency_ns;
            self.overlapped_ns += wait_ns;
        } else {
            self.dependent_ns += wait_ns;
        }
    }

    /// How many misses of `stream` are in flight together: as many as its class allows, and as come within a window.
    ///
    /// Misses `c` of computing apart on average begin a wait where none is under way, and those in the window `w`
    /// behind it join in: 1 + w/c of them (interval analysis; Karkhanis and Smith, ISCA'04, section 4.3, with misses
    /// that come by chance).
    #[must_use]
    pub fn in_flight(&self, machine: &Machine, stream: &Stream, computing_ns: f64) -> f64 {
        if looks_up(stream) {
            return self.lookups_in_flight(machine, computing_ns);
        }
        let most = misses_in_flight(machine, stream);
        if !stream.class.independent() {
            return most;
        }
        let most = most / self.slowed_by_locked(machine);
        if computing_ns > 0.0 {
            most.min(1.0 + self.independent * window_ns(machine) / computing_ns)
        } else {
            most
        }
    }

    /// Elements that are looked up at the same time: as many as the window has room for, and as come between two locked
    /// instructions.
    ///
    /// Measured with lists of 4 to 256 neighbours (see the example `lists`): their starts take twice the latency in all
    /// from where a window holds one list, and in proportion less where it holds more.
    fn lookups_in_flight(&self, machine: &Machine, computing_ns: f64) -> f64 {
        let elements = self.lookups / LOOKUPS_PER_ELEMENT;
        let in_window = |between: f64, room: f64| {
            if between > 0.0 {
                elements * room / between
            } else {
                f64::INFINITY
            }
        };
        in_window(computing_ns, window_ns(machine))
            .min(in_window(self.locked_lookups, locked_under_way(machine)))
            .clamp(1.0, machine.fill_buffers.max(1.0))
    }

    /// What the next instructions wait for.
    fn waited_for_ns(&self, machine: &Machine, computing_ns: f64) -> f64 {
        self.dependent_ns + self.lookups_ns / self.lookups_in_flight(machine, computing_ns)
    }

    /// How much longer independent misses take for the locked instructions among them, at most as if each waited for the
    /// one before.
    ///
    /// A locked instruction begins when all before it is done, and what loads begin behind it ahead of their turn
    /// overlaps less. Gathers with a locked addition after every one, two and four of them take 1.53, 1.14 and 0.97 times
    /// as long as without, as measured on Emerald Rapids. Squares that add up make 1.53, 1.16 and 1.04 of the first: each
    /// of the two waits hides most of the other. How long misses take with one at each is a figure of the machine.
    fn slowed_by_locked(&self, machine: &Machine) -> f64 {
        if self.locked > 0.0 && self.overlapped_ns > 0.0 {
            let at_each = class_in_flight(machine, AccessClass::Update) / locked_under_way(machine);
            let beside = (at_each.powi(2) - 1.0).max(0.0).sqrt() * self.locked / self.independent;
            let one_by_one = (self.independent_ns / self.overlapped_ns).max(1.0);
            1.0_f64.hypot(beside).min(one_by_one)
        } else {
            1.0
        }
    }

    /// Time that independent misses take where as many are in flight as may be, and hits of such classes.
    fn by_lines_ns(&self, machine: &Machine) -> f64 {
        self.overlapped_hits_ns + self.overlapped_ns * self.slowed_by_locked(machine)
    }

    /// Time that the operations take beside `computing_ns` of computing.
    ///
    /// Dependent misses are waited for one after the other. All else goes on beside computing: lines are bounded by
    /// what may be in flight, and by the window: a wait of `L` comes after `c` of computing and takes with it the `w`
    /// that are in the window, with 1 + w/c misses. So n misses of S and n c = C take C (C + S) / (C + n w).
    #[must_use]
    pub fn duration_ns(&self, machine: &Machine, computing_ns: f64) -> f64 {
        self.beside_computing_ns(machine, computing_ns) + self.waited_for_ns(machine, computing_ns)
    }

    fn beside_computing_ns(&self, machine: &Machine, computing_ns: f64) -> f64 {
        self.windowed_ns(machine, computing_ns)
            .max(self.prefetched_ns + self.by_lines_ns(machine))
    }

    fn windowed_ns(&self, machine: &Machine, computing_ns: f64) -> f64 {
        let windows_ns = self.independent * window_ns(machine);
        if computing_ns > 0.0 {
            computing_ns * (computing_ns + self.independent_ns.max(windows_ns)) / (computing_ns + windows_ns)
        } else {
            0.0
        }
    }

    /// How much longer the operations take for each nanosecond more of latency of a prefetched line and of a demand
    /// miss of `stream`.
    #[must_use]
    pub fn marginal(&self, machine: &Machine, stream: &Stream, computing_ns: f64) -> [f64; 2] {
        let by_lines = self.prefetched_ns + self.by_lines_ns(machine) >= self.windowed_ns(machine, computing_ns);
        let prefetched = if by_lines { 1.0 / machine.fill_buffers } else { 0.0 };
        let windows_ns = self.independent * window_ns(machine);
        let miss = if !stream.class.independent() {
            1.0 / self.in_flight(machine, stream, computing_ns)
        } else if by_lines {
            self.slowed_by_locked(machine) / misses_in_flight(machine, stream)
        } else if self.independent_ns > windows_ns {
            computing_ns / (computing_ns + windows_ns)
        } else {
            0.0
        };
        [prefetched, miss]
    }

    /// Time in which the core does nothing for want of lines that `duration_ns` does not add up one by one.
    #[must_use]
    pub fn stalled_beside_computing_ns(&self, machine: &Machine, computing_ns: f64) -> f64 {
        self.beside_computing_ns(machine, computing_ns) - computing_ns
    }
}

impl Operation<'_> {
    /// What an operation needs at the given latency multipliers.
    #[must_use]
    pub fn demand(&self, machine: &Machine, multipliers: &[f64]) -> Demand {
        let tiers = multipliers.len();
        let mut demand = Demand::default();
        demand.lock(self.group, 1.0);
        for s in self.group.streams.clone() {
            let stream = &self.streams[s];
            let (reads, miss) = (stream.reads_per_op, self.miss[s]);
            let waited = reads * (1.0 - stream.prefetched_share);
            let walk_ns = self.walk_ns(s, machine, multipliers);
            if miss > 0.0 {
                let latency: f64 = (0..tiers)
                    .map(|t| self.mass[s * tiers + t] * unloaded_ns(machine, t, stream.class) * multipliers[t])
                    .sum();
                demand.prefetch(machine, reads * miss * stream.prefetched_share * latency);
                demand.miss(machine, stream, waited * miss, waited * miss * (latency + walk_ns));
            }
            demand.hit(machine, stream, waited * (1.0 - miss), walk_ns);
            // Of hits that a recording has beside its misses it is not known which pages they are on: translations are free.
            let recorded_hits = stream.llc_hits_per_op * (1.0 - stream.prefetched_share);
            demand.hit(machine, stream, recorded_hits, 0.0);
        }
        demand
    }

    /// How long a read of stream `s` waits for its translation.
    #[must_use]
    pub fn walk_ns(&self, s: usize, machine: &Machine, multipliers: &[f64]) -> f64 {
        let walk = self.walks.get(s);
        walk.map_or(0.0, |walk| walk.latency_ns(machine, multipliers))
    }
}

/// Thread time per operation at the given latency multipliers (stall = misses x latency / parallelism: Soar section 3,
/// PACT section 4; what of it is hidden: [`Demand::duration_ns`]).
#[must_use]
pub fn operation_time(machine: &Machine, operation: &Operation<'_>, multipliers: &[f64]) -> f64 {
    let demand = operation.demand(machine, multipliers);
    demand.duration_ns(machine, operation.group.cpu_ns_per_op)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    /// Clock of 2 GHz, so that a window of 200 instructions is 50 ns of computing.
    fn machine() -> Machine {
        serde_json::from_value(serde_json::json!({
            "name": "m", "cores": 4, "clock_ghz": 2.0, "llc_bytes": 1 << 20, "llc_hit_ns": 20.0, "fill_buffers": 12.0,
            "window_instructions": 200.0, "sample_assist_ns": 250.0,
            "tiers": [{"name": "t", "capacity_bytes": 1 << 30, "latency_ns": 100.0, "read_gbps": 50.0, "write_gbps": 50.0,
                       "curve": [[0.0, 1.0], [1.0, 2.0]]}],
        }))
        .expect("a machine")
    }

    /// Time of an operation that computes for `cpu_ns` and misses once in `class`, at `multiplier` of 100 ns.
    fn time(class: &str, cpu_ns: f64, multiplier: f64) -> f64 {
        demand_of(class, cpu_ns, multiplier).0.duration_ns(&machine(), cpu_ns)
    }

    fn demand_of(class: &str, cpu_ns: f64, multiplier: f64) -> (Demand, Stream) {
        let model = serde_json::json!({"objects": [{"name": "o", "bytes": 1 << 20}],
            "blocks": [{"phases": [{"name": "p", "groups": [{"name": "g", "threads": 1, "ops": 1.0, "cpu_ns_per_op": cpu_ns,
                "streams": [{"object": "o", "law": {"kind": "uniform"}, "class": class, "reads_per_op": 1.0}]}]}]}]});
        let model = serde_json::from_value(model).expect("a valid model");
        let workload = Workload::compile(&model, 4096).expect("compiles");
        let phase = &workload.phases[0];
        let operation = Operation {
            group: &phase.groups[0],
            streams: &phase.streams,
            mass: &[1.0],
            miss: &[1.0],
            walks: &[],
        };
        (operation.demand(&machine(), &[multiplier]), phase.streams[0].clone())
    }

    #[test]
    fn a_chase_adds_its_computing() {
        for cpu_ns in [0.0, 5.0, 500.0] {
            assert_eq!(time("chase", cpu_ns, 1.0), cpu_ns + 100.0);
        }
    }

    /// A tight loop is bound by the misses that may be in flight, not by that and its computing.
    #[test]
    fn independent_misses_hide_a_short_computation() {
        assert_eq!(time("random", 0.0, 1.0), 12.5);
        assert_eq!(time("random", 1.0, 1.0), 12.5);
        assert_eq!(time("gather", 1.0, 1.0), 25.0);
    }

    /// Misses far apart are alone in the window, which hides as much computing as it holds.
    #[test]
    fn far_misses_wait_alone_but_for_a_window() {
        let time = time("random", 1e5, 1.0) - 1e5;
        assert!((time - (100.0 - 50.0)).abs() < 0.1, "{time}");
    }

    /// By hand: waits come after 25 ns of computing, and two more misses lie in the 50 ns behind the first.
    #[test]
    fn misses_of_one_window_wait_together() {
        let expected = (25.0 + 100.0) / 3.0;
        assert!((time("random", 25.0, 1.0) - expected).abs() < 1e-9);
        let expected = (25.0 + 400.0) / 3.0;
        assert!((time("random", 25.0, 4.0) - expected).abs() < 1e-9);
    }

    /// What the window holds is hidden altogether where latency is shorter.
    #[test]
    fn short_latencies_vanish_in_the_window() {
        for cpu_ns in [10.0, 40.0, 1000.0] {
            assert!((time("random", cpu_ns, 0.5) - cpu_ns).abs() < 1e-9);
        }
    }

    /// Elements far apart are looked up one after the other; two that lie in the window (50 ns) take half as long each.
    #[test]
    fn lookups_wait_for_each_other_but_for_those_in_the_window() {
        let of = |between_ns: f64| {
            let (mut demand, stream) = (Demand::default(), demand_of("lookup", 1.0, 1.0).1);
            demand.miss(&machine(), &stream, 2.0, 200.0);
            demand.duration_ns(&machine(), between_ns) - between_ns
        };
        assert_eq!(of(1000.0), 200.0);
        assert_eq!(of(25.0), 100.0);
        assert_eq!(of(12.5), 50.0);
        // As many as there are fill buffers, whatever the window holds.
        assert!((of(0.01) - 200.0 / 12.0).abs() < 1e-9);
    }

    /// With half as many locked updates in flight as plain ones, misses take twice as long with a locked instruction at
    /// each, less with fewer, and never longer than one by one.
    #[test]
    fn misses_overlap_less_around_locked_instructions() {
        let of = |class: &str, locked: f64, under_way: Option<f64>| {
            let (mut demand, stream) = demand_of(class, 1.0, 1.0);
            demand.locked = locked;
            let mut machine = machine();
            machine.parallelism.locked = under_way;
            let duration_ns = demand.duration_ns(&machine, 1.0);
            assert_eq!(demand.marginal(&machine, &stream, 1.0)[1], duration_ns / 100.0);
            duration_ns
        };
        let half = Some(4.0);
        let root = |sum: f64| (1.0 + sum).sqrt();
        assert!((of("gather", 1.0, half) - 50.0).abs() < 1e-9);
        assert!((of("gather", 0.5, half) - 25.0 * root(3.0 / 4.0)).abs() < 1e-9);
        assert!((of("gather", 0.125, half) - 25.0 * root(3.0 / 64.0)).abs() < 1e-9);
        assert!((of("random", 1.0, half) - 25.0).abs() < 1e-9);
        assert_eq!(of("random", 1e3, half), 100.0);
        assert_eq!(of("gather", 1.0, Some(1.0)), 100.0);
        assert_eq!(of("gather", 1.0, Some(16.0)), 25.0);
        assert!((of("update", 1.0, None) - 12.5 / 0.57).abs() < 1e-9);
    }

    /// Latency is worth what a little more of it adds to the time.
    #[test]
    fn marginal_is_the_slope_of_the_duration() {
        let machine = machine();
        for class in ["random", "gather", "chase", "lookup"] {
            for cpu_ns in [1.0, 25.0, 300.0] {
                let (demand, stream) = demand_of(class, cpu_ns, 1.0);
                let slope = (time(class, cpu_ns, 1.001) - time(class, cpu_ns, 1.0)) / 0.1;
                let marginal = demand.marginal(&machine, &stream, cpu_ns)[1];
                assert!(
                    (slope - marginal).abs() < 1e-6,
                    "{class} {cpu_ns}: {slope} against {marginal}"
                );
            }
        }
    }

    #[test]
    fn time_is_between_the_longer_part_and_the_sum() {
        for cpu_ns in [0.0, 1.0, 10.0, 30.0, 100.0, 1e4] {
            let mut before = 0.0;
            for multiplier in [1.0, 1.5, 3.0, 10.0] {
                let (latency_ns, time) = (100.0 * multiplier, time("update", cpu_ns, multiplier));
                assert!(time >= cpu_ns.max(latency_ns / 8.0) - 1e-9 && time <= cpu_ns + latency_ns);
                assert!(time >= before);
                before = time;
            }
        }
    }
}
