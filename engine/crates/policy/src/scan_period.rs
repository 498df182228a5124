//! When NUMA balancing scans next, and how its period adapts to the faults of each thread.
//!
//! Every thread has a scan period of its own and tries once in it, by its own run time; whichever thread tries first after
//! the process' next scan is due does the scan, and the next is due its period later (kernel/sched/fair.c,
//! `task_tick_numa`, `task_numa_work`). A thread counts its faults by kind and looks at the counts at its first fault after
//! the scanner has come to the end of memory (`task_numa_placement`): its period doubles when none was shared or local, or
//! a promotion failed; it grows when seven tenths were private or local; it shrinks otherwise (`update_task_scan_period`).
//!
//! What is surprising: the counts are cleared only when the period did *not* double. One failed promotion, and a thread's
//! period doubles after every pass until it is the longest, and stays there. Threads that have touched the same
//! pages form a group, whose longest period is as many times as long as it has threads, by their share of shared faults.
//!
//! What had to be decided: run time is taken to be time, and all threads to have tried first when the process was scanned
//! last, so that they try together until their periods differ; all threads that have shared a page are one group; a thread is
//! not known before its first fault, so one that never faults does not scan.

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// The period adapts in tenths, and scans slow down from seven tenths of good faults on.
const PERIOD_SLOTS: u64 = 10;
const PERIOD_THRESHOLD: u64 = 7;
/// A thread runs at least so many times as long as it scanned before it scans again, which caps the cost at 3 %.
const SELF_LIMIT: f64 = 32.0;
const MS: Nanos = 1_000_000;

/// Shortest and longest period of a thread outside a group, which depend on the size of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// In milliseconds.
    pub shortest_ms: u64,
    /// In milliseconds, not below the shortest.
    pub longest_ms: u64,
}

/// A fault as the statistics see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// On a page of fast memory, where the threads run.
    pub local: bool,
    /// By another thread than the fault before on this page.
    pub shared: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Thread {
    /// Whether it has faulted.
    known: bool,
    tried_at: Nanos,
    /// 0 before its first fault: then the shortest.
    period_ms: u64,
    /// Passes of the scanner when it last looked at its counts.
    pass: u64,
    local: u64,
    remote: u64,
    failed: u64,
    /// Private and shared faults since it last looked, whatever became of its period.
    lately: [u64; 2],
    /// The same, halved each time.
    decayed: [u64; 2],
    grouped: bool,
}

/// The periods of a process' threads.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ScanPeriods {
    due_at: Nanos,
    scanned_at: Nanos,
    /// By number.
    threads: Vec<Thread>,
}

impl ScanPeriods {
    /// A process whose first scan is due at `due_at`.
    #[must_use]
    pub fn new(due_at: Nanos) -> Self {
        Self {
            due_at,
            scanned_at: 0,
            threads: Vec::new(),
        }
    }

    /// Threads that have faulted.
    fn known(&self) -> impl Iterator<Item = (usize, &Thread)> {
        self.threads.iter().enumerate().filter(|(_, thread)| thread.known)
    }

    /// The shortest of all threads' periods.
    #[must_use]
    pub fn period_ms(&self, bounds: Bounds) -> u64 {
        let periods = self.known().map(|(_, thread)| thread.period_ms.max(bounds.shortest_ms));
        periods.min().unwrap_or(bounds.shortest_ms)
    }

    /// When a thread tries for the first time from `from` on.
    fn tries_at(thread: &Thread, bounds: Bounds, from: Nanos) -> Nanos {
        let period_ns = thread.period_ms.max(bounds.shortest_ms).max(1) * MS;
        let periods = from.saturating_sub(thread.tried_at).div_ceil(period_ns);
        thread.tried_at + periods.max(1) * period_ns
    }

    fn next(&self, bounds: Bounds) -> Option<(Nanos, usize)> {
        let tries = self
            .known()
            .map(|(number, thread)| (Self::tries_at(thread, bounds, self.due_at), number));
        tries.min()
    }

    /// When the next scan is.
    #[must_use]
    pub fn next_at(&self, bounds: Bounds) -> Nanos {
        self.next(bounds).map_or(self.due_at, |(at, _)| at)
    }

