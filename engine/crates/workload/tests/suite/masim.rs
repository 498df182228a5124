//! Configurations of masim: what is read, what is refused with its line, and what a recording shows of it.

use proptest::prelude::*;
use serde_json::json;
use tiertune_workload::kernels::masim::config::{Mode, Order, parse};
use tiertune_workload::{RecordRequest, record};

const CONFIG: &str = "# regions, one with contents from a file\nred hot, 1048576, none\nblue, 4194304\n\n# phases\nwarm up\n20\n\
    blue, 0, 4096, 1\n\n\nmain part\n200\nred hot, 1, 64, 90, ro\nblue, 0, 64, 5, wo\nblue, chase, 64, 5\n";

#[test]
fn configurations_are_read_as_they_are() {
    let config = parse(CONFIG).unwrap();
    let regions: Vec<(&str, u64)> = config
        .regions
        .iter()
        .map(|region| (region.name, region.bytes))
        .collect();
    assert_eq!(regions, [("red hot", 1 << 20), ("blue", 4 << 20)]);
    let stages: Vec<(&str, u64)> = config
        .stages
        .iter()
        .map(|stage| (stage.name.as_str(), stage.ms))
        .collect();
    assert_eq!(stages, [("warm up", 20), ("main part", 200)]);
    let found: Vec<(usize, Order, u64, u64, Mode)> = config.stages[1]
        .patterns
        .iter()
        .map(|it| (it.region, it.order, it.stride_bytes, it.weight, it.mode))
        .collect();
    let expected = [
        (0, Order::Random, 64, 90, Mode::Read),
        (1, Order::Sequential, 64, 5, Mode::Write),
        (1, Order::Chase, 64, 5, Mode::Read),
    ];
    assert_eq!(found, expected);
    // Files written on Windows and without comments are the same.
    let plain: String = CONFIG
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{line}\r\n"))
        .collect();
    assert_eq!(parse(&plain).unwrap(), config);
}

#[test]
fn mistakes_are_named_with_their_line() {
    for (from, to, expected) in [
        (
            "blue, 4194304",
            "blue",
            "line 3: \"blue\" has not the form name, bytes[, file]",
        ),
        (
            "blue, 4194304",
            "blue, 4M",
            "line 3: the length is 4M, it must be a whole number from 1 to 70368744177664",
        ),
        (
            "blue, 4194304",
            "red hot, 5",
            "line 3: region red hot stands there twice",
        ),
        (
            "\n20\n",
            "\nsoon\n",
            "line 7: the time is soon, it must be a whole number from 1 to 1099511627776",
        ),
        ("red hot, 1, 64", "red, 1, 64", "line 13: red is not a region"),
        (
            "red hot, 1, 64",
            "red hott, 1, 64",
            "line 13: red hott is not a region; did you mean red hot?",
        ),
        (
            "0, 64, 5, wo",
            "2, 64, 5, wo",
            "line 14: how is 2, choose one of 0, 1, chase",
        ),
        (
            "0, 64, 5, wo",
            "0, 0, 5, wo",
            "line 14: the stride is 0, it must be a whole number from 1 to 70368744177664; the nearest is 1",
        ),
        (
            "0, 64, 5, wo",
            "0, 64, 5, write",
            "line 14: the mode is write, choose one of ro, wo, rw",
        ),
        ("chase, 64, 5", "chase, 64, 5, wo", "line 15: the mode is wo, choose ro"),
        (
            "chase, 64, 5",
            "chase, 64",
            "line 15: \"blue, chase, 64\" has not the form region, how, stride_bytes, weight[, mode]",
        ),
        (
            "4096, 1",
            "4096, 0",
            "line 6: phase warm up has no pattern with a weight above 0",
        ),
        (
            "\nmain part\n",
            "\n\n",
            "line 13: the time is red hot, 1, 64, 90, ro, it must be a whole number from 1 to 1099511627776",
        ),
    ] {
        assert!(CONFIG.contains(from), "{from}");
        let text = CONFIG.replacen(from, to, 1);
        let found = parse(&text).unwrap_err();
        assert!(found.starts_with(expected), "{from:?} as {to:?}: {found}");
    }
    assert_eq!(parse("").unwrap_err(), "line 1: no region");
    assert_eq!(
        parse("a, 1\n# nothing\n").unwrap_err(),
        "line 2: no phase after the regions"
    );
}

