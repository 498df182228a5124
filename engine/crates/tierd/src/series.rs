//! Figures over time, as many as fit into a report however long it takes.

use serde::Serialize;
use tiertune_policy::Nanos;

/// Figures at a time; sums since the start but for the first two.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Seconds since the start.
    pub at_s: f64,
    /// Bytes of the fast tier in use.
    pub fast_bytes: u64,
    /// Bytes in memory.
    pub present_bytes: u64,
    /// Bytes that were moved to the fast tier.
    pub promoted_bytes: u64,
    /// Bytes that were moved to the slow tier.
    pub demoted_bytes: u64,
    /// Samples that the policy was given.
    pub samples: u64,
    /// Hint faults that the policy was given.
    pub hint_faults: u64,
    /// Records that sources lost.
    pub lost: u64,
}

const MOST_POINTS: usize = 600;
const FIRST_INTERVAL_NS: Nanos = 200_000_000;

/// Points at equal distances, which double when there are too many.
#[derive(Debug, Clone)]
pub struct Series {
    points: Vec<Point>,
    interval_ns: Nanos,
    next_at: Nanos,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            points: Vec::new(),
            interval_ns: FIRST_INTERVAL_NS,
            next_at: 0,
        }
    }
}

impl Series {
    /// Whether it is time for another point.
    #[must_use]
    pub fn is_due(&self, now: Nanos) -> bool {
        now >= self.next_at
    }

    /// Adds a point.
    pub fn push(&mut self, point: Point) {
        self.next_at = (point.at_s * 1e9) as Nanos + self.interval_ns;
        self.points.push(point);
        if self.points.len() > MOST_POINTS {
            let mut nth = 0;
            self.points.retain(|_| {
                nth += 1;
                nth % 2 == 1
            });
            self.interval_ns *= 2;
        }
    }

    /// The points, in order.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_have_as_many_points() {
        let mut series = Series::default();
        for second in 0..100_000u64 {
            let now = second * 1_000_000_000;
            if series.is_due(now) {
                series.push(Point {
                    at_s: second as f64,
                    fast_bytes: second,
                    present_bytes: 0,
                    promoted_bytes: 0,
                    demoted_bytes: 0,
                    samples: 0,
                    hint_faults: 0,
                    lost: 0,
                });
            }
        }
        let points = series.points();
        assert!(
            (MOST_POINTS / 2 - 1..=MOST_POINTS).contains(&points.len()),
            "{}",
            points.len()
        );
        assert!(points.windows(2).all(|pair| pair[0].at_s < pair[1].at_s));
        assert!(points[0].at_s == 0.0 && points[points.len() - 1].at_s > 99_000.0);
    }
}
