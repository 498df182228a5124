//! `static`: a given share of the hot set in fast memory, placed with foreknowledge and never moved.
//!
//! The Colloid paper's manual best case (SOSP'24 section 2.1): it puts x % of the hot set into fast
//! memory, fills what is left of it with cold pages, and sweeps x in steps of 10. Under load the best x
//! is not 100, which is that paper's point.
//!
//! What had to be decided:
//!
//! - a page is *hot* when it is read more often than the mean of all pages over the whole run, cache hits
//!   not counted; where all pages are alike there is no hot set, and placement is by address;
//! - x % of the hot pages are the hottest x %; if fast memory is smaller than that, as many as fit;
//! - cold pages fill the rest of fast memory in the order in which they are allocated. Hot pages never
//!   do, so with few cold pages some fast memory stays empty;
//! - objects that live at different times are given room as if they all lived at once;
//! - with more than two tiers the rest goes to tier 1, and below it when that is full.

use serde::{Deserialize, Serialize};

use crate::foreknowledge::{fill, for_each_taken, kinds, ranked};
use crate::knob::{Config, KnobError};
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::{Context, Extent, Horizon, Needs, Placement, Policy, Tier, Topology, Truth};

crate::knobs! {
    /// Knobs of `static`.
    pub struct StaticConfig for "static" {
        /// Share of the hot pages that are in fast memory
        hot_share_percent: f64 = 100.0, float(0.0, 100.0), unit "%", special [], tuned, restart,
            source "Colloid SOSP'24 section 2.1, which sweeps it in steps of 10";
    }
}

#[derive(Serialize, Deserialize)]
struct Static {
    config: StaticConfig,
    topology: Topology,
    /// By page; empty until the first allocation.
    tier_of: Vec<Tier>,
}

impl Static {
    fn plan(&self, truth: &dyn Truth) -> Vec<Tier> {
        let kinds = kinds(truth, Horizon::Run);
        let all: f64 = kinds.iter().map(|kind| f64::from(kind.pages) * kind.reads).sum();
        let mean = all / f64::from(self.topology.pages);
        let is_hot = |kind: usize| kinds[kind].reads > mean * (1.0 + 1e-9);
        let room = self.topology.capacity_pages[0];
        let hot_order: Vec<usize> = ranked(&kinds, |kind| kind.reads)
            .into_iter()
            .filter(|kind| is_hot(*kind))
            .collect();
        let hot_pages: u32 = hot_order.iter().map(|kind| kinds[*kind].pages).sum();
        let wanted = (f64::from(hot_pages) * self.config.hot_share_percent / 100.0).round() as u32;
        let mut taken = fill(&kinds, &hot_order, wanted.min(room));
        let cold_order: Vec<usize> = (0..kinds.len()).filter(|kind| !is_hot(*kind)).collect();
        let left = room - taken.iter().sum::<u32>();
        for (taken, cold) in taken.iter_mut().zip(fill(&kinds, &cold_order, left)) {
            *taken += cold;
        }
        let mut tier_of = vec![1; self.topology.pages as usize];
        for_each_taken(truth, Horizon::Run, &taken, |page| tier_of[page as usize] = 0);
        tier_of
    }
}

impl Policy for Static {
    crate::saves_itself!();

    fn needs(&self) -> Needs {
        Needs {
            truth: true,
            ..Needs::default()
        }
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        if let (true, Some(truth)) = (self.tier_of.is_empty(), cx.truth) {
            self.tier_of = self.plan(truth);
        }
        let pages = extent.start as usize..(extent.start + extent.pages) as usize;
        Placement::ByPage(self.tier_of[pages].to_vec())
    }
}

/// The registry entry.
pub const SYSTEM: System = System {
    name: "static",
    summary: "a share of the hot set in fast memory, known beforehand; never moves a page",
    source: "manual best case of Colloid, SOSP'24 section 2.1",
    signal: "none: it knows the run beforehand",
    page_bytes: &[PAGE_2M, PAGE_4K],
    knobs: StaticConfig::knobs,
    build,
};

fn build(config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    Ok(Box::new(Static {
        config: StaticConfig::from_config(config)?,
        topology: topology.clone(),
        tier_of: Vec::new(),
    }))
}
