//! Pages in lists by access probability, for fast memory and for the slow tiers together.
//!
//! A page is put where it belongs whenever it is sampled. Counts that are halved since make it rarer
//! than its list says, never more frequent, so a page is judged again when it is about to be taken,
//! and goes down to its right list then. Pages that were never sampled are in no list: the ranges
//! that they came in stand for them.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;

use crate::page_list::{Links, NIL, PageList};
use crate::{Extent, Heat, Page, PageMap};

/// Index of fast memory among the sides; the slow tiers are 1.
pub const FAST: usize = 0;
/// Index of the slow tiers.
pub const SLOW: usize = 1;

/// In the byte of a page: 0, or its list's number plus 1.
const LIST: u8 = 0x3f;
/// The list is one of the slow tiers.
const IN_SLOW: u8 = 0x40;
/// A move of the page is under way.
const MOVING: u8 = 0x80;

/// The lists.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Bins {
    bytes: Vec<u8>,
    links: Links,
    lists: [Vec<PageList>; 2],
    /// Ranges with pages that were never sampled, as they are looked through for cold pages of a side.
    unseen: [VecDeque<Range<Page>>; 2],
    /// The hottest page, for hosts without a ceiling. Its probability is what it is now: the first page that was ever
    /// sampled had them all.
    hottest: Option<Page>,
}

/// The side that holds `page`.
pub fn side_of(page: Page, pages: &dyn PageMap) -> usize {
    usize::from(pages.tier_of(page) != 0)
}

impl Bins {
    /// Empty lists for `pages` pages; with 0 `bins` pages are only marked as moving.
    #[must_use]
    pub fn new(pages: u32, bins: u8) -> Self {
        let lists = vec![PageList::default(); usize::from(bins)];
        Self {
            bytes: vec![0; pages as usize],
            links: Links::new(if bins == 0 { 0 } else { pages }),
            lists: [lists.clone(), lists],
            unseen: [VecDeque::new(), VecDeque::new()],
            hottest: None,
        }
    }