    /// A scan was done at `now`, which took `spent_ns`.
    pub fn scanned(&mut self, bounds: Bounds, now: Nanos, spent_ns: f64) {
        let rest_ns = (SELF_LIMIT * spent_ns) as Nanos;
        let shortest_ns = bounds.shortest_ms.max(1) * MS;
        // Threads that come to be known try when a scan is due.
        self.scanned_at = now + rest_ns.saturating_sub(shortest_ns);
        let Some((_, number)) = self.next(bounds) else {
            self.due_at = self.scanned_at + shortest_ns;
            return;
        };
        let thread = &mut self.threads[number];
        let period_ns = thread.period_ms.max(bounds.shortest_ms).max(1) * MS;
        self.due_at = now + period_ns;
        // Another thread may be the next, whose rest is over.
        thread.tried_at = now + rest_ns.saturating_sub(period_ns);
    }

    /// A thread took a fault: it is one that scans.
    pub fn faulted(&mut self, thread: u32) {
        let number = thread as usize;
        if self.threads.len() <= number {
            self.threads.resize_with(number + 1, Thread::default);
        }
        let thread = &mut self.threads[number];
        if !thread.known {
            thread.known = true;
            thread.tried_at = self.scanned_at;
        }
    }

    /// Counts a fault of a thread that has faulted, at `now`, when the scanner has come to the end `pass` times; `last` is
    /// the thread that took the fault before on the page, if another.
    pub fn count(&mut self, thread: u32, fault: Counted, last: Option<u32>, pass: u64, bounds: Bounds, now: Nanos) {
        let number = thread as usize;
        if fault.shared {
            self.threads[number].grouped = true;
            if let Some(other) = last.and_then(|last| self.threads.get_mut(last as usize)) {
                other.grouped = true;
            }
        }
        if self.threads[number].pass != pass {
            self.look(number, pass, bounds, now);
        }
        let thread = &mut self.threads[number];
        *(if fault.local {
            &mut thread.local
        } else {
            &mut thread.remote
        }) += 1;
        thread.lately[usize::from(fault.shared)] += 1;
    }

    /// A promotion by a thread that has faulted came to nothing.
    pub fn failed(&mut self, thread: u32) {
        if let Some(thread) = self.threads.get_mut(thread as usize) {
            thread.failed += 1;
        }
    }

    /// A thread looks at what it has counted (`task_numa_placement`).
    fn look(&mut self, number: usize, pass: u64, bounds: Bounds, now: Nanos) {
        let thread = &mut self.threads[number];
        thread.pass = pass;
        let lately = std::mem::take(&mut thread.lately);
        for (decayed, lately) in thread.decayed.iter_mut().zip(lately) {
            *decayed = *decayed / 2 + lately;
        }
        let longest_ms = self.longest_ms(number, bounds);
        let thread = &mut self.threads[number];
        let period_ms = thread.period_ms.max(bounds.shortest_ms);
        let [private, shared] = lately;
        if thread.local + shared == 0 || thread.failed > 0 {
            thread.period_ms = (2 * period_ms).min(longest_ms);
            self.due_at = now + thread.period_ms * MS;
            return;
        }
        let slot = period_ms.div_ceil(PERIOD_SLOTS);
        let tenths = |part: u64, rest: u64| part * PERIOD_SLOTS / (part + rest).max(1);
        let (local, private) = (tenths(thread.local, thread.remote), tenths(private, shared));
        let slower = |ratio: u64| period_ms + (ratio - PERIOD_THRESHOLD).max(1) * slot;
        let wanted = if private >= PERIOD_THRESHOLD {
            slower(private)
        } else if local >= PERIOD_THRESHOLD {
            slower(local)
        } else {
            period_ms.saturating_sub((PERIOD_THRESHOLD - local.max(private)) * slot)
        };
        thread.period_ms = wanted.clamp(bounds.shortest_ms, longest_ms);
        (thread.local, thread.remote, thread.failed) = (0, 0, 0);
    }

