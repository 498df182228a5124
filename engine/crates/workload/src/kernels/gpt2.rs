//! Text generation by a transformer of the shape of GPT-2, with the keys and values of earlier tokens kept.

use super::prelude::*;
use crate::record::record_sliced;
use crate::{Profile, RecordRequest};

/// Decoding with a cache of keys and values.
#[derive(Debug)]
pub struct Gpt2;

// Measured with `cargo run --release -p tiertune-workload --example cpu_cost -- gpt2`, 2 layers of width 96, 4 requests.
const DECODE_NS: f64 = 5.5;
/// Slices that a pass over the weights is recorded in, so that sweeps stay sweeps.
const PASS_SLICES: u64 = 8;

/// Multiply-adds that count as one operation: rows are a multiple of it, so that what one costs does not depend on the
/// model's size.
const STEP_MACS: u64 = 16;
const VALUE: u64 = 4;
const DOMAIN: u64 = 0x6770_7432;
/// Rows of a matrix that one thread multiplies at a time.
const ROWS: usize = 16;
/// Matrices of a layer, one after the other: queries, keys and values; projection; the two of the feed-forward part.
const LAYER_ROWS: usize = 12;

#[derive(Debug, Clone, Copy)]
struct Shape {
    layers: usize,
    width: usize,
    heads: usize,
    vocabulary: usize,
    context: usize,
    batch: usize,
    prompt: usize,
    generated: usize,
}

impl Shape {
    fn of(values: &Values) -> Self {
        let int = |name: &str| values.int(name) as usize;
        Self {
            layers: int("layers"),
            width: int("width"),
            heads: int("heads"),
            vocabulary: int("vocabulary"),
            context: int("context"),
            batch: int("batch"),
            prompt: int("prompt"),
            generated: int("generated"),
        }
    }

    fn positions(self) -> usize {
        self.prompt + self.generated
    }

    /// Elements of one layer's matrices.
    fn layer(self) -> usize {
        LAYER_ROWS * self.width * self.width
    }

    /// First element of the keys (0) or values (1) of a request in a layer.
    fn cached(self, layer: usize, request: usize, which: usize) -> usize {
        ((layer * self.batch + request) * 2 + which) * self.context * self.width
    }

    /// Multiply-adds of the matrices for the tokens of one position.
    fn matrix_macs(self) -> u64 {
        (self.batch * (self.layers * self.layer() + self.vocabulary * self.width)) as u64
    }

    /// Multiply-adds with the cached keys and values when so many positions are there.
    fn cache_macs(self, positions: usize) -> u64 {
        (self.batch * self.layers * 2 * self.width * positions) as u64
    }

    /// Multiply-adds of a run.
    fn macs(self) -> u64 {
        (1..=self.positions())
            .map(|n| self.matrix_macs() + self.cache_macs(n))
            .sum()
    }
}

/// Weights of a standard deviation that keeps activations of order 1, the same for every place.
fn weight(seed: u64, object: u64, chunk: usize, scale: f32, out: &mut [f32]) {
    let mut rng = CounterRng::new(seed, &[DOMAIN, object, chunk as u64]);
    // A uniform variable of this width has variance 1.
    out.fill_with(|| (rng.next_f64() as f32 - 0.5) * 12f32.sqrt() * scale);
}

fn generated(values: &Values, object: u64, count: usize, scale: f32) -> Vec<f32> {
    let mut data = vec![0.0; count];
    for (chunk, part) in data.chunks_mut(1 << 12).enumerate() {
        weight(values.int("seed"), object, chunk, scale, part);
    }
    data
}

/// Mean 0 and variance 1.
fn normalised(x: &[f32]) -> Vec<f32> {
    let n = x.len() as f32;
    let mean = x.iter().sum::<f32>() / n;
    let variance = x.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / n;
    let scale = 1.0 / (variance + 1e-5).sqrt();
    x.iter().map(|value| (value - mean) * scale).collect()
}

fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044_715 * x.powi(3))).tanh())
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    // Eight sums, which the compiler keeps in one vector.
    let mut sums = [0.0f32; 8];
    let (wide, rest) = (a.len() / 8 * 8, a.len() % 8);
    for (a, b) in a[..wide].chunks_exact(8).zip(b.chunks_exact(8)) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    let tail: f32 = a[wide..wide + rest].iter().zip(&b[wide..]).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + tail
}

