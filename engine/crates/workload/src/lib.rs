//! Workload kernels executed for real, and the access profiles recorded from them.

pub mod carry;
pub mod class;

pub use carry::{CarryError, CarrySpec, Replay, ReplayObject, ReplaySlice, ReplayStream};
pub use class::AccessClass;
