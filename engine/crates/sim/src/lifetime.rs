//! When objects exist: allocated at the start or by a phase, until a phase frees them.

use crate::error::RunError;
use crate::scenario::WorkloadModel;
use crate::workload::{Object, Workload, find_object};

/// Indices of the objects called `names`.
pub(crate) fn indices(objects: &[Object], names: &[String]) -> Result<Vec<usize>, RunError> {
    names.iter().map(|name| find_object(objects, name)).collect()
}

/// Numbers allocation sites, and marks the objects that some phase allocates as not there at the start.
pub(crate) fn settle(model: &WorkloadModel, objects: &mut [Object]) -> Result<(), RunError> {
    let site_of = |i: usize| model.objects[i].site.as_ref().unwrap_or(&model.objects[i].name);
    for (index, object) in objects.iter_mut().enumerate() {
        let first = (0..index).find(|other| site_of(*other) == site_of(index));
        object.site = first.unwrap_or(index) as u32;
    }
    for phase in model.blocks.iter().flat_map(|block| &block.phases) {
        for index in indices(objects, &phase.allocate)? {
            objects[index].initial = false;
        }
    }
    for (index, object) in model.objects.iter().enumerate() {
        let Some(name) = &object.freed_after else { continue };
        let last = find_object(objects, name)?;
        if !objects[index].initial || !objects[last].initial || last <= index {
            return Err(RunError::Workload(format!(
                "object '{}' is freed after '{name}', which must be placed after it, both before the first phase",
                object.name
            )));
        }
        objects[index].freed_after = Some(last);
    }
    Ok(())
}

impl WorkloadModel {
    /// The most bytes of objects that exist at a time, those left out that are gone when the first phase that is timed begins:
    /// what is called the footprint, of which ratios are shares.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        let bytes = |names: &[String]| -> u64 {
            let named = self.objects.iter().filter(|object| names.contains(&object.name));
            named.map(|object| object.bytes).sum()
        };
        let phases = || {
            let blocks = self.blocks.iter();
            blocks.flat_map(|block| block.phases.iter().map(|phase| (phase, !block.untimed)))
        };
        let later: Vec<String> = phases().flat_map(|(phase, _)| phase.allocate.clone()).collect();
        let of_run = self.objects.iter().filter(|object| object.freed_after.is_none());
        let all: u64 = of_run.map(|object| object.bytes).sum();
        let mut there = all - bytes(&later);
        let mut peak = 0;
        for (phase, timed) in phases() {
            let before = there;
            there = there.saturating_sub(bytes(&phase.free)) + bytes(&phase.allocate);
            if timed {
                peak = peak.max(before).max(there);
            }
        }
        peak
    }
}

/// What is freed once the object of this index has been placed before the first phase.
pub(crate) fn freed_after(objects: &[Object], index: usize) -> impl Iterator<Item = usize> {
    (0..index).filter(move |before| objects[*before].freed_after == Some(index))
}

/// Follows all phases; the most pages that exist at a time.
///
/// # Errors
/// When a phase allocates what exists, frees what does not, or touches what does not.
pub(crate) fn peak_pages(workload: &Workload) -> Result<u32, RunError> {
    let objects = &workload.objects;
    let mut exists = vec![false; objects.len()];
    let total = |exists: &[bool]| -> u32 {
        let there = objects.iter().zip(exists).filter(|(_, exists)| **exists);
        there.map(|(object, _)| object.pages).sum()
    };
    let mut peak = 0;
    for index in (0..objects.len()).filter(|index| objects[*index].initial) {
        exists[index] = true;
        peak = peak.max(total(&exists));
        freed_after(objects, index).for_each(|freed| exists[freed] = false);
    }
    for phase in workload.phases_in_order() {
        let bad = |index: usize, what: &str| {
            Err(RunError::Workload(format!(
                "phase '{}' {what} object '{}'",
                phase.name, objects[index].name
            )))
        };
        for index in &phase.free {
            if !std::mem::replace(&mut exists[*index], false) {
                return bad(*index, "frees, but nothing has allocated,");
            }
        }
        for index in &phase.allocate {
            if std::mem::replace(&mut exists[*index], true) {
                return bad(*index, "allocates a second time");
            }
        }
        if !(phase.free.is_empty() && phase.allocate.is_empty()) {
            peak = peak.max(total(&exists));
        }
        if let Some(stream) = phase.streams.iter().find(|stream| !exists[stream.object]) {
            return bad(stream.object, "touches, but nothing has allocated,");
        }
    }
    Ok(peak)
}
