//! Memory nodes, and moving the pages of other processes between them.

use std::fs;
use std::io;
use std::ptr::null;

use crate::PAGE_BYTES;

const MPOL_PREFERRED: libc::c_int = 1;
const MPOL_PREFERRED_MANY: libc::c_int = 5;
/// The kernel's balancing may look at the memory of a thread that has a policy of its own (Linux 5.12).
const MPOL_F_NUMA_BALANCING: libc::c_int = 1 << 13;
const MPOL_MF_MOVE: libc::c_int = 1 << 1;
/// Pages that other processes map as well; takes CAP_SYS_NICE.
const MPOL_MF_MOVE_ALL: libc::c_int = 1 << 2;

/// A memory node that is online.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its number.
    pub number: u32,
    /// All memory.
    pub total_bytes: u64,
    /// Memory that nobody uses.
    pub free_bytes: u64,
    /// Processors of the node.
    pub cpus: u32,
    /// Latency of a read from its nearest processors, where the firmware says.
    pub read_latency_ns: Option<f64>,
}

/// Numbers in a list of the kernel, such as `0-1,4`.
fn numbers(text: &str) -> Vec<u32> {
    let ranges = text.trim().split(',').filter(|part| !part.is_empty());
    ranges
        .filter_map(|part| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            Some(from.parse::<u32>().ok()?..=to.parse::<u32>().ok()?)
        })
        .flatten()
        .collect()
}

