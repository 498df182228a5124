//! Any policy, any story of a workload: nothing panics, the table is what the kernel says, the cap holds.

use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRunner};

use crate::fake::{BITS, Deed, EVERYTHING, Fake, MS, NODES, driver, knobs, live_systems, options};

/// Stories for each system and page size.
const CASES_EACH: u32 = 3;
/// Of those in which processes do not wait for the daemon.
const MEANWHILE_EACH: u32 = 2;

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

fn systems() -> Vec<(&'static str, u64)> {
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

/// Deeds as a test draws them: calls of the kernel before each, which process, and what it does where.
type Drawn = Vec<(u32, usize, u8, u64, u64)>;

/// Processes fork, write and exit between any two calls of the kernel; what they write lies in the slow tier.
#[test]
fn the_cap_holds_whatever_happens_meanwhile() {
    let systems: Vec<_> = systems()
        .into_iter()
        .filter(|(_, page_bytes)| *page_bytes == 4096)
        .collect();
    let mut runner = TestRunner::new(Cases {
        failure_persistence: None,
        ..Cases::with_cases(MEANWHILE_EACH * systems.len() as u32)
    });
    let deed = (0..12_u32, 0..3_usize, 0..8_u8, 0..1500_u64, 1..900_u64);
    let story = (
        0..systems.len(),
        prop::collection::vec(deed, 4..20),
        prop::collection::vec((0..1500_u64, 100..900_u64), 2..5),
        200..1200_u64,
        1..6_u64,
    );
    runner
        .run(&story, |(system, deeds, hot, cap, full)| {
            meanwhile(systems[system].0, &deeds, &hot, cap, full)
        })
        .unwrap_or_else(|problem| panic!("{problem}"));
}

/// A process ends after the daemon was told of its pages and before it is told where they are; one child frees a page
/// that the other keeps.
#[test]
fn what_an_ended_process_had_may_be_kept_by_its_children() {
    let (fork, exit, unmap) = (0, 3, 4);
    let deeds = [
        (3, 0, fork, 0, 1),
        (1, 1, exit, 0, 1),
        (1, 0, exit, 0, 1),
        (2, 0, exit, 0, 1),
        (3, 0, fork, 0, 1),
        (7, 0, fork, 0, 1),
        (1, 0, exit, 0, 1),
        (0, 2, unmap, 0, 1),
    ];
    // As many for what is hot later, of which none comes about.
    let deeds = [&deeds[..], &[(0, 0, fork, 0, 1); 7]].concat();
    meanwhile("hemem", &deeds, &[(1, 100), (0, 100)], 200, 1).unwrap_or_else(|problem| panic!("{problem}"));
}

/// A child is found and its pages are freed before they could be placed.
#[test]
fn new_pages_that_are_gone_before_they_are_placed_are_told_as_gone() {
    let (fork, exit, unmap) = (0, 3, 4);
    let deeds = [
        (0, 0, fork, 0, 1),
        (0, 0, fork, 0, 1),
        (0, 0, fork, 0, 1),
        (0, 1, exit, 0, 1),
        (0, 0, fork, 0, 1),
        (0, 2, exit, 0, 1),
        (3, 0, unmap, 704, 629),
        (8, 0, unmap, 700, 836),
        (0, 0, unmap, 0, 1),
        (0, 0, unmap, 0, 1),
        (0, 0, unmap, 0, 1),
        (0, 0, unmap, 0, 1),
        (0, 0, fork, 0, 1),
        (0, 0, fork, 0, 1),
        (0, 0, fork, 0, 1),
        (0, 0, fork, 0, 1),
    ];
    meanwhile("colloid+tpp", &deeds.to_vec(), &[(0, 233), (0, 100), (0, 100)], 690, 3)
        .unwrap_or_else(|problem| panic!("{problem}"));
}

/// A page is copied on a write between the questions who has it and where it is.
#[test]
fn copies_that_are_made_while_pages_go_down_leave_the_others_where_they_are() {
    let (fork, exit, write_hot, write) = (0, 3, 5, 6);
    let deeds = [
        (0, 0, fork, 0, 1),
        (0, 0, write_hot, 0, 1),
        (0, 0, write, 1197, 689),
        (9, 2, exit, 0, 1),
        (3, 0, write, 0, 1),
        (9, 0, write_hot, 0, 1),
    ];
    for turn in 0..12 {
        let mut deeds = deeds.to_vec();
        // Between any two questions, whichever order they come in.
        deeds[5].0 = turn;
        meanwhile("mru", &deeds, &[(643, 146), (0, 161)], 200, 2).unwrap_or_else(|problem| panic!("{turn}: {problem}"));
    }
}

/// `full` is the number of looks of which one is at everything.
fn meanwhile(name: &str, deeds: &Drawn, hot: &[(u64, u64)], cap: u64, full: u64) -> Result<(), TestCaseError> {
    let fake = Fake::default();
    let pid = fake.world().spawn();
    let start = fake.world().map(pid, 2048, 0);
    fake.world().touch(pid, start..start + 2048);
    let mut set = options(4096, cap, 1 << 20);
    set.resync_ns = set.refresh_ns * full;
    let mut driver = driver(name, &knobs(name), &fake, set, BITS);
    let mut left = deeds.iter();
    for (from, pages) in hot {
        let is_hot = start + from..start + from + pages;
        let mut pass = |ms: u64| -> Result<bool, TestCaseError> {
            let until = fake.world().now_ns + ms * MS;
            while fake.world().now_ns < until {
                fake.world().touch(pid, is_hot.clone());
                if !driver.turn().expect("no source fails") {
                    return Ok(false);
                }
                let fast = fake.world().fast_bytes();
                if std::env::var_os("ZZ").is_some() {
                    let w = fake.world();
                    eprintln!(
                        "{} turn: table {} world {} tasks {:?}",
                        w.now_ns / 1000,
                        driver.table().fast_bytes() / 4096,
                        fast / 4096,
                        w.tasks.keys().collect::<Vec<_>>()
                    );
                }
                prop_assert!(fast <= cap * 4096, "{}: {} bytes of {}", name, fast, cap * 4096);
            }
            Ok(true)
        };
        // What is hot comes into the fast tier; then something happens to it, and something else is hot.
        if !pass(200)? {
            return Ok(());
        }
        for (calls, nth, kind, from, pages) in left.by_ref().take(deeds.len().div_ceil(hot.len())) {
            let range = start + from..start + from + pages;
            let deed = match kind {
                0..=2 => Deed::Fork(is_hot.clone()),
                3 => Deed::Exit,
                4 => Deed::Unmap(range),
                5 => Deed::Write(is_hot.clone()),
                _ => Deed::Write(range),
            };
            // Numbers are given in order, so those of children are known before they are there.
            let whose = if *kind < 3 { pid } else { pid + *nth as i32 };
            fake.world().meanwhile.push_back((*calls, whose, deed));
        }
        if !pass(100)? {
            return Ok(());
        }
    }
    Ok(())
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
    // So they are when the policy, which is told of what has changed, has them moved once more.
    let at_rest = (0..50).any(|_| {
        let before = fake.world().migrate_calls;
        driver.resync().expect("no source fails");
        fake.world().migrate_calls == before
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
