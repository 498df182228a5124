//! What is known of every page: counts, bins, and the histograms over all pages.
//!
//! A *unit* is what is placed as a whole, named by its first page: a huge page (an aligned run of
//! 4 KiB pages, or one page of 2 MiB) or a base page of 4 KiB. A sample adds 1 to a huge page and 512
//! to a base page, so that equal bins mean an equal density of accesses.

use serde::{Deserialize, Serialize};

use crate::registry::PAGE_4K;
use crate::{Page, Topology, prefetch};

/// Bins of a histogram.
pub const BINS: usize = 16;
/// Buckets of skewness.
pub const SKEW_BUCKETS: usize = 21;
/// 4 KiB pages of a huge page, and what a sample adds to a base page.
pub const HUGE: u64 = 512;

/// The unit is in its side's active list, or was when it was last in a list.
pub const ACTIVE: u8 = 1;
/// The unit is in a list; `FAST` says of which side.
pub const LISTED: u8 = 2;
/// See [`LISTED`].
pub const FAST: u8 = 4;
/// The unit was asked to move and has not arrived.
pub const MIGRATING: u8 = 8;
/// The unit waits to be split.
pub const QUEUED: u8 = 16;
/// The base page, or part of a huge page, would be in fast memory if all pages were base pages.
pub const MAY_HOT: u8 = 32;
/// The run is a huge page.
const WHOLE: u8 = 64;
/// The unit exists.
pub const KNOWN: u8 = 128;

/// The bin of a count: whole part of the binary logarithm of `count + 1`, at most 15.
#[inline]
#[must_use]
pub fn bin(count: u32) -> u8 {
    (u64::from(count) + 1).ilog2().min(BINS as u32 - 1) as u8
}

/// A huge page.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Run {
    total: u32,
    clock: u32,
    /// Bin as of the last sample or halving: a new huge page is in bin 0 whatever its count.
    bin: u8,
    skew: u8,
    flags: u8,
    /// Whether any part of it has a count.
    parts: bool,
}

/// A base page, or a part of a huge page: the count in bits 0 to 31, halvings seen in 32 to 55 (not
/// kept for parts), flags in 56 to 63.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Small(u64);

const CLOCK_BITS: u32 = 24;

impl Small {
    fn total(self) -> u32 {
        self.0 as u32
    }

    fn flags(self) -> u8 {
        (self.0 >> 56) as u8
    }

    /// How many halvings it lacks; below 0 when it has one in advance.
    fn lag(self, clock: u32) -> i32 {
        let seen = (self.0 >> 32) as u32;
        (clock.wrapping_sub(seen) << (32 - CLOCK_BITS)) as i32 >> (32 - CLOCK_BITS)
    }

    fn new(total: u32, clock: u32, flags: u8) -> Self {
        let clock = u64::from(clock & ((1 << CLOCK_BITS) - 1));
        Self(u64::from(total) | (clock << 32) | (u64::from(flags) << 56))
    }

    fn with_flags(self, flags: u8) -> Self {
        Self((self.0 & !(0xff << 56)) | (u64::from(flags) << 56))
    }

    fn with_total(self, total: u32) -> Self {
        Self((self.0 & !0xffff_ffff) | u64::from(total))
    }
}

/// What a sample changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// The unit.
    pub unit: Page,
    /// Its bin before, pending halvings applied.
    pub from: u8,
    /// Its bin now.
    pub to: u8,
    /// Whether the sample would have found its page in fast memory if all pages were base pages.
    pub in_fast_as_base: bool,
}

/// How skewed hotness is within huge pages, gathered since the last halving.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Skewness {
    /// Huge pages by bucket.
    pub huge_pages: [u64; SKEW_BUCKETS],
    /// Samples of parts that are hot, in huge pages that have such.
    pub samples: u64,
    /// Huge pages that have such.
    pub with_hot_parts: u64,
}

/// Constants of the counting.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Counting {
    /// What a halving leaves of a count; 0.5, as the name says, but for FlexMem's moving average.
    pub keep: f64,
    /// Bin from which on a huge page has no skewness.
    pub very_hot_bin: u8,
    /// Divisor in the skewness.
    pub skew_divisor: u64,
}

