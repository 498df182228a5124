//! Sees stores, page by page: userfaultfd write protection that resolves itself, read through `PAGEMAP_SCAN`.
//!
//! Linux 6.7 and later.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::thread::sleep;
use std::time::Duration;

use crate::PAGE_BYTES;
use crate::area::Area;
use crate::inject::Held;
use crate::pagemap::{PRESENT, WRITTEN};
use crate::tree::{Followed, Tree};
use crate::userfault::Userfault;
use crate::window::Cell;

/// `UFFD_FEATURE_WP_UNPOPULATED` and `UFFD_FEATURE_WP_ASYNC`.
const FEATURES: u64 = 1 << 13 | 1 << 15;

/// Watches the address space of one process.
#[derive(Debug)]
pub(crate) struct Watch {
    userfault: Userfault,
    registered: BTreeSet<(u64, u64)>,
}

impl Watch {
    /// Watches this process.
    pub fn here() -> io::Result<Self> {
        Userfault::here(FEATURES).map(Self::new)
    }

    /// Watches another process.
    pub fn of(pid: i32) -> io::Result<Self> {
        Userfault::of(&mut Held::stop(pid)?, FEATURES).map(Self::new)
    }

    fn new(userfault: Userfault) -> Self {
        Self {
            userfault,
            registered: BTreeSet::new(),
        }
    }

    /// Watches pages `from..to`; mappings that cannot be watched are left out.
    pub fn register(&mut self, from: u64, to: u64) {
        if self.registered.insert((from, to)) {
            let _ = self.userfault.register(from * PAGE_BYTES, (to - from) * PAGE_BYTES);
        }
    }

    /// Watches these mappings and no others; registering what is registered already changes nothing.
    pub fn register_all(&mut self, areas: &[Area]) {
        self.registered.clear();
        areas.iter().for_each(|area| self.register(area.start, area.end));
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
