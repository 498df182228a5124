//! What a recorded profile must hold.

use proptest::prelude::*;
use serde_json::json;
use tiertune_workload::graph::GraphKind;
use tiertune_workload::kernels::{bc, graph_bytes};
use tiertune_workload::law::expected_degree_cv2;
use tiertune_workload::profile::{PAGE_BYTES, SliceInfo};
use tiertune_workload::{AccessClass, CarrySpec, Columns, Profile, RecordRequest, record};

fn request(value: serde_json::Value) -> RecordRequest {
    serde_json::from_value(value).unwrap()
}

fn sum(column: &[u32]) -> u64 {
    column.iter().map(|value| u64::from(*value)).sum()
}

fn check_conservation(profile: &Profile) {
    let columns = &profile.columns;
    assert_eq!(sum(&columns.reads), profile.metadata.total_reads);
    assert_eq!(sum(&columns.writebacks), profile.metadata.total_writebacks);
    assert!(sum(&columns.touches) >= sum(&columns.reads));
    let accesses: u64 = profile.metadata.slices.iter().map(|slice| slice.accesses).sum();
    assert!(sum(&columns.touches) + sum(&columns.stores) <= 2 * accesses);
    for row in 0..columns.len() {
        assert!(columns.prefetched[row] <= columns.reads[row] && columns.reads[row] <= columns.touches[row]);
        assert!(
            columns.touches[row] + columns.stores[row] + columns.writebacks[row] > 0,
            "only rows with something"
        );
    }
    // Goes through the same checks as a stored profile: sorted, in range.
    let again = Profile::from_parts(&profile.metadata_json(), columns.clone()).unwrap();
    assert_eq!(&again, profile);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn rows_hold_exactly_what_the_cache_model_counted(
        kron in any::<bool>(), pr in any::<bool>(), scale in 10u32..13, degree in 2u32..20, rounds in 1u32..4,
        llc_bytes in 512u64..100_000, seed in any::<u32>(),
    ) {
        let graph = if kron { "kron" } else { "uniform" };
        let request = if pr {
            request(json!({"kernel": "pr", "graph": graph, "scale": scale, "degree": degree, "iterations": rounds,
                "seed": seed, "llc_bytes": llc_bytes}))
        } else {
            request(json!({"kernel": "bc", "graph": graph, "scale": scale, "degree": degree, "sources": rounds,
                "seed": seed, "llc_bytes": llc_bytes}))
        };
        check_conservation(&record(&request).unwrap());
    }
}

#[test]
fn equal_requests_give_equal_profiles() {
    let make = |seed: u64| {
        record(&request(
            json!({"kernel": "bc", "graph": "kron", "scale": 11, "seed": seed, "llc_bytes": 4096}),
        ))
        .unwrap()
    };
    assert_eq!(make(1), make(1));
    assert_ne!(make(1).columns, make(2).columns);
    let gups = |seed: u64| {
        let value = json!({"kernel": "gups", "table_bytes": 1 << 22, "hot_bytes": 1 << 19, "updates": 300_000, "moves": 2,
            "seed": seed, "llc_bytes": 4096});
        record(&request(value)).unwrap()
    };
    assert_eq!(gups(1), gups(1));
    assert_ne!(gups(1).columns, gups(2).columns);
}

#[test]
fn objects_have_the_sizes_of_the_published_table() {
    // Soar's table 2, bc-urand: 2^27 vertices, 2^32 stored edges, sizes in GB.
    let published = [
        ("index", 1.07),
        ("neighbours", 17.18),
        ("scores", 0.54),
        ("path_counts", 1.07),
        ("successors", 0.54),
        ("queue", 0.54),
        ("depths", 0.54),
        ("deltas", 0.54),
    ];
    for (object, (name, gigabytes)) in bc::OBJECTS.iter().zip(published) {
        assert_eq!(object.name, name);
        let bytes = (object.bytes)(1 << 27, 1 << 32) as f64;
        assert!((bytes / 1e9 - gigabytes).abs() < 0.005, "{name}: {bytes}");
    }
    assert!((graph_bytes(&bc::OBJECTS, 1 << 27, 1 << 32) as f64 / 1e9 - 22.0).abs() < 0.1);
}

