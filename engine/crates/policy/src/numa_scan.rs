//! The scanner of NUMA balancing: makes stretches of page table fault at their next touch.
//!
//! Once a period the process itself, on its way back from the kernel, goes on where it stopped:
//! it takes stretches of `scan_size_mb` and marks the eligible pages in them (those of slow memory, or all)
//! as inaccessible. A stretch in which nothing was left to mark, since it lies in fast memory or
//! nobody has touched it, does not count, but at most eight times the size is walked a period
//! (kernel/sched/fair.c, `task_numa_work`). So memory that rests is passed over up to eight times faster.
//!
//! The shortest period is `scan_period_min_ms` for the *whole* process: divided by the number of windows in
//! its memory, but never so short that more than 2560 MB/s would be scanned. From 2.5 GiB on the defaults
//! mean 256 MB every 100 ms, for a thread that is alone. The periods of the threads, by their run time, decide who scans when; where
//! faults are counted they adapt ([`ScanPeriods`]).
//!
//! Pages in 2 MiB are marked by one entry each. The order in addresses is that of page numbers.

use serde::{Deserialize, Serialize};
use std::ops::Range;

use crate::page_bits::{PageBits, runs, words};
use crate::scan_period::{Bounds, Clocks, Counted, ScanPeriods};
use crate::{Context, Nanos, Page, PageMap, Tier, Topology};

/// Marking a page-table entry inaccessible: 30 to 60 ns.
const ENTRY_MARKED_NS: f64 = 45.0;
/// Passing an entry that stays as it is, our judgement: the entry is read, and the page's node looked up.
pub const ENTRY_PASSED_NS: f64 = 10.0;
/// The TLB flush after a scan that marked something: 2 to 5 us per batch and up to 1 us per core.
const FLUSH_NS: f64 = 10_000.0;
/// The kernel scans no faster (`MAX_SCAN_WINDOW`), in MB/s.
const MOST_MB_PER_S: u64 = 2560;
/// At most so many times the window is walked for what is left to mark.
const WALK_FACTOR: u32 = 8;

/// The knobs of the scanner, as every system that has it declares them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScanPace {
    /// Time before the first scan.
    pub delay_ms: u32,
    /// Shortest period, of a process that is one window large.
    pub period_min_ms: u32,
    /// Longest.
    pub period_max_ms: u32,
    /// Memory marked per period.
    pub size_mb: u32,
    /// What that is multiplied by, for workloads smaller than the original ones; 1 for none.
    pub footprint_scale: f64,
}

/// Where a scanner is, and which pages it has marked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NumaScan {
    pace: ScanPace,
    window_pages: u32,
    all_tiers: bool,
    /// How much wider than usual scans are, for an outer policy that leaves pages out.
    wider: f64,
    present: PageBits,
    fast: PageBits,
    armed: PageBits,
    present_pages: u64,
    cursor: Page,
    /// One more than the last page that ever existed.
    end: Page,
    periods: ScanPeriods,
    passes: u64,
    armed_pages: u64,
    scan_ns: f64,
}

impl NumaScan {
    /// A scanner that has yet to begin; `all_tiers` when it marks pages of fast memory too.
    #[must_use]
    pub fn new(pace: ScanPace, all_tiers: bool, topology: &Topology) -> Self {
        let pages = topology.pages;
        let window_bytes = (u64::from(pace.size_mb) << 20) as f64 * pace.footprint_scale;
        let window_pages = topology.pages_in(window_bytes as u64).max(1);
        Self {
            periods: ScanPeriods::new(u64::from(pace.delay_ms)),
            pace,
            window_pages,
            all_tiers,
            wider: 1.0,
            present: PageBits::new(pages),
            fast: PageBits::new(pages),
            armed: PageBits::new(pages),
            present_pages: 0,
            cursor: 0,
            end: 0,
            passes: 0,
            armed_pages: 0,
            scan_ns: 0.0,
        }
    }

    /// From now on pages of fast memory are marked too.
    pub fn mark_all_tiers(&mut self) {
        self.all_tiers = true;
    }

    /// From now on scans cover `factor` times as much, as an outer policy leaves the rest of it unmarked.
    pub fn widen(&mut self, factor: f64) {
        self.wider = factor.max(1.0);
    }

    /// Pages that have been placed, all in one tier.
    pub fn placed(&mut self, pages: Range<Page>, tier: Tier) {
        self.present_pages += u64::from(pages.end - pages.start);
        self.end = self.end.max(pages.end);
        self.present.set_all(pages.clone(), true);
        self.fast.set_all(pages, tier == 0);
    }

    /// Pages that are gone.
    pub fn freed(&mut self, pages: Range<Page>) {
        self.present_pages -= u64::from(self.present.count(pages.clone()));
        for set in [&mut self.present, &mut self.fast, &mut self.armed] {
            set.set_all(pages.clone(), false);
        }
    }

    /// Pages that have moved, and lost their mark by that.
    pub fn moved(&mut self, pages: Range<Page>, to: Tier) {
        self.armed.set_all(pages.clone(), false);
        self.fast.set_all(pages, to == 0);
    }

    /// A marked page was touched.
    pub fn faulted(&mut self, page: Page) {
        self.armed.set(page, false);
    }

    /// Marks pages outside of a scan.
    pub fn arm(&mut self, pages: Range<Page>, cx: &mut Context<'_>) {
        self.armed.set_all(pages.clone(), true);
        cx.arm(pages);
    }