impl Counting {
    /// What so many halvings leave of a count.
    fn halved(self, total: u32, times: i32) -> u32 {
        if times <= 0 {
            total
        } else if self.keep == 0.5 {
            total.checked_shr(times as u32).unwrap_or(0)
        } else {
            (f64::from(total) * self.keep.powi(times)) as u32
        }
    }
}

/// Counts, bins and histograms.
#[derive(Serialize, Deserialize)]
pub struct Hotness {
    counting: Counting,
    /// Managed pages of a huge page.
    run_pages: u32,
    /// 4 KiB pages of a managed page.
    weight: u64,
    runs: Vec<Run>,
    /// By page; empty where a managed page is a huge page.
    smalls: Vec<Small>,
    /// Halvings so far.
    pub clock: u32,
    /// 4 KiB pages in each bin.
    pub histogram: [u64; BINS],
    /// The same if all pages were base pages.
    pub as_base: [u64; BINS],
    /// Bin from which on a unit is hot.
    pub active_threshold: u8,
    /// Bin from which on a page would be hot if all were base pages.
    pub base_threshold: u8,
    /// How skewed huge pages are.
    pub skewness: Skewness,
}

fn take(bin: &mut u64, pages: u64) {
    // Pages that were never halved since the histogram was emptied are not in it.
    *bin = bin.saturating_sub(pages);
}

impl Hotness {
    /// Nothing known yet.
    #[must_use]
    pub fn new(topology: &Topology, counting: Counting, threshold: u8) -> Self {
        let run_pages = topology.huge_pages();
        Self {
            counting,
            run_pages,
            weight: topology.page_bytes / PAGE_4K,
            runs: vec![Run::default(); topology.pages.div_ceil(run_pages) as usize],
            smalls: vec![Small::default(); if run_pages > 1 { topology.pages as usize } else { 0 }],
            clock: 0,
            histogram: [0; BINS],
            as_base: [0; BINS],
            active_threshold: threshold,
            base_threshold: threshold,
            skewness: Skewness::default(),
        }
    }

    /// Managed pages of a huge page.
    #[must_use]
    pub fn run_pages(&self) -> u32 {
        self.run_pages
    }

    /// 4 KiB pages of `pages` managed pages.
    #[must_use]
    pub fn weight(&self, pages: u32) -> u64 {
        u64::from(pages) * self.weight
    }

    #[inline]
    fn run(&self, page: Page) -> usize {
        // A division by a variable would be the slowest step of counting a sample.
        (page >> self.run_pages.trailing_zeros()) as usize
    }

    /// Whether `page` is a huge page or part of one.
    #[inline]
    #[must_use]
    pub fn is_huge(&self, page: Page) -> bool {
        self.run_pages == 1 || self.runs[self.run(page)].flags & WHOLE != 0
    }

    /// The unit that `page` belongs to.
    #[inline]
    #[must_use]
    pub fn unit(&self, page: Page) -> Page {
        if self.is_huge(page) {
            page & !(self.run_pages - 1)
        } else {
            page
        }
    }

    /// Managed pages of `unit`.
    #[must_use]
    pub fn pages(&self, unit: Page) -> u32 {
        if self.is_huge(unit) { self.run_pages } else { 1 }
    }

    /// Flags of `unit`.
    #[must_use]
    pub fn flags(&self, unit: Page) -> u8 {
        if self.is_huge(unit) {
            self.runs[self.run(unit)].flags
        } else {
            self.smalls[unit as usize].flags()
        }
    }

    /// Whether `unit` has any of `flags`.
    #[must_use]
    pub fn has(&self, unit: Page, flags: u8) -> bool {
        self.flags(unit) & flags != 0
    }

    /// Sets or clears `flags` of `unit`.
    pub fn set(&mut self, unit: Page, flags: u8, on: bool) {
        let change = |old: u8| if on { old | flags } else { old & !flags };
        if self.is_huge(unit) {
            let run = self.run(unit);
            self.runs[run].flags = change(self.runs[run].flags);
        } else {
            let small = &mut self.smalls[unit as usize];
            *small = small.with_flags(change(small.flags()));
        }
    }

