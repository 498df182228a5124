//! Carries out migrations: in batches, demotions before promotions, within the cap, and with the kernel's own answer of
//! where every page is afterwards.
//!
//! What a user-space daemon cannot do is done otherwise: a move that the faulting thread would make is made at once by
//! the daemon; one that would keep the old frame is a plain move, so that there is never a frame to go back to.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;
use tiertune_policy::{How, Migrated, Move, Nanos, Outcome, Page, PageMap, Tier};

use crate::kernel::{ABSENT, BUSY, Kernel, NO_MEMORY, Refusal, UNTRIED};
use crate::table::{BLOCK_FRAMES, FRAME_BYTES, Table};

/// Frames that are given to the kernel at a time.
pub const BATCH_FRAMES: usize = 512;
/// Waits between tries of frames that were busy: what holds a page for a moment is soon over, what pins it is not.
const RETRY_AFTER_NS: [u64; 3] = [100_000, 1_000_000, 5_000_000];

/// What came of all migrations so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Tally {
    /// Bytes that arrived in the fast tier.
    pub promoted_bytes: u64,
    /// Bytes that arrived in the slow tier.
    pub demoted_bytes: u64,
    /// Of the promoted bytes, those that were moved where the policy places new memory.
    pub placed_bytes: u64,
    /// Of the demoted bytes, those that were over the cap.
    pub excess_bytes: u64,
    /// Requests of the policy by what came of them.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Requests that the faulting thread would have carried out, and the daemon did.
    pub in_fault: u64,
    /// Requests to keep the old frame, carried out without.
    pub keeping_frame: u64,
    /// Calls of the kernel, tries again included.
    pub calls: u64,
    /// Frames that were tried again.
    pub retried_frames: u64,
    /// Frames that stayed busy to the last try.
    pub busy_frames: u64,
    /// Frames that the kernel refused for want of memory on the node.
    pub no_memory_frames: u64,
    /// Calls that the kernel refused as a whole, by reason.
    pub refused_calls: BTreeMap<String, u64>,
}

/// The word for an outcome in reports.
fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::NoSpace => "no_space",
        Outcome::AlreadyThere => "already_there",
        Outcome::Aborted => "aborted",
        Outcome::Gone => "gone",
        Outcome::Refused => "refused",
    }
}

/// A frame of a block.
pub type Frame = (u32, usize);

/// Requests and what came of them.
#[derive(Debug)]
pub struct Mover {
    /// Node of each tier.
    nodes: [u32; 2],
    most_bytes_per_s: Option<f64>,
    next_at_ns: u64,
    urgent: VecDeque<Move>,
    queue: VecDeque<Move>,
    ended: Vec<Migrated>,
    /// Processes that there were after the last move out of the fast tier.
    processes: BTreeSet<i32>,
    /// Counts.
    pub tally: Tally,
}

impl Mover {
    /// Moves between the nodes of the fast and the slow tier, at most so many bytes a second.
    #[must_use]
    pub fn new(nodes: [u32; 2], most_bytes_per_s: Option<f64>) -> Self {
        Self {
            nodes,
            most_bytes_per_s,
            next_at_ns: 0,
            urgent: VecDeque::new(),
            queue: VecDeque::new(),
            ended: Vec::new(),
            processes: BTreeSet::new(),
            tally: Tally::default(),
        }
    }

    /// Queues requests in the order made.
    pub fn ask(&mut self, moves: &mut Vec<Move>) {
        for request in moves.drain(..) {
            match request.how {
                How::InFault { .. } => {
                    self.tally.in_fault += 1;
                    self.urgent.push_back(request);
                }
                How::KeepingFrame => {
                    self.tally.keeping_frame += 1;
                    self.queue.push_back(request);
                }
                _ => self.queue.push_back(request),
            }
        }
    }

