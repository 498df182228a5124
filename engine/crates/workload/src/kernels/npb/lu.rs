//! Sweeps of a symmetric successive over-relaxation through a three-dimensional flow field, as LU does them.

use super::grid::{Cube, Point, UNKNOWNS, at, solve, square_sum};
use crate::kernels::prelude::*;
use crate::record::record_sliced;
use crate::{Profile, RecordRequest};

/// Lower and upper sweeps over a five-component field.
#[derive(Debug)]
pub struct Lu;

// Measured with `cargo run --release -p tiertune-workload --example cpu_cost -- npb_lu` and 16 points an edge.
const LOWER_NS: f64 = 110.0;
const UPPER_NS: f64 = 114.0;
const RESIDUAL_NS: f64 = 15.0;
/// Slices that a sweep is recorded in, so that it stays one.
const PASS_SLICES: u64 = 16;

/// Rows of a plane are cut into so many blocks, which follow each other through the planes like the threads of LU.
const BLOCKS: usize = 8;
const VALUE: u64 = 8;
/// Weight of the unknowns themselves beside their differences.
const SIGMA: f64 = 8.0;
/// How the unknowns of one point act on each other.
const COUPLING: [[f64; UNKNOWNS]; UNKNOWNS] = [
    [0.4, 0.1, 0.0, 0.0, 0.05],
    [0.1, 0.4, 0.1, 0.0, 0.0],
    [0.0, 0.1, 0.4, 0.1, 0.0],
    [0.0, 0.0, 0.1, 0.4, 0.1],
    [0.05, 0.0, 0.0, 0.1, 0.4],
];

fn cube(values: &Values) -> Cube {
    Cube {
        edge: values.int("edge") as usize,
    }
}

/// Inverse density and kinetic energy of a point, as LU keeps them.
fn scalars(u: Point) -> (f64, f64) {
    let rho = 1.0 / u[0];
    (rho, 0.5 * rho * (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]))
}

/// Diffusion between two neighbours.
fn face(rho: f64, other: f64) -> f64 {
    1.0 + 0.05 * (rho + other)
}

/// Weight of the reactions at a point.
fn reaction(rho: f64, qs: f64) -> f64 {
    1.0 + 0.2 * qs * rho
}

/// The reactions' part of the operator.
fn source(u: Point, rho: f64, qs: f64) -> Point {
    let weight = reaction(rho, qs);
    std::array::from_fn(|m| {
        let coupled: f64 = COUPLING[m].iter().zip(u).map(|(factor, value)| factor * value).sum();
        weight * (SIGMA * u[m] + coupled)
    })
}

/// The operator's diagonal block.
fn diagonal(rho: f64, qs: f64) -> [[f64; UNKNOWNS]; UNKNOWNS] {
    let weight = reaction(rho, qs);
    let mut block = COUPLING.map(|row| row.map(|value| value * weight));
    for (m, row) in block.iter_mut().enumerate() {
        row[m] += weight * SIGMA + 6.0 * face(rho, rho);
    }
    block
}

/// The whole operator at one point, from the unknowns alone: the plain version that results are compared with.
fn operator(u: impl Fn([usize; 3]) -> Point, place: [usize; 3]) -> Point {
    let here = u(place);
    let (rho, qs) = scalars(here);
    let mut sum = source(here, rho, qs);
    for axis in 0..3 {
        for step in [-1, 1] {
            let mut other = place;
            other[axis] = (other[axis] as isize + step) as usize;
            let there = u(other);
            let weight = face(rho, scalars(there).0);
            for m in 0..UNKNOWNS {
                sum[m] += weight * (here[m] - there[m]);
            }
        }
    }
    sum
}

/// The arrays of a run and how far from a solution it started and ended.
#[derive(Debug)]
pub struct Flow {
    cube: Cube,
    u: SharedArray<f64>,
    rsd: SharedArray<f64>,
    frct: SharedArray<f64>,
    qs: SharedArray<f64>,
    rho: SharedArray<f64>,
    norms: Vec<f64>,
}

/// Direction of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sweep {
    Lower,
    Upper,
}

/// Rows that a sweep has in hand: its own and its two neighbours behind it.
struct Rows {
    rsd: [Vec<f64>; 3],
    rho: [Vec<f64>; 3],
    qs: Vec<f64>,
}

