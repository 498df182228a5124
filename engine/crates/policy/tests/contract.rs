//! What every registered policy promises. The suite goes through the registry, so a new policy is
//! held to it by its registry line alone.

mod harness;

use std::collections::HashMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use harness::workload;
use harness::{Driver, Entry, MS};
use tiertune_policy::registry::{self, Composed, PAGE_2M, PAGE_4K, SYSTEMS, WRAPPERS};
use tiertune_policy::{Config, Knob, KnobError, KnobKind, Outcome, SystemError, Value};

/// Every system on both page sizes (where it manages them) with two and with three tiers.
fn each(check: impl Fn(&str, u64, usize)) {
    for system in registry::listed() {
        let name = system.name();
        for page_bytes in system.page_bytes() {
            for tiers in [2, 3] {
                println!("{name} with pages of {page_bytes} bytes on {tiers} tiers");
                check(&name, *page_bytes, tiers);
            }
        }
    }
}

fn signal(system: &str) -> bool {
    !registry::find(system)
        .expect("it is listed")
        .signal()
        .starts_with("none")
}

/// A config with `knob` at `value` and, where the knob acts only beside another, that one set too.
fn with(knob: &Knob, value: Value) -> Config {
    let condition = knob
        .condition
        .iter()
        .map(|(other, value)| ((*other).to_string(), value.clone()));
    condition.chain([(knob.name.to_string(), value)]).collect()
}

/// Both ends of a knob, its special values, or all its words.
fn extremes(knob: &Knob) -> Vec<Value> {
    let mut values = match &knob.kind {
        KnobKind::Int { min, max, .. } => vec![Value::Int(*min), Value::Int(*max)],
        KnobKind::Float { min, max, .. } => vec![Value::Float(*min), Value::Float(*max)],
        KnobKind::Bool => vec![Value::Bool(false), Value::Bool(true)],
        KnobKind::Choice { choices } => choices.iter().map(|word| Value::Text((*word).to_string())).collect(),
    };
    values.extend(knob.special.iter().map(|special| Value::Int(special.value)));
    values
}

#[test]
fn equal_inputs_give_equal_decisions() {
    each(|system, page_bytes, tiers| {
        let run = || workload::run(system, &Config::new(), page_bytes, tiers);
        assert_eq!(run(), run());
    });
}

/// Requests for pages or tiers that do not exist, or for the tier that a page is already in, end
/// the run with a panic in the harness; what is left to see here is that requests can be carried out.
#[test]
fn requests_are_valid_and_succeed() {
    each(|system, page_bytes, tiers| {
        let log = workload::run(system, &Config::new(), page_bytes, tiers).log;
        let count = |wanted: Outcome| {
            log.iter()
                .filter(|entry| matches!(entry, Entry::Ended(migrated) if migrated.outcome == wanted))
                .count()
        };
        // Nobody else takes memory in this workload, so a policy that keeps the books fails nowhere.
        assert_eq!((count(Outcome::NoSpace), count(Outcome::AlreadyThere)), (0, 0));
        let moves = log.iter().any(|entry| matches!(entry, Entry::Ended(_)));
        assert_eq!(
            moves,
            signal(system),
            "a system with a signal acts on it, one without does not"
        );
    });
}

#[test]
fn knobs_at_their_extremes_do_no_harm() {
    for system in registry::listed() {
        let knobs = system.knobs();
        let all_at = |pick: fn(Vec<Value>) -> Option<Value>| -> Config {
            let pick = |knob: &Knob| {
                (
                    knob.name.to_string(),
                    pick(extremes(knob)).expect("every knob has an extreme"),
                )
            };
            knobs.iter().map(pick).collect()
        };
        let mut configs = vec![
            all_at(|values| values.first().cloned()),
            all_at(|values| values.last().cloned()),
        ];
        configs.extend(
            knobs
                .iter()
                .flat_map(|knob| extremes(knob).into_iter().map(|value| with(knob, value))),
        );
        for config in configs {
            println!("{} {config:?}", system.name());
            let gauges = workload::run(&system.name(), &config, system.page_bytes()[0], 2).gauges;
            assert!(
                gauges
                    .iter()
                    .all(|gauge| gauge.value.is_finite() && !gauge.meaning.is_empty())
            );
        }
    }
}

/// So many settings of other knobs are tried on both workloads before any more.
const NEAR_BACKGROUNDS: usize = 8;

