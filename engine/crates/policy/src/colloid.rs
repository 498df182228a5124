//! `colloid`: balances the loaded latencies of the tiers instead of filling the fast one.
//!
//! As long as fast memory answers faster than slow memory, accesses are shifted there, as by any
//! tiering system. But fast memory that is crowded may be the slower one; then hot pages go *down*.
//! Latencies come from per-tier counters: occupancy over request rate (Little's law), both smoothed.
//! The share of accesses at which both sides are equally fast is searched between two watermarks: the
//! highest share known to leave fast memory faster, and the lowest known to make it slower. The next
//! share to try is half way, and the distance from the present one is the probability to be moved.
//! When the watermarks meet, the balance may have moved: the one in the way is given up.
//!
//! It holds a host in one of two ways:
//!
//! - a host that knows [how hot pages are](crate::Heat) keeps count and no longer places pages itself
//!   ([`Takeover::Placement`]); each quantum pages that make up the shift are found and moved;
//! - a host that takes hint faults goes on as before, but each of its promotions is judged, and hot
//!   pages of fast memory that fault are demoted when fast memory is the slower one
//!   ([`Takeover::Gate`]). A page's probability is then what its time to fault says:
//!   `1 / (time to fault * request rate)`. The port's gate looks at the direction only (`boolean`).
//!
//! What the paper's text has the wrong way round (section 4.3: hot is a time to fault *above* the
//! threshold) is done as the code does it: the host's own test, sooner is hotter.
//!
//! What had to be decided here: tier 0 is "fast" and all others together are "slow"; pages go down to
//! the fastest slow tier with room. A quantum with moves under way is put off until they have ended, as
//! in a thread that copies and then sleeps. Every copy counts against the limits, those that make room
//! too. A page is exchanged only for one of a lower list, so that noise within a list moves nothing.

mod balance;
mod bins;
mod find;
mod knobs;

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

use crate::hosted::{Asked, Hosted};
use crate::knob::{Config, KnobError};
use crate::mover::LIST_ENTRY_NS;
use crate::registry::Wrapper;
use crate::{
    Context, Extent, Fault, FaultKind, Gauge, Heat, Migrated, MigrationMechanics, Nanos, Needs, Outcome, Overheads,
    Page, PageMap, Placement, Policy, Sample, SamplerRequest, StateError, Takeover, Tier, Topology,
};

use balance::{Balance, Shift};
use bins::{Bins, FAST, SLOW};
use find::Finder;
pub use knobs::ColloidConfig;

const LINE_BYTES: f64 = 64.0;
/// Reading two counters of two tiers: four reads of model-specific registers at about 0.5 us (ours).
const READING_NS: f64 = 2_000.0;
/// The closest that wake-ups come; readings in between are made up for, see [`Balance::read`].
const SHORTEST_WAKE_NS: Nanos = 1_000_000;

/// How the host is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Hold {
    ByHeat,
    ByFaults,
}

/// Probabilities from samples since the start.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Lifetime {
    counts: Vec<u32>,
    total: u64,
}

impl Lifetime {
    /// Of `count` pages from `first` on together.
    fn probability(&self, first: Page, count: u32) -> f64 {
        let counts = &self.counts[first as usize..(first + count) as usize];
        let sum: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        sum as f64 / (self.total as f64).max(1.0)
    }
}

/// A host's heat with probabilities of its own.
struct Recounted<'a> {
    host: &'a dyn Heat,
    lifetime: &'a Lifetime,
    /// Only pages that the host lists, in its order.
    listed: bool,
}

impl Heat for Recounted<'_> {
    fn probability(&self, page: Page) -> f64 {
        let (first, count) = self.run_of(page);
        self.lifetime.probability(first, count)
    }

    fn for_each(&self, tier: Tier, pages: &dyn PageMap, visit: &mut dyn FnMut(Page, f64) -> bool) {
        if self.listed {
            return self
                .host
                .for_each(tier, pages, &mut |page, _| visit(page, self.probability(page)));
        }
        let mut page = 0;
        while let Some(ahead) = self.lifetime.counts[page as usize..]
            .iter()
            .position(|count| *count > 0)
        {
            // What was sampled may be in the middle of what moves with it.
            let (first, count) = self.run_of(page + ahead as Page);
            page = first + count;
            if pages.tier_of(first) == tier && !visit(first, self.lifetime.probability(first, count)) {
                return;
            }
        }
    }

    fn manages(&self, page: Page) -> bool {
        self.host.manages(page)
    }

    fn run_of(&self, page: Page) -> (Page, u32) {
        self.host.run_of(page)
    }
}

