//! Approximate factorisation with solves of five diagonals along each axis, as SP does it.

use super::grid::{Cube, Point, UNKNOWNS, at, square_sum};
use crate::kernels::prelude::*;
use crate::record::record_sliced;
use crate::{Profile, RecordRequest};

/// Alternating line solves over a five-component field.
#[derive(Debug)]
pub struct Sp;

// Measured with `cargo run --release -p tiertune-workload --example cpu_cost -- npb_sp` and 16 points an edge.
const RESIDUAL_NS: f64 = 27.0;
const SOLVE_NS: f64 = 100.0;
/// Slices that a pass over the grid is recorded in, so that sweeps stay sweeps.
const PASS_SLICES: u64 = 12;

const VALUE: u64 = 8;
/// Columns that are solved side by side along y and z.
const BLOCK: usize = 16;
/// Step in pseudo-time, damping of the unknowns, weights of advection and of the fourth differences.
const TAU: f64 = 0.3;
const SIGMA: f64 = 3.0;
const ADVECTION: f64 = 0.25;
const FOURTH: f64 = 0.05;
/// Ratio of specific heats times its excess over one.
const HEATS: f64 = 0.56;
/// Scalars of a point, in the order of their arrays.
const SCALARS: usize = 7;
const NAMES: [&str; SCALARS] = ["us", "vs", "ws", "qs", "rho_i", "speed", "square"];
const QS: usize = 3;
const RHO: usize = 4;
const SPEED: usize = 5;

type Scalars = [f64; SCALARS];

/// Factors of the five neighbours along a line, from two before to two after.
type Stencil = [f64; 5];

fn cube(values: &Values) -> Cube {
    Cube {
        edge: values.int("edge") as usize,
    }
}

fn scalars(u: Point) -> Scalars {
    let rho = 1.0 / u[0];
    let square = 0.5 * rho * (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]);
    let speed = (HEATS * rho * (u[4] - square)).sqrt();
    [u[1] * rho, u[2] * rho, u[3] * rho, square * rho, rho, speed, square]
}

/// The operator along one axis: diffusion, advection with the flow (for the last two unknowns also with sound, one each
/// way), fourth differences where both neighbours' neighbours exist.
fn stencil(unknown: usize, velocity: f64, rho: f64, speed: f64, fourth: bool) -> Stencil {
    let diffusion = 1.0 + 0.1 * rho;
    let carried = match unknown {
        3 => velocity + speed,
        4 => velocity - speed,
        _ => velocity,
    };
    let advection = ADVECTION * carried;
    let mut factors = [
        0.0,
        -diffusion - advection,
        2.0 * diffusion + SIGMA / 3.0,
        -diffusion + advection,
        0.0,
    ];
    if fourth {
        for (factor, weight) in factors.iter_mut().zip([1.0, -4.0, 6.0, -4.0, 1.0]) {
            *factor += FOURTH * weight;
        }
    }
    factors
}

/// Length of a step in pseudo-time, shorter where the flow is fast.
fn step(scalars: &Scalars) -> f64 {
    let fast: f64 = scalars[..3].iter().map(|velocity| velocity.abs()).sum();
    TAU / (1.0 + 0.1 * (fast + scalars[SPEED]) + 0.1 * scalars[QS] * scalars[RHO])
}

/// Whether the fourth differences at a place along a line stay within the grid.
fn has_fourth(cube: Cube, place: usize) -> bool {
    (2..cube.edge - 2).contains(&place)
}

/// The operator at one point, from the unknowns alone: the plain version that results are compared with.
fn operator(cube: Cube, u: impl Fn([usize; 3]) -> Point, place: [usize; 3]) -> Point {
    let here = scalars(u(place));
    let mut sum = [0.0; UNKNOWNS];
    for axis in 0..3 {
        let fourth = has_fourth(cube, place[axis]);
        for (unknown, sum) in sum.iter_mut().enumerate() {
            let factors = stencil(unknown, here[axis], here[RHO], here[SPEED], fourth);
            for (n, factor) in factors.iter().enumerate().filter(|(_, factor)| **factor != 0.0) {
                let mut other = place;
                other[axis] = place[axis] + n - 2;
                *sum += factor * u(other)[unknown];
            }
        }
    }
    sum
}

