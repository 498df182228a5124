//! The kernel's multi-generational LRU (from Linux 6.1 on), of fast memory.
//!
//! Pages are in two to four generations of increasing number. New pages, and those that a fault has promoted, join the
//! youngest. Two procedures share the work, both in kswapd:
//!
//! - *aging* goes through the page tables, clears accessed bits, and moves the pages that had them set to the youngest
//!   generation; then it opens a new one above. It runs when only two generations are left, and, once reclaim has found
//!   less than it needs at first sight, when three are, and the youngest has more than half of all pages or the oldest
//!   less than a quarter;
//! - *eviction* takes pages from the oldest generation, as long as there are more than two. A page that has been accessed
//!   since aging looked is not evicted but joins the youngest generation, and its 64 neighbours are looked at along the
//!   way, as they are in the same cache lines.
//!
//! They help each other: aging visits only those 2 MiB of page table where one page in eight was found accessed the last
//! time, by aging or by eviction, so that sparse ones are left to eviction (the kernel's Bloom filter; here it has no
//! false positives). Of pages that are mapped as 2 MiB all are visited, and there are no neighbours.
//!
//! What differs from active and inactive lists:
//!
//! - one access is enough to stay, and to become as young as any page, where the old lists want two;
//! - accessed bits are read in passes over all of memory, of which the time goes to kswapd in one piece, and pages that
//!   were accessed in one pass are alike until the next, however often they were;
//! - what has just been allocated or promoted is the last to go, where the old lists put it among the inactive.
//!
//! Left out: file pages with their refaults and tiers (all pages are anonymous), cgroups, `min_ttl_ms` (0 unless set, which
//! protects nothing), accessed bits of upper levels of the page table, which spare visits where nothing was accessed. A
//! page that the kernel moves to the list of its generation when eviction comes by is moved at once. Nothing reclaims
//! slow memory, so its pages are counted only.
//!
//! After Documentation/mm/multigen_lru.rst and mm/vmscan.c of Linux 6.1.

use serde::{Deserialize, Serialize};
use std::ops::Range;

use crate::lru::PAGE_SCAN_NS;
use crate::numa_scan::ENTRY_PASSED_NS;
use crate::page_bits::PageBits;
use crate::page_list::NIL;
use crate::page_queue::{LISTED, PageQueue};
use crate::page_ring::Entries;
use crate::reclaim_lists::{Effort, ReclaimLists, Verdict};
use crate::registry::{PAGE_2M, PAGE_4K};
use crate::{AccessedBits, Gauge, Page, Tier};

/// `MAX_NR_GENS`.
const MOST_GENERATIONS: u64 = 4;
/// `MIN_NR_GENS`: so many are never evicted from.
const LEAST_GENERATIONS: u64 = 2;
/// Entries that eviction looks at around one that was accessed (`MIN_LRU_BATCH`).
const NEIGHBOURS: Page = 64;
/// One accessed page in so many makes a page table worth a visit: one in a cache line of entries.
const ENTRIES_PER_LINE: u32 = 8;
/// An entry that was accessed: its bit is cleared and the flags of its page change, which is another cache miss. Our
/// judgement: half of what a page of a list takes, for which the entry must be found first.
const ENTRY_YOUNG_NS: f64 = PAGE_SCAN_NS / 2.0;
/// `DEF_PRIORITY`: reclaim first looks at one page in 2 to this power.
const FIRST_LOOK_SHIFT: u32 = 12;

/// Two bits: the generation's number, modulo four.
const GENERATION: u8 = 3;
/// The page is in memory.
const PRESENT: u8 = 4;
/// It is in fast memory.
const FAST: u8 = 8;
/// It has been taken off its list, to be migrated.
const ISOLATED: u8 = 16;
/// A page of slow memory that has come there by a fault, not by demotion.
const ACTIVE: u8 = 32;

