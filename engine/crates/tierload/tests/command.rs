//! The command as users run it.

use std::process::{Command, Output};

use serde_json::Value as Json;

fn tierload(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tierload"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn every_kernel_runs_checked_from_its_declaration() {
    let listed = tierload(&["list", "--json"]);
    let kernels: Vec<Json> = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(kernels.len(), tiertune_workload::kernels::KERNELS.len());
    for kernel in tiertune_workload::kernels::KERNELS {
        let given: serde_json::Map<String, Json> = serde_json::from_str(kernel.small).unwrap();
        let mut arguments = vec![kernel.family.to_owned(), kernel.name.to_owned()];
        for (name, value) in given.iter().filter(|(name, _)| *name != "threads") {
            let mut value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if value.contains('\n') {
                // Where a declaration has a text of several lines, the command takes a file.
                let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.{name}", kernel.name));
                std::fs::write(&file, &value).unwrap();
                value = file.display().to_string();
            }
            arguments.push(format!("--{}={value}", name.replace('_', "-")));
        }
        arguments.extend(["--threads=2", "--trials=2", "--verify", "--json"].map(str::to_owned));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ran = tierload(&arguments);
        assert_eq!(ran.status.code(), Some(0), "{arguments:?}: {}", text(&ran.stderr));
        let events: Vec<Json> = text(&ran.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).count();
        assert_eq!((of("begin"), of("trial"), of("end")), (1, 2, 1), "{arguments:?}");
        assert_eq!(of("phase_start"), of("phase_end"), "{arguments:?}");
        assert!(of("object") > 0 && of("phase_end") > 0);
        let end = events.last().unwrap();
        assert!(end["runtime_s"].as_f64().unwrap() > 0.0 && end["throughput_mops"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn text_has_metric_lines_and_phase_marks() {
    let ran = tierload(&[
        "gapbs",
        "bc",
        "--graph",
        "kron",
        "--scale",
        "10",
        "--threads",
        "2",
        "--verify",
    ]);
    assert_eq!(ran.status.code(), Some(0));
    let said = text(&ran.stdout);
    for start in [
        "phase start: forward 1 at ",
        "phase end: normalise took ",
        "trial_s: ",
        "runtime_s: ",
        "check scores: PASS",
    ] {
        assert!(said.lines().any(|line| line.starts_with(start)), "{start}: {said}");
    }
}

#[test]
fn mistakes_are_answered_with_a_sentence_and_2() {
    for (arguments, expected) in [
        (
            &["gapbs", "bc", "--graph", "kron", "--scale", "99"][..],
            "--scale is 99, it must be from 4 to 31",
        ),
        (
            &["gapbs", "bc", "--graph", "cron", "--scale", "10"],
            "--graph is cron, which is not a kind of graph; the nearest is kron",
        ),
        (&["gapbs", "bc", "--scale", "10"], "--graph"),
        (
            &[
                "gups",
                "gups",
                "--table-bytes",
                "x",
                "--hot-bytes",
                "8",
                "--updates",
                "1",
            ],
            "--table-bytes is x, it must be a size",
        ),
        (&["gapbs", "bcc"], "bcc"),
    ] {
        let ran = tierload(arguments);
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}");
        assert!(text(&ran.stderr).contains(expected), "{}", text(&ran.stderr));
    }
}

#[test]
fn measurements_are_documents_by_the_line() {
    for (arguments, samples, figure) in [
        (
            &["loaded", "--threads", "1", "--write-shares", "0,1", "--pauses", "0,64"][..],
            10,
            "undisturbed",
        ),
        (
            &["stream", "--threads", "1,2", "--write-shares", "0.5"],
            4,
            "undisturbed",
        ),
        (&["updates"], 8, "ns_per_access"),
        (&["moves", "--pages", "2"], 4, "copy_ns"),
    ] {
        let common = [
            "--samples",
            "2",
            "--window-s",
            "0.002",
            "--buffer-bytes",
            "1MiB",
            "--label",
            "x",
        ];
        let ran = tierload(&[&["measure"], arguments, &common].concat());
        assert_eq!(ran.status.code(), Some(0), "{arguments:?}: {}", text(&ran.stderr));
        let documents: Vec<Json> = text(&ran.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(documents[0]["event"], "begin");
        assert_eq!(documents.len(), 1 + samples, "{arguments:?}");
        for sample in &documents[1..] {
            assert_eq!(
                (&sample["measure"], &sample["label"]),
                (&arguments[0].into(), &"x".into())
            );
            assert!(sample[figure].as_f64().is_some_and(|value| value >= 0.0), "{sample}");
        }
    }
}

#[test]
fn measurements_that_cannot_be_made_say_why() {
    for (arguments, code, expected) in [
        (
            &["stream", "--samples", "many"][..],
            2,
            "--samples is many, it must be 1 to 100000 samples",
        ),
        (
            &["loaded", "--write-shares", "0,2"],
            2,
            "--write-shares is 2, it must be shares from 0 to 1",
        ),
        (&["moves", "--to", "1"], 2, "--to needs --node"),
        (&["updates", "--node", "1000"], 3, "memory cannot be had from node 1000"),
    ] {
        let ran = tierload(&[&["measure"], arguments].concat());
        assert_eq!(ran.status.code(), Some(code), "{arguments:?}");
        assert!(text(&ran.stderr).contains(expected), "{}", text(&ran.stderr));
    }
}

#[test]
fn what_memory_cannot_hold_is_refused_before_it_begins() {
    let words = [
        "gups",
        "gups",
        "--table-bytes",
        "64TiB",
        "--hot-bytes",
        "1MiB",
        "--updates",
        "1",
    ];
    let refused = tierload(&words);
    assert_eq!(refused.status.code(), Some(3));
    assert_eq!(text(&refused.stdout), "");
    let sentence = text(&refused.stderr);
    assert!(
        sentence.starts_with("tierload: the run takes 65536.0 GiB of memory, "),
        "{sentence}"
    );
}

fn begun(arguments: &[&str]) -> Json {
    let ran = tierload(&[arguments, &["--dry-run", "--json"]].concat());
    assert_eq!(ran.status.code(), Some(0), "{arguments:?}: {}", text(&ran.stderr));
    serde_json::from_slice(&ran.stdout).expect("one document, as nothing runs")
}

#[test]
fn a_carried_run_has_the_larger_input_and_as_much_more_work() {
    let table = [
        "gups",
        "gups",
        "--table-bytes=64MiB",
        "--hot-bytes=8MiB",
        "--updates=1000",
        "--moves=[{\"at_update\":500}]",
    ];
    let larger = begun(&[&table[..], &["--carry", "table_bytes=64GiB", "--threads=2"]].concat());
    let parameters = &larger["parameters"];
    assert_eq!(parameters["table_bytes"], 64u64 << 30);
    assert_eq!(parameters["hot_bytes"], 8u64 << 30);
    assert_eq!(parameters["updates"], 1_024_000);
    assert_eq!(parameters["moves"][0]["at_update"], 512_000);
    assert_eq!(larger["footprint_bytes"], 64u64 << 30);
    // What the sizes say, nothing else.
    let graph = ["gapbs", "bc", "--graph=kron", "--scale=12", "--sources=3"];
    let carried = begun(&[&graph[..], &["--carry", "scale=20"]].concat());
    assert_eq!(carried["parameters"]["scale"], 20);
    assert_eq!(carried["parameters"]["sources"], 3);
    assert_eq!(begun(&graph)["parameters"]["scale"], 12);
}

#[test]
fn a_wrong_size_is_told_with_the_nearest() {
    let graph = ["gapbs", "bc", "--graph=kron", "--scale=12", "--carry"];
    for (given, said) in [
        (
            "scael=20",
            "--carry scael=20: bc is not carried by scael; the nearest is scale",
        ),
        ("20", "--carry is 20, it must be NAME=VALUE, such as scale=20"),
        ("scale=99", "--scale is 99, it must be from 4 to 31; the nearest is 31"),
    ] {
        let ran = tierload(&[&graph[..], &[given]].concat());
        assert_eq!(ran.status.code(), Some(2));
        assert_eq!(text(&ran.stderr).trim(), format!("tierload: {said}"));
    }
}

#[test]
fn a_text_of_several_lines_needs_no_file() {
    let config = "step, 1048576\n\nphase\n5\nstep, 1, 8, 1, ro\n";
    let said = begun(&["micro", "masim", &format!("--config={config}")]);
    assert_eq!(said["parameters"]["config"], config);
}
