//! Has processors look up the translations of a watched process again, from outside and without stopping it.
//!
//! Clearing accessed bits leaves the translations that processors hold as they are, and a processor sets no bit for a page
//! whose translation it holds. Where TLBs are large and keep several address spaces, the hottest pages are thus the ones
//! that stay unseen. A scratch mapping of the process is write-protected and released through a userfaultfd; its two pages
//! lie so far apart that kernels drop all translations of the process rather than those in between.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;

use crate::PAGE_BYTES;
use crate::inject::Held;
use crate::userfault::Userfault;

/// Where the scratch mapping lies: below programs and far from what kernels hand out, so that nothing else has exactly
/// these addresses and no list of mappings takes it for data.
const START: u64 = 0x5454_4954_0000;
/// Of these 64 pages the first and the last are in memory: more than x86 drops one by one
/// (`tlb_single_page_flush_ceiling`, 33).
const BYTES: u64 = 64 * PAGE_BYTES;

/// Whether these addresses, in bytes, are a scratch mapping.
pub(crate) fn are_scratch(start: u64, end: u64) -> bool {
    (start, end) == (START, START + BYTES)
}

/// One process whose translations can be dropped.
#[derive(Debug)]
pub(crate) struct Translations {
    pid: i32,
    userfault: Userfault,
}

impl Translations {
    /// Puts the scratch mapping into a process, whose main thread is stopped for that moment.
    pub fn of(pid: i32) -> io::Result<Self> {
        let mut held = Held::stop(pid)?;
        let access = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        let (place, ours) = match held.call(libc::SYS_mmap, [START, BYTES, access, kind, u64::MAX, 0]) {
            // Left by a watcher that was killed, or of one that is still there: then it cannot be registered.
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) && has_scratch(pid) => (START, false),
            place => (place?, true),
        };
        let userfault = prepared(&mut held, place);
        if userfault.is_err() && ours {
            let _ = held.call(libc::SYS_munmap, [place, BYTES]);
        }
        Ok(Self {
            pid,
            userfault: userfault?,
        })
    }

    /// Drops all translations of the process.
    pub fn forget(&self) -> io::Result<()> {
        self.userfault.protect(START, BYTES, false)?;
        self.userfault.protect(START, BYTES, true)
    }
}

fn has_scratch(pid: i32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let bounds = format!("{START:x}-{:x} ", START + BYTES);
    maps.lines().any(|line| line.starts_with(&bounds))
}

fn prepared(held: &mut Held, place: u64) -> io::Result<Userfault> {
    if place != START {
        // Kernels before 4.17 take the address for a wish.
        return Err(io::Error::other("the addresses of its scratch mapping are taken"));
    }
    for advice in [libc::MADV_NOHUGEPAGE, libc::MADV_DONTFORK] {
        match held.call(libc::SYS_madvise, [START, BYTES, advice as u64]) {
            // Kernels without huge pages know no advice about them.
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => return Err(error),
            _ => {}
        }
    }
    let memory = OpenOptions::new()
        .write(true)
        .open(format!("/proc/{}/mem", held.pid()))?;
    for page in [START, START + BYTES - PAGE_BYTES] {
        memory.write_all_at(&[1], page)?;
    }
    let userfault = Userfault::of(held, 0)?;
    userfault.register(START, BYTES)?;
    Ok(userfault)
}

impl Drop for Translations {
    /// Takes the scratch mapping away.
    fn drop(&mut self) {
        // Another process may have the number by now.
        if !has_scratch(self.pid) {
            return;
        }
        if let Ok(mut held) = Held::stop(self.pid) {
            let _ = held.call(libc::SYS_munmap, [START, BYTES]);
        }
    }
}
