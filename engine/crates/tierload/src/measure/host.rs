//! What measurements need of the operating system: pages of a size on a node, a processor for each thread, its time; and
//! what else Rust does not call safe.
#![allow(unsafe_code)]

use std::io::Error;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The largest number of processors or nodes that masks here hold.
const MOST: usize = 1024;
const MPOL_BIND: libc::c_long = 2;
const MPOL_MF_MOVE: libc::c_int = 2;
/// Alignment of a region: that of a huge page.
const ALIGN_BYTES: usize = 2 << 20;

/// Anonymous memory, all of it touched, as words.
#[derive(Debug)]
pub struct Region {
    mapped: *mut libc::c_void,
    mapped_bytes: usize,
    start: *mut u64,
    words: usize,
}

// SAFETY: a region is memory of its own, like a boxed slice.
unsafe impl Send for Region {}
// SAFETY: shared references only read.
unsafe impl Sync for Region {}

impl Region {
    /// `bytes` of memory in huge or in ordinary pages, on a node if one is named. Huge pages are a wish: where the
    /// kernel has none, ordinary ones come.
    ///
    /// # Errors
    /// With a sentence where there is no memory, or no such node.
    pub fn new(bytes: usize, huge: bool, node: Option<u32>) -> Result<Self, String> {
        let mapped_bytes = bytes + ALIGN_BYTES;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let mapped = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(format!("no {bytes} bytes of memory: {}", Error::last_os_error()));
        }
        let start = mapped.map_addr(|at| at.next_multiple_of(ALIGN_BYTES)).cast::<u64>();
        let mut region = Self {
            mapped,
            mapped_bytes,
            start,
            words: bytes / size_of::<u64>(),
        };
        let advice = if huge {
            libc::MADV_HUGEPAGE
        } else {
            libc::MADV_NOHUGEPAGE
        };
        // SAFETY: the range is ours; a refused wish leaves ordinary pages.
        unsafe { libc::madvise(start.cast(), bytes, advice) };
        if let Some(node) = node {
            region.bind(node)?;
        }
        // Not zeroes: pages that were only read may all be the same page of zeroes.
        region.fill(1);
        Ok(region)
    }

    fn bind(&self, node: u32) -> Result<(), String> {
        let mut mask = [0 as libc::c_ulong; MOST / 64];
        mask[node as usize / 64] |= 1 << (node % 64);
        // SAFETY: range and mask are ours and as long as said.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.start,
                self.words * size_of::<u64>(),
                MPOL_BIND,
                mask.as_ptr(),
                MOST as libc::c_ulong,
                0 as libc::c_ulong,
            )
        };
        if result == 0 {
            return Ok(());
        }
        Err(format!(
            "memory cannot be had from node {node}: {}",
            Error::last_os_error()
        ))
    }

    /// Takes the frames of a part away and brings fresh ones in, by touching every `page_bytes`.
    pub fn replace(&mut self, from: usize, bytes: usize, page_bytes: usize) {
        let part = &mut self[from / 8..(from + bytes) / 8];
        // SAFETY: the part is ours, whole pages, and reads as zeroes afterwards.
        unsafe { libc::madvise(part.as_mut_ptr().cast(), bytes, libc::MADV_DONTNEED) };
        for place in (0..bytes / 8).step_by(page_bytes / 8) {
            // SAFETY: within the part; volatile, so that the touch happens.
            unsafe { part.as_mut_ptr().add(place).write_volatile(1) };
        }
    }

    /// Moves the pages of `page_bytes` that begin at the region's front to a node, all in one call.
    ///
    /// # Errors
    /// With a sentence where the kernel refuses, or leaves a page where it was.
    pub fn move_to(&self, node: u32, pages: usize, page_bytes: usize) -> Result<(), String> {
        let places: Vec<*mut libc::c_void> = (0..pages)
            .map(|page| self.start.wrapping_byte_add(page * page_bytes).cast())
            .collect();
        let nodes = vec![node as libc::c_int; pages];
        let mut status = vec![-1 as libc::c_int; pages];
        // SAFETY: three arrays of `pages` entries; pid 0 is this process.
        let result = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0,
                pages,
                places.as_ptr(),
                nodes.as_ptr(),
                status.as_mut_ptr(),
                MPOL_MF_MOVE,
            )
        };
        if result < 0 {
            return Err(format!(
                "pages cannot be moved to node {node}: {}",
                Error::last_os_error()
            ));
        }
        match status.iter().find(|status| **status != node as libc::c_int) {
            None => Ok(()),
            Some(status) => Err(format!(
                "a page did not come to node {node}: status {status} of move_pages"
            )),
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: what `new` mapped.
        unsafe { libc::munmap(self.mapped, self.mapped_bytes) };
    }
}

impl Deref for Region {
    type Target = [u64];
    fn deref(&self) -> &[u64] {
        // SAFETY: mapped, so many words, aligned; `&mut self` guards writes.
        unsafe { std::slice::from_raw_parts(self.start, self.words) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.words) }
    }
}

/// Adds to a word by a locked instruction.
pub fn locked_add(word: &mut u64, amount: u64) {
    // SAFETY: the borrow is exclusive, and a u64 is as large and as aligned as its atomic on all 64-bit targets.
    unsafe { AtomicU64::from_ptr(word) }.fetch_add(amount, Relaxed);
}

/// The processors that this process may use.
#[must_use]
pub fn processors() -> Vec<usize> {
    let mut set = [0u64; MOST / 64];
    // SAFETY: the mask is as large as said. The first thread's, since others are pinned.
    let written = unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            libc::getpid(),
            size_of_val(&set),
            set.as_mut_ptr(),
        )
    };
    if written <= 0 {
        return vec![0];
    }
    (0..MOST)
        .filter(|processor| (set[processor / 64] >> (processor % 64)) & 1 == 1)
        .collect()
}

/// Keeps the calling thread on one of the processors, by turns. Where the kernel refuses it stays as it was.
pub fn pin(number: usize, processors: &[usize]) {
    let mut set = [0u64; MOST / 64];
    let processor = processors[number % processors.len()];
    set[processor / 64] |= 1 << (processor % 64);
    // SAFETY: the mask is as large as said; 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&set), set.as_ptr()) };
}

/// Seconds that the calling thread has had a processor.
#[must_use]
pub fn processor_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_touched_and_replaced() {
        let mut region = Region::new(8 << 20, false, None).unwrap();
        assert_eq!(region.len(), 1 << 20);
        assert!(region.iter().all(|word| *word == 1));
        assert_eq!(region.as_ptr() as usize % ALIGN_BYTES, 0);
        region[5] = 7;
        region.replace(0, 1 << 20, 4096);
        assert_eq!((region[0], region[5], region[512], region[1 << 17]), (1, 0, 1, 1));
    }

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        assert!(Region::new(4096, false, Some(1000)).is_err());
    }

    #[test]
    fn time_passes_while_the_thread_works() {
        let before = processor_s();
        let mut sum = 0u64;
        for n in 0..20_000_000u64 {
            sum = std::hint::black_box(sum ^ n);
        }
        assert!(processor_s() > before);
        assert!(!processors().is_empty());
    }
}