#[test]
fn slices_follow_levels_and_count_every_edge_twice() {
    let profile = record(&request(
        json!({"kernel": "bc", "graph": "kron", "scale": 14, "sources": 2, "llc_bytes": 8192}),
    ))
    .unwrap();
    let slices = &profile.metadata.slices;
    assert!((64..=160).contains(&slices.len()), "{}", slices.len());
    let mut phases: Vec<&str> = slices.iter().map(|slice| slice.phase.as_str()).collect();
    phases.dedup();
    assert_eq!(phases[..2], ["clear", "forward 1"]);
    assert_eq!(phases.last(), Some(&"normalise"));
    assert_eq!(
        phases.iter().filter(|phase| **phase == "clear").count(),
        4,
        "before and between the passes of 2 sources"
    );
    let edges = |start: &str| -> u64 {
        slices
            .iter()
            .filter(|slice| slice.phase.starts_with(start))
            .map(|slice| slice.ops)
            .sum()
    };
    assert_eq!(
        edges("forward"),
        edges("backward"),
        "both passes walk the lists of all reached vertices"
    );
    let stored = profile.metadata.graph.as_ref().unwrap().edges;
    // Nearly all edges are in the component of the sources.
    assert!(edges("forward") as f64 > 1.98 * stored as f64 && edges("forward") <= 2 * stored);
    assert!(slices.iter().all(|slice| slice.ops > 0));
    // The graph is there before the run; the other objects follow as the run touches them.
    let mut objects: Vec<_> = profile.metadata.objects.iter().collect();
    objects.sort_by_key(|object| object.touch_order);
    let names: Vec<&str> = objects.iter().map(|object| object.name.as_str()).collect();
    let expected = [
        "index",
        "neighbours",
        "scores",
        "path_counts",
        "successors",
        "depths",
        "queue",
        "deltas",
    ];
    assert_eq!(names, expected);
    // Depths and deltas are allocated anew for each source, and never there together.
    let slice_of = |nth: usize| {
        let clears = slices.iter().enumerate().filter(|(_, slice)| slice.phase == "clear");
        clears.map(|(number, _)| number as u32).nth(nth)
    };
    let events = profile.metadata.events.iter();
    let events: Vec<_> = events.map(|e| (e.object.as_str(), e.freed, e.slice)).collect();
    let [first, second, third, fourth] = [0, 1, 2, 3].map(|nth| slice_of(nth).expect("a clear before every pass"));
    let end = slices.len() as u32 - 1;
    let expected = [
        ("depths", false, first),
        ("depths", true, second),
        ("deltas", false, second),
        ("deltas", true, third),
        ("depths", false, third),
        ("depths", true, fourth),
        ("deltas", false, fourth),
        ("deltas", true, end),
    ];
    assert_eq!(events, expected);
    let carried = profile
        .carry(&serde_json::from_value(json!({"page_bytes": 4096})).unwrap())
        .unwrap();
    let named = |numbers: &[usize]| -> Vec<&str> {
        numbers
            .iter()
            .map(|number| carried.objects[*number].name.as_str())
            .collect()
    };
    let carried_events = carried.slices.iter().zip(0..).flat_map(|(slice, number)| {
        let freed = named(&slice.free).into_iter().map(move |name| (name, true, number));
        freed.chain(
            named(&slice.allocate)
                .into_iter()
                .map(move |name| (name, false, number)),
        )
    });
    assert_eq!(carried_events.collect::<Vec<_>>(), expected_order(&expected));
}

/// Within a slice what goes comes first.
fn expected_order<'a>(events: &[(&'a str, bool, u32)]) -> Vec<(&'a str, bool, u32)> {
    let mut events = events.to_vec();
    events.sort_by_key(|(_, freed, slice)| (*slice, !freed));
    events
}

