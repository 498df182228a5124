//! kswapd of the fast node, which demotes instead of swapping.
//!
//! Somebody who misses free memory wakes it. It then goes through the [lists](crate::reclaim_lists) in
//! batches of 32 pages, demotes what was not accessed, page by page, until enough is free, and
//! sleeps. A run that has looked at everything twice (what the kernel's rising priority amounts
//! to) ends; if it demoted nothing, that is a failure, and after 16 in a row kswapd counts as
//! hopeless and is not woken again (unless a system mends that: [`Kswapd::retry_after_ns`],
//! [`Kswapd::forget_failures`]).
//!
//! A page of which a frame was kept in slow memory goes back to that one, without a copy and with no room needed.
//!
//! Looking takes time, so it works in steps of at most a few milliseconds: pages may be accessed
//! between them. A batch has 32 pages of 4 KiB, or one of 2 MiB, which counts as 512.

use serde::{Deserialize, Serialize};
use std::ops::Range;

use crate::kernel_migration::Unmapping;
use crate::mover::{REMAP_NS, Room};
use crate::reclaim_lists::{ReclaimLists, Verdict};
use crate::registry::PAGE_4K;
use crate::{Context, Migrated, MigrationMechanics, Nanos, Outcome, Page, Tier, Topology};

/// `SWAP_CLUSTER_MAX`: 4 KiB pages that reclaim takes off a list at a time.
const CLUSTER_PAGES: u64 = 32;
/// Memory that is asked for before its copies have ended: 4 ms of copying in pages of 4 KiB, so that it is never out of work
/// when it is called every 2 ms. One huge page: the kernel looks for the next when that has been copied, by which time what is
/// in use has been accessed again.
const BYTES_UNDER_WAY: u64 = 768 * PAGE_4K;
/// Time of looking at pages in a step, in nanoseconds: 10 000 pages of a list.
const STEP_NS: f64 = 2e6;
/// `MAX_RECLAIM_RETRIES`: failed runs in a row after which nobody wakes it any more.
const MOST_FAILURES: u32 = 16;

/// The thread.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Kswapd {
    page_bytes: u64,
    unmapping: Unmapping,
    tiers: usize,
    batch_pages: u32,
    /// It stops once so many pages are free.
    target_pages: u32,
    running: bool,
    next_at: Nanos,
    under_way: u32,
    looked_at: u64,
    demoted_in_run: u64,
    failures: u32,
    /// Time after which a hopeless kswapd tries again; `None` for never.
    retry_after_ns: Option<Nanos>,
    /// Its failures are forgotten at multiples of this.
    forgets_each_ns: Option<Nanos>,
    forgotten_at: Nanos,
    runs: u64,
    failed_runs: u64,
    scanned_pages: u64,
    failed_moves: u64,
    /// Pages that would have been demoted if slow memory had had room.
    without_place: u64,
}

impl Kswapd {
    /// A sleeping thread that demotes until `target_pages` are free.
    #[must_use]
    pub fn new(topology: &Topology, target_pages: u32) -> Self {
        Self {
            page_bytes: topology.page_bytes,
            unmapping: Unmapping::Each,
            tiers: topology.capacity_pages.len(),
            batch_pages: (CLUSTER_PAGES * PAGE_4K / topology.page_bytes).max(1) as u32,
            target_pages: target_pages.min(topology.capacity_pages[0]),
            running: false,
            next_at: 0,
            under_way: 0,
            looked_at: 0,
            demoted_in_run: 0,
            failures: 0,
            retry_after_ns: None,
            forgets_each_ns: None,
            forgotten_at: 0,
            runs: 0,
            failed_runs: 0,
            scanned_pages: 0,
            failed_moves: 0,
            without_place: 0,
        }
    }

    /// It is of another kernel.
    pub fn unmaps(&mut self, unmapping: Unmapping) {
        self.unmapping = unmapping;
    }

    /// How its kernel moves pages.
    #[must_use]
    pub fn mechanics(&self) -> MigrationMechanics {
        self.unmapping.mechanics(self.page_bytes)
    }

    /// A hopeless kswapd tries again after so long (TPP).
    pub fn retry_after_ns(&mut self, after_ns: Nanos) {
        self.retry_after_ns = Some(after_ns);
    }

    /// Somebody has its failed runs forgotten so often (the module that Colloid's scripts load).
    pub fn forgets_failures_each_ns(&mut self, each_ns: Nanos) {
        self.forgets_each_ns = Some(each_ns);
    }

    /// Failed runs are forgotten (Alto's switch for NUMA balancing).
    pub fn forget_failures(&mut self) {
        self.failures = 0;
    }

