//! TPC-C on the transaction engine: an order-entry database that grows, whose newest rows are the most popular.

pub mod conditions;
pub mod schema;
pub mod terminal;

use self::schema::{DISTRICTS, MOST_LINES, Scale, TABLES};
use self::terminal::{Counts, Terminal};
use super::transaction::{Database, Transaction};
use crate::kernels::prelude::*;
use crate::profile::SliceInfo;

/// TPC-C's mix of five transactions.
#[derive(Debug)]
pub struct Tpcc;

// Measured with `cargo run --release -p tiertune-workload --example cpu_cost -- tpcc` and 100 items, 10 customers.
const TRANSACTION_NS: f64 = 3670.0;

const DOMAIN: u64 = 0x7465_726d;
/// Transactions that one terminal does before the next one's turn.
const CHUNK: u64 = 16;

/// The database after a run.
#[derive(Debug)]
pub struct Finished {
    base: Database,
    counts: Counts,
}

impl Program for Tpcc {
    const NAME: &'static str = "tpcc";
    const FAMILY: &'static str = "silo";
    const SUMMARY: &'static str = "order entry: five transactions on a database that grows";
    const SOURCE: &'static str = "TPC-C 5.11 on Silo (Tu et al., SOSP'13)";
    const OP_MEANING: &'static str = "one transaction of the mix";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::int("warehouses", 1, 30_000, "warehouses").carried(),
        Parameter::int("transactions", 1, 1 << 44, "transactions of all threads together"),
        Parameter::int("items", 16, 100_000, "items, and rows of stock of a warehouse").or(Default::Int(100_000)),
        Parameter::int(
            "customers",
            10,
            3000,
            "customers of a district, and orders that are loaded",
        )
        .or(Default::Int(3000)),
        Parameter::int("seed", 0, u64::MAX, "seed of the population and of all terminals").or(Default::Int(1)),
    ];
    const CLASSES: &'static [AccessClass] = &[AccessClass::Chase, AccessClass::Random, AccessClass::Update];
    const METRICS: &'static [Metric] = &[
        Metric {
            name: "new_orders",
            unit: "",
            role: Role::Covariate,
            meaning: "orders entered",
        },
        Metric {
            name: "delivered",
            unit: "",
            role: Role::Covariate,
            meaning: "orders delivered",
        },
        Metric {
            name: "rollbacks",
            unit: "",
            role: Role::Covariate,
            meaning: "entries taken back because of an unknown item",
        },
        Metric {
            name: "aborts",
            unit: "",
            role: Role::Covariate,
            meaning: "transactions that had to be repeated",
        },
    ];
    const SMALL: &'static str = r#"{"warehouses": 2, "transactions": 6000, "items": 2000, "customers": 120}"#;

    type Output = Finished;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        Scale::of(values).objects()
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> Finished {
        let (scale, seed) = (Scale::of(values), values.int("seed"));
        let mut base = schema::load(memory, &scale, seed);
        let [leaves, inner] = scale.nodes();
        base.nodes.leaves.start(leaves.1 as usize);
        base.nodes.inner.start(inner.1 as usize);
        for table in 0..TABLES.len() {
            base.tables[table].rows.start(scale.rows(table).1 as usize);
        }
        memory.phase(Phase::new("transactions", Unit::Operations, TRANSACTION_NS));
        let counts = Counts::default();
        let oldest: Vec<AtomicU64> = (0..scale.warehouses * DISTRICTS)
            .map(|_| AtomicU64::new(scale.first_undelivered()))
            .collect();
        let mut done = 0;
        while done < scale.transactions {
            let round = scale.round().min(scale.transactions - done);
            base.nodes.reserve(memory, (5 * round) as usize);
            for table in [
                schema::HISTORY,
                schema::NEW_ORDER,
                schema::ORDER,
                schema::ORDER_BY_CUSTOMER,
            ] {
                base.tables[table].rows.reserve(memory, round as usize);
            }
            let lines = &mut base.tables[schema::ORDER_LINE].rows;
            lines.reserve(memory, (round * MOST_LINES) as usize);
            memory.for_chunks(
                done as usize..(done + round) as usize,
                CHUNK as usize,
                |memory, part| {
                    let turn = part.start as u64;
                    let rng = CounterRng::new(seed, &[DOMAIN, turn]);
                    let mut terminal = Terminal {
                        base: &base,
                        scale: &scale,
                        counts: &counts,
                        oldest: &oldest,
                        home: turn / CHUNK % scale.warehouses,
                        rng,
                        work: Transaction::default(),
                    };
                    for number in part {
                        // 0 and 1 are the times of what is not delivered and of what is loaded.
                        terminal.step(memory, number as u64 + 2);
                        memory.ops(1);
                    }
                },
            );
            done += round;
        }
        Finished { base, counts }
    }

    fn report(_values: &Values, finished: &Finished) -> Vec<(&'static str, f64)> {
        let counts = &finished.counts;
        let count = |count: &AtomicU64| count.load(Relaxed) as f64;
        vec![
            ("new_orders", count(&counts.committed[0])),
            ("delivered", count(&counts.delivered)),
            ("rollbacks", count(&counts.rollbacks)),
            ("aborts", count(&counts.aborts)),
        ]
    }

    fn verify(values: &Values, finished: &Finished) -> Vec<Check> {
        let (scale, counts) = (Scale::of(values), &finished.counts);
        let count = |count: &AtomicU64| count.load(Relaxed);
        let mut checks = conditions::conditions(
            &finished.base,
            &scale,
            count(&counts.committed[0]),
            count(&counts.delivered),
        );
        let missing = count(&counts.missing);
        checks.push(Check::new("rows", missing == 0, format!("{missing} rows were missing")));
        let done: u64 = counts.committed.iter().map(count).sum::<u64>() + count(&counts.rollbacks);
        checks.push(Check::new(
            "transactions",
            done == scale.transactions,
            format!("{done} of {} ended", scale.transactions),
        ));
        checks
    }

    fn ops(values: &Values) -> u64 {
        values.int("transactions")
    }

    fn resize(recorded: &Values, sizes: &[(&str, u64)]) -> Values {
        let target = sizes
            .iter()
            .fold(recorded.clone(), |values, (name, value)| values.with(name, *value));
        let growth = target.int("warehouses") as f64 / recorded.int("warehouses") as f64;
        target.with("transactions", (recorded.int("transactions") as f64 * growth) as u64)
    }

    fn work_growth(recorded: &Values, target: &Values, _slice: &SliceInfo) -> f64 {
        target.int("transactions") as f64 / recorded.int("transactions") as f64
    }
}
