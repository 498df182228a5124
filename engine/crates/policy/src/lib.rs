//! Tiering policies as pure state machines, and the knobs that tune them.
//!
//! Nothing in this crate reads a clock, a file, a thread or a global random source: `now` and a
//! seeded generator come in with every call, decisions go out as a list. So the same object runs
//! under the simulated machine and under a live daemon, and every behaviour is testable on a
//! virtual clock. Start with [`policy::Policy`]; add a policy by one file and one line in
//! [`registry`].

pub mod action;
pub mod all_fast;
pub mod all_slow;
pub mod alto;
pub mod arms;
pub mod autonuma;
pub mod colloid;
pub mod flexmem;
pub mod foreknowledge;
pub mod hemem;
pub mod hmsdk;
pub mod hosted;
pub mod hot_threshold;
pub mod interleave;
pub mod kernel_migration;
pub mod knob;
pub mod kswapd;
pub mod lru;
pub mod lru_gen;
pub mod memtis;
pub mod mover;
pub mod mru;
pub mod nbt;
pub mod nearest;
pub mod nomad;
pub mod notier;
pub mod numa_balancing;
pub mod numa_scan;
pub mod oracle;
pub mod pact;
pub mod page_bits;
pub mod page_list;
pub mod page_queue;
pub mod page_ring;
pub mod placement;
pub mod policy;
pub mod random;
pub mod random_exchange;
pub mod rate_limit;
pub mod reclaim_lists;
pub mod registry;
pub mod scan_period;
pub mod signal;
pub mod soar;
pub mod static_split;
pub mod tpp;
pub mod watermarks;

pub use action::*;
pub use knob::{Config, Knob, KnobError, KnobKind, Value};
pub use placement::*;
pub use policy::*;
pub use random::CounterRng;
pub use registry::{SYSTEMS, System, SystemError};
pub use signal::*;
pub use tiertune_prefetch::prefetch;

/// Compiles the example in the engine's README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
