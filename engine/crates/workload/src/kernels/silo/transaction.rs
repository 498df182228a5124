//! Transactions with optimistic concurrency control: reads remember row versions, commit locks what is written in one
//! order for all, validates what was read, and only then writes (Silo, section 4.4).

use std::sync::atomic::{Ordering, fence};

use super::slab::Slab;
use super::tree::{Nodes, Seen, Tree, pause};
use crate::kernels::prelude::*;

/// Words before a row's fields: transaction number, key, and room for size and older version as in Silo's tuples.
pub const HEADER: usize = 4;

const KEY: usize = 1;
const LOCKED: u64 = 1;
const ABSENT: u64 = 2;
const NEXT_NUMBER: u64 = 4;

/// A table: rows and the index of their keys.
#[derive(Debug)]
pub struct Table {
    /// Rows of [`HEADER`] words and the fields.
    pub rows: Slab,
    /// From keys to row numbers.
    pub index: Tree,
}

/// All tables; their indexes share the nodes.
#[derive(Debug)]
pub struct Database {
    /// Nodes of all indexes.
    pub nodes: Nodes,
    /// Tables.
    pub tables: Vec<Table>,
}

impl Database {
    /// Adds a row before the run, when there is only one thread; the slabs grow as needed.
    pub fn load<M: Memory>(&mut self, memory: &mut M, table: usize, key: u64, fields: &[u64]) -> u64 {
        self.nodes.reserve_one(memory);
        let Table { rows, index } = &mut self.tables[table];
        rows.reserve(memory, 1);
        let row = rows.take();
        let words = rows.words(row);
        words[KEY].store(key, Relaxed);
        for (word, field) in words[HEADER..].iter().zip(fields) {
            word.store(*field, Relaxed);
        }
        // Loading is not part of what is recorded.
        index.insert(&mut crate::memory::Native, &self.nodes, key, row);
        row
    }

    /// A field of a row, outside of any transaction.
    #[must_use]
    pub fn field(&self, table: usize, row: u64, field: usize) -> u64 {
        self.tables[table].rows.word(row, HEADER + field).load(Relaxed)
    }

    /// Keys from `from` to below `to` and their rows, outside of any transaction.
    #[must_use]
    pub fn keys(&self, table: usize, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        let index = &self.tables[table].index;
        index.scan(
            &mut crate::memory::Native,
            &self.nodes,
            from,
            &mut Vec::new(),
            |_, key, row| {
                if key < to {
                    found.push((key, row));
                }
                key < to
            },
        );
        found
    }
}

/// Another transaction changed what this one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict;

/// Where a transaction keeps its copy of the fields of a row.
#[derive(Debug, Clone, Copy)]
pub struct Copied(usize);

#[derive(Debug)]
struct Write {
    table: usize,
    row: u64,
    first: usize,
    fields: std::ops::Range<usize>,
}

#[derive(Debug)]
struct Insert {
    table: usize,
    key: u64,
    fields: std::ops::Range<usize>,
}

/// What a transaction has read and wants to write; small enough for the private caches. Reused from one to the next.
#[derive(Debug, Default)]
pub struct Transaction {
    reads: Vec<(usize, u64, u64)>,
    copies: Vec<u64>,
    writes: Vec<Write>,
    inserts: Vec<Insert>,
    fields: Vec<u64>,
    removals: Vec<(usize, u64, u64)>,
    seen: Vec<Seen>,
    locks: Vec<(usize, u64)>,
    added: Vec<(usize, u64)>,
}

