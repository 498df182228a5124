//! How a graph comes into memory before its program runs.

use std::collections::BTreeMap;

use serde_json::json;
use tiertune_workload::carry::Replay;
use tiertune_workload::kernels::KERNELS;
use tiertune_workload::{CarrySpec, plan, record};

use crate::carrying::{check_shape, request, spec};

fn names(replay: &Replay) -> Vec<String> {
    replay.objects.iter().map(|o| o.name.clone()).collect()
}

#[test]
fn loading_says_in_which_order_a_graph_is_first_touched() {
    let kernel = json!({"kernel": "bc", "graph": "kron", "scale": 12, "degree": 8, "llc_bytes": 65536});
    let profile = record(&request(kernel.clone())).unwrap();
    let carried = |more: serde_json::Value| {
        let mut asked = json!({"page_bytes": 4096, "scale": 14});
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        profile.carry(&spec(asked)).unwrap()
    };
    let plain = carried(json!({}));
    let rest = names(&plain).split_off(2);
    for (loading, first, passing) in [
        ("serialized", vec!["offsets", "neighbours", "index"], 1),
        (
            "generated",
            vec!["squished_degrees", "offsets", "index", "neighbours"],
            2,
        ),
    ] {
        let replay = carried(json!({"loading": loading}));
        check_shape(&replay);
        let expected: Vec<String> = first
            .iter()
            .map(|name| (*name).to_owned())
            .chain(rest.clone())
            .collect();
        assert_eq!(names(&replay), expected);
        let freed: Vec<Option<usize>> = replay.objects.iter().map(|o| o.freed_after).collect();
        assert!(
            freed[..passing].iter().all(|after| *after == Some(first.len() - 1)),
            "{freed:?}"
        );
        assert!(freed[passing..].iter().all(Option::is_none), "{freed:?}");
        assert_eq!(replay.objects[passing - 1].bytes, 8 << 14);
        // Who is accessed how often is the same.
        let accessed = |replay: &Replay| -> BTreeMap<String, u64> {
            let mut reads = BTreeMap::new();
            for slice in &replay.slices {
                for stream in &slice.streams {
                    *reads.entry(replay.objects[stream.object].name.clone()).or_default() +=
                        (stream.reads_per_op * slice.ops) as u64;
                }
            }
            reads
        };
        assert_eq!(accessed(&replay), accessed(&plain));
    }
}

#[test]
fn every_program_of_gapbs_has_its_graph_first() {
    let gapbs: Vec<_> = KERNELS.iter().filter(|kernel| kernel.family == "gapbs").collect();
    assert!(gapbs.len() >= 7);
    for kernel in gapbs {
        let mut asked: serde_json::Value = serde_json::from_str(kernel.small).unwrap();
        asked["kernel"] = json!(kernel.name);
        asked["llc_bytes"] = json!(65536);
        let profile = record(&request(asked)).unwrap();
        let plain = names(&profile.carry(&spec(json!({"page_bytes": 4096}))).unwrap());
        for (loading, first) in [
            ("serialized", &["offsets", "neighbours", "index"][..]),
            ("read", &["offsets", "neighbours", "index"]),
            ("generated", &["squished_degrees", "offsets", "index", "neighbours"]),
        ] {
            let carried = profile.carry(&spec(json!({"page_bytes": 4096, "loading": loading})));
            let found = names(&carried.unwrap());
            let rest = plain
                .iter()
                .filter(|name| !["index", "neighbours"].contains(&name.as_str()));
            let expected: Vec<&str> = first.iter().copied().chain(rest.map(String::as_str)).collect();
            assert_eq!(found, expected, "{}", kernel.name);
        }
    }
}

#[test]
fn loading_is_for_programs_of_gapbs() {
    let refused =
        serde_json::from_value::<CarrySpec>(json!({"page_bytes": 4096, "loading": "serialised"})).unwrap_err();
    assert!(refused.to_string().contains("the nearest is serialized"), "{refused}");
    let asked = spec(json!({"page_bytes": 4096, "loading": "serialized"}));
    for kernel in [
        json!({"kernel": "gups", "table_bytes": 2_097_152, "hot_bytes": 262_144, "updates": 100_000, "llc_bytes": 65536}),
        json!({"kernel": "bfs500", "graph": "kron", "scale": 10, "roots": 1, "llc_bytes": 65536}),
    ] {
        let error = plan(&request(kernel), &asked, 1 << 20).unwrap_err();
        assert!(error.to_string().contains("is not; leave it out"), "{error}");
    }
}

#[test]
fn reading_a_graph_writes_each_of_its_arrays_once_before_the_run() {
    let kernel = json!({"kernel": "bc", "graph": "kron", "scale": 12, "degree": 8, "llc_bytes": 65536});
    let profile = record(&request(kernel)).unwrap();
    for (page_bytes, scale) in [(4096, 12), (4096, 16), (2 << 20, 20)] {
        let carried = |loading| {
            profile
                .carry(&spec(
                    json!({"page_bytes": page_bytes, "scale": scale, "loading": loading}),
                ))
                .unwrap()
        };
        let (placed, read) = (carried("serialized"), carried("read"));
        assert!(placed.loading.is_empty());
        check_shape(&Replay {
            slices: read.loading.clone(),
            ..read.clone()
        });
        // The run is the same, whatever was before it.
        assert_eq!((&read.slices, read.repeat), (&placed.slices, placed.repeat));
        assert!(read.objects.iter().all(|object| object.freed_after.is_none()));
        let mut written = BTreeMap::new();
        for slice in &read.loading {
            for stream in &slice.streams {
                *written.entry(names(&read)[stream.object].clone()).or_insert(0.0) +=
                    stream.writebacks_per_op * slice.ops * 64.0;
                assert!(slice.one_thread == (slice.phase == "read"), "{}", slice.phase);
                assert!(
                    stream.first_touch == (stream.writebacks_per_op > 0.0),
                    "pages come as they are written"
                );
                assert!(
                    slice.phase == "index" || stream.stores_per_op == 0.0,
                    "no sampler sees the kernel's stores"
                );
            }
        }
        for object in &read.objects[..3] {
            let (found, bytes) = (written.get(&object.name).copied().unwrap_or(0.0), object.bytes as f64);
            assert!(
                (found / bytes - 1.0).abs() < 1e-3,
                "{}: {found} of {bytes}",
                object.name
            );
        }
        // Everything comes before it is touched, and the offsets alone go.
        let mut there: Vec<usize> = vec![0];
        for slice in read.loading.iter().chain(&read.slices) {
            there.retain(|number| !slice.free.contains(number));
            there.extend(&slice.allocate);
            assert!(
                slice.streams.iter().all(|stream| there.contains(&stream.object)),
                "{}",
                slice.phase
            );
        }
        let freed: Vec<usize> = read.loading.iter().flat_map(|slice| slice.free.clone()).collect();
        assert_eq!(freed, [0]);
    }
}
