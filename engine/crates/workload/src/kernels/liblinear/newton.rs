//! Newton steps, each found by conjugate gradients: every product with the Hessian is a pass over all rows.

use super::data::{Rows, Sizes};
use super::{Liblinear, Model, NODE_BYTES};
use crate::kernels::prelude::*;

// Measured with `cargo run --release -p tiertune-workload --example cpu_cost -- liblinear`: 1000 rows, 2000 features.
const OBJECTIVE_NS: f64 = 1.3;
const GRADIENT_NS: f64 = 1.2;
const HESSIAN_NS: f64 = 0.9;

/// Conjugate gradients stop at this part of the gradient, as in liblinear.
const INNER_TOLERANCE: f64 = 0.1;
/// Conjugate gradients and halvings of a step at most.
const MOST_INNER: usize = 50;
const MOST_HALVINGS: usize = 20;
/// Part of the predicted descent that a step must make.
const SUFFICIENT: f64 = 0.01;
/// Rounds in which all threads go through a part of their rows, so that all are under way at once.
const ROUNDS: usize = 16;

struct Solver {
    sizes: Sizes,
    rows: Rows,
    cost: f64,
    nodes: ObjectId,
    labels: SharedArray<f64>,
    vectors: Vec<SharedArray<f64>>,
    margins: SharedArray<f64>,
    curvatures: SharedArray<f64>,
    sums: SharedArray<f64>,
}

const WEIGHTS: usize = 0;
const GRADIENT: usize = 1;
const DIRECTION: usize = 2;
const RESIDUAL: usize = 3;
const STEP: usize = 4;
const PRODUCT: usize = 5;

impl Solver {
    fn new<M: Memory>(memory: &mut M, values: &Values) -> Self {
        let (specs, sizes) = (Liblinear::objects(values), Sizes::of(values));
        let rows = Rows::generate(&sizes);
        let nodes = memory.allocate(&specs[0]);
        let labels = SharedArray::new(memory, &specs[1], rows.labels().to_vec());
        let mut zeros = |spec: &ObjectSpec, count: usize| SharedArray::new(memory, spec, vec![0.0; count]);
        Self {
            nodes,
            labels,
            vectors: specs[2..8].iter().map(|spec| zeros(spec, sizes.features)).collect(),
            margins: zeros(&specs[8], sizes.rows),
            curvatures: zeros(&specs[9], sizes.rows),
            sums: zeros(&specs[10], sizes.features * sizes.threads),
            sizes,
            rows,
            cost: values.real("cost"),
        }
    }

    /// Every thread goes through its rows; `visit` gets thread and row, its results are added up.
    fn pass<M: Memory>(&self, memory: &mut M, visit: impl Fn(&mut M, usize, usize) -> f64 + Sync) -> f64 {
        let totals: Vec<AtomicU64> = (0..ROUNDS * self.sizes.threads).map(|_| AtomicU64::new(0)).collect();
        for round in 0..ROUNDS {
            memory.for_chunks(0..self.sizes.threads, 1, |memory, threads| {
                for thread in threads {
                    let own = self.sizes.rows_of(thread);
                    let part = |round: usize| own.start + own.len() * round / ROUNDS;
                    let total: f64 = (part(round)..part(round + 1))
                        .map(|row| visit(memory, thread, row))
                        .sum();
                    totals[round * self.sizes.threads + thread].store(total.to_bits(), Relaxed);
                }
            });
        }
        totals.iter().map(|total| f64::from_bits(total.load(Relaxed))).sum()
    }

    /// The product of a row with a vector.
    #[inline(always)]
    fn dot<M: Memory>(&self, memory: &mut M, row: usize, vector: &SharedArray<f64>) -> f64 {
        let first = self.rows.first(row) * NODE_BYTES as usize;
        memory.load_lines(
            self.nodes,
            first,
            self.sizes.row_values * NODE_BYTES as usize,
            AccessClass::Stream,
        );
        memory.ops(self.sizes.row_values as u64);
        let nodes = self.rows.nodes(row);
        nodes
            .map(|(feature, value)| vector.load(memory, feature, AccessClass::Gather) * value)
            .sum()
    }

