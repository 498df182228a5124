//! The driver on this host's kernel, with a process of our own: this test binary, started again with work to do. All of its
//! memory is on one node, so that nothing has to be moved; where there are two, the guest's tests move it.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tierd::counters::Assumed;
use tierd::driver::{Driver, Options};
use tierd::linux::Linux;
use tierd::signals::Translator;
use tiertune_host::source::{SOURCES, Setup};
use tiertune_host::{HostError, Journal, SharedJournal, numa};
use tiertune_policy::{Config, Value, registry};

const TASK: &str = "TIERD_TEST_TASK";
const PAGE_BYTES: usize = 4096;
const PAGES: usize = 8 << 10;
const HOT: std::ops::Range<usize> = 2048..3072;
const SECONDS: u64 = 2;

/// Not a test of its own: the process that is managed. Fills 32 MiB, and writes to a part of it all the time.
#[test]
fn task() {
    if std::env::var(TASK).is_err() {
        return;
    }
    let mut memory = vec![1u8; PAGES * PAGE_BYTES];
    let until = Instant::now() + Duration::from_secs(SECONDS);
    while Instant::now() < until {
        for page in HOT {
            memory[page * PAGE_BYTES] = memory[page * PAGE_BYTES].wrapping_add(1);
        }
    }
    assert!(std::hint::black_box(memory).len() > PAGES);
}

fn start() -> Child {
    let this = std::env::current_exe().expect("a path");
    let mut command = Command::new(this);
    command.args(["--exact", "task"]).env(TASK, "1").stdout(Stdio::null());
    command.spawn().expect("it starts")
}

fn options(nodes: [u32; 2]) -> Options {
    Options {
        page_bytes: PAGE_BYTES as u64,
        nodes,
        cap_bytes: 1 << 30,
        slow_bytes: 1 << 30,
        drain_ns: 50_000_000,
        refresh_ns: 50_000_000,
        resync_ns: 500_000_000,
        most_bytes_per_s: None,
        seed: 1,
        place_first: true,
        assumed: Assumed {
            latency_ns: [100.0, 250.0],
            cycles_per_ns: 2.0,
        },
    }
}

