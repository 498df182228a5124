//! The LRU lists that say which units are hot: an active and an inactive one for fast memory and for slow
//! memory. Samples and walks move units between the two, not accessed bits; within a list the oldest is in front.

use serde::{Deserialize, Serialize};
use std::ops::Range;

use super::hotness::{ACTIVE, FAST, Hotness, LISTED, MIGRATING, QUEUED};
use crate::Page;
use crate::page_list::NIL;
use crate::page_ring::{Entries, PageRing};

/// Which of the two sides: fast memory is 0, all slower tiers together are 1.
pub const SIDES: usize = 2;

/// The lists of one side, and how many managed pages they hold.
#[derive(Default, Serialize, Deserialize)]
struct Side {
    lists: [PageRing; 2],
    pages: [u32; 2],
}

/// All four lists.
#[derive(Serialize, Deserialize)]
pub struct Lists {
    entries: Entries,
    sides: [Side; SIDES],
}

fn side_of(fast: bool) -> usize {
    usize::from(!fast)
}

impl Lists {
    /// Empty lists for `pages` pages.
    #[must_use]
    pub fn new(pages: u32) -> Self {
        Self {
            entries: Entries::new(pages),
            sides: Default::default(),
        }
    }

    /// Managed pages in a list.
    #[must_use]
    pub fn pages(&self, fast: bool, active: bool) -> u32 {
        self.sides[side_of(fast)].pages[usize::from(active)]
    }

    /// Units in a list.
    #[must_use]
    pub fn len(&self, fast: bool, active: bool) -> u32 {
        self.sides[side_of(fast)].lists[usize::from(active)].len()
    }

    /// The oldest unit of a list.
    #[must_use]
    pub fn front(&self, fast: bool, active: bool) -> Option<Page> {
        let front = self.sides[side_of(fast)].lists[usize::from(active)].front();
        (front != NIL).then_some(front)
    }

    /// Looks up what a walk from the front of a list will need of units behind, so that their cache misses overlap.
    pub fn look_up(&self, hotness: &Hotness, fast: bool, active: bool, entries: Range<usize>) {
        let list = &self.sides[side_of(fast)].lists[usize::from(active)];
        let units = entries.filter_map(|entry| list.ahead(entry));
        hotness.fetch(units.inspect(|unit| self.entries.fetch(*unit)));
    }

    /// The units of a list from front to back.
    pub fn iter(&self, fast: bool, active: bool) -> impl Iterator<Item = Page> + '_ {
        self.sides[side_of(fast)].lists[usize::from(active)].iter()
    }

    /// Puts a unit that is in no list at the back of the one that it belongs to; not while it moves or waits to be split.
    pub fn enlist(&mut self, hotness: &mut Hotness, unit: Page, fast: bool) {
        if hotness.has(unit, MIGRATING | QUEUED) {
            return;
        }
        hotness.set(unit, FAST, fast);
        hotness.set(unit, LISTED, true);
        let active = usize::from(hotness.has(unit, ACTIVE));
        let side = &mut self.sides[side_of(fast)];
        side.lists[active].push_back(&mut self.entries, unit);
        side.pages[active] += hotness.pages(unit);
    }

    /// Takes a unit out of the list that it is in, if any.
    pub fn unlist(&mut self, hotness: &mut Hotness, unit: Page) {
        let flags = hotness.flags(unit);
        if flags & LISTED == 0 {
            return;
        }
        hotness.set(unit, LISTED, false);
        let active = usize::from(flags & ACTIVE != 0);
        let side = &mut self.sides[side_of(flags & FAST != 0)];
        side.lists[active].remove(&mut self.entries, unit);
        side.pages[active] -= hotness.pages(unit);
    }

    /// Moves a unit to the back of its side's active or inactive list, unless it is there or in no list.
    #[inline]
    pub fn judge(&mut self, hotness: &mut Hotness, unit: Page, active: bool) {
        let flags = hotness.flags(unit);
        if (flags & ACTIVE != 0) == active || flags & LISTED == 0 {
            return;
        }
        self.unlist(hotness, unit);
        hotness.set(unit, ACTIVE, active);
        self.enlist(hotness, unit, flags & FAST != 0);
    }

    /// Moves the oldest unit of a list to the back of it.
    pub fn rotate(&mut self, fast: bool, active: bool) {
        self.sides[side_of(fast)].lists[usize::from(active)].rotate(&mut self.entries);
    }
}
