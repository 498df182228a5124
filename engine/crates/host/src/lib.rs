//! What this project does to processes of a real Linux host: seeing which pages they touch.
//!
//! [`sample`] follows a process and its children from outside, whatever program it is. Needs of privilege and missing
//! kernel features come back as [`HostError::Unfit`], with a sentence.
// Every file here talks to the kernel through calls that the compiler cannot check.
#![allow(unsafe_code)]

mod area;
mod damon;
pub mod descriptors;
pub mod follow;
pub mod group;
pub mod htmm;
#[cfg(target_arch = "x86_64")]
mod inject;
#[cfg(not(target_arch = "x86_64"))]
#[path = "inject_nowhere.rs"]
mod inject;
mod journal;
pub mod launch;
mod look;
pub mod numa;
pub mod owner;
mod pagemap;
pub mod perf;
mod probe;
mod process;
mod referenced;
mod sampler;
mod setting;
pub mod source;
mod translations;
mod tree;
mod userfault;
mod window;
mod written;

pub use area::Area;
pub use journal::{Changed, Journal, Restored, SharedJournal, Undo, Words};
pub use look::monotonic_ns;
pub use sampler::{Options, Sample, Sampler, sample};
pub use setting::value_of;
pub use window::{Cell, Window};

/// Bytes of the pages that are looked at.
pub const PAGE_BYTES: u64 = 4096;

/// Why nothing can be sampled; every message is one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// This host, or the rights here, do not allow it.
    #[error("{0}")]
    Unfit(String),
    /// What was asked for is not there.
    #[error("{0}")]
    Wrong(String),
}

/// The sentence of the last failed system call.
fn errno() -> std::io::Error {
    std::io::Error::last_os_error()
}
