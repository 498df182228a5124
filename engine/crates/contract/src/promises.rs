//! The contract: what every policy promises, each promise a check of its own.
//!
//! A check that is not kept ends with a panic that says where. Runs are long and several promises are about the same
//! ones, so a [`Contract`] makes each run once.

use std::any::Any;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, OnceLock};

use tiertune_policy::knob::acts;
use tiertune_policy::registry::{PAGE_4K, Tiering};
use tiertune_policy::{Config, CounterRng, Knob, KnobError, KnobKind, Outcome, Value};

use crate::driver::{Driver, Entry, MS};
use crate::workload::{self, Observed, built};

/// A promise: its name, and the check that holds a system to it.
pub type Promise = (&'static str, fn(&Contract<'_>));

/// All promises, the quickest to check first.
pub const PROMISES: &[Promise] = &[
    ("knobs are declared completely", |contract| {
        contract.knobs_are_declared_completely()
    }),
    ("mistakes in configs are named", |contract| {
        contract.mistakes_in_configs_are_named()
    }),
    ("samplers, mechanics and overheads make sense", |contract| {
        contract.declarations_make_sense()
    }),
    ("empty calls and stray wake-ups do no harm", |contract| {
        contract.empty_calls_do_no_harm()
    }),
    ("a state that is none is refused", |contract| {
        contract.a_state_that_is_none_is_refused()
    }),
    ("requests are valid and succeed", |contract| {
        contract.requests_are_valid_and_succeed()
    }),
    ("equal inputs give equal decisions", |contract| {
        contract.equal_inputs_give_equal_decisions()
    }),
    ("a restored policy goes on as the saved one", |contract| {
        contract.a_restored_policy_goes_on()
    }),
    ("knobs at their extremes do no harm", |contract| {
        contract.knobs_at_their_extremes_do_no_harm()
    }),
    ("a knob changes nothing while its condition does not hold", |contract| {
        contract.knobs_out_of_action_change_nothing()
    }),
    ("every knob acts, or says that it is inert", |contract| {
        contract.every_knob_acts()
    }),
];

/// A system and the runs of it that were made so far.
pub struct Contract<'a> {
    system: &'a dyn Tiering,
    kept: Mutex<HashMap<Key, Arc<OnceLock<Seen>>>>,
}

/// A config with `knob`, one of `knobs`, at `value` and, where it acts only beside another, that one set to act beside.
#[must_use]
pub fn with(knobs: &[Knob], knob: &Knob, value: Value) -> Config {
    let mut config = Config::from([(knob.name.to_string(), value)]);
    if let Some(condition) = &knob.condition {
        let other = knobs.iter().find(|other| other.name == condition.knob);
        let other = other.expect("a condition is on a knob that there is");
        let mut values = [other.default.clone()].into_iter().chain(extremes(other));
        let first = values.find(|value| condition.takes(value));
        config.extend(with(
            knobs,
            other,
            first.or(condition.values.first().cloned()).expect("it has values"),
        ));
    }
    config
}

/// Both ends of a knob, its special values, or all its words.
#[must_use]
pub fn extremes(knob: &Knob) -> Vec<Value> {
    let mut values = match &knob.kind {
        KnobKind::Int { min, max, .. } => vec![Value::Int(*min), Value::Int(*max)],
        KnobKind::Float { min, max, .. } => vec![Value::Float(*min), Value::Float(*max)],
        KnobKind::Bool => vec![Value::Bool(false), Value::Bool(true)],
        KnobKind::Choice { choices } => choices.iter().map(|word| Value::Text((*word).to_string())).collect(),
    };
    values.extend(knob.special.iter().map(|special| Value::Int(special.value)));
    values
}

/// What is kept of a run.
struct Seen {
    /// A hash of all that was observed.
    digest: u64,
    /// One of what was asked for and what came of it, without what the policy reports of itself.
    decided: u64,
    moved: bool,
    /// Failed for want of room, or for being there already.
    failed: (usize, usize),
    /// Every gauge has a finite value and a meaning.
    gauges_make_sense: bool,
}

