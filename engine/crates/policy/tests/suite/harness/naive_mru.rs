//! `mru` as its description has it, in the plainest words: lists are vectors, times are a table,
//! every page of fast memory is listed. What the fast one decides has to be the same.

use tiertune_policy::mru::MruConfig;
use tiertune_policy::{
    Context, CopyMode, Extent, Migrated, MigrationMechanics, Nanos, Page, PageMap, Placement, Policy, Sample, Topology,
};

pub struct NaiveMru {
    config: MruConfig,
    topology: Topology,
    seen_at: Vec<Nanos>,
    moving: Vec<bool>,
    /// The next victim first.
    fast: Vec<Page>,
    /// The next candidate last.
    slow: Vec<Page>,
    arrived: Vec<(Extent, Nanos)>,
    tick_start: Nanos,
    in_flight: usize,
}

impl NaiveMru {
    pub fn new(config: MruConfig, topology: &Topology) -> Self {
        Self {
            config,
            topology: topology.clone(),
            seen_at: vec![0; topology.pages as usize],
            moving: vec![false; topology.pages as usize],
            fast: Vec::new(),
            slow: Vec::new(),
            arrived: Vec::new(),
            tick_start: 0,
            in_flight: 0,
        }
    }

    fn period_ns(&self) -> Nanos {
        (self.config.period_ms * 1e6).round() as Nanos
    }

    fn admit(&mut self, pages: &dyn PageMap) {
        for (extent, at) in std::mem::take(&mut self.arrived) {
            for page in extent.start..extent.start + extent.pages {
                if pages.tier_of(page) == 0 {
                    self.seen_at[page as usize] = at;
                    self.fast.push(page);
                }
            }
        }
    }

    fn see(&mut self, page: Page, now: Nanos, pages: &dyn PageMap) {
        let seen_before = self.seen_at[page as usize];
        self.seen_at[page as usize] = now;
        let listed = self.fast.contains(&page) || self.slow.contains(&page);
        if self.moving[page as usize] || (listed && seen_before == now) {
            return; // the first sample at a time decides about a page's turn
        }
        if pages.tier_of(page) != 0 {
            self.slow.retain(|other| *other != page);
            self.slow.push(page);
        } else if self.config.variant == "recency" {
            self.fast.retain(|other| *other != page);
            self.fast.push(page);
        }
    }

    fn ask(&mut self, page: Page, to: u8, cx: &mut Context<'_>) {
        self.fast.retain(|other| *other != page);
        self.slow.retain(|other| *other != page);
        self.moving[page as usize] = true;
        self.in_flight += 1;
        cx.migrate(page, to);
    }

    fn promote(&mut self, cx: &mut Context<'_>) {
        let tiers = self.topology.capacity_pages.len();
        let mut free: Vec<u32> = (0..tiers).map(|tier| cx.pages.free_pages(tier as u8)).collect();
        let below = |free: &[u32]| (1..tiers).find(|tier| free[*tier] > 0);
        let fifo = self.config.variant == "fifo";
        if fifo && self.config.background_evict && !self.fast.is_empty() {
            if let Some(below) = below(&free) {
                free[0] += 1;
                free[below] -= 1;
                self.ask(self.fast[0], below as u8, cx);
            }
        }
        for _ in 0..self.config.batch_pages {
            let window = (self.config.window_ms * 1e6).round() as Nanos;
            let old = |page: &Page| self.seen_at[*page as usize] + window < cx.now;
            while self.slow.last().is_some_and(old) {
                self.slow.pop();
            }
            let Some(page) = self.slow.last().copied() else { break };
            if free[0] == 0 {
                let (Some(victim), Some(below)) = (self.fast.first().copied(), below(&free)) else {
                    break;
                };
                let hysteresis = (self.config.hysteresis_ms * 1e6).round() as Nanos;
                if !fifo && self.seen_at[page as usize] <= self.seen_at[victim as usize] + hysteresis {
                    break;
                }
                free[0] += 1;
                free[below] -= 1;
                self.ask(victim, below as u8, cx);
            }
            free[0] -= 1;
            free[usize::from(cx.pages.tier_of(page))] += 1;
            self.ask(page, 0, cx);
        }
    }
}

impl Policy for NaiveMru {
    fn mechanics(&self) -> MigrationMechanics {
        MigrationMechanics {
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
            mode: CopyMode::WriteProtected,
            shootdowns: 0.0,
        }
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.admit(cx.pages);
        self.arrived.push((extent.clone(), cx.now));
        Placement::FastestFree
    }

    fn on_samples(&mut self, samples: &[Sample], cx: &mut Context<'_>) {
        self.admit(cx.pages);
        samples
            .iter()
            .for_each(|sample| self.see(sample.page, cx.now, cx.pages));
    }

    fn on_migrations(&mut self, ended: &[Migrated], _: bool, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        for migrated in ended {
            let page = migrated.request.page;
            self.moving[page as usize] = false;
            if cx.pages.tier_of(page) == 0 {
                self.fast.push(page);
            } else if migrated.request.to == 0 {
                self.slow.push(page);
            }
        }
        self.in_flight -= ended.len();
        if self.in_flight == 0 && !ended.is_empty() {
            cx.wake_at(cx.now.max(self.tick_start + self.period_ns()));
        }
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        if self.in_flight > 0 {
            return;
        }
        self.tick_start = cx.now;
        self.promote(cx);
        if self.in_flight == 0 {
            cx.wake_at(cx.now + self.period_ns());
        }
    }
}
