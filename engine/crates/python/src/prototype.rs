//! Policies written in Python: a class is registered under a name and then runs wherever a system of the registry does.
//!
//! The class says what it is in a JSON document, with its knobs as `knobs!` would have them; `tiertune.policy` makes
//! that document. What an object of it raises ends the run with `PolicyFailed`, whose cause is what was raised.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Once, PoisonError};

use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde::{Deserialize, Serialize};
use tiertune_policy::knob::{ChangeCost, Condition, KnobKind, Special, Test};
use tiertune_policy::nearest::nearest;
use tiertune_policy::registry::{self, Tiering};
use tiertune_policy::{
    Config, Context, CopyMode, Event, Extent, Fault, Gauge, Knob, KnobError, Migrated, MigrationMechanics, Nanos,
    Needs, Overheads, Placement, Policy, Sample, SamplerRequest, StateError, SystemError, Topology, Value,
};

use crate::lent::{self, Lent};
use crate::refused;

pyo3::create_exception!(
    tiertune_engine,
    PolicyFailed,
    PyRuntimeError,
    "A policy written in Python raised; the cause is what it raised."
);

/// The systems that were registered in this process.
static REGISTERED: LazyLock<Mutex<BTreeMap<String, Arc<Prototype>>>> = LazyLock::new(Mutex::default);

fn registered() -> MutexGuard<'static, BTreeMap<String, Arc<Prototype>>> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Knobs and gauges have names that live as long as the process; equal ones are kept once.
fn lasting(text: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = kept.get(text) {
        return found;
    }
    let leaked: &'static str = Box::leak(text.to_string().into_boxed_str());
    kept.insert(leaked);
    leaked
}

/// What a class says of itself.
#[derive(Deserialize)]
struct Declared {
    name: String,
    summary: String,
    source: String,
    signal: String,
    page_bytes: Vec<u64>,
    knobs: Vec<DeclaredKnob>,
}

#[derive(Deserialize)]
struct DeclaredKnob {
    name: String,
    meaning: String,
    unit: String,
    #[serde(flatten)]
    kind: DeclaredKind,
    default: Value,
    special: Vec<(i64, String)>,
    condition: Option<DeclaredCondition>,
    tunable: bool,
    change_cost: String,
    source: String,
}

#[derive(Deserialize)]
struct DeclaredCondition {
    knob: String,
    test: Test,
    values: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum DeclaredKind {
    Int { min: i64, max: i64, log: bool },
    Float { min: f64, max: f64, log: bool },
    Bool,
    Choice { choices: Vec<String> },
}

impl DeclaredKnob {
    fn knob(self) -> Result<Knob, String> {
        let kind = match self.kind {
            DeclaredKind::Int { min, max, log } => KnobKind::Int { min, max, log },
            DeclaredKind::Float { min, max, log } => KnobKind::Float { min, max, log },
            DeclaredKind::Bool => KnobKind::Bool,
            DeclaredKind::Choice { choices } => KnobKind::Choice {
                choices: choices.iter().map(|word| lasting(word)).collect::<Vec<_>>().leak(),
            },
        };
        let special = |(value, meaning): &(i64, String)| Special {
            value: *value,
            meaning: lasting(meaning),
        };
        Ok(Knob {
            name: lasting(&self.name),
            meaning: lasting(&self.meaning),
            unit: lasting(&self.unit),
            kind,
            default: self.default,
            special: self.special.iter().map(special).collect(),
            condition: self.condition.map(|condition| Condition {
                knob: lasting(&condition.knob),
                test: condition.test,
                values: condition.values,
            }),
            tunable: self.tunable,
            change_cost: match self.change_cost.as_str() {
                "live" => ChangeCost::Live,
                "restart-system" => ChangeCost::RestartSystem,
                "rebuild" => ChangeCost::Rebuild,
                other => {
                    return Err(format!(
                        "change_cost '{other}' is none of live, restart-system, rebuild"
                    ));
                }
            },
            source: lasting(&self.source),
        })
    }
}

/// A registered class.
#[derive(Serialize)]
struct Prototype {
    name: String,
    summary: String,
    source: String,
    signal: String,
    page_bytes: Vec<u64>,
    knobs: Vec<Knob>,
    #[serde(skip)]
    class: Py<PyAny>,
}

impl Tiering for Prototype {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn signal(&self) -> String {
        self.signal.clone()
    }

