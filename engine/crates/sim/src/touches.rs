//! Accessed bits in the fast mode: whether a page was touched in a span of time, drawn from its rate.
//!
//! Touches of a page by independent draws are a Poisson process, so a bit is set with probability
//! `1 - exp(-expected touches since it was cleared)`, and spans between clearings are independent.
//! A sweep touches a page as long as it passes it. Expected touches are kept per piece, up to the start of
//! the phase, and from there on by stream, so that time costs nothing and only tests do.

use std::sync::LazyLock;

use tiertune_policy::{AccessedBits, CounterRng, Page, prefetch};

use crate::workload::{LINE_BYTES, Phase, Popularity, Workload};

/// Passes of sweeps over an object, by how many threads share it out.
#[derive(Debug, Clone, Default)]
struct Swept {
    threads: u32,
    /// Whole passes of earlier phases.
    whole: f64,
    /// Where earlier phases stopped within a pass, ascending.
    parts: Vec<f64>,
}

impl Swept {
    fn end_phase(&mut self, passes: f64) {
        self.whole += passes.floor();
        let part = passes.fract();
        let at = self.parts.partition_point(|other| *other < part);
        self.parts.insert(at, part);
    }

    /// How often the page from `x` to `x + width` (0 to 1 of a thread's part) was passed in earlier phases.
    fn passed(&self, x: f64, width: f64) -> f64 {
        let begun = &self.parts[self.parts.partition_point(|part| *part <= x)..];
        let (within, behind) = begun.split_at(begun.partition_point(|part| *part < x + width));
        let partly: f64 = within.iter().map(|part| (part - x) / width).sum();
        self.whole + partly + behind.len() as f64
    }
}

/// The touches of all pages.
pub struct Touches<'w> {
    workload: &'w Workload,
    phase: Option<&'w Phase>,
    /// Streams of the phase, by object.
    streams: Vec<Vec<usize>>,
    /// Visits by each stream in this phase; for sweeps, passes.
    visits: Vec<f64>,
    /// Expected touches per page in earlier phases, `[object][piece]`.
    past: Vec<Vec<f64>>,
    swept: Vec<Vec<Swept>>,
    /// Expected touches per page until now of the pieces last asked for, `[object][piece]`, each with the
    /// [`Self::counted`] that it is of. Not of objects that a sweep passes by, page after page.
    until_now: Vec<Vec<(u64, f64)>>,
    /// Whether a sweep has come by, by object.
    passed_by_sweeps: Vec<bool>,
    /// How often visits were counted.
    counted: u64,
    /// Touches of each page when its bit was cleared; empty until one is.
    cleared: Vec<f64>,
    rng: CounterRng,
}

impl<'w> Touches<'w> {
    /// No touches yet.
    #[must_use]
    pub fn new(workload: &'w Workload, rng: CounterRng) -> Self {
        Self {
            workload,
            phase: None,
            streams: vec![Vec::new(); workload.objects.len()],
            visits: Vec::new(),
            past: workload.objects.iter().map(|o| vec![0.0; o.pieces()]).collect(),
            swept: vec![Vec::new(); workload.objects.len()],
            until_now: workload.objects.iter().map(|o| vec![(0, 0.0); o.pieces()]).collect(),
            passed_by_sweeps: vec![false; workload.objects.len()],
            counted: 1,
            cleared: Vec::new(),
            rng,
        }
    }

    /// A phase begins; the one before it ends.
    pub fn begin(&mut self, phase: &'w Phase) {
        if let Some(ended) = self.phase {
            for (s, stream) in ended.streams.iter().enumerate() {
                match &stream.popularity {
                    Popularity::Stationary { density, .. } => {
                        for (past, density) in self.past[stream.object].iter_mut().zip(density) {
                            *past += self.visits[s] * f64::from(*density);
                        }
                    }
                    Popularity::Sweep => {
                        let threads = threads_of(ended, s);
                        let swept = &mut self.swept[stream.object];
                        let at = swept
                            .iter()
                            .position(|swept| swept.threads == threads)
                            .unwrap_or_else(|| {
                                swept.push(Swept {
                                    threads,
                                    ..Swept::default()
                                });
                                swept.len() - 1
                            });
                        swept[at].end_phase(self.visits[s]);
                    }
                }
            }
        }
        self.phase = Some(phase);
        self.counted += 1;
        self.streams.iter_mut().for_each(Vec::clear);
        for (s, stream) in phase.streams.iter().enumerate() {
            self.streams[stream.object].push(s);
            self.passed_by_sweeps[stream.object] |= matches!(stream.popularity, Popularity::Sweep);
        }
        self.visits = vec![0.0; phase.streams.len()];
    }

    /// Stream `s` has done `ops` more operations.
    pub fn count(&mut self, s: usize, ops: f64) {
        let Some(phase) = self.phase else { return };
        let stream = &phase.streams[s];
        self.counted += 1;
        self.visits[s] += match stream.popularity {
            Popularity::Stationary { .. } => ops * stream.visits_per_op,
            // A visit of a sweep is a page; a pass is all of them.
            Popularity::Sweep => ops * stream.visits_per_op / f64::from(self.workload.objects[stream.object].pages),
        };
    }

