//! A machine in memory and a virtual clock: the smallest driver that keeps the promises of
//! `tiertune_policy::policy`, and holds policies to theirs.

use std::collections::VecDeque;

use tiertune_policy::{
    AccessedBits, Alike, Context, CopyMode, CounterRng, Counters, Event, Extent, Fault, FaultKind, Horizon, How,
    Migrated, MigrationMechanics, Move, Nanos, Order, Outcome, Page, PageMap, Placement, Policy, Sample, Tier,
    TierCounters, Topology, Truth,
};

/// A millisecond.
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
            match &placement {
                Placement::FastestFree => {}
                Placement::FastestAbove { free_pages } => {
                    if self.free_pages(0) <= *free_pages {
                        order.rotate_left(1);
                    }
                }
                Placement::Parts { part_pages, fast } => {
                    let part = nth / *part_pages as usize;
                    if (fast[part / 64] >> (part % 64)) & 1 == 0 {
                        order.rotate_left(1);
                    }
                }
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
                Placement::ByPage(tiers) => order.rotate_left(usize::from(tiers[nth])),
            }
            let tier = order.into_iter().find(|tier| self.used[*tier] < self.capacity[*tier]);
            let tier = tier.expect("the test machine holds the footprint");
            self.used[tier] += 1;
            self.tiers[page as usize] = Some(tier as Tier);
        }
    }
}

/// Accessed bits as the test sets them.
pub struct Bits(pub Vec<bool>);

impl AccessedBits for Bits {
    fn test_and_clear(&mut self, page: Page) -> bool {
        std::mem::take(&mut self.0[page as usize])
    }

    fn test(&mut self, page: Page) -> bool {
        self.0[page as usize]
    }
}

/// The truth as the test makes it: reads of each page per run and per second, and latencies.
pub struct Hidden {
    /// Of each page, over a run.
    pub reads_in_run: Vec<f64>,
    /// Of each page, in a second of now.
    pub reads_now: Vec<f64>,
    /// Of each tier, unloaded.
    pub latency_ns: Vec<f64>,
}

impl Truth for Hidden {
    fn for_each(&self, horizon: Horizon, visit: &mut dyn FnMut(&Alike<'_>)) {
        let reads = if horizon == Horizon::Run {
            &self.reads_in_run
        } else {
            &self.reads_now
        };
        let mut start = 0;
        for alike in reads.chunk_by(|one, next| one == next) {
            let stall_ns: Vec<f64> = self
                .latency_ns
                .iter()
                .map(|l| alike[0] * (l - self.latency_ns[0]))
                .collect();
            visit(&Alike {
                pages: alike.len() as u32,
                page: &|n| start + n,
                reads: alike[0],
                stall_ns: &stall_ns,
            });
            start += alike.len() as Page;
        }
    }

    /// Each tier takes as much longer as it has more than half of the reads.
    fn latency_at(&self, _: Horizon, shares: &[f64]) -> Vec<f64> {
        let loaded = self.latency_ns.iter().zip(shares);
        loaded.map(|(ns, share)| ns * (0.5 + share).max(1.0)).collect()
    }
}

/// What happened, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Entry {
    /// The policy was woken.
    Wake(Nanos),
    /// It asked for a move.
    Ask {
        /// When.
        at: Nanos,
        /// Where the page was.
        from: Tier,
        /// What was asked.
        request: Move,
    },
    /// It asked for something else.
    Order {
        /// When.
        at: Nanos,
        /// What was asked.
        order: Order,
    },
    /// A thread faulted.
    Fault(Fault),
    /// A move ended.
    Ended(Migrated),
}

/// A copy under way.
#[derive(Debug, Clone, Copy)]
struct Running {
    end: Nanos,
    request: Move,
    pass: u32,
    written: bool,
}

/// A policy under test on its machine.
pub struct Driver {
    /// The policy.
    pub policy: Box<dyn Policy>,
    /// Where pages are.
    pub pages: Pages,
    /// The virtual clock.
    pub now: Nanos,
    /// What happened so far.
    pub log: Vec<Entry>,
    /// Pages per tier that somebody else takes between the next requests and their execution.
    pub race: Option<(Tier, u32)>,
    /// Accessed bits.
    pub accessed: Bits,
    /// Performance counters, which the test moves on.
    pub counters: Counters,
    /// The truth, for those that need it.
    pub hidden: Hidden,
    /// Periods of the samplers, as last asked for.
    pub periods: Vec<(Event, u64)>,
    /// The run that a profiling run goes before.
    pub postponed: Option<Box<Driver>>,
    /// Pages per tier that somebody else holds.
    taken: Vec<i64>,
    armed: Vec<Option<Nanos>>,
    kept: Vec<Option<Tier>>,
    extents: Vec<Extent>,
    pub(crate) page_bytes: u64,
    mechanics: MigrationMechanics,
    rng: CounterRng,
    wake_at: Option<Nanos>,
    waiting: VecDeque<Move>,
    running: Vec<Running>,
    ended: Vec<Migrated>,
}

