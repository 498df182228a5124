//! `alto`: promotes less where slow memory hurts less.
//!
//! What a read from slow memory costs depends on how many others are under way with it. Once a
//! period the counters of the cores give the latency per read with parallelism counted, AOL = A1 / A3:
//! cycles with a read outstanding per read. While that is low, misses overlap and promotions do not
//! pay for themselves, so the host's promotions are thinned: none up to a lower bound, all above an upper
//! one, a part in between. There are two places to do it, `alto_hook`:
//!
//! - `promote`: of the candidates of each thread the first so many of ten pass; the faults were paid for;
//! - `scan`: the host's scanner marks the first so many of sixteen units of 2 MiB only, which thins
//!   faults and promotions alike.
//!
//! The first reading changes nothing: there is nothing to compare it with. What it starts with is
//! everything. The patched scanner counts what it has armed against its budget and goes on until that
//! is used up, so it arms as many pages in more of the address space unless the share is 0
//! (`as_patched`); the paper means it to arm fewer (`budgeted`).
//!
//! What had to be decided here: windows of sixteen units lie at fixed places; a candidate without a
//! thread (a queue that is worked off in the background) counts as of a thread of its own; what a scan
//! costs falls with the share of pages that it arms.

mod curve;
mod knobs;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

use crate::hosted::{Asked, Hosted};
use crate::knob::{Config, KnobError};
use crate::registry::Wrapper;
use crate::{
    Context, CoreCounters, Extent, Fault, Gauge, How, Migrated, MigrationMechanics, Nanos, Needs, Order, Overheads,
    Page, Placement, Policy, Sample, SamplerRequest, StateError, Topology,
};

pub use knobs::AltoConfig;

/// Reading three counters on every core and writing two files, as `perf stat` in a script does (ours).
const READING_NS: f64 = 100_000.0;
/// Stands for the thread of a candidate that has none.
const NO_THREAD: u32 = u32::MAX;

/// What alto keeps beside its host.
#[derive(Serialize, Deserialize)]
struct State {
    config: AltoConfig,
    /// Pages of 2 MiB.
    unit_pages: u32,
    period_ns: Nanos,
    next_reading: Nanos,
    /// The counters at the last reading.
    last: Option<CoreCounters>,
    /// Of each `alto_promote_modulus` candidates so many pass.
    promote_scale: u32,
    /// Of each `alto_scan_modulus` units so many are armed.
    scan_scale: u32,
    /// Candidates so far of each thread, modulo `alto_promote_modulus`.
    candidates: BTreeMap<u32, u32>,
    aol_cycles: f64,
    load_latency_cycles: f64,
    unchanged: u64,
    armed_pages: u64,
    spared_pages: u64,
}

/// The wrapper.
struct Alto {
    host: Hosted,
    state: State,
}

impl State {
    fn thins_promotions(&self) -> bool {
        self.config.alto_hook != "scan"
    }

    fn thins_scans(&self) -> bool {
        self.config.alto_hook != "promote"
    }

    /// Reads the counters; `true` when the scales were set anew.
    fn read(&mut self, counters: &CoreCounters) -> bool {
        let Some(last) = self.last.replace(*counters) else {
            return false;
        };
        let reads = counters.reads - last.reads;
        if reads <= 0.0 {
            self.unchanged += 1;
            return false;
        }
        self.aol_cycles = (counters.outstanding_cycles - last.outstanding_cycles) / reads;
        self.load_latency_cycles = (counters.occupancy_cycles - last.occupancy_cycles) / reads;
        if self.load_latency_cycles <= f64::from(self.config.alto_min_load_latency_cycles) {
            self.unchanged += 1;
            return false;
        }
        let [promotions, units] = curve::shares(&self.config, self.aol_cycles);
        let of = |share: f64, modulus: u32| (share * f64::from(modulus)).round() as u32;
        self.promote_scale = of(promotions, self.config.alto_promote_modulus);
        self.scan_scale = of(units, self.config.alto_scan_modulus);
        true
    }

    /// How much wider a scan has to be to arm as many pages as ever.
    fn widening(&self) -> f64 {
        let as_patched = self.config.alto_scan_scale_mode == "as_patched" && self.thins_scans();
        if as_patched && self.scan_scale > 0 {
            f64::from(self.config.alto_scan_modulus) / f64::from(self.scan_scale)
        } else {
            1.0
        }
    }

