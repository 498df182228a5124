//! The mappings that carried objects lie in.

use super::ReplayObject;
use crate::memory::{Mapping, ObjectSpec};

/// Notes for each object how large its mapping is where that is not the object itself, from what the kernel says at the
/// carried size. Pieces of one name are of one object.
pub(crate) fn settle(objects: &mut [ReplayObject], specs: &[ObjectSpec]) {
    let mapping_of = |name: &str| {
        let spec = specs.iter().find(|spec| spec.name == name);
        spec.map_or(Mapping::Own, |spec| spec.mapping)
    };
    let sum = |counts: &dyn Fn(&ReplayObject) -> bool| {
        let counted = objects.iter().filter(|object| counts(object));
        counted.map(|object| object.bytes).sum::<u64>()
    };
    let sizes: Vec<u64> = objects
        .iter()
        .map(|object| match mapping_of(&object.name) {
            Mapping::Own => sum(&|other| other.name == object.name),
            Mapping::Arena => sum(&|other| mapping_of(&other.name) == Mapping::Arena),
            Mapping::Pieces(bytes) => bytes.min(object.bytes),
        })
        .collect();
    for (object, bytes) in objects.iter_mut().zip(sizes) {
        object.mapping_bytes = (bytes != object.bytes).then_some(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_holds_pieces_of_an_object_an_arena_objects_and_an_object_mappings() {
        let object = |name: &str, bytes| ReplayObject {
            name: name.to_owned(),
            bytes,
            bins: 1,
            scattered: false,
            mapping_bytes: None,
            side_by_side: false,
            freed_after: None,
        };
        let spec = |name, mapping| ObjectSpec::new(name, 1, 8).mapping(mapping);
        let specs = [
            spec("array", Mapping::Own),
            spec("rows", Mapping::Arena),
            spec("leaves", Mapping::Arena),
            spec("sums", Mapping::Pieces(5)),
        ];
        let mut objects = [
            object("array", 64),
            object("rows", 30),
            object("leaves", 4),
            object("array", 6),
            object("rows", 30),
            object("sums", 50),
            object("unheard of", 7),
        ];
        settle(&mut objects, &specs);
        let sizes = objects.map(|object| object.mapping_bytes);
        assert_eq!(sizes, [Some(70), Some(64), Some(64), Some(70), Some(64), Some(5), None]);
    }
}