    /// The bin of `unit` as last seen, pending halvings not applied.
    #[must_use]
    pub fn bin_of(&self, unit: Page) -> u8 {
        if self.is_huge(unit) {
            self.runs[self.run(unit)].bin
        } else {
            bin(self.smalls[unit as usize].total())
        }
    }

    /// Samples of `unit`, halved by and by, pending halvings applied.
    #[must_use]
    pub fn samples_of(&self, unit: Page) -> f64 {
        if self.is_huge(unit) {
            let run = self.runs[self.run(unit)];
            f64::from(
                self.counting
                    .halved(run.total, self.clock.wrapping_sub(run.clock) as i32),
            )
        } else {
            let small = self.smalls[unit as usize];
            f64::from(self.counting.halved(small.total(), small.lag(self.clock))) / HUGE as f64
        }
    }

    /// A new unit, a huge page if `huge`, with a first count of its own and `ahead` halvings in advance.
    pub fn admit(&mut self, unit: Page, huge: bool, total: u32, ahead: bool) {
        let clock = self.clock.wrapping_add(ahead.into());
        if huge {
            let run = self.run(unit);
            let small = self.smalls.get(unit as usize).copied().unwrap_or_default();
            let moving = (self.runs[run].flags | small.flags()) & MIGRATING;
            self.runs[run] = Run {
                total,
                clock,
                flags: KNOWN | WHOLE | moving,
                ..Run::default()
            };
        } else {
            let moving = self.smalls[unit as usize].flags() & MIGRATING;
            self.smalls[unit as usize] = Small::new(total, clock, KNOWN | moving);
        }
    }

    /// Forgets a unit, but for a move under way, whose end is yet to be heard of.
    pub fn forget(&mut self, unit: Page) {
        let (weight, old) = (self.weight(self.pages(unit)), usize::from(self.bin_of(unit)));
        take(&mut self.histogram[old], weight);
        if self.is_huge(unit) {
            let run = self.run(unit);
            let moving = self.runs[run].flags & MIGRATING;
            self.runs[run] = Run {
                flags: moving,
                ..Run::default()
            };
            for part in self.parts(unit) {
                take(&mut self.as_base[usize::from(bin(self.smalls[part].total()))], 1);
                self.smalls[part] = Small::default();
            }
            if let Some(first) = self.smalls.get_mut(unit as usize) {
                *first = first.with_flags(moving); // it is no huge page any more, so that is where flags are
            }
        } else {
            take(&mut self.as_base[old], 1);
            let moving = self.smalls[unit as usize].flags() & MIGRATING;
            self.smalls[unit as usize] = Small::default().with_flags(moving);
        }
    }

    /// Indices of the parts of a huge page, none where they cannot be told apart.
    fn parts(&self, unit: Page) -> std::ops::Range<usize> {
        if self.smalls.is_empty() {
            0..0
        } else {
            unit as usize..(unit + self.run_pages) as usize
        }
    }

    /// Empties the histograms and lets every count lack one more halving.
    pub fn start_halving(&mut self) {
        self.histogram = [0; BINS];
        self.as_base = [0; BINS];
        self.skewness = Skewness::default();
        self.clock = self.clock.wrapping_add(1);
        self.base_threshold = self.base_threshold.saturating_sub(1);
    }

    /// Applies pending halvings to `unit` and enters it into the histograms again; a unit with a halving in
    /// advance loses that. Returns whether there was anything to halve.
    pub fn catch_up(&mut self, unit: Page) -> bool {
        if self.is_huge(unit) {
            let run = self.run(unit);
            let lag = self.clock.wrapping_sub(self.runs[run].clock) as i32;
            self.runs[run].clock = self.clock;
            if lag > 0 {
                self.halve_huge(unit, lag);
            }
            lag > 0
        } else {
            let small = self.smalls[unit as usize];
            let lag = small.lag(self.clock);
            if lag == 0 {
                return false;
            }
            if lag < 0 {
                self.smalls[unit as usize] = Small::new(small.total(), self.clock, small.flags());
                return false;
            }
            let total = self.counting.halved(small.total(), lag);
            let hot = bin(small.total()) >= self.base_threshold;
            let flags = (small.flags() & !MAY_HOT) | if hot { MAY_HOT } else { 0 };
            self.smalls[unit as usize] = Small::new(total, self.clock, flags);
            self.histogram[usize::from(bin(total))] += 1;
            self.as_base[usize::from(bin(total))] += 1;
            true
        }
    }

