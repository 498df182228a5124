//! Implicit time steps of a blast wave: a block matrix of seven diagonals, solved by BiCGSTAB, as bwaves does it.

use super::npb::grid::{Cube, Point, UNKNOWNS, at};
use super::prelude::*;
use crate::record::record_sliced;
use crate::{Profile, RecordRequest};

/// BiCGSTAB on blocks of five by five.
#[derive(Debug)]
pub struct Bwaves;

// Measured with `cargo run --release -p tiertune-workload --example cpu_cost -- bwaves` and 10 points an edge.
const MATRIX_NS: f64 = 484.0;
const PRODUCT_NS: f64 = 318.0;
const VECTOR_NS: f64 = 26.0;
/// Slices that a pass over the grid is recorded in, so that sweeps stay sweeps.
const PASS_SLICES: u64 = 4;
/// Passes over the grid of a step when the solver takes a dozen iterations.
const STEP_PASSES: u64 = 2 + 7 * 12;

const BLOCK: usize = UNKNOWNS * UNKNOWNS;
const VALUE: u64 = 8;
const DIRECTIONS: usize = 7;
const BLOCKS: [&str; DIRECTIONS] = ["a", "axm", "axp", "aym", "ayp", "azm", "azp"];
/// Vectors of the solver beside the state: residual, its shadow, search direction, and the rest.
const VECTORS: [&str; 7] = ["r", "r0", "p", "v", "s", "t", "x"];
/// Where the solver stops, against the norm of the right-hand side.
const TOLERANCE: f64 = 1e-8;
const MOST_ITERATIONS: usize = 60;

fn cube(values: &Values) -> Cube {
    Cube {
        edge: values.int("edge") as usize,
    }
}

/// Velocity along each axis.
fn velocities(q: Point) -> [f64; 3] {
    [q[1] / q[0], q[2] / q[0], q[3] / q[0]]
}

/// The matrix's block that couples a point in state `q` with the neighbour in one direction (0: with itself).
fn block(q: Point, direction: usize) -> [f64; BLOCK] {
    let velocities = velocities(q);
    let mut block = [0.0; BLOCK];
    for row in 0..UNKNOWNS {
        for column in 0..UNKNOWNS {
            let mixed = 0.02 * q[row] * q[column] / (q[4] * q[4] + 1.0);
            block[row * UNKNOWNS + column] = if direction == 0 { mixed } else { -mixed / 12.0 };
        }
        let diagonal = &mut block[row * UNKNOWNS + row];
        if direction == 0 {
            let fast: f64 = velocities.iter().map(|velocity| velocity.abs()).sum();
            *diagonal += 1.0 + 6.0 * 0.5 + fast;
        } else {
            // Against the flow on one side only.
            let along = velocities[(direction - 1) / 2] * if direction % 2 == 1 { 1.0 } else { -1.0 };
            *diagonal -= 0.5 + along.max(0.0);
        }
    }
    block
}

fn times(block: &[f64], x: Point) -> Point {
    std::array::from_fn(|row| {
        (0..UNKNOWNS)
            .map(|column| block[row * UNKNOWNS + column] * x[column])
            .sum()
    })
}

/// What a step is driven by: relaxation towards the smooth field.
fn right_hand_side(cube: Cube, q: Point, place: [usize; 3]) -> Point {
    let wanted = cube.exact(place[0], place[1], place[2]);
    std::array::from_fn(|m| wanted[m] - q[m])
}

/// A run: the state before and after the last step, and how the solver did.
#[derive(Debug)]
pub struct Blast {
    cube: Cube,
    state: SharedArray<f64>,
    blocks: Vec<SharedArray<f64>>,
    vectors: Vec<SharedArray<f64>>,
    before: Vec<f64>,
    iterations: u64,
    left: f64,
}

const R: usize = 0;
const R0: usize = 1;
const P: usize = 2;
const V: usize = 3;
const S: usize = 4;
const T: usize = 5;
const X: usize = 6;

impl Blast {
    /// Sums of rows, added in their order whatever thread took them.
    fn over_rows<M: Memory>(&self, memory: &mut M, row: impl Fn(&mut M, usize, usize) -> f64 + Sync) -> f64 {
        let inner = self.cube.edge - 2;
        let sums: Vec<AtomicU64> = (0..inner * inner).map(|_| AtomicU64::new(0)).collect();
        memory.for_chunks(self.cube.inner(), 1, |memory, planes| {
            for k in planes {
                for j in self.cube.inner() {
                    let sum = row(memory, j, k);
                    sums[(k - 1) * inner + j - 1].store(sum.to_bits(), Relaxed);
                }
            }
        });
        sums.iter().map(|sum| f64::from_bits(sum.load(Relaxed))).sum()
    }

