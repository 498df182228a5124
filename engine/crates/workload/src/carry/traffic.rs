//! How much more or less often gathers miss in a larger graph with an equally larger cache.

use super::rows::Stream;
use crate::cache::LINE_BYTES;
use crate::class::AccessClass;
use crate::graph::GraphKind;
use crate::lines::LineRates;
use crate::profile::{GraphInfo, Metadata};

/// Below so many misses for each access the model says nothing: the cache holds nearly the whole array.
const LEAST_MISSES: f64 = 0.02;

/// The reads of one gathered array over all phases of a kind.
#[derive(Debug)]
pub struct Correction {
    phases: &'static str,
    object: usize,
    /// Recorded reads for each edge.
    pub recorded_per_edge: f64,
    /// Modelled reads for each edge, of the recorded and of the carried run.
    pub modelled_per_edge: (f64, f64),
    /// By what the recorded reads are multiplied.
    pub factor: f64,
}

impl Correction {
    /// By what the reads of a stream are multiplied; 1 for those that this is not about.
    pub fn of(&self, metadata: &Metadata, stream: &Stream) -> f64 {
        if self.object == stream.object && gathers(metadata, stream, self.phases) {
            self.factor
        } else {
            1.0
        }
    }

    /// In plain words.
    pub fn note(&self, metadata: &Metadata) -> String {
        format!(
            "{}: gathers read {:.3} lines for each edge as recorded; the generator's law and a model of the cache say {:.3} at the \
             recorded and {:.3} at the replayed scale, so they are multiplied by {:.3} to {:.3}; write-backs are kept.",
            metadata.objects[self.object].name,
            self.recorded_per_edge,
            self.modelled_per_edge.0,
            self.modelled_per_edge.1,
            self.factor,
            self.recorded_per_edge * self.factor,
        )
    }
}

/// Whether the stream gathers within phases of this kind: "forward" is the kind of "forward 3".
fn gathers(metadata: &Metadata, stream: &Stream, phases: &str) -> bool {
    stream.class == AccessClass::Gather && of_kind(&metadata.slices[stream.slice].phase, phases)
}

/// Whether a phase is of a kind: "forward 3" of "forward".
pub(super) fn of_kind(phase: &str, phases: &str) -> bool {
    phase.split(' ').next() == Some(phases)
}

/// The corrections for a Kronecker graph. Uniform graphs have none: all their vertices are accessed alike at every scale.
///
/// `footprint_factor` is by what the footprint and the cache grow, `growth` by what a stream's reads for each edge do
/// when misses are kept.
pub fn corrections(
    metadata: &Metadata,
    streams: &[Stream],
    sizes: (&GraphInfo, &GraphInfo),
    scale: u32,
    footprint_factor: f64,
    growth: impl Fn(&Stream) -> f64,
) -> Vec<Correction> {
    let Some((GraphKind::Kron, recorded_scale, degree)) = metadata.request.graph_input() else {
        return Vec::new();
    };
    if scale == recorded_scale {
        return Vec::new();
    }
    let cache_lines = metadata.llc_bytes as f64 / LINE_BYTES as f64;
    let correction = |(phases, name): (&'static str, &str)| {
        let object = metadata.objects.iter().position(|object| object.name == name)?;
        let slices = metadata.slices.iter().filter(|slice| of_kind(&slice.phase, phases));
        let edges: f64 = slices.map(|slice| slice.ops as f64).sum();
        let inside = || {
            streams
                .iter()
                .filter(|stream| of_kind(&metadata.slices[stream.slice].phase, phases))
        };
        let is_gather = |stream: &Stream| stream.object == object && gathers(metadata, stream, phases);
        let reads: u64 = inside().filter(|s| is_gather(s)).map(|stream| stream.reads).sum();
        let recorded_per_edge = reads as f64 / edges;
        // All other lines are taken to pass through the cache without being used again.
        let others = || inside().filter(|stream| !is_gather(stream));
        let passing = others().map(|stream| stream.reads as f64).sum::<f64>() / edges;
        let carried_passing = others().map(|stream| stream.reads as f64 * growth(stream)).sum::<f64>() / edges;
        let per_line = LINE_BYTES as u32 / metadata.objects[object].element_bytes;
        let model = |scale: u32, size: &GraphInfo, cache_lines: f64, passing: f64| {
            let lines = size.vertices as f64 / f64::from(per_line);
            LineRates::of_rmat(scale, degree, per_line).misses(lines, cache_lines, passing)
        };
        let here = model(recorded_scale, sizes.0, cache_lines, passing);
        if !(here > LEAST_MISSES && recorded_per_edge > LEAST_MISSES) {
            return None;
        }
        let there = model(scale, sizes.1, cache_lines * footprint_factor, carried_passing);
        Some(Correction {
            phases,
            object,
            recorded_per_edge,
            modelled_per_edge: (here, there),
            // An edge gathers one entry, so it cannot read more than one line.
            factor: (there / here).min(1f64.max(recorded_per_edge) / recorded_per_edge),
        })
    };
    // What each edge of a phase gathers one entry from: there vertices are accessed as often as they have edges.
    let gathered = metadata
        .request
        .definition()
        .graph
        .map_or(&[][..], |traits| traits.gathered);
    gathered.iter().copied().filter_map(correction).collect()
}
