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
    fn several_runs_of_a_word_come_in_order() {
        let mut found = Vec::new();
        runs(1, 0b1001_1101 | 1 << 63, |run| found.push(run));
        assert_eq!(found, [64..65, 66..69, 71..72, 127..128]);
    }
}
