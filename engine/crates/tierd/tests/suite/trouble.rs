//! Pages that are busy, nodes that go away, memory that is full.

use tiertune_policy::Config;

use crate::fake::{BITS, Fake, MS, NODES, driver, knobs, options};

fn world_with(pages: u64) -> (Fake, i32, u64) {
    let world = Fake::default();
    let (pid, start) = {
        let mut world = world.world();
        let pid = world.spawn();
        let start = world.map(pid, pages, 0);
        world.touch(pid, start..start + pages);
        (pid, start)
    };
    (world, pid, start)
}

#[test]
fn pages_that_are_busy_for_a_moment_are_tried_again() {
    let (world, pid, start) = world_with(256);
    world.world().frames.values_mut().for_each(|frame| frame.busy = 2);
    let mut driver = driver("notier", &Config::new(), &world, options(4096, 1024, 8192), BITS);
    driver.turn().expect("nothing fails");
    assert_eq!(world.world().fast_pages(pid, start..start + 256), 256);
    assert_eq!((driver.tally().retried_frames, driver.tally().busy_frames), (512, 0));
    assert_eq!(world.world().migrate_calls, 3, "one batch, tried three times");
}

#[test]
fn pages_that_are_busy_for_ever_stay_and_hold_nothing_up() {
    let (world, pid, start) = world_with(2048);
    let pinned: Vec<u64> = world.world().tasks[&pid]
        .pages
        .range(start + 1000..start + 1100)
        .map(|(_, frame)| *frame)
        .collect();
    for frame in pinned {
        if let Some(frame) = world.world().frames.get_mut(&frame) {
            frame.busy = u32::MAX;
        }
    }
    let mut driver = driver("hemem", &knobs("hemem"), &world, options(4096, 1024, 8192), BITS);
    let end_ns = 30_000 * MS;
    while world.world().now_ns < end_ns {
        world.world().touch(pid, start + 1000..start + 1300);
        driver.turn().expect("nothing fails");
        assert_eq!(driver.table().fast_bytes(), world.world().fast_bytes());
    }
    assert_eq!(world.world().fast_pages(pid, start + 1000..start + 1100), 0);
    assert_eq!(world.world().fast_pages(pid, start + 1100..start + 1300), 200);
    assert!(driver.tally().busy_frames > 0 && driver.tally().outcomes["aborted"] > 0);
}

#[test]
fn pages_that_are_gone_for_a_moment_are_asked_for_again() {
    for policy in ["hemem", "pact"] {
        let (world, pid, start) = world_with(2048);
        let hot = start + 1300..start + 1600;
        let mut driver = driver(policy, &knobs(policy), &world, options(4096, 1024, 8192), BITS);
        driver.turn().expect("nothing fails");
        world.world().frames.values_mut().for_each(|frame| frame.vanishes = 1);
        let end_ns = 30_000 * MS;
        while world.world().now_ns < end_ns {
            world.world().touch(pid, hot.clone());
            driver.turn().expect("nothing fails");
        }
        assert!(driver.tally().outcomes["aborted"] > 0, "{policy}");
        assert_eq!(world.world().fast_pages(pid, hot), 300, "{policy}");
    }
}

#[test]
fn a_program_that_lives_unseen_has_not_ended() {
    let (world, ..) = world_with(256);
    let mut driver = driver("notier", &Config::new(), &world, options(4096, 1024, 8192), BITS);
    assert_eq!(driver.turn(), Ok(true));
    world.world().unseen = true;
    let problem = (0..100).find_map(|_| match driver.turn() {
        Ok(true) => None,
        ended => Some(ended),
    });
    let problem = problem.expect("it is found out").expect_err("it goes on").to_string();
    assert!(problem.contains("first thread"), "{problem}");
    assert_eq!(driver.table().present_bytes(), 0);
}

#[test]
fn processes_that_are_too_many_are_counted_and_told_of() {
    let (world, ..) = world_with(256);
    let mut driver = driver("notier", &Config::new(), &world, options(4096, 1024, 8192), BITS);
    driver.turn().expect("nothing fails");
    assert_eq!((driver.crowd(), driver.notes()), (None, Vec::new()));
    for left_out in [7, 30, 2] {
        world.world().left_out = left_out;
        driver.resync().expect("nothing fails");
    }
    assert_eq!(driver.counts().unmanaged_processes, 30);
    let notes = driver.notes();
    assert!(
        notes.len() == 1 && notes[0].contains("30 or more at a time are not managed"),
        "{notes:?}"
    );
    assert_eq!(driver.crowd().as_ref(), notes.first());
}

#[test]
fn a_run_that_may_see_nothing_is_no_run() {
    let (world, ..) = world_with(256);
    world.world().forbidden = true;
    let mut driver = driver("notier", &Config::new(), &world, options(4096, 1024, 8192), BITS);
    let problem = driver.turn().expect_err("nothing is seen").to_string();
    assert!(
        problem.contains("move_pages") && problem.ends_with("Operation not permitted"),
        "{problem}"
    );
}

