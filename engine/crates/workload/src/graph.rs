//! Graphs in compressed sparse rows, built as GAPBS builds them, and the generators that feed them.

use tiertune_policy::CounterRng;

use serde::{Deserialize, Serialize};

use crate::profile::GraphInfo;

/// Probabilities with which each level of R-MAT chooses the half of either end of an edge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quadrants {
    /// Both ends in the lower half.
    pub low: f64,
    /// The first end in the lower half, the second in the upper.
    pub first_low: f64,
    /// The second end in the lower half, the first in the upper.
    pub second_low: f64,
    /// Both ends in the upper half.
    pub high: f64,
}

impl Quadrants {
    /// Of the Kronecker generator of Graph500 and GAPBS.
    pub const GRAPH500: Self = Self {
        low: 0.57,
        first_low: 0.19,
        second_low: 0.19,
        high: 0.05,
    };

    /// What gives a graph of 2^26 vertices with the published edges of Twitter's the published numbers of triangles and of
    /// pairs of neighbours (docs/model.md). Graph500's have twice the triangles and an eighth of the pairs.
    pub const TWITTER: Self = Self {
        low: 0.55,
        first_low: 0.286,
        second_low: 0.133,
        high: 0.031,
    };

    /// Probability that a draw is an edge of two given vertices, in either order, by the number of levels at which both are
    /// in the lower half, only the one, only the other, or neither.
    pub fn pair(&self, both: i32, one: i32, other: i32, neither: i32) -> f64 {
        let apart = self.first_low.powi(one) * self.second_low.powi(other)
            + self.second_low.powi(one) * self.first_low.powi(other);
        self.low.powi(both) * self.high.powi(neither) * apart
    }
}

/// Random-number domains, so that edges and the permutation of ids never share numbers.
const EDGES: u64 = 0x6564_6765;
const IDS: u64 = 0x6964_7300;

/// Which random graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GraphKind {
    /// Kronecker (R-MAT .57 .19 .19 .05) with randomly permuted ids: few vertices have most edges.
    Kron,
    /// Both ends of every edge uniform.
    Uniform,
    /// R-MAT with quadrants of Twitter's graph and ids left as drawn: popular vertices have low ids, as old accounts of a
    /// social network have.
    Twitter,
}

impl GraphKind {
    /// The names as files spell them.
    pub const NAMES: [&'static str; 3] = ["kron", "uniform", "twitter"];

    /// How R-MAT draws edges of this kind; `None` where both ends are uniform.
    pub(crate) fn quadrants(self) -> Option<Quadrants> {
        match self {
            Self::Kron => Some(Quadrants::GRAPH500),
            Self::Uniform => None,
            Self::Twitter => Some(Quadrants::TWITTER),
        }
    }

    /// The kind of a name; Kronecker for any that is not in [`GraphKind::NAMES`].
    #[must_use]
    pub fn named(name: &str) -> Self {
        match name {
            "uniform" => Self::Uniform,
            "twitter" => Self::Twitter,
            _ => Self::Kron,
        }
    }
}

/// An undirected graph; every edge is stored in both directions, neighbours sorted, no duplicates, no self loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// Where each vertex's neighbours start; one more entry than vertices.
    pub index: Vec<u64>,
    /// Neighbours of all vertices.
    pub neighbours: Vec<u32>,
}

impl Graph {
    /// Generates 2^scale vertices with `degree` undirected edges each (before duplicates are removed).
    #[must_use]
    pub fn generate(kind: GraphKind, scale: u32, degree: u32, seed: u64) -> Self {
        let edges = Self::edges(kind, scale, degree, seed);
        Self::from_edges(1 << scale, &edges)
    }

    /// The edges as drawn, duplicates and self loops among them.
    #[must_use]
    pub fn edges(kind: GraphKind, scale: u32, degree: u32, seed: u64) -> Vec<(u32, u32)> {
        let vertices = 1usize << scale;
        let count = vertices as u64 * u64::from(degree);
        let mut rng = CounterRng::new(seed, &[EDGES, u64::from(scale)]);
        match kind {
            GraphKind::Uniform => (0..count)
                .map(|_| {
                    let bits = rng.next_u64();
                    let mask = vertices as u64 - 1;
                    ((bits & mask) as u32, ((bits >> 32) & mask) as u32)
                })
                .collect(),
            GraphKind::Twitter => {
                let level = Level::of(Quadrants::TWITTER);
                (0..count).map(|_| level.edge(&mut rng, scale)).collect()
            }
            GraphKind::Kron => {
                let level = Level::of(Quadrants::GRAPH500);
                let ids = permutation(vertices, seed, scale);
                (0..count)
                    .map(|_| {
                        let (u, v) = level.edge(&mut rng, scale);
                        (ids[u as usize], ids[v as usize])
                    })
                    .collect()
            }
        }
    }

    /// Builds the symmetrised graph of an edge list.
    #[must_use]
    pub fn from_edges(vertices: usize, edges: &[(u32, u32)]) -> Self {
        let mut starts = vec![0u64; vertices + 1];
        for (u, v) in edges {
            starts[*u as usize + 1] += 1;
            starts[*v as usize + 1] += 1;
        }
        for vertex in 0..vertices {
            starts[vertex + 1] += starts[vertex];
        }
        let mut cursor = starts.clone();
        let mut neighbours = vec![0u32; edges.len() * 2];
        for (u, v) in edges {
            neighbours[cursor[*u as usize] as usize] = *v;
            cursor[*u as usize] += 1;
            neighbours[cursor[*v as usize] as usize] = *u;
            cursor[*v as usize] += 1;
        }
        drop(cursor);
        // Sort, drop duplicates and self loops, and close the gaps in place.
        let mut index = Vec::with_capacity(vertices + 1);
        let mut kept = 0usize;
        for vertex in 0..vertices {
            index.push(kept as u64);
            let (start, end) = (starts[vertex] as usize, starts[vertex + 1] as usize);
            neighbours[start..end].sort_unstable();
            let first = kept;
            for position in start..end {
                let other = neighbours[position];
                if other as usize != vertex && (kept == first || neighbours[kept - 1] != other) {
                    neighbours[kept] = other;
                    kept += 1;
                }
            }
        }
        index.push(kept as u64);
        neighbours.truncate(kept);
        neighbours.shrink_to_fit();
        Self { index, neighbours }
    }

