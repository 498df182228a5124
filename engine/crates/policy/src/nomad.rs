//! `nomad`: non-exclusive memory tiering (a kernel patch and module on TPP's mechanisms): pages are promoted off the
//! critical path, by copies that a store aborts, and the slow frame stays behind as a shadow.
//!
//! Scanner, lists, kswapd and watermarks are those of [`tpp`](crate::tpp). What differs:
//!
//! - a hint fault promotes nothing. The page goes on a look-back list, and the pages before it there are judged, the
//!   newest first: one that is accessed and active joins the promotion queue; one that is accessed and not
//!   active is marked accessed, which brings it closer; one that is not, and is too far back, is dropped;
//! - a worker takes what the queue holds and copies it page by page while the application goes on. A page that was
//!   written meanwhile is copied again, a few times at most;
//! - the frame copied from is kept, the copy mapped read-only. The first store faults and gives the frame up; until
//!   then a demotion is a change of the page table and copies nothing;
//! - shadows take room of slow memory that nobody else needs. A failed allocation there frees a batch of
//!   them, and reclaim of a slow node that runs low frees a share of what it is after.
//!
//! What is surprising:
//!
//! - the last pages of a burst of faults wait on the list until others fault, however hot they are;
//! - the fault itself sets the accessed bit and nothing clears it (`lookback_clears_accessed` false, as published): a
//!   page rises a few faults *of any pages* after its own, whether or not it is ever touched again;
//! - a page that is to become active waits in a batch of the CPU that looked (`activation_batch`), and every second look puts it
//!   into one more, so that eight faults of eight CPUs are looked back on in the mean, where two marks would take three. A page in a
//!   batch cannot be moved: most are still in another CPU's when the first one makes them active, are copied until their passes
//!   are used up, and have to fault again, unless faults come so fast that batches fill meanwhile;
//! - an accessed page is never dropped, however far back it is;
//! - slots of the queue come free only when the whole batch is done, and a page that finds none is
//!   forgotten until it faults again: most pages of a burst longer than the queue are;
//! - promotions are let down to the `min` watermark, not `high` as TPP's are; they do not wait for reclaim, and the first page for
//!   which there is no room ends the worker's batch: what is left of it has to fault again;
//! - looking back is done under one lock for the whole kernel, which is held while the worker is woken;
//! - the patch looks for a node to demote to just before a node whose last CPU goes offline counts as one without (mended in Linux
//!   5.15 by commit a6a0251c6fce; the patch is for 5.13). Where slow memory is a socket whose CPUs were taken offline, nothing is
//!   demoted, and nothing promoted once fast memory is full (`demotion_enabled` false). By their scripts Soar, Alto and PACT ran it so.
//!
//! What had to be decided: 4 KiB pages only, as the original asserts; with three tiers 0 is fast, a shadow stays in
//! whichever slow tier the page came from; shadows are reclaimed oldest first (the original goes by frame address); all
//! pages are mapped by one process, so all promotions are transactions; every thread has a CPU of its own, and nothing but full
//! batches empties them; copies of pages that batches hold take the worker's time, no bandwidth and no interrupts; kswapd has a lane
//! of the migration threads, which the workers use as well while it sleeps.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use crate::kernel_migration;
use crate::knob::{self, Config, Knob, KnobError, Value};
use crate::lru::PAGE_SCAN_NS;
use crate::registry::{PAGE_4K, System};
use crate::tpp::{ACTIVATED_AT_ONCE, Tpp, TppConfig};
use crate::watermarks::{WATERMARK_SCALE_FACTOR, Watermarks};
use crate::{
    Context, CopyMode, Extent, Fault, FaultKind, Gauge, How, Migrated, MigrationMechanics, Nanos, Needs, Outcome, Page,
    Placement, Policy, Takeover, Tier, Topology,
};

mod activation;
mod look_back_lock;
mod promotions;
mod shadows;

use activation::ActivationBatches;
use look_back_lock::{Held, LookBackLock};
use promotions::Promotions;
use shadows::Shadows;

