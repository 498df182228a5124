//! Workload kernels executed for real, and the access profiles recorded from them.
//!
//! A kernel implements [`kernel::Program`] and touches memory only through [`memory::Memory`]. Run with [`host::Host`] it
//! computes its result at native speed on real memory; run with [`counter::Counter`] its accesses are counted; run with [`recorder::Recorder`] it leaves a [`Profile`]: per slice of work,
//! object, access class and 4 KiB page, what passed the caches. [`Profile::carry`] turns a profile of a
//! small input into what the simulator replays at the size that papers measure.

pub mod cache;
pub mod carry;
pub mod class;
pub mod counter;
pub mod graph;
pub mod host;
pub mod kernel;
pub mod kernels;
pub mod law;
pub mod lines;
pub mod measured;
pub mod memory;
pub mod merges;
pub mod parameter;
pub mod profile;
pub mod record;
pub mod recorder;
pub mod request;
pub mod shared;
pub mod successors;

pub use carry::{CarryError, CarrySpec, Replay, ReplayObject, ReplaySlice, ReplayStream};
pub use class::AccessClass;
pub use kernel::{Kernel, Program};
pub use measured::Measured;
pub use parameter::Values;
pub use profile::{Columns, Profile, ProfileError};
pub use record::{Plan, RecordError, RecordRequest, plan, record};

/// Compiles the example in this crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