/// The arrays of a run and how far from a solution each iteration left it.
#[derive(Debug)]
pub struct Flow {
    cube: Cube,
    u: SharedArray<f64>,
    rhs: SharedArray<f64>,
    forcing: SharedArray<f64>,
    scalars: Vec<SharedArray<f64>>,
    norms: Vec<f64>,
}

impl Flow {
    fn set_up<M: Memory>(memory: &mut M, values: &Values) -> Self {
        let (specs, cube) = (Sp::objects(values), cube(values));
        let exact = |place: [usize; 3]| cube.exact(place[0], place[1], place[2]);
        let forcing = cube.field(|i, j, k| {
            if [i, j, k].iter().all(|place| cube.inner().contains(place)) {
                operator(cube, exact, [i, j, k])
            } else {
                [0.0; UNKNOWNS]
            }
        });
        let points = cube.points();
        Self {
            cube,
            u: SharedArray::new(memory, &specs[0], cube.field(|i, j, k| cube.start(i, j, k))),
            rhs: SharedArray::new(memory, &specs[1], vec![0.0; points * UNKNOWNS]),
            forcing: SharedArray::new(memory, &specs[2], forcing),
            scalars: specs[3..]
                .iter()
                .map(|spec| SharedArray::new(memory, spec, vec![0.0; points]))
                .collect(),
            norms: Vec::new(),
        }
    }

    /// Adds the changes of the last iteration, takes the scalars and the right-hand side anew, axis by axis.
    fn right_hand_side<M: Memory>(&mut self, memory: &mut M, change: bool) {
        let cube = self.cube;
        memory.phase(Phase::new("rhs", Unit::Operations, RESIDUAL_NS));
        memory.for_chunks(0..cube.edge, 1, |memory, planes| {
            let (mut u, mut rhs) = (vec![0.0; cube.edge * UNKNOWNS], vec![0.0; cube.edge * UNKNOWNS]);
            let mut rows = vec![vec![0.0; cube.edge]; SCALARS];
            for k in planes {
                for j in 0..cube.edge {
                    let first = cube.row(j, k);
                    self.u.read_run(memory, first * UNKNOWNS, &mut u, AccessClass::Stream);
                    if change {
                        self.rhs
                            .read_run(memory, first * UNKNOWNS, &mut rhs, AccessClass::Stream);
                        u.iter_mut().zip(&rhs).for_each(|(value, change)| *value += change);
                        self.u.write_run(memory, first * UNKNOWNS, &u, AccessClass::Stream);
                    }
                    for i in 0..cube.edge {
                        for (row, value) in rows.iter_mut().zip(scalars(at(&u, i))) {
                            row[i] = value;
                        }
                    }
                    for (array, row) in self.scalars.iter().zip(&rows) {
                        array.write_run(memory, first, row, AccessClass::Stream);
                    }
                    self.forcing
                        .read_run(memory, first * UNKNOWNS, &mut rhs, AccessClass::Stream);
                    self.rhs.write_run(memory, first * UNKNOWNS, &rhs, AccessClass::Stream);
                    memory.ops(cube.edge as u64);
                }
            }
        });
        for (axis, name) in ["rhs x", "rhs y", "rhs z"].into_iter().enumerate() {
            memory.phase(Phase::new(name, Unit::Operations, RESIDUAL_NS));
            memory.for_chunks(cube.inner(), 1, |memory, planes| {
                let mut rows = vec![vec![0.0; cube.edge * UNKNOWNS]; 5];
                let mut rhs = vec![0.0; cube.edge * UNKNOWNS];
                let mut scalars = [0; 3].map(|_| vec![0.0; cube.edge]);
                for plane in planes {
                    for line in cube.inner() {
                        let place = if axis == 2 { [plane, line] } else { [line, plane] };
                        self.apply(memory, axis, place, &mut rows, &mut scalars, &mut rhs);
                        memory.ops(cube.edge as u64 - 2);
                    }
                }
            });
        }
        self.norms.push(square_sum(&self.rhs.to_vec()).sqrt());
    }