    fn halve_huge(&mut self, unit: Page, lag: i32) {
        let hot_from = self.active_threshold.min(self.base_threshold);
        let (mut hot_parts, mut hot_counts, mut squares) = (0u64, 0u64, 0u128);
        let run = self.run(unit);
        if self.runs[run].parts {
            let mut any = false;
            let counting = self.counting;
            // Most parts have no count, and a halving visits all of them.
            let cold_may_hot = if self.base_threshold == 0 { MAY_HOT } else { 0 };
            let mut cold = 0;
            let parts = self.parts(unit);
            for small in &mut self.smalls[parts] {
                let total = small.total();
                if total == 0 {
                    *small = Small::new(0, 0, cold_may_hot);
                    cold += 1;
                    continue;
                }
                let before = bin(total);
                if before >= hot_from {
                    hot_parts += 1;
                    hot_counts += u64::from(total);
                }
                squares += u128::from(u64::from(total) * u64::from(total));
                let may_hot = if before >= self.base_threshold { MAY_HOT } else { 0 };
                let left = counting.halved(total, lag);
                any |= left > 0;
                *small = Small::new(left, 0, may_hot);
                self.as_base[usize::from(bin(left))] += 1;
            }
            self.as_base[0] += cold;
            if hot_from == 0 {
                hot_parts += cold;
            }
            self.runs[run].parts = any;
        } else if !self.smalls.is_empty() {
            self.as_base[0] += HUGE;
        }
        let total = self.counting.halved(self.runs[run].total, lag);
        let new_bin = bin(total);
        self.histogram[usize::from(new_bin)] += HUGE;
        let skew = if hot_parts == 0 || new_bin >= self.counting.very_hot_bin {
            0
        } else {
            let scaled = squares / u128::from(self.counting.skew_divisor);
            skew_bucket(scaled / u128::from(hot_parts * hot_parts))
        };
        self.skewness.huge_pages[usize::from(skew)] += 1;
        if hot_parts > 0 {
            self.skewness.samples += hot_counts / HUGE;
            self.skewness.with_hot_parts += 1;
        }
        let run = &mut self.runs[run];
        (run.total, run.bin, run.skew) = (total, new_bin, skew);
    }

    /// The bucket of skewness of a huge page, as of its last halving.
    #[must_use]
    pub fn skew_of(&self, unit: Page) -> u8 {
        self.runs[self.run(unit)].skew
    }

    /// Counts a sample of `page`; `None` when no such page exists.
    #[inline]
    pub fn count(&mut self, page: Page) -> Option<Counted> {
        let run = self.run(page);
        if self.run_pages > 1 && self.runs[run].flags & WHOLE == 0 {
            return self.count_base(page);
        }
        if self.runs[run].flags & KNOWN == 0 {
            return None;
        }
        let unit = page & !(self.run_pages - 1);
        if self.runs[run].clock != self.clock {
            self.catch_up(unit);
        }
        let in_fast_as_base = self.run_pages > 1 && self.count_part(page, run);
        let record = &mut self.runs[run];
        let from = record.bin;
        record.total = record.total.saturating_add(1);
        let to = bin(record.total);
        record.bin = to;
        if from != to {
            take(&mut self.histogram[usize::from(from)], HUGE);
            self.histogram[usize::from(to)] += HUGE;
        }
        Some(Counted {
            unit,
            from,
            to,
            in_fast_as_base,
        })
    }

    fn count_part(&mut self, page: Page, run: usize) -> bool {
        self.runs[run].parts = true;
        let small = self.smalls[page as usize];
        self.smalls[page as usize] = self.counted(small);
        small.flags() & MAY_HOT != 0
    }