/// Attention of one token over the keys and values of all tokens up to it.
fn attend(query: &[f32], heads: usize, keys: &[Vec<f32>], values: &[Vec<f32>]) -> Vec<f32> {
    let size = query.len() / heads;
    let mut result = vec![0.0; query.len()];
    for head in 0..heads {
        let part = head * size..(head + 1) * size;
        let mut scores: Vec<f32> = keys
            .iter()
            .map(|key| dot(&query[part.clone()], &key[part.clone()]) / (size as f32).sqrt())
            .collect();
        let most = scores.iter().copied().fold(f32::MIN, f32::max);
        scores.iter_mut().for_each(|score| *score = (*score - most).exp());
        let sum: f32 = scores.iter().sum();
        for (score, value) in scores.iter().zip(values) {
            for (result, value) in result[part.clone()].iter_mut().zip(&value[part.clone()]) {
                *result += score / sum * value;
            }
        }
    }
    result
}

/// A finished run: the model, and the tokens of every request.
#[derive(Debug)]
pub struct Generation {
    shape: Shape,
    embedding: SharedArray<f32>,
    positions: SharedArray<f32>,
    weights: SharedArray<f32>,
    cache: SharedArray<f32>,
    activations: SharedArray<f32>,
    tokens: Vec<Vec<usize>>,
    /// The largest logit of every token chosen.
    logits: Vec<Vec<f32>>,
}

impl Generation {
    fn build<M: Memory>(memory: &mut M, values: &Values) -> Self {
        let (specs, shape) = (Gpt2::objects(values), Shape::of(values));
        let elements = |number: usize| (specs[number].bytes / VALUE) as usize;
        let scale = 1.0 / (shape.width as f32).sqrt();
        let tokens = (0..shape.batch).map(|request| {
            let mut rng = CounterRng::new(values.int("seed"), &[DOMAIN, 9, request as u64]);
            (0..shape.prompt)
                .map(|_| rng.below(shape.vocabulary as u64) as usize)
                .collect()
        });
        Self {
            shape,
            embedding: SharedArray::new(memory, &specs[0], generated(values, 0, elements(0), scale)),
            positions: SharedArray::new(memory, &specs[1], generated(values, 1, elements(1), scale)),
            weights: SharedArray::new(memory, &specs[2], generated(values, 2, elements(2), scale)),
            cache: SharedArray::new(memory, &specs[3], vec![0.0; elements(3)]),
            activations: SharedArray::new(memory, &specs[4], vec![0.0; elements(4)]),
            tokens: tokens.collect(),
            logits: vec![Vec::new(); shape.batch],
        }
    }

    /// Multiplies the activations of all requests with a matrix, row by row: every line of it is read once.
    fn multiply<M: Memory>(
        &self,
        memory: &mut M,
        matrix: &SharedArray<f32>,
        first: usize,
        rows: usize,
        x: &[Vec<f32>],
    ) -> Vec<Vec<f32>> {
        let columns = x[0].len();
        let results: Vec<AtomicU32> = (0..rows * x.len()).map(|_| AtomicU32::new(0)).collect();
        let width = self.activations.len();
        memory.for_chunks(0..rows, ROWS, |memory, part| {
            let mut row = vec![0.0; columns];
            for number in part {
                matrix.read_run(memory, first + number * columns, &mut row, AccessClass::Stream);
                for (request, x) in x.iter().enumerate() {
                    let value = dot(&row, x);
                    results[request * rows + number].store(value.to_bits(), Relaxed);
                    self.activations
                        .store(memory, (request * rows + number) % width, value, AccessClass::Stream);
                }
                memory.ops(ops(columns, x.len()));
            }
        });
        results
            .chunks(rows)
            .map(|part| part.iter().map(|value| f32::from_bits(value.load(Relaxed))).collect())
            .collect()
    }