#[test]
fn mistakes_reach_the_user_as_sentences() {
    let request = json!({"kernel": "masim", "config": "a, 64\n\np\n1\na, 3, 1, 1\n", "llc_bytes": 8192});
    let error = RecordRequest::try_from(request).unwrap_err();
    assert_eq!(
        error.to_string(),
        "record.config line 5: how is 3, choose one of 0, 1, chase"
    );
}

#[test]
fn regions_get_the_share_of_accesses_that_they_should() {
    let request = json!({"kernel": "masim", "config": CONFIG, "accesses_per_ms": 5000, "llc_bytes": 8192});
    let profile = record(&RecordRequest::try_from(request).unwrap()).unwrap();
    let (metadata, columns) = (&profile.metadata, &profile.columns);
    let mut touches = [[0.0; 2]; 2];
    let mut written = 0u32;
    for row in 0..columns.len() {
        let phase = usize::from(metadata.slices[columns.slice[row] as usize].phase == "main part");
        touches[phase][columns.object[row] as usize] += f64::from(columns.touches[row]);
        written += columns.stores[row] * u32::from(columns.object[row] == 0);
    }
    assert_eq!(touches[0][0], 0.0, "only the other region is warmed up");
    assert_eq!(touches[0][1], 20.0 * 5000.0, "each access is on a page of its own");
    assert_eq!(written, 0, "the first region is only read");
    // A million accesses in 256 choices of 3906: 90 % of them within four standard deviations, 1.9 % each.
    let share = touches[1][0] / 1e6;
    assert!((share - 0.9).abs() < 4.0 * (0.9f64 * 0.1 / 256.0).sqrt(), "{share}");
    assert_eq!(metadata.slices.iter().map(|slice| slice.ops).sum::<u64>(), 220 * 5000);
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-c0-9,# \n\r]{0,200}") {
        // Whatever comes is a configuration or a sentence with a line that exists.
        if let Err(sentence) = parse(&text) {
            let line: usize = sentence.strip_prefix("line ").unwrap().split(':').next().unwrap().parse().unwrap();
            prop_assert!(line <= text.lines().count().max(1), "{sentence}");
        }
    }

    #[test]
    fn changed_configurations_are_read_or_refused_with_a_line(at in 0usize..CONFIG.len(), new in "[a-z0-9,#\n é]{0,4}") {
        let text = format!("{}{new}{}", &CONFIG[..at], &CONFIG[at..]);
        if let Err(sentence) = parse(&text) {
            prop_assert!(sentence.starts_with("line "), "{sentence}");
        }
    }
}

/// Regions by name and size, then phases by name, milliseconds and patterns.
fn config_of(regions: &[(&str, u64)], phases: &[(&str, u64, Vec<String>)]) -> String {
    let regions = regions.iter().map(|(name, bytes)| format!("{name}, {bytes}\n"));
    let phases = phases
        .iter()
        .map(|(name, ms, patterns)| format!("\n{name}\n{ms}\n{}\n", patterns.join("\n")));
    regions.chain(phases).collect()
}