impl Rows {
    fn new(edge: usize) -> Self {
        Self {
            rsd: [0; 3].map(|_| vec![0.0; edge * UNKNOWNS]),
            rho: [0; 3].map(|_| vec![0.0; edge]),
            qs: vec![0.0; edge],
        }
    }
}

impl Flow {
    fn set_up<M: Memory>(memory: &mut M, values: &Values) -> Self {
        let (specs, cube) = (Lu::objects(values), cube(values));
        let exact = |place: [usize; 3]| cube.exact(place[0], place[1], place[2]);
        let forcing = cube.field(|i, j, k| {
            if [i, j, k].iter().all(|place| cube.inner().contains(place)) {
                operator(exact, [i, j, k])
            } else {
                [0.0; UNKNOWNS]
            }
        });
        let points = cube.points();
        Self {
            cube,
            u: SharedArray::new(memory, &specs[0], cube.field(|i, j, k| cube.start(i, j, k))),
            rsd: SharedArray::new(memory, &specs[1], vec![0.0; points * UNKNOWNS]),
            frct: SharedArray::new(memory, &specs[2], forcing),
            qs: SharedArray::new(memory, &specs[3], vec![0.0; points]),
            rho: SharedArray::new(memory, &specs[4], vec![0.0; points]),
            norms: Vec::new(),
        }
    }

    /// A sweep through all planes: a wave of blocks of rows, each a plane behind the one before it.
    fn sweep<M: Memory>(&self, memory: &mut M, direction: Sweep) {
        let cube = self.cube;
        let (name, cost) = match direction {
            Sweep::Lower => ("lower", LOWER_NS),
            Sweep::Upper => ("upper", UPPER_NS),
        };
        memory.phase(Phase::new(name, Unit::Operations, cost));
        let inner = cube.edge - 2;
        let blocks = BLOCKS.min(inner);
        for wave in 0..inner + blocks - 1 {
            let lately = wave.saturating_sub(inner - 1);
            memory.for_chunks(lately..blocks.min(wave + 1), 1, |memory, part| {
                let mut rows = Rows::new(cube.edge);
                for block in part {
                    let plane = wave - block;
                    for row in inner * block / blocks..inner * (block + 1) / blocks {
                        match direction {
                            Sweep::Lower => self.sweep_row(memory, &mut rows, 1 + row, 1 + plane, direction),
                            Sweep::Upper => self.sweep_row(memory, &mut rows, inner - row, inner - plane, direction),
                        }
                    }
                }
            });
        }
    }

    fn sweep_row<M: Memory>(&self, memory: &mut M, rows: &mut Rows, j: usize, k: usize, direction: Sweep) {
        let cube = self.cube;
        let behind = |place: usize| {
            if direction == Sweep::Lower {
                place - 1
            } else {
                place + 1
            }
        };
        for (n, first) in [cube.row(j, k), cube.row(behind(j), k), cube.row(j, behind(k))]
            .into_iter()
            .enumerate()
        {
            self.rsd
                .read_run(memory, first * UNKNOWNS, &mut rows.rsd[n], AccessClass::Stream);
            self.rho.read_run(memory, first, &mut rows.rho[n], AccessClass::Stream);
        }
        self.qs
            .read_run(memory, cube.row(j, k), &mut rows.qs, AccessClass::Stream);
        let Rows {
            rsd: [own, side, below],
            rho: [rho, rho_side, rho_below],
            qs,
        } = rows;
        for step in cube.inner() {
            let i = if direction == Sweep::Lower {
                step
            } else {
                cube.edge - 1 - step
            };
            let before = behind(i);
            let weights = [
                face(rho[i], rho[before]),
                face(rho[i], rho_side[i]),
                face(rho[i], rho_below[i]),
            ];
            let neighbours = [at(own, before), at(side, i), at(below, i)];
            let pulled: Point = std::array::from_fn(|m| {
                weights
                    .iter()
                    .zip(&neighbours)
                    .map(|(weight, other)| weight * other[m])
                    .sum()
            });
            let here = at(own, i);
            let block = diagonal(rho[i], qs[i]);
            let result = if direction == Sweep::Lower {
                solve(block, std::array::from_fn(|m| here[m] + pulled[m]))
            } else {
                let change = solve(block, pulled);
                std::array::from_fn(|m| here[m] + change[m])
            };
            own[i * UNKNOWNS..(i + 1) * UNKNOWNS].copy_from_slice(&result);
        }
        self.rsd
            .write_run(memory, cube.row(j, k) * UNKNOWNS, own, AccessClass::Stream);
        memory.ops(cube.edge as u64 - 2);
    }