    /// Whether it has failed so often that nobody wakes it.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        self.failures >= MOST_FAILURES
    }

    /// Failed runs so far.
    #[must_use]
    pub fn failed_runs(&self) -> u64 {
        self.failed_runs
    }

    /// Pages looked at so far.
    #[must_use]
    pub fn scanned_pages(&self) -> u64 {
        self.scanned_pages
    }

    /// Demotions that found no space.
    #[must_use]
    pub fn failed_moves(&self) -> u64 {
        self.failed_moves
    }

    /// Pages that were to be demoted and for which slow memory had no room: failed allocations there.
    #[must_use]
    pub fn pages_without_place(&self) -> u64 {
        self.without_place
    }

    /// Somebody misses free memory.
    pub fn wake(&mut self, now: Nanos) {
        if let Some(each_ns) = self.forgets_each_ns
            && self.forgotten_at / each_ns < now / each_ns
        {
            self.forget_failures();
            self.forgotten_at = now;
        }
        if !self.running && !self.is_hopeless() {
            self.running = true;
            self.next_at = self.next_at.max(now);
            (self.looked_at, self.demoted_in_run) = (0, 0);
            self.runs += 1;
        }
    }

    /// When it wants to go on; `None` while it sleeps or its copies are under way.
    #[must_use]
    pub fn next_at(&self) -> Option<Nanos> {
        let waits_to_retry = self.is_hopeless() && self.retry_after_ns.is_some();
        (self.under_way == 0 && (self.running || waits_to_retry)).then_some(self.next_at)
    }

    /// Goes on, if it is time. `kept` takes the frame that is kept for a page, to go back to, and says where it is.
    pub fn step<L: ReclaimLists>(
        &mut self,
        lru: &mut L,
        kept: &mut dyn FnMut(Page) -> Option<Tier>,
        cx: &mut Context<'_>,
    ) {
        if self.next_at().is_none_or(|at| at > cx.now) {
            return;
        }
        if !self.running {
            // The patch's timeout does not forget failures: one run, and if that fails, it waits again.
            self.failures = MOST_FAILURES - 1;
            self.wake(cx.now);
        }
        let mut room = Room::now(cx.pages, self.tiers);
        let (mut scanned, mut looking_ns, mut spent_ns) = (0, 0.0, 0.0);
        let free_pages = cx.pages.free_pages(0);
        let [inactive, active] = lru.fast_pages();
        let most = 2 * (u64::from(inactive) + u64::from(active));
        // No time passes within a step: a page whose accessed bit it has cleared must not come up again in it, as it would count
        // as idle however hot it is. Such pages go behind those that are inactive now. Short lists of huge pages would be gone
        // through many times in a few milliseconds.
        let mut judged = 0;
        let most_under_way = (BYTES_UNDER_WAY / self.page_bytes).max(1) as u32;
        while looking_ns < STEP_NS && (judged < inactive || scanned == 0) && self.under_way < most_under_way {
            if !lru.is_tending() {
                if free_pages + self.under_way >= self.target_pages {
                    self.end_run(true, cx.now);
                    break;
                }
                if self.looked_at >= most {
                    self.end_run(false, cx.now);
                    break;
                }
            }
            let tended = lru.tend(self.batch_pages, self.looked_at, cx.accessed);
            scanned += tended.pages;
            self.looked_at += u64::from(tended.pages);
            looking_ns += tended.ns;
            if lru.is_tending() {
                continue;
            }
            for _ in 0..self.batch_pages.min(inactive - judged) {
                judged += 1;
                // Without a place to go to, a page is looked at all the same, and stays.
                let (verdict, judging_ns) = lru.judge(cx.accessed);
                looking_ns += judging_ns;
                scanned += 1;
                self.looked_at += 1;
                let page = match verdict {
                    Verdict::Isolated(page) => page,
                    Verdict::Empty => break,
                    Verdict::SecondChance | Verdict::Activated => continue,
                };
                if let Some(tier) = kept(page) {
                    spent_ns += REMAP_NS as f64;
                    cx.remap(page, tier);
                } else if let Some(below) = room.below() {
                    room.moved(0, below);
                    spent_ns += self.unmapping.cpu_ns(self.page_bytes);
                    cx.migrate(page, below);
                } else {
                    self.without_place += 1;
                    lru.put(page, 0);
                    continue;
                }
                self.under_way += 1;
                self.demoted_in_run += 1;
            }
        }
        self.scanned_pages += u64::from(scanned);
        cx.spend(spent_ns + looking_ns);
        // Waiting for a retry is longer than that.
        self.next_at = self.next_at.max(cx.now + (looking_ns as Nanos).max(1));
    }

    fn end_run(&mut self, balanced: bool, now: Nanos) {
        self.running = false;
        if self.demoted_in_run > 0 {
            self.failures = 0;
        } else if !balanced {
            self.failures += 1;
            self.failed_runs += 1;
        }
        if !balanced {
            if self.is_hopeless() {
                self.next_at = now + self.retry_after_ns.unwrap_or(0);
            } else {
                // It does not sleep while the node is not balanced.
                self.wake(now);
            }
        }
    }

    /// Pages are about to be freed, and with them demotions of them; call it before [`ReclaimLists::freed`].
    pub fn freed(&mut self, pages: Range<Page>, lru: &impl ReclaimLists) {
        self.under_way -= pages.filter(|page| lru.is_isolated(*page)).count() as u32;
    }

    /// Takes note of a migration that ended; whether it was a demotion of kswapd's.
    pub fn ended(&mut self, migrated: &Migrated, lru: &impl ReclaimLists) -> bool {
        let page: Page = migrated.request.page;
        let own = migrated.request.to != 0 && migrated.request.pages == 1 && lru.is_isolated(page);
        if own {
            self.under_way -= 1;
            self.failed_moves += u64::from(migrated.outcome == Outcome::NoSpace);
        }
        own
    }
}
