//! Guarded pages in the fast mode: when each is touched for the first time.
//!
//! Pages of a piece are alike, so of its `n` guarded pages the next is touched after an exponential
//! time (counted in operations) of rate `n` times that of one, and any of them alike. A queue holds
//! the next touch of each piece; when one is due, all touches of its piece until the end of the
//! slice are drawn together. Exponentials have no memory, so a change of rates or of `n` just draws anew.
//! A sweep comes by in order and is followed page by page.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use tiertune_policy::{CounterRng, Nanos, Page, prefetch};

use crate::binomial::binomial;
use crate::workload::{Object, Phase, Popularity, Workload};

/// A first touch.
#[derive(Debug, Clone, Copy)]
pub struct FirstTouch {
    /// The page; [`Watch::armed_at`] says when its guard was set.
    pub page: Page,
    /// Where within the slice, from 0 to 1.
    pub part: f64,
}

/// Which visits a guard notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noticed {
    /// All.
    Visits,
    /// Those that write.
    Writes,
}

/// The next touch of a piece: operations of the group as ordered bits, piece, version, pages then guarded.
type Due = Reverse<(u64, u32, u32, u32)>;

/// An entry of a piece's list that is touched, at a part of the slice.
#[derive(Debug, Clone, Copy)]
struct Drawn {
    object: usize,
    piece: usize,
    entry: usize,
    part: f64,
}

/// Entries that are drawn before the pages in them are looked at, as each is a cache miss that nobody can foresee.
const BLOCK: usize = 64;

/// A set of guarded pages.
pub struct Watch<'w> {
    noticed: Noticed,
    workload: &'w Workload,
    phase: Option<&'w Phase>,
    /// A bit per page; empty until the first is guarded.
    armed: Vec<u64>,
    /// A bit per page: it has an entry in its piece's list, whether still guarded or not.
    listed: Vec<u64>,
    armed_at: Vec<Nanos>,
    /// Pages by piece, pieces numbered over all objects.
    lists: Vec<Vec<Page>>,
    /// Entries of each list less those that are drawn.
    left: Vec<u32>,
    /// Entries that are drawn and still in their lists, in order.
    drawn: Vec<Drawn>,
    first_piece: Vec<usize>,
    version: Vec<u32>,
    /// Pieces whose list has grown since the last draw.
    grown: Vec<u32>,
    queues: Vec<BinaryHeap<Due>>,
    ops: Vec<f64>,
    count: u64,
    /// Guarded pages by piece and by object.
    in_piece: Vec<u32>,
    in_object: Vec<u32>,
    /// By group: guarded pages that an operation touches at random, each counted as if it were the first touch.
    touched_per_op: Vec<f64>,
    rng: CounterRng,
}

fn bit(bits: &[u64], page: Page) -> bool {
    bits[page as usize / 64] & (1 << (page % 64)) != 0
}

fn set_bit(bits: &mut [u64], page: Page, value: bool) {
    let (word, bit) = (&mut bits[page as usize / 64], 1 << (page % 64));
    *word = if value { *word | bit } else { *word & !bit };
}

impl<'w> Watch<'w> {
    /// No page guarded.
    #[must_use]
    pub fn new(noticed: Noticed, workload: &'w Workload, rng: CounterRng) -> Self {
        let mut first_piece = vec![0];
        for object in &workload.objects {
            first_piece.push(first_piece[first_piece.len() - 1] + object.pieces());
        }
        Self {
            noticed,
            workload,
            phase: None,
            armed: Vec::new(),
            listed: Vec::new(),
            armed_at: Vec::new(),
            lists: Vec::new(),
            left: Vec::new(),
            drawn: Vec::new(),
            version: Vec::new(),
            first_piece,
            grown: Vec::new(),
            queues: Vec::new(),
            ops: Vec::new(),
            count: 0,
            in_piece: Vec::new(),
            in_object: vec![0; workload.objects.len()],
            touched_per_op: Vec::new(),
            rng,
        }
    }