    /// Adds a row, so many times, to the sums of a thread.
    #[inline(always)]
    fn add<M: Memory>(&self, memory: &mut M, thread: usize, row: usize, factor: f64) {
        // The row is in cache since its product was taken.
        let first = self.rows.first(row) * NODE_BYTES as usize;
        memory.load_lines(
            self.nodes,
            first,
            self.sizes.row_values * NODE_BYTES as usize,
            AccessClass::Stream,
        );
        for (feature, value) in self.rows.nodes(row) {
            let place = thread * self.sizes.features + feature;
            // No other thread touches these.
            let sum = self.sums.load(memory, place, AccessClass::Update);
            self.sums
                .store(memory, place, sum + factor * value, AccessClass::Update);
        }
        memory.ops(self.sizes.row_values as u64);
    }

    /// Combines vectors element by element into the first one; returns the sum of what the closure gives beside it.
    fn combine<M: Memory>(
        &self,
        memory: &mut M,
        to: usize,
        from: [usize; 2],
        value: impl Fn(f64, f64) -> (f64, f64) + Sync,
    ) -> f64 {
        let chunk = 4096;
        let totals: Vec<AtomicU64> = (0..self.sizes.features.div_ceil(chunk))
            .map(|_| AtomicU64::new(0))
            .collect();
        memory.for_chunks(0..self.sizes.features, chunk, |memory, part| {
            let (mut first, mut second) = (vec![0.0; part.len()], vec![0.0; part.len()]);
            self.vectors[from[0]].read_run(memory, part.start, &mut first, AccessClass::Stream);
            self.vectors[from[1]].read_run(memory, part.start, &mut second, AccessClass::Stream);
            let mut total = 0.0;
            for (first, second) in first.iter_mut().zip(second) {
                let (result, summand) = value(*first, second);
                *first = result;
                total += summand;
            }
            self.vectors[to].write_run(memory, part.start, &first, AccessClass::Stream);
            totals[part.start / chunk].store(f64::to_bits(total), Relaxed);
            memory.ops(part.len() as u64);
        });
        totals.iter().map(|total| f64::from_bits(total.load(Relaxed))).sum()
    }

    /// Adds the sums of all threads into a vector, on top of `base` of another one; clears them for the next pass.
    fn reduce<M: Memory>(&self, memory: &mut M, to: usize, base: usize) {
        memory.for_chunks(0..self.sizes.features, 4096, |memory, part| {
            let (mut total, mut own) = (vec![0.0; part.len()], vec![0.0; part.len()]);
            let zero = vec![0.0; part.len()];
            self.vectors[base].read_run(memory, part.start, &mut total, AccessClass::Stream);
            for thread in 0..self.sizes.threads {
                let first = thread * self.sizes.features + part.start;
                self.sums.read_run(memory, first, &mut own, AccessClass::Stream);
                total.iter_mut().zip(&own).for_each(|(total, own)| *total += own);
                self.sums.write_run(memory, first, &zero, AccessClass::Stream);
            }
            self.vectors[to].write_run(memory, part.start, &total, AccessClass::Stream);
            memory.ops((part.len() * self.sizes.threads) as u64);
        });
    }

    /// Margins of all rows under the weights; returns the objective.
    fn evaluate<M: Memory>(&self, memory: &mut M) -> f64 {
        memory.phase(Phase::new("objective", Unit::Operations, OBJECTIVE_NS));
        let loss = self.pass(memory, |memory, _, row| {
            let label = self.labels.load(memory, row, AccessClass::Stream);
            let margin = label * self.dot(memory, row, &self.vectors[WEIGHTS]);
            self.margins.store(memory, row, margin, AccessClass::Stream);
            (-margin).exp().ln_1p()
        });
        let norm = self.combine(memory, WEIGHTS, [WEIGHTS, WEIGHTS], |weight, _| {
            (weight, weight * weight)
        });
        norm / 2.0 + self.cost * loss
    }

