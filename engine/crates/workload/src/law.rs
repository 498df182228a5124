//! What the graph generators produce at any size, in closed form: the basis for carrying profiles to large graphs.

use tiertune_policy::CounterRng;

use crate::graph::{GraphKind, RMAT_A, RMAT_B, RMAT_D};

/// Expected number of stored directed edges of a generated graph, duplicates and self loops removed.
///
/// Of the M draws, an unordered pair with probability q is drawn at least once with probability 1 - exp(-M q).
/// R-MAT pairs fall into O(scale^2) classes by how many levels chose a, d or an off-diagonal quadrant.
#[must_use]
pub fn expected_edges(kind: GraphKind, scale: u32, degree: u32) -> f64 {
    let vertices = 2f64.powi(scale as i32);
    let draws = vertices * f64::from(degree);
    // 1 - exp(-x) without losing small x; the pair (u, v) is also drawn as (v, u).
    let pairs_kept = |cells: f64, probability: f64| cells * -(-2.0 * draws * probability).exp_m1();
    match kind {
        GraphKind::Uniform => pairs_kept(vertices * (vertices - 1.0), vertices.powi(-2)),
        GraphKind::Kron | GraphKind::Twitter => {
            let levels = scale as usize;
            let mut log_factorial = vec![0.0; levels + 1];
            for n in 1..=levels {
                log_factorial[n] = log_factorial[n - 1] + (n as f64).ln();
            }
            let mut kept = 0.0;
            // Without an off-diagonal level both ends are the same vertex.
            for off in 1..=levels {
                for a in 0..=levels - off {
                    let d = levels - off - a;
                    let ways = log_factorial[levels] - log_factorial[off] - log_factorial[a] - log_factorial[d];
                    let cells = (ways + off as f64 * 2f64.ln()).exp();
                    let probability = RMAT_A.powi(a as i32) * RMAT_B.powi(off as i32) * RMAT_D.powi(d as i32);
                    kept += pairs_kept(cells, probability);
                }
            }
            kept
        }
    }
}

/// Expected squared coefficient of variation of the stored degrees, duplicates removed.
///
/// An R-MAT vertex with z zero bits meets C(z, i) C(s - z, j) others by i levels of a, z - i of b, j of c and the
/// rest of d; each is stored with probability 1 - exp(-2 M q). Counting noise adds one over the mean degree.
#[must_use]
pub fn expected_degree_cv2(kind: GraphKind, scale: u32, degree: u32) -> f64 {
    let vertices = 2f64.powi(scale as i32);
    let mean = expected_edges(kind, scale, degree) / vertices;
    if kind == GraphKind::Uniform {
        return 1.0 / mean;
    }
    let binomial = binomials(scale as usize);
    let mean_square: f64 = rmat_degrees(scale, degree)
        .iter()
        .zip(&binomial[scale as usize])
        .map(|(expected, count)| count / vertices * expected * expected)
        .sum();
    mean_square / (mean * mean) - 1.0 + 1.0 / mean
}

/// Expected stored degree of an R-MAT vertex by its number of zero bits.
fn rmat_degrees(scale: u32, degree: u32) -> Vec<f64> {
    let draws = 2f64.powi(scale as i32) * f64::from(degree);
    let binomial = binomials(scale as usize);
    let expected = |zeros: i32| {
        let ones = scale as i32 - zeros;
        let mut sum = 0.0;
        for i in 0..=zeros {
            for j in 0..=ones {
                let others = binomial[zeros as usize][i as usize] * binomial[ones as usize][j as usize];
                let probability = RMAT_A.powi(i) * RMAT_B.powi(zeros - i + j) * RMAT_D.powi(ones - j);
                sum += others * -(-2.0 * draws * probability).exp_m1();
            }
        }
        sum
    };
    (0..=scale as i32).map(expected).collect()
}

/// Probability that two R-MAT vertices are joined, by the zero bits of either, averaged over where the bits are.
pub(crate) fn rmat_joined(scale: u32, degree: u32) -> Vec<Vec<f64>> {
    let levels = scale as usize;
    let draws = 2f64.powi(scale as i32) * f64::from(degree);
    let binomial = binomials(levels);
    let joined = |one: usize, other: usize| {
        ((one + other).saturating_sub(levels)..=one.min(other))
            .map(|both| {
                let ways = binomial[one][both] * binomial[levels - one][other - both] / binomial[levels][other];
                let probability = RMAT_A.powi(both as i32)
                    * RMAT_B.powi((one + other - 2 * both) as i32)
                    * RMAT_D.powi((levels + both - one - other) as i32);
                ways * -(-2.0 * draws * probability).exp_m1()
            })
            .sum()
    };
    (0..=levels)
        .map(|one| (0..=levels).map(|other| joined(one, other)).collect())
        .collect()
}

