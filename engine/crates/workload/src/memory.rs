//! The accessor through which kernels touch memory: one source, run natively or recorded.

use std::ops::Range;

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
    /// Elements in random order (vertices with permuted ids, hashed keys): a page averages independent elements.
    Vertices,
    /// One run of elements per vertex, in permuted id order: neighbours on a page share an owner.
    Lists,
}

/// The mappings in which a program has an object's memory from the kernel: systems that go by what a program maps
/// (HeMem, which leaves small mappings alone) see these, not objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mapping {
    /// One for all pieces of the object.
    #[default]
    Own,
    /// Part of one that the program reserves at its start for this object and all others with this.
    Arena,
    /// Many, of about so many bytes each.
    Pieces(u64),
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
    /// Whether each thread touches only its own equal part, parts in thread order.
    pub partitioned: bool,
    /// How the program that the kernel follows maps it.
    pub mapping: Mapping,
    /// Whether it is first touched side by side with all others that are, each by and by in proportion to its size.
    pub side_by_side: bool,
}

impl ObjectSpec {
    /// A positional object that all threads share and that the run itself fills.
    #[must_use]
    pub const fn new(name: &'static str, bytes: u64, element_bytes: u32) -> Self {
        Self {
            name,
            bytes,
            element_bytes,
            layout: Layout::Positional,
            sweeps: false,
            built: false,
            partitioned: false,
            mapping: Mapping::Own,
            side_by_side: false,
        }
    }

    /// The same with another order of its elements.
    #[must_use]
    pub const fn layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// The same, swept in index order by accesses of class `Stream`.
    #[must_use]
    pub const fn swept(self) -> Self {
        Self { sweeps: true, ..self }
    }

    /// The same, filled before the recorded run starts.
    #[must_use]
    pub const fn built(self) -> Self {
        Self { built: true, ..self }
    }

    /// The same, mapped in another way than by itself.
    #[must_use]
    pub const fn mapping(self, mapping: Mapping) -> Self {
        Self { mapping, ..self }
    }

    /// The same, first touched along with all others that are so, as by a loop that sets all of them to 0.
    #[must_use]
    pub const fn side_by_side(self) -> Self {
        Self {
            side_by_side: true,
            ..self
        }
    }

    /// The same, cut into one part for each thread.
    #[must_use]
    pub const fn partitioned(self) -> Self {
        Self {
            partitioned: true,
            ..self
        }
    }
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
    /// Whatever the kernel calls an operation.
    Operations,
}

/// A stretch of work that a profile reports under one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Name in profiles.
    pub name: String,
    /// What one operation is.
    pub unit: Unit,
    /// Nanoseconds of computing with all data in the private caches, per operation or per access.
    pub cpu_ns: f64,
    /// Whether the work of an operation is as large as the accesses that it makes: then computing is per access, and
    /// both grow where operations of larger inputs make more of them.
    pub by_access: bool,
    /// Whether the recorder may cut the phase into several slices.
    pub divisible: bool,
    /// Whether accesses other than streams are equally distributed throughout, so that carrying may pool the slices.
    pub stationary: bool,
    /// Whether the phase counts towards the run time of a native run; set-up and checks do not.
    pub timed: bool,
}

impl Phase {
    /// A timed phase that may be cut; see the fields.
    #[must_use]
    pub fn new(name: impl Into<String>, unit: Unit, cpu_ns: f64) -> Self {
        Self {
            name: name.into(),
            unit,
            cpu_ns,
            by_access: false,
            divisible: true,
            stationary: false,
            timed: true,
        }
    }

    /// The same in one slice.
    #[must_use]
    pub fn whole(self) -> Self {
        Self {
            divisible: false,
            ..self
        }
    }

    /// The same with computing per access.
    #[must_use]
    pub fn by_access(self) -> Self {
        Self {
            by_access: true,
            ..self
        }
    }

    /// The same with equally distributed accesses.
    #[must_use]
    pub fn stationary(self) -> Self {
        Self {
            stationary: true,
            ..self
        }
    }

    /// The same, left out of the run time.
    #[must_use]
    pub fn untimed(self) -> Self {
        Self { timed: false, ..self }
    }
}

/// Where accesses go.
pub trait Memory: Sized + Send {
    /// Whether only addresses count: a kernel whose addresses do not depend on data may then do without the data.
    const ADDRESSES_ONLY: bool = false;

    /// Announces an object; the kernel itself holds the data. At any time, also within a phase.
    fn allocate(&mut self, spec: &ObjectSpec) -> ObjectId;
    /// The object is not accessed again.
    fn free(&mut self, _object: ObjectId) {}
    /// A load that touches the byte at `offset` of the object.
    fn load(&mut self, object: ObjectId, offset: usize, class: AccessClass);
    /// A store that touches the byte at `offset` of the object.
    fn store(&mut self, object: ObjectId, offset: usize, class: AccessClass);
    /// The original program makes the store announced last, or tries it, by a locked instruction.
    fn locked(&mut self) {}
    /// The operations that follow belong to this phase.
    fn phase(&mut self, phase: Phase);
    /// `count` operations of the current phase are done.
    fn ops(&mut self, count: u64);
    /// The last phase is over.
    fn end(&mut self) {}

    /// Threads that run the chunks of [`Memory::for_chunks`].
    fn threads(&self) -> usize {
        1
    }

    /// Runs `body` on chunks of at most `chunk` of the range: natively on all threads, each taking the next chunk when it
    /// is done with one; otherwise one after the other. Within `body` neither phases nor objects are announced.
    fn for_chunks(&mut self, range: Range<usize>, chunk: usize, body: impl Fn(&mut Self, Range<usize>) + Sync) {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + chunk.max(1));
            body(self, start..end);
            start = end;
        }
    }

    /// Loads every line of `bytes` from `offset`: an element that spans several lines.
    #[inline(always)]
    fn load_lines(&mut self, object: ObjectId, offset: usize, bytes: usize, class: AccessClass) {
        for line in lines(offset, bytes) {
            self.load(object, line, class);
        }
    }

    /// Stores to every line of `bytes` from `offset`; counts a store of 32 bytes at a time.
    #[inline(always)]
    fn store_lines(&mut self, object: ObjectId, offset: usize, bytes: usize, class: AccessClass) {
        for part in (offset..offset + bytes).step_by(STORE_BYTES) {
            self.store(object, part, class);
        }
    }
}

/// Bytes that one vectorised store covers (AVX2).
const STORE_BYTES: usize = 32;

/// An offset within each line that `bytes` from `offset` touch.
fn lines(offset: usize, bytes: usize) -> impl Iterator<Item = usize> {
    let line = crate::cache::LINE_BYTES as usize;
    (offset / line..(offset + bytes).div_ceil(line)).map(move |number| offset.max(number * line))
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
        for offset in (0..self.data.len() * size_of::<T>()).step_by(STORE_BYTES) {
            memory.store(self.id, offset, AccessClass::Stream);
        }
        self.data.fill(value);
    }

    /// The object's name within the accessor, for elements that span several lines.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// Element `index` without announcing it, beside [`Memory::load_lines`].
    #[inline(always)]
    pub fn element(&self, index: usize) -> &T {
        &self.data[index]
    }

    /// Element `index` without announcing it, beside [`Memory::store_lines`].
    #[inline(always)]
    pub fn element_mut(&mut self, index: usize) -> &mut T {
        &mut self.data[index]
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
