//! Starting a program whose memory is to be tiered, and giving up rights that are not needed to watch it.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};

use crate::group::processes_file;
use crate::{HostError, descriptors, numa};

/// How a program is started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Its memory comes from this node as long as that has any; absent: from where the kernel takes it.
    pub node: Option<u32>,
    /// The kernel's balancing may look at its memory; not before Linux 6.10.
    pub hint_faults: bool,
    /// Whether it may have transparent huge pages.
    pub huge_pages: bool,
    /// The control group that it is born in; absent: ours.
    pub group: Option<PathBuf>,
}

impl Launch {
    /// Whether its memory can come from where it is to come from: what fails between fork and exec is told as if there was no
    /// such program.
    ///
    /// # Errors
    /// `Unfit`, with what is missing.
    pub fn check(&self) -> Result<(), HostError> {
        let Some(node) = self.node else { return Ok(()) };
        numa::prefers(node, self.hint_faults).map_err(|error| {
            let advice = match error.raw_os_error() {
                Some(libc::EPERM) => {
                    "; containers filter that call unless they have CAP_SYS_NICE (--cap-add SYS_NICE with Docker and Podman)"
                }
                Some(libc::EINVAL) => "; this control group may not use that node (cpuset.mems)",
                _ => "",
            };
            HostError::Unfit(format!(
                "a program cannot be given memory of node {node} first (set_mempolicy): {error}{advice}"
            ))
        })
    }

    /// Starts it.
    ///
    /// # Errors
    /// When there is no such program, no such node, or no such group, or the kernel does not know of such memory.
    pub fn start(&self) -> io::Result<Child> {
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let (node, hint_faults, huge_pages) = (self.node, self.hint_faults, self.huge_pages);
        let mut command = Command::new(program);
        command.args(arguments);
        let group = match &self.group {
            Some(group) => Some(OpenOptions::new().write(true).open(processes_file(group))?),
            None => None,
        };
        let descriptors_as_found = descriptors::as_found();
        // SAFETY: a few system calls, which is what may be done between fork and exec.
        unsafe {
            command.pre_exec(move || {
                descriptors_as_found()?;
                // Memory that was taken before a process entered a group is not the group's.
                if let Some(group) = &group
                    && libc::write(group.as_raw_fd(), b"0".as_ptr().cast(), 1) != 1
                {
                    return Err(io::Error::last_os_error());
                }
                if !huge_pages && libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0 {
                    return Err(io::Error::last_os_error());
                }
                node.map_or(Ok(()), |node| numa::prefer(node, hint_faults))
            });
        }
        command.spawn()
    }
}

/// Processes that lose their parent become ours, so that the tree stays whole.
///
/// # Errors
/// When the kernel does not know how.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: changes an attribute of this process.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A child that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// Its number.
    pub pid: i32,
    /// How, as of `waitpid`.
    pub status: i32,
    /// Its processor time, with that of all that it had waited for.
    pub cpu_ns: u64,
}

/// Waits for children that have ended, without blocking.
#[must_use]
pub fn reap() -> Vec<Ended> {
    let mut ended = Vec::new();
    loop {
        let mut status = 0;
        // SAFETY: plain numbers, which the kernel overwrites.
        let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
        // SAFETY: `status` and `usage` are ours.
        let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
        if pid <= 0 {
            return ended;
        }
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
            let cpu_ns = ns(usage.ru_utime) + ns(usage.ru_stime);
            ended.push(Ended { pid, status, cpu_ns });
        }
    }
}

/// Sends a signal to a process.
pub fn signal(pid: i32, number: i32) {
    // SAFETY: sends a signal; a process that is gone needs none.
    unsafe { libc::kill(pid, number) };
}

/// What is kept of root's rights: `name` and number of each capability, and what it is for.
pub const KEPT: &[(&str, u32, &str)] = &[
    (
        "CAP_DAC_OVERRIDE",
        1,
        "files of other users' processes under /proc, settings under /sys",
    ),
    ("CAP_KILL", 5, "to end the workload when asked to"),
    ("CAP_SYS_PTRACE", 19, "to look at the memory of other users' processes"),
    (
        "CAP_SYS_ADMIN",
        21,
        "frame numbers, by which pages that processes share are counted once; perf before Linux 5.8",
    ),
    (
        "CAP_SYS_NICE",
        23,
        "to move pages of other users' processes, shared ones included",
    ),
    ("CAP_PERFMON", 38, "hardware samples and fault events"),
];

/// Gives up every capability that is not [`KEPT`], for good; those that are left, as a mask. Nothing is gained where there
/// was nothing.
///
/// # Errors
/// When the kernel does not let go of them.
pub fn drop_capabilities() -> io::Result<u64> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Sets {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let kept: u64 = KEPT.iter().map(|(_, number, _)| 1u64 << number).sum();
    let mut header = Header {
        version: VERSION_3,
        pid: 0,
    };
    let mut sets = [Sets::default(); 2];
    // SAFETY: header and sets are laid out as the kernel's, version 3 with two sets.
    if unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for (place, set) in sets.iter_mut().enumerate() {
        let kept = (kept >> (32 * place)) as u32;
        set.permitted &= kept;
        set.effective = set.permitted;
        set.inheritable = 0;
    }
    // SAFETY: as above; a program that this process might start gains nothing either.
    unsafe {
        if libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(u64::from(sets[0].permitted) | (u64::from(sets[1].permitted) << 32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numa::tests::refuse;

    #[test]
    fn a_refused_policy_is_not_the_programs_fault() {
        let launch = |node| Launch {
            command: vec!["true".into()],
            node,
            hint_faults: false,
            huge_pages: true,
            group: None,
        };
        let node = numa::nodes().first().map_or(0, |node| node.number);
        assert_eq!(launch(Some(node)).check(), Ok(()));
        let found = std::thread::spawn(move || {
            refuse(libc::SYS_set_mempolicy, u32::MAX, libc::EPERM);
            (launch(None).check(), launch(Some(node)).check())
        });
        let (anywhere, preferred) = found.join().expect("it ends");
        assert_eq!(anywhere, Ok(()));
        let problem = preferred.expect_err("it is refused").to_string();
        assert!(
            problem.contains("set_mempolicy") && problem.contains("CAP_SYS_NICE"),
            "{problem}"
        );
    }
}