/// The generations.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LruGen {
    flags: Vec<u8>,
    entries: Entries,
    /// By number modulo four.
    generations: [PageQueue; MOST_GENERATIONS as usize],
    /// Number of the oldest generation.
    oldest: u64,
    /// Number of the youngest.
    youngest: u64,
    /// Slow memory's pages, those that came by demotion and the others.
    slow: [u32; 2],
    /// One behind the last page that was ever placed.
    end: Page,
    /// Pages of what one page table maps.
    table_pages: Page,
    /// Whether a page is an entry of such a table, and not all of one.
    has_neighbours: bool,
    /// Page tables that are worth a visit: the next time that memory is aged, and the time after.
    visits: PageBits,
    visits_after: PageBits,
    /// Where aging goes on, if it has begun.
    aging_at: Option<Page>,
    agings: u64,
    aged_pages: u64,
}

impl LruGen {
    fn has(&self, page: Page, flag: u8) -> bool {
        self.flags[page as usize] & flag != 0
    }

    fn set(&mut self, page: Page, flag: u8, on: bool) {
        let flags = &mut self.flags[page as usize];
        *flags = if on { *flags | flag } else { *flags & !flag };
    }

    fn len(&self, number: u64) -> u32 {
        self.generations[(number % MOST_GENERATIONS) as usize].len()
    }

    /// How many generations there are.
    fn count(&self) -> u64 {
        self.youngest - self.oldest + 1
    }

    /// Whether a page is on a list of fast memory.
    fn is_here(&self, page: Page) -> bool {
        self.flags[page as usize] & (FAST | ISOLATED) == FAST
    }

    /// Takes a page out of where it is counted.
    fn unlist(&mut self, page: Page) {
        let flags = self.flags[page as usize];
        if flags & (PRESENT | ISOLATED) != PRESENT {
            return;
        }
        if flags & FAST == 0 {
            self.slow[usize::from(flags & ACTIVE != 0)] -= 1;
            return;
        }
        let generation = &mut self.generations[usize::from(flags & GENERATION)];
        generation.remove(&mut self.entries, &mut self.flags, page);
    }

    /// Puts a page of fast memory that is in no list at the end of the youngest generation.
    fn enlist(&mut self, page: Page) {
        let place = (self.youngest % MOST_GENERATIONS) as usize;
        self.flags[page as usize] = PRESENT | FAST | place as u8;
        self.generations[place].push_back(&mut self.entries, &mut self.flags, page);
    }

    /// A page was accessed: it joins the youngest generation, unless it is there.
    fn rejuvenate(&mut self, page: Page) {
        if u64::from(self.flags[page as usize] & GENERATION) != self.youngest % MOST_GENERATIONS {
            self.unlist(page);
            self.enlist(page);
        }
    }

    /// Empty generations are given up from the oldest on.
    fn drop_empty(&mut self) {
        while self.count() > LEAST_GENERATIONS && self.len(self.oldest) == 0 {
            self.oldest += 1;
        }
    }

    /// Whether there is too little to evict from, or too much of one age.
    fn is_to_age(&self, looked_at: u64) -> bool {
        if self.count() != LEAST_GENERATIONS + 1 {
            return self.count() <= LEAST_GENERATIONS;
        }
        let all: u64 = self.generations.iter().map(|one| u64::from(one.len())).sum();
        let (young, old) = (u64::from(self.len(self.youngest)), u64::from(self.len(self.oldest)));
        let is_uneven = young * LEAST_GENERATIONS > all || old * (LEAST_GENERATIONS + 2) < all;
        is_uneven && looked_at >= all >> FIRST_LOOK_SHIFT
    }

