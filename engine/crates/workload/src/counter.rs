//! The accessor that counts: loads and stores of every object by class, and operations of every phase.

use crate::class::AccessClass;
use crate::memory::{Memory, ObjectId, ObjectSpec, Phase};

const CLASSES: usize = AccessClass::ALL.len();

/// What one object saw.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectCount {
    /// The object.
    pub spec: ObjectSpec,
    /// Loads by class, in the order of [`AccessClass::ALL`].
    pub loads: [u64; CLASSES],
    /// Stores by class.
    pub stores: [u64; CLASSES],
}

/// A [`Memory`] that counts and models no cache.
#[derive(Debug, Default)]
pub struct Counter {
    objects: Vec<ObjectCount>,
    phases: Vec<(String, u64)>,
}

impl Counter {
    /// The objects in the order of their allocation.
    #[must_use]
    pub fn objects(&self) -> &[ObjectCount] {
        &self.objects
    }

    /// Phases in order, with the operations of each.
    #[must_use]
    pub fn phases(&self) -> &[(String, u64)] {
        &self.phases
    }
}

impl Memory for Counter {
    fn allocate(&mut self, spec: &ObjectSpec) -> ObjectId {
        self.objects.push(ObjectCount {
            spec: spec.clone(),
            loads: [0; CLASSES],
            stores: [0; CLASSES],
        });
        ObjectId(self.objects.len() as u16 - 1)
    }

    #[inline(always)]
    fn load(&mut self, object: ObjectId, offset: usize, class: AccessClass) {
        let object = &mut self.objects[object.0 as usize];
        debug_assert!(
            (offset as u64) < object.spec.bytes,
            "{} ends before {offset}",
            object.spec.name
        );
        object.loads[class as usize] += 1;
    }

    #[inline(always)]
    fn store(&mut self, object: ObjectId, offset: usize, class: AccessClass) {
        let object = &mut self.objects[object.0 as usize];
        debug_assert!(
            (offset as u64) < object.spec.bytes,
            "{} ends before {offset}",
            object.spec.name
        );
        object.stores[class as usize] += 1;
    }

    fn phase(&mut self, phase: Phase) {
        self.phases.push((phase.name, 0));
    }

    #[inline(always)]
    fn ops(&mut self, count: u64) {
        if let Some(last) = self.phases.last_mut() {
            last.1 += count;
        }
    }
}
