//! What copies cost the application in the fast mode, and where its accesses go afterwards.

use tiertune_policy::{CounterRng, How, MigrationMechanics, Move, Nanos};

use crate::latency::TierLatency;
use crate::migration::{Copies, Copying, Migrator, Step, Waiting, blocking};
use crate::scenario::Machine;
use crate::watch::Watch;
use crate::workload::{LINE_BYTES, Object, Phase, Popularity};

use super::waits::Waits;
use super::{Progress, miss_density};

/// A thread that touches a page so rarely while it is blocked is as good as never waiting for another meanwhile.
const SELDOM: f64 = 0.01;

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
    /// When sweeps are where they are.
    pub swept_until: Nanos,
    pub page_bytes: f64,
    pub progress: &'a mut Progress,
    pub rng: &'a mut CounterRng,
    pub waits: &'a mut Waits,
    pub hints: &'a mut Watch<'w>,
    pub writes: &'a mut Watch<'w>,
    /// Thread time spent on moves by faulting threads.
    pub fault_stall_ns: f64,
}

/// Touches of a page under copy.
struct Touched {
    /// By every thread, per operation, at random times: accesses, and of streams in order arrivals at the page.
    per_op: f64,
    /// How probably a thread is just going through it.
    within: f64,
    /// When the sweep that comes by next is there, in time of its thread from the copy's start.
    swept_in_ns: f64,
    /// That thread, as the group counts them.
    sweeper: u32,
}

impl FastCopies<'_, '_> {
    fn touched(&self, g: usize, copying: &Copying, waiting: Waiting) -> Touched {
        let group = &self.phase.groups[g];
        let mut touched = Touched {
            per_op: 0.0,
            within: 0.0,
            swept_in_ns: f64::INFINITY,
            sweeper: 0,
        };
        for page in copying.request.range() {
            let index = self.objects.partition_point(|o| o.first_page <= page) - 1;
            let object = &self.objects[index];
            let piece = object.piece_of(page);
            for s in group.streams.clone().filter(|s| self.phase.streams[*s].object == index) {
                let stream = &self.phase.streams[s];
                // Whether a cache has the line does not matter: translation comes first.
                let visits_per_op = match waiting {
                    Waiting::Writers => stream.writes_per_op,
                    Waiting::All => stream.visits_per_op,
                };
                match (&stream.popularity, &self.progress.sweeps[s]) {
                    (Popularity::Stationary { density, .. }, _) => {
                        touched.per_op += visits_per_op * f64::from(density[piece]);
                        // A thread is always on some page of a stream in order, however long it takes.
                        if stream.in_order() && visits_per_op > 0.0 {
                            touched.within += f64::from(density[piece]);
                        }
                    }
                    (Popularity::Sweep, Some(sweep)) if visits_per_op > 0.0 => {
                        let lines_per_ns = self.share * stream.reads_per_op / self.progress.op_ns[g];
                        let pages_per_ns = lines_per_ns * LINE_BYTES / self.page_bytes;
                        let since_ns = self.swept_until as f64 - copying.start as f64;
                        let (thread, pages) = sweep.next_at(object, page, since_ns * pages_per_ns);
                        if pages / pages_per_ns < touched.swept_in_ns {
                            touched.swept_in_ns = pages / pages_per_ns;
                            touched.sweeper = thread;
                        }
                    }
                    (Popularity::Sweep, _) => {}
                }
            }
        }
        touched
    }

    fn begun(&mut self, copying: &Copying) {
        if let How::InFault { thread } = copying.request.how {
            let (start_ns, end_ns) = (copying.start as f64, copying.end as f64);
            self.fault_stall_ns += end_ns - start_ns;
            // While it waits for a page, it does not wait for another.
            let more_ns = self.waits.add(thread as usize, start_ns, end_ns, 0.0);
            self.progress.debt_ns[group_of(self.phase, thread)] += self.share * more_ns;
        }
        let (waiting, blocked_ns) = blocking(&self.mechanics, copying);
        let (end_ns, blocked_ns) = (copying.end as f64, blocked_ns as f64);
        // Transactions block their page at the end only.
        let start_ns = end_ns - blocked_ns;
        let mut first_thread = 0;
        for g in 0..self.phase.groups.len() {
            let threads = self.phase.groups[g].threads;
            let numbers = first_thread..first_thread + threads;
            first_thread = numbers.end;
            if self.progress.left[g] <= 0.0 {
                continue;
            }
            let touched = self.touched(g, copying, waiting);
            let swept_in_ns = touched.swept_in_ns - (start_ns - copying.start as f64);
            // Until a thread touches the page it runs at full speed: the average rate has the
            // waiting in it already.
            let rate = self.share / self.progress.op_ns[g] * touched.per_op;
            let mut waited_ns = 0.0;
            if rate * blocked_ns + touched.within < SELDOM && swept_in_ns >= blocked_ns {
                waited_ns = f64::from(threads) * (rate * blocked_ns / 2.0 + touched.within) * blocked_ns;
            } else {
                for (index, number) in numbers.enumerate() {
                    let running_ns = if touched.within > 0.0 && self.rng.next_f64() < touched.within {
                        0.0
                    } else if rate > 0.0 {
                        self.rng.exponential() / rate
                    } else {
                        f64::INFINITY
                    };
                    let sweeps = index as u32 == touched.sweeper && swept_in_ns < blocked_ns;
                    let running_ns = running_ns.min(if sweeps { swept_in_ns.max(0.0) } else { f64::INFINITY });
                    waited_ns += self.waits.add(number as usize, start_ns, end_ns, running_ns);
                }
            }
            // A wait is time of a thread, which has only a share of a core to lose.
            self.progress.debt_ns[g] += self.share * waited_ns;
            self.progress.asleep_ns[g] += self.share * waited_ns;
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
        let mut writes = 0.0;
        for g in (0..self.phase.groups.len()).filter(|g| self.progress.left[*g] > 0.0) {
            let Touched {
                per_op,
                within,
                swept_in_ns,
                ..
            } = self.touched(g, copying, Waiting::Writers);
            writes += self.progress.rate[g] * per_op * span + f64::from(self.phase.groups[g].threads) * within;
            if swept_in_ns < span {
                return true;
            }
        }
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
