//! The accessor through which kernels touch memory: one source, run natively or recorded.

use serde::{Deserialize, Serialize};

use crate::class::AccessClass;

/// Names one object within a [`Memory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectId(pub u16);

/// How the elements of an object are ordered in memory; decides how its page statistics are carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Position means the same at every size (queues, sweeps, the GUPS table).
    Positional,
    /// One element per vertex, ids randomly permuted: a page averages independent elements.
    Vertices,
    /// One run of elements per vertex, in permuted id order: neighbours on a page share an owner.
    Lists,
}

/// What a kernel says about an object when it allocates it.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectSpec {
    /// Name in profiles and reports.
    pub name: &'static str,
    /// Size in bytes.
    pub bytes: u64,
    /// Size of one element in bytes.
    pub element_bytes: u32,
    /// Order of the elements.
    pub layout: Layout,
    /// Whether accesses of class `Stream` sweep the object in index order, whatever its layout.
    pub sweeps: bool,
    /// Whether the object is filled while the input is built, before the recorded run starts.
    pub built: bool,
}

/// What the operations of a phase count; they grow with it when a profile is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Edges of a graph.
    Edges,
    /// Vertices of a graph.
    Vertices,
    /// Updates of a table.
    Updates,
}

/// A stretch of work that a profile reports under one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Name in profiles.
    pub name: String,
    /// What one operation is.
    pub unit: Unit,
    /// Nanoseconds of computing per operation with all data in the private caches.
    pub cpu_ns_per_op: f64,
    /// Whether the recorder may cut the phase into several slices.
    pub divisible: bool,
}

/// Where accesses go.
pub trait Memory {
    /// Announces an object; the kernel itself holds the data.
    fn allocate(&mut self, spec: &ObjectSpec) -> ObjectId;
    /// A load that touches the byte at `offset` of the object.
    fn load(&mut self, object: ObjectId, offset: usize, class: AccessClass);
    /// A store that touches the byte at `offset` of the object.
    fn store(&mut self, object: ObjectId, offset: usize, class: AccessClass);
    /// The operations that follow belong to this phase.
    fn phase(&mut self, phase: Phase);
    /// `count` operations of the current phase are done.
    fn ops(&mut self, count: u64);
}

/// Runs a kernel at native speed: every access is a no-op that the compiler removes.
#[derive(Debug, Default)]
pub struct Native;

impl Memory for Native {
    fn allocate(&mut self, _spec: &ObjectSpec) -> ObjectId {
        ObjectId(0)
    }
    #[inline(always)]
    fn load(&mut self, _object: ObjectId, _offset: usize, _class: AccessClass) {}
    #[inline(always)]
    fn store(&mut self, _object: ObjectId, _offset: usize, _class: AccessClass) {}
    fn phase(&mut self, _phase: Phase) {}
    #[inline(always)]
    fn ops(&mut self, _count: u64) {}
}

/// A real array whose every access is announced to a [`Memory`].
#[derive(Debug)]
pub struct Array<T> {
    id: ObjectId,
    data: Vec<T>,
}

impl<T: Copy> Array<T> {
    /// Bytes that one vectorised store of a fill covers (AVX2): a fill retires one store for each.
    const FILL_STORE_BYTES: usize = 32;

    /// Announces `data` to `memory`. The object's size is `spec.bytes`, which must not be below the data's.
    pub fn new<M: Memory>(memory: &mut M, spec: &ObjectSpec, data: Vec<T>) -> Self {
        debug_assert!(spec.bytes as usize >= std::mem::size_of_val(data.as_slice()));
        Self {
            id: memory.allocate(spec),
            data,
        }
    }

    /// Element `index`.
    #[inline(always)]
    pub fn load<M: Memory>(&self, memory: &mut M, index: usize, class: AccessClass) -> T {
        memory.load(self.id, index * size_of::<T>(), class);
        self.data[index]
    }

    /// Overwrites element `index`.
    #[inline(always)]
    pub fn store<M: Memory>(&mut self, memory: &mut M, index: usize, value: T, class: AccessClass) {
        memory.store(self.id, index * size_of::<T>(), class);
        self.data[index] = value;
    }

    /// Loads, changes and stores element `index`.
    #[inline(always)]
    pub fn update<M: Memory>(&mut self, memory: &mut M, index: usize, class: AccessClass, change: impl FnOnce(T) -> T) {
        let value = self.load(memory, index, class);
        self.store(memory, index, change(value), class);
    }

    /// Overwrites all elements in address order.
    pub fn fill<M: Memory>(&mut self, memory: &mut M, value: T) {
        for offset in (0..self.data.len() * size_of::<T>()).step_by(Self::FILL_STORE_BYTES) {
            memory.store(self.id, offset, AccessClass::Stream);
        }
        self.data.fill(value);
    }

    /// The data behind the array.
    #[must_use]
    pub fn data(&self) -> &[T] {
        &self.data
    }

    /// Gives the data back.
    #[must_use]
    pub fn into_data(self) -> Vec<T> {
        self.data
    }
}
