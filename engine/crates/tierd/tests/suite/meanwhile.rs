//! Processes that fork, write and exit between any two calls of the kernel.

use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRunner};

use crate::fake::{BITS, Deed, Fake, MS, driver, knobs, options};
use crate::scripts::systems;

/// Stories for each system.
const CASES_EACH: u32 = 2;

/// Deeds as a test draws them: calls of the kernel before each, which process, and what it does where.
type Drawn = Vec<(u32, usize, u8, u64, u64)>;

/// What they write lies in the slow tier.
#[test]
fn the_cap_holds_whatever_happens_meanwhile() {
    let systems: Vec<_> = systems()
        .into_iter()
        .filter(|(_, page_bytes)| *page_bytes == 4096)
        .collect();
    let mut runner = TestRunner::new(Cases {
        failure_persistence: None,
        ..Cases::with_cases(CASES_EACH * systems.len() as u32)
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

/// What happened when the cap once did not hold, or a page was lost.
struct Story {
    what: &'static str,
    policy: &'static str,
    deeds: Drawn,
    hot: &'static [(u64, u64)],
    cap: u64,
    full: u64,
}

const FORK: u8 = 0;
const EXIT: u8 = 3;
const UNMAP: u8 = 4;
const WRITE_HOT: u8 = 5;
const WRITE: u8 = 6;

fn stories() -> Vec<Story> {
    let mut stories = vec![
        Story {
            what: "a process ends after the daemon was told of its pages and before it is told where they are; one child frees \
                   a page that the other keeps",
            policy: "hemem",
            deeds: vec![
                (3, 0, FORK, 0, 1),
                (1, 1, EXIT, 0, 1),
                (1, 0, EXIT, 0, 1),
                (2, 0, EXIT, 0, 1),
                (3, 0, FORK, 0, 1),
                (7, 0, FORK, 0, 1),
                (1, 0, EXIT, 0, 1),
                (0, 2, UNMAP, 0, 1),
                // As many for what is hot later, of which none comes about.
                (0, 0, FORK, 0, 1),
                (0, 0, FORK, 0, 1),
                (0, 0, FORK, 0, 1),
                (0, 0, FORK, 0, 1),
                (0, 0, FORK, 0, 1),
                (0, 0, FORK, 0, 1),
                (0, 0, FORK, 0, 1),
            ],
            hot: &[(1, 100), (0, 100)],
            cap: 200,
            full: 1,
        },
        Story {
            what: "a child is found and its pages are freed before they could be placed",
            policy: "colloid+tpp",
            deeds: vec![
                (0, 0, FORK, 0, 1),
                (0, 0, FORK, 0, 1),
                (0, 0, FORK, 0, 1),
                (0, 1, EXIT, 0, 1),
                (0, 0, FORK, 0, 1),
                (0, 2, EXIT, 0, 1),
                (3, 0, UNMAP, 704, 629),
                (8, 0, UNMAP, 700, 836),
                (0, 0, UNMAP, 0, 1),
                (0, 0, UNMAP, 0, 1),
                (0, 0, UNMAP, 0, 1),
                (0, 0, UNMAP, 0, 1),
                (0, 0, FORK, 0, 1),
                (0, 0, FORK, 0, 1),
                (0, 0, FORK, 0, 1),
                (0, 0, FORK, 0, 1),
            ],
            hot: &[(0, 233), (0, 100), (0, 100)],
            cap: 690,
            full: 3,
        },
    ];
    // Between any two questions, whichever order they come in.
    stories.extend((0..12).map(|calls| Story {
        what: "a page is copied on a write between the questions who has it and where it is",
        policy: "mru",
        deeds: vec![
            (0, 0, FORK, 0, 1),
            (0, 0, WRITE_HOT, 0, 1),
            (0, 0, WRITE, 1197, 689),
            (9, 2, EXIT, 0, 1),
            (3, 0, WRITE, 0, 1),
            (calls, 0, WRITE_HOT, 0, 1),
        ],
        hot: &[(643, 146), (0, 161)],
        cap: 200,
        full: 2,
    }));
    stories
}

#[test]
fn what_once_went_wrong_goes_well() {
    for (number, story) in stories().iter().enumerate() {
        meanwhile(story.policy, &story.deeds, story.hot, story.cap, story.full)
            .unwrap_or_else(|problem| panic!("story {number}, {}: {problem}", story.what));
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
            let deed = match *kind {
                FORK..EXIT => Deed::Fork(is_hot.clone()),
                EXIT => Deed::Exit,
                UNMAP => Deed::Unmap(range),
                WRITE_HOT => Deed::Write(is_hot.clone()),
                WRITE.. => Deed::Write(range),
            };
            // Numbers are given in order, so those of children are known before they are there.
            let whose = if *kind < EXIT { pid } else { pid + *nth as i32 };
            fake.world().meanwhile.push_back((*calls, whose, deed));
        }
        if !pass(100)? {
            return Ok(());
        }
    }
    Ok(())
}
