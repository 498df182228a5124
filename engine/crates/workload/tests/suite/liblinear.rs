//! The liblinear-like training: both solvers against each other's conditions, and what they read.

use serde_json::{Value as Json, json};
use tiertune_workload::host::Host;
use tiertune_workload::{Profile, RecordRequest, Values, kernels, record};

fn run(json: &Json, threads: usize) -> Vec<(&'static str, f64)> {
    let kernel = kernels::find("liblinear").unwrap();
    let values = Values::read(kernel.parameters, json.as_object().unwrap()).unwrap();
    let outcome = (kernel.native)(&mut Host::new(threads), &values, true);
    for check in &outcome.checks {
        assert!(check.passed, "{check:?}");
    }
    outcome.metrics
}

fn recorded(solver: &str) -> Profile {
    let json = json!({"kernel": "liblinear", "solver": solver, "rows": 20_000, "features": 20_480, "row_values": 20,
        "threads": 4, "tolerance": 0.01, "iterations": 6, "llc_bytes": 16384});
    record(&RecordRequest::try_from(json).unwrap()).unwrap()
}

/// Lines that came from memory for an object, by phase.
fn reads(profile: &Profile, name: &str, phase: &str) -> f64 {
    let (metadata, columns) = (&profile.metadata, &profile.columns);
    (0..columns.len())
        .filter(|row| metadata.objects[columns.object[*row] as usize].name == name)
        .filter(|row| metadata.slices[columns.slice[*row] as usize].phase == phase)
        .map(|row| f64::from(columns.reads[row]))
        .sum()
}

#[test]
fn both_solvers_stop_where_no_direction_leads_down() {
    let json =
        |solver: &str| json!({"solver": solver, "rows": 4000, "features": 3000, "tolerance": 0.001, "iterations": 60});
    for threads in [1, 2] {
        let newton = run(&json("newton"), threads);
        let sparse = run(&json("coordinate"), threads);
        // Stopped by tolerance, with some steps inside each; L1 leaves most weights at 0, L2 hardly any that occurs.
        for metrics in [&newton, &sparse] {
            assert!((2.0..60.0).contains(&metrics[0].1), "{metrics:?}");
            assert!(metrics[1].1 >= metrics[0].1, "{metrics:?}");
        }
        assert!(sparse[3].1 < 0.3 * newton[3].1, "{sparse:?} {newton:?}");
    }
}

#[test]
fn newton_streams_the_rows_and_adds_up_skewed_sums() {
    let profile = recorded("newton");
    let columns = &profile.columns;
    let (metadata, nodes) = (&profile.metadata, 20_000.0 * 20.0 * 16.0 / 64.0);
    let kernel = kernels::find("liblinear").unwrap();
    let outcome = (kernel.native)(&mut Host::new(1), metadata.request.values(), false);
    // Every product with the Hessian goes through all rows once.
    let passes = reads(&profile, "nodes", "hessian") / nodes;
    assert!(
        (passes / outcome.metrics[1].1 - 1.0).abs() < 0.01,
        "{passes} passes, {:?}",
        outcome.metrics
    );
    // Ten fields of 2048 features, four pages each: the first page has a quarter of them and 0.25^0.1 of the values.
    let sums = metadata
        .objects
        .iter()
        .position(|object| object.name == "sums")
        .unwrap();
    let (mut head, mut all) = (0.0, 0.0);
    for row in (0..columns.len()).filter(|row| columns.object[*row] as usize == sums && columns.class[*row] == 3) {
        let stores = f64::from(columns.stores[row]);
        all += stores;
        head += if columns.page[row] % 4 == 0 { stores } else { 0.0 };
    }
    let share: f64 = head / all;
    assert!((share - 0.25f64.powf(0.1)).abs() < 0.005, "{share}");
}

#[test]
fn coordinate_descent_reads_fewer_and_fewer_columns() {
    let profile = recorded("coordinate");
    let kernel = kernels::find("liblinear").unwrap();
    let outcome = (kernel.native)(&mut Host::new(1), profile.metadata.request.values(), false);
    let columns = 20_000.0 * 20.0 * 16.0 / 64.0;
    let gradients = reads(&profile, "columns", "gradient") / columns;
    let descents = reads(&profile, "columns", "descent") / columns / outcome.metrics[1].1;
    let active = outcome.metrics[2].1;
    // Each gradient reads all columns, a pass of the descent only the active ones.
    assert!(
        (gradients / (outcome.metrics[0].1 + 1.0) - 1.0).abs() < 0.05,
        "{gradients} {:?}",
        outcome.metrics
    );
    assert!(active < 0.5, "{active} of the features active");
    // A column that changes its weight is read once more, from memory when the cache does not hold it.
    assert!(descents > 0.0 && descents < 2.0, "{descents} of the columns a pass");
    assert_eq!(
        reads(&profile, "nodes", "descent"),
        0.0,
        "rows are only read at the start"
    );
    assert!(reads(&profile, "nodes", "start") > 0.0);
}

#[test]
fn data_of_kddb_takes_what_its_nodes_do() {
    let kernel = kernels::find("liblinear").unwrap();
    let json = json!({"rows": 19_300_000, "features": 29_900_000, "row_values": 29, "threads": 12});
    let values = Values::read(kernel.parameters, json.as_object().unwrap()).unwrap();
    let bytes = |name: &str| {
        let objects = (kernel.objects)(&values);
        objects.iter().find(|object| object.name == name).unwrap().bytes as f64 / 1e9
    };
    // 567 million values of 16 bytes; 12 threads with sums of 8 bytes for each feature.
    assert!((bytes("nodes") / 9.07 - 1.0).abs() < 0.02, "{}", bytes("nodes"));
    assert!((bytes("sums") / 2.87 - 1.0).abs() < 0.01, "{}", bytes("sums"));
}
