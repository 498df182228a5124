//! What kernels on a three-dimensional grid share: places of rows, the flow field that they solve for, and the cache
//! that a recording must have.

/// Unknowns of a grid point: density, three momenta, energy.
pub const UNKNOWNS: usize = 5;

/// The unknowns of one point.
pub type Point = [f64; UNKNOWNS];

/// A cube of points with a boundary of one point on each side.
#[derive(Debug, Clone, Copy)]
pub struct Cube {
    /// Points along an edge.
    pub edge: usize,
}

impl Cube {
    /// All points.
    #[must_use]
    pub fn points(self) -> usize {
        self.edge.pow(3)
    }

    /// The first point of row `j` of plane `k`.
    #[must_use]
    pub fn row(self, j: usize, k: usize) -> usize {
        (k * self.edge + j) * self.edge
    }

    /// Points off the boundary.
    #[must_use]
    pub fn inner(self) -> std::ops::Range<usize> {
        1..self.edge - 1
    }

    /// A smooth field with density around 1 and energy well above the kinetic one: what the solvers must find.
    #[must_use]
    pub fn exact(self, i: usize, j: usize, k: usize) -> Point {
        let along = |n: usize| (std::f64::consts::PI * n as f64 / (self.edge - 1) as f64).sin();
        let bump = along(i) * along(j) * along(k);
        let tilt = i as f64 / self.edge as f64;
        [
            1.0 + 0.2 * bump,
            0.3 + 0.1 * bump,
            0.2 - 0.1 * bump,
            0.1 + 0.1 * tilt,
            3.0 + 0.5 * bump + 0.2 * tilt,
        ]
    }

    /// The exact field on the boundary, a flat one inside: where the solvers start.
    #[must_use]
    pub fn start(self, i: usize, j: usize, k: usize) -> Point {
        let inner = self.inner();
        if [i, j, k].iter().all(|place| inner.contains(place)) {
            [1.0, 0.3, 0.2, 0.1, 3.0]
        } else {
            self.exact(i, j, k)
        }
    }

    /// A value for each point, in the order of memory.
    pub fn field(self, value: impl Fn(usize, usize, usize) -> Point) -> Vec<f64> {
        let mut data = Vec::with_capacity(self.points() * UNKNOWNS);
        for k in 0..self.edge {
            for j in 0..self.edge {
                for i in 0..self.edge {
                    data.extend(value(i, j, k));
                }
            }
        }
        data
    }
}

/// The unknowns of point `i` in a row.
#[inline(always)]
#[must_use]
pub fn at(row: &[f64], i: usize) -> Point {
    std::array::from_fn(|m| row[i * UNKNOWNS + m])
}

/// Sum of the squares of the values.
#[must_use]
pub fn square_sum(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum()
}

/// Solves five equations by elimination; the matrix must be dominated by its diagonal.
#[inline]
#[must_use]
pub fn solve(mut matrix: [[f64; UNKNOWNS]; UNKNOWNS], mut right: Point) -> Point {
    for pivot in 0..UNKNOWNS {
        let top = matrix[pivot];
        for row in pivot + 1..UNKNOWNS {
            let factor = matrix[row][pivot] / top[pivot];
            for (value, above) in matrix[row].iter_mut().zip(top) {
                *value -= factor * above;
            }
            right[row] -= factor * right[pivot];
        }
    }
    for row in (0..UNKNOWNS).rev() {
        for column in row + 1..UNKNOWNS {
            right[row] -= matrix[row][column] * right[column];
        }
        right[row] /= matrix[row][row];
    }
    right
}
