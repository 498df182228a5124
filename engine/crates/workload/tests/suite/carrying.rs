//! What carrying must keep, and that a small recording carried up looks like a large recording.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;
use tiertune_workload::carry::{Replay, ReplayObject, ReplayStream};
use tiertune_workload::graph::GraphKind;
use tiertune_workload::law::expected_edges;
use tiertune_workload::{AccessClass, CarrySpec, Profile, RecordRequest, ReplaySlice, plan, record};

pub fn request(value: serde_json::Value) -> RecordRequest {
    serde_json::from_value(value).unwrap()
}

pub fn spec(value: serde_json::Value) -> CarrySpec {
    serde_json::from_value(value).unwrap()
}

pub fn check_shape(replay: &Replay) {
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

/// Whether a stream's reads are corrected for skew when a Kronecker graph is carried.
fn follows_degrees(name: &str, class: AccessClass) -> bool {
    class == AccessClass::Gather && (name == "contributions" || name == "depths")
}

/// Totals grow by at least the first and at most the second factor; reads that follow degrees are left out if `skewed`.
fn check_totals(profile: &Profile, replay: &Replay, factors: (f64, f64), skewed: bool) {
    let columns = &profile.columns;
    let left_out = |row: usize| {
        let name = &profile.metadata.objects[columns.object[row] as usize].name;
        skewed && follows_degrees(name, AccessClass::ALL[columns.class[row] as usize])
    };
    let rows = || 0..columns.len();
    let gathered: u64 = rows()
        .filter(|row| left_out(*row))
        .map(|row| u64::from(columns.reads[row]))
        .sum();
    let stores: u64 = columns.stores.iter().map(|value| u64::from(*value)).sum();
    let expected = [
        profile.metadata.total_reads - gathered,
        profile.metadata.total_writebacks,
        stores,
    ];
    let mut found = totals(replay);
    for slice in &replay.slices {
        for stream in &slice.streams {
            if skewed && follows_degrees(&replay.objects[stream.object].name, stream.class) {
                found[0] -= stream.reads_per_op * slice.ops;
            }
        }
    }
    for (found, expected) in found.iter().zip(expected) {
        let growth = found / expected as f64;
        let (least, most) = (factors.0 * (1.0 - 1e-9), factors.1 * (1.0 + 1e-9));
        assert!(
            (least..=most).contains(&growth),
            "{found} against {expected} times {factors:?}"
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
        let vertices = f64::from(1u32 << up);
        check_totals(&profile, &replay, (factor.min(vertices), factor.max(vertices)), kron && up > 0);
    }
}

/// The last vertices of this graph have no edges, and a slice ends before them.
#[test]
fn slices_without_an_operation_keep_their_accesses() {
    let profile = record(&request(
        json!({"kernel": "pr", "graph": "kron", "scale": 12, "iterations": 2, "seed": 1_246_903_840, "llc_bytes": 512}),
    ))
    .unwrap();
    let empty = profile.metadata.slices.iter().filter(|slice| slice.ops == 0);
    assert!(empty.clone().count() > 0 && empty.clone().all(|slice| slice.accesses > 0));
    let replay = profile.carry(&spec(json!({"page_bytes": 4096}))).unwrap();
    check_shape(&replay);
    check_totals(&profile, &replay, (1.0, 1.0), false);
}

#[test]
fn nothing_changes_at_the_recorded_size() {
    let profile = record(&request(
        json!({"kernel": "bc", "graph": "kron", "scale": 12, "llc_bytes": 4096}),
    ))
    .unwrap();
    let replay = profile.carry(&spec(json!({"page_bytes": 4096}))).unwrap();
    check_shape(&replay);
    // Threads share the arrays of a graph.
    assert!(
        replay
            .slices
            .iter()
            .flat_map(|slice| &slice.streams)
            .all(|stream| !stream.partitioned)
    );
    check_totals(&profile, &replay, (1.0, 1.0), false);
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
    /// Coefficient of variation between bins, reads summed over the run.
    run_cv: f64,
}

fn seen(replay: &Replay, name: &str) -> Seen {
    let number = replay.objects.iter().position(|object| object.name == name).unwrap();
    let mut run = vec![0f64; replay.objects[number].bins as usize];
    for slice in &replay.slices {
        for stream in slice.streams.iter().filter(|stream| stream.object == number) {
            for (sum, weight) in run.iter_mut().zip(&stream.weights) {
                *sum += stream.reads_per_op * slice.ops * f64::from(*weight);
            }
        }
    }
    let ops: f64 = replay.slices.iter().map(|slice| slice.ops).sum();
    let mean = run.iter().sum::<f64>() / run.len() as f64;
    let cv2 = run.iter().map(|value| (value / mean - 1.0).powi(2)).sum::<f64>() / run.len() as f64;
    Seen {
        reads_per_op: run.iter().sum::<f64>() / ops,
        run_cv: cv2.sqrt(),
    }
}

/// Records at a small and at a large scale, carries the small recordings up, and compares averages over seeds.
struct Comparison {
    kernel: &'static str,
    graph: &'static str,
    rounds: u32,
    scales: (u32, u32),
    /// Objects that make up most of the memory traffic.
    objects: &'static [&'static str],
}

/// Averages over the seeds of logarithms of carried over truly recorded figures.
#[derive(Default)]
struct Distance {
    sums: BTreeMap<String, f64>,
    seeds: f64,
}

impl Distance {
    fn add(&mut self, what: String, found: f64, expected: f64) {
        *self.sums.entry(what).or_default() += (found / expected).ln();
    }

    fn factor(&self, what: &str) -> f64 {
        (self.sums[what] / self.seeds).exp()
    }
}

fn compare(case: &Comparison) -> Distance {
    let (small, large) = case.scales;
    let key = if case.kernel == "bc" { "sources" } else { "iterations" };
    let mut distance = Distance::default();
    for seed in 1..=3 {
        let make = |scale: u32| {
            request(
                json!({"kernel": case.kernel, "graph": case.graph, "scale": scale, key: case.rounds, "seed": seed,
                "llc_bytes": 512}),
            )
        };
        let large_llc = 1 << (large - 1);
        let up = spec(json!({"scale": large, "page_bytes": 4096}));
        let plan = plan(&make(small), &up, large_llc).unwrap();
        let truth = record(&make(large).with_llc_bytes(large_llc))
            .unwrap()
            .carry(&up)
            .unwrap();
        let base = record(&make(small).with_llc_bytes(plan.llc_bytes)).unwrap();
        let uncarried = base.carry(&spec(json!({"page_bytes": 4096}))).unwrap();
        let carried = base.carry(&up).unwrap();
        let ops = |replay: &Replay| replay.slices.iter().map(|slice| slice.ops).sum::<f64>();
        distance.seeds += 1.0;
        distance.add(
            "footprint".into(),
            carried.footprint_bytes() as f64,
            truth.footprint_bytes() as f64,
        );
        distance.add("work".into(), ops(&carried), ops(&truth));
        for (what, position) in [("reads", 0), ("write-backs", 1), ("stores", 2)] {
            distance.add(what.into(), totals(&carried)[position], totals(&truth)[position]);
        }
        for name in case.objects {
            let (carried, truth, uncarried) = (seen(&carried, name), seen(&truth, name), seen(&uncarried, name));
            assert!(truth.reads_per_op > 0.05, "{name} matters");
            distance.add(format!("{name} run"), carried.run_cv, truth.run_cv);
            distance.add(format!("{name} uncarried"), uncarried.run_cv, truth.run_cv);
        }
    }
    distance
}

#[test]
fn small_recordings_carried_up_look_like_large_recordings() {
    // Uniform graphs are compared five doublings apart, where their levels are filled alike.
    for case in [
        Comparison {
            kernel: "pr",
            graph: "kron",
            rounds: 2,
            scales: (13, 17),
            objects: &["contributions"],
        },
        Comparison {
            kernel: "bc",
            graph: "kron",
            rounds: 3,
            scales: (13, 17),
            objects: &["depths", "path_counts"],
        },
        Comparison {
            kernel: "pr",
            graph: "uniform",
            rounds: 2,
            scales: (11, 16),
            objects: &[],
        },
        Comparison {
            kernel: "bc",
            graph: "uniform",
            rounds: 3,
            scales: (11, 16),
            objects: &[],
        },
    ] {
        let distance = compare(&case);
        let within = |what: &str, most: f64| {
            let factor = distance.factor(what);
            let context = format!("{} {} {:?}", case.kernel, case.graph, case.scales);
            assert!(
                factor.ln().abs() < most.ln(),
                "{context}: {what} is carried to {factor} times what is recorded there"
            );
        };
        // Sizes and work follow from the generator's law.
        within("footprint", 1.005);
        within("work", 1.02);
        // The scaled cache keeps traffic per operation, to about a tenth.
        for what in ["reads", "write-backs", "stores"] {
            within(what, 1.15);
        }
        // Recorded pages are only 8 here; a page-to-page map is off by 1.3 to 1.8 in these cases.
        for name in case.objects {
            within(&format!("{name} run"), 1.3);
            let off = |what: &str| distance.factor(&format!("{name} {what}")).ln().abs();
            assert!(off("run") < 0.6 * off("uncarried"), "{} {name}", case.kernel);
        }
    }
}

/// Reads for each edge by the gathers that follow degrees, over the phases that do them.
fn gathered_per_edge(replay: &Replay) -> f64 {
    let (mut reads, mut edges) = (0.0, 0.0);
    for slice in &replay.slices {
        if slice.phase.starts_with("iteration") || slice.phase.starts_with("forward") {
            edges += slice.ops;
            for stream in &slice.streams {
                if follows_degrees(&replay.objects[stream.object].name, stream.class) {
                    reads += slice.ops * stream.reads_per_op;
                }
            }
        }
    }
    reads / edges
}

#[test]
fn gathers_of_a_skewed_graph_miss_as_they_do_at_the_larger_scale() {
    // The last figure is the part of the error that may be left: the model is not exact for caches of a few dozen lines.
    for (kernel, rounds, small, large, llc_bytes, left) in [
        ("pr", "iterations", 13, 18, 1u64 << 17, 0.6),
        ("pr", "iterations", 11, 16, 1 << 15, 0.3),
        ("pr", "iterations", 14, 17, 1 << 12, 0.3),
        ("bc", "sources", 11, 16, 1 << 15, 0.3),
    ] {
        let (mut kept, mut corrected, seeds) = (0.0, 0.0, 2);
        for seed in 1..=seeds {
            let make = |scale: u32| {
                request(
                    json!({"kernel": kernel, "graph": "kron", "scale": scale, rounds: 2, "seed": seed, "llc_bytes": 512}),
                )
            };
            let up = spec(json!({"scale": large, "page_bytes": 4096}));
            let plan = plan(&make(small), &up, llc_bytes).unwrap();
            let truth = record(&make(large).with_llc_bytes(llc_bytes))
                .unwrap()
                .carry(&up)
                .unwrap();
            let base = record(&make(small).with_llc_bytes(plan.llc_bytes)).unwrap();
            let uncarried = base.carry(&spec(json!({"page_bytes": 4096}))).unwrap();
            let carried = base.carry(&up).unwrap();
            let per_edge = gathered_per_edge(&truth);
            kept += (gathered_per_edge(&uncarried) / per_edge).ln() / f64::from(seeds);
            corrected += (gathered_per_edge(&carried) / per_edge).ln() / f64::from(seeds);
            assert!(
                carried.notes.iter().any(|note| note.contains("gathers read")),
                "{:?}",
                carried.notes
            );
        }
        println!("{kernel} {small} -> {large}: kept {kept:+.3}, corrected {corrected:+.3}");
        assert!(
            kept.abs() > 0.03,
            "{kernel} {small} -> {large}: nothing to correct, {kept}"
        );
        assert!(
            corrected.abs() < left * kept.abs() && corrected.abs() < 0.05,
            "{kernel} {small} -> {large}: {corrected} left of {kept}"
        );
    }
}

/// Computing for each edge and lines that it reads in sequence, where triangles are counted.
fn merged_per_edge(replay: &Replay) -> (f64, f64) {
    let inside = || replay.slices.iter().filter(|slice| slice.phase == "count");
    let edges: f64 = inside().map(|slice| slice.ops).sum();
    let computing: f64 = inside().map(|slice| slice.ops * slice.cpu_ns_per_op).sum();
    let reads: f64 = inside()
        .flat_map(|slice| slice.streams.iter().map(|stream| (slice.ops, stream)))
        .filter(|(_, stream)| stream.class == AccessClass::Stream)
        .map(|(ops, stream)| ops * stream.reads_per_op)
        .sum();
    (computing / edges, reads / edges)
}

#[test]
fn lists_that_are_merged_are_as_long_as_at_the_larger_scale() {
    for (graph, small, large) in [
        ("twitter", 12, 16),
        ("twitter", 14, 17),
        ("kron", 12, 16),
        ("kron", 14, 17),
    ] {
        let make = |scale: u32| request(json!({"kernel": "tc", "graph": graph, "scale": scale, "llc_bytes": 512}));
        let up = spec(json!({"scale": large, "page_bytes": 4096}));
        let llc_bytes = 1 << (large + 1);
        let truth = record(&make(large).with_llc_bytes(llc_bytes))
            .unwrap()
            .carry(&up)
            .unwrap();
        let plan = plan(&make(small), &up, llc_bytes).unwrap();
        let base = record(&make(small).with_llc_bytes(plan.llc_bytes)).unwrap();
        let kept = merged_per_edge(&base.carry(&spec(json!({"page_bytes": 4096}))).unwrap());
        let (carried, expected) = (merged_per_edge(&base.carry(&up).unwrap()), merged_per_edge(&truth));
        println!("{graph} {small} -> {large}: kept {kept:.3?}, carried {carried:.3?}, recorded {expected:.3?}");
        assert!((carried.0 / expected.0).ln().abs() < 0.05, "computing");
        let left = (carried.1 / expected.1).ln();
        // Of a Twitter-like graph of 2^16 vertices a cache holds more of the longest lists than of one of 2^12, which is not
        // modelled: 10 % too many are carried there, less from 2^14 on.
        if (graph, small) != ("twitter", 12) {
            assert!(left.abs() < 0.05, "{left} of lines in sequence");
        }
        let least = 1.2f64.powi((large - small) as i32);
        assert!(
            expected.0 > least * kept.0 && expected.1 > least * kept.1,
            "nothing to carry"
        );
    }
}

#[test]
fn traffic_grows_with_edges_or_with_vertices() {
    let cases = [
        ("pr", AccessClass::Gather, "contributions", true),
        ("pr", AccessClass::Stream, "contributions", false),
        ("pr", AccessClass::Stream, "neighbours", true),
        ("pr", AccessClass::Stream, "scores", false),
        ("bc", AccessClass::Gather, "depths", true),
        ("bc", AccessClass::Stream, "depths", false),
        ("bc", AccessClass::Lookup, "index", false),
        ("bc", AccessClass::Lookup, "neighbours", false),
        ("bc", AccessClass::Stream, "neighbours", true),
        ("bc", AccessClass::Stream, "successors", true),
        ("bc", AccessClass::Stream, "queue", false),
    ];
    // In a Kronecker graph, gathers that follow degrees are corrected for skew on top: theirs is held in a uniform graph.
    for (kernel, graph) in [("pr", "kron"), ("bc", "kron"), ("pr", "uniform"), ("bc", "uniform")] {
        let (kind, is_kron) = if graph == "kron" {
            (GraphKind::Kron, true)
        } else {
            (GraphKind::Uniform, false)
        };
        let rounds = if kernel == "pr" { "iterations" } else { "sources" };
        let value = json!({"kernel": kernel, "graph": graph, "scale": 11, rounds: 1, "llc_bytes": 4096});
        let profile = record(&request(value)).unwrap();
        let here = profile.carry(&spec(json!({"page_bytes": 4096}))).unwrap();
        let up = profile.carry(&spec(json!({"scale": 29, "page_bytes": 4096}))).unwrap();
        let edges = expected_edges(kind, 29, 16) / profile.metadata.graph.as_ref().unwrap().edges as f64;
        let held = |name: &str, class: AccessClass| !(is_kron && follows_degrees(name, class));
        for (_, class, name, by_edges) in cases.iter().filter(|case| case.0 == kernel && held(case.2, case.1)) {
            let reads = |replay: &Replay| -> f64 {
                let of_stream = |slice: &ReplaySlice| {
                    let streams = slice.streams.iter();
                    let mine = streams.filter(|s| s.class == *class && replay.objects[s.object].name == *name);
                    slice.ops * mine.map(|stream| stream.reads_per_op).sum::<f64>()
                };
                replay.slices.iter().map(of_stream).sum()
            };
            let growth = reads(&up) / reads(&here);
            let expected = if *by_edges { edges } else { f64::from(1 << 18) };
            assert!(
                (growth / expected - 1.0).abs() < 1e-6,
                "{kernel} {graph} {name} {class:?}: {growth} against {expected}"
            );
        }
    }
}

#[test]
fn larger_pages_average_as_they_do_in_a_recording() {
    // Page size alone, at one scale: vertex arrays by the law of independent elements.
    let profile = record(&request(
        json!({"kernel": "pr", "graph": "kron", "scale": 18, "iterations": 1, "llc_bytes": 16384}),
    ))
    .unwrap();
    let columns = &profile.columns;
    let mut pages = vec![0f64; 256];
    for row in (0..columns.len()).filter(|row| columns.object[*row] == 3 && columns.class[*row] == 2) {
        pages[columns.page[row] as usize] += f64::from(columns.reads[row]);
    }
    for together in [1usize, 2, 4] {
        let sums: Vec<f64> = pages.chunks(together).map(|chunk| chunk.iter().sum()).collect();
        let mean = sums.iter().sum::<f64>() / sums.len() as f64;
        let direct = (sums.iter().map(|sum| (sum / mean - 1.0).powi(2)).sum::<f64>() / sums.len() as f64).sqrt();
        let replay = profile.carry(&spec(json!({"page_bytes": 4096 * together}))).unwrap();
        let carried = seen(&replay, "contributions").run_cv;
        assert!(
            (carried / direct - 1.0).abs() < 0.12,
            "{together} pages together: {carried} against {direct}"
        );
    }
}

#[test]
fn gups_is_carried_exactly() {
    let (table, hot, factor) = (16u64 << 20, 2u64 << 20, 64u64);
    let value = json!({"kernel": "gups", "table_bytes": table, "hot_bytes": hot, "updates": 4_000_000,
        "moves": [{"at_update": 1_000_000}, {"at_update": 3_000_000, "share": 0.5}], "threads": 4, "llc_bytes": 8192});
    let profile = record(&request(value)).unwrap();
    let replay = profile
        .carry(&spec(json!({"table_bytes": table * factor, "page_bytes": 2 << 20})))
        .unwrap();
    check_shape(&replay);
    check_totals(&profile, &replay, (factor as f64, factor as f64), false);
    assert_eq!(replay.footprint_bytes(), table * factor);
    let ops: Vec<f64> = replay.slices.iter().map(|slice| slice.ops / factor as f64).collect();
    assert_eq!(ops, [1e6, 2e6, 1e6]);
    let pages = (table * factor / (2 << 20)) as usize;
    assert_eq!(replay.objects[0].bins as usize, pages);
    let (region, hot_pages) = (pages / 4, (hot * factor / (2 << 20)) as usize / 4);
    for (slice, start) in replay.slices.iter().zip([0.0, 0.25, 0.75]) {
        let weights = &slice.streams[0].weights;
        let start = (start * hot_pages as f64) as usize;
        let sum = |range: std::ops::Range<usize>| {
            (0..4)
                .map(|thread| {
                    weights[thread * region..][range.clone()]
                        .iter()
                        .map(|w| f64::from(*w))
                        .sum::<f64>()
                })
                .sum::<f64>()
        };
        assert!(slice.streams[0].partitioned);
        // The regions are equal parts in thread order, each with a quarter of the accesses and of the hot ones.
        for thread in 0..4 {
            let own = &weights[thread * region..(thread + 1) * region];
            let part = |range: &[f32]| range.iter().map(|w| f64::from(*w)).sum::<f64>();
            assert!((part(own) - 0.25).abs() < 1e-5);
            assert!((part(&own[start..start + hot_pages]) / sum(start..start + hot_pages) - 0.25).abs() < 1e-5);
        }
        let (hot, all) = (sum(start..start + hot_pages), sum(0..region));
        assert!((all - 1.0).abs() < 1e-5);
        let ratio = (hot / hot_pages as f64) / ((all - hot) / (region - hot_pages) as f64);
        let expected = 1.0 + 9.0 * region as f64 / hot_pages as f64;
        assert!(
            (ratio / expected - 1.0).abs() < 0.02,
            "{}: {ratio} against {expected}",
            slice.phase
        );
    }
}

#[test]
fn the_cache_is_scaled_like_the_footprint() {
    let up = spec(json!({"table_bytes": 64u64 << 30, "page_bytes": 4096}));
    let gups = request(
        json!({"kernel": "gups", "table_bytes": 256 << 20, "hot_bytes": 32 << 20, "updates": 10, "llc_bytes": 512}),
    );
    let found = plan(&gups, &up, 14 << 20).unwrap();
    assert_eq!((found.carried_bytes, found.llc_bytes), (64 << 30, (14 << 20) / 256));
    let bc = request(json!({"kernel": "bc", "graph": "kron", "scale": 18, "llc_bytes": 512}));
    let found = plan(&bc, &spec(json!({"scale": 29, "page_bytes": 4096})), 14_417_920).unwrap();
    let share = found.recorded_bytes as f64 / found.carried_bytes as f64;
    assert!((found.llc_bytes as f64 / (14_417_920.0 * share) - 1.0).abs() < 1e-3);
    // The paper's resident set at scale 29 is 78 GiB.
    assert!(
        (found.carried_bytes as f64 / 1024f64.powi(3) / 78.13 - 1.0).abs() < 0.05,
        "{}",
        found.carried_bytes
    );
    let profile = record(&bc).unwrap();
    let replay = profile
        .carry(&spec(json!({"scale": 29, "page_bytes": 2 << 20})))
        .unwrap();
    assert_eq!(replay.footprint_bytes(), found.carried_bytes);
    assert!((profile.footprint_bytes() as f64 / found.recorded_bytes as f64 - 1.0).abs() < 0.005);
}

#[test]
fn bad_carry_requests_are_answered_with_a_sentence() {
    let graph = record(&request(
        json!({"kernel": "bc", "graph": "kron", "scale": 10, "llc_bytes": 4096}),
    ))
    .unwrap();
    let table = record(&request(
        json!({"kernel": "gups", "table_bytes": 1 << 22, "hot_bytes": 1 << 19, "updates": 1000, "llc_bytes": 4096}),
    ))
    .unwrap();
    for (profile, carry, expected) in [
        (
            &graph,
            json!({"scale": 9, "page_bytes": 4096}),
            "carry.scale is 9, it must be from 10 (the recorded scale) to 36; the nearest is 10",
        ),
        (
            &graph,
            json!({"page_bytes": 5000}),
            "page_bytes is 5000, it must be a power of two from 4096; the nearest is 8192",
        ),
        (
            &graph,
            json!({"page_bytes": 4096, "runs": 0}),
            "carry.runs is 0, it must be at least 1",
        ),
        (
            &graph,
            json!({"page_bytes": 4096, "table_bytes": 1}),
            "carry.table_bytes belongs to gups, gups_objects, but the recorded kernel is bc",
        ),
        (
            &table,
            json!({"page_bytes": 4096, "scale": 20}),
            "carry.scale belongs to the graph kernels, but the recorded kernel is gups",
        ),
        (
            &table,
            json!({"page_bytes": 4096, "table_bytes": 1 << 23, "hot_bytes": 1 << 19}),
            "carry.hot_bytes is 524288, but the recorded hot part is 524288 of 4194304 bytes and its share is kept; the nearest is \
             1048576",
        ),
        (
            &table,
            json!({"page_bytes": 4096, "table_bytes": 1 << 20}),
            "carry.table_bytes is 1048576, less than the 4194304 bytes that were recorded; the nearest is 4194304",
        ),
    ] {
        assert_eq!(profile.carry(&spec(carry)).unwrap_err().to_string(), expected);
    }
    assert!(serde_json::from_value::<CarrySpec>(json!({"page_bytes": 4096, "scael": 3})).is_err());
}

/// Sources of a Kronecker graph differ by up to three times in how many edges lead one level further.
#[test]
fn notes_say_how_typical_the_recorded_sources_are() {
    let carried = |graph: &str, seed: u64, sources: u32| {
        let kernel =
            json!({"kernel": "bc", "graph": graph, "scale": 12, "seed": seed, "sources": sources, "llc_bytes": 4096});
        let profile = record(&request(kernel)).unwrap();
        let notes = profile
            .carry(&spec(json!({"scale": 22, "page_bytes": 4096})))
            .unwrap()
            .notes;
        let note = notes
            .into_iter()
            .find(|note| note.contains("one level further"))
            .unwrap();
        let figures: Vec<f64> = note
            .split(' ')
            .zip(note.split(' ').skip(1))
            .filter(|(_, unit)| *unit == "%")
            .map(|(figure, _)| figure.parse().unwrap())
            .collect();
        (figures[0] / figures[1], note.contains("more typical"))
    };
    // Uniform graphs of 2^12 and 2^22 vertices fill their levels alike, and their sources are alike.
    let (ratio, warned) = carried("uniform", 1, 8);
    assert!((0.85..1.15).contains(&ratio), "{ratio}");
    assert_eq!(warned, !(0.9..1.1).contains(&ratio));
    let ratios: Vec<(f64, bool)> = (1..9).map(|seed| carried("kron", seed, 1)).collect();
    assert!(
        ratios
            .iter()
            .all(|(ratio, warned)| *warned != (0.9..1.1).contains(ratio)),
        "{ratios:?}"
    );
    let spread = |pick: fn(f64, f64) -> f64| ratios.iter().map(|(ratio, _)| *ratio).reduce(pick).unwrap();
    assert!(spread(f64::max) > 1.5 * spread(f64::min), "{ratios:?}");
}

/// Ids of the Twitter-like graph say how popular a vertex is, but which lists of a level come when is chance there, too.
#[test]
fn lists_of_a_level_come_by_chance_in_every_graph() {
    for graph in ["uniform", "kron", "twitter"] {
        let profile = record(&request(
            json!({"kernel": "bc", "graph": graph, "scale": 14, "llc_bytes": 4096}),
        ))
        .unwrap();
        let number = |replay: &Replay| {
            let named = |object: &ReplayObject| object.name == "neighbours";
            replay.objects.iter().position(named).unwrap()
        };
        // How far slices side by side of a phase differ in the pages whose lists they find.
        let apart = |replay: &Replay| -> f64 {
            let object = number(replay);
            let of = |slice: &ReplaySlice| {
                let lookups = |stream: &&ReplayStream| stream.object == object && stream.class == AccessClass::Lookup;
                slice.streams.iter().find(lookups).map(|stream| stream.weights.clone())
            };
            let pairs = replay.slices.windows(2).filter(|pair| pair[0].phase == pair[1].phase);
            let differences = pairs.filter_map(|pair| {
                let (one, other) = (of(&pair[0])?, of(&pair[1])?);
                Some(
                    one.iter()
                        .zip(&other)
                        .map(|(a, b)| f64::from((a - b).abs()))
                        .sum::<f64>(),
                )
            });
            let all: Vec<f64> = differences.collect();
            assert!(all.len() > 4, "{graph}: {}", all.len());
            all.iter().sum::<f64>() / all.len() as f64
        };
        let here = profile.carry(&spec(json!({"page_bytes": 4096}))).unwrap();
        let up = profile.carry(&spec(json!({"scale": 18, "page_bytes": 4096}))).unwrap();
        let (recorded, carried) = (apart(&here), apart(&up));
        println!("{graph}: slices are {recorded:.3} apart as recorded, {carried:.3} carried");
        assert!(carried < 0.75 * recorded, "{graph}: {carried} of {recorded}");
    }
}
