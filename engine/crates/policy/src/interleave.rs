//! `interleave`: spreads new pages over the tiers by weight and never moves one.
//!
//! A program that needs more bandwidth than its fastest memory has runs faster when a part of its
//! traffic goes elsewhere, however well the rest is placed. Weighted interleaving does that without
//! looking at a single access: with weights in the ratio of the tiers' bandwidths, uniform traffic
//! fills all of them at once. It is also the line that a tiering system has to beat there.
//!
//! What had to be decided:
//!
//! - with more than two tiers every slower tier has `weight_slow` for itself, as every node has its
//!   own weight in Linux; a round then is `weight_fast` + (tiers - 1) x `weight_slow` pages;
//! - the round goes on from one allocation to the next, so that many small ones are spread as well;
//! - a page whose tier is full goes to the next slower tier with room, after the slowest to the
//!   fastest. It still counts for the tier it was meant for.

use crate::knob::{Config, KnobError};
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::{Context, Extent, Interleave, Placement, Policy, Topology};
use serde::{Deserialize, Serialize};

crate::knobs! {
    /// Knobs of `interleave`.
    pub struct InterleaveConfig for "interleave" {
        /// Pages in a row that go to the fastest tier
        weight_fast: u8 = 1, int(1, 255, log), unit "pages", special [], tuned, restart,
            source "Linux mempolicy weighted_interleave: weights 1 to 255, default 1";
        /// Pages in a row that then go to each slower tier
        weight_slow: u8 = 1, int(1, 255, log), unit "pages", special [], tuned, restart,
            source "Linux mempolicy weighted_interleave: weights 1 to 255, default 1";
    }
}

#[derive(Serialize, Deserialize)]
struct Interleaved {
    config: InterleaveConfig,
    tiers: u32,
    /// Where in the round the next page is.
    position: u32,
}

impl Policy for Interleaved {
    crate::saves_itself!();

    fn on_alloc(&mut self, extent: &Extent, _: &mut Context<'_>) -> Placement {
        let interleave = Interleave {
            weight_fast: self.config.weight_fast,
            weight_slow: self.config.weight_slow,
            position: self.position,
        };
        let round = interleave.round_pages(self.tiers);
        self.position = (self.position + extent.pages % round) % round;
        Placement::Interleaved(interleave)
    }
}

/// The registry entry.
pub const SYSTEM: System = System {
    name: "interleave",
    summary: "new pages go round robin over the tiers by weight, then never move",
    source: "baseline; weighted interleave as in Linux 6.9",
    signal: "none",
    page_bytes: &[PAGE_2M, PAGE_4K],
    knobs: InterleaveConfig::knobs,
    build,
};

fn build(config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    Ok(Box::new(Interleaved {
        config: InterleaveConfig::from_config(config)?,
        tiers: topology.capacity_pages.len() as u32,
        position: 0,
    }))
}
