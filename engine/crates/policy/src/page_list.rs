//! FIFO lists of pages, threaded through the per-page entries themselves.
//!
//! A page is in at most one list at a time, so its two links live in its entry and a list is three
//! words. Every operation takes the slice of entries; none allocates, and all but iteration are
//! O(1), which the millions of moves between hot and cold lists in a trial need.

use crate::policy::Page;

/// "No page": ends a list.
pub const NIL: Page = Page::MAX;

/// The neighbours of a page in its list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Links {
    /// The page that was queued before it, or [`NIL`].
    pub previous: Page,
    /// The page that was queued after it, or [`NIL`].
    pub next: Page,
}

/// A per-page entry that carries [`Links`].
pub trait Linked {
    /// The links.
    fn links(&self) -> &Links;
    /// The links, to change.
    fn links_mut(&mut self) -> &mut Links;
}

/// A list: the oldest page in front, new pages at the back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageList {
    front: Page,
    back: Page,
    len: u32,
}

impl Default for PageList {
    fn default() -> Self {
        Self { front: NIL, back: NIL, len: 0 }
    }
}

impl PageList {
    /// The oldest page, or [`NIL`].
    #[must_use]
    pub fn front(&self) -> Page {
        self.front
    }

    /// The newest page, or [`NIL`].
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
    pub fn push_back<N: Linked>(&mut self, entries: &mut [N], page: Page) {
        *entries[page as usize].links_mut() = Links { previous: self.back, next: NIL };
        match self.back {
            NIL => self.front = page,
            back => entries[back as usize].links_mut().next = page,
        }
        self.back = page;
        self.len += 1;
    }

    /// Takes `page` out; it must be in this list.
    pub fn remove<N: Linked>(&mut self, entries: &mut [N], page: Page) {
        let Links { previous, next } = *entries[page as usize].links();
        match previous {
            NIL => self.front = next,
            previous => entries[previous as usize].links_mut().next = next,
        }
        match next {
            NIL => self.back = previous,
            next => entries[next as usize].links_mut().previous = previous,
        }
        self.len -= 1;
    }

    /// The pages from front to back.
    pub fn iter<'a, N: Linked>(&self, entries: &'a [N]) -> impl Iterator<Item = Page> + 'a {
        std::iter::successors((self.front != NIL).then_some(self.front), move |page| {
            let next = entries[*page as usize].links().next;
            (next != NIL).then_some(next)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Entry(Links);

    impl Linked for Entry {
        fn links(&self) -> &Links {
            &self.0
        }
        fn links_mut(&mut self) -> &mut Links {
            &mut self.0
        }
    }

    fn pages(list: &PageList, entries: &[Entry]) -> Vec<Page> {
        list.iter(entries).collect()
    }

    #[test]
    fn keeps_the_order_of_arrival_through_removals_anywhere() {
        let mut entries = vec![Entry::default(); 6];
        let mut list = PageList::default();
        assert_eq!(pages(&list, &entries), []);
        for page in 0..6 {
            list.push_back(&mut entries, page);
        }
        for (removed, left) in
            [(0, vec![1, 2, 3, 4, 5]), (5, vec![1, 2, 3, 4]), (3, vec![1, 2, 4]), (1, vec![2, 4]), (4, vec![2])]
        {
            list.remove(&mut entries, removed);
            assert_eq!(pages(&list, &entries), left);
            assert_eq!((list.front(), list.back(), list.len()), (left[0], left[left.len() - 1], left.len() as u32));
        }
        list.remove(&mut entries, 2);
        assert_eq!((list.front(), list.back(), list.is_empty()), (NIL, NIL, true));
        list.push_back(&mut entries, 5);
        assert_eq!(pages(&list, &entries), [5]);
    }
}