    /// The gradient, and the curvature of each row's loss; returns the gradient's norm.
    fn gradient<M: Memory>(&self, memory: &mut M) -> f64 {
        memory.phase(Phase::new("gradient", Unit::Operations, GRADIENT_NS));
        self.pass(memory, |memory, thread, row| {
            let margin = self.margins.load(memory, row, AccessClass::Stream);
            let label = self.labels.load(memory, row, AccessClass::Stream);
            let share = 1.0 / (1.0 + (-margin).exp());
            self.curvatures
                .store(memory, row, self.cost * share * (1.0 - share), AccessClass::Stream);
            self.add(memory, thread, row, self.cost * (share - 1.0) * label);
            0.0
        });
        self.reduce(memory, GRADIENT, WEIGHTS);
        self.combine(memory, GRADIENT, [GRADIENT, GRADIENT], |slope, _| {
            (slope, slope * slope)
        })
        .sqrt()
    }

    /// The product of the Hessian with the direction; returns its product with the direction.
    fn hessian<M: Memory>(&self, memory: &mut M) -> f64 {
        self.pass(memory, |memory, thread, row| {
            let product = self.dot(memory, row, &self.vectors[DIRECTION]);
            let curvature = self.curvatures.load(memory, row, AccessClass::Stream);
            self.add(memory, thread, row, curvature * product);
            0.0
        });
        self.reduce(memory, PRODUCT, DIRECTION);
        self.combine(memory, PRODUCT, [PRODUCT, DIRECTION], |product, direction| {
            (product, product * direction)
        })
    }

    /// The Newton step by conjugate gradients; returns how many it took.
    fn solve<M: Memory>(&self, memory: &mut M, norm: f64) -> u64 {
        memory.phase(Phase::new("hessian", Unit::Operations, HESSIAN_NS));
        self.combine(memory, RESIDUAL, [GRADIENT, GRADIENT], |slope, _| (-slope, 0.0));
        self.combine(memory, DIRECTION, [GRADIENT, GRADIENT], |slope, _| (-slope, 0.0));
        self.combine(memory, STEP, [GRADIENT, GRADIENT], |_, _| (0.0, 0.0));
        let (mut square, mut steps) = (norm * norm, 0);
        while square.sqrt() > INNER_TOLERANCE * norm && steps < MOST_INNER as u64 {
            let alpha = square / self.hessian(memory);
            self.combine(memory, STEP, [STEP, DIRECTION], |step, along| {
                (step + alpha * along, 0.0)
            });
            let next = self.combine(memory, RESIDUAL, [RESIDUAL, PRODUCT], |left, product| {
                let left = left - alpha * product;
                (left, left * left)
            });
            let beta = next / square;
            self.combine(memory, DIRECTION, [RESIDUAL, DIRECTION], |left, along| {
                (left + beta * along, 0.0)
            });
            square = next;
            steps += 1;
        }
        steps
    }
}

pub(super) fn train<M: Memory>(memory: &mut M, values: &Values) -> Model {
    let solver = Solver::new(memory, values);
    let mut model = Model {
        weights: Vec::new(),
        objectives: vec![solver.evaluate(memory)],
        violation: [0.0; 2],
        inner: 0,
        visited: 0,
    };
    let mut norm = solver.gradient(memory);
    model.violation = [norm; 2];
    for _ in 0..values.int("iterations") {
        if norm <= values.real("tolerance") * model.violation[0] {
            break;
        }
        model.inner += solver.solve(memory, norm);
        let slope = solver.combine(memory, STEP, [STEP, GRADIENT], |step, slope| (step, step * slope));
        let before = model.objectives[model.objectives.len() - 1];
        // The whole step first; back by halves until the objective falls enough.
        let (mut length, mut last) = (1.0, 0.0);
        let mut now = before;
        for _ in 0..MOST_HALVINGS {
            let change: f64 = length - last;
            solver.combine(memory, WEIGHTS, [WEIGHTS, STEP], |weight, step| {
                (weight + change * step, 0.0)
            });
            last = length;
            now = solver.evaluate(memory);
            if now <= before + SUFFICIENT * length * slope {
                break;
            }
            length /= 2.0;
        }
        model.objectives.push(now);
        norm = solver.gradient(memory);
        model.violation[1] = norm;
    }
    model.visited = model.inner * solver.sizes.features as u64;
    model.weights = solver.vectors[WEIGHTS].to_vec();
    model
}
