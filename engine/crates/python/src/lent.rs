//! What a policy written in Python is given in a call: samples, faults, moves that ended, and the [`Context`], which is
//! lent for the length of the call.
#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use pyo3::exceptions::{PyIndexError, PyRuntimeError};
use pyo3::prelude::*;
use tiertune_contract::promises::said;
use tiertune_policy::{Context, Event, Extent, Fault, FaultKind, How, Migrated, Move, Outcome, Sample, TierCounters};

use crate::prototype::event;
use crate::refused;

/// The name of an event.
fn event_name(event: Event) -> &'static str {
    match event {
        Event::LoadMiss => "load-miss",
        Event::Store => "store",
        Event::SlowLoadMiss => "slow-load-miss",
    }
}

/// One hardware sample.
#[pyclass(frozen, name = "Sample", module = "tiertune_engine")]
pub struct PySample(Sample);

impl PySample {
    /// As Python sees it.
    pub fn of(sample: &Sample) -> Self {
        Self(*sample)
    }
}

#[pymethods]
impl PySample {
    #[getter]
    fn page(&self) -> u32 {
        self.0.page
    }

    #[getter]
    fn tier(&self) -> u8 {
        self.0.tier
    }

    #[getter]
    fn event(&self) -> &'static str {
        event_name(self.0.event)
    }
}

/// A fault that an application thread took.
#[pyclass(frozen, name = "Fault", module = "tiertune_engine")]
pub struct PyFault(Fault);

impl PyFault {
    /// As Python sees it.
    pub fn of(fault: &Fault) -> Self {
        Self(*fault)
    }
}

#[pymethods]
impl PyFault {
    #[getter]
    fn page(&self) -> u32 {
        self.0.page
    }

    #[getter]
    fn tier(&self) -> u8 {
        self.0.tier
    }

    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.kind {
            FaultKind::Hint => "hint",
            FaultKind::Write => "write",
        }
    }

    #[getter]
    fn armed_at_ns(&self) -> u64 {
        self.0.armed_at
    }

    #[getter]
    fn at_ns(&self) -> u64 {
        self.0.at
    }

    #[getter]
    fn thread(&self) -> u32 {
        self.0.thread
    }
}

/// A move that ended.
#[pyclass(frozen, name = "Migrated", module = "tiertune_engine")]
pub struct PyMigrated(Migrated);

impl PyMigrated {
    /// As Python sees it.
    pub fn of(migrated: &Migrated) -> Self {
        Self(*migrated)
    }
}

#[pymethods]
impl PyMigrated {
    #[getter]
    fn page(&self) -> u32 {
        self.0.request.page
    }

    #[getter]
    fn pages(&self) -> u32 {
        self.0.request.pages
    }

    #[getter]
    fn to(&self) -> u8 {
        self.0.request.to
    }

    #[getter]
    fn outcome(&self) -> &'static str {
        match self.0.outcome {
            Outcome::Done => "done",
            Outcome::NoSpace => "no-space",
            Outcome::AlreadyThere => "already-there",
            Outcome::Aborted => "aborted",
            Outcome::Gone => "gone",
            Outcome::Refused => "refused",
        }
    }

    /// Whether it was over before the call that asked for it (a reclaim).
    #[getter]
    fn at_once(&self) -> bool {
        self.0.request.how.is_at_once()
    }

    #[getter]
    fn at_ns(&self) -> u64 {
        self.0.at
    }
}

/// Pages that came into being together.
#[pyclass(frozen, name = "Extent", module = "tiertune_engine", get_all)]
pub struct PyExtent {
    object: u32,
    site: u32,
    start: u32,
    pages: u32,
    whole_pages: u32,
}

impl PyExtent {
    /// As Python sees it.
    pub fn of(extent: &Extent) -> Self {
        Self {
            object: extent.object,
            site: extent.site,
            start: extent.start,
            pages: extent.pages,
            whole_pages: extent.whole_pages,
        }
    }
}

/// A tier's counters since the start.
#[pyclass(frozen, name = "TierCounters", module = "tiertune_engine", get_all)]
pub struct PyTierCounters {
    inserts: f64,
    occupancy_ns: f64,
    busy_ns: f64,
    read_bytes: f64,
    written_bytes: f64,
}

