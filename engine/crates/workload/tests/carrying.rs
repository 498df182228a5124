//! What carrying must keep, and that a small recording carried up looks like a large recording.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;
use tiertune_workload::carry::Replay;
use tiertune_workload::graph::GraphKind;
use tiertune_workload::law::expected_edges;
use tiertune_workload::{CarrySpec, Profile, RecordRequest, plan, record};

fn request(value: serde_json::Value) -> RecordRequest {
    serde_json::from_value(value).unwrap()
}

fn spec(value: serde_json::Value) -> CarrySpec {
    serde_json::from_value(value).unwrap()
}

fn check_shape(replay: &Replay) {
    for slice in &replay.slices {
        assert!(slice.ops > 0.0 && slice.ops.is_finite() && slice.cpu_ns_per_op > 0.0);
        for stream in &slice.streams {
            let numbers = [
                stream.reads_per_op,
                stream.prefetched_share,
                stream.writebacks_per_op,
                stream.stores_per_op,
            ];
            assert!(numbers.iter().all(|number| number.is_finite() && *number >= 0.0));
            assert!(stream.prefetched_share <= 1.0);
            assert_eq!(stream.weights.len(), replay.objects[stream.object].bins as usize);
            assert!(stream.weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0));
            let sum: f64 = stream.weights.iter().map(|weight| f64::from(*weight)).sum();
            assert!((sum - 1.0).abs() < 1e-4, "{sum}");
        }
    }
    assert!(
        replay
            .objects
            .iter()
            .all(|object| (1..=8192).contains(&object.bins) && object.bytes > 0)
    );
    assert!(!replay.notes.is_empty());
}

fn totals(replay: &Replay) -> [f64; 3] {
    let mut totals = [0.0; 3];
    for slice in &replay.slices {
        for stream in &slice.streams {
            totals[0] += stream.reads_per_op * slice.ops;
            totals[1] += stream.writebacks_per_op * slice.ops;
            totals[2] += stream.stores_per_op * slice.ops;
        }
    }
    totals
}

