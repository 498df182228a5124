//! The queue of pages to be promoted, and the worker that takes what it holds, page by page, and again if it must.
//!
//! The worker tries to copy every page of a batch, then those once more that could not be moved, until none is left or its
//! passes are used up. Here that is decided when a pass begins, by a clock of the worker's own: drivers report faults and
//! ended moves for some time at once, in which it goes through many batches.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;

use crate::kernel_migration::{self, Unmapping};
use crate::lru::PAGE_SCAN_NS;
use crate::page_bits::PageBits;
use crate::registry::PAGE_4K;
use crate::{Nanos, Page};

use super::activation::ActivationBatches;

/// What a pass over some pages came to.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Pass {
    /// Pages to be moved now.
    pub movable: Vec<Page>,
    /// Pages that were copied for nothing, as something holds them.
    pub held: u32,
    /// Pages that were given up, as that was the last pass.
    pub given_up: u32,
    /// CPU time of the copies for nothing.
    pub wasted_ns: f64,
}

/// Pages that wait for promotion, that the worker tries again, and that are on their way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Promotions {
    most: u32,
    passes: u32,
    delay_ns: Nanos,
    /// Pages in any of the three states.
    queued: PageBits,
    waiting: VecDeque<Page>,
    /// Slots that are taken until all pages are through that the worker has taken up.
    slots: u32,
    /// Of those, pages that are tried again or on their way.
    left: u32,
    /// When the worker is to start.
    work_at: Option<Nanos>,
    /// When it is through with what it has taken up, as far as it can tell.
    free_at: Nanos,
    /// When a driver was asked last.
    asked_at: Nanos,
    /// Pages that are tried again at `free_at`.
    held: Vec<Page>,
    /// Passes over them.
    passed: u32,
}

impl Promotions {
    /// An empty queue of `most` slots, of a worker that starts `delay_ns` after a page comes and makes `passes` at most.
    pub fn new(pages: u32, most: u32, delay_ns: Nanos, passes: u32) -> Self {
        Self {
            most,
            passes,
            delay_ns,
            queued: PageBits::new(pages),
            waiting: VecDeque::new(),
            slots: 0,
            left: 0,
            work_at: None,
            free_at: 0,
            asked_at: 0,
            held: Vec::new(),
            passed: 0,
        }
    }

    /// Pages that wait for the worker.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the page is in the queue or on its way.
    pub fn has(&self, page: Page) -> bool {
        self.queued.has(page)
    }

    /// Puts a page into the queue, where it may be already; whether there was a slot.
    pub fn enter(&mut self, page: Page, at: Nanos) -> bool {
        if self.has(page) {
            return true;
        }
        if self.waiting.len() as u32 + self.slots >= self.most {
            return false;
        }
        self.queued.set(page, true);
        self.waiting.push_back(page);
        self.work_at.get_or_insert(at + self.delay_ns);
        true
    }

    /// Whether the worker has nothing to do at `at`, so that who enters a page has to wake it.
    pub fn sleeps(&self, at: Nanos) -> bool {
        self.work_at.is_none() && self.left == 0 && self.free_at <= at
    }

    /// When there is something to do, if nothing else happens.
    pub fn next_at(&self) -> Option<Nanos> {
        if !self.held.is_empty() {
            return Some(self.free_at);
        }
        self.work_at.filter(|_| self.left == 0).map(|at| at.max(self.free_at))
    }

    /// The next pass that begins by the time `at`, in a call at `now`.
    pub fn pass(&mut self, at: Nanos, now: Nanos, batches: &ActivationBatches) -> Option<Pass> {
        let first = self.held.is_empty();
        let pages = if first {
            self.take_up(at, now)?
        } else if self.free_at <= at {
            std::mem::take(&mut self.held)
        } else {
            return None;
        };
        self.passed += 1;
        let (held, movable): (Vec<Page>, Vec<Page>) = pages.into_iter().partition(|page| batches.hold(*page));
        let for_nothing = match first {
            true => kernel_migration::cpu_ns(PAGE_4K),
            false => Unmapping::Together.cpu_ns(PAGE_4K),
        };
        let wasted_ns = held.len() as f64 * for_nothing;
        let moved_ns = movable.len() as f64 * kernel_migration::alone_cpu_ns(PAGE_4K);
        self.free_at += (wasted_ns + moved_ns) as Nanos;
        let mut pass = Pass {
            movable,
            held: held.len() as u32,
            given_up: 0,
            wasted_ns,
        };
        if self.passed < self.passes {
            self.held = held;
        } else {
            pass.given_up = pass.held;
            for page in held {
                self.leaves(page);
            }
        }
        if self.held.is_empty() {
            self.passed = 0;
        }
        Some(pass)
    }

    /// What waits, if the worker is free: of moves asked for in this call it goes by its own clock.
    fn take_up(&mut self, at: Nanos, now: Nanos) -> Option<Vec<Page>> {
        let start = self.work_at?.max(self.free_at);
        if start > at || (self.left > 0 && self.asked_at < now) {
            return None;
        }
        self.work_at = None;
        self.asked_at = now;
        self.free_at = start;
        let pages: Vec<Page> = std::mem::take(&mut self.waiting).into();
        self.slots += pages.len() as u32;
        self.left += pages.len() as u32;
        Some(pages)
    }