    fn page_bytes(&self) -> &[u64] {
        &self.page_bytes
    }

    fn knobs(&self) -> Vec<Knob> {
        self.knobs.clone()
    }

    fn build(&self, config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
        let config = self.resolve(config)?;
        let object = Python::attach(|py| -> PyResult<Py<PyAny>> {
            let knobs = PyDict::new(py);
            for (name, value) in &config {
                match value {
                    Value::Bool(value) => knobs.set_item(name, value)?,
                    Value::Int(value) => knobs.set_item(name, value)?,
                    Value::Float(value) => knobs.set_item(name, value)?,
                    Value::Text(value) => knobs.set_item(name, value)?,
                }
            }
            let capacity = topology.capacity_pages.clone();
            self.class
                .bind(py)
                .call_method1("_built", (knobs, topology.page_bytes, topology.pages, capacity))
                .map(Bound::unbind)
        });
        let object = object.unwrap_or_else(|error| stop(&self.name, "__init__", None, error));
        Ok(Box::new(Prototyped {
            name: self.name.clone(),
            pages: topology.pages,
            object,
        }))
    }
}

/// What a policy raised, on its way out of the run.
struct Raised {
    name: String,
    method: &'static str,
    now: Option<Nanos>,
    error: PyErr,
}

fn stop(name: &str, method: &'static str, now: Option<Nanos>, error: PyErr) -> ! {
    resume_unwind(Box::new(Raised {
        name: name.to_string(),
        method,
        now,
        error,
    }))
}

/// Does `work`, in which policies written in Python may run; what one raises becomes `PolicyFailed`.
///
/// # Errors
/// What `work` says, or what a policy raised.
pub fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(raised(payload)))
}

fn raised(payload: Box<dyn Any + Send>) -> PyErr {
    let Raised {
        name,
        method,
        now,
        error,
    } = *payload
        .downcast::<Raised>()
        .unwrap_or_else(|other| resume_unwind(other));
    Python::attach(|py| {
        // Ctrl-C and the like are not the policy's.
        if !error.is_instance_of::<PyException>(py) {
            return error;
        }
        let when = now.map_or(String::new(), |now| format!(" at {} ms", now as f64 / 1e6));
        let failed = PolicyFailed::new_err(format!("policy {name}: {method}{when}: {error}"));
        failed.set_cause(py, Some(error));
        failed
    })
}

/// An object of a registered class.
struct Prototyped {
    name: String,
    pages: u32,
    object: Py<PyAny>,
}

#[derive(FromPyObject)]
struct Wanted {
    event: String,
    period: u64,
}

#[derive(FromPyObject)]
struct WantedMechanics {
    lanes: u32,
    fixed_ns: u64,
    alone_fixed_ns: u64,
    run_fixed_ns: u64,
    remap_ns: u64,
    copy_gbps: f64,
    mode: String,
    passes: u32,
    shootdowns: f64,
}

#[derive(FromPyObject)]
struct WantedNeeds {
    hint_faults: bool,
    accessed_bits: bool,
    counters: bool,
}

#[derive(FromPyObject)]
struct WantedOverheads {
    busy_cores: f64,
    record_ns: f64,
}

#[derive(FromPyObject)]
struct WantedGauge {
    name: String,
    meaning: String,
    value: f64,
}

#[derive(FromPyObject)]
enum WantedPlacement {
    Word(String),
    Above((String, u32)),
    ByPage(Vec<u8>),
}

/// The event of a name.
pub fn event(name: &str) -> PyResult<Event> {
    match name {
        "load-miss" => Ok(Event::LoadMiss),
        "store" => Ok(Event::Store),
        "slow-load-miss" => Ok(Event::SlowLoadMiss),
        _ => Err(refused(format!(
            "there is no event '{name}'; events are load-miss, store and slow-load-miss"
        ))),
    }
}

