//! Programs on this host as they are followed. One test, since it waits for all children of this process.
#![allow(clippy::zombie_processes)] // What is tested waits for them.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tierd::kernel::Kernel;
use tierd::linux::Linux;
use tiertune_host::owner::thread_cpu_ns;

const TASK: &str = "TIERD_TEST_TASK";
const BUSY_NS: u64 = 200_000_000;
/// Becomes another program so many times, and then one that stays for a while.
const EXECS: &str = "[ \"$1\" -eq 0 ] && exec sleep 2; exec sh -c \"$0\" \"$0\" $(($1 - 1))";

/// Not a test of its own: the program that is followed.
#[test]
fn task() {
    while std::env::var(TASK).is_ok() && thread_cpu_ns() < BUSY_NS {}
}

fn busy_child() -> Command {
    let mut shell = Command::new("sh");
    let this = std::env::current_exe().expect("a path");
    // The shell waits for it, so that only the shell is left to be waited for.
    shell
        .args(["-c", "\"$0\" --exact task >/dev/null; exit 5"])
        .arg(this)
        .env(TASK, "1");
    shell
}

#[test]
fn programs_are_followed_to_their_end() {
    let child = busy_child().spawn().expect("it starts");
    let mut kernel = Linux::new(child.id() as i32, true, false);
    while kernel.lives() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let cpu_ns = kernel.workload_cpu_ns();
    assert!(
        (BUSY_NS..20 * BUSY_NS).contains(&cpu_ns),
        "{cpu_ns} ns of at least {BUSY_NS}"
    );

    for started in [true, false] {
        let mut shell = Command::new("sh");
        let mut child = shell.args(["-c", EXECS, EXECS, "300"]).spawn().expect("it starts");
        let pid = child.id() as i32;
        let mut kernel = Linux::new(pid, started, false);
        let mut images = BTreeSet::new();
        while kernel.lives() {
            let begun = Instant::now();
            let found = kernel.processes();
            assert!(
                begun.elapsed() < Duration::from_millis(1500),
                "it was not seen for long"
            );
            let main = found.into_iter().find(|process| process.pid == pid);
            assert!(
                main.is_some() || !kernel.lives(),
                "a program that becomes another one has not ended"
            );
            images.extend(main.map(|process| process.image));
        }
        assert!(images.len() > 10, "{} images are no test", images.len());
        if !started {
            child.wait().expect("it ended");
        }
    }

    // A look for children holds for a while, but not for those that come meanwhile.
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "while read line; do sleep 0.5; done"])
        .stdin(Stdio::piped());
    let mut child = shell.spawn().expect("it starts");
    let pid = child.id() as i32;
    let mut kernel = Linux::new(pid, true, false);
    let listed = format!("/proc/{pid}/task/{pid}/children");
    for _ in 0..3 {
        while kernel.processes().len() > 1 {}
        child
            .stdin
            .as_mut()
            .expect("a pipe")
            .write_all(b"\n")
            .expect("it reads");
        while std::fs::read_to_string(&listed).expect("it lives").is_empty() {}
        // Not for as long as a look holds, but while the child becomes another program.
        let until = Instant::now() + Duration::from_millis(30);
        let mut seen = kernel.processes().len();
        while seen < 2 && Instant::now() < until {
            seen = kernel.processes().len();
        }
        assert_eq!(seen, 2);
    }
    drop(child.stdin.take());
    while kernel.lives() {}
}