/// Some knobs act only where hot pages are scattered over huge pages. Some act only when another is away from its
/// default, such as the order of a walk that the default lets go all the way round; so every other knob is tried at
/// its extremes too.
#[test]
fn every_knob_changes_what_the_system_does_or_says_that_it_is_inert() {
    let systems = registry::listed();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(system) = systems.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = wrong_about_knobs(system);
                    wrong.lock().expect("no panic while it is held").extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("all threads are over");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn wrong_about_knobs(system: &Composed) -> Vec<String> {
    let (name, knobs) = (system.name(), system.knobs());
    let has_parts = system.page_bytes().contains(&PAGE_4K);
    let mut runs = Runs::new(system);
    let mut wrong = Vec::new();
    for knob in &knobs {
        let mut changes = |background: &Config, scattered: bool| {
            let mut run = |value: &Value| {
                let mut config = background.clone();
                config.extend(with(knob, value.clone()));
                runs.digest(&config, scattered)
            };
            let default = run(&knob.default);
            extremes(knob).iter().any(|value| run(value) != default)
        };
        // Knobs declared close by are the likeliest to matter to each other.
        let place = |name: &str| {
            knobs
                .iter()
                .position(|other| other.name == name)
                .expect("it is declared")
        };
        let mut others: Vec<&Knob> = knobs.iter().filter(|other| other.name != knob.name).collect();
        others.sort_by_key(|other| place(other.name).abs_diff(place(knob.name)));
        let mut backgrounds: Vec<Config> = Vec::new();
        for other in others {
            backgrounds.extend(extremes(other).into_iter().map(|value| with(other, value)));
        }
        let inert = knob.meaning.contains("inert");
        if inert {
            backgrounds.clear();
        }
        let mut any = |backgrounds: &[Config]| {
            backgrounds.iter().any(|background| changes(background, false))
                || (has_parts && backgrounds.iter().any(|background| changes(background, true)))
        };
        let (near, far) = backgrounds.split_at(backgrounds.len().min(NEAR_BACKGROUNDS));
        let acts = any(&[Config::new()]) || any(near) || any(far);
        if acts == inert {
            wrong.push(format!(
                "{name} knob {}: acts: {acts}, declared inert: {inert}",
                knob.name
            ));
        }
        if inert && knob.tunable {
            wrong.push(format!("{name} would search the inert knob {}", knob.name));
        }
    }
    wrong
}

/// What a system did under a config, kept by what the config changes of the defaults: many pairs of knobs share a run.
struct Runs<'s> {
    system: &'s Composed,
    defaults: Config,
    kept: HashMap<(String, bool), u64>,
}

impl<'s> Runs<'s> {
    fn new(system: &'s Composed) -> Self {
        let knobs = system.knobs();
        let defaults = knobs.into_iter().map(|knob| (knob.name.to_string(), knob.default));
        Self {
            system,
            defaults: defaults.collect(),
            kept: HashMap::new(),
        }
    }

    /// A hash of all that was observed.
    fn digest(&mut self, config: &Config, scattered: bool) -> u64 {
        let changed = config
            .iter()
            .filter(|(name, value)| self.defaults.get(*name) != Some(value));
        let key = (format!("{:?}", changed.collect::<Vec<_>>()), scattered);
        *self.kept.entry(key).or_insert_with(|| {
            let (name, page_bytes) = (self.system.name(), self.system.page_bytes()[0]);
            let observed = if scattered {
                workload::run_scattered(&name, config)
            } else {
                workload::run(&name, config, page_bytes, 2)
            };
            let mut digest = Digest(DefaultHasher::new());
            write!(digest, "{observed:?}").expect("a hasher takes everything");
            digest.0.finish()
        })
    }
}

/// Hashes text as it is written.
struct Digest(DefaultHasher);

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

#[test]
fn knobs_are_declared_completely() {
    for system in registry::listed() {
        let knobs = system.knobs();
        for knob in &knobs {
            let place = format!("{} knob {}", system.name(), knob.name);
            assert!(
                !knob.meaning.is_empty() && !knob.source.is_empty(),
                "{place}: meaning or source is missing"
            );
            assert_eq!(
                knob.check(&system.name(), &knob.default).as_ref(),
                Ok(&knob.default),
                "{place}: default"
            );
            assert_eq!(
                knobs.iter().filter(|other| other.name == knob.name).count(),
                1,
                "{place}: declared twice"
            );
            if let Some((other, value)) = &knob.condition {
                let other = knobs
                    .iter()
                    .find(|knob| knob.name == *other)
                    .unwrap_or_else(|| panic!("{place}: {other}"));
                assert_eq!(
                    other.check(&system.name(), value).as_ref(),
                    Ok(value),
                    "{place}: condition"
                );
            }
        }
    }
}

