//! Sees stores, page by page: userfaultfd write protection that resolves itself, read through `PAGEMAP_SCAN`.
//!
//! The descriptor must belong to the address space that it watches, so the process opens it (see `inject`) and it is
//! taken over from there; closing it ends all protection. Linux 6.7 and later.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread::sleep;
use std::time::Duration;

use crate::area::Area;
use crate::inject::Held;
use crate::pagemap::{PRESENT, WRITTEN};
use crate::tree::{Followed, Tree};
use crate::window::Cell;
use crate::{PAGE_BYTES, errno};

const UFFD_API: u64 = 0xaa;
const UFFD_USER_MODE_ONLY: u64 = 1;
const FEATURE_UNPOPULATED: u64 = 1 << 13;
const FEATURE_ASYNC: u64 = 1 << 15;
const MODE_WRITE_PROTECT: u64 = 2;
// _IOWR(0xaa, 0x3f, struct uffdio_api) and _IOWR(0xaa, 0x00, struct uffdio_register)
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;

/// Watches the address space that `descriptor` was opened in.
#[derive(Debug)]
pub(crate) struct Watch {
    descriptor: OwnedFd,
    registered: BTreeSet<(u64, u64)>,
}

impl Watch {
    /// Takes a descriptor that was just opened.
    pub fn new(descriptor: OwnedFd) -> io::Result<Self> {
        let mut api = [UFFD_API, FEATURE_UNPOPULATED | FEATURE_ASYNC, 0u64];
        // SAFETY: `api` is laid out as `struct uffdio_api`.
        if unsafe { libc::ioctl(descriptor.as_raw_fd(), UFFDIO_API as _, api.as_mut_ptr()) } == -1 {
            return Err(errno());
        }
        Ok(Self {
            descriptor,
            registered: BTreeSet::new(),
        })
    }

    /// Opens one in another process.
    pub fn of(pid: i32) -> io::Result<Self> {
        let mut held = Held::stop(pid)?;
        let remote = held.call(
            libc::SYS_userfaultfd,
            [libc::O_CLOEXEC as u64 | UFFD_USER_MODE_ONLY, 0, 0],
        )?;
        let taken = take(pid, remote);
        held.call(libc::SYS_close, [remote, 0, 0])?;
        drop(held);
        Self::new(taken?)
    }

    /// Watches pages `from..to`; mappings that cannot be watched are left out.
    pub fn register(&mut self, from: u64, to: u64) {
        if self.registered.insert((from, to)) {
            let mut range = [from * PAGE_BYTES, (to - from) * PAGE_BYTES, MODE_WRITE_PROTECT, 0u64];
            // SAFETY: `range` is laid out as `struct uffdio_register`.
            unsafe { libc::ioctl(self.descriptor.as_raw_fd(), UFFDIO_REGISTER as _, range.as_mut_ptr()) };
        }
    }
}

impl Watch {
    /// Watches these mappings and no others; registering what is registered already changes nothing.
    pub fn register_all(&mut self, areas: &[Area]) {
        self.registered.clear();
        areas.iter().for_each(|area| self.register(area.start, area.end));
    }
}

/// A descriptor of our own for what `remote` is in the process.
fn take(pid: i32, remote: u64) -> io::Result<OwnedFd> {
    // SAFETY: both calls return a new descriptor or -1.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        if process == -1 {
            return Err(errno());
        }
        let process = OwnedFd::from_raw_fd(process as i32);
        let taken = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), remote, 0);
        if taken == -1 {
            return Err(errno());
        }
        Ok(OwnedFd::from_raw_fd(taken as i32))
    }
}

/// The sampler of stores.
#[derive(Debug, Default)]
pub(crate) struct Written {
    watches: BTreeMap<u16, Watch>,
}

impl Written {
    /// Begins to watch a process.
    pub fn attach(&mut self, followed: &Followed) -> io::Result<()> {
        self.watches.insert(followed.number, Watch::of(followed.pid)?);
        Ok(())
    }

    /// Forgets processes that ended and watches mappings that are new.
    pub fn refresh(&mut self, tree: &Tree) {
        self.watches
            .retain(|number, _| tree.followed.iter().any(|known| known.number == *number));
        for known in &tree.followed {
            if let Some(watch) = self.watches.get_mut(&known.number) {
                known
                    .mappings
                    .iter()
                    .for_each(|area| watch.register(area.start, area.end));
            }
        }
    }

    /// Protects all pages, waits, and finds those that were stored to meanwhile.
    pub fn look(&mut self, tree: &mut Tree, watched: Duration) -> Vec<Cell> {
        for known in &mut tree.followed {
            for area in &known.mappings {
                // Fails for mappings that went away, and those that are not registered.
                let _ = known.pagemap.protect(area.start, area.end);
            }
        }
        sleep(watched);
        let mut cells = Vec::new();
        for known in &mut tree.followed {
            let process = known.number;
            for area in &known.mappings {
                let _ = known
                    .pagemap
                    .each(area.start, area.end, WRITTEN | PRESENT, 0, |start, end| {
                        cells.extend((start..end).map(|start| Cell {
                            process,
                            start,
                            pages: 1,
                            hits: 1,
                        }));
                    });
            }
        }
        cells.sort_unstable();
        cells
    }
}
