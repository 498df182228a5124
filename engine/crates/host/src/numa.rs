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
/// `hint_faults` the kernel's balancing may look at it, where the kernel knows how to say that (Linux 6.10).
///
/// # Errors
/// When there is no such node.
pub fn prefer(node: u32, hint_faults: bool) -> io::Result<()> {
    let mut mask = [0u64; 16];
    let Some(word) = mask.get_mut(node as usize / 64) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    *word |= 1 << (node % 64);
    let set = |mode: libc::c_int| {
        // SAFETY: the kernel reads the mask, which has 1024 bits.
        let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask.as_ptr(), 1024 + 1) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    };
    if hint_faults && set(MPOL_PREFERRED_MANY | MPOL_F_NUMA_BALANCING).is_ok() {
        return Ok(());
    }
    set(MPOL_PREFERRED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel() {
        assert_eq!(numbers("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert!(numbers("\n").is_empty());
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