crate::knobs! {
    /// The knobs of `nomad` beside those of `tpp`.
    pub struct NomadConfig for "nomad" {
        /// Earlier faults that a fault looks back on; what is further back and not accessed is dropped
        pf_lookback_dist: u32 = 20, int(1, 512, log), unit "entries", special [], fixed, rebuild,
            when "lookback_clears_accessed" = true, source "Nomad module, PG_FAULT_LOOKBACK_DIST; range ours";
        /// Pages waiting for promotion or being promoted, at most
        promote_queue_len: u32 = 512, int(16, 16_384, log), unit "entries", special [], tuned, rebuild,
            source "Nomad module, PROMOTE_QUEUE_LEN (a power of two there); range ours";
        /// Copies of a page that keeps being written until its promotion is given up
        max_retry_passes: u32 = 10, int(1, 20), unit "", special [], tuned, rebuild,
            source "Nomad patch (mm/migrate.c); range ours";
        /// Time from the first page in the queue until the worker starts
        work_delay_ms: u32 = 0, int(0, 100), unit "ms", special [], tuned, rebuild,
            source "Nomad module, WORK_DELAY; range ours";
        /// Workers that promote
        promoter_threads: u32 = 1, int(1, 8), unit "threads", special [], tuned, rebuild,
            source "Nomad module, max_active of its work queue; range ours";
        /// Shadows freed for each page that slow memory has no room for
        shadow_reclaim_batch: u32 = 10, int(1, 1024, log), unit "pages", special [], tuned, rebuild,
            when "shadowing" = true, source "Nomad patch (mm/vmscan.c); range ours";
        /// Shadows freed by each reclaim of slow memory, as a share of what it is after
        shadow_reclaim_frac: f64 = 0.5, float(0.0, 1.0), unit "", special [], tuned, rebuild,
            when "shadowing" = true, source "Nomad patch (mm/vmscan.c), half; range ours";
        /// Whether the slow frames of promoted pages are kept
        shadowing: bool = true, bool, unit "", special [], fixed, rebuild, source "Nomad (OSDI 2024)";
        /// Entries of each CPU's batch of pages to be activated, which hold their pages in place; 1 activates them one by one
        activation_batch: u32 = ACTIVATED_AT_ONCE, int(1, 31), unit "entries", special [], fixed, rebuild,
            source "Linux mm/swap.c, PAGEVEC_SIZE: 15, from 6.10 on 31";
        /// Whether looking back clears accessed bits, so that a page has to be touched again before it rises
        lookback_clears_accessed: bool = false, bool, unit "", special [], fixed, rebuild,
            source "Nomad module, which leaves it for later";
    }
}

/// The knobs of both parts.
fn knobs() -> Vec<Knob> {
    // Nomad's fault makes every page accessible.
    let inherited = TppConfig::knobs()
        .into_iter()
        .filter(|knob| knob.name != "maps_inactive");
    let inherited = inherited.map(|knob| match knob.name {
        "demote_scale_factor" => Knob {
            source: "TPP patch, vm.demote_scale_factor; 1000 in the Alto artifact's runs of Nomad; range ours",
            ..knob
        },
        "faults_to_promote" => Knob {
            meaning: "Looks at a page, each at a later fault, until it is queued: 3 in the published code",
            default: Value::Int(3),
            source: "Nomad module: two marks make a page active, the third look queues it",
            ..knob
        },
        _ => knob,
    });
    inherited.chain(NomadConfig::knobs()).collect()
}

/// Kernel reclaim frees at least so many pages at a time (`SWAP_CLUSTER_MAX`).
const CLUSTER_PAGES: u32 = 32;

/// An earlier fault.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Entry {
    page: Page,
    /// The accessed bit is set, as far as is known.
    accessed: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Counts {
    aborted: u64,
    queue_full: u64,
    held: u64,
    given_up: u64,
    too_far_back: u64,
    shadow_hits: u64,
    shadow_writes: u64,
    shadows_reclaimed: u64,
}

#[derive(Serialize, Deserialize)]
struct Nomad {
    config: NomadConfig,
    tpp: Tpp,
    shadows: Shadows,
    /// The newest in front.
    looked_back_on: VecDeque<Entry>,
    lock: LookBackLock,
    promotions: Promotions,
    batches: ActivationBatches,
    /// Watermarks of the slow tiers, from tier 1 on.
    slow_marks: Vec<Watermarks>,
    failed_demotions: u64,
    counts: Counts,
}