    /// Attention of the newest token of every request, whose key and value are appended to the cache.
    fn attention<M: Memory>(&self, memory: &mut M, layer: usize, position: usize, qkv: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let (shape, width) = (self.shape, self.shape.width);
        let results: Vec<std::sync::Mutex<Vec<f32>>> = qkv.iter().map(|_| std::sync::Mutex::default()).collect();
        memory.for_chunks(0..shape.batch, 1, |memory, part| {
            for request in part {
                let mut read = |which: usize| {
                    let first = shape.cached(layer, request, which);
                    let own = &qkv[request][(1 + which) * width..(2 + which) * width];
                    self.cache
                        .write_run(memory, first + position * width, own, AccessClass::Stream);
                    let mut all = vec![vec![0.0; width]; position + 1];
                    for (place, row) in all.iter_mut().enumerate() {
                        self.cache
                            .read_run(memory, first + place * width, row, AccessClass::Stream);
                    }
                    all
                };
                let (keys, values) = (read(0), read(1));
                let result = attend(&qkv[request][..width], shape.heads, &keys, &values);
                if let Ok(mut slot) = results[request].lock() {
                    *slot = result;
                }
                memory.ops(ops(2 * width, position + 1));
            }
        });
        results
            .into_iter()
            .map(|slot| slot.into_inner().unwrap_or_default())
            .collect()
    }

    /// One position of all requests: from their tokens to the likeliest next ones.
    fn step<M: Memory>(&mut self, memory: &mut M, position: usize) -> Vec<(usize, f32)> {
        let (shape, width) = (self.shape, self.shape.width);
        let mut place = vec![0.0; width];
        self.positions
            .read_run(memory, position * width, &mut place, AccessClass::Stream);
        let mut x: Vec<Vec<f32>> = self
            .tokens
            .iter()
            .map(|tokens| {
                let mut row = vec![0.0; width];
                let first = tokens[position] * width;
                // Only the first line of a row is at an address that nothing could foresee.
                memory.load(self.embedding.id(), first * VALUE as usize, AccessClass::Random);
                self.embedding.read_run(memory, first, &mut row, AccessClass::Stream);
                row.iter_mut().zip(&place).for_each(|(value, place)| *value += place);
                row
            })
            .collect();
        let add = |x: &mut [Vec<f32>], part: &[Vec<f32>]| {
            for (x, part) in x.iter_mut().zip(part) {
                x.iter_mut().zip(part).for_each(|(value, part)| *value += part);
            }
        };
        let square = width * width;
        for layer in 0..shape.layers {
            let first = layer * shape.layer();
            let input: Vec<Vec<f32>> = x.iter().map(|x| normalised(x)).collect();
            let qkv = self.multiply(memory, &self.weights, first, 3 * width, &input);
            let attended = self.attention(memory, layer, position, &qkv);
            add(
                &mut x,
                &self.multiply(memory, &self.weights, first + 3 * square, width, &attended),
            );
            let input: Vec<Vec<f32>> = x.iter().map(|x| normalised(x)).collect();
            let mut hidden = self.multiply(memory, &self.weights, first + 4 * square, 4 * width, &input);
            hidden.iter_mut().flatten().for_each(|value| *value = gelu(*value));
            add(
                &mut x,
                &self.multiply(memory, &self.weights, first + 8 * square, width, &hidden),
            );
        }
        let last: Vec<Vec<f32>> = x.iter().map(|x| normalised(x)).collect();
        let logits = self.multiply(memory, &self.embedding, 0, shape.vocabulary, &last);
        logits.iter().map(|logits| likeliest(logits)).collect()
    }

