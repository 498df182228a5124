//! The distribution of scores: a uniform sample of them, and the width of bins that follows from it.

use serde::{Deserialize, Serialize};

use crate::CounterRng;

/// Below so many samples there are no quartiles.
const LEAST_SAMPLES: usize = 4;

/// A uniform sample of all values ever offered (Vitter's algorithm R); it never forgets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Reservoir {
    values: Vec<f64>,
    capacity: usize,
    offered: u64,
}

impl Reservoir {
    pub fn new(capacity: u32) -> Self {
        Self {
            values: Vec::new(),
            capacity: capacity as usize,
            offered: 0,
        }
    }

    pub fn offer(&mut self, value: f64, rng: &mut CounterRng) {
        self.offered += 1;
        if self.values.len() < self.capacity {
            self.values.push(value);
        } else if let Some(kept) = self.values.get_mut(rng.below(self.offered) as usize) {
            *kept = value;
        }
    }

    /// First and third quartile, as entries `n/4` and `3n/4` in order.
    pub fn quartiles(&self) -> Option<(f64, f64)> {
        let n = self.values.len();
        if n < LEAST_SAMPLES {
            return None;
        }
        let mut values = self.values.clone();
        values.sort_by(f64::total_cmp);
        Some((values[n / 4], values[3 * n / 4]))
    }
}

/// How the number of candidates changes the width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Scaling {
    Fresh,
    Compounding,
    None,
}

/// Bins of equal width over scores; the last one has no upper end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Bins {
    pub width: f64,
    count: f64,
    scaling: Scaling,
    threshold: f64,
    /// What compounding has made of the width so far.
    factor: f64,
}

/// Compounding stops at this factor either way: beyond it every or no page is a candidate.
const MOST_COMPOUNDED: f64 = 1024.0;

impl Bins {
    pub fn new(width: f64, count: u32, scaling: Scaling, threshold: f64) -> Self {
        Self {
            width,
            count: f64::from(count),
            scaling,
            threshold,
            factor: 1.0,
        }
    }

    /// The bin of a score, from 0.
    pub fn of(&self, score: f64) -> f64 {
        (score / self.width).floor().min(self.count - 1.0)
    }

    pub fn is_last(&self, bin: f64) -> bool {
        bin >= self.count - 1.0
    }

    /// Freedman and Diaconis: twice the range between the quartiles over the cube root of how many
    /// scores there are, then doubled when pages are many for one candidate, else halved. Without
    /// any spread or any page the width stays.
    pub fn adapt(&mut self, reservoir: &Reservoir, pages: f64, candidates: usize) {
        let Some((first, third)) = reservoir.quartiles().filter(|(first, third)| third > first) else {
            return;
        };
        if pages <= 0.0 {
            return;
        }
        let scale = match candidates {
            0 => 1.0,
            _ if pages / candidates as f64 > self.threshold => 2.0,
            _ => 0.5,
        };
        self.factor = match self.scaling {
            Scaling::Fresh => scale,
            Scaling::Compounding => (self.factor * scale).clamp(1.0 / MOST_COMPOUNDED, MOST_COMPOUNDED),
            Scaling::None => 1.0,
        };
        self.width = self.factor * 2.0 * (third - first) / pages.cbrt();
    }
}
