//! What a user expects of any policy: the hot set ends up in fast memory, and the cap holds.

use tierd::kernel::Kernel;
use tiertune_policy::{Config, Value};

use crate::fake::{BITS, EVERYTHING, Fake, MS, driver, knobs, options};

const PAGES: u64 = 4096;
const HOT: u64 = 512;
const FAST_FRAMES: u64 = 1024;

/// Runs a process whose first-allocated memory is cold and checks that two hot sets, one after the other, get into fast
/// memory; how many pages of each were there in the end.
fn follow(name: &str, config: &Config, page_bytes: u64, signals: tiertune_host::source::Signals) -> [usize; 2] {
    let world = Fake::default();
    let (pid, start) = {
        let mut world = world.world();
        let pid = world.spawn();
        let start = world.map(pid, PAGES, 0);
        world.touch(pid, start..start + PAGES);
        (pid, start)
    };
    let mut driver = driver(name, config, &world, options(page_bytes, FAST_FRAMES, 8192), signals);
    let mut reached = [0, 0];
    for (nth, hot) in [start + 2048..start + 2048 + HOT, start + 3072..start + 3072 + HOT]
        .into_iter()
        .enumerate()
    {
        let end_ns = world.world().now_ns + 12_000 * MS;
        while world.world().now_ns < end_ns {
            world.world().touch(pid, hot.clone());
            assert!(driver.turn().expect("nothing fails"), "the process lives");
            let fast = world.world().fast_bytes();
            assert!(fast <= FAST_FRAMES * 4096, "{name}: {fast} bytes in fast memory");
            assert_eq!(
                driver.table().fast_bytes(),
                fast,
                "{name}: the ledger is what the kernel says"
            );
        }
        reached[nth] = world.world().fast_pages(pid, hot);
    }
    reached
}

#[test]
fn hot_sets_get_into_fast_memory_and_new_ones_replace_them() {
    for (name, page_bytes) in [
        ("hemem", 4 << 10),
        ("hemem", 2 << 20),
        ("memtis", 4 << 10),
        ("tpp", 4 << 10),
        ("nbt", 4 << 10),
        ("colloid+hemem", 4 << 10),
        ("alto+nbt", 4 << 10),
        ("mru", 4 << 10),
        ("mru", 2 << 20),
    ] {
        let reached = follow(name, &knobs(name), page_bytes, BITS);
        let enough = HOT as usize * 9 / 10;
        assert!(
            reached.iter().all(|pages| *pages >= enough),
            "{name} at {page_bytes}: {reached:?} of {HOT}"
        );
    }
}

#[test]
fn hardware_samples_and_hint_faults_are_passed_on() {
    for name in ["hemem", "tpp"] {
        let reached = follow(name, &knobs(name), 4 << 10, EVERYTHING);
        assert!(
            reached.iter().all(|pages| *pages >= HOT as usize * 9 / 10),
            "{name}: {reached:?}"
        );
    }
}

#[test]
fn threads_that_sleep_do_not_scan() {
    let world = Fake::default();
    let pid = world.world().spawn();
    let start = world.world().map(pid, PAGES, 0);
    world.world().touch(pid, start..start + PAGES);
    let set = options(4 << 10, FAST_FRAMES, 8192);
    let mut driver = driver("tpp", &knobs("tpp"), &world, set, EVERYTHING);
    let mut passes = |asleep: bool| {
        let end_ns = world.world().now_ns + 12_000 * MS;
        while world.world().now_ns < end_ns {
            let begun_ns = world.world().now_ns;
            if !asleep {
                world.world().touch(pid, start + 2048..start + 2048 + HOT);
            }
            driver.turn().expect("nothing fails");
            if asleep {
                let mut world = world.world();
                world.slept_ns += world.now_ns - begun_ns;
            }
        }
        let gauges = driver.gauges();
        let passes = gauges.iter().find(|gauge| gauge.name == "scan_passes");
        passes.expect("tpp has a scanner").value
    };
    let [running, asleep, again] = [false, true, false].map(&mut passes);
    assert!(running >= 5.0, "{running}");
    // One may have been under way.
    assert!(asleep <= running + 1.0, "{running} then {asleep}");
    assert!(again >= asleep + 5.0, "{asleep} then {again}");
}

#[test]
fn new_memory_goes_where_the_policy_places_it() {
    for (name, expected) in [("notier", 512), ("all-slow", 0)] {
        let world = Fake::default();
        let (pid, start) = {
            let mut world = world.world();
            let pid = world.spawn();
            let start = world.map(pid, 512, 100);
            world.touch(pid, start..start + 512);
            (pid, start)
        };
        let mut driver = driver(name, &Config::new(), &world, options(4096, 1024, 8192), BITS);
        driver.turn().expect("nothing fails");
        assert_eq!(world.world().fast_pages(pid, start..start + 512), expected, "{name}");
    }
}

#[test]
fn an_excess_is_moved_out_at_once_and_what_was_seen_last_stays() {
    let world = Fake::default();
    let (pid, start) = {
        let mut world = world.world();
        let pid = world.spawn();
        let start = world.map(pid, 4096, 0);
        world.touch_on(pid, start..start + 4096, 0);
        (pid, start)
    };
    let mut set = options(4096, 1024, 8192);
    set.place_first = false;
    let mut driver = driver("notier", &Config::new(), &world, set, BITS);
    driver.turn().expect("nothing fails");
    assert_eq!(world.world().fast_bytes(), 1024 * 4096);
    assert_eq!(
        (driver.counts().over_cap, driver.counts().most_over_cap_bytes),
        (1, 3072 * 4096)
    );
    // The program takes fast memory by itself, in blocks that are used while others are not.
    world.world().touch_on(pid, start..start + 512, 0);
    assert!(world.world().fast_pages(pid, start..start + 4096) >= 1024);
}

#[test]
fn the_rate_of_moves_is_kept() {
    let world = Fake::default();
    let pid = world.world().spawn();
    let start = world.world().map(pid, 4096, 0);
    let mut set = options(4096, 4096, 8192);
    set.most_bytes_per_s = Some(1024.0 * 4096.0);
    let mut driver = driver(
        "hemem",
        &Config::from([("mmap_filter_size_bytes".to_owned(), Value::Int(0))]),
        &world,
        set,
        BITS,
    );
    driver.turn().expect("nothing fails");
    // Placing is not limited: what the policy asks for afterwards is.
    world.world().touch(pid, start..start + 4096);
    let begun = world.world().now_ns;
    while world.world().now_ns < begun + 3000 * MS {
        world.world().touch(pid, start..start + 4096);
        driver.turn().expect("nothing fails");
    }
    let asked = driver.tally().promoted_bytes + driver.tally().demoted_bytes - driver.tally().placed_bytes;
    let seconds = (driver.kernel().now_ns() - begun) as f64 / 1e9;
    assert!(
        asked as f64 <= (seconds + 1.0) * 1024.0 * 4096.0,
        "{asked} bytes in {seconds} s"
    );
}