impl Nomad {
    fn new(config: NomadConfig, tpp: TppConfig, topology: &Topology) -> Self {
        let tiers = topology.capacity_pages.len();
        let slow_marks = (1..tiers).map(|tier| {
            let mut seen_from_there = topology.clone();
            seen_from_there.capacity_pages.swap(0, tier);
            Watermarks::new(&seen_from_there, WATERMARK_SCALE_FACTOR)
        });
        Self {
            slow_marks: slow_marks.collect(),
            tpp: Tpp::new(tpp, topology),
            shadows: Shadows::new(topology.pages, tiers),
            looked_back_on: VecDeque::new(),
            lock: LookBackLock::default(),
            promotions: Promotions::new(
                topology.pages,
                config.promote_queue_len,
                Nanos::from(config.work_delay_ms) * 1_000_000,
                config.max_retry_passes,
            ),
            batches: ActivationBatches::new(config.activation_batch),
            failed_demotions: 0,
            counts: Counts::default(),
            config,
        }
    }

    /// The time that the fault takes its thread, in ns, beside that of any hint fault.
    fn on_hint_fault(&mut self, fault: &Fault, cx: &mut Context<'_>) -> f64 {
        self.tpp.balancing.faulted(fault, cx);
        if fault.tier == 0 {
            return 0.0; // marked for an outer policy only
        }
        let held = self.look_back(fault, cx);
        self.looked_back_on.push_front(Entry {
            page: fault.page,
            accessed: true,
        });
        self.lock.take(fault, held)
    }

    /// Judges the pages that faulted earlier.
    fn look_back(&mut self, fault: &Fault, cx: &mut Context<'_>) -> Held {
        let mut held = Held::default();
        let mut entries = std::mem::take(&mut self.looked_back_on);
        entries.retain_mut(|entry| {
            held.looks += 1;
            if cx.pages.tier_of(entry.page) == 0 {
                return false;
            }
            let accessed = if self.config.lookback_clears_accessed {
                cx.accessed.test_and_clear(entry.page) | std::mem::take(&mut entry.accessed)
            } else {
                entry.accessed
            };
            if !accessed {
                // Counted from 0 in the module, where what is beyond the distance goes.
                let near = held.looks <= self.config.pf_lookback_dist + 1;
                self.counts.too_far_back += u64::from(!near);
                return near;
            }
            let active = self.tpp.is_active(entry.page);
            if active {
                held.woke |= self.promotions.sleeps(fault.at);
                held.queued += 1;
                self.counts.queue_full += u64::from(!self.promotions.enter(entry.page, fault.at));
            } else {
                held.marks += 1;
                if self.tpp.refer(entry.page) {
                    for page in self.batches.enter(fault.thread, entry.page) {
                        held.activated += 1;
                        self.tpp.balancing.lru.activate(page);
                    }
                }
            }
            !active
        });
        self.looked_back_on = entries;
        held
    }

    /// What the worker does until `at`.
    fn work(&mut self, at: Nanos, cx: &mut Context<'_>) {
        while let Some(pass) = self.promotions.pass(at, cx.now, &self.batches) {
            let mut movable = pass.movable.into_iter();
            let stopped = movable.find(|page| !self.promote(*page, cx));
            // The kernel tries no page of the list after one for which there is no memory.
            let left: Vec<Page> = stopped.into_iter().chain(movable).collect();
            if !left.is_empty() {
                left.iter().for_each(|_| self.tpp.balancing.refused());
                cx.spend(self.promotions.break_off(&left));
            }
            self.counts.held += u64::from(pass.held);
            self.counts.given_up += u64::from(pass.given_up);
            cx.spend(pass.wasted_ns);
        }
    }

    /// Sends a page up, if it is not there; false where there is no room.
    fn promote(&mut self, page: Page, cx: &mut Context<'_>) -> bool {
        let balancing = &mut self.tpp.balancing;
        let from = cx.pages.tier_of(page);
        let has_room = balancing.has_room_above(balancing.marks.min, cx);
        if from == 0 {
            self.promotions.leaves(page);
        } else if has_room {
            balancing.promotes();
            if self.config.shadowing {
                self.shadows.expect(page, from);
                cx.migrate_keeping(page, 0);
            } else {
                cx.migrate(page, 0);
            }
        }
        if !balancing.has_room_above(self.tpp.demote_mark, cx) {
            balancing.wake_kswapd(cx);
        }
        from == 0 || has_room
    }

