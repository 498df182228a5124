//! The samplers of this crate as [`Source`]s: watched from one drain to the next, so that every drain is a look.

use std::collections::BTreeMap;

use crate::area::Area;
use crate::pagemap::Pagemap;
use crate::referenced::Bits;
use crate::source::{Access, AccessKind, Drained, Known, Setup, Signals, Source};
use crate::written::Watch;
use crate::{HostError, PAGE_BYTES, Sampler, process};

/// Stores, page by page.
pub const WRITTEN: Known = Known {
    name: "written",
    meaning: "stores in pages of 4 KiB, by write protection that resolves itself (Linux 6.7)",
    signals: Signals {
        written_bits: true,
        ..NOTHING
    },
    probe: || Sampler::Written.probe(),
    open: |_: &Setup| Ok(Box::new(Written::default())),
};

/// Loads and stores, in chunks.
pub const REFERENCED: Known = Known {
    name: "referenced",
    meaning: "loads and stores in chunks of 2 MiB, by accessed bits (any Linux; dear)",
    signals: Signals {
        accessed_bits: true,
        ..NOTHING
    },
    probe: || Sampler::Referenced.probe(),
    open: |_: &Setup| Ok(Box::new(Referenced::default())),
};

const NOTHING: Signals = Signals {
    load_misses: false,
    slow_load_misses: false,
    stores: false,
    hint_faults: false,
    accessed_bits: false,
    written_bits: false,
};

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes what it is given, which is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What a look found of a process.
fn access(pid: i32, page: u64, pages: u64, weight: u64, kind: AccessKind, time_ns: u64) -> Access {
    Access {
        pid,
        thread: pid,
        address: page * PAGE_BYTES,
        bytes: pages * PAGE_BYTES,
        kind,
        weight: u32::try_from(weight).unwrap_or(u32::MAX),
        time_ns,
        armed_ns: None,
        node: None,
    }
}

/// Pages of one process that are watched.
#[derive(Debug)]
struct Watched {
    watch: Watch,
    pagemap: Pagemap,
    areas: Vec<Area>,
}

#[derive(Debug, Default)]
struct Written {
    processes: BTreeMap<i32, Watched>,
}

fn refused(pid: i32, error: &std::io::Error) -> HostError {
    HostError::Unfit(format!(
        "process {pid} cannot be watched ({error}); run as the user who started it or as root, where no debugger holds it"
    ))
}

impl Source for Written {
    fn name(&self) -> &'static str {
        WRITTEN.name
    }

    fn signals(&self) -> Signals {
        WRITTEN.signals
    }

    fn attach(&mut self, pid: i32) -> Result<(), HostError> {
        let opened = Pagemap::open(pid).and_then(|pagemap| Ok((pagemap, Watch::of(pid)?)));
        let (pagemap, watch) = opened.map_err(|error| refused(pid, &error))?;
        let areas = Vec::new();
        self.processes.insert(pid, Watched { watch, pagemap, areas });
        Ok(())
    }

    fn forget(&mut self, pid: i32) {
        self.processes.remove(&pid);
    }

    fn areas(&mut self, pid: i32, areas: &[Area]) -> Result<(), HostError> {
        if let Some(known) = self.processes.get_mut(&pid) {
            // A mapping that came to lie where another was has to be registered as well.
            known.watch.register_all(areas);
            if known.areas.is_empty() {
                // To the kernel all is written that was never protected, however long ago.
                for area in areas {
                    // As in a drain.
                    let _ = known.pagemap.protect(area.start, area.end);
                }
            }
            known.areas = areas.to_vec();
        }
        Ok(())
    }

    fn drain(&mut self, into: &mut Vec<Access>) -> Result<Drained, HostError> {
        let (now, mut pages) = (monotonic_ns(), 0);
        for (pid, known) in &mut self.processes {
            for area in &known.areas {
                // Fails for mappings that went away meanwhile and for those that cannot be watched.
                let _ = known.pagemap.take_written(area.start, area.end, |start, end| {
                    // In one piece: of much memory that is filled each page would take more than its table entry.
                    into.push(access(*pid, start, end - start, 1, AccessKind::Written, now));
                    pages += end - start;
                });
            }
        }
        Ok(Drained {
            records: pages,
            ..Drained::default()
        })
    }

    fn detach(&mut self) {
        // Closing a descriptor ends the protection.
        self.processes.clear();
    }
}

#[derive(Debug, Default)]
struct Referenced {
    processes: BTreeMap<i32, (Bits, Pagemap)>,
    /// Why the hottest pages of some process may go unseen.
    blind: Option<String>,
}

impl Source for Referenced {
    fn name(&self) -> &'static str {
        REFERENCED.name
    }

    fn signals(&self) -> Signals {
        REFERENCED.signals
    }

    fn attach(&mut self, pid: i32) -> Result<(), HostError> {
        let opened = Pagemap::open(pid).and_then(|pagemap| Ok((Bits::of(pid)?, pagemap)));
        let (bits, pagemap) = opened.map_err(|error| refused(pid, &error))?;
        self.blind = bits.blind().or(self.blind.take());
        self.processes.insert(pid, (bits, pagemap));
        Ok(())
    }

    fn forget(&mut self, pid: i32) {
        self.processes.remove(&pid);
    }

    fn areas(&mut self, pid: i32, _areas: &[Area]) -> Result<(), HostError> {
        if let Some((bits, pagemap)) = self.processes.get_mut(&pid) {
            bits.cut(pagemap);
        }
        Ok(())
    }

    fn drain(&mut self, into: &mut Vec<Access>) -> Result<Drained, HostError> {
        let before = into.len();
        for (pid, (bits, _)) in &self.processes {
            let now = monotonic_ns();
            let found = bits.touched();
            // Of a chunk of which only some pages were touched nobody knows which.
            into.extend(
                found
                    .into_iter()
                    .map(|(page, pages, _)| access(*pid, page, pages, 1, AccessKind::Accessed, now)),
            );
            if let Err(error) = bits.clear() {
                if process::lives(*pid) {
                    return Err(refused(*pid, &error));
                }
            }
        }
        Ok(Drained {
            records: (into.len() - before) as u64,
            ..Drained::default()
        })
    }

    fn notes(&self) -> Vec<String> {
        self.blind.iter().cloned().collect()
    }

    fn detach(&mut self) {
        for (bits, _) in std::mem::take(&mut self.processes).values() {
            bits.mend();
        }
    }
}

impl Drop for Referenced {
    fn drop(&mut self) {
        self.detach();
    }
}
