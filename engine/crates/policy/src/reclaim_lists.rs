//! What kswapd needs of the lists that it goes through, in whichever way these order pages.
//!
//! The kernel has two such ways: [active and inactive lists](crate::lru) and [generations](crate::lru_gen).

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::ops::Range;

use crate::{AccessedBits, Gauge, Page, Tier};

/// What reclaim makes of the oldest page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Not accessed: it was taken off its list and may be migrated.
    Isolated(Page),
    /// Accessed once: back to the end of the inactive list.
    SecondChance,
    /// Accessed again, or at all where pages have generations: it is to stay.
    Activated,
    /// There is no page to judge.
    Empty,
}

/// What looking at pages has taken.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Effort {
    /// Pages of fast memory looked at.
    pub pages: u32,
    /// CPU time.
    pub ns: f64,
}

/// The lists of one process, of fast and of slow memory; reclaim goes through those of fast memory.
pub trait ReclaimLists: Debug + Clone + Serialize + DeserializeOwned + Send {
    /// Empty lists for pages `0..pages` of `page_bytes`.
    #[must_use]
    fn new(pages: u32, page_bytes: u64) -> Self;

    /// Pages that were placed in one tier.
    fn placed(&mut self, pages: Range<Page>, tier: Tier);

    /// Pages that are gone.
    fn freed(&mut self, pages: Range<Page>);

    /// A page has arrived in `to`, or has stayed there.
    fn put(&mut self, page: Page, to: Tier);

    /// Whether a page was taken off its list to be migrated.
    #[must_use]
    fn is_isolated(&self, page: Page) -> bool;

    /// Inactive and active pages of fast memory.
    #[must_use]
    fn fast_pages(&self) -> [u32; 2];

    /// Inactive and active pages of slow memory.
    #[must_use]
    fn slow_pages(&self) -> [u32; 2];

    /// Sees to it that there are old pages to judge, before each batch of `batch_pages`; `looked_at` pages were in this
    /// run of reclaim.
    fn tend(&mut self, batch_pages: u32, looked_at: u64, accessed: &mut dyn AccessedBits) -> Effort;

    /// Whether [`Self::tend`] has begun something that it must end before pages are judged.
    #[must_use]
    fn is_tending(&self) -> bool {
        false
    }

    /// Judges the oldest page of fast memory by its accessed bit; with the CPU time that it took.
    fn judge(&mut self, accessed: &mut dyn AccessedBits) -> (Verdict, f64);

    /// `page` will be needed soon: a place to ask for its state, so that cache misses overlap.
    fn fetch(&self, page: Page) {
        let _ = page;
    }

    /// What lists of this kind report beside the numbers of their pages.
    #[must_use]
    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }
}
