//! Which pages make up a shift: three ways, one account of room, probability and bytes.

use super::bins::{Bins, FAST, SLOW, Visited, side_of};
use crate::{Heat, Move, Page, PageMap, Tier};

/// Pages looked at in a quantum, at most: 0.2 ms of a 10 ms tick at 100 ns each. Ours; the ports look
/// at all there are.
const MOST_VISITS: u32 = 2048;
/// Pages of the other side that are judged in search of one to exchange.
const MOST_JUDGED: u32 = 16;

/// A shift that is being made up.
pub struct Finder<'a> {
    /// How hot pages are.
    pub heat: &'a dyn Heat,
    /// Where they are.
    pub pages: &'a dyn PageMap,
    /// Lists, and marks of pages on the move.
    pub bins: &'a mut Bins,
    /// Towards fast memory.
    pub promote: bool,
    /// Probability that may still be moved.
    pub probability: f64,
    /// Bytes that may still be moved.
    pub bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Free pages by tier, as they will be.
    pub free: Vec<u32>,
    /// Moves decided, in the order of execution.
    pub moves: Vec<Move>,
    /// Pages looked at.
    pub visits: u32,
}

/// What became of an attempt to take a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Take {
    Taken,
    TooMuch,
    NoRoom,
}

impl Finder<'_> {
    fn giver(&self) -> usize {
        if self.promote { SLOW } else { FAST }
    }

    fn taker(&self) -> usize {
        FAST + SLOW - self.giver()
    }

    /// The fastest tier of `side` with room for `count` pages.
    fn room(&self, side: usize, count: u32) -> Option<Tier> {
        let tiers = if side == FAST { 0..1 } else { 1..self.free.len() };
        tiers
            .into_iter()
            .find(|tier| self.free[*tier] >= count)
            .map(|tier| tier as Tier)
    }

    fn push(&mut self, page: Page, count: u32, to: Tier) {
        (page..page + count).for_each(|page| self.bins.set_moving(page, true));
        self.free[usize::from(to)] -= count;
        self.free[usize::from(self.pages.tier_of(page))] += count;
        self.bytes = self.bytes.saturating_sub(self.page_bytes * u64::from(count));
        self.moves.push(Move::run(page, count, to));
    }

    /// Moves a page into a free frame, if that is within the limit.
    fn take_alone(&mut self, page: Page, probability: f64) -> Take {
        if self.page_bytes * u64::from(self.heat.run_of(page).1) > self.bytes {
            return Take::TooMuch;
        }
        self.move_alone(page, probability)
    }

    fn move_alone(&mut self, page: Page, probability: f64) -> Take {
        let (_, count) = self.heat.run_of(page);
        let Some(to) = self.room(self.taker(), count) else {
            return Take::NoRoom;
        };
        self.push(page, count, to);
        self.probability -= probability;
        Take::Taken
    }

    /// Exchanges a page for `other`, which goes first to make room, if that is within the limit.
    fn take_for(&mut self, page: Page, other: Page, gain: f64) -> Take {
        let count = self.heat.run_of(page).1 + self.heat.run_of(other).1;
        if self.page_bytes * u64::from(count) > self.bytes {
            return Take::TooMuch;
        }
        self.exchange(page, other, gain)
    }

    fn exchange(&mut self, page: Page, other: Page, gain: f64) -> Take {
        let (count, other_count) = (self.heat.run_of(page).1, self.heat.run_of(other).1);
        let Some(back) = self.room(self.giver(), other_count) else {
            return Take::NoRoom;
        };
        let to = self.pages.tier_of(other);
        if self.free[usize::from(to)] + other_count < count {
            return Take::NoRoom;
        }
        self.push(other, other_count, back);
        self.push(page, count, to);
        self.probability -= gain;
        Take::Taken
    }

    /// A page of the taking side from a list below `bin`, the lowest first, with its probability.
    fn colder_than(&mut self, bin: usize) -> Option<(Page, f64)> {
        let taker = self.taker();
        if bin == 0 {
            return None;
        }
        let mut budget = MOST_VISITS.saturating_sub(self.visits);
        let before = budget;
        let unseen = self.bins.unseen(taker, self.heat, self.pages, &mut budget);
        self.visits += before - budget;
        if let Some(page) = unseen {
            return Some((page, 0.0));
        }
        let found = self.lowest(taker, bin);
        if found.is_some() || self.heat.ceiling().is_some() {
            return found;
        }
        // Without a ceiling a page gets rarer by every sample of another one, and nothing else takes it to its right list.
        let mut judged = 0;
        for list in bin..self.bins.count() {
            for _ in 0..self.bins.len(taker, list).min(MOST_JUDGED - judged) {
                judged += 1;
                self.visits += 1;
                self.bins.next(taker, list, self.heat, self.pages);
            }
        }
        self.lowest(taker, bin)
    }

    /// A page of a list of `side` below `bin`, the lowest first, with its probability.
    fn lowest(&mut self, side: usize, bin: usize) -> Option<(Page, f64)> {
        let mut judged = 0;
        for lower in 0..bin {
            while judged < MOST_JUDGED {
                judged += 1;
                self.visits += 1;
                match self.bins.next(side, lower, self.heat, self.pages) {
                    Visited::Empty => break,
                    Visited::Moved => {}
                    Visited::Page(page, probability) => return Some((page, probability)),
                }
            }
        }
        None
    }

    /// The paper's way: the most frequent list first, in a list the page that waits longest, if it fits
    /// into what is left of the shift. Without a free frame it is exchanged for one of a lower list.
    pub fn by_lists(&mut self) {
        for bin in (0..self.bins.count()).rev() {
            if self.bins.floor(bin, self.heat) > self.probability {
                continue; // all of them are more than is to be moved
            }
            for _ in 0..self.bins.len(self.giver(), bin) {
                if self.visits >= MOST_VISITS || self.bytes < self.page_bytes {
                    return;
                }
                self.visits += 1;
                let (page, probability) = match self.bins.next(self.giver(), bin, self.heat, self.pages) {
                    Visited::Empty => break,
                    Visited::Moved => continue,
                    Visited::Page(page, probability) => (page, probability),
                };
                if probability <= 0.0 || probability > self.probability {
                    continue;
                }
                if self.take_alone(page, probability) != Take::NoRoom {
                    continue;
                }
                let Some((other, of_other)) = self.colder_than(bin) else {
                    break; // nor is anything colder than the lists below
                };
                if of_other < probability && self.take_for(page, other, probability - of_other) == Take::NoRoom {
                    return;
                }
            }
        }
    }

    /// The HeMem port's way: of all pairs of pages the one whose exchange shifts most without shifting
    /// too much, again and again. A free frame, or else a page that was never sampled, is a partner
    /// of probability 0. As in the port the limit is looked at between pairs, so the last one may exceed it.
    pub fn by_pairs(&mut self) {
        let (mut givers, mut takers) = (self.all(self.giver()), self.all(self.taker()));
        while self.bytes > 0 {
            let nobody = self.nobody();
            let Some((a, b)) = best_pair(&givers, &takers, nobody.is_some(), self.probability) else {
                return;
            };
            let (probability, page) = givers.remove(a);
            let took = match (b, nobody) {
                (Some(b), _) => {
                    let (of_other, other) = takers[b];
                    let took = self.exchange(page, other, probability - of_other);
                    if took == Take::Taken {
                        takers.remove(b);
                    }
                    took
                }
                (None, Some(Some(unseen))) => self.exchange(page, unseen, probability),
                (None, _) => self.move_alone(page, probability),
            };
            if took == Take::NoRoom {
                return;
            }
        }
    }

    /// A partner of probability 0: a free frame (`Some(None)`), or a page that was never sampled.
    fn nobody(&mut self) -> Option<Option<Page>> {
        if self.room(self.taker(), 1).is_some() {
            return Some(None);
        }
        let mut budget = MOST_VISITS;
        let unseen = self.bins.unseen(self.taker(), self.heat, self.pages, &mut budget);
        self.visits += MOST_VISITS - budget;
        unseen.map(Some)
    }

    /// The pages of a side that are at rest, the least likely first.
    fn all(&mut self, side: usize) -> Vec<(f64, Page)> {
        let mut found = Vec::new();
        let (bins, heat, pages) = (&*self.bins, self.heat, self.pages);
        let tiers = if side == FAST { 0..1 } else { 1..self.free.len() };
        let mut visits = 0;
        for tier in tiers {
            heat.for_each(tier as Tier, pages, &mut |page, probability| {
                visits += 1;
                if bins.at_rest(page, heat) && probability > 0.0 && side_of(page, pages) == side {
                    found.push((probability, page));
                }
                true
            });
        }
        self.visits += visits;
        found.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        found
    }

    /// The Memtis port's way: in the host's own order whatever fits, into free frames only; the host
    /// itself sees to it that there are some.
    pub fn by_host(&mut self) {
        let (heat, pages) = (self.heat, self.pages);
        let tiers = if self.giver() == FAST { 0..1 } else { 1..self.free.len() };
        for tier in tiers {
            heat.for_each(tier as Tier, pages, &mut |page, probability| {
                self.visits += 1;
                let fits = probability > 0.0 && probability <= self.probability;
                if fits && self.bins.at_rest(page, heat) && self.take_alone(page, probability) == Take::NoRoom {
                    return false;
                }
                self.bytes >= self.page_bytes
            });
        }
    }
}

