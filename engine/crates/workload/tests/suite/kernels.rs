//! The kernels against independent, simple implementations.

use std::collections::VecDeque;

use tiertune_workload::graph::{Graph, GraphKind};
use tiertune_workload::kernels::{bc, gups, pr};
use tiertune_workload::memory::Native;
use tiertune_workload::recorder::Recorder;

fn list(graph: &Graph, vertex: usize) -> &[u32] {
    &graph.neighbours[graph.index[vertex] as usize..graph.index[vertex + 1] as usize]
}

/// Counts shortest paths from `source` through every vertex pair by pair, in doubles, without Brandes' recursion:
/// the dependency of s on v is the sum over targets t of paths(s, v) * paths(v, t) / paths(s, t).
fn dependencies(graph: &Graph, source: usize) -> Vec<f64> {
    let n = graph.vertices();
    let search = |from: usize| {
        let (mut distance, mut paths) = (vec![usize::MAX; n], vec![0f64; n]);
        (distance[from], paths[from]) = (0, 1.0);
        let mut queue = VecDeque::from([from]);
        while let Some(u) = queue.pop_front() {
            for v in list(graph, u).iter().map(|v| *v as usize) {
                if distance[v] == usize::MAX {
                    distance[v] = distance[u] + 1;
                    queue.push_back(v);
                }
                if distance[v] == distance[u] + 1 {
                    paths[v] += paths[u];
                }
            }
        }
        (distance, paths)
    };
    let (from_source, paths_from_source) = search(source);
    let mut result = vec![0f64; n];
    for v in (0..n).filter(|v| from_source[*v] != usize::MAX) {
        let (from_v, paths_from_v) = search(v);
        for t in (0..n).filter(|t| *t != v && from_source[*t] != usize::MAX) {
            if from_source[v] + from_v[t] == from_source[t] {
                result[v] += paths_from_source[v] * paths_from_v[t] / paths_from_source[t];
            }
        }
    }
    result
}

fn expect_bc(graph: &Graph, sources: &[u32]) {
    let mut expected = vec![0f64; graph.vertices()];
    for source in sources {
        for (sum, part) in expected.iter_mut().zip(dependencies(graph, *source as usize)) {
            *sum += part;
        }
    }
    let largest = expected.iter().copied().fold(0.0, f64::max);
    let scores = bc::run(&mut Native, graph.clone(), sources);
    for (vertex, (found, expected)) in scores.iter().zip(&expected).enumerate() {
        let expected = expected / largest;
        assert!(
            (f64::from(*found) - expected).abs() < 2e-5,
            "vertex {vertex}: {found} against {expected}"
        );
    }
    let mut recorder = Recorder::new(4096, 1000);
    assert_eq!(
        bc::run(&mut recorder, graph.clone(), sources),
        scores,
        "recording changes no result"
    );
}

#[test]
fn betweenness_of_a_path_is_known() {
    let graph = Graph::from_edges(5, &[(0, 1), (1, 2), (2, 3), (3, 4)]);
    let scores = bc::run(&mut Native, graph, &[0]);
    assert_eq!(
        scores,
        [1.0, 0.75, 0.5, 0.25, 0.0],
        "the source depends on 4, 3, 2, 1 and 0 others"
    );
}

#[test]
fn betweenness_matches_pairwise_counting() {
    for kind in [GraphKind::Kron, GraphKind::Uniform] {
        let graph = Graph::generate(kind, 8, 3, 5);
        let sources = bc::pick_sources(&graph, 5, 2);
        expect_bc(&graph, &sources);
    }
}

#[test]
fn betweenness_leaves_unreachable_parts_alone() {
    let graph = Graph::from_edges(7, &[(0, 1), (1, 2), (4, 5), (5, 6)]);
    expect_bc(&graph, &[0]);
}

#[test]
fn sources_have_edges() {
    let graph = Graph::generate(GraphKind::Kron, 10, 2, 1);
    let sources = bc::pick_sources(&graph, 200, 3);
    assert_eq!(sources.len(), 200);
    assert!(sources.iter().all(|source| graph.degree(*source as usize) > 0));
    assert!(graph.info().isolated > 100, "the draw would have met isolated vertices");
}

#[test]
fn pagerank_matches_plain_iteration_and_its_sum_is_known() {
    for kind in [GraphKind::Kron, GraphKind::Uniform] {
        let graph = Graph::generate(kind, 10, 8, 4);
        let n = graph.vertices();
        let mut expected = vec![1.0 / n as f64; n];
        for _ in 0..200 {
            let shares: Vec<f64> = (0..n).map(|v| expected[v] / graph.degree(v).max(1) as f64).collect();
            for (v, score) in expected.iter_mut().enumerate() {
                *score = 0.15 / n as f64 + 0.85 * list(&graph, v).iter().map(|u| shares[*u as usize]).sum::<f64>();
            }
        }
        let scores = pr::run(&mut Native, graph.clone(), 60);
        for (vertex, (found, expected)) in scores.iter().zip(&expected).enumerate() {
            assert!(
                (f64::from(*found) / expected - 1.0).abs() < 1e-4,
                "vertex {vertex}: {found} against {expected}"
            );
        }
        // GAPBS does not hand out the rank of vertices without edges again: each keeps 0.15 / n, the others hold
        // their full share. Without such vertices the sum is 1.
        let isolated = graph.info().isolated as f64 / n as f64;
        let sum: f64 = scores.iter().map(|score| f64::from(*score)).sum();
        assert!((sum - (1.0 - 0.85 * isolated)).abs() < 1e-4, "{kind:?}: {sum}");
        assert_eq!(kind == GraphKind::Uniform, isolated == 0.0);
        let mut recorder = Recorder::new(4096, 1000);
        assert_eq!(pr::run(&mut recorder, graph, 60), scores, "recording changes no result");
    }
}

#[test]
fn gups_does_every_update_and_the_hot_set_slides() {
    let shape = gups::Shape {
        table_bytes: 1 << 20,
        hot_bytes: 1 << 17,
        hot_share: 0.9,
        threads: 4,
    };
    let half = [gups::Move {
        at_update: 500_000,
        share: 0.25,
    }];
    let run = |updates, moves: &[gups::Move]| gups::run(&mut Native, &shape, updates, moves, 3, 1 << 17);
    let (before, all) = (run(500_000, &[]), run(1_000_000, &half));
    assert_eq!(before.iter().sum::<u64>(), 500_000);
    assert_eq!(all.iter().sum::<u64>(), 1_000_000);
    // The first half of the longer run is the shorter run.
    let after: Vec<u64> = all.iter().zip(&before).map(|(all, before)| all - before).collect();
    let (region, hot) = (shape.region() as usize, shape.hot() as usize);
    for (counts, start) in [(&before, 0), (&after, hot / 4)] {
        let share = |range: std::ops::Range<usize>| {
            let sum: u64 = (0..4)
                .map(|thread| counts[thread * region..][range.clone()].iter().sum::<u64>())
                .sum();
            sum as f64 / 500_000.0
        };
        // 0.9 plus the hot part's share of the uniform tenth.
        let expected = 0.9 + 0.1 * hot as f64 / region as f64;
        assert!(
            (share(start..start + hot) - expected).abs() < 0.002,
            "{}",
            share(start..start + hot)
        );
    }
}
