//! What every policy promises, and the small machine on which it is held to that.
//!
//! [`driver`] is a driver with a virtual clock that ends a run where a policy breaks a rule, [`workload`] gives every
//! policy something to do, [`promises`] are the contract, and [`script`] replays golden scripts. The tests of the
//! policy crate hold the systems of the registry to all of it, the Python binding those that are written in Python.

pub mod driver;
pub mod promises;
pub mod script;
pub mod workload;

pub use driver::{Driver, Entry, MS};
