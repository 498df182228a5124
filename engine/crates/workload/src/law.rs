//! What the graph generators produce at any size, in closed form: the basis for carrying profiles to large graphs.

use tiertune_policy::CounterRng;

use crate::graph::{GraphKind, Quadrants};

/// Expected number of stored directed edges of a generated graph, duplicates and self loops removed.
///
/// Of the M draws, an unordered pair with probability q is drawn at least once with probability 1 - exp(-M q).
/// R-MAT pairs fall into O(scale^3) classes by how many levels chose each quadrant.
#[must_use]
pub fn expected_edges(kind: GraphKind, scale: u32, degree: u32) -> f64 {
    stored_edges(kind, scale, draws_of(scale, degree))
}

fn draws_of(scale: u32, degree: u32) -> f64 {
    2f64.powi(scale as i32) * f64::from(degree)
}

fn stored_edges(kind: GraphKind, scale: u32, draws: f64) -> f64 {
    let vertices = 2f64.powi(scale as i32);
    // 1 - exp(-x) without losing small x.
    let pairs_kept = |cells: f64, probability: f64| cells * -(-draws * probability).exp_m1();
    let Some(quadrants) = kind.quadrants() else {
        return pairs_kept(vertices * (vertices - 1.0), 2.0 * vertices.powi(-2));
    };
    let levels = scale as usize;
    let mut log_factorial = vec![0.0; levels + 1];
    for n in 1..=levels {
        log_factorial[n] = log_factorial[n - 1] + (n as f64).ln();
    }
    let mut kept = 0.0;
    // Where no level sets the ends apart they are the same vertex.
    for apart in 1..=levels {
        for low in 0..=levels - apart {
            let high = levels - apart - low;
            for one in 0..=apart {
                let parts = [low, high, one, apart - one];
                let cells = parts
                    .iter()
                    .fold(log_factorial[levels], |ways, part| ways - log_factorial[*part]);
                let [low, high, one, other] = parts.map(|part| part as i32);
                kept += pairs_kept(cells.exp(), quadrants.pair(low, one, other, high));
            }
        }
    }
    kept
}

/// Expected squared coefficient of variation of the stored degrees, duplicates removed.
///
/// An R-MAT vertex with z zero bits meets C(z, i) C(s - z, j) others by i levels at which both are low, z - i and j
/// at which one is and the rest at which none is; each is stored with probability 1 - exp(-M q). Counting noise adds one
/// over the mean degree.
#[must_use]
pub fn expected_degree_cv2(kind: GraphKind, scale: u32, degree: u32) -> f64 {
    let vertices = 2f64.powi(scale as i32);
    let mean = expected_edges(kind, scale, degree) / vertices;
    let Some(quadrants) = kind.quadrants() else {
        return 1.0 / mean;
    };
    let binomial = binomials(scale as usize);
    let mean_square: f64 = rmat_degrees(quadrants, scale, draws_of(scale, degree))
        .iter()
        .zip(&binomial[scale as usize])
        .map(|(expected, count)| count / vertices * expected * expected)
        .sum();
    mean_square / (mean * mean) - 1.0 + 1.0 / mean
}

/// Expected stored degree of an R-MAT vertex by its number of zero bits.
fn rmat_degrees(quadrants: Quadrants, scale: u32, draws: f64) -> Vec<f64> {
    let binomial = binomials(scale as usize);
    let expected = |zeros: i32| {
        let ones = scale as i32 - zeros;
        let mut sum = 0.0;
        for i in 0..=zeros {
            for j in 0..=ones {
                let others = binomial[zeros as usize][i as usize] * binomial[ones as usize][j as usize];
                let probability = quadrants.pair(i, zeros - i, j, ones - j);
                sum += others * -(-draws * probability).exp_m1();
            }
        }
        sum
    };
    (0..=scale as i32).map(expected).collect()
}

/// Probability that two R-MAT vertices are joined, by the zero bits of either, averaged over where the bits are.
pub(crate) fn rmat_joined(quadrants: Quadrants, scale: u32, degree: u32) -> Vec<Vec<f64>> {
    let levels = scale as usize;
    let draws = draws_of(scale, degree);
    let binomial = binomials(levels);
    let joined = |one: usize, other: usize| {
        ((one + other).saturating_sub(levels)..=one.min(other))
            .map(|both| {
                let ways = binomial[one][both] * binomial[levels - one][other - both] / binomial[levels][other];
                let neither = levels + both - one - other;
                let [both, one, other, neither] = [both, one - both, other - both, neither].map(|part| part as i32);
                ways * -(-draws * quadrants.pair(both, one, other, neither)).exp_m1()
            })
            .sum()
    };
    (0..=levels)
        .map(|one| (0..=levels).map(|other| joined(one, other)).collect())
        .collect()
}

/// Vertices that are joined to any other with equal probability.
pub(crate) struct Classes {
    /// Vertices of each class.
    pub counts: Vec<f64>,
    /// Probability that two vertices are joined, by their classes.
    pub joined: Vec<Vec<f64>>,
}

