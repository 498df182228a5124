//! Recorded profiles as workloads.

use tiertune_workload::carry::Replay;

use crate::scenario::{Block, GroupModel, Law, ObjectModel, PhaseModel, StreamModel, WorkloadModel};

/// The workload of a carried profile on `threads` threads: every slice is a phase.
#[must_use]
pub fn workload_of(replay: Replay, threads: u32) -> WorkloadModel {
    let names: Vec<String> = replay.objects.iter().map(|o| o.name.clone()).collect();
    let objects = replay
        .objects
        .into_iter()
        .map(|o| ObjectModel {
            name: o.name,
            bytes: o.bytes,
            scattered: o.scattered,
            site: None,
        })
        .collect();
    let phases = replay
        .slices
        .into_iter()
        .map(|slice| PhaseModel {
            name: slice.phase,
            seconds: None,
            free: Vec::new(),
            allocate: Vec::new(),
            groups: vec![GroupModel {
                name: "workers".into(),
                threads,
                ops: Some(slice.ops),
                cpu_ns_per_op: slice.cpu_ns_per_op,
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
                        missed_llc: true,
                        llc_hits_per_op: s.llc_hits_per_op,
                        partitioned: s.partitioned,
                    })
                    .collect(),
            }],
        })
        .collect();
    WorkloadModel {
        objects,
        blocks: vec![Block {
            repeat: replay.repeat,
            phases,
        }],
    }
}