    /// When the next scan may be due.
    #[must_use]
    pub fn next_at(&self, cx: &Context<'_>) -> Nanos {
        self.periods.next_at(self.bounds(), Clocks::of(cx))
    }

    /// How often it has come to the end of memory.
    #[must_use]
    pub fn passes(&self) -> u64 {
        self.passes
    }

    /// Pages marked by scans so far.
    #[must_use]
    pub fn armed_pages(&self) -> u64 {
        self.armed_pages
    }

    /// Time that scans have taken so far.
    #[must_use]
    pub fn scan_ns(&self) -> f64 {
        self.scan_ns
    }

    /// Whether a page counts as marked; an outer policy may have dropped the order.
    #[must_use]
    pub fn is_armed(&self, page: Page) -> bool {
        self.armed.has(page)
    }

    /// Windows that the process' memory makes, at least one.
    fn windows(&self) -> u64 {
        self.present_pages.div_ceil(u64::from(self.window_pages)).max(1)
    }

    /// The shortest and the longest period now, in the kernel's whole milliseconds.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        let floor = 1000 / (MOST_MB_PER_S / u64::from(self.pace.size_mb)).max(1);
        let shortest_ms = floor.max(u64::from(self.pace.period_min_ms) / self.windows());
        let longest_ms = u64::from(self.pace.period_max_ms) / self.windows();
        Bounds {
            shortest_ms,
            longest_ms: longest_ms.max(shortest_ms),
        }
    }

    /// The shortest period of a thread.
    #[must_use]
    pub fn period_ms(&self) -> u64 {
        self.periods.period_ms(self.bounds())
    }

    /// A thread took a hint fault, whether or not it is counted.
    pub fn seen(&mut self, thread: u32, cx: &Context<'_>) {
        self.periods.faulted(thread, self.bounds(), Clocks::of(cx));
    }

    /// The fault of a thread that was [seen](Self::seen) counts for its period; `last` took the one before on the page.
    pub fn count(&mut self, thread: u32, fault: Counted, last: Option<u32>, now: Nanos) {
        let bounds = self.bounds();
        self.periods.count(thread, fault, last, self.passes, bounds, now);
    }

    /// A promotion by a thread failed, which counts for its period.
    pub fn failed(&mut self, thread: u32) {
        self.periods.failed(thread);
    }

    /// Scans if it is time to; whether it did.
    pub fn scan_if_due(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(thread) = self.periods.scans_now(self.bounds(), Clocks::of(cx)) else {
            return false;
        };
        let spent_ns = self.scan(cx);
        self.scan_ns += spent_ns;
        cx.spend_in_application(spent_ns);
        self.periods.scanned(thread, self.bounds(), Clocks::of(cx), spent_ns);
        true
    }

    /// One scan; how long it took.
    fn scan(&mut self, cx: &mut Context<'_>) -> f64 {
        if self.cursor >= self.end {
            self.cursor = 0;
        }
        let mut to_mark = (f64::from(self.window_pages) * self.wider) as u32;
        let mut to_walk = to_mark.saturating_mul(WALK_FACTOR);
        let (mut walked, mut marked) = (0u32, 0u32);
        while to_mark > 0 && to_walk > 0 && self.cursor < self.end {
            // The walk is through mappings: what is not mapped is no part of it, and a stretch ends with its mapping.
            let mapped = self.present.next_run(self.cursor..self.end, to_mark.min(to_walk));
            let Some(stretch) = mapped else {
                self.cursor = self.end;
                break;
            };
            let length = stretch.end - stretch.start;
            self.cursor = stretch.end;
            let new = self.mark(stretch, cx);
            marked += new;
            walked += length;
            to_walk -= length;
            if new > 0 {
                to_mark -= length;
            }
        }
        if self.cursor >= self.end && self.end > 0 {
            self.passes += 1;
        }
        self.armed_pages += u64::from(marked);
        let flush_ns = if marked > 0 { FLUSH_NS } else { 0.0 };
        // What an outer policy leaves out of a wider scan is passed, not marked.
        let marked = f64::from(marked) / self.wider;
        marked * ENTRY_MARKED_NS + (f64::from(walked) - marked) * ENTRY_PASSED_NS + flush_ns
    }

    /// Marks what is eligible in a stretch; how many pages were not marked before. Those that were are asked for
    /// again, which changes nothing unless an outer policy dropped the order before.
    fn mark(&mut self, stretch: Range<Page>, cx: &mut Context<'_>) -> u32 {
        let mut new = 0;
        let mut open: Option<Range<Page>> = None;
        for (index, mask) in words(stretch) {
            let tiers = if self.all_tiers {
                u64::MAX
            } else {
                !self.fast.word(index)
            };
            let eligible = self.present.word(index) & tiers & mask;
            new += (eligible & !self.armed.word(index)).count_ones();
            self.armed.add(index, eligible);
            runs(index, eligible, |run| match &mut open {
                Some(open) if open.end == run.start => open.end = run.end,
                _ => {
                    if let Some(done) = open.replace(run) {
                        cx.arm(done);
                    }
                }
            });
        }
        if let Some(done) = open {
            cx.arm(done);
        }
        new
    }
}

/// Cuts `pages` into runs of pages in one tier.
pub fn runs_by_tier(pages: Range<Page>, map: &dyn PageMap, mut run: impl FnMut(Range<Page>, Tier)) {
    let mut start = pages.start;
    while start < pages.end {
        let tier = map.tier_of(start);
        let end = (start + 1..pages.end).find(|page| map.tier_of(*page) != tier);
        let end = end.unwrap_or(pages.end);
        run(start..end, tier);
        start = end;
    }
}
