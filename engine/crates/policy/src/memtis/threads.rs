//! The two migrating threads: what a round of each decides, and when the next one is.

use serde::{Deserialize, Serialize};

use super::hotness::MIGRATING;
use super::{FAST, Memtis, SLOW, ms};
use crate::mover::LIST_ENTRY_NS;
use crate::{Context, Nanos, Page, PageMap, Tier};

/// Shortest round of a thread that finds work again at once.
const SHORTEST_ROUND_NS: Nanos = 1_000_000;
/// What a direct demotion without victims spins before its result can change; only bounds the number of wake-ups.
const SPIN_NS: Nanos = 50_000_000;

/// One of the two migrating threads.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Thread {
    /// Start of the next round; `None` while its copies are under way.
    pub(super) next: Option<Nanos>,
    pub(super) in_flight: u32,
    /// A halving that this side's lists have not been walked for.
    pub(super) halving: bool,
    /// A change of the threshold that they have not been walked for.
    pub(super) adjusting: bool,
}

impl Memtis {
    /// Pages to demote: for what waits to be promoted, for the watermark, or for an allocation.
    fn to_demote(&self, pages: &dyn PageMap) -> u64 {
        let (used, limit) = (u64::from(self.fast_used(pages)), u64::from(self.fast_capacity()));
        let promotion = u64::from(self.watermarks.promotion);
        if self.direct_demotion && used + promotion > limit {
            return used + promotion - limit + u64::from(self.watermarks.direct_extra);
        }
        let waiting = u64::from(self.lists.pages(false, true));
        let reserve = if waiting > 0 {
            promotion
        } else {
            u64::from(self.watermarks.demotion)
        };
        if used + waiting + reserve <= limit {
            return 0;
        }
        (used + waiting + promotion).saturating_sub(limit)
    }

    /// Demotes about `wanted` pages; returns how many it asked for.
    fn demote(&mut self, wanted: u64, cx: &mut Context<'_>) -> u64 {
        let mut free: Vec<u32> = (0..self.topology.capacity_pages.len())
            .map(|tier| cx.pages.free_pages(tier as Tier))
            .collect();
        let evictable = u64::from(self.lists.pages(true, false));
        // An allocation that wants more than there is may take active pages as well, if they are not even warm.
        let lists: &[bool] = if self.direct_demotion && wanted > evictable {
            &[false, true]
        } else {
            &[false]
        };
        let batch = u64::from(self.config.demote_batch_pages);
        let (mut asked, mut scanned, mut looked_at) = (0, 0u64, 0u32);
        for active in lists {
            for step in 0..self.lists.len(true, *active) {
                let Some(unit) = self.lists.front(true, *active) else {
                    break;
                };
                self.look_up_ahead(step, FAST, *active);
                let pages = self.hotness.pages(unit);
                looked_at += 1;
                scanned += self.hotness.weight(pages);
                let kept = !self.config.htmm_nowarm && self.hotness.bin_of(unit) >= self.warm_threshold;
                let below = (1..free.len()).find(|tier| free[*tier] >= pages);
                match below {
                    Some(tier) if !kept => {
                        free[tier] -= pages;
                        asked += u64::from(pages);
                        self.ask(unit, tier as Tier, FAST, cx);
                    }
                    _ => self.lists.rotate(true, *active),
                }
                // The target is looked at between batches only.
                if scanned >= batch {
                    scanned = 0;
                    if asked >= wanted {
                        break;
                    }
                }
            }
            if asked >= wanted {
                break;
            }
        }
        cx.spend(f64::from(looked_at) * LIST_ENTRY_NS);
        let waiting = u64::from(self.lists.pages(false, true)).min(wanted);
        if !self.config.htmm_nowarm && asked < waiting && self.warm_threshold != self.hotness.active_threshold {
            self.warm_threshold = self.hotness.active_threshold;
            self.tally.warm_bins_dropped += 1;
        }
        asked
    }

    fn ask(&mut self, unit: Page, to: Tier, side: usize, cx: &mut Context<'_>) {
        self.lists.unlist(&mut self.hotness, unit);
        self.hotness.set(unit, MIGRATING, true);
        self.threads[side].in_flight += 1;
        match self.hotness.pages(unit) {
            1 => cx.migrate(unit, to),
            pages => cx.migrate_run(unit, pages, to),
        }
    }

    /// A round of the fast tier's thread.
    pub(super) fn demoting_round(&mut self, cx: &mut Context<'_>) {
        self.threads[FAST].next = None;
        self.keep_lists(FAST, cx);
        let wanted = self.to_demote(cx.pages);
        let asked = if wanted > 0 && self.config.htmm_mode > 0 {
            self.tally.direct_demotions += u64::from(self.direct_demotion);
            self.demote(wanted, cx)
        } else {
            0
        };
        if asked == 0 {
            self.end_demoting(true, cx);
        }
    }

    /// The end of a round, copies included.
    pub(super) fn end_demoting(&mut self, in_vain: bool, cx: &mut Context<'_>) {
        let used = u64::from(self.fast_used(cx.pages));
        if used + u64::from(self.watermarks.demotion) < u64::from(self.fast_capacity()) {
            self.direct_demotion = false;
        }
        let spins = self.direct_demotion && self.config.htmm_mode > 0;
        let pause = match (spins, in_vain) {
            (false, _) => ms(self.config.htmm_demotion_period_in_ms),
            (true, false) => SHORTEST_ROUND_NS,
            (true, true) => {
                cx.spend(SPIN_NS as f64);
                SPIN_NS
            }
        };
        self.threads[FAST].next = Some(cx.now + pause);
    }

    /// A round of the slow tier's thread.
    pub(super) fn promoting_round(&mut self, cx: &mut Context<'_>) {
        self.threads[SLOW].next = None;
        self.keep_lists(SLOW, cx);
        if self.config.htmm_mode > 0 && !self.counts_only {
            self.promote(cx);
        }
        if self.threads[SLOW].in_flight == 0 {
            self.threads[SLOW].next = Some(cx.now + ms(self.config.htmm_promotion_period_in_ms));
        }
    }

    fn promote(&mut self, cx: &mut Context<'_>) {
        let mut free = cx.pages.free_pages(0);
        let room = free.saturating_sub(self.watermarks.promotion);
        let wanted = room.min(self.lists.pages(false, true));
        let (mut asked, mut looked_at) = (0, 0u32);
        while asked < wanted {
            let Some(unit) = self.lists.front(false, true) else {
                break;
            };
            let pages = self.hotness.pages(unit);
            looked_at += 1;
            if pages > free {
                break; // not even the reserve holds it
            }
            free -= pages;
            asked += pages;
            self.ask(unit, 0, SLOW, cx);
        }
        cx.spend(f64::from(looked_at) * LIST_ENTRY_NS);
    }
}
