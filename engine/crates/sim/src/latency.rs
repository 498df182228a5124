//! Loaded latency: how much slower a tier answers at a given traffic.

use crate::scenario::{Machine, TierModel};

/// Bytes per nanosecond (= 1e9 bytes/s) that flow to and from a tier.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Traffic {
    /// Reads.
    pub read_gbps: f64,
    /// Writes.
    pub write_gbps: f64,
    /// Of the reads, lines that come alone.
    pub random_read_gbps: f64,
    /// Of the writes, lines that come alone.
    pub random_write_gbps: f64,
}

impl Traffic {
    /// Reads and writes of which `random_share` come alone.
    pub fn add(&mut self, read_gbps: f64, write_gbps: f64, random_share: f64) {
        self.read_gbps += read_gbps;
        self.write_gbps += write_gbps;
        self.random_read_gbps += random_share * read_gbps;
        self.random_write_gbps += random_share * write_gbps;
    }
}

/// A tier's latency as a function of its traffic.
#[derive(Debug, Clone)]
pub struct TierLatency {
    read_gbps: f64,
    write_gbps: f64,
    /// How much longer the tier is busy with a line that comes alone than with one in sequence, read and written, in
    /// multiples of the latter beyond one.
    random_excess: [f64; 2],
    duplex: bool,
    /// Utilisation and natural logarithm of the multiplier.
    points: Vec<(f64, f64)>,
}

/// Beyond the last measured point latency grows by e^200 per unit of utilisation: a wall, so that
/// in a closed loop demand settles within 1 % of what the tier can supply and latency follows
/// from Little's law, which is also the physical cause.
const SATURATED_SLOPE: f64 = 200.0;

impl TierLatency {
    /// The curve of `tier`.
    #[must_use]
    pub fn new(tier: &TierModel) -> Self {
        Self {
            read_gbps: tier.read_gbps,
            write_gbps: tier.write_gbps,
            random_excess: [
                tier.random_read_gbps
                    .map_or(0.0, |random| tier.read_gbps / random - 1.0),
                tier.random_write_gbps
                    .map_or(0.0, |random| tier.write_gbps / random - 1.0),
            ],
            duplex: tier.duplex,
            points: tier.curve.iter().map(|[u, m]| (*u, m.max(1.0).ln())).collect(),
        }
    }

    /// Share of the peak bandwidth in use. One bus is busy with reads or with writes; separate
    /// channels are as busy as the busier one.
    #[must_use]
    pub fn utilisation(&self, traffic: Traffic) -> f64 {
        let [read, written] = self.random_excess;
        let r = (traffic.read_gbps + read * traffic.random_read_gbps) / self.read_gbps;
        let w = (traffic.write_gbps + written * traffic.random_write_gbps) / self.write_gbps;
        if self.duplex { r.max(w) } else { r + w }
    }

    /// Logarithm of the latency multiplier at `utilisation`, and its slope.
    #[must_use]
    pub fn log_multiplier(&self, utilisation: f64) -> (f64, f64) {
        let upper = self.points.partition_point(|(u, _)| *u <= utilisation);
        match (upper.checked_sub(1).map(|i| self.points[i]), self.points.get(upper)) {
            (Some((u0, m0)), Some((u1, m1))) => {
                let slope = (m1 - m0) / (u1 - u0);
                (m0 + slope * (utilisation - u0), slope)
            }
            (Some((u0, m0)), None) => (m0 + SATURATED_SLOPE * (utilisation - u0), SATURATED_SLOPE),
            _ => (0.0, 0.0),
        }
    }

    /// Copies cannot push a tier further than this beside co-runners that do not give way; what is left is the
    /// application's, whose demand does. Only demand that gives way can be solved for at the wall.
    #[must_use]
    pub fn room_for_copies(&self, co_runners: Traffic) -> f64 {
        (0.97 - self.utilisation(co_runners)).max(0.0)
    }

