//! Page statistics: cutting recorded pages into bins, and how variation falls when pages are put together.

use crate::carry::MAX_BINS;

/// Fewest groups from which a coefficient of variation is estimated.
const LEAST_GROUPS: usize = 16;

/// Squared coefficient of variation; 0 for fewer than two values or a mean of 0.
pub fn variation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 || mean == 0.0 {
        return 0.0;
    }
    values.iter().map(|value| (value / mean - 1.0).powi(2)).sum::<f64>() / n
}

/// Number of bins of an object with so many recorded and so many replayed pages.
pub fn bin_count(recorded_pages: u32, carried_pages: u64) -> u32 {
    let carried = u32::try_from(carried_pages).unwrap_or(u32::MAX);
    recorded_pages.min(carried).clamp(1, MAX_BINS)
}

/// Spreads page values over `bins` equal parts of the object by overlap; the sum is kept.
pub fn cut(pages: &[f64], bins: u32) -> Vec<f64> {
    let bins = bins as usize;
    if bins == pages.len() {
        return pages.to_vec();
    }
    let mut result = vec![0.0; bins];
    let bins_per_page = bins as f64 / pages.len() as f64;
    for (page, value) in pages.iter().enumerate().filter(|(_, value)| **value != 0.0) {
        let (from, to) = (page as f64 * bins_per_page, (page + 1) as f64 * bins_per_page);
        let first = from as usize;
        let last = (to.ceil() as usize).min(bins).max(first + 1);
        for (bin, part) in result.iter_mut().enumerate().take(last).skip(first) {
            let overlap = (to.min((bin + 1) as f64) - from.max(bin as f64)).max(0.0);
            *part += value * overlap / bins_per_page;
        }
    }
    result
}

/// How the squared variation between pages falls as neighbouring pages are put together, read-weighted over streams.
#[derive(Debug, Default)]
pub struct AggregationCurve {
    /// At 1, 2, 4, … pages put together: the weighted sum over all streams.
    sums: Vec<f64>,
}

impl AggregationCurve {
    /// Adds one stream's page counts, weighted by their sum.
    pub fn add(&mut self, pages: &[f64]) {
        let weight: f64 = pages.iter().sum();
        let mut groups = pages.to_vec();
        let mut level = 0;
        while groups.len() >= LEAST_GROUPS || level == 0 {
            if self.sums.len() <= level {
                self.sums.push(0.0);
            }
            self.sums[level] += weight * variation(&groups);
            groups = groups.chunks_exact(2).map(|pair| pair[0] + pair[1]).collect();
            level += 1;
        }
    }

    /// Squared variation with `together` pages put together over that of single pages.
    ///
    /// Measured where there are enough groups, interpolated in logarithms. Below one page the slope of the first
    /// two doublings continues; beyond the last measured point pages are taken as independent (slope -1).
    pub fn ratio(&self, together: f64) -> f64 {
        let usable = self.sums.iter().take_while(|sum| **sum > 0.0).count();
        let position = together.log2();
        if usable == 0 {
            return 1.0;
        }
        let log = |level: usize| (self.sums[level] / self.sums[0]).log2();
        let last = usable - 1;
        let value = if position <= 0.0 {
            let reach = last.min(2);
            let slope = if reach == 0 {
                -1.0
            } else {
                (log(reach) / reach as f64).clamp(-1.0, 0.0)
            };
            slope * position
        } else if position >= last as f64 {
            log(last) - (position - last as f64)
        } else {
            let below = position as usize;
            log(below) + (log(below + 1) - log(below)) * (position - below as f64)
        };
        value.exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiertune_policy::CounterRng;

    #[test]
    fn cutting_keeps_the_sum_and_the_place() {
        let pages: Vec<f64> = (0..10).map(f64::from).collect();
        for bins in [1, 3, 7, 10] {
            let parts = cut(&pages, bins);
            assert!((parts.iter().sum::<f64>() - 45.0).abs() < 1e-9, "{bins}");
        }
        assert_eq!(cut(&[1.0, 2.0, 3.0, 4.0], 2), [3.0, 7.0]);
    }

    #[test]
    fn independent_pages_average_out_and_runs_do_not() {
        let mut rng = CounterRng::new(1, &[]);
        let independent: Vec<f64> = (0..4096).map(|_| rng.next_f64()).collect();
        let mut curve = AggregationCurve::default();
        curve.add(&independent);
        assert!((curve.ratio(8.0) * 8.0 - 1.0).abs() < 0.15, "{}", curve.ratio(8.0));
        assert!((curve.ratio(0.25) / 4.0 - 1.0).abs() < 0.1, "{}", curve.ratio(0.25));
        let runs: Vec<f64> = (0..256).flat_map(|_| [rng.next_f64(); 16]).collect();
        let mut curve = AggregationCurve::default();
        curve.add(&runs);
        assert!((curve.ratio(16.0) - 1.0).abs() < 1e-9);
        assert!((curve.ratio(128.0) * 8.0 - 1.0).abs() < 0.3, "{}", curve.ratio(128.0));
    }
}
