//! `oracle`: the best that placement can do for a program whose accesses are known.
//!
//! Three grades: `static` places every page once, at allocation, by its worth over the whole run (what no
//! system that never moves a page can beat); `free` has in fast memory, at any time, the pages that are
//! worth most now, and moves cost nothing (what no system can beat); `costs` pays for its moves like any
//! other, keeps a rate, and moves only what pays within a horizon.
//!
//! Three ways to say what a page is worth: `freq`, its reads; `stall`, the time that threads wait for it
//! longer in tier 1 than in tier 0, so that reads that overlap or were prefetched count for less;
//! `latency-balanced`, as `stall`, but no more reads go to fast memory than the share p at which the mean
//! latency p Lf(p) + (1 - p) Ls(p) is smallest: under load the fast tier is the slower one beyond that.
//!
//! What had to be decided:
//!
//! - what happens now is taken to go on as it is: the driver calls at every change of phase, so `free` is
//!   never late, but `costs` may move pages for a future that does not come;
//! - a sequential sweep reads all pages of its object equally: not even `free` follows its position;
//! - latencies of balanced shares are as if every stream had the same share in fast memory;
//! - a move costs one thread its duration, and it is worth the stall that it saves within
//!   `horizon_epochs`; an exchange costs two moves;
//! - what is worth nothing stays where it is until its room is needed;
//! - `static` gives objects that live at different times room as if they all lived at once;
//! - with more than two tiers the rest goes to the fastest slow tier with room, in no order of worth.

use serde::{Deserialize, Serialize};

use crate::foreknowledge::{Kind, best_share, fill, for_each_taken, kinds, ranked};
use crate::knob::{Config, KnobError};
use crate::mover::{self, Mover, Room};
use crate::rate_limit::RateLimit;
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::{
    Context, Extent, Gauge, Horizon, Migrated, MigrationMechanics, Nanos, Needs, Outcome, Page, PageMap, Placement,
    Policy, Tier, Topology, Truth,
};

crate::knobs! {
    /// Knobs of `oracle`.
    pub struct OracleConfig for "oracle" {
        /// What moves cost: there are none, they are free, or they cost what a background copy does
        grade: String = "free".to_string(), choice("static", "free", "costs"), unit "", special [], fixed, rebuild,
            source "ours";
        /// What a page is worth: its reads, the stalls it causes, or stalls up to the best share of reads
        value: String = "latency-balanced".to_string(), choice("freq", "stall", "latency-balanced"), unit "",
            special [], fixed, rebuild, source "ours; stalls after PACT, the best share after Colloid";
        /// Time between two looks at what happens now
        epoch_ms: f64 = 100.0, float(10.0, 1000.0, log), unit "ms", special [], fixed, live, when "grade" != "static", source "ours";
        /// Epochs within which a move must pay
        horizon_epochs: u32 = 8, int(1, 32, log), unit "epochs", special [], fixed, live,
            when "grade" = "costs", source "ours";
        /// Most bytes moved per second, both directions together
        max_migration_gbps: f64 = 10.0, float(0.1, 32.0, log), unit "GB/s", special [], fixed, live,
            when "grade" = "costs", source "as hemem's max_migration_rate; range ours";
    }
}

/// A set of pages, a bit each.
#[derive(Clone, Serialize, Deserialize)]
struct Pages(Vec<u64>);

impl Pages {
    fn none(pages: u32) -> Self {
        Self(vec![0; (pages as usize).div_ceil(64)])
    }

    fn has(&self, page: Page) -> bool {
        self.0[page as usize / 64] & (1 << (page % 64)) != 0
    }

    fn set(&mut self, page: Page, member: bool) {
        let (word, bit) = (&mut self.0[page as usize / 64], 1 << (page % 64));
        *word = if member { *word | bit } else { *word & !bit };
    }
}

/// A page that comes to fast memory, one that leaves it, or both for each other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Exchange {
    comes: Option<Page>,
    leaves: Option<Page>,
}

#[derive(Serialize, Deserialize)]
struct Oracle {
    config: OracleConfig,
    topology: Topology,
    exists: Pages,
    /// Tiers by page for the static grade; empty until the first allocation.
    tier_of: Vec<Tier>,
    /// What was known when the plan was made; it holds until that changes.
    known: Vec<Kind>,
    known_ns: Vec<f64>,
    /// What of the plan is still to be done, the last first.
    plan: Vec<Exchange>,
    mover: Mover,
    limit: RateLimit,
}

impl Oracle {
    fn new(config: OracleConfig, topology: &Topology) -> Self {
        let mover = Mover::new(config.epoch_ms);
        let rate = (config.max_migration_gbps * 1e9).round() as u64;
        let burst = (rate as f64 * mover.period_ns() as f64 / 1e9) as u64;
        Self {
            // A page must fit, however low the rate is.
            limit: RateLimit::new(rate, burst.max(2 * topology.page_bytes)),
            mover,
            exists: Pages::none(topology.pages),
            tier_of: Vec::new(),
            known: Vec::new(),
            known_ns: Vec::new(),
            plan: Vec::new(),
            topology: topology.clone(),
            config,
        }
    }

