//! What a source sees of a range of memory: `watch SOURCE PID ADDRESS BYTES SECONDS ENOUGH BUCKETS FOLDER`, or
//! `watch restore FOLDER`.
//!
//! It watches for `SECONDS`, and for ten times as long at most where it has not seen `ENOUGH` accesses by then.
//! Prints one JSON document: accesses by bucket of the range, weighted and spread over the bytes that each stands for, the mean
//! time from guard to fault by bucket, and what was lost. The journal of settings is in `FOLDER`; they are put back at the end, unless it is killed.

use std::path::Path;
use std::time::{Duration, Instant};

use tiertune_host::source::{SOURCES, Setup};
use tiertune_host::{Area, HostError, Journal, PAGE_BYTES, SharedJournal};

const DRAIN: Duration = Duration::from_millis(400);
/// Balancing scans by the processor time of a process, which has little in a second where processors are fast and it rests.
const PATIENCE: u32 = 10;

fn watched(words: &[String]) -> Result<String, HostError> {
    let number = |place: usize| -> u64 { words[place].parse().expect("a number") };
    let (pid, address, bytes, seconds) = (number(1) as i32, number(2), number(3), number(4));
    let (seconds, enough) = (Duration::from_secs(seconds), number(5));
    let mut buckets = vec![0.0; number(6) as usize];
    let mut waits: Vec<Vec<f64>> = vec![Vec::new(); buckets.len()];
    let journal = SharedJournal::new(Journal::open(Path::new(&words[7]))?);
    let known = SOURCES.iter().find(|known| known.name == words[0]).expect("a source");
    (known.probe)()?;
    let setup = Setup {
        fast_node: 0,
        slow_node: 1,
        starts_program: false,
        periods: Vec::new(),
        drain_ns: DRAIN.as_nanos() as u64,
        journal: journal.clone(),
    };
    let mut source = (known.open)(&setup)?;
    source.attach(pid)?;
    let (start, end) = (address / PAGE_BYTES, (address + bytes) / PAGE_BYTES);
    source.areas(
        pid,
        &[Area {
            start,
            end,
            label: "anonymous".to_owned(),
        }],
    )?;
    let (begin, mut seen, mut lost, mut records) = (Instant::now(), 0, 0, 0);
    while begin.elapsed() < seconds || (seen < enough && begin.elapsed() < seconds * PATIENCE) {
        std::thread::sleep(DRAIN);
        let mut found = Vec::new();
        let drained = source.drain(&mut found)?;
        (lost, records) = (lost + drained.lost, records + drained.records);
        for access in found {
            let width = bytes as f64 / buckets.len() as f64;
            for (place, bucket) in buckets.iter_mut().enumerate() {
                let from = address as f64 + place as f64 * width;
                let (low, high) = (
                    from.max(access.address as f64),
                    (from + width).min((access.address + access.bytes) as f64),
                );
                *bucket += (high - low).max(0.0) / access.bytes as f64 * f64::from(access.weight);
            }
            seen += 1;
            if let Some(armed_ns) = access
                .armed_ns
                .filter(|_| (address..address + bytes).contains(&access.address))
            {
                let place = ((access.address - address) * waits.len() as u64 / bytes) as usize;
                waits[place].push(access.time_ns.saturating_sub(armed_ns) as f64 / 1e6);
            }
        }
    }
    source.detach();
    let changed = journal.get().restore();
    let problems = changed.iter().filter(|restored| restored.problem.is_some()).count();
    let mean = |all: &Vec<f64>| match all.len() {
        0 => "null".to_owned(),
        count => (all.iter().sum::<f64>() / count as f64).to_string(),
    };
    let means: Vec<String> = waits.iter().map(mean).collect();
    Ok(format!(
        r#"{{"seen": {seen}, "records": {records}, "lost": {lost}, "restored": {}, "problems": {problems}, "buckets": {buckets:?}, "waits_ms": [{}]}}"#,
        changed.len(),
        means.join(", ")
    ))
}

/// Puts back what one that was killed has left.
fn restored(folder: &str) -> Result<String, HostError> {
    let left = Journal::open(Path::new(folder))?.restore();
    match left.iter().find_map(|restored| restored.problem.clone()) {
        Some(problem) => Err(HostError::Unfit(problem)),
        None => Ok(left.len().to_string()),
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = if words[0] == "restore" {
        restored(&words[1])
    } else {
        watched(&words)
    };
    match done {
        Ok(line) => println!("{line}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(3);
        }
    }
}
