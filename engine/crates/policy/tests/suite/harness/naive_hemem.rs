//! `hemem` once more, as plainly as it can be written: wide counts, lists as vectors, everything
//! stored where the description has it. Slow, and there to be compared with.

use std::collections::VecDeque;

use tiertune_policy::hemem::HememConfig;
use tiertune_policy::{
    Context, Event, Extent, How, Migrated, Nanos, Page, PageMap, Placement, Policy, Sample, Topology,
};

#[derive(Clone, Copy, PartialEq, Debug)]
enum List {
    FastHot,
    FastCold,
    SlowHot,
    SlowCold,
}

#[derive(Clone, Default)]
struct PageState {
    managed: bool,
    fast_loads: u64,
    slow_loads: u64,
    stores: u64,
    clock: u32,
    hot: bool,
    requested: bool,
}

pub struct NaiveHemem {
    config: HememConfig,
    topology: Topology,
    pages: Vec<PageState>,
    lists: Vec<(List, Vec<Page>)>,
    arrived: Vec<Extent>,
    hot_ring: VecDeque<Page>,
    cold_ring: VecDeque<Page>,
    clock: u32,
    samples: u64,
    need_cool: [bool; 2],
    /// Per side, what is left of a walk over the hot list.
    walks: [Vec<Page>; 2],
    /// Per side, as published: the page that was looked at last, and the one at which a walk ends.
    looked_at: [Option<Page>; 2],
    ends_at: [Option<Page>; 2],
    /// What may still be promoted, in rate mode per second.
    allowance_bytes: f64,
    tick_start: Nanos,
    in_flight: usize,
}

impl NaiveHemem {
    pub fn new(config: HememConfig, topology: &Topology) -> Self {
        use List::{FastCold, FastHot, SlowCold, SlowHot};
        let mut naive = Self {
            topology: topology.clone(),
            pages: vec![PageState::default(); topology.pages as usize],
            lists: [FastHot, FastCold, SlowHot, SlowCold]
                .map(|list| (list, Vec::new()))
                .into(),
            arrived: Vec::new(),
            hot_ring: VecDeque::new(),
            cold_ring: VecDeque::new(),
            clock: 0,
            samples: 0,
            need_cool: [false; 2],
            walks: [Vec::new(), Vec::new()],
            looked_at: [None; 2],
            ends_at: [None; 2],
            allowance_bytes: 0.0,
            tick_start: 0,
            in_flight: 0,
            config,
        };
        naive.allowance_bytes = naive.bucket_bytes();
        naive
    }

    fn period_ns(&self) -> Nanos {
        if self.config.migration_period_ms == 0.0 {
            1_000_000
        } else {
            (self.config.migration_period_ms * 1e6).round() as Nanos
        }
    }

    fn rate_bytes(&self) -> f64 {
        self.config.max_migration_rate_gib * 1024.0 * 1024.0 * 1024.0
    }

    fn bucket_bytes(&self) -> f64 {
        self.rate_bytes() * self.period_ns() as f64 / 1e9 + self.topology.page_bytes as f64
    }

    fn list(&mut self, list: List) -> &mut Vec<Page> {
        &mut self
            .lists
            .iter_mut()
            .find(|(name, _)| *name == list)
            .expect("all four exist")
            .1
    }

    fn put(&mut self, page: Page, fast: bool) {
        let list = match (fast, self.pages[page as usize].hot) {
            (true, true) => List::FastHot,
            (true, false) => List::FastCold,
            (false, true) => List::SlowHot,
            (false, false) => List::SlowCold,
        };
        self.list(list).push(page);
    }

    fn take(&mut self, page: Page) {
        for (side, list) in [List::FastHot, List::SlowHot].into_iter().enumerate() {
            if self.looked_at[side] == Some(page) {
                let mut newer = self.list(list).iter().skip_while(|other| **other != page).skip(1);
                self.looked_at[side] = newer.next().copied();
            }
        }
        self.lists
            .iter_mut()
            .for_each(|(_, pages)| pages.retain(|other| *other != page));
        self.walks
            .iter_mut()
            .for_each(|walk| walk.retain(|other| *other != page));
    }

    fn admit(&mut self, map: &dyn PageMap) {
        for extent in std::mem::take(&mut self.arrived) {
            for page in extent.start..extent.start + extent.pages {
                self.pages[page as usize].managed = true;
                self.put(page, map.tier_of(page) == 0);
            }
        }
    }