impl Transaction {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.reads.clear();
        self.copies.clear();
        self.writes.clear();
        self.inserts.clear();
        self.fields.clear();
        self.removals.clear();
        self.seen.clear();
    }

    /// The row of a key; that there is none is validated too.
    pub fn find<M: Memory>(&mut self, memory: &mut M, base: &Database, table: usize, key: u64) -> Option<u64> {
        let (row, seen) = base.tables[table].index.find(memory, &base.nodes, key);
        if row.is_none() {
            self.seen.push(seen);
        }
        row
    }

    /// Hands on keys from `from` and their rows until `visit` says stop; no key may come in between before the commit.
    pub fn scan<M: Memory>(
        &mut self,
        memory: &mut M,
        base: &Database,
        table: usize,
        from: u64,
        visit: impl FnMut(&mut M, u64, u64) -> bool,
    ) {
        let index = &base.tables[table].index;
        index.scan(memory, &base.nodes, from, &mut self.seen, visit);
    }

    /// Copies some fields of a row; `None` when the row was removed.
    pub fn read<M: Memory>(
        &mut self,
        memory: &mut M,
        base: &Database,
        table: usize,
        row: u64,
        fields: std::ops::Range<usize>,
    ) -> Option<Copied> {
        let rows = &base.tables[table].rows;
        rows.announce_load(memory, row, 0..HEADER, AccessClass::Chase);
        rows.announce_load(
            memory,
            row,
            HEADER + fields.start..HEADER + fields.end,
            AccessClass::Random,
        );
        let words = rows.words(row);
        let start = self.copies.len();
        let mut turns = 0;
        let number = loop {
            let number = words[0].load(Ordering::Acquire);
            if number & LOCKED == 0 {
                self.copies.truncate(start);
                self.copies.extend(
                    words[HEADER + fields.start..HEADER + fields.end]
                        .iter()
                        .map(|word| word.load(Relaxed)),
                );
                fence(Ordering::Acquire);
                if words[0].load(Relaxed) == number {
                    break number;
                }
            }
            pause(&mut turns);
        };
        self.reads.push((table, row, number));
        if number & ABSENT > 0 {
            return None;
        }
        for write in &self.writes {
            if (write.table, write.row) == (table, row) {
                for (field, value) in (write.first..).zip(&self.fields[write.fields.clone()]) {
                    if fields.contains(&field) {
                        self.copies[start + field - fields.start] = *value;
                    }
                }
            }
        }
        Some(Copied(start))
    }

    /// The field at a place of what was copied.
    #[must_use]
    pub fn field(&self, copied: Copied, place: usize) -> u64 {
        self.copies[copied.0 + place]
    }

    /// Overwrites fields from `first` when the transaction commits.
    pub fn write(&mut self, table: usize, row: u64, first: usize, values: &[u64]) {
        let start = self.fields.len();
        self.fields.extend_from_slice(values);
        self.writes.push(Write {
            table,
            row,
            first,
            fields: start..self.fields.len(),
        });
    }

    /// Adds a row when the transaction commits.
    pub fn insert(&mut self, table: usize, key: u64, fields: &[u64]) {
        let start = self.fields.len();
        self.fields.extend_from_slice(fields);
        self.inserts.push(Insert {
            table,
            key,
            fields: start..self.fields.len(),
        });
    }

    /// Removes a row when the transaction commits.
    pub fn remove(&mut self, table: usize, row: u64, key: u64) {
        self.removals.push((table, row, key));
    }

    /// Writes everything at once, if nothing that was read has changed. Rows are added after that is validated, so two
    /// transactions that each scan where the other adds may both commit; none here both scan and write by what they
    /// did not find.
    ///
    /// # Errors
    /// When something has; then nothing is written.
    pub fn commit<M: Memory>(&mut self, memory: &mut M, base: &Database) -> Result<(), Conflict> {
        self.locks.clear();
        self.locks
            .extend(self.writes.iter().map(|write| (write.table, write.row)));
        self.locks
            .extend(self.removals.iter().map(|(table, row, _)| (*table, *row)));
        self.locks.sort_unstable();
        self.locks.dedup();
        let word = |table: usize, row: u64| base.tables[table].rows.word(row, 0);
        for (table, row) in &self.locks {
            base.tables[*table].rows.announce_store(memory, *row, 0..1);
            let number = word(*table, *row);
            let mut turns = 0;
            loop {
                let free = number.load(Relaxed) & !LOCKED;
                if number
                    .compare_exchange(free, free | LOCKED, Ordering::Acquire, Relaxed)
                    .is_ok()
                {
                    break;
                }
                pause(&mut turns);
            }
        }
        fence(Ordering::SeqCst);
        let valid = self.reads.iter().all(|(table, row, number)| {
            let now = word(*table, *row).load(Ordering::Acquire);
            now == *number || (now == number | LOCKED && self.locks.binary_search(&(*table, *row)).is_ok())
        }) && self.seen.iter().all(|seen| Tree::unchanged(&base.nodes, *seen));
        if !valid {
            for (table, row) in &self.locks {
                let number = word(*table, *row);
                number.store(number.load(Relaxed) & !LOCKED, Ordering::Release);
            }
            return Err(Conflict);
        }
        for write in &self.writes {
            let rows = &base.tables[write.table].rows;
            let first = HEADER + write.first;
            rows.announce_store(memory, write.row, first..first + write.fields.len());
            let words = &rows.words(write.row)[first..];
            for (word, value) in words.iter().zip(&self.fields[write.fields.clone()]) {
                word.store(*value, Relaxed);
            }
        }
        self.added.clear();
        for insert in &self.inserts {
            let Table { rows, index } = &base.tables[insert.table];
            let row = rows.take();
            let fields = &self.fields[insert.fields.clone()];
            rows.announce_store(memory, row, 0..HEADER + fields.len());
            let words = rows.words(row);
            // Whoever finds the key waits until all that belongs to it is there: an order before its last line would be
            // an order with lines missing.
            words[0].store(LOCKED, Relaxed);
            words[KEY].store(insert.key, Relaxed);
            for (word, field) in words[HEADER..].iter().zip(fields) {
                word.store(*field, Relaxed);
            }
            fence(Ordering::Release);
            index.insert(memory, &base.nodes, insert.key, row);
            self.added.push((insert.table, row));
        }
        for (table, row, key) in &self.removals {
            word(*table, *row).fetch_or(ABSENT, Relaxed);
            base.tables[*table].index.remove(memory, &base.nodes, *key);
        }
        for (table, row) in self.locks.iter().chain(&self.added) {
            let number = word(*table, *row);
            number.store((number.load(Relaxed) & !LOCKED) + NEXT_NUMBER, Ordering::Release);
        }
        Ok(())
    }
}
