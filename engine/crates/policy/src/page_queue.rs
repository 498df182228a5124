//! A FIFO queue of pages in which whole ranges can wait at the front without being listed.
//!
//! Most pages are placed in ranges of millions and never move. Listing them one by one would take longer than all the
//! rest of a short trial, so a range that joins while nothing is listed is kept as it is, and a page gets its own entry
//! when it joins a queue alone. Which of the two holds is a bit of the page's flags, which the queue's owner keeps: it
//! has them in its hands anyway, and another table would be another cache miss.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;

use crate::Page;
use crate::page_ring::{Entries, PageRing};

/// The bit of a page's flags that says that the page is or was listed, so that it is in no queue's ranges. The owner
/// leaves it to the queue, except that it clears the flags of pages before they join as a range and when they are gone.
pub const LISTED: u8 = 1 << 7;

/// A queue: the oldest page in front. All queues of one owner share entries and flags.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PageQueue {
    /// In front of all of `list`; those of their pages that are [`LISTED`] have left.
    untouched: VecDeque<Range<Page>>,
    /// Pages of `untouched` that have not left.
    untouched_pages: u32,
    list: PageRing,
}

impl PageQueue {
    /// How many pages it holds.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.untouched_pages + self.list.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The oldest page, or [`NIL`](crate::page_list::NIL).
    #[must_use]
    pub fn front(&mut self, flags: &[u8]) -> Page {
        while let Some(range) = self.untouched.front_mut() {
            match range.find(|page| flags[*page as usize] & LISTED == 0) {
                Some(page) => {
                    range.start = page; // until something is done with it
                    return page;
                }
                None => self.untouched.pop_front(),
            };
        }
        self.list.front()
    }

    /// The listed page so many entries behind the front, if there is one; see [`PageRing::ahead`].
    #[must_use]
    pub fn ahead(&self, entries: usize) -> Option<Page> {
        self.list.ahead(entries)
    }

    /// Appends `page`, which must be in no queue.
    pub fn push_back(&mut self, entries: &mut Entries, flags: &mut [u8], page: Page) {
        flags[page as usize] |= LISTED;
        self.list.push_back(entries, page);
    }

    /// Appends `pages` in their order; they must be in no queue and not be [`LISTED`].
    pub fn append(&mut self, entries: &mut Entries, flags: &mut [u8], pages: Range<Page>) {
        if self.list.is_empty() {
            self.untouched_pages += pages.end - pages.start;
            self.untouched.push_back(pages);
        } else {
            pages.for_each(|page| self.push_back(entries, flags, page));
        }
    }

    /// Takes `page` out; it must be in this queue.
    pub fn remove(&mut self, entries: &mut Entries, flags: &mut [u8], page: Page) {
        let flags = &mut flags[page as usize];
        if *flags & LISTED != 0 {
            self.list.remove(entries, page);
            return;
        }
        *flags |= LISTED;
        self.untouched_pages -= 1;
        if self.untouched_pages == 0 {
            self.untouched.clear();
        }
    }

    /// Forgets that `pages`, none of which it holds any more, were once in its ranges: their flags may be cleared.
    pub fn cut(&mut self, pages: &Range<Page>) {
        let kept = std::mem::take(&mut self.untouched).into_iter().flat_map(|range| {
            let before = range.start..range.end.min(pages.start);
            let after = range.start.max(pages.end)..range.end;
            [before, after]
        });
        self.untouched = kept.filter(|range| !range.is_empty()).collect();
    }

