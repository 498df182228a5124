//! What offline systems make of the [`Truth`]: kinds of pages, their worth, and which of them fill a
//! given room best. All pages have one size, so the knapsack is filled exactly by taking the most
//! valuable first.

use crate::{Horizon, Page, Truth};
use serde::{Deserialize, Serialize};

/// Pages that are accessed alike, in the order in which the truth names them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Kind {
    /// Number of pages.
    pub pages: u32,
    /// Reads of each, per run or per second.
    pub reads: f64,
    /// Thread time that one of them costs more in tier 1 than in tier 0, in nanoseconds over the same span.
    pub stall_ns: f64,
}

/// All kinds.
#[must_use]
pub fn kinds(truth: &dyn Truth, horizon: Horizon) -> Vec<Kind> {
    let mut kinds = Vec::new();
    truth.for_each(horizon, &mut |alike| {
        kinds.push(Kind {
            pages: alike.pages,
            reads: alike.reads,
            stall_ns: alike.stall_ns[1],
        });
    });
    kinds
}

/// The kinds by worth, the dearest first; those worth nothing are left out.
#[must_use]
pub fn ranked(kinds: &[Kind], worth: impl Fn(&Kind) -> f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..kinds.len()).filter(|kind| worth(&kinds[*kind]) > 0.0).collect();
    order.sort_by(|one, other| worth(&kinds[*other]).total_cmp(&worth(&kinds[*one])));
    order
}

/// How many pages of each kind fit, taken in `order`, at most `room` pages in all.
#[must_use]
pub fn fill(kinds: &[Kind], order: &[usize], room: u32) -> Vec<u32> {
    let mut taken = vec![0; kinds.len()];
    let mut left = room;
    for kind in order {
        taken[*kind] = kinds[*kind].pages.min(left);
        left -= taken[*kind];
    }
    taken
}

/// Calls `visit` with the first `taken` pages of each kind.
pub fn for_each_taken(truth: &dyn Truth, horizon: Horizon, taken: &[u32], mut visit: impl FnMut(Page)) {
    let mut kind = 0;
    truth.for_each(horizon, &mut |alike| {
        (0..taken[kind]).for_each(|nth| visit((alike.page)(nth)));
        kind += 1;
    });
}

/// How finely shares are tried at first.
const SHARES: u32 = 32;
/// Steps of the search between two of those, each of which narrows the span to two thirds.
const STEPS: u32 = 12;

/// The share of reads, from 0 to `most`, that is to go to tier 0 and the rest to tier 1, so that the mean
/// latency p Lf(p) + (1 - p) Ls(p) is smallest.
#[must_use]
pub fn best_share(truth: &dyn Truth, horizon: Horizon, tiers: usize, most: f64) -> f64 {
    let mean_ns = |share: f64| {
        let mut shares = vec![0.0; tiers];
        (shares[0], shares[1]) = (share, 1.0 - share);
        let latency_ns = truth.latency_at(horizon, &shares);
        share * latency_ns[0] + (1.0 - share) * latency_ns[1]
    };
    // The mean may have more than one valley where curves have corners, so all of the range is tried first.
    let tried = |nth: u32| most * f64::from(nth) / f64::from(SHARES);
    let best = (0..=SHARES)
        .map(|nth| (mean_ns(tried(nth)), nth))
        .min_by(|one, other| one.0.total_cmp(&other.0));
    let nth = best.map_or(SHARES, |(_, nth)| nth);
    if nth == SHARES && mean_ns(most * (1.0 - 1e-3)) >= mean_ns(most) {
        return most;
    }
    let (mut low, mut high) = (tried(nth.saturating_sub(1)), tried((nth + 1).min(SHARES)));
    for _ in 0..STEPS {
        let third = (high - low) / 3.0;
        if mean_ns(low + third) < mean_ns(high - third) {
            high -= third;
        } else {
            low += third;
        }
    }
    (low + high) / 2.0
}