    /// Adds the changes to the unknowns, then the residual anew: scalars and reactions, then differences along each axis.
    fn residual<M: Memory>(&mut self, memory: &mut M, change: bool) {
        let cube = self.cube;
        memory.phase(Phase::new("residual", Unit::Operations, RESIDUAL_NS));
        memory.for_chunks(0..cube.edge, 1, |memory, planes| {
            let (mut u, mut rsd) = (vec![0.0; cube.edge * UNKNOWNS], vec![0.0; cube.edge * UNKNOWNS]);
            let (mut rho, mut qs) = (vec![0.0; cube.edge], vec![0.0; cube.edge]);
            for k in planes {
                for j in 0..cube.edge {
                    let first = cube.row(j, k);
                    self.u.read_run(memory, first * UNKNOWNS, &mut u, AccessClass::Stream);
                    if change {
                        self.rsd
                            .read_run(memory, first * UNKNOWNS, &mut rsd, AccessClass::Stream);
                        u.iter_mut().zip(&rsd).for_each(|(value, change)| *value += change);
                        self.u.write_run(memory, first * UNKNOWNS, &u, AccessClass::Stream);
                    }
                    self.frct
                        .read_run(memory, first * UNKNOWNS, &mut rsd, AccessClass::Stream);
                    let edge = [j, k].iter().any(|place| !cube.inner().contains(place));
                    for i in 0..cube.edge {
                        (rho[i], qs[i]) = scalars(at(&u, i));
                        let inside = !edge && cube.inner().contains(&i);
                        let part = if inside {
                            source(at(&u, i), rho[i], qs[i])
                        } else {
                            at(&rsd, i)
                        };
                        for (value, part) in rsd[i * UNKNOWNS..].iter_mut().zip(part) {
                            *value -= part;
                        }
                    }
                    self.rsd.write_run(memory, first * UNKNOWNS, &rsd, AccessClass::Stream);
                    self.rho.write_run(memory, first, &rho, AccessClass::Stream);
                    self.qs.write_run(memory, first, &qs, AccessClass::Stream);
                    memory.ops(cube.edge as u64);
                }
            }
        });
        for (axis, name) in ["residual x", "residual y", "residual z"].into_iter().enumerate() {
            memory.phase(Phase::new(name, Unit::Operations, RESIDUAL_NS));
            // Along x and y planes of one k are independent, along z those of one j.
            memory.for_chunks(cube.inner(), 1, |memory, planes| {
                let mut rows = [0; 3].map(|_| (vec![0.0; cube.edge * UNKNOWNS], vec![0.0; cube.edge]));
                let mut rsd = vec![0.0; cube.edge * UNKNOWNS];
                for plane in planes {
                    for line in cube.inner() {
                        let (j, k) = if axis == 2 { (plane, line) } else { (line, plane) };
                        self.difference(memory, axis, [j, k], &mut rows, &mut rsd);
                        memory.ops(cube.edge as u64 - 2);
                    }
                }
            });
        }
        self.norms.push(square_sum(&self.rsd.to_vec()).sqrt());
    }

    /// The part of the residual of a row that comes from differences along one axis.
    fn difference<M: Memory>(
        &self,
        memory: &mut M,
        axis: usize,
        [j, k]: [usize; 2],
        rows: &mut [(Vec<f64>, Vec<f64>); 3],
        rsd: &mut [f64],
    ) {
        let cube = self.cube;
        let places = match axis {
            0 => vec![(j, k)],
            1 => vec![(j, k), (j - 1, k), (j + 1, k)],
            _ => vec![(j, k), (j, k - 1), (j, k + 1)],
        };
        for ((u, rho), (j, k)) in rows.iter_mut().zip(places) {
            self.u
                .read_run(memory, cube.row(j, k) * UNKNOWNS, u, AccessClass::Stream);
            self.rho.read_run(memory, cube.row(j, k), rho, AccessClass::Stream);
        }
        let first = cube.row(j, k) * UNKNOWNS;
        self.rsd.read_run(memory, first, rsd, AccessClass::Stream);
        for i in cube.inner() {
            let others = if axis == 0 {
                [(0, i - 1), (0, i + 1)]
            } else {
                [(1, i), (2, i)]
            };
            for (row, place) in others {
                let weight = face(rows[0].1[i], rows[row].1[place]);
                for m in 0..UNKNOWNS {
                    rsd[i * UNKNOWNS + m] -= weight * (rows[0].0[i * UNKNOWNS + m] - rows[row].0[place * UNKNOWNS + m]);
                }
            }
        }
        self.rsd.write_run(memory, first, rsd, AccessClass::Stream);
    }
}

