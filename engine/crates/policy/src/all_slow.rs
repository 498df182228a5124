//! `all-slow`: the reference line without fast memory.

use crate::knob::{Config, KnobError};
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::{Context, Extent, Placement, Policy, Topology};

crate::knobs! {
    /// `all-slow` has no knobs.
    pub struct AllSlowConfig for "all-slow" {}
}

struct AllSlow;

impl Policy for AllSlow {
    fn on_alloc(&mut self, _: &Extent, _: &mut Context<'_>) -> Placement {
        Placement::SlowestFree
    }
}

/// The registry entry.
pub const SYSTEM: System = System {
    name: "all-slow",
    summary: "everything in the slowest tier",
    source: "baseline",
    signal: "none",
    page_bytes: &[PAGE_2M, PAGE_4K],
    knobs: AllSlowConfig::knobs,
    build,
};

fn build(config: &Config, _: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    AllSlowConfig::from_config(config)?;
    Ok(Box::new(AllSlow))
}
