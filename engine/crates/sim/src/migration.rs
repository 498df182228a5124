//! Executes requested migrations: background lanes one after another and faulting threads at once,
//! with time, traffic and outcomes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use tiertune_policy::{CopyMode, How, Migrated, MigrationMechanics, Move, Nanos, Outcome, Page, PageMap, Tier};

use crate::latency::TierLatency;
use crate::memory::Memory;
use crate::workload::Object;

/// A copy under way.
#[derive(Debug, Clone, Copy)]
pub struct Copying {
    /// What was asked.
    pub request: Move,
    /// Where the page is until the copy ends.
    pub from: Tier,
    /// When it began.
    pub start: Nanos,
    /// When the page will be in its new place.
    pub end: Nanos,
    /// Which attempt of a transactional copy it is, from 1.
    pub pass: u32,
}

/// Whose accesses to a page wait while it moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Writers.
    Writers,
    /// Everybody.
    All,
}

#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    free_at: Nanos,
    copying: Option<Copying>,
}

/// A copy by a faulting thread, ordered by its end.
#[derive(Debug, Clone, Copy)]
struct InFault {
    number: u64,
    copying: Copying,
}

impl InFault {
    fn order(&self) -> (Nanos, u64) {
        (self.copying.end, self.number)
    }
}

impl PartialEq for InFault {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for InFault {}

impl PartialOrd for InFault {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InFault {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

/// Something that happened while time advanced.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// A copy began; whoever touches the page may have to wait.
    Begun(Copying),
    /// A transactional copy was thrown away; the next attempt, if any, begins now.
    Aborted(Copying),
    /// A page changed tiers.
    Moved {
        /// The page.
        page: Page,
        /// Object index.
        object: usize,
        /// Piece of the object.
        piece: usize,
        /// Old tier.
        from: Tier,
        /// New tier.
        to: Tier,
        /// Whether it was copied, not remapped.
        copied: bool,
        /// Whether its old frame is kept.
        kept: bool,
        /// When.
        at: Nanos,
    },
}

/// The same with moves that take `cost` times as long.
fn at_cost(mechanics: MigrationMechanics, cost: f64) -> MigrationMechanics {
    let times = |span: Nanos| (span as f64 * cost).round() as Nanos;
    MigrationMechanics {
        fixed_ns: times(mechanics.fixed_ns),
        alone_fixed_ns: times(mechanics.alone_fixed_ns),
        run_fixed_ns: times(mechanics.run_fixed_ns),
        remap_ns: times(mechanics.remap_ns),
        copy_gbps: mechanics.copy_gbps / cost,
        ..mechanics
    }
}

/// Who waits for a page on the move, and for how long after the start (before the end, for transactions).
#[must_use]
pub fn blocking(mechanics: &MigrationMechanics, copying: &Copying) -> (Waiting, Nanos) {
    let whole = copying.end - copying.start;
    let remapping = mechanics.remap_ns.min(whole);
    match (copying.request.how, mechanics.mode) {
        (How::InFault { .. }, _) => (Waiting::All, whole),
        (How::Remap, _) => (Waiting::All, remapping),
        _ if passes_of(mechanics, copying).is_some() => (Waiting::All, remapping),
        (_, CopyMode::WriteProtected) => (Waiting::Writers, whole),
        (_, CopyMode::Transactional { .. } | CopyMode::Unmapped) => (Waiting::All, whole),
    }
}

/// Most passes of a copy that is a transaction; `None` for others.
fn passes_of(mechanics: &MigrationMechanics, copying: &Copying) -> Option<u32> {
    match mechanics.mode {
        CopyMode::Transactional { passes } if mechanics.is_transaction(&copying.request, copying.from) => Some(passes),
        _ => None,
    }
}

/// What prices copies and decides transactions; the two modes of the simulator differ in it.
pub trait Copies {
    /// How long a copy takes that begins now.
    fn duration_ns(&self, migrator: &Migrator, request: &Move, from: Tier) -> Nanos;
    /// Whether the page was written while it was copied.
    fn written(&mut self, copying: &Copying) -> bool;
    /// Hears of every step, in order.
    fn step(&mut self, step: &Step);
}

/// The migration threads of a system.
#[derive(Debug)]
pub struct Migrator {
    mechanics: MigrationMechanics,
    page_bytes: u64,
    lanes: Vec<Lane>,
    queue: VecDeque<(Move, Nanos)>,
    /// Requests for faulting threads, which begin at once.
    fault_queue: Vec<(Move, Nanos)>,
    in_fault: BinaryHeap<Reverse<InFault>>,
    fault_number: u64,
    /// When each application thread is through with its moves.
    thread_free_at: Vec<Nanos>,
    /// Pages under way, a bit each.
    under_way: Vec<u64>,
    ended: Vec<Migrated>,
    /// Until when the bytes of copies have been counted.
    counted_to: Nanos,
    /// Bytes read from and written to each tier since they were last taken.
    copied: Vec<[f64; 2]>,
}

impl Migrator {
    /// Idle lanes as `mechanics` say, for memory of `pages` pages.
    #[must_use]
    pub fn new(mechanics: MigrationMechanics, cost: f64, page_bytes: u64, pages: u32) -> Self {
        let mechanics = at_cost(mechanics, cost);
        let lanes = vec![Lane::default(); mechanics.lanes.max(1) as usize];
        Self {
            mechanics,
            page_bytes,
            lanes,
            queue: VecDeque::new(),
            fault_queue: Vec::new(),
            in_fault: BinaryHeap::new(),
            fault_number: 0,
            thread_free_at: Vec::new(),
            under_way: vec![0; (pages as usize).div_ceil(64)],
            ended: Vec::new(),
            counted_to: 0,
            copied: vec![[0.0; 2]; 8],
        }
    }