    /// Builds the blocks from the state, sets the right-hand side; returns its squared norm.
    fn linearise<M: Memory>(&self, memory: &mut M) -> f64 {
        let cube = self.cube;
        memory.phase(Phase::new("matrix", Unit::Operations, MATRIX_NS));
        self.over_rows(memory, |memory, j, k| {
            let mut q = vec![0.0; cube.edge * UNKNOWNS];
            let mut run = vec![0.0; (cube.edge - 2) * BLOCK];
            self.state
                .read_run(memory, cube.row(j, k) * UNKNOWNS, &mut q, AccessClass::Stream);
            for (direction, array) in self.blocks.iter().enumerate() {
                for (values, i) in run.chunks_exact_mut(BLOCK).zip(cube.inner()) {
                    values.copy_from_slice(&block(at(&q, i), direction));
                }
                array.write_run(memory, (cube.row(j, k) + 1) * BLOCK, &run, AccessClass::Stream);
            }
            let mut right = vec![0.0; cube.edge * UNKNOWNS];
            for i in cube.inner() {
                right[i * UNKNOWNS..(i + 1) * UNKNOWNS].copy_from_slice(&right_hand_side(cube, at(&q, i), [i, j, k]));
            }
            for vector in [R, R0, P] {
                self.vectors[vector].write_run(memory, cube.row(j, k) * UNKNOWNS, &right, AccessClass::Stream);
            }
            let zero = vec![0.0; cube.edge * UNKNOWNS];
            self.vectors[X].write_run(memory, cube.row(j, k) * UNKNOWNS, &zero, AccessClass::Stream);
            memory.ops(cube.edge as u64 - 2);
            right.iter().map(|value| value * value).sum()
        })
    }

    /// Multiplies the matrix with a vector; returns the products of the result with another vector and with itself.
    fn product<M: Memory>(&self, memory: &mut M, from: usize, to: usize, with: usize) -> (f64, f64) {
        let cube = self.cube;
        memory.phase(Phase::new("product", Unit::Operations, PRODUCT_NS));
        let squares: Vec<AtomicU64> = (0..cube.edge * cube.edge).map(|_| AtomicU64::new(0)).collect();
        let dot = self.over_rows(memory, |memory, j, k| {
            let mut x = vec![vec![0.0; cube.edge * UNKNOWNS]; UNKNOWNS];
            let rows = [(j, k), (j - 1, k), (j + 1, k), (j, k - 1), (j, k + 1)];
            for (row, (j, k)) in x.iter_mut().zip(rows) {
                self.vectors[from].read_run(memory, cube.row(j, k) * UNKNOWNS, row, AccessClass::Stream);
            }
            let mut result = vec![0.0; cube.edge * UNKNOWNS];
            let mut run = vec![0.0; (cube.edge - 2) * BLOCK];
            for (direction, array) in self.blocks.iter().enumerate() {
                array.read_run(memory, (cube.row(j, k) + 1) * BLOCK, &mut run, AccessClass::Stream);
                for (block, i) in run.chunks_exact(BLOCK).zip(cube.inner()) {
                    let (row, place) = match direction {
                        0 => (0, i),
                        1 => (0, i - 1),
                        2 => (0, i + 1),
                        _ => (direction - 2, i),
                    };
                    for (sum, value) in result[i * UNKNOWNS..].iter_mut().zip(times(block, at(&x[row], place))) {
                        *sum += value;
                    }
                }
            }
            let first = cube.row(j, k) * UNKNOWNS;
            self.vectors[to].write_run(memory, first, &result, AccessClass::Stream);
            let mut other = vec![0.0; cube.edge * UNKNOWNS];
            self.vectors[with].read_run(memory, first, &mut other, AccessClass::Stream);
            memory.ops(cube.edge as u64 - 2);
            let square: f64 = result.iter().map(|value| value * value).sum();
            squares[k * cube.edge + j].store(square.to_bits(), Relaxed);
            result.iter().zip(&other).map(|(value, other)| value * other).sum()
        });
        (dot, squares.iter().map(|sum| f64::from_bits(sum.load(Relaxed))).sum())
    }

