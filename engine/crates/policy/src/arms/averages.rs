//! What `arms` knows of pages: two moving averages of how often each is sampled, and how much to trust which.

use serde::{Deserialize, Serialize};

use crate::Page;

/// Averages closer than this share of them are the same but for rounding, and say nothing about which is better.
const SAME: f64 = 1e-4;
/// Scores are told apart to a sixteenth of an octave where they are only counted: the upper bits of a float.
const BUCKET_SHIFT: u32 = 19;
const BUCKETS: usize = 1 << (31 - BUCKET_SHIFT);

/// A page that was sampled not too long ago.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The page.
    pub page: Page,
    /// Samples since the last round.
    count: u32,
    short: f32,
    long: f32,
    /// Expected samples in a round, as of the last round.
    pub score: f32,
    /// Rounds in a row in which it was among the hottest.
    pub hot_rounds: u32,
}

/// Which of the averages count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trust {
    /// Both, as they have foretold the last rounds.
    Learned,
    /// The short one.
    Short,
    /// The long one.
    Long,
}

/// What is common to one of the averages of all pages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Average {
    /// What is left of a sample after a round of usual length.
    decay: f64,
    /// What would be left of one from the very start, 1 before the first round. An average began at nothing
    /// then, so it lacks this share.
    lacks: f64,
}

impl Average {
    fn with_half_life(rounds: f64) -> Self {
        Self {
            decay: (-1.0 / rounds).exp2(),
            lacks: 1.0,
        }
    }

    /// What an average has to be multiplied with to stand for the rounds that there were.
    fn scale(self) -> f64 {
        1.0 / (1.0 - self.lacks).max(f64::MIN_POSITIVE)
    }

    fn pass(&mut self, length: f64) -> f64 {
        let decay = self.decay.powf(length);
        self.lacks *= decay;
        decay
    }

    /// Covariance of two averages of one count per round that scatters with variance 1.
    fn covariance(self, other: Self) -> f64 {
        let both = (1.0 - self.decay) * (1.0 - other.decay) / (1.0 - self.decay * other.decay);
        both * (1.0 - self.lacks * other.lacks) * self.scale() * other.scale()
    }
}

/// All pages seen, densely: a round goes through them once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Averages {
    records: Vec<Record>,
    /// By page: where its record is, plus one; 0 when there is none.
    places: Vec<u32>,
    trust: Trust,
    short: Average,
    long: Average,
    /// Sums of the regression of counts on the two averages, see [`Averages::round`].
    product: f64,
    square: f64,
    short_weight: f64,
}

impl Averages {
    /// Nothing seen; half of an average is gone after so many rounds.
    #[must_use]
    pub fn new(pages: u32, short_half_rounds: f64, long_half_rounds: f64, trust: Trust) -> Self {
        Self {
            records: Vec::new(),
            places: vec![0; pages as usize],
            short: Average::with_half_life(short_half_rounds),
            long: Average::with_half_life(long_half_rounds),
            product: 0.0,
            square: 0.0,
            // Nothing is foretold yet, and the long average takes longer to mean anything.
            short_weight: if trust == Trust::Long { 0.0 } else { 1.0 },
            trust,
        }
    }

    /// The records, in no order that means anything.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Whether `page` has a record.
    #[must_use]
    pub fn has(&self, page: Page) -> bool {
        self.places[page as usize] != 0
    }

    /// Weight of the short average; the long one has the rest.
    #[must_use]
    pub fn short_weight(&self) -> f64 {
        self.short_weight
    }

    /// Counts a sample; `true` when the page had no record.
    pub fn see(&mut self, page: Page) -> bool {
        let place = &mut self.places[page as usize];
        let new = *place == 0;
        if new {
            self.records.push(Record {
                page,
                count: 0,
                short: 0.0,
                long: 0.0,
                score: 0.0,
                hot_rounds: 0,
            });
            *place = self.records.len() as u32;
        }
        self.records[*place as usize - 1].count += 1;
        new
    }

