//! Memtis' sampling of a program, which its kernel (`CONFIG_HTMM`) starts and ends by two system calls of its own.
//!
//! Their return codes say nothing: the kernel answers 0 where no counter could be opened, too. Whether it samples is seen
//! from the thread that does it.

use std::fs;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::HostError;

/// Where that kernel has its settings.
pub const FOLDER: &str = "/sys/kernel/mm/htmm";
/// Its thread.
const THREAD: &str = "ksamplingd";
/// `htmm_start(pid, node)` and `htmm_end(pid)`; other kernels have other calls there.
const START: libc::c_long = 449;
const END: libc::c_long = 450;
const PATIENCE: Duration = Duration::from_secs(5);
const REST: Duration = Duration::from_millis(10);

/// Whether the program could be sampled here: it is Memtis' kernel, and samples nothing else.
///
/// # Errors
/// With why not.
pub fn check() -> Result<(), HostError> {
    check_in(Path::new(FOLDER), sampling())
}

fn check_in(folder: &Path, thread: Option<i32>) -> Result<(), HostError> {
    if !folder.is_dir() {
        return Err(HostError::Unfit(format!(
            "{} is not there: this kernel is not Memtis'; boot one that was built from its sources with CONFIG_HTMM",
            folder.display()
        )));
    }
    thread.map_or(Ok(()), |pid| {
        Err(HostError::Unfit(format!(
            "Memtis samples for somebody else already (kernel thread {THREAD}, {pid}), which tierd does not touch; end that first"
        )))
    })
}

/// The kernel's thread that samples, where there is one.
#[must_use]
pub fn sampling() -> Option<i32> {
    let text = |pid: &str, name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let name = entry.file_name();
        let name = name.to_str()?;
        let pid = name.parse().ok()?;
        (text(name, "comm").trim() == THREAD && is_kernels(&text(name, "stat"))).then_some(pid)
    })
}

/// Whether a line of `/proc/PID/stat` is of a thread of the kernel. That it has no command line would not do: nor has a
/// program that is just becoming another one.
fn is_kernels(stat: &str) -> bool {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let flags = behind_name
        .split_whitespace()
        .nth(6)
        .and_then(|flags| flags.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// Starts sampling of a process and of what it starts.
///
/// # Errors
/// Where the kernel does not begin to.
pub fn start(pid: i32) -> Result<(), HostError> {
    // SAFETY: takes two numbers, and is called on its kernel only.
    if unsafe { libc::syscall(START, pid, 0) } != 0 {
        let error = io::Error::last_os_error();
        return Err(HostError::Unfit(format!("Memtis' sampling does not start: {error}")));
    }
    if waited(|| sampling().is_some()) {
        return Ok(());
    }
    Err(HostError::Unfit(format!(
        "Memtis' sampling does not start (no kernel thread {THREAD}); it takes Intel's hardware samples, and the kernel's log \
         (dmesg) says what was missing"
    )))
}

/// Ends it; nothing happens on another kernel.
///
/// # Errors
/// Where it goes on.
pub fn end() -> Result<(), String> {
    if !Path::new(FOLDER).is_dir() {
        return Ok(());
    }
    // SAFETY: takes a number, and is called on its kernel only.
    unsafe { libc::syscall(END, -1) };
    if waited(|| sampling().is_none()) {
        return Ok(());
    }
    Err(format!("the kernel thread {THREAD} still runs"))
}

fn waited(done: impl Fn() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    while !done() {
        if Instant::now() >= until {
            return false;
        }
        sleep(REST);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_kernel_and_somebody_elses_sampling_are_told() {
        let other = check_in("/nowhere/htmm".as_ref(), None)
            .expect_err("not there")
            .to_string();
        assert!(
            other.contains("/nowhere/htmm is not there") && other.contains("CONFIG_HTMM"),
            "{other}"
        );
        let taken = check_in("/proc".as_ref(), Some(7)).expect_err("taken").to_string();
        assert!(taken.contains("ksamplingd, 7"), "{taken}");
        assert!(check_in("/proc".as_ref(), None).is_ok());
    }

    #[test]
    fn threads_of_the_kernel_are_told_by_their_flags() {
        assert!(!is_kernels(&fs::read_to_string("/proc/self/stat").expect("readable")));
        assert!(!is_kernels("7 (a) name) S 1 7 7 0 -1 4194304 1"));
        assert!(is_kernels("7 (a) name) S 2 0 0 0 -1 2129984 0"));
        assert!(!is_kernels(""));
    }

    #[test]
    fn no_program_of_users_is_taken_for_the_kernels_thread() {
        let name = std::env::temp_dir().join(format!("htmm-{}", std::process::id()));
        fs::create_dir_all(&name).expect("a folder");
        let program = name.join(THREAD);
        // A link, since a copy cannot start while another test forks with our handle of it still open for writing.
        std::os::unix::fs::symlink("/bin/sleep", &program).expect("linked");
        let mut child = std::process::Command::new(&program)
            .arg("60")
            .spawn()
            .expect("it starts");
        // `spawn` returns before the kernel gives the new program's name.
        let comm = format!("/proc/{}/comm", child.id());
        let named = waited(|| fs::read_to_string(&comm).is_ok_and(|comm| comm.trim() == THREAD));
        let found = sampling();
        child.kill().expect("it runs");
        child.wait().expect("it ended");
        fs::remove_dir_all(&name).expect("ours");
        assert_eq!((named, found), (true, None));
    }
}