    /// Combines vectors, element by element, into the first one named; returns what `sum` makes of them.
    fn combine<M: Memory>(
        &self,
        memory: &mut M,
        to: usize,
        from: [usize; 3],
        value: impl Fn([f64; 3]) -> f64 + Sync,
        sum: impl Fn(f64, [f64; 3]) -> f64 + Sync,
    ) -> f64 {
        let cube = self.cube;
        memory.phase(Phase::new("vectors", Unit::Operations, VECTOR_NS));
        self.over_rows(memory, |memory, j, k| {
            let first = cube.row(j, k) * UNKNOWNS;
            let mut rows = [0; 3].map(|_| vec![0.0; cube.edge * UNKNOWNS]);
            for (row, vector) in rows.iter_mut().zip(from) {
                self.vectors[vector].read_run(memory, first, row, AccessClass::Stream);
            }
            let mut total = 0.0;
            let mut result = vec![0.0; cube.edge * UNKNOWNS];
            for (n, result) in result.iter_mut().enumerate() {
                let values = [rows[0][n], rows[1][n], rows[2][n]];
                *result = value(values);
                total += sum(*result, values);
            }
            self.vectors[to].write_run(memory, first, &result, AccessClass::Stream);
            memory.ops(cube.edge as u64 - 2);
            total
        })
    }

    /// Solves for the change of the state (van der Vorst 1992); returns the norm that is left against the first.
    fn solve<M: Memory>(&mut self, memory: &mut M, square: f64) -> f64 {
        let mut rho = square;
        let mut left = square;
        for _ in 0..MOST_ITERATIONS {
            if left.sqrt() <= TOLERANCE * square.sqrt() {
                break;
            }
            self.iterations += 1;
            let alpha = rho / self.product(memory, P, V, R0).0;
            self.combine(memory, S, [R, V, V], |[r, v, _]| r - alpha * v, |_, _| 0.0);
            let (dot, tt) = self.product(memory, S, T, S);
            let omega = dot / tt;
            self.combine(memory, X, [X, P, S], |[x, p, s]| x + alpha * p + omega * s, |_, _| 0.0);
            left = self.combine(memory, R, [S, T, T], |[s, t, _]| s - omega * t, |r, _| r * r);
            let next = self.combine(memory, R, [R, R0, R0], |[r, ..]| r, |r, [_, shadow, _]| r * shadow);
            let beta = next / rho * alpha / omega;
            rho = next;
            self.combine(memory, P, [R, P, V], |[r, p, v]| r + beta * (p - omega * v), |_, _| 0.0);
        }
        (left / square).sqrt()
    }

    /// Adds the change to the state.
    fn advance<M: Memory>(&mut self, memory: &mut M) {
        let cube = self.cube;
        self.before = self.state.to_vec();
        memory.phase(Phase::new("vectors", Unit::Operations, VECTOR_NS));
        self.over_rows(memory, |memory, j, k| {
            let first = cube.row(j, k) * UNKNOWNS;
            let (mut q, mut x) = (vec![0.0; cube.edge * UNKNOWNS], vec![0.0; cube.edge * UNKNOWNS]);
            self.state.read_run(memory, first, &mut q, AccessClass::Stream);
            self.vectors[X].read_run(memory, first, &mut x, AccessClass::Stream);
            q.iter_mut().zip(&x).for_each(|(value, change)| *value += change);
            self.state.write_run(memory, first, &q, AccessClass::Stream);
            memory.ops(cube.edge as u64 - 2);
            0.0
        });
    }
}

