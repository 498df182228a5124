//! All systems, by name. Adding a policy is one file beside this one and one line in [`SYSTEMS`];
//! adding a policy that holds another is one file and one line in [`WRAPPERS`].

use serde::Serialize;
use serde::ser::SerializeStruct;
use thiserror::Error;

use crate::knob::{self, Config, Knob, KnobError};
use crate::nearest::nearest;
use crate::policy::{Policy, Topology};

/// Everything the rest of the project may know about a base system without running it.
#[derive(Clone, Copy)]
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
    pub knobs: fn() -> Vec<Knob>,
    /// Checks the config and builds the policy.
    pub build: Build,
}

/// Checks a config and builds the policy for a topology.
pub type Build = fn(&Config, &Topology) -> Result<Box<dyn Policy>, KnobError>;

/// A policy that holds a policy: `colloid+hemem` is the wrapper `colloid` around the system `hemem`.
#[derive(Clone, Copy)]
pub struct Wrapper {
    /// Name, before the `+`.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Paper or origin.
    pub source: &'static str,
    /// What it looks at beside its host's signal.
    pub signal: &'static str,
    /// Its knobs around `host`, with the defaults that are right there; their names start with its own
    /// name so that they never meet a host's.
    pub knobs: fn(host: &Composed) -> Vec<Knob>,
    /// Knobs of `host` that decide nothing any more, which the composition does not have.
    pub idles: fn(host: &Composed) -> &'static [&'static str],
    /// Whether it makes sense around `host` (built with defaults and thrown away afterwards); if not, why.
    pub accepts: fn(host: &mut dyn Policy) -> Result<(), &'static str>,
    /// Builds it around its host, which has its own config.
    pub wrap: Wrap,
}

/// Takes the wrapper's part of a config, with every value filled in, and builds it around its host.
pub type Wrap = fn(&Config, &Topology, Box<dyn Policy>) -> Result<Box<dyn Policy>, KnobError>;

/// 4 KiB, in bytes.
pub const PAGE_4K: u64 = 4 << 10;
/// 2 MiB, in bytes.
pub const PAGE_2M: u64 = 2 << 20;

/// The base systems.
pub static SYSTEMS: &[System] = &[
    crate::hemem::SYSTEM,
    crate::memtis::SYSTEM,
    crate::flexmem::SYSTEM,
    crate::pact::SYSTEM,
    crate::soar::SYSTEM,
    crate::arms::SYSTEM,
    crate::tpp::SYSTEM,
    crate::nbt::SYSTEM,
    crate::nomad::SYSTEM,
    crate::autonuma::SYSTEM,
    crate::hmsdk::SYSTEM,
    crate::mru::SYSTEM,
    crate::random_exchange::SYSTEM,
    crate::interleave::SYSTEM,
    crate::static_split::SYSTEM,
    crate::oracle::SYSTEM,
    crate::notier::SYSTEM,
    crate::all_fast::SYSTEM,
    crate::all_slow::SYSTEM,
];

/// The wrappers, in the order in which they go around each other, the outermost first.
pub static WRAPPERS: &[Wrapper] = &[crate::alto::WRAPPER, crate::colloid::WRAPPER];

/// The compositions that papers evaluate; any other sensible one is found by its name as well.
pub static COMPOSITIONS: &[&str] = &[
    "colloid+hemem",
    "colloid+memtis",
    "colloid+tpp",
    "colloid+nbt",
    "alto+tpp",
    "alto+nbt",
    "alto+nomad",
    "alto+colloid+tpp",
    "alto+colloid+nbt",
];

/// A base system with the wrappers around it; what a system's name stands for.
#[derive(Clone)]
pub struct Composed {
    /// Outermost first.
    pub wrappers: Vec<&'static Wrapper>,
    /// The system that knows the pages.
    pub base: &'static System,
}

impl Composed {
    /// The name: `alto+colloid+nbt`.
    #[must_use]
    pub fn name(&self) -> String {
        let names = self.wrappers.iter().map(|w| w.name).chain([self.base.name]);
        names.collect::<Vec<_>>().join("+")
    }

    fn joined(&self, of_wrapper: fn(&Wrapper) -> &'static str, of_base: &str) -> String {
        let parts = self.wrappers.iter().map(|w| of_wrapper(w)).chain([of_base]);
        parts.collect::<Vec<_>>().join("; ")
    }

