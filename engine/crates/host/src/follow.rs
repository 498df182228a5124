//! What the live daemon has to know of processes: which there are, what memory they have, which of it is in place.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use crate::area::Area;
use crate::pagemap::{PRESENT, Pagemap};
use crate::{PAGE_BYTES, process};

/// With so many processes of a tree no further children are followed.
pub const MOST_PROCESSES: usize = 1000;
/// Entries of `/proc/PID/pagemap` that are read at a time.
const ENTRIES: u64 = 8192;
const ENTRY_PRESENT: u64 = 1 << 63;
const ENTRY_ALONE: u64 = 1 << 56;
const ENTRY_FRAME: u64 = (1 << 55) - 1;

/// A process of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// What differs as soon as it runs another program.
    pub image: String,
}

/// Processes of a tree by their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Those that are followed.
    pub pids: Vec<i32>,
    /// Children of these that are not, since there are too many; what they started is not counted.
    pub left_out: usize,
}

/// The process `root` and all that it started, and all that they started, ended or not.
#[must_use]
pub fn numbers(root: i32) -> Numbers {
    tree(root, MOST_PROCESSES, process::children)
}

fn tree(root: i32, most: usize, children: impl Fn(i32) -> Vec<i32>) -> Numbers {
    let (mut pids, mut left_out, mut next) = (vec![root], 0, 0);
    while next < pids.len() {
        let follows = pids.len() < most;
        for child in children(pids[next]) {
            if pids.contains(&child) {
                continue;
            }
            if follows {
                pids.push(child);
            } else {
                left_out += 1;
            }
        }
        next += 1;
    }
    Numbers { pids, left_out }
}

/// Those of the processes that run a program just now.
#[must_use]
pub fn running(pids: &[i32]) -> Vec<Process> {
    let living = pids.iter().filter(|pid| process::lives(**pid));
    living
        .filter_map(|pid| process::image(*pid).map(|image| Process { pid: *pid, image }))
        .collect()
}

/// What differs once any process or thread was started on this host; nothing where the kernel does not say.
#[must_use]
pub fn newest() -> Option<i32> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_ascii_whitespace().nth(4)?.parse().ok()
}

/// Whether a process runs; its first thread may have ended before the others.
#[must_use]
pub fn lives(pid: i32) -> bool {
    process::lives(pid) || process::threads(pid) > 1
}

/// Processor time of all threads of a process and of the children that it has waited for, in nanoseconds.
#[must_use]
pub fn cpu_with_ended_ns(pid: i32) -> Option<u64> {
    process::cpu_with_ended_ns(pid)
}

/// How long a thread has run on a core, in nanoseconds.
#[must_use]
pub fn run_ns(thread: i32) -> Option<u64> {
    process::run_ns(thread)
}

/// Whether a mapping is memory of the process alone that it may write: heap, stacks, anonymous mappings.
fn private_memory(line: &str) -> Option<Area> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let access = words.next()?.as_bytes();
    let path = words.nth(3).unwrap_or("");
    let ours = path.is_empty() || path == "[heap]" || path.starts_with("[stack") || path.starts_with("[anon");
    if !ours || access.get(1) != Some(&b'w') || access.get(3) != Some(&b'p') {
        return None;
    }
    Some(Area {
        start: u64::from_str_radix(start, 16).ok()? / PAGE_BYTES,
        end: u64::from_str_radix(end, 16).ok()? / PAGE_BYTES,
        label: if path.is_empty() {
            "anonymous".to_owned()
        } else {
            path.trim_matches(['[', ']']).to_owned()
        },
    })
}

/// The anonymous private mappings of a process that it may write, in order; nothing when it is gone.
#[must_use]
pub fn private_areas(pid: i32) -> Vec<Area> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    text.lines().filter_map(private_memory).collect()
}

