//! What was scaled and how, in plain words.

use super::bins::variation;
use super::growth::{Growth, factor_of};
use super::rows::{Stream, page_count};
use super::traffic::of_kind;
use crate::graph::GraphKind;
use crate::memory::Layout;
use crate::profile::{GraphInfo, ObjectInfo, PAGE_BYTES, Profile};
use crate::record::RecordRequest;
use crate::successors::expected_successors;

fn gigabytes(bytes: u64) -> String {
    if bytes >= 1_000_000_000 {
        format!("{:.2} GB", bytes as f64 / 1e9)
    } else {
        format!("{:.2} MB", bytes as f64 / 1e6)
    }
}

/// Sizes, work, cache and assumptions.
pub fn size_notes(
    profile: &Profile,
    recorded_scale: u32,
    scale: u32,
    graph: &GraphInfo,
    target: &GraphInfo,
    footprint: u64,
) -> Vec<String> {
    let metadata = &profile.metadata;
    let ops = profile.ops() as f64;
    let mut notes = vec![
        format!(
            "Recorded by running {} at scale {recorded_scale} ({} vertices, {} stored edges, {}); replayed at scale {scale} \
             ({} vertices, {} stored edges expected, {}).",
            metadata.request.kernel(),
            graph.vertices,
            graph.edges,
            gigabytes(profile.footprint_bytes()),
            target.vertices,
            target.edges,
            gigabytes(footprint),
        ),
        format!(
            "Work on edges grows by {:.1}, work on vertices by {:.1}; the share of each level stays as recorded.",
            factor_of(graph.edges, target.edges),
            factor_of(graph.vertices, target.vertices),
        ),
    ];
    let mut kept = format!(
        "Memory reads and write-backs per edge or vertex ({:.3} and {:.3} per operation on average) are kept, because the last-level cache \
         was scaled with the footprint, to {} bytes",
        metadata.total_reads as f64 / ops,
        metadata.total_writebacks as f64 / ops,
        metadata.llc_bytes,
    );
    if let Some(smaller) = &metadata.smaller {
        kept += &format!(
            "; recorded again at scale {} with {} bytes they are {:.3} and {:.3}",
            smaller.scale, smaller.llc_bytes, smaller.reads_per_op, smaller.writebacks_per_op
        );
    }
    if graph_is_skewed(&metadata.request) && scale != recorded_scale {
        kept += "; gathers that follow degrees are corrected as said below; other reads are not, because what they depend on (such as which edges \
                 lead to a deeper level) does not follow degrees";
    }
    notes.push(kept + ".");
    // Levels of a uniform graph grow by its mean degree, so graphs are alike when their sizes differ by a power of it.
    let mean_degree = graph.edges as f64 / graph.vertices as f64;
    let levels_apart = f64::from(scale - recorded_scale) / mean_degree.log2();
    let off = (levels_apart - levels_apart.round()).abs();
    let levels = metadata.request.definition().graph.is_some_and(|traits| traits.levels);
    if levels && matches!(metadata.request.graph_input(), Some((GraphKind::Uniform, ..))) && off > 0.1 {
        let period = mean_degree.log2();
        let alike = f64::from(scale) - period * (f64::from(scale - recorded_scale) / period).round();
        notes.push(format!(
            "A uniform graph of mean degree {mean_degree:.0} fills its levels alike only every {period:.1} doublings; {} doublings \
             shift how work is shared between levels, which is not corrected: a recording at scale {alike:.0} would match.",
            scale - recorded_scale
        ));
    }
    notes.push(
        "Assumed: one thread's order of accesses stands for all threads; the memory used and freed while building the \
         graph is left out; objects are placed once, in the order of their first touch."
            .to_owned(),
    );
    notes.push(
        "How much more vertex arrays vary in a larger graph follows from the generator's law and a model of the cache, \
         fitted to this recording and the smaller one; pages are as varied as an average permutation of ids makes them."
            .to_owned(),
    );
    notes
}

/// That page counts of lists are not as recorded.
pub fn chance_note() -> String {
    "Which lists come in which part of a phase is chance: its slices differ in the pages of their lists only where that \
     is more than chance."
        .to_owned()
}

/// How typical the recorded sources are, for a kernel whose time goes by the edges that lead one level further.
pub fn sources_note(profile: &Profile, streams: &[Stream], graph: &GraphInfo, scale: u32) -> Option<String> {
    /// Sources differ by up to three times; this much is told without advice.
    const TYPICAL: f64 = 0.1;
    let metadata = &profile.metadata;
    let (phases, array) = metadata.request.definition().graph?.successors?;
    let (kind, _, degree) = metadata.request.graph_input()?;
    let sources = metadata.request.values().int("sources");
    let followed: u64 = streams
        .iter()
        .filter(|stream| metadata.objects[stream.object].name == array)
        .filter(|stream| of_kind(&metadata.slices[stream.slice].phase, phases))
        .map(|stream| stream.stores)
        .sum();
    let recorded = followed as f64 / sources as f64 / graph.edges as f64;
    let expected = expected_successors(kind, scale, degree);
    let mut note = format!(
        "Of the edges {:.1} % lead one level further from the recorded source{}; the mean over all sources is {:.1} % at the \
         replayed scale (a law of the generator).",
        100.0 * recorded,
        if sources == 1 { "" } else { "s" },
        100.0 * expected,
    );
    if (recorded / expected - 1.0).abs() > TYPICAL {
        note += " What is done for such edges is off by as much; another seed or more sources can be more typical.";
    }
    Some(note)
}

/// How much of a run was looked at, where that was not everything.
pub fn window_note(profile: &Profile) -> Option<String> {
    let metadata = &profile.metadata;
    let share = metadata.request.window_share();
    (share < 1.0 && metadata.slices.iter().any(|slice| slice.stationary)).then(|| {
        format!(
            "Of each slice of a phase whose operations are all alike, {:.0} % were looked at but for the first slice; the rest \
             was executed and is taken to have done the same.",
            100.0 * share
        )
    })
}

fn graph_is_skewed(request: &RecordRequest) -> bool {
    matches!(request.graph_input(), Some((GraphKind::Kron, ..)))
}

/// How the pages of one object were carried; `None` when they keep their places.
pub fn object_note(object: &ObjectInfo, growth: &Growth, page_bytes: u64) -> Option<String> {
    if object.layout == Layout::Positional {
        return None;
    }
    let (before, after) = (variation(&growth.before).sqrt(), variation(&growth.after).sqrt());
    let averaged = page_bytes / PAGE_BYTES;
    let why = if object.layout == Layout::Vertices {
        format!(
            "single elements vary more by a factor of {:.2} (squared), and a page averages {averaged} times the elements",
            growth.skew
        )
    } else {
        let together = averaged as f64 / growth.skew;
        let rule = if together < 1.0 {
            "finer than recorded, so recorded weights are kept"
        } else {
            "measured by putting pages together"
        };
        format!(
            "lists are longer by a factor of {:.2}, so a page holds as many lists as {together:.2} recorded pages ({rule})",
            growth.skew
        )
    };
    let mut note = format!(
        "{}: {} recorded pages of 4 KiB stand for {} pages of {} KiB; {why}; coefficient of variation between pages over \
         the run {before:.3} -> {after:.3}.",
        object.name,
        page_count(object),
        growth.bytes.div_ceil(page_bytes),
        page_bytes >> 10,
    );
    let unreached = growth.unreached / growth.before.iter().sum::<f64>();
    if unreached > 0.0 {
        note += &format!(
            " For {:.2} % of its accesses the recorded pages could not be spread that far.",
            100.0 * unreached
        );
    }
    Some(note)
}
