//! `notier`: first-touch placement, the no-tiering baseline of every paper.

use crate::knob::{Config, KnobError};
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::{Context, Extent, Placement, Policy, Topology};

crate::knobs! {
    /// Knobs of `notier`.
    pub struct NoTierConfig for "notier" {
        /// Share of fast memory that stays free as long as there is room elsewhere, as a kernel's high watermark
        reserve_pct: f64 = 0.5, float(0.0, 5.0), unit "%", special [], fixed, restart,
            source "Linux zone watermarks; default and range ours";
    }
}

struct NoTier {
    free_pages: u32,
}

impl Policy for NoTier {
    fn on_alloc(&mut self, _: &Extent, _: &mut Context<'_>) -> Placement {
        Placement::FastestAbove {
            free_pages: self.free_pages,
        }
    }
}

/// The registry entry.
pub const SYSTEM: System = System {
    name: "notier",
    summary: "first touch, then never moves a page",
    source: "baseline",
    signal: "none",
    page_bytes: &[PAGE_2M, PAGE_4K],
    knobs: NoTierConfig::knobs,
    build,
};

fn build(config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    let config = NoTierConfig::from_config(config)?;
    let reserve = f64::from(topology.capacity_pages[0]) * config.reserve_pct / 100.0;
    Ok(Box::new(NoTier {
        free_pages: reserve.round() as u32,
    }))
}
