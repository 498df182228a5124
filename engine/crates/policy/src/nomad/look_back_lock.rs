//! The lock under which a fault looks back, one for the whole kernel: threads that fault at once wait for each other.

use serde::{Deserialize, Serialize};

use crate::lru::PAGE_SCAN_NS;
use crate::{Fault, Nanos};

/// A cache line that another core wrote last, in our judgement from public microarchitecture figures of servers (60 to 80 ns).
const LINE_NS: f64 = 70.0;
/// Looking at an earlier fault: a page-table entry and a page's flags, two cache misses that overlap in part; ours.
const LOOK_NS: f64 = 80.0;
/// Putting a page into the queue, counted in the module: the lock of its end, the queue's own twice, its indices, the slot and the
/// work's state.
const QUEUE_NS: f64 = 6.0 * LINE_NS;
/// Waking a worker that sleeps, on a CPU that is idle, in our judgement.
const WAKE_NS: f64 = 1_000.0;

/// What a fault did while it had the lock.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Held {
    /// Earlier faults that it looked at.
    pub looks: u32,
    /// Pages of those that it marked accessed.
    pub marks: u32,
    /// Pages that became active, as a batch was full.
    pub activated: u32,
    /// Pages that it put into the queue.
    pub queued: u32,
    /// Whether the worker slept.
    pub woke: bool,
}

impl Held {
    fn ns(self) -> f64 {
        LINE_NS
            + f64::from(self.looks) * LOOK_NS
            + f64::from(self.marks) * LINE_NS
            + f64::from(self.activated) * PAGE_SCAN_NS
            + f64::from(self.queued) * QUEUE_NS
            + f64::from(u8::from(self.woke)) * WAKE_NS
    }
}

/// When the lock is free again, by the faults so far.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct LookBackLock {
    free_at: Nanos,
    threads: u32,
}

impl LookBackLock {
    /// How long `fault` takes by it, in ns: until the threads before it are through, and what it does itself. Faults come in
    /// the order of their times.
    pub fn take(&mut self, fault: &Fault, held: Held) -> f64 {
        self.threads = self.threads.max(fault.thread + 1);
        let own_ns = held.ns();
        // Drivers let a thread fault again while it waits; before it is each other thread once at most.
        let most_ns = f64::from(self.threads - 1) * own_ns;
        let waits_ns = (self.free_at.saturating_sub(fault.at) as f64).min(most_ns);
        self.free_at = fault.at + (waits_ns + own_ns).round() as Nanos;
        waits_ns + own_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FaultKind;

    const HELD: Held = Held {
        looks: 1,
        marks: 1,
        activated: 0,
        queued: 1,
        woke: false,
    };

    fn fault(at: Nanos, thread: u32) -> Fault {
        Fault {
            page: 0,
            tier: 1,
            kind: FaultKind::Hint,
            armed_at: 0,
            at,
            thread,
        }
    }

    #[test]
    fn a_fault_waits_for_those_before_it() {
        let mut lock = LookBackLock::default();
        let alone = lock.take(&fault(1_000, 0), HELD);
        assert!((lock.take(&fault(1_000, 1), HELD) - 2.0 * alone).abs() <= 1.0);
        assert!((lock.take(&fault(1_000, 2), HELD) - 3.0 * alone).abs() <= 2.0);
        assert!((lock.take(&fault(1_000_000, 0), HELD) - alone).abs() <= 1.0);
    }

    #[test]
    fn no_thread_is_before_itself() {
        let mut lock = LookBackLock::default();
        let alone = lock.take(&fault(1_000, 0), HELD);
        for _ in 0..100 {
            assert!((lock.take(&fault(1_000, 0), HELD) - alone).abs() <= 1.0);
        }
        for _ in 0..100 {
            assert!(lock.take(&fault(1_000, 1), HELD) <= 2.0 * alone + 1.0);
        }
    }
}
