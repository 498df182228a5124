//! What can be wrong with a request, each as one sentence.

use thiserror::Error;
use tiertune_policy::SystemError;

/// A run that cannot be started.
#[derive(Debug, Error)]
pub enum RunError {
    /// No such system, or a config that does not fit it.
    #[error(transparent)]
    System(#[from] SystemError),
    /// The workload does not hang together.
    #[error("workload: {0}")]
    Workload(String),
    /// The machine does not hang together.
    #[error("machine '{name}': {problem}")]
    Machine {
        /// The machine.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// Pages that the system does not manage.
    #[error("system '{system}' does not manage pages of {page_bytes} bytes; it manages {supported}")]
    PageSize {
        /// The system.
        system: String,
        /// What was asked.
        page_bytes: u64,
        /// The valid sizes.
        supported: String,
    },
    /// A profiling run that its own system could not read.
    #[error("system '{system}': profiling run: {problem}")]
    Rehearsal {
        /// The system.
        system: String,
        /// What is wrong.
        problem: String,
    },
    /// More memory than there is.
    #[error(
        "footprint of {footprint_bytes} bytes does not fit: {fast_bytes} bytes of fast memory and {slow_bytes} bytes below it"
    )]
    Footprint {
        /// The workload's pages.
        footprint_bytes: u64,
        /// Fast memory granted.
        fast_bytes: u64,
        /// All other tiers.
        slow_bytes: u64,
    },
}
