//! Any policy, any story of a workload: nothing panics, the table is what the kernel says, the cap holds.

use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRunner};

use crate::fake::{BITS, EVERYTHING, Fake, MS, NODES, driver, knobs, live_systems, options};

/// Stories for each system and page size.
const CASES_EACH: u32 = 3;

#[derive(Debug, Clone)]
enum Step {
    Map { pages: u64, offset: u64 },
    Touch { area: usize, from: u64, pages: u64 },
    TakeFast { area: usize, from: u64, pages: u64 },
    Write { area: usize, from: u64, pages: u64 },
    Unmap { area: usize, from: u64, pages: u64 },
    Fork,
    Exit(usize),
    Exec(usize),
    Busy { every: u64, times: u32 },
    KernelMoves { every: u64, to_fast: bool },
    Offline(bool),
    Pass(u64),
}

/// What a workload does by itself: nobody else moves pages, and nothing stops tierd from moving them.
fn own_steps() -> impl Strategy<Value = Vec<Step>> {
    let all = steps();
    all.prop_map(|mut steps| {
        steps.retain(|step| {
            !matches!(
                step,
                Step::TakeFast { .. } | Step::Busy { .. } | Step::KernelMoves { .. } | Step::Offline(_)
            )
        });
        steps
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = || (any::<prop::sample::Index>(), 0..1200u64, 1..900u64).prop_map(|(i, f, p)| (i.index(8), f, p));
    let step = prop_oneof![
        4 => (1..1500u64, 0..600u64).prop_map(|(pages, offset)| Step::Map { pages, offset }),
        8 => place().prop_map(|(area, from, pages)| Step::Touch { area, from, pages }),
        1 => place().prop_map(|(area, from, pages)| Step::TakeFast { area, from, pages }),
        3 => place().prop_map(|(area, from, pages)| Step::Write { area, from, pages }),
        3 => place().prop_map(|(area, from, pages)| Step::Unmap { area, from, pages }),
        1 => Just(Step::Fork),
        1 => (0..4usize).prop_map(Step::Exit),
        1 => (0..4usize).prop_map(Step::Exec),
        1 => (1..7u64, prop_oneof![1..5u32, Just(u32::MAX)]).prop_map(|(every, times)| Step::Busy { every, times }),
        1 => (1..50u64, any::<bool>()).prop_map(|(every, to_fast)| Step::KernelMoves { every, to_fast }),
        1 => prop::bool::weighted(0.3).prop_map(Step::Offline),
        8 => (1..400u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..60)
}

fn act(step: &Step, fake: &Fake) {
    let mut world = fake.world();
    let pids: Vec<i32> = world.tasks.keys().copied().collect();
    let Some(first) = pids.first().copied() else { return };
    let place = |world: &crate::fake::World, area: usize, from: u64, pages: u64| {
        let areas = &world.tasks[&first].areas;
        let area = areas.get(area % areas.len().max(1))?;
        let start = area.start + from % (area.end - area.start);
        Some(start..(start + pages).min(area.end))
    };
    match *step {
        Step::Map { pages, offset } => {
            world.map(first, pages, offset);
        }
        Step::Touch { area, from, pages } => {
            if let Some(range) = place(&world, area, from, pages) {
                world.touch(first, range);
            }
        }
        Step::TakeFast { area, from, pages } => {
            if let Some(range) = place(&world, area, from, pages) {
                world.touch_on(first, range, NODES[0]);
            }
        }
        Step::Write { area, from, pages } => {
            if let Some(range) = place(&world, area, from, pages) {
                world.write(first, range);
            }
        }
        Step::Unmap { area, from, pages } => {
            if let Some(range) = place(&world, area, from, pages) {
                world.unmap(first, range);
            }
        }
        Step::Fork => {
            if pids.len() < 4 {
                world.fork(first);
            }
        }
        // The last process stays: its end is the end of the run.
        Step::Exit(nth) => {
            if let Some(pid) = pids.get(nth).filter(|_| pids.len() > 1) {
                world.exit(*pid);
            }
        }
        Step::Exec(nth) => {
            if let Some(pid) = pids.get(nth) {
                world.exec(*pid);
            }
        }
        Step::Busy { every, times } => {
            for (number, frame) in &mut world.frames {
                frame.busy = if number % every == 0 { times } else { 0 };
            }
        }
        Step::KernelMoves { every, to_fast } => {
            for (number, frame) in &mut world.frames {
                if number % every == 0 && frame.busy == 0 {
                    frame.node = NODES[usize::from(!to_fast)];
                }
            }
        }
        Step::Offline(offline) => world.offline = offline,
        Step::Pass(_) => {}
    }
}

/// Every policy that runs live, with each of its page sizes.
pub fn systems() -> Vec<(&'static str, u64)> {
    live_systems()
        .into_iter()
        .flat_map(|name| [(name, 4u64 << 10), (name, 2 << 20)])
        .filter(|(name, page_bytes)| {
            let system = tiertune_policy::registry::find(name).expect("listed");
            system.page_bytes().contains(page_bytes)
        })
        .collect()
}

#[test]
fn the_cap_holds_at_every_moment() {
    let systems = systems();
    let mut runner = TestRunner::new(Cases {
        failure_persistence: None,
        ..Cases::with_cases(CASES_EACH * systems.len() as u32)
    });
    let story = (0..systems.len(), own_steps(), 200..2000u64);
    runner
        .run(&story, |(system, steps, fast_frames)| {
            let (name, page_bytes) = systems[system];
            let (fake, cap) = (Fake::default(), fast_frames.max(page_bytes / 4096));
            fake.world().spawn();
            let mut driver = driver(name, &knobs(name), &fake, options(page_bytes, cap, 1 << 20), BITS);
            for step in &steps {
                act(step, &fake);
                let until = fake.world().now_ns + if let Step::Pass(ms) = step { ms * MS } else { 0 };
                // After some steps nothing is looked at before the next one happens.
                while fake.world().now_ns < until {
                    prop_assert!(driver.turn().expect("no source fails"));
                    let fast = fake.world().fast_bytes();
                    prop_assert!(fast <= cap * 4096, "{}: {} bytes of {}", name, fast, cap * 4096);
                }
            }
            Ok(())
        })
        .unwrap_or_else(|problem| panic!("{problem}"));
}

#[test]
fn whatever_the_workload_does() {
    let systems = systems();
    let mut runner = TestRunner::new(Cases {
        failure_persistence: None,
        ..Cases::with_cases(CASES_EACH * systems.len() as u32)
    });
    let story = (0..systems.len(), steps(), any::<bool>(), 200..2000u64);
    runner
        .run(&story, |(system, steps, everything, fast_frames)| {
            let (name, page_bytes) = systems[system];
            run(
                name,
                page_bytes,
                &steps,
                if everything { EVERYTHING } else { BITS },
                fast_frames.max(page_bytes / 4096),
            )
        })
        .unwrap_or_else(|problem| panic!("{problem}"));
}

fn run(
    name: &str,
    page_bytes: u64,
    steps: &[Step],
    signals: tiertune_host::source::Signals,
    fast_frames: u64,
) -> Result<(), TestCaseError> {
    let fake = Fake::default();
    fake.world().spawn();
    let mut driver = driver(
        name,
        &knobs(name),
        &fake,
        options(page_bytes, fast_frames, 1 << 20),
        signals,
    );
    let mut turns = |for_ns: u64| -> Result<(), TestCaseError> {
        let end_ns = fake.world().now_ns + for_ns;
        for _ in 0..10_000 {
            let alive = driver.turn().expect("no source fails");
            prop_assert!(alive, "a process lives");
            if fake.world().now_ns >= end_ns {
                break;
            }
        }
        Ok(())
    };
    for step in steps {
        act(step, &fake);
        if let Step::Pass(ms) = step {
            turns(ms * MS)?;
        }
    }
    fake.world().offline = false;
    // Long enough for the kernel to be asked about everything, and for what it said to be acted upon.
    turns(500 * MS)?;
    // Pages that processes share are moved by one of them, and what the table says of the others is behind until then.
    // So they are when the policy, which is told of what has changed, has them moved once more. Frames that stay busy
    // for ever it may try to demote for ever, where they are above the cap.
    let at_rest = (0..50).any(|_| {
        let before = fake.world().asked_in_earnest;
        driver.resync().expect("no source fails");
        fake.world().asked_in_earnest == before && !driver.table().doubts()
    });
    prop_assert!(at_rest, "{name}: pages go to and fro");
    let world = fake.world();
    let (fast, cap) = (world.fast_bytes(), fast_frames * 4096);
    prop_assert!(
        fast <= cap + world.stuck_bytes(),
        "{name}: {fast} bytes in fast memory, which may hold {cap}"
    );
    let present: usize = world.tasks.values().map(|task| task.pages.len()).sum();
    prop_assert_eq!(driver.table().present_bytes(), present as u64 * 4096, "{}", name);
    prop_assert_eq!(driver.table().fast_bytes(), fast, "{}", name);
    for (number, block) in driver.table().used_blocks() {
        for frame in 0..512 {
            let page = block.chunk * 512 + frame as u64;
            let there = world.tasks[&block.pid]
                .pages
                .get(&page)
                .map(|frame| world.frames[frame].node);
            let known = block
                .present
                .has(frame)
                .then(|| NODES[usize::from(!block.fast.has(frame))]);
            prop_assert_eq!(known, there, "{} block {}", name, number);
        }
    }
    Ok(())
}
