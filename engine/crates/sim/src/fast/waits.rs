//! Threads that wait for pages on the move: each for one page at a time, however many are blocked.

/// When each thread waits, as far as copies have begun.
#[derive(Debug, Default)]
pub struct Waits {
    /// By thread: disjoint stretches, in order.
    stretches: Vec<Vec<(f64, f64)>>,
}

impl Waits {
    /// Nobody waits.
    #[must_use]
    pub fn new(threads: u32) -> Self {
        Self {
            stretches: vec![Vec::new(); threads as usize],
        }
    }

    /// A page is blocked from `start_ns` to `end_ns`, which `thread` touches when it has run for `running_ns` from
    /// then on: how much longer it waits by that. Starts must not go back by more than copies last.
    pub fn add(&mut self, thread: usize, start_ns: f64, end_ns: f64, running_ns: f64) -> f64 {
        let stretches = &mut self.stretches[thread];
        let over = stretches.partition_point(|(_, to)| *to <= start_ns);
        stretches.drain(..over);
        let (mut at, mut left) = (start_ns, running_ns);
        for (from, to) in stretches.iter() {
            let runs = (from - at).max(0.0);
            if left < runs {
                break;
            }
            left -= runs;
            at = *to;
        }
        let touched = at + left;
        if touched >= end_ns {
            return 0.0;
        }
        // Joined with all that it meets.
        let first = stretches.partition_point(|(_, to)| *to < touched);
        let behind = first + stretches[first..].partition_point(|(from, _)| *from <= end_ns);
        let (mut from, mut to, mut before) = (touched, end_ns, 0.0);
        for stretch in &stretches[first..behind] {
            (from, to) = (from.min(stretch.0), to.max(stretch.1));
            before += stretch.1 - stretch.0;
        }
        stretches.splice(first..behind, [(from, to)]);
        to - from - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pages that are always touched, copied side by side, cost a thread no more than one.
    #[test]
    fn a_thread_waits_for_one_page_at_a_time() {
        let mut waits = Waits::new(1);
        assert_eq!(waits.add(0, 0.0, 10.0, 0.0), 10.0);
        assert_eq!(waits.add(0, 2.0, 10.0, 0.0), 0.0);
        assert_eq!(waits.add(0, 3.0, 14.0, 0.0), 4.0);
        assert_eq!(waits.add(0, 20.0, 30.0, 5.0), 5.0);
        // Between two waits it runs.
        assert_eq!(waits.add(0, 21.0, 24.0, 1.0), 2.0);
        assert_eq!(waits.add(0, 21.0, 40.0, 1.5), 10.5);
        assert_eq!(waits.add(0, 50.0, 60.0, 10.0), 0.0);
    }
}
