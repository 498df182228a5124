//! What copies cost the application in the fast mode, and where its accesses go afterwards.

use tiertune_policy::{CounterRng, How, MigrationMechanics, Move, Nanos};

use crate::latency::TierLatency;
use crate::migration::{Copies, Copying, Migrator, Step, Waiting, blocking};
use crate::scenario::Machine;
use crate::watch::Watch;
use crate::workload::{Object, Phase, Popularity};

use super::{Progress, miss_density};

/// Prices copies at the loaded latencies of the moment, charges waits, and moves popularity mass.
pub(super) struct FastCopies<'a, 'w> {
    pub curves: &'a [TierLatency],
    pub multipliers: &'a [f64],
    pub mechanics: MigrationMechanics,
    pub objects: &'a [Object],
    pub machine: &'a Machine,
    pub phase: &'a Phase,
    /// Share of a core that each running thread has.
    pub share: f64,
    pub progress: &'a mut Progress,
    pub rng: &'a mut CounterRng,
    pub hints: &'a mut Watch<'w>,
    pub writes: &'a mut Watch<'w>,
    /// Thread time spent on moves by faulting threads.
    pub fault_stall_ns: f64,
}

/// Touches of one page per operation: by threads that share it, and by its owner.
#[derive(Default)]
struct Touched {
    shared: f64,
    owned: f64,
}

impl FastCopies<'_, '_> {
    fn touched(&self, group: usize, pages: std::ops::Range<u32>, waiting: Waiting) -> Touched {
        let group = &self.phase.groups[group];
        let threads = f64::from(group.threads);
        let mut touched = Touched::default();
        for page in pages {
            let index = self.objects.partition_point(|o| o.first_page <= page) - 1;
            let piece = self.objects[index].piece_of(page);
            for s in group.streams.clone().filter(|s| self.phase.streams[*s].object == index) {
                let stream = &self.phase.streams[s];
                let per_op = match waiting {
                    Waiting::Writers => stream.stores_per_op,
                    Waiting::All => stream.reads_per_op * self.progress.miss[s] + stream.stores_per_op,
                };
                match &stream.popularity {
                    Popularity::Stationary { density, .. } => touched.shared += per_op * f64::from(density[piece]),
                    // Threads sweep parts of their own.
                    Popularity::Sweep => touched.owned += per_op / f64::from(self.objects[index].pages) * threads,
                }
            }
        }
        touched
    }

    fn begun(&mut self, copying: &Copying) {
        if let How::InFault { thread } = copying.request.how {
            let whole = (copying.end - copying.start) as f64;
            self.fault_stall_ns += whole;
            self.progress.debt_ns[group_of(self.phase, thread)] += whole;
        }
        let (waiting, blocked_ns) = blocking(&self.mechanics, copying);
        let blocked_ns = blocked_ns as f64;
        for g in 0..self.phase.groups.len() {
            if self.progress.left[g] <= 0.0 {
                continue;
            }
            let Touched { shared, owned } = self.touched(g, copying.request.range(), waiting);
            let threads = f64::from(self.phase.groups[g].threads);
            // Until a thread touches the page it runs at full speed: the average rate has the
            // waiting in it already.
            let speed = self.share / self.progress.op_ns[g];
            let owners = if owned > 0.0 { 1.0 } else { 0.0 };
            // A wait is time of a thread, which has only a share of a core to lose.
            self.progress.debt_ns[g] += self.share
                * (owners * expected_wait_ns(speed * (shared + owned), blocked_ns)
                    + (threads - owners) * expected_wait_ns(speed * shared, blocked_ns));
        }
    }
}

/// The group that thread `thread` of a phase is in; the last one for threads of earlier phases.
pub(super) fn group_of(phase: &Phase, thread: u32) -> usize {
    let mut first = 0;
    let found = phase.groups.iter().position(|group| {
        first += group.threads;
        thread < first
    });
    found.unwrap_or(phase.groups.len() - 1)
}

impl Copies for FastCopies<'_, '_> {
    fn duration_ns(&self, migrator: &Migrator, request: &Move, from: u8) -> Nanos {
        migrator.duration_ns(self.curves, self.multipliers, request, from)
    }

    fn written(&mut self, copying: &Copying) -> bool {
        let span = (copying.end - copying.start) as f64;
        let writes: f64 = (0..self.phase.groups.len())
            .filter(|g| self.progress.left[*g] > 0.0)
            .map(|g| {
                let Touched { shared, owned } = self.touched(g, copying.request.range(), Waiting::Writers);
                self.progress.rate[g] * (shared + owned) * span
            })
            .sum();
        self.rng.next_f64() < -(-writes).exp_m1()
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Begun(copying) => self.begun(copying),
            Step::Aborted(_) => {}
            Step::Moved {
                page,
                object,
                piece,
                from,
                to,
                kept,
                at,
                ..
            } => {
                self.hints.disarm(*page);
                self.writes.disarm(*page);
                if *kept {
                    self.writes.arm(*page, *at);
                }
                let tiers = self.machine.tiers.len();
                for (s, stream) in self
                    .phase
                    .streams
                    .iter()
                    .enumerate()
                    .filter(|(_, s)| s.object == *object)
                {
                    if let Some(density) = miss_density(&self.progress.missed[s], stream) {
                        let moved = f64::from(density[*piece]);
                        let from = &mut self.progress.mass[s * tiers + usize::from(*from)];
                        *from = (*from - moved).max(0.0);
                        self.progress.mass[s * tiers + usize::from(*to)] += moved;
                    }
                }
            }
        }
    }
}

/// How long a thread that touches a page `rate` times per nanosecond waits for it in the mean, when
/// the page is blocked for `blocked_ns`: from its first touch to the end.
fn expected_wait_ns(rate: f64, blocked_ns: f64) -> f64 {
    if rate <= 0.0 {
        return 0.0;
    }
    (blocked_ns + (-rate * blocked_ns).exp_m1() / rate).max(0.0)
}