    /// Whether nothing is left to be done.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.urgent.is_empty() && self.queue.is_empty()
    }

    /// When the next batch may begin.
    #[must_use]
    pub fn next_at_ns(&self) -> Option<u64> {
        (!self.idle()).then_some(self.next_at_ns)
    }

    /// Takes the requests that ended since the last call.
    pub fn take_ended(&mut self) -> Vec<Migrated> {
        std::mem::take(&mut self.ended)
    }

    fn end(&mut self, request: Move, outcome: Outcome, at: Nanos) {
        *self.tally.outcomes.entry(word(outcome)).or_default() += 1;
        self.ended.push(Migrated { request, outcome, at });
    }

    /// Drops what was asked for pages that are being freed.
    pub fn cancel(&mut self, from: Page, to: Page, at: Nanos) {
        let touches = |request: &Move| request.page < to && from < request.page + request.pages;
        let mut gone = Vec::new();
        for queue in [&mut self.urgent, &mut self.queue] {
            if queue.iter().any(touches) {
                gone.extend(queue.iter().copied().filter(touches));
                queue.retain(|request| !touches(request));
            }
        }
        gone.into_iter()
            .for_each(|request| self.end(request, Outcome::Gone, at));
    }

    /// Carries out the next requests, about a batch of them; `at` is the policy's time for what ends.
    pub fn step(&mut self, kernel: &mut impl Kernel, table: &mut Table, at: Nanos) {
        let now_ns = kernel.now_ns();
        if self.idle() || now_ns < self.next_at_ns {
            return;
        }
        let window = self.take_window(table);
        self.carry_out(window, kernel, table, at);
    }

    /// Carries out requests that are over before anything else happens.
    pub fn at_once(&mut self, requests: Vec<Move>, kernel: &mut impl Kernel, table: &mut Table, at: Nanos) {
        self.carry_out(requests, kernel, table, at);
    }

    /// Requests from the front, as long as no page comes twice and there are not too many.
    fn take_window(&mut self, table: &Table) -> Vec<Move> {
        let (mut window, mut pages, mut frames) = (Vec::new(), BTreeSet::new(), 0);
        let queue = if self.urgent.is_empty() {
            &mut self.queue
        } else {
            &mut self.urgent
        };
        while let Some(request) = queue.front().copied() {
            if request.range().any(|page| pages.contains(&page)) {
                break;
            }
            frames += request.pages as usize * table.page_frames();
            if !window.is_empty() && frames > BATCH_FRAMES {
                break;
            }
            pages.extend(request.range());
            window.push(request);
            queue.pop_front();
        }
        window
    }

    fn carry_out(&mut self, window: Vec<Move>, kernel: &mut impl Kernel, table: &mut Table, at: Nanos) {
        let mut outcomes: Vec<Option<Outcome>> = vec![None; window.len()];
        // Room is made before it is taken.
        for tier in [1, 0] {
            let mut frames: Vec<Frame> = Vec::new();
            let mut room = table.room_frames();
            for (request, outcome) in window.iter().zip(&mut outcomes) {
                if request.to != tier {
                    continue;
                }
                *outcome = admitted(request, table).err();
                if outcome.is_some() {
                    continue;
                }
                let before = frames.len();
                for page in request.range() {
                    frames.extend(elsewhere(page, tier, table));
                }
                let more = (frames.len() - before) as u64;
                if tier == 0 && more > room {
                    frames.truncate(before);
                    *outcome = Some(Outcome::NoSpace);
                } else if tier == 0 {
                    room -= more;
                }
            }
            let problems = self.move_frames(&frames, tier, kernel, table);
            for (request, outcome) in window.iter().zip(&mut outcomes) {
                if request.to == tier && outcome.is_none() {
                    *outcome = Some(outcome_of(request, table, &problems));
                }
            }
        }
        for (request, outcome) in window.into_iter().zip(outcomes) {
            // There are two tiers, so every request was for one of them.
            self.end(request, outcome.unwrap_or(Outcome::Gone), at);
        }
    }

    /// Moves frames to a tier and notes where they are afterwards; the error of each that is not there.
    pub fn move_frames(
        &mut self,
        frames: &[Frame],
        tier: Tier,
        kernel: &mut impl Kernel,
        table: &mut Table,
    ) -> BTreeMap<Frame, i32> {
        let mut problems = BTreeMap::new();
        let mut by_process: BTreeMap<i32, Vec<Frame>> = BTreeMap::new();
        for frame in frames {
            by_process.entry(table.block(frame.0).pid).or_default().push(*frame);
        }
        let mut moved_frames = 0;
        for (pid, frames) in by_process {
            for batch in frames.chunks(BATCH_FRAMES) {
                moved_frames += self.move_batch(pid, batch, tier, kernel, table, &mut problems);
            }
        }
        let bytes = moved_frames * FRAME_BYTES;
        if tier == 0 {
            self.tally.promoted_bytes += bytes;
        } else {
            self.tally.demoted_bytes += bytes;
        }
        if let Some(rate) = self.most_bytes_per_s {
            let from = self.next_at_ns.max(kernel.now_ns());
            self.next_at_ns = from + (bytes as f64 / rate * 1e9) as u64;
        }
        problems
    }

    fn move_batch(
        &mut self,
        pid: i32,
        batch: &[Frame],
        tier: Tier,
        kernel: &mut impl Kernel,
        table: &mut Table,
        problems: &mut BTreeMap<Frame, i32>,
    ) -> u64 {
        let node = self.nodes[usize::from(tier)];
        let mut left: Vec<Frame> = batch.to_vec();
        let mut with_others = BTreeSet::new();
        if tier != 0 {
            if self.processes.is_empty() {
                self.processes = numbers(kernel);
            }
            // In this order: a page that is copied between the two questions was shared, or is no longer in the fast tier.
            if self.processes.len() > 1 {
                with_others = shared(pid, &left, kernel, table);
            }
            left = still_fast(pid, left, self.nodes[0], kernel, table);
        }
        let mut moved = 0;
        let mut left_fast = Vec::new();
        for attempt in 0..=RETRY_AFTER_NS.len() {
            if left.is_empty() {
                break;
            }
            let pages: Vec<u64> = left.iter().map(|frame| address(*frame, table)).collect();
            self.tally.calls += 1;
            let status = match kernel.migrate(pid, &pages, node) {
                Ok(status) => status,
                Err(refusal) => {
                    let code = match refusal {
                        Refusal::Gone => ABSENT,
                        Refusal::Offline => NO_MEMORY,
                        Refusal::Other(_) => BUSY,
                    };
                    *self.tally.refused_calls.entry(refusal.to_string()).or_default() += 1;
                    problems.extend(left.iter().map(|frame| (*frame, code)));
                    break;
                }
            };
            let (mut busy, mut unsure) = (Vec::new(), Vec::new());
            for (frame, status) in left.iter().zip(status) {
                if status == node as i32 {
                    table.note(frame.0, frame.1, Some(tier));
                    left_fast.push(*frame);
                    moved += 1;
                } else {
                    unsure.push((*frame, status));
                }
            }
            // Read back: a huge page moves with its first frame, and the others are then said to be busy.
            let pages: Vec<u64> = unsure.iter().map(|(frame, _)| address(*frame, table)).collect();
            let nodes = if pages.is_empty() {
                Vec::new()
            } else {
                kernel.nodes(pid, &pages).unwrap_or_default()
            };
            for (place, (frame, status)) in unsure.into_iter().enumerate() {
                let now = nodes.get(place).copied().unwrap_or(ABSENT);
                if now == node as i32 {
                    table.note(frame.0, frame.1, Some(tier));
                    left_fast.push(frame);
                    moved += 1;
                } else if now < 0 {
                    table.note(frame.0, frame.1, None);
                    left_fast.push(frame);
                    problems.insert(frame, ABSENT);
                } else if status == BUSY || status == UNTRIED {
                    busy.push(frame);
                } else {
                    self.tally.no_memory_frames += u64::from(status == NO_MEMORY);
                    problems.insert(frame, status);
                }
            }
            left = busy;
            if left.is_empty() {
                break;
            }
            let Some(wait_ns) = RETRY_AFTER_NS.get(attempt) else {
                self.tally.busy_frames += left.len() as u64;
                problems.extend(left.iter().map(|frame| (*frame, BUSY)));
                break;
            };
            self.tally.retried_frames += left.len() as u64;
            let until = kernel.now_ns() + wait_ns;
            while kernel.now_ns() < until {
                kernel.rest(until);
            }
        }
        if tier != 0 {
            table.doubt_moved(self.kept_by_others(&left_fast, &with_others, kernel));
        }
        moved
    }

    /// How many of the frames that one process has no longer in the fast tier may still be there. A write after a fork copies
    /// a page; the copy is where the page was to go, while the frame that was to be moved stays with the others.
    fn kept_by_others(&mut self, frames: &[Frame], with_others: &BTreeSet<Frame>, kernel: &mut impl Kernel) -> u64 {
        if frames.is_empty() {
            return 0;
        }
        let processes = numbers(kernel);
        // Nobody knows what a process that came meanwhile has.
        let came = !processes.is_subset(&self.processes);
        self.processes = processes;
        let kept = |frame: &&Frame| came || with_others.contains(*frame);
        frames.iter().filter(kept).count() as u64
    }
}

