//! Lists of the pages in each bin, apart for fast and for slow memory, and what has been promoted for its faults.

use serde::{Deserialize, Serialize};

use crate::memtis::hotness::{BINS, Hotness};
use crate::page_list::NIL;
use crate::page_ring::{Entries, PageRing};
use crate::{Page, prefetch};

/// The page is in a list.
const LISTED: u8 = 1;
/// The list is one of fast memory.
const FAST: u8 = 2;
/// The page was asked to move and has not arrived.
pub const MIGRATING: u8 = 4;
/// The page waits in the queue of active pages.
pub const ACTIVE: u8 = 8;
/// The page was promoted for its faults and has not been hot since.
pub const BY_FAULT: u8 = 16;
/// The page exists.
pub const KNOWN: u8 = 32;

/// What is kept about a page, beside its count.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub struct Mark {
    flags: u8,
    /// The bin whose list it is in.
    bin: u8,
    /// Hint faults since it was last promoted or went inactive.
    pub faults: u8,
    /// Selections for demotion that it still survives.
    pub countdown: u8,
}

/// All lists.
#[derive(Serialize, Deserialize)]
pub struct BinLists {
    entries: Entries,
    marks: Vec<Mark>,
    lists: [[PageRing; BINS]; 2],
    active_pages: u32,
}

impl BinLists {
    /// Empty lists for `pages` pages.
    #[must_use]
    pub fn new(pages: u32) -> Self {
        Self {
            entries: Entries::new(pages),
            marks: vec![Mark::default(); pages as usize],
            lists: Default::default(),
            active_pages: 0,
        }
    }

    /// What is kept about `page`.
    pub fn mark(&mut self, page: Page) -> &mut Mark {
        &mut self.marks[page as usize]
    }

    /// Whether `page` has any of `flags`.
    #[must_use]
    pub fn has(&self, page: Page, flags: u8) -> bool {
        self.marks[page as usize].flags & flags != 0
    }

    /// Sets or clears `flags` of `page`.
    pub fn set(&mut self, page: Page, flags: u8, on: bool) {
        let mark = &mut self.marks[page as usize];
        let before = mark.flags;
        mark.flags = if on { before | flags } else { before & !flags };
        self.active_pages += u32::from(mark.flags & ACTIVE != 0);
        self.active_pages -= u32::from(before & ACTIVE != 0);
    }

    /// Pages that wait in the queue of active pages.
    #[must_use]
    pub fn active_pages(&self) -> u32 {
        self.active_pages
    }

    /// Forgets all about a page that is in no list, but for a move under way.
    pub fn forget(&mut self, page: Page) {
        self.set(page, ACTIVE, false);
        let moving = self.marks[page as usize].flags & MIGRATING;
        self.marks[page as usize] = Mark {
            flags: moving,
            ..Mark::default()
        };
    }

    /// Pages in a bin of fast or slow memory.
    #[must_use]
    pub fn len(&self, fast: bool, bin: usize) -> u32 {
        self.lists[usize::from(fast)][bin].len()
    }

    /// Pages in a bin.
    #[must_use]
    pub fn both(&self, bin: usize) -> u64 {
        u64::from(self.len(true, bin)) + u64::from(self.len(false, bin))
    }

    /// The oldest page of a bin.
    #[must_use]
    pub fn front(&self, fast: bool, bin: usize) -> Option<Page> {
        let front = self.lists[usize::from(fast)][bin].front();
        (front != NIL).then_some(front)
    }

    /// Asks for what sorting `pages` in will need, so that the cache misses overlap.
    pub fn fetch(&self, pages: impl Iterator<Item = Page>) {
        for page in pages {
            prefetch(&self.marks, page as usize);
            self.entries.fetch(page);
        }
    }

    /// Puts a page that is in no list at the back of one, unless it moves.
    pub fn enlist(&mut self, page: Page, fast: bool, bin: u8) {
        let mark = &mut self.marks[page as usize];
        if mark.flags & MIGRATING != 0 {
            return;
        }
        mark.bin = bin;
        mark.flags |= LISTED | if fast { FAST } else { 0 };
        self.lists[usize::from(fast)][usize::from(bin)].push_back(&mut self.entries, page);
    }

    /// Takes a page out of its list, if it is in one.
    pub fn unlist(&mut self, page: Page) {
        let mark = &mut self.marks[page as usize];
        if mark.flags & LISTED != 0 {
            let fast = mark.flags & FAST != 0;
            mark.flags &= !(LISTED | FAST);
            self.lists[usize::from(fast)][usize::from(mark.bin)].remove(&mut self.entries, page);
        }
    }

    /// Moves a listed page to the back of the list of `bin` on its own side; `false` when it was in that bin.
    #[inline]
    pub fn sort_in(&mut self, page: Page, bin: u8) -> bool {
        let mark = self.marks[page as usize];
        let moves = mark.flags & LISTED != 0 && mark.bin != bin;
        if moves {
            self.unlist(page);
            self.enlist(page, mark.flags & FAST != 0, bin);
        }
        moves
    }

    /// Sorts the pages of a bin anew, by what `hotness` has of them when they have caught up.
    pub fn sort_anew(&mut self, fast: bool, bin: u8, hotness: &mut Hotness) {
        let mut leaving = Vec::new();
        self.lists[usize::from(fast)][usize::from(bin)].go_through(&mut self.entries, |block| {
            hotness.fetch(block.iter().copied().filter(|page| *page != NIL));
            for page in block.iter_mut().filter(|page| **page != NIL) {
                hotness.catch_up(*page);
                let to = hotness.bin_of(*page);
                if to != bin {
                    leaving.push((std::mem::replace(page, NIL), to));
                }
            }
        });
        for (page, to) in leaving {
            self.marks[page as usize].bin = to;
            self.lists[usize::from(fast)][usize::from(to)].push_back(&mut self.entries, page);
        }
    }

    /// Moves a listed page to the back of its own list.
    pub fn rotate(&mut self, page: Page) {
        let mark = self.marks[page as usize];
        self.unlist(page);
        self.enlist(page, mark.flags & FAST != 0, mark.bin);
    }
}