    fn ended(&mut self, migrated: &Migrated, cx: &mut Context<'_>) {
        let (page, how, outcome) = (migrated.request.page, migrated.request.how, migrated.outcome);
        let copy_ns = kernel_migration::alone_cpu_ns(PAGE_4K);
        if migrated.request.to == 0 {
            if !self.promotions.has(page) {
                return; // it was freed meanwhile, or is an outer policy's
            }
            self.promotions.leaves(page);
            if outcome == Outcome::Done {
                cx.spend(copy_ns);
                self.shadows.arrived(page);
            } else {
                self.shadows.forget(page);
            }
            if outcome == Outcome::Aborted {
                self.counts.aborted += 1;
                cx.spend(f64::from(self.config.max_retry_passes) * copy_ns);
            }
        } else if outcome == Outcome::Done {
            self.counts.shadow_hits += u64::from(how == How::Remap);
            self.shadows.forget(page);
        } else if how == How::Remap && outcome != Outcome::Gone {
            self.shadows.untake(page);
        }
    }

    /// Frees the oldest shadows of a tier.
    fn reclaim(&mut self, tier: Tier, pages: u32, cx: &mut Context<'_>) {
        let mut freed = 0;
        while let Some(page) = self.shadows.oldest(tier).filter(|_| freed < pages) {
            self.shadows.forget(page);
            cx.release(page);
            freed += 1;
        }
        self.counts.shadows_reclaimed += u64::from(freed);
        cx.spend(f64::from(freed) * PAGE_SCAN_NS);
    }

    /// Allocations in slow memory have failed: those in its fastest tier are asked first.
    fn reclaim_for(&mut self, failed: u32, cx: &mut Context<'_>) {
        let before = self.counts.shadows_reclaimed;
        let wanted = failed.saturating_mul(self.config.shadow_reclaim_batch);
        for tier in 1..=self.slow_marks.len() as Tier {
            let so_far = (self.counts.shadows_reclaimed - before) as u32;
            self.reclaim(tier, wanted - so_far, cx);
        }
    }

    /// What the node of a slow tier does that runs low: its reclaim is after as many pages as its high watermark.
    fn reclaim_low_tiers(&mut self, cx: &mut Context<'_>) {
        for tier in 1..=self.slow_marks.len() as Tier {
            let marks = self.slow_marks[usize::from(tier) - 1];
            if cx.pages.free_pages(tier) < marks.low {
                let wanted = f64::from(marks.high.max(CLUSTER_PAGES)) * self.config.shadow_reclaim_frac;
                self.reclaim(tier, wanted as u32, cx);
            }
        }
    }

    /// What every call ends with.
    fn rest(&mut self, cx: &mut Context<'_>) {
        self.work(cx.now, cx);
        self.reclaim_low_tiers(cx);
        let next = self.tpp.balancing.next_at(cx);
        cx.wake_at(self.promotions.next_at().map_or(next, |at| at.min(next)));
    }
}

impl Policy for Nomad {
    crate::saves_itself!();

    fn needs(&self) -> Needs {
        self.tpp.needs()
    }

    fn mechanics(&self) -> MigrationMechanics {
        MigrationMechanics {
            lanes: self.config.promoter_threads + 1,
            mode: CopyMode::Transactional {
                passes: self.config.max_retry_passes,
            },
            ..self.tpp.mechanics()
        }
    }

    fn hand_over(&mut self, taken: Takeover) -> bool {
        self.tpp.hand_over(taken)
    }

    fn is_hot(&self, fault: &Fault) -> bool {
        self.tpp.is_hot(fault)
    }

    fn widen_scans(&mut self, factor: f64) -> bool {
        self.tpp.widen_scans(factor)
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        let placement = self.tpp.on_alloc(extent, cx);
        let slow_pages = (1..=self.slow_marks.len() as Tier).map(|tier| cx.pages.free_pages(tier));
        let in_fast = cx.pages.free_pages(0).saturating_sub(self.tpp.balancing.marks.low);
        let missing = extent.pages.saturating_sub(in_fast + slow_pages.sum::<u32>());
        // Each failure frees a batch, into which the pages after it fit.
        self.reclaim_for(missing.div_ceil(self.config.shadow_reclaim_batch), cx);
        placement
    }