    /// What one page is worth in tier 0, in nanoseconds of waiting over the kind's span.
    fn worth(&self, kind: &Kind, latency_ns: &[f64]) -> f64 {
        match self.config.value.as_str() {
            "freq" => kind.reads * (latency_ns[1] - latency_ns[0]).max(0.0),
            _ => kind.stall_ns,
        }
    }

    /// How many pages of each kind belong into `room` pages of fast memory.
    fn best(&self, truth: &dyn Truth, horizon: Horizon, kinds: &[Kind], room: u32) -> Vec<u32> {
        // By frequency the price of a read does not change the order.
        let order = match self.config.value.as_str() {
            "freq" => ranked(kinds, |kind| kind.reads),
            _ => ranked(kinds, |kind| kind.stall_ns),
        };
        let mut taken = fill(kinds, &order, room);
        let all: f64 = kinds.iter().map(|kind| f64::from(kind.pages) * kind.reads).sum();
        if self.config.value == "latency-balanced" && all > 0.0 {
            let reads = |kind: usize, pages: u32| kinds[kind].reads * f64::from(pages) / all;
            let most: f64 = order.iter().map(|kind| reads(*kind, taken[*kind])).sum();
            let best = best_share(truth, horizon, self.topology.capacity_pages.len(), most);
            let mut left = if best < most { best } else { f64::INFINITY };
            for kind in order {
                let per_page = reads(kind, 1);
                if per_page * f64::from(taken[kind]) > left {
                    taken[kind] = (left / per_page).round() as u32;
                }
                left = (left - reads(kind, taken[kind])).max(0.0);
            }
        }
        taken
    }

    /// Room in fast memory for pages that exist: what they have there, and what is free.
    fn room(&self, pages: &dyn PageMap) -> u32 {
        let own = (0..self.topology.pages).filter(|page| self.exists.has(*page) && pages.tier_of(*page) == 0);
        own.count() as u32 + pages.free_pages(0)
    }

    fn replan(&mut self, truth: &dyn Truth, cx: &Context<'_>) {
        let kinds = kinds(truth, Horizon::Now);
        // Co-runners come and go without a change in what is read.
        let even = vec![1.0 / self.topology.capacity_pages.len() as f64; self.topology.capacity_pages.len()];
        let loaded_ns = truth.latency_at(Horizon::Now, &even);
        if (&kinds, &loaded_ns) == (&self.known, &self.known_ns) {
            return;
        }
        let taken = self.best(truth, Horizon::Now, &kinds, self.room(cx.pages));
        let (mut comers, mut leavers, mut nth) = (Vec::new(), Vec::new(), 0);
        let (mut fast_reads, mut all_reads) = (0.0, 0.0);
        truth.for_each(Horizon::Now, &mut |alike| {
            let pages = || {
                (0..alike.pages)
                    .map(|n| (alike.page)(n))
                    .filter(|page| self.exists.has(*page))
            };
            let is_fast = |page: &Page| cx.pages.tier_of(*page) == 0;
            let mut left = taken[nth];
            // Pages of a kind are as good as each other, so those that are there stay.
            all_reads += alike.reads * f64::from(alike.pages);
            for page in pages().filter(is_fast) {
                fast_reads += alike.reads;
                if left == 0 {
                    leavers.push((nth, page));
                }
                left = left.saturating_sub(1);
            }
            comers.extend(
                pages()
                    .filter(|page| !is_fast(page))
                    .take(left as usize)
                    .map(|page| (nth, page)),
            );
            nth += 1;
        });
        let mut shares = vec![0.0; self.topology.capacity_pages.len()];
        shares[0] = if all_reads > 0.0 { fast_reads / all_reads } else { 0.0 };
        shares[1] = 1.0 - shares[0];
        let latency_ns = truth.latency_at(Horizon::Now, &shares);
        self.plan = self.pair(&kinds, &latency_ns, cx.pages.free_pages(0), comers, leavers);
        self.plan.reverse();
        (self.known, self.known_ns) = (kinds, loaded_ns);
    }