fn check_totals(profile: &Profile, replay: &Replay, factor: f64) {
    let stores: u64 = profile.columns.stores.iter().map(|value| u64::from(*value)).sum();
    let expected = [profile.metadata.total_reads, profile.metadata.total_writebacks, stores];
    for (found, expected) in totals(replay).iter().zip(expected) {
        assert!(
            (found / factor / expected as f64 - 1.0).abs() < 1e-9,
            "{found} against {expected} times {factor}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]
    #[test]
    fn carrying_keeps_totals_and_makes_no_holes(
        kron in any::<bool>(), pr in any::<bool>(), scale in 10u32..13, up in 0u32..18, huge in any::<bool>(),
        llc_bytes in 512u64..50_000, seed in any::<u32>(),
    ) {
        let graph = if kron { "kron" } else { "uniform" };
        let kernel = if pr {
            json!({"kernel": "pr", "graph": graph, "scale": scale, "iterations": 2, "seed": seed, "llc_bytes": llc_bytes})
        } else {
            json!({"kernel": "bc", "graph": graph, "scale": scale, "seed": seed, "llc_bytes": llc_bytes})
        };
        let profile = record(&request(kernel)).unwrap();
        let page_bytes = if huge { 2 << 20 } else { 4096 };
        let replay = profile.carry(&spec(json!({"scale": scale + up, "page_bytes": page_bytes, "runs": 3}))).unwrap();
        check_shape(&replay);
        prop_assert_eq!(replay.repeat, 3);
        let edges = profile.metadata.graph.as_ref().unwrap().edges as f64;
        let kind = if kron { GraphKind::Kron } else { GraphKind::Uniform };
        let factor = if up == 0 { 1.0 } else { expected_edges(kind, scale + up, 16).round() / edges };
        check_totals(&profile, &replay, factor);
    }
}

#[test]
fn nothing_changes_at_the_recorded_size() {
    let profile = record(&request(
        json!({"kernel": "bc", "graph": "kron", "scale": 12, "llc_bytes": 4096}),
    ))
    .unwrap();
    let replay = profile.carry(&spec(json!({"page_bytes": 4096}))).unwrap();
    check_shape(&replay);
    check_totals(&profile, &replay, 1.0);
    assert_eq!(replay.footprint_bytes(), profile.footprint_bytes());
    assert_eq!(replay.slices.len(), profile.metadata.slices.len());
    let columns = &profile.columns;
    let mut sums: BTreeMap<(u32, u16, u8), f64> = BTreeMap::new();
    for row in 0..columns.len() {
        *sums
            .entry((columns.slice[row], columns.object[row], columns.class[row]))
            .or_default() += f64::from(columns.reads[row]);
    }
    let place = |object: u16| profile.metadata.objects[object as usize].touch_order as usize;
    let mut compared = 0;
    // The index ends with one entry on a page of its own, which counts to the page before.
    let last = |object: u16| profile.metadata.objects[object as usize].bytes / 4096 - 1;
    for row in (0..columns.len())
        .filter(|row| columns.reads[*row] > 0 && u64::from(columns.page[*row]) < last(columns.object[*row]))
    {
        let key = (columns.slice[row], columns.object[row], columns.class[row]);
        let stream = replay.slices[key.0 as usize]
            .streams
            .iter()
            .find(|stream| stream.object == place(key.1) && stream.class as u8 == key.2)
            .unwrap();
        let expected = f64::from(columns.reads[row]) / sums[&key];
        let found = f64::from(stream.weights[columns.page[row] as usize]);
        assert!((found - expected).abs() < 1e-6, "{found} against {expected}");
        compared += 1;
    }
    assert!(compared > 1000);
}

/// Run-wide statistics of one object as a replay has them.
struct Seen {
    reads_per_op: f64,
    /// Coefficient of variation between bins, reads averaged over the run.
    run_cv: f64,
    /// Squared variation between bins within a slice, read-weighted, streams of more than 20 reads a 4 KiB page.
    slice_cv2: f64,
}

fn seen(replay: &Replay, name: &str) -> Seen {
    let number = replay.objects.iter().position(|object| object.name == name).unwrap();
    let bins = replay.objects[number].bins as usize;
    let (mut run, mut cv2, mut cv2_weight) = (vec![0f64; bins], 0.0, 0.0);
    let cv2_of = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|value| (value / mean - 1.0).powi(2)).sum::<f64>() / values.len() as f64
    };
    for slice in &replay.slices {
        for stream in slice.streams.iter().filter(|stream| stream.object == number) {
            let reads = stream.reads_per_op * slice.ops;
            let weights: Vec<f64> = stream.weights.iter().map(|weight| f64::from(*weight)).collect();
            for (sum, weight) in run.iter_mut().zip(&weights) {
                *sum += reads * weight;
            }
            if reads > 20.0 * replay.objects[number].bytes as f64 / 4096.0 {
                cv2 += reads * cv2_of(&weights);
                cv2_weight += reads;
            }
        }
    }
    let ops: f64 = replay.slices.iter().map(|slice| slice.ops).sum();
    Seen {
        reads_per_op: run.iter().sum::<f64>() / ops,
        run_cv: cv2_of(&run).sqrt(),
        slice_cv2: cv2 / cv2_weight,
    }
}

#[test]
fn print_cross_scale() {
    for graph in ["kron", "uniform"] {
        for (kernel, key) in [("bc", "sources"), ("pr", "iterations")] {
            let make = |scale: u32| json!({"kernel": kernel, "graph": graph, "scale": scale, key: 2, "llc_bytes": 512});
            let big = 18;
            let small = 13;
            let llc = 1u64 << 17;
            let direct = record(&request(make(big)).with_llc_bytes(llc)).unwrap();
            let plan = plan(
                &request(make(small)),
                &spec(json!({"scale": big, "page_bytes": 4096})),
                llc,
            )
            .unwrap();
            let base = record(&request(make(small)).with_llc_bytes(plan.llc_bytes)).unwrap();
            for page in [4096, 16384] {
                let s = spec(json!({"scale": big, "page_bytes": page}));
                let (carried, truth, flat) = (
                    base.carry(&s).unwrap(),
                    direct.carry(&s).unwrap(),
                    base.carry(&spec(json!({"page_bytes": 4096}))).unwrap(),
                );
                for object in &truth.objects {
                    let (c, t, f) = (
                        seen(&carried, &object.name),
                        seen(&truth, &object.name),
                        seen(&flat, &object.name),
                    );
                    println!(
                        "{graph} {kernel} {page} {:13} reads/op {:.4} true {:.4}; run cv {:.4} true {:.4} (uncarried {:.4}); slice cv {:.4} true {:.4} (uncarried {:.4})",
                        object.name,
                        c.reads_per_op,
                        t.reads_per_op,
                        c.run_cv,
                        t.run_cv,
                        f.run_cv,
                        c.slice_cv2.sqrt(),
                        t.slice_cv2.sqrt(),
                        f.slice_cv2.sqrt()
                    );
                }
            }
        }
    }
}
