//! A partial differential equation solved by three-dimensional Fourier transforms, as FT does it.

use std::f64::consts::PI;

use crate::kernels::prelude::*;
use crate::profile::SliceInfo;
use crate::record::record_sliced;
use crate::{CarryError, CarrySpec, Profile, RecordRequest, Replay};

/// Spectral solution of a diffusion equation.
#[derive(Debug)]
pub struct Ft;

// Measured with `cargo run --release -p tiertune-workload --example cpu_cost -- npb_ft` and 32 x 32 x 32 points; a point
// of a transform of 32 takes five steps, 8.7 ns in all.
const SETUP_NS: f64 = 10.2;
const EVOLVE_NS: f64 = 2.2;
const BUTTERFLY_NS: f64 = 1.7;
const CHECKSUM_NS: f64 = 5.3;
/// Slices that a pass over the grid is recorded in, so that sweeps stay sweeps.
const PASS_SLICES: u64 = 8;

/// Columns that a pass along y or z copies at once, as FT's default block.
const BLOCK: usize = 16;
const POINT_BYTES: u64 = 16;
/// Values in a cache line.
const LINE_VALUES: usize = 8;
const ALPHA: f64 = 1e-6;
/// Points added up after each iteration.
const CHECKED: usize = 1024;
/// FT's generator: multiplication by 5^13 modulo 2^46.
const FACTOR: u64 = 1_220_703_125;
const FIRST: u64 = 314_159_265;
const MASK: u64 = (1 << 46) - 1;
/// Points compared with a direct sum over all others.
const COMPARED: usize = 6;

type Complex = (f64, f64);

