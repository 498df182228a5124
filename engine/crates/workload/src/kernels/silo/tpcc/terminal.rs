//! TPC-C's five transactions (clauses 2.4 to 2.8).

use super::schema::*;
use crate::kernels::prelude::*;
use crate::kernels::silo::transaction::{Conflict, Copied, Database, Transaction};

/// What terminals count.
#[derive(Debug, Default)]
pub struct Counts {
    /// Committed transactions: new order, payment, order status, delivery, stock level.
    pub committed: [AtomicU64; 5],
    /// Transactions repeated after a conflict.
    pub aborts: AtomicU64,
    /// Order entries taken back because of an unknown item.
    pub rollbacks: AtomicU64,
    /// Orders delivered.
    pub delivered: AtomicU64,
    /// Rows or keys that should have been there.
    pub missing: AtomicU64,
}

/// A terminal of one warehouse; does one transaction after the other.
#[derive(Debug)]
pub struct Terminal<'a> {
    /// The database.
    pub base: &'a Database,
    /// Sizes.
    pub scale: &'a Scale,
    /// What is counted.
    pub counts: &'a Counts,
    /// Oldest order of each district that may not be delivered.
    pub oldest: &'a [AtomicU64],
    /// The terminal's warehouse.
    pub home: u64,
    /// Its draws.
    pub rng: CounterRng,
    /// Its transaction, reused.
    pub work: Transaction,
}

/// Why a transaction has no result.
enum Stop {
    Conflict,
    Rollback,
}

impl From<Conflict> for Stop {
    fn from(_: Conflict) -> Self {
        Self::Conflict
    }
}

type Done<T> = Result<T, Stop>;

