//! Which pages have a shadow: the slow frame that they were copied from, still as good as the copy.

use serde::{Deserialize, Serialize};

use crate::page_list::{Links, NIL, PageList};
use crate::{Page, Tier};

/// The page is on its way up and will have a shadow when it arrives.
const EXPECTED: u8 = 0x40;
/// The page is on its way back to its shadow.
const TAKEN: u8 = 0x80;
/// The bits that hold the shadow's tier; 0 for none, as shadows are in slow tiers only.
const TIER: u8 = 0x3f;

/// The shadows of all pages, the oldest of each tier in front.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Shadows {
    state: Vec<u8>,
    links: Links,
    /// By tier: pages with a shadow there that is neither expected nor taken.
    lists: Vec<PageList>,
}

impl Shadows {
    /// None for any of the pages `0..pages`.
    #[must_use]
    pub fn new(pages: u32, tiers: usize) -> Self {
        Self {
            state: vec![0; pages as usize],
            links: Links::new(pages),
            lists: vec![PageList::default(); tiers],
        }
    }

    fn list(&mut self, tier: Tier) -> &mut PageList {
        &mut self.lists[usize::from(tier)]
    }

    /// The page is to be copied from `tier`, and its frame there to be kept.
    pub fn expect(&mut self, page: Page, tier: Tier) {
        self.state[page as usize] = EXPECTED | tier;
    }

    /// The page has been copied; without effect when a store came first.
    pub fn arrived(&mut self, page: Page) {
        let state = self.state[page as usize];
        if state & EXPECTED != 0 {
            self.enlist(page, state & TIER);
        }
    }

    fn enlist(&mut self, page: Page, tier: Tier) {
        self.state[page as usize] = tier;
        let Self { links, lists, .. } = self;
        lists[usize::from(tier)].push_back(links, page);
    }

    /// Takes the shadow of a page for the page to go back to; where it is.
    pub fn take(&mut self, page: Page) -> Option<Tier> {
        let tier = self.state[page as usize];
        if tier == 0 || tier & (EXPECTED | TAKEN) != 0 {
            return None;
        }
        let Self { links, lists, .. } = self;
        lists[usize::from(tier)].remove(links, page);
        self.state[page as usize] = TAKEN | tier;
        Some(tier)
    }

    /// The page did not go back to the shadow that was taken for it, which is still there.
    pub fn untake(&mut self, page: Page) {
        let state = self.state[page as usize];
        if state & TAKEN != 0 {
            self.enlist(page, state & TIER);
        }
    }

    /// There is no shadow of the page any more, nor to be one; whether there was.
    pub fn forget(&mut self, page: Page) -> bool {
        let state = std::mem::take(&mut self.state[page as usize]);
        if state != 0 && state & (EXPECTED | TAKEN) == 0 {
            let Self { links, lists, .. } = self;
            lists[usize::from(state)].remove(links, page);
        }
        state != 0 && state & EXPECTED == 0
    }

    /// The oldest page with a shadow in `tier`.
    #[must_use]
    pub fn oldest(&mut self, tier: Tier) -> Option<Page> {
        Some(self.list(tier).front()).filter(|page| *page != NIL)
    }

    /// Shadows in all tiers, those being gone back to left out.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.lists.iter().map(PageList::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shadow_is_expected_kept_taken_and_gone() {
        let mut shadows = Shadows::new(8, 3);
        for (page, tier) in [(5, 1), (3, 2), (4, 1)] {
            shadows.expect(page, tier);
            assert_eq!(shadows.take(page), None, "it is not there yet");
            shadows.arrived(page);
        }
        assert_eq!(
            (shadows.len(), shadows.oldest(1), shadows.oldest(2)),
            (3, Some(5), Some(3))
        );
        assert_eq!(
            (shadows.take(5), shadows.take(5), shadows.oldest(1)),
            (Some(1), None, Some(4))
        );
        shadows.untake(5);
        assert_eq!((shadows.oldest(1), shadows.take(5)), (Some(4), Some(1)));
        assert!(shadows.forget(5) && !shadows.forget(5) && shadows.forget(3));
        assert_eq!((shadows.len(), shadows.oldest(2)), (1, None));
    }

    #[test]
    fn a_store_that_comes_before_the_news_of_the_arrival_leaves_no_shadow() {
        let mut shadows = Shadows::new(2, 2);
        shadows.expect(1, 1);
        assert!(!shadows.forget(1), "nobody knew of one");
        shadows.arrived(1);
        assert_eq!((shadows.len(), shadows.take(1)), (0, None));
    }
}
