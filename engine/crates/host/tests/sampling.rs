//! Sampling a real process from outside: this test binary, started again with work to do.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tiertune_host::source::{SOURCES, Setup};
use tiertune_host::{HostError, Journal, Options, PAGE_BYTES, Sample, Sampler, SharedJournal, Window, follow, sample};

const TASK: &str = "TIERTUNE_TEST_TASK";
/// A file that is there once the task's memory is.
const READY: &str = "TIERTUNE_TEST_READY";
const PAGES: usize = 16 << 10;
/// Hot pages of the task, in the middle of its memory.
const HOT: std::ops::Range<usize> = 4096..6144;
/// Hot pages of the task `few`: processors can hold all their translations.
const FEW: std::ops::Range<usize> = 4200..4264;

/// Not a test of its own: the process that the others watch. Touches 64 MiB, a part of it all the time.
#[test]
fn task() {
    let Ok(kind) = std::env::var(TASK) else { return };
    let mut memory = vec![0u8; PAGES * PAGE_BYTES as usize];
    memory
        .iter_mut()
        .step_by(PAGE_BYTES as usize)
        .for_each(|byte| *byte = 1);
    std::fs::write(std::env::var(READY).expect("a path"), "").expect("it can be written");
    let until = Instant::now() + Duration::from_secs(20);
    let mut sum = 0u64;
    let hot = if kind == "few" { FEW } else { HOT };
    while Instant::now() < until {
        for page in hot.clone() {
            let place = page * PAGE_BYTES as usize;
            if kind == "store" {
                memory[place] = memory[place].wrapping_add(1);
            } else {
                sum = sum.wrapping_add(u64::from(std::hint::black_box(memory[place])));
            }
        }
    }
    assert!(sum < u64::MAX);
}

