//! Where the live daemon learns of accesses: every way of seeing them gives the same records, by address.
//!
//! A way that this host does not have says so when it is probed. Adding one is a file with a [`Source`] and a line in
//! [`SOURCES`].

use std::ops::Range;

use crate::area::Area;
use crate::journal::SharedJournal;
use crate::perf::{hardware, hint_faults};
use crate::{HostError, damon, look};

/// What was seen of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// A load that missed the last-level cache: a hardware sample.
    LoadMiss,
    /// The same, of an event that only counts loads served by another node than the first.
    SlowLoadMiss,
    /// A retired store: a hardware sample.
    Store,
    /// The first touch of a page whose guard the kernel had set.
    HintFault,
    /// A load or store since the last drain: an accessed bit.
    Accessed,
    /// A store since the last drain: a written bit.
    Written,
}

/// One access that was seen, by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The process.
    pub pid: i32,
    /// The thread, where it is known; otherwise the process again.
    pub thread: i32,
    /// Address of the access, or the first of a region.
    pub address: u64,
    /// Bytes that it stands for: 1 for an exact address, a page or a region where no more is known.
    pub bytes: u64,
    /// What was seen.
    pub kind: AccessKind,
    /// How much was seen of it: 1, or for a region how many of its looks found it touched.
    pub weight: u32,
    /// When, by `CLOCK_MONOTONIC`; for bits and regions the time at which they were read.
    pub time_ns: u64,
    /// When the guard of a hint fault was set, by the same clock, where the source knows.
    pub armed_ns: Option<u64>,
    /// The memory node that served it, where the record says so (not a tier: sources know nodes).
    pub node: Option<u32>,
}

/// What a drain gave beside accesses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drained {
    /// Records that were read, those that are no accesses included.
    pub records: u64,
    /// Records that the kernel says were lost.
    pub lost: u64,
    /// How often the kernel throttled the source.
    pub throttled: u64,
}

/// Which signals of policies a source offers as they are; what can be made of them otherwise is the driver's matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Signals {
    /// Hardware samples of loads that missed the last-level cache.
    pub load_misses: bool,
    /// Hardware samples of such loads from slow memory alone.
    pub slow_load_misses: bool,
    /// Hardware samples of stores.
    pub stores: bool,
    /// Hint faults.
    pub hint_faults: bool,
    /// Accessed bits: loads and stores.
    pub accessed_bits: bool,
    /// Written bits: stores only.
    pub written_bits: bool,
}

/// What a source is opened with.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Memory node of the fast tier.
    pub fast_node: u32,
    /// Memory node of the slow tier.
    pub slow_node: u32,
    /// A program is started, whose memory comes from the slow node first; otherwise a process runs already, whose memory
    /// comes from where it wants.
    pub starts_program: bool,
    /// Events between two records that are wanted, for sources that count: by kind of record.
    pub periods: Vec<(AccessKind, u64)>,
    /// How often the source will be drained, in nanoseconds.
    pub drain_ns: u64,
    /// Every setting of the whole host is changed through this, so that it is restored whatever happens.
    pub journal: SharedJournal,
}

/// A way of seeing accesses, under way.
pub trait Source: Send {
    /// Its name in [`SOURCES`].
    fn name(&self) -> &'static str;

    /// What it offers.
    fn signals(&self) -> Signals;

    /// Begins with a process; called once for each, children included.
    ///
    /// # Errors
    /// When that process cannot be watched.
    fn attach(&mut self, pid: i32) -> Result<(), HostError>;

    /// The process has ended or runs another program now.
    fn forget(&mut self, pid: i32) {
        let _ = pid;
    }

    /// The mappings of a process that are looked at, called after [`Source::attach`] and whenever they changed.
    ///
    /// # Errors
    /// When nothing of them can be watched any more.
    fn areas(&mut self, pid: i32, areas: &[Area]) -> Result<(), HostError> {
        let _ = (pid, areas);
        Ok(())
    }

    /// The first touch of these addresses is wanted, for sources that can choose.
    ///
    /// # Errors
    /// When guards cannot be set.
    fn arm(&mut self, pid: i32, ranges: &[Range<u64>]) -> Result<(), HostError> {
        let _ = (pid, ranges);
        Ok(())
    }

    /// Takes a record every so many events from now on; false for a source that does not count.
    fn set_period(&mut self, kind: AccessKind, period: u64) -> bool {
        let _ = (kind, period);
        false
    }

    /// Adds what was seen since the last call.
    ///
    /// # Errors
    /// When the source has come to its end.
    fn drain(&mut self, into: &mut Vec<Access>) -> Result<Drained, HostError>;

    /// What a reader of the report has to know of it, in sentences without a full stop.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Ends all watching and takes back what was changed about processes.
    fn detach(&mut self);
}

/// A source that there is code for.
pub struct Known {
    /// Name on command lines and in reports.
    pub name: &'static str,
    /// One line: what it sees, and from which kernel or processor on.
    pub meaning: &'static str,
    /// What it offers.
    pub signals: Signals,
    /// Tries it on memory of our own: a kernel may take a request and ignore it. Changes nothing of the host.
    pub probe: fn() -> Result<(), HostError>,
    /// Opens it.
    pub open: fn(&Setup) -> Result<Box<dyn Source>, HostError>,
}

/// All sources, the one that says most first; `auto` takes the first that works.
pub static SOURCES: &[Known] = &[
    hardware::PEBS,
    hardware::IBS,
    hint_faults::HINT_FAULTS,
    damon::DAMON,
    look::WRITTEN,
    look::REFERENCED,
];