    /// The tokens chosen for a request and their logits, anew for every prefix and without a cache.
    fn plainly(&self, request: usize, length: usize) -> (usize, f32) {
        let (shape, width) = (self.shape, self.shape.width);
        let (weights, embedding, positions) = (self.weights.to_vec(), self.embedding.to_vec(), self.positions.to_vec());
        let times = |first: usize, rows: usize, x: &[f32]| -> Vec<f32> {
            (0..rows)
                .map(|row| dot(&weights[first + row * x.len()..][..x.len()], x))
                .collect()
        };
        let add = |x: &mut [f32], part: &[f32]| x.iter_mut().zip(part).for_each(|(value, part)| *value += part);
        let mut x: Vec<Vec<f32>> = (0..length)
            .map(|n| {
                let mut row = embedding[self.tokens[request][n] * width..][..width].to_vec();
                add(&mut row, &positions[n * width..][..width]);
                row
            })
            .collect();
        let square = width * width;
        for layer in 0..shape.layers {
            let first = layer * shape.layer();
            let parts = |which: usize| -> Vec<Vec<f32>> {
                x.iter()
                    .map(|x| times(first + which * square, width, &normalised(x)))
                    .collect()
            };
            let (queries, keys, values) = (parts(0), parts(1), parts(2));
            for (n, x) in x.iter_mut().enumerate() {
                let attended = attend(&queries[n], shape.heads, &keys[..=n], &values[..=n]);
                add(x, &times(first + 3 * square, width, &attended));
                let mut hidden = times(first + 4 * square, 4 * width, &normalised(x));
                hidden.iter_mut().for_each(|value| *value = gelu(*value));
                add(x, &times(first + 8 * square, width, &hidden));
            }
        }
        let last = normalised(&x[length - 1]);
        likeliest(&embedding.chunks(width).map(|row| dot(row, &last)).collect::<Vec<_>>())
    }
}

/// Operations of a row of so many columns times so many vectors.
fn ops(columns: usize, vectors: usize) -> u64 {
    (columns * vectors) as u64 / STEP_MACS
}

fn likeliest(logits: &[f32]) -> (usize, f32) {
    let mut best = (0, f32::MIN);
    for (token, logit) in logits.iter().enumerate() {
        if *logit > best.1 {
            best = (token, *logit);
        }
    }
    best
}

