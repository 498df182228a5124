//! The page table of the simulated machine.

use tiertune_policy::{Interleave, Page, PageMap, Placement, Tier};

use crate::workload::{Object, Workload};

/// A tier index that no machine has: the page does not exist yet.
const NOWHERE: Tier = Tier::MAX;

/// Where every page is, how full the tiers are, and how many pages of each piece each tier holds.
#[derive(Debug, Clone)]
pub struct Memory {
    tier_of: Vec<Tier>,
    capacity: Vec<u32>,
    used: Vec<u32>,
    /// `[object][tier][piece]`.
    piece_pages: Vec<Vec<Vec<u32>>>,
    /// Share of each piece's page-table entries that is in each tier, `[object][piece * tiers + tier]`; a kernel never
    /// moves them.
    tables: Vec<Vec<f64>>,
    /// The tier where a page's old frame is kept; empty until the first is.
    kept: Vec<Tier>,
}

impl PageMap for Memory {
    #[inline]
    fn tier_of(&self, page: Page) -> Tier {
        self.tier_of[page as usize]
    }

    fn free_pages(&self, tier: Tier) -> u32 {
        let tier = usize::from(tier);
        self.capacity[tier].saturating_sub(self.used[tier])
    }
}

impl Memory {
    /// Empty memory with room for `capacity` pages per tier.
    #[must_use]
    pub fn new(workload: &Workload, capacity: Vec<u32>) -> Self {
        let tiers = capacity.len();
        Self {
            tier_of: vec![NOWHERE; workload.pages as usize],
            used: vec![0; tiers],
            capacity,
            piece_pages: workload
                .objects
                .iter()
                .map(|o| vec![vec![0; o.pieces()]; tiers])
                .collect(),
            tables: vec![Vec::new(); workload.objects.len()],
            kept: Vec::new(),
        }
    }

    /// Share of the page-table entries of `object`'s `piece` in each tier.
    #[must_use]
    pub fn tables(&self, object: usize, piece: usize) -> &[f64] {
        let tiers = self.capacity.len();
        &self.tables[object][piece * tiers..(piece + 1) * tiers]
    }

    /// Pages in each tier, frames of copies under way included.
    #[must_use]
    pub fn used(&self) -> &[u32] {
        &self.used
    }

    /// Pages that each tier can hold.
    #[must_use]
    pub fn capacity(&self) -> &[u32] {
        &self.capacity
    }

    /// Pages of `object`'s pieces in `tier`.
    #[must_use]
    pub fn piece_pages(&self, object: usize, tier: usize) -> &[u32] {
        &self.piece_pages[object][tier]
    }

    /// Places all pages of an object in address order. `together` are its pages and those of objects that are
    /// touched side by side with it and placed next; of what is free it gets its share of them, where placement is by that.
    pub fn place(&mut self, index: usize, object: &Object, placement: Placement, together: u64) {
        let share = |free: u32| (u64::from(free) * u64::from(object.pages) / together) as u32;
        let tiers = self.capacity.len();
        let bound = matches!(placement, Placement::Parts { .. } | Placement::ByPage(_));
        let mut next = 0;
        match placement {
            Placement::FastestFree => {
                for tier in 0..tiers - 1 {
                    let most = share(self.free_pages(tier as Tier));
                    next += self.fill(object, next, tier, most);
                }
                (0..tiers)
                    .rev()
                    .for_each(|tier| next += self.fill(object, next, tier, u32::MAX));
            }
            Placement::FastestAbove { free_pages } => {
                let most = share(self.free_pages(0).saturating_sub(free_pages));
                next += self.fill(object, next, 0, most);
                (1..tiers).for_each(|tier| next += self.fill(object, next, tier, u32::MAX));
                next += self.fill(object, next, 0, u32::MAX);
            }
            Placement::Parts { part_pages, fast } => {
                for part in 0..object.pages.div_ceil(part_pages) as usize {
                    let end = object.pages.min((part as u32 + 1) * part_pages);
                    let mut order: Vec<usize> = (0..tiers).collect();
                    if (fast[part / 64] >> (part % 64)) & 1 == 0 {
                        order.rotate_left(1);
                    }
                    for tier in order {
                        next += self.fill(object, next, tier, end - next);
                    }
                }
            }
            Placement::SlowestFree => (0..tiers)
                .rev()
                .for_each(|tier| next += self.fill(object, next, tier, u32::MAX)),
            Placement::FastUnbounded => {
                self.capacity[0] = self.capacity[0].max(self.used[0] + object.pages);
                next += self.fill(object, next, 0, u32::MAX);
            }
            Placement::Interleaved(interleave) => next += self.fill_in_turn(object, interleave),
            Placement::ByPage(tier_of) => {
                for run in tier_of.chunk_by(|one, next| one == next) {
                    next += self.fill_from(object, next, run[0], run.len() as u32);
                }
            }
        }
        assert_eq!(next, object.pages, "the footprint was checked against the capacity");
        for piece in 0..object.pieces() {
            for position in object.edges[piece]..object.edges[piece + 1] {
                let tier = self.tier_of[object.page_at(position) as usize];
                self.piece_pages[index][usize::from(tier)][piece] += 1;
            }
        }
        self.place_tables(index, object, bound);
    }