fn placement(wanted: Option<WantedPlacement>, extent: &Extent) -> PyResult<Placement> {
    match wanted {
        None => Ok(Placement::FastestFree),
        Some(WantedPlacement::Word(word)) if word == "fastest-free" => Ok(Placement::FastestFree),
        Some(WantedPlacement::Word(word)) if word == "slowest-free" => Ok(Placement::SlowestFree),
        Some(WantedPlacement::Above((word, free_pages))) if word == "fastest-above" => {
            Ok(Placement::FastestAbove { free_pages })
        }
        Some(WantedPlacement::ByPage(tiers)) if tiers.len() == extent.pages as usize => Ok(Placement::ByPage(tiers)),
        Some(WantedPlacement::ByPage(tiers)) => Err(refused(format!(
            "on_alloc returns the tiers of {} pages for an extent of {}",
            tiers.len(),
            extent.pages
        ))),
        Some(_) => Err(refused(
            "on_alloc returns None, 'fastest-free', 'slowest-free', ('fastest-above', pages), or a tier for each page",
        )),
    }
}

thread_local! {
    /// Set where the call that this thread works for is to end.
    static ENDED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Does `work` on a thread that signals of Python do not reach: once `ended` is set, what asks a policy written in
/// Python anything ends as by Ctrl-C.
pub fn until<T>(ended: &Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            ENDED.set(None);
        }
    }
    ENDED.set(Some(Arc::clone(ended)));
    let _reset = Reset;
    work()
}

fn unless_ended() -> PyResult<()> {
    let ended = ENDED.with_borrow(|flag| flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)));
    if ended {
        return Err(PyKeyboardInterrupt::new_err(()));
    }
    Ok(())
}

impl Prototyped {
    fn ask<T>(&self, method: &'static str, work: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> T {
        unless_ended()
            .and_then(|()| Python::attach(|py| work(self.object.bind(py))))
            .unwrap_or_else(|error| stop(&self.name, method, None, error))
    }

    fn tell<T>(
        &self,
        method: &'static str,
        cx: &mut Context<'_>,
        work: impl FnOnce(&Bound<'_, PyAny>, &Bound<'_, Lent>) -> PyResult<T>,
    ) -> T {
        let now = cx.now;
        unless_ended()
            .and_then(|()| {
                Python::attach(|py| {
                    let object = self.object.bind(py);
                    lent::during(py, self.pages, cx, |lent| work(object, lent))
                })
            })
            .unwrap_or_else(|error| stop(&self.name, method, Some(now), error))
    }
}

impl Policy for Prototyped {
    fn samplers(&self) -> Vec<SamplerRequest> {
        self.ask("samplers", |object| {
            let wanted: Vec<Wanted> = object.call_method0("samplers")?.extract()?;
            wanted
                .iter()
                .map(|one| {
                    Ok(SamplerRequest {
                        event: event(&one.event)?,
                        period: one.period,
                    })
                })
                .collect()
        })
    }

    fn needs(&self) -> Needs {
        self.ask("needs", |object| {
            let wanted: WantedNeeds = object.call_method0("needs")?.extract()?;
            Ok(Needs {
                hint_faults: wanted.hint_faults,
                accessed_bits: wanted.accessed_bits,
                counters: wanted.counters,
                truth: false,
            })
        })
    }

    fn rehearsal(&self) -> Option<Box<dyn Policy>> {
        self.ask("rehearsal", |object| {
            let other = object.call_method0("rehearsal")?;
            if other.is_none() {
                return Ok(None);
            }
            let rehearsal: Box<dyn Policy> = Box::new(Prototyped {
                name: self.name.clone(),
                pages: self.pages,
                object: other.unbind(),
            });
            Ok(Some(rehearsal))
        })
    }

    fn learn(&mut self, notes: &[u8]) -> Result<(), StateError> {
        self.ask("learn", |object| {
            object
                .call_method1("learn", (PyBytes::new(object.py(), notes),))
                .map(drop)
        });
        Ok(())
    }

    fn mechanics(&self) -> MigrationMechanics {
        self.ask("mechanics", |object| {
            let wanted: WantedMechanics = object.call_method0("mechanics")?.extract()?;
            Ok(MigrationMechanics {
                lanes: wanted.lanes,
                fixed_ns: wanted.fixed_ns,
                alone_fixed_ns: wanted.alone_fixed_ns,
                run_fixed_ns: wanted.run_fixed_ns,
                remap_ns: wanted.remap_ns,
                copy_gbps: wanted.copy_gbps,
                shootdowns: wanted.shootdowns,
                mode: match wanted.mode.as_str() {
                    "write-protected" => CopyMode::WriteProtected,
                    "unmapped" => CopyMode::Unmapped,
                    "transactional" => CopyMode::Transactional { passes: wanted.passes },
                    other => {
                        return Err(refused(format!(
                            "mode '{other}' is none of write-protected, unmapped, transactional"
                        )));
                    }
                },
            })
        })
    }