    /// How many pages are guarded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Guards a page, unless it is guarded.
    pub fn arm(&mut self, page: Page, now: Nanos) {
        if self.armed.is_empty() {
            let pages = self.workload.pages as usize;
            let pieces = self.first_piece[self.workload.objects.len()];
            self.armed = vec![0; pages.div_ceil(64)];
            self.listed = vec![0; pages.div_ceil(64)];
            self.armed_at = vec![0; pages];
            self.lists = vec![Vec::new(); pieces];
            self.left = vec![0; pieces];
            self.version = vec![0; pieces];
            self.in_piece = vec![0; pieces];
        }
        if bit(&self.armed, page) {
            return;
        }
        set_bit(&mut self.armed, page, true);
        self.armed_at[page as usize] = now;
        let (object, piece) = self.place_of(page);
        self.counts(object, piece, true);
        if !bit(&self.listed, page) {
            set_bit(&mut self.listed, page, true);
            self.lists[piece].push(page);
            self.left[piece] += 1;
            if self.grown.last() != Some(&(piece as u32)) {
                self.grown.push(piece as u32);
            }
        }
    }

    /// Takes the guard off a page.
    pub fn disarm(&mut self, page: Page) {
        if self.count > 0 && bit(&self.armed, page) {
            set_bit(&mut self.armed, page, false);
            let (object, piece) = self.place_of(page);
            self.counts(object, piece, false);
        }
    }

    /// When the last guard of a page was set, which has had one.
    #[must_use]
    pub fn armed_at(&self, page: Page) -> Nanos {
        self.armed_at[page as usize]
    }

    /// The object and piece that a page is in.
    fn place_of(&self, page: Page) -> (usize, usize) {
        let objects = &self.workload.objects;
        let object = objects.partition_point(|o| o.first_page <= page) - 1;
        (object, self.first_piece[object] + objects[object].piece_of(page))
    }

    /// Keeps count of a page that is guarded or no longer.
    fn counts(&mut self, object: usize, piece: usize, guarded: bool) {
        if guarded {
            self.count += 1;
            self.in_piece[piece] += 1;
            self.in_object[object] += 1;
        } else {
            self.count -= 1;
            self.in_piece[piece] -= 1;
            self.in_object[object] -= 1;
        }
        if let Some(phase) = self.phase {
            for g in 0..phase.groups.len() {
                let rate = self.rate(phase, g, object, piece);
                let touched = &mut self.touched_per_op[g];
                *touched = if guarded {
                    *touched + rate
                } else {
                    (*touched - rate).max(0.0)
                };
            }
        }
    }

    /// How many guarded pages an operation of group `g` touches, at most: later touches of a page count as the first.
    #[must_use]
    pub fn expected_per_op(&self, g: usize) -> f64 {
        let Some(phase) = self.phase.filter(|_| self.count > 0) else {
            return 0.0;
        };
        let streams = &phase.streams[phase.groups[g].streams.clone()];
        let swept = streams
            .iter()
            .filter(|s| matches!(s.popularity, Popularity::Sweep))
            .map(|s| {
                let visits = match self.noticed {
                    Noticed::Visits => s.markable_visits_per_op(),
                    Noticed::Writes => s.writes_per_op.min(s.visits_per_op),
                };
                visits * f64::from(self.in_object[s.object]) / f64::from(self.workload.objects[s.object].pages)
            });
        self.touched_per_op[g] + swept.sum::<f64>()
    }

    /// Takes the guards off pages.
    pub fn disarm_all(&mut self, pages: Range<Page>) {
        pages.for_each(|page| self.disarm(page));
    }

    /// A phase begins.
    pub fn begin(&mut self, phase: &'w Phase) {
        self.phase = Some(phase);
        self.ops = vec![0.0; phase.groups.len()];
        self.queues = vec![BinaryHeap::new(); phase.groups.len()];
        self.grown.clear();
        self.touched_per_op = vec![0.0; phase.groups.len()];
        for piece in (0..self.in_piece.len()).filter(|piece| self.in_piece[*piece] > 0) {
            let object = self.first_piece.partition_point(|first| *first <= piece) - 1;
            for g in 0..phase.groups.len() {
                self.touched_per_op[g] += f64::from(self.in_piece[piece]) * self.rate(phase, g, object, piece);
            }
        }
        for piece in 0..self.lists.len() {
            if self.left[piece] > 0 {
                self.schedule(piece, 0..phase.groups.len());
            }
        }
    }

    /// Rate per operation of group `g` at which one page of `piece` is noticed.
    fn rate(&self, phase: &Phase, g: usize, object: usize, piece: usize) -> f64 {
        let streams = &phase.streams[phase.groups[g].streams.clone()];
        let rates = streams
            .iter()
            .filter(|s| s.object == object)
            .map(|s| match &s.popularity {
                Popularity::Stationary { density, .. } => {
                    let visits = match self.noticed {
                        Noticed::Visits => s.markable_visits_per_op(),
                        Noticed::Writes => s.writes_per_op,
                    };
                    visits * f64::from(density[piece - self.first_piece[object]])
                }
                Popularity::Sweep => 0.0,
            });
        rates.sum()
    }