    /// Takes the operator along one axis off the right-hand side of a row.
    fn apply<M: Memory>(
        &self,
        memory: &mut M,
        axis: usize,
        [j, k]: [usize; 2],
        rows: &mut [Vec<f64>],
        scalars: &mut [Vec<f64>; 3],
        rhs: &mut [f64],
    ) {
        let cube = self.cube;
        let fourth = |i: usize| has_fourth(cube, [i, j, k][axis]);
        let first = cube.row(j, k);
        for (row, array) in scalars.iter_mut().zip([axis, RHO, SPEED]) {
            self.scalars[array].read_run(memory, first, row, AccessClass::Stream);
        }
        let reach = if axis == 0 {
            0..0
        } else if fourth(0) {
            0..5
        } else {
            1..4
        };
        if axis == 0 {
            self.u
                .read_run(memory, first * UNKNOWNS, &mut rows[2], AccessClass::Stream);
        }
        for n in reach {
            let start = if axis == 1 {
                cube.row(j + n - 2, k)
            } else {
                cube.row(j, k + n - 2)
            };
            self.u
                .read_run(memory, start * UNKNOWNS, &mut rows[n], AccessClass::Stream);
        }
        self.rhs.read_run(memory, first * UNKNOWNS, rhs, AccessClass::Stream);
        let [velocity, rho, speed] = scalars;
        for i in cube.inner() {
            let fourth = fourth(i);
            for unknown in 0..UNKNOWNS {
                let factors = stencil(unknown, velocity[i], rho[i], speed[i], fourth);
                let (from, to) = if fourth { (0, 5) } else { (1, 4) };
                let mut sum = 0.0;
                for (n, factor) in factors.iter().enumerate().take(to).skip(from) {
                    let (row, place) = if axis == 0 { (2, i + n - 2) } else { (n, i) };
                    sum += factor * rows[row][place * UNKNOWNS + unknown];
                }
                rhs[i * UNKNOWNS + unknown] -= sum;
            }
        }
        self.rhs.write_run(memory, first * UNKNOWNS, rhs, AccessClass::Stream);
    }

    /// Solves along one axis; the first solve also scales the right-hand side by the local step.
    fn solve<M: Memory>(&self, memory: &mut M, axis: usize) {
        let cube = self.cube;
        memory.phase(Phase::new(
            ["x solve", "y solve", "z solve"][axis],
            Unit::Operations,
            SOLVE_NS,
        ));
        let inner = cube.edge - 2;
        memory.for_chunks(cube.inner(), 1, |memory, planes| {
            let mut lines = Lines::new(cube.edge, if axis == 0 { 1 } else { BLOCK });
            for plane in planes {
                if axis == 0 {
                    for j in cube.inner() {
                        self.solve_lines(memory, axis, [1, j, plane], 1, &mut lines);
                        memory.ops(inner as u64);
                    }
                    continue;
                }
                for start in cube.inner().step_by(BLOCK) {
                    let width = BLOCK.min(cube.edge - 1 - start);
                    self.solve_lines(memory, axis, [start, plane, plane], width, &mut lines);
                    memory.ops((inner * width) as u64);
                }
            }
        });
    }