impl Program for Bwaves {
    const NAME: &'static str = "bwaves";
    const FAMILY: &'static str = "spec";
    const SUMMARY: &'static str = "implicit time steps of a blast wave: BiCGSTAB on a block matrix of seven diagonals";
    const SOURCE: &'static str = "the solver of 603.bwaves (SPEC CPU 2017) as described, on a simpler matrix";
    const OP_MEANING: &'static str = "one grid point of a matrix product, of vectors combined, or of the matrix built";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::int("edge", 6, 1 << 14, "points along each edge of the cube").carried(),
        Parameter::int("steps", 1, 1000, "steps in time, each with a matrix of its own")
            .or(Default::Int(2))
            .work(),
    ];
    const CLASSES: &'static [AccessClass] = &[AccessClass::Stream];
    const METRICS: &'static [Metric] = &[Metric {
        name: "solver_iterations",
        unit: "",
        role: Role::Covariate,
        meaning: "iterations of all solves",
    }];
    const SMALL: &'static str = r#"{"edge": 14, "steps": 1}"#;

    type Output = Blast;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        let points = values.int("edge").pow(3);
        let object = |name, count: u64| ObjectSpec::new(name, points * count * VALUE, (count * VALUE) as u32).swept();
        let state = object("state", UNKNOWNS as u64).built();
        let blocks = BLOCKS.map(|name| object(name, BLOCK as u64));
        let vectors = VECTORS.map(|name| object(name, UNKNOWNS as u64));
        std::iter::once(state).chain(blocks).chain(vectors).collect()
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> Blast {
        let (specs, cube) = (Self::objects(values), cube(values));
        let points = cube.points();
        let start = cube.field(|i, j, k| cube.start(i, j, k));
        let state = SharedArray::new(memory, &specs[0], start);
        let mut arrays = |specs: &[ObjectSpec], values: usize| -> Vec<SharedArray<f64>> {
            let array = |spec| SharedArray::new(memory, spec, vec![0.0; points * values]);
            specs.iter().map(array).collect()
        };
        let mut blast = Blast {
            cube,
            state,
            blocks: arrays(&specs[1..=DIRECTIONS], BLOCK),
            vectors: arrays(&specs[1 + DIRECTIONS..], UNKNOWNS),
            before: Vec::new(),
            iterations: 0,
            left: 0.0,
        };
        for _ in 0..values.int("steps") {
            let square = blast.linearise(memory);
            blast.left = blast.solve(memory, square);
            blast.advance(memory);
        }
        blast
    }

    fn report(_values: &Values, blast: &Blast) -> Vec<(&'static str, f64)> {
        vec![("solver_iterations", blast.iterations as f64)]
    }

    fn verify(_values: &Values, blast: &Blast) -> Vec<Check> {
        let (cube, after) = (blast.cube, blast.state.to_vec());
        let change = |i: usize, j: usize, k: usize| -> Point {
            let (new, old) = (at(&after, cube.row(j, k) + i), at(&blast.before, cube.row(j, k) + i));
            std::array::from_fn(|m| new[m] - old[m])
        };
        let (mut off, mut norm) = (0.0, 0.0);
        for k in cube.inner() {
            for j in cube.inner() {
                for i in cube.inner() {
                    // The matrix is built anew from the state rather than read.
                    let q = at(&blast.before, cube.row(j, k) + i);
                    let right = right_hand_side(cube, q, [i, j, k]);
                    let neighbours = [
                        (i, j, k),
                        (i - 1, j, k),
                        (i + 1, j, k),
                        (i, j - 1, k),
                        (i, j + 1, k),
                        (i, j, k - 1),
                        (i, j, k + 1),
                    ];
                    let mut sum = [0.0; UNKNOWNS];
                    for (direction, (i, j, k)) in neighbours.into_iter().enumerate() {
                        let part = times(&block(q, direction), change(i, j, k));
                        sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
                    }
                    off += right
                        .iter()
                        .zip(sum)
                        .map(|(right, sum)| (right - sum).powi(2))
                        .sum::<f64>();
                    norm += right.iter().map(|value| value * value).sum::<f64>();
                }
            }
        }
        let (plain, left) = ((off / norm).sqrt(), blast.left);
        vec![
            Check::new("solved", left <= TOLERANCE, format!("{left:.1e} of the residual left")),
            Check::new(
                "residual",
                plain < 10.0 * TOLERANCE,
                format!("{plain:.1e} point by point"),
            ),
        ]
    }

    fn ops(values: &Values) -> u64 {
        let inner = (values.int("edge") - 2).pow(3);
        inner * values.int("steps") * STEP_PASSES
    }

    fn record(request: &RecordRequest) -> Profile {
        // The rows that neighbours are on and a row of each array, and as much again.
        let held = 2 * VALUE * request.values().int("edge") * (DIRECTIONS * BLOCK + 7 * UNKNOWNS) as u64;
        record_sliced::<Self>(request, held, request.values().int("steps") * STEP_PASSES * PASS_SLICES)
    }
}