/// The shapes of the configurations that masim's author publishes, written down again without comments: sizes, times,
/// strides and weights are theirs.
fn published() -> Vec<(&'static str, String)> {
    let one =
        |region: &str, order: u32, stride: u32, weight: u32| vec![format!("{region}, {order}, {stride}, {weight}")];
    let huge = |bytes| config_of(&[("a", bytes)], &[("huge phase 1", 5000, one("a", 1, 64, 80))]);
    let steps: Vec<String> = (0..10).map(|number| format!("s{number}")).collect();
    let stairs = |ms| {
        let regions: Vec<(&str, u64)> = steps.iter().map(|name| (name.as_str(), 10_000_000)).collect();
        let all = steps.iter().map(|name| format!("{name}, 0, 4096, 1")).collect();
        let each = steps.iter().map(|name| ("phase", ms, one(name, 0, 4096, 50)));
        config_of(
            &regions,
            &[("initial phase", 2 * ms, all)]
                .into_iter()
                .chain(each)
                .collect::<Vec<_>>(),
        )
    };
    let zigzag = |ms, turns| {
        let all = vec!["a, 0, 4096, 1".to_owned(), "b, 0, 4096, 1".to_owned()];
        let turn = [
            ("low phase", ms, one("a", 0, 4096, 50)),
            ("high phase", ms, one("b", 0, 4096, 50)),
        ];
        let turns = std::iter::repeat_n(turn, turns).flatten();
        let phases: Vec<_> = [("initial phase", 2 * ms, all)].into_iter().chain(turns).collect();
        config_of(&[("a", 100_000_000), ("b", 100_000_000)], &phases)
    };
    let shares = |first: u32| vec![format!("a, 0, 64, {first}"), format!("b, 0, 64, {}", 100 - first)];
    let hint = [
        ("example phase 1", 5000, shares(99)),
        ("example phase 2", 5000, shares(1)),
    ];
    let two = |first| {
        let then = vec!["c, 1, 64, 50".to_owned(), "b, 0, 4096, 50".to_owned()];
        config_of(
            &[("a", first), ("b", 64), ("c", 128)],
            &[
                ("example phase 1", 1000, one("a", 1, 64, 80)),
                ("example phase 2", 1000, then),
            ],
        )
    };
    let caches = [
        ("l1cache", 32_768),
        ("l2cache", 262_144),
        ("l3cache", 47_185_920),
        ("memory_small", 104_857_600),
        ("memory_medium", 524_288_000),
        ("memory_large", 1_073_741_824),
        ("memory_huge", 10_737_418_240),
    ];
    let measured = caches
        .iter()
        .flat_map(|(name, _)| [0, 1].map(|order| (*name, 2000, one(name, order, 64, 1))));
    let default = "a, 256, none\nb, 64, none\nc, 128, none\n\nexample phase 1\n1000\na, 1, 64, 80, wo\n\n\
                   example phase 2\n1000\nc, 1, 64, 50, ro\nb, 0, 4096, 50, rw\n";
    vec![
        ("default", default.to_owned()),
        ("2mb", huge(2_000_000)),
        ("100mb", huge(100_000_000)),
        ("200mb", huge(200_000_000)),
        ("64", two(2_147_483_648)),
        ("demo", zigzag(5000, 3)),
        ("zigzag", zigzag(5000, 6)),
        ("zigzag of 30 s", zigzag(2500, 5)),
        ("stairs", stairs(5000)),
        ("stairs of 30 s", stairs(2500)),
        ("hint test", config_of(&[("a", 104_857_600), ("b", 104_857_600)], &hint)),
        ("memory performance", config_of(&caches, &measured.collect::<Vec<_>>())),
    ]
}

#[test]
fn published_configurations_parse_and_run() {
    for (name, text) in published() {
        let config = parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let bytes: u64 = config.regions.iter().map(|region| region.bytes).sum();
        let document =
            json!({"kernel": "masim", "accesses_per_ms": 2, "seed": 1, "config": text, "llc_bytes": 1 << 20});
        match RecordRequest::try_from(document) {
            Ok(request) => {
                let profile = record(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
                let ms: u64 = config.stages.iter().map(|stage| stage.ms).sum();
                assert_eq!(profile.ops(), 2 * ms, "{name}");
                assert!(profile.metadata.objects.len() == config.regions.len(), "{name}");
                assert!(profile.metadata.total_reads > 0, "{name}");
            }
            // 10 GiB are more than is recorded; `tierload` runs that one.
            Err(error) => assert!(
                bytes > 8 << 30 && error.to_string().contains("at most"),
                "{name}: {error}"
            ),
        }
    }
}
