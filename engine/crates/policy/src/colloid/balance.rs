//! Latencies of the two sides by Little's law, and how much to shift from one to the other.

use serde::{Deserialize, Serialize};

use super::ColloidConfig;
use crate::{Counters, Nanos};

/// Nominal time between two readings of a spinning core.
const SPIN_NS: f64 = 10_000.0;

/// Fast memory, or all slow tiers together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Side {
    /// Requests seen so far.
    inserts: f64,
    /// Their occupancy so far.
    occupancy_ns: f64,
    /// Requests per nanosecond, smoothed.
    rate: f64,
    /// Requests in flight, smoothed.
    in_flight: f64,
}

/// How the rule finds a shift.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Rule {
    BinarySearch { delta: f64, epsilon: f64 },
    ClosedForm,
    Direction,
}

/// What is to be shifted in a quantum.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// Towards fast memory, or away from it.
    pub promote: bool,
    /// Most access probability that is to move.
    pub probability: f64,
}

/// The state of the rule. Index 0 is fast memory, 1 the slow tiers together.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Balance {
    rule: Rule,
    alpha: f64,
    interval_ns: f64,
    floor_ns: [f64; 2],
    sides: [Side; 2],
    read_at: Nanos,
    /// The probability of fast memory at and below which it was found the faster one.
    low: f64,
    /// The probability at and above which it was found the slower one.
    high: f64,
    collapses: u64,
}

impl Balance {
    /// The state at the start.
    #[must_use]
    pub fn new(config: &ColloidConfig) -> Self {
        Self {
            rule: match config.colloid_shift_mode.as_str() {
                "binary_search" => Rule::BinarySearch {
                    delta: config.colloid_delta,
                    epsilon: config.colloid_epsilon,
                },
                "closed_form" => Rule::ClosedForm,
                _ => Rule::Direction,
            },
            alpha: config.colloid_ewma_alpha,
            interval_ns: match config.colloid_latency_sample_interval_us {
                0 => SPIN_NS,
                us => f64::from(us) * 1e3,
            },
            floor_ns: [config.colloid_lat_floor_fast_ns, config.colloid_lat_floor_slow_ns],
            sides: [Side::default(); 2],
            read_at: 0,
            low: 0.0,
            high: 1.0,
            collapses: 0,
        }
    }

    /// Reads the counters, unless it is too early for that; `true` when it did.
    ///
    /// A reading that comes later than the interval says stands for all that it replaces: what was
    /// counted in between is taken to have come evenly.
    pub fn read(&mut self, now: Nanos, counters: &Counters) -> bool {
        let elapsed = now.saturating_sub(self.read_at) as f64;
        if elapsed < self.interval_ns {
            return false;
        }
        self.read_at = now;
        let weight = 1.0 - (1.0 - self.alpha).powf(elapsed / self.interval_ns);
        let (fast, slow) = counters.tiers.split_at(1.min(counters.tiers.len()));
        for (side, tiers) in self.sides.iter_mut().zip([fast, slow]) {
            let inserts: f64 = tiers.iter().map(|tier| tier.inserts).sum();
            let occupancy_ns: f64 = tiers.iter().map(|tier| tier.occupancy_ns).sum();
            side.rate += weight * ((inserts - side.inserts) / elapsed - side.rate);
            side.in_flight += weight * ((occupancy_ns - side.occupancy_ns) / elapsed - side.in_flight);
            (side.inserts, side.occupancy_ns) = (inserts, occupancy_ns);
        }
        true
    }

    /// Loaded latencies of fast and slow memory, in nanoseconds, at least their floors.
    #[must_use]
    pub fn latency_ns(&self) -> [f64; 2] {
        [0, 1].map(|index| {
            let side = &self.sides[index];
            let measured = if side.rate > 0.0 {
                side.in_flight / side.rate
            } else {
                0.0
            };
            measured.max(self.floor_ns[index])
        })
    }

    /// Requests per nanosecond of both sides.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.sides[0].rate + self.sides[1].rate
    }

    /// Share of requests that go to fast memory, 0 without requests.
    #[must_use]
    pub fn fast_share(&self) -> f64 {
        let rate = self.rate();
        if rate > 0.0 { self.sides[0].rate / rate } else { 0.0 }
    }

    /// The watermarks, lower first.
    #[must_use]
    pub fn watermarks(&self) -> [f64; 2] {
        [self.low, self.high]
    }

    /// How often the watermarks have collapsed.
    #[must_use]
    pub fn collapses(&self) -> u64 {
        self.collapses
    }

    /// What is to be shifted now; `None` while nothing is accessed.
    pub fn shift(&mut self) -> Option<Shift> {
        if self.rate() <= 0.0 {
            return None;
        }
        let [fast_ns, slow_ns] = self.latency_ns();
        let promote = fast_ns < slow_ns;
        let probability = match self.rule {
            Rule::BinarySearch { delta, epsilon } => self.search(promote, (fast_ns - slow_ns).abs(), delta, epsilon),
            Rule::ClosedForm => self.closed_form(fast_ns, slow_ns),
            Rule::Direction => f64::from(u8::from(fast_ns != slow_ns)),
        };
        Some(Shift { promote, probability })
    }

    /// The watermarks enclose the balanced share; the next share to try lies half way between them.
    /// Once they have met the balance may have moved, so that the one in the way is given up. (A port
    /// gives it up as soon as they cross, which is the same.)
    fn search(&mut self, promote: bool, difference_ns: f64, delta: f64, epsilon: f64) -> f64 {
        let share = self.fast_share();
        if difference_ns < delta * self.latency_ns()[0] {
            return 0.0;
        }
        *(if promote { &mut self.low } else { &mut self.high }) = share;
        if self.high < self.low + epsilon {
            self.collapses += 1;
            if promote {
                self.high = 1.0;
            } else {
                self.low = 0.0;
            }
        }
        ((self.low + self.high) / 2.0 - share).abs()
    }

    /// `|O_f - b O_s| / ((I_f + I_s) (b O_s / I_s + O_f / I_f))` with `b = I_f / I_s`, for rates I and
    /// occupancies O; written with latencies `O / I`, both sides of the fraction divided by `I_f`.
    fn closed_form(&self, fast_ns: f64, slow_ns: f64) -> f64 {
        let [fast, slow] = [self.sides[0].rate, self.sides[1].rate];
        if slow <= 0.0 {
            return 0.0; // the limit of the formula, which so never starts to use idle slow memory
        }
        let ratio = fast / slow;
        fast * (fast_ns - slow_ns).abs() / ((fast + slow) * (ratio * slow_ns + fast_ns))
    }
}
