//! What is counted beside the metrics of every run, where somebody asks for it: the counters that systems get, summed
//! over the run, what became of each object, and how far gauges went.
//!
//! Nothing of it changes a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tiertune_policy::{Counters, Gauge, Nanos, PageMap, Sample};

use crate::memory::Memory;
use crate::metrics::figures;
use crate::workload::{Object, Workload};

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observe {
    /// The performance counters of cores and tiers: `counter.NAME`.
    Counters,
    /// Reads, samples and places of each object: `object.OBJECT.NAME`.
    Objects,
    /// Lowest, mean and highest of each gauge over time: `gauge.NAME.lowest`.
    Gauges,
}

figures! {
    /// What counters read at the end of a run.
    CounterFigures COUNTER_FIGURES
    /// Unhalted cycles of all cores that run the application.
    cycles "cycles" "" "covariate";
    /// Of those, cycles stalled on misses of the last-level cache.
    stall_cycles "cycles" "" "covariate";
    /// Cycles with a demand data read outstanding off core, hits of the last-level cache included (A1 of Soar and Alto).
    outstanding_cycles "cycles" "" "covariate";
    /// Demand data reads outstanding off core, integrated over cycles (A2).
    occupancy_cycles "cycles" "" "covariate";
    /// Demand data reads that went off core (A3).
    reads "reads" "" "covariate";
    /// Amortised latency of a demand data read: A1 / A3.
    aol_cycles "cycles" "" "covariate";
    /// Demand data reads that went to any tier (CHA/TOR inserts).
    misses "reads" "" "covariate";
    /// Those in flight, over the time in which there were any: the parallelism that CHA/TOR occupancy says.
    parallelism "reads" "" "covariate";
    /// Demand data reads that went to the fast tier.
    fast_misses "reads" "" "covariate";
    /// Demand data reads that went to slower tiers.
    slow_misses "reads" "" "covariate";
}

impl CounterFigures {
    /// The figures of counters since the start; 0 where there was nothing to divide by.
    #[must_use]
    pub fn of(counters: &Counters) -> Self {
        let per = |amount: f64, by: f64| if by > 0.0 { amount / by } else { 0.0 };
        let (cores, tiers) = (&counters.cores, &counters.tiers);
        let misses: f64 = tiers.iter().map(|tier| tier.inserts).sum();
        let occupancy_ns: f64 = tiers.iter().map(|tier| tier.occupancy_ns).sum();
        let busy_ns: f64 = tiers.iter().map(|tier| tier.busy_ns).sum();
        let fast_misses = tiers.first().map_or(0.0, |tier| tier.inserts);
        Self {
            cycles: cores.cycles,
            stall_cycles: cores.stall_cycles,
            outstanding_cycles: cores.outstanding_cycles,
            occupancy_cycles: cores.occupancy_cycles,
            reads: cores.reads,
            aol_cycles: per(cores.outstanding_cycles, cores.reads),
            misses,
            parallelism: per(occupancy_ns, busy_ns),
            fast_misses,
            slow_misses: misses - fast_misses,
        }
    }
}

figures! {
    /// What became of an object; objects of one name count as one.
    ObjectFigures OBJECT_FIGURES
    /// Pages that it had at the end of the run.
    pages "pages" "" "covariate";
    /// Of those, the share that was in fast memory.
    fast_share "" "" "covariate";
    /// Reads that reached memory, over all pages that it ever had.
    reads_per_page "reads" "" "covariate";
    /// Hardware samples that reached the policy, over the same.
    samples_per_page "records" "" "covariate";
    /// Coefficient of variation of the samples of pages that are accessed equally often: their standard deviation over
    /// their mean, as a root mean square over all sets of such pages that got samples.
    samples_cv "" "" "covariate";
    /// Index of dispersion of the same: variance over mean, 1 where samples come by chance (Poisson).
    samples_dispersion "" "" "covariate";
}

/// How far a gauge went.
#[derive(Debug, Clone, Copy)]
struct Span {
    lowest: f64,
    highest: f64,
    sum: f64,
    times: f64,
}

/// Gauges are read this often: some are counted over all pages.
const GAUGES_EVERY_NS: Nanos = 100_000_000;

/// Counts what was asked for.
#[derive(Debug)]
pub struct Observer {
    asked: Vec<Observe>,
    /// Samples by page; empty unless asked for.
    samples: Vec<u32>,
    /// Reads by object; empty unless asked for.
    reads: Vec<f64>,
    gauges: BTreeMap<&'static str, Span>,
    gauges_at: Nanos,
}

impl Observer {
    /// One that counts what is `asked` of a run of `workload`.
    #[must_use]
    pub fn new(asked: &[Observe], workload: &Workload) -> Self {
        let objects = asked.contains(&Observe::Objects);
        Self {
            asked: asked.to_vec(),
            samples: vec![0; if objects { workload.pages as usize } else { 0 }],
            reads: vec![0.0; if objects { workload.objects.len() } else { 0 }],
            gauges: BTreeMap::new(),
            gauges_at: 0,
        }
    }

