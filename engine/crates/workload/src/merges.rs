//! How many entries of lists are compared for each edge when triangles are counted, as GAPBS does: vertices are ranked by
//! falling degree, and the lists of both ends of an edge are merged as far as the end that ranks higher.
//!
//! The law averages over whom a vertex of a degree meets. Beside graphs that were built (degrees 16 and 18, 30 November 2026) it
//! is 10 % too high with 2^12 vertices, 7 % with 2^15 and 6 % with 2^20, on Kronecker and Twitter-like graphs alike, so that it
//! grows as they do. On uniform graphs degrees differ by chance alone, which it does not see: there it is 1.7 times too high,
//! at every size.

use crate::graph::GraphKind;
use crate::law::Classes;

/// Entries of both lists that are looked at for each edge, in the mean.
#[must_use]
pub fn expected_merged(kind: GraphKind, scale: u32, degree: u32) -> f64 {
    let classes = Classes::new(kind, scale, degree);
    let degrees = classes.edges(&classes.counts);
    let mut by_degree: Vec<usize> = (0..degrees.len()).collect();
    by_degree.sort_by(|one, other| degrees[*one].total_cmp(&degrees[*other]));
    let (mut edges, mut entries) = (0.0, 0.0);
    for (nth, high) in by_degree.iter().enumerate() {
        // Neighbours that rank before a vertex of class `high`: those of classes of more edges, and half of its own.
        let before = |of: usize| {
            let neighbours = |class: usize| classes.counts[class] * classes.joined[of][class];
            let higher = by_degree[nth + 1..].iter().map(|class| neighbours(*class)).sum::<f64>();
            higher + neighbours(*high) / 2.0
        };
        let in_high = before(*high);
        for low in &by_degree[..=nth] {
            let both_ways = if low == high { 0.5 } else { 1.0 };
            let joined = classes.counts[*low] * classes.counts[*high] * classes.joined[*low][*high] * both_ways;
            let in_low = before(*low);
            edges += joined;
            // The other list is followed as far as the last entry of the one, one gap of so many short of the end.
            entries += joined * (in_low + in_high * in_low / (1.0 + in_low));
        }
    }
    entries / edges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;

    #[test]
    fn the_law_is_what_built_graphs_need_and_grows_as_they_do() {
        for (kind, level) in [
            (GraphKind::Kron, 1.08),
            (GraphKind::Twitter, 1.09),
            (GraphKind::Uniform, 1.67),
        ] {
            let beside = [12, 15].map(|scale| {
                let built = merged(&Graph::generate(kind, scale, 16, 3));
                let law = expected_merged(kind, scale, 16);
                println!("{kind:?} {scale}: {law:.1}, built {built:.1}");
                law / built
            });
            assert!(
                beside.iter().all(|ratio| (ratio / level - 1.0).abs() < 0.03),
                "{kind:?}: {beside:?}"
            );
        }
    }

    /// By merging the lists of a built graph.
    fn merged(graph: &Graph) -> f64 {
        let mut by_degree: Vec<usize> = (0..graph.vertices()).collect();
        by_degree.sort_by_key(|vertex| std::cmp::Reverse(graph.degree(*vertex)));
        let mut ids = vec![0; graph.vertices()];
        for (id, vertex) in by_degree.iter().enumerate() {
            ids[*vertex] = id;
        }
        let lists: Vec<Vec<usize>> = by_degree
            .iter()
            .map(|vertex| {
                let mut list: Vec<usize> = graph.list(*vertex).iter().map(|other| ids[*other as usize]).collect();
                list.sort_unstable();
                list
            })
            .collect();
        let (mut edges, mut entries) = (0, 0);
        for (u, list) in lists.iter().enumerate() {
            for v in list.iter().filter(|v| **v < u) {
                edges += 1;
                let mut other = 0;
                for w in list.iter().take_while(|w| *w < v) {
                    entries += 1;
                    while other < lists[*v].len() && lists[*v][other] < *w {
                        other += 1;
                        entries += 1;
                    }
                }
            }
        }
        f64::from(entries) / f64::from(edges)
    }
}
