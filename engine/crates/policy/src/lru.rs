//! The kernel's active and inactive lists, of fast memory and of slow memory.
//!
//! New pages join the inactive list (since Linux 5.9). A page that is marked accessed becomes
//! referenced first and active the second time. Reclaim looks at the oldest inactive pages: one
//! whose accessed bit is set gets a second chance, or becomes active if it was referenced before, and is
//! referenced from then on; one whose bit is not set is so no longer (`page_check_references`).
//! When the active list has grown too large for the inactive one, its oldest pages lose their
//! accessed bit and return to the inactive list, accessed or not (mm/vmscan.c). Costs are counted
//! by who calls.
//!
//! All pages are taken to be anonymous. The lists of slow memory are kept for systems that use the
//! active ones; as nothing reclaims slow memory there, nothing ages them.

use serde::{Deserialize, Serialize};
use std::ops::Range;

use crate::page_list::NIL;
use crate::page_queue::PageQueue;
use crate::page_ring::{Entries, PageRing};
use crate::reclaim_lists::{Effort, ReclaimLists, Verdict};
use crate::{AccessedBits, Page, Tier, prefetch};

/// Time to look at one page of a list, reverse mapping and accessed bit included: 100 to 300 ns.
pub const PAGE_SCAN_NS: f64 = 200.0;

/// How far ahead of a walk pages are looked up.
const AHEAD: usize = 8;

const ACTIVE: u8 = 1;
const REFERENCED: u8 = 2;
/// The page belongs to fast memory's lists.
const FAST: u8 = 4;
/// The page has been taken off its list, to be migrated.
const ISOLATED: u8 = 8;
/// The first bit that a system may use for itself; see [`Lru::set_note`].
const NOTE_SHIFT: u32 = 4;

/// The lists of fast or of slow memory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Side {
    inactive: PageQueue,
    active: PageRing,
}

/// The lists.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Lru {
    flags: Vec<u8>,
    entries: Entries,
    fast: Side,
    slow: Side,
    /// 4 KiB pages of a managed page, which the kernel counts.
    base_pages: u32,
}

impl Lru {
    fn has(&self, page: Page, flag: u8) -> bool {
        self.flags[page as usize] & flag != 0
    }

    fn set(&mut self, page: Page, flag: u8, on: bool) {
        let flags = &mut self.flags[page as usize];
        *flags = if on { *flags | flag } else { *flags & !flag };
    }

    /// Puts a page that is in no list at the end of the one that its flags name.
    fn enlist(&mut self, page: Page) {
        self.set(page, ISOLATED, false);
        let (fast, active) = (self.has(page, FAST), self.has(page, ACTIVE));
        let side = if fast { &mut self.fast } else { &mut self.slow };
        if active {
            side.active.push_back(&mut self.entries, page);
        } else {
            side.inactive.push_back(&mut self.entries, &mut self.flags, page);
        }
    }

    /// Takes a page off the list that it is in, if any.
    fn unlist(&mut self, page: Page) {
        if self.has(page, ISOLATED) {
            return;
        }
        let (fast, active) = (self.has(page, FAST), self.has(page, ACTIVE));
        let side = if fast { &mut self.fast } else { &mut self.slow };
        if active {
            side.active.remove(&mut self.entries, page);
        } else {
            side.inactive.remove(&mut self.entries, &mut self.flags, page);
        }
    }

    /// Whether a page is on an active list, or was when it was isolated.
    #[must_use]
    pub fn is_active(&self, page: Page) -> bool {
        self.has(page, ACTIVE)
    }

    /// Two bits of a page that a system uses as it likes; a migration keeps them, a free clears them.
    #[must_use]
    pub fn note(&self, page: Page) -> u8 {
        (self.flags[page as usize] >> NOTE_SHIFT) & 3
    }

    /// Sets the [note](Self::note) of a page, 0 to 3.
    pub fn set_note(&mut self, page: Page, note: u8) {
        let flags = &mut self.flags[page as usize];
        *flags = (*flags & !(3 << NOTE_SHIFT)) | ((note & 3) << NOTE_SHIFT);
    }

