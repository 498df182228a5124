//! Executes requested migrations: one lane after another, with time, traffic and outcomes.

use std::collections::VecDeque;

use tiertune_policy::{Migrated, MigrationMechanics, Move, Nanos, Outcome, PageMap, Tier};

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
}

#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    free_at: Nanos,
    copying: Option<Copying>,
}

/// Something that happened while time advanced.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// A copy began; whoever touches the page may have to wait until its end.
    Begun(Copying),
    /// A page changed tiers: the page, its object and piece, from, to.
    Moved {
        /// Object index.
        object: usize,
        /// Piece of the object.
        piece: usize,
        /// Old tier.
        from: Tier,
        /// New tier.
        to: Tier,
    },
}

/// The migration threads of a system.
#[derive(Debug)]
pub struct Migrator {
    mechanics: MigrationMechanics,
    page_bytes: u64,
    lanes: Vec<Lane>,
    queue: VecDeque<(Move, Nanos)>,
    ended: Vec<Migrated>,
    /// Until when the bytes of copies have been counted.
    counted_to: Nanos,
    /// Bytes read from and written to each tier since they were last taken.
    copied: Vec<[f64; 2]>,
}

impl Migrator {
    /// Idle lanes as `mechanics` say.
    #[must_use]
    pub fn new(mechanics: MigrationMechanics, page_bytes: u64) -> Self {
        let lanes = vec![Lane::default(); mechanics.lanes.max(1) as usize];
        Self {
            mechanics,
            page_bytes,
            lanes,
            queue: VecDeque::new(),
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
        self.queue.extend(moves.drain(..).map(|m| (m, now)));
    }

    /// Whether nothing is queued or under way.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.queue.is_empty() && self.lanes.iter().all(|l| l.copying.is_none())
    }

    /// When the last copy under way ends, if nothing more is queued.
    #[must_use]
    pub fn drained_at(&self) -> Option<Nanos> {
        if !self.queue.is_empty() {
            return None;
        }
        self.lanes.iter().filter_map(|l| l.copying.map(|c| c.end)).max()
    }

    /// Copies under way.
    pub fn copying(&self) -> impl Iterator<Item = &Copying> {
        self.lanes.iter().filter_map(|l| l.copying.as_ref())
    }

    /// Takes the bytes read from and written to each tier by copies since the last call.
    pub fn take_copied(&mut self) -> Vec<[f64; 2]> {
        std::mem::replace(&mut self.copied, vec![[0.0; 2]; 8])
    }

    /// Counts the part of a copy that lies between the last count and `until`.
    fn count_bytes(&mut self, copying: &Copying, until: Nanos) {
        let from = copying.start.max(self.counted_to);
        let to = copying.end.min(until);
        if to > from {
            let bytes = self.page_bytes as f64 * (to - from) as f64 / (copying.end - copying.start) as f64;
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
    pub fn duration_ns(&self, tiers: &[TierLatency], multipliers: &[f64], from: Tier, to: Tier) -> Nanos {
        let (from, to) = (usize::from(from), usize::from(to));
        let loaded = self.mechanics.copy_gbps / multipliers[from].max(multipliers[to]);
        let gbps = loaded
            .min(tiers[from].peak().read_gbps)
            .min(tiers[to].peak().write_gbps);
        self.mechanics.fixed_ns + (self.page_bytes as f64 / gbps) as Nanos
    }

    /// Runs the lanes until `until`. `duration(from, to)` prices a copy when it begins; `on_step`
    /// hears of every copy begun and every page moved, in order.
    pub fn advance(
        &mut self,
        until: Nanos,
        memory: &mut Memory,
        objects: &[Object],
        mut duration: impl FnMut(&Self, Tier, Tier) -> Nanos,
        mut on_step: impl FnMut(Step),
    ) {
        loop {
            if self.begin_next(until, memory, &mut duration, &mut on_step) {
                continue;
            }
            let next = self
                .lanes
                .iter()
                .enumerate()
                .filter_map(|(i, l)| l.copying.map(|c| (c.end, i)))
                .min();
            let Some((end, lane)) = next.filter(|(end, _)| *end <= until) else {
                let under_way: Vec<Copying> = self.copying().copied().collect();
                for copying in under_way {
                    self.count_bytes(&copying, until);
                }
                self.counted_to = self.counted_to.max(until);
                return;
            };
            let copying = self.lanes[lane].copying.take().expect("chosen because it copies");
            self.lanes[lane].free_at = end;
            self.count_bytes(&copying, end);
            let object = objects.partition_point(|o| o.first_page <= copying.request.page) - 1;
            let (from, piece) = memory.commit(copying.request.page, object, &objects[object], copying.request.to);
            on_step(Step::Moved {
                object,
                piece,
                from,
                to: copying.request.to,
            });
            self.ended.push(Migrated {
                request: copying.request,
                outcome: Outcome::Done,
                at: end,
            });
        }
    }

    /// Starts the first queued request on a free lane; false when that is not possible now.
    fn begin_next(
        &mut self,
        until: Nanos,
        memory: &mut Memory,
        duration: &mut impl FnMut(&Self, Tier, Tier) -> Nanos,
        on_step: &mut impl FnMut(Step),
    ) -> bool {
        let Some(&(request, asked_at)) = self.queue.front() else {
            return false;
        };
        let idle = self.lanes.iter().enumerate().filter(|(_, l)| l.copying.is_none());
        let Some((lane, free_at)) = idle.map(|(i, l)| (i, l.free_at)).min_by_key(|(i, t)| (*t, *i)) else {
            return false;
        };
        let start = free_at.max(asked_at);
        if start > until || self.copying().any(|c| c.request.page == request.page) {
            return false;
        }
        let from = memory.tier_of(request.page);
        let outcome = if from == request.to {
            Some(Outcome::AlreadyThere)
        } else if !memory.reserve(request.to) {
            // Another lane may be about to make room.
            if self.copying().any(|c| c.from == request.to) {
                return false;
            }
            Some(Outcome::NoSpace)
        } else {
            None
        };
        self.queue.pop_front();
        match outcome {
            Some(outcome) => self.ended.push(Migrated {
                request,
                outcome,
                at: start,
            }),
            None => {
                let copying = Copying {
                    request,
                    from,
                    start,
                    end: start + duration(self, from, request.to).max(1),
                };
                self.lanes[lane].copying = Some(copying);
                on_step(Step::Begun(copying));
            }
        }
        true
    }
}
