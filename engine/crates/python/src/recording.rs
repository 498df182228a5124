//! Kernels executed and recorded, and profiles carried back into workloads.

use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiertune_workload::kernels::KERNELS;
use tiertune_workload::measured::is_measured;
use tiertune_workload::profile::{FORMAT_VERSION, RECORDER_VERSION, SOURCES};
use tiertune_workload::{CarrySpec, Columns, Kernel, Measured, Profile, RecordRequest};

use crate::{PyWorkload, refused};

/// Executes what the JSON request asks for; returns columns by name and metadata as JSON.
#[pyfunction]
fn record<'py>(py: Python<'py>, request: &str) -> PyResult<(Bound<'py, PyDict>, String)> {
    let value: serde_json::Value = serde_json::from_str(request).map_err(refused)?;
    let request = RecordRequest::try_from(value).map_err(refused)?;
    let profile = py.detach(|| tiertune_workload::record(&request)).map_err(refused)?;
    let metadata = serde_json::to_string(&profile.metadata).map_err(refused)?;
    let columns = PyDict::new(py);
    let c = profile.columns;
    columns.set_item("slice", c.slice.into_pyarray(py))?;
    columns.set_item("object", c.object.into_pyarray(py))?;
    columns.set_item("class", c.class.into_pyarray(py))?;
    columns.set_item("page", c.page.into_pyarray(py))?;
    columns.set_item("reads", c.reads.into_pyarray(py))?;
    columns.set_item("prefetched", c.prefetched.into_pyarray(py))?;
    columns.set_item("writebacks", c.writebacks.into_pyarray(py))?;
    columns.set_item("stores", c.stores.into_pyarray(py))?;
    columns.set_item("touches", c.touches.into_pyarray(py))?;
    Ok((columns, metadata))
}

/// How large a recorded run and its carried version are, and which cache to record with, as JSON.
#[pyfunction]
fn plan(request: &str, carry: &str, machine_llc_bytes: u64) -> PyResult<String> {
    let mut value: serde_json::Value = serde_json::from_str(request).map_err(refused)?;
    // The plan says which cache to record with, so what the request says does not matter.
    value["llc_bytes"] = machine_llc_bytes.into();
    let request = RecordRequest::try_from(value).map_err(refused)?;
    let spec: CarrySpec = serde_json::from_str(carry).map_err(refused)?;
    let plan = tiertune_workload::plan(&request, &spec, machine_llc_bytes).map_err(refused)?;
    serde_json::to_string(&plan).map_err(refused)
}

/// The declarations of all kernels, as a JSON list.
#[pyfunction]
fn kernels_json() -> String {
    let kernels: Vec<_> = KERNELS.iter().map(Kernel::document).collect();
    serde_json::Value::from(kernels).to_string()
}

/// What stored profiles depend on beside the request: the format, what the recorder counts and how, and the code of the
/// kernels.
#[pyfunction]
fn profile_version() -> String {
    format!("{FORMAT_VERSION}.{RECORDER_VERSION}.{SOURCES}")
}

/// One column of a stored profile.
fn column<T: numpy::Element + Copy>(columns: &Bound<'_, PyDict>, name: &str) -> PyResult<Vec<T>> {
    let Some(values) = columns.get_item(name)? else {
        return Err(refused(format!("the profile has no column '{name}'")));
    };
    let array: PyReadonlyArray1<'_, T> = values
        .extract()
        .map_err(|_| refused(format!("the profile's column '{name}' does not have the expected type")))?;
    Ok(array.as_array().iter().copied().collect())
}

/// Puts a stored profile together and carries it to `carry` (JSON) on `threads` threads.
pub fn from_profile(columns: &Bound<'_, PyDict>, metadata: &str, carry: &str, threads: u32) -> PyResult<PyWorkload> {
    let columns = Columns {
        slice: column(columns, "slice")?,
        object: column(columns, "object")?,
        class: column(columns, "class")?,
        page: column(columns, "page")?,
        reads: column(columns, "reads")?,
        prefetched: column(columns, "prefetched")?,
        writebacks: column(columns, "writebacks")?,
        stores: column(columns, "stores")?,
        touches: column(columns, "touches")?,
    };
    let spec: CarrySpec = serde_json::from_str(carry).map_err(refused)?;
    if threads == 0 {
        return Err(refused("threads is 0; the nearest valid value is 1"));
    }
    let replay = if is_measured(metadata) {
        let profile = Measured::from_parts(metadata, columns).map_err(refused)?;
        profile.carry(&spec).map_err(refused)?
    } else {
        let profile = Profile::from_parts(metadata, columns).map_err(refused)?;
        profile.carry(&spec).map_err(refused)?
    };
    let notes = replay.notes.clone();
    Ok(PyWorkload::new(
        tiertune_sim::replay::workload_of(replay, threads),
        notes,
        Some(spec.page_bytes),
    ))
}

/// Adds the functions of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(record, module)?)?;
    module.add_function(wrap_pyfunction!(plan, module)?)?;
    module.add_function(wrap_pyfunction!(kernels_json, module)?)?;
    module.add_function(wrap_pyfunction!(profile_version, module)?)
}
