//! Recorded profiles as workloads.

use std::collections::{HashMap, HashSet};

use tiertune_workload::carry::{Replay, ReplaySlice};

use crate::scenario::{Block, GroupModel, Law, ObjectModel, PhaseModel, StreamModel, WorkloadModel};

/// Names as they are, but numbered where several are alike: pieces that a program allocates one after another at one
/// place share a name, and streams find their object by it.
fn unlike<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let mut met: HashMap<&str, u32> = HashMap::new();
    let mut taken: HashSet<String> = names.clone().map(str::to_owned).collect();
    let numbered = names.map(|name| {
        let nth = met.entry(name).or_default();
        *nth += 1;
        if *nth == 1 {
            return name.to_owned();
        }
        let mut number = *nth;
        while !taken.insert(format!("{name} {number}")) {
            number += 1;
        }
        format!("{name} {number}")
    });
    numbered.collect()
}

/// The workload of a carried profile on `threads` threads: every slice is a phase, and what comes before the run is not timed.
#[must_use]
pub fn workload_of(replay: Replay, threads: u32) -> WorkloadModel {
    let names = unlike(replay.objects.iter().map(|o| o.name.as_str()));
    let objects = replay
        .objects
        .into_iter()
        .zip(&names)
        .map(|(o, name)| ObjectModel {
            name: name.clone(),
            bytes: o.bytes,
            scattered: o.scattered,
            site: Some(o.name),
            mapping_bytes: o.mapping_bytes,
            side_by_side: o.side_by_side,
            freed_after: o.freed_after.map(|number| names[number].clone()),
        })
        .collect();
    let called = |numbers: &[usize]| numbers.iter().map(|number| names[*number].clone()).collect();
    let phase = |slice: ReplaySlice| PhaseModel {
        name: slice.phase,
        seconds: None,
        free: called(&slice.free),
        allocate: called(&slice.allocate),
        groups: vec![GroupModel {
            name: "workers".into(),
            threads: if slice.one_thread { 1 } else { threads },
            ops: Some(slice.ops),
            cpu_ns_per_op: slice.cpu_ns_per_op,
            locked_per_op: slice.locked_per_op,
            locked_lookups_per_op: Some(slice.locked_lookups_per_op),
            streams: slice
                .streams
                .into_iter()
                .map(|s| StreamModel {
                    object: names[s.object].clone(),
                    law: Law::Bins { weights: s.weights },
                    class: s.class,
                    reads_per_op: s.reads_per_op,
                    writebacks_per_op: s.writebacks_per_op,
                    stores_per_op: s.stores_per_op,
                    mlp: None,
                    prefetched_share: Some(s.prefetched_share),
                    random_share: Some(s.random_share),
                    missed_llc: true,
                    llc_hits_per_op: s.llc_hits_per_op,
                    partitioned: s.partitioned,
                    first_touch: s.first_touch,
                })
                .collect(),
        }],
    };
    let before = Block {
        repeat: 1,
        untimed: true,
        phases: replay.loading.into_iter().map(phase).collect(),
    };
    let run = Block {
        repeat: replay.repeat,
        untimed: false,
        phases: replay.slices.into_iter().map(phase).collect(),
    };
    WorkloadModel {
        objects,
        blocks: [before, run]
            .into_iter()
            .filter(|block| !block.phases.is_empty())
            .collect(),
        // Kernels that are recorded run in teams, which the first thread is in.
        first_thread_waits: false,
    }
}

#[cfg(test)]
mod tests {
    use tiertune_workload::carry::{ReplayObject, ReplaySlice, ReplayStream};
    use tiertune_workload::class::AccessClass;

    use super::*;
    use crate::workload::Workload;

    #[test]
    fn pieces_with_one_name_are_objects_of_their_own_with_one_site() {
        let object = |name: &str| ReplayObject {
            name: name.into(),
            bytes: 1 << 22,
            bins: 1,
            scattered: false,
            mapping_bytes: (name == "leaves").then_some(1 << 30),
            side_by_side: name == "tuples",
            freed_after: None,
        };
        let stream = |object, reads_per_op| ReplayStream {
            object,
            class: AccessClass::Random,
            reads_per_op,
            prefetched_share: 0.0,
            random_share: 1.0,
            writebacks_per_op: 0.0,
            stores_per_op: 0.0,
            llc_hits_per_op: 0.0,
            weights: vec![1.0],
            partitioned: false,
            first_touch: false,
        };
        let replay = Replay {
            loading: Vec::new(),
            objects: ["tuples", "tuples 2", "tuples", "leaves", "tuples"]
                .map(object)
                .to_vec(),
            slices: vec![ReplaySlice {
                phase: "p".into(),
                ops: 1.0,
                cpu_ns_per_op: 1.0,
                locked_per_op: 0.0,
                locked_lookups_per_op: 0.0,
                one_thread: false,
                free: Vec::new(),
                allocate: Vec::new(),
                streams: (0..5).map(|object| stream(object, 1.0 + object as f64)).collect(),
            }],
            repeat: 1,
            notes: Vec::new(),
        };
        let model = workload_of(replay, 1);
        let names: Vec<&str> = model.objects.iter().map(|o| o.name.as_str()).collect();
        assert_eq!(names, ["tuples", "tuples 2", "tuples 3", "leaves", "tuples 4"]);
        let workload = Workload::compile(&model, 1 << 21).expect("a workload");
        let read: Vec<(usize, f64)> = workload.phases[0]
            .streams
            .iter()
            .map(|s| (s.object, s.visits_per_op))
            .collect();
        assert_eq!(read, [(0, 1.0), (1, 2.0), (2, 3.0), (3, 4.0), (4, 5.0)]);
        let sites: Vec<u32> = workload.objects.iter().map(|o| o.site).collect();
        assert_eq!(sites, [0, 1, 0, 3, 0]);
        let mapped: Vec<u32> = workload.objects.iter().map(|o| o.mapping_pages).collect();
        assert_eq!(mapped, [2, 2, 2, 512, 2]);
    }

    #[test]
    fn two_objects_of_one_name_are_refused() {
        let object = |bytes| ObjectModel {
            name: "o".into(),
            bytes,
            scattered: false,
            site: None,
            mapping_bytes: None,
            side_by_side: false,
            freed_after: None,
        };
        let model = WorkloadModel {
            first_thread_waits: false,
            objects: vec![object(4096), object(8192)],
            blocks: Vec::new(),
        };
        let error = Workload::compile(&model, 4096).expect_err("no telling them apart");
        assert!(error.to_string().contains("two objects are named 'o'"), "{error}");
    }
}
