//! Logistic regression on sparse rows, as liblinear trains it: Newton with conjugate gradients, or coordinate descent.

mod coordinate;
mod data;
mod newton;

use super::prelude::*;
use crate::record::record_sliced;
use crate::{Profile, RecordRequest};
use data::{Rows, Sizes};

/// Training of a linear classifier.
#[derive(Debug)]
pub struct Liblinear;

/// Bytes of a node: the feature's number, padded, and its value.
const NODE_BYTES: u64 = 16;
const VALUE: u64 = 8;
/// Slices of a recording: a pass over the data takes several.
const SLICES: u64 = 400;

/// A trained model and how it was reached.
#[derive(Debug)]
pub struct Model {
    weights: Vec<f64>,
    /// Objective at the start and after each iteration.
    objectives: Vec<f64>,
    /// Violation of the optimality conditions at the start and after the last iteration.
    violation: [f64; 2],
    inner: u64,
    /// Features that passes of the coordinate descent went through, all together.
    visited: u64,
}

fn is_newton(values: &Values) -> bool {
    values.word("solver") == "newton"
}

/// The objective without any of the solver's state: regulariser and losses of all rows.
fn objective(values: &Values, rows: &Rows, weights: &[f64]) -> f64 {
    let loss: f64 = (0..rows.len())
        .map(|row| {
            let margin = rows.label(row)
                * rows
                    .nodes(row)
                    .map(|(feature, value)| weights[feature] * value)
                    .sum::<f64>();
            (-margin).exp().ln_1p()
        })
        .sum();
    let norm: f64 = if is_newton(values) {
        weights.iter().map(|weight| weight * weight).sum::<f64>() / 2.0
    } else {
        weights.iter().map(|weight| weight.abs()).sum()
    };
    norm + values.real("cost") * loss
}

/// Norm of the gradient, or for the other solver of its part that no weight's kink takes up.
fn violation(values: &Values, rows: &Rows, weights: &[f64]) -> f64 {
    let mut gradient = vec![0.0; weights.len()];
    for row in 0..rows.len() {
        let margin = rows.label(row)
            * rows
                .nodes(row)
                .map(|(feature, value)| weights[feature] * value)
                .sum::<f64>();
        let slope = -rows.label(row) * values.real("cost") / (1.0 + margin.exp());
        for (feature, value) in rows.nodes(row) {
            gradient[feature] += slope * value;
        }
    }
    if is_newton(values) {
        let square: f64 = gradient
            .iter()
            .zip(weights)
            .map(|(slope, weight)| (slope + weight).powi(2))
            .sum();
        return square.sqrt();
    }
    gradient
        .iter()
        .zip(weights)
        .map(|(slope, weight)| {
            if *weight == 0.0 {
                (slope.abs() - 1.0).max(0.0)
            } else {
                (slope + weight.signum()).abs()
            }
        })
        .sum()
}

