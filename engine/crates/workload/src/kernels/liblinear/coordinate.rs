//! Coordinate descent on a quadratic model of the L1-regularised objective, with features left out once they stay 0.

use super::data::{Rows, Sizes};
use super::{Liblinear, Model, NODE_BYTES};
use crate::kernels::prelude::*;

// Measured with `cargo run --release -p tiertune-workload --example cpu_cost -- liblinear`: 1000 rows, 2000 features.
const START_NS: f64 = 1.0;
const GRADIENT_NS: f64 = 1.1;
const DESCENT_NS: f64 = 0.7;
const SEARCH_NS: f64 = 4.3;

/// Passes over the active features and halvings of a step at most.
const MOST_INNER: usize = 50;
const MOST_HALVINGS: usize = 20;
const SUFFICIENT: f64 = 0.01;
/// Keeps curvatures of features that hardly occur above 0.
const LEAST_CURVATURE: f64 = 1e-12;

struct Solver {
    sizes: Sizes,
    cost: f64,
    nodes: ObjectId,
    rows: Rows,
    labels: SharedArray<f64>,
    columns: Array<(u32, f64)>,
    starts: Array<u64>,
    /// By rows: e^(w x), slope of the loss, curvature, product of the row with the step.
    exponentials: Array<f64>,
    slopes: Array<f64>,
    curvatures: Array<f64>,
    products: Array<f64>,
    /// By features: weight, step, gradient, curvature, and the numbers of those that are active.
    weights: Array<f64>,
    step: Array<f64>,
    gradient: Array<f64>,
    diagonal: Array<f64>,
    active: Array<u64>,
}

impl Solver {
    fn new<M: Memory>(memory: &mut M, values: &Values) -> Self {
        let (specs, sizes) = (Liblinear::objects(values), Sizes::of(values));
        let rows = Rows::generate(&sizes);
        let (starts, columns) = rows.columns(sizes.features);
        let (l, n) = (sizes.rows, sizes.features);
        Self {
            nodes: memory.allocate(&specs[0]),
            labels: SharedArray::new(memory, &specs[1], rows.labels().to_vec()),
            columns: Array::new(memory, &specs[2], columns),
            starts: Array::new(memory, &specs[3], starts),
            exponentials: Array::new(memory, &specs[4], vec![1.0; l]),
            slopes: Array::new(memory, &specs[5], vec![0.0; l]),
            curvatures: Array::new(memory, &specs[6], vec![0.0; l]),
            products: Array::new(memory, &specs[7], vec![0.0; l]),
            weights: Array::new(memory, &specs[8], vec![0.0; n]),
            step: Array::new(memory, &specs[9], vec![0.0; n]),
            gradient: Array::new(memory, &specs[10], vec![0.0; n]),
            diagonal: Array::new(memory, &specs[11], vec![0.0; n]),
            active: Array::new(memory, &specs[12], (0..n as u64).collect()),
            cost: values.real("cost"),
            sizes,
            rows,
        }
    }

    /// The nodes of a feature.
    fn column<M: Memory>(&self, memory: &mut M, feature: usize) -> std::ops::Range<usize> {
        let start = self.starts.load(memory, feature, AccessClass::Stream) as usize;
        let end = self.starts.load(memory, feature + 1, AccessClass::Stream) as usize;
        memory.ops((end - start) as u64);
        start..end
    }

    /// Slopes and curvatures of all rows' losses; returns their sum.
    fn losses<M: Memory>(&mut self, memory: &mut M) -> f64 {
        let mut sum = 0.0;
        for row in 0..self.sizes.rows {
            let label = self.labels.load(memory, row, AccessClass::Stream);
            let exponential = self.exponentials.load(memory, row, AccessClass::Stream);
            let share = exponential / (1.0 + exponential);
            let wanted = f64::from(u8::from(label > 0.0));
            self.slopes
                .store(memory, row, self.cost * (share - wanted), AccessClass::Stream);
            self.curvatures
                .store(memory, row, self.cost * share * (1.0 - share), AccessClass::Stream);
            sum += if label > 0.0 {
                (1.0 / exponential).ln_1p()
            } else {
                exponential.ln_1p()
            };
        }
        sum
    }