    /// Looks at what one page table maps; at its end memory is a generation older.
    fn age_table(&mut self, start: Page, accessed: &mut dyn AccessedBits) -> Effort {
        let table = start / self.table_pages;
        let end = (start + self.table_pages).min(self.end);
        let mut effort = Effort {
            pages: 0,
            ns: ENTRY_PASSED_NS,
        };
        if start < end && (!self.has_neighbours || self.visits.has(table)) {
            let (mut entries, mut young) = (0, 0);
            for page in start..end {
                accessed.fetch((page + ENTRIES_PER_LINE).min(end - 1));
                entries += u32::from(self.has(page, PRESENT));
                if !self.is_here(page) {
                    continue;
                }
                effort.pages += 1;
                if accessed.test_and_clear(page) {
                    young += 1;
                    self.rejuvenate(page);
                }
            }
            effort.ns += f64::from(entries) * ENTRY_PASSED_NS + f64::from(young) * ENTRY_YOUNG_NS;
            self.aged_pages += u64::from(young);
            if entries > 0 && young * ENTRIES_PER_LINE >= entries {
                self.visits_after.set(table, true);
            }
        }
        self.aging_at = Some(end);
        if end >= self.end {
            self.aging_at = None;
            self.youngest += 1;
            self.agings += 1;
            let tables = self.flags.len() as u32 / self.table_pages + 1;
            std::mem::swap(&mut self.visits, &mut self.visits_after);
            self.visits_after.set_all(0..tables, false);
        }
        effort
    }

    /// The oldest page, or [`NIL`].
    fn oldest_page(&mut self) -> Page {
        let place = (self.oldest % MOST_GENERATIONS) as usize;
        self.generations[place].front(&self.flags)
    }

    /// Looks at the entries around one that was accessed; how long that took.
    fn look_around(&mut self, page: Page, accessed: &mut dyn AccessedBits) -> f64 {
        let first = page - page % self.table_pages;
        let start = page
            .saturating_sub(NEIGHBOURS / 2)
            .clamp(first, first + self.table_pages - NEIGHBOURS);
        let (mut entries, mut young) = (0, 1);
        for near in start..(start + NEIGHBOURS).min(self.end) {
            entries += u32::from(self.has(near, PRESENT));
            if near != page && self.is_here(near) && accessed.test_and_clear(near) {
                young += 1;
                self.rejuvenate(near);
            }
        }
        if young * ENTRIES_PER_LINE >= entries {
            self.visits.set(page / self.table_pages, true);
        }
        f64::from(entries) * ENTRY_PASSED_NS + f64::from(young) * ENTRY_YOUNG_NS
    }
}

impl ReclaimLists for LruGen {
    fn new(pages: u32, page_bytes: u64) -> Self {
        let base_pages = (page_bytes / PAGE_4K).max(1) as u32;
        let has_neighbours = base_pages < (PAGE_2M / PAGE_4K) as u32;
        // A page table has 512 entries; pages of 2 MiB are entries of the table above.
        let table_pages = if has_neighbours {
            (PAGE_2M / PAGE_4K) as u32 / base_pages
        } else {
            (PAGE_2M / PAGE_4K) as u32
        };
        let tables = pages / table_pages + 1;
        // At first nobody knows what is worth a visit.
        let mut visits = PageBits::new(tables);
        visits.set_all(0..tables, true);
        Self {
            flags: vec![0; pages as usize],
            entries: Entries::new(pages),
            generations: Default::default(),
            oldest: 0,
            youngest: LEAST_GENERATIONS + 1,
            slow: [0; 2],
            end: 0,
            table_pages,
            has_neighbours,
            visits,
            visits_after: PageBits::new(tables),
            aging_at: None,
            agings: 0,
            aged_pages: 0,
        }
    }

    /// They join the end of the youngest generation.
    fn placed(&mut self, pages: Range<Page>, tier: Tier) {
        self.end = self.end.max(pages.end);
        let place = (self.youngest % MOST_GENERATIONS) as u8;
        let flags = PRESENT | if tier == 0 { FAST | place } else { ACTIVE };
        self.flags[pages.start as usize..pages.end as usize].fill(flags);
        if tier != 0 {
            self.slow[1] += pages.end - pages.start;
            return;
        }
        let generation = &mut self.generations[usize::from(place)];
        generation.append(&mut self.entries, &mut self.flags, pages);
    }

    fn freed(&mut self, pages: Range<Page>) {
        for page in pages.clone() {
            self.unlist(page);
            self.flags[page as usize] = 0;
        }
        for generation in &mut self.generations {
            generation.cut(&pages);
        }
    }