    fn is_hot(&self, page: Page, halvings: u32) -> bool {
        let state = &self.pages[page as usize];
        let halved = |count: u64| count >> halvings.min(63);
        halved(state.stores) >= u64::from(self.config.write_hot_threshold)
            || halved(state.fast_loads) + halved(state.slow_loads) >= u64::from(self.config.read_hot_threshold)
    }

    fn sample(&mut self, sample: Sample) {
        self.samples += 1;
        let counted = sample.event == Event::LoadMiss || self.config.use_store_samples;
        let index = sample.page as usize;
        if self.pages[index].managed && counted {
            *count_of(&mut self.pages[index], sample) += 1;
            let hot = self.is_hot(sample.page, 0);
            let state = &self.pages[index];
            if hot != state.hot && !state.requested {
                let ring = if hot { &mut self.hot_ring } else { &mut self.cold_ring };
                if (ring.len() as u64) < self.config.ring_capacity {
                    ring.push_back(sample.page);
                    self.pages[index].requested = true;
                }
            }
            let halvings = (self.clock - self.pages[index].clock).min(63);
            let state = &mut self.pages[index];
            state.fast_loads >>= halvings;
            state.slow_loads >>= halvings;
            state.stores >>= halvings;
            state.clock = self.clock;
            let count = *count_of(state, sample);
            if !self.config.sample_based_cooling && count > u64::from(self.config.cooling_threshold) {
                self.cool_all();
            }
        }
        if self.config.sample_based_cooling && self.samples % u64::from(self.config.sample_cooling_interval) == 0 {
            self.cool_all();
        }
    }

    fn cool_all(&mut self) {
        self.clock += 1;
        self.need_cool = [true; 2];
    }

    fn serve(&mut self, hot: bool, limit: u32, map: &dyn PageMap) {
        for _ in 0..limit {
            let ring = if hot { &mut self.hot_ring } else { &mut self.cold_ring };
            let Some(page) = ring.pop_front() else { return };
            self.pages[page as usize].requested = false;
            if self.pages[page as usize].hot != hot {
                self.take(page);
                self.pages[page as usize].hot = hot;
                self.put(page, map.tier_of(page) == 0);
            }
        }
    }

    /// `false` when it ended early.
    fn promote(&mut self, cx: &mut Context<'_>) -> bool {
        let page_bytes = self.topology.page_bytes as f64;
        let per_tick = self.config.rate_mode == "per_tick";
        let mut free: Vec<i64> = (0..self.topology.capacity_pages.len())
            .map(|tier| i64::from(cx.pages.free_pages(tier as u8)))
            .collect();
        let mut moved = 0.0;
        loop {
            // A hair of tolerance, because this model adds up fractions and the real one integers.
            let allowed = if per_tick {
                moved < self.rate_bytes()
            } else {
                self.allowance_bytes + 1e-3 >= page_bytes
            };
            let Some(page) = self.list(List::SlowHot).first().copied().filter(|_| allowed) else {
                return true;
            };
            let looked_at = self.looked_at[1] == Some(page);
            self.take(page);
            if looked_at {
                self.looked_at[1] = self.list(List::SlowHot).last().copied();
            }
            if !self.is_hot(page, 0) {
                self.pages[page as usize].hot = false;
                self.put(page, false);
                continue;
            }
            if free[0] <= 0 {
                let victim = self.list(List::FastCold).first().copied();
                let below = (1..free.len()).find(|tier| free[*tier] > 0);
                let (Some(victim), Some(below)) = (victim, below) else {
                    self.put(page, false);
                    return false;
                };
                self.take(victim);
                cx.migrate(victim, below as u8);
                self.in_flight += 1;
                free[0] += 1;
                free[below] -= 1;
            }
            cx.migrate(page, 0);
            self.in_flight += 1;
            free[0] -= 1;
            free[usize::from(cx.pages.tier_of(page))] += 1;
            moved += page_bytes;
            self.allowance_bytes -= page_bytes;
        }
    }

    fn cool(&mut self, fast: bool) {
        let side = usize::from(!fast);
        let list = if fast { List::FastHot } else { List::SlowHot };
        if !self.need_cool[side] {
            return;
        }
        if !self.config.cooling_ends_at_newest {
            self.cool_as_published(side, list);
            return;
        }
        if self.walks[side].is_empty() {
            self.walks[side] = self.list(list).clone();
        }
        if self.walks[side].is_empty() {
            return;
        }
        for _ in 0..self.config.cooling_pages {
            let Some(page) = self.walks[side].first().copied() else {
                break;
            };
            self.walks[side].remove(0);
            if !self.is_hot(page, self.clock - self.pages[page as usize].clock) {
                self.take(page);
                self.pages[page as usize].hot = false;
                self.put(page, fast);
            } else if !self.config.cool_in_place {
                self.list(list).retain(|other| *other != page);
                self.list(list).push(page);
            }
        }
        self.need_cool[side] = !self.walks[side].is_empty();
    }

