//! Workload kernels executed for real, and the access profiles recorded from them.
//!
//! A kernel touches memory only through [`memory::Memory`]. Run with [`memory::Native`] it computes its
//! result at native speed; run with [`recorder::Recorder`] it leaves a [`Profile`]: per slice of work,
//! object, access class and 4 KiB page, what passed the caches. [`Profile::carry`] turns a profile of a
//! small input into what the simulator replays at the size that papers measure.

pub mod cache;
pub mod carry;
pub mod class;
pub mod graph;
pub mod kernels;
pub mod law;
pub mod lines;
pub mod memory;
pub mod profile;
pub mod record;
pub mod recorder;
pub mod request;

pub use carry::{CarryError, CarrySpec, Replay, ReplayObject, ReplaySlice, ReplayStream};
pub use class::AccessClass;
pub use profile::{Columns, Profile, ProfileError};
pub use record::{Plan, RecordError, RecordRequest, plan, record};
