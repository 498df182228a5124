//! A cap on bytes per second, exact for any rate and page size.

use crate::Nanos;
use serde::{Deserialize, Serialize};

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A token bucket: it fills with time, and a page may be moved when the bucket holds its bytes.
/// Over any span of time no more leaves it than `bytes_per_second` times the span and one filling.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RateLimit {
    bytes_per_second: u64,
    /// In bytes times nanoseconds per second, like `level`, so that no rounding ever accumulates.
    size: u128,
    level: u128,
    filled_at: Nanos,
}

impl RateLimit {
    /// A full bucket that holds `burst_bytes`.
    #[must_use]
    pub fn new(bytes_per_second: u64, burst_bytes: u64) -> Self {
        let size = u128::from(burst_bytes) * NANOS_PER_SECOND;
        Self {
            bytes_per_second,
            size,
            level: size,
            filled_at: 0,
        }
    }

    /// Adds what has been earned until `now`.
    pub fn fill(&mut self, now: Nanos) {
        let earned = u128::from(self.bytes_per_second) * u128::from(now.saturating_sub(self.filled_at));
        self.level = self.size.min(self.level + earned);
        self.filled_at = self.filled_at.max(now);
    }

    /// Whether the bucket holds `bytes`.
    #[must_use]
    pub fn holds(&self, bytes: u64) -> bool {
        self.level >= u128::from(bytes) * NANOS_PER_SECOND
    }

    /// Takes `bytes` if the bucket holds them.
    pub fn take(&mut self, bytes: u64) -> bool {
        let enough = self.holds(bytes);
        if enough {
            self.level -= u128::from(bytes) * NANOS_PER_SECOND;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lets_through_the_rate_and_no_more() {
        // 1000 bytes/s in steps of 3 ms, pages of 7 bytes: 3 bytes a step, so a page every 7/3 steps.
        let mut limit = RateLimit::new(1000, 10);
        let mut moved = 0;
        for step in 0..=1000u64 {
            limit.fill(step * 3_000_000);
            while limit.take(7) {
                moved += 7;
            }
        }
        assert_eq!(moved, (10 + 3000) / 7 * 7);
    }

    #[test]
    fn what_is_not_used_is_kept_up_to_the_size_of_the_bucket() {
        let mut limit = RateLimit::new(1000, 20);
        assert!(limit.take(20) && !limit.take(1));
        limit.fill(3_600_000_000_000);
        assert!(limit.take(20) && !limit.take(1));
        limit.fill(0); // time never goes back
        assert!(!limit.take(1));
    }
}
