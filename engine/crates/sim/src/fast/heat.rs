//! How hot pages are in this slice, for page maps.

use super::{Fast, Progress, miss_density};
use crate::page_map::Heat;
use crate::workload::Phase;

impl Fast<'_> {
    /// Reads per second of a page of each piece that reach memory; sweeps taken over the whole object.
    pub(super) fn heat(&self, phase: &Phase, progress: &Progress) -> Heat {
        let objects = &self.driver.workload.objects;
        let mut heat: Heat = objects.iter().map(|object| vec![0.0; object.pieces()]).collect();
        for (group, rate) in phase.groups.iter().zip(&progress.rate) {
            for s in group.streams.clone() {
                let stream = &phase.streams[s];
                let reads_per_s = rate * 1e9 * stream.reads_per_op * progress.miss[s];
                let into = &mut heat[stream.object];
                match miss_density(&progress.missed[s], stream) {
                    Some(density) => {
                        for (heat, density) in into.iter_mut().zip(density) {
                            *heat += reads_per_s * f64::from(*density);
                        }
                    }
                    None => {
                        let pages = f64::from(objects[stream.object].pages);
                        into.iter_mut().for_each(|heat| *heat += reads_per_s / pages);
                    }
                }
            }
        }
        heat
    }
}