    /// Number of lists a side.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lists[FAST].len()
    }

    /// Pages in list `bin` of `side`.
    #[must_use]
    pub fn len(&self, side: usize, bin: usize) -> u32 {
        self.lists[side][bin].len()
    }

    /// Pages in the lists of `side`.
    #[must_use]
    pub fn pages_in(&self, side: usize) -> u32 {
        self.lists[side].iter().map(PageList::len).sum()
    }

    /// Whether a move of `page` is under way.
    #[must_use]
    pub fn is_moving(&self, page: Page) -> bool {
        self.bytes[page as usize] & MOVING != 0
    }

    /// Whether no move of anything that moves with `page` is under way: parts of a huge page may have been base pages
    /// when theirs began.
    #[must_use]
    pub fn at_rest(&self, page: Page, heat: &dyn Heat) -> bool {
        let (first, count) = heat.run_of(page);
        let parts = &self.bytes[first as usize..(first + count) as usize];
        // All of them at once, without a branch: this is asked at every sample.
        parts.iter().fold(0, |any, byte| any | byte) & MOVING == 0
    }

    /// Marks a page as moving, which takes it out of its list, or as at rest.
    pub fn set_moving(&mut self, page: Page, moving: bool) {
        if moving {
            self.leave(page);
            self.bytes[page as usize] |= MOVING;
        } else {
            self.bytes[page as usize] &= !MOVING;
        }
    }

    /// Takes note of new pages.
    pub fn add(&mut self, extent: &Extent) {
        if self.count() > 0 {
            let range = extent.start..extent.start + extent.pages;
            self.unseen.iter_mut().for_each(|side| side.push_back(range.clone()));
        }
    }

    /// Forgets pages that are gone.
    pub fn remove(&mut self, extent: &Extent) {
        let gone = extent.start..extent.start + extent.pages;
        for side in &mut self.unseen {
            side.retain(|range| !gone.contains(&range.start));
        }
        self.hottest = self.hottest.filter(|page| !gone.contains(page));
        gone.for_each(|page| self.leave(page));
    }

    /// The lowest probability of list `bin`.
    #[must_use]
    pub fn floor(&self, bin: usize, heat: &dyn Heat) -> f64 {
        self.ceiling(heat) * bin as f64 / self.count() as f64
    }

    fn ceiling(&self, heat: &dyn Heat) -> f64 {
        let of_hottest = || self.hottest.map_or(0.0, |page| heat.probability(page));
        heat.ceiling().unwrap_or_else(of_hottest)
    }

    fn bin_of(&mut self, page: Page, probability: f64, heat: &dyn Heat) -> usize {
        let mut ceiling = self.ceiling(heat);
        if probability > ceiling && heat.ceiling().is_none() {
            (self.hottest, ceiling) = (Some(page), probability);
        }
        let of_all = if ceiling > 0.0 { probability / ceiling } else { 0.0 };
        ((of_all * self.count() as f64) as usize).min(self.count() - 1)
    }

    /// Puts the run of a page into the list where it belongs; returns the probability.
    pub fn sort_in(&mut self, page: Page, heat: &dyn Heat, pages: &dyn PageMap) -> f64 {
        let (page, _) = heat.run_of(page);
        let probability = heat.probability(page);
        if heat.manages(page) && self.at_rest(page, heat) {
            let (side, bin) = (side_of(page, pages), self.bin_of(page, probability, heat));
            let byte = (bin as u8 + 1) | if side == SLOW { IN_SLOW } else { 0 };
            if self.bytes[page as usize] != byte {
                self.leave(page);
                self.bytes[page as usize] = byte;
                self.lists[side][bin].push_back(&mut self.links, page);
            }
        }
        probability
    }

    fn leave(&mut self, page: Page) {
        let byte = self.bytes[page as usize];
        if byte & LIST != 0 {
            let side = if byte & IN_SLOW != 0 { SLOW } else { FAST };
            self.lists[side][usize::from(byte & LIST) - 1].remove(&mut self.links, page);
            self.bytes[page as usize] = byte & MOVING;
        }
    }

    /// The next page of list `bin` of `side`, judged again, with its probability; `None` when there is
    /// none that belongs there. The page goes to the back, so that calls go round the list.
    pub fn next(&mut self, side: usize, bin: usize, heat: &dyn Heat, pages: &dyn PageMap) -> Visited {
        let page = self.lists[side][bin].front();
        if page == NIL {
            return Visited::Empty;
        }
        self.leave(page);
        let probability = self.sort_in(page, heat, pages);
        let byte = self.bytes[page as usize];
        if usize::from(byte & LIST) == bin + 1 && (byte & IN_SLOW != 0) == (side == SLOW) {
            Visited::Page(page, probability)
        } else {
            Visited::Moved
        }
    }

    /// A page of `side` that was never sampled, looking at no more than `visits` pages; it stays where
    /// it is until something is done with it.
    pub fn unseen(&mut self, side: usize, heat: &dyn Heat, pages: &dyn PageMap, visits: &mut u32) -> Option<Page> {
        while let Some(range) = self.unseen[side].front_mut() {
            let bytes = &self.bytes;
            for page in range.start..range.end {
                if *visits == 0 {
                    return None;
                }
                range.start = page;
                let unknown = bytes[page as usize] == 0 && side_of(page, pages) == side;
                if unknown && heat.manages(page) && heat.run_of(page).0 == page {
                    return Some(page);
                }
                *visits -= 1;
            }
            self.unseen[side].pop_front();
        }
        None
    }
}

/// What [`Bins::next`] came upon.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Visited {
    /// The list is empty.
    Empty,
    /// A page that belongs to another list now, where it has gone.
    Moved,
    /// A page and its probability.
    Page(Page, f64),
}