    /// Solves `width` neighbouring lines along an axis; `place` is where they cross the other two.
    fn solve_lines<M: Memory>(&self, memory: &mut M, axis: usize, place: [usize; 3], width: usize, lines: &mut Lines) {
        let cube = self.cube;
        // First point of the stretch of points with number n along the axis, and how many there are.
        let (stretches, length) = if axis == 0 {
            (1, cube.edge - 2)
        } else {
            (cube.edge - 2, width)
        };
        let stretch = |n: usize| match axis {
            0 => cube.row(place[1], place[2]) + 1,
            1 => cube.row(n + 1, place[2]) + place[0],
            _ => cube.row(place[1], n + 1) + place[0],
        };
        for n in 0..stretches {
            let (first, part) = (stretch(n), n * length..(n + 1) * length);
            let values = &mut lines.rhs[part.start * UNKNOWNS..part.end * UNKNOWNS];
            self.rhs.read_run(memory, first * UNKNOWNS, values, AccessClass::Stream);
            for (number, row) in lines.scalars.iter_mut().enumerate() {
                // The local step takes all of them, the solves only what the axis needs.
                if axis == 0 || [axis, RHO, SPEED].contains(&number) {
                    self.scalars[number].read_run(memory, first, &mut row[part.clone()], AccessClass::Stream);
                }
            }
        }
        let count = (cube.edge - 2) * width;
        if axis == 0 {
            for n in 0..count {
                let scalars: Scalars = std::array::from_fn(|number| lines.scalars[number][n]);
                let scale = step(&scalars);
                lines.rhs[n * UNKNOWNS..(n + 1) * UNKNOWNS]
                    .iter_mut()
                    .for_each(|value| *value *= scale);
            }
        }
        for column in 0..width {
            for unknown in 0..UNKNOWNS {
                lines.eliminate(cube, axis, column, width, unknown);
            }
        }
        for n in 0..stretches {
            let values = &lines.rhs[n * length * UNKNOWNS..(n + 1) * length * UNKNOWNS];
            self.rhs
                .write_run(memory, stretch(n) * UNKNOWNS, values, AccessClass::Stream);
        }
    }
}

/// What a solve holds in cache: the lines' right-hand sides and scalars, and the diagonals as they are eliminated.
struct Lines {
    rhs: Vec<f64>,
    scalars: [Vec<f64>; SCALARS],
    diagonals: Vec<Stencil>,
}

impl Lines {
    fn new(edge: usize, width: usize) -> Self {
        Self {
            rhs: vec![0.0; edge * width * UNKNOWNS],
            scalars: [0; SCALARS].map(|_| vec![0.0; edge * width]),
            diagonals: vec![[0.0; 5]; edge],
        }
    }

    /// Solves one unknown along one line, forward and back.
    fn eliminate(&mut self, cube: Cube, axis: usize, column: usize, width: usize, unknown: usize) {
        let count = cube.edge - 2;
        for n in 0..count {
            let at = n * width + column;
            let [velocity, rho, speed] = [axis, RHO, SPEED].map(|number| self.scalars[number][at]);
            let fourth = has_fourth(cube, n + 1);
            let mut factors = stencil(unknown, velocity, rho, speed, fourth).map(|factor| TAU * factor);
            factors[2] += 1.0;
            // Neighbours on the boundary do not change.
            for (neighbour, factor) in factors.iter_mut().enumerate() {
                if !(2..count + 2).contains(&(n + neighbour)) {
                    *factor = 0.0;
                }
            }
            self.diagonals[n] = factors;
        }
        let value = |n: usize| (n * width + column) * UNKNOWNS + unknown;
        for n in 0..count {
            let pivot = self.diagonals[n];
            let right = self.rhs[value(n)];
            for below in 1..3.min(count - n) {
                let row = &mut self.diagonals[n + below];
                let factor = row[2 - below] / pivot[2];
                row[3 - below] -= factor * pivot[3];
                row[4 - below] -= factor * pivot[4];
                self.rhs[value(n + below)] -= factor * right;
            }
        }
        for n in (0..count).rev() {
            let row = self.diagonals[n];
            let mut right = self.rhs[value(n)];
            for above in 1..3.min(count - n) {
                right -= row[2 + above] * self.rhs[value(n + above)];
            }
            self.rhs[value(n)] = right / row[2];
        }
    }
}

