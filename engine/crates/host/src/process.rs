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

/// The same, with that of children that have ended and were waited for, and of theirs.
pub(crate) fn cpu_with_ended_ns(pid: i32) -> Option<u64> {
    // SAFETY: asks for a number.
    let ticks_per_s = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) })
        .unwrap_or(0)
        .max(1);
    let fields = fields(pid)?;
    let ticks = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some(cpu_ns(pid)? + (ticks(13)? + ticks(14)?) * (1_000_000_000 / ticks_per_s))
}

/// How long a thread has run on a core, in nanoseconds; nothing when it is gone or the kernel does not keep count.
pub(crate) fn run_ns(thread: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{thread}/schedstat")).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
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

/// The process that it is a child of, also of one that has ended but was not waited for.
pub(crate) fn parent(pid: i32) -> Option<i32> {
    fields(pid)?.get(1)?.parse().ok()
}

/// What differs as soon as the process runs another program: where its stack and its text begin; nothing when it has
/// no memory any more.
pub(crate) fn image(pid: i32) -> Option<String> {
    image_in(&fields(pid)?)
}

fn image_in(fields: &[String]) -> Option<String> {
    let (text, stack) = (fields.get(23)?, fields.get(25)?);
    // A process that is ending has given up its memory for a while before it is a zombie: no other program, but none.
    (text != "0").then(|| format!("{text} {stack}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields from the state on, of a process whose text and stack begin there.
    fn stat(text: &str, stack: &str) -> Vec<String> {
        let line = format!("R 1 7 7 0 -1 4194304 9 0 0 0 1 0 0 0 20 0 1 0 90 4096 50 99 {text} 8 {stack} 0 0 0");
        line.split_ascii_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn another_program_is_another_image() {
        assert_ne!(image_in(&stat("4096", "7000")), image_in(&stat("8192", "7000")));
        assert_ne!(image_in(&stat("4096", "7000")), image_in(&stat("4096", "9000")));
        assert_eq!(image_in(&stat("4096", "7000")), image_in(&stat("4096", "7000")));
    }

    #[test]
    fn a_process_that_is_ending_is_no_other_program() {
        assert_eq!(image_in(&stat("0", "0")), None);
    }

    #[test]
    fn this_process_has_an_image() {
        assert!(image(std::process::id() as i32).is_some());
    }
}