    /// Draws the next touch of a piece by each of `groups`.
    fn schedule(&mut self, piece: usize, groups: Range<usize>) {
        let Some(phase) = self.phase else { return };
        let object = self.first_piece.partition_point(|first| *first <= piece) - 1;
        let left = self.left[piece];
        for g in groups {
            let rate = self.rate(phase, g, object, piece) * f64::from(left);
            if rate > 0.0 {
                let at = self.ops[g] + self.rng.exponential() / rate;
                // Positive floats order as their bits do.
                self.queues[g].push(Reverse((at.to_bits(), piece as u32, self.version[piece], left)));
            }
        }
    }

    /// Group `g` does `ops` operations: adds the guarded pages that they touch first.
    pub fn advance(&mut self, g: usize, ops: f64, into: &mut Vec<FirstTouch>) {
        if self.armed.is_empty() || ops <= 0.0 {
            return;
        }
        let Some(phase) = self.phase else { return };
        let mut grown = std::mem::take(&mut self.grown);
        grown.sort_unstable();
        grown.dedup();
        for piece in grown {
            self.version[piece as usize] += 1;
            self.schedule(piece as usize, 0..phase.groups.len());
        }
        let (start, end) = (self.ops[g], self.ops[g] + ops);
        self.ops[g] = end;
        while let Some(Reverse((at, piece, version, pages))) = self.queues[g].peek().copied() {
            let at = f64::from_bits(at);
            if at > end {
                break;
            }
            self.queues[g].pop();
            let piece = piece as usize;
            if version != self.version[piece] {
                continue;
            }
            let left = self.left[piece];
            // Other groups may have touched some since this was drawn: then it may be one of those.
            if left > 0 && self.rng.next_f64() * f64::from(pages) < f64::from(left) {
                let object = self.first_piece.partition_point(|first| *first <= piece) - 1;
                let rate = self.rate(phase, g, object, piece);
                let more = binomial(u64::from(left) - 1, -(-rate * (end - at)).exp_m1(), &mut self.rng);
                for nth in 0..=more {
                    let from = if nth == 0 {
                        at
                    } else {
                        at + self.rng.next_f64() * (end - at)
                    };
                    self.draw_one_of(object, piece, (from - start) / ops, into);
                }
            }
            self.schedule(piece, g..g + 1);
        }
        self.touch_drawn(into);
    }

    fn draw_one_of(&mut self, object: usize, piece: usize, part: f64, into: &mut Vec<FirstTouch>) {
        let entry = self.rng.below(u64::from(self.left[piece])) as usize;
        self.left[piece] -= 1;
        prefetch(&self.lists[piece], entry);
        self.drawn.push(Drawn {
            object,
            piece,
            entry,
            part,
        });
        if self.drawn.len() == BLOCK {
            self.touch_drawn(into);
        }
    }

    /// Takes the entries that are drawn off their lists, and the guards off their pages.
    fn touch_drawn(&mut self, into: &mut Vec<FirstTouch>) {
        let mut pages = [0; BLOCK];
        let drawn = std::mem::take(&mut self.drawn);
        for (page, Drawn { piece, entry, .. }) in pages.iter_mut().zip(&drawn) {
            *page = self.lists[*piece].swap_remove(*entry);
            prefetch(&self.listed, *page as usize / 64);
            prefetch(&self.armed, *page as usize / 64);
            prefetch(&self.armed_at, *page as usize);
        }
        for (page, one) in pages.into_iter().zip(&drawn) {
            set_bit(&mut self.listed, page, false);
            if bit(&self.armed, page) {
                set_bit(&mut self.armed, page, false);
                self.counts(one.object, one.piece, false);
                into.push(FirstTouch { page, part: one.part });
            }
        }
        self.drawn = drawn;
        self.drawn.clear();
    }

    /// Sweeps of an object have passed `positions` of it.
    pub fn pass(&mut self, object: &Object, positions: Range<u32>, into: &mut Vec<FirstTouch>) {
        if self.count == 0 {
            return;
        }
        let length = f64::from(positions.end.saturating_sub(positions.start).max(1));
        let start = positions.start;
        for position in positions {
            let page = object.page_at(position);
            if bit(&self.armed, page) {
                self.disarm(page);
                let part = f64::from(position - start) / length;
                into.push(FirstTouch { page, part });
            }
        }
    }
}
