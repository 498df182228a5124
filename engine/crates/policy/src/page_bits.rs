//! One bit per page, worked on 64 pages at a time: what scanners of page tables keep.

use crate::Page;
use serde::{Deserialize, Serialize};
use std::ops::Range;

const BITS: u32 = u64::BITS;

/// A set of pages. Words nobody has set are untouched zero pages of the operating system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageBits(Vec<u64>);

/// The words that `pages` lies in, each with a mask of the bits that belong to it.
pub fn words(pages: Range<Page>) -> impl Iterator<Item = (usize, u64)> {
    let last = pages.end.saturating_sub(1);
    let indices = if pages.is_empty() {
        0..0
    } else {
        pages.start / BITS..last / BITS + 1
    };
    indices.map(move |index| {
        let first_bit = pages.start.saturating_sub(index * BITS);
        let last_bit = (last - index * BITS).min(BITS - 1);
        (
            index as usize,
            (u64::MAX << first_bit) & (u64::MAX >> (BITS - 1 - last_bit)),
        )
    })
}

impl PageBits {
    /// The empty set, for pages `0..pages`.
    #[must_use]
    pub fn new(pages: u32) -> Self {
        Self(vec![0; pages.div_ceil(BITS) as usize])
    }

    /// Whether `page` is in the set.
    #[must_use]
    pub fn has(&self, page: Page) -> bool {
        self.0[(page / BITS) as usize] & (1 << (page % BITS)) != 0
    }

    /// Adds or removes a page.
    pub fn set(&mut self, page: Page, member: bool) {
        let (word, bit) = (&mut self.0[(page / BITS) as usize], 1 << (page % BITS));
        *word = if member { *word | bit } else { *word & !bit };
    }

    /// Adds or removes a range.
    pub fn set_all(&mut self, pages: Range<Page>, member: bool) {
        for (index, mask) in words(pages) {
            let word = &mut self.0[index];
            *word = if member { *word | mask } else { *word & !mask };
        }
    }

    /// How many of `pages` are in the set.
    #[must_use]
    pub fn count(&self, pages: Range<Page>) -> u32 {
        words(pages)
            .map(|(index, mask)| (self.0[index] & mask).count_ones())
            .sum()
    }

    /// The first run of members in `pages`, at most so many of it; nothing where there is none.
    #[must_use]
    pub fn next_run(&self, pages: Range<Page>, most: u32) -> Option<Range<Page>> {
        let start = self.first(pages.clone(), 0)?;
        let limit = pages.end.min(start.saturating_add(most));
        Some(start..self.first(start..limit, u64::MAX).unwrap_or(limit))
    }

    /// The first of `pages` whose bit is set once its word is combined with `flip` by exclusive or.
    fn first(&self, pages: Range<Page>, flip: u64) -> Option<Page> {
        words(pages).find_map(|(index, mask)| {
            let bits = (self.0[index] ^ flip) & mask;
            (bits != 0).then(|| index as Page * BITS + bits.trailing_zeros())
        })
    }

    /// Word `index`: pages `64 * index` and following, the first in the lowest bit.
    #[must_use]
    pub fn word(&self, index: usize) -> u64 {
        self.0[index]
    }

    /// Adds the pages of word `index` that `bits` names.
    pub fn add(&mut self, index: usize, bits: u64) {
        self.0[index] |= bits;
    }
}

/// Calls `run` for every run of ones in `bits`, which stand for pages from `64 * index` on.
pub fn runs(index: usize, mut bits: u64, mut run: impl FnMut(Range<Page>)) {
    let first = index as Page * BITS;
    while bits != 0 {
        let start = bits.trailing_zeros();
        let length = (bits >> start).trailing_ones();
        run(first + start..first + start + length);
        bits = if start + length == BITS {
            0
        } else {
            bits & (u64::MAX << (start + length))
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_runs_agree_with_single_pages() {
        for (start, end) in [(0, 0), (0, 1), (3, 64), (63, 65), (64, 128), (5, 200), (127, 128)] {
            let mut set = PageBits::new(200);
            set.set_all(start..end, true);
            assert!(
                (0..200).all(|page| set.has(page) == (start..end).contains(&page)),
                "{start}..{end}"
            );
            assert_eq!(set.count(0..200), end - start);
            let mut found = Vec::new();
            for index in 0..4 {
                runs(index, set.word(index), |run| found.extend(run));
            }
            assert_eq!(found, (start..end).collect::<Vec<_>>());
            set.set_all(start..end, false);
            assert_eq!(set, PageBits::new(200));
        }
    }

    #[test]
    fn the_next_run_is_found_across_words() {
        let mut set = PageBits::new(400);
        for run in [3..5, 60..130, 399..400] {
            set.set_all(run, true);
        }
        assert_eq!(set.next_run(0..400, 9), Some(3..5));
        assert_eq!(set.next_run(4..400, 9), Some(4..5));
        assert_eq!(set.next_run(5..400, 400), Some(60..130));
        assert_eq!(set.next_run(5..400, 20), Some(60..80));
        assert_eq!(set.next_run(5..100, 400), Some(60..100));
        assert_eq!(set.next_run(130..399, 9), None);
        assert_eq!(set.next_run(130..400, 9), Some(399..400));
        assert_eq!(set.next_run(9..9, 9), None);
    }

    #[test]
    fn several_runs_of_a_word_come_in_order() {
        let mut found = Vec::new();
        runs(1, 0b1001_1101 | 1 << 63, |run| found.push(run));
        assert_eq!(found, [64..65, 66..69, 71..72, 127..128]);
    }
}
