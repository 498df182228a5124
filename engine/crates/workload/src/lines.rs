//! Which share of the gathers from a vertex array of an R-MAT graph misses a cache, in closed form.

use tiertune_policy::CounterRng;

use crate::graph::Quadrants;
use crate::law::{binomials, rmat_joined};

/// How often the lines of a vertex array are accessed, relative to their average, when every R-MAT vertex is accessed as
/// often as it has edges and ids are permuted.
#[derive(Debug, Clone)]
pub struct LineRates(Vec<f64>);

impl LineRates {
    const LINES: usize = 1 << 16;

    /// Lines drawn at random, the same ones for every scale; `vertices_per_line` vertices share one.
    ///
    /// Neighbours of one vertex are sorted, so those on one line count as one access. Rates are relative to the
    /// accesses of an average line with these repeats, so their average is below 1. Given the zero bits of a vertex, the
    /// vertices of a line are its neighbours independently of each other.
    #[must_use]
    pub fn of_rmat(scale: u32, degree: u32, vertices_per_line: u32) -> Self {
        let joined = rmat_joined(Quadrants::GRAPH500, scale, degree);
        let counts = &binomials(scale as usize)[scale as usize];
        // Logarithm of the probability of no access, by the zero bits of the vertex in the line, then of the list's.
        let none: Vec<Vec<f64>> = joined
            .iter()
            .map(|row| row.iter().map(|probability| (-probability).ln_1p()).collect())
            .collect();
        let mut rng = CounterRng::new(0, &[u64::from(vertices_per_line)]);
        let mask = (1u64 << scale) - 1;
        let (mut rates, mut accesses) = (Vec::with_capacity(Self::LINES), 0.0);
        for _ in 0..Self::LINES {
            let mut untouched = vec![0.0; counts.len()];
            for _ in 0..vertices_per_line {
                let zeros = scale as usize - (rng.next_u64() & mask).count_ones() as usize;
                for (list, (sum, log)) in untouched.iter_mut().zip(&none[zeros]).enumerate() {
                    *sum += log;
                    accesses += counts[list] * joined[zeros][list];
                }
            }
            rates.push(
                untouched
                    .iter()
                    .zip(counts)
                    .map(|(log, count)| count * -log.exp_m1())
                    .sum::<f64>(),
            );
        }
        let mean = accesses / Self::LINES as f64;
        Self(rates.iter().map(|rate| rate / mean).collect())
    }

    /// Share of the lines touched within the time in which the average line is accessed `accesses` times.
    fn touched(&self, accesses: f64) -> f64 {
        self.0.iter().map(|rate| -(-rate * accesses).exp_m1()).sum::<f64>() / self.0.len() as f64
    }

    /// Part of the accesses that comes later than that time after the line's last access.
    fn missed(&self, accesses: f64) -> f64 {
        self.0.iter().map(|rate| rate * (-rate * accesses).exp()).sum::<f64>() / self.0.len() as f64
    }

    /// Part of the accesses that misses a least-recently-used cache of `cache_lines`, when the array has `lines` and
    /// `passing` other lines, never used again, come in for each access. Repeats within a list always hit.
    ///
    /// After Che's approximation a line stays for the time in which as many lines as the cache holds are touched.
    #[must_use]
    pub fn misses(&self, lines: f64, cache_lines: f64, passing: f64) -> f64 {
        let held = |time: f64| passing * time + lines * self.touched(time / lines);
        // At most all accesses and all passing lines bring in a line; where the cache holds everything it never fills.
        let (mut low, mut high) = (cache_lines / (1.0 + passing), cache_lines * 1e6);
        for _ in 0..40 {
            let middle = (low * high).sqrt();
            if held(middle) < cache_lines {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.missed(low / lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_fall_from_all_to_none_with_the_cache() {
        let rates = LineRates::of_rmat(16, 16, 16);
        let lines = 4096.0;
        let shares = [1.0, 64.0, 512.0, 2048.0, 4000.0].map(|cache| rates.misses(lines, cache, 0.1));
        assert!(shares.windows(2).all(|pair| pair[1] < pair[0]), "{shares:?}");
        // Without a cache only the repeats within sorted lists hit.
        let average = rates.0.iter().sum::<f64>() / rates.0.len() as f64;
        assert!(
            shares[0] <= average && shares[0] > 0.98 * average,
            "{shares:?} {average}"
        );
        assert!(rates.misses(lines, 4096.0 * 2.0, 0.0) < 1e-3);
        // What passes through takes room.
        assert!(rates.misses(lines, 512.0, 1.0) > shares[2]);
    }

    #[test]
    fn repeats_within_lists_are_those_of_a_built_graph() {
        use crate::graph::{Graph, GraphKind};
        for scale in [12, 15] {
            let graph = Graph::generate(GraphKind::Kron, scale, 16, 4);
            let mut fresh = 0u64;
            for vertex in 0..graph.vertices() {
                let list = &graph.neighbours[graph.index[vertex] as usize..graph.index[vertex + 1] as usize];
                fresh += u64::from(!list.is_empty());
                fresh += list.windows(2).filter(|pair| pair[0] / 16 != pair[1] / 16).count() as u64;
            }
            let found = fresh as f64 / graph.neighbours.len() as f64;
            let rates = LineRates::of_rmat(scale, 16, 16);
            let expected = rates.0.iter().sum::<f64>() / rates.0.len() as f64;
            assert!(
                (found / expected - 1.0).abs() < 0.01,
                "scale {scale}: {found} against {expected}"
            );
        }
    }
}