    /// How pages are copied.
    #[must_use]
    pub fn mechanics(&self) -> &MigrationMechanics {
        &self.mechanics
    }

    /// Queues requests made at `now`.
    pub fn request(&mut self, moves: &mut Vec<Move>, now: Nanos) {
        for request in moves.drain(..) {
            match request.how {
                How::InFault { .. } => self.fault_queue.push((request, now)),
                How::Background | How::KeepingFrame | How::Remap => self.queue.push_back((request, now)),
                How::Reclaim | How::Free => unreachable!("carried out when asked"),
            }
        }
    }

    /// Whether nothing is queued or under way.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.queue.is_empty()
            && self.fault_queue.is_empty()
            && self.in_fault.is_empty()
            && self.lanes.iter().all(|l| l.copying.is_none())
    }

    /// When the last background copy under way ends, if nothing more is queued.
    #[must_use]
    pub fn drained_at(&self) -> Option<Nanos> {
        if !self.queue.is_empty() {
            return None;
        }
        self.lanes.iter().filter_map(|l| l.copying.map(|c| c.end)).max()
    }

    /// Copies under way.
    pub fn copying(&self) -> impl Iterator<Item = &Copying> {
        let in_fault = self.in_fault.iter().map(|Reverse(in_fault)| &in_fault.copying);
        self.lanes.iter().filter_map(|l| l.copying.as_ref()).chain(in_fault)
    }

    /// Traffic of a copy while it lasts, in 1e9 bytes per second; 0 before it begins and for remapping.
    #[must_use]
    pub fn gbps(&self, copying: &Copying) -> f64 {
        if copying.request.how == How::Remap || copying.start > self.counted_to {
            return 0.0;
        }
        self.bytes(&copying.request) / (copying.end - copying.start) as f64
    }

    fn bytes(&self, request: &Move) -> f64 {
        self.page_bytes as f64 * f64::from(request.pages)
    }

    /// Takes the bytes read from and written to each tier by copies since the last call.
    pub fn take_copied(&mut self) -> Vec<[f64; 2]> {
        std::mem::replace(&mut self.copied, vec![[0.0; 2]; 8])
    }

