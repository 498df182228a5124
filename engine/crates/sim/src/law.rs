//! Laws of popularity over the pages of an object: where their density changes, and how much lies between.

use crate::error::RunError;
use crate::scenario::Law;

/// Page positions at which the density of `law` changes, ends included.
pub(crate) fn edges(law: &Law, pages: u32) -> Result<Vec<u32>, RunError> {
    let at = |fraction: f64| (fraction * f64::from(pages)).round() as u32;
    match law {
        Law::Sweep => Ok(vec![]),
        Law::Uniform { from, to } => {
            if !(0.0 <= *from && from < to && *to <= 1.0) {
                return Err(RunError::Workload(format!("law 'uniform' runs from {from} to {to}")));
            }
            let start = at(*from).min(pages - 1);
            Ok(vec![start, at(*to).max(start + 1)])
        }
        Law::Pieces { edges, weights } => {
            let ascending = edges.windows(2).all(|w| w[0] < w[1]);
            if edges.len() != weights.len() + 1 || !ascending || edges[0] != 0.0 || edges[edges.len() - 1] != 1.0 {
                return Err(RunError::Workload(format!(
                    "law 'pieces' needs ascending edges from 0 to 1, one more than weights; it has {} edges and {} weights",
                    edges.len(),
                    weights.len()
                )));
            }
            if weights.iter().any(|w| !(*w >= 0.0 && w.is_finite())) || weights.iter().sum::<f64>() <= 0.0 {
                return Err(RunError::Workload(
                    "law 'pieces' needs weights of at least 0, not all 0".into(),
                ));
            }
            Ok(edges.iter().map(|e| at(*e)).collect())
        }
        Law::Bins { weights } => {
            if weights.is_empty()
                || weights.iter().any(|w| !(*w >= 0.0 && w.is_finite()))
                || weights.iter().all(|w| *w == 0.0)
            {
                return Err(RunError::Workload(
                    "law 'bins' needs weights of at least 0, not all 0".into(),
                ));
            }
            let n = weights.len() as u64;
            Ok((0..=n).map(|i| (i * u64::from(pages) / n) as u32).collect())
        }
        Law::Zipf { theta } => {
            if !(0.0..=3.0).contains(theta) {
                return Err(RunError::Workload(format!(
                    "law 'zipf' takes theta from 0 to 3, not {theta}"
                )));
            }
            // Single pages at the hot end, then pieces 3 % longer each: within one the density
            // changes by less than theta x 3 %.
            let mut edges = vec![0];
            let mut edge = 1u32;
            while edge < pages {
                edges.push(edge);
                edge = (f64::from(edge) * 1.03).ceil() as u32;
            }
            edges.push(pages);
            Ok(edges)
        }
    }
}

/// Share of `law` between page positions `from` and `to`.
pub(crate) fn mass(law: &Law, pages: u32, edges: &[u32], items_per_page: f64) -> Vec<f64> {
    let n = f64::from(pages);
    let cumulative: Vec<f64> = match law {
        Law::Sweep => edges.iter().map(|e| f64::from(*e) / n).collect(),
        Law::Uniform { from, to } => {
            let start = (from * n).round().min(n - 1.0);
            let end = (to * n).round().max(start + 1.0);
            edges
                .iter()
                .map(|e| ((f64::from(*e) - start) / (end - start)).clamp(0.0, 1.0))
                .collect()
        }
        Law::Zipf { theta } => {
            // The k-th item has weight k^-theta: the sum as an integral between half-integers,
            // which is right within a few percent for the first item and exact further on.
            let items = |page: u32| f64::from(page) * items_per_page + 0.5;
            let antiderivative = |x: f64| {
                if (theta - 1.0).abs() < 1e-9 {
                    x.ln()
                } else {
                    x.powf(1.0 - theta) / (1.0 - theta)
                }
            };
            edges.iter().map(|e| antiderivative(items(*e))).collect()
        }
        Law::Pieces {
            edges: fractions,
            weights,
        } => {
            let steps: Vec<f64> = fractions.iter().map(|f| f * n).collect();
            cumulative_at(edges, &steps, weights.iter().copied())
        }
        Law::Bins { weights } => {
            let bins = weights.len();
            let steps: Vec<f64> = (0..=bins).map(|i| i as f64 * n / bins as f64).collect();
            cumulative_at(edges, &steps, weights.iter().map(|w| f64::from(*w)))
        }
    };
    cumulative.windows(2).map(|w| w[1] - w[0]).collect()
}

/// Share of the weights before each of `edges`, where the i-th weight is spread evenly over
/// positions `steps[i]..steps[i + 1]`. Steps are not rounded to pages, so that many small ones add
/// up exactly on the pages of a small object.
fn cumulative_at(edges: &[u32], steps: &[f64], weights: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sums = vec![0.0];
    for weight in weights {
        sums.push(sums[sums.len() - 1] + weight);
    }
    let total = sums[sums.len() - 1];
    let share = |edge: &u32| {
        let position = f64::from(*edge);
        let upper = steps.partition_point(|s| *s <= position);
        if upper == steps.len() {
            return 1.0;
        }
        let within = (position - steps[upper - 1]) / (steps[upper] - steps[upper - 1]);
        (sums[upper - 1] + within * (sums[upper] - sums[upper - 1])) / total
    };
    edges.iter().map(share).collect()
}
