//! DAMON, the kernel's monitor of accesses: it looks at one page of each region, time and again, and splits and joins regions
//! so that a few hundred describe an address space. No page is moved by it here.
//!
//! Each process has a monitor of its own (`kdamond`), since what one reports does not name the process. Monitors belong to the
//! whole host: where one runs that is not ours, or somebody has set some up, nothing is touched.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::source::{Access, AccessKind, Drained, Known, Setup, Signals, Source};
use crate::{HostError, SharedJournal, monotonic_ns, process, value_of};
use kdamond::{Intervals, Kdamond, Region};

mod kdamond;

const MONITORS: &str = "/sys/kernel/mm/damon/admin/kdamonds";
/// Processes that can be watched at a time; their number cannot grow while one is.
const SLOTS: usize = 32;

/// DAMON over virtual addresses.
pub const DAMON: Known = Known {
    name: "damon",
    meaning: "loads and stores in regions that adapt, by DAMON over virtual addresses (Linux 5.18 with CONFIG_DAMON_VADDR)",
    signals: SIGNALS,
    probe,
    open: |setup| Ok(Box::new(Damon::open(setup)?)),
};

const SIGNALS: Signals = Signals {
    load_misses: false,
    slow_load_misses: false,
    stores: false,
    hint_faults: false,
    accessed_bits: true,
    written_bits: false,
};

fn unfit(sentence: impl Into<String>) -> HostError {
    HostError::Unfit(sentence.into())
}

/// Kernel threads of monitors, whoever set them up.
fn running() -> Vec<i32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|number: &i32| {
            let name = fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default();
            let kernel = fs::read_to_string(format!("/proc/{number}/cmdline")).is_ok_and(|line| line.is_empty());
            kernel && name.starts_with("kdamond")
        })
        .collect()
}

/// Nobody else uses DAMON.
fn free() -> Result<(), HostError> {
    let count = value_of(&Path::new(MONITORS).join("nr_kdamonds")).map_err(|error| {
        unfit(format!(
            "DAMON needs root and a kernel with CONFIG_DAMON_SYSFS ({MONITORS}): {error}"
        ))
    })?;
    if let Some(thread) = running().first() {
        return Err(unfit(format!(
            "a DAMON monitor that is not ours runs on this host (kernel thread {thread}), and it is left alone; end what uses it, or use another source"
        )));
    }
    if count != "0" {
        return Err(unfit(format!(
            "somebody has set up DAMON on this host ({MONITORS}/nr_kdamonds is {count}), and it is left alone; set it to 0 to use DAMON here"
        )));
    }
    Ok(())
}

fn probe() -> Result<(), HostError> {
    free()?;
    // What monitors offer shows only once one is set up, which a probe must not do; the kernel's symbols say it, too.
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    if symbols.is_empty() || symbols.contains(" damon_va_") {
        return Ok(());
    }
    Err(no_virtual())
}

fn no_virtual() -> HostError {
    unfit("this kernel's DAMON does not watch virtual addresses (CONFIG_DAMON_VADDR is off)")
}

/// A process that is watched.
struct Watched {
    slot: usize,
    reader: Option<JoinHandle<()>>,
    end: Arc<AtomicBool>,
}

/// What readers found, oldest first, and why one stopped.
#[derive(Debug, Default)]
struct Found {
    accesses: Vec<Access>,
    looks: u64,
    problem: Option<String>,
}

struct Damon {
    journal: SharedJournal,
    intervals: Intervals,
    watched: BTreeMap<i32, Watched>,
    found: Arc<Mutex<Found>>,
}

impl Damon {
    fn open(setup: &Setup) -> Result<Self, HostError> {
        free()?;
        let count = Path::new(MONITORS).join("nr_kdamonds");
        setup.journal.get().set(&count, &SLOTS.to_string())?;
        let damon = Self {
            journal: setup.journal.clone(),
            intervals: Intervals::for_drains(setup.drain_ns),
            watched: BTreeMap::new(),
            found: Arc::default(),
        };
        if Kdamond::new(Path::new(MONITORS), 0).watches_virtual() {
            Ok(damon)
        } else {
            Err(no_virtual())
        }
    }