#[test]
fn a_node_that_goes_away_ends_migrations_and_not_the_run() {
    let (world, pid, start) = world_with(2048);
    let mut driver = driver("mru", &knobs("mru"), &world, options(4096, 512, 8192), BITS);
    for turn in 0..400 {
        world.world().offline = turn >= 1;
        world.world().touch(pid, start + 1024..start + 1200);
        assert!(driver.turn().expect("nothing fails"));
        assert_eq!(driver.table().fast_bytes(), world.world().fast_bytes());
    }
    let refused = &driver.tally().refused_calls;
    assert!(
        refused.contains_key("the node is offline") || driver.tally().outcomes.contains_key("no_space"),
        "{refused:?}"
    );
}

#[test]
fn where_slow_memory_is_full_nothing_can_be_moved_out() {
    let (world, pid, start) = world_with(1024);
    {
        let mut world = world.world();
        let extra = world.map(pid, 512, 0);
        world.touch_on(pid, extra..extra + 512, NODES[0]);
    }
    let mut set = options(4096, 256, 1024);
    set.place_first = false;
    let mut driver = driver("notier", &Config::new(), &world, set, BITS);
    for _ in 0..20 {
        assert!(driver.turn().expect("nothing fails"));
    }
    assert_eq!(world.world().fast_bytes(), 512 * 4096);
    assert_eq!(
        driver.counts().most_left_over_cap_bytes,
        256 * 4096,
        "the report says so"
    );
    world.world().unmap(pid, start..start + 512);
    for _ in 0..20 {
        assert!(driver.turn().expect("nothing fails"));
    }
    assert_eq!(world.world().fast_bytes(), 256 * 4096);
}

#[test]
fn a_forked_child_is_counted_once_and_its_own_pages_apart() {
    let (world, pid, start) = world_with(512);
    let mut driver = driver("notier", &Config::new(), &world, options(4096, 600, 8192), BITS);
    driver.turn().expect("nothing fails");
    assert_eq!(world.world().fast_bytes(), 512 * 4096);
    let child = world.world().fork(pid).expect("it lives");
    for _ in 0..20 {
        driver.turn().expect("nothing fails");
        assert_eq!(driver.table().fast_bytes(), 512 * 4096, "shared pages count once");
    }
    assert_eq!(driver.counts().over_cap, 0);
    world.world().exit(pid);
    for _ in 0..20 {
        driver.turn().expect("nothing fails");
    }
    assert_eq!(driver.table().fast_bytes(), 512 * 4096, "the child's now");
    assert_eq!(world.world().fast_pages(child, start..start + 512), 512);
    world.world().exec(child);
    for _ in 0..20 {
        driver.turn().expect("nothing fails");
    }
    assert_eq!((driver.table().fast_bytes(), driver.table().present_bytes()), (0, 0));
    world.world().exit(child);
    let mut turns = 0;
    while driver.turn().expect("nothing fails") {
        turns += 1;
        assert!(turns < 100, "the end is noticed");
    }
}

#[test]
fn copies_that_a_child_keeps_are_not_taken_for_room() {
    let (world, pid, start) = world_with(2048);
    let mut set = options(4096, 512, 8192);
    // Between two looks there is time for everything.
    (set.refresh_ns, set.resync_ns) = (3000 * MS, 3000 * MS);
    let mut driver = driver("mru", &knobs("mru"), &world, set, BITS);
    let mut pass = |hot: std::ops::Range<u64>, ms: u64| {
        let end_ns = world.world().now_ns + ms * MS;
        while world.world().now_ns < end_ns {
            world.world().touch(pid, hot.clone());
            driver.turn().expect("nothing fails");
            let fast = world.world().fast_bytes();
            assert!(fast <= 512 * 4096, "{fast} bytes in fast memory");
        }
    };
    pass(start + 1024..start + 1536, 5000);
    assert_eq!(world.world().fast_pages(pid, start + 1024..start + 1536), 512);
    let child = world.world().fork(pid).expect("it lives");
    world.world().write(pid, start + 1024..start + 1536);
    assert_eq!(world.world().fast_pages(child, start + 1024..start + 1536), 512);
    pass(start + 512..start + 1024, 10_000);
    assert!(world.world().fast_pages(pid, start + 512..start + 1024) > 400);
    world.world().exit(child);
    pass(start..start + 512, 10_000);
    assert!(world.world().fast_pages(pid, start..start + 512) > 400);
}

#[test]
fn batches_are_as_large_as_they_may_be_and_no_larger() {
    let (world, ..) = world_with(4096);
    let mut driver = driver("hemem", &knobs("hemem"), &world, options(2 << 20, 4096, 8192), BITS);
    for _ in 0..20 {
        driver.turn().expect("nothing fails");
    }
    assert_eq!(world.world().most_batch, 512);
    assert_eq!(world.world().migrate_calls, 8);
}
