//! TPC-C's consistency conditions (clause 3.3.2), each over the whole database.

use super::schema::*;
use crate::kernels::prelude::*;
use crate::kernels::silo::transaction::Database;

#[derive(Default)]
struct District {
    paid: u64,
    amounts_delivered: Vec<u64>,
    payments: Vec<u64>,
}

/// Checks all conditions; `added` orders were entered, `delivered` ones delivered, during the run.
pub fn conditions(base: &Database, scale: &Scale, added: u64, delivered: u64) -> Vec<Check> {
    let mut wrong = [0u64; 12];
    let mut districts: Vec<District> = (0..scale.warehouses * DISTRICTS).map(|_| District::default()).collect();
    let number = |w: u64, d: u64| (w * DISTRICTS + d) as usize;
    for district in &mut districts {
        district.amounts_delivered = vec![0; scale.customers as usize + 1];
        district.payments = vec![0; scale.customers as usize + 1];
    }
    let mut warehouse_history = vec![0; scale.warehouses as usize];
    for (_, row) in base.keys(HISTORY, 0, u64::MAX) {
        let [w, d, cw, cd, c, amount] = [0, 1, 2, 3, 4, 5].map(|field| base.field(HISTORY, row, field));
        warehouse_history[w as usize] += amount;
        districts[number(w, d)].paid += amount;
        districts[number(cw, cd)].payments[c as usize] += amount;
    }
    let (mut orders_found, mut carried, mut lines_found) = (0, 0, 0);
    for w in 0..scale.warehouses {
        let mut sum = 0;
        for d in 0..DISTRICTS {
            let (from, to) = (place(w, d), place(w, d + 1));
            let Some(row) = base.keys(DISTRICT, from, from + 1).first().map(|(_, row)| *row) else {
                wrong[0] += 1;
                continue;
            };
            let paid = base.field(DISTRICT, row, district::YTD);
            sum += paid;
            let next = base.field(DISTRICT, row, district::NEXT_ORDER);
            let mine = &mut districts[number(w, d)];
            wrong[8] += u64::from(paid != mine.paid);
            let orders = base.keys(ORDER, from, to);
            let waiting: Vec<u64> = base.keys(NEW_ORDER, from, to).iter().map(|(key, _)| *key).collect();
            let order_number = |key: u64| (key - from) >> 8;
            let newest = orders.last().map_or(0, |(key, _)| order_number(*key));
            wrong[1] += u64::from(newest + 1 != next);
            if let (Some(first), Some(last)) = (waiting.first(), waiting.last()) {
                wrong[1] += u64::from(order_number(*last) + 1 != next);
                wrong[2] += u64::from((last - first) >> 8 != waiting.len() as u64 - 1);
            }
            let lines = base.keys(ORDER_LINE, from, to);
            lines_found += lines.len() as u64;
            orders_found += orders.len() as u64;
            let mut asked = 0;
            let mut at = 0;
            for (key, row) in &orders {
                let [c, carrier, count] = [0, 1, 2].map(|field| base.field(ORDER, *row, field));
                asked += count;
                let waits = waiting.binary_search(key).is_ok();
                wrong[4] += u64::from((carrier == 0) != waits);
                carried += u64::from(!waits);
                let start = at;
                while at < lines.len() && lines[at].0 < key + (1 << 8) {
                    let [when, amount] =
                        [line::DELIVERED, line::AMOUNT].map(|field| base.field(ORDER_LINE, lines[at].1, field));
                    wrong[6] += u64::from((when == 0) != (carrier == 0));
                    if when > 0 {
                        mine.amounts_delivered[c as usize] += amount;
                    }
                    at += 1;
                }
                wrong[5] += u64::from((at - start) as u64 != count);
            }
            wrong[3] += u64::from(asked != lines.len() as u64);
            for (key, row) in base.keys(CUSTOMER, from, to) {
                let c = order_number(key) as usize;
                let [balance, ytd] = [customer::BALANCE, customer::YTD].map(|field| base.field(CUSTOMER, row, field));
                let (bought, paid) = (mine.amounts_delivered[c], mine.payments[c]);
                wrong[9] += u64::from(balance != bought.wrapping_sub(paid));
                wrong[11] += u64::from(balance.wrapping_add(ytd) != bought);
            }
        }
        let row = base
            .keys(WAREHOUSE, place(w, 0), place(w, 0) + 1)
            .first()
            .map(|(_, row)| *row);
        let paid = row.map(|row| base.field(WAREHOUSE, row, warehouse::YTD));
        wrong[0] += u64::from(paid != Some(sum));
        wrong[7] += u64::from(paid != Some(warehouse_history[w as usize]));
    }
    const NAMES_OF_CONDITIONS: [&str; 11] = [
        "condition 1",
        "condition 2",
        "condition 3",
        "condition 4",
        "condition 5",
        "condition 6",
        "condition 7",
        "condition 8",
        "condition 9",
        "condition 10",
        "condition 12",
    ];
    let counted = wrong[..10].iter().chain(&wrong[11..]);
    let mut checks: Vec<Check> = NAMES_OF_CONDITIONS
        .into_iter()
        .zip(counted)
        .map(|(name, wrong)| {
            Check::new(
                name,
                *wrong == 0,
                format!("{wrong} violations among {lines_found} order lines"),
            )
        })
        .collect();
    let loaded = scale.warehouses * DISTRICTS * scale.customers;
    checks.push(Check::new(
        "orders",
        orders_found == loaded + added,
        format!("{orders_found} orders, {loaded} loaded and {added} entered"),
    ));
    let before = scale.warehouses * DISTRICTS * (scale.first_undelivered() - 1);
    checks.push(Check::new(
        "deliveries",
        carried == before + delivered,
        format!("{carried} orders with a carrier, {before} loaded and {delivered} delivered"),
    ));
    checks
}
