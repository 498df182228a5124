//! What every registered policy promises. The suite goes through the registry, so a new policy is
//! held to it by its registry line alone.

use std::collections::HashMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, OnceLock};
use std::{env, fs, thread};

use crate::harness::workload::{self, Observed};
use crate::harness::{Driver, Entry, MS};
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

/// What is kept of a run: runs are long, and several promises are about the same ones.
struct Seen {
    /// A hash of all that was observed.
    digest: u64,
    moved: bool,
    /// Failed for want of room, or for being there already.
    failed: (usize, usize),
    /// Every gauge has a finite value and a meaning.
    gauges_make_sense: bool,
}

impl Seen {
    fn of(observed: &Observed) -> Self {
        let mut digest = Digest(DefaultHasher::new());
        write!(digest, "{observed:?}").expect("a hasher takes everything");
        let count = |wanted: Outcome| {
            let ended = |entry: &&Entry| matches!(entry, Entry::Ended(migrated) if migrated.outcome == wanted);
            observed.log.iter().filter(ended).count()
        };
        let mut gauges = observed.gauges.iter();
        Self {
            digest: digest.0.finish(),
            moved: observed.log.iter().any(|entry| matches!(entry, Entry::Ended(_))),
            failed: (count(Outcome::NoSpace), count(Outcome::AlreadyThere)),
            gauges_make_sense: gauges.all(|gauge| gauge.value.is_finite() && !gauge.meaning.is_empty()),
        }
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

/// One run of a system: which of its knobs are away from their defaults, and on what.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    system: String,
    changed: String,
    page_bytes: u64,
    tiers: usize,
    scattered: bool,
}

/// The run of a system under a config, made once for all tests; whoever asks for one under way waits for it.
fn seen(system: &str, config: &Config, page_bytes: u64, tiers: usize, scattered: bool) -> &'static Seen {
    static KEPT: LazyLock<Mutex<HashMap<Key, &'static OnceLock<Seen>>>> = LazyLock::new(Mutex::default);
    let knobs = registry::find(system).expect("it is listed").knobs();
    let is_default = |name: &str, value: &Value| knobs.iter().any(|knob| knob.name == name && knob.default == *value);
    let changed: Config = config
        .iter()
        .filter(|(name, value)| !is_default(name, value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let key = Key {
        system: system.to_string(),
        changed: format!("{changed:?}"),
        page_bytes,
        tiers,
        scattered,
    };
    let mut kept = KEPT.lock().expect("no panic while it is held");
    let place: &'static OnceLock<Seen> = kept.entry(key).or_insert_with(|| Box::leak(Box::default()));
    drop(kept);
    place.get_or_init(|| {
        Seen::of(&if scattered {
            workload::run_scattered(system, config)
        } else {
            workload::run(system, config, page_bytes, tiers)
        })
    })
}

fn seen_at_defaults(system: &str, page_bytes: u64, tiers: usize) -> &'static Seen {
    seen(system, &Config::new(), page_bytes, tiers, false)
}

#[test]
fn equal_inputs_give_equal_decisions() {
    each(|system, page_bytes, tiers| {
        let again = Seen::of(&workload::run(system, &Config::new(), page_bytes, tiers));
        assert_eq!(seen_at_defaults(system, page_bytes, tiers).digest, again.digest);
    });
}

/// Requests for pages or tiers that do not exist, or for the tier that a page is already in, end
/// the run with a panic in the harness; what is left to see here is that requests can be carried out.
#[test]
fn requests_are_valid_and_succeed() {
    each(|system, page_bytes, tiers| {
        let seen = seen_at_defaults(system, page_bytes, tiers);
        // Nobody else takes memory in this workload, so a policy that keeps the books fails nowhere.
        assert_eq!(seen.failed, (0, 0));
        assert_eq!(
            seen.moved,
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
            assert!(seen(&system.name(), &config, system.page_bytes()[0], 2, false).gauges_make_sense);
        }
    }
}

/// So many settings of other knobs are tried on both workloads before any more.
const NEAR_BACKGROUNDS: usize = 8;

/// Where knobs were seen to act that do not in most settings, so that the search begins there. `UPDATE_GOLDEN=1`
/// writes it anew; a line that is missing or out of date costs time only.
const KNOBS_AT_WORK: &str = "tests/suite/knobs_at_work.txt";

/// Some knobs act only where hot pages are scattered over huge pages. Some act only when another is away from its
/// default, such as the order of a walk that the default lets go all the way round; so every other knob is tried at
/// its extremes too.
#[test]
fn every_knob_changes_what_the_system_does_or_says_that_it_is_inert() {
    let systems = registry::listed();
    let knobs: Vec<(&Composed, usize)> = systems
        .iter()
        .flat_map(|system| (0..system.knobs().len()).map(move |place| (system, place)))
        .collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(KNOBS_AT_WORK);
    let known = fs::read_to_string(&file).unwrap_or_default();
    let (next, all) = (AtomicUsize::new(0), Mutex::new((Vec::new(), Vec::new())));
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((system, place)) = knobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (wrong, at_work) = look_at_knob(system, *place, &known);
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

/// What is wrong about a knob, and a line that says where it acts if that is not at the defaults.
fn look_at_knob(system: &Composed, place: usize, known: &str) -> (Vec<String>, Option<String>) {
    let (name, knobs) = (system.name(), system.knobs());
    let knob = &knobs[place];
    let inert = knob.meaning.contains("inert");
    let mut settings = settings(system, &knobs, place);
    if inert {
        settings.retain(|setting| setting.background.is_empty());
    }
    let line = |setting: &Setting| format!("{name} {}: {}", knob.name, setting.words);
    // The order of what is left stays.
    settings.sort_by_key(|setting| !known.lines().any(|known| known == line(setting)));
    let found = settings.iter().find(|setting| {
        let run = |value: &Value| {
            let mut config = setting.background.clone();
            config.extend(with(knob, value.clone()));
            seen(&name, &config, system.page_bytes()[0], 2, setting.scattered).digest
        };
        let default = run(&knob.default);
        extremes(knob).iter().any(|value| run(value) != default)
    });
    let mut wrong = Vec::new();
    if found.is_some() == inert {
        let acts = found.is_some();
        wrong.push(format!(
            "{name} knob {}: acts: {acts}, declared inert: {inert}",
            knob.name
        ));
    }
    if inert && knob.tunable {
        wrong.push(format!("{name} would search the inert knob {}", knob.name));
    }
    let notable = found.filter(|setting| setting.scattered || !setting.background.is_empty());
    (wrong, notable.map(line))
}

/// Where a knob is tried: beside another knob, on one of the two workloads.
struct Setting {
    words: String,
    background: Config,
    scattered: bool,
}

/// The default, what is likeliest to matter to the knob at `place`, then everything else.
fn settings(system: &Composed, knobs: &[Knob], place: usize) -> Vec<Setting> {
    let has_parts = system.page_bytes().contains(&PAGE_4K);
    // Knobs declared close by are the likeliest to matter to each other.
    let mut others: Vec<usize> = (0..knobs.len()).filter(|other| *other != place).collect();
    others.sort_by_key(|other| other.abs_diff(place));
    let mut backgrounds = vec![("defaults".to_string(), Config::new())];
    for other in others.into_iter().map(|other| &knobs[other]) {
        let at = |value: Value| (format!("{} = {value:?}", other.name), with(other, value));
        backgrounds.extend(extremes(other).into_iter().map(at));
    }
    let mut all = Vec::new();
    let far = backgrounds.split_off(backgrounds.len().min(1 + NEAR_BACKGROUNDS));
    let near = backgrounds.split_off(1);
    for part in [backgrounds, near, far] {
        for scattered in [false, true].into_iter().filter(|scattered| has_parts || !scattered) {
            let workload = if scattered { "scattered hot pages" } else { "hot pages" };
            all.extend(part.iter().map(|(words, background)| Setting {
                words: format!("{workload}, {words}"),
                background: background.clone(),
                scattered,
            }));
        }
    }
    all
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

/// A daemon that restarts goes on where it was: a fresh policy that takes up a saved state decides
/// as the old one would have.
#[test]
fn a_restored_policy_goes_on_as_the_saved_one_would_have() {
    each(|system, page_bytes, tiers| {
        let restored = Seen::of(&workload::run_with_restart(system, &Config::new(), page_bytes, tiers));
        assert!(
            seen_at_defaults(system, page_bytes, tiers).digest == restored.digest,
            "{system} has forgotten something"
        );
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