impl Seen {
    fn of(observed: &Observed) -> Self {
        let Observed {
            log,
            gauges: reported,
            declared,
            tiers,
        } = observed;
        let decided = digest(log);
        let values: Vec<(&str, u64)> = reported
            .iter()
            .map(|gauge| (gauge.name, gauge.value.to_bits()))
            .collect();
        let count = |wanted: Outcome| {
            let ended = |entry: &&Entry| matches!(entry, Entry::Ended(migrated) if migrated.outcome == wanted);
            log.iter().filter(ended).count()
        };
        let mut gauges = reported.iter();
        Self {
            digest: digest(&(decided, values, declared, tiers)),
            decided,
            moved: log.iter().any(|entry| matches!(entry, Entry::Ended(_))),
            failed: (count(Outcome::NoSpace), count(Outcome::AlreadyThere)),
            gauges_make_sense: gauges.all(|gauge| gauge.value.is_finite() && !gauge.meaning.is_empty()),
        }
    }
}

fn digest(part: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    part.hash(&mut hasher);
    hasher.finish()
}

/// Where hot pages are.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Hot {
    /// Side by side.
    Together,
    /// Scattered over huge pages, for so many batches.
    Scattered(u64),
}

/// Batches in which all that ever acts on scattered hot pages is seen to act.
const LONG: Hot = Hot::Scattered(14_000);
/// Half of them, in which every knob with a condition that acts in the long run does as well, in all systems, but one: where
/// Memtis stops to split pages under Colloid, which is late there.
const SHORT: Hot = Hot::Scattered(7000);

/// One run of the system: which of its knobs are away from their defaults, and on what.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    changed: String,
    page_bytes: u64,
    tiers: usize,
    hot: Hot,
}

/// The sentence of a panic, where it has one.
#[must_use]
pub fn said(payload: &(dyn Any + Send)) -> Option<String> {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
}

/// Does `work`; where it panics, the sentence begins with `place`.
fn at<T>(place: &str, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| match said(payload.as_ref()) {
        Some(sentence) => resume_unwind(Box::new(format!("{place}: {sentence}"))),
        None => resume_unwind(payload),
    })
}

/// Configs drawn at random of each system with conditions.
const RANDOM_CONFIGS: usize = 2;
/// Draws within which a knob has another value than it had.
const DRAWS: usize = 64;

/// So many settings of other knobs are tried on both workloads before any more.
const NEAR_BACKGROUNDS: usize = 8;

/// Where a knob is tried: beside another knob, on one of the two workloads.
struct Setting {
    words: String,
    background: Config,
    hot: Hot,
}

/// The default, what is likeliest to matter to the knob at `place`, then everything else.
fn settings(has_parts: bool, knobs: &[Knob], place: usize) -> Vec<Setting> {
    // Knobs declared close by are the likeliest to matter to each other.
    let mut others: Vec<usize> = (0..knobs.len()).filter(|other| *other != place).collect();
    others.sort_by_key(|other| other.abs_diff(place));
    let mut backgrounds = vec![("defaults".to_string(), Config::new())];
    for other in others.into_iter().map(|other| &knobs[other]) {
        let at = |value: Value| (format!("{} = {value:?}", other.name), with(knobs, other, value));
        backgrounds.extend(extremes(other).into_iter().map(at));
    }
    let mut all = Vec::new();
    let far = backgrounds.split_off(backgrounds.len().min(1 + NEAR_BACKGROUNDS));
    let near = backgrounds.split_off(1);
    for part in [backgrounds, near, far] {
        for hot in [Hot::Together, LONG]
            .into_iter()
            .filter(|hot| has_parts || *hot == Hot::Together)
        {
            let workload = if hot == LONG {
                "scattered hot pages"
            } else {
                "hot pages"
            };
            all.extend(part.iter().map(|(words, background)| Setting {
                words: format!("{workload}, {words}"),
                background: background.clone(),
                hot,
            }));
        }
    }
    all
}

impl<'a> Contract<'a> {
    /// The contract of `system`, of which nothing was run yet.
    #[must_use]
    pub fn new(system: &'a dyn Tiering) -> Self {
        Self {
            system,
            kept: Mutex::default(),
        }
    }

