//! The XSBench-like lookups: the model's composition, and how popular its parts are.

use serde_json::{Value as Json, json};
use tiertune_workload::kernels::xsbench::{materials, nuclides, probabilities};
use tiertune_workload::{Profile, RecordRequest, Values, kernels, record};

fn recorded(mut json: Json) -> Profile {
    json["kernel"] = "xsbench".into();
    record(&RecordRequest::try_from(json).unwrap()).unwrap()
}

/// Probability that a lookup reads each nuclide.
fn popularity(large: bool) -> Vec<f64> {
    let mut sums = vec![0.0; nuclides(large) as usize];
    for (material, probability) in materials(large).iter().zip(probabilities()) {
        for nuclide in material {
            sums[*nuclide as usize] += probability;
        }
    }
    sums
}

#[test]
fn nuclides_are_as_popular_as_in_the_reactor_model() {
    let materials = materials(true);
    let sizes: Vec<usize> = materials.iter().map(Vec::len).collect();
    assert_eq!(sizes, [321, 5, 4, 4, 27, 21, 21, 21, 21, 21, 9, 9]);
    assert_eq!((nuclides(true), nuclides(false)), (355, 68));
    let popularity = popularity(true);
    for (number, expected) in [
        (319, 0.139),
        (9, 0.154),
        (5, 0.09),
        (17, 0.362),
        (1, 0.293),
        (3, 0.655),
        (1, 0.794),
    ] {
        let found = popularity
            .iter()
            .filter(|found| (**found - expected).abs() < 1e-9)
            .count();
        assert_eq!(found, number, "of popularity {expected}");
    }
    let mean: f64 = materials
        .iter()
        .zip(probabilities())
        .map(|(list, share)| list.len() as f64 * share)
        .sum();
    assert!((mean - 55.4).abs() < 0.05, "{mean}");
}

#[test]
fn a_large_grid_takes_what_the_papers_used() {
    let kernel = kernels::find("xsbench").unwrap();
    let json = json!({"gridpoints": 130_000, "lookups": 1});
    let values = Values::read(kernel.parameters, json.as_object().unwrap()).unwrap();
    let gib: Vec<f64> = (kernel.objects)(&values)
        .iter()
        .map(|object| object.bytes as f64 / 2f64.powi(30))
        .collect();
    // 2.06 + 0.34 + 61.0 GiB with 130 000 grid points.
    for (found, expected) in gib.iter().zip([2.06, 0.34, 61.0]) {
        assert!((found / expected - 1.0).abs() < 0.02, "{gib:?}");
    }
}

#[test]
fn recorded_grids_are_read_by_the_popularity_of_their_nuclides() {
    let (points, lookups) = (4096usize, 200_000);
    let profile = recorded(json!({"model": "small", "gridpoints": points, "lookups": lookups, "llc_bytes": 8192}));
    let objects = &profile.metadata.objects;
    let columns = &profile.columns;
    let chunk_pages = points * 48 / 4096;
    let mut touches = vec![0.0; 68];
    let mut index = vec![0.0; objects[2].pages() as usize];
    for row in 0..columns.len() {
        let page = columns.page[row] as usize;
        match objects[columns.object[row] as usize].name.as_str() {
            "nuclide grids" => touches[page / chunk_pages] += f64::from(columns.touches[row]),
            "index grid" => index[page] += f64::from(columns.reads[row]),
            _ => {}
        }
    }
    // 96 bytes from a multiple of 48 on: of four places within three lines, one in four spans a line more.
    for (nuclide, (found, expected)) in touches.iter().zip(popularity(false)).enumerate() {
        let lines = found / f64::from(lookups) / expected;
        assert!((lines - 2.25).abs() < 0.08, "nuclide {nuclide}: {lines} lines a read");
    }
    // Energies are uniform, so the index grid has no hot part: what varies is the counting.
    let tenths: Vec<f64> = index
        .chunks(index.len().div_ceil(10))
        .map(|part| part.iter().sum::<f64>() / part.len() as f64)
        .collect();
    let mean = tenths.iter().sum::<f64>() / 10.0;
    assert!(
        tenths.iter().all(|tenth| (tenth / mean - 1.0).abs() < 0.03),
        "{tenths:?}"
    );
}

#[test]
fn the_search_is_a_dependent_chain_whose_top_is_cached() {
    let lookups = 100_000;
    let profile = recorded(json!({"model": "small", "gridpoints": 20_000, "lookups": lookups, "llc_bytes": 65536}));
    let columns = &profile.columns;
    let reads: u64 = (0..columns.len())
        .filter(|row| profile.metadata.objects[columns.object[*row] as usize].name == "energies")
        .map(|row| {
            assert_eq!(columns.class[row], 0, "each step depends on the one before");
            u64::from(columns.reads[row])
        })
        .sum();
    // 1.36 million energies are 20.4 steps; the last 3 are within a line, and some of the first of 1024 cached lines.
    let found = reads as f64 / f64::from(lookups);
    assert!((8.0..14.0).contains(&found), "{found}");
}
