//! Where new pages go.

use crate::Tier;

/// Where new pages go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// The fastest tier with room, page by page (first touch).
    FastestFree,
    /// As [`Placement::FastestFree`], but so many pages of tier 0 stay free as long as others have room: a
    /// kernel's allocation goes to the next node below the low watermark.
    FastestAbove {
        /// Pages of tier 0 that stay free.
        free_pages: u32,
    },
    /// Parts of equal size, each by first touch or in the fastest slow tier with room.
    Parts {
        /// Pages of a part; the last one may have less.
        part_pages: u32,
        /// Bit `n % 64` of word `n / 64`: part `n` is placed by first touch; at most 256 parts.
        fast: [u64; 4],
    },
    /// The slowest tier, then the next faster one when it is full.
    SlowestFree,
    /// The fastest tier, which the driver makes as large as it takes: the all-fast reference line.
    FastUnbounded,
    /// Round robin over the tiers by weight; a page whose tier is full goes to the next slower tier
    /// with room, after the slowest to the fastest.
    Interleaved(Interleave),
    /// The tier of each page, in order; a page whose tier is full goes on as with [`Placement::Interleaved`].
    ByPage(Vec<Tier>),
}

/// A weighted round over the tiers: first `weight_fast` pages to tier 0, then `weight_slow` to tier
/// 1, as many to tier 2, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interleave {
    /// Pages in a row for tier 0, at least 1.
    pub weight_fast: u8,
    /// Pages in a row for each slower tier, at least 1.
    pub weight_slow: u8,
    /// Where in the round the first page of the extent is, below [`Interleave::round_pages`].
    pub position: u32,
}

impl Interleave {
    /// Pages of a round over `tiers` tiers.
    #[must_use]
    pub fn round_pages(&self, tiers: u32) -> u32 {
        u32::from(self.weight_fast) + u32::from(self.weight_slow) * tiers.saturating_sub(1)
    }

    /// The tier that the page at `position` of a round is meant for, and how many pages from there
    /// on are meant for the same tier.
    #[must_use]
    pub fn run_at(&self, position: u32) -> (Tier, u32) {
        let (fast, slow) = (u32::from(self.weight_fast), u32::from(self.weight_slow));
        match position.checked_sub(fast) {
            None => (0, fast - position),
            Some(below) => ((1 + below / slow) as Tier, slow - below % slow),
        }
    }
}