/// One thread loses no race, so each new vertex is one locked instruction, and each edge to the next level is two: its bit
/// and its paths. Paths miss nearly always in so small a cache, and so do depths before bits.
#[test]
fn locked_instructions_are_those_of_the_original_program() {
    let value = json!({"kernel": "bc", "graph": "uniform", "scale": 11, "degree": 8, "sources": 1, "llc_bytes": 4096});
    let profile = record(&request(value)).unwrap();
    let metadata = &profile.metadata;
    let stores = |name: &str, phase: &str, class: AccessClass| -> u64 {
        let columns = &profile.columns;
        let there = |row: &usize| {
            metadata.objects[columns.object[*row] as usize].name == name
                && metadata.slices[columns.slice[*row] as usize].phase.starts_with(phase)
                && columns.class[*row] == class as u8
        };
        let rows = (0..columns.len()).filter(there);
        rows.map(|row| u64::from(columns.stores[row])).sum()
    };
    let locked = |phase: &str| -> u64 {
        let slices = metadata.slices.iter().filter(|slice| slice.phase.starts_with(phase));
        slices.map(|slice| slice.locked).sum()
    };
    let paths = stores("path_counts", "forward", AccessClass::Update);
    let reached = stores("depths", "forward", AccessClass::Gather);
    assert!(paths > 2 * reached && reached > 1000);
    assert_eq!(locked("forward"), 2 * paths + reached);
    assert_eq!(locked("backward") + locked("clear"), 0);
    let behind = |count: fn(&SliceInfo) -> u64| -> u64 { metadata.slices.iter().map(count).sum() };
    let (behind_miss, behind_lookup) = (behind(|s| s.locked_behind_miss), behind(|s| s.locked_behind_lookup));
    // A new vertex' bit comes right after its depth, whose line is there.
    assert!(
        behind_miss <= 2 * paths && behind_miss as f64 > 1.7 * paths as f64,
        "{behind_miss} of {paths}"
    );
    // At most one a list.
    assert!(behind_lookup > 0 && behind_lookup <= 2048, "{behind_lookup}");
}

#[test]
fn gathers_in_a_kronecker_graph_vary_between_pages_as_degrees_do() {
    let (scale, seed) = (18, 3);
    let value = json!({"kernel": "pr", "graph": "kron", "scale": scale, "degree": 4, "iterations": 1, "seed": seed, "llc_bytes": 512});
    let profile = record(&request(value)).unwrap();
    let columns = &profile.columns;
    let contributions = profile
        .metadata
        .objects
        .iter()
        .position(|object| object.name == "contributions")
        .unwrap();
    let mut pages = vec![0f64; profile.metadata.objects[contributions].pages() as usize];
    for row in 0..columns.len() {
        if columns.object[row] as usize == contributions && columns.class[row] == AccessClass::Gather as u8 {
            pages[columns.page[row] as usize] += f64::from(columns.touches[row]);
        }
    }
    let mean = pages.iter().sum::<f64>() / pages.len() as f64;
    let cv = (pages.iter().map(|page| (page / mean - 1.0).powi(2)).sum::<f64>() / pages.len() as f64).sqrt();
    let elements = PAGE_BYTES as f64 / 4.0;
    let exact = (expected_degree_cv2(GraphKind::Kron, scale, 4) / elements).sqrt();
    assert!((cv / exact - 1.0).abs() < 0.15, "{cv} against {exact}");
    // The closed form without the removal of duplicates is an upper bound, near at this low degree.
    let closed = ((1.2704f64.powi(scale as i32) - 1.0) / elements).sqrt();
    assert!(cv < 1.1 * closed && cv > 0.75 * closed, "{cv} against {closed}");
}

#[test]
fn hot_pages_are_updated_more_by_the_published_ratio() {
    let (table, hot) = (64u64 << 20, 8u64 << 20);
    let value = json!({"kernel": "gups", "table_bytes": table, "hot_bytes": hot, "updates": 8_000_000, "threads": 4, "llc_bytes": 16384});
    let profile = record(&request(value)).unwrap();
    check_conservation(&profile);
    assert_eq!(profile.ops(), 8_000_000);
    assert_eq!(sum(&profile.columns.stores), 8_000_000, "one store for each update");
    let (region_pages, hot_pages) = (table / 4 / PAGE_BYTES, hot / 4 / PAGE_BYTES);
    let (mut in_hot, mut in_cold) = (0u64, 0u64);
    for row in 0..profile.columns.len() {
        let target = if u64::from(profile.columns.page[row]) % region_pages < hot_pages {
            &mut in_hot
        } else {
            &mut in_cold
        };
        *target += u64::from(profile.columns.stores[row]);
    }
    let ratio = (in_hot as f64 / hot_pages as f64) / (in_cold as f64 / (region_pages - hot_pages) as f64);
    let expected = 1.0 + 9.0 * table as f64 / hot as f64;
    assert!((ratio / expected - 1.0).abs() < 0.01, "{ratio} against {expected}");
    // Every update dirties the line that it fetched.
    let (reads, writebacks) = (
        profile.metadata.total_reads as f64,
        profile.metadata.total_writebacks as f64,
    );
    assert!(
        (writebacks / reads - 1.0).abs() < 0.001,
        "{reads} reads, {writebacks} write-backs"
    );
}