    fn overheads(&self) -> Overheads {
        self.ask("overheads", |object| {
            let wanted: WantedOverheads = object.call_method0("overheads")?.extract()?;
            Ok(Overheads {
                busy_cores: wanted.busy_cores,
                record_ns: wanted.record_ns,
            })
        })
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.tell("on_alloc", cx, |object, lent| {
            let wanted = object.call_method1("on_alloc", (lent::PyExtent::of(extent), lent))?;
            placement(wanted.extract()?, extent)
        })
    }

    fn on_free(&mut self, extent: &Extent, cx: &mut Context<'_>) {
        self.tell("on_free", cx, |object, lent| {
            object
                .call_method1("on_free", (lent::PyExtent::of(extent), lent))
                .map(drop)
        });
    }

    fn on_faults(&mut self, faults: &[Fault], cx: &mut Context<'_>) {
        self.tell("on_faults", cx, |object, lent| {
            let faults: Vec<lent::PyFault> = faults.iter().map(lent::PyFault::of).collect();
            object.call_method1("on_faults", (faults, lent)).map(drop)
        });
    }

    fn on_samples(&mut self, samples: &[Sample], cx: &mut Context<'_>) {
        self.tell("on_samples", cx, |object, lent| {
            let samples: Vec<lent::PySample> = samples.iter().map(lent::PySample::of).collect();
            object.call_method1("on_samples", (samples, lent)).map(drop)
        });
    }

    fn on_migrations(&mut self, ended: &[Migrated], idle: bool, cx: &mut Context<'_>) {
        self.tell("on_migrations", cx, |object, lent| {
            let ended: Vec<lent::PyMigrated> = ended.iter().map(lent::PyMigrated::of).collect();
            object.call_method1("on_migrations", (ended, idle, lent)).map(drop)
        });
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        self.tell("on_wake", cx, |object, lent| {
            object.call_method1("on_wake", (lent,)).map(drop)
        });
    }

    fn gauges(&self) -> Vec<Gauge> {
        self.ask("gauges", |object| {
            let wanted: Vec<WantedGauge> = object.call_method0("gauges")?.extract()?;
            Ok(wanted
                .iter()
                .map(|gauge| Gauge {
                    name: lasting(&gauge.name),
                    meaning: lasting(&gauge.meaning),
                    value: gauge.value,
                })
                .collect())
        })
    }

    fn save(&self) -> Vec<u8> {
        self.ask("save", |object| object.call_method0("save")?.extract())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), StateError> {
        Python::attach(|py| {
            let taken = self.object.bind(py).call_method1("restore", (PyBytes::new(py, state),));
            taken.map(drop).map_err(|error| StateError(error.to_string()))
        })
    }
}

/// The system of a name: registered here, or of the registry.
///
/// # Errors
/// When there is none, or the parts of a composition do not go together.
pub fn find(name: &str) -> PyResult<Arc<dyn Tiering>> {
    let registered = registered();
    if let Some(found) = registered.get(name) {
        return Ok(found.clone());
    }
    if let Some((wrappers, base)) = name.rsplit_once('+').filter(|(_, base)| registered.contains_key(*base)) {
        return Err(refused(format!(
            "'{name}' makes no sense: {wrappers} goes around policies written in Rust; a system that does is '{base}'"
        )));
    }
    match registry::find(name) {
        Ok(found) => Ok(Arc::new(found)),
        Err(SystemError::Unknown { name, .. }) => {
            let mut all: Vec<&str> = registry::names().collect();
            all.extend(registered.keys().map(String::as_str));
            let nearest = nearest(&name, all).unwrap_or_default().to_string();
            Err(refused(SystemError::Unknown { name, nearest }))
        }
        Err(other) => Err(refused(other)),
    }
}

/// A registered system with its knobs, as JSON; `None` where the name is not of one.
pub fn described(name: &str) -> Option<serde_json::Result<String>> {
    registered()
        .get(name)
        .map(|found| serde_json::to_string(found.as_ref()))
}

/// All registered systems with their knobs, as JSON.
#[pyfunction]
fn registered_json() -> PyResult<String> {
    let registered = registered();
    let all: Vec<&Prototype> = registered.values().map(AsRef::as_ref).collect();
    serde_json::to_string(&all).map_err(refused)
}

