//! Gives a list of weights the variation that pages of another size, in a larger object, would have.

use super::bins::variation;

const MOST_EXPONENT: f64 = 64.0;
/// Targets this near are the same.
const SAME: f64 = 1e-4;

/// Changes `weights`, which sum to 1, so that their squared coefficient of variation is `target`; says whether it was reached.
///
/// Less variation: every weight moves towards the mean by the same factor, as it does when a page averages more
/// elements; zeros may become positive, because larger pages leave no page untouched. More variation: weights
/// are raised to a common power above 1, which keeps their order and their zeros. Equal weights stay equal.
pub fn reshape(weights: &mut [f64], target: f64) -> bool {
    let current = variation(weights);
    let mean = 1.0 / weights.len() as f64;
    if current <= 1e-12 || (target / current - 1.0).abs() < SAME {
        return true;
    }
    if target < current {
        let factor = (target.max(0.0) / current).sqrt();
        for weight in weights {
            *weight = mean + (*weight - mean) * factor;
        }
        return true;
    }
    let largest = weights.iter().copied().fold(0.0, f64::max);
    let raised = |exponent: f64| {
        let powers: Vec<f64> = weights.iter().map(|weight| (weight / largest).powf(exponent)).collect();
        let sum: f64 = powers.iter().sum();
        powers.iter().map(|power| power / sum).collect::<Vec<f64>>()
    };
    let (mut low, mut high) = (1.0, MOST_EXPONENT);
    let mut best = raised(high);
    let reached = variation(&best) >= target;
    if reached {
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            best = raised(middle);
            let found = variation(&best);
            if (found / target - 1.0).abs() < 1e-6 {
                break;
            }
            if found < target {
                low = middle;
            } else {
                high = middle;
            }
        }
    }
    weights.copy_from_slice(&best);
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reaches_the_target_and_keeps_sum_and_order(
            raw in proptest::collection::vec(0.01f64..1.0, 8..200),
            factor in 0.001f64..2.0,
        ) {
            let sum: f64 = raw.iter().sum();
            let before: Vec<f64> = raw.iter().map(|value| value / sum).collect();
            let target = variation(&before) * factor;
            let mut after = before.clone();
            prop_assert!(reshape(&mut after, target));
            prop_assert!((after.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            prop_assert!((variation(&after) - target).abs() <= 1e-4 * target);
            prop_assert!(after.iter().all(|weight| *weight >= 0.0));
            for (i, j) in (0..before.len()).zip(1..before.len()) {
                prop_assert!(before[i] > before[j] || after[i] <= after[j]);
            }
        }
    }

    #[test]
    fn an_impossible_target_is_reported() {
        let mut weights = [0.5, 0.5, 0.0, 0.0];
        assert!(
            !reshape(&mut weights, 2.0),
            "two equal weights cannot vary more by a power"
        );
        assert_eq!(weights, [0.5, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn uniform_weights_stay_uniform() {
        let mut weights = [0.25; 4];
        assert!(reshape(&mut weights, 0.3));
        assert_eq!(weights, [0.25; 4]);
    }
}