impl Terminal<'_> {
    /// Does the transaction of this number, which also stands for the time.
    pub fn step<M: Memory>(&mut self, memory: &mut M, now: u64) {
        let draw = self.rng.below(100);
        let kind = [45, 88, 92, 96, 100]
            .iter()
            .position(|limit| draw < *limit)
            .unwrap_or(0);
        // A transaction that is repeated has the same input.
        let input = self.rng.clone();
        loop {
            self.rng = input.clone();
            self.work.clear();
            let done = match kind {
                0 => self.new_order(memory, now),
                1 => self.payment(memory, now),
                2 => self.order_status(memory),
                3 => self.delivery(memory, now),
                _ => self.stock_level(memory),
            };
            match done {
                Ok(()) => self.counts.committed[kind].fetch_add(1, Relaxed),
                Err(Stop::Rollback) => self.counts.rollbacks.fetch_add(1, Relaxed),
                Err(Stop::Conflict) => {
                    self.counts.aborts.fetch_add(1, Relaxed);
                    continue;
                }
            };
            return;
        }
    }

    /// The row of a key that must be there.
    fn row<M: Memory>(&mut self, memory: &mut M, table: usize, key: u64) -> Done<u64> {
        let found = self.work.find(memory, self.base, table, key);
        if found.is_none() {
            self.counts.missing.fetch_add(1, Relaxed);
        }
        found.ok_or(Stop::Rollback)
    }

    /// Fields of a row that was found; it may have been removed since.
    fn read<M: Memory>(
        &mut self,
        memory: &mut M,
        table: usize,
        row: u64,
        fields: std::ops::Range<usize>,
    ) -> Done<Copied> {
        self.work
            .read(memory, self.base, table, row, fields)
            .ok_or(Stop::Conflict)
    }

    fn get<M: Memory>(&mut self, memory: &mut M, table: usize, key: u64, most: usize) -> Done<(u64, Copied)> {
        let row = self.row(memory, table, key)?;
        Ok((row, self.read(memory, table, row, 0..most)?))
    }

    fn new_order<M: Memory>(&mut self, memory: &mut M, now: u64) -> Done<()> {
        let (w, d) = (self.home, self.rng.below(DISTRICTS));
        let customers = self.scale.customers;
        let c = non_uniform(&mut self.rng, customer_mask(customers), 1, customers);
        let lines = 5 + self.rng.below(11);
        let unknown = self.rng.below(100) == 0;
        self.get(memory, WAREHOUSE, place(w, 0), 2)?;
        self.get(memory, CUSTOMER, numbered(w, d, c), 6)?;
        let (district, copy) = self.get(memory, DISTRICT, place(w, d), 3)?;
        let o = self.work.field(copy, district::NEXT_ORDER);
        self.work.write(DISTRICT, district, district::NEXT_ORDER, &[o + 1]);
        self.work.insert(ORDER, numbered(w, d, o), &[c, 0, lines, now, 1]);
        self.work.insert(NEW_ORDER, numbered(w, d, o), &[o]);
        self.work.insert(ORDER_BY_CUSTOMER, by_customer(w, d, c, o), &[o]);
        for number in 1..=lines {
            let items = self.scale.items;
            let item = non_uniform(&mut self.rng, item_mask(items), 0, items - 1);
            let quantity = 1 + self.rng.below(10);
            let remote = self.scale.warehouses > 1 && self.rng.below(100) == 0;
            let supplier = if remote { self.other() } else { w };
            if unknown && number == lines {
                // Clause 2.4.1.5: the last item of one in a hundred entries is unknown.
                let _ = self.work.find(memory, self.base, ITEM, items);
                return Err(Stop::Rollback);
            }
            let (_, copy) = self.get(memory, ITEM, item, 10)?;
            let price = self.work.field(copy, 0);
            let (stock, copy) = self.get(memory, STOCK, stocked(supplier, item), 4)?;
            let [pieces, sold, orders, far] = [0, 1, 2, 3].map(|place| self.work.field(copy, place));
            let left = if pieces >= quantity + 10 {
                pieces - quantity
            } else {
                pieces + 91 - quantity
            };
            let fields = [left, sold + quantity, orders + 1, far + u64::from(remote)];
            self.work.write(STOCK, stock, stock::QUANTITY, &fields);
            // The text for the district, 24 characters of the ten times as many.
            let data = self.row(memory, STOCK_DATA, stocked(supplier, item))?;
            let text = 3 * d as usize;
            self.read(memory, STOCK_DATA, data, text..text + 3)?;
            let fields = [item, supplier, 0, quantity, price * quantity];
            self.work.insert(ORDER_LINE, numbered(w, d, o) | number, &fields);
        }
        Ok(self.work.commit(memory, self.base)?)
    }

    /// Another warehouse than the terminal's own.
    fn other(&mut self) -> u64 {
        let other = self.rng.below(self.scale.warehouses - 1);
        if other >= self.home { other + 1 } else { other }
    }

    /// The row of a customer, in 60 of 100 cases by name: the one in the middle of those with the name.
    fn customer<M: Memory>(&mut self, memory: &mut M, w: u64, d: u64) -> Done<u64> {
        let customers = self.scale.customers;
        let by_number = self.rng.below(100) >= 60;
        if by_number {
            let c = non_uniform(&mut self.rng, customer_mask(customers), 1, customers);
            return self.row(memory, CUSTOMER, numbered(w, d, c));
        }
        let names = NAMES.min(customers);
        let name = non_uniform(&mut self.rng, 255, 0, names - 1);
        let (from, to) = (name_start(w, d, name), name_start(w, d, name + 1));
        let mut rows = Vec::new();
        self.work
            .scan(memory, self.base, CUSTOMER_BY_NAME, from, |_, key, row| {
                if key < to {
                    rows.push(row);
                }
                key < to
            });
        let Some(row) = rows.get(rows.len().saturating_sub(1) / 2) else {
            self.counts.missing.fetch_add(1, Relaxed);
            return Err(Stop::Rollback);
        };
        Ok(*row)
    }

    fn payment<M: Memory>(&mut self, memory: &mut M, now: u64) -> Done<()> {
        let (w, d) = (self.home, self.rng.below(DISTRICTS));
        let amount = 100 + self.rng.below(499_901);
        let remote = self.scale.warehouses > 1 && self.rng.below(100) < 15;
        let (cw, cd) = if remote {
            (self.other(), self.rng.below(DISTRICTS))
        } else {
            (w, d)
        };
        let (row, copy) = self.get(memory, WAREHOUSE, place(w, 0), 2)?;
        let paid = self.work.field(copy, warehouse::YTD) + amount;
        self.work.write(WAREHOUSE, row, warehouse::YTD, &[paid]);
        let (row, copy) = self.get(memory, DISTRICT, place(w, d), 3)?;
        let paid = self.work.field(copy, district::YTD) + amount;
        self.work.write(DISTRICT, row, district::YTD, &[paid]);
        let row = self.customer(memory, cw, cd)?;
        let copy = self.read(memory, CUSTOMER, row, 0..TABLES[CUSTOMER].1)?;
        let [balance, paid, payments] =
            [customer::BALANCE, customer::YTD, customer::PAYMENTS].map(|place| self.work.field(copy, place));
        let fields = [balance.wrapping_sub(amount), paid + amount, payments + 1];
        self.work.write(CUSTOMER, row, customer::BALANCE, &fields);
        if self.work.field(copy, customer::BAD) == 1 {
            // The payment comes first in the text, and the rest moves on.
            let mut text = vec![amount];
            text.extend((customer::TEXT..TABLES[CUSTOMER].1 - 1).map(|place| self.work.field(copy, place)));
            self.work.write(CUSTOMER, row, customer::TEXT, &text);
        }
        let key = self.base.tables[CUSTOMER].rows.word(row, 1).load(Relaxed);
        let c = (key >> 8) & 0xf_ffff;
        self.work.insert(HISTORY, 1 << 63 | now, &[w, d, cw, cd, c, amount]);
        Ok(self.work.commit(memory, self.base)?)
    }

    fn order_status<M: Memory>(&mut self, memory: &mut M) -> Done<()> {
        let (w, d) = (self.home, self.rng.below(DISTRICTS));
        let row = self.customer(memory, w, d)?;
        self.read(memory, CUSTOMER, row, 0..6)?;
        let key = self.base.tables[CUSTOMER].rows.word(row, 1).load(Relaxed);
        let c = (key >> 8) & 0xf_ffff;
        let mut newest = None;
        let from = by_customer(w, d, c, (1 << 27) - 1);
        self.work
            .scan(memory, self.base, ORDER_BY_CUSTOMER, from, |_, key, row| {
                newest = (key <= by_customer(w, d, c, 0)).then_some(row);
                false
            });
        let Some(row) = newest else {
            self.counts.missing.fetch_add(1, Relaxed);
            return Err(Stop::Rollback);
        };
        let copy = self.read(memory, ORDER_BY_CUSTOMER, row, 0..1)?;
        let o = self.work.field(copy, 0);
        let (_, copy) = self.get(memory, ORDER, numbered(w, d, o), 5)?;
        let expected = self.work.field(copy, order::LINES);
        let rows = self.lines(memory, numbered(w, d, o), numbered(w, d, o + 1));
        for row in &rows {
            self.read(memory, ORDER_LINE, *row, 0..5)?;
        }
        self.work.commit(memory, self.base)?;
        if rows.len() as u64 != expected {
            self.counts.missing.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Rows of the order lines from one key to below another.
    fn lines<M: Memory>(&mut self, memory: &mut M, from: u64, to: u64) -> Vec<u64> {
        let mut rows = Vec::new();
        self.work.scan(memory, self.base, ORDER_LINE, from, |_, key, row| {
            if key < to {
                rows.push(row);
            }
            key < to
        });
        rows
    }

    fn delivery<M: Memory>(&mut self, memory: &mut M, now: u64) -> Done<()> {
        let w = self.home;
        let carrier = 1 + self.rng.below(10);
        let mut done = Vec::new();
        for d in 0..DISTRICTS {
            let hint = &self.oldest[(w * DISTRICTS + d) as usize];
            let mut oldest = None;
            let from = numbered(w, d, hint.load(Relaxed));
            self.work.scan(memory, self.base, NEW_ORDER, from, |_, key, row| {
                oldest = (key < place(w, d + 1)).then_some((key, row));
                false
            });
            let Some((key, row)) = oldest else { continue };
            self.read(memory, NEW_ORDER, row, 0..1)?;
            self.work.remove(NEW_ORDER, row, key);
            let (row, copy) = self.get(memory, ORDER, key, 5)?;
            let c = self.work.field(copy, order::CUSTOMER);
            self.work.write(ORDER, row, order::CARRIER, &[carrier]);
            let mut sum = 0;
            for row in self.lines(memory, key, key + (1 << 8)) {
                let copy = self.read(memory, ORDER_LINE, row, 0..5)?;
                sum += self.work.field(copy, line::AMOUNT);
                self.work.write(ORDER_LINE, row, line::DELIVERED, &[now]);
            }
            let (row, copy) = self.get(memory, CUSTOMER, numbered(w, d, c), 4)?;
            let balance = self.work.field(copy, customer::BALANCE).wrapping_add(sum);
            let deliveries = self.work.field(copy, customer::DELIVERIES) + 1;
            self.work.write(CUSTOMER, row, customer::BALANCE, &[balance]);
            self.work.write(CUSTOMER, row, customer::DELIVERIES, &[deliveries]);
            done.push((hint, ((key & ((1 << 44) - 1)) >> 8) + 1));
        }
        self.work.commit(memory, self.base)?;
        self.counts.delivered.fetch_add(done.len() as u64, Relaxed);
        for (hint, next) in done {
            hint.fetch_max(next, Relaxed);
        }
        Ok(())
    }

    fn stock_level<M: Memory>(&mut self, memory: &mut M) -> Done<()> {
        let (w, d) = (self.home, self.rng.below(DISTRICTS));
        let threshold = 10 + self.rng.below(11);
        let (_, copy) = self.get(memory, DISTRICT, place(w, d), 3)?;
        let next = self.work.field(copy, district::NEXT_ORDER);
        let rows = self.lines(memory, numbered(w, d, next.saturating_sub(20)), numbered(w, d, next));
        let mut items = Vec::with_capacity(rows.len());
        for row in rows {
            let copy = self.read(memory, ORDER_LINE, row, 0..1)?;
            items.push(self.work.field(copy, line::ITEM));
        }
        items.sort_unstable();
        items.dedup();
        let mut low = 0u64;
        for item in items {
            let (_, copy) = self.get(memory, STOCK, stocked(w, item), 1)?;
            low += u64::from(self.work.field(copy, stock::QUANTITY) < threshold);
        }
        std::hint::black_box(low);
        Ok(self.work.commit(memory, self.base)?)
    }
}