    fn on_free(&mut self, extent: &Extent, cx: &mut Context<'_>) {
        let pages = extent.start..extent.start + extent.pages;
        self.looked_back_on.retain(|entry| !pages.contains(&entry.page));
        self.promotions.forget(&pages);
        self.batches.forget(&pages);
        for page in pages {
            self.shadows.forget(page);
        }
        self.tpp.on_free(extent, cx);
    }

    fn on_faults(&mut self, faults: &[Fault], cx: &mut Context<'_>) {
        self.tpp.balancing.admit(cx);
        let mut looked_back_ns = 0.0;
        self.tpp.balancing.look_up(faults);
        for fault in faults {
            match fault.kind {
                FaultKind::Hint => {
                    self.work(fault.at, cx);
                    looked_back_ns += self.on_hint_fault(fault, cx);
                }
                FaultKind::Write => {
                    self.shadows.forget(fault.page);
                    self.counts.shadow_writes += 1;
                    cx.release(fault.page);
                }
            }
        }
        cx.spend_in_application(looked_back_ns);
        self.rest(cx);
    }

    fn on_migrations(&mut self, ended: &[Migrated], idle: bool, cx: &mut Context<'_>) {
        for migrated in ended {
            self.ended(migrated, cx);
        }
        self.tpp.on_migrations(ended, idle, cx);
        self.rest(cx);
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        let Self { tpp, shadows, .. } = self;
        tpp.balancing.on_wake_with(&mut |page| shadows.take(page), cx);
        let failed = self.tpp.balancing.kswapd.pages_without_place();
        let newly = failed - std::mem::replace(&mut self.failed_demotions, failed);
        self.reclaim_for(newly as u32, cx);
        self.rest(cx);
    }

    fn gauges(&self) -> Vec<Gauge> {
        let gauge = |name, meaning, value| Gauge { name, meaning, value };
        let counts = &self.counts;
        let mut gauges = self.tpp.gauges();
        gauges.extend([
            gauge(
                "shadow_pages",
                "slow frames kept for promoted pages",
                f64::from(self.shadows.len()),
            ),
            gauge(
                "shadow_hits",
                "demotions to a shadow, without a copy",
                counts.shadow_hits as f64,
            ),
            gauge(
                "shadows_written",
                "shadows given up at a store",
                counts.shadow_writes as f64,
            ),
            gauge(
                "shadows_reclaimed",
                "shadows given up for want of slow memory",
                counts.shadows_reclaimed as f64,
            ),
            gauge(
                "lookback_pages",
                "faults waiting to be judged",
                self.looked_back_on.len() as f64,
            ),
            gauge(
                "lookback_dropped",
                "faults too far back and not accessed",
                counts.too_far_back as f64,
            ),
            gauge(
                "queue_pages",
                "pages waiting for the worker",
                self.promotions.waiting() as f64,
            ),
            gauge(
                "queue_full",
                "pages to be promoted that found the queue full",
                counts.queue_full as f64,
            ),
            gauge(
                "held_copies",
                "copies for nothing of pages that a CPU's batch of pages to be activated held",
                counts.held as f64,
            ),
            gauge(
                "held_promotions",
                "promotions given up since such batches held the page in every pass",
                counts.given_up as f64,
            ),
            gauge(
                "aborted_promotions",
                "promotions given up since the page kept being written",
                counts.aborted as f64,
            ),
        ]);
        gauges
    }
}

/// The registry entry.
pub const SYSTEM: System = System {
    name: "nomad",
    summary: "promotes pages whose faults lie a little back, by copies that a store aborts; keeps the slow frame as shadow",
    source: "Nomad (OSDI 2024), as the Soar/Alto and PACT papers run it",
    signal: "NUMA hint faults, write faults and accessed bits",
    page_bytes: &[PAGE_4K],
    knobs,
    build,
};

fn build(config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    let resolved = knob::resolve("nomad", &knobs(), config)?;
    let part = |of: Vec<Knob>| -> Config {
        let own = of.iter().filter_map(|knob| resolved.get_key_value(knob.name));
        own.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let own = NomadConfig::from_config(&part(NomadConfig::knobs()))?;
    let tpp = TppConfig::from_config(&part(TppConfig::knobs()))?;
    Ok(Box::new(Nomad::new(own, tpp, topology)))
}
