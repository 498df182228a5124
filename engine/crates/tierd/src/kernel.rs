//! What the driver needs of an operating system: small enough to be played by a test.

use tiertune_host::Area;
pub use tiertune_host::follow::Process;

/// Why pages could not be moved or asked about at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The process has ended.
    #[error("the process has ended")]
    Gone,
    /// The node has no memory any more.
    #[error("the node is offline")]
    Offline,
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

/// A page is in use just now; another try may help.
pub const BUSY: i32 = -libc::EBUSY;
/// Nothing was done about the page, since the kernel ended early; another try may help.
pub const UNTRIED: i32 = -libc::EAGAIN;
/// The target node has no memory for it.
pub const NO_MEMORY: i32 = -libc::ENOMEM;
/// There is no page at that address.
pub const ABSENT: i32 = -libc::ENOENT;

/// Processes, their memory, and the time. Pages are addresses in units of 4 KiB.
pub trait Kernel {
    /// Nanoseconds of a clock that never goes back.
    fn now_ns(&mut self) -> u64;

    /// Waits until `until_ns`; may come back early.
    fn rest(&mut self, until_ns: u64);

    /// Whether the workload's first process lives; asked often.
    fn lives(&mut self) -> bool;

    /// The processes of the workload that are there now.
    fn processes(&mut self) -> Vec<Process>;

    /// Further processes of the workload when they were last looked for, which are too many to be followed.
    fn left_out(&self) -> usize {
        0
    }

    /// The mappings of a process that are managed, in order.
    fn areas(&mut self, pid: i32) -> Vec<Area>;

    /// Calls `found` with each stretch of pages of `area` that is in memory, in order.
    ///
    /// # Errors
    /// When the process is gone or may not be looked at.
    fn resident(&mut self, pid: i32, area: &Area, found: &mut dyn FnMut(u64, u64)) -> Result<(), Refusal>;

    /// The node of each page, or the negative number of an error.
    ///
    /// # Errors
    /// When none could be asked about.
    fn nodes(&mut self, pid: i32, pages: &[u64]) -> Result<Vec<i32>, Refusal>;

    /// For each page a number of its own if other processes have it too; otherwise 0.
    ///
    /// # Errors
    /// When the process is gone or may not be looked at.
    fn shared(&mut self, pid: i32, pages: &[u64]) -> Result<Vec<u64>, Refusal>;

    /// Moves pages; the node of each afterwards, or the negative number of an error.
    ///
    /// # Errors
    /// When none could be moved.
    fn migrate(&mut self, pid: i32, pages: &[u64], node: u32) -> Result<Vec<i32>, Refusal>;

    /// The process has ended or runs another program.
    fn forget(&mut self, pid: i32) {
        let _ = pid;
    }

    /// Processor time of the workload so far, in nanoseconds.
    fn workload_cpu_ns(&mut self) -> u64;

    /// How long a thread of the workload has run on a core so far, in nanoseconds; nothing when it is gone.
    fn thread_run_ns(&mut self, thread: i32) -> Option<u64>;

    /// Processor time of the calling thread so far, in nanoseconds.
    fn own_cpu_ns(&mut self) -> u64;
}
