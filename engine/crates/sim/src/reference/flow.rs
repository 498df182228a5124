//! When the lines of batches pass: a batch that lasts beyond its quantum is traffic of the next ones, too.
//!
//! Latency goes by it. If all lines were of the quantum in which their batch begins, threads whose batches are longer than a
//! quantum would by turns find a tier that nobody uses and one that all do.
//!
//! Latency is then found from the lines of a quantum as if all their batches had begun at the latency of now. Taken as they
//! are, lines that pass at the latency of a batch ago would have it change for the same reason again and again: in the short
//! quanta at the start of a phase to ten times of what the tier needs, and then to nothing.

use std::ops::Range;

use crate::workload::Stream;

/// Lines of a tier: read, written, and of each those that came alone.
pub type Lines = [f64; 4];

/// Adds lines of `stream`.
pub fn add_lines(lines: &mut Lines, read: f64, written: f64, stream: &Stream) {
    let random = stream.random_share;
    for (lines, more) in lines.iter_mut().zip([read, written, random * read, random * written]) {
        *lines += more;
    }
}

#[derive(Debug)]
pub struct Flow {
    /// What passes in this quantum, by tier; all lines count times what multiplied the latency of the tier as their batch
    /// began.
    passing: Vec<Lines>,
    /// What is still to pass of each thread's last batch: its number times tiers, plus the tier.
    ahead: Vec<Lines>,
}

impl Flow {
    pub fn new(tiers: usize, threads: u32) -> Self {
        Self {
            passing: vec![Lines::default(); tiers],
            ahead: vec![Lines::default(); tiers * threads as usize],
        }
    }

    /// A phase begins, whose threads have no batch before.
    pub fn clear(&mut self) {
        self.ahead.fill(Lines::default());
    }

    /// A quantum begins in which nothing passes yet.
    pub fn begin(&mut self) {
        self.passing.fill(Lines::default());
    }

    /// Of a thread's last batch, which ends at `end_ns`, passes what is due in `quantum_ns`.
    pub fn go_on(&mut self, thread: u32, end_ns: f64, quantum_ns: &Range<f64>) {
        let part = part_of(quantum_ns.start..end_ns, quantum_ns);
        let tiers = self.passing.len();
        let ahead = &mut self.ahead[thread as usize * tiers..][..tiers];
        for (passing, ahead) in self.passing.iter_mut().zip(ahead) {
            for (passing, ahead) in passing.iter_mut().zip(ahead) {
                *passing += part * *ahead;
                *ahead *= 1.0 - part;
            }
        }
    }

    /// A batch of a thread, begun when latencies were multiplied so, moves `lines` in `batch_ns`.
    pub fn add(
        &mut self,
        thread: u32,
        lines: impl Iterator<Item = Lines>,
        multipliers: &[f64],
        batch_ns: Range<f64>,
        quantum_ns: &Range<f64>,
    ) {
        let part = part_of(batch_ns, quantum_ns);
        let tiers = self.passing.len();
        for (tier, (lines, multiplier)) in lines.zip(multipliers).enumerate() {
            let ahead = &mut self.ahead[thread as usize * tiers + tier];
            for (kind, lines) in lines.map(|lines| lines * multiplier).into_iter().enumerate() {
                self.passing[tier][kind] += part * lines;
                ahead[kind] += (1.0 - part) * lines;
            }
        }
    }

    /// Lines, by tier, that would pass in this quantum if all batches had begun when latencies were multiplied
    /// so.
    pub fn passing_at(&self, multipliers: &[f64]) -> Vec<Lines> {
        let passing = self.passing.iter().zip(multipliers);
        passing
            .map(|(passing, multiplier)| passing.map(|weighted| weighted / multiplier))
            .collect()
    }
}

/// Part of a time that is over when a quantum is.
fn part_of(time_ns: Range<f64>, quantum_ns: &Range<f64>) -> f64 {
    if time_ns.end <= quantum_ns.end {
        1.0
    } else {
        ((quantum_ns.end - time_ns.start) / (time_ns.end - time_ns.start)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch of ten lines over two and a half quanta.
    #[test]
    fn a_long_batch_passes_evenly() {
        let mut flow = Flow::new(1, 2);
        let mut passed = vec![];
        for quantum in 0..4 {
            let quantum_ns = f64::from(quantum) * 4.0..f64::from(quantum + 1) * 4.0;
            flow.begin();
            flow.go_on(1, 10.0, &quantum_ns);
            if quantum == 0 {
                flow.add(1, [[10.0, 5.0, 10.0, 0.0]].into_iter(), &[2.0], 0.0..10.0, &quantum_ns);
            }
            passed.push(flow.passing_at(&[2.0])[0]);
        }
        assert_eq!(
            passed,
            [
                [4.0, 2.0, 4.0, 0.0],
                [4.0, 2.0, 4.0, 0.0],
                [2.0, 1.0, 2.0, 0.0],
                [0.0; 4]
            ]
        );
    }

    /// Half as many lines pass where latency has doubled since.
    #[test]
    fn lines_count_as_begun_now() {
        let mut flow = Flow::new(1, 1);
        flow.add(0, [[8.0, 4.0, 2.0, 0.0]].into_iter(), &[2.0], 0.0..1.0, &(0.0..1.0));
        assert_eq!(flow.passing_at(&[4.0]), [[4.0, 2.0, 1.0, 0.0]]);
    }
}