impl Program for Sp {
    const NAME: &'static str = "npb_sp";
    const FAMILY: &'static str = "npb";
    const SUMMARY: &'static str = "a flow field stepped by solves of five diagonals along each axis in turn";
    const SOURCE: &'static str =
        "NPB SP (NAS-95-020, section 2.7): its arrays, passes and solves on a simpler operator";
    const OP_MEANING: &'static str = "one grid point solved along one axis, or a part of its right-hand side taken";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::int("edge", 8, 1 << 16, "points along each edge of the cube").carried(),
        Parameter::int("iterations", 1, 1000, "steps")
            .or(Default::Int(6))
            .work(),
    ];
    const CLASSES: &'static [AccessClass] = &[AccessClass::Stream];
    const METRICS: &'static [Metric] = &[Metric {
        name: "rhs_left",
        unit: "",
        role: Role::Covariate,
        meaning: "norm of the right-hand side at the end against that at the start",
    }];
    const SMALL: &'static str = r#"{"edge": 24, "iterations": 3}"#;

    type Output = Flow;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        let points = values.int("edge").pow(3);
        let object = |name, count: u64| {
            ObjectSpec::new(name, points * count * VALUE, (count * VALUE) as u32)
                .swept()
                .built()
        };
        let fields = ["u", "rhs", "forcing"].map(|name| object(name, 5));
        fields.into_iter().chain(NAMES.map(|name| object(name, 1))).collect()
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> Flow {
        let mut flow = Flow::set_up(memory, values);
        flow.right_hand_side(memory, false);
        for _ in 0..values.int("iterations") {
            for axis in 0..3 {
                flow.solve(memory, axis);
            }
            flow.right_hand_side(memory, true);
        }
        flow
    }

    fn report(_values: &Values, flow: &Flow) -> Vec<(&'static str, f64)> {
        vec![("rhs_left", left(flow))]
    }

    fn verify(values: &Values, flow: &Flow) -> Vec<Check> {
        let (cube, u, forcing) = (flow.cube, flow.u.to_vec(), flow.forcing.to_vec());
        let point = |place: [usize; 3]| at(&u, cube.row(place[1], place[2]) + place[0]);
        let (mut sum, mut apart, mut started) = (0.0, 0.0, 0.0);
        for k in cube.inner() {
            for j in cube.inner() {
                for i in cube.inner() {
                    let wanted = at(&forcing, cube.row(j, k) + i);
                    let (found, exact, start) = (point([i, j, k]), cube.exact(i, j, k), cube.start(i, j, k));
                    let applied = operator(cube, point, [i, j, k]);
                    for m in 0..UNKNOWNS {
                        sum += (wanted[m] - applied[m]).powi(2);
                        apart += (found[m] - exact[m]).powi(2);
                        started += (start[m] - exact[m]).powi(2);
                    }
                }
            }
        }
        let (last, plain) = (flow.norms.last().copied().unwrap_or(f64::NAN), f64::sqrt(sum));
        // A step takes at least a tenth of the slowest errors away: damping alone is a step of 0.9 / 1.6.
        let most = 0.9f64.powi(values.int("iterations").min(100) as i32);
        vec![
            Check::new(
                "residual",
                (last - plain).abs() <= 1e-9 * flow.norms[0],
                format!("{last:.6e}, point by point {plain:.6e}"),
            ),
            Check::new(
                "convergence",
                left(flow) < most,
                format!("{:.2e} of the residual left", left(flow)),
            ),
            Check::new(
                "solution",
                apart < started * most,
                format!("error {:.2e}, at the start {:.2e}", apart.sqrt(), started.sqrt()),
            ),
        ]
    }

    fn ops(values: &Values) -> u64 {
        let inner = (values.int("edge") - 2).pow(3);
        inner * passes(values)
    }

    fn record(request: &RecordRequest) -> Profile {
        // Lines that are solved side by side, and rows that the operator reaches, in all arrays.
        let held = 2 * BLOCK as u64 * 22 * VALUE * request.values().int("edge");
        record_sliced::<Self>(request, held, passes(request.values()) * PASS_SLICES)
    }
}

/// Passes over the grid: three solves an iteration and the four of the right-hand side, which is also taken at the start.
fn passes(values: &Values) -> u64 {
    7 * values.int("iterations") + 4
}

fn left(flow: &Flow) -> f64 {
    flow.norms.last().copied().unwrap_or(f64::NAN) / flow.norms[0]
}
