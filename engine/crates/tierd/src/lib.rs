//! The live daemon: tiering policies on the memory of real processes.
//!
//! [`driver::Driver`] is the machine that policies run on; everything that it asks of the operating system is behind
//! [`kernel::Kernel`], which tests play. The rest of the crate is the command around it.

pub mod choose;
pub mod command;
pub mod counters;
pub mod driver;
pub mod facts;
pub mod hold;
pub mod kernel;
pub mod limits;
pub mod linux;
mod memory;
pub mod metrics;
pub mod mover;
pub mod report;
pub mod selfbench;
pub mod series;
pub mod session;
pub mod signals;
pub mod table;
