//! Counter-based random numbers.
//!
//! The n-th number of a stream is a pure function of (key, n), so results do not depend on how
//! work is spread over threads, and two runs that share a key share their noise. The mixing
//! function is the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) with the
//! constants of Stafford's variant 13.

/// A keyed stream of random numbers with an explicit position.
#[derive(Debug, Clone)]
pub struct CounterRng {
    key: u64,
    counter: u64,
}

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Avalanches 64 bits: every input bit flips every output bit with probability one half.
#[inline]
#[must_use]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl CounterRng {
    /// A stream for `seed` and a path of identifiers (domain, stream, slice, …).
    #[must_use]
    pub fn new(seed: u64, path: &[u64]) -> Self {
        let mut key = mix(seed ^ GOLDEN_GAMMA);
        for part in path {
            key = mix(key.wrapping_add(GOLDEN_GAMMA) ^ mix(*part ^ 0xd1b5_4a32_d192_ed03));
        }
        Self { key, counter: 0 }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.counter = self.counter.wrapping_add(1);
        mix(self.key.wrapping_add(self.counter.wrapping_mul(GOLDEN_GAMMA)))
    }

    /// Uniform in `[0, 1)`.
    #[inline]
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `[0, n)` (Lemire's multiplication; the bias is below n / 2^64). `n` must not be 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// A draw from the exponential distribution of mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.next_f64()).ln()
    }

    /// A Poisson count with the given mean: inversion below 30, rounded normal above.
    pub fn poisson(&mut self, mean: f64) -> u64 {
        if mean <= 0.0 {
            return 0;
        }
        if mean < 30.0 {
            let limit = (-mean).exp();
            let mut product = self.next_f64();
            let mut count = 0;
            while product > limit {
                product *= self.next_f64();
                count += 1;
            }
            return count;
        }
        // Box-Muller; above 30 the normal approximation is within 1 % in every central quantile.
        let (u, v) = (1.0 - self.next_f64(), self.next_f64());
        let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        (mean + mean.sqrt() * normal).round().max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_give_equal_streams_and_other_paths_do_not() {
        let draw = |path: &[u64]| {
            let mut rng = CounterRng::new(7, path);
            (0..64).map(|_| rng.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(&[1, 2]), draw(&[1, 2]));
        assert_ne!(draw(&[1, 2]), draw(&[2, 1]));
    }

    #[test]
    fn poisson_has_its_mean_and_variance() {
        for mean in [0.1, 3.0, 29.0, 31.0, 400.0] {
            let mut rng = CounterRng::new(1, &[]);
            let n = 20_000;
            let draws: Vec<f64> = (0..n).map(|_| rng.poisson(mean) as f64).collect();
            let average = draws.iter().sum::<f64>() / f64::from(n);
            let variance = draws.iter().map(|x| (x - average).powi(2)).sum::<f64>() / f64::from(n);
            let tolerance = 5.0 * (mean / f64::from(n)).sqrt();
            assert!((average - mean).abs() < tolerance, "{mean}: average {average}");
            assert!((variance / mean - 1.0).abs() < 0.06, "{mean}: variance {variance}");
        }
    }

    #[test]
    fn below_is_uniform() {
        let mut rng = CounterRng::new(3, &[]);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[rng.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|c| (9_500..10_500).contains(c)), "{counts:?}");
    }
}
