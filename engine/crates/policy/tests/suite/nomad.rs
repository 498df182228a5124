//! What holds for `nomad` on any course of events: shadows are always counted, no tier overflows, and a page goes
//! back to its shadow only while that is a copy of it.

use std::collections::BTreeSet;

use crate::harness::{Driver, Entry, MS};
use proptest::prelude::*;
use tiertune_policy::registry::{self, PAGE_4K};
use tiertune_policy::{Config, FaultKind, How, Outcome, Page, PageMap, Tier, Topology, Value};

const PAGES: u32 = 160;
const FAST_PAGES: u32 = 60;

#[derive(Debug, Clone)]
enum Step {
    Touch { start: Page, pages: u32, write: bool },
    Run { us: u64 },
    Occupy { tier: Tier, pages: u32 },
    GiveBack,
    Comes,
    Goes,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let touch = (0..PAGES, 1..40u32, prop::bool::weighted(0.2)).prop_map(|(start, pages, write)| Step::Touch {
        start,
        pages,
        write,
    });
    let run = prop_oneof![(1..100u64), (1000..300_000u64)].prop_map(|us| Step::Run { us });
    let occupy = (0..3u8, 1..80u32).prop_map(|(tier, pages)| Step::Occupy { tier, pages });
    prop::collection::vec(
        prop_oneof![8 => touch, 8 => run, 2 => occupy, 1 => Just(Step::GiveBack), 1 => Just(Step::Comes), 1 => Just(Step::Goes)],
        10..120,
    )
}

fn configs() -> impl Strategy<Value = Config> {
    (
        1..4i64,
        1..6i64,
        16..40i64,
        1..4i64,
        0..3i64,
        1..20i64,
        0.0..1.0f64,
        any::<bool>(),
        1..20i64,
    )
        .prop_map(
            |(faults, distance, queue, passes, delay, batch, share, clears, activated)| {
                Config::from([
                    ("scan_delay_ms".into(), Value::Int(0)),
                    ("scan_period_min_ms".into(), Value::Int(20)),
                    ("faults_to_promote".into(), Value::Int(faults)),
                    ("pf_lookback_dist".into(), Value::Int(distance)),
                    ("promote_queue_len".into(), Value::Int(queue)),
                    ("max_retry_passes".into(), Value::Int(passes)),
                    ("work_delay_ms".into(), Value::Int(delay)),
                    ("shadow_reclaim_batch".into(), Value::Int(batch)),
                    ("shadow_reclaim_frac".into(), Value::Float(share)),
                    ("lookback_clears_accessed".into(), Value::Bool(clears)),
                    ("activation_batch".into(), Value::Int(activated)),
                ])
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn shadows_are_counted_and_only_good_ones_are_gone_back_to(
        steps in steps(), config in configs(), tiers in 2..4usize, slow in 120..400u32,
    ) {
        let mut capacity_pages = vec![FAST_PAGES];
        capacity_pages.extend(vec![slow; tiers - 1]);
        let topology = Topology { page_bytes: PAGE_4K, pages: PAGES, capacity_pages };
        let policy = registry::build("nomad", &config, &topology).expect("valid");
        let mut driver = Driver::new(policy, &topology);
        let late = PAGES - 20;
        driver.alloc(0, late);
        let mut exists = false;
        for step in steps {
            match step {
                Step::Touch { start, pages, write } => {
                    let end = if exists { PAGES } else { late };
                    driver.touch(&(start.min(end - 1)..(start + pages).min(end)).collect::<Vec<_>>(), write);
                }
                Step::Run { us } => driver.run_until(driver.now + us * 1000),
                Step::Occupy { tier, pages } if usize::from(tier) < tiers => {
                    let pages = pages.min(driver.pages.free_pages(tier));
                    driver.occupy(tier, i64::from(pages));
                }
                Step::GiveBack => {
                    for tier in 0..tiers as Tier {
                        driver.occupy(tier, -i64::from(driver.taken(tier)));
                    }
                }
                Step::Comes if !exists && driver.free_pages() >= 20 => {
                    driver.alloc(late, PAGES - late);
                    exists = true;
                }
                Step::Goes if exists => {
                    driver.free(late);
                    exists = false;
                }
                _ => {}
            }
            for tier in 0..tiers as Tier {
                prop_assert!(driver.used(tier) <= driver.capacity(tier), "tier {} overflows", tier);
            }
            prop_assert_eq!(driver.kept_in(0), 0, "a shadow in fast memory");
        }
        driver.run_until(driver.now + 50 * MS);
        // What is on its way at the end is neither here nor there.
        if driver.idle() {
            let kept: u32 = (1..tiers as Tier).map(|tier| driver.kept_in(tier)).sum();
            prop_assert_eq!(driver.gauge("shadow_pages"), f64::from(kept));
        }
        let mut good: BTreeSet<Page> = BTreeSet::new();
        for entry in &driver.log {
            match entry {
                Entry::Ended(migrated) if migrated.outcome == Outcome::Done => {
                    let page = migrated.request.page;
                    match migrated.request.how {
                        How::KeepingFrame => drop(good.insert(page)),
                        How::Remap => prop_assert!(good.remove(&page), "page {} had no good shadow", page),
                        _ => drop(good.remove(&page)),
                    }
                }
                Entry::Fault(fault) if fault.kind == FaultKind::Write => drop(good.remove(&fault.page)),
                _ => {}
            }
        }
    }
}

/// The property is about something: shadows come, are written, gone back to and reclaimed in a course like those above.
#[test]
fn such_courses_have_shadows_that_end_in_every_way() {
    let topology = Topology {
        page_bytes: PAGE_4K,
        pages: PAGES,
        capacity_pages: vec![100, 400],
    };
    let config = Config::from([
        ("scan_delay_ms".into(), Value::Int(0)),
        ("scan_period_min_ms".into(), Value::Int(20)),
        ("faults_to_promote".into(), Value::Int(1)),
    ]);
    let policy = registry::build("nomad", &config, &topology).expect("valid");
    let mut driver = Driver::new(policy, &topology);
    driver.alloc(0, PAGES);
    for round in 0..60u32 {
        driver.run_until(driver.now + 100 * MS);
        let start = round * 7 % (PAGES - 10);
        driver.touch(&(start..start + 10).collect::<Vec<_>>(), round % 5 == 4);
        if round == 40 {
            driver.occupy(1, i64::from(driver.pages.free_pages(1)));
        }
    }
    for name in ["shadow_hits", "shadows_written", "shadows_reclaimed", "promoted_pages"] {
        assert!(driver.gauge(name) > 0.0, "{name}");
    }
}