    /// An access that the kernel notices: the first makes a page referenced; whether it is to become active, as by the
    /// second, which is for the caller. An active page becomes referenced again.
    pub fn refer(&mut self, page: Page) -> bool {
        let again = !self.has(page, ACTIVE) && self.has(page, REFERENCED);
        self.set(page, REFERENCED, !again);
        again
    }

    /// Moves a page to the end of the active list.
    pub fn activate(&mut self, page: Page) {
        let isolated = self.has(page, ISOLATED);
        if !self.has(page, ACTIVE) {
            self.unlist(page);
            self.set(page, ACTIVE, true);
            self.set(page, REFERENCED, false);
            if !isolated {
                self.enlist(page);
            }
        }
    }

    /// Moves a page to the end of the inactive list.
    pub fn deactivate(&mut self, page: Page) {
        let isolated = self.has(page, ISOLATED);
        if self.has(page, ACTIVE) {
            self.unlist(page);
            self.set(page, ACTIVE, false);
            if !isolated {
                self.enlist(page);
            }
        }
    }

    /// Takes a page off its list, to be migrated.
    pub fn isolate(&mut self, page: Page) {
        self.unlist(page);
        self.set(page, ISOLATED, true);
    }

    /// Active pages of slow memory, the one that became so first in front.
    pub fn active_slow(&self) -> impl Iterator<Item = Page> + '_ {
        self.slow.active.iter()
    }

    /// Whether fast memory's active list is too long for its inactive one: more than the square
    /// root of ten times the GiB on both as long (`inactive_is_low`).
    #[must_use]
    pub fn inactive_is_low(&self) -> bool {
        let [inactive, active] = self.fast_pages();
        let gib = ((u64::from(inactive) + u64::from(active)) * u64::from(self.base_pages)) >> 18;
        let ratio = (10 * gib).isqrt().max(1);
        u64::from(inactive) * ratio < u64::from(active)
    }

    /// The oldest active page of fast memory returns to the inactive list and loses its accessed
    /// bit; `false` when there is none.
    pub fn shrink_active(&mut self, accessed: &mut dyn AccessedBits) -> bool {
        let page = self.fast.active.front();
        if page == NIL {
            return false;
        }
        self.look_up(self.fast.active.ahead(AHEAD), accessed);
        accessed.test_and_clear(page);
        self.deactivate(page);
        true
    }

    /// Looks up what a step to come will need of its page, as a walk over millions is one cache miss after another.
    fn look_up(&self, page: Option<Page>, accessed: &dyn AccessedBits) {
        if let Some(page) = page.filter(|page| (*page as usize) < self.flags.len()) {
            self.fetch(page);
            accessed.fetch(page);
        }
    }

    /// The oldest inactive page of fast memory, or [`NIL`].
    fn oldest_inactive(&mut self) -> Page {
        self.fast.inactive.front(&self.flags)
    }

    /// Takes the oldest inactive page of fast memory off its list, accessed or not.
    pub fn take_oldest(&mut self) -> Option<Page> {
        let page = self.oldest_inactive();
        (page != NIL).then(|| {
            self.isolate(page);
            page
        })
    }

    /// Judges the oldest inactive page of fast memory by its accessed bit.
    pub fn judge_oldest(&mut self, accessed: &mut dyn AccessedBits) -> Verdict {
        let page = self.oldest_inactive();
        if page == NIL {
            return Verdict::Empty;
        }
        self.look_up(self.fast.inactive.ahead(AHEAD).or(Some(page + AHEAD as Page)), accessed);
        let (touched, referenced) = (accessed.test_and_clear(page), self.has(page, REFERENCED));
        if !touched {
            self.set(page, REFERENCED, false);
            self.isolate(page);
            return Verdict::Isolated(page);
        }
        if referenced {
            self.activate(page);
        } else {
            self.unlist(page);
            self.enlist(page);
        }
        // Also of one that becomes active: should it be deactivated although it is in use, one look brings it back.
        self.set(page, REFERENCED, true);
        if referenced {
            Verdict::Activated
        } else {
            Verdict::SecondChance
        }
    }
}

