//! What every registered policy promises: `tiertune_contract::promises`, and what is about the registry and the
//! sources. The suite goes through the registry, so a new policy is held to it by its registry line alone.

use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::{env, fs, thread};

use crate::harness::workload;
use tiertune_contract::promises::Contract;
use tiertune_policy::registry::{self, Composed, PAGE_2M, PAGE_4K, SYSTEMS, WRAPPERS};
use tiertune_policy::{Config, SystemError};

/// Every listed system with its contract, whose runs all tests share.
static LISTED: LazyLock<Vec<(&'static Composed, Contract<'static>)>> = LazyLock::new(|| {
    let listed: &'static [Composed] = registry::listed().leak();
    listed.iter().map(|system| (system, Contract::new(system))).collect()
});

fn every(check: fn(&Contract<'_>)) {
    for (system, contract) in LISTED.iter() {
        println!("{}", system.name());
        check(contract);
    }
}

#[test]
fn equal_inputs_give_equal_decisions() {
    every(|contract| contract.equal_inputs_give_equal_decisions());
}

#[test]
fn requests_are_valid_and_succeed() {
    every(|contract| contract.requests_are_valid_and_succeed());
}

#[test]
fn knobs_at_their_extremes_do_no_harm() {
    every(|contract| contract.knobs_at_their_extremes_do_no_harm());
}

#[test]
fn knobs_change_nothing_while_their_conditions_do_not_hold() {
    let next = AtomicUsize::new(0);
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((system, contract)) = LISTED.get(next.fetch_add(1, Ordering::Relaxed)) {
                    println!("{}", system.name());
                    contract.knobs_out_of_action_change_nothing();
                }
            });
        }
    });
}

#[test]
fn knobs_are_declared_completely() {
    every(|contract| contract.knobs_are_declared_completely());
}

#[test]
fn configs_resolve_to_defaults_and_mistakes_are_named() {
    every(|contract| contract.mistakes_in_configs_are_named());
}

#[test]
fn declared_samplers_mechanics_and_overheads_make_sense() {
    every(|contract| contract.declarations_make_sense());
}

#[test]
fn empty_calls_and_stray_wake_ups_do_no_harm() {
    every(|contract| contract.empty_calls_do_no_harm());
}

#[test]
fn a_restored_policy_goes_on_as_the_saved_one_would_have() {
    every(|contract| contract.a_restored_policy_goes_on());
}

#[test]
fn a_state_that_is_none_is_refused() {
    every(|contract| contract.a_state_that_is_none_is_refused());
}

/// Where knobs were seen to act that do not in most settings, so that the search begins there. `UPDATE_GOLDEN=1`
/// writes it anew; a line that is missing or out of date costs time only.
const KNOBS_AT_WORK: &str = "tests/suite/knobs_at_work.txt";

#[test]
fn every_knob_changes_what_the_system_does_or_says_that_it_is_inert() {
    let knobs: Vec<(&Contract<'static>, usize)> = LISTED
        .iter()
        .flat_map(|(system, contract)| (0..system.knobs().len()).map(move |place| (contract, place)))
        .collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(KNOBS_AT_WORK);
    let known = fs::read_to_string(&file).unwrap_or_default();
    let (next, all) = (AtomicUsize::new(0), Mutex::new((Vec::new(), Vec::new())));
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((contract, place)) = knobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (wrong, at_work) = contract.look_at_knob(*place, &known);
                    let mut all = all.lock().expect("no panic while it is held");
                    all.0.extend(wrong);
                    all.1.extend(at_work);
                }
            });
        }
    });
    let (wrong, mut at_work) = all.into_inner().expect("all threads are over");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    if env::var_os("UPDATE_GOLDEN").is_some() {
        at_work.sort();
        fs::write(&file, at_work.join("\n") + "\n").unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}

/// The same object runs under the simulator and under the daemon, so time, files and randomness
/// come in with calls and nowhere else.
#[test]
fn policy_code_reads_no_clock_file_thread_or_environment() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![source];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the crate has its sources") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            seen += 1;
            let text = fs::read_to_string(&path).expect("sources are text");
            for banned in [
                "std::time",
                "std::fs",
                "std::net",
                "std::thread",
                "std::env",
                "std::process",
                "std::io",
            ] {
                assert!(!text.contains(banned), "{} uses {banned}", path.display());
            }
            for banned in ["println!", "eprintln!", "thread_rng", "HashMap", "HashSet"] {
                assert!(!text.contains(banned), "{} uses {banned}", path.display());
            }
        }
    }
    assert!(seen > 8, "found {seen} files only");
}

#[test]
fn names_of_systems_are_unique_and_found() {
    let mut names: Vec<&str> = registry::names().collect();
    for name in &names {
        let found = registry::find(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(found.name(), **name);
        assert!([PAGE_2M, PAGE_4K].contains(&found.page_bytes()[0]));
    }
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "a system is registered twice");
}

/// Every wrapper around every system: it is either built and keeps the promises, or refused with a
/// reason and something that would do.
#[test]
fn any_composition_works_or_is_refused_with_a_reason() {
    let mut works = 0;
    for wrapper in WRAPPERS {
        for system in SYSTEMS {
            let name = format!("{}+{}", wrapper.name, system.name);
            match registry::find(&name) {
                Ok(found) => {
                    works += 1;
                    let run = || workload::run(&name, &Config::new(), found.page_bytes()[0], 2);
                    assert_eq!(run(), run(), "{name}");
                }
                Err(SystemError::Senseless { reason, nearest, .. }) => {
                    assert!(
                        !reason.is_empty() && registry::find(&nearest).is_ok(),
                        "{name}: {reason}, {nearest}"
                    );
                }
                Err(other) => panic!("{name}: {other}"),
            }
        }
        let twice = format!("{0}+{0}+{1}", wrapper.name, SYSTEMS[0].name);
        assert!(
            matches!(registry::find(&twice), Err(SystemError::Senseless { .. })),
            "{twice}"
        );
    }
    assert_eq!(works > 0, !WRAPPERS.is_empty());
}
