//! System calls made in the name of another process, which is stopped for as long as they take.
//!
//! Nothing of the process is changed: its main thread is led to a system call instruction that is there already (the
//! kernel maps one into every process), and gets its registers back. A system call that this interrupts is restarted
//! by the kernel as after any debugger.

use std::fs::{self, File};
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::os::unix::fs::FileExt;
use std::ptr::null_mut;

use crate::{errno, process};

type Registers = libc::user_regs_struct;

/// A process whose main thread is held.
#[derive(Debug)]
pub struct Held {
    pid: i32,
    instruction: u64,
    registers: Registers,
    /// Signals that came meanwhile; sent again at the end.
    signals: Vec<i32>,
}

fn trace(request: libc::c_uint, pid: i32, data: *mut libc::c_void) -> io::Result<()> {
    // SAFETY: `data` is null, a number, or points to registers that the caller owns.
    if unsafe { libc::ptrace(request, pid, null_mut::<libc::c_void>(), data) } == -1 {
        return Err(errno());
    }
    Ok(())
}

/// The address of a system call instruction in what the kernel maps into the process.
fn instruction(pid: i32) -> io::Result<u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let missing = || io::Error::new(io::ErrorKind::Unsupported, "it has no [vdso] with a system call in it");
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).ok_or_else(missing)?;
    let bounds = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
    let (start, end) = bounds.ok_or_else(missing)?;
    let hex = |text| u64::from_str_radix(text, 16).map_err(|_| missing());
    let (start, end) = (hex(start)?, hex(end)?);
    let mut code = vec![0; (end - start) as usize];
    File::open(format!("/proc/{pid}/mem"))?.read_exact_at(&mut code, start)?;
    let place = code
        .windows(2)
        .position(|bytes| bytes == [0x0f, 0x05])
        .ok_or_else(missing)?;
    Ok(start + place as u64)
}

impl Held {
    /// Stops the main thread.
    pub fn stop(pid: i32) -> io::Result<Self> {
        trace(libc::PTRACE_SEIZE, pid, null_mut())?;
        let mut held = Self {
            pid,
            instruction: 0,
            // SAFETY: plain numbers.
            registers: unsafe { zeroed() },
            signals: Vec::new(),
        };
        trace(libc::PTRACE_INTERRUPT, pid, null_mut())?;
        let status = held.wait()?;
        // A signal may arrive before the stop that was asked for; either way the thread stands still.
        let signal = libc::WSTOPSIG(status);
        if status >> 16 == 0 && signal != libc::SIGTRAP {
            held.signals.push(signal);
        }
        held.registers = held.read()?;
        // Only now: until it stood still it might have become another program, with this at another place.
        held.instruction = instruction(pid)?;
        Ok(held)
    }

    fn wait(&self) -> io::Result<i32> {
        loop {
            // SAFETY: plain numbers, which the kernel overwrites.
            let mut event = unsafe { zeroed::<libc::siginfo_t>() };
            let what = libc::WEXITED | libc::WSTOPPED | libc::__WALL;
            // SAFETY: `event` is ours.
            let got = unsafe { libc::waitid(libc::P_PID, self.pid as u32, &raw mut event, what | libc::WNOWAIT) };
            if got == -1 && errno().raw_os_error() == Some(libc::EINTR) {
                continue;
            }
            if got == -1 {
                return Err(errno());
            }
            let ended = [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED].contains(&event.si_code);
            // How a child of ours ended is for whoever started it; the end of others passes a debugger on its way.
            if !ended || process::parent(self.pid) != Some(std::process::id() as i32) {
                let mut status = 0;
                // SAFETY: `status` is ours.
                let got = unsafe { libc::waitpid(self.pid, &raw mut status, libc::__WALL | libc::WNOHANG) };
                if got == self.pid && libc::WIFSTOPPED(status) {
                    return Ok(status);
                }
                if got == 0 {
                    // Killed between the two: the next turn sees the end.
                    continue;
                }
            }
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
    }

    fn read(&self) -> io::Result<Registers> {
        let mut registers = MaybeUninit::<Registers>::uninit();
        trace(libc::PTRACE_GETREGS, self.pid, registers.as_mut_ptr().cast())?;
        // SAFETY: the kernel filled them.
        Ok(unsafe { registers.assume_init() })
    }

    fn write(&self, mut registers: Registers) -> io::Result<()> {
        trace(libc::PTRACE_SETREGS, self.pid, (&raw mut registers).cast())
    }

    /// Number of the process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Makes one system call with up to six arguments; its result.
    pub fn call<const COUNT: usize>(&mut self, number: libc::c_long, arguments: [u64; COUNT]) -> io::Result<u64> {
        let mut registers = self.registers;
        registers.rip = self.instruction;
        registers.rax = number as u64;
        registers.orig_rax = u64::MAX;
        let mut all = [0; 6];
        all[..COUNT].copy_from_slice(&arguments);
        [
            registers.rdi,
            registers.rsi,
            registers.rdx,
            registers.r10,
            registers.r8,
            registers.r9,
        ] = all;
        self.write(registers)?;
        loop {
            trace(libc::PTRACE_SINGLESTEP, self.pid, null_mut())?;
            let status = self.wait()?;
            let signal = libc::WSTOPSIG(status);
            if status >> 16 == 0 && signal != libc::SIGTRAP {
                self.signals.push(signal);
            }
            if self.read()?.rip != self.instruction {
                break;
            }
            if [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL].contains(&signal) {
                // Of our making: there is no such instruction, and there will be none however often it is tried.
                self.signals.retain(|known| *known != signal);
                return Err(io::Error::other("its system call instruction cannot be executed"));
            }
        }
        let result = self.read()?.rax as i64;
        if (-4095..0).contains(&result) {
            return Err(io::Error::from_raw_os_error(-result as i32));
        }
        Ok(result as u64)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A process that ended meanwhile needs neither, and one that never stood still has its registers.
        if self.registers.rip != 0 {
            let _ = self.write(self.registers);
        }
        let _ = trace(libc::PTRACE_DETACH, self.pid, null_mut());
        for signal in &self.signals {
            // SAFETY: sends a signal.
            unsafe { libc::kill(self.pid, *signal) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_process_that_becomes_another_program_goes_on() {
        // Each becomes a shell again some hundred times, so that many stops come while it does.
        let script = "[ \"$1\" -eq 0 ] && exit 7; exec sh -c \"$0\" \"$0\" $(($1 - 1))";
        let mut stops = 0;
        for _ in 0..4 {
            let mut child = Command::new("sh").args(["-c", script, script, "200"]).spawn().unwrap();
            let pid = child.id() as i32;
            while child.try_wait().unwrap().is_none() {
                let Ok(mut held) = Held::stop(pid) else { continue };
                match held.call(libc::SYS_getpid, []) {
                    Ok(found) => assert_eq!(found, pid as u64),
                    // Only of one that has ended.
                    Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ESRCH), "{error}"),
                }
                stops += 1;
                drop(held);
                sleep(Duration::from_micros(stops % 500));
            }
            assert_eq!(child.wait().unwrap().code(), Some(7));
        }
        assert!(stops > 100, "{stops} stops are no test");
    }

    #[test]
    fn how_a_child_ended_is_for_whoever_started_it() {
        for _ in 0..100 {
            let mut child = Command::new("sh").args(["-c", "exit 5"]).spawn().unwrap();
            while process::lives(child.id() as i32) {
                let _ = Held::stop(child.id() as i32).and_then(|mut held| held.call(libc::SYS_getpid, []));
            }
            assert_eq!(child.wait().unwrap().code(), Some(5));
        }
    }
}