/// A driver of HeMem on `child`, with stores as they are written as the only source.
fn driver(child: &Child, nodes: [u32; 2]) -> Result<Driver<Linux>, HostError> {
    let known = SOURCES
        .iter()
        .find(|known| known.name == "written")
        .expect("it is listed");
    (known.probe)()?;
    let folder = std::env::temp_dir().join(format!("tierd-real-{}-{}", std::process::id(), child.id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let source = (known.open)(&Setup {
        fast_node: nodes[0],
        slow_node: nodes[1],
        starts_program: false,
        periods: Vec::new(),
        drain_ns: 50_000_000,
        journal: SharedJournal::new(Journal::open(&folder)?),
    })?;
    std::fs::remove_dir(&folder).expect("nothing was changed, so nothing is written down");
    let options = options(nodes);
    let config = Config::from([("mmap_filter_size_bytes".to_owned(), Value::Int(0))]);
    let system = registry::find("hemem").expect("it is listed");
    let policy = system.build(&config, &options.topology()).expect("the knobs are right");
    let requests = policy.samplers();
    let translator = Translator::new(&requests, &requests, policy.needs(), &source.signals(), "written", 1)
        .expect("written bits are enough");
    let kernel = Linux::new(child.id() as i32, false, false);
    Ok(Driver::new(kernel, options, policy, vec![source], translator))
}

/// Runs to the end of the process; nothing where this host does not let it be watched, which is said why.
fn managed(nodes: [u32; 2]) -> Option<Driver<Linux>> {
    let mut child = start();
    let ran = driver(&child, nodes).and_then(|mut driver| {
        let until = Instant::now() + Duration::from_secs(10 * SECONDS);
        while driver.turn()? && Instant::now() < until {
            // A process that has ended but was not waited for does not live.
        }
        Ok(driver)
    });
    let waited = child.wait().expect("it ends");
    match ran {
        Ok(driver) => {
            assert!(waited.success(), "the process goes on as if nothing had happened");
            Some(driver)
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("needs") || text.contains("cannot be watched"), "{text}");
            None
        }
    }
}

/// A number that is no memory node here.
fn nowhere() -> u32 {
    numa::nodes().iter().map(|node| node.number + 1).max().unwrap_or(1)
}

#[test]
fn a_process_is_followed_and_its_hot_pages_are_seen() {
    let here = numa::nodes().first().map_or(0, |node| node.number);
    let Some(driver) = managed([here, nowhere()]) else {
        return;
    };
    let counts = driver.counts();
    assert!(counts.most_present_bytes >= (PAGES * PAGE_BYTES) as u64, "{counts:?}");
    assert_eq!(counts.processes, 1);
    let gauge = |name: &str| {
        let gauges = driver.gauges();
        gauges
            .iter()
            .find(|gauge| gauge.name == name)
            .expect("HeMem has it")
            .value
    };
    assert_eq!(gauge("hot_slow_pages"), 0.0, "all nodes but one are empty");
    let samples = counts.samples as f64 / counts.drains as f64;
    assert!(samples > 0.5 * HOT.len() as f64, "{samples} samples a drain");
    assert_eq!(
        driver.table().present_bytes(),
        0,
        "it has ended, and nothing is left of it"
    );
}

#[test]
fn a_node_that_is_not_there_ends_no_run() {
    let here = numa::nodes().first().map_or(0, |node| node.number);
    let Some(driver) = managed([nowhere(), here]) else {
        return;
    };
    assert_eq!(driver.tally().promoted_bytes, 0);
    assert!(
        driver.tally().refused_calls.contains_key("the node is offline"),
        "{:?}",
        driver.tally()
    );
}

fn tierd(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tierd"))
        .args(words)
        .output()
        .expect("it runs")
}

#[test]
fn exit_codes_say_whose_fault_it_is() {
    let probe = tierd(&["probe", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&probe.stdout).expect("JSON");
    assert_eq!(document["sources"].as_array().map(Vec::len), Some(SOURCES.len()));
    assert_eq!(probe.status.code(), Some(if document["fit"] == true { 0 } else { 3 }));

    let state = std::env::temp_dir().join(format!("tierd-state-{}", std::process::id()));
    let state = state.to_str().expect("plain");
    let run = |policy: &str, fast: &str| {
        tierd(&[
            "run",
            "--policy",
            policy,
            "--fast",
            fast,
            "--slow",
            fast,
            "--fast-bytes",
            "16MiB",
            "--state",
            state,
            "--",
            "true",
        ])
    };
    let unknown = run("hemen", "0");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("did you mean 'hemem'"));
    let one_node = run("hemem", "0");
    let expected = if numa::nodes().len() < 2 { 3 } else { 2 };
    assert_eq!(one_node.status.code(), Some(expected));
    assert!(String::from_utf8_lossy(&one_node.stderr).contains("node"));
    let nobody = tierd(&["stats", "--state", state]);
    assert_eq!(nobody.status.code(), Some(3));
}

#[test]
fn what_the_daemon_takes_is_memory_that_is_used() {
    let bench = tierd(&["selfbench", "--samples", "20000", "--of", "memtis:4096"]);
    let cost: serde_json::Value = serde_json::from_slice(&bench.stdout).expect("JSON");
    let bytes = |key: &str| cost[key].as_f64().expect("a number");
    // The number of an entry and a count of eight bytes for each page, beside the daemon's tables.
    let policy = bytes("resident_bytes_per_page") - bytes("daemon_bytes_per_page");
    assert!((12.0..16.0).contains(&policy), "{cost}");
    let unknown = tierd(&["selfbench", "--of", "memtis:8192"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("hemem:4096"));
}

#[test]
fn programs_that_fail_are_said_to_have_failed() {
    let folder = std::env::temp_dir().join(format!("tierd-hold-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = |name: &str| folder.join(name).to_str().expect("plain").to_owned();
    std::fs::write(path("settings.json"), "[]").expect("a file");
    let hold = |words: &[&str]| {
        let (settings, report, state) = (path("settings.json"), path("report.json"), path("state"));
        let mut line = vec![
            "hold",
            "--settings",
            &settings,
            "--report",
            &report,
            "--state",
            &state,
            "--",
        ];
        line.extend(words);
        let code = tierd(&line).status.code();
        let text = std::fs::read_to_string(&report).unwrap_or_default();
        (
            code,
            serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default(),
        )
    };
    let (code, report) = hold(&["sh", "-c", "exit 7"]);
    assert_eq!(
        (code, &report["exit_code"], &report["status"]),
        (Some(4), &7.into(), &"workload-failed".into())
    );
    let (code, report) = hold(&["sh", "-c", "kill -9 $$"]);
    assert_eq!((code, &report["signal"]), (Some(4), &9.into()));
    let (code, report) = hold(&["true"]);
    assert_eq!((code, &report["status"]), (Some(0), &"done".into()));
    assert_eq!(hold(&["/nowhere/program"]).0, Some(2));
    std::fs::remove_dir_all(&folder).expect("ours");
}
