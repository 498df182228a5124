//! Transactions that threads do side by side: what one adds is seen by others as a whole or not at all.

use std::sync::atomic::{AtomicBool, Ordering};

use tiertune_workload::kernels::silo::slab::Slab;
use tiertune_workload::kernels::silo::transaction::{Database, HEADER, Table, Transaction};
use tiertune_workload::kernels::silo::tree::{NODE_WORDS, Nodes, Tree};
use tiertune_workload::memory::{Native, ObjectSpec};

const ORDERS: u64 = 20_000;
const LINES: u64 = 8;

fn database() -> Database {
    let slab = |words: usize, count: u64| {
        let bytes = 8 * words as u64;
        let mut slab = Slab::new(
            ObjectSpec::new("rows", count * bytes, bytes as u32),
            words,
            count as usize,
            0,
        );
        slab.reserve(&mut Native, count as usize);
        slab
    };
    let mut nodes = Nodes {
        leaves: slab(NODE_WORDS, ORDERS * (LINES + 1)),
        inner: slab(NODE_WORDS, ORDERS * (LINES + 1)),
    };
    let mut table = |rows: u64| Table {
        rows: slab(HEADER + 1, rows),
        index: Tree::new(&mut Native, &mut nodes),
    };
    let tables = vec![table(ORDERS), table(ORDERS * LINES)];
    Database { nodes, tables }
}

/// Adds all orders, each with its lines in one transaction.
fn add(base: &Database) {
    let mut work = Transaction::default();
    for order in 0..ORDERS {
        work.clear();
        work.insert(0, order, &[order]);
        for line in 0..LINES {
            work.insert(1, order * LINES + line, &[order]);
        }
        assert_eq!(work.commit(&mut Native, base), Ok(()), "nobody else writes");
    }
}

/// Looks for the next order until it is there; the lines that a committed transaction saw of each.
fn look(base: &Database) -> Vec<u64> {
    let mut work = Transaction::default();
    let mut seen = Vec::new();
    while (seen.len() as u64) < ORDERS {
        let order = seen.len() as u64;
        work.clear();
        let Some(row) = work.find(&mut Native, base, 0, order) else {
            std::hint::spin_loop();
            continue;
        };
        let copied = work.read(&mut Native, base, 0, row, 0..1).expect("nothing is removed");
        assert_eq!(work.field(copied, 0), order);
        let mut lines = 0;
        work.scan(&mut Native, base, 1, order * LINES, |_, key, _| {
            lines += u64::from(key < (order + 1) * LINES);
            key < (order + 1) * LINES
        });
        if work.commit(&mut Native, base).is_ok() {
            seen.push(lines);
        }
    }
    seen
}

#[test]
fn an_order_is_never_seen_without_all_of_its_lines() {
    let base = database();
    let begun = AtomicBool::new(false);
    let seen = std::thread::scope(|threads| {
        let reader = threads.spawn(|| {
            begun.store(true, Ordering::Release);
            look(&base)
        });
        while !begun.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        add(&base);
        reader.join().unwrap()
    });
    let partial = seen.iter().filter(|lines| **lines != LINES).count();
    assert_eq!(partial, 0, "of {ORDERS} orders, seen with some of their lines only");
}
