//! The ioctl `PAGEMAP_SCAN` of Linux 6.7: which pages of another process are there, and which were written.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use crate::PAGE_BYTES;

/// The page was written since it was last protected.
pub const WRITTEN: u64 = 1 << 1;
/// The page is in memory.
pub const PRESENT: u64 = 1 << 3;
/// The page is in swap.
pub const SWAPPED: u64 = 1 << 4;

const WRITE_PROTECT_MATCHING: u64 = 1;
const REGIONS: usize = 16 << 10;

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

#[repr(C)]
#[derive(Debug, Default)]
struct Argument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

// _IOWR('f', 16, struct pm_scan_arg)
const PAGEMAP_SCAN: libc::c_ulong =
    (3 << 30) | ((size_of::<Argument>() as libc::c_ulong) << 16) | ((b'f' as libc::c_ulong) << 8) | 16;

/// `/proc/PID/pagemap`, which stays with the address space that the process had when it was opened.
#[derive(Debug)]
pub struct Pagemap {
    file: File,
    regions: Vec<Region>,
}

impl Pagemap {
    pub fn open(pid: i32) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).open(format!("/proc/{pid}/pagemap"))?;
        Ok(Self {
            file,
            regions: vec![Region::default(); REGIONS],
        })
    }

    fn scan(&mut self, mut argument: Argument, mut found: impl FnMut(u64, u64)) -> io::Result<()> {
        argument.size = size_of::<Argument>() as u64;
        while argument.start < argument.end {
            argument.walk_end = 0;
            // SAFETY: the kernel reads and writes the argument, and at most `vec_len` regions of the buffer.
            let count = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut argument) };
            if count < 0 {
                return Err(io::Error::last_os_error());
            }
            for region in &self.regions[..count as usize] {
                found(region.start / PAGE_BYTES, region.end / PAGE_BYTES);
            }
            if argument.walk_end <= argument.start {
                break;
            }
            argument.start = argument.walk_end;
        }
        Ok(())
    }

    /// Calls `found` with each stretch of pages within `from..to` that is in all of `all` and, if not 0, one of `any`.
    pub fn each(&mut self, from: u64, to: u64, all: u64, any: u64, found: impl FnMut(u64, u64)) -> io::Result<()> {
        let argument = Argument {
            start: from * PAGE_BYTES,
            end: to * PAGE_BYTES,
            vec: self.regions.as_mut_ptr() as u64,
            vec_len: REGIONS as u64,
            category_mask: all,
            category_anyof_mask: any,
            return_mask: all | any,
            ..Argument::default()
        };
        self.scan(argument, found)
    }

    /// Calls `found` with each stretch of pages within `from..to` that was written since it was last protected, and
    /// protects it again in the same step, so that no store between the two goes unseen.
    pub fn take_written(&mut self, from: u64, to: u64, found: impl FnMut(u64, u64)) -> io::Result<()> {
        let argument = Argument {
            flags: WRITE_PROTECT_MATCHING,
            start: from * PAGE_BYTES,
            end: to * PAGE_BYTES,
            vec: self.regions.as_mut_ptr() as u64,
            vec_len: REGIONS as u64,
            category_mask: WRITTEN | PRESENT,
            return_mask: WRITTEN | PRESENT,
            ..Argument::default()
        };
        self.scan(argument, found)
    }

    /// Protects what is there and was written, so that the next store to it shows.
    pub fn protect(&mut self, from: u64, to: u64) -> io::Result<()> {
        let argument = Argument {
            flags: WRITE_PROTECT_MATCHING,
            start: from * PAGE_BYTES,
            end: to * PAGE_BYTES,
            category_mask: WRITTEN | PRESENT,
            ..Argument::default()
        };
        self.scan(argument, |_, _| {})
    }
}