/// What colloid keeps beside its host.
#[derive(Serialize, Deserialize)]
struct State {
    config: ColloidConfig,
    topology: Topology,
    hold: Hold,
    /// The host samples nothing: lists are filled by asking it.
    unsampled: bool,
    balance: Balance,
    bins: Bins,
    lifetime: Lifetime,
    /// Its own moves under way, by first page.
    own: BTreeSet<Page>,
    quantum_ns: Nanos,
    next_quantum: Nanos,
    next_reading: Nanos,
    /// The shift that the last reading found, where each of them is a step of the search.
    found: Option<Shift>,
    /// What is left of the shift that faults make up.
    left: Option<Shift>,
    left_bytes: u64,
    shifted_up: f64,
    shifted_down: f64,
    promoted_pages: u64,
    demoted_pages: u64,
    failed_moves: u64,
}

/// The wrapper.
struct Colloid {
    host: Hosted,
    state: State,
}

impl State {
    fn spins(&self) -> bool {
        self.config.colloid_latency_sample_interval_us == 0
    }

    fn read(&mut self, cx: &mut Context<'_>) {
        if !self.balance.read(cx.now, cx.counters) {
            return;
        }
        if !self.spins() {
            cx.spend(READING_NS);
        }
        if self.searches_apart() {
            self.found = self.balance.shift();
        }
    }

    /// Whether the watermarks move with each reading, as in the Memtis port, whose monitor is apart from the thread that
    /// moves pages: that takes what the last reading found. Otherwise they move once a quantum.
    fn searches_apart(&self) -> bool {
        self.hold == Hold::ByHeat && self.config.colloid_page_find == "list"
    }

    /// Bytes that may be moved in any quantum.
    fn static_limit_bytes(&self) -> u64 {
        match self.config.colloid_static_limit_mib {
            0.0 => u64::MAX,
            mib => (mib * f64::from(1 << 20)) as u64,
        }
    }

    /// Bytes that a shift may move in a quantum.
    fn limit_bytes(&self, shift: Shift) -> u64 {
        let fixed = self.static_limit_bytes() as f64;
        let of_requests = shift.probability * self.balance.rate() * LINE_BYTES * self.quantum_ns as f64;
        let limit = if self.config.colloid_dynamic_limit {
            fixed.min(of_requests)
        } else {
            fixed
        };
        limit as u64 // infinity becomes the largest number
    }

    /// The earliest time at which something is to be done, the driver's next call apart.
    fn next_wake(&self) -> Option<Nanos> {
        let reading = (!self.spins()).then_some(self.next_reading);
        let quantum = self.own.is_empty().then_some(self.next_quantum);
        match self.hold {
            Hold::ByHeat => reading.into_iter().chain(quantum).min(),
            Hold::ByFaults => reading, // quanta begin when faults come
        }
    }
}

impl Colloid {
    fn heat<'a>(host: &'a Hosted, state: &'a State) -> Option<Heats<'a>> {
        let of_host = host.policy.heat()?;
        Some(if state.config.colloid_use_cooled_counts {
            Heats::Host(of_host)
        } else {
            Heats::Lifetime(Recounted {
                host: of_host,
                lifetime: &state.lifetime,
                listed: state.config.colloid_page_find == "list",
            })
        })
    }

    /// Passes on what the host asked for, but for moves of pages that are on the move already.
    fn pass(&mut self, asked: Asked, cx: &mut Context<'_>) {
        cx.orders.extend(asked.orders);
        for request in asked.moves {
            if request.range().any(|page| self.state.bins.is_moving(page)) {
                self.host.refuse(request, cx.now);
                continue;
            }
            request.range().for_each(|page| self.state.bins.set_moving(page, true));
            self.host.let_through(request, cx);
        }
        self.wake(cx);
    }