    /// Ends the batch, as there is no memory for the first of `left`, which are the pages of the last pass that were not copied; the CPU time
    /// of isolating those and putting them back.
    pub fn break_off(&mut self, left: &[Page]) -> f64 {
        let pages = left.len() as f64;
        let put_back_ns = pages * 2.0 * PAGE_SCAN_NS;
        let not_copied_ns = pages * kernel_migration::alone_cpu_ns(PAGE_4K);
        self.free_at -= (not_copied_ns - put_back_ns) as Nanos;
        self.passed = 0;
        for page in std::mem::take(&mut self.held).iter().chain(left) {
            self.leaves(*page);
        }
        put_back_ns
    }

    /// A page that was taken up is through.
    pub fn leaves(&mut self, page: Page) {
        self.queued.set(page, false);
        self.leave(1);
    }

    fn leave(&mut self, pages: u32) {
        self.left -= pages;
        if self.left == 0 {
            self.slots = 0;
        }
    }

    /// Forgets pages that are freed.
    pub fn forget(&mut self, pages: &Range<Page>) {
        let waited = self.waiting.len();
        self.waiting.retain(|page| !pages.contains(page));
        if self.waiting.is_empty() {
            self.work_at = None;
        }
        self.held.retain(|page| !pages.contains(page));
        if self.held.is_empty() {
            self.passed = 0;
        }
        let waited = (waited - self.waiting.len()) as u32;
        let under_way = self.queued.count(pages.clone()) - waited;
        if under_way > 0 {
            self.leave(under_way);
        }
        self.queued.set_all(pages.clone(), false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// A queue of 16 slots and three passes, and batches of two that have page 7 in those of two threads.
    fn queue() -> (Promotions, ActivationBatches) {
        let mut batches = ActivationBatches::new(2);
        assert!(batches.enter(0, 7).is_empty() && batches.enter(1, 7).is_empty());
        (Promotions::new(32, 16, 0, 3), batches)
    }

    #[test]
    fn a_held_page_is_tried_again_until_nothing_holds_it() {
        let (mut queue, mut batches) = queue();
        assert!(queue.enter(7, MS) && queue.enter(8, MS));
        let first = queue.pass(MS, MS, &batches).expect("the worker is free");
        assert_eq!((first.movable, first.held, first.given_up), (vec![8], 1, 0));
        let next = queue.next_at().expect("a page is held");
        assert!(queue.pass(next - 1, MS, &batches).is_none());
        assert_eq!(batches.enter(0, 3), [7, 3]);
        assert_eq!(queue.pass(next, MS, &batches).map(|pass| pass.held), Some(1));
        assert_eq!(batches.enter(1, 4), [7, 4]);
        let last = queue.pass(2 * MS, MS, &batches).expect("one pass is left");
        assert_eq!((last.movable, last.held), (vec![7], 0));
        assert_eq!(queue.next_at(), None);
    }

    #[test]
    fn passes_are_used_up_and_the_page_may_come_again() {
        let (mut queue, batches) = queue();
        queue.enter(7, 0);
        let passes: Vec<Pass> = (0..3).filter_map(|_| queue.pass(MS, MS, &batches)).collect();
        assert_eq!(passes.iter().map(|pass| pass.given_up).collect::<Vec<_>>(), [0, 0, 1]);
        assert!(
            passes[1].wasted_ns < passes[0].wasted_ns,
            "the first makes writes visible"
        );
        assert!(!queue.has(7) && queue.pass(MS, MS, &batches).is_none());
        assert!(queue.enter(7, MS));
    }

    #[test]
    fn slots_are_taken_until_all_that_was_taken_up_is_through() {
        let (mut queue, batches) = queue();
        assert!((8..24).all(|page| queue.enter(page, 0)) && !queue.enter(24, 0));
        assert_eq!(queue.pass(0, 0, &batches).expect("it is free").movable.len(), 16);
        (8..23).for_each(|page| queue.leaves(page));
        assert!(!queue.enter(24, 0));
        queue.leaves(23);
        assert!(queue.enter(24, MS));
        // A driver that has not said yet what became of the moves of an earlier call keeps the worker.
        assert!(queue.pass(MS, MS, &batches).is_some());
        assert!(queue.enter(25, 2 * MS));
        assert!(queue.pass(2 * MS, 2 * MS, &batches).is_none());
    }

    #[test]
    fn a_batch_ends_where_memory_does() {
        let (mut queue, _) = queue();
        let mut batches = ActivationBatches::new(2);
        assert!(batches.enter(0, 9).is_empty());
        assert!(queue.sleeps(0));
        (8..14).for_each(|page| assert!(queue.enter(page, 0)));
        assert!(!queue.sleeps(0));
        let pass = queue.pass(0, 0, &batches).expect("it is free");
        assert_eq!(
            (pass.movable.as_slice(), pass.held),
            ([8, 10, 11, 12, 13].as_slice(), 1)
        );
        let whole = queue.free_at;
        queue.leaves(8); // moved
        let spent = queue.break_off(&pass.movable[1..]);
        assert!(spent > 0.0 && queue.free_at < whole);
        assert!(
            (8..14).all(|page| !queue.has(page)),
            "the held one is not tried again, either"
        );
        assert!(queue.sleeps(whole) && queue.next_at().is_none());
        assert!(queue.enter(9, whole));
    }

    #[test]
    fn what_is_freed_is_forgotten_in_every_state() {
        let (mut queue, batches) = queue();
        queue.enter(7, 0);
        queue.enter(8, 0);
        queue.pass(0, 0, &batches);
        queue.enter(9, 0);
        queue.forget(&(7..10));
        assert!((7..10).all(|page| !queue.has(page)));
        assert_eq!((queue.next_at(), queue.waiting()), (None, 0));
    }
}
