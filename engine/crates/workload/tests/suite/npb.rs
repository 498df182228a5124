//! The NAS-like kernels: FT against published checksums, and what LU and SP leave in memory.

use serde_json::{Value as Json, json};
use tiertune_workload::host::Host;
use tiertune_workload::{CarrySpec, Profile, RecordRequest, Values, kernels, record};

fn run(name: &str, json: &Json, threads: usize) -> Vec<(&'static str, f64)> {
    let kernel = kernels::find(name).unwrap();
    let values = Values::read(kernel.parameters, json.as_object().unwrap()).unwrap();
    let outcome = (kernel.native)(&mut Host::new(threads), &values, true);
    for check in &outcome.checks {
        assert!(check.passed, "{name}: {check:?}");
    }
    outcome.metrics
}

fn recorded(name: &str, mut json: Json) -> Profile {
    json["kernel"] = name.into();
    record(&RecordRequest::try_from(json).unwrap()).unwrap()
}

/// Lines read and written back of an object in a kind of phase, and the operations of the phase.
fn traffic(profile: &Profile, phase: &str, name: &str) -> (f64, f64, f64) {
    let (metadata, columns) = (&profile.metadata, &profile.columns);
    let mut sums = (0.0, 0.0, 0.0);
    for row in 0..columns.len() {
        let slice = &metadata.slices[columns.slice[row] as usize];
        if slice.phase == phase && metadata.objects[columns.object[row] as usize].name == name {
            sums.0 += f64::from(columns.reads[row]);
            sums.1 += f64::from(columns.writebacks[row]);
        }
    }
    sums.2 = metadata
        .slices
        .iter()
        .filter(|slice| slice.phase == phase)
        .map(|slice| slice.ops as f64)
        .sum();
    sums
}

/// Lines that an object's reads in a kind of phase wait for, of those that they fetch.
fn waited_for(profile: &Profile, phase: &str, name: &str) -> f64 {
    let (metadata, columns) = (&profile.metadata, &profile.columns);
    let here = |row: &usize| {
        let slice = &metadata.slices[columns.slice[*row] as usize];
        slice.phase == phase && metadata.objects[columns.object[*row] as usize].name == name
    };
    let rows: Vec<usize> = (0..columns.len()).filter(here).collect();
    let sum = |column: &[u32]| rows.iter().map(|row| f64::from(column[*row])).sum::<f64>();
    1.0 - sum(&columns.prefetched) / sum(&columns.reads)
}

#[test]
fn the_first_line_of_a_piece_of_a_row_is_not_fetched_ahead() {
    let profile = recorded(
        "npb_ft",
        json!({"nx": 64, "ny": 64, "nz": 64, "iterations": 1, "llc_bytes": 65_536}),
    );
    // Pieces of 16 points are four lines, pages 64.
    for (phase, lines) in [("fft x", 64.0), ("fft y", 4.0), ("fft z", 4.0)] {
        let share = waited_for(&profile, phase, "u1");
        assert!((share * lines - 1.0).abs() < 0.02, "{phase}: {share}");
    }
}

#[test]
fn ft_sets_its_arrays_side_by_side() {
    let profile = recorded(
        "npb_ft",
        json!({"nx": 32, "ny": 32, "nz": 32, "iterations": 1, "llc_bytes": 65_536}),
    );
    let replay = profile.carry(&CarrySpec::new(2 << 20)).unwrap();
    assert!(replay.objects.iter().all(|object| object.side_by_side));
}

#[test]
fn ft_prints_the_checksums_of_class_s() {
    // 64 x 64 x 64 points and 6 iterations, as NAS publishes them for verification.
    let published = [
        (554.608_700_496_4, 484.536_333_197_8),
        (554.638_540_918_9, 486.530_426_951_1),
        (554.614_840_617_1, 488.391_072_233_6),
        (554.542_360_741_5, 490.127_316_904_6),
        (554.425_503_962_4, 491.747_585_799_3),
        (554.268_341_190_2, 493.259_724_494_1),
    ];
    for (iterations, expected) in published.into_iter().enumerate() {
        let json = json!({"nx": 64, "ny": 64, "nz": 64, "iterations": iterations + 1});
        let metrics = run("npb_ft", &json, 2);
        assert!((metrics[0].1 / expected.0 - 1.0).abs() < 1e-10, "{metrics:?}");
        assert!((metrics[1].1 / expected.1 - 1.0).abs() < 1e-10, "{metrics:?}");
    }
}

#[test]
fn ft_passes_read_and_write_every_line_once() {
    // Blocks of columns along y and z fit the cache, the grid does not.
    let profile = recorded(
        "npb_ft",
        json!({"nx": 64, "ny": 64, "nz": 64, "iterations": 2, "llc_bytes": 65536}),
    );
    let off = |phase, name, bytes_read: f64, bytes_written: f64| {
        let (reads, writebacks, points) = traffic(&profile, phase, name);
        for (found, expected) in [(reads, bytes_read), (writebacks, bytes_written)] {
            let bytes = found * 64.0 / points;
            assert!(
                (bytes - expected).abs() < 0.06 * 16.0,
                "{phase} {name}: {bytes} bytes a point"
            );
        }
    };
    for phase in ["fft x", "fft y", "fft z"] {
        // The first of three transforms along z reads one array and writes the other, the next two work in place.
        let (u1_written, u0) = if phase == "fft z" {
            (16.0 * 2.0 / 3.0, 16.0 / 3.0)
        } else {
            (16.0, 0.0)
        };
        off(phase, "u1", 16.0, u1_written);
        off(phase, "u0", u0, u0);
    }
    off("evolve", "u0", 16.0, 16.0);
    off("evolve", "u1", 16.0, 16.0);
    off("evolve", "twiddle", 8.0, 0.0);
}

