//! The Python face of the engine: JSON documents in and out, arrays for profiles.
//!
//! Everything that can go wrong because of what a caller passed raises `ValueError` with one
//! sentence; `tiertune.engine` turns it into the project's own error type.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiertune_policy::{Config, registry};
use tiertune_sim::metrics::METRICS;
use tiertune_sim::observe::{COUNTER_FIGURES, OBJECT_FIGURES};
use tiertune_sim::scenario::WorkloadModel;
use tiertune_sim::{Request, Workload};

mod huge_pages;
mod lent;
mod prototype;
mod recording;
mod sampling;

#[global_allocator]
static ALLOCATOR: huge_pages::HugePages = huge_pages::HugePages;

fn refused(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A workload that any number of runs share; compiled once per page size.
#[pyclass(frozen, name = "Workload")]
struct PyWorkload {
    model: WorkloadModel,
    notes: Vec<String>,
    /// The only page size that a carried profile's skew is right for.
    carried_page_bytes: Option<u64>,
    compiled: Mutex<HashMap<u64, Arc<Workload>>>,
}

impl PyWorkload {
    fn new(model: WorkloadModel, notes: Vec<String>, carried_page_bytes: Option<u64>) -> Self {
        Self {
            model,
            notes,
            carried_page_bytes,
            compiled: Mutex::new(HashMap::new()),
        }
    }

    fn compiled(&self, page_bytes: u64) -> PyResult<Arc<Workload>> {
        if !page_bytes.is_power_of_two() || page_bytes < 4096 {
            return Err(refused(format!(
                "page_bytes {page_bytes} is not a power of two from 4096"
            )));
        }
        if let Some(carried) = self.carried_page_bytes.filter(|c| *c != page_bytes) {
            return Err(refused(format!(
                "the profile was carried to pages of {carried} bytes; carry it again for pages of {page_bytes} bytes"
            )));
        }
        let mut compiled = self.compiled.lock().expect("no panic while compiling");
        if let Some(workload) = compiled.get(&page_bytes) {
            return Ok(workload.clone());
        }
        let workload = Arc::new(Workload::compile(&self.model, page_bytes).map_err(refused)?);
        compiled.insert(page_bytes, workload.clone());
        Ok(workload)
    }
}

#[pymethods]
impl PyWorkload {
    /// A workload of synthetic streams, from its JSON document.
    #[staticmethod]
    fn from_streams(document: &str) -> PyResult<Self> {
        let model: WorkloadModel = serde_json::from_str(document).map_err(refused)?;
        Workload::compile(&model, registry::PAGE_2M).map_err(refused)?;
        Ok(Self::new(model, vec![], None))
    }

    /// A recorded profile carried to another input (see `recording`).
    #[staticmethod]
    fn from_profile(columns: &Bound<'_, PyDict>, metadata: &str, carry: &str, threads: u32) -> PyResult<Self> {
        recording::from_profile(columns, metadata, carry, threads)
    }

    /// Objects, phases and notes, as JSON.
    fn describe(&self) -> String {
        let objects: Vec<_> = self
            .model
            .objects
            .iter()
            .map(|o| serde_json::json!({"name": o.name, "bytes": o.bytes, "scattered": o.scattered}))
            .collect();
        let mut phases: Vec<&str> = Vec::new();
        for phase in self.model.blocks.iter().flat_map(|b| &b.phases) {
            if phases.last() != Some(&phase.name.as_str()) {
                phases.push(&phase.name);
            }
        }
        serde_json::json!({
            "footprint_bytes": self.model.peak_bytes(),
            "objects": objects,
            "phases": phases,
            "notes": self.notes,
        })
        .to_string()
    }
}

/// Version of the engine.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Fingerprint of all sources that decide a simulated run.
#[pyfunction]
fn sources() -> &'static str {
    env!("TIERTUNE_ENGINE_SOURCES")
}

/// All systems with their knobs, as JSON.
#[pyfunction]
fn systems_json() -> PyResult<String> {
    serde_json::to_string(&registry::listed()).map_err(refused)
}

/// All metrics of a run, as JSON.
#[pyfunction]
fn metrics_json() -> PyResult<String> {
    serde_json::to_string(METRICS).map_err(refused)
}

/// What a run can count beside the metrics, as JSON: figures of counters and of objects.
#[pyfunction]
fn observed_json() -> PyResult<String> {
    serde_json::to_string(&serde_json::json!({"counter": COUNTER_FIGURES, "object": OBJECT_FIGURES})).map_err(refused)
}