    /// Drops a page's record, if it has one.
    pub fn forget(&mut self, page: Page) {
        let place = std::mem::take(&mut self.places[page as usize]);
        if place != 0 {
            self.records.swap_remove(place as usize - 1);
            if let Some(moved) = self.records.get(place as usize - 1) {
                self.places[moved.page as usize] = place;
            }
        }
    }

    /// Whether a record was among the hottest in the last round.
    #[must_use]
    pub fn is_hot(&self, record: &Record) -> bool {
        record.hot_rounds > 0
    }

    /// Variance of a score over the score itself, if samples come at random (Poisson).
    #[must_use]
    pub fn noise(&self) -> f64 {
        let (of_short, of_long) = (self.short_weight, 1.0 - self.short_weight);
        of_short * of_short * self.short.covariance(self.short)
            + of_long * of_long * self.long.covariance(self.long)
            + 2.0 * of_short * of_long * self.short.covariance(self.long)
    }

    /// Ends a round that was `length` usual ones long: judges how well the averages foretold it, updates them,
    /// and finds the `hottest` pages. Calls `dropped` for what is forgotten.
    ///
    /// The weight `w` of the short average is the one with which `long + w (short - long)` would have foretold
    /// the counts of the last rounds with the least squared error; rounds count the less the older they are.
    pub fn round(&mut self, length: f64, hottest: u32, mut dropped: impl FnMut(Page)) {
        let (short_scale, long_scale) = (self.short.scale(), self.long.scale());
        let (short_decay, long_decay) = (self.short.pass(length), self.long.pass(length));
        let (mut product, mut square) = (0.0, 0.0);
        for record in &mut self.records {
            let count = f64::from(record.count) / length;
            let (short, long) = (f64::from(record.short), f64::from(record.long));
            let (short_foretold, long_foretold) = (short * short_scale, long * long_scale);
            let gap = short_foretold - long_foretold;
            if gap.abs() > SAME * short_foretold.max(long_foretold) {
                product += (count - long_foretold) * gap;
                square += gap * gap;
            }
            record.short = (count + short_decay * (short - count)) as f32;
            record.long = (count + long_decay * (long - count)) as f32;
            record.count = 0;
        }
        self.product = product + short_decay * self.product;
        self.square = square + short_decay * self.square;
        if self.trust == Trust::Learned && self.square > 0.0 {
            self.short_weight = (self.product / self.square).clamp(0.0, 1.0);
        }
        // Less is expected of it than of a page that was sampled once, half a long average ago.
        let forgotten = (1.0 - self.long.decay) / 2.0;
        let mut place = 0;
        while let Some(record) = self.records.get(place) {
            let page = record.page;
            if f64::from(record.short.max(record.long)) < forgotten {
                self.forget(page); // another record takes its place
                dropped(page);
            } else {
                place += 1;
            }
        }
        self.rank(hottest);
    }

    fn rank(&mut self, hottest: u32) {
        let mut counts = vec![0_u32; BUCKETS];
        let (of_short, of_long) = (
            self.short_weight * self.short.scale(),
            (1.0 - self.short_weight) * self.long.scale(),
        );
        for record in &mut self.records {
            let score = of_short * f64::from(record.short) + of_long * f64::from(record.long);
            record.score = score as f32;
            counts[bucket(record.score) as usize] += 1;
        }
        let mut left = hottest;
        let mut boundary = 0;
        for (index, count) in counts.iter().enumerate().rev() {
            if *count >= left {
                boundary = index as u32;
                break;
            }
            left -= count;
        }
        for record in &mut self.records {
            let hot = bucket(record.score) >= boundary;
            record.hot_rounds = if hot { record.hot_rounds + 1 } else { 0 };
        }
    }
}

fn bucket(score: f32) -> u32 {
    score.max(0.0).to_bits() >> BUCKET_SHIFT
}
