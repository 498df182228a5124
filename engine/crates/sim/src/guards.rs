//! Guarded pages in the reference mode: since when each is.

use std::ops::Range;

use tiertune_policy::{Nanos, Page};

/// A set of guarded pages.
#[derive(Debug, Default)]
pub struct Guards {
    /// Empty until the first is guarded.
    since: Vec<Option<Nanos>>,
}

impl Guards {
    /// Guards one of `pages` pages, unless it is guarded.
    pub fn arm(&mut self, page: Page, now: Nanos, pages: u32) {
        if self.since.is_empty() {
            self.since = vec![None; pages as usize];
        }
        self.since[page as usize].get_or_insert(now);
    }

    /// Takes the guard off a page: since when it was there.
    pub fn take(&mut self, page: Page) -> Option<Nanos> {
        self.since.get_mut(page as usize).and_then(Option::take)
    }

    /// Takes the guards off pages.
    pub fn disarm_all(&mut self, pages: &Range<Page>) {
        if let Some(since) = self.since.get_mut(pages.start as usize..pages.end as usize) {
            since.fill(None);
        }
    }
}