    /// In fast memory it joins the end of the youngest generation: a fault has promoted it, or it could not be demoted.
    fn put(&mut self, page: Page, to: Tier) {
        self.unlist(page);
        if to == 0 {
            self.enlist(page);
        } else {
            // Bits of a page that was listed once: it is in no range of untouched ones any more.
            self.flags[page as usize] = PRESENT | LISTED;
            self.slow[0] += 1;
        }
    }

    fn is_isolated(&self, page: Page) -> bool {
        self.has(page, ISOLATED)
    }

    /// Active are the two youngest generations, as in the kernel's statistics.
    fn fast_pages(&self) -> [u32; 2] {
        let all: u32 = self.generations.iter().map(PageQueue::len).sum();
        let active = self.len(self.youngest) + self.len(self.youngest - 1);
        [all - active, active]
    }

    fn slow_pages(&self) -> [u32; 2] {
        self.slow
    }

    /// Ages memory if it is to be, page table by page table.
    fn tend(&mut self, _: u32, looked_at: u64, accessed: &mut dyn AccessedBits) -> Effort {
        if self.aging_at.is_none() {
            self.drop_empty();
            if !self.is_to_age(looked_at) {
                return Effort::default();
            }
        }
        self.age_table(self.aging_at.unwrap_or(0), accessed)
    }

    fn is_tending(&self) -> bool {
        self.aging_at.is_some()
    }

    fn judge(&mut self, accessed: &mut dyn AccessedBits) -> (Verdict, f64) {
        self.drop_empty();
        let page = if self.count() > LEAST_GENERATIONS {
            self.oldest_page()
        } else {
            NIL
        };
        if page == NIL {
            return (Verdict::Empty, PAGE_SCAN_NS);
        }
        if !accessed.test_and_clear(page) {
            self.unlist(page);
            self.set(page, ISOLATED, true);
            return (Verdict::Isolated(page), PAGE_SCAN_NS);
        }
        self.rejuvenate(page);
        let around_ns = if self.has_neighbours {
            self.look_around(page, accessed)
        } else {
            0.0
        };
        (Verdict::Activated, PAGE_SCAN_NS + around_ns)
    }