    fn wake(&self, cx: &mut Context<'_>) {
        let own = self.state.next_wake();
        *cx.wake_at = own.into_iter().chain(self.host.next_call(cx.now)).min();
    }

    /// Tells the host of refusals that it has not heard of.
    fn report(&mut self, cx: &mut Context<'_>) {
        let refused = self.host.take_refused();
        if !refused.is_empty() {
            let idle = self.host.idle();
            let ((), asked) = self.host.call(cx, |host, cx| host.on_migrations(&refused, idle, cx));
            self.pass(asked, cx);
        }
    }

    /// Decides on a shift and asks for the moves that make it up.
    fn shift(&mut self, cx: &mut Context<'_>) {
        self.state.next_quantum = cx.now + self.state.quantum_ns;
        let found = if self.state.searches_apart() {
            self.state.found
        } else {
            self.state.balance.shift()
        };
        let Some(shift) = found else {
            return;
        };
        if shift.probability <= 0.0 {
            return;
        }
        let bytes = self.state.limit_bytes(shift);
        let mut bins = std::mem::replace(&mut self.state.bins, Bins::new(0, 0));
        let tiers = self.state.topology.capacity_pages.len() as Tier;
        if let Some(heats) = Self::heat(&self.host, &self.state) {
            let heat = heats.as_dyn();
            if self.state.unsampled {
                for tier in 0..tiers {
                    heat.for_each(tier, cx.pages, &mut |page, _| {
                        bins.sort_in(page, heat, cx.pages);
                        true
                    });
                }
            }
            let mut finder = Finder {
                heat,
                pages: cx.pages,
                bins: &mut bins,
                promote: shift.promote,
                probability: shift.probability,
                bytes,
                page_bytes: self.state.topology.page_bytes,
                free: (0..tiers).map(|tier| cx.pages.free_pages(tier)).collect(),
                moves: Vec::new(),
                visits: 0,
            };
            match self.state.config.colloid_page_find.as_str() {
                "bins" => finder.by_lists(),
                "sort_pairs" => finder.by_pairs(),
                _ => finder.by_host(),
            }
            let shifted = shift.probability - finder.probability;
            let (moves, visits) = (finder.moves, finder.visits);
            cx.spend(f64::from(visits) * LIST_ENTRY_NS);
            *(if shift.promote {
                &mut self.state.shifted_up
            } else {
                &mut self.state.shifted_down
            }) += shifted;
            self.state.own.extend(moves.iter().map(|request| request.page));
            cx.moves.extend(moves);
        }
        self.state.bins = bins;
    }

    /// What faults may still shift; a new quantum begins when the last is over.
    fn left(&mut self, now: Nanos) -> Option<Shift> {
        if now >= self.state.next_quantum {
            self.state.next_quantum = now + self.state.quantum_ns;
            self.state.left = self.state.balance.shift();
            self.state.left_bytes = match self.state.left {
                Some(shift) => self.state.limit_bytes(shift),
                None => self.state.static_limit_bytes(),
            };
        }
        self.state.left
    }

    /// Whether the gate lets `pages` pages go that way, of which the first faulted as in `fault`.
    fn lets(&mut self, promote: bool, pages: u32, fault: Option<&Fault>, now: Nanos) -> bool {
        if self.state.config.colloid_shift_mode == "boolean" {
            let [fast_ns, slow_ns] = self.state.balance.latency_ns();
            return if promote { fast_ns < slow_ns } else { fast_ns > slow_ns };
        }
        let left = self.left(now);
        let bytes = self.state.topology.page_bytes * u64::from(pages);
        let Some(mut shift) = left else {
            // Nothing is accessed yet, so nothing says that the host is wrong.
            let fits = promote && bytes <= self.state.left_bytes;
            self.state.left_bytes -= if fits { bytes } else { 0 };
            return fits;
        };
        // Without a fault there is no probability; a page that the host found hot by other means is
        // taken to be as rare as pages are on average.
        let probability = fault.map_or(1.0 / f64::from(self.state.topology.pages.max(1)), |fault| {
            let waited_ns = fault.at.saturating_sub(fault.armed_at).max(1) as f64;
            1.0 / (waited_ns * self.state.balance.rate()).max(1.0)
        });
        if shift.promote != promote || probability > shift.probability || bytes > self.state.left_bytes {
            return false;
        }
        shift.probability -= probability;
        self.state.left = Some(shift);
        self.state.left_bytes -= bytes;
        *(if promote {
            &mut self.state.shifted_up
        } else {
            &mut self.state.shifted_down
        }) += probability;
        true
    }

