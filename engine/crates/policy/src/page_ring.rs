//! FIFO lists of pages that are gone through from the front.
//!
//! What a [list](crate::page_list) keeps as links between neighbours is an array here, in the order of arrival: who goes
//! through millions of pages sees which come next without following one link after the other, each a cache miss, and
//! can look up what it needs of them meanwhile. A page that leaves from the middle leaves a gap; when there are more gaps
//! than pages they are closed. The price is that nobody knows a page's neighbours.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use crate::page_list::NIL;
use crate::{Page, prefetch};

/// Gaps that a ring may have whatever its length.
const GAPS: usize = 64;
/// Entries of a block of [`PageRing::go_through`].
const BLOCK: usize = 64;

/// The number of each page's entry in the ring that it is in. A page is in at most one, so all rings of an owner share them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entries(Vec<u32>);

impl Entries {
    /// Those of pages `0..pages`.
    #[must_use]
    pub fn new(pages: u32) -> Self {
        Self(vec![0; pages as usize])
    }

    /// Asks for what taking out `page` will need; see [`PageRing::ahead`].
    pub fn fetch(&self, page: Page) {
        prefetch(&self.0, page as usize);
    }
}

/// A list: the oldest page in front, new ones at the back.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PageRing {
    /// Pages and gaps ([`NIL`]), no gap in front.
    pages: VecDeque<Page>,
    /// Number of the entry in front; numbers wrap around.
    first: u32,
    len: u32,
}

impl PageRing {
    /// The oldest page, or [`NIL`].
    #[must_use]
    pub fn front(&self) -> Page {
        self.pages.front().copied().unwrap_or(NIL)
    }

    /// The page so many entries behind the front, if there is one and it is no gap: who is about to get there looks up
    /// now what it will need, so that cache misses overlap.
    #[must_use]
    pub fn ahead(&self, entries: usize) -> Option<Page> {
        self.pages.get(entries).copied().filter(|page| *page != NIL)
    }

    /// How many pages it holds.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends `page`, which must be in no ring.
    pub fn push_back(&mut self, entries: &mut Entries, page: Page) {
        entries.0[page as usize] = self.first.wrapping_add(self.pages.len() as u32);
        self.pages.push_back(page);
        self.len += 1;
    }

    /// Takes `page` out; it must be in this ring.
    pub fn remove(&mut self, entries: &mut Entries, page: Page) {
        let at = entries.0[page as usize].wrapping_sub(self.first) as usize;
        debug_assert_eq!(
            self.pages.get(at),
            Some(&page),
            "page {page} is in another ring, or in none"
        );
        self.pages[at] = NIL;
        self.len -= 1;
        self.trim(entries);
    }

    /// Moves the oldest page to the back.
    pub fn rotate(&mut self, entries: &mut Entries) {
        if let Some(page) = self.pages.pop_front() {
            self.first = self.first.wrapping_add(1);
            entries.0[page as usize] = self.first.wrapping_add(self.pages.len() as u32);
            self.pages.push_back(page);
            self.trim(entries);
        }
    }

    /// Goes through all pages by blocks of neighbours, in which gaps are [`NIL`]; those that `visit` overwrites by that are
    /// taken out. It must overwrite by nothing else.
    pub fn go_through(&mut self, entries: &mut Entries, visit: impl FnMut(&mut [Page])) {
        self.pages.make_contiguous().chunks_mut(BLOCK).for_each(visit);
        self.len = self.iter().count() as u32;
        self.trim(entries);
    }

    /// Has no gap in front, and elsewhere not more of them than pages.
    fn trim(&mut self, entries: &mut Entries) {
        while self.pages.front() == Some(&NIL) {
            self.pages.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        if self.pages.len() > 2 * self.len as usize + GAPS {
            self.close_gaps(entries);
        }
    }

    fn close_gaps(&mut self, entries: &mut Entries) {
        self.pages.retain(|page| *page != NIL);
        for (page, number) in self.pages.iter().zip(0..) {
            entries.0[*page as usize] = self.first.wrapping_add(number);
        }
    }

    /// The pages from front to back.
    pub fn iter(&self) -> impl Iterator<Item = Page> + '_ {
        self.pages.iter().copied().filter(|page| *page != NIL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGES: u32 = 200;

    #[derive(Debug, Clone)]
    enum Step {
        Put(Page, usize),
        Rotate(usize),
        Thin(usize, u32),
    }

    /// Steps of the test below: a page into a ring or into none, the oldest to the back, or all pages but multiples out of a ring.
    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            200 => (0..PAGES, 0..3usize).prop_map(|(page, to)| Step::Put(page, to)),
            50 => (0..2usize).prop_map(Step::Rotate),
            1 => (0..2usize, 2..10u32).prop_map(|(ring, multiple)| Step::Thin(ring, multiple)),
        ];
        prop::collection::vec(step, 0..2000)
    }

    proptest! {
        #[test]
        fn rings_keep_the_order_of_arrival(first in any::<u32>(), steps in steps()) {
            let mut entries = Entries::new(PAGES);
            let mut rings: [PageRing; 2] = Default::default();
            rings[0].first = first;
            let mut model: [Vec<Page>; 2] = Default::default();
            for step in steps {
                match step {
                    Step::Put(page, to) => {
                        for (ring, pages) in rings.iter_mut().zip(&mut model) {
                            if let Some(at) = pages.iter().position(|one| *one == page) {
                                ring.remove(&mut entries, page);
                                pages.remove(at);
                            }
                        }
                        if let (Some(ring), Some(pages)) = (rings.get_mut(to), model.get_mut(to)) {
                            ring.push_back(&mut entries, page);
                            pages.push(page);
                        }
                    }
                    Step::Rotate(ring) => {
                        rings[ring].rotate(&mut entries);
                        let oldest = usize::from(!model[ring].is_empty());
                        model[ring].rotate_left(oldest);
                    }
                    Step::Thin(ring, multiple) => {
                        let mut seen = Vec::new();
                        rings[ring].go_through(&mut entries, |block| {
                            seen.extend(block.iter().copied().filter(|page| *page != NIL));
                            let leaving = block.iter_mut().filter(|page| **page % multiple != 0);
                            leaving.for_each(|page| *page = NIL);
                        });
                        prop_assert_eq!(&seen, &model[ring]);
                        model[ring].retain(|page| *page % multiple == 0);
                    }
                }
                for (ring, pages) in rings.iter().zip(&model) {
                    prop_assert_eq!(&ring.iter().collect::<Vec<_>>(), pages);
                    prop_assert_eq!(ring.front(), pages.first().copied().unwrap_or(NIL));
                    prop_assert_eq!((ring.len() as usize, ring.is_empty()), (pages.len(), pages.is_empty()));
                    prop_assert!(ring.pages.len() <= 2 * pages.len() + GAPS);
                }
            }
        }
    }

    #[test]
    fn what_lies_ahead_is_a_page_or_a_gap() {
        let (mut ring, mut entries) = (PageRing::default(), Entries::new(4));
        (0..4).for_each(|page| ring.push_back(&mut entries, page));
        ring.remove(&mut entries, 2);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|at| ring.ahead(at)),
            [Some(0), Some(1), None, Some(3), None]
        );
        ring.remove(&mut entries, 0);
        assert_eq!([0, 1, 2].map(|at| ring.ahead(at)), [Some(1), None, Some(3)]);
    }
}
