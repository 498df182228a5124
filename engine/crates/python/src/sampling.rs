//! Processes of this host, sampled.

use numpy::IntoPyArray;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiertune_host::{HostError, Options, Sampler};

use crate::refused;

/// `ValueError` for what is wrong, `RuntimeError` for what this host cannot do.
fn raised(error: HostError) -> PyErr {
    match error {
        HostError::Wrong(sentence) => refused(sentence),
        HostError::Unfit(sentence) => PyRuntimeError::new_err(sentence),
    }
}

/// All samplers, the one that sees most first, with what each lacks here (empty: it works), as JSON.
#[pyfunction]
fn samplers_json() -> String {
    let found = Sampler::ALL.map(|sampler| {
        let lacks = sampler.probe().err().map(|error| error.to_string());
        serde_json::json!({"name": sampler.name(), "lacks": lacks.unwrap_or_default()})
    });
    serde_json::Value::from(found.to_vec()).to_string()
}

/// Samples process `pid` and its children for `seconds` (none: until it ends, or Ctrl-C). Returns columns by name and
/// all else as JSON.
#[pyfunction]
fn sample<'py>(
    py: Python<'py>,
    pid: i32,
    sampler: &str,
    seconds: Option<f64>,
    interval_s: f64,
    windows: usize,
) -> PyResult<(Bound<'py, PyDict>, String)> {
    let Some(sampler) = Sampler::ALL.into_iter().find(|known| known.name() == sampler) else {
        return Err(refused(format!("there is no sampler '{sampler}'")));
    };
    let options = Options {
        sampler,
        seconds,
        interval_s,
        windows,
    };
    let mut interrupted = false;
    let sample = py
        .detach(|| {
            // Ctrl-C ends the sampling; what was seen until then is kept.
            tiertune_host::sample(pid, options, || {
                interrupted = interrupted || Python::attach(|py| py.check_signals().is_err());
                !interrupted
            })
        })
        .map_err(raised)?;
    let columns = PyDict::new(py);
    let cells = || {
        let windows = sample.windows.iter().enumerate();
        windows.flat_map(|(number, window)| window.cells.iter().map(move |cell| (number as u32, cell)))
    };
    columns.set_item(
        "window",
        cells().map(|(number, _)| number).collect::<Vec<u32>>().into_pyarray(py),
    )?;
    columns.set_item(
        "process",
        cells().map(|(_, c)| c.process).collect::<Vec<u16>>().into_pyarray(py),
    )?;
    columns.set_item(
        "start",
        cells().map(|(_, c)| c.start).collect::<Vec<u64>>().into_pyarray(py),
    )?;
    columns.set_item(
        "pages",
        cells().map(|(_, c)| c.pages).collect::<Vec<u32>>().into_pyarray(py),
    )?;
    columns.set_item(
        "hits",
        cells().map(|(_, c)| c.hits).collect::<Vec<u32>>().into_pyarray(py),
    )?;
    let windows: Vec<_> = sample
        .windows
        .iter()
        .map(|w| serde_json::json!({"elapsed_s": w.elapsed_s, "cpu_ns": w.cpu_ns, "looks": w.looks, "watched_s": w.watched_s}))
        .collect();
    let areas: Vec<_> = sample
        .areas
        .iter()
        .enumerate()
        .flat_map(|(number, areas)| {
            areas
                .iter()
                .map(move |area| (number, area.start, area.end, &area.label))
        })
        .collect();
    let told = serde_json::json!({
        "windows": windows, "areas": areas, "resident": sample.resident, "threads": sample.threads,
        "looking_share": sample.looking_share, "notes": sample.notes,
    });
    Ok((columns, told.to_string()))
}

/// Adds the functions of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(samplers_json, module)?)?;
    module.add_function(wrap_pyfunction!(sample, module)?)
}