impl Program for Lu {
    const NAME: &'static str = "npb_lu";
    const FAMILY: &'static str = "npb";
    const SUMMARY: &'static str = "a flow field relaxed by sweeps down and up through its planes";
    const SOURCE: &'static str =
        "NPB LU (NAS-95-020, section 2.6): its arrays, sweeps and passes on a simpler operator";
    const OP_MEANING: &'static str = "one grid point swept in one direction, or a part of its residual taken";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::int("edge", 8, 1 << 16, "points along each edge of the cube").carried(),
        Parameter::int("iterations", 1, 1000, "iterations of two sweeps")
            .or(Default::Int(6))
            .work(),
    ];
    const CLASSES: &'static [AccessClass] = &[AccessClass::Stream];
    const METRICS: &'static [Metric] = &[Metric {
        name: "residual_left",
        unit: "",
        role: Role::Covariate,
        meaning: "norm of the residual at the end against that at the start",
    }];
    const SMALL: &'static str = r#"{"edge": 24, "iterations": 3}"#;

    type Output = Flow;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        let points = values.int("edge").pow(3);
        let object = |name, count: u64| ObjectSpec::new(name, points * count * VALUE, (count * VALUE) as u32).swept();
        vec![
            object("u", 5).built(),
            object("rsd", 5).built(),
            object("frct", 5).built(),
            object("qs", 1).built(),
            object("rho_i", 1).built(),
        ]
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> Flow {
        let mut flow = Flow::set_up(memory, values);
        flow.residual(memory, false);
        for _ in 0..values.int("iterations") {
            flow.sweep(memory, Sweep::Lower);
            flow.sweep(memory, Sweep::Upper);
            flow.residual(memory, true);
        }
        flow
    }

    fn report(_values: &Values, flow: &Flow) -> Vec<(&'static str, f64)> {
        vec![("residual_left", left(flow))]
    }

    fn verify(values: &Values, flow: &Flow) -> Vec<Check> {
        let (cube, u, frct) = (flow.cube, flow.u.to_vec(), flow.frct.to_vec());
        let point = |place: [usize; 3]| at(&u, cube.row(place[1], place[2]) + place[0]);
        let (mut sum, mut apart, mut started) = (0.0, 0.0, 0.0);
        for k in cube.inner() {
            for j in cube.inner() {
                for i in cube.inner() {
                    let forcing = at(&frct, cube.row(j, k) + i);
                    let (found, exact, start) = (point([i, j, k]), cube.exact(i, j, k), cube.start(i, j, k));
                    let applied = operator(point, [i, j, k]);
                    for m in 0..UNKNOWNS {
                        sum += (forcing[m] - applied[m]).powi(2);
                        apart += (found[m] - exact[m]).powi(2);
                        started += (start[m] - exact[m]).powi(2);
                    }
                }
            }
        }
        let (last, plain) = (flow.norms.last().copied().unwrap_or(f64::NAN), f64::sqrt(sum));
        // Each iteration leaves less than half of what was there; the operator is dominated by its diagonal.
        let most = 0.5f64.powi(values.int("iterations").min(30) as i32) + 1e-12;
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
                apart < started * most.max(1e-6),
                format!("error {:.2e}, at the start {:.2e}", apart.sqrt(), started.sqrt()),
            ),
        ]
    }

    fn ops(values: &Values) -> u64 {
        let inner = (values.int("edge") - 2).pow(3);
        inner * passes(values)
    }

    fn record(request: &RecordRequest) -> Profile {
        let slices = passes(request.values()) * PASS_SLICES;
        record_sliced::<Self>(request, held_bytes(request.values()), slices)
    }
}

/// Passes over the grid: two sweeps an iteration and the four of the residual, which is also taken at the start.
fn passes(values: &Values) -> u64 {
    6 * values.int("iterations") + 4
}

/// Rows that a point's neighbours are on, in all arrays, and as much again.
fn held_bytes(values: &Values) -> u64 {
    2 * 3 * 17 * VALUE * values.int("edge")
}

fn left(flow: &Flow) -> f64 {
    flow.norms.last().copied().unwrap_or(f64::NAN) / flow.norms[0]
}