    /// Whether a candidate of `thread` passes.
    fn passes(&mut self, thread: u32) -> bool {
        let count = self.candidates.entry(thread).or_default();
        let passes = *count < self.promote_scale;
        *count = (*count + 1) % self.config.alto_promote_modulus;
        passes
    }

    /// The parts of `pages` that are to be armed.
    fn thinned(&mut self, pages: Range<Page>, cx: &Context<'_>) -> Vec<Range<Page>> {
        let spares_fast = self.config.alto_thins == "slow";
        let (unit, modulus) = (self.unit_pages, self.config.alto_scan_modulus);
        let mut kept: Vec<Range<Page>> = Vec::new();
        let mut keep = |part: Range<Page>| match kept.last_mut() {
            Some(last) if last.end == part.start => last.end = part.end,
            _ => kept.push(part),
        };
        let mut start = pages.start;
        while start < pages.end {
            let end = (start - start % unit).saturating_add(unit).min(pages.end);
            if (start / unit) % modulus < self.scan_scale {
                keep(start..end);
            } else if spares_fast {
                (start..end)
                    .filter(|page| cx.pages.tier_of(*page) == 0)
                    .for_each(|page| keep(page..page + 1));
            }
            start = end;
        }
        let armed: u32 = kept.iter().map(|part| part.end - part.start).sum();
        self.armed_pages += u64::from(armed);
        self.spared_pages += u64::from(pages.end - pages.start - armed);
        kept
    }
}

impl Alto {
    /// Passes on what the host asked for, thinned.
    fn pass(&mut self, asked: Asked, faults: &[Fault], cx: &mut Context<'_>) {
        let (armed, spared) = (self.state.armed_pages, self.state.spared_pages);
        let mut orders = Vec::new();
        for order in asked.orders {
            match order {
                Order::Arm(pages) if self.state.thins_scans() => {
                    let kept = self.state.thinned(pages, cx);
                    orders.extend(kept.into_iter().map(Order::Arm));
                }
                other => orders.push(other),
            }
        }
        let (armed, spared) = (self.state.armed_pages - armed, self.state.spared_pages - spared);
        for order in &mut orders {
            if let (Order::InApplication(ns), true) = (order, spared > 0) {
                *ns = (*ns as f64 * armed as f64 / (armed + spared) as f64).round() as Nanos;
            }
        }
        cx.orders.extend(orders);
        for request in asked.moves {
            let promotion = request.to < cx.pages.tier_of(request.page);
            let of_fault = || faults.iter().find(|fault| fault.page == request.page);
            let thread = match request.how {
                How::InFault { thread } => thread,
                _ => of_fault().map_or(NO_THREAD, |fault| fault.thread),
            };
            if promotion && self.state.thins_promotions() && !self.state.passes(thread) {
                self.host.refuse(request, cx.now);
            } else {
                self.host.let_through(request, cx);
            }
        }
        self.wake(cx);
    }

    fn wake(&self, cx: &mut Context<'_>) {
        let host = self.host.next_call(cx.now);
        *cx.wake_at = host.into_iter().chain([self.state.next_reading]).min();
    }

    /// Calls the host, once with refusals that it has not heard of and once with `work`.
    fn forward<R>(
        &mut self,
        faults: &[Fault],
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut dyn Policy, &mut Context<'_>) -> R,
    ) -> R {
        let refused = self.host.take_refused();
        if !refused.is_empty() {
            let idle = self.host.idle();
            let ((), asked) = self.host.call(cx, |host, cx| host.on_migrations(&refused, idle, cx));
            self.pass(asked, &[], cx);
        }
        let (result, asked) = self.host.call(cx, work);
        self.pass(asked, faults, cx);
        result
    }
}

impl Policy for Alto {
    fn samplers(&self) -> Vec<SamplerRequest> {
        self.host.policy.samplers()
    }

    fn needs(&self) -> Needs {
        Needs {
            counters: true,
            ..self.host.policy.needs()
        }
    }

    fn rehearsal(&self) -> Option<Box<dyn Policy>> {
        self.host.policy.rehearsal()
    }

    fn learn(&mut self, notes: &[u8]) -> Result<(), StateError> {
        self.host.policy.learn(notes)
    }

    fn mechanics(&self) -> MigrationMechanics {
        self.host.policy.mechanics()
    }