    /// The system on each page size that it manages, with two and with three tiers.
    fn each(&self, check: impl Fn(u64, usize)) {
        for page_bytes in self.system.page_bytes() {
            for tiers in [2, 3] {
                let place = format!(
                    "{} with pages of {page_bytes} bytes on {tiers} tiers",
                    self.system.name()
                );
                at(&place, || check(*page_bytes, tiers));
            }
        }
    }

    /// What was seen of the run under a config, made once; whoever asks for one under way waits for it.
    fn seen(&self, config: &Config, page_bytes: u64, tiers: usize, hot: Hot) -> Arc<OnceLock<Seen>> {
        let knobs = self.system.knobs();
        let is_default =
            |name: &str, value: &Value| knobs.iter().any(|knob| knob.name == name && knob.default == *value);
        let changed: Config = config
            .iter()
            .filter(|(name, value)| !is_default(name, value))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let key = Key {
            changed: format!("{changed:?}"),
            page_bytes,
            tiers,
            hot,
        };
        let place = self
            .kept
            .lock()
            .expect("no panic while it is held")
            .entry(key)
            .or_default()
            .clone();
        place.get_or_init(|| {
            Seen::of(&match hot {
                Hot::Together => workload::run(self.system, config, page_bytes, tiers),
                Hot::Scattered(batches) => workload::run_scattered(self.system, config, batches),
            })
        });
        place
    }

    fn digest(&self, config: &Config, page_bytes: u64, tiers: usize, hot: Hot) -> u64 {
        let seen = self.seen(config, page_bytes, tiers, hot);
        seen.get().expect("it was run").digest
    }

    /// Two runs with equal inputs decide alike.
    pub fn equal_inputs_give_equal_decisions(&self) {
        self.each(|page_bytes, tiers| {
            let again = Seen::of(&workload::run(self.system, &Config::new(), page_bytes, tiers));
            assert!(
                self.digest(&Config::new(), page_bytes, tiers, Hot::Together) == again.digest,
                "two runs with equal inputs decided differently"
            );
        });
    }

    /// Requests for pages or tiers that do not exist, or for the tier that a page is already in, end
    /// the run with a panic in the driver; what is left to see here is that requests can be carried out.
    pub fn requests_are_valid_and_succeed(&self) {
        let has_signal = !self.system.signal().starts_with("none");
        self.each(|page_bytes, tiers| {
            let seen = self.seen(&Config::new(), page_bytes, tiers, Hot::Together);
            let seen = seen.get().expect("it was run");
            // Nobody else takes memory in this workload, so a policy that keeps the books fails nowhere.
            assert_eq!(
                seen.failed,
                (0, 0),
                "moves that found no space, and that were there already"
            );
            assert_eq!(
                seen.moved, has_signal,
                "a system with a signal acts on it, one without does not"
            );
        });
    }