    /// The longest period of a thread (`task_scan_max`).
    fn longest_ms(&self, number: usize, bounds: Bounds) -> u64 {
        if !self.threads[number].grouped {
            return bounds.longest_ms;
        }
        let group = self.threads.iter().filter(|thread| thread.grouped);
        let (mut members, mut private, mut shared) = (0, 0, 0);
        for thread in group {
            members += 1;
            private += thread.decayed[0];
            shared += thread.decayed[1];
        }
        let of_group =
            u128::from(bounds.longest_ms) * members * u128::from(shared + 1) / u128::from(private + shared + 1);
        bounds.longest_ms.max(u64::try_from(of_group).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        shortest_ms: 100,
        longest_ms: 3750,
    };
    const PRIVATE: Counted = Counted {
        local: false,
        shared: false,
    };

    /// Pass after pass, `of_a_pass` tells the faults of thread 0.
    fn periods_of(passes: u64, mut of_a_pass: impl FnMut(&mut ScanPeriods, u64)) -> Vec<u64> {
        let mut periods = ScanPeriods::new(0);
        let pass = |pass| {
            periods.faulted(0);
            of_a_pass(&mut periods, pass);
            periods.period_ms(BOUNDS)
        };
        (0..passes).map(pass).collect()
    }

    #[test]
    fn remote_and_private_faults_double_the_period_up_to_the_longest() {
        let seen = periods_of(8, |periods, pass| periods.count(0, PRIVATE, None, pass, BOUNDS, 0));
        assert_eq!(seen, [100, 200, 400, 800, 1600, 3200, 3750, 3750]);
    }

    #[test]
    fn one_failed_promotion_is_never_forgotten() {
        let local = Counted {
            local: true,
            shared: true,
        };
        let seen = |failing: u64| {
            periods_of(6, |periods, pass| {
                (0..10).for_each(|_| periods.count(0, local, Some(0), pass, BOUNDS, 0));
                if pass == failing {
                    periods.failed(0);
                }
            })
        };
        // All local: three tenths longer after every pass.
        assert_eq!(seen(99), [100, 130, 169, 220, 286, 373]);
        assert_eq!(seen(2), [100, 130, 169, 338, 676, 1352]);
    }

    #[test]
    fn shared_remote_faults_shorten_it_and_are_few_where_the_group_is_large() {
        let shared = Counted {
            local: false,
            shared: true,
        };
        let mut periods = ScanPeriods::new(0);
        for thread in 0..8 {
            periods.faulted(thread);
        }
        for pass in 0..9 {
            for thread in 0..8 {
                periods.count(thread, shared, Some((thread + 1) % 8), pass, BOUNDS, 0);
            }
        }
        // Not below the shortest; nothing failed.
        assert_eq!(periods.period_ms(BOUNDS), 100);
        (0..8).for_each(|thread| periods.failed(thread));
        for pass in 9..30 {
            for thread in 0..8 {
                periods.count(thread, shared, Some((thread + 1) % 8), pass, BOUNDS, 0);
            }
        }
        // All eight have shared all their faults: eight times the longest of one.
        assert_eq!(periods.period_ms(BOUNDS), 8 * 3750);
    }

    #[test]
    fn the_thread_with_the_shortest_period_scans() {
        let mut periods = ScanPeriods::new(1000 * MS);
        assert_eq!(periods.next_at(BOUNDS), 1000 * MS);
        periods.scanned(BOUNDS, 1000 * MS, 0.0);
        assert_eq!(periods.next_at(BOUNDS), 1100 * MS);
        periods.faulted(0);
        periods.faulted(1);
        // Thread 0 slows down, thread 1 does not look at its counts.
        for pass in 1..4 {
            periods.count(0, PRIVATE, None, pass, BOUNDS, 1010 * MS);
        }
        // Its last look put the next scan off by its own 800 ms; thread 1 tries every 100 ms, and is the first then.
        assert_eq!(periods.next_at(BOUNDS), 1900 * MS);
        periods.scanned(BOUNDS, 1900 * MS, 0.0);
        assert_eq!(periods.next_at(BOUNDS), 2000 * MS);
        // A scan of 5 ms is followed by 160 ms of rest; thread 0 does not try before 2600 ms.
        periods.scanned(BOUNDS, 2000 * MS, 5e6);
        assert_eq!(periods.next_at(BOUNDS), 2160 * MS);
    }
}
