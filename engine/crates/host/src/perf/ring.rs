//! The ring that the kernel writes records into: a page of positions, then data of a power of two bytes.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::PAGE_BYTES;

/// Where in the first page the kernel's position stands, and behind it the reader's.
const HEAD_OFFSET: usize = 1024;
const TAIL_OFFSET: usize = 1032;

/// Copies what lies between `tail` and `head` of a ring to the end of `into`, across its end where need be.
///
/// Both positions count on for ever. False, and nothing copied, when they lie further apart than the ring is long, which
/// only a writer that does not wait for its reader can cause.
pub fn copy_out(data: &[u8], tail: u64, head: u64, into: &mut Vec<u8>) -> bool {
    let span = head.wrapping_sub(tail);
    if span > data.len() as u64 {
        return false;
    }
    if span == 0 {
        return true;
    }
    let (from, span) = ((tail % data.len() as u64) as usize, span as usize);
    let before_end = span.min(data.len() - from);
    into.extend_from_slice(&data[from..from + before_end]);
    into.extend_from_slice(&data[..span - before_end]);
    true
}

/// A ring of an open event.
#[derive(Debug)]
pub struct Ring {
    place: NonNull<u8>,
    data_bytes: usize,
    event: OwnedFd,
}

// SAFETY: the mapping belongs to this value alone; the kernel does not mind which thread reads it.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of `event`, with `data_pages` (a power of two) pages for records.
    ///
    /// # Errors
    /// When the kernel refuses, mostly for the limit of locked memory.
    pub fn new(event: OwnedFd, data_pages: usize) -> io::Result<Self> {
        debug_assert!(data_pages.is_power_of_two());
        let data_bytes = data_pages * PAGE_BYTES as usize;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a descriptor that is ours.
        let place = unsafe {
            libc::mmap(
                null_mut(),
                data_bytes + PAGE_BYTES as usize,
                access,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        let mapped = (place != libc::MAP_FAILED).then_some(place.cast());
        let place = mapped.and_then(NonNull::new).ok_or_else(io::Error::last_os_error)?;
        Ok(Self {
            place,
            data_bytes,
            event,
        })
    }

    /// The event.
    #[must_use]
    pub fn event(&self) -> &OwnedFd {
        &self.event
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: within the first page of the mapping, aligned, and only ever used atomically by both sides.
        unsafe { self.place.add(offset).cast::<AtomicU64>().as_ref() }
    }

    /// Moves all that was written so far to the end of `into`, which makes room in the ring; false when the ring had been
    /// overrun, so that its contents are lost.
    pub fn take(&mut self, into: &mut Vec<u8>) -> bool {
        // Pairs with the kernel's barrier between the records and the position.
        let head = self.position(HEAD_OFFSET).load(Ordering::Acquire);
        let tail = self.position(TAIL_OFFSET).load(Ordering::Relaxed);
        // SAFETY: the data follow the first page, and the kernel does not write between tail and head.
        let data = unsafe { std::slice::from_raw_parts(self.place.add(PAGE_BYTES as usize).as_ptr(), self.data_bytes) };
        let whole = copy_out(data, tail, head, into);
        // Only after the copy may the kernel write there again.
        self.position(TAIL_OFFSET).store(head, Ordering::Release);
        whole
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: ours, and nobody reads it any more.
        unsafe { libc::munmap(self.place.as_ptr().cast(), self.data_bytes + PAGE_BYTES as usize) };
    }
}