impl Classes {
    pub fn new(kind: GraphKind, scale: u32, degree: u32) -> Self {
        let vertices = 2f64.powi(scale as i32);
        match kind.quadrants() {
            None => Self {
                counts: vec![vertices],
                joined: vec![vec![-(-2.0 * f64::from(degree) / vertices).exp_m1()]],
            },
            // A class is a number of zero bits.
            Some(quadrants) => Self {
                counts: binomials(scale as usize).swap_remove(scale as usize),
                joined: rmat_joined(quadrants, scale, degree),
            },
        }
    }

    /// Edges from `from` vertices of each class to a vertex, by its class.
    pub fn edges(&self, from: &[f64]) -> Vec<f64> {
        let to = |to: usize| from.iter().zip(&self.joined).map(|(count, row)| count * row[to]).sum();
        (0..self.counts.len()).map(to).collect()
    }
}

/// Squared variation, between cache lines, of the misses when vertices of a Kronecker graph are accessed as often as they
/// have edges.
///
/// `vertices_per_line` vertices with permuted ids share a line, and `cached_share` of the lines are in a
/// least-recently-used cache. After Che's approximation a line accessed at rate r misses at rate r exp(-r T), with T
/// such that the expected number of lines touched within T is what the cache holds. Lines are drawn at random, the
/// same ones for every scale.
#[must_use]
pub fn filtered_line_cv2(scale: u32, degree: u32, vertices_per_line: u32, cached_share: f64) -> f64 {
    const LINES: usize = 1 << 16;
    let degrees = rmat_degrees(Quadrants::GRAPH500, scale, draws_of(scale, degree));
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
        for (kind, scale) in [
            (GraphKind::Kron, 12),
            (GraphKind::Kron, 16),
            (GraphKind::Twitter, 12),
            (GraphKind::Twitter, 16),
            (GraphKind::Uniform, 14),
        ] {
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
        for (kind, scale) in [
            (GraphKind::Kron, 12),
            (GraphKind::Kron, 16),
            (GraphKind::Twitter, 16),
            (GraphKind::Uniform, 14),
        ] {
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

    /// Draws for each vertex of 2^26 with which the Twitter-like graph stores as many edges as Twitter's.
    const TWITTER_DRAWS: f64 = 18.347;

    #[test]
    fn the_twitter_like_graph_has_the_published_edges_triangles_and_pairs_of_neighbours() {
        // twitter-2010 made symmetric (61.6 million ids, 41.7 million with an edge), as GAPBS and Pangolin count it; pairs of neighbours
        // are those in triangles and those that are not.
        const STORED: f64 = 2_405_026_092.0;
        const PAIRS: f64 = 123_435_589_564_841.0;
        const TRIANGLES: f64 = 34_824_916_864.0;
        let draws = 2f64.powi(26) * TWITTER_DRAWS;
        let stored = stored_edges(GraphKind::Twitter, 26, draws);
        assert!((stored / STORED - 1.0).abs() < 0.001, "{stored}");
        let degrees = rmat_degrees(Quadrants::TWITTER, 26, draws);
        let counts = binomials(26).swap_remove(26);
        let squares = degrees
            .iter()
            .zip(counts)
            .map(|(degree, count)| count * degree * degree);
        let pairs = squares.sum::<f64>() / 2.0;
        assert!((pairs / PAIRS - 1.0).abs() < 0.02, "{pairs}");
        let triangles = expected_triangles(Quadrants::TWITTER, 26, draws);
        assert!((triangles / TRIANGLES - 1.0).abs() < 0.02, "{triangles}");
    }

    #[test]
    fn expected_triangles_are_those_of_the_published_kronecker_graph() {
        // GAPBS' graph of 2^27 vertices, as LAGraph's tests list it.
        let expected = expected_triangles(Quadrants::GRAPH500, 27, draws_of(27, 16));
        assert!((expected / 106_873_365_648.0 - 1.0).abs() < 0.01, "{expected}");
    }

    /// Triangles of the stored edges: three vertices differ at each level in one of eight ways.
    fn expected_triangles(quadrants: Quadrants, scale: u32, draws: f64) -> f64 {
        let mut counts = [0i32; 8];
        let mut sum = 0.0;
        split(scale as i32, 0, 1.0, &mut counts, &mut |ways, counts| {
            // Bit 0 of a way is the half of the first vertex, and so on.
            let joined = |one: usize, other: usize| {
                let mut parts = [0; 4];
                for (way, count) in counts.iter().enumerate() {
                    parts[way >> one & 1 | (way >> other & 1) << 1] += count;
                }
                -(-draws * quadrants.pair(parts[0], parts[2], parts[1], parts[3])).exp_m1()
            };
            sum += ways * joined(0, 1) * joined(1, 2) * joined(0, 2);
        });
        sum / 6.0
    }

    /// Calls `visit` with every division of `left` levels among ways from `way` on, and in how many orders it occurs.
    fn split(left: i32, way: usize, ways: f64, counts: &mut [i32; 8], visit: &mut impl FnMut(f64, &[i32; 8])) {
        if way == counts.len() - 1 {
            counts[way] = left;
            return visit(ways, counts);
        }
        let mut orders = ways;
        for count in 0..=left {
            counts[way] = count;
            split(left - count, way + 1, orders, counts, visit);
            orders *= f64::from(left - count) / f64::from(count + 1);
        }
    }
}
