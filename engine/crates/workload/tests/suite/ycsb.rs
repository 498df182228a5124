//! YCSB on the transaction engine: every workload is executed rightly, and the recorded popularity follows its law.

use serde_json::{Value as Json, json};
use tiertune_workload::host::Host;
use tiertune_workload::{Profile, RecordRequest, Values, kernels, record};

fn run(json: &Json, threads: usize) -> Vec<(&'static str, f64)> {
    let kernel = kernels::find("ycsb").unwrap();
    let values = Values::read(kernel.parameters, json.as_object().unwrap()).unwrap();
    let outcome = (kernel.native)(&mut Host::new(threads), &values, true);
    for check in &outcome.checks {
        assert!(check.passed, "{json} on {threads} threads: {check:?}");
    }
    outcome.metrics
}

fn recorded(mut json: Json) -> Profile {
    json["kernel"] = "ycsb".into();
    record(&RecordRequest::try_from(json).unwrap()).unwrap()
}

/// Touches of each page of an object, its extents one after the other; streams of all classes.
fn page_touches(profile: &Profile, name: &str) -> Vec<f64> {
    let objects = &profile.metadata.objects;
    let mut starts = vec![None; objects.len()];
    let mut pages = 0;
    for (number, object) in objects.iter().enumerate().filter(|(_, object)| object.name == name) {
        starts[number] = Some(pages);
        pages += object.pages() as usize;
    }
    let columns = &profile.columns;
    let mut touches = vec![0.0; pages];
    for row in 0..columns.len() {
        if let Some(start) = starts[columns.object[row] as usize] {
            touches[start + columns.page[row] as usize] += f64::from(columns.touches[row]);
        }
    }
    touches
}

#[test]
fn all_workloads_and_distributions_are_executed_rightly_by_several_threads() {
    for workload in ["a", "b", "c", "d", "e", "f"] {
        for distribution in ["zipf", "scrambled", "latest", "uniform"] {
            let operations = if workload == "e" { 4000 } else { 30_000 };
            let json = json!({
                "records": 3000, "operations": operations, "workload": workload, "distribution": distribution,
            });
            for threads in [1, 4] {
                let metrics = run(&json, threads);
                let scanned = metrics.iter().find(|(name, _)| *name == "rows_scanned").unwrap().1;
                if workload == "e" && distribution != "latest" {
                    // Lengths from 1 to 100 are 50.5 in the mean; some scans meet the end of the table.
                    let mean = scanned / (0.95 * f64::from(operations));
                    assert!((45.0..55.0).contains(&mean), "{json}: {mean} records a scan");
                }
            }
        }
    }
}

#[test]
fn many_threads_on_few_records_lose_no_change() {
    let json = json!({"records": 16, "operations": 200_000, "workload": "f", "distribution": "uniform"});
    run(&json, 8);
}

#[test]
fn the_first_keys_have_the_square_root_of_their_share() {
    // Silo's own YCSB: zipf 0.5 in key order, so the first share x of the keys gets x^(1 - 0.5) of the accesses.
    let profile = recorded(json!({
        "records": 200_000, "operations": 400_000, "workload": "c", "distribution": "zipf", "theta": 0.5, "llc_bytes": 16384,
    }));
    let touches = page_touches(&profile, "tuples");
    let all: f64 = touches.iter().sum();
    for share in [0.111, 0.2, 0.333, 0.6] {
        let first: f64 = touches[..(touches.len() as f64 * share) as usize].iter().sum();
        let off = first / all - f64::sqrt(share);
        assert!(off.abs() < 0.01, "{share}: {} against {}", first / all, share.sqrt());
    }
}

#[test]
fn scrambled_pages_vary_as_independent_records_do() {
    let records = 100_000;
    let profile = recorded(json!({
        "records": records, "operations": 2_000_000, "workload": "c", "distribution": "scrambled", "theta": 0.5,
        "llc_bytes": 4096,
    }));
    let touches = page_touches(&profile, "tuples");
    let mean = touches.iter().sum::<f64>() / touches.len() as f64;
    let cv2 = touches.iter().map(|value| (value / mean - 1.0).powi(2)).sum::<f64>() / touches.len() as f64;
    // With so weak a law no cache matters, so a page holds K independent records: scrambling draws with repetition, which
    // puts E[p^2] n records on a place as a Poisson number of them, and counting adds one over the count.
    let (mut sum, mut squares) = (0.0, 0.0);
    for rank in 1..=records {
        let p = f64::from(rank).powf(-0.5);
        sum += p;
        squares += p * p;
    }
    let per_page = 4096.0 / 136.0;
    let counting = touches.len() as f64 / 2e6;
    let expected = f64::from(records) * squares / (sum * sum) / per_page + counting;
    assert!((cv2 / expected - 1.0).abs() < 0.15, "{cv2} against {expected}");
}

#[test]
fn new_records_are_the_most_popular_and_come_in_objects_of_their_own() {
    let profile = recorded(json!({
        "records": 50_000, "operations": 200_000, "workload": "d", "distribution": "latest", "llc_bytes": 16384,
    }));
    assert!(
        !profile.metadata.events.is_empty()
            || profile.metadata.objects.iter().filter(|o| o.name == "tuples").count() > 8
    );
    let touches = page_touches(&profile, "tuples");
    let newest: f64 = touches[touches.len() * 3 / 4..].iter().sum();
    let all: f64 = touches.iter().sum();
    assert!(newest / all > 0.6, "{}", newest / all);
}

#[test]
fn a_lookup_reads_a_path_of_nodes_and_a_tuple() {
    let profile = recorded(json!({
        "records": 200_000, "operations": 100_000, "workload": "c", "distribution": "uniform", "llc_bytes": 65536,
    }));
    let columns = &profile.columns;
    let mut reads = std::collections::BTreeMap::new();
    for row in 0..columns.len() {
        let name = profile.metadata.objects[columns.object[row] as usize].name.clone();
        *reads.entry((name, columns.class[row])).or_insert(0.0) += f64::from(columns.reads[row]) / 1e5;
    }
    let read = |name: &str, class: u8| reads.get(&(name.to_owned(), class)).copied().unwrap_or(0.0);
    // Next to no tuple or leaf is in so small a cache: a dependent line each, and 4 more of the leaf.
    assert!((read("tuples", 0) - 1.0).abs() < 0.05, "{reads:?}");
    assert!((read("leaves", 0) - 1.0).abs() < 0.05, "{reads:?}");
    assert!((read("leaves", 1) - 4.0).abs() < 0.2, "{reads:?}");
    // 888 inner nodes of 5 lines right above 13 334 leaves; those further up fit the cache.
    assert!((0.3..1.8).contains(&read("inner nodes", 0)), "{reads:?}");
    // 136 bytes from any multiple of 8 of a line on touch 136 / 64 + 7 / 8 lines.
    let lines = read("tuples", 0) + read("tuples", 1);
    assert!((lines - (136.0 / 64.0 + 7.0 / 8.0)).abs() < 0.1, "{lines}");
}
