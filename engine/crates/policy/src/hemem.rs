//! `hemem` placeholder while the workspace takes shape.
use crate::knob::{Config, Knob, KnobError};
use crate::policy::{Policy, Topology};
use crate::registry::{PAGE_2M, PAGE_4K, System};
crate::knobs! {
    /// x
    pub struct HememConfig for "hemem" {}
}
struct Hemem;
impl Policy for Hemem {}
/// The registry entry.
pub const SYSTEM: System = System { name: "hemem", summary: "x", source: "x", signal: "x", page_bytes: &[PAGE_2M, PAGE_4K], knobs: HememConfig::knobs as fn() -> Vec<Knob>, build };
fn build(config: &Config, _: &Topology) -> Result<Box<dyn Policy>, KnobError> { HememConfig::from_config(config)?; Ok(Box::new(Hemem)) }