/// Numbers of the workload's processes.
fn numbers(kernel: &mut impl Kernel) -> BTreeSet<i32> {
    kernel.processes().into_iter().map(|process| process.pid).collect()
}

/// Those of the frames that other processes have as well.
fn shared(pid: i32, frames: &[Frame], kernel: &mut impl Kernel, table: &Table) -> BTreeSet<Frame> {
    let pages: Vec<u64> = frames.iter().map(|frame| address(*frame, table)).collect();
    let numbers = kernel.shared(pid, &pages).unwrap_or_default();
    let both = frames.iter().zip(numbers);
    both.filter(|(_, number)| *number != 0)
        .map(|(frame, _)| *frame)
        .collect()
}

/// Those of the frames that really are in the fast tier. A page that was copied on a write after a fork is in the slow one
/// already, while the frame that it had may be the child's now: moving it makes no room.
fn still_fast(pid: i32, frames: Vec<Frame>, fast: u32, kernel: &mut impl Kernel, table: &mut Table) -> Vec<Frame> {
    let pages: Vec<u64> = frames.iter().map(|frame| address(*frame, table)).collect();
    let Ok(nodes) = kernel.nodes(pid, &pages) else {
        return frames;
    };
    let mut left = Vec::with_capacity(frames.len());
    for (frame, node) in frames.into_iter().zip(nodes) {
        if node == fast as i32 {
            left.push(frame);
        } else {
            table.note(frame.0, frame.1, (node >= 0).then_some(1));
            table.doubt_moved(1);
        }
    }
    left
}