impl PyTierCounters {
    fn of(counters: &TierCounters) -> Self {
        Self {
            inserts: counters.inserts,
            occupancy_ns: counters.occupancy_ns,
            busy_ns: counters.busy_ns,
            read_bytes: counters.read_bytes,
            written_bytes: counters.written_bytes,
        }
    }
}

/// The counters of the application's cores since the start.
#[pyclass(frozen, name = "CoreCounters", module = "tiertune_engine", get_all)]
pub struct PyCoreCounters {
    cycles: f64,
    stall_cycles: f64,
    outstanding_cycles: f64,
    occupancy_cycles: f64,
    reads: f64,
}

/// The context of a call, lent: a policy that keeps it finds it closed afterwards.
#[pyclass(frozen, name = "Context", module = "tiertune_engine")]
pub struct Lent {
    context: Mutex<Option<Pointer>>,
    /// The one that runs the call; no other may use the context.
    thread: ThreadId,
    tiers: usize,
    pages: u32,
}

/// Where the context is while it is lent.
struct Pointer(NonNull<Context<'static>>);

// SAFETY: `Lent::with` uses it on the thread of `during` only, which also takes it away before the borrow ends; on
// another thread a `Lent` is at most dropped, and that does nothing to what it points to.
unsafe impl Send for Pointer {}

/// Takes the context away at the end of the call, also where the policy raises.
struct Return<'a, 'py>(&'a Bound<'py, Lent>);

impl Drop for Return<'_, '_> {
    fn drop(&mut self) {
        self.0.get().take();
    }
}

/// Does `work` with `cx`, of a machine of so many pages, lent to Python.
///
/// # Errors
/// What `work` says.
pub fn during<T>(
    py: Python<'_>,
    pages: u32,
    cx: &mut Context<'_>,
    work: impl FnOnce(&Bound<'_, Lent>) -> PyResult<T>,
) -> PyResult<T> {
    let tiers = cx.counters.tiers.len();
    let lent = Bound::new(
        py,
        Lent {
            // The lifetimes are forgotten here and kept by `Return`.
            context: Mutex::new(Some(Pointer(NonNull::from(cx).cast::<Context<'static>>()))),
            thread: thread::current().id(),
            tiers,
            pages,
        },
    )?;
    let returned = Return(&lent);
    let outcome = work(returned.0);
    drop(returned);
    outcome
}

impl Lent {
    fn take(&self) -> Option<Pointer> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn with<T>(&self, work: impl FnOnce(&mut Context<'_>) -> T) -> PyResult<T> {
        let closed = || PyRuntimeError::new_err("a context is there during a call only; do not keep it");
        if thread::current().id() != self.thread {
            return Err(closed());
        }
        let mut taken = self.take().ok_or_else(closed)?;
        // SAFETY: `during` has the exclusive borrow for as long as the place is filled, this is its thread, and the
        // place is empty while `work` runs, so that there is one reference at a time.
        let context = unsafe { taken.0.as_mut() };
        // What a driver refuses with a panic is a mistake of the policy here, and told as such.
        let outcome = catch_unwind(AssertUnwindSafe(|| work(context)));
        *self.context.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
        outcome.map_err(|payload| match said(payload.as_ref()) {
            Some(sentence) => PyRuntimeError::new_err(sentence),
            None => resume_unwind(payload),
        })
    }

    /// Checks the pages from `start` on.
    fn range(&self, start: u32, pages: u32) -> PyResult<u32> {
        if pages > 0 && start.checked_add(pages).is_some_and(|end| end <= self.pages) {
            return Ok(start);
        }
        Err(PyIndexError::new_err(format!(
            "{pages} pages from page {start} on, of {}; the last page is {}",
            self.pages,
            self.pages.saturating_sub(1)
        )))
    }

    fn tier(&self, tier: u8) -> PyResult<u8> {
        if usize::from(tier) < self.tiers {
            return Ok(tier);
        }
        Err(PyIndexError::new_err(format!(
            "tier {tier} of {}; the slowest is {}",
            self.tiers,
            self.tiers - 1
        )))
    }

    fn ask(&self, request: Move) -> PyResult<()> {
        self.tier(request.to)?;
        self.range(request.page, request.pages)?;
        self.with(|cx| cx.moves.push(request))
    }
}

#[pymethods]
impl Lent {
    #[getter]
    fn now_ns(&self) -> PyResult<u64> {
        self.with(|cx| cx.now)
    }

    fn tier_of(&self, page: u32) -> PyResult<u8> {
        let page = self.range(page, 1)?;
        self.with(|cx| cx.pages.tier_of(page))
    }

    fn free_pages(&self, tier: u8) -> PyResult<u32> {
        let tier = self.tier(tier)?;
        self.with(|cx| cx.pages.free_pages(tier))
    }

    fn migrate(&self, page: u32, to: u8) -> PyResult<()> {
        self.ask(Move::page(page, to))
    }

    fn migrate_run(&self, page: u32, pages: u32, to: u8) -> PyResult<()> {
        self.ask(Move::run(page, pages, to))
    }

    fn migrate_in_fault(&self, fault: &PyFault, to: u8) -> PyResult<()> {
        self.ask(Move {
            how: How::InFault { thread: fault.0.thread },
            ..Move::page(fault.0.page, to)
        })
    }

    fn migrate_keeping(&self, page: u32, to: u8) -> PyResult<()> {
        self.ask(Move {
            how: How::KeepingFrame,
            ..Move::page(page, to)
        })
    }

    fn remap(&self, page: u32, to: u8) -> PyResult<()> {
        self.ask(Move {
            how: How::Remap,
            ..Move::page(page, to)
        })
    }

    fn reclaim(&self, page: u32, to: u8) -> PyResult<()> {
        self.ask(Move {
            how: How::Reclaim,
            ..Move::page(page, to)
        })
    }

    fn release(&self, page: u32) -> PyResult<()> {
        let page = self.range(page, 1)?;
        self.with(|cx| cx.release(page))
    }

    fn arm(&self, start: u32, end: u32) -> PyResult<()> {
        if end > start {
            self.range(start, end - start)?;
        }
        self.with(|cx| cx.arm(start..end))
    }

    fn set_sampling_period(&self, name: &str, period: u64) -> PyResult<()> {
        let event = event(name)?;
        self.with(|cx| cx.set_sampling_period(event, period))
    }

    fn spend(&self, cpu_ns: f64) -> PyResult<()> {
        self.with(|cx| cx.spend(cpu_ns))
    }

    fn spend_in_application(&self, cpu_ns: f64) -> PyResult<()> {
        self.with(|cx| cx.spend_in_application(cpu_ns))
    }

    fn fault_again(&self, fault: &PyFault, times: u32) -> PyResult<()> {
        self.with(|cx| cx.fault_again(&fault.0, times))
    }

    fn wake_at(&self, at_ns: u64) -> PyResult<()> {
        self.with(|cx| cx.wake_at(at_ns))
    }

    fn random(&self) -> PyResult<f64> {
        self.with(|cx| cx.rng.next_f64())
    }

    fn below(&self, n: u64) -> PyResult<u64> {
        if n == 0 {
            return Err(refused("below(0): there is no number below 0"));
        }
        self.with(|cx| cx.rng.below(n))
    }

    fn test_and_clear(&self, page: u32) -> PyResult<bool> {
        let page = self.range(page, 1)?;
        self.with(|cx| cx.accessed.test_and_clear(page))
    }

    fn test(&self, page: u32) -> PyResult<bool> {
        let page = self.range(page, 1)?;
        self.with(|cx| cx.accessed.test(page))
    }

    fn tier_counters(&self, tier: u8) -> PyResult<PyTierCounters> {
        let tier = self.tier(tier)?;
        self.with(|cx| PyTierCounters::of(&cx.counters.tiers[usize::from(tier)]))
    }

    fn core_counters(&self) -> PyResult<PyCoreCounters> {
        self.with(|cx| {
            let cores = &cx.counters.cores;
            PyCoreCounters {
                cycles: cores.cycles,
                stall_cycles: cores.stall_cycles,
                outstanding_cycles: cores.outstanding_cycles,
                occupancy_cycles: cores.occupancy_cycles,
                reads: cores.reads,
            }
        })
    }
}

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PySample>()?;
    module.add_class::<PyFault>()?;
    module.add_class::<PyMigrated>()?;
    module.add_class::<PyExtent>()?;
    module.add_class::<PyTierCounters>()?;
    module.add_class::<PyCoreCounters>()?;
    module.add_class::<Lent>()
}
