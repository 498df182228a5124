//! When NUMA balancing scans next, and how its period adapts to the faults of each thread.
//!
//! Every thread has a scan period of its own and tries once in it, by its own run time (`se.sum_exec_runtime`): whoever is asleep,
//! such as for a page that another thread moves, does not come nearer to a scan; whoever moves a page in its own fault does.
//! Whichever thread tries first after the process' next scan is due does the scan, and the next is due its period later.
//! It stands back for two ticks and for 32 times what the scan took it (kernel/sched/fair.c, `task_tick_numa`,
//! `task_numa_work`). A thread counts its faults by kind and looks at the counts at its first fault after
//! the scanner has come to the end of memory (`task_numa_placement`): its period doubles when none was shared or local, or
//! a promotion failed; it grows when seven tenths were private or local; it shrinks otherwise (`update_task_scan_period`).
//!
//! What is surprising:
//!
//! - only the first thread of a process begins with the shortest period. One that it starts begins with `scan_delay_ms`, since it is
//!   born with a time of its last try, so that its first try does not set its period (`init_numa_balancing`, from Linux 4.19 on).
//!   So a process of many threads is scanned once a second, not ten times, until faults change that, and for good where they are
//!   not counted: whichever of them scans puts the first thread off by its own period;
//! - the counts are cleared only when the period did *not* double. One failed promotion, and a thread's
//!   period doubles after every pass until it is the longest, and stays there. Threads that have touched the same
//!   pages form a group, whose longest period is as many times as long as it has threads, by their share of shared faults.
//!
//! What had to be decided: where no run times are known, threads run all the time, and thread 0 is the first of its process; all
//! threads that have shared a page are one group; the timer ticks 250 times a second.

use serde::{Deserialize, Serialize};

use crate::{Context, Nanos};

/// The period adapts in tenths, and scans slow down from seven tenths of good faults on.
const PERIOD_SLOTS: u64 = 10;
const PERIOD_THRESHOLD: u64 = 7;
/// A thread runs at least so many times as long as it scanned before it scans again, which caps the cost at 3 %.
const SELF_LIMIT: f64 = 32.0;
const MS: Nanos = 1_000_000;
/// Threads look at their run time at ticks (`CONFIG_HZ` 250, as distributions build kernels).
const TICK_NS: Nanos = 4 * MS;
/// Ticks by which a thread that scanned lets others go first.
const STANDS_BACK_TICKS: Nanos = 2;

/// What scans go by: the time, and how long each thread has run.
#[derive(Debug, Clone, Copy)]
pub struct Clocks<'a> {
    now: Nanos,
    run_ns: &'a [f64],
    /// The first thread of the process, if it faults at all.
    first: Option<usize>,
}

impl<'a> Clocks<'a> {
    /// Those of a call.
    #[must_use]
    pub fn of(cx: &Context<'a>) -> Self {
        Self {
            now: cx.now,
            run_ns: &cx.counters.run_ns,
            first: if cx.counters.run_ns.is_empty() {
                Some(0)
            } else {
                cx.counters.first_thread.map(|number| number as usize)
            },
        }
    }

    /// Run time of a thread; of one that is not listed, all the time.
    fn run(&self, thread: usize) -> Nanos {
        self.run_ns.get(thread).map_or(self.now, |ns| *ns as Nanos)
    }

    /// Run time of a thread at a time that is past, if it has run since.
    fn run_at(&self, thread: usize, at: Nanos) -> Nanos {
        self.run(thread).saturating_sub(self.now.saturating_sub(at))
    }
}

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
    /// Its run time when its period began (`node_stamp`).
    stamp_ns: Nanos,
    /// Whether it has tried yet.
    tried: bool,
    /// 0 for the shortest, whatever that is, once it has tried.
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

impl Thread {
    fn period_ms(&self, bounds: Bounds) -> u64 {
        if self.period_ms == 0 {
            bounds.shortest_ms.max(1)
        } else {
            self.period_ms
        }
    }

    /// Run time at which it tries next.
    fn tries_at(&self, bounds: Bounds) -> Nanos {
        let period_ms = if self.tried {
            self.period_ms(bounds)
        } else {
            self.period_ms
        };
        self.stamp_ns + period_ms * MS
    }
}

/// The periods of a process' threads.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ScanPeriods {
    /// Of threads that the first one starts.
    delay_ms: u64,
    /// When the process may be scanned (`mm->numa_next_scan`).
    due_at: Nanos,
    /// Since when that has been so, tries before that came to nothing.
    is_due: bool,
    scanned_at: Nanos,
    /// By number.
    threads: Vec<Thread>,
}

impl ScanPeriods {
    /// A process whose first scan is due after `delay_ms`.
    #[must_use]
    pub fn new(delay_ms: u64) -> Self {
        Self {
            delay_ms,
            due_at: delay_ms * MS,
            is_due: false,
            scanned_at: 0,
            threads: Vec::new(),
        }
    }