    /// Judges the host's promotions.
    fn gate(&mut self, mut asked: Asked, faults: &[Fault], cx: &mut Context<'_>) {
        let mut passed = Vec::new();
        for request in std::mem::take(&mut asked.moves) {
            let promotion = request.to < cx.pages.tier_of(request.page);
            let fault = faults.iter().find(|fault| fault.page == request.page);
            if !promotion || self.lets(true, request.pages, fault, cx.now) {
                passed.push(request);
            } else {
                self.host.refuse(request, cx.now);
            }
        }
        asked.moves = passed;
        self.pass(asked, cx);
    }

    /// Demotes hot pages of fast memory that faulted, if fast memory is the slower one.
    fn demote(&mut self, faults: &[Fault], cx: &mut Context<'_>) {
        let tiers = self.state.topology.capacity_pages.len() as Tier;
        for fault in faults.iter().filter(|fault| fault.kind == FaultKind::Hint) {
            let in_fast = cx.pages.tier_of(fault.page) == 0 && !self.state.bins.is_moving(fault.page);
            if !in_fast || !self.host.policy.is_hot(fault) {
                continue;
            }
            let coming = |tier: Tier| cx.moves.iter().filter(|request| request.to == tier).count() as u32;
            let Some(to) = (1..tiers).find(|tier| cx.pages.free_pages(*tier) > coming(*tier)) else {
                break;
            };
            if self.lets(false, 1, Some(fault), cx.now) {
                self.state.bins.set_moving(fault.page, true);
                self.state.own.insert(fault.page);
                cx.migrate_in_fault(fault, to);
            }
        }
    }
}

/// One of two kinds of heat.
enum Heats<'a> {
    Host(&'a dyn Heat),
    Lifetime(Recounted<'a>),
}

impl Heats<'_> {
    fn as_dyn(&self) -> &dyn Heat {
        match self {
            Heats::Host(heat) => *heat,
            Heats::Lifetime(heat) => heat,
        }
    }
}

impl Policy for Colloid {
    fn samplers(&self) -> Vec<SamplerRequest> {
        self.host.policy.samplers()
    }

    fn needs(&self) -> Needs {
        Needs {
            counters: true,
            ..self.host.policy.needs()
        }
    }

    fn rehearsal(&self) -> Option<Box<dyn Policy>> {
        self.host.policy.rehearsal()
    }

    fn learn(&mut self, notes: &[u8]) -> Result<(), StateError> {
        self.host.policy.learn(notes)
    }

    fn is_hot(&self, fault: &Fault) -> bool {
        self.host.policy.is_hot(fault)
    }

    fn widen_scans(&mut self, factor: f64) -> bool {
        self.host.policy.widen_scans(factor)
    }

    fn mechanics(&self) -> MigrationMechanics {
        self.host.policy.mechanics()
    }

    fn overheads(&self) -> Overheads {
        let host = self.host.policy.overheads();
        Overheads {
            busy_cores: host.busy_cores + f64::from(u8::from(self.state.spins())),
            ..host
        }
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.report(cx);
        self.state.bins.add(extent);
        let (placement, asked) = self.host.call(cx, |host, cx| host.on_alloc(extent, cx));
        self.pass(asked, cx);
        placement
    }

    fn on_free(&mut self, extent: &Extent, cx: &mut Context<'_>) {
        self.report(cx);
        self.state.bins.remove(extent);
        if !self.state.lifetime.counts.is_empty() {
            for page in extent.start..extent.start + extent.pages {
                let count = std::mem::take(&mut self.state.lifetime.counts[page as usize]);
                self.state.lifetime.total -= u64::from(count);
            }
        }
        let ((), asked) = self.host.call(cx, |host, cx| host.on_free(extent, cx));
        self.pass(asked, cx);
    }

