//! How the accesses of a stream depend on each other.

use serde::{Deserialize, Serialize};

/// Access class: decides how many misses one core keeps in flight and what the prefetcher hides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessClass {
    /// Each address comes from the load before (pointer chase, tree walk).
    Chase,
    /// Independent addresses known early (GUPS reads, hash probes).
    Random,
    /// Random reads addressed by a streamed index array, with branchy bodies (graph neighbours).
    Gather,
    /// Independent random read-modify-write.
    Update,
    /// Sequential, found by the prefetcher.
    Stream,
    /// Where an element's data are, and their beginning: its place in an index, then what lies there. One waits for the
    /// other; those of elements side by side overlap as far as the core sees ahead.
    Lookup,
}

impl AccessClass {
    /// All classes; the position is the number stored in profiles.
    pub const ALL: [AccessClass; 6] = [
        AccessClass::Chase,
        AccessClass::Random,
        AccessClass::Gather,
        AccessClass::Update,
        AccessClass::Stream,
        AccessClass::Lookup,
    ];

    /// Share of lines that the prefetcher fetches ahead, where it has not been counted. It does not cross 4 KiB boundaries,
    /// so that the first line of each is a demand miss.
    #[must_use]
    pub fn prefetched_share(self) -> f64 {
        match self {
            AccessClass::Stream => 63.0 / 64.0,
            _ => 0.0,
        }
    }

    /// Share of lines that come alone, where it has not been counted: a sequence takes those side by side, nothing else does.
    #[must_use]
    pub fn random_share(self) -> f64 {
        match self {
            AccessClass::Stream => 0.0,
            _ => 1.0,
        }
    }

    /// Whether the core finds the next addresses without the data of earlier misses.
    #[must_use]
    pub fn independent(self) -> bool {
        match self {
            AccessClass::Random | AccessClass::Update | AccessClass::Gather => true,
            AccessClass::Chase | AccessClass::Stream | AccessClass::Lookup => false,
        }
    }
}
