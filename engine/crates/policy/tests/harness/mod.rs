//! A machine in memory and a virtual clock: the smallest driver that keeps the promises of
//! `tiertune_policy::policy`, and holds policies to theirs.

#![allow(dead_code)] // each test crate uses its own part of this

pub mod naive_hemem;
pub mod naive_mru;
pub mod script;
pub mod workload;

use std::collections::VecDeque;

use tiertune_policy::{
    Context, CounterRng, Event, Extent, Migrated, MigrationMechanics, Move, Nanos, Outcome, Page, PageMap, Placement,
    Policy, Sample, Tier, Topology,
};

pub const MS: Nanos = 1_000_000;
/// A policy that asks for this many wake-ups without letting time pass will never let it pass.
const WAKES_WITHOUT_TIME: u32 = 10_000;

/// Where pages are.
pub struct Pages {
    tiers: Vec<Option<Tier>>,
    capacity: Vec<u32>,
    used: Vec<u32>,
}

impl PageMap for Pages {
    fn tier_of(&self, page: Page) -> Tier {
        self.tiers[page as usize].expect("policies are told of pages before they ask about them")
    }

    fn free_pages(&self, tier: Tier) -> u32 {
        self.capacity[usize::from(tier)] - self.used[usize::from(tier)]
    }
}

impl Pages {
    fn place(&mut self, extent: &Extent, placement: Placement) {
        for (nth, page) in (extent.start..extent.start + extent.pages).enumerate() {
            let mut order: Vec<usize> = (0..self.capacity.len()).collect();
            match placement {
                Placement::FastestFree => {}
                Placement::SlowestFree => order.reverse(),
                Placement::FastUnbounded => self.capacity[0] = u32::MAX,
                Placement::Interleaved(interleave) => {
                    // The round written out, tier by tier.
                    let mut round = vec![0; interleave.weight_fast.into()];
                    for tier in 1..order.len() {
                        round.extend(vec![tier; interleave.weight_slow.into()]);
                    }
                    order.rotate_left(round[(interleave.position as usize + nth) % round.len()]);
                }
            }
            let tier = order.into_iter().find(|tier| self.used[*tier] < self.capacity[*tier]);
            let tier = tier.expect("the test machine holds the footprint");
            self.used[tier] += 1;
            self.tiers[page as usize] = Some(tier as Tier);
        }
    }
}

/// What happened, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    Wake(Nanos),
    Ask { at: Nanos, from: Tier, request: Move },
    Ended(Migrated),
}

/// A policy under test on its machine.
pub struct Driver {
    pub policy: Box<dyn Policy>,
    pub pages: Pages,
    pub now: Nanos,
    pub log: Vec<Entry>,
    /// Pages per tier that somebody else takes between the next requests and their execution.
    pub race: Option<(Tier, u32)>,
    /// Pages per tier that somebody else holds.
    taken: Vec<i64>,
    page_bytes: u64,
    mechanics: MigrationMechanics,
    rng: CounterRng,
    wake_at: Option<Nanos>,
    waiting: VecDeque<Move>,
    running: Vec<(Nanos, Move)>,
    ended: Vec<Migrated>,
}

impl Driver {
    pub fn new(policy: Box<dyn Policy>, topology: &Topology) -> Self {
        Self {
            mechanics: policy.mechanics(),
            policy,
            pages: Pages {
                tiers: vec![None; topology.pages as usize],
                capacity: topology.capacity_pages.clone(),
                used: vec![0; topology.capacity_pages.len()],
            },
            now: 0,
            log: Vec::new(),
            race: None,
            taken: vec![0; topology.capacity_pages.len()],
            page_bytes: topology.page_bytes,
            rng: CounterRng::new(1, &[]),
            wake_at: Some(0),
            waiting: VecDeque::new(),
            running: Vec::new(),
            ended: Vec::new(),
        }
    }

    pub fn tier_of(&self, page: Page) -> Tier {
        self.pages.tier_of(page)
    }

    /// The tier of a page, `None` before its allocation.
    pub fn placed(&self, page: Page) -> Option<Tier> {
        self.pages.tiers[page as usize]
    }

