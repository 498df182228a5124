//! TPC-C: consistency conditions under contention, the mix, and a footprint that grows at its hot end.

use serde_json::{Value as Json, json};
use tiertune_workload::host::Host;
use tiertune_workload::{Profile, RecordRequest, Values, kernels, record};

fn run(json: &Json, threads: usize) -> Vec<(&'static str, f64)> {
    let kernel = kernels::find("tpcc").unwrap();
    let values = Values::read(kernel.parameters, json.as_object().unwrap()).unwrap();
    let outcome = (kernel.native)(&mut Host::new(threads), &values, true);
    for check in &outcome.checks {
        assert!(check.passed, "{json} on {threads} threads: {check:?}");
    }
    outcome.metrics
}

fn metric(metrics: &[(&'static str, f64)], name: &str) -> f64 {
    metrics.iter().find(|(known, _)| *known == name).unwrap().1
}

fn recorded() -> Profile {
    let json = json!({
        "kernel": "tpcc", "warehouses": 1, "items": 5000, "customers": 300, "transactions": 20_000, "llc_bytes": 65536,
    });
    record(&RecordRequest::try_from(json).unwrap()).unwrap()
}

#[test]
fn conditions_hold_when_terminals_meet_in_one_warehouse() {
    for threads in [1, 8] {
        run(
            &json!({"warehouses": 1, "transactions": 20_000, "items": 200, "customers": 30}),
            threads,
        );
    }
}

#[test]
fn conditions_hold_across_warehouses_and_the_mix_is_the_standard_one() {
    let transactions = 30_000.0;
    let json = json!({"warehouses": 3, "transactions": transactions as u64, "items": 1000, "customers": 100});
    let metrics = run(&json, 4);
    let share = |name: &str| metric(&metrics, name) / transactions;
    // 45 % order entries, of which one in a hundred is taken back.
    assert!((share("new_orders") - 0.4455).abs() < 0.012, "{metrics:?}");
    assert!((share("rollbacks") - 0.0045).abs() < 0.002, "{metrics:?}");
    // 4 % deliveries of an order in each of ten districts.
    assert!((share("delivered") - 0.4).abs() < 0.05, "{metrics:?}");
}

#[test]
fn new_rows_come_in_new_objects_which_are_the_hottest() {
    let profile = recorded();
    let metadata = &profile.metadata;
    let added: Vec<&str> = metadata.events.iter().map(|event| event.object.as_str()).collect();
    for table in ["order", "order line", "new order", "history", "leaves"] {
        assert!(added.contains(&table), "{table} does not grow: {added:?}");
    }
    assert!(!added.contains(&"stock") && !added.contains(&"customer"), "{added:?}");
    // 10 lines of 80 bytes and what belongs to them, for 45 of 100 transactions; Silo takes at most 1350 bytes.
    let grown: u64 = metadata.events.iter().map(|event| event.bytes).sum();
    let per_transaction = grown as f64 / 20_000.0;
    assert!(
        (400.0..1350.0).contains(&per_transaction),
        "{per_transaction} bytes a transaction"
    );

    // Reads of order lines by slice: those loaded or entered long ago are hardly read.
    let extents: Vec<usize> = (0..metadata.objects.len())
        .filter(|number| metadata.objects[*number].name == "order line")
        .collect();
    let slices = metadata.slices.len();
    let columns = &profile.columns;
    let (mut recent, mut old) = (0.0, 0.0);
    let mut newest = vec![0usize; slices];
    for row in 0..columns.len() {
        if let Some(extent) = extents
            .iter()
            .position(|number| *number == columns.object[row] as usize)
        {
            let slice = columns.slice[row] as usize;
            newest[slice] = newest[slice].max(extent);
        }
    }
    for row in 0..columns.len() {
        if let Some(extent) = extents
            .iter()
            .position(|number| *number == columns.object[row] as usize)
        {
            let touches = f64::from(columns.touches[row]);
            // The newest extent and the one before hold the last twenty orders of all districts.
            if extent + 2 > newest[columns.slice[row] as usize] {
                recent += touches
            } else {
                old += touches
            }
        }
    }
    // For 100 transactions: 450 lines entered and 800 of the last orders looked at, against 40 orders delivered with 400
    // lines and 4 whose state is asked for with 40.
    let share = recent / (recent + old);
    assert!((share - 1250.0 / 1690.0).abs() < 0.1, "{share}");
    // Which is on at most three of more than ten extents.
    assert!(extents.len() > 10, "{}", extents.len());
    assert!(
        newest.windows(2).all(|pair| pair[1] >= pair[0]),
        "the head only moves on: {newest:?}"
    );
    assert!(newest[slices - 1] > newest[0] + 2, "{newest:?}");
}

#[test]
fn a_good_part_of_the_row_accesses_are_writes() {
    let profile = recorded();
    let columns = &profile.columns;
    let rows = |row: &usize| {
        let name = &profile.metadata.objects[columns.object[*row] as usize].name;
        name != "leaves" && name != "inner nodes"
    };
    let sum = |column: &[u32]| -> f64 { (0..columns.len()).filter(rows).map(|row| f64::from(column[row])).sum() };
    let share = sum(&columns.writebacks) / (sum(&columns.reads) + sum(&columns.writebacks));
    assert!((0.2..0.5).contains(&share), "{share}");
}

#[test]
fn declared_rows_are_those_that_a_run_leaves() {
    let kernel = kernels::find("tpcc").unwrap();
    let json = json!({"warehouses": 1, "items": 5000, "customers": 300, "transactions": 20_000});
    let values = Values::read(kernel.parameters, json.as_object().unwrap()).unwrap();
    let declared: u64 = (kernel.objects)(&values).iter().map(|object| object.bytes).sum();
    let found = recorded().footprint_bytes();
    assert!(
        (found as f64 / declared as f64 - 1.0).abs() < 0.05,
        "{found} against {declared}"
    );
    // Per warehouse of the standard's size: 100 000 stocks, 30 000 customers, 300 000 order lines.
    let whole = |warehouses: u64| -> f64 {
        let json = json!({"warehouses": warehouses, "transactions": 1});
        let values = Values::read(kernel.parameters, json.as_object().unwrap()).unwrap();
        (kernel.objects)(&values).iter().map(|object| object.bytes as f64).sum()
    };
    let each = whole(11) - whole(10);
    assert!((80e6..120e6).contains(&each), "{each}");
}