    /// One line.
    #[must_use]
    pub fn summary(&self) -> String {
        self.joined(|w| w.summary, self.base.summary)
    }

    /// Papers or origins.
    #[must_use]
    pub fn source(&self) -> String {
        self.joined(|w| w.source, self.base.source)
    }

    /// What it learns from.
    #[must_use]
    pub fn signal(&self) -> String {
        self.joined(|w| w.signal, self.base.signal)
    }

    /// Page sizes, those of the base system.
    #[must_use]
    pub fn page_bytes(&self) -> &'static [u64] {
        self.base.page_bytes
    }

    /// What the wrapper at `place` is around.
    fn host_of(&self, place: usize) -> Composed {
        Composed {
            wrappers: self.wrappers[place + 1..].to_vec(),
            base: self.base,
        }
    }

    /// The knobs of all parts, the outermost wrapper's first.
    #[must_use]
    pub fn knobs(&self) -> Vec<Knob> {
        let places = 0..self.wrappers.len();
        let of_wrapper = |place: usize| (self.wrappers[place].knobs)(&self.host_of(place));
        let idle = |place: usize| (self.wrappers[place].idles)(&self.host_of(place));
        let idle: Vec<&str> = places.clone().flat_map(idle).copied().collect();
        let knobs = places.flat_map(of_wrapper).chain((self.base.knobs)());
        knobs.filter(|knob| !idle.contains(&knob.name)).collect()
    }

    /// The policy with defaults on the smallest machine there is, to ask it what it can do.
    ///
    /// # Errors
    /// When the defaults do not build, which a test rules out.
    pub fn smallest(&self) -> Result<Box<dyn Policy>, KnobError> {
        let topology = Topology {
            page_bytes: self.base.page_bytes[0],
            pages: 1,
            capacity_pages: vec![1, 1],
        };
        self.build(&Config::new(), &topology)
    }

    /// Why it runs on no host, if it does not.
    #[must_use]
    pub fn live_obstacle(&self) -> Option<&'static str> {
        let policy = self.smallest().ok()?;
        if policy.needs().truth {
            return Some("it needs the truth about future accesses, which only the simulated machine has");
        }
        policy.rehearsal().map(|_| {
            "it is planned by a rehearsal of the whole workload that has all memory fast and sees which place in the \
             program allocates each object; from outside nobody sees such places, only mappings"
        })
    }

    /// Every knob with its value.
    ///
    /// # Errors
    /// Names an unknown knob or a bad value.
    pub fn resolve(&self, config: &Config) -> Result<Config, KnobError> {
        knob::resolve(&self.name(), &self.knobs(), config)
    }

    /// Builds the policy.
    ///
    /// # Errors
    /// Names an unknown knob or a bad value.
    pub fn build(&self, config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
        let config = self.resolve(config)?;
        let part = |knobs: Vec<Knob>| -> Config {
            let own = knobs.iter().filter_map(|knob| config.get_key_value(knob.name));
            own.map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        let base = (self.base.build)(&part((self.base.knobs)()), topology)?;
        (0..self.wrappers.len()).rev().try_fold(base, |host, place| {
            let wrapper = self.wrappers[place];
            (wrapper.wrap)(&part((wrapper.knobs)(&self.host_of(place))), topology, host)
        })
    }
}

/// What runs a policy has to know of its system: [`Composed`] for the systems of this registry, and a type of its
/// own for policies that are no part of it.
pub trait Tiering: Send + Sync {
    /// Name in requests and errors.
    fn name(&self) -> String;
    /// What it learns accesses from; begins with `none` where it learns nothing.
    fn signal(&self) -> String;
    /// Page sizes, the usual one first.
    fn page_bytes(&self) -> &[u64];
    /// All knobs.
    fn knobs(&self) -> Vec<Knob>;
    /// Builds the policy.
    ///
    /// # Errors
    /// Names an unknown knob or a bad value.
    fn build(&self, config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError>;

    /// Every knob with its value.
    ///
    /// # Errors
    /// Names an unknown knob or a bad value.
    fn resolve(&self, config: &Config) -> Result<Config, KnobError> {
        knob::resolve(&self.name(), &self.knobs(), config)
    }
}

impl Tiering for Composed {
    fn name(&self) -> String {
        self.name()
    }

