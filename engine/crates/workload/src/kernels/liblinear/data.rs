//! Synthetic sparse data whose features are grouped by field and popular by a power law within each.

use crate::kernels::prelude::*;

const DOMAIN: u64 = 0x6c69_626c;
const CHUNK: usize = 1024;

/// What the data looks like.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub rows: usize,
    pub features: usize,
    pub row_values: usize,
    pub fields: usize,
    pub skew: f64,
    pub threads: usize,
    pub seed: u64,
}

impl Sizes {
    pub fn of(values: &Values) -> Self {
        let int = |name: &str| values.int(name) as usize;
        Self {
            rows: int("rows"),
            features: int("features"),
            row_values: int("row_values"),
            fields: int("fields"),
            skew: values.real("skew"),
            threads: int("threads"),
            seed: values.int("seed"),
        }
    }

    /// The feature of a draw in a field; the first fraction x of a field has x^(1 - skew) of its values, at every size.
    fn feature(&self, field: usize, draw: f64) -> usize {
        let (start, end) = (
            self.features * field / self.fields,
            self.features * (field + 1) / self.fields,
        );
        let place = draw.powf(1.0 / (1.0 - self.skew)) * (end - start) as f64;
        (start + place as usize).min(end - 1)
    }

    /// Thread whose rows these are: equal stretches in their order.
    pub fn rows_of(&self, thread: usize) -> std::ops::Range<usize> {
        self.rows * thread / self.threads..self.rows * (thread + 1) / self.threads
    }
}

/// The data, row by row.
#[derive(Debug)]
pub struct Rows {
    nodes: Vec<(u32, f64)>,
    labels: Vec<f64>,
    width: usize,
}

impl Rows {
    /// Rows whose labels follow hidden weights, with an eighth of them drawn at random.
    pub fn generate(sizes: &Sizes) -> Self {
        let mut nodes = Vec::with_capacity(sizes.rows * sizes.row_values);
        let mut labels = Vec::with_capacity(sizes.rows);
        let scale = 1.0 / (sizes.row_values as f64).sqrt();
        for start in (0..sizes.rows).step_by(CHUNK) {
            let mut rng = CounterRng::new(sizes.seed, &[DOMAIN, start as u64]);
            for _ in start..sizes.rows.min(start + CHUNK) {
                let mut score = 0.0;
                for n in 0..sizes.row_values {
                    let feature = sizes.feature(n % sizes.fields, rng.next_f64());
                    let mut hidden = CounterRng::new(sizes.seed, &[DOMAIN, 1 << 40, feature as u64]);
                    score += hidden.next_f64() - 0.5;
                    nodes.push((feature as u32, scale));
                }
                let noisy = rng.next_f64() < 0.125;
                let sign = if noisy { rng.next_f64() < 0.5 } else { score > 0.0 };
                labels.push(if sign { 1.0 } else { -1.0 });
            }
        }
        Self {
            nodes,
            labels,
            width: sizes.row_values,
        }
    }

    pub fn len(&self) -> usize {
        self.labels.len()
    }

    pub fn label(&self, row: usize) -> f64 {
        self.labels[row]
    }

    pub fn labels(&self) -> &[f64] {
        &self.labels
    }

    /// Feature and value of each node of a row.
    pub fn nodes(&self, row: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.nodes[row * self.width..(row + 1) * self.width]
            .iter()
            .map(|(feature, value)| (*feature as usize, *value))
    }

    /// Number of a row's first node.
    pub fn first(&self, row: usize) -> usize {
        row * self.width
    }

    /// The same by features: where each one's nodes start, and its rows with values.
    pub fn columns(&self, features: usize) -> (Vec<u64>, Vec<(u32, f64)>) {
        let mut starts = vec![0u64; features + 1];
        for (feature, _) in &self.nodes {
            starts[*feature as usize + 1] += 1;
        }
        for feature in 0..features {
            starts[feature + 1] += starts[feature];
        }
        let (mut next, mut columns) = (starts.clone(), vec![(0, 0.0); self.nodes.len()]);
        for (number, (feature, value)) in self.nodes.iter().enumerate() {
            let place = &mut next[*feature as usize];
            columns[*place as usize] = ((number / self.width) as u32, *value);
            *place += 1;
        }
        (starts, columns)
    }
}