    /// Gradient and curvature of active features; those whose weight is 0 and well stays so are left out from now on.
    /// Returns the violation.
    fn gradients<M: Memory>(&mut self, memory: &mut M, active: &mut usize, margin: f64) -> f64 {
        let (mut violation, mut place) = (0.0, 0);
        while place < *active {
            let feature = self.active.load(memory, place, AccessClass::Stream) as usize;
            let (mut slope, mut curvature) = (0.0, LEAST_CURVATURE);
            for number in self.column(memory, feature) {
                let (row, value) = self.columns.load(memory, number, AccessClass::Stream);
                slope += value * self.slopes.load(memory, row as usize, AccessClass::Gather);
                curvature += value * value * self.curvatures.load(memory, row as usize, AccessClass::Gather);
            }
            self.gradient.store(memory, feature, slope, AccessClass::Stream);
            self.diagonal.store(memory, feature, curvature, AccessClass::Stream);
            let weight = self.weights.load(memory, feature, AccessClass::Stream);
            if weight == 0.0 && slope.abs() < 1.0 - margin {
                // The last active one takes its place.
                *active -= 1;
                let last = self.active.load(memory, *active, AccessClass::Stream);
                self.active.store(memory, *active, feature as u64, AccessClass::Stream);
                self.active.store(memory, place, last, AccessClass::Stream);
                continue;
            }
            violation += if weight == 0.0 {
                (slope.abs() - 1.0).max(0.0)
            } else {
                (slope + weight.signum()).abs()
            };
            place += 1;
        }
        violation
    }

    /// One pass over the active features of the quadratic model; returns the violation that it met.
    fn descend<M: Memory>(&mut self, memory: &mut M, active: usize) -> f64 {
        let mut violation = 0.0;
        for place in 0..active {
            let feature = self.active.load(memory, place, AccessClass::Stream) as usize;
            let column = self.column(memory, feature);
            let curvature = self.diagonal.load(memory, feature, AccessClass::Stream);
            let mut slope = self.gradient.load(memory, feature, AccessClass::Stream);
            for number in column.clone() {
                let (row, value) = self.columns.load(memory, number, AccessClass::Stream);
                let weighted = self.curvatures.load(memory, row as usize, AccessClass::Gather);
                slope += value * weighted * self.products.load(memory, row as usize, AccessClass::Gather);
            }
            let step = self.step.load(memory, feature, AccessClass::Stream);
            let weight = self.weights.load(memory, feature, AccessClass::Stream) + step;
            // The least of the model along this weight, with its kink at 0.
            let target = weight - slope / curvature;
            let next = target.signum() * (target.abs() - 1.0 / curvature).max(0.0);
            violation += if weight == 0.0 {
                (slope.abs() - 1.0).max(0.0)
            } else {
                (slope + weight.signum()).abs()
            };
            let change = next - weight;
            if change.abs() < 1e-14 {
                continue;
            }
            self.step.store(memory, feature, step + change, AccessClass::Stream);
            memory.ops(column.len() as u64);
            for number in column {
                let (row, value) = self.columns.load(memory, number, AccessClass::Stream);
                self.products
                    .update(memory, row as usize, AccessClass::Update, |sum| sum + change * value);
            }
        }
        violation
    }

    /// Puts a part of the step into weights and exponentials; returns the objective there.
    fn advance<M: Memory>(&mut self, memory: &mut M, part: f64) -> f64 {
        let mut norm = 0.0;
        for feature in 0..self.sizes.features {
            let step = self.step.load(memory, feature, AccessClass::Stream);
            if step != 0.0 {
                self.weights.update(memory, feature, AccessClass::Stream, |weight| {
                    let sum = weight + part * step;
                    // Steps that lead to 0 end there whatever the rounding.
                    if sum.abs() < 1e-14 { 0.0 } else { sum }
                });
            }
            norm += self.weights.load(memory, feature, AccessClass::Stream).abs();
        }
        for row in 0..self.sizes.rows {
            let product = self.products.load(memory, row, AccessClass::Stream);
            if product != 0.0 {
                self.exponentials
                    .update(memory, row, AccessClass::Stream, |value| value * (part * product).exp());
            }
        }
        memory.ops((self.sizes.rows + self.sizes.features) as u64);
        norm + self.cost * self.losses(memory)
    }

