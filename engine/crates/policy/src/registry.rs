//! All systems, by name. Adding a policy is one file beside this one and one line in [`SYSTEMS`].

use serde::Serialize;
use thiserror::Error;

use crate::knob::{Config, Knob, KnobError};
use crate::nearest::nearest;
use crate::policy::{Policy, Topology};
use crate::{all_fast, all_slow, hemem, interleave, mru, notier, random_exchange};

/// Everything the rest of the project may know about a system without running it.
#[derive(Clone, Copy, Serialize)]
pub struct System {
    /// Name in configs, commands and reports.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Paper or origin.
    pub source: &'static str,
    /// What it learns accesses from.
    pub signal: &'static str,
    /// Page sizes it manages, in bytes, the usual one first.
    pub page_bytes: &'static [u64],
    /// Its knobs.
    #[serde(serialize_with = "serialize_knobs")]
    pub knobs: fn() -> Vec<Knob>,
    /// Checks the config and builds the policy.
    #[serde(skip)]
    pub build: Build,
}

/// Checks a config and builds the policy for a topology.
pub type Build = fn(&Config, &Topology) -> Result<Box<dyn Policy>, KnobError>;

fn serialize_knobs<S: serde::Serializer>(knobs: &fn() -> Vec<Knob>, serializer: S) -> Result<S::Ok, S::Error> {
    knobs().serialize(serializer)
}

/// 4 KiB, in bytes.
pub const PAGE_4K: u64 = 4 << 10;
/// 2 MiB, in bytes.
pub const PAGE_2M: u64 = 2 << 20;

/// The registry.
pub static SYSTEMS: &[System] = &[
    hemem::SYSTEM,
    mru::SYSTEM,
    random_exchange::SYSTEM,
    interleave::SYSTEM,
    notier::SYSTEM,
    all_fast::SYSTEM,
    all_slow::SYSTEM,
];

/// A name that is no system, or a config that does not fit it.
#[derive(Debug, Error)]
pub enum SystemError {
    /// No such system.
    #[error("there is no system '{name}'; did you mean '{nearest}'?")]
    Unknown {
        /// What was given.
        name: String,
        /// The closest system.
        nearest: &'static str,
    },
    /// The config does not fit.
    #[error(transparent)]
    Config(#[from] KnobError),
}

/// The system called `name`.
pub fn find(name: &str) -> Result<&'static System, SystemError> {
    SYSTEMS
        .iter()
        .find(|s| s.name == name)
        .ok_or_else(|| SystemError::Unknown {
            name: name.to_string(),
            nearest: nearest(name, SYSTEMS.iter().map(|s| s.name)).expect("the registry is not empty"),
        })
}

/// Builds the policy of system `name` with `config` for `topology`.
pub fn build(name: &str, config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, SystemError> {
    Ok((find(name)?.build)(config, topology)?)
}