/// Bytes of a process that are in huge pages.
#[must_use]
pub fn huge_bytes(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    let kib = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// The page tables of processes.
#[derive(Debug, Default)]
pub struct PageTables {
    opened: BTreeMap<i32, (Pagemap, File)>,
    /// The kernel cannot look for pages (before Linux 6.7), so that all entries are read.
    reads_all: bool,
}

impl PageTables {
    fn of(&mut self, pid: i32) -> io::Result<&mut (Pagemap, File)> {
        match self.opened.entry(pid) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let opened = (Pagemap::open(pid)?, File::open(format!("/proc/{pid}/pagemap"))?);
                Ok(place.insert(opened))
            }
        }
    }

    /// The process has ended or runs another program.
    pub fn forget(&mut self, pid: i32) {
        self.opened.remove(&pid);
    }

    /// Calls `found` with each stretch of pages of `area` that is in memory, in order.
    ///
    /// # Errors
    /// When the process is gone or may not be looked at.
    pub fn resident(&mut self, pid: i32, area: &Area, found: &mut dyn FnMut(u64, u64)) -> io::Result<()> {
        let reads_all = self.reads_all;
        let (pagemap, file) = self.of(pid)?;
        if !reads_all {
            match pagemap.each(area.start, area.end, PRESENT, 0, &mut *found) {
                Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => {}
                done => return done,
            }
        }
        entries(file, area.start, area.end, |page, entry| {
            if entry & ENTRY_PRESENT != 0 {
                found(page, page + 1);
            }
        })?;
        self.reads_all = true;
        Ok(())
    }

    /// For each page the number of its frame if other page tables have it too, which needs CAP_SYS_ADMIN; otherwise 0.
    ///
    /// # Errors
    /// As [`Self::resident`].
    pub fn shared(&mut self, pid: i32, pages: &[u64]) -> io::Result<Vec<u64>> {
        let (_, file) = self.of(pid)?;
        let mut result = Vec::with_capacity(pages.len());
        for run in pages.chunk_by(|page, next| page + 1 == *next) {
            entries(file, run[0], run[0] + run.len() as u64, |_, entry| {
                let shared = entry & ENTRY_PRESENT != 0 && entry & ENTRY_ALONE == 0;
                result.push(if shared { entry & ENTRY_FRAME } else { 0 });
            })?;
        }
        Ok(result)
    }
}

/// Reads the entries of pages `from..to`.
fn entries(file: &File, from: u64, to: u64, mut each: impl FnMut(u64, u64)) -> io::Result<()> {
    let mut buffer = vec![0u8; (ENTRIES.min(to - from) * 8) as usize];
    let mut page = from;
    while page < to {
        let count = ENTRIES.min(to - page);
        let bytes = &mut buffer[..(count * 8) as usize];
        file.read_exact_at(bytes, page * 8)?;
        for (place, entry) in bytes.chunks_exact(8).enumerate() {
            let entry = entry.try_into().map_or(0, u64::from_le_bytes);
            each(page + place as u64, entry);
        }
        page += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_of_a_tree_is_counted() {
        // Of each process up to 7, the children are twice its number and one more.
        let children = |pid: i32| {
            if pid < 8 {
                vec![2 * pid, 2 * pid + 1]
            } else {
                Vec::new()
            }
        };
        let all = tree(1, 16, children);
        assert_eq!((all.pids, all.left_out), ((1..16).collect(), 0));
        let some = tree(1, 6, children);
        assert_eq!((some.pids, some.left_out), ((1..8).collect(), 8));
        // One that has just as many as are followed lacks none.
        assert_eq!(tree(1, 15, children).left_out, 0);
    }

    #[test]
    fn memory_of_a_process_alone() {
        let area = |line: &str| private_memory(line).map(|area| area.label);
        assert_eq!(
            area("7f0000000000-7f0000002000 rw-p 00000000 00:00 0 ").as_deref(),
            Some("anonymous")
        );
        assert_eq!(
            area("55d0c0a00000-55d0c0a21000 rw-p 00000000 00:00 0      [heap]").as_deref(),
            Some("heap")
        );
        assert_eq!(
            area("7f0000000000-7f0000002000 rw-s 00000000 00:01 9 /dev/zero (deleted)"),
            None
        );
        assert_eq!(area("7f0000000000-7f0000002000 r--p 00000000 00:00 0 "), None);
        assert_eq!(
            area("7f0000000000-7f0000002000 rw-p 00001000 fe:00 12 /usr/lib/libc.so.6"),
            None
        );
    }

    #[test]
    fn our_own_pages_are_there_once_they_are_touched() {
        let pages = 64;
        // SAFETY: a new mapping, which is left to the end of the process.
        let place = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                pages * PAGE_BYTES as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(place, libc::MAP_FAILED);
        for page in [3usize, 4, 9] {
            // SAFETY: within the mapping.
            unsafe { place.cast::<u8>().add(page * PAGE_BYTES as usize).write_volatile(1) };
        }
        let first = place as u64 / PAGE_BYTES;
        let area = Area {
            start: first,
            end: first + pages as u64,
            label: String::new(),
        };
        for reads_all in [false, true] {
            let mut tables = PageTables {
                reads_all,
                ..PageTables::default()
            };
            let mut found = Vec::new();
            tables
                .resident(std::process::id() as i32, &area, &mut |start, end| {
                    found.extend(start - first..end - first);
                })
                .expect("our own memory");
            assert_eq!(found, [3, 4, 9]);
        }
        let covers = private_areas(std::process::id() as i32)
            .iter()
            .any(|known| known.start <= area.start && area.end <= known.end);
        assert!(covers);
    }
}