/// The pair with the largest difference of probabilities that is above 0 and at most `limit`, as
/// positions in `givers` and `takers` (both ascending); `None` for a taker is one of probability 0,
/// which there is if `nobody`.
fn best_pair(
    givers: &[(f64, Page)],
    takers: &[(f64, Page)],
    nobody: bool,
    limit: f64,
) -> Option<(usize, Option<usize>)> {
    let (mut best, mut best_gain) = (None, 0.0);
    let mut next = 0; // the first taker that is not too far below the giver
    for (at, (probability, _)) in givers.iter().enumerate() {
        while takers.get(next).is_some_and(|taker| probability - taker.0 > limit) {
            next += 1;
        }
        let mut consider = |gain: f64, taker: Option<usize>| {
            if gain > best_gain && gain <= limit {
                (best, best_gain) = (Some((at, taker)), gain);
            }
        };
        if nobody {
            consider(*probability, None);
        }
        if let Some(taker) = takers.get(next) {
            consider(probability - taker.0, Some(next));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CounterRng;

    #[test]
    fn the_best_pair_is_the_one_that_trying_all_pairs_finds() {
        let mut rng = CounterRng::new(3, &[]);
        let mut found = 0;
        for _ in 0..2000 {
            let mut some = |most: u64| -> Vec<(f64, Page)> {
                let count = rng.below(most);
                let mut pages: Vec<(f64, Page)> = (0..count)
                    .map(|page| (rng.below(40) as f64 / 100.0, page as Page))
                    .collect();
                pages.sort_by(|one, other| one.0.total_cmp(&other.0));
                pages
            };
            let (givers, takers) = (some(9), some(9));
            let (nobody, limit) = (givers.len() % 2 == 0, 0.17);
            let gains = givers.iter().flat_map(|giver| {
                let others = takers.iter().map(|taker| giver.0 - taker.0);
                others.chain(nobody.then_some(giver.0))
            });
            let expected = gains.filter(|gain| *gain > 0.0 && *gain <= limit).fold(0.0, f64::max);
            let gain = best_pair(&givers, &takers, nobody, limit)
                .map_or(0.0, |(a, b)| givers[a].0 - b.map_or(0.0, |b| takers[b].0));
            assert_eq!(gain, expected);
            found += u32::from(expected > 0.0);
        }
        assert!(found > 1000);
    }
}