    fn on_faults(&mut self, faults: &[Fault], cx: &mut Context<'_>) {
        self.report(cx);
        self.state.read(cx);
        let ((), asked) = self.host.call(cx, |host, cx| host.on_faults(faults, cx));
        if self.state.hold == Hold::ByFaults {
            self.gate(asked, faults, cx);
            self.demote(faults, cx);
        } else {
            self.pass(asked, cx);
        }
        self.wake(cx);
    }

    fn on_samples(&mut self, samples: &[Sample], cx: &mut Context<'_>) {
        self.report(cx);
        let ((), asked) = self.host.call(cx, |host, cx| host.on_samples(samples, cx));
        let mut lifetime = std::mem::take(&mut self.state.lifetime);
        if !lifetime.counts.is_empty() {
            for sample in samples {
                lifetime.counts[sample.page as usize] += 1;
                lifetime.total += 1;
            }
        }
        self.state.lifetime = lifetime;
        if self.state.bins.count() > 0 {
            let mut bins = std::mem::replace(&mut self.state.bins, Bins::new(0, 0));
            if let Some(heats) = Self::heat(&self.host, &self.state) {
                for sample in samples {
                    bins.sort_in(sample.page, heats.as_dyn(), cx.pages);
                }
            }
            self.state.bins = bins;
        }
        self.pass(asked, cx);
    }

    fn on_migrations(&mut self, ended: &[Migrated], idle: bool, cx: &mut Context<'_>) {
        self.report(cx);
        let mut of_host = 0;
        for migrated in ended {
            let page = migrated.request.page;
            migrated
                .request
                .range()
                .for_each(|page| self.state.bins.set_moving(page, false));
            if !self.state.own.remove(&page) {
                of_host += 1;
                continue;
            }
            self.state.failed_moves += u64::from(migrated.outcome == Outcome::NoSpace);
            if migrated.outcome == Outcome::Done {
                let pages = u64::from(migrated.request.pages);
                *(if migrated.request.to == 0 {
                    &mut self.state.promoted_pages
                } else {
                    &mut self.state.demoted_pages
                }) += pages;
            }
        }
        self.host.ended(of_host);
        let idle = idle || self.host.idle();
        let ((), asked) = self.host.call(cx, |host, cx| host.on_migrations(ended, idle, cx));
        if self.state.bins.count() > 0 {
            let mut bins = std::mem::replace(&mut self.state.bins, Bins::new(0, 0));
            if let Some(heats) = Self::heat(&self.host, &self.state) {
                for migrated in ended.iter().filter(|migrated| migrated.outcome != Outcome::Gone) {
                    bins.sort_in(migrated.request.page, heats.as_dyn(), cx.pages);
                }
            }
            self.state.bins = bins;
        }
        if self.state.hold == Hold::ByFaults {
            self.gate(asked, &[], cx);
        } else {
            self.pass(asked, cx);
        }
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        self.report(cx);
        if self.host.take_wake(cx.now) {
            let ((), asked) = self.host.call(cx, |host, cx| host.on_wake(cx));
            if self.state.hold == Hold::ByFaults {
                self.gate(asked, &[], cx);
            } else {
                self.pass(asked, cx);
            }
        }
        self.state.read(cx);
        if cx.now >= self.state.next_reading {
            let interval_ns = Nanos::from(self.state.config.colloid_latency_sample_interval_us) * 1_000;
            self.state.next_reading = cx.now + interval_ns.max(SHORTEST_WAKE_NS);
        }
        let due = cx.now >= self.state.next_quantum && self.state.own.is_empty();
        if self.state.hold == Hold::ByHeat && due {
            self.shift(cx);
        }
        self.wake(cx);
    }

