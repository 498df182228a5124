//! Transactions and kept frames of the simulated machine, beyond what `mechanics.rs` holds.

use std::sync::{Arc, Mutex};

use crate::support::{compile, request};
use serde_json::json;
use tiertune_policy::registry::PAGE_4K;
use tiertune_policy::{
    Config, Context, CopyMode, Extent, Migrated, MigrationMechanics, Move, Nanos, Outcome, Placement, Policy,
};
use tiertune_sim::RunResult;
use tiertune_sim::scenario::Mode;

const PAGES: u64 = 1024;
const SWAPPED: u32 = 100;
const MS: Nanos = 1_000_000;

/// Eight threads that write uniform pages, each every few ten microseconds.
fn run(mode: Mode, policy: impl Policy + 'static) -> RunResult {
    let model = json!({"objects": [{"name": "t", "bytes": PAGES * PAGE_4K}],
        "blocks": [{"phases": [{"name": "p", "groups": [{"name": "w", "threads": 8, "ops": 4e6, "cpu_ns_per_op": 50.0,
            "streams": [{"object": "t", "law": {"kind": "uniform"}, "class": "chase", "reads_per_op": 1.0,
                         "stores_per_op": 1.0}]}]}]}]});
    let workload = compile(model, PAGE_4K);
    let mut request = request("notier", Config::new(), PAGE_4K, PAGES / 2 * PAGE_4K, 1);
    request.mode = mode;
    let run = tiertune_sim::run_policy(&workload, &request, Box::new(policy));
    run.expect("a run").0
}

/// Copies take 21 us, remapping takes 10 ms.
fn mechanics() -> MigrationMechanics {
    MigrationMechanics {
        lanes: 1,
        fixed_ns: 20_000,
        alone_fixed_ns: 20_000,
        run_fixed_ns: 0,
        remap_ns: 10 * MS,
        copy_gbps: 4.0,
        mode: CopyMode::Transactional { passes: 1 },
        shootdowns: 0.0,
    }
}

type Ended = Arc<Mutex<Vec<(Move, Outcome)>>>;

fn note(ended: &Ended, migrated: &[Migrated]) {
    let new = migrated.iter().map(|migrated| (migrated.request, migrated.outcome));
    ended.lock().expect("one thread").extend(new);
}

/// Asks for pages of slow memory to go up and for as many of fast memory to go down.
struct BothWays(Ended);

impl Policy for BothWays {
    fn mechanics(&self) -> MigrationMechanics {
        mechanics()
    }

    fn on_alloc(&mut self, _: &Extent, _: &mut Context<'_>) -> Placement {
        Placement::FastestFree
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        if cx.now == 0 {
            return cx.wake_at(4 * MS); // the application has to be running
        }
        for page in 0..SWAPPED {
            cx.migrate(page, 1);
            cx.migrate(PAGES as u32 - 1 - page, 0);
        }
    }

    fn on_migrations(&mut self, ended: &[Migrated], _: bool, _: &mut Context<'_>) {
        note(&self.0, ended);
    }
}

#[test]
fn only_moves_up_are_transactions() {
    for mode in [Mode::Fast, Mode::Reference] {
        let ended = Ended::default();
        let result = run(mode, BothWays(ended.clone()));
        let count = |to: u8, wanted: Outcome| {
            let ended = ended.lock().expect("one thread");
            ended.iter().filter(|(m, o)| (m.to, *o) == (to, wanted)).count() as f64
        };
        let (up, aborted) = (count(0, Outcome::Done), count(0, Outcome::Aborted));
        assert!(
            up + aborted == f64::from(SWAPPED) && aborted >= 10.0,
            "{mode:?}: {aborted} of {SWAPPED}"
        );
        assert_eq!(count(1, Outcome::Done), f64::from(SWAPPED), "{mode:?}");
        assert_eq!(
            (result.metrics.promotions, result.metrics.demotions),
            (up, f64::from(SWAPPED))
        );
    }
}

/// Moves a page up and keeps its frame, sends it back, and gives the frame up while it is on its way.
struct GivesUp(Ended);

impl Policy for GivesUp {
    fn mechanics(&self) -> MigrationMechanics {
        MigrationMechanics {
            mode: CopyMode::Unmapped,
            fixed_ns: MS,
            alone_fixed_ns: MS,
            ..mechanics()
        }
    }

    fn on_alloc(&mut self, _: &Extent, _: &mut Context<'_>) -> Placement {
        Placement::SlowestFree
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        match cx.now / (4 * MS) {
            0 => cx.migrate_keeping(0, 0),
            1 => cx.remap(0, 1),
            _ => cx.release(0),
        }
        if cx.now < 8 * MS {
            cx.wake_at(cx.now + 4 * MS);
        }
    }

    fn on_migrations(&mut self, ended: &[Migrated], _: bool, _: &mut Context<'_>) {
        note(&self.0, ended);
    }
}

#[test]
fn a_frame_that_is_given_up_is_not_gone_back_to() {
    for mode in [Mode::Fast, Mode::Reference] {
        let ended = Ended::default();
        let result = run(mode, GivesUp(ended.clone()));
        let outcomes: Vec<Outcome> = ended.lock().expect("one thread").iter().map(|(_, o)| *o).collect();
        assert_eq!(outcomes, [Outcome::Done, Outcome::Gone], "{mode:?}");
        assert_eq!((result.metrics.promotions, result.metrics.demotions), (1.0, 0.0));
    }
}