    /// Page tables are allocated when pages are touched first, by the thread's own policy: where the pages go, but for
    /// pages that are `bound` to a node one by one, whose tables go to the fastest tier with room as anything else does.
    fn place_tables(&mut self, index: usize, object: &Object, bound: bool) {
        let tiers = self.capacity.len();
        let roomy = (0..tiers).find(|tier| self.free_pages(*tier as Tier) > 0).unwrap_or(0);
        let pages = &self.piece_pages[index];
        let share = |piece: usize, tier: usize| {
            if bound {
                return f64::from(u8::from(tier == roomy));
            }
            let all: u32 = pages.iter().map(|pieces| pieces[piece]).sum();
            f64::from(pages[tier][piece]) / f64::from(all.max(1))
        };
        let places = (0..object.pieces()).flat_map(|piece| (0..tiers).map(move |tier| (piece, tier)));
        self.tables[index] = places.map(|(piece, tier)| share(piece, tier)).collect();
    }

    /// Places at most `most` pages of an object from its `next` one on in `tier`; how many there was room for.
    fn fill(&mut self, object: &Object, next: u32, tier: usize, most: u32) -> u32 {
        let fit = self.free_pages(tier as Tier).min(object.pages - next).min(most);
        let start = (object.first_page + next) as usize;
        self.tier_of[start..start + fit as usize].fill(tier as Tier);
        self.used[tier] += fit;
        fit
    }

    /// Places an object's pages in turn; a page whose tier is full goes to the next with room.
    fn fill_in_turn(&mut self, object: &Object, interleave: Interleave) -> u32 {
        let tiers = self.capacity.len();
        let round = interleave.round_pages(tiers as u32);
        let (mut next, mut position) = (0, interleave.position);
        while next < object.pages {
            let (tier, run) = interleave.run_at(position);
            let placed = self.fill_from(object, next, tier, run.min(object.pages - next));
            if placed == 0 {
                break;
            }
            next += placed;
            position = (position + placed) % round;
        }
        next
    }

    /// Places `run` pages of an object from its `next` one on in `tier`, those that do not fit in the next
    /// slower tier with room, after the slowest in the fastest; how many there was room for.
    fn fill_from(&mut self, object: &Object, next: u32, tier: Tier, run: u32) -> u32 {
        let tiers = self.capacity.len();
        let mut placed = 0;
        for step in 0..tiers {
            let tier = (usize::from(tier) + step) % tiers;
            if placed < run {
                placed += self.fill(object, next + placed, tier, run - placed);
            }
        }
        placed
    }

    /// Frees all pages of an object, and frames kept for them.
    pub fn remove(&mut self, index: usize, object: &Object) {
        for page in object.first_page..object.first_page + object.pages {
            self.release(page);
            let tier = std::mem::replace(&mut self.tier_of[page as usize], NOWHERE);
            self.used[usize::from(tier)] -= 1;
        }
        for pieces in &mut self.piece_pages[index] {
            pieces.fill(0);
        }
    }

