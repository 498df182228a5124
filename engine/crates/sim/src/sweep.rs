//! Sequential passes over an object, each thread through its own part.

use tiertune_policy::{CounterRng, PageMap};

use crate::memory::Memory;
use crate::workload::Object;

/// Most points of a window at which its tiers are looked up.
const MOST_POINTS: u32 = 512;
/// Fractions of its multiples are spread evenly, and follow no period.
const GOLDEN_RATIO: f64 = 1.618_033_988_749_895;

/// Positions of an object that a sweep has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// From the first to before the last.
    pub positions: std::ops::Range<u32>,
}

/// Positions of a group of threads that sweep an object.
#[derive(Debug, Clone)]
pub struct Sweep {
    threads: u32,
    /// Pages of one thread's part.
    part: f64,
    /// Position of every thread within its part.
    position: f64,
    /// Pages that each thread went through in the last step.
    step: f64,
    /// Pages that each thread is expected to go through next.
    ahead: f64,
}

impl Sweep {
    /// All threads at the start of their parts of `object`.
    #[must_use]
    pub fn new(object: &Object, threads: u32) -> Self {
        Self {
            threads,
            part: f64::from(object.pages) / f64::from(threads),
            position: 0.0,
            step: 0.0,
            ahead: 0.0,
        }
    }

    /// The threads together go through `pages` more pages.
    pub fn advance(&mut self, pages: f64) {
        self.step = pages / f64::from(self.threads);
        self.position = (self.position + self.step) % self.part;
    }

    /// What the last step went through: whole pages whose start was passed.
    pub fn passed(&self, object: &Object) -> impl Iterator<Item = Passed> {
        let (part, pages) = (self.part, f64::from(object.pages));
        let (start, end) = (self.position - self.step, self.position);
        let stretches = if self.step >= part {
            vec![(0.0, part)]
        } else if start < 0.0 {
            vec![(start + part, part), (0.0, end)]
        } else {
            vec![(start, end)]
        };
        (0..self.threads).flat_map(move |thread| {
            let first = f64::from(thread) * part;
            let passed = stretches.clone().into_iter().map(move |(from, to)| Passed {
                positions: ((first + from).ceil() as u32)..((first + to).ceil().min(pages) as u32),
            });
            passed.collect::<Vec<_>>()
        })
    }

    /// The threads together are going to go through `pages` pages.
    pub fn expect(&mut self, pages: f64) {
        self.ahead = (pages / f64::from(self.threads)).min(self.part);
    }

    /// The longest step over which the shares of a window stand for what is passed: a sixteenth of a pass.
    #[must_use]
    pub fn longest_step_pages(&self) -> f64 {
        (self.part / 16.0).max(1.0) * f64::from(self.threads)
    }

    /// Share of the next window that lies in each tier.
    pub fn shares(&self, object: &Object, memory: &Memory, into: &mut [f64]) {
        into.fill(0.0);
        // One point in each of equal stretches. Where these are longer than a page, points at their middles would be as
        // regular as pages that are interleaved are, and see those of one tier only.
        let points = 4.0 * self.ahead;
        let window = (points.ceil() as u32).clamp(1, MOST_POINTS);
        let stride = self.ahead / f64::from(window);
        let several_a_page = points <= f64::from(MOST_POINTS);
        for thread in 0..self.threads {
            for i in 0..window {
                let within = if several_a_page {
                    0.5
                } else {
                    (f64::from(i) * GOLDEN_RATIO).fract()
                };
                let page = self.page(object, thread, (f64::from(i) + within) * stride);
                into[usize::from(memory.tier_of(page))] += 1.0;
            }
        }
        let total = f64::from(self.threads * window);
        into.iter_mut().for_each(|share| *share /= total);
    }

    /// A random page of the last window.
    pub fn draw(&self, object: &Object, rng: &mut CounterRng) -> u32 {
        let thread = rng.below(u64::from(self.threads)) as u32;
        self.page(object, thread, -rng.next_f64() * self.step)
    }

    /// Whose part `page` is in, and how many pages that thread was before it when it had yet to go through the last
    /// `back` pages; 0 while on it.
    pub fn next_at(&self, object: &Object, page: u32, back: f64) -> (u32, f64) {
        let position = f64::from(object.position_of(page));
        let thread = (position / self.part).floor();
        let ahead = (position - thread * self.part - (self.position - back)).rem_euclid(self.part);
        (thread as u32, if ahead > self.part - 1.0 { 0.0 } else { ahead })
    }

    /// The page at `offset` from the current position of `thread`.
    fn page(&self, object: &Object, thread: u32, offset: f64) -> u32 {
        let within = (self.position + offset).rem_euclid(self.part);
        let position = (f64::from(thread) * self.part + within) as u32;
        object.page_at(position.min(object.pages - 1))
    }
}
