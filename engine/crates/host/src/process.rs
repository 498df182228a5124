//! What the kernel says of a process: whether it lives, which program it runs, how long it has run, its children.

use std::fs;

/// Processor time of all threads so far, in nanoseconds; nothing when the process is gone.
pub(crate) fn cpu_ns(pid: i32) -> Option<u64> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls write what they are given, which is ours.
    let known = unsafe {
        libc::clock_getcpuclockid(pid, &raw mut clock) == 0 && libc::clock_gettime(clock, &raw mut time) == 0
    };
    known.then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The fields of `/proc/PID/stat` behind the name, from the state on.
fn fields(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_ascii_whitespace().map(str::to_owned).collect())
}

/// Whether it runs: what has ended but was not waited for does not.
pub(crate) fn lives(pid: i32) -> bool {
    fields(pid).is_some_and(|fields| !matches!(fields[0].as_str(), "Z" | "X"))
}

/// What differs as soon as the process runs another program: where its stack and its text begin.
pub(crate) fn image(pid: i32) -> Option<String> {
    let fields = fields(pid)?;
    Some(format!("{} {}", fields.get(23)?, fields.get(25)?))
}

/// Threads that the process has.
pub(crate) fn threads(pid: i32) -> u32 {
    fields(pid).and_then(|fields| fields.get(17)?.parse().ok()).unwrap_or(0)
}

/// Its children, started by any of its threads.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let lists = tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let mut found: Vec<i32> = lists
        .flat_map(|list| {
            list.split_ascii_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect::<Vec<i32>>()
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}