    /// Every knob at each of its ends, and all of them at once.
    pub fn knobs_at_their_extremes_do_no_harm(&self) {
        let knobs = self.system.knobs();
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
                .flat_map(|knob| extremes(knob).into_iter().map(|value| with(&knobs, knob, value))),
        );
        for config in configs {
            at(&format!("{} {config:?}", self.system.name()), || {
                let seen = self.seen(&config, self.system.page_bytes()[0], 2, Hot::Together);
                let fine = seen.get().expect("it was run").gauges_make_sense;
                assert!(fine, "a gauge has no finite value or no meaning");
            });
        }
    }

    /// Knobs whose conditions do not hold may be set to anything, beside each value that puts some out of action and in
    /// configs drawn at random. Hot pages are scattered where a system can have huge pages of some, as more acts then.
    pub fn knobs_out_of_action_change_nothing(&self) {
        let (name, knobs) = (self.system.name(), self.system.knobs());
        let page_bytes = self.system.page_bytes()[0];
        let hot = if self.system.page_bytes().contains(&PAGE_4K) {
            SHORT
        } else {
            Hot::Together
        };
        let mut bases = Vec::new();
        for condition in knobs.iter().filter_map(|knob| knob.condition.as_ref()) {
            let other = knobs.iter().find(|other| other.name == condition.knob);
            let other = other.expect("a condition is on a knob that there is");
            let values = extremes(other).into_iter().filter(|value| !condition.takes(value));
            bases.extend(values.map(|value| with(&knobs, other, value)));
        }
        if bases.is_empty() {
            return;
        }
        let mut rng = CounterRng::new(1, &[]);
        let mut drawn = |knob: &Knob| {
            let mut values = extremes(knob);
            values.push(knob.default.clone());
            let at = rng.below(values.len() as u64) as usize;
            (knob.name.to_string(), values.swap_remove(at))
        };
        bases.extend((0..RANDOM_CONFIGS).map(|_| knobs.iter().map(&mut drawn).collect::<Config>()));
        let mut seen = Vec::new();
        for base in bases {
            if seen.contains(&base) {
                continue;
            }
            let out_of_action = knobs.iter().filter(|knob| !acts(knob, &knobs, &base));
            // Somewhere else than where they are.
            let changed: Config = out_of_action
                .map(|knob| {
                    let here = base.get(knob.name).unwrap_or(&knob.default);
                    let mut other = (0..DRAWS).map(|_| drawn(knob)).filter(|(_, value)| value != here);
                    other.next().expect("a knob has several values")
                })
                .collect();
            let both: Config = base.clone().into_iter().chain(changed.clone()).collect();
            let decided = |config| {
                let seen = self.seen(config, page_bytes, 2, hot);
                seen.get().expect("it was run").decided
            };
            assert!(
                decided(&base) == decided(&both),
                "{name} at {base:?} with {changed:?}: a knob acts while its condition does not hold"
            );
            seen.push(base);
        }
    }

    /// Each knob changes what the system does, somewhere, or says that it is inert.
    pub fn every_knob_acts(&self) {
        for place in 0..self.system.knobs().len() {
            let (wrong, _) = self.look_at_knob(place, "");
            assert!(wrong.is_empty(), "{}", wrong.join("; "));
        }
    }

    /// What is wrong about a knob, and a line that says where it acts if that is not at the defaults. Some act only
    /// where hot pages are scattered over huge pages, or when another knob is away from its default, so every
    /// other knob is tried at its extremes; a line of `known` says where to begin.
    #[must_use]
    pub fn look_at_knob(&self, place: usize, known: &str) -> (Vec<String>, Option<String>) {
        let (name, knobs) = (self.system.name(), self.system.knobs());
        let knob = &knobs[place];
        let inert = knob.meaning.contains("inert");
        let mut settings = settings(self.system.page_bytes().contains(&PAGE_4K), &knobs, place);
        if inert {
            settings.retain(|setting| setting.background.is_empty());
        }
        let line = |setting: &Setting| format!("{name} {}: {}", knob.name, setting.words);
        // The order of what is left stays.
        settings.sort_by_key(|setting| !known.lines().any(|known| known == line(setting)));
        let found = settings.iter().find(|setting| {
            let run = |value: &Value| {
                let mut config = setting.background.clone();
                config.extend(with(&knobs, knob, value.clone()));
                self.digest(&config, self.system.page_bytes()[0], 2, setting.hot)
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
        let notable = found.filter(|setting| setting.hot != Hot::Together || !setting.background.is_empty());
        (wrong, notable.map(line))
    }

    /// Meaning, source, a default that the knob takes, and a condition on a knob that there is.
    pub fn knobs_are_declared_completely(&self) {
        let (name, knobs) = (self.system.name(), self.system.knobs());
        for knob in &knobs {
            let place = format!("{name} knob {}", knob.name);
            assert!(
                !knob.meaning.is_empty() && !knob.source.is_empty(),
                "{place}: meaning or source is missing"
            );
            assert_eq!(
                knob.check(&name, &knob.default).as_ref(),
                Ok(&knob.default),
                "{place}: default"
            );
            assert_eq!(
                knobs.iter().filter(|other| other.name == knob.name).count(),
                1,
                "{place}: declared twice"
            );
            if let Some(condition) = &knob.condition {
                let found = knobs.iter().find(|knob| knob.name == condition.knob);
                let other =
                    found.unwrap_or_else(|| panic!("{place}: it depends on {}, which there is not", condition.knob));
                for value in &condition.values {
                    assert_eq!(other.check(&name, value).as_ref(), Ok(value), "{place}: condition");
                }
                let all = extremes(other);
                let mut others = [&other.default, &condition.values[0]].into_iter().chain(&all);
                assert!(
                    others.clone().any(|value| condition.takes(value)),
                    "{place}: it never acts"
                );
                assert!(others.any(|value| !condition.takes(value)), "{place}: it always acts");
            }
        }
    }

    /// An empty config is one; what is misspelt or out of range is named with what would do.
    pub fn mistakes_in_configs_are_named(&self) {
        let name = self.system.name();
        let topology = workload::topology(self.system.page_bytes()[0], 2);
        let build = |config: Config| self.system.build(&config, &topology).map(|_| ());
        build(Config::new()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let knobs = self.system.knobs();
        for knob in &knobs {
            let misspelt = &knob.name[..knob.name.len() - 1];
            match build(Config::from([(misspelt.to_string(), knob.default.clone())])) {
                Err(KnobError::Unknown { key, nearest, .. }) => {
                    assert_eq!((key.as_str(), nearest.as_str()), (misspelt, knob.name));
                }
                other => panic!("{name}: '{misspelt}' gives {other:?}"),
            }
            let KnobKind::Int { max, .. } = knob.kind else { continue };
            match build(with(&knobs, knob, Value::Int(max + 1))) {
                Err(KnobError::Invalid { key, nearest, .. }) => {
                    assert_eq!((key.as_str(), nearest), (knob.name, max.to_string()));
                }
                other => panic!("{name}: {} = {} gives {other:?}", knob.name, max + 1),
            }
        }
        let unknown = build(Config::from([("no_such_knob".to_string(), Value::Int(1))]));
        assert!(
            matches!(unknown, Err(KnobError::Unknown { .. })),
            "{name}: a knob that there is not gives {unknown:?}"
        );
    }

    /// Periods, copy speeds and costs that a machine can work with.
    pub fn declarations_make_sense(&self) {
        self.each(|page_bytes, tiers| {
            let policy = built(self.system, &Config::new(), &workload::topology(page_bytes, tiers));
            let periods = policy.samplers().iter().all(|sampler| sampler.period > 0);
            assert!(periods, "a sampling period of 0");
            let mechanics = policy.mechanics();
            assert!(
                mechanics.lanes > 0 && mechanics.copy_gbps > 0.0,
                "copies need a lane and a speed"
            );
            let overheads = policy.overheads();
            assert!(
                overheads.busy_cores >= 0.0 && overheads.record_ns >= 0.0,
                "overheads below 0"
            );
        });
    }

    /// A driver may call at any time that does not go back, with nothing in its hands.
    pub fn empty_calls_do_no_harm(&self) {
        self.each(|page_bytes, tiers| {
            let topology = workload::topology(page_bytes, tiers);
            let mut driver = Driver::new(built(self.system, &Config::new(), &topology), &topology);
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

    /// A daemon that restarts goes on where it was: a fresh policy that takes up a saved state decides
    /// as the old one would have.
    pub fn a_restored_policy_goes_on(&self) {
        self.each(|page_bytes, tiers| {
            let run = workload::run_with_restart(self.system, &Config::new(), page_bytes, tiers);
            assert!(
                self.digest(&Config::new(), page_bytes, tiers, Hot::Together) == Seen::of(&run).digest,
                "it has forgotten something"
            );
        });
    }

    /// Bytes that are no saved state are refused.
    pub fn a_state_that_is_none_is_refused(&self) {
        let topology = workload::topology(self.system.page_bytes()[0], 2);
        let mut policy = built(self.system, &Config::new(), &topology);
        assert!(
            policy.restore(&[0xff; 7]).is_err(),
            "{} took up bytes that are no state",
            self.system.name()
        );
    }
}
