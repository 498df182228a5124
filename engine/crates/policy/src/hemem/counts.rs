//! What `hemem`'s sampling thread keeps and does: counts per page, and requests about pages.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use crate::{Event, Page, Sample, prefetch};

use super::HememConfig;

// What is known about a page is one u64, so that a sample costs one cache line and one store. The
// upper half is the number of halvings that its counts have seen, the lower half flags and counts:
// from bit 0 on a byte each for loads from fast memory, loads from slow memory, and stores.
// A page that nothing is known about is all zero: managed, cold, in no list.
const COUNTS: u32 = 0x00ff_ffff;
pub(super) const HOT: u32 = 1 << 24;
/// A request about the page waits in one of the rings.
pub(super) const QUEUED: u32 = 1 << 25;
/// The page is in one of the lists; `FAST` says of which side, `HOT` which of the two.
pub(super) const LISTED: u32 = 1 << 26;
pub(super) const FAST: u32 = 1 << 27;
/// The page was asked to move and has not arrived.
pub(super) const MIGRATING: u32 = 1 << 28;
pub(super) const UNMANAGED: u32 = 1 << 29;

/// Samples whose page states are fetched together before any is worked on.
const BLOCK: usize = 64;

/// Requests to the policy thread, a page at most once over both rings.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Rings {
    pub hot: VecDeque<Page>,
    pub cold: VecDeque<Page>,
    pub capacity: u64,
    /// Requests that found their ring full.
    pub lost: u64,
}

/// The thresholds at which a page is hot.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Thresholds {
    read: u32,
    write: u32,
}

impl Thresholds {
    #[inline]
    fn reached(self, word: u32) -> bool {
        ((word & 0xff) + ((word >> 8) & 0xff) >= self.read) | (((word >> 16) & 0xff) >= self.write)
    }
}

/// All three counts of `word` after `times` halvings, without the flags.
#[inline]
fn halved(word: u32, times: u32) -> u32 {
    let times = times.min(8);
    ((word & COUNTS) >> times) & (0x01_01_01 * (0xff >> times))
}

/// What counts that were last halved `halvings` times ago still make up of a total that was halved
/// with them: unlike the counts themselves, without what halving cuts off.
#[inline]
fn share_of(counts: u32, halvings: u32) -> f64 {
    f64::from(sum(counts)) * 0.5f64.powi(halvings.min(64) as i32)
}

/// Counts and flags of every page.
#[derive(Serialize, Deserialize)]
pub(super) struct Counts {
    states: Vec<u64>,
    /// Number of halvings so far.
    clock: u32,
    thresholds: Thresholds,
    /// A count above this halves all counts; out of reach with `sample_based_cooling`.
    cooling_threshold: u32,
    stores: bool,
    /// Sum of all counts, halvings applied, if somebody wants to know.
    total: Option<f64>,
}

/// The three counts of a word as one.
#[inline]
fn sum(counts: u32) -> u32 {
    (counts & 0xff) + ((counts >> 8) & 0xff) + ((counts >> 16) & 0xff)
}

impl Counts {
    pub fn new(config: &HememConfig, pages: u32) -> Self {
        let by_count = !config.sample_based_cooling;
        Self {
            states: vec![0; pages as usize],
            clock: 0,
            thresholds: Thresholds {
                read: config.read_hot_threshold,
                write: config.write_hot_threshold,
            },
            cooling_threshold: if by_count {
                u32::from(config.cooling_threshold)
            } else {
                u32::MAX
            },
            stores: config.use_store_samples,
            total: None,
        }
    }

    /// Keeps the sum of all counts from now on; to be called before anything is counted.
    pub fn keep_total(&mut self) {
        self.total = Some(0.0);
    }

    /// Sum of all counts, 0 unless it is kept.
    pub fn total(&self) -> f64 {
        self.total.unwrap_or(0.0)
    }

    /// The counts of a page in sum, all halvings applied.
    pub fn count(&self, page: Page) -> u32 {
        let state = self.states[page as usize];
        sum(halved(state as u32, self.clock - (state >> 32) as u32))
    }

    /// Number of pages.
    pub fn pages(&self) -> Page {
        self.states.len() as Page
    }

    pub fn has(&self, page: Page, flag: u32) -> bool {
        self.states[page as usize] as u32 & flag != 0
    }

    pub fn set(&mut self, page: Page, flag: u32, on: bool) {
        let state = &mut self.states[page as usize];
        *state = if on {
            *state | u64::from(flag)
        } else {
            *state & !u64::from(flag)
        };
    }

