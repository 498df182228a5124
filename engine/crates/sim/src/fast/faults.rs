//! Hint faults and write faults in the fast mode, and work that application threads do for the system.

use tiertune_policy::{Fault, FaultKind, PageMap};

use crate::sweep::Passed;
use crate::watch::FirstTouch;
use crate::workload::{Phase, Popularity};

use super::copies::group_of;
use super::{Fast, Progress};

/// Faults after which earlier ones count half.
const REMEMBERED: f64 = 1e4;

/// What a fault has cost its thread lately, all told.
#[derive(Debug, Default)]
pub(super) struct FaultCosts {
    faults: f64,
    ns: f64,
}

impl FaultCosts {
    /// A fault that cost `ns` by itself.
    fn add(&mut self, ns: f64) {
        self.faults += 1.0;
        self.ns += ns;
        if self.faults > REMEMBERED {
            self.faults /= 2.0;
            self.ns /= 2.0;
        }
    }

    /// What faults counted before cost beside that.
    pub fn more(&mut self, ns: f64) {
        self.ns += ns;
    }

    /// The mean.
    pub fn mean_ns(&self) -> f64 {
        if self.faults > 0.0 { self.ns / self.faults } else { 0.0 }
    }
}

impl Fast<'_> {
    /// Sets the guards that the policy has asked for; says whether pages have moved since the last call.
    pub(super) fn take_guards(&mut self) -> bool {
        for pages in std::mem::take(&mut self.driver.freed) {
            self.hints.disarm_all(pages.clone());
            self.writes.disarm_all(pages);
        }
        let moved = std::mem::take(&mut self.driver.moved);
        for page in &moved {
            self.hints.disarm(*page);
            self.writes.disarm(*page);
        }
        for pages in std::mem::take(&mut self.driver.arms) {
            for page in pages {
                if self.driver.memory.exists(page) {
                    self.hints.arm(page, self.now);
                }
            }
        }
        for page in std::mem::take(&mut self.driver.released) {
            self.writes.disarm(page);
        }
        !moved.is_empty()
    }

    /// Charges running threads for what they did for the tiering system.
    pub(super) fn charge_application(&mut self, phase: &Phase, progress: &mut Progress) {
        for (thread, times) in std::mem::take(&mut self.driver.repeated_faults) {
            let ns = f64::from(times) * self.machine.repeated_fault_ns();
            progress.debt_ns[group_of(phase, thread)] += ns;
            self.driver.metrics.fault_stall_s += ns / 1e9;
            self.fault_costs.more(ns);
        }
        let owed = std::mem::take(&mut self.driver.application_ns);
        if owed > 0.0 {
            let running = |g: &usize| progress.left[*g] > 0.0;
            let groups: Vec<usize> = (0..phase.groups.len()).filter(running).collect();
            let threads: f64 = groups.iter().map(|g| f64::from(phase.groups[*g].threads)).sum();
            for g in groups {
                progress.debt_ns[g] += owed * f64::from(phase.groups[g].threads) / threads;
            }
        }
    }

    /// Has group `g` pay what it owes of `available` thread time, and its threads run for what they do not sleep of it; what is paid.
    pub(super) fn pay(
        &mut self,
        g: usize,
        threads: std::ops::Range<usize>,
        available: f64,
        progress: &mut Progress,
    ) -> f64 {
        let paid = progress.debt_ns[g].min(available);
        // A debt is paid evenly, whatever it is made of.
        let slept = paid * (progress.asleep_ns[g] / progress.debt_ns[g].max(f64::MIN_POSITIVE)).min(1.0);
        progress.debt_ns[g] -= paid;
        progress.asleep_ns[g] -= slept;
        let ran = (available - slept) / threads.len() as f64;
        threads.for_each(|thread| self.driver.run(thread, ran));
        paid
    }

    /// How long group `g` may go on before its faults have cost its threads a slice: it is to stand still at the pages
    /// that it touches, not to touch all pages first and then to stand still. What its threads owe by now they pay
    /// first, which takes a slice at once, however often they will fault thereafter.
    pub(super) fn affordable_ns(&self, phase: &Phase, g: usize, share: f64, progress: &Progress) -> f64 {
        let faults_per_op = self.hints.expected_per_op(g) + self.writes.expected_per_op(g);
        let cost_per_op = faults_per_op * self.fault_costs.mean_ns();
        let running = f64::from(phase.groups[g].threads) * share;
        let threads = f64::from(phase.groups[g].threads);
        let ops = threads * self.request.slice_ns as f64 / cost_per_op;
        (progress.debt_ns[g] + ops * progress.op_ns[g]) / running
    }

    /// The faults that group `g` takes in `ops` operations of a slice.
    pub(super) fn take_faults(
        &mut self,
        phase: &Phase,
        g: usize,
        threads: std::ops::Range<usize>,
        ops: f64,
        dt_ns: f64,
        progress: &mut Progress,
    ) {
        for kind in [FaultKind::Hint, FaultKind::Write] {
            let watch = match kind {
                FaultKind::Hint => &mut self.hints,
                FaultKind::Write => &mut self.writes,
            };
            if watch.count() == 0 {
                continue;
            }
            let mut touched: Vec<FirstTouch> = Vec::new();
            watch.advance(g, ops, &mut touched);
            for s in phase.groups[g].streams.clone() {
                let stream = &phase.streams[s];
                let notices = match kind {
                    FaultKind::Hint => stream.markable_visits_per_op() > 0.0,
                    FaultKind::Write => stream.writes_per_op > 0.0,
                };
                if let (Popularity::Sweep, Some(sweep), true) = (&stream.popularity, &progress.sweeps[s], notices) {
                    let object = &self.driver.workload.objects[stream.object];
                    for Passed { positions } in sweep.passed(object) {
                        watch.pass(object, positions, &mut touched);
                    }
                }
            }
            for touch in touched {
                // Whichever thread comes first; all alike.
                let thread = threads.start as u64 + self.copies_rng.below(threads.len() as u64);
                progress.debt_ns[g] += self.machine.hint_fault_ns;
                self.fault_costs.add(self.machine.hint_fault_ns);
                self.driver.metrics.fault_stall_s += self.machine.hint_fault_ns / 1e9;
                self.faults.push(Fault {
                    page: touch.page,
                    tier: self.driver.memory.tier_of(touch.page),
                    kind,
                    armed_at: watch.armed_at(touch.page),
                    at: self.now + (touch.part.clamp(0.0, 1.0) * dt_ns) as u64,
                    thread: thread as u32,
                });
            }
        }
    }
}
