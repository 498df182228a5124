//! How popular the items of a key-value store are: the distributions of YCSB (Cooper et al., SoCC'10).

use tiertune_policy::CounterRng;

/// Draws ranks from 0 with probability in proportion to 1 / (rank + 1)^theta, by rejection-inversion (Hörmann and
/// Derflinger, TOMACS'96): exact at every size, and nothing has to be summed up first.
#[derive(Debug, Clone, Copy)]
pub struct Zipf {
    items: f64,
    theta: f64,
    first: f64,
    last: f64,
    squeeze: f64,
}

impl Zipf {
    /// The law for so many items; theta 0 is uniform.
    #[must_use]
    pub fn new(items: u64, theta: f64) -> Self {
        let mut law = Self {
            items: items as f64,
            theta,
            first: 0.0,
            last: 0.0,
            squeeze: 0.0,
        };
        law.first = law.integral(1.5) - 1.0;
        law.last = law.integral(law.items + 0.5);
        law.squeeze = 2.0 - law.inverse(law.integral(2.5) - 2f64.powf(-theta));
        law
    }

    /// Integral of x^-theta from 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.theta) * log;
        // Near theta = 1 the quotient loses its digits.
        if power.abs() < 1e-8 {
            log
        } else {
            power.exp_m1() / (1.0 - self.theta)
        }
    }

    fn inverse(&self, y: f64) -> f64 {
        let power = (1.0 - self.theta) * y;
        if power.abs() < 1e-8 {
            y.exp()
        } else {
            (power.max(-1.0).ln_1p() / (1.0 - self.theta)).exp()
        }
    }

    /// A rank from 0.
    pub fn draw(&self, rng: &mut CounterRng) -> u64 {
        loop {
            let u = self.last + rng.next_f64() * (self.first - self.last);
            let x = self.inverse(u);
            let rank = x.round().clamp(1.0, self.items);
            if rank - x <= self.squeeze || u >= self.integral(rank + 0.5) - rank.powf(-self.theta) {
                return rank as u64 - 1;
            }
        }
    }

    /// What a least-recently-used cache of this share of the items lets through: the share of accesses, and their squared
    /// variation between items.
    ///
    /// After Che's approximation an item of rate r is fetched at rate r exp(-r t), with t such that the expected number
    /// of items seen within t is what the cache holds.
    #[must_use]
    pub fn filtered(&self, cached_share: f64) -> (f64, f64) {
        // Ranks in classes a 50th of their number wide.
        let mut classes: Vec<(f64, f64)> = Vec::new();
        let mut rank = 1.0;
        while rank <= self.items {
            let next = (rank * 1.02f64).ceil().max(rank + 1.0).min(self.items + 1.0);
            let middle = (rank + next - 1.0) / 2.0;
            classes.push((next - rank, middle.powf(-self.theta)));
            rank = next;
        }
        let held = |time: f64| -> f64 {
            classes
                .iter()
                .map(|(count, rate)| count * -(-rate * time).exp_m1())
                .sum::<f64>()
                / self.items
        };
        let (mut low, mut high) = (1e-9f64, 1e18f64);
        for _ in 0..100 {
            let middle = (low * high).sqrt();
            if held(middle) < cached_share {
                low = middle
            } else {
                high = middle
            }
        }
        let rate = |rate: f64| rate * (-rate * low).exp();
        let sum = |power: i32| -> f64 {
            classes
                .iter()
                .map(|(count, law)| count * rate(*law).powi(power))
                .sum::<f64>()
        };
        let all: f64 = classes.iter().map(|(count, law)| count * law).sum();
        (sum(1) / all, self.items * sum(2) / sum(1).powi(2) - 1.0)
    }
}

/// What of a store stays in a last-level cache on the machines of the papers: 32 MiB of 64 GiB.
const CACHED_SHARE: f64 = 1.0 / 2048.0;

/// By what misses of an operation, and their squared variation between items, grow from a store to a larger one whose
/// cache has the same share of it. The popular head of a zipf law near 1 fits ever better; other laws stay as they are.
#[must_use]
pub fn growth(word: &str, theta: f64, from: u64, to: u64) -> (f64, f64) {
    if word == "uniform" {
        return (1.0, 1.0);
    }
    let (small, large) = (Zipf::new(from, theta), Zipf::new(to, theta));
    let ((few, even), (many, uneven)) = (small.filtered(CACHED_SHARE), large.filtered(CACHED_SHARE));
    (many / few, uneven / even)
}

/// A number that looks random and is always the same for an item: the finaliser of SplitMix64. YCSB hashes with FNV-1a, which
/// puts neighbouring numbers more evenly than chance does.
#[must_use]
pub fn scrambled(item: u64) -> u64 {
    let mut hash = item.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// Which item comes next.
#[derive(Debug, Clone, Copy)]
pub enum Popularity {
    /// All alike.
    Uniform,
    /// Those loaded first are the most popular.
    Zipf(Zipf),
    /// Popular ones lie anywhere.
    Scrambled(Zipf),
    /// Those that came last are the most popular.
    Latest(Zipf),
}

/// The words by which files choose.
pub const WORDS: &[&str] = &["zipf", "scrambled", "latest", "uniform"];

impl Popularity {
    /// The popularity that a word of [`WORDS`] stands for.
    #[must_use]
    pub fn named(word: &str, items: u64, theta: f64) -> Self {
        let law = Zipf::new(items, theta);
        match word {
            "uniform" => Self::Uniform,
            "zipf" => Self::Zipf(law),
            "scrambled" => Self::Scrambled(law),
            _ => Self::Latest(law),
        }
    }

    /// An item below `items`, which may have grown since.
    pub fn draw(&self, rng: &mut CounterRng, items: u64) -> u64 {
        match self {
            Self::Uniform => rng.below(items),
            Self::Zipf(law) => law.draw(rng),
            Self::Scrambled(law) => scrambled(law.draw(rng)) % items,
            Self::Latest(law) => items - 1 - law.draw(rng).min(items - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_drawn_as_often_as_the_law_says() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.3] {
            let (items, draws) = (40u64, 400_000);
            let law = Zipf::new(items, theta);
            let mut rng = CounterRng::new(7, &[1]);
            let mut counts = vec![0f64; items as usize];
            for _ in 0..draws {
                counts[law.draw(&mut rng) as usize] += 1.0;
            }
            let sum: f64 = (1..=items).map(|rank| (rank as f64).powf(-theta)).sum();
            for (rank, count) in counts.iter().enumerate() {
                let expected = (rank as f64 + 1.0).powf(-theta) / sum * f64::from(draws);
                assert!(
                    (count - expected).abs() < 5.0 * expected.sqrt(),
                    "theta {theta}, rank {rank}: {count} against {expected}"
                );
            }
        }
    }

    #[test]
    fn a_cache_takes_the_most_popular_away() {
        let law = Zipf::new(1_000_000, 0.99);
        let shares = [1e-6, 1e-4, 1e-2, 0.3].map(|share| law.filtered(share).1);
        assert!(shares.windows(2).all(|pair| pair[1] < pair[0]), "{shares:?}");
        let (ranks, theta) = (1..=1_000_000, -0.99);
        let sums = ranks.fold((0f64, 0f64), |(sum, squares), rank| {
            let p = f64::from(rank).powf(theta);
            (sum + p, squares + p * p)
        });
        let bare = 1e6 * sums.1 / sums.0.powi(2) - 1.0;
        let found = law.filtered(1e-9).1;
        assert!((found / bare - 1.0).abs() < 0.05, "{found} against {bare}");
    }
}
