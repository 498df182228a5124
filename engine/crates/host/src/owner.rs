//! One daemon a host: a lock with its owner's name, and the signals that end it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::HostError;

/// The lock, for as long as this lives.
#[derive(Debug)]
pub struct Owner {
    file: File,
}

impl Owner {
    /// Makes `folder`, for root alone, and takes the lock in it.
    ///
    /// # Errors
    /// Names who has it, or why the folder cannot be used.
    pub fn take(folder: &Path) -> Result<Self, HostError> {
        let unusable = |error: io::Error| {
            HostError::Unfit(format!(
                "the folder {} cannot be used: {error}; run as root, or name another with --state",
                folder.display()
            ))
        };
        if !folder.is_dir() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(unusable)?;
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(folder.join("lock"))
            .map_err(unusable)?;
        // SAFETY: a lock on a descriptor of ours, which goes away with it.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let mut owner = String::new();
            // Whoever it is, the lock is not ours.
            let _ = file.read_to_string(&mut owner);
            return Err(HostError::Unfit(format!(
                "another tierd runs on this host (process {}, lock {}); end it first",
                owner.trim(),
                folder.join("lock").display()
            )));
        }
        file.set_len(0).map_err(unusable)?;
        file.rewind().map_err(unusable)?;
        writeln!(file, "{}", std::process::id()).map_err(unusable)?;
        Ok(Self { file })
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The name of its owner should not stay behind.
        let _ = self.file.set_len(0);
        // Not by closing it: a program that another thread has just forked has the descriptor too until it is executed.
        // SAFETY: a lock on a descriptor of ours.
        unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_UN) };
    }
}

static STOPPED: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_: libc::c_int) {
    STOPPED.store(true, Ordering::SeqCst);
}

/// From now on SIGTERM, SIGINT and SIGHUP only set what [`stopped`] says.
pub fn stop_on_signals() {
    let handler: extern "C" fn(libc::c_int) = stop;
    for number in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: the handler does nothing but store a flag.
        unsafe { libc::signal(number, handler as libc::sighandler_t) };
    }
}

/// Whether one of these signals came.
#[must_use]
pub fn stopped() -> bool {
    STOPPED.load(Ordering::SeqCst)
}

fn cpu_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes what it is given, which is ours.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Processor time of the calling thread, in nanoseconds.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time of all threads of this process, in nanoseconds.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_other_threads_is_the_process_own() {
        const BUSY_NS: u64 = 20_000_000;
        let (thread_ns, process_ns) = (thread_cpu_ns(), process_cpu_ns());
        std::thread::spawn(|| while thread_cpu_ns() < BUSY_NS {})
            .join()
            .expect("it ends");
        assert!(process_cpu_ns() - process_ns >= BUSY_NS);
        assert!(thread_cpu_ns() - thread_ns < BUSY_NS);
    }

    #[test]
    fn there_is_one_owner_at_a_time() {
        let folder = std::env::temp_dir().join(format!("owner-{}", std::process::id()));
        let first = Owner::take(&folder).expect("nobody has it");
        let problem = Owner::take(&folder).expect_err("it is taken").to_string();
        assert!(
            problem.contains(&format!("process {}", std::process::id())),
            "{problem}"
        );
        // As a child has it that was forked and has not been executed yet.
        let forked = first.file.try_clone().expect("a descriptor");
        drop(first);
        assert!(Owner::take(&folder).is_ok());
        drop(forked);
        fs::remove_dir_all(&folder).expect("ours");
    }
}
