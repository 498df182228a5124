//! Events that are only counted, several at the same time: no samples, one reading for all of them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::attributes::{Attributes, Scope, switch};

/// What the kernel hands out for a group: how many, two times, and a value each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Reading {
    enabled_ns: u64,
    running_ns: u64,
    values: Vec<u64>,
}

impl Reading {
    fn decoded(bytes: &[u8]) -> Option<Self> {
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
            .collect();
        let (head, values) = words.split_at_checked(3)?;
        (head[0] == values.len() as u64).then(|| Self {
            enabled_ns: head[1],
            running_ns: head[2],
            values: values.to_vec(),
        })
    }

    /// What came since an earlier one. Where other events had the counters for a part of the time, what was counted
    /// stands for all of it; `None` where they had them all the time.
    fn since(&self, before: &Self) -> Option<More> {
        let elapsed_ns = self.enabled_ns.saturating_sub(before.enabled_ns) as f64;
        let running_ns = self.running_ns.saturating_sub(before.running_ns) as f64;
        if elapsed_ns > 0.0 && running_ns == 0.0 {
            return None;
        }
        let share = if running_ns > 0.0 { elapsed_ns / running_ns } else { 1.0 };
        let values = self.values.iter().zip(&before.values);
        Some(More {
            elapsed_ns,
            counts: values
                .map(|(now, then)| now.wrapping_sub(*then) as f64 * share)
                .collect(),
        })
    }
}

/// What was counted from one reading to the next.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct More {
    /// The time between them.
    pub elapsed_ns: f64,
    /// By event, in the order of opening.
    pub counts: Vec<f64>,
}

/// Events that are counted in the same moments.
#[derive(Debug)]
pub struct Group {
    /// The first one leads.
    events: Vec<OwnedFd>,
    last: Reading,
}

impl Group {
    /// Opens the events and lets them count.
    ///
    /// # Errors
    /// As the kernel has it.
    pub fn open(events: &[Attributes], scope: Scope) -> io::Result<Self> {
        let mut opened: Vec<OwnedFd> = Vec::with_capacity(events.len());
        for event in events {
            let next = event.open(scope, opened.first())?;
            opened.push(next);
        }
        // The leader last: from then on all count.
        opened.iter().rev().try_for_each(|event| switch(event, true))?;
        let mut group = Self {
            events: opened,
            last: Reading::default(),
        };
        group.last = group.read()?;
        Ok(group)
    }

    fn read(&self) -> io::Result<Reading> {
        let Some(leader) = self.events.first() else {
            return Ok(Reading::default());
        };
        let mut bytes = vec![0u8; 8 * (3 + self.events.len())];
        // SAFETY: the buffer is as long as said.
        let read = unsafe { libc::read(leader.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
        Reading::decoded(&bytes[..read])
            .filter(|reading| reading.values.len() == self.events.len())
            .ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the kernel's counts are of a form not known",
                )
            })
    }

    /// What was counted since the last call, or since it was opened; `None` where other events had the counters.
    ///
    /// # Errors
    /// As the kernel has it.
    pub fn more(&mut self) -> io::Result<Option<More>> {
        let now = self.read()?;
        let more = now.since(&self.last);
        if more.is_some() {
            self.last = now;
        }
        Ok(more)
    }
}

/// Whether tests can count the kernel's own events here. Root can, so that only a container's filter of system calls keeps
/// it from that; where they cannot be counted, the log of the tests says so.
#[cfg(test)]
pub(crate) fn may_count(scope: Scope) -> bool {
    use std::io::Write;
    let Err(error) = Group::open(&[Attributes::counting(1, [1, 0, 0], true)], scope) else {
        return true;
    };
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    // SAFETY: asks for a number.
    let root = unsafe { libc::geteuid() } == 0;
    let filtered = status
        .lines()
        .any(|line| line.starts_with("Seccomp:") && !line.ends_with('0'));
    assert!(!root || filtered, "root may count: {error}");
    // Not by eprintln!, which is shown for tests that fail.
    let line = format!("skipped: events cannot be counted here: {error}\n");
    std::io::stderr().write_all(line.as_bytes()).expect("written");
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn readings_are_decoded_or_refused() {
        let reading = Reading::decoded(&bytes(&[2, 100, 50, 7, 9])).expect("whole");
        assert_eq!((reading.enabled_ns, reading.running_ns), (100, 50));
        assert_eq!(reading.values, [7, 9]);
        for cut in [&[2, 100, 50, 7][..], &[2, 100], &[]] {
            assert_eq!(Reading::decoded(&bytes(cut)), None);
        }
    }

    #[test]
    fn counts_stand_for_the_time_in_which_others_had_the_counters() {
        let at = |enabled_ns, running_ns, value| Reading {
            enabled_ns,
            running_ns,
            values: vec![value],
        };
        let more = at(300, 150, 40).since(&at(100, 50, 10)).expect("it ran");
        assert_eq!((more.elapsed_ns, more.counts[0]), (200.0, 60.0));
        assert_eq!(at(300, 50, 10).since(&at(100, 50, 10)), None, "it never ran");
        let nothing = at(100, 50, 10).since(&at(100, 50, 10)).expect("no time has passed");
        assert_eq!((nothing.elapsed_ns, nothing.counts[0]), (0.0, 0.0));
    }

    /// Events of the kernel's own, which need no hardware.
    #[test]
    fn the_kernels_own_events_are_counted() {
        if !may_count(Scope::ThisThread) {
            return;
        }
        let event = |number| Attributes::counting(1, [number, 0, 0], true);
        let (task_clock, page_faults) = (event(1), event(2));
        let mut group = Group::open(&[task_clock, page_faults], Scope::ThisThread).expect("it may count");
        let pages = 300;
        let memory = std::hint::black_box(vec![0u8; pages << 12]);
        (0..pages).for_each(|page| {
            // SAFETY: within the memory; volatile, so that the touch happens.
            unsafe { memory.as_ptr().add(page << 12).cast_mut().write_volatile(1) };
        });
        let more = group.more().expect("readable").expect("it ran");
        assert!(more.elapsed_ns > 0.0 && more.counts[0] > 0.0);
        // Huge pages may be fewer.
        assert!(more.counts[1] >= 1.0, "{more:?}");
    }
}
