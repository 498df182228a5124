//! FIFO lists of pages, threaded through one table of links.
//!
//! A page is in at most one list at a time, so all lists share a table with two links per page and
//! a list is a few words. No operation allocates and all are O(1), which the millions of moves between
//! lists in a trial need. The table starts as untouched zero pages of the operating system: pages that
//! no list ever holds cost no memory. Long lists that are gone through from the front are
//! [rings](crate::page_ring) instead.

use crate::Page;
use serde::{Deserialize, Serialize};

/// "No page": ends a list.
pub const NIL: Page = Page::MAX;

const PREVIOUS: usize = 0;
const NEXT: usize = 1;

/// The links of every page.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Links(Vec<[Page; 2]>);

impl Links {
    /// Links for pages `0..pages`.
    #[must_use]
    pub fn new(pages: u32) -> Self {
        Self(vec![[0; 2]; pages as usize])
    }

    /// The page behind `page` in its list, or [`NIL`].
    #[must_use]
    pub fn next(&self, page: Page) -> Page {
        self.0[page as usize][NEXT]
    }

    /// The page before `page` in its list, or [`NIL`].
    #[must_use]
    pub fn previous(&self, page: Page) -> Page {
        self.0[page as usize][PREVIOUS]
    }

    /// Reads the links that taking `page` out of its list will change. The value means nothing: who
    /// is about to move many pages asks for all of them first, so that the cache misses overlap.
    #[must_use]
    pub fn fetch(&self, page: Page) -> Page {
        let [previous, next] = self.0[page as usize];
        let link = |at: Page| self.0.get(at as usize).map_or(0, |links| links[NEXT]);
        link(previous) ^ link(next)
    }
}

/// A list: the oldest page in front, new pages at the back, and at most one walk that is resumed
/// where it stopped however the list has changed since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageList {
    front: Page,
    back: Page,
    len: u32,
    walk: Option<Walk>,
}

/// The rest of a walk: from `next` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Walk {
    next: Page,
    last: Page,
}

impl Default for PageList {
    fn default() -> Self {
        Self {
            front: NIL,
            back: NIL,
            len: 0,
            walk: None,
        }
    }
}

impl PageList {
    /// The oldest page, or [`NIL`].
    #[must_use]
    pub fn front(&self) -> Page {
        self.front
    }

    /// The page appended last of those it holds, or [`NIL`].
    #[must_use]
    pub fn back(&self) -> Page {
        self.back
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

    /// Appends `page`, which must be in no list.
    pub fn push_back(&mut self, links: &mut Links, page: Page) {
        links.0[page as usize] = [self.back, NIL];
        match self.back {
            NIL => self.front = page,
            back => links.0[back as usize][NEXT] = page,
        }
        self.back = page;
        self.len += 1;
    }

    /// Takes `page` out; it must be in this list. A walk that was to end with it ends before it.
    pub fn remove(&mut self, links: &mut Links, page: Page) {
        let [previous, next] = links.0[page as usize];
        match previous {
            NIL => self.front = next,
            previous => links.0[previous as usize][NEXT] = next,
        }
        match next {
            NIL => self.back = previous,
            next => links.0[next as usize][PREVIOUS] = previous,
        }
        self.len -= 1;
        if let Some(walk) = &mut self.walk {
            match (walk.next == page, walk.last == page) {
                (true, true) => self.walk = None,
                (true, false) => walk.next = next,
                (false, true) => walk.last = previous,
                (false, false) => {}
            }
        }
    }

    /// The next page of the walk under way, [`NIL`] when none is. Pages appended after
    /// [`PageList::start_walk`] are not part of it.
    #[must_use]
    pub fn walk_next(&self) -> Page {
        self.walk.map_or(NIL, |walk| walk.next)
    }

    /// Starts a walk over what the list holds now, unless one is under way.
    pub fn start_walk(&mut self) {
        if self.walk.is_none() && !self.is_empty() {
            self.walk = Some(Walk {
                next: self.front,
                last: self.back,
            });
        }
    }

    /// Steps past [`PageList::walk_next`], leaving it in its place.
    pub fn walk_past(&mut self, links: &Links) {
        self.walk = self.walk.filter(|walk| walk.next != walk.last).map(|walk| {
            let next = links.0[walk.next as usize][NEXT];
            Walk { next, ..walk }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_of(pages: std::ops::Range<Page>) -> (PageList, Links) {
        let (mut list, mut links) = (PageList::default(), Links::new(pages.end));
        pages.for_each(|page| list.push_back(&mut links, page));
        (list, links)
    }

    fn pages(list: &PageList, links: &Links) -> Vec<Page> {
        let page = |page: Page| (page != NIL).then_some(page);
        std::iter::successors(page(list.front), |at| page(links.next(*at))).collect()
    }

    #[test]
    fn keeps_the_order_of_arrival_through_removals_anywhere() {
        let (mut list, mut links) = list_of(0..6);
        for (removed, left) in [
            (0, vec![1, 2, 3, 4, 5]),
            (5, vec![1, 2, 3, 4]),
            (3, vec![1, 2, 4]),
            (1, vec![2, 4]),
            (4, vec![2]),
        ] {
            list.remove(&mut links, removed);
            assert_eq!(pages(&list, &links), left);
            assert_eq!((list.front(), list.len()), (left[0], left.len() as u32));
            assert_eq!(Some(&list.back()), left.last());
        }
        list.remove(&mut links, 2);
        assert_eq!((list.front(), list.is_empty()), (NIL, true));
        list.push_back(&mut links, 5);
        assert_eq!(pages(&list, &links), [5]);
    }

    /// Walks the rest and says which pages it saw.
    fn walked(list: &mut PageList, links: &Links) -> Vec<Page> {
        let mut seen = Vec::new();
        while list.walk_next() != NIL {
            seen.push(list.walk_next());
            list.walk_past(links);
        }
        seen
    }

    #[test]
    fn a_walk_covers_what_was_there_at_its_start_and_still_is() {
        let (mut list, mut links) = list_of(0..6);
        assert_eq!(list.walk_next(), NIL);
        list.start_walk();
        list.walk_past(&links);
        list.start_walk(); // one is under way: no restart
        assert_eq!(list.walk_next(), 1);
        for removed in [1, 5, 3, 0] {
            list.remove(&mut links, removed);
        }
        list.push_back(&mut links, 5);
        assert_eq!(walked(&mut list, &links), [2, 4]);
        list.start_walk();
        assert_eq!(walked(&mut list, &links), [2, 4, 5]);
    }

    #[test]
    fn a_walk_ends_with_the_removal_of_its_only_page() {
        let (mut list, mut links) = list_of(0..2);
        list.start_walk();
        list.walk_past(&links);
        list.remove(&mut links, 1);
        assert_eq!(list.walk_next(), NIL);
        let (mut empty, links) = list_of(0..0);
        empty.start_walk();
        assert_eq!(walked(&mut empty, &links), Vec::<Page>::new());
    }
}