impl Program for Gpt2 {
    const NAME: &'static str = "gpt2";
    const FAMILY: &'static str = "inference";
    const SUMMARY: &'static str = "text generation by a transformer, token by token, with cached keys and values";
    const SOURCE: &'static str = "the shape of GPT-2 (Radford et al. 2019) in single precision; random weights";
    const OP_MEANING: &'static str = "16 multiply-adds of weights or cached values with activations";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::int("layers", 1, 1000, "layers (GPT-2: 12 to 48)").carried(),
        Parameter::int("width", 16, 1 << 16, "width of the activations (GPT-2: 768 to 1600)").carried(),
        Parameter::int("heads", 1, 1000, "attention heads; they divide the width").or(Default::Int(4)),
        Parameter::int("vocabulary", 16, 1 << 24, "tokens (GPT-2: 50257)").carried(),
        Parameter::int("context", 2, 1 << 20, "positions for which there is room").carried(),
        Parameter::int("batch", 1, 1 << 16, "requests that are decoded side by side").carried(),
        Parameter::int("prompt", 1, 1 << 20, "tokens of each prompt"),
        Parameter::int("generated", 1, 1 << 20, "tokens generated for each request"),
        Parameter::int("seed", 0, u64::MAX, "seed of weights and prompts").or(Default::Int(1)),
    ];
    const CLASSES: &'static [AccessClass] = &[AccessClass::Random, AccessClass::Stream];
    const METRICS: &'static [Metric] = &[Metric {
        name: "tokens",
        unit: "",
        role: Role::Covariate,
        meaning: "tokens generated for all requests",
    }];
    const SMALL: &'static str = r#"{"layers": 3, "width": 64, "vocabulary": 512, "context": 16, "batch": 3, "prompt": 6,
        "generated": 10}"#;

    type Output = Generation;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        let int = |name: &str| values.int(name);
        let (width, layers, batch) = (int("width"), int("layers"), int("batch"));
        let object = |name, elements: u64| ObjectSpec::new(name, elements * VALUE, VALUE as u32);
        vec![
            object("embedding", int("vocabulary") * width).swept().built(),
            object("positions", int("context") * width).built(),
            object("weights", LAYER_ROWS as u64 * width * width * layers)
                .swept()
                .built(),
            object("keys and values", 2 * layers * batch * int("context") * width),
            object("activations", batch * 4 * width),
        ]
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> Generation {
        let mut run = Generation::build(memory, values);
        let shape = run.shape;
        for position in 0..shape.positions() {
            if position == 0 {
                memory.phase(Phase::new("prompt", Unit::Operations, DECODE_NS));
            } else if position == shape.prompt {
                memory.phase(Phase::new("decode", Unit::Operations, DECODE_NS));
            }
            let next = run.step(memory, position);
            for (request, (token, logit)) in next.into_iter().enumerate() {
                run.logits[request].push(logit);
                if position + 1 >= shape.prompt {
                    run.tokens[request].push(token);
                }
            }
        }
        run
    }

    fn report(_values: &Values, run: &Generation) -> Vec<(&'static str, f64)> {
        vec![("tokens", (run.shape.batch * run.shape.generated) as f64)]
    }

    fn verify(_values: &Values, run: &Generation) -> Vec<Check> {
        // Early, where the prompt ends, and late; a pass without a cache takes all positions before it again.
        let most = run.shape.positions().min(48);
        let (mut off, mut other, mut compared) = (0f32, 0, 0);
        for request in [0, run.shape.batch - 1] {
            for length in [1, most.min(run.shape.prompt), most] {
                let (token, logit) = run.plainly(request, length);
                let found = run.logits[request][length - 1];
                off = off.max((found - logit).abs() / logit.abs().max(1.0));
                let chosen = length >= run.shape.prompt;
                other += usize::from(chosen && run.tokens[request][length] != token);
                compared += 1;
            }
        }
        vec![
            Check::new(
                "logits",
                off < 1e-3,
                format!("off by {off:.1e} of {compared} passes without a cache"),
            ),
            Check::new(
                "tokens",
                other == 0,
                format!("{other} chosen otherwise without a cache"),
            ),
        ]
    }

    fn check(values: &Values) -> Result<(), ParameterError> {
        let (width, heads, context) = (values.int("width"), values.int("heads"), values.int("context"));
        if width % STEP_MACS != 0 {
            let near = width / STEP_MACS * STEP_MACS;
            let text = format!("is {width}, it must be a multiple of {STEP_MACS}; the nearest is {near}");
            return Err(ParameterError::new("width", text));
        }
        if width % heads != 0 {
            let near = (width / heads).max(1) * heads;
            let text = format!("is {width}, which {heads} heads do not divide; the nearest is {near}");
            return Err(ParameterError::new("width", text));
        }
        within("prompt", values.int("prompt"), 1, context - 1)?;
        within("generated", values.int("generated"), 1, context - values.int("prompt"))
    }

    fn ops(values: &Values) -> u64 {
        Shape::of(values).macs().div_ceil(STEP_MACS)
    }

    fn record(request: &RecordRequest) -> Profile {
        let shape = Shape::of(request.values());
        // Activations and a row stay in cache at any size.
        let held = 2 * Self::objects(request.values())[4].bytes;
        record_sliced::<Self>(request, held, shape.positions() as u64 * PASS_SLICES)
    }

    /// Prompt and answer keep their share of the context.
    fn resize(recorded: &Values, sizes: &[(&str, u64)]) -> Values {
        let target = sizes
            .iter()
            .fold(recorded.clone(), |values, (name, value)| values.with(name, *value));
        let growth = target.int("context") as f64 / recorded.int("context") as f64;
        let longer = |name: &str| ((recorded.int(name) as f64 * growth) as u64).max(1);
        target
            .with("prompt", longer("prompt"))
            .with("generated", longer("generated"))
    }

    fn work_growth(recorded: &Values, target: &Values, _slice: &crate::profile::SliceInfo) -> f64 {
        Shape::of(target).macs() as f64 / Shape::of(recorded).macs() as f64
    }

    /// What a run reads of an object, for each multiply-add: the matrices once a position, whatever the batch.
    fn traffic_growth(recorded: &Values, target: &Values, object: &str, _class: AccessClass) -> f64 {
        let share = |values: &Values| {
            let shape = Shape::of(values);
            let positions = shape.positions() as f64;
            let read = match object {
                "embedding" => positions * (shape.vocabulary * shape.width) as f64,
                "weights" => positions * (shape.layers * shape.layer()) as f64,
                "positions" => positions * shape.width as f64,
                "keys and values" => (1..=shape.positions()).map(|n| shape.cache_macs(n) as f64).sum(),
                _ => positions * (shape.batch * shape.width * shape.layers) as f64,
            };
            read / shape.macs() as f64
        };
        share(target) / share(recorded)
    }
}