    fn signal(&self) -> String {
        self.signal()
    }

    fn page_bytes(&self) -> &[u64] {
        self.page_bytes()
    }

    fn knobs(&self) -> Vec<Knob> {
        self.knobs()
    }

    fn build(&self, config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
        self.build(config, topology)
    }
}

impl Serialize for Composed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Composed", 7)?;
        fields.serialize_field("name", &self.name())?;
        fields.serialize_field("summary", &self.summary())?;
        fields.serialize_field("source", &self.source())?;
        fields.serialize_field("signal", &self.signal())?;
        fields.serialize_field("page_bytes", self.page_bytes())?;
        fields.serialize_field("knobs", &self.knobs())?;
        fields.serialize_field("live_obstacle", &self.live_obstacle())?;
        fields.end()
    }
}

/// A name that is no system, or a config that does not fit it.
#[derive(Debug, Error)]
pub enum SystemError {
    /// No such system.
    #[error("there is no system '{name}'; did you mean '{nearest}'?")]
    Unknown {
        /// What was given.
        name: String,
        /// The closest system.
        nearest: String,
    },
    /// Parts that exist but do not go together.
    #[error("'{name}' makes no sense: {reason}; a system that does is '{nearest}'")]
    Senseless {
        /// What was given.
        name: String,
        /// Why not.
        reason: String,
        /// The closest one that does.
        nearest: String,
    },
    /// The config does not fit.
    #[error(transparent)]
    Config(#[from] KnobError),
}

/// Names of all systems that are listed: base systems, then the compositions of papers.
pub fn names() -> impl Iterator<Item = &'static str> {
    SYSTEMS.iter().map(|s| s.name).chain(COMPOSITIONS.iter().copied())
}

/// All systems that are listed.
#[must_use]
pub fn listed() -> Vec<Composed> {
    names()
        .map(|name| find(name).expect("a test finds every listed system"))
        .collect()
}

fn nearest_listed(name: &str) -> String {
    nearest(name, names()).expect("the registry is not empty").to_string()
}

/// The system called `name`, wrappers included.
///
/// # Errors
/// When a part does not exist, or the parts do not go together.
pub fn find(name: &str) -> Result<Composed, SystemError> {
    let mut parts: Vec<&str> = name.split('+').collect();
    let base_name = parts.pop().unwrap_or_default();
    let unknown = || SystemError::Unknown {
        name: name.to_string(),
        nearest: nearest_listed(name),
    };
    let base = SYSTEMS.iter().find(|s| s.name == base_name).ok_or_else(unknown)?;
    let places: Vec<usize> = parts
        .iter()
        .map(|part| WRAPPERS.iter().position(|w| w.name == *part).ok_or_else(unknown))
        .collect::<Result<_, _>>()?;
    let composed = Composed {
        wrappers: places.iter().map(|place| &WRAPPERS[*place]).collect(),
        base,
    };
    check_composition(&composed, &places)?;
    Ok(composed)
}

fn check_composition(composed: &Composed, places: &[usize]) -> Result<(), SystemError> {
    let senseless = |reason: String| SystemError::Senseless {
        name: composed.name(),
        reason,
        nearest: nearest_listed(&composed.name()),
    };
    if let Some(pair) = places.windows(2).find(|pair| pair[0] >= pair[1]) {
        let (outer, inner) = (WRAPPERS[pair[0]].name, WRAPPERS[pair[1]].name);
        return Err(senseless(if outer == inner {
            format!("'{outer}' twice")
        } else {
            format!("'{inner}' goes around '{outer}', not the other way round")
        }));
    }
    for place in (0..composed.wrappers.len()).rev() {
        let mut host = composed.host_of(place).smallest()?;
        if let Err(reason) = (composed.wrappers[place].accepts)(host.as_mut()) {
            return Err(senseless(reason.to_string()));
        }
    }
    Ok(())
}

/// Builds the policy of system `name` with `config` for `topology`.
///
/// # Errors
/// As [`find`] and [`Composed::build`].
pub fn build(name: &str, config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, SystemError> {
    Ok(find(name)?.build(config, topology)?)
}
