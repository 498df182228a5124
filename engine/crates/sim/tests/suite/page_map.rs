//! A page map shows what the run did, and the run does not notice.

use tiertune_policy::knob::Config;
use tiertune_sim::page_map::{PageMap, PageMapRequest};
use tiertune_sim::scenario::{Mode, Request};
use tiertune_sim::{RunResult, run};

use crate::support::{MIB, compile, hot_set, request};

const PAGE: u64 = 2 * MIB;
const BYTES: u64 = 512 * MIB;

fn mapped(system: &str, config: Config, bins: usize, moments: usize) -> (RunResult, PageMap) {
    let workload = compile(hot_set(BYTES, 2e7), PAGE);
    let mut asked: Request = request(system, config, PAGE, BYTES / 4, 3);
    asked.timeline_points = 50;
    let blind = run(&workload, &asked).expect("a run");
    asked.page_map = Some(PageMapRequest { bins, moments });
    let mut seen = run(&workload, &asked).expect("a run");
    let map = seen.page_map.take().expect("a map");
    assert_eq!(blind, seen, "looking changed the run");
    (seen, map)
}

/// Of the reads at each moment, the share that goes to fast pages.
fn hits(map: &PageMap) -> Vec<f64> {
    let moments = map.reads_per_s.iter().zip(&map.fast_share);
    moments
        .map(|(reads, fast)| {
            let all: f64 = reads.iter().map(|r| f64::from(*r)).sum();
            let hit: f64 = reads.iter().zip(fast).map(|(r, f)| f64::from(*r) * f64::from(*f)).sum();
            hit / all
        })
        .collect()
}

#[test]
fn bins_hold_all_pages_and_no_more_of_them_are_fast_than_fit() {
    let pages = BYTES / PAGE;
    // More bins than pages, as many, and numbers that divide nothing.
    for bins in [1, 7, 256, 1000] {
        let (_, map) = mapped("hemem", Config::new(), bins, 20);
        assert_eq!(map.pages.len(), bins);
        assert!((map.pages.iter().sum::<f64>() - pages as f64).abs() < 1e-6);
        for fast in &map.fast_share {
            let used: f64 = fast.iter().zip(&map.pages).map(|(f, p)| f64::from(*f) * p).sum();
            assert!(fast.iter().all(|f| (0.0..=1.0 + 1e-6).contains(f)));
            assert!(
                used <= pages as f64 / 4.0 + 1e-3,
                "{used} pages in a tier of {}",
                pages / 4
            );
            assert!(used > pages as f64 / 8.0);
        }
    }
}

#[test]
fn reads_and_hits_are_those_of_the_run() {
    let mut config = Config::new();
    config.insert("sampling_period".into(), 500i64.into());
    config.insert("mmap_filter_size_bytes".into(), 0i64.into());
    let (result, map) = mapped("hemem", config, (BYTES / PAGE) as usize, 40);
    let mean: f64 = map.reads_per_s.iter().flatten().map(|r| f64::from(*r)).sum::<f64>() / map.time_s.len() as f64;
    let measured = result.metrics.simulated_accesses / result.metrics.runtime_s;
    assert!(
        (mean / measured - 1.0).abs() < 0.1,
        "{mean} reads per second, {measured} measured"
    );
    let over_time = hits(&map).iter().sum::<f64>() / map.time_s.len() as f64;
    let ratio = result.metrics.fast_hit_ratio;
    assert!(
        (over_time - ratio).abs() < 0.05,
        "{over_time} of the reads, {ratio} measured"
    );
}

#[test]
fn the_hot_set_is_seen_to_move() {
    let (_, map) = mapped("all-slow", Config::new(), 64, 30);
    assert!(map.fast_share.iter().flatten().all(|share| *share == 0.0));
    let hottest = |reads: &Vec<f32>| (0..64).max_by(|a, b| reads[*a].total_cmp(&reads[*b])).expect("bins");
    let first = hottest(map.reads_per_s.first().expect("moments"));
    let last = hottest(map.reads_per_s.last().expect("moments"));
    assert_ne!(first, last);
}

#[test]
fn moments_are_evenly_spaced_and_not_too_many() {
    for moments in [1, 2, 5, 16] {
        let (result, map) = mapped("hemem", Config::new(), 8, moments);
        let times = &map.time_s;
        assert!(
            times.len() <= moments && times.len() * 2 >= moments,
            "{} of {moments}",
            times.len()
        );
        let steps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|step| (step - steps[0]).abs() < 0.002), "{times:?}");
        assert!(*times.last().expect("moments") <= result.metrics.runtime_s + 1e-9);
    }
}

#[test]
fn nothing_is_drawn_where_nothing_was_asked_for() {
    let workload = compile(hot_set(BYTES, 1e6), PAGE);
    let mut asked = request("notier", Config::new(), PAGE, BYTES / 4, 3);
    assert!(run(&workload, &asked).expect("a run").page_map.is_none());
    asked.page_map = Some(PageMapRequest { bins: 0, moments: 5 });
    assert!(run(&workload, &asked).expect("a run").page_map.is_none());
    asked.page_map = Some(PageMapRequest { bins: 5, moments: 5 });
    asked.mode = Mode::Reference;
    assert!(run(&workload, &asked).expect("a run").page_map.is_none());
}