    /// Counts the part of a copy that lies between the last count and `until`.
    fn count_bytes(&mut self, copying: &Copying, until: Nanos) {
        let from = copying.start.max(self.counted_to);
        let to = copying.end.min(until);
        if to > from && copying.request.how != How::Remap {
            let bytes = self.bytes(&copying.request) * (to - from) as f64 / (copying.end - copying.start) as f64;
            self.copied[usize::from(copying.from)][0] += bytes;
            self.copied[usize::from(copying.request.to)][1] += bytes;
        }
    }

    /// Takes the migrations that ended since the last call.
    pub fn take_ended(&mut self, into: &mut Vec<Migrated>) {
        into.clear();
        into.append(&mut self.ended);
    }

    /// How long a copy takes that begins at the given latency multipliers of both tiers.
    ///
    /// A copier keeps a fixed number of lines in flight, so (Little's law) its speed falls as
    /// latency rises; beyond that it is limited by the peaks of the tier read and the tier written.
    #[must_use]
    pub fn duration_ns(&self, tiers: &[TierLatency], multipliers: &[f64], request: &Move, from: Tier) -> Nanos {
        if request.how == How::Remap {
            return self.mechanics.remap_ns;
        }
        let (source, target) = (usize::from(from), usize::from(request.to));
        let loaded = self.mechanics.copy_gbps / multipliers[source].max(multipliers[target]);
        let gbps = loaded
            .min(tiers[source].peak().read_gbps)
            .min(tiers[target].peak().write_gbps);
        self.mechanics.fixed_ns_of(request, from) + (self.bytes(request) / gbps) as Nanos
    }

    fn is_under_way(&self, pages: Range<Page>) -> bool {
        pages
            .into_iter()
            .any(|page| self.under_way[page as usize / 64] & (1 << (page % 64)) != 0)
    }

    fn set_under_way(&mut self, pages: Range<Page>, under_way: bool) {
        for page in pages {
            let (word, bit) = (&mut self.under_way[page as usize / 64], 1 << (page % 64));
            *word = if under_way { *word | bit } else { *word & !bit };
        }
    }

    /// Carries out a move that is over at once; returns where the pages were.
    pub fn move_at_once(
        &mut self,
        request: Move,
        now: Nanos,
        memory: &mut Memory,
        objects: &[Object],
    ) -> Result<Tier, Outcome> {
        let admitted = if self.is_under_way(request.range()) {
            Err(Outcome::Gone)
        } else {
            self.admit(&request, memory)
        };
        if admitted.is_ok() {
            for page in request.range() {
                let object = objects.partition_point(|o| o.first_page <= page) - 1;
                memory.commit(page, object, &objects[object], request.to);
                memory.release(page);
            }
        }
        self.end(request, admitted.err().unwrap_or(Outcome::Done), now);
        admitted
    }

    /// Drops what was asked for pages that are being freed.
    pub fn cancel(&mut self, freed: Range<Page>, now: Nanos, memory: &mut Memory) {
        let touches = |request: &Move| request.page < freed.end && freed.start < request.page + request.pages;
        let mut cancelled = Vec::new();
        for queue in [
            &mut self.queue,
            &mut VecDeque::from(std::mem::take(&mut self.fault_queue)),
        ] {
            for (request, asked_at) in std::mem::take(queue) {
                if touches(&request) {
                    cancelled.push((request, 0));
                } else if matches!(request.how, How::InFault { .. }) {
                    self.fault_queue.push((request, asked_at));
                } else {
                    queue.push_back((request, asked_at));
                }
            }
        }
        for lane in &mut self.lanes {
            if let Some(copying) = lane.copying.take_if(|copying| touches(&copying.request)) {
                lane.free_at = now;
                cancelled.push((copying.request, copying.request.pages));
            }
        }
        let in_fault = std::mem::take(&mut self.in_fault);
        for Reverse(in_fault) in in_fault.into_sorted_vec().into_iter().rev() {
            if touches(&in_fault.copying.request) {
                cancelled.push((in_fault.copying.request, in_fault.copying.request.pages));
            } else {
                self.in_fault.push(Reverse(in_fault));
            }
        }
        for (request, reserved) in cancelled {
            if reserved > 0 {
                self.set_under_way(request.range(), false);
                if request.how != How::Remap {
                    memory.unreserve(request.to, reserved);
                }
            }
            self.end(request, Outcome::Gone, now);
        }
    }