    /// Norm of the weights after a part of the step, and the slope of the objective along the whole of it.
    fn slope<M: Memory>(&mut self, memory: &mut M) -> f64 {
        (0..self.sizes.features)
            .map(|feature| {
                let step = self.step.load(memory, feature, AccessClass::Stream);
                let weight = self.weights.load(memory, feature, AccessClass::Stream);
                let slope = self.gradient.load(memory, feature, AccessClass::Stream);
                if step == 0.0 {
                    0.0
                } else {
                    slope * step + (weight + step).abs() - weight.abs()
                }
            })
            .sum()
    }

    fn clear<M: Memory>(&mut self, memory: &mut M) {
        memory.ops((self.sizes.rows + self.sizes.features) as u64);
        self.step.fill(memory, 0.0);
        self.products.fill(memory, 0.0);
    }

    /// The first product of every row with the weights, for which rows are read as they came.
    fn load<M: Memory>(&mut self, memory: &mut M) {
        let bytes = self.sizes.row_values * NODE_BYTES as usize;
        for row in 0..self.rows.len() {
            memory.load_lines(
                self.nodes,
                self.rows.first(row) * NODE_BYTES as usize,
                bytes,
                AccessClass::Stream,
            );
            let mut product = 0.0;
            for (feature, value) in self.rows.nodes(row) {
                product += value * self.weights.load(memory, feature, AccessClass::Gather);
            }
            self.exponentials.store(memory, row, product.exp(), AccessClass::Stream);
            memory.ops(self.sizes.row_values as u64);
        }
    }
}

pub(super) fn train<M: Memory>(memory: &mut M, values: &Values) -> Model {
    let mut solver = Solver::new(memory, values);
    let features = solver.sizes.features;
    memory.phase(Phase::new("start", Unit::Operations, START_NS));
    solver.load(memory);
    let start = solver.cost * solver.losses(memory);
    let mut model = Model {
        weights: Vec::new(),
        objectives: vec![start],
        violation: [0.0; 2],
        inner: 0,
        visited: 0,
    };
    let mut inner_goal = f64::INFINITY;
    for iteration in 0..=values.int("iterations") {
        memory.phase(Phase::new("gradient", Unit::Operations, GRADIENT_NS));
        let mut active = features;
        // Features within the last violation of their kink stay in.
        let margin = if iteration == 0 {
            0.0
        } else {
            (model.violation[1] / features as f64).min(0.5)
        };
        let violation = solver.gradients(memory, &mut active, margin);
        if iteration == 0 {
            model.violation[0] = violation;
            inner_goal = violation;
        }
        model.violation[1] = violation;
        if violation <= values.real("tolerance") * model.violation[0] || iteration == values.int("iterations") {
            break;
        }
        memory.phase(Phase::new("descent", Unit::Operations, DESCENT_NS));
        for pass in 0..MOST_INNER {
            model.inner += 1;
            model.visited += active as u64;
            let met = solver.descend(memory, active);
            if met <= inner_goal * 0.1 {
                // The fewer passes a model takes, the better the next one is solved.
                if pass == 0 {
                    inner_goal *= 0.25;
                }
                break;
            }
        }
        memory.phase(Phase::new("search", Unit::Operations, SEARCH_NS));
        let slope = solver.slope(memory);
        let before = model.objectives[model.objectives.len() - 1];
        let (mut length, mut last, mut now) = (1.0, 0.0, before);
        for _ in 0..MOST_HALVINGS {
            let change: f64 = length - last;
            last = length;
            now = solver.advance(memory, change);
            if now <= before + SUFFICIENT * length * slope {
                break;
            }
            length /= 2.0;
        }
        model.objectives.push(now);
        solver.clear(memory);
    }
    model.weights = solver.weights.data().to_vec();
    model
}
