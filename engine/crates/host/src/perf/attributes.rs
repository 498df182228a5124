//! What the kernel is asked for when an event is opened (`perf_event_attr`).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The first 112 bytes of the kernel's structure, its fifth version (Linux 4.1).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Raw {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    breakpoint_type: u32,
    config_1: u64,
    config_2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

/// Bits of the flags.
mod flag {
    pub const DISABLED: u64 = 1 << 0;
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    pub const WATERMARK: u64 = 1 << 14;
    pub const PRECISE_SHIFT: u32 = 15;
    pub const USE_CLOCK: u64 = 1 << 25;
}

/// What is read of an event that is counted.
mod read {
    pub const TIMES: u64 = 1 << 0 | 1 << 1;
    pub const GROUP: u64 = 1 << 3;
}

const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;
const PERIOD: libc::c_ulong = 0x4008_2404;
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// Nobody waits for a ring, so none has to be woken.
const NEVER_WAKE: u32 = u32::MAX;

/// An event and how it is sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// Number of the device (`type` in sysfs); 1 for the kernel's own events.
    pub device: u32,
    /// The event, as its device encodes it.
    pub config: [u64; 3],
    /// Events from one sample to the next; 0 only counts.
    pub period: u64,
    /// What samples consist of: [`super::record::field`].
    pub fields: u64,
    /// 2: samples name the very instruction, 0: they may be late.
    pub precision: u64,
    /// Leaves the kernel's own accesses out.
    pub user_only: bool,
}

/// Whose events are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The calling thread.
    ThisThread,
    /// Whoever runs on a processor.
    Processor(u32),
}

impl Attributes {
    /// An event that is counted and never sampled.
    #[must_use]
    pub fn counting(device: u32, config: [u64; 3], user_only: bool) -> Self {
        Self {
            device,
            config,
            period: 0,
            fields: 0,
            precision: 0,
            user_only,
        }
    }

    /// Opens the event, switched off; `leader` is an event that has to be counted along with it.
    ///
    /// # Errors
    /// As the kernel has it.
    pub fn open(&self, scope: Scope, leader: Option<&OwnedFd>) -> io::Result<OwnedFd> {
        let mut flags = flag::DISABLED | flag::WATERMARK | flag::USE_CLOCK | (self.precision << flag::PRECISE_SHIFT);
        if self.user_only {
            flags |= flag::EXCLUDE_KERNEL | flag::EXCLUDE_HYPERVISOR;
        }
        let raw = Raw {
            kind: self.device,
            size: size_of::<Raw>() as u32,
            config: self.config[0],
            config_1: self.config[1],
            config_2: self.config[2],
            sample_period: self.period,
            sample_type: self.fields,
            read_format: if self.period == 0 { read::TIMES | read::GROUP } else { 0 },
            flags,
            wakeup_watermark: NEVER_WAKE,
            clock: libc::CLOCK_MONOTONIC,
            ..Raw::default()
        };
        let (pid, processor) = match scope {
            Scope::ThisThread => (0, -1),
            Scope::Processor(number) => (-1, number as i32),
        };
        let group: RawFd = leader.map_or(-1, AsRawFd::as_raw_fd);
        // SAFETY: the kernel reads `size` bytes of what it is given.
        let descriptor = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const raw,
                pid,
                processor,
                group,
                CLOSE_ON_EXEC,
            )
        };
        if descriptor == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) })
    }
}

fn control(event: &OwnedFd, request: libc::c_ulong, argument: *const u64) -> io::Result<()> {
    // SAFETY: an open event; the argument is nothing or a number.
    match unsafe { libc::ioctl(event.as_raw_fd(), request, argument) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Switches an event on or off.
///
/// # Errors
/// As the kernel has it.
pub fn switch(event: &OwnedFd, on: bool) -> io::Result<()> {
    control(event, if on { ENABLE } else { DISABLE }, std::ptr::null())
}

/// Changes the events from one sample to the next.
///
/// # Errors
/// As the kernel has it.
pub fn set_period(event: &OwnedFd, period: u64) -> io::Result<()> {
    control(event, PERIOD, &raw const period)
}