    fn end(&mut self, request: Move, outcome: Outcome, at: Nanos) {
        self.ended.push(Migrated { request, outcome, at });
    }

    /// Runs everything until `until`.
    pub fn advance(&mut self, until: Nanos, memory: &mut Memory, objects: &[Object], copies: &mut impl Copies) {
        self.begin_faults(memory, copies);
        loop {
            if self.begin_next(until, memory, copies) {
                continue;
            }
            let lanes = self.lanes.iter().enumerate();
            let lane = lanes.filter_map(|(i, l)| l.copying.map(|c| (c.end, i))).min();
            let fault_end = self.in_fault.peek().map(|Reverse(in_fault)| in_fault.copying.end);
            match (lane, fault_end) {
                (Some((end, lane)), _) if end <= until && fault_end.is_none_or(|other| end <= other) => {
                    self.finish_lane(lane, memory, objects, copies);
                }
                (_, Some(end)) if end <= until => {
                    let Reverse(InFault { copying, .. }) = self.in_fault.pop().expect("it was just seen");
                    self.arrive(&copying, memory, objects, copies);
                }
                _ => break,
            }
        }
        let under_way: Vec<Copying> = self.copying().copied().collect();
        for copying in under_way {
            self.count_bytes(&copying, until);
        }
        self.counted_to = self.counted_to.max(until);
    }

    fn finish_lane(&mut self, lane: usize, memory: &mut Memory, objects: &[Object], copies: &mut impl Copies) {
        let mut copying = self.lanes[lane].copying.take().expect("chosen because it copies");
        self.lanes[lane].free_at = copying.end;
        let transaction = passes_of(&self.mechanics, &copying);
        if let Some(passes) = transaction.filter(|_| copies.written(&copying)) {
            self.count_bytes(&copying, copying.end);
            copies.step(&Step::Aborted(copying));
            if copying.pass < passes {
                let span = copies.duration_ns(self, &copying.request, copying.from).max(1);
                (copying.start, copying.end) = (copying.end, copying.end + span);
                copying.pass += 1;
                self.lanes[lane].copying = Some(copying);
                copies.step(&Step::Begun(copying));
            } else {
                memory.unreserve(copying.request.to, copying.request.pages);
                self.set_under_way(copying.request.range(), false);
                self.end(copying.request, Outcome::Aborted, copying.end);
            }
            return;
        }
        self.arrive(&copying, memory, objects, copies);
    }

    /// A copy is complete: its pages change places.
    fn arrive(&mut self, copying: &Copying, memory: &mut Memory, objects: &[Object], copies: &mut impl Copies) {
        self.count_bytes(copying, copying.end);
        let Move { how, to, .. } = copying.request;
        if how == How::Remap && copying.request.range().any(|page| memory.kept(page) != Some(to)) {
            // It was given up meanwhile.
            self.set_under_way(copying.request.range(), false);
            self.end(copying.request, Outcome::Gone, copying.end);
            return;
        }
        for page in copying.request.range() {
            let object = objects.partition_point(|o| o.first_page <= page) - 1;
            if how == How::Remap {
                // The kept frame is the one that the page moves to.
                memory.release(page);
                memory.reserve(to, 1);
            }
            let (from, piece) = memory.commit(page, object, &objects[object], to);
            let kept = how == How::KeepingFrame;
            if kept {
                memory.keep(page, from);
            } else {
                // A frame that was kept for an earlier place is of no use for this one.
                memory.release(page);
            }
            copies.step(&Step::Moved {
                page,
                object,
                piece,
                from,
                to,
                copied: how != How::Remap,
                kept,
                at: copying.end,
            });
        }
        self.set_under_way(copying.request.range(), false);
        self.end(copying.request, Outcome::Done, copying.end);
    }