/// One system with its knobs, as JSON: also a composition that is not listed.
#[pyfunction]
fn system_json(name: &str) -> PyResult<String> {
    if let Some(document) = prototype::described(name) {
        return document.map_err(refused);
    }
    prototype::find(name)?;
    serde_json::to_string(&registry::find(name).map_err(refused)?).map_err(refused)
}

/// Checks a config; returns it with defaults filled in, as JSON.
#[pyfunction]
fn check_config(system: &str, config: &str) -> PyResult<String> {
    let system = prototype::find(system)?;
    let config: Config = serde_json::from_str(config).map_err(refused)?;
    let resolved = system.resolve(&config).map_err(refused)?;
    serde_json::to_string(&resolved).map_err(refused)
}

/// Runs one request (JSON) and returns its result (JSON).
#[pyfunction]
fn run(py: Python<'_>, workload: &PyWorkload, request: &str) -> PyResult<String> {
    let request: Request = serde_json::from_str(request).map_err(refused)?;
    let system = prototype::find(&request.system)?;
    py.detach(|| {
        let workload = workload.compiled(request.page_bytes)?;
        let run = || tiertune_sim::run_system(&workload, &request, system.as_ref()).map_err(refused);
        serde_json::to_string(&prototype::guarded(run)?).map_err(refused)
    })
}

/// Runs many requests on `threads` threads; results in the order of the requests.
#[pyfunction]
fn run_many(py: Python<'_>, workload: &PyWorkload, requests: Vec<String>, threads: usize) -> PyResult<Vec<String>> {
    let requests: Vec<Request> = requests
        .iter()
        .map(|r| serde_json::from_str(r))
        .collect::<Result<_, _>>()
        .map_err(refused)?;
    let Some(first) = requests.first() else {
        return Ok(vec![]);
    };
    if let Some(other) = requests.iter().find(|r| r.page_bytes != first.page_bytes) {
        return Err(refused(format!(
            "requests mix pages of {} and {} bytes",
            first.page_bytes, other.page_bytes
        )));
    }
    py.detach(|| {
        let workload = workload.compiled(first.page_bytes)?;
        let ended = Arc::new(AtomicBool::new(false));
        let run = |request: &Request| {
            if ended.load(Ordering::Relaxed) {
                return Err(PyKeyboardInterrupt::new_err(()));
            }
            let system = prototype::find(&request.system)?;
            prototype::until(&ended, || {
                tiertune_sim::run_system(&workload, request, system.as_ref()).map_err(refused)
            })
        };
        let work = || prototype::guarded(|| Ok(tiertune_sim::run_each(&requests, threads, run)));
        let results = until_interrupted(&ended, work)?;
        results
            .into_iter()
            .map(|result| serde_json::to_string(&result?).map_err(refused))
            .collect()
    })
}

/// Does `work` on another thread while this one looks for Ctrl-C, of which Python tells its main thread alone; then
/// `ended` is set, and what is left of the work is waited for.
fn until_interrupted<T: Send>(ended: &AtomicBool, work: impl FnOnce() -> PyResult<T> + Send) -> PyResult<T> {
    const LOOK: Duration = Duration::from_millis(50);
    std::thread::scope(|scope| {
        let (done, wait) = mpsc::channel::<()>();
        let worker = scope.spawn(move || {
            let _told = done;
            work()
        });
        let mut interrupted = None;
        while wait.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if interrupted.is_none() {
                interrupted = Python::attach(|py| py.check_signals()).err();
                ended.store(interrupted.is_some(), Ordering::Relaxed);
            }
        }
        let result = worker
            .join()
            .unwrap_or_else(|payload| std::panic::resume_unwind(payload));
        interrupted.map_or(result, Err)
    })
}

#[pymodule]
fn tiertune_engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyWorkload>()?;
    module.add_function(wrap_pyfunction!(version, module)?)?;
    module.add_function(wrap_pyfunction!(sources, module)?)?;
    module.add_function(wrap_pyfunction!(system_json, module)?)?;
    module.add_function(wrap_pyfunction!(systems_json, module)?)?;
    module.add_function(wrap_pyfunction!(metrics_json, module)?)?;
    module.add_function(wrap_pyfunction!(observed_json, module)?)?;
    module.add_function(wrap_pyfunction!(check_config, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(run_many, module)?)?;
    prototype::register(module)?;
    recording::register(module)?;
    sampling::register(module)?;
    Ok(())
}