#[test]
fn lu_sweeps_go_through_the_planes_and_back() {
    let profile = recorded("npb_lu", json!({"edge": 48, "iterations": 2, "llc_bytes": 65536}));
    let (metadata, columns) = (&profile.metadata, &profile.columns);
    let rsd = metadata.objects.iter().position(|object| object.name == "rsd").unwrap();
    let pages = f64::from(metadata.objects[rsd].pages());
    for (phase, down) in [("lower", true), ("upper", false)] {
        // Mean page of each slice of the first sweep, in order.
        let first = metadata.slices.iter().position(|slice| slice.phase == phase).unwrap();
        let slices = metadata.slices[first..]
            .iter()
            .take_while(|slice| slice.phase == phase)
            .count();
        assert!(slices > 3);
        let places: Vec<f64> = (first..first + slices)
            .map(|slice| {
                let (mut sum, mut weight, mut least, mut most) = (0.0, 0.0, pages, 0f64);
                for row in (0..columns.len())
                    .filter(|row| columns.slice[*row] as usize == slice && columns.object[*row] as usize == rsd)
                    .filter(|row| columns.reads[*row] > 0)
                {
                    let (page, reads) = (f64::from(columns.page[row]), f64::from(columns.reads[row]));
                    sum += page * reads;
                    weight += reads;
                    (least, most) = (least.min(page), most.max(page));
                }
                // A window of planes moves: what a slice covers, and the wave of 8 planes before it.
                assert!(
                    (most - least) / pages < 1.5 / slices as f64 + 10.0 / 48.0,
                    "{phase}: {least} to {most}"
                );
                sum / weight
            })
            .collect();
        let mut ordered = places.clone();
        ordered.sort_by(|a, b| if down { a.total_cmp(b) } else { b.total_cmp(a) });
        assert_eq!(places, ordered, "{phase}");
    }
    // Of every point a sweep reads five unknowns and two scalars, and writes the unknowns back.
    for phase in ["lower", "upper"] {
        let points = |name, read, written: f64| {
            let (reads, writebacks, points) = traffic(&profile, phase, name);
            let boundary = (48f64 / 46.0).powi(3);
            let (read_found, written_found) = (reads * 64.0 / points / boundary, writebacks * 64.0 / points / boundary);
            // The wave reads the plane behind once more, as far as the cache does not hold 8 planes.
            assert!(
                (0.9 * read..2.2 * read + 0.5).contains(&read_found),
                "{phase} {name}: {read_found} bytes read a point"
            );
            assert!(
                (written_found - written).abs() < 0.1 * written + 0.5,
                "{phase} {name}: {written_found} written"
            );
        };
        points("rsd", 40.0, 40.0);
        points("qs", 8.0, 0.0);
        points("rho_i", 8.0, 0.0);
        points("u", 0.0, 0.0);
    }
}

#[test]
fn sp_solves_touch_all_points_once_and_alike() {
    let profile = recorded("npb_sp", json!({"edge": 48, "iterations": 2, "llc_bytes": 65536}));
    let boundary = (48f64 / 46.0).powi(3);
    for (phase, velocity) in [("y solve", "vs"), ("z solve", "ws")] {
        for (name, read, written) in [
            ("rhs", 40.0, 40.0),
            (velocity, 8.0, 0.0),
            ("rho_i", 8.0, 0.0),
            ("u", 0.0, 0.0),
        ] {
            let (reads, writebacks, points) = traffic(&profile, phase, name);
            let (read_found, written_found) = (reads * 64.0 / points, writebacks * 64.0 / points);
            // Stretches of 16 points start within a line, of which the rest belongs to the stretch beside.
            assert!(
                (0.9 * read..1.3 * boundary * read + 4.0).contains(&read_found),
                "{phase} {name}: {read_found} bytes read a point"
            );
            assert!(
                (0.9 * written..1.3 * boundary * written + 0.5).contains(&written_found),
                "{phase} {name}: {written_found} bytes written"
            );
        }
    }
}

#[test]
fn papers_grids_take_what_they_report() {
    let bytes = |name: &str, json: Json| -> f64 {
        let kernel = kernels::find(name).unwrap();
        let values = Values::read(kernel.parameters, json.as_object().unwrap()).unwrap();
        (kernel.objects)(&values).iter().map(|object| object.bytes as f64).sum()
    };
    let gib = 2f64.powi(30);
    // Class D of FT is 80 GiB, class E of LU 134 GiB, classes D and E of SP 11 and 174 GiB.
    assert_eq!(bytes("npb_ft", json!({"nx": 2048, "ny": 1024, "nz": 1024})) / gib, 80.0);
    for (name, edge, expected) in [("npb_lu", 1020, 134.0), ("npb_sp", 408, 11.1), ("npb_sp", 1020, 174.0)] {
        let found = bytes(name, json!({ "edge": edge })) / gib;
        assert!((found / expected - 1.0).abs() < 0.01, "{name} {edge}: {found}");
    }
}