/// Registers a class under the name in `document`; one that was registered under it before is replaced.
#[pyfunction]
fn register_policy(document: &str, class: Py<PyAny>) -> PyResult<()> {
    let declared: Declared = serde_json::from_str(document).map_err(refused)?;
    let name = declared.name;
    let knobs = declared.knobs.into_iter().map(|knob| {
        let place = format!("{name} knob '{}'", knob.name);
        let knob = knob.knob().map_err(|problem| refused(format!("{place}: {problem}")))?;
        knob.check(&name, &knob.default).map_err(refused)?;
        Ok(knob)
    });
    let prototype = Prototype {
        knobs: knobs.collect::<PyResult<_>>()?,
        summary: declared.summary,
        source: declared.source,
        signal: declared.signal,
        page_bytes: declared.page_bytes,
        class,
        name,
    };
    if registry::find(&prototype.name).is_ok() {
        return Err(refused(format!(
            "'{0}' is a system of the engine; give the policy another name, such as 'my-{0}'",
            prototype.name
        )));
    }
    let replaced = registered().insert(prototype.name.clone(), Arc::new(prototype));
    // Only now, with the lock given back: the end of what was registered may run Python, which may ask what is.
    drop(replaced);
    Ok(())
}

/// Takes a registered class away; whether there was one.
#[pyfunction]
fn unregister_policy(name: &str) -> bool {
    // The lock is given back first, as in `register_policy`.
    let removed = registered().remove(name);
    removed.is_some()
}

/// Holds a system to one promise of the contract, the name of which is given: what is wrong, or `None`.
#[pyfunction]
fn check_promise(py: Python<'_>, system: &str, promise: &str) -> PyResult<Option<String>> {
    let system = find(system)?;
    let found = tiertune_contract::promises::PROMISES
        .iter()
        .find(|(name, _)| *name == promise);
    let (_, check) = found.ok_or_else(|| refused(format!("there is no promise '{promise}'")))?;
    py.detach(|| {
        let contract = tiertune_contract::promises::Contract::new(system.as_ref());
        broken(|| check(&contract))
    })
}

/// The names of all promises, the quickest to check first.
#[pyfunction]
fn promises() -> Vec<&'static str> {
    tiertune_contract::promises::PROMISES
        .iter()
        .map(|(name, _)| *name)
        .collect()
}

/// Replays a golden script: the same text with every output as it comes out now.
#[pyfunction]
fn replay_script(py: Python<'_>, system: &str, script: &str) -> PyResult<String> {
    let system = find(system)?;
    py.detach(|| {
        let mut replayed = String::new();
        match broken(|| replayed = tiertune_contract::script::replay(system.as_ref(), script))? {
            None => Ok(replayed),
            Some(sentence) => Err(refused(sentence)),
        }
    })
}

thread_local! {
    /// How many checks are under way on this thread, one inside the other.
    static CHECKING: Cell<u32> = const { Cell::new(0) };
}

/// The sentence with which a check panicked. The panic itself is not told: it is not ours.
///
/// Panics of other threads are told meanwhile, and nobody waits: the policy may be Python that checks another one.
fn broken(check: impl FnOnce()) -> PyResult<Option<String>> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if CHECKING.get() == 0 {
                told(panic);
            }
        }));
    });
    CHECKING.set(CHECKING.get() + 1);
    let outcome = catch_unwind(AssertUnwindSafe(check));
    CHECKING.set(CHECKING.get() - 1);
    let Err(payload) = outcome else { return Ok(None) };
    match tiertune_contract::promises::said(payload.as_ref()) {
        Some(sentence) => Ok(Some(sentence)),
        None => Err(raised(payload)),
    }
}

/// Adds all of it to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("PolicyFailed", module.py().get_type::<PolicyFailed>())?;
    module.add_function(wrap_pyfunction!(registered_json, module)?)?;
    module.add_function(wrap_pyfunction!(register_policy, module)?)?;
    module.add_function(wrap_pyfunction!(unregister_policy, module)?)?;
    module.add_function(wrap_pyfunction!(check_promise, module)?)?;
    module.add_function(wrap_pyfunction!(promises, module)?)?;
    module.add_function(wrap_pyfunction!(replay_script, module)?)?;
    lent::register(module)
}