    /// The pages from front to back.
    pub fn iter<'a>(&'a self, flags: &'a [u8]) -> impl Iterator<Item = Page> + 'a {
        let untouched = self.untouched.iter().flat_map(Clone::clone);
        untouched
            .filter(|page| flags[*page as usize] & LISTED == 0)
            .chain(self.list.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_list::NIL;
    use proptest::prelude::*;

    const PAGES: u32 = 60;

    /// Two queues over pages `0..PAGES`, as an owner keeps them.
    struct Owner {
        queues: [PageQueue; 2],
        entries: Entries,
        flags: Vec<u8>,
    }

    impl Owner {
        fn new() -> Self {
            Self {
                queues: Default::default(),
                entries: Entries::new(PAGES),
                flags: vec![0; PAGES as usize],
            }
        }

        fn append(&mut self, queue: usize, pages: Range<Page>) {
            self.queues[queue].append(&mut self.entries, &mut self.flags, pages);
        }

        fn push_back(&mut self, queue: usize, page: Page) {
            self.queues[queue].push_back(&mut self.entries, &mut self.flags, page);
        }

        fn remove(&mut self, queue: usize, page: Page) {
            self.queues[queue].remove(&mut self.entries, &mut self.flags, page);
        }

        /// Pages that are in no queue are gone.
        fn forget(&mut self, pages: Range<Page>) {
            self.flags[pages.start as usize..pages.end as usize].fill(0);
            self.queues.iter_mut().for_each(|queue| queue.cut(&pages));
        }

        fn pages(&self, queue: usize) -> Vec<Page> {
            self.queues[queue].iter(&self.flags).collect()
        }

        /// Takes pages from the front until there are none.
        fn drained(&mut self, queue: usize) -> Vec<Page> {
            let mut taken = Vec::new();
            loop {
                match self.queues[queue].front(&self.flags) {
                    NIL => return taken,
                    page => {
                        self.remove(queue, page);
                        taken.push(page);
                    }
                }
            }
        }
    }

    #[test]
    fn ranges_wait_in_front_of_what_is_listed() {
        let mut owner = Owner::new();
        owner.append(0, 10..13);
        owner.append(0, 4..6);
        owner.push_back(0, 30);
        owner.append(0, 20..22);
        assert_eq!(owner.pages(0), [10, 11, 12, 4, 5, 30, 20, 21]);
        let listed = |page: Page| owner.flags[page as usize] & LISTED != 0;
        assert!([30, 20, 21].map(listed).iter().all(|listed| *listed) && !listed(10) && !listed(5));
        assert_eq!(owner.drained(0), [10, 11, 12, 4, 5, 30, 20, 21]);
    }

    #[test]
    fn a_page_that_left_a_range_comes_back_at_the_end() {
        let mut owner = Owner::new();
        owner.append(0, 0..4);
        assert_eq!(owner.queues[0].front(&owner.flags), 0);
        owner.remove(0, 2);
        owner.remove(0, 0);
        assert_eq!((owner.queues[0].front(&owner.flags), owner.queues[0].len()), (1, 2));
        owner.push_back(0, 2);
        owner.push_back(1, 0);
        assert_eq!((owner.drained(0), owner.drained(1)), (vec![1, 3, 2], vec![0]));
    }

    #[test]
    fn pages_that_come_back_after_they_were_gone_are_queued_once() {
        let mut owner = Owner::new();
        owner.append(0, 0..8);
        owner.push_back(0, 9);
        (2..5).for_each(|page| owner.remove(0, page));
        owner.forget(2..5);
        owner.append(1, 2..5);
        assert_eq!(
            (owner.pages(0), owner.pages(1)),
            (vec![0, 1, 5, 6, 7, 9], vec![2, 3, 4])
        );
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// Pages that are in no queue join, as far as they lie side by side from the start.
        Append(usize, Range<Page>),
        Push(usize, Page),
        Remove(Page),
        RemoveFront(usize),
        Forget(Range<Page>),
    }

    fn ranges() -> impl Strategy<Value = Range<Page>> {
        (0..PAGES, 1..20u32).prop_map(|(start, length)| start..(start + length).min(PAGES))
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (0..2usize, ranges()).prop_map(|(queue, pages)| Step::Append(queue, pages)),
            3 => (0..2usize, 0..PAGES).prop_map(|(queue, page)| Step::Push(queue, page)),
            4 => (0..PAGES).prop_map(Step::Remove),
            3 => (0..2usize).prop_map(Step::RemoveFront),
            1 => ranges().prop_map(Step::Forget),
        ];
        prop::collection::vec(step, 1..80)
    }

    proptest! {
        #[test]
        fn it_is_a_queue_whichever_way_pages_join(steps in steps()) {
            let mut owner = Owner::new();
            let mut model: [Vec<Page>; 2] = Default::default();
            for step in steps {
                match step {
                    Step::Append(queue, pages) => {
                        let end = pages.clone().find(|page| model.iter().any(|one| one.contains(page)));
                        let pages = pages.start..end.unwrap_or(pages.end);
                        owner.forget(pages.clone());
                        owner.append(queue, pages.clone());
                        model[queue].extend(pages);
                    }
                    Step::Push(queue, page) => {
                        if !model.iter().any(|one| one.contains(&page)) {
                            owner.push_back(queue, page);
                            model[queue].push(page);
                        }
                    }
                    Step::Remove(page) => {
                        for (queue, pages) in model.iter_mut().enumerate() {
                            if let Some(at) = pages.iter().position(|one| *one == page) {
                                owner.remove(queue, page);
                                pages.remove(at);
                            }
                        }
                    }
                    Step::RemoveFront(queue) => {
                        let front = owner.queues[queue].front(&owner.flags);
                        prop_assert_eq!(front, model[queue].first().copied().unwrap_or(NIL));
                        if front != NIL {
                            owner.remove(queue, front);
                            model[queue].remove(0);
                        }
                    }
                    Step::Forget(range) => {
                        for (queue, pages) in model.iter_mut().enumerate() {
                            for page in range.clone().filter(|page| pages.contains(page)) {
                                owner.remove(queue, page);
                            }
                            pages.retain(|page| !range.contains(page));
                        }
                        owner.forget(range);
                    }
                }
                for (queue, pages) in model.iter().enumerate() {
                    prop_assert_eq!(&owner.pages(queue), pages);
                    prop_assert_eq!(owner.queues[queue].len() as usize, pages.len());
                    prop_assert_eq!(owner.queues[queue].is_empty(), pages.is_empty());
                }
            }
            for (queue, pages) in model.iter().enumerate() {
                prop_assert_eq!(&owner.drained(queue), pages);
            }
        }
    }
}