    fn count_base(&mut self, page: Page) -> Option<Counted> {
        if self.smalls[page as usize].flags() & KNOWN == 0 {
            return None;
        }
        self.catch_up(page);
        let small = self.smalls[page as usize];
        let counted = self.counted(small);
        self.smalls[page as usize] = counted;
        let (from, to) = (bin(small.total()), bin(counted.total()));
        if from != to {
            take(&mut self.histogram[usize::from(from)], 1);
            self.histogram[usize::from(to)] += 1;
        }
        Some(Counted {
            unit: page,
            from,
            to,
            in_fast_as_base: small.flags() & MAY_HOT != 0,
        })
    }

    /// A base page or part with one more sample; its move between bins of `as_base` is entered.
    fn counted(&mut self, small: Small) -> Small {
        let total = small.total().saturating_add(HUGE as u32);
        let (from, to) = (bin(small.total()), bin(total));
        if from != to {
            take(&mut self.as_base[usize::from(from)], 1);
            self.as_base[usize::from(to)] += 1;
        }
        let may_hot = if to >= self.base_threshold { MAY_HOT } else { 0 };
        small.with_total(total).with_flags((small.flags() & !MAY_HOT) | may_hot)
    }

    /// Makes base pages of a huge page, each with the count it had as a part.
    pub fn split(&mut self, unit: Page) {
        let run = self.run(unit);
        let record = self.runs[run];
        take(&mut self.histogram[usize::from(record.bin)], HUGE);
        self.runs[run] = Run::default();
        for part in self.parts(unit) {
            let small = self.smalls[part];
            let new_bin = bin(small.total());
            self.histogram[usize::from(new_bin)] += 1;
            let active = if new_bin + 1 >= self.active_threshold {
                ACTIVE
            } else {
                0
            };
            let flags = (small.flags() & MAY_HOT) | KNOWN | active;
            self.smalls[part] = Small::new(small.total(), record.clock, flags);
        }
    }

    /// Makes a huge page of base pages, whose counts add up.
    pub fn collapse(&mut self, unit: Page) {
        let mut sum = 0u64;
        for part in self.parts(unit) {
            self.catch_up(part as Page);
            let small = self.smalls[part];
            take(&mut self.histogram[usize::from(bin(small.total()))], 1);
            sum += u64::from(small.total());
            self.smalls[part] = Small::new(small.total(), 0, small.flags() & MAY_HOT);
        }
        let total = u32::try_from(sum / HUGE).unwrap_or(u32::MAX);
        let new_bin = bin(total);
        self.histogram[usize::from(new_bin)] += HUGE;
        let active = if new_bin >= self.active_threshold { ACTIVE } else { 0 };
        let run = self.run(unit);
        self.runs[run] = Run {
            total,
            clock: self.clock,
            bin: new_bin,
            flags: KNOWN | WHOLE | active,
            parts: sum > 0,
            skew: 0,
        };
    }

    /// Asks for what counting samples of `pages` will change, so that the cache misses overlap.
    pub fn fetch(&self, pages: impl Iterator<Item = Page>) {
        if !self.smalls.is_empty() {
            pages.for_each(|page| prefetch(&self.smalls, page as usize));
        }
    }
}

/// 0, 1, 2 to 3, 4 to 7, … 512 to 1023, then steps of 1024, at most 20.
fn skew_bucket(skew: u128) -> u8 {
    if skew < 1024 {
        (128 - skew.leading_zeros()) as u8
    } else {
        11 + ((skew - 1) / 1024).min(9) as u8
    }
}

/// The lowest bin from which on all pages of `histogram` fit into `capacity` 4 KiB pages, and how many those are.
/// When the highest bin alone does not fit, it is the highest.
#[must_use]
pub fn fitting_bin(histogram: &[u64; BINS], capacity: u64) -> (u8, u64) {
    let mut pages = 0;
    for at in (0..BINS).rev() {
        if pages + histogram[at] > capacity {
            return ((at + 1).min(BINS - 1) as u8, pages);
        }
        pages += histogram[at];
    }
    (0, pages)
}