    fn overheads(&self) -> Overheads {
        self.host.policy.overheads()
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.forward(&[], cx, |host, cx| host.on_alloc(extent, cx))
    }

    fn on_free(&mut self, extent: &Extent, cx: &mut Context<'_>) {
        self.forward(&[], cx, |host, cx| host.on_free(extent, cx));
    }

    fn on_faults(&mut self, faults: &[Fault], cx: &mut Context<'_>) {
        self.forward(faults, cx, |host, cx| host.on_faults(faults, cx));
    }

    fn on_samples(&mut self, samples: &[Sample], cx: &mut Context<'_>) {
        self.forward(&[], cx, |host, cx| host.on_samples(samples, cx));
    }

    fn on_migrations(&mut self, ended: &[Migrated], idle: bool, cx: &mut Context<'_>) {
        self.host.ended(ended.len() as u32);
        self.forward(&[], cx, |host, cx| host.on_migrations(ended, idle, cx));
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        if cx.now >= self.state.next_reading {
            self.state.next_reading = cx.now + self.state.period_ns;
            cx.spend(READING_NS);
            if self.state.read(&cx.counters.cores) {
                self.host.policy.widen_scans(self.state.widening());
            }
        }
        if self.host.take_wake(cx.now) {
            self.forward(&[], cx, |host, cx| host.on_wake(cx));
        } else {
            self.forward(&[], cx, |_, _| ()); // refusals may be left to be told
        }
    }

    fn gauges(&self) -> Vec<Gauge> {
        let state = &self.state;
        let own = [
            (
                "alto_aol_cycles",
                "cycles per read, parallelism counted",
                state.aol_cycles,
            ),
            (
                "alto_load_latency_cycles",
                "cycles from a read to its data",
                state.load_latency_cycles,
            ),
            (
                "alto_promote_scale",
                "candidates that pass of each round",
                f64::from(state.promote_scale),
            ),
            (
                "alto_scan_scale",
                "units of 2 MiB armed of each window",
                f64::from(state.scan_scale),
            ),
            (
                "alto_unchanged",
                "readings that changed nothing",
                state.unchanged as f64,
            ),
            (
                "alto_armed_pages",
                "pages of scans that it let be armed",
                state.armed_pages as f64,
            ),
            (
                "alto_spared_pages",
                "pages of scans that it left out",
                state.spared_pages as f64,
            ),
            (
                "alto_refused_promotions",
                "promotions that did not pass",
                self.host.refusals() as f64,
            ),
        ]
        .map(|(name, meaning, value)| Gauge { name, meaning, value });
        own.into_iter().chain(self.host.policy.gauges()).collect()
    }

    fn save(&self) -> Vec<u8> {
        self.host.save_with(&self.state)
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), StateError> {
        self.state = self.host.restore_with(state)?;
        Ok(())
    }
}

/// The registry entry.
pub const WRAPPER: Wrapper = Wrapper {
    name: "alto",
    summary: "thins promotions while misses overlap so well that slow memory hardly hurts",
    source: "Soar and Alto, OSDI'25, and the published patches",
    signal: "offcore read counters of the cores",
    knobs: knobs::around,
    idles: |_| &[],
    accepts,
    wrap,
};

fn accepts(host: &mut dyn Policy) -> Result<(), &'static str> {
    if host.needs().hint_faults {
        Ok(())
    } else {
        Err("alto thins hint faults and the promotions that follow them, and its host takes no hint faults")
    }
}

/// Builds the wrapper around any host that it accepts.
///
/// # Errors
/// When the config does not fit.
pub fn wrap(config: &Config, topology: &Topology, host: Box<dyn Policy>) -> Result<Box<dyn Policy>, KnobError> {
    let config = AltoConfig::from_config(config)?;
    let state = State {
        unit_pages: topology.huge_pages(),
        period_ns: (config.alto_sample_period_s * 1e9).round() as Nanos,
        next_reading: 0,
        last: None,
        promote_scale: config.alto_promote_modulus,
        scan_scale: config.alto_scan_modulus,
        candidates: BTreeMap::new(),
        aol_cycles: 0.0,
        load_latency_cycles: 0.0,
        unchanged: 0,
        armed_pages: 0,
        spared_pages: 0,
        config,
    };
    let host = Hosted::new(host);
    Ok(Box::new(Alto { host, state }))
}