    /// Peak read and write bandwidth.
    #[must_use]
    pub fn peak(&self) -> Traffic {
        Traffic {
            read_gbps: self.read_gbps,
            write_gbps: self.write_gbps,
            ..Traffic::default()
        }
    }
}

/// Finds the latencies at which demand and latency agree on every tier.
#[derive(Debug, Clone)]
pub struct LatencySolver {
    tiers: Vec<TierLatency>,
    log_multipliers: Vec<f64>,
}

impl LatencySolver {
    /// A solver that starts from the unloaded machine.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        let tiers: Vec<_> = machine.tiers.iter().map(TierLatency::new).collect();
        Self {
            log_multipliers: vec![0.0; tiers.len()],
            tiers,
        }
    }

    /// The curves.
    #[must_use]
    pub fn tiers(&self) -> &[TierLatency] {
        &self.tiers
    }

    /// Current latency multiplier of each tier.
    pub fn multipliers(&self, into: &mut Vec<f64>) {
        into.clear();
        into.extend(self.log_multipliers.iter().map(|m| m.exp()));
    }

    /// One step towards the fixed point for `traffic` seen at the current multipliers; returns
    /// the largest change. The step assumes that demand falls in proportion to latency, the most
    /// it can in a closed loop, so it never overshoots.
    pub fn step(&mut self, traffic: &[Traffic]) -> f64 {
        let mut largest = 0.0f64;
        for ((tier, current), traffic) in self.tiers.iter().zip(&mut self.log_multipliers).zip(traffic) {
            let utilisation = tier.utilisation(*traffic);
            let (target, slope) = tier.log_multiplier(utilisation);
            let change = (target - *current) / (1.0 + slope * utilisation);
            *current += change;
            largest = largest.max(change.abs());
        }
        largest
    }

    /// Takes the latencies at which `traffic`, of a time in which the current ones held, agrees with the curves, if it
    /// falls in proportion to latency.
    ///
    /// Unlike [`step`](Self::step) it keeps to the curve all the way, so that traffic that comes by chance, once more and
    /// once less than a saturated tier can move, leaves latency where it was on average.
    pub fn follow(&mut self, traffic: &[Traffic]) {
        for ((tier, current), traffic) in self.tiers.iter().zip(&mut self.log_multipliers).zip(traffic) {
            let utilisation = tier.utilisation(*traffic);
            let at = |log_multiplier: f64| tier.log_multiplier(utilisation * (*current - log_multiplier).exp()).0;
            let (mut below, mut above) = (0.0, at(*current).max(*current));
            while above - below > 1e-6 {
                let middle = f64::midpoint(below, above);
                if at(middle) > middle {
                    below = middle;
                } else {
                    above = middle;
                }
            }
            *current = f64::midpoint(below, above);
        }
    }

    /// Iterates [`step`](Self::step) on `demand(multipliers) -> traffic` until it moves by less
    /// than 1e-4 (a hundredth of a percent of latency).
    pub fn solve(&mut self, mut demand: impl FnMut(&[f64], &mut Vec<Traffic>)) {
        let mut multipliers = Vec::with_capacity(self.tiers.len());
        let mut traffic = Vec::with_capacity(self.tiers.len());
        for _ in 0..200 {
            self.multipliers(&mut multipliers);
            demand(&multipliers, &mut traffic);
            if self.step(&traffic) < 1e-4 {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Parallelism;
    use tiertune_policy::CounterRng;

    fn tier(read_gbps: f64) -> TierModel {
        TierModel {
            name: "t".into(),
            capacity_bytes: 1 << 30,
            latency_ns: 90.0,
            sequential_latency_ns: None,
            read_gbps,
            write_gbps: read_gbps,
            random_read_gbps: None,
            random_write_gbps: None,
            duplex: false,
            curve: vec![[0.0, 1.0], [0.5, 1.23], [0.81, 1.556], [0.98, 2.0]],
            sources: serde_json::Value::Null,
        }
    }

    fn solver(tiers: Vec<TierModel>) -> LatencySolver {
        let machine = Machine {
            tlb_entries: None,
            shootdown_ns: 750.0,
            name: "m".into(),
            description: String::new(),
            source: String::new(),
            cores: 10,
            clock_ghz: 2.2,
            llc_bytes: 1 << 20,
            llc_hit_ns: 20.0,
            fill_buffers: 12.0,
            window_instructions: 224.0,
            sample_assist_ns: 250.0,
            hint_fault_ns: 1500.0,
            repeated_fault_ns: None,
            migration_cost: 1.0,
            parallelism: Parallelism::default(),
            tiers,
            notes: vec![],
        };
        LatencySolver::new(&machine)
    }

    #[test]
    fn open_loop_load_reads_off_the_curve() {
        let mut solver = solver(vec![tier(49.0)]);
        solver.solve(|_, out| {
            out.clear();
            out.push(Traffic {
                read_gbps: 0.81 * 49.0,
                ..Traffic::default()
            });
        });
        let mut m = vec![];
        solver.multipliers(&mut m);
        assert!((m[0] - 1.556).abs() < 1e-3, "{m:?}");
    }

    /// In a closed loop whose traffic comes by chance a tier supplies what it can, no more.
    #[test]
    fn chance_does_not_add_to_what_a_tier_supplies() {
        let (mut solver, peak) = (solver(vec![tier(20.0)]), 20.0);
        let (mut multipliers, mut rng, mut moved) = (vec![], CounterRng::new(1, &[]), 0.0);
        let (settling, counted) = (100, 10_000);
        for slice in 0..settling + counted {
            solver.multipliers(&mut multipliers);
            let mean = 100.0 * 64.0 / (90.0 * multipliers[0]);
            let traffic = Traffic {
                // A hundred arrivals: a tenth more or less.
                read_gbps: mean * rng.poisson(100.0) as f64 / 100.0,
                ..Traffic::default()
            };
            solver.follow(&[traffic]);
            moved += if slice < settling { 0.0 } else { traffic.read_gbps };
        }
        let utilisation = moved / f64::from(counted) / peak;
        assert!((0.975..0.995).contains(&utilisation), "{utilisation}");
    }

    /// By hand: 4 of 16 GB/s read alone, of which the tier has 8, and half of 12 GB/s written alone, of which it has 10.
    #[test]
    fn lines_that_come_alone_keep_a_tier_busy_for_longer() {
        let mut model = tier(40.0);
        model.write_gbps = 30.0;
        (model.random_read_gbps, model.random_write_gbps) = (Some(8.0), Some(10.0));
        let mut traffic = Traffic::default();
        traffic.add(16.0, 0.0, 0.25);
        traffic.add(0.0, 12.0, 0.5);
        let (reads, writes) = (12.0 / 40.0 + 4.0 / 8.0, 6.0 / 30.0 + 6.0 / 10.0);
        assert!((TierLatency::new(&model).utilisation(traffic) - reads - writes).abs() < 1e-9);
        model.duplex = true;
        assert!((TierLatency::new(&model).utilisation(traffic) - 0.8).abs() < 1e-9);
        model.random_write_gbps = None;
        traffic.add(0.0, 18.0, 1.0);
        assert!((TierLatency::new(&model).utilisation(traffic) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn saturation_obeys_littles_law() {
        // 1000 lines always in flight on a 20 GB/s tier: latency must become 64000 bytes / 20 GB/s.
        let mut solver = solver(vec![tier(20.0)]);
        solver.solve(|m, out| {
            out.clear();
            out.push(Traffic {
                read_gbps: 1000.0 * 64.0 / (90.0 * m[0]),
                ..Traffic::default()
            });
        });
        let mut m = vec![];
        solver.multipliers(&mut m);
        let latency = 90.0 * m[0];
        assert!((latency / 3200.0 - 1.0).abs() < 0.02, "{latency}");
    }
}