    /// Whether `page` exists.
    #[must_use]
    pub fn exists(&self, page: Page) -> bool {
        self.tier_of.get(page as usize).is_some_and(|tier| *tier != NOWHERE)
    }

    /// Pages that still fit in all tiers together.
    #[must_use]
    pub fn free_pages_in_all(&self) -> u64 {
        let tiers = 0..self.capacity.len();
        tiers.map(|tier| u64::from(self.free_pages(tier as Tier))).sum()
    }

    /// Gives up all kept frames; returns their pages.
    pub fn release_all(&mut self) -> Vec<Page> {
        let pages: Vec<Page> = (0..self.kept.len() as Page)
            .filter(|page| self.kept(*page).is_some())
            .collect();
        for page in &pages {
            self.release(*page);
        }
        pages
    }

    /// Reserves `frames` frames in `tier`; false when they do not fit.
    pub fn reserve(&mut self, tier: Tier, frames: u32) -> bool {
        let room = self.free_pages(tier) >= frames;
        self.used[usize::from(tier)] += if room { frames } else { 0 };
        room
    }

    /// Gives reserved frames back.
    pub fn unreserve(&mut self, tier: Tier, frames: u32) {
        self.used[usize::from(tier)] -= frames;
    }

    /// Moves `page` of `object` into the frame reserved in `to`; returns where it was, and its piece.
    /// Its old frame becomes free.
    pub fn commit(&mut self, page: Page, index: usize, object: &Object, to: Tier) -> (Tier, usize) {
        let from = std::mem::replace(&mut self.tier_of[page as usize], to);
        let piece = object.piece_of(page);
        self.used[usize::from(from)] -= 1;
        self.piece_pages[index][usize::from(from)][piece] -= 1;
        self.piece_pages[index][usize::from(to)][piece] += 1;
        (from, piece)
    }

    /// Keeps a frame of `tier` for `page` instead of freeing it; one kept before is given up.
    pub fn keep(&mut self, page: Page, tier: Tier) {
        if self.kept.is_empty() {
            self.kept = vec![NOWHERE; self.tier_of.len()];
        }
        self.release(page);
        self.kept[page as usize] = tier;
        self.used[usize::from(tier)] += 1;
    }

    /// The tier where a frame is kept for `page`.
    #[must_use]
    pub fn kept(&self, page: Page) -> Option<Tier> {
        self.kept.get(page as usize).copied().filter(|tier| *tier != NOWHERE)
    }

    /// Gives up the frame kept for `page`; false when there is none.
    pub fn release(&mut self, page: Page) -> bool {
        let Some(tier) = self.kept(page) else { return false };
        self.kept[page as usize] = NOWHERE;
        self.used[usize::from(tier)] -= 1;
        true
    }