/// The nodes that have memory.
#[must_use]
pub fn nodes() -> Vec<Node> {
    let folder = "/sys/devices/system/node";
    let with_memory = fs::read_to_string(format!("{folder}/has_memory")).unwrap_or_default();
    let node = |number: u32| {
        let read = |name: &str| fs::read_to_string(format!("{folder}/node{number}/{name}")).unwrap_or_default();
        let meminfo = read("meminfo");
        let bytes = |key: &str| {
            let line = meminfo.lines().find_map(|line| line.split_once(key));
            let kib = line.and_then(|(_, rest)| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
            kib.unwrap_or(0) * 1024
        };
        let latency = read("access0/initiators/read_latency").trim().parse::<f64>().ok();
        Node {
            number,
            total_bytes: bytes("MemTotal:"),
            free_bytes: bytes("MemFree:"),
            cpus: numbers(&read("cpulist")).len() as u32,
            read_latency_ns: latency.filter(|latency| *latency > 0.0),
        }
    };
    numbers(&with_memory).into_iter().map(node).collect()
}

/// Moves pages of a process to a node, or asks where they are when `node` is absent. For each page the node where it is
/// now, or the negative number of an error: `-EBUSY` for one that is in use just now, `-ENOENT` for none.
///
/// # Errors
/// `ESRCH` when the process is gone, `ENODEV` when the node is offline, `EPERM` without the right to do it.
pub fn move_pages(pid: i32, pages: &[u64], node: Option<u32>, shared_too: bool) -> io::Result<Vec<i32>> {
    let addresses: Vec<u64> = pages.iter().map(|page| page * PAGE_BYTES).collect();
    let targets = node.map(|node| vec![node as libc::c_int; pages.len()]);
    // What the kernel did not get to keeps this.
    let mut status = vec![-libc::EAGAIN; pages.len()];
    let flags = if shared_too { MPOL_MF_MOVE_ALL } else { MPOL_MF_MOVE };
    // SAFETY: the three lists have one length, and only `status` is written to.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            pages.len(),
            addresses.as_ptr(),
            targets.as_ref().map_or(null(), |targets| targets.as_ptr()),
            status.as_mut_ptr(),
            flags,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(status)
}

/// New memory of this thread and of the programs that it starts comes from `node` as long as it has any. With
/// `hint_faults` the kernel's balancing may look at it; of other memory that is preferred from a node it makes no faults.
///
/// # Errors
/// When there is no such node; with `hint_faults` before Linux 6.10, which knows that of memory bound to nodes alone.
pub fn prefer(node: u32, hint_faults: bool) -> io::Result<()> {
    let mut mask = [0u64; 16];
    let Some(word) = mask.get_mut(node as usize / 64) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    *word |= 1 << (node % 64);
    let mode = if hint_faults {
        MPOL_PREFERRED_MANY | MPOL_F_NUMA_BALANCING
    } else {
        MPOL_PREFERRED
    };
    // SAFETY: the kernel reads the mask, which has 1024 bits.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask.as_ptr(), 1024 + 1) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether [`prefer`] works here.
///
/// # Errors
/// Those of [`prefer`].
pub fn prefers(node: u32, hint_faults: bool) -> io::Result<()> {
    // A policy is its thread's alone, and goes with it.
    let tried = std::thread::spawn(move || prefer(node, hint_faults)).join();
    tried.unwrap_or_else(|_| Err(io::Error::other("it could not be tried")))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel() {
        assert_eq!(numbers("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert!(numbers("\n").is_empty());
    }

    /// From now on the kernel answers this thread, and those that it starts, as Linux 6.9 does: no balancing with a policy
    /// that is not bound to nodes.
    pub(crate) fn play_linux_6_9() {
        refuse(libc::SYS_set_mempolicy, MPOL_F_NUMA_BALANCING as u32, libc::EINVAL);
    }

    /// From now on the kernel answers this thread, and those that it starts, to one system call with an error where any of
    /// these bits is set in its first argument.
    pub(crate) fn refuse(call: libc::c_long, bits: u32, error: i32) {
        let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        };
        let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
        let answer = libc::BPF_RET | libc::BPF_K;
        // The number of the call, and the lower half of its first argument.
        let (call_at, mode_at) = (0, if cfg!(target_endian = "little") { 16 } else { 20 });
        let mut steps = [
            step(load, 0, 0, call_at),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 3, call as u32),
            step(load, 0, 0, mode_at),
            step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, bits),
            step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
            step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog {
            len: steps.len() as u16,
            filter: steps.as_mut_ptr(),
        };
        // SAFETY: the kernel copies the program, whose every path ends in an answer.
        let played = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
        };
        assert!(played, "{}", io::Error::last_os_error());
    }

    fn policy_of_this_thread() -> libc::c_int {
        let mut mode = -1;
        // SAFETY: the mode alone is asked for, which is ours.
        let result = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                &raw mut mode,
                null::<u64>(),
                0,
                null::<u8>(),
                0,
            )
        };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        mode
    }

    #[test]
    fn memory_without_hint_faults_is_not_taken_for_memory_with_them() {
        let node = nodes().first().map_or(0, |node| node.number);
        let found = std::thread::spawn(move || {
            play_linux_6_9();
            let refused = [prefer(node, true).is_err(), prefers(node, true).is_err()];
            let before = policy_of_this_thread();
            prefer(node, false).expect("every kernel knows that");
            (refused, before, policy_of_this_thread())
        });
        assert_eq!(found.join().expect("it ends"), ([true, true], 0, MPOL_PREFERRED));
    }

    #[test]
    fn trying_leaves_the_policy_of_this_thread() {
        let node = nodes().first().map_or(0, |node| node.number);
        // Kernels before 6.10 refuse it, and no other answer is known.
        if let Err(error) = prefers(node, true) {
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{error}");
        }
        assert_eq!(policy_of_this_thread(), 0);
    }

    #[test]
    fn where_our_own_pages_are() {
        let memory = vec![1u8; 16 * PAGE_BYTES as usize];
        let first = memory.as_ptr() as u64 / PAGE_BYTES + 1;
        let pages: Vec<u64> = (first..first + 8).chain([1]).collect();
        let status = move_pages(std::process::id() as i32, &pages, None, false).expect("it may be asked");
        let known: Vec<i32> = nodes().iter().map(|node| node.number as i32).collect();
        assert!(status[..8].iter().all(|node| known.contains(node)), "{status:?}");
        assert!(status[8] < 0, "nothing lies at the lowest addresses");
    }
}