/// Squared variation, between cache lines, of the misses when R-MAT vertices are accessed as often as they have edges.
///
/// `vertices_per_line` vertices with permuted ids share a line, and `cached_share` of the lines are in a
/// least-recently-used cache. After Che's approximation a line accessed at rate r misses at rate r exp(-r T), with T
/// such that the expected number of lines touched within T is what the cache holds. Lines are drawn at random, the
/// same ones for every scale.
#[must_use]
pub fn filtered_line_cv2(scale: u32, degree: u32, vertices_per_line: u32, cached_share: f64) -> f64 {
    const LINES: usize = 1 << 16;
    let degrees = rmat_degrees(scale, degree);
    let mut rng = CounterRng::new(0, &[u64::from(vertices_per_line)]);
    let mask = (1u64 << scale) - 1;
    let rates: Vec<f64> = (0..LINES)
        .map(|_| {
            (0..vertices_per_line)
                .map(|_| degrees[(rng.next_u64() & mask).count_ones() as usize])
                .sum()
        })
        .collect();
    let lines = LINES as f64;
    let mean = rates.iter().sum::<f64>() / lines;
    let touched = |time: f64| rates.iter().map(|rate| -(-rate * time).exp_m1()).sum::<f64>() / lines;
    // Touched lines are at most those of equal rates, and at least a thousandth of that in any skew met here.
    let equal = -(-cached_share.clamp(1e-9, 0.95)).ln_1p() / mean;
    let (mut low, mut high) = (equal, equal * 1e3);
    for _ in 0..30 {
        let middle = (low * high).sqrt();
        if touched(middle) < cached_share {
            low = middle;
        } else {
            high = middle;
        }
    }
    let misses: Vec<f64> = rates.iter().map(|rate| rate * (-rate * low).exp()).collect();
    let mean = misses.iter().sum::<f64>() / lines;
    misses.iter().map(|miss| (miss / mean - 1.0).powi(2)).sum::<f64>() / lines
}

pub(crate) fn binomials(most: usize) -> Vec<Vec<f64>> {
    let mut rows = vec![vec![1.0]];
    for n in 1..=most {
        let above = &rows[n - 1];
        let row = (0..=n)
            .map(|k| if k == 0 || k == n { 1.0 } else { above[k - 1] + above[k] })
            .collect();
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;

    #[test]
    fn expected_edges_match_built_graphs_and_the_published_size() {
        for (kind, scale) in [(GraphKind::Kron, 12), (GraphKind::Kron, 16), (GraphKind::Uniform, 14)] {
            let built = Graph::generate(kind, scale, 16, 5).neighbours.len() as f64;
            let expected = expected_edges(kind, scale, 16);
            assert!(
                (built / expected - 1.0).abs() < 0.004,
                "{kind:?} {scale}: {built} against {expected}"
            );
        }
        // GAPBS builds 3 805 449 undirected edges from its own scale-18 Kronecker draw.
        let undirected = expected_edges(GraphKind::Kron, 18, 16) / 2.0;
        assert!((undirected / 3_805_449.0 - 1.0).abs() < 0.003, "{undirected}");
    }

    #[test]
    fn expected_degree_variation_matches_built_graphs() {
        for (kind, scale) in [(GraphKind::Kron, 12), (GraphKind::Kron, 16), (GraphKind::Uniform, 14)] {
            let built = Graph::generate(kind, scale, 16, 9).info().degree_cv2;
            let expected = expected_degree_cv2(kind, scale, 16);
            assert!(
                (built / expected - 1.0).abs() < 0.04,
                "{kind:?} {scale}: {built} against {expected}"
            );
        }
    }

    #[test]
    fn without_a_cache_lines_vary_as_degrees_and_a_cache_flattens_them() {
        let (scale, degree) = (14, 16);
        // Without the counting noise of single degrees.
        let degrees = expected_degree_cv2(GraphKind::Kron, scale, degree)
            - 2f64.powi(scale as i32) / expected_edges(GraphKind::Kron, scale, degree);
        let bare = filtered_line_cv2(scale, degree, 16, 1e-9);
        assert!((bare * 16.0 / degrees - 1.0).abs() < 0.15, "{bare} against {degrees}");
        let shares = [1e-4, 1e-3, 1e-2, 1e-1].map(|share| filtered_line_cv2(scale, degree, 16, share));
        assert!(shares.windows(2).all(|pair| pair[1] < pair[0]), "{shares:?}");
    }

    #[test]
    fn without_duplicates_the_variation_is_the_published_closed_form() {
        // 1.2704^s - 1 plus counting noise holds for sparse draws, where hardly any pair is drawn twice.
        let expected = 1.2704f64.powi(10);
        let scale_free = expected_degree_cv2(GraphKind::Kron, 10, 1);
        assert!(scale_free < expected, "removing duplicates takes from the hubs");
        for scale in [20, 29] {
            let growth =
                expected_degree_cv2(GraphKind::Kron, scale + 1, 16) / expected_degree_cv2(GraphKind::Kron, scale, 16);
            assert!((1.2704..1.36).contains(&growth), "scale {scale}: {growth}");
        }
    }
}