    /// Recounts everything: every page is in exactly one tier, no tier is above its capacity, and
    /// the counts by tier and piece are right; `copying` (tier, frames) are reserved on top, and kept
    /// frames count.
    ///
    /// # Errors
    /// Names the first count that is off.
    pub fn check(&self, objects: &[Object], copying: &[(Tier, u32)]) -> Result<(), String> {
        let mut used = vec![0u32; self.capacity.len()];
        for (tier, frames) in copying {
            used[usize::from(*tier)] += frames;
        }
        for tier in self.kept.iter().filter(|tier| **tier != NOWHERE) {
            used[usize::from(*tier)] += 1;
        }
        for (index, object) in objects.iter().enumerate() {
            let mut pieces = vec![vec![0u32; object.pieces()]; self.capacity.len()];
            if !self.exists(object.first_page) {
                continue;
            }
            for page in object.first_page..object.first_page + object.pages {
                let tier = usize::from(self.tier_of[page as usize]);
                if tier >= used.len() {
                    return Err(format!("page {page} is in no tier"));
                }
                used[tier] += 1;
                pieces[tier][object.piece_of(page)] += 1;
            }
            if pieces != self.piece_pages[index] {
                return Err(format!(
                    "object '{}': pages by tier and piece are miscounted",
                    object.name
                ));
            }
        }
        if used != self.used {
            return Err(format!("tiers hold {used:?} pages, counted {:?}", self.used));
        }
        match used.iter().zip(&self.capacity).position(|(u, c)| u > c) {
            Some(tier) => Err(format!(
                "tier {tier} holds {} pages, {} fit",
                used[tier], self.capacity[tier]
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadModel;

    /// One object of so many pages of 2 MiB.
    fn workload(pages: u64) -> Workload {
        let model = serde_json::json!({"objects": [{"name": "t", "bytes": pages << 21}], "blocks": [{"phases": [{"name": "p",
            "groups": [{"name": "g", "threads": 1, "ops": 1.0, "cpu_ns_per_op": 1.0, "streams": [
                {"object": "t", "law": {"kind": "uniform"}, "class": "chase", "reads_per_op": 1.0}]}]}]}]});
        let model: WorkloadModel = serde_json::from_value(model).expect("a valid workload");
        Workload::compile(&model, 2 << 20).expect("it compiles")
    }

    /// Page tables are where pages were touched first, whatever moves; those of bound pages where there is room.
    #[test]
    fn page_tables_stay_where_they_were_allocated() {
        let workload = workload(8);
        let object = &workload.objects[0];
        let tables = |capacity: [u32; 2], placement: Placement| {
            let mut memory = Memory::new(&workload, capacity.to_vec());
            memory.place(0, object, placement, object.pages.into());
            let page = object.first_page + object.pages - 1;
            let to = 1 - memory.tier_of(page);
            if memory.reserve(to, 1) {
                memory.commit(page, 0, object, to);
            }
            memory.tables(0, 0).to_vec()
        };
        assert_eq!(tables([6, 8], Placement::FastestFree), [0.75, 0.25]);
        assert_eq!(tables([9, 8], Placement::SlowestFree), [0.0, 1.0]);
        let alternate = || Placement::ByPage((0..8).map(|page| page % 2).collect());
        assert_eq!(tables([5, 8], alternate()), [1.0, 0.0]);
        assert_eq!(tables([4, 8], alternate()), [0.0, 1.0]);
    }

    #[test]
    fn what_is_touched_side_by_side_has_fast_memory_in_proportion() {
        let object =
            |name: &str, pages: u64| serde_json::json!({"name": name, "bytes": pages << 21, "side_by_side": true});
        let stream = |name: &str| serde_json::json!({"object": name, "law": {"kind": "uniform"}, "class": "chase", "reads_per_op": 1.0});
        let model = serde_json::json!({"objects": [object("a", 8), object("b", 16), object("c", 16)],
            "blocks": [{"phases": [{"name": "p", "groups": [{"name": "g", "threads": 1, "ops": 1.0, "cpu_ns_per_op": 1.0,
                "streams": [stream("a"), stream("b"), stream("c")]}]}]}]});
        let model: WorkloadModel = serde_json::from_value(model).expect("a valid workload");
        let workload = Workload::compile(&model, 2 << 20).expect("it compiles");
        for (capacity, placement, fast) in [
            ([20, 40], Placement::FastestFree, [4, 8, 8]),
            ([22, 40], Placement::FastestAbove { free_pages: 2 }, [4, 8, 8]),
            ([23, 17], Placement::FastestFree, [4, 9, 10]),
            ([40, 40], Placement::FastestFree, [8, 16, 16]),
        ] {
            let mut memory = Memory::new(&workload, capacity.to_vec());
            let mut together = 40;
            for (index, object) in workload.objects.iter().enumerate() {
                memory.place(index, object, placement.clone(), together);
                together -= u64::from(object.pages);
            }
            let found = [0, 1, 2].map(|index| memory.piece_pages(index, 0).iter().sum::<u32>());
            assert_eq!(found, fast, "{capacity:?}");
        }
    }

    #[test]
    fn a_reserve_in_fast_memory_is_used_only_when_nothing_else_is_left() {
        let workload = workload(10);
        for (capacity, used) in [([6, 10], [4, 6]), ([6, 5], [5, 5]), ([1, 10], [0, 10])] {
            let mut memory = Memory::new(&workload, capacity.to_vec());
            let object = &workload.objects[0];
            memory.place(
                0,
                object,
                Placement::FastestAbove { free_pages: 2 },
                object.pages.into(),
            );
            assert_eq!(memory.used(), used, "{capacity:?}");
        }
    }
}
