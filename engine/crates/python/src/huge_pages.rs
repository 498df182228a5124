//! Asks the kernel for huge pages under large tables.
//!
//! A trial on 4 KiB pages reads tables of hundreds of megabytes at random, and half the cost of
//! that is address translation. Linux hands out huge pages on request (`madvise`) even where it
//! does not by itself, so allocations of 4 MiB and more ask for them; nothing else changes.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

/// The system allocator with a hint on large blocks.
pub struct HugePages;

const HUGE_PAGE_BYTES: usize = 2 << 20;
const LARGE_BYTES: usize = 4 << 20;

fn large(layout: Layout) -> Option<Layout> {
    if layout.size() < LARGE_BYTES {
        return None;
    }
    layout.align_to(HUGE_PAGE_BYTES).ok()
}

// SAFETY: every block comes from and goes back to `System`, which on Linux takes any block back
// through `free` whatever its alignment; large blocks only get a stricter alignment and a hint.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(large) = large(layout) else {
            // SAFETY: the caller's contract.
            return unsafe { System.alloc(layout) };
        };
        // SAFETY: same size, at least the alignment asked for.
        let block = unsafe { System.alloc(large) };
        if !block.is_null() {
            // SAFETY: the range is ours; a refused hint leaves ordinary pages.
            unsafe { libc::madvise(block.cast(), large.size(), libc::MADV_HUGEPAGE) };
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if large(layout).is_none() {
            // SAFETY: the caller's contract.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: as in `alloc`; the block is written before anybody reads it.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `System` with this layout or a more strictly aligned one.
        unsafe { System.dealloc(block, large(layout).unwrap_or(layout)) }
    }
}