impl Driver {
    /// The policy on an empty machine.
    pub fn new(policy: Box<dyn Policy>, topology: &Topology) -> Self {
        let tiers = topology.capacity_pages.len();
        let pages = topology.pages as usize;
        Self {
            mechanics: policy.mechanics(),
            periods: policy.samplers().iter().map(|s| (s.event, s.period)).collect(),
            policy,
            pages: Pages {
                tiers: vec![None; pages],
                capacity: topology.capacity_pages.clone(),
                used: vec![0; tiers],
            },
            now: 0,
            log: Vec::new(),
            race: None,
            accessed: Bits(vec![false; pages]),
            counters: Counters {
                tiers: vec![TierCounters::default(); tiers],
                ..Counters::default()
            },
            hidden: Hidden {
                reads_in_run: vec![0.0; pages],
                reads_now: vec![0.0; pages],
                latency_ns: (0..tiers).map(|tier| 80.0 + 120.0 * tier as f64).collect(),
            },
            postponed: None,
            taken: vec![0; tiers],
            armed: vec![None; pages],
            kept: vec![None; pages],
            extents: Vec::new(),
            page_bytes: topology.page_bytes,
            rng: CounterRng::new(1, &[]),
            wake_at: Some(0),
            waiting: VecDeque::new(),
            running: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Whether the first touch of `page` would be reported.
    pub fn is_armed(&self, page: Page) -> bool {
        self.armed[page as usize].is_some()
    }

    /// The tier where an old frame of `page` is kept.
    pub fn kept(&self, page: Page) -> Option<Tier> {
        self.kept[page as usize]
    }

    /// Kept frames in a tier.
    pub fn kept_in(&self, tier: Tier) -> u32 {
        self.kept.iter().filter(|kept| **kept == Some(tier)).count() as u32
    }

    /// The tier of a page that was allocated.
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

    /// How many tiers there are.
    pub fn tiers(&self) -> usize {
        self.pages.capacity.len()
    }

    /// Pages in use of a tier.
    pub fn used(&self, tier: Tier) -> u32 {
        self.pages.used[usize::from(tier)]
    }

    /// Pages that a tier holds.
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

    /// A number that the policy reports.
    ///
    /// # Panics
    /// When it reports none of that name.
    #[must_use]
    pub fn gauge(&self, name: &str) -> f64 {
        let gauges = self.policy.gauges();
        let found = gauges.iter().find(|gauge| gauge.name == name);
        found.unwrap_or_else(|| panic!("no gauge {name}")).value
    }

    /// Whether copies are asked for or under way that no thread of the application waits for.
    pub fn copies_behind_the_application(&self) -> bool {
        let running = self.running.iter().map(|running| &running.request);
        let mut all = self.waiting.iter().chain(running);
        all.any(|request| !matches!(request.how, How::InFault { .. } | How::Reclaim))
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

    /// An allocation of a place in the program that allocates nothing else.
    pub fn alloc(&mut self, start: Page, pages: u32) {
        let object = self.extents.len() as u32;
        self.alloc_at(start, pages, object);
    }

    /// An allocation of place `site` in the program.
    pub fn alloc_at(&mut self, start: Page, pages: u32, site: u32) {
        let extent = Extent {
            object: self.extents.len() as u32,
            site,
            start,
            pages,
            whole_pages: pages,
        };
        let placement = self.call(|policy, cx| policy.on_alloc(&extent, cx));
        self.pages.place(&extent, placement);
        self.extents.push(extent);
    }

    /// Frees the extent that starts at `start`.
    pub fn free(&mut self, start: Page) {
        let found = self.extents.iter().rposition(|extent| extent.start == start);
        let extent = self.extents[found.expect("only what was allocated is freed")].clone();
        self.call(|policy, cx| policy.on_free(&extent, cx));
        let gone =
            |request: &Move| request.page < extent.start + extent.pages && extent.start < request.page + request.pages;
        let mut dropped: Vec<Move> = self.waiting.iter().copied().filter(gone).collect();
        self.waiting.retain(|request| !gone(request));
        for running in std::mem::take(&mut self.running) {
            if gone(&running.request) {
                self.give_back(&running.request);
                dropped.push(running.request);
            } else {
                self.running.push(running);
            }
        }
        dropped.into_iter().for_each(|request| self.end(request, Outcome::Gone));
        for page in extent.start..extent.start + extent.pages {
            self.release(page);
            self.armed[page as usize] = None;
            let tier = self.pages.tiers[page as usize].take().expect("it was allocated");
            self.pages.used[usize::from(tier)] -= 1;
        }
        self.start();
        self.deliver();
    }

    /// An application thread reads or writes pages: accessed bits are set, faults are delivered.
    pub fn touch(&mut self, pages: &[Page], write: bool) {
        let mut faults = Vec::new();
        for (nth, page) in pages.iter().enumerate() {
            let index = *page as usize;
            self.accessed.0[index] = true;
            let tier = self.tier_of(*page);
            let mut fault = |kind, armed_at| {
                faults.push(Fault {
                    page: *page,
                    tier,
                    kind,
                    armed_at,
                    at: self.now,
                    thread: (nth % 4) as u32,
                });
            };
            if let Some(armed_at) = self.armed[index].take() {
                fault(FaultKind::Hint, armed_at);
            }
            if write {
                if self.kept[index].is_some() {
                    fault(FaultKind::Write, 0);
                }
                for running in &mut self.running {
                    running.written |= running.request.range().contains(page);
                }
            }
        }
        if !faults.is_empty() {
            self.log.extend(faults.iter().map(|fault| Entry::Fault(*fault)));
            self.call(|policy, cx| policy.on_faults(&faults, cx));
        }
    }

    /// Delivers samples of the given pages and events, with the tiers that the pages are in.
    pub fn sample(&mut self, accesses: &[(Page, Event)]) {
        let sample = |(page, event): &(Page, Event)| Sample {
            page: *page,
            tier: self.tier_of(*page),
            event: *event,
        };
        // The sampler of slow loads does not count what fast memory served.
        let counted = |sample: &Sample| sample.event != Event::SlowLoadMiss || sample.tier > 0;
        let samples: Vec<Sample> = accesses.iter().map(sample).filter(counted).collect();
        self.call(|policy, cx| policy.on_samples(&samples, cx));
    }

    /// Lets time pass until `end`, wake-ups and ends of migrations at `end` included.
    pub fn run_until(&mut self, end: Nanos) {
        let mut wakes_now = 0;
        loop {
            self.deliver();
            let next_end = self.running.iter().map(|running| running.end).min();
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
        self.call(|policy, cx| policy.on_faults(&[], cx));
        self.call(|policy, cx| policy.on_migrations(&[], true, cx));
    }

    fn call<T>(&mut self, work: impl FnOnce(&mut dyn Policy, &mut Context<'_>) -> T) -> T {
        let (mut moves, mut orders) = (Vec::new(), Vec::new());
        let needs = self.policy.needs();
        let mut context = Context {
            now: self.now,
            pages: &self.pages,
            accessed: &mut self.accessed,
            counters: &self.counters,
            truth: needs.truth.then_some(&self.hidden as &dyn Truth),
            rng: &mut self.rng,
            moves: &mut moves,
            orders: &mut orders,
            wake_at: &mut self.wake_at,
        };
        let answer = work(self.policy.as_mut(), &mut context);
        for order in orders {
            self.obey(order);
        }
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

    fn obey(&mut self, order: Order) {
        match &order {
            Order::Arm(pages) => {
                assert!(
                    self.policy.needs().hint_faults,
                    "arms pages without needing hint faults"
                );
                for page in pages.clone() {
                    assert!(
                        self.pages.tiers[page as usize].is_some(),
                        "arms page {page}, which does not exist"
                    );
                    self.armed[page as usize].get_or_insert(self.now);
                }
            }
            Order::Release(page) => self.release(*page),
            Order::SamplingPeriod(event, period) => {
                let sampler = self.periods.iter_mut().find(|(other, _)| other == event);
                let sampler = sampler.unwrap_or_else(|| panic!("there is no sampler of {event:?}"));
                assert!(*period > 0, "a sampling period of 0");
                sampler.1 = *period;
            }
            Order::Background(_) | Order::InApplication(_) | Order::FaultAgain { .. } => {}
        }
        self.log.push(Entry::Order { at: self.now, order });
    }

    fn release(&mut self, page: Page) {
        if let Some(tier) = self.kept[page as usize].take() {
            self.pages.used[usize::from(tier)] -= 1;
        }
    }

    /// What every policy owes: valid pages and tiers, and no move to where a page has arrived.
    fn ask(&mut self, request: Move) {
        let to = request.to;
        assert!(usize::from(to) < self.tiers(), "asks for tier {to} of {}", self.tiers());
        assert!(request.pages > 0, "asks for a run of no pages");
        for page in request.range() {
            let known = self.pages.tiers.get(page as usize).copied().flatten();
            let from = known.unwrap_or_else(|| panic!("asks to move page {page}, which does not exist"));
            let running = self.running.iter().map(|running| &running.request);
            let mut under_way = self.waiting.iter().chain(running);
            if from == to {
                assert!(
                    under_way.any(|other| other.range().contains(&page)),
                    "asks to move page {page} to its own tier {to}"
                );
            }
        }
        self.log.push(Entry::Ask {
            at: self.now,
            from: self.tier_of(request.page),
            request,
        });
        match request.how {
            How::InFault { .. } | How::Reclaim => self.begin(request),
            How::Free => {
                assert!(
                    self.policy.needs().truth,
                    "only an offline oracle moves pages at no cost"
                );
                self.begin(request);
            }
            How::Background | How::KeepingFrame | How::Remap => self.waiting.push_back(request),
        }
    }

    fn start(&mut self) {
        let busy = |running: &[Running]| {
            let in_fault = |running: &&Running| matches!(running.request.how, How::InFault { .. });
            running.len() - running.iter().filter(in_fault).count()
        };
        while busy(&self.running) < self.mechanics.lanes as usize {
            let Some(request) = self.waiting.pop_front() else { break };
            self.begin(request);
        }
    }

    fn begin(&mut self, request: Move) {
        let Move { page, to, .. } = request;
        let (from, frames) = (self.tier_of(page), request.pages);
        let pages = request.range();
        if self
            .running
            .iter()
            .any(|other| other.request.range().any(|page| pages.contains(&page)))
        {
            // The policy has two requests for one page: the second is too late.
            self.end(request, Outcome::Gone);
        } else if pages.clone().any(|page| self.tier_of(page) != from) {
            self.end(request, Outcome::Gone);
        } else if from == to {
            self.end(request, Outcome::AlreadyThere);
        } else if request.how == How::Remap {
            if pages.clone().all(|page| self.kept(page) == Some(to)) {
                self.run(request);
            } else {
                self.end(request, Outcome::Gone);
            }
        } else if self.pages.free_pages(to) < frames {
            self.end(request, Outcome::NoSpace);
        } else {
            self.pages.used[usize::from(to)] += frames;
            if request.how.is_at_once() {
                self.arrive(request);
            } else {
                self.run(request);
            }
        }
    }

    fn run(&mut self, request: Move) {
        let from = self.tier_of(request.page);
        let fixed_ns = self.mechanics.fixed_ns_of(&request, from);
        let copy_ns = self.page_bytes as f64 * f64::from(request.pages) / self.mechanics.copy_gbps;
        let span = match request.how {
            How::Remap => self.mechanics.remap_ns,
            _ => fixed_ns + copy_ns.round() as Nanos,
        };
        self.running.push(Running {
            end: self.now + span,
            request,
            pass: 1,
            written: false,
        });
    }

    /// Gives the frames of an unfinished copy back.
    fn give_back(&mut self, request: &Move) {
        if request.how != How::Remap {
            self.pages.used[usize::from(request.to)] -= request.pages;
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
            .partition(|running| running.end <= now);
        self.running = running;
        let done: Vec<Running> = done;
        for mut copy in done {
            let from = self.tier_of(copy.request.page);
            let span_ns = self.mechanics.fixed_ns_of(&copy.request, from).max(1);
            match self.mechanics.mode {
                CopyMode::Transactional { passes }
                    if copy.written && self.mechanics.is_transaction(&copy.request, from) =>
                {
                    if copy.pass < passes {
                        copy.pass += 1;
                        copy.end += span_ns;
                        copy.written = false;
                        self.running.push(copy);
                    } else {
                        self.give_back(&copy.request);
                        self.end(copy.request, Outcome::Aborted);
                    }
                }
                _ => self.arrive(copy.request),
            }
        }
        self.start();
    }

    fn arrive(&mut self, request: Move) {
        if request.how == How::Remap && request.range().any(|page| self.kept(page) != Some(request.to)) {
            return self.end(request, Outcome::Gone); // it was given up meanwhile
        }
        for page in request.range() {
            let from = self.tier_of(page);
            self.armed[page as usize] = None;
            match request.how {
                How::Remap => self.kept[page as usize] = None, // the kept frame is in use again
                How::KeepingFrame => {
                    self.release(page);
                    self.kept[page as usize] = Some(from);
                    self.pages.used[usize::from(from)] += 1;
                }
                How::Background | How::InFault { .. } | How::Reclaim | How::Free => self.release(page),
            }
            self.pages.used[usize::from(from)] -= 1;
            self.pages.tiers[page as usize] = Some(request.to);
        }
        self.end(request, Outcome::Done);
    }

    fn deliver(&mut self) {
        while !self.ended.is_empty() {
            let ended = std::mem::take(&mut self.ended);
            let idle = self.waiting.is_empty() && self.running.is_empty();
            self.call(|policy, cx| policy.on_migrations(&ended, idle, cx));
        }
    }
}