    /// The shortest of all threads' periods.
    #[must_use]
    pub fn period_ms(&self, bounds: Bounds) -> u64 {
        let periods = self.threads.iter().map(|thread| thread.period_ms(bounds));
        periods.min().unwrap_or(bounds.shortest_ms)
    }

    /// There are at least so many threads.
    fn meet(&mut self, threads: usize, clocks: Clocks<'_>) {
        for number in self.threads.len()..threads {
            self.threads.push(Thread {
                // As if it had tried with the others when the process was scanned last.
                stamp_ns: clocks
                    .run(number)
                    .saturating_sub(clocks.now.saturating_sub(self.scanned_at)),
                period_ms: self.delay_ms,
                ..Thread::default()
            });
        }
    }

    /// When it is worth looking whether a thread scans: no later than the first one can.
    #[must_use]
    pub fn next_at(&self, bounds: Bounds, clocks: Clocks<'_>) -> Nanos {
        let at = if clocks.now < self.due_at {
            self.due_at
        } else if self.is_due {
            let left = |(number, thread): (usize, &Thread)| thread.tries_at(bounds).saturating_sub(clocks.run(number));
            clocks.now + self.threads.iter().enumerate().map(left).min().unwrap_or(0)
        } else {
            clocks.now
        };
        at.next_multiple_of(TICK_NS)
    }

    /// The thread that scans now, if one does.
    pub fn scans_now(&mut self, bounds: Bounds, clocks: Clocks<'_>) -> Option<usize> {
        self.meet(clocks.run_ns.len().max(1), clocks);
        if clocks.now < self.due_at {
            return None;
        }
        if !self.is_due {
            self.is_due = true;
            // What comes after the last tick at which it was not due is tried at one at which it is.
            let last_tick = self.due_at.next_multiple_of(TICK_NS).checked_sub(TICK_NS);
            for number in 0..self.threads.len() {
                if let Some(last_tick) = last_tick {
                    self.try_until(number, clocks.run_at(number, last_tick), bounds, clocks);
                }
            }
        }
        let late = |(number, thread): (usize, &Thread)| {
            let late_ns = clocks.run(number).checked_sub(thread.tries_at(bounds))?;
            Some((std::cmp::Reverse(late_ns), number))
        };
        let (_, number) = self.threads.iter().enumerate().filter_map(late).min()?;
        Some(number)
    }

    /// A thread has tried each time that it came to until it had run for `run_ns`.
    fn try_until(&mut self, number: usize, run_ns: Nanos, bounds: Bounds, clocks: Clocks<'_>) {
        let thread = &mut self.threads[number];
        while thread.tries_at(bounds) <= run_ns {
            thread.stamp_ns = thread.tries_at(bounds);
            // The first thread takes up the shortest period as it first tries.
            if !std::mem::replace(&mut thread.tried, true) && Some(number) == clocks.first {
                thread.period_ms = 0;
            }
        }
    }

    /// That thread has scanned, which took `spent_ns`.
    pub fn scanned(&mut self, number: usize, bounds: Bounds, clocks: Clocks<'_>, spent_ns: f64) {
        self.try_until(number, clocks.run(number), bounds, clocks);
        let thread = &mut self.threads[number];
        thread.stamp_ns += STANDS_BACK_TICKS * TICK_NS + (SELF_LIMIT * spent_ns) as Nanos;
        self.due_at = clocks.now + thread.period_ms(bounds) * MS;
        self.is_due = false;
        self.scanned_at = clocks.now;
    }