    /// Number of vertices.
    #[must_use]
    pub fn vertices(&self) -> usize {
        self.index.len() - 1
    }

    /// Number of neighbours of a vertex.
    #[must_use]
    pub fn degree(&self, vertex: usize) -> u64 {
        self.index[vertex + 1] - self.index[vertex]
    }

    /// The neighbours of a vertex.
    #[must_use]
    pub fn list(&self, vertex: usize) -> &[u32] {
        &self.neighbours[self.index[vertex] as usize..self.index[vertex + 1] as usize]
    }

    /// Size and skew of the graph.
    #[must_use]
    pub fn info(&self) -> GraphInfo {
        let vertices = self.vertices() as f64;
        let mean = self.neighbours.len() as f64 / vertices;
        let square = |vertex| (self.degree(vertex) as f64 / mean - 1.0).powi(2);
        GraphInfo {
            vertices: self.vertices() as u64,
            edges: self.neighbours.len() as u64,
            isolated: (0..self.vertices()).filter(|vertex| self.degree(*vertex) == 0).count() as u64,
            degree_cv2: (0..self.vertices()).map(square).sum::<f64>() / vertices,
        }
    }
}

/// Where the quadrants of a level end, of 2^32.
struct Level {
    low: u64,
    first_low: u64,
    second_low: u64,
}

impl Level {
    fn of(quadrants: Quadrants) -> Self {
        const UNIT: f64 = 4_294_967_296.0;
        let low = quadrants.low;
        let first_low = low + quadrants.first_low;
        let second_low = first_low + quadrants.second_low;
        let [low, first_low, second_low] = [low, first_low, second_low].map(|end| (end * UNIT) as u64);
        Self {
            low,
            first_low,
            second_low,
        }
    }

    /// One R-MAT edge: each level picks a quadrant, 32 random bits per level.
    fn edge(&self, rng: &mut CounterRng, scale: u32) -> (u32, u32) {
        let (mut u, mut v, mut bits) = (0u32, 0u32, 0u64);
        for level in 0..scale {
            bits = if level % 2 == 0 { rng.next_u64() } else { bits >> 32 };
            let point = bits & 0xffff_ffff;
            u = u << 1 | u32::from(point >= self.first_low);
            v = v << 1 | u32::from((self.low..self.first_low).contains(&point) || point >= self.second_low);
        }
        (u, v)
    }
}

/// A random order of `count` ids (Fisher and Yates).
fn permutation(count: usize, seed: u64, scale: u32) -> Vec<u32> {
    let mut rng = CounterRng::new(seed, &[IDS, u64::from(scale)]);
    let mut ids: Vec<u32> = (0..count as u32).collect();
    for last in (1..count).rev() {
        ids.swap(last, rng.below(last as u64 + 1) as usize);
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_edge_list_becomes_sorted_symmetric_rows() {
        let graph = Graph::from_edges(4, &[(0, 1), (1, 0), (2, 2), (3, 1), (0, 1)]);
        assert_eq!(graph.index, [0, 1, 3, 3, 4]);
        assert_eq!(graph.neighbours, [1, 0, 3, 1]);
    }

    #[test]
    fn generated_graphs_are_symmetric_and_clean() {
        for kind in [GraphKind::Kron, GraphKind::Twitter, GraphKind::Uniform] {
            let graph = Graph::generate(kind, 10, 8, 3);
            for u in 0..graph.vertices() {
                let row = &graph.neighbours[graph.index[u] as usize..graph.index[u + 1] as usize];
                assert!(row.windows(2).all(|pair| pair[0] < pair[1]));
                for v in row {
                    assert_ne!(*v as usize, u);
                    let other =
                        &graph.neighbours[graph.index[*v as usize] as usize..graph.index[*v as usize + 1] as usize];
                    assert!(other.binary_search(&(u as u32)).is_ok());
                }
            }
        }
    }

    #[test]
    fn equal_seeds_give_equal_graphs() {
        let draw = |seed| Graph::generate(GraphKind::Kron, 8, 4, seed);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn kronecker_degrees_vary_as_the_closed_form_says() {
        // Per-vertex CV^2 = 1.2704^s - 1 for the drawn degrees; removing duplicates takes from the hubs,
        // so a low degree is used, where duplicates are few.
        let scale = 16;
        let mut drawn = vec![0u32; 1 << scale];
        let mut rng = CounterRng::new(11, &[]);
        let level = Level::of(Quadrants::GRAPH500);
        for _ in 0..(16u64 << scale) {
            let (u, v) = level.edge(&mut rng, scale);
            drawn[u as usize] += 1;
            drawn[v as usize] += 1;
        }
        let n = drawn.len() as f64;
        let mean = drawn.iter().map(|d| f64::from(*d)).sum::<f64>() / n;
        let cv2 = drawn.iter().map(|d| (f64::from(*d) / mean - 1.0).powi(2)).sum::<f64>() / n;
        // Counting noise adds 1/mean.
        let expected = 1.2704f64.powi(scale as i32) - 1.0 + 1.0 / mean;
        assert!((cv2 / expected - 1.0).abs() < 0.05, "{cv2} against {expected}");
    }
}