fn start(kind: &str) -> Child {
    let this = std::env::current_exe().expect("a path");
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    let ready = std::env::temp_dir().join(format!("tiertune-sampling-{}-{number}", std::process::id()));
    let mut command = Command::new(this);
    command.args(["--exact", "task"]).env(TASK, kind).env(READY, &ready);
    let child = command.stdout(Stdio::null()).spawn().expect("it starts");
    let until = Instant::now() + Duration::from_secs(60);
    while !ready.exists() {
        assert!(Instant::now() < until, "the task does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_file(&ready).expect("it is there");
    child
}

/// Samples a task for a moment; nothing where this host does not allow it, which the caller's other assertions name.
fn watched(kind: &str, sampler: Sampler) -> Result<Sample, HostError> {
    sampler.probe()?;
    let mut child = start(kind);
    let options = Options {
        sampler,
        seconds: Some(2.0),
        interval_s: 0.02,
        windows: 16,
    };
    let sample = sample(child.id() as i32, options, || true);
    let state = child.try_wait().expect("it can be asked");
    child.kill().expect("it runs on");
    child.wait().expect("it ends");
    assert_eq!(state, None, "the process goes on as if nothing had happened");
    sample
}

/// Hits in the hot part and in the rest of the largest area.
fn hits(windows: &[Window], sample: &Sample) -> (u64, u64) {
    let largest = sample.areas[0]
        .iter()
        .max_by_key(|area| area.end - area.start)
        .expect("areas");
    // The allocator puts its own word before the memory.
    let first = largest.start;
    let hot = first + HOT.start as u64..first + HOT.end as u64 + 1;
    let (mut inside, mut outside) = (0, 0);
    for cell in windows.iter().flat_map(|window| &window.cells) {
        if cell.start >= largest.start && cell.start < largest.end {
            let (from, to) = (cell.start, cell.start + u64::from(cell.pages));
            // Chunks of 2 MiB may stand over the edge.
            let near = from < hot.end && to > hot.start;
            *(if near { &mut inside } else { &mut outside }) += u64::from(cell.hits);
        }
    }
    (inside, outside)
}

fn finds_the_hot_part(kind: &str, sampler: Sampler) {
    let sample = match watched(kind, sampler) {
        Ok(sample) => sample,
        Err(error) => {
            // Where it cannot work, that is said; anything else is a mistake.
            assert!(matches!(error, HostError::Unfit(_)), "{error}");
            return;
        }
    };
    let (inside, outside) = hits(&sample.windows, &sample);
    assert!(inside > 1000, "{inside} hits in the hot part");
    assert!(
        outside * 50 < inside,
        "{outside} hits elsewhere, {inside} in the hot part"
    );
    let resident: u64 = sample.resident.iter().map(|(_, start, end)| end - start).sum();
    assert!(resident >= PAGES as u64, "{resident} pages are there");
    // Two seconds, on processors that other tests may use as well.
    let cpu_ns: u64 = sample.windows.iter().map(|window| window.cpu_ns).sum();
    assert!((100_000_000..2_500_000_000).contains(&cpu_ns), "{cpu_ns} ns");
    assert!((1..=16).contains(&sample.windows.len()));
    assert!(sample.looking_share < 0.3, "{}", sample.looking_share);
}

#[test]
fn stores_are_seen_page_by_page() {
    finds_the_hot_part("store", Sampler::Written);
}

#[test]
fn stores_are_seen_in_chunks() {
    finds_the_hot_part("store", Sampler::Referenced);
}

#[test]
fn loads_are_seen_in_chunks() {
    finds_the_hot_part("load", Sampler::Referenced);
}

/// Processors set no accessed bit for a page whose translation they hold.
#[test]
fn pages_that_are_used_all_the_time_are_seen_in_every_look() {
    let sample = match watched("few", Sampler::Referenced) {
        Ok(sample) => sample,
        Err(error) => {
            assert!(matches!(error, HostError::Unfit(_)), "{error}");
            return;
        }
    };
    // Looks become long enough for the task to run in each, whatever else runs here.
    let last = &sample.windows[sample.windows.len() / 2..];
    let looks: u64 = last.iter().map(|window| u64::from(window.looks)).sum();
    let inside = hits(last, &sample).0;
    let expected = looks * FEW.len() as u64;
    assert!(
        inside * 10 >= expected * 9,
        "{inside} hits in {looks} looks at {} pages",
        FEW.len()
    );
    assert_eq!(sample.notes, Vec::<String>::new());
}

#[test]
fn mappings_are_whole_again_afterwards() {
    if Sampler::Referenced.probe().is_err() {
        return;
    }
    let mut child = start("load");
    let flags = |pid: u32| {
        let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
        let cut = smaps
            .lines()
            .filter(|line| line.starts_with("VmFlags:") && line.contains(" dd"))
            .count();
        (cut, smaps.lines().filter(|line| line.starts_with("VmFlags:")).count())
    };
    let before = flags(child.id());
    let options = Options {
        sampler: Sampler::Referenced,
        seconds: Some(0.5),
        interval_s: 0.02,
        windows: 4,
    };
    let mut most = before;
    let sampled = sample(child.id() as i32, options, || {
        most = most.max(flags(child.id()));
        true
    });
    let after = flags(child.id());
    child.kill().expect("it runs on");
    child.wait().expect("it ends");
    if sampled.is_ok() {
        assert!(most.0 > 10, "it was cut into {most:?}");
        assert_eq!(after, before);
    }
}

#[test]
fn a_process_that_is_not_there() {
    let options = Options {
        sampler: Sampler::Written,
        seconds: Some(0.1),
        interval_s: 0.1,
        windows: 4,
    };
    let error = sample(i32::MAX, options, || true).expect_err("no such process");
    assert_eq!(error, HostError::Wrong(format!("there is no process {}", i32::MAX)));
}

/// A source of stores on a process that filled its memory before it was watched.
#[test]
fn what_was_written_before_is_not_written_since() {
    let known = SOURCES
        .iter()
        .find(|known| known.name == "written")
        .expect("it is listed");
    let mut child = start("load");
    let pid = child.id() as i32;
    let seen = (known.probe)().and_then(|()| {
        let mut source = (known.open)(&Setup {
            fast_node: 0,
            slow_node: 1,
            starts_program: false,
            periods: Vec::new(),
            drain_ns: 50_000_000,
            journal: SharedJournal::new(Journal::open(std::path::Path::new("/nowhere"))?),
        })?;
        source.attach(pid)?;
        source.areas(pid, &follow::private_areas(pid))?;
        let mut seen = Vec::new();
        let drained = source.drain(&mut seen)?;
        let pages = seen.iter().map(|access| access.bytes / PAGE_BYTES).sum::<u64>();
        assert_eq!(drained.records, pages);
        Ok(pages)
    });
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    match seen {
        Ok(pages) => assert!(
            pages < PAGES as u64 / 100,
            "{pages} of {PAGES} pages, which it only reads"
        ),
        Err(HostError::Unfit(text)) => assert!(text.contains("needs") || text.contains("cannot be watched"), "{text}"),
        Err(error) => panic!("{error}"),
    }
}