    /// Whether performance counters have to count, for whomever.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.asked.contains(&Observe::Counters)
    }

    /// Takes note of samples that reach the policy.
    pub fn sampled(&mut self, samples: &[Sample]) {
        if !self.samples.is_empty() {
            for sample in samples {
                self.samples[sample.page as usize] += 1;
            }
        }
    }

    /// Takes note of reads of `object` that reached memory.
    pub fn read(&mut self, object: usize, reads: f64) {
        if let Some(sum) = self.reads.get_mut(object) {
            *sum += reads;
        }
    }

    /// Whether gauges are to be read at `now`.
    #[must_use]
    pub fn wants_gauges(&self, now: Nanos) -> bool {
        now >= self.gauges_at && self.asked.contains(&Observe::Gauges)
    }

    /// Takes note of what gauges say at `now`.
    pub fn gauged(&mut self, now: Nanos, gauges: &[Gauge]) {
        self.gauges_at = now + GAUGES_EVERY_NS;
        for gauge in gauges {
            let (value, none) = (gauge.value, (f64::INFINITY, f64::NEG_INFINITY));
            let span = self.gauges.entry(gauge.name).or_insert(Span {
                lowest: none.0,
                highest: none.1,
                sum: 0.0,
                times: 0.0,
            });
            span.lowest = span.lowest.min(value);
            span.highest = span.highest.max(value);
            span.sum += value;
            span.times += 1.0;
        }
    }

    /// Everything that was asked for, by name.
    #[must_use]
    pub fn finish(&self, counters: &Counters, workload: &Workload, memory: &Memory) -> BTreeMap<String, f64> {
        let mut found = BTreeMap::new();
        if self.counts() {
            for (name, value) in CounterFigures::of(counters).named() {
                found.insert(format!("counter.{name}"), value);
            }
        }
        for (name, span) in &self.gauges {
            found.insert(format!("gauge.{name}.lowest"), span.lowest);
            found.insert(format!("gauge.{name}.highest"), span.highest);
            found.insert(format!("gauge.{name}.mean"), span.sum / span.times);
        }
        if self.asked.contains(&Observe::Objects) {
            let mut of_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
            for (number, object) in workload.objects.iter().enumerate() {
                of_name.entry(&object.name).or_default().push(number);
            }
            for (name, numbers) in of_name {
                for (figure, value) in self.object(&numbers, &workload.objects, memory).named() {
                    found.insert(format!("object.{name}.{figure}"), value);
                }
            }
        }
        found
    }

    fn object(&self, numbers: &[usize], objects: &[Object], memory: &Memory) -> ObjectFigures {
        let per = |amount: f64, by: f64| if by > 0.0 { amount / by } else { 0.0 };
        let (mut all, mut there, mut fast, mut reads) = (0.0, 0.0, 0.0, 0.0);
        let mut scatter = Scatter::default();
        for number in numbers {
            let object = &objects[*number];
            all += f64::from(object.pages);
            reads += self.reads[*number];
            let pages = object.first_page..object.first_page + object.pages;
            for page in pages.filter(|page| memory.exists(*page)) {
                there += 1.0;
                fast += f64::from(u8::from(memory.tier_of(page) == 0));
            }
            for edges in object.edges.windows(2) {
                let counts = (edges[0]..edges[1]).map(|at| f64::from(self.samples[object.page_at(at) as usize]));
                scatter.add(&counts.collect::<Vec<_>>());
            }
        }
        ObjectFigures {
            pages: there,
            fast_share: per(fast, there),
            reads_per_page: per(reads, all),
            samples_per_page: per(scatter.samples, all),
            samples_cv: per(scatter.relative, scatter.freedoms).sqrt(),
            samples_dispersion: per(scatter.excess, scatter.freedoms),
        }
    }
}

/// How counts scatter about the means of their sets, over many sets.
#[derive(Debug, Default)]
struct Scatter {
    samples: f64,
    /// Squared deviations, each over its set's mean.
    excess: f64,
    /// Squared deviations, each over the square of its set's mean.
    relative: f64,
    /// Counts less one for each set: a set's mean follows from its counts.
    freedoms: f64,
}

impl Scatter {
    /// Adds a set of counts with the same expectation.
    fn add(&mut self, counts: &[f64]) {
        let sum: f64 = counts.iter().sum();
        self.samples += sum;
        if counts.len() < 2 || sum <= 0.0 {
            return;
        }
        let mean = sum / counts.len() as f64;
        let squares: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
        self.excess += squares / mean;
        self.relative += squares / (mean * mean);
        self.freedoms += counts.len() as f64 - 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: means 2 and 5, squared deviations 2 and 18, one degree of freedom each and two.
    #[test]
    fn scatter_is_about_the_mean_of_each_set() {
        let mut scatter = Scatter::default();
        scatter.add(&[1.0, 3.0]);
        scatter.add(&[2.0, 5.0, 8.0]);
        scatter.add(&[0.0, 0.0]);
        assert_eq!(scatter.samples, 19.0);
        assert!((scatter.excess - (2.0 / 2.0 + 18.0 / 5.0)).abs() < 1e-12);
        assert!((scatter.relative - (2.0 / 4.0 + 18.0 / 25.0)).abs() < 1e-12);
        assert_eq!(scatter.freedoms, 3.0);
    }

    #[test]
    fn counters_at_rest_are_divided_by_nothing() {
        let figures = CounterFigures::of(&Counters::default());
        assert_eq!(figures, CounterFigures::default());
    }
}