impl Program for Liblinear {
    const NAME: &'static str = "liblinear";
    const FAMILY: &'static str = "liblinear";
    const SUMMARY: &'static str = "logistic regression on sparse rows, by Newton steps or by coordinate descent";
    const SOURCE: &'static str = "liblinear-multicore (Fan et al., JMLR 2008; Yuan et al., JMLR 2012): -s 0 and -s 6";
    const OP_MEANING: &'static str = "one stored value of the data visited, or one element of a vector";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::word(
            "solver",
            "a solver",
            &["newton", "coordinate"],
            "-s 0 (L2, Newton) or -s 6 (L1, coordinate descent)",
        )
        .or(Default::Word("newton")),
        Parameter::int("rows", 16, 1 << 40, "rows of the data").carried(),
        Parameter::int("features", 16, 1 << 40, "features").carried(),
        Parameter::int("row_values", 1, 10_000, "stored values of a row").or(Default::Int(30)),
        Parameter::real(
            "skew",
            0.0,
            0.99,
            "how popular the first features of a field are: the power by which popularity falls",
        )
        .or(Default::Real(0.9)),
        Parameter::int(
            "fields",
            1,
            10_000,
            "fields of equally many features; a row has values of each in turn",
        )
        .or(Default::Int(10)),
        Parameter::real("cost", 0.0, 1e6, "weight of the losses").or(Default::Real(1.0)),
        Parameter::real(
            "tolerance",
            0.0,
            1.0,
            "violation at which training stops, against that at the start",
        )
        .or(Default::Real(0.01)),
        Parameter::int("iterations", 1, 1000, "outer iterations at most").or(Default::Int(20)),
        Parameter::int("threads", 1, 256, "threads, each of which has sums of its own (newton)").or(Default::Int(1)),
        Parameter::int("seed", 0, u64::MAX, "seed of the data").or(Default::Int(1)),
    ];
    const CLASSES: &'static [AccessClass] = &[AccessClass::Gather, AccessClass::Update, AccessClass::Stream];
    const METRICS: &'static [Metric] = &[
        Metric {
            name: "outer_iterations",
            unit: "",
            role: Role::Covariate,
            meaning: "Newton steps",
        },
        Metric {
            name: "inner_iterations",
            unit: "",
            role: Role::Covariate,
            meaning: "steps of conjugate gradients, or passes over the active features",
        },
        Metric {
            name: "active_share",
            unit: "",
            role: Role::Covariate,
            meaning: "part of the features that a pass goes through, in the mean",
        },
        Metric {
            name: "nonzero_weights",
            unit: "",
            role: Role::Covariate,
            meaning: "features whose weight is not 0",
        },
    ];
    const SMALL: &'static str =
        r#"{"rows": 3000, "features": 2000, "row_values": 20, "tolerance": 0.05, "iterations": 6, "threads": 2}"#;

    type Output = Model;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        let sizes = Sizes::of(values);
        let (rows, features) = (sizes.rows as u64, sizes.features as u64);
        let nodes = rows * sizes.row_values as u64;
        let built = |name, count: u64, bytes: u64| ObjectSpec::new(name, count * bytes, bytes as u32).built();
        let vector = |name, count: u64| ObjectSpec::new(name, count * VALUE, VALUE as u32).swept();
        let mut objects = vec![
            built("nodes", nodes, NODE_BYTES).swept(),
            built("labels", rows, VALUE).swept(),
        ];
        if is_newton(values) {
            objects.extend(
                ["weights", "gradient", "direction", "residual", "step", "product"].map(|name| vector(name, features)),
            );
            objects.push(vector("margins", rows));
            objects.push(vector("curvatures", rows));
            // A part for each thread, but they are added up across threads, so no thread keeps to its own.
            let part = Mapping::Pieces(features * VALUE);
            objects.push(vector("sums", features * sizes.threads as u64).mapping(part));
        } else {
            objects.push(built("columns", nodes, NODE_BYTES).swept());
            objects.push(built("column starts", features + 1, VALUE).swept());
            objects.extend(["exp_wTx", "tau", "curvatures", "xTd"].map(|name| vector(name, rows)));
            objects.extend(["weights", "step", "gradient", "diagonal", "active"].map(|name| vector(name, features)));
        }
        objects
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> Model {
        if is_newton(values) {
            newton::train(memory, values)
        } else {
            coordinate::train(memory, values)
        }
    }

    fn report(_values: &Values, model: &Model) -> Vec<(&'static str, f64)> {
        vec![
            ("outer_iterations", (model.objectives.len() - 1) as f64),
            ("inner_iterations", model.inner as f64),
            (
                "active_share",
                model.visited as f64 / (model.inner.max(1) as f64 * model.weights.len() as f64),
            ),
            (
                "nonzero_weights",
                model.weights.iter().filter(|weight| **weight != 0.0).count() as f64,
            ),
        ]
    }

    fn verify(values: &Values, model: &Model) -> Vec<Check> {
        let rows = Rows::generate(&Sizes::of(values));
        let zero = vec![0.0; model.weights.len()];
        let last = model.objectives.last().copied().unwrap_or(f64::NAN);
        let plain = objective(values, &rows, &model.weights);
        let (start, end) = (
            violation(values, &rows, &zero),
            violation(values, &rows, &model.weights),
        );
        let [first, stopped] = model.violation;
        let limit = (model.objectives.len() - 1) as u64 == values.int("iterations");
        let falling = model
            .objectives
            .windows(2)
            .all(|pair| pair[1] <= pair[0] * (1.0 + 1e-12));
        let right = |found: f64, plain: f64, scale: f64| (found - plain).abs() <= 1e-6 * scale;
        vec![
            Check::new(
                "objective",
                right(last, plain, plain),
                format!("{last:.9e}, row by row {plain:.9e}"),
            ),
            Check::new(
                "descent",
                falling && last < model.objectives[0],
                format!("{:?}", model.objectives),
            ),
            Check::new(
                "violation",
                right(first, start, start) && right(stopped, end, start),
                format!("{first:.6e} to {stopped:.6e}, row by row {start:.6e} to {end:.6e}"),
            ),
            Check::new(
                "stopped",
                limit || end <= values.real("tolerance") * start * (1.0 + 1e-6),
                format!("{:.2e} of the violation left", end / start),
            ),
        ]
    }

    fn check(values: &Values) -> Result<(), ParameterError> {
        within("fields", values.int("fields"), 1, values.int("features"))?;
        if values.int("features") > u64::from(u32::MAX) * 64 {
            return Err(ParameterError::new(
                "features",
                "is above what 32 bits number".to_owned(),
            ));
        }
        within("threads", values.int("threads"), 1, values.int("rows"))
    }

    fn ops(values: &Values) -> u64 {
        // About what an outer iteration visits: the gradient, some inner steps of two visits each, a search.
        let nodes = values.int("rows") * values.int("row_values");
        nodes * 12 * values.int("iterations").min(10)
    }

    fn record(request: &RecordRequest) -> Profile {
        record_sliced::<Self>(request, 0, SLICES)
    }

    /// Rows and features grow alike unless both are given.
    fn resize(recorded: &Values, sizes: &[(&str, u64)]) -> Values {
        let asked = |name: &str| sizes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let growth = |name: &str| asked(name).map(|value| value as f64 / recorded.int(name) as f64);
        let along = |name: &str, growth: Option<f64>| {
            asked(name).unwrap_or((recorded.int(name) as f64 * growth.unwrap_or(1.0)).round() as u64)
        };
        let (rows, features) = (along("rows", growth("features")), along("features", growth("rows")));
        recorded.clone().with("rows", rows).with("features", features)
    }

    fn work_growth(recorded: &Values, target: &Values, _slice: &crate::profile::SliceInfo) -> f64 {
        target.int("rows") as f64 / recorded.int("rows") as f64
    }
}