    /// One more than the last page that was allocated.
    pub fn existing_pages(&self) -> Page {
        self.pages
            .tiers
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |last| last as Page + 1)
    }

    pub fn tiers(&self) -> usize {
        self.pages.capacity.len()
    }

    pub fn used(&self, tier: Tier) -> u32 {
        self.pages.used[usize::from(tier)]
    }

    pub fn capacity(&self, tier: Tier) -> u32 {
        self.pages.capacity[usize::from(tier)]
    }

    /// Pages of a tier that somebody else holds.
    pub fn taken(&self, tier: Tier) -> u32 {
        u32::try_from(self.taken[usize::from(tier)]).expect("not more is given back than was taken")
    }

    /// Free pages of all tiers.
    pub fn free_pages(&self) -> u32 {
        (0..self.tiers()).map(|tier| self.pages.free_pages(tier as Tier)).sum()
    }

    /// Whether no migration is under way.
    pub fn idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty() && self.ended.is_empty()
    }

    /// Takes pages of a tier for somebody else, or gives them back.
    pub fn occupy(&mut self, tier: Tier, pages: i64) {
        let index = usize::from(tier);
        let used = i64::from(self.pages.used[index]) + pages;
        assert!(
            used <= i64::from(self.pages.capacity[index]),
            "tier {tier} has no {pages} free pages"
        );
        self.taken[index] += pages;
        self.pages.used[index] = u32::try_from(used).expect("not more is given back than was taken");
    }

    pub fn alloc(&mut self, start: Page, pages: u32) {
        let extent = Extent { start, pages };
        let placement = self.call(|policy, cx| policy.on_alloc(&extent, cx));
        self.pages.place(&extent, placement);
    }

    /// Delivers samples of the given pages and events, with the tiers that the pages are in.
    pub fn sample(&mut self, accesses: &[(Page, Event)]) {
        let sample = |(page, event): &(Page, Event)| Sample {
            page: *page,
            tier: self.tier_of(*page),
            event: *event,
        };
        let samples: Vec<Sample> = accesses.iter().map(sample).collect();
        self.call(|policy, cx| policy.on_samples(&samples, cx));
    }

    /// Lets time pass until `end`, wake-ups and ends of migrations at `end` included.
    pub fn run_until(&mut self, end: Nanos) {
        let mut wakes_now = 0;
        loop {
            self.deliver();
            let next_end = self.running.iter().map(|(at, _)| *at).min();
            let next_wake = self.wake_at.map(|at| at.max(self.now));
            let Some(next) = next_end.into_iter().chain(next_wake).min().filter(|at| *at <= end) else {
                break;
            };
            wakes_now = if next == self.now { wakes_now + 1 } else { 0 };
            assert!(
                wakes_now < WAKES_WITHOUT_TIME,
                "the policy lets no time pass at {next} ns"
            );
            self.now = next;
            if next_end == Some(next) {
                self.finish();
            } else {
                self.wake_at = None;
                self.log.push(Entry::Wake(next));
                self.call(|policy, cx| policy.on_wake(cx));
            }
        }
        self.now = end;
    }

    /// Calls that a driver is free to make and that carry no news.
    pub fn stray_calls(&mut self) {
        self.call(|policy, cx| policy.on_wake(cx));
        self.call(|policy, cx| policy.on_migrations(&[], true, cx));
    }

    fn call<T>(&mut self, work: impl FnOnce(&mut dyn Policy, &mut Context<'_>) -> T) -> T {
        let mut moves = Vec::new();
        let mut context = Context {
            now: self.now,
            pages: &self.pages,
            rng: &mut self.rng,
            moves: &mut moves,
            wake_at: &mut self.wake_at,
        };
        let answer = work(self.policy.as_mut(), &mut context);
        for request in moves {
            self.ask(request);
        }
        if let (false, Some((tier, pages))) = (self.waiting.is_empty(), self.race) {
            self.race = None;
            self.occupy(tier, i64::from(pages.min(self.pages.free_pages(tier))));
        }
        self.start();
        answer
    }

    /// What every policy owes: valid pages and tiers, and no move to where a page has arrived.
    fn ask(&mut self, request: Move) {
        let Move { page, to } = request;
        let known = self.pages.tiers.get(page as usize).copied().flatten();
        let from = known.unwrap_or_else(|| panic!("asks to move page {page}, which does not exist"));
        assert!(usize::from(to) < self.tiers(), "asks for tier {to} of {}", self.tiers());
        let under_way = self
            .waiting
            .iter()
            .chain(self.running.iter().map(|(_, request)| request));
        if from == to {
            assert!(
                under_way.clone().any(|other| other.page == page),
                "asks to move page {page} to its own tier {to}"
            );
        }
        self.log.push(Entry::Ask {
            at: self.now,
            from,
            request,
        });
        self.waiting.push_back(request);
    }

    fn start(&mut self) {
        while self.running.len() < self.mechanics.lanes as usize {
            let Some(request) = self.waiting.pop_front() else { break };
            let Move { page, to } = request;
            if self.tier_of(page) == to {
                self.end(request, Outcome::AlreadyThere);
            } else if self.pages.free_pages(to) == 0 {
                self.end(request, Outcome::NoSpace);
            } else {
                self.pages.used[usize::from(to)] += 1;
                let copy_ns = self.page_bytes as f64 / self.mechanics.copy_gbps;
                self.running
                    .push((self.now + self.mechanics.fixed_ns + copy_ns.round() as Nanos, request));
            }
        }
    }

    fn end(&mut self, request: Move, outcome: Outcome) {
        let migrated = Migrated {
            request,
            outcome,
            at: self.now,
        };
        self.log.push(Entry::Ended(migrated));
        self.ended.push(migrated);
    }

    fn finish(&mut self) {
        let now = self.now;
        let (done, running) = std::mem::take(&mut self.running)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.running = running;
        let done: Vec<(Nanos, Move)> = done;
        for (_, request) in done {
            let from = self.tier_of(request.page);
            self.pages.used[usize::from(from)] -= 1;
            self.pages.tiers[request.page as usize] = Some(request.to);
            self.end(request, Outcome::Done);
        }
        self.start();
    }

    fn deliver(&mut self) {
        while !self.ended.is_empty() {
            let ended = std::mem::take(&mut self.ended);
            let idle = self.waiting.is_empty() && self.running.is_empty();
            self.call(|policy, cx| policy.on_migrations(&ended, idle, cx));
        }
    }
}