impl ReclaimLists for Lru {
    fn new(pages: u32, page_bytes: u64) -> Self {
        Self {
            flags: vec![0; pages as usize],
            entries: Entries::new(pages),
            fast: Side::default(),
            slow: Side::default(),
            base_pages: (page_bytes / crate::registry::PAGE_4K).max(1) as u32,
        }
    }

    /// They join the end of the tier's inactive list.
    fn placed(&mut self, pages: Range<Page>, tier: Tier) {
        let fast = tier == 0;
        self.flags[pages.start as usize..pages.end as usize].fill(if fast { FAST } else { 0 });
        let side = if fast { &mut self.fast } else { &mut self.slow };
        side.inactive.append(&mut self.entries, &mut self.flags, pages);
    }

    fn freed(&mut self, pages: Range<Page>) {
        for page in pages.clone() {
            self.unlist(page);
            self.flags[page as usize] = 0;
        }
        for side in [&mut self.fast, &mut self.slow] {
            side.inactive.cut(&pages);
        }
    }

    fn is_isolated(&self, page: Page) -> bool {
        self.has(page, ISOLATED)
    }

    /// It joins the end of the list that it was in before, active or inactive, of that tier.
    fn put(&mut self, page: Page, to: Tier) {
        self.unlist(page);
        self.set(page, FAST, to == 0);
        self.enlist(page);
    }

    fn fast_pages(&self) -> [u32; 2] {
        let side = &self.fast;
        [side.inactive.len(), side.active.len()]
    }

    fn slow_pages(&self) -> [u32; 2] {
        let side = &self.slow;
        [side.inactive.len(), side.active.len()]
    }

    /// A batch of the oldest active pages goes back to the inactive list when that is short.
    fn tend(&mut self, batch_pages: u32, _: u64, accessed: &mut dyn AccessedBits) -> Effort {
        if !self.inactive_is_low() {
            return Effort::default();
        }
        let pages = (0..batch_pages).filter(|_| self.shrink_active(accessed)).count() as u32;
        Effort {
            pages,
            ns: f64::from(pages) * PAGE_SCAN_NS,
        }
    }

    fn fetch(&self, page: Page) {
        prefetch(&self.flags, page as usize);
        self.entries.fetch(page);
    }