/// Address of a frame in units of 4 KiB.
fn address(frame: Frame, table: &Table) -> u64 {
    table.block(frame.0).chunk * BLOCK_FRAMES as u64 + frame.1 as u64
}

/// Frames of a page that are in memory, but not in `tier`.
pub fn elsewhere(page: Page, tier: Tier, table: &Table) -> Vec<Frame> {
    let (number, from, to) = table.frames_of(page);
    let block = table.block(number);
    (from..to)
        .filter(|frame| block.present.has(*frame) && block.fast.has(*frame) != (tier == 0))
        .map(|frame| (number, frame))
        .collect()
}

/// What cannot be carried out, if anything.
fn admitted(request: &Move, table: &Table) -> Result<(), Outcome> {
    if request.how == How::Remap || !request.range().all(|page| table.exists(page)) {
        return Err(Outcome::Gone);
    }
    let from = table.tier_of(request.page);
    if request.range().any(|page| table.tier_of(page) != from) {
        return Err(Outcome::Gone);
    }
    if from == request.to {
        return Err(Outcome::AlreadyThere);
    }
    Ok(())
}

fn outcome_of(request: &Move, table: &Table, problems: &BTreeMap<Frame, i32>) -> Outcome {
    if request.range().all(|page| table.tier_of(page) == request.to) {
        return Outcome::Done;
    }
    let frames = request.range().flat_map(|page| elsewhere(page, request.to, table));
    let codes: Vec<i32> = frames.filter_map(|frame| problems.get(&frame).copied()).collect();
    // A page whose frames went meanwhile is still the policy's: it may be touched again before memory is looked at next, and if
    // not, the policy is told then. `Gone` would have it forgotten.
    if codes.contains(&NO_MEMORY) {
        Outcome::NoSpace
    } else {
        Outcome::Aborted
    }
}
