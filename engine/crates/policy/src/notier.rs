//! `notier`: first-touch placement, the no-tiering baseline of every paper.

use crate::knob::{Config, KnobError};
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::{Context, Extent, Placement, Policy, Topology};

crate::knobs! {
    /// `notier` has no knobs.
    pub struct NoTierConfig for "notier" {}
}

struct NoTier;

impl Policy for NoTier {
    fn on_alloc(&mut self, _: &Extent, _: &mut Context<'_>) -> Placement {
        Placement::FastestFree
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

fn build(config: &Config, _: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    NoTierConfig::from_config(config)?;
    Ok(Box::new(NoTier))
}
