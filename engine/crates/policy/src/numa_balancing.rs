//! What the kernel systems with hint faults share: scanner, lists, kswapd and watermarks of one
//! process on a machine whose CPUs all sit by the fast memory.
//!
//! A system decides what a fault means; everything else of a [`Policy`](crate::Policy) it can leave
//! to [`NumaBalancing`]. Promotions are moves by the faulting thread, asked for while faults are handled, and leave
//! no trace here until they have ended: an outer policy may drop them.

use serde::{Deserialize, Serialize};
use std::ops::Range;

use crate::kernel_migration::Unmapping;
use crate::kswapd::Kswapd;
use crate::lru::Lru;
use crate::numa_scan::{NumaScan, ScanPace, runs_by_tier};
use crate::reclaim_lists::ReclaimLists;
use crate::scan_period::Counted;
use crate::watermarks::Watermarks;
use crate::{Context, Extent, Fault, Gauge, How, Migrated, Nanos, Outcome, Page, Placement, Tier, Topology, prefetch};

/// A page that has changed tiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It went up.
    Promoted(Page),
    /// It went down.
    Demoted(Page),
}

/// How often the module that Colloid's scripts load beside its kernel has kswapd's failures forgotten.
const KSWAPD_RESET_NS: Nanos = 5_000_000_000;

/// Which hint faults count for the scan period of their thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Statistics {
    /// None: it stays the shortest.
    Off,
    /// All, and promotions that fail (Linux before 6.1).
    AllFaults,
    /// Those that are to promote their page; all count as private, as the slow page's note of its last thread holds the
    /// time of its mark instead (tiering mode from Linux 6.1 on).
    Promotions,
}

/// Scanner, lists (active and inactive ones unless said otherwise) and kswapd of one process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct NumaBalancing<L: ReclaimLists = Lru> {
    /// The scanner.
    pub scan: NumaScan,
    /// The lists.
    pub lru: L,
    /// The thread that demotes.
    pub kswapd: Kswapd,
    /// Watermarks of fast memory.
    pub marks: Watermarks,
    /// Whether kswapd demotes (`demotion_enabled`); otherwise it is never woken.
    demotes: bool,
    /// An allocation that leaves no more wakes it.
    wake_below_pages: u32,
    /// Extents whose pages the driver has placed since the last call.
    placed: Vec<Range<Page>>,
    /// The thread that took the last fault on each page, plus 1; empty when nobody asks.
    last_thread: Vec<u16>,
    statistics: Statistics,
    /// Promotions asked for in this call, which the driver has not begun yet.
    asked: u32,
    promotions: u64,
    no_room: u64,
    failed_moves: u64,
}

impl<L: ReclaimLists> NumaBalancing<L> {
    /// A process without memory. `kswapd_target_pages` is where kswapd stops.
    #[must_use]
    pub fn new(pace: ScanPace, topology: &Topology, marks: Watermarks, kswapd_target_pages: u32) -> Self {
        Self {
            scan: NumaScan::new(pace, false, topology),
            lru: L::new(topology.pages, topology.page_bytes),
            kswapd: Kswapd::new(topology, kswapd_target_pages),
            wake_below_pages: marks.low,
            marks,
            demotes: true,
            placed: Vec::new(),
            last_thread: Vec::new(),
            statistics: Statistics::Off,
            asked: 0,
            promotions: 0,
            no_room: 0,
            failed_moves: 0,
        }
    }

    /// kswapd wakes as soon as an allocation leaves less than `pages` free, not at the low watermark (TPP).
    #[must_use]
    pub fn waking_below(mut self, pages: u32) -> Self {
        self.wake_below_pages = pages.saturating_sub(1);
        self
    }

    /// Nothing is ever demoted.
    #[must_use]
    pub fn without_demotion(mut self) -> Self {
        self.demotes = false;
        self
    }

    /// The scan period adapts to what these faults say.
    #[must_use]
    pub fn counting(mut self, statistics: Statistics, topology: &Topology) -> Self {
        self.statistics = statistics;
        let remembered = if statistics == Statistics::AllFaults {
            topology.pages
        } else {
            0
        };
        self.last_thread = vec![0; remembered as usize];
        self
    }