    /// Expected touches of `page` since the start.
    #[inline]
    fn expected(&mut self, page: Page) -> f64 {
        let objects = &self.workload.objects;
        let index = objects.partition_point(|o| o.first_page <= page) - 1;
        let piece = objects[index].piece_of(page);
        let (counted, touches) = self.until_now[index][piece];
        if counted == self.counted {
            return touches;
        }
        let touches = self.add_up(page, index, piece);
        if !self.passed_by_sweeps[index] {
            self.until_now[index][piece] = (self.counted, touches);
        }
        touches
    }

    fn add_up(&self, page: Page, index: usize, piece: usize) -> f64 {
        let object = &self.workload.objects[index];
        let position = f64::from(object.position_of(page));
        let within = |threads: u32| (position * f64::from(threads) / f64::from(object.pages)).fract();
        let width = |threads: u32| f64::from(threads) / f64::from(object.pages);
        // A pass touches every line of a page, one after another.
        let lines = self.workload.page_bytes as f64 / LINE_BYTES;
        let mut touches = self.past[index][piece];
        for swept in &self.swept[index] {
            touches += lines * swept.passed(within(swept.threads), width(swept.threads));
        }
        let Some(phase) = self.phase else { return touches };
        for s in &self.streams[index] {
            touches += match &phase.streams[*s].popularity {
                Popularity::Stationary { density, .. } => self.visits[*s] * f64::from(density[piece]),
                Popularity::Sweep => {
                    let threads = threads_of(phase, *s);
                    let past_start = (self.visits[*s] - within(threads)).max(0.0);
                    lines * (past_start.floor() + (past_start.fract() / width(threads)).min(1.0))
                }
            };
        }
        touches
    }
}

/// `exp(-whole)` for whole numbers up to the last that takes anything from 1.
static EXP_OF_WHOLE: LazyLock<[f64; 38]> = LazyLock::new(|| std::array::from_fn(|whole| (-(whole as f64)).exp()));

/// More than rounding makes of the bounds in [`any`].
const ROUNDING: f64 = 1e-13;

/// Whether a uniform `draw` says that a Poisson process had any event, `expected` of them on average: `draw` below
/// `1 - exp(-expected)`. Most draws are far from that bound, which bounds of its own tell without the exponential:
/// partial sums of its series, which lie to either side of it in turn.
#[inline]
fn any(expected: f64, draw: f64) -> bool {
    if draw >= expected {
        return false;
    }
    let Some(of_whole) = EXP_OF_WHOLE.get(expected as usize) else {
        return true; // 1 - exp(-38) is rounded to 1
    };
    let (x, none) = (expected - expected.floor(), 1.0 - draw);
    let below = of_whole * (1.0 - x * (1.0 - x / 2.0 * (1.0 - x / 3.0)));
    let above = below + of_whole * (x * x * x * x / 24.0);
    if none > above + ROUNDING {
        true
    } else if none < below - ROUNDING {
        false
    } else {
        draw < -(-expected).exp_m1()
    }
}

fn threads_of(phase: &Phase, stream: usize) -> u32 {
    let group = phase.groups.iter().find(|g| g.streams.contains(&stream));
    group.expect("every stream is some group's").threads
}

impl Touches<'_> {
    /// Whether the bit of `page` is set; what was drawn stays so until `left` says otherwise: the touches
    /// at which the bit counts as cleared, where it is found set.
    fn draw(&mut self, page: Page, left: impl FnOnce(f64) -> f64) -> bool {
        let expected = self.expected(page);
        if self.cleared.is_empty() {
            // The fault that maps a page sets its bit.
            self.cleared = vec![f64::NEG_INFINITY; self.workload.pages as usize];
        }
        let cleared = &mut self.cleared[page as usize];
        let set = any(expected - *cleared, self.rng.next_f64());
        // A bit that was found not to be set had no touch until now, so it is as good as cleared now.
        *cleared = if set { left(expected) } else { expected };
        set
    }
}

impl AccessedBits for Touches<'_> {
    fn test_and_clear(&mut self, page: Page) -> bool {
        self.draw(page, |expected| expected)
    }

    fn test(&mut self, page: Page) -> bool {
        self.draw(page, |_| f64::NEG_INFINITY)
    }

    fn fetch(&self, page: Page) {
        prefetch(&self.cleared, page as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_way_decides_as_the_exponential_does() {
        let mut rng = CounterRng::new(1, &[]);
        for expected in [
            0.0,
            1e-9,
            0.01,
            0.4,
            0.99,
            1.0,
            1.9,
            3.0,
            7.7,
            36.5,
            37.0,
            37.9,
            38.0,
            50.0,
            f64::INFINITY,
        ] {
            for _ in 0..10_000 {
                let draw = rng.next_f64() * f64::min(1.0, 2.0 * expected + 1e-12);
                let near = -(-expected).exp_m1() + (draw - 0.5) * 1e-12;
                for draw in [
                    draw,
                    near.clamp(0.0, 1.0 - f64::EPSILON / 2.0),
                    1.0 - f64::EPSILON / 2.0,
                ] {
                    assert_eq!(any(expected, draw), draw < -(-expected).exp_m1(), "{expected} {draw}");
                }
            }
        }
    }
}