#[test]
fn configs_resolve_to_defaults_and_mistakes_are_named() {
    for system in registry::listed() {
        let topology = workload::topology(system.page_bytes()[0], 2);
        let build = |config: Config| registry::build(&system.name(), &config, &topology).map(|_| ());
        build(Config::new()).unwrap_or_else(|error| panic!("{}: {error}", system.name()));
        let knobs = system.knobs();
        for knob in &knobs {
            let misspelt = &knob.name[..knob.name.len() - 1];
            match build(Config::from([(misspelt.to_string(), knob.default.clone())])) {
                Err(SystemError::Config(KnobError::Unknown { key, nearest, .. })) => {
                    assert_eq!((key.as_str(), nearest.as_str()), (misspelt, knob.name));
                }
                other => panic!("{}: '{misspelt}' gives {other:?}", system.name()),
            }
            let KnobKind::Int { max, .. } = knob.kind else { continue };
            match build(with(knob, Value::Int(max + 1))) {
                Err(SystemError::Config(KnobError::Invalid { key, nearest, .. })) => {
                    assert_eq!((key.as_str(), nearest), (knob.name, max.to_string()));
                }
                other => panic!("{}: {} = {} gives {other:?}", system.name(), knob.name, max + 1),
            }
        }
        let unknown = build(Config::from([("no_such_knob".to_string(), Value::Int(1))]));
        assert!(
            matches!(unknown, Err(SystemError::Config(KnobError::Unknown { .. }))),
            "{}",
            system.name()
        );
    }
}

#[test]
fn declared_samplers_mechanics_and_overheads_make_sense() {
    each(|system, page_bytes, tiers| {
        let topology = workload::topology(page_bytes, tiers);
        let policy = registry::build(system, &Config::new(), &topology).expect("defaults are valid");
        assert!(policy.samplers().iter().all(|sampler| sampler.period > 0));
        let mechanics = policy.mechanics();
        assert!(mechanics.lanes > 0 && mechanics.copy_gbps > 0.0);
        let overheads = policy.overheads();
        assert!(overheads.busy_cores >= 0.0 && overheads.record_ns >= 0.0);
    });
}

/// A driver may call at any time that does not go back, with nothing in its hands.
#[test]
fn empty_calls_and_stray_wake_ups_do_no_harm() {
    each(|system, page_bytes, tiers| {
        let topology = workload::topology(page_bytes, tiers);
        let policy = registry::build(system, &Config::new(), &topology).expect("defaults are valid");
        let mut driver = Driver::new(policy, &topology);
        for step in 0..10 {
            driver.run_until(step * 3 * MS);
            driver.sample(&[]);
            driver.stray_calls();
        }
        assert!(
            !driver.log.iter().any(|entry| matches!(entry, Entry::Ask { .. })),
            "there is no page to move"
        );
    });
}

/// The same object runs under the simulator and under the daemon, so time, files and randomness
/// come in with calls and nowhere else.
#[test]
fn policy_code_reads_no_clock_file_thread_or_environment() {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![source];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the crate has its sources") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            seen += 1;
            let text = std::fs::read_to_string(&path).expect("sources are text");
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

/// A daemon that restarts goes on where it was: a fresh policy that takes up a saved state decides
/// as the old one would have.
#[test]
fn a_restored_policy_goes_on_as_the_saved_one_would_have() {
    each(|system, page_bytes, tiers| {
        let through = workload::run(system, &Config::new(), page_bytes, tiers);
        let restored = workload::run_with_restart(system, &Config::new(), page_bytes, tiers);
        assert!(through == restored, "{system} has forgotten something");
    });
}

#[test]
fn a_state_that_is_none_is_refused() {
    for system in registry::listed() {
        let topology = workload::topology(system.page_bytes()[0], 2);
        let mut policy = system.build(&Config::new(), &topology).expect("defaults are valid");
        assert!(policy.restore(&[0xff; 7]).is_err(), "{}", system.name());
    }
}