    /// Forgets everything about a page but whether it moves.
    pub fn forget(&mut self, page: Page) {
        let state = self.states[page as usize];
        if let Some(total) = &mut self.total {
            *total -= share_of(state as u32, self.clock - (state >> 32) as u32);
        }
        self.states[page as usize] &= u64::from(MIGRATING);
    }

    /// Whether the counts as they stand make the page hot, pending halvings not applied.
    pub fn hot_as_counted(&self, page: Page) -> bool {
        self.thresholds.reached(self.states[page as usize] as u32)
    }

    /// Whether the counts would make the page hot with all halvings applied.
    pub fn hot_when_halved(&self, page: Page) -> bool {
        let state = self.states[page as usize];
        self.thresholds
            .reached(halved(state as u32, self.clock - (state >> 32) as u32))
    }

    /// Halvings so far.
    pub fn halvings(&self) -> u32 {
        self.clock
    }

    /// Halves all counts, each when it is next looked at.
    pub fn halve(&mut self) {
        self.clock += 1;
        self.total = self.total.map(|total| total / 2.0);
    }

    /// Counts a batch of samples: the hottest loop of a trial.
    pub fn observe(&mut self, samples: &[Sample], rings: &mut Rings) {
        match self.total {
            None => self.count_up::<false>(samples, rings, &mut 0.0),
            Some(mut total) => {
                self.count_up::<true>(samples, rings, &mut total);
                self.total = Some(total);
            }
        }
    }

    fn count_up<const TOTAL: bool>(&mut self, samples: &[Sample], rings: &mut Rings, total: &mut f64) {
        let (states, thresholds) = (self.states.as_mut_slice(), self.thresholds);
        let mut clock = self.clock;
        for block in samples.chunks(BLOCK) {
            // States are far apart, so each is a cache miss; asking for a block of them before
            // working on any lets the misses overlap, which makes the loop three times as fast.
            for sample in block {
                prefetch(states, sample.page as usize);
            }
            for sample in block {
                let state = &mut states[sample.page as usize];
                let (mut word, halvings_seen) = (*state as u32, (*state >> 32) as u32);
                let store = u32::from(sample.event == Event::Store);
                if word & UNMANAGED != 0 || (store == 1 && !self.stores) {
                    continue;
                }
                if TOTAL {
                    *total -= share_of(word, clock - halvings_seen);
                }
                // The count's first bit, without a branch: which event comes next nobody can predict.
                let shift = (store << 4) | ((u32::from(sample.tier != 0) << 3) & !(store << 3));
                word += u32::from((word >> shift) & 0xff != 0xff) << shift;
                // Hot or not is judged before pending halvings are applied, as in the original.
                let hot = thresholds.reached(word);
                if (hot != (word & HOT != 0)) & (word & QUEUED == 0) {
                    let ring = if hot { &mut rings.hot } else { &mut rings.cold };
                    if (ring.len() as u64) < rings.capacity {
                        ring.push_back(sample.page);
                        word |= QUEUED;
                    } else {
                        rings.lost += 1;
                    }
                }
                word = (word & !COUNTS) | halved(word, clock - halvings_seen);
                *state = u64::from(word) | (u64::from(clock) << 32);
                if TOTAL {
                    *total += f64::from(sum(word));
                }
                if (word >> shift) & 0xff > self.cooling_threshold {
                    clock += 1;
                    if TOTAL {
                        *total /= 2.0;
                    }
                }
            }
        }
        self.clock = clock;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_keeps_the_three_counts_apart() {
        for (load_fast, load_slow, store) in [(255u32, 1u32, 130u32), (3, 255, 0), (7, 8, 9)] {
            for times in [0, 1, 3, 7, 8, 9, 31, 32, u32::MAX] {
                let each = |count: u32| count.checked_shr(times).unwrap_or(0);
                let expected = each(load_fast) | (each(load_slow) << 8) | (each(store) << 16);
                assert_eq!(
                    halved(HOT | FAST | load_fast | (load_slow << 8) | (store << 16), times),
                    expected
                );
            }
        }
    }

    #[test]
    fn every_kind_of_sample_has_its_own_count() {
        let config = HememConfig::from_config(&Default::default()).expect("defaults are valid");
        let mut counts = Counts::new(&config, 1);
        for (event, tier, times) in [(Event::LoadMiss, 0, 1), (Event::LoadMiss, 2, 3), (Event::Store, 0, 2)] {
            counts.observe(&vec![Sample { page: 0, tier, event }; times], &mut Rings::default());
        }
        counts.observe(
            &[Sample {
                page: 0,
                tier: 1,
                event: Event::Store,
            }],
            &mut Rings::default(),
        );
        assert_eq!(counts.states[0] as u32 & COUNTS, 1 | (3 << 8) | (3 << 16));
    }
}