    fn gauges(&self) -> Vec<Gauge> {
        let state = &self.state;
        let [fast_ns, slow_ns] = state.balance.latency_ns();
        let [low, high] = state.balance.watermarks();
        let listed = |side: usize| match state.bins.count() {
            0 => 0.0,
            _ => f64::from(state.bins.pages_in(side)),
        };
        let own = [
            ("colloid_fast_ns", "loaded latency of fast memory, ns", fast_ns),
            ("colloid_slow_ns", "loaded latency of slow memory, ns", slow_ns),
            (
                "colloid_fast_share",
                "share of requests that go to fast memory",
                state.balance.fast_share(),
            ),
            ("colloid_low", "lower watermark", low),
            ("colloid_high", "upper watermark", high),
            (
                "colloid_collapses",
                "collapses of the watermarks",
                state.balance.collapses() as f64,
            ),
            (
                "colloid_shifted_up",
                "probability shifted to fast memory, summed",
                state.shifted_up,
            ),
            (
                "colloid_shifted_down",
                "probability shifted to slow memory, summed",
                state.shifted_down,
            ),
            (
                "colloid_promoted_pages",
                "pages it has promoted",
                state.promoted_pages as f64,
            ),
            (
                "colloid_demoted_pages",
                "pages it has demoted",
                state.demoted_pages as f64,
            ),
            (
                "colloid_failed_moves",
                "its moves that found no space",
                state.failed_moves as f64,
            ),
            (
                "colloid_refused_moves",
                "moves of its host that it refused",
                self.host.refusals() as f64,
            ),
            (
                "colloid_listed_fast_pages",
                "pages of fast memory in its lists",
                listed(FAST),
            ),
            (
                "colloid_listed_slow_pages",
                "pages of slow memory in its lists",
                listed(SLOW),
            ),
        ]
        .map(|(name, meaning, value)| Gauge { name, meaning, value });
        own.into_iter().chain(self.host.policy.gauges()).collect()
    }

    fn save(&self) -> Vec<u8> {
        self.host.save_with(&self.state)
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), StateError> {
        self.state = self.host.restore_with(state)?;
        Ok(())
    }
}

/// The registry entry.
pub const WRAPPER: Wrapper = Wrapper {
    name: "colloid",
    summary: "balances loaded latencies: hot pages go to whichever tier answers faster",
    source: "Colloid, SOSP'24, and its published ports to HeMem, Memtis and TPP",
    signal: "request and occupancy counters of each tier",
    knobs: knobs::around,
    idles: knobs::idles,
    accepts,
    wrap,
};

fn accepts(host: &mut dyn Policy) -> Result<(), &'static str> {
    let by_heat = host.heat().is_some();
    if by_heat && host.hand_over(Takeover::Placement) || host.needs().hint_faults && host.hand_over(Takeover::Gate) {
        return Ok(());
    }
    Err("colloid has to know how hot pages are, or to judge promotions one by one, and its host offers neither")
}

/// Builds the wrapper around any host that it accepts.
///
/// # Errors
/// When the config does not fit.
pub fn wrap(config: &Config, topology: &Topology, mut host: Box<dyn Policy>) -> Result<Box<dyn Policy>, KnobError> {
    let config = ColloidConfig::from_config(config)?;
    let by_heat = host.heat().is_some() && host.hand_over(Takeover::Placement);
    let hold = if by_heat { Hold::ByHeat } else { Hold::ByFaults };
    if !by_heat {
        host.hand_over(Takeover::Gate);
    }
    let bins = match (hold, config.colloid_page_find.as_str()) {
        (Hold::ByFaults, _) | (_, "list") => 0,
        // Pairs are sorted anew each time; a single list keeps what was never sampled apart.
        (_, "sort_pairs") => 1,
        _ => config.colloid_n_freq_bins,
    };
    let mut lifetime = Lifetime::default();
    if by_heat && !config.colloid_use_cooled_counts {
        lifetime.counts = vec![0; topology.pages as usize];
    }
    let state = State {
        hold,
        unsampled: bins > 1 && host.samplers().is_empty(),
        balance: Balance::new(&config),
        bins: Bins::new(topology.pages, bins),
        lifetime,
        own: BTreeSet::new(),
        quantum_ns: ((config.colloid_quantum_ms * 1e6) as Nanos).max(SHORTEST_WAKE_NS),
        next_quantum: 0,
        next_reading: 0,
        found: None,
        left: None,
        left_bytes: 0,
        shifted_up: 0.0,
        shifted_down: 0.0,
        promoted_pages: 0,
        demoted_pages: 0,
        failed_moves: 0,
        topology: topology.clone(),
        config,
    };
    let host = Hosted::new(host);
    Ok(Box::new(Colloid { host, state }))
}