    fn gauges(&self) -> Vec<Gauge> {
        let gauge = |name, meaning, value: u64| Gauge {
            name,
            meaning,
            value: value as f64,
        };
        vec![
            gauge(
                "youngest_generation",
                "number of the youngest generation",
                self.youngest,
            ),
            gauge("oldest_generation", "number of the oldest generation", self.oldest),
            gauge(
                "agings",
                "passes over accessed bits that opened a generation",
                self.agings,
            ),
            gauge(
                "aged_young_pages",
                "pages that such a pass found accessed",
                self.aged_pages,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Bits(Vec<bool>);

    impl AccessedBits for Bits {
        fn test_and_clear(&mut self, page: Page) -> bool {
            std::mem::take(&mut self.0[page as usize])
        }

        fn test(&mut self, page: Page) -> bool {
            self.0[page as usize]
        }
    }

    /// Fast memory of `fast` pages in front of slow memory, all just mapped.
    fn lists(fast: u32, slow: u32, page_bytes: u64) -> (LruGen, Bits) {
        let mut lists = LruGen::new(fast + slow, page_bytes);
        lists.placed(0..fast, 0);
        lists.placed(fast..fast + slow, 1);
        (lists, Bits(vec![true; (fast + slow) as usize]))
    }

    /// Ages until there is something to evict; how many pages that looked at.
    fn tend(lists: &mut LruGen, bits: &mut Bits) -> u32 {
        let mut looked = 0;
        loop {
            looked += lists.tend(1, u64::MAX, bits).pages;
            if !lists.is_tending() {
                lists.drop_empty();
                if !lists.is_to_age(u64::MAX) {
                    return looked;
                }
            }
        }
    }

    fn judged(lists: &mut LruGen, bits: &mut Bits) -> Verdict {
        lists.judge(bits).0
    }

    #[test]
    fn what_is_not_accessed_between_two_passes_is_evicted_in_order() {
        let (mut lists, mut bits) = lists(4, 2, PAGE_2M);
        // Mapping a page sets its bit, so the first pass finds all and the second none.
        assert_eq!(judged(&mut lists, &mut bits), Verdict::Empty);
        assert_eq!(tend(&mut lists, &mut bits), 8);
        assert_eq!((lists.oldest, lists.youngest), (3, 5));
        bits.0[1] = true;
        assert_eq!(judged(&mut lists, &mut bits), Verdict::Isolated(0));
        assert_eq!(judged(&mut lists, &mut bits), Verdict::Activated);
        assert_eq!(judged(&mut lists, &mut bits), Verdict::Isolated(2));
        lists.put(0, 1);
        lists.put(2, 0); // it could not be moved: as good as new
        assert_eq!(judged(&mut lists, &mut bits), Verdict::Isolated(3));
        assert_eq!(judged(&mut lists, &mut bits), Verdict::Empty);
        assert_eq!((lists.fast_pages(), lists.slow_pages()), ([0, 2], [1, 2]));
        assert_eq!(bits.0, [false, false, false, false, true, true]); // slow memory's bits are nobody's business
    }

    #[test]
    fn uneven_generations_are_aged_only_when_the_first_look_did_not_do() {
        let (mut lists, mut bits) = lists(8192, 0, PAGE_2M);
        tend(&mut lists, &mut bits);
        for page in 0..4097 {
            lists.rejuvenate(page);
        }
        assert!(!lists.is_to_age(1) && lists.is_to_age(2));
        // Half as young is even enough, but then more than a quarter must be old.
        let (mut lists, mut bits) = self::lists(8192, 0, PAGE_2M);
        tend(&mut lists, &mut bits);
        for page in 0..4096 {
            lists.rejuvenate(page);
        }
        assert!(!lists.is_to_age(u64::MAX));
        for page in 4096..6145 {
            lists.unlist(page);
            lists.set(page, ISOLATED, true);
        }
        assert!(lists.is_to_age(u64::MAX));
    }

    #[test]
    fn neighbours_of_an_accessed_page_become_young_with_it() {
        let (mut lists, mut bits) = lists(1024, 0, PAGE_4K);
        tend(&mut lists, &mut bits);
        for page in [0, 63, 64, 600] {
            bits.0[page] = true;
        }
        let (verdict, ns) = lists.judge(&mut bits);
        assert_eq!(verdict, Verdict::Activated);
        assert_eq!(ns, PAGE_SCAN_NS + 64.0 * ENTRY_PASSED_NS + 2.0 * ENTRY_YOUNG_NS);
        assert_eq!([63, 64, 600].map(|page| bits.0[page]), [false, true, true]);
        assert_eq!(judged(&mut lists, &mut bits), Verdict::Isolated(1));
    }

    #[test]
    fn a_sparse_page_table_is_not_visited_until_eviction_finds_it_dense() {
        let (mut lists, mut bits) = lists(1024, 0, PAGE_4K);
        let pass = |lists: &mut LruGen, bits: &mut Bits| {
            let pages: u32 = (0..2).map(|table| lists.age_table(table * 512, bits).pages).sum();
            pages
        };
        assert_eq!(pass(&mut lists, &mut bits), 1024);
        bits.0[0..64].fill(true); // one in eight
        bits.0[512..575].fill(true); // less
        assert_eq!(pass(&mut lists, &mut bits), 1024);
        assert_eq!(pass(&mut lists, &mut bits), 512);
        assert_eq!(pass(&mut lists, &mut bits), 0);
        bits.0[512..520].fill(true);
        while judged(&mut lists, &mut bits) != Verdict::Activated {}
        assert_eq!(pass(&mut lists, &mut bits), 512);
        assert_eq!(lists.agings, 5);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Touch(Range<Page>),
        Judge(u32),
        Tend(u32, u64),
        /// The oldest pages that are isolated arrive.
        Arrive(Tier),
        Promote(Page),
        Replace(u32, Tier),
    }

    const EXTENTS: u32 = 6;
    const EXTENT: u32 = 300;

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let pages = EXTENTS * EXTENT;
        let step = prop_oneof![
            4 => (0..pages, 1..200u32).prop_map(move |(start, length)| Step::Touch(start..(start + length).min(pages))),
            4 => (1..200u32).prop_map(Step::Judge),
            4 => (1..12u32, 0..4000u64).prop_map(|(times, looked)| Step::Tend(times, looked)),
            2 => (0..2u8).prop_map(Step::Arrive),
            2 => (0..pages).prop_map(Step::Promote),
            1 => (0..EXTENTS, 0..2u8).prop_map(|(extent, tier)| Step::Replace(extent, tier)),
        ];
        prop::collection::vec(step, 1..60)
    }

    /// Every page of fast memory is in the one generation that its flags name, unless it is isolated, and the numbers add up.
    fn check(lists: &LruGen, tier: &[Tier], isolated: &[Page]) {
        let mut found = vec![None; tier.len()];
        for (place, generation) in lists.generations.iter().enumerate() {
            let pages: Vec<Page> = generation.iter(&lists.flags).collect();
            assert_eq!(pages.len() as u32, generation.len());
            for page in pages {
                assert_eq!(
                    found[page as usize].replace(place),
                    None,
                    "page {page} in two generations"
                );
            }
            let number = (lists.oldest..=lists.youngest).find(|number| number % MOST_GENERATIONS == place as u64);
            assert!(number.is_some() || generation.is_empty(), "pages outside of the window");
        }
        for (page, tier) in tier.iter().enumerate() {
            let listed = *tier == 0 && !isolated.contains(&(page as Page));
            let named = listed.then_some(usize::from(lists.flags[page] & GENERATION));
            assert_eq!(found[page], named, "page {page} in {tier}");
        }
        let count = |wanted: bool| tier.iter().filter(|tier| (**tier == 0) == wanted).count() as u32;
        assert_eq!(
            lists.fast_pages().iter().sum::<u32>() + isolated.len() as u32,
            count(true)
        );
        assert_eq!(lists.slow_pages().iter().sum::<u32>(), count(false));
        assert!((LEAST_GENERATIONS..=MOST_GENERATIONS).contains(&lists.count()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn no_page_is_in_two_generations(steps in steps(), small in any::<bool>()) {
            let pages = EXTENTS * EXTENT;
            let (mut lists, mut bits) = lists(pages / 2, pages / 2, if small { PAGE_4K } else { PAGE_2M });
            let mut tier: Vec<Tier> = (0..pages).map(|page| Tier::from(page >= pages / 2)).collect();
            let mut isolated: Vec<Page> = Vec::new();
            for step in steps {
                match step {
                    Step::Touch(range) => bits.0[range.start as usize..range.end as usize].fill(true),
                    Step::Judge(times) if !lists.is_tending() => {
                        for _ in 0..times {
                            match lists.judge(&mut bits).0 {
                                Verdict::Isolated(page) => isolated.push(page),
                                Verdict::Empty => break,
                                Verdict::SecondChance | Verdict::Activated => {}
                            }
                        }
                    }
                    Step::Judge(_) => {}
                    Step::Tend(times, looked_at) => {
                        for _ in 0..times {
                            lists.tend(1, looked_at, &mut bits);
                        }
                    }
                    Step::Arrive(to) => {
                        for page in isolated.drain(..isolated.len().div_ceil(2)) {
                            tier[page as usize] = to;
                            lists.put(page, to);
                        }
                    }
                    Step::Promote(page) => {
                        if tier[page as usize] != 0 {
                            tier[page as usize] = 0;
                            lists.put(page, 0);
                        }
                    }
                    Step::Replace(extent, to) => {
                        let range = extent * EXTENT..(extent + 1) * EXTENT;
                        isolated.retain(|page| !range.contains(page));
                        lists.freed(range.clone());
                        lists.placed(range.clone(), to);
                        tier[range.start as usize..range.end as usize].fill(to);
                    }
                }
                check(&lists, &tier, &isolated);
            }
        }
    }
}