fn times(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

fn plus(a: Complex, b: Complex) -> Complex {
    (a.0 + b.0, a.1 + b.1)
}

#[derive(Debug, Clone, Copy)]
struct Grid {
    nx: usize,
    ny: usize,
    nz: usize,
}

impl Grid {
    fn of(values: &Values) -> Self {
        let edge = |name: &str| values.int(name) as usize;
        Self {
            nx: edge("nx"),
            ny: edge("ny"),
            nz: edge("nz"),
        }
    }

    fn points(self) -> usize {
        self.nx * self.ny * self.nz
    }

    /// Number of the first value of a row of points; two values make a point.
    fn row(self, j: usize, k: usize) -> usize {
        (k * self.ny + j) * self.nx
    }

    /// Sum of the squared wave numbers of a point.
    fn wave(self, i: usize, j: usize, k: usize) -> f64 {
        let signed = |place: usize, edge: usize| ((place + edge / 2) % edge) as f64 - (edge / 2) as f64;
        let (x, y, z) = (signed(i, self.nx), signed(j, self.ny), signed(k, self.nz));
        x * x + y * y + z * z
    }

    fn decay(self, i: usize, j: usize, k: usize) -> f64 {
        (-4.0 * ALPHA * PI * PI * self.wave(i, j, k)).exp()
    }
}

/// Stand of the generator after so many steps from the first.
fn skipped(steps: u64) -> u64 {
    let (mut state, mut factor, mut left) = (FIRST, FACTOR, steps);
    while left > 0 {
        if left & 1 == 1 {
            state = state.wrapping_mul(factor) & MASK;
        }
        factor = factor.wrapping_mul(factor) & MASK;
        left >>= 1;
    }
    state
}

/// Fills a row with the initial values from a stand of the generator.
fn draw(state: &mut u64, row: &mut [f64]) {
    for value in row {
        *state = state.wrapping_mul(FACTOR) & MASK;
        *value = *state as f64 / (1u64 << 46) as f64;
    }
}

fn roots(n: usize, sign: f64) -> Vec<Complex> {
    (0..n / 2)
        .map(|p| {
            let angle = sign * 2.0 * PI * p as f64 / n as f64;
            (angle.cos(), angle.sin())
        })
        .collect()
}

/// Transforms `width` interleaved sequences at once (Stockham, radix 2); `x` holds the result.
fn transform(x: &mut Vec<Complex>, y: &mut Vec<Complex>, width: usize, roots: &[Complex]) {
    let n = x.len() / width;
    let (mut length, mut stride) = (n, width);
    while length > 1 {
        let half = length / 2;
        for p in 0..half {
            let root = roots[p * (n / length)];
            let (low, high) = (p * stride, (p + half) * stride);
            let target = 2 * p * stride;
            for q in 0..stride {
                let (a, b) = (x[low + q], x[high + q]);
                y[target + q] = plus(a, b);
                y[target + stride + q] = times((a.0 - b.0, a.1 - b.1), root);
            }
        }
        std::mem::swap(x, y);
        length = half;
        stride *= 2;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Axis {
    X,
    Y,
    Z,
}

/// The arrays of a run and the sums that it printed.
#[derive(Debug)]
pub struct Spectrum {
    u0: SharedArray<f64>,
    u1: SharedArray<f64>,
    twiddle: SharedArray<f64>,
    grid: Grid,
    sums: Vec<Complex>,
}

impl Spectrum {
    /// Wave numbers and initial values.
    fn set_up<M: Memory>(&self, memory: &mut M) {
        let grid = self.grid;
        memory.phase(Phase::new("setup", Unit::Operations, SETUP_NS));
        memory.for_chunks(0..grid.nz, 1, |memory, planes| {
            for k in planes {
                let mut row = vec![0.0; grid.nx];
                for j in 0..grid.ny {
                    for (i, value) in row.iter_mut().enumerate() {
                        *value = grid.decay(i, j, k);
                    }
                    self.twiddle
                        .write_run(memory, grid.row(j, k), &row, AccessClass::Stream);
                }
                let mut state = skipped(2 * grid.row(0, k) as u64);
                let mut row = vec![0.0; 2 * grid.nx];
                for j in 0..grid.ny {
                    draw(&mut state, &mut row);
                    self.u1.write_run(memory, 2 * grid.row(j, k), &row, AccessClass::Stream);
                }
                memory.ops((grid.nx * grid.ny) as u64);
            }
        });
    }

    /// One step in time, in the space of wave numbers.
    fn evolve<M: Memory>(&self, memory: &mut M) {
        let grid = self.grid;
        memory.phase(Phase::new("evolve", Unit::Operations, EVOLVE_NS));
        memory.for_chunks(0..grid.ny * grid.nz, grid.ny, |memory, rows| {
            let (mut values, mut decay) = (vec![0.0; 2 * grid.nx], vec![0.0; grid.nx]);
            for row in rows {
                let first = row * grid.nx;
                self.u0.read_run(memory, 2 * first, &mut values, AccessClass::Stream);
                self.twiddle.read_run(memory, first, &mut decay, AccessClass::Stream);
                for (point, decay) in values.chunks_exact_mut(2).zip(&decay) {
                    point[0] *= decay;
                    point[1] *= decay;
                }
                self.u0.write_run(memory, 2 * first, &values, AccessClass::Stream);
                self.u1.write_run(memory, 2 * first, &values, AccessClass::Stream);
                memory.ops(grid.nx as u64);
            }
        });
    }

    /// Transforms along one axis, from one array into another or the same.
    fn pass<M: Memory>(&self, memory: &mut M, axis: Axis, sign: f64, from: &SharedArray<f64>, to: &SharedArray<f64>) {
        let grid = self.grid;
        let (name, length) = match axis {
            Axis::X => ("fft x", grid.nx),
            Axis::Y => ("fft y", grid.ny),
            Axis::Z => ("fft z", grid.nz),
        };
        memory.phase(Phase::new(name, Unit::Operations, transform_ns(length)));
        let roots = roots(length, sign);
        // Along x and y a chunk is a plane of one z, along z one of one y.
        let planes = if axis == Axis::Z { grid.ny } else { grid.nz };
        memory.for_chunks(0..planes, 1, |memory, planes| {
            let width = if axis == Axis::X { 1 } else { BLOCK.min(grid.nx) };
            let (mut x, mut y) = (vec![(0.0, 0.0); length * width], vec![(0.0, 0.0); length * width]);
            let mut run = vec![0.0; 2 * if axis == Axis::X { grid.nx } else { width }];
            for plane in planes {
                let blocks = if axis == Axis::X { grid.ny } else { grid.nx / width };
                for block in 0..blocks {
                    let place = |n: usize| match axis {
                        Axis::X => grid.row(block, plane),
                        Axis::Y => grid.row(n, plane) + block * width,
                        Axis::Z => grid.row(plane, n) + block * width,
                    };
                    let runs = x.len() * 2 / run.len();
                    for n in 0..runs {
                        let first = 2 * place(n);
                        // Between two pieces of a row along y and z come as many other pages as there are points: more
                        // than the 32 that a prefetcher follows, so that each piece begins with a miss, at an address known ahead.
                        let led = if axis == Axis::X { 0 } else { LINE_VALUES.min(run.len()) };
                        from.read_run(memory, first, &mut run[..led], AccessClass::Random);
                        from.read_run(memory, first + led, &mut run[led..], AccessClass::Stream);
                        let points = &mut x[n * run.len() / 2..(n + 1) * run.len() / 2];
                        for (point, value) in points.iter_mut().zip(run.chunks_exact(2)) {
                            *point = (value[0], value[1]);
                        }
                    }
                    transform(&mut x, &mut y, width, &roots);
                    for n in 0..runs {
                        let points = &x[n * run.len() / 2..(n + 1) * run.len() / 2];
                        for (point, value) in points.iter().zip(run.chunks_exact_mut(2)) {
                            value.copy_from_slice(&[point.0, point.1]);
                        }
                        to.write_run(memory, 2 * place(n), &run, AccessClass::Stream);
                    }
                    memory.ops(x.len() as u64);
                }
            }
        });
    }

    /// Adds up points that lie all over the grid.
    fn checksum<M: Memory>(&self, memory: &mut M) -> Complex {
        let grid = self.grid;
        memory.phase(Phase::new("checksum", Unit::Operations, CHECKSUM_NS));
        let mut sum = (0.0, 0.0);
        for j in 1..=CHECKED {
            let point = 2 * (grid.row(3 * j % grid.ny, 5 * j % grid.nz) + j % grid.nx);
            let real = self.u1.load(memory, point, AccessClass::Random);
            sum = plus(sum, (real, self.u1.load(memory, point + 1, AccessClass::Random)));
        }
        memory.ops(CHECKED as u64);
        let points = grid.points() as f64;
        (sum.0 / points, sum.1 / points)
    }
}

/// Cost of transforming a sequence, for each of its points.
fn transform_ns(length: usize) -> f64 {
    BUTTERFLY_NS * length.ilog2() as f64
}

/// The transform of all points at one place, by adding them up; `value` gives the points of a row.
fn direct(grid: Grid, place: [usize; 3], sign: f64, mut row: impl FnMut(usize, usize, &mut [f64])) -> Complex {
    let unit = |n: usize, edge: usize, place: usize| {
        let angle = sign * 2.0 * PI * (n * place % edge) as f64 / edge as f64;
        (angle.cos(), angle.sin())
    };
    let mut sum = (0.0, 0.0);
    let mut values = vec![0.0; 2 * grid.nx];
    let along: Vec<Complex> = (0..grid.nx).map(|i| unit(i, grid.nx, place[0])).collect();
    for k in 0..grid.nz {
        for j in 0..grid.ny {
            row(j, k, &mut values);
            let inner = values
                .chunks_exact(2)
                .zip(&along)
                .fold((0.0, 0.0), |sum, (value, root)| {
                    plus(sum, times((value[0], value[1]), *root))
                });
            let outer = times(unit(j, grid.ny, place[1]), unit(k, grid.nz, place[2]));
            sum = plus(sum, times(inner, outer));
        }
    }
    sum
}

impl Program for Ft {
    const NAME: &'static str = "npb_ft";
    const FAMILY: &'static str = "npb";
    const SUMMARY: &'static str = "a diffusion equation solved by three-dimensional Fourier transforms";
    const SOURCE: &'static str = "NPB FT (NAS-95-020, section 2.4), with its generator, layout and checksums";
    const OP_MEANING: &'static str = "one grid point set up, evolved, transformed along one axis or added up";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::int("nx", 16, 1 << 16, "points along x, a power of two").carried(),
        Parameter::int("ny", 4, 1 << 16, "points along y, a power of two").carried(),
        Parameter::int("nz", 4, 1 << 16, "points along z, a power of two").carried(),
        Parameter::int("iterations", 1, 1000, "steps in time")
            .or(Default::Int(6))
            .work(),
    ];
    const CLASSES: &'static [AccessClass] = &[AccessClass::Random, AccessClass::Stream];
    const METRICS: &'static [Metric] = &[
        Metric {
            name: "checksum_real",
            unit: "",
            role: Role::Covariate,
            meaning: "real part of the checksum after the last iteration",
        },
        Metric {
            name: "checksum_imaginary",
            unit: "",
            role: Role::Covariate,
            meaning: "imaginary part of the checksum after the last iteration",
        },
    ];
    const SMALL: &'static str = r#"{"nx": 32, "ny": 32, "nz": 32, "iterations": 2}"#;

    type Output = Spectrum;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        let points = values.int("nx") * values.int("ny") * values.int("nz");
        // FT's first loop (init_ui) sets all three to 0, point by point.
        let array = |name, bytes: u64| {
            ObjectSpec::new(name, points * bytes, bytes as u32)
                .swept()
                .side_by_side()
        };
        vec![array("u0", POINT_BYTES), array("u1", POINT_BYTES), array("twiddle", 8)]
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> Spectrum {
        let (specs, grid) = (Self::objects(values), Grid::of(values));
        let points = grid.points();
        let mut spectrum = Spectrum {
            u0: SharedArray::new(memory, &specs[0], vec![0.0; 2 * points]),
            u1: SharedArray::new(memory, &specs[1], vec![0.0; 2 * points]),
            twiddle: SharedArray::new(memory, &specs[2], vec![0.0; points]),
            grid,
            sums: Vec::new(),
        };
        spectrum.set_up(memory);
        let (u0, u1) = (&spectrum.u0, &spectrum.u1);
        spectrum.pass(memory, Axis::X, 1.0, u1, u1);
        spectrum.pass(memory, Axis::Y, 1.0, u1, u1);
        spectrum.pass(memory, Axis::Z, 1.0, u1, u0);
        for _ in 0..values.int("iterations") {
            spectrum.evolve(memory);
            let u1 = &spectrum.u1;
            spectrum.pass(memory, Axis::Z, -1.0, u1, u1);
            spectrum.pass(memory, Axis::Y, -1.0, u1, u1);
            spectrum.pass(memory, Axis::X, -1.0, u1, u1);
            let sum = spectrum.checksum(memory);
            spectrum.sums.push(sum);
        }
        spectrum
    }

    fn report(_values: &Values, spectrum: &Spectrum) -> Vec<(&'static str, f64)> {
        let last = spectrum.sums.last().copied().unwrap_or_default();
        vec![("checksum_real", last.0), ("checksum_imaginary", last.1)]
    }

    fn verify(values: &Values, spectrum: &Spectrum) -> Vec<Check> {
        let grid = spectrum.grid;
        let mut rng = CounterRng::new(FIRST, &[1]);
        let (mut forward, mut inverse) = (0f64, 0f64);
        for _ in 0..COMPARED {
            let place = [grid.nx, grid.ny, grid.nz].map(|edge| rng.below(edge as u64) as usize);
            let number = 2 * (grid.row(place[1], place[2]) + place[0]);
            let quiet = &mut crate::memory::Native;
            let mut found = [[0.0; 2]; 2];
            spectrum.u0.read_run(quiet, number, &mut found[0], AccessClass::Stream);
            spectrum.u1.read_run(quiet, number, &mut found[1], AccessClass::Stream);
            let mut state = FIRST;
            let sum = direct(grid, place, 1.0, |_, _, row| draw(&mut state, row));
            let decay = grid
                .decay(place[0], place[1], place[2])
                .powi(values.int("iterations") as i32);
            forward = forward.max(off(found[0], (sum.0 * decay, sum.1 * decay), grid));
            let sum = direct(grid, place, -1.0, |j, k, row| {
                spectrum
                    .u0
                    .read_run(quiet, 2 * grid.row(j, k), row, AccessClass::Stream);
            });
            inverse = inverse.max(off(found[1], sum, grid));
        }
        let check =
            |name, off: f64| Check::new(name, off < 1e-9, format!("off by {off:.1e} of {COMPARED} direct sums"));
        vec![check("forward transform", forward), check("inverse transform", inverse)]
    }

    fn check(values: &Values) -> Result<(), ParameterError> {
        for name in ["nx", "ny", "nz"] {
            let edge = values.int(name);
            if !edge.is_power_of_two() {
                let near = edge.next_power_of_two();
                let text = format!("is {edge}, it must be a power of two; the nearest is {near}");
                return Err(ParameterError::new(name, text));
            }
        }
        Ok(())
    }

    fn ops(values: &Values) -> u64 {
        // Set-up and three passes, then the step and three passes an iteration.
        4 * (1 + values.int("iterations")) * values.int("nx") * values.int("ny") * values.int("nz")
    }

    fn work_growth(recorded: &Values, target: &Values, slice: &SliceInfo) -> f64 {
        // The checksum takes as many points at every size.
        if slice.phase == "checksum" {
            return 1.0;
        }
        Grid::of(target).points() as f64 / Grid::of(recorded).points() as f64
    }

    fn record(request: &RecordRequest) -> Profile {
        // A block of columns with its result, of which a private cache of an eighth holds half.
        let edge = request.values().int("ny").max(request.values().int("nz"));
        let passes = 4 * (1 + request.values().int("iterations"));
        record_sliced::<Self>(request, 4 * edge * BLOCK as u64 * POINT_BYTES, passes * PASS_SLICES)
    }

    fn carry(profile: &Profile, spec: &CarrySpec) -> Result<Replay, CarryError> {
        let mut replay = crate::carry::stretch::carry::<Self>(profile, spec)?;
        let recorded = profile.metadata.request.values();
        for slice in &mut replay.slices {
            let Some(axis) = ["fft x", "fft y", "fft z"].iter().position(|name| *name == slice.phase) else {
                continue;
            };
            let name = ["nx", "ny", "nz"][axis];
            let target = spec.size(name).unwrap_or(recorded.int(name));
            slice.cpu_ns_per_op *= transform_ns(target as usize) / transform_ns(recorded.int(name) as usize);
        }
        replay.notes.push(
            "A transform of n points costs log2 n steps for each of them; the computing of the passes grows with that."
                .to_owned(),
        );
        Ok(replay)
    }
}

/// Distance of a value from what it should be, relative to a sum of so many random numbers.
fn off(found: [f64; 2], expected: Complex, grid: Grid) -> f64 {
    (found[0] - expected.0).hypot(found[1] - expected.1) / (grid.points() as f64).sqrt()
}
