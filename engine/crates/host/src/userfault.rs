//! Userfaultfd descriptors of other processes.
//!
//! A descriptor must belong to the address space that it watches, so the process opens it (see `inject`) and it is taken
//! over from there; closing it ends all that it did.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::errno;
use crate::inject::Held;

const API: u64 = 0xaa;
const USER_MODE_ONLY: u64 = 1;
const MODE_WRITE_PROTECT: u64 = 2;
const PROTECT: u64 = 1;
// _IOWR(0xaa, 0x3f, struct uffdio_api), _IOWR(0xaa, 0x00, struct uffdio_register) and
// _IOWR(0xaa, 0x06, struct uffdio_writeprotect)
const IOCTL_API: libc::c_ulong = 0xc018_aa3f;
const IOCTL_REGISTER: libc::c_ulong = 0xc020_aa00;
const IOCTL_WRITE_PROTECT: libc::c_ulong = 0xc018_aa06;

/// Watches the address space that it was opened in.
#[derive(Debug)]
pub(crate) struct Userfault(OwnedFd);

impl Userfault {
    /// One for this process.
    pub fn here(features: u64) -> io::Result<Self> {
        // SAFETY: returns a new descriptor or -1.
        let descriptor = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC as u64 | USER_MODE_ONLY) };
        if descriptor == -1 {
            return Err(errno());
        }
        // SAFETY: just opened.
        Self(unsafe { OwnedFd::from_raw_fd(descriptor as i32) }).agreed(features)
    }

    /// One for a process that is held.
    pub fn of(held: &mut Held, features: u64) -> io::Result<Self> {
        let remote = held.call(libc::SYS_userfaultfd, [libc::O_CLOEXEC as u64 | USER_MODE_ONLY])?;
        let taken = take(held.pid(), remote);
        held.call(libc::SYS_close, [remote])?;
        Self(taken?).agreed(features)
    }

    fn agreed(self, features: u64) -> io::Result<Self> {
        // Laid out as `struct uffdio_api`.
        self.ask(IOCTL_API, [API, features, 0])?;
        Ok(self)
    }

    fn ask<const WORDS: usize>(&self, request: libc::c_ulong, mut words: [u64; WORDS]) -> io::Result<()> {
        // SAFETY: callers lay out `words` as the kernel's structure of the request.
        if unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, words.as_mut_ptr()) } == -1 {
            return Err(errno());
        }
        Ok(())
    }

    /// Has write protection of these addresses watched.
    pub fn register(&self, start: u64, bytes: u64) -> io::Result<()> {
        self.ask(IOCTL_REGISTER, [start, bytes, MODE_WRITE_PROTECT, 0])
    }

    /// Protects addresses that are registered, or releases them.
    pub fn protect(&self, start: u64, bytes: u64, protected: bool) -> io::Result<()> {
        self.ask(IOCTL_WRITE_PROTECT, [start, bytes, if protected { PROTECT } else { 0 }])
    }
}

/// A descriptor of our own for what `remote` is in the process.
fn take(pid: i32, remote: u64) -> io::Result<OwnedFd> {
    // SAFETY: both calls return a new descriptor or -1.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        if process == -1 {
            return Err(errno());
        }
        let process = OwnedFd::from_raw_fd(process as i32);
        let taken = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), remote, 0);
        if taken == -1 {
            return Err(errno());
        }
        Ok(OwnedFd::from_raw_fd(taken as i32))
    }
}