    fn judge(&mut self, accessed: &mut dyn AccessedBits) -> (Verdict, f64) {
        (self.judge_oldest(accessed), PAGE_SCAN_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bits(Vec<bool>);

    impl AccessedBits for Bits {
        fn test_and_clear(&mut self, page: Page) -> bool {
            std::mem::take(&mut self.0[page as usize])
        }

        fn test(&mut self, page: Page) -> bool {
            self.0[page as usize]
        }
    }

    fn lists(fast: u32, slow: u32) -> Lru {
        let mut lru = Lru::new(fast + slow, 4096);
        lru.placed(0..fast, 0);
        lru.placed(fast..fast + slow, 1);
        lru
    }

    fn access(lru: &mut Lru, page: Page) {
        if lru.refer(page) {
            lru.activate(page);
        }
    }

    #[test]
    fn two_marks_make_a_page_active_and_a_third_referenced() {
        let mut lru = lists(1, 2);
        access(&mut lru, 2);
        assert_eq!((lru.is_active(2), lru.slow_pages()), (false, [2, 0]));
        access(&mut lru, 2);
        assert_eq!((lru.is_active(2), lru.slow_pages()), (true, [1, 1]));
        access(&mut lru, 2);
        lru.put(2, 0);
        assert_eq!((lru.slow_pages(), lru.fast_pages()), ([1, 0], [1, 1]));
        lru.deactivate(2);
        // It was referenced while it was active, and still is.
        access(&mut lru, 2);
        assert!(lru.is_active(2));
    }

    #[test]
    fn reclaim_gives_a_second_chance_and_then_activates() {
        let mut lru = lists(3, 0);
        let mut bits = Bits(vec![true, false, true]);
        assert_eq!(lru.judge_oldest(&mut bits), Verdict::SecondChance);
        assert_eq!(lru.judge_oldest(&mut bits), Verdict::Isolated(1));
        assert_eq!(lru.judge_oldest(&mut bits), Verdict::SecondChance);
        bits.0[0] = true;
        assert_eq!(lru.judge_oldest(&mut bits), Verdict::Activated);
        // Page 2 was not accessed since: a second chance is no third.
        assert_eq!(lru.judge_oldest(&mut bits), Verdict::Isolated(2));
        assert_eq!(lru.judge_oldest(&mut bits), Verdict::Empty);
        assert_eq!(lru.fast_pages(), [0, 1]);
        lru.put(1, 1);
        lru.put(2, 0); // it could not be moved
        assert_eq!((lru.fast_pages(), lru.slow_pages()), ([1, 1], [1, 0]));
    }

    #[test]
    fn a_page_that_reclaim_made_active_needs_one_look_to_be_so_again() {
        let mut lru = lists(3, 0);
        let mut bits = Bits(vec![true, false, false]);
        assert_eq!(lru.judge_oldest(&mut bits), Verdict::SecondChance);
        lru.take_oldest();
        lru.take_oldest();
        bits.0[0] = true;
        assert_eq!(lru.judge_oldest(&mut bits), Verdict::Activated);
        lru.deactivate(0);
        bits.0[0] = true;
        assert_eq!(lru.judge_oldest(&mut bits), Verdict::Activated);
        // A mark that the kernel notices itself takes that back.
        lru.deactivate(0);
        access(&mut lru, 0);
        lru.deactivate(0);
        bits.0[0] = true;
        assert_eq!(lru.judge_oldest(&mut bits), Verdict::SecondChance);
    }

    #[test]
    fn a_page_that_is_taken_off_is_referenced_no_longer() {
        let mut lru = lists(1, 0);
        let mut bits = Bits(vec![true]);
        assert_eq!(lru.judge_oldest(&mut bits), Verdict::SecondChance);
        assert_eq!(lru.judge_oldest(&mut bits), Verdict::Isolated(0));
        lru.put(0, 1);
        access(&mut lru, 0);
        assert!(!lru.is_active(0));
        access(&mut lru, 0);
        assert!(lru.is_active(0));
    }

    #[test]
    fn an_active_page_goes_back_with_its_accessed_bit_cleared() {
        let mut lru = lists(2, 0);
        lru.activate(0);
        lru.activate(1);
        assert!(lru.inactive_is_low());
        let mut bits = Bits(vec![true, true]);
        assert!(lru.shrink_active(&mut bits) && !bits.0[0] && bits.0[1]);
        assert!(!lru.inactive_is_low());
        assert_eq!(lru.judge_oldest(&mut bits), Verdict::Isolated(0));
    }

    #[test]
    fn the_more_memory_the_smaller_the_inactive_share() {
        let mut lru = Lru::new(8192, 2 << 20); // 16 GiB: ratio 12
        lru.placed(0..8192, 0);
        (0..7562).for_each(|page| lru.activate(page));
        assert_eq!((lru.fast_pages(), lru.inactive_is_low()), ([630, 7562], true));
        lru.deactivate(0);
        assert!(!lru.inactive_is_low());
    }

    #[test]
    fn freed_pages_leave_whatever_list_they_are_in() {
        let mut lru = lists(8, 4);
        lru.activate(3);
        lru.isolate(4);
        access(&mut lru, 9);
        lru.freed(2..6);
        lru.freed(9..10);
        assert_eq!((lru.fast_pages(), lru.slow_pages()), ([4, 0], [3, 0]));
        lru.placed(2..6, 0); // again, at the end
        let mut bits = Bits(vec![false; 12]);
        let order: Vec<Verdict> = (0..9).map(|_| lru.judge_oldest(&mut bits)).collect();
        let pages = [0, 1, 6, 7, 2, 3, 4, 5].map(Verdict::Isolated);
        assert_eq!((&order[..8], order[8]), (&pages[..], Verdict::Empty));
    }
}
