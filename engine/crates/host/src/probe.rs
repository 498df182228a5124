//! Which samplers work here, found out by trying them on memory of our own: some kernels take a request and ignore it.

use std::fs;
use std::io;
use std::ptr::null_mut;

use crate::PAGE_BYTES;
use crate::area::parse;
use crate::pagemap::{PRESENT, Pagemap, WRITTEN};
use crate::written::Watch;

const PAGES: u64 = 8;

/// Pages of our own, all written.
struct Patch(*mut u8);

impl Patch {
    fn new() -> io::Result<Self> {
        let bytes = (PAGES * PAGE_BYTES) as usize;
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping.
        let place = unsafe { libc::mmap(null_mut(), bytes, access, kind, -1, 0) };
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let patch = Self(place.cast());
        (0..PAGES).for_each(|page| patch.touch(page));
        Ok(patch)
    }

    fn first(&self) -> u64 {
        self.0 as u64 / PAGE_BYTES
    }

    fn touch(&self, page: u64) {
        // SAFETY: within the mapping.
        unsafe { self.0.add((page * PAGE_BYTES) as usize).write_volatile(1) };
    }

    /// Has processors look up its translations again. Clearing accessed bits does not do so, and a processor sets none
    /// for a page whose translation it still holds; taking access away for a moment does.
    fn forget_translations(&self) -> io::Result<()> {
        for access in [libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE] {
            // SAFETY: ours; nobody touches it between the two calls, and its content stays.
            if unsafe { libc::mprotect(self.0.cast(), (PAGES * PAGE_BYTES) as usize, access) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

impl Drop for Patch {
    fn drop(&mut self) {
        // SAFETY: ours, and nobody looks at it any more.
        unsafe { libc::munmap(self.0.cast(), (PAGES * PAGE_BYTES) as usize) };
    }
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, what.to_owned())
}

/// Whether stores can be seen.
pub(crate) fn written() -> io::Result<()> {
    let mut watch = Watch::here()?;
    let patch = Patch::new()?;
    let (from, to) = (patch.first(), patch.first() + PAGES);
    watch.register(from, to);
    let mut pagemap = Pagemap::open(std::process::id() as i32)?;
    pagemap.protect(from, to)?;
    patch.touch(3);
    let mut seen = Vec::new();
    pagemap.each(from, to, WRITTEN | PRESENT, 0, |start, end| {
        seen.push((start - from, end - from))
    })?;
    if seen == [(3, 4)] {
        return Ok(());
    }
    Err(refused("the kernel does not see which page was written"))
}

/// Whether accesses can be seen.
pub(crate) fn referenced() -> io::Result<()> {
    let patch = Patch::new()?;
    let referenced = || -> io::Result<Option<u64>> {
        let text = fs::read_to_string("/proc/self/smaps")?;
        let mut lines = text.lines().skip_while(|line| {
            parse(line).is_none_or(|(area, _)| !(area.start <= patch.first() && patch.first() < area.end))
        });
        let line = lines.find_map(|line| line.strip_prefix("Referenced:"));
        Ok(line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()))
    };
    fs::write("/proc/self/clear_refs", "1")?;
    patch.forget_translations()?;
    let before = referenced()?.ok_or_else(|| refused("the kernel counts no referenced pages"))?;
    (0..PAGES).for_each(|page| patch.touch(page));
    let after = referenced()?.unwrap_or(0);
    // The mapping may have been joined with others of ours, so what counts is that its own pages came back.
    if after >= before + PAGES * PAGE_BYTES / 1024 {
        return Ok(());
    }
    Err(refused("the kernel does not clear accessed bits"))
}
