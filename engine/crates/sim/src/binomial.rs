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
