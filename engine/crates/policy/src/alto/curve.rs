//! How much may be promoted at a given amortised latency.

use super::AltoConfig;

/// The run scripts' table between the bounds 40 and 100: upper end of a step as a share of the way
/// between them, and what passes of promotions and of armed units.
const STEPS: [(f64, f64, f64); 4] = [
    (1.0 / 6.0, 0.1, 1.0 / 16.0),
    (1.0 / 3.0, 0.1, 2.0 / 16.0),
    (2.0 / 3.0, 0.3, 4.0 / 16.0),
    (1.0, 0.5, 8.0 / 16.0),
];
/// What passes just above the lower bound on the hyperbola, which never gets to 0 (ours).
const LEAST: f64 = 0.1;

/// Shares, from 0 to 1, of promotions and of armed units that pass at `aol` cycles.
#[must_use]
pub fn shares(config: &AltoConfig, aol: f64) -> [f64; 2] {
    let low = f64::from(config.alto_aol_low_cycles);
    let high = low + f64::from(config.alto_aol_gap_cycles);
    if aol <= low {
        return [0.0; 2];
    }
    if aol > high {
        return [1.0; 2];
    }
    let way = (aol - low) / (high - low); // high is above low: aol is between them
    match config.alto_curve.as_str() {
        "step" => {
            // A little more than the end of a step still belongs to it, so that 60 of 40 to 100 does.
            let step = STEPS.iter().find(|(end, ..)| way <= end + 1e-9).unwrap_or(&STEPS[3]);
            [step.1, step.2]
        }
        "hyperbolic" => {
            // 1 / (a + b / AOL) through LEAST at the lower bound and 1 at the upper one.
            let low = low.max(1.0);
            if high <= low {
                return [1.0; 2]; // less than a cycle lies between them
            }
            let b = (1.0 / LEAST - 1.0) / (1.0 / low - 1.0 / high);
            let a = 1.0 - b / high;
            [(1.0 / (a + b / aol)).clamp(0.0, 1.0); 2]
        }
        _ => [way; 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn config(curve: &str, low: i64, gap: i64) -> AltoConfig {
        let values = [
            ("alto_curve", curve.into()),
            ("alto_aol_low_cycles", low.into()),
            ("alto_aol_gap_cycles", gap.into()),
        ];
        let config: Config = values.map(|(name, value)| (name.to_string(), value)).into();
        AltoConfig::from_config(&config).expect("valid")
    }

    #[test]
    fn steps_are_those_of_the_run_scripts() {
        let steps = config("step", 40, 60);
        for (aol, of_ten, of_sixteen) in [
            (0.0, 0.0, 0.0),
            (40.0, 0.0, 0.0),
            (40.1, 1.0, 1.0),
            (50.0, 1.0, 1.0),
            (60.0, 1.0, 2.0),
            (60.1, 3.0, 4.0),
            (80.0, 3.0, 4.0),
            (100.0, 5.0, 8.0),
            (100.1, 10.0, 16.0),
        ] {
            assert_eq!(shares(&steps, aol), [of_ten / 10.0, of_sixteen / 16.0], "AOL {aol}");
        }
    }

    #[test]
    fn curves_rise_from_nothing_to_all_between_the_bounds() {
        for curve in ["linear", "hyperbolic", "step"] {
            for (low, gap) in [(40, 60), (25, 70), (0, 0), (0, 230), (140, 0), (0, 1)] {
                let config = config(curve, low, gap);
                let at = |aol: f64| shares(&config, aol)[0];
                assert_eq!((at(low as f64), at((low + gap) as f64 + 0.1)), (0.0, 1.0));
                let rising = (0..4000).map(|tenth| at(f64::from(tenth) / 10.0)).collect::<Vec<_>>();
                assert!(rising.windows(2).all(|pair| pair[0] <= pair[1]), "{curve} {low} {gap}");
            }
        }
        assert_eq!(shares(&config("linear", 40, 60), 70.0), [0.5, 0.5]);
        let hyperbola = shares(&config("hyperbolic", 40, 60), 60.0)[0];
        assert!((hyperbola - 0.2).abs() < 1e-12, "1 / (-5 + 600 / 60)");
    }
}
