//! What a run measures. Each metric has one declaration; help, storage, tables and reports use it.

use serde::Serialize;

/// The declaration of a metric.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Metric {
    /// Name with unit.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// `minimize`, `maximize`, or empty where neither is better in itself.
    pub direction: &'static str,
    /// `objective`: what workloads are measured by; `secondary`: a campaign may improve it, too; `covariate`: told beside
    /// them.
    pub role: &'static str,
    /// One line.
    pub meaning: &'static str,
}

/// Declares figures: the struct that holds them, and the list that tells of them.
macro_rules! figures {
    ($(#[doc = $what:literal])+ $figures:ident $list:ident
     $( $(#[doc = $meaning:literal])+ $name:ident $unit:literal $direction:literal $role:literal; )*) => {
        $(#[doc = $what])+
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
        pub struct $figures {
            $( $(#[doc = $meaning])+ pub $name: f64, )*
        }

        /// All of them, in the order of reports.
        pub const $list: &[$crate::metrics::Metric] = &[
            $( $crate::metrics::Metric {
                name: stringify!($name),
                unit: $unit,
                direction: $direction,
                role: $role,
                meaning: concat!($($meaning),+).trim_ascii(),
            }, )*
        ];

        impl $figures {
            /// Values by name, in the order of reports.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, f64)> {
                [$( (stringify!($name), self.$name), )*].into_iter()
            }
        }
    };
}
pub(crate) use figures;

figures! {
    /// The figures of one run.
    Metrics METRICS
    /// Simulated time from the first to the last operation, loading left out.
    runtime_s "s" "minimize" "objective";
    /// Operations of all threads per second, those of loading left out.
    throughput_mops "1e6 op/s" "maximize" "objective";
    /// Share of memory reads that the fast tier served.
    fast_hit_ratio "" "maximize" "secondary";
    /// Pages moved to a faster tier.
    promotions "pages" "" "covariate";
    /// Pages moved to a slower tier.
    demotions "pages" "" "covariate";
    /// Requested migrations that did not happen: the target tier was full.
    migrations_failed "pages" "" "covariate";
    /// Copies thrown away because the page was written meanwhile (transactional systems).
    migrations_aborted "copies" "" "covariate";
    /// Requested migrations given up after their last aborted copy.
    migrations_given_up "pages" "" "covariate";
    /// Bytes copied between tiers.
    migrated_bytes "B" "" "covariate";
    /// Hardware samples that reached the policy.
    samples "records" "" "covariate";
    /// Hardware samples lost because the sampling thread could not keep up.
    samples_dropped "records" "" "covariate";
    /// CPU time of the sampling thread for records, busy polling not counted.
    sampler_cpu_s "s" "" "covariate";
    /// Hint faults that application threads took.
    hint_faults "faults" "" "covariate";
    /// Faults on the first write to a page with a shadow copy.
    write_faults "faults" "" "covariate";
    /// CPU time of the tiering system's threads for scans, lists and decisions, busy polling not counted.
    policy_cpu_s "s" "" "covariate";
    /// Time that migration threads spent on copies.
    migration_busy_s "s" "" "covariate";
    /// Application thread time lost to samples, faults, scans and pages under migration.
    stall_s "s" "minimize" "secondary";
    /// Of that, time in faults, migrations by the faulting thread included.
    fault_stall_s "s" "" "covariate";
    /// Of that, time in scans that the application's threads carry out.
    scan_stall_s "s" "" "covariate";
    /// Of that, time in interrupts by which cores forget pages that are moved in the background.
    shootdown_stall_s "s" "" "covariate";
    /// Mean loaded latency of the fast tier, over time.
    fast_latency_ns "ns" "minimize" "secondary";
    /// Mean loaded latency of the slowest tier, over time.
    slow_latency_ns "ns" "minimize" "secondary";
    /// Mean traffic of the fast tier, reads and writes, copies and co-runners included.
    fast_bandwidth_gbps "1e9 B/s" "" "covariate";
    /// Mean traffic of the slowest tier, reads and writes, copies and co-runners included.
    slow_bandwidth_gbps "1e9 B/s" "" "covariate";
    /// Simulated time of the profiling run beforehand, for systems that profile offline.
    profiling_s "s" "" "covariate";
    /// Simulated time of loading before the run, where it is replayed; what moves in it is among all other figures.
    loading_s "s" "" "covariate";
    /// Reads that reached memory.
    simulated_accesses "accesses" "" "covariate";
}

/// Figures of a stretch of time, to be added up.
#[derive(Debug, Clone, Default)]
pub struct Stretch {
    /// Duration.
    pub ns: f64,
    /// Operations done.
    pub ops: f64,
    /// Reads that reached memory.
    pub reads: f64,
    /// Those that the fast tier served.
    pub fast_reads: f64,
    /// Pages promoted.
    pub promotions: f64,
    /// Pages demoted.
    pub demotions: f64,
    /// Loaded latency of the fast tier times duration.
    pub fast_latency_ns2: f64,
    /// Loaded latency of the slowest tier times duration.
    pub slow_latency_ns2: f64,
    /// Bytes to and from the fast tier.
    pub fast_traffic_bytes: f64,
    /// Bytes to and from the slowest tier.
    pub slow_traffic_bytes: f64,
    /// Fast-tier memory in use times duration.
    pub fast_used_byte_ns: f64,
}

impl Stretch {
    /// Adds another stretch.
    pub fn add(&mut self, other: &Stretch) {
        self.ns += other.ns;
        self.ops += other.ops;
        self.reads += other.reads;
        self.fast_reads += other.fast_reads;
        self.promotions += other.promotions;
        self.demotions += other.demotions;
        self.fast_latency_ns2 += other.fast_latency_ns2;
        self.slow_latency_ns2 += other.slow_latency_ns2;
        self.fast_traffic_bytes += other.fast_traffic_bytes;
        self.slow_traffic_bytes += other.slow_traffic_bytes;
        self.fast_used_byte_ns += other.fast_used_byte_ns;
    }
}

/// A time series with a bounded number of points: when it is full, neighbours merge in pairs.
#[derive(Debug)]
pub struct Timeline {
    points: usize,
    stretch_ns: f64,
    stretches: Vec<Stretch>,
}

impl Timeline {
    /// At most `2 * points` points while recording, at most that many when read; 0 records nothing.
    #[must_use]
    pub fn new(points: usize) -> Self {
        Self {
            points,
            stretch_ns: 1e6,
            stretches: Vec::new(),
        }
    }

    /// Whether it records anything.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.points > 0
    }

    /// Adds what happened next.
    pub fn push(&mut self, stretch: &Stretch) {
        if self.points == 0 {
            return;
        }
        match self
            .stretches
            .last_mut()
            .filter(|s| s.ns + stretch.ns <= self.stretch_ns)
        {
            Some(last) => last.add(stretch),
            None => self.stretches.push(stretch.clone()),
        }
        while self.stretches.len() > 2 * self.points {
            self.stretch_ns *= 2.0;
            let merged = self.stretches.chunks(2).map(|pair| {
                let mut sum = pair[0].clone();
                if let Some(second) = pair.get(1) {
                    sum.add(second);
                }
                sum
            });
            self.stretches = merged.collect();
        }
    }

    /// The columns of the series.
    #[must_use]
    pub fn columns(&self) -> TimelineColumns {
        let mut columns = TimelineColumns::default();
        let mut end_ns = 0.0;
        for s in self.stretches.iter().filter(|s| s.ns > 0.0) {
            end_ns += s.ns;
            columns.time_s.push(end_ns / 1e9);
            columns
                .fast_hit_ratio
                .push(if s.reads > 0.0 { s.fast_reads / s.reads } else { 0.0 });
            columns.throughput_mops.push(s.ops / s.ns * 1e3);
            columns.promotions_per_s.push(s.promotions / s.ns * 1e9);
            columns.demotions_per_s.push(s.demotions / s.ns * 1e9);
            columns.fast_latency_ns.push(s.fast_latency_ns2 / s.ns);
            columns.slow_latency_ns.push(s.slow_latency_ns2 / s.ns);
            columns.fast_used_bytes.push(s.fast_used_byte_ns / s.ns);
        }
        columns
    }
}

/// The series by column, all of equal length.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TimelineColumns {
    /// End of each stretch.
    pub time_s: Vec<f64>,
    /// Share of memory reads that the fast tier served.
    pub fast_hit_ratio: Vec<f64>,
    /// 1e6 operations per second.
    pub throughput_mops: Vec<f64>,
    /// Pages promoted per second.
    pub promotions_per_s: Vec<f64>,
    /// Pages demoted per second.
    pub demotions_per_s: Vec<f64>,
    /// Loaded latency of the fast tier.
    pub fast_latency_ns: Vec<f64>,
    /// Loaded latency of the slowest tier.
    pub slow_latency_ns: Vec<f64>,
    /// Fast-tier memory in use.
    pub fast_used_bytes: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_campaign_may_improve_has_a_direction_and_nothing_else_has() {
        for metric in METRICS {
            assert!(["objective", "secondary", "covariate"].contains(&metric.role));
            assert_eq!(
                metric.role == "covariate",
                metric.direction.is_empty(),
                "{}",
                metric.name
            );
        }
        let objectives: Vec<_> = METRICS.iter().filter(|metric| metric.role == "objective").collect();
        assert_eq!(objectives.len(), 2);
    }

    #[test]
    fn a_full_timeline_merges_and_keeps_its_totals() {
        let mut timeline = Timeline::new(50);
        for i in 0..10_000 {
            let promotions = f64::from(i % 7);
            timeline.push(&Stretch {
                ns: 1e6,
                ops: 5.0,
                promotions,
                ..Stretch::default()
            });
        }
        let columns = timeline.columns();
        assert!(columns.time_s.len() <= 100);
        assert!((columns.time_s.last().unwrap() - 10.0).abs() < 1e-9);
        let total: f64 = timeline.stretches.iter().map(|s| s.promotions).sum();
        assert_eq!(total, (0..10_000).map(|i| f64::from(i % 7)).sum::<f64>());
    }
}
