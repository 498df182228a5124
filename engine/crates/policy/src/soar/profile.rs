//! The profiling run of `soar`: what every kind of object costs.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::knobs::SoarConfig;
use crate::{
    Context, CoreCounters, Event, Extent, Gauge, Needs, Page, Placement, Policy, Sample, SamplerRequest, Topology,
};

/// Objects that one place in the program allocates, and which part of each.
pub(super) type Kind = (u32, u32);

/// Most parts of an object.
pub(super) const MOST_PARTS: u32 = 256;

/// Bands of the published scripts: up to so many cycles.
const BANDS: [f64; 4] = [40.0, 45.0, 60.0, 80.0];
/// Above this many cycles a band has bounds of its own.
const MIDDLE_CYCLES: f64 = 60.0;

/// Pages of a part of `extent`; the last one may be smaller.
pub(super) fn part_pages(config: &SoarConfig, topology: &Topology, extent: &Extent) -> u32 {
    if !config.split_objects {
        return extent.pages.max(1);
    }
    topology
        .pages_in(config.object_part_bytes)
        .max(extent.pages.div_ceil(MOST_PARTS))
        .max(1)
}

/// Whether `extent` is too small to be cared for.
pub(super) fn is_small(config: &SoarConfig, topology: &Topology, extent: &Extent) -> bool {
    u64::from(extent.pages) * topology.page_bytes < config.min_object_bytes
}

/// What is known of a kind.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Known {
    pub score: f64,
    /// Most pages that were there at a time.
    pub most_pages: u32,
    live_pages: u32,
    /// Samples of the window under way.
    samples: u64,
}

/// The policy of the profiling run, and what it knows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Profile {
    config: SoarConfig,
    topology: Topology,
    pub kinds: BTreeMap<Kind, Known>,
    /// Objects by first page.
    extents: BTreeMap<Page, Extent>,
    /// Samples of the window under way, of small objects too.
    samples: u64,
    /// Counters at the start of the window, and as last seen.
    begun: CoreCounters,
    latest: CoreCounters,
    pub windows: u64,
    pub all_samples: u64,
}

impl Profile {
    pub fn new(config: &SoarConfig, topology: &Topology) -> Self {
        Self {
            config: config.clone(),
            topology: topology.clone(),
            kinds: BTreeMap::new(),
            extents: BTreeMap::new(),
            samples: 0,
            begun: CoreCounters::default(),
            latest: CoreCounters::default(),
            windows: 0,
            all_samples: 0,
        }
    }

    /// The parts of an extent with their sizes.
    fn parts(&self, extent: &Extent) -> Vec<(Kind, u32)> {
        let part = part_pages(&self.config, &self.topology, extent);
        let size = |number: u32| part.min(extent.pages - number * part);
        let parts = 0..extent.pages.div_ceil(part);
        parts.map(|number| ((extent.site, number), size(number))).collect()
    }

    /// Latency per unit of parallelism over the whole run, in cycles.
    pub fn aol_cycles(&self) -> f64 {
        self.latest.outstanding_cycles / self.latest.reads.max(1.0)
    }

    /// Ends a window: what the program lost is shared out by samples.
    pub fn close(&mut self) {
        let (from, to) = (self.begun, self.latest);
        self.begun = to;
        let reads = to.reads - from.reads;
        let cycles = to.cycles - from.cycles;
        let samples = std::mem::take(&mut self.samples) as f64;
        let slowdown = (reads > 0.0 && cycles > 0.0).then(|| {
            let aol = (to.outstanding_cycles - from.outstanding_cycles) / reads;
            let stalled = (to.stall_cycles - from.stall_cycles) / cycles;
            (
                aol,
                stalled / (self.config.fit_constant + self.config.fit_cycles / aol.max(f64::MIN_POSITIVE)),
            )
        });
        self.windows += u64::from(slowdown.is_some());
        for known in self.kinds.values_mut() {
            let seen = std::mem::take(&mut known.samples) as f64;
            if let (Some((aol, slowdown)), true) = (slowdown, seen > 0.0) {
                known.score += corrected_share(&self.config, seen / samples, aol) * slowdown;
            }
        }
    }
}

/// The share of samples, corrected for what it says about stalls where misses overlap: an object with few samples
/// is more to blame then than they say, one with most of them less.
pub(super) fn corrected_share(config: &SoarConfig, share: f64, aol: f64) -> f64 {
    let most = (config.r_min + config.r_gap).min(0.999);
    if config.scoring == "paper" {
        return match share {
            _ if aol >= config.l0_cycles => share,
            _ if share < config.r_min => share * config.factor,
            _ if share > most => share / config.factor,
            _ => share,
        };
    }
    let factors = [
        config.factor_to_40_cycles,
        config.factor_to_45_cycles,
        config.factor_to_60_cycles,
        config.factor_to_80_cycles,
    ];
    let Some((_, factor)) = BANDS.iter().zip(factors).find(|(cycles, _)| aol <= **cycles) else {
        return share;
    };
    let (least, most) = if aol > MIDDLE_CYCLES {
        (config.mid_r_min, config.mid_r_max)
    } else {
        (config.r_min, most)
    };
    match share {
        _ if share >= most => share / factor,
        _ if share >= least => share,
        _ => share * factor,
    }
}

impl Policy for Profile {
    crate::saves_itself!();

    fn samplers(&self) -> Vec<SamplerRequest> {
        vec![SamplerRequest {
            event: Event::LoadMiss,
            period: self.config.pebs_period,
        }]
    }

    fn needs(&self) -> Needs {
        Needs {
            counters: true,
            ..Needs::default()
        }
    }

    fn on_alloc(&mut self, extent: &Extent, _cx: &mut Context<'_>) -> Placement {
        if !is_small(&self.config, &self.topology, extent) {
            for (kind, pages) in self.parts(extent) {
                let known = self.kinds.entry(kind).or_default();
                known.live_pages += pages;
                known.most_pages = known.most_pages.max(known.live_pages);
            }
            self.extents.insert(extent.start, extent.clone());
        }
        Placement::FastUnbounded
    }

    fn on_free(&mut self, extent: &Extent, _cx: &mut Context<'_>) {
        if self.extents.remove(&extent.start).is_some() {
            for (kind, pages) in self.parts(extent) {
                self.kinds.entry(kind).or_default().live_pages -= pages;
            }
        }
    }

    fn on_samples(&mut self, samples: &[Sample], cx: &mut Context<'_>) {
        self.latest = cx.counters.cores;
        self.samples += samples.len() as u64;
        self.all_samples += samples.len() as u64;
        for sample in samples {
            let Some((_, extent)) = self.extents.range(..=sample.page).next_back() else {
                continue;
            };
            if sample.page < extent.start + extent.pages {
                let part = part_pages(&self.config, &self.topology, extent);
                let kind = (extent.site, (sample.page - extent.start) / part);
                self.kinds.entry(kind).or_default().samples += 1;
            }
        }
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        self.latest = cx.counters.cores;
        if cx.now > 0 {
            self.close();
        }
        cx.wake_at(cx.now + (self.config.window_s * 1e9).round() as u64);
    }

    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }
}