    /// Who comes and who leaves, in the order in which it pays.
    fn pair(
        &self,
        kinds: &[Kind],
        latency_ns: &[f64],
        mut room: u32,
        mut comers: Vec<(usize, Page)>,
        mut leavers: Vec<(usize, Page)>,
    ) -> Vec<Exchange> {
        let worth = |kind: usize| self.worth(&kinds[kind], latency_ns);
        comers.sort_by(|one, other| worth(other.0).total_cmp(&worth(one.0)));
        leavers.sort_by(|one, other| worth(one.0).total_cmp(&worth(other.0)));
        let free = self.config.grade == "free";
        let mechanics = self.mechanics();
        let move_ns = mechanics.fixed_ns as f64 + self.topology.page_bytes as f64 / mechanics.copy_gbps;
        let horizon_s = f64::from(self.config.horizon_epochs) * self.mover.period_ns() as f64 / 1e9;
        let mut plan = Vec::new();
        let mut leaving = leavers.into_iter();
        for (kind, page) in comers {
            let (mut gain, mut cost, mut leaves) = (worth(kind), move_ns, None);
            if room == 0 {
                let Some((victim_kind, victim)) = leaving.next() else {
                    break;
                };
                gain -= worth(victim_kind);
                cost += move_ns;
                leaves = Some(victim);
            } else {
                room -= 1;
            }
            if !free && gain * horizon_s <= cost {
                break; // Nobody after this one gains more, at less cost.
            }
            plan.push(Exchange {
                comes: Some(page),
                leaves,
            });
        }
        if self.config.value == "latency-balanced" {
            // Reads beyond the best share are better off below when fast memory is the slower one.
            let slower_ns = (latency_ns[0] - latency_ns[1]).max(0.0);
            let pays = |kind: usize| free || kinds[kind].reads * slower_ns * horizon_s > move_ns;
            let beyond = leaving.filter(|(kind, _)| kinds[*kind].reads > 0.0 && pays(*kind));
            plan.extend(beyond.map(|(_, page)| Exchange {
                comes: None,
                leaves: Some(page),
            }));
        }
        plan
    }

    fn act(&mut self, cx: &mut Context<'_>) {
        let Some(truth) = cx.truth else { return };
        self.replan(truth, cx);
        let free = self.config.grade == "free";
        let mut room = Room::now(cx.pages, self.topology.capacity_pages.len());
        self.limit.fill(cx.now);
        while let Some(Exchange { comes, leaves }) = self.plan.pop() {
            let moves = u64::from(comes.is_some()) + u64::from(leaves.is_some());
            let below = room.below();
            let fits =
                (leaves.is_none() || below.is_some()) && (comes.is_none() || leaves.is_some() || room.is_in_fast());
            if !fits || !(free || self.limit.take(moves * self.topology.page_bytes)) {
                self.plan.push(Exchange { comes, leaves });
                break;
            }
            let steps = leaves.into_iter().zip(below).chain(comes.map(|page| (page, 0)));
            for (page, to) in steps {
                room.moved(cx.pages.tier_of(page), to);
                if free {
                    cx.migrate_free(page, to);
                } else {
                    self.mover.ask(page, to, cx);
                }
            }
        }
    }

    fn period_ns(&self) -> Nanos {
        self.mover.period_ns()
    }
}

impl Policy for Oracle {
    crate::saves_itself!();

    fn needs(&self) -> Needs {
        Needs {
            truth: true,
            ..Needs::default()
        }
    }

    fn mechanics(&self) -> MigrationMechanics {
        mover::mechanics(self.topology.page_bytes)
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.known.clear();
        let pages = extent.start..extent.start + extent.pages;
        pages.clone().for_each(|page| self.exists.set(page, true));
        if self.config.grade != "static" {
            return Placement::FastestFree;
        }
        if let (true, Some(truth)) = (self.tier_of.is_empty(), cx.truth) {
            let kinds = kinds(truth, Horizon::Run);
            let taken = self.best(truth, Horizon::Run, &kinds, self.topology.capacity_pages[0]);
            self.tier_of = vec![1; self.topology.pages as usize];
            for_each_taken(truth, Horizon::Run, &taken, |page| self.tier_of[page as usize] = 0);
        }
        Placement::ByPage(self.tier_of[pages.start as usize..pages.end as usize].to_vec())
    }

    fn on_free(&mut self, extent: &Extent, _: &mut Context<'_>) {
        self.known.clear();
        self.plan.clear();
        (extent.start..extent.start + extent.pages).for_each(|page| self.exists.set(page, false));
    }

    fn on_migrations(&mut self, ended: &[Migrated], _: bool, cx: &mut Context<'_>) {
        if ended.iter().any(|migrated| migrated.outcome != Outcome::Done) {
            self.known.clear();
        }
        if self.config.grade == "costs" {
            self.mover.arrived(ended, cx);
        }
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        match self.config.grade.as_str() {
            "static" => {}
            "free" => {
                self.act(cx);
                cx.wake_at(cx.now + self.period_ns());
            }
            _ => {
                if self.mover.begin(cx.now) {
                    self.act(cx);
                    self.mover.decided(cx);
                }
            }
        }
    }

    fn gauges(&self) -> Vec<Gauge> {
        vec![
            Gauge {
                name: "planned_exchanges",
                meaning: "pages that are still to come to or leave fast memory",
                value: self.plan.len() as f64,
            },
            Gauge {
                name: "failed_moves",
                meaning: "moves that found no space",
                value: self.mover.failed_moves() as f64,
            },
        ]
    }
}

/// The registry entry.
pub const SYSTEM: System = System {
    name: "oracle",
    summary: "the most valuable pages in fast memory, known beforehand; moves cost nothing, or what they cost",
    source: "offline bound; values after PACT and Colloid",
    signal: "the truth, which only a simulator knows",
    page_bytes: &[PAGE_2M, PAGE_4K],
    knobs: OracleConfig::knobs,
    build,
};

fn build(config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    Ok(Box::new(Oracle::new(OracleConfig::from_config(config)?, topology)))
}
