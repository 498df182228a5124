//! Arrays that several threads read and write at once, with the atomic operations of the original programs.

use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::class::AccessClass;
use crate::memory::{Memory, ObjectId, ObjectSpec};

/// A value that a machine word can hold, so that threads may share it. Relaxed order: a plain move on x86-64.
pub trait Word: Copy + Send + Sync {
    /// The atomic that holds it.
    type Atomic: Send + Sync;
    /// Puts it into an atomic.
    fn atomic(self) -> Self::Atomic;
    /// Reads it.
    fn get(atomic: &Self::Atomic) -> Self;
    /// Overwrites it.
    fn set(atomic: &Self::Atomic, value: Self);
    /// Replaces `old` by `new`; says whether `old` was there.
    fn replace(atomic: &Self::Atomic, old: Self, new: Self) -> bool;
}

macro_rules! word {
    ($type:ty, $atomic:ty, $to:expr, $from:expr) => {
        impl Word for $type {
            type Atomic = $atomic;
            #[inline(always)]
            fn atomic(self) -> $atomic {
                <$atomic>::new($to(self))
            }
            #[inline(always)]
            fn get(atomic: &$atomic) -> Self {
                $from(atomic.load(Relaxed))
            }
            #[inline(always)]
            fn set(atomic: &$atomic, value: Self) {
                atomic.store($to(value), Relaxed);
            }
            #[inline(always)]
            fn replace(atomic: &$atomic, old: Self, new: Self) -> bool {
                atomic
                    .compare_exchange($to(old), $to(new), Relaxed, Relaxed)
                    .is_ok()
            }
        }
    };
}

word!(u8, AtomicU8, |v| v, |v| v);
word!(u32, AtomicU32, |v| v, |v| v);
word!(i32, AtomicI32, |v| v, |v| v);
word!(u64, AtomicU64, |v| v, |v| v);
word!(i64, AtomicI64, |v| v, |v| v);
word!(f32, AtomicU32, f32::to_bits, f32::from_bits);
word!(f64, AtomicU64, f64::to_bits, f64::from_bits);

/// A real array that threads share, whose every access is announced to a [`Memory`].
#[derive(Debug)]
pub struct SharedArray<T: Word> {
    id: ObjectId,
    data: Vec<T::Atomic>,
}

impl<T: Word> SharedArray<T> {
    /// Announces `data` to `memory`. The object's size is `spec.bytes`, which must not be below the data's.
    pub fn new<M: Memory>(memory: &mut M, spec: &ObjectSpec, data: Vec<T>) -> Self {
        debug_assert!(spec.bytes as usize >= std::mem::size_of_val(data.as_slice()));
        Self {
            id: memory.allocate(spec),
            data: data.into_iter().map(T::atomic).collect(),
        }
    }

    /// Gives the memory back.
    pub fn free<M: Memory>(self, memory: &mut M) {
        memory.free(self.id);
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The object's name within the accessor.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// Element `index`.
    #[inline(always)]
    pub fn load<M: Memory>(&self, memory: &mut M, index: usize, class: AccessClass) -> T {
        memory.load(self.id, index * size_of::<T>(), class);
        T::get(&self.data[index])
    }

    /// Overwrites element `index`.
    #[inline(always)]
    pub fn store<M: Memory>(&self, memory: &mut M, index: usize, value: T, class: AccessClass) {
        memory.store(self.id, index * size_of::<T>(), class);
        T::set(&self.data[index], value);
    }

    /// Stores `new` if element `index` is `old`, by a locked instruction; says whether it was.
    #[inline(always)]
    pub fn replace<M: Memory>(&self, memory: &mut M, index: usize, old: T, new: T, class: AccessClass) -> bool {
        let done = T::replace(&self.data[index], old, new);
        if done {
            memory.store(self.id, index * size_of::<T>(), class);
        }
        memory.locked();
        done
    }

    /// [`SharedArray::update`] where the original program is as careful: its store is a locked instruction.
    #[inline(always)]
    pub fn locked_update<M: Memory>(
        &self,
        memory: &mut M,
        index: usize,
        class: AccessClass,
        change: impl Fn(T) -> T,
    ) -> T {
        let old = self.update(memory, index, class, change);
        memory.locked();
        old
    }

    /// Loads, changes and stores element `index`, so that no change of another thread is lost; returns the old value.
    #[inline(always)]
    pub fn update<M: Memory>(&self, memory: &mut M, index: usize, class: AccessClass, change: impl Fn(T) -> T) -> T {
        memory.load(self.id, index * size_of::<T>(), class);
        memory.store(self.id, index * size_of::<T>(), class);
        if memory.threads() == 1 {
            let old = T::get(&self.data[index]);
            T::set(&self.data[index], change(old));
            return old;
        }
        loop {
            let old = T::get(&self.data[index]);
            if T::replace(&self.data[index], old, change(old)) {
                return old;
            }
        }
    }

    /// Overwrites all elements in address order, on all threads.
    pub fn fill<M: Memory>(&self, memory: &mut M, value: T) {
        let elements = (1 << 20) / size_of::<T>();
        memory.for_chunks(0..self.data.len(), elements, |memory, part| {
            let size = size_of::<T>();
            memory.store_lines(self.id, part.start * size, part.len() * size, AccessClass::Stream);
            for element in &self.data[part] {
                T::set(element, value);
            }
        });
    }

    /// Copies the elements from `start` on that `out` has room for, loading each line once: what an inner loop over
    /// neighbouring elements does.
    #[inline(always)]
    pub fn read_run<M: Memory>(&self, memory: &mut M, start: usize, out: &mut [T], class: AccessClass) {
        memory.load_lines(self.id, start * size_of::<T>(), size_of_val(out), class);
        let elements = &self.data[start..start + out.len()];
        for (value, element) in out.iter_mut().zip(elements) {
            *value = T::get(element);
        }
    }

    /// Overwrites the elements from `start` on, storing 32 bytes at a time.
    #[inline(always)]
    pub fn write_run<M: Memory>(&self, memory: &mut M, start: usize, values: &[T], class: AccessClass) {
        memory.store_lines(self.id, start * size_of::<T>(), size_of_val(values), class);
        for (value, element) in values.iter().zip(&self.data[start..start + values.len()]) {
            T::set(element, *value);
        }
    }

    /// The data behind the array.
    #[must_use]
    pub fn to_vec(&self) -> Vec<T> {
        self.data.iter().map(T::get).collect()
    }
}