    /// A thread took a fault.
    pub fn faulted(&mut self, thread: u32, bounds: Bounds, clocks: Clocks<'_>) {
        let number = thread as usize;
        self.meet(number + 1, clocks);
        if clocks.now < self.due_at {
            // What the fault does to its period is not true of tries before.
            let last_tick = clocks.now - clocks.now % TICK_NS;
            self.try_until(number, clocks.run_at(number, last_tick), bounds, clocks);
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
        let period_ms = thread.period_ms(bounds);
        let [private, shared] = lately;
        if thread.local + shared == 0 || thread.failed > 0 {
            thread.period_ms = (2 * period_ms).min(longest_ms);
            self.due_at = now + thread.period_ms * MS;
            self.is_due = false;
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
            periods.faulted(0, BOUNDS, all_running(0));
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
        periods.faulted(7, BOUNDS, all_running(0));
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

    /// Of threads that have run all the time.
    fn all_running(now_ms: Nanos) -> Clocks<'static> {
        Clocks {
            now: now_ms * MS,
            run_ns: &[],
            first: Some(0),
        }
    }

    /// Times in ms at which threads scan in the first `until_ms`, each of which takes `spent_ns`, and which threads they are; `run` says
    /// for which share of the time each thread runs.
    fn scans(first: Option<usize>, delay_ms: u64, until_ms: Nanos, run: &[f64], spent_ns: f64) -> Vec<(Nanos, usize)> {
        let mut periods = ScanPeriods::new(delay_ms);
        let mut scans = Vec::new();
        let mut now = 0;
        while now < until_ms * MS {
            let run_ns: Vec<f64> = run.iter().map(|share| share * now as f64).collect();
            let clocks = Clocks {
                now,
                run_ns: &run_ns,
                first,
            };
            if let Some(thread) = periods.scans_now(BOUNDS, clocks) {
                periods.scanned(thread, BOUNDS, clocks, spent_ns);
                scans.push((now / MS, thread));
            }
            let next = periods.next_at(BOUNDS, clocks);
            assert!(next > now, "it goes on");
            now = next;
        }
        scans
    }

    #[test]
    fn a_thread_alone_scans_every_shortest_period_and_stands_back() {
        let alone = |until_ms, share| scans(Some(0), 1000, until_ms, &[share], 1e6);
        // The first try is after the delay; then 100 ms, two ticks, and 32 times 1 ms, at the next tick.
        assert_eq!(alone(1400, 1.0), [(1000, 0), (1140, 0), (1280, 0)]);
        // By its run time, not by time.
        assert_eq!(alone(2800, 0.5), [(2000, 0), (2280, 0), (2560, 0)]);
        assert_eq!(alone(9000, 0.0), []);
    }

    #[test]
    fn threads_that_others_start_begin_with_the_delay() {
        // One after another, as who has scanned stands back.
        let seen = scans(None, 1000, 5000, &[1.0; 4], 3e6);
        assert_eq!(seen, [(1000, 0), (2000, 1), (3000, 2), (4000, 3)]);
        // Their first thread scans five times in a second, until one of them does, which puts the next off by its own period.
        let seen = scans(Some(0), 1000, 5000, &[1.0; 4], 3e6);
        let first: Vec<Nanos> = seen
            .iter()
            .filter(|(_, thread)| *thread == 0)
            .map(|(at, _)| *at)
            .collect();
        assert_eq!(first, [1000, 1204, 1408, 1612, 1816]);
        assert_eq!(seen[5..], [(2000, 1), (3000, 2), (4000, 3)]);
        // Without a delay all begin with the shortest, and one takes over while another stands back.
        let seen = scans(None, 0, 1000, &[1.0; 4], 3e6);
        assert_eq!(seen[..4], [(0, 0), (100, 1), (200, 2), (300, 3)]);
    }

    #[test]
    fn what_is_tried_between_ticks_is_tried_at_the_next() {
        let mut periods = ScanPeriods::new(0);
        let short = Bounds {
            shortest_ms: 6,
            ..BOUNDS
        };
        let scans_at = |periods: &mut ScanPeriods, ms| periods.scans_now(short, all_running(ms));
        assert_eq!(scans_at(&mut periods, 40), Some(0));
        periods.scanned(0, short, all_running(40), 0.0);
        periods.faulted(1, short, all_running(41));
        // Both the process and thread 1, which last tried at 40 ms, come to it at 46 ms.
        assert_eq!(scans_at(&mut periods, 44), None);
        assert_eq!(periods.next_at(short, all_running(44)), 48 * MS);
        assert_eq!(scans_at(&mut periods, 48), Some(1));
    }

    #[test]
    fn tries_before_a_fault_were_by_the_period_of_then() {
        let mut periods = ScanPeriods::new(0);
        let scans_at = |periods: &mut ScanPeriods, ms| periods.scans_now(BOUNDS, all_running(ms));
        assert_eq!(scans_at(&mut periods, 100), Some(0));
        periods.scanned(0, BOUNDS, all_running(100), 0.0);
        for (pass, at_ms) in [(1, 150), (2, 330)] {
            periods.faulted(0, BOUNDS, all_running(at_ms));
            periods.count(0, PRIVATE, None, pass, BOUNDS, at_ms * MS);
        }
        // It stood back for 8 ms and tried at 308 ms, 200 ms later; then it waits for 400 ms. At 708 ms the process is not due.
        assert_eq!(periods.period_ms(BOUNDS), 400);
        assert_eq!(periods.next_at(BOUNDS, all_running(330)), 732 * MS);
        assert_eq!(scans_at(&mut periods, 732), None);
        assert_eq!(periods.next_at(BOUNDS, all_running(732)), 1108 * MS);
    }

    #[test]
    fn the_thread_with_the_shortest_period_scans() {
        let mut periods = ScanPeriods::new(0);
        let scans_at = |periods: &mut ScanPeriods, ms| periods.scans_now(BOUNDS, all_running(ms));
        periods.faulted(1, BOUNDS, all_running(0));
        assert_eq!(scans_at(&mut periods, 100), Some(0));
        periods.scanned(0, BOUNDS, all_running(100), 0.0);
        // Thread 0 slows down, thread 1 does not look at its counts.
        for pass in 1..4 {
            periods.count(0, PRIVATE, None, pass, BOUNDS, 110 * MS);
        }
        // The last look put the next scan off by thread 0's own 800 ms; thread 1 tries every 100 ms, and is the first then.
        assert_eq!(periods.next_at(BOUNDS, all_running(110)), 912 * MS);
        assert_eq!(scans_at(&mut periods, 912), None);
        assert_eq!(periods.next_at(BOUNDS, all_running(912)), 1000 * MS);
        assert_eq!(scans_at(&mut periods, 1000), Some(1));
    }
}