    fn cool_as_published(&mut self, side: usize, list: List) {
        if self.ends_at[side].is_none() {
            self.ends_at[side] = self.list(list).first().copied();
        }
        for _ in 0..self.config.cooling_pages {
            let pages = self.list(list).clone();
            let last = self.looked_at[side].filter(|_| self.config.cool_in_place);
            let at = last.map_or(0, |last| {
                1 + pages.iter().position(|page| *page == last).expect("it is in the list")
            });
            let Some(page) = pages.get(at).copied() else { break };
            if self.ends_at[side] == Some(page) {
                self.ends_at[side] = None;
                self.need_cool[side] = false;
            }
            let hot = self.is_hot(page, self.clock - self.pages[page as usize].clock);
            if self.config.cool_in_place {
                self.looked_at[side] = if hot { Some(page) } else { last };
            }
            if !hot || !self.config.cool_in_place {
                self.take(page);
                self.pages[page as usize].hot = hot;
                self.put(page, side == 0);
            }
        }
    }
}

fn count_of(state: &mut PageState, sample: Sample) -> &mut u64 {
    match (sample.event, sample.tier) {
        (Event::Store, _) => &mut state.stores,
        (Event::LoadMiss, 0) => &mut state.fast_loads,
        (Event::LoadMiss | Event::SlowLoadMiss, _) => &mut state.slow_loads,
    }
}

impl Policy for NaiveHemem {
    fn mechanics(&self) -> tiertune_policy::MigrationMechanics {
        tiertune_policy::MigrationMechanics {
            alone_fixed_ns: 500_000,
            run_fixed_ns: 500_000,
            remap_ns: 4_000,
            lanes: 1,
            fixed_ns: if self.topology.page_bytes == 4096 {
                11_500
            } else {
                500_000
            },
            copy_gbps: 9.0,
            mode: tiertune_policy::CopyMode::WriteProtected,
            shootdowns: 0.0,
        }
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.admit(cx.pages);
        if u64::from(extent.pages) * self.topology.page_bytes >= self.config.mmap_filter_size_bytes {
            self.arrived.push(extent.clone());
            return Placement::FastestFree;
        }
        // Managed pages give way, before the run those that came last.
        let mut free: Vec<i64> = (0..self.topology.capacity_pages.len())
            .map(|tier| i64::from(cx.pages.free_pages(tier as u8)))
            .collect();
        for _ in 0..(i64::from(extent.pages) - free[0]).max(0) {
            let cold = self.list(List::FastCold);
            let victim = if cx.now == 0 { cold.last() } else { cold.first() }.copied();
            let below = (1..free.len()).find(|tier| free[*tier] > 0);
            let (Some(victim), Some(below)) = (victim, below) else {
                break;
            };
            self.take(victim);
            cx.reclaim(victim, below as u8);
            free[below] -= 1;
        }
        Placement::FastestFree
    }

    fn on_samples(&mut self, samples: &[Sample], cx: &mut Context<'_>) {
        self.admit(cx.pages);
        samples.iter().for_each(|sample| self.sample(*sample));
    }

    fn on_migrations(&mut self, ended: &[Migrated], _: bool, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        for migrated in ended {
            self.put(migrated.request.page, cx.pages.tier_of(migrated.request.page) == 0);
        }
        let copied = ended
            .iter()
            .filter(|migrated| migrated.request.how != How::Reclaim)
            .count();
        self.in_flight -= copied;
        if self.in_flight == 0 && copied > 0 {
            cx.wake_at(cx.now.max(self.tick_start + self.period_ns()));
        }
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        if self.in_flight > 0 {
            return;
        }
        let earned = self.rate_bytes() * (cx.now - self.tick_start) as f64 / 1e9;
        self.allowance_bytes = self.bucket_bytes().min(self.allowance_bytes + earned);
        self.tick_start = cx.now;
        self.serve(true, self.config.hot_ring_reqs_threshold, cx.pages);
        self.serve(false, self.config.cold_ring_reqs_threshold, cx.pages);
        if self.promote(cx) || self.config.cool_when_full {
            self.cool(true);
            self.cool(false);
        }
        if self.in_flight == 0 {
            cx.wake_at(cx.now + self.period_ns());
        }
    }
}