    /// From now on faults count for nothing.
    pub fn stop_counting(&mut self) {
        self.statistics = Statistics::Off;
        self.last_thread = Vec::new();
    }

    /// What Colloid's kernel, Linux 6.3, does otherwise: pages of all tiers fault, and lists are unmapped together.
    pub fn serve_gate(&mut self) {
        self.scan.mark_all_tiers();
        self.kswapd.unmaps(Unmapping::Together);
        self.kswapd.forgets_failures_each_ns(KSWAPD_RESET_NS);
    }

    /// A new extent; its pages are looked up once the driver has placed them.
    pub fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.admit(cx);
        self.placed.push(extent.start..extent.start + extent.pages);
        // An allocation that leaves little wakes kswapd, which looks as soon as pages are in place.
        cx.wake_at(cx.now);
        Placement::FastestAbove {
            free_pages: self.marks.low,
        }
    }

    /// Takes up pages that were placed since the last call; every method of a policy begins with it.
    pub fn admit(&mut self, cx: &mut Context<'_>) {
        self.asked = 0;
        if self.placed.is_empty() {
            return;
        }
        if cx.pages.free_pages(0) <= self.wake_below_pages {
            self.wake_kswapd(cx);
        }
        for pages in std::mem::take(&mut self.placed) {
            runs_by_tier(pages, cx.pages, |run, tier| {
                self.scan.placed(run.clone(), tier);
                self.lru.placed(run, tier);
            });
        }
    }

    /// Somebody misses fast memory.
    pub fn wake_kswapd(&mut self, cx: &mut Context<'_>) {
        if self.demotes {
            self.kswapd.wake(cx.now);
        }
    }

    /// An extent is gone.
    pub fn on_free(&mut self, extent: &Extent, cx: &mut Context<'_>) {
        self.admit(cx);
        let pages = extent.start..extent.start + extent.pages;
        self.kswapd.freed(pages.clone(), &self.lru);
        self.scan.freed(pages.clone());
        self.lru.freed(pages.clone());
        if !self.last_thread.is_empty() {
            self.last_thread[pages.start as usize..pages.end as usize].fill(0);
        }
    }

    /// Looks up what handling these faults will need of their pages, so that cache misses overlap.
    pub fn look_up(&self, faults: &[Fault]) {
        for fault in faults {
            self.lru.fetch(fault.page);
            prefetch(&self.last_thread, fault.page as usize);
        }
    }

    /// Takes note of a hint fault.
    pub fn faulted(&mut self, fault: &Fault, cx: &Context<'_>) {
        self.faulted_by(fault, true, cx);
    }

    /// The same where the kernel is done with the fault before it notes on the page which thread it was of.
    pub fn faulted_in_passing(&mut self, fault: &Fault, cx: &Context<'_>) {
        self.faulted_by(fault, false, cx);
    }

    fn faulted_by(&mut self, fault: &Fault, noted: bool, cx: &Context<'_>) {
        self.scan.faulted(fault.page);
        self.scan.seen(fault.thread, cx);
        if self.statistics == Statistics::AllFaults {
            let thread = (fault.thread % u32::from(u16::MAX)) as u16 + 1;
            let last = self.last_thread[fault.page as usize];
            if noted {
                self.last_thread[fault.page as usize] = thread;
            }
            let counted = Counted {
                local: fault.tier == 0,
                shared: last != 0 && last != thread,
            };
            let last = (last != 0).then(|| u32::from(last) - 1);
            self.scan.count(fault.thread, counted, last, fault.at);
        }
    }

    /// Whether a promotion would leave `mark` pages of fast memory free.
    #[must_use]
    pub fn has_room_above(&self, mark: u32, cx: &Context<'_>) -> bool {
        cx.pages.free_pages(0) > mark + self.asked
    }

    /// The faulting thread is to promote the page.
    pub fn promote(&mut self, fault: &Fault, cx: &mut Context<'_>) {
        self.asked += 1;
        if self.statistics == Statistics::Promotions {
            let counted = Counted {
                local: false,
                shared: false,
            };
            self.scan.count(fault.thread, counted, None, fault.at);
        }
        cx.migrate_in_fault(fault, 0);
    }

    /// A promotion by a thread of the system's own was asked for.
    pub fn promotes(&mut self) {
        self.asked += 1;
    }

    /// A promotion was wanted, and there was no room.
    pub fn refused(&mut self) {
        self.no_room += 1;
    }

    /// The same for a promotion that the faulting thread was to do.
    pub fn refused_in(&mut self, fault: &Fault) {
        self.refused();
        self.failed_in(fault.thread);
    }

    fn failed_in(&mut self, thread: u32) {
        if self.statistics == Statistics::AllFaults {
            self.scan.failed(thread);
        }
    }

    /// Takes note of migrations, whoever asked for them; which pages have changed tiers.
    pub fn on_migrations(&mut self, ended: &[Migrated], cx: &mut Context<'_>) -> Vec<Arrival> {
        self.admit(cx);
        let mut arrivals = Vec::new();
        for migrated in ended {
            let (request, done) = (&migrated.request, migrated.outcome == Outcome::Done);
            let demotion = self.kswapd.ended(migrated, &self.lru);
            if migrated.outcome == Outcome::NoSpace {
                self.failed_moves += 1;
                if let (How::InFault { thread }, 0) = (request.how, request.to) {
                    self.failed_in(thread);
                }
            }
            if done {
                self.scan.moved(request.range(), request.to);
                for page in request.range() {
                    self.lru.put(page, request.to);
                    arrivals.push(if request.to == 0 {
                        self.promotions += 1;
                        Arrival::Promoted(page)
                    } else {
                        Arrival::Demoted(page)
                    });
                }
            } else if demotion {
                self.lru.put(request.page, cx.pages.tier_of(request.page));
            }
        }
        arrivals
    }

    /// Scans and reclaims as far as it is time to; the next wake-up is when either is due.
    pub fn on_wake(&mut self, cx: &mut Context<'_>) {
        self.on_wake_with(&mut |_| None, cx);
    }

    /// The same where frames of slow memory are kept: `kept` takes that of a page which is demoted to it.
    pub fn on_wake_with(&mut self, kept: &mut dyn FnMut(Page) -> Option<Tier>, cx: &mut Context<'_>) {
        self.admit(cx);
        self.scan.scan_if_due(cx);
        self.kswapd.step(&mut self.lru, kept, cx);
        self.set_wake(cx);
    }

    /// Asks for the next wake-up; a method that may have woken kswapd ends with it.
    pub fn set_wake(&self, cx: &mut Context<'_>) {
        cx.wake_at(self.next_at(cx));
    }

    /// When the scanner or kswapd wants to go on.
    #[must_use]
    pub fn next_at(&self, cx: &Context<'_>) -> Nanos {
        let next = self.scan.next_at(cx);
        self.kswapd.next_at().map_or(next, |at| at.min(next))
    }

    /// What every system of this kind reports.
    #[must_use]
    pub fn gauges(&self) -> Vec<Gauge> {
        let gauge = |name, meaning, value| Gauge { name, meaning, value };
        let ([inactive, active], [_, active_slow]) = (self.lru.fast_pages(), self.lru.slow_pages());
        let mut gauges = vec![
            gauge("scan_period_ms", "time between two scans", self.scan.period_ms() as f64),
            gauge(
                "scan_passes",
                "times that the scanner came to the end of memory",
                self.scan.passes() as f64,
            ),
            gauge(
                "armed_pages",
                "pages marked inaccessible by scans",
                self.scan.armed_pages() as f64,
            ),
            gauge("inactive_pages", "inactive pages of fast memory", f64::from(inactive)),
            gauge("active_pages", "active pages of fast memory", f64::from(active)),
            gauge(
                "active_slow_pages",
                "active pages of slow memory",
                f64::from(active_slow),
            ),
            gauge("promoted_pages", "pages promoted", self.promotions as f64),
            gauge(
                "promotions_without_room",
                "promotions not asked for since fast memory was full",
                self.no_room as f64,
            ),
            gauge(
                "reclaim_scanned_pages",
                "list entries that kswapd looked at",
                self.kswapd.scanned_pages() as f64,
            ),
            gauge(
                "reclaim_failed_runs",
                "runs of kswapd that demoted nothing",
                self.kswapd.failed_runs() as f64,
            ),
            gauge("failed_moves", "moves that found no space", self.failed_moves as f64),
        ];
        gauges.extend(self.lru.gauges());
        gauges
    }
}