    fn end(&mut self, pid: i32) {
        let Some(mut watched) = self.watched.remove(&pid) else {
            return;
        };
        watched.end.store(true, Ordering::Relaxed);
        // Fails where the process has ended, which ended the monitor.
        let commands = kdamond::alone();
        let _ = Kdamond::new(Path::new(MONITORS), watched.slot).stop();
        drop(commands);
        if let Some(reader) = watched.reader.take() {
            // It ends with the monitor; what it panicked about is its own.
            let _ = reader.join();
        }
    }
}

/// What a region that was found touched is to a policy.
fn access(pid: i32, region: &Region, time_ns: u64) -> Option<Access> {
    (region.touched > 0).then_some(Access {
        pid,
        thread: pid,
        address: region.start,
        bytes: region.end - region.start,
        kind: AccessKind::Accessed,
        weight: region.touched,
        time_ns,
        armed_ns: None,
        node: None,
    })
}

/// Asks a monitor for its regions after each of its intervals, until `end`; asking takes as long as the interval lasts.
fn read_on(monitor: &Kdamond, pid: i32, pause: Duration, end: &AtomicBool, found: &Mutex<Found>) {
    while !end.load(Ordering::Relaxed) {
        std::thread::sleep(pause);
        let commands = kdamond::alone();
        let regions = monitor.regions();
        drop(commands);
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        match regions {
            Ok(regions) => {
                let now = monotonic_ns();
                found.looks += regions.len() as u64;
                found
                    .accesses
                    .extend(regions.iter().filter_map(|region| access(pid, region, now)));
            }
            // A monitor ends with its process, which is nobody's fault.
            Err(_) if end.load(Ordering::Relaxed) || !process::lives(pid) => return,
            Err(error) => {
                found.problem = Some(format!("the DAMON monitor of process {pid} does not answer: {error}"));
                return;
            }
        }
    }
}

impl Source for Damon {
    fn name(&self) -> &'static str {
        DAMON.name
    }

    fn signals(&self) -> Signals {
        SIGNALS
    }

    fn attach(&mut self, pid: i32) -> Result<(), HostError> {
        let used = |slot: &usize| self.watched.values().any(|watched| watched.slot == *slot);
        let Some(slot) = (0..SLOTS).find(|slot| !used(slot)) else {
            return Err(unfit(format!(
                "DAMON watches {SLOTS} processes at a time here, and process {pid} is one more"
            )));
        };
        let monitor = Kdamond::new(Path::new(MONITORS), slot);
        let commands = kdamond::alone();
        monitor
            .watch(pid, self.intervals)
            .map_err(|error| unfit(format!("DAMON cannot be set up for process {pid}: {error}")))?;
        // Through the journal, so that it is switched off even if nobody is left to do it.
        self.journal.get().set(&monitor.state(), "on")?;
        drop(commands);
        let end = Arc::new(AtomicBool::new(false));
        let (ended, found, pause) = (Arc::clone(&end), Arc::clone(&self.found), self.intervals.aggregation());
        let reader = std::thread::Builder::new()
            .name("damon-reader".to_owned())
            .spawn(move || read_on(&monitor, pid, pause, &ended, &found))
            .map_err(|error| unfit(format!("no thread can be started: {error}")))?;
        self.watched.insert(
            pid,
            Watched {
                slot,
                reader: Some(reader),
                end,
            },
        );
        Ok(())
    }

    fn forget(&mut self, pid: i32) {
        self.end(pid);
    }

    fn drain(&mut self, into: &mut Vec<Access>) -> Result<Drained, HostError> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        into.append(&mut found.accesses);
        let records = std::mem::take(&mut found.looks);
        match found.problem.take() {
            Some(problem) => Err(unfit(problem)),
            None => Ok(Drained {
                records,
                ..Drained::default()
            }),
        }
    }

    fn detach(&mut self) {
        let pids: Vec<i32> = self.watched.keys().copied().collect();
        pids.into_iter().for_each(|pid| self.end(pid));
    }
}

impl Drop for Damon {
    fn drop(&mut self) {
        self.detach();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_touched_is_an_access() {
        let region = |touched| Region {
            start: 4096,
            end: 12_288,
            touched,
        };
        assert_eq!(access(5, &region(0), 1), None);
        let found = access(5, &region(17), 99).expect("an access");
        assert_eq!(
            (found.address, found.bytes, found.weight, found.time_ns),
            (4096, 8192, 17, 99)
        );
        assert_eq!(found.kind, AccessKind::Accessed);
    }
}