    /// What cannot be carried out, if anything; otherwise the tier that the pages are in, and the frames are reserved.
    fn admit(&self, request: &Move, memory: &mut Memory) -> Result<Tier, Outcome> {
        if !request.range().all(|page| memory.exists(page)) {
            return Err(Outcome::Gone);
        }
        let from = memory.tier_of(request.page);
        if request.range().any(|page| memory.tier_of(page) != from) {
            return Err(Outcome::Gone);
        }
        if from == request.to {
            return Err(Outcome::AlreadyThere);
        }
        if request.how == How::Remap {
            let kept = request.range().all(|page| memory.kept(page) == Some(request.to));
            return if kept { Ok(from) } else { Err(Outcome::Gone) };
        }
        if memory.reserve(request.to, request.pages) {
            Ok(from)
        } else {
            Err(Outcome::NoSpace)
        }
    }

    /// Faulting threads begin what they were asked to do, one page after another each.
    fn begin_faults(&mut self, memory: &mut Memory, copies: &mut impl Copies) {
        for (request, asked_at) in std::mem::take(&mut self.fault_queue) {
            let How::InFault { thread } = request.how else {
                unreachable!("sorted when asked")
            };
            if self.is_under_way(request.range()) {
                self.end(request, Outcome::Gone, asked_at);
                continue;
            }
            match self.admit(&request, memory) {
                Err(outcome) => self.end(request, outcome, asked_at),
                Ok(from) => {
                    let threads = self.thread_free_at.len().max(thread as usize + 1);
                    self.thread_free_at.resize(threads, 0);
                    let start = self.thread_free_at[thread as usize].max(asked_at);
                    let end = start + copies.duration_ns(self, &request, from).max(1);
                    self.thread_free_at[thread as usize] = end;
                    let copying = Copying {
                        request,
                        from,
                        start,
                        end,
                        pass: 1,
                    };
                    self.set_under_way(request.range(), true);
                    self.in_fault.push(Reverse(InFault {
                        number: self.fault_number,
                        copying,
                    }));
                    self.fault_number += 1;
                    copies.step(&Step::Begun(copying));
                }
            }
        }
    }

    /// Starts the first queued request on a free lane; false when that is not possible now.
    fn begin_next(&mut self, until: Nanos, memory: &mut Memory, copies: &mut impl Copies) -> bool {
        let Some(&(request, asked_at)) = self.queue.front() else {
            return false;
        };
        let idle = self.lanes.iter().enumerate().filter(|(_, l)| l.copying.is_none());
        let Some((lane, free_at)) = idle.map(|(i, l)| (i, l.free_at)).min_by_key(|(i, t)| (*t, *i)) else {
            return false;
        };
        let start = free_at.max(asked_at);
        if start > until || self.is_under_way(request.range()) {
            return false;
        }
        let admitted = self.admit(&request, memory);
        // Another lane may be about to make room.
        let leaves = |l: &Lane| {
            l.copying
                .is_some_and(|c| c.from == request.to && c.request.how != How::KeepingFrame)
        };
        if admitted == Err(Outcome::NoSpace) && self.lanes.iter().any(leaves) {
            return false;
        }
        self.queue.pop_front();
        match admitted {
            Err(outcome) => self.end(request, outcome, start),
            Ok(from) => {
                let copying = Copying {
                    request,
                    from,
                    start,
                    end: start + copies.duration_ns(self, &request, from).max(1),
                    pass: 1,
                };
                self.set_under_way(request.range(), true);
                self.lanes[lane].copying = Some(copying);
                copies.step(&Step::Begun(copying));
            }
        }
        true
    }
}
