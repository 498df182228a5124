//! `all-fast`: the denominator of slowdowns.

use crate::knob::{Config, KnobError};
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::{Context, Extent, Placement, Policy, Topology};

crate::knobs! {
    /// `all-fast` has no knobs.
    pub struct AllFastConfig for "all-fast" {}
}

struct AllFast;

impl Policy for AllFast {
    fn on_alloc(&mut self, _: &Extent, _: &mut Context<'_>) -> Placement {
        Placement::FastUnbounded
    }
}

/// The registry entry.
pub const SYSTEM: System = System {
    name: "all-fast",
    summary: "everything in an unbounded fast tier",
    source: "baseline",
    signal: "none",
    page_bytes: &[PAGE_2M, PAGE_4K],
    knobs: AllFastConfig::knobs,
    build,
};

fn build(config: &Config, _: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    AllFastConfig::from_config(config)?;
    Ok(Box::new(AllFast))
}