#[test]
fn sequential_reads_are_hidden_but_for_the_first_line_of_each_page() {
    let value = json!({"kernel": "pr", "graph": "uniform", "scale": 14, "iterations": 1, "llc_bytes": 8192});
    let profile = record(&request(value)).unwrap();
    let columns = &profile.columns;
    let (mut reads, mut hidden) = (0, 0);
    for row in (0..columns.len()).filter(|row| columns.object[*row] == 1) {
        reads += columns.reads[row];
        hidden += columns.prefetched[row];
    }
    let bytes = profile.metadata.objects[1].bytes;
    assert_eq!(u64::from(reads), bytes.div_ceil(64), "each line of the neighbours once");
    assert_eq!(
        u64::from(reads - hidden),
        bytes.div_ceil(PAGE_BYTES),
        "one demand miss a page"
    );
}

#[test]
fn bad_requests_are_answered_with_a_sentence() {
    let names: Vec<&str> = tiertune_workload::kernels::names().collect();
    let choices = format!("record.kernel is missing; choose one of {}", names.join(", "));
    for (value, expected) in [
        (
            json!({"kernel": "bcc"}),
            "record.kernel is bcc, which is not a kernel; the nearest is bc",
        ),
        (json!({"graph": "kron"}), choices.as_str()),
        (
            json!({"kernel": "bc", "graph": "kron", "sclae": 18, "llc_bytes": 512}),
            "record.sclae is not a key of the kernel bc; the nearest is scale",
        ),
        (
            json!({"kernel": "bc", "graph": "cron", "scale": 18, "llc_bytes": 512}),
            "record.graph is cron, which is not a kind of graph; the nearest is kron",
        ),
        (
            json!({"kernel": "pr", "graph": "kron", "scale": 29, "iterations": 2, "llc_bytes": 512}),
            "record.scale is 29, which would not fit in memory; the largest graph that is recorded has scale 24 \
             (carry.scale may be larger)",
        ),
        (
            json!({"kernel": "bc", "graph": "kron", "scale": 8, "llc_bytes": 512}),
            "record.scale is 8, it must be from 10 to 24; the nearest is 10",
        ),
        (
            json!({"kernel": "gups", "table_bytes": 1 << 22, "hot_bytes": 1 << 23, "updates": 5, "llc_bytes": 512}),
            "record.hot_bytes is 8388608, it must be from 96 to 4194304; the nearest is 4194304",
        ),
    ] {
        let error = serde_json::from_value::<RecordRequest>(value).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let error = serde_json::from_value::<RecordRequest>(json!({"kernel": "bc", "graph": "kron", "llc_bytes": 512}))
        .unwrap_err();
    assert!(error.to_string().contains("missing field `scale`"), "{error}");
}

#[test]
fn broken_profiles_are_refused() {
    let profile = record(&request(
        json!({"kernel": "bc", "graph": "kron", "scale": 10, "llc_bytes": 4096}),
    ))
    .unwrap();
    let metadata = profile.metadata_json();
    let break_it = |change: fn(&mut Columns)| {
        let mut columns = profile.columns.clone();
        change(&mut columns);
        Profile::from_parts(&metadata, columns).unwrap_err().to_string()
    };
    assert!(break_it(|columns| columns.stores.truncate(3)).contains("column stores has 3 rows"));
    assert!(break_it(|columns| columns.slice[0] = 9999).contains("names slice 9999"));
    assert!(break_it(|columns| columns.class[0] = 9).contains("names class 9"));
    assert!(break_it(|columns| columns.object[0] = 77).contains("names object 77"));
    assert!(break_it(|columns| columns.page[0] = 1 << 30).contains("names page 1073741824"));
    assert!(break_it(|columns| columns.prefetched[0] = u32::MAX).contains("more prefetched reads than reads"));
    assert!(break_it(|columns| columns.slice.reverse()).contains("out of order"));
    let old = metadata.replace("\"format_version\":1", "\"format_version\":0");
    assert!(
        Profile::from_parts(&old, profile.columns.clone())
            .unwrap_err()
            .to_string()
            .contains("version 0")
    );
}

/// Reads of each page over the run.
fn page_reads(profile: &Profile) -> Vec<f64> {
    let columns = &profile.columns;
    let pages = columns.page.iter().max().map_or(0, |page| *page as usize + 1);
    let mut reads = vec![0.0; pages];
    for row in 0..columns.len() {
        reads[columns.page[row] as usize] += f64::from(columns.reads[row]);
    }
    reads
}

#[test]
fn windows_of_stationary_phases_stand_for_the_rest() {
    for (asked, stationary) in [
        (
            json!({"kernel": "gups", "table_bytes": 4 << 20, "hot_bytes": 1 << 19, "updates": 800_000, "threads": 1}),
            true,
        ),
        (
            json!({"kernel": "ycsb", "records": 20_000, "operations": 150_000, "workload": "a"}),
            true,
        ),
        (json!({"kernel": "redis", "records": 6_000, "operations": 60_000}), true),
        (json!({"kernel": "npb_lu", "edge": 20, "iterations": 2}), false),
    ] {
        let of = |share: f64| {
            let mut asked = asked.clone();
            asked["llc_bytes"] = 65_536.into();
            asked["window_share"] = share.into();
            record(&request(asked)).unwrap()
        };
        let (whole, windows) = (of(1.0), of(0.2));
        check_conservation(&windows);
        let told = |profile: &Profile| {
            let replay = profile.carry(&CarrySpec::new(PAGE_BYTES)).unwrap();
            replay.notes.iter().any(|note| note.contains("20 % were looked at"))
        };
        assert_eq!((told(&whole), told(&windows)), (false, stationary));
        let name = whole.metadata.request.kernel();
        let ops = |profile: &Profile| -> u64 { profile.metadata.slices.iter().map(|slice| slice.ops).sum() };
        assert_eq!(ops(&whole), ops(&windows), "{name}");
        if !stationary {
            assert_eq!(
                whole.columns, windows.columns,
                "{name}: what is not alike is looked at as a whole"
            );
            continue;
        }
        assert_ne!(whole.columns, windows.columns, "{name}");
        for (all, some) in [
            (whole.metadata.total_reads, windows.metadata.total_reads),
            (whole.metadata.total_writebacks, windows.metadata.total_writebacks),
            (sum(&whole.columns.stores), sum(&windows.columns.stores)),
            (sum(&whole.columns.touches), sum(&windows.columns.touches)),
        ] {
            let off = (some as f64 - all as f64).abs() / (all.max(1) as f64);
            assert!(off < 0.03, "{name}: {some} against {all}");
        }
        // What is hot is as hot, in tenths of the pages of the whole recording.
        let (mut pages, seen) = (
            page_reads(&whole).into_iter().enumerate().collect::<Vec<_>>(),
            page_reads(&windows),
        );
        pages.sort_by(|a, b| b.1.total_cmp(&a.1));
        let totals = [pages.iter().map(|page| page.1).sum::<f64>(), seen.iter().sum()];
        for tenth in pages.chunks(pages.len().div_ceil(10)) {
            let all: f64 = tenth.iter().map(|page| page.1).sum::<f64>() / totals[0];
            let some: f64 = tenth.iter().map(|page| seen.get(page.0).unwrap_or(&0.0)).sum::<f64>() / totals[1];
            assert!((all - some).abs() < 0.02, "{name}: {some} against {all}");
        }
    }
}

#[test]
fn the_share_of_windows_is_told_with_a_recording_and_checked() {
    let asked = json!({"kernel": "redis", "records": 1000, "operations": 1000, "llc_bytes": 4096});
    let plain = serde_json::to_value(request(asked.clone())).unwrap();
    assert!(
        plain.get("window_share").is_none(),
        "requests of older versions stay the same: {plain}"
    );
    let mut some = asked.clone();
    some["window_share"] = 0.25.into();
    assert_eq!(serde_json::to_value(request(some)).unwrap()["window_share"], 0.25);
    for wrong in [json!(0), json!(1.5), json!("much")] {
        let mut asked = asked.clone();
        asked["window_share"] = wrong.clone();
        let said = RecordRequest::try_from(asked).unwrap_err().to_string();
        assert_eq!(
            said,
            format!("record.window_share is {wrong}, it must be from 0.01 to 1")
        );
    }
}
