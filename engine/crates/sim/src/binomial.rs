//! Binomial draws.

use tiertune_policy::CounterRng;

/// Chances up to this are taken to be small: trials of larger ones are at most 400.
const RARE: f64 = 0.05;

/// A binomial count: by trials when small, by Poisson or normal approximation when large.
#[must_use]
pub fn binomial(n: u64, p: f64, rng: &mut CounterRng) -> u64 {
    if n == 0 || p <= 0.0 {
        return 0;
    }
    let mean = n as f64 * p;
    // Poisson is for what is rare: its variance is 1 / (1 - p) times as large.
    let few = mean.min(n as f64 - mean) < 20.0 && p.min(1.0 - p) > RARE;
    if n <= 32 || few {
        return (0..n).filter(|_| rng.next_f64() < p).count() as u64;
    }
    if mean < 20.0 {
        return rng.poisson(mean).min(n);
    }
    if n as f64 - mean < 20.0 {
        return n - rng.poisson(n as f64 - mean).min(n);
    }
    let (u, v) = (1.0 - rng.next_f64(), rng.next_f64());
    let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
    (mean + (mean * (1.0 - p)).sqrt() * normal).round().clamp(0.0, n as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By trials, Poisson and normal, and what lies next to where they take turns: mean n p, variance n p (1 - p).
    #[test]
    fn mean_and_variance_are_those_of_trials() {
        const DRAWS: usize = 40_000;
        for (n, p) in [
            (20, 0.5),
            (33, 0.6),
            (33, 0.4),
            (200, 0.09),
            (350, 0.95),
            (390, 0.05),
            (2000, 0.005),
            (2000, 0.4),
        ] {
            let mut rng = CounterRng::new(7, &[n]);
            let drawn: Vec<f64> = (0..DRAWS).map(|_| binomial(n, p, &mut rng) as f64).collect();
            let mean = drawn.iter().sum::<f64>() / DRAWS as f64;
            let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / DRAWS as f64;
            let expected = n as f64 * p * (1.0 - p);
            assert!(
                (mean - n as f64 * p).abs() < 5.0 * (expected / DRAWS as f64).sqrt() + 0.01,
                "{n} {p}: mean {mean}"
            );
            // Poisson is too wide by up to 1 / (1 - RARE).
            assert!(
                (variance / expected - 1.0).abs() < 0.09,
                "{n} {p}: variance {variance} for {expected}"
            );
        }
    }
}
