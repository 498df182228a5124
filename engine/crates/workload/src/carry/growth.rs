//! How one object of a graph kernel grows with the graph: its size, its bins, and the variation between its pages.

use super::bins::{AggregationCurve, bin_count, variation};
use super::graph::reshaped;
use super::rows::{Stream, page_count};
use crate::cache::LINE_BYTES;
use crate::graph::GraphKind;
use crate::law::filtered_line_cv2;
use crate::memory::Layout;
use crate::profile::{GraphInfo, ObjectInfo, PAGE_BYTES, Profile};

/// Bound of the measured power, so that noise between two small graphs is not carried over many doublings.
const MOST_CLOSENESS: f64 = 1.5;

/// How one object grows.
pub struct Growth {
    pub bytes: u64,
    pub bins: u32,
    /// Factor of the squared variation of single elements.
    pub skew: f64,
    pub curve: AggregationCurve,
    /// Squared variation between recorded pages as the many lines give it, over that of the few pages themselves.
    pub luck: f64,
    /// Read counts of all recorded pages, and of all bins after carrying, over the whole run.
    pub before: Vec<f64>,
    pub after: Vec<f64>,
    /// Recorded reads of streams whose weights could not be spread as far as they should.
    pub unreached: f64,
}

impl Growth {
    /// Sizes the object for the target graph.
    pub fn new(
        profile: &Profile,
        number: usize,
        graph: &GraphInfo,
        target: &GraphInfo,
        scale: u32,
        page_bytes: u64,
    ) -> Self {
        let metadata = &profile.metadata;
        let object = &metadata.objects[number];
        let sized = metadata.request.graph_object(&object.name);
        let degree = metadata
            .request
            .graph_input()
            .map_or(0, |(_, _, degree)| u64::from(degree));
        let draws = target.vertices * degree;
        let bytes = sized.map_or(object.bytes, |known| known.size(target.vertices, target.edges, draws));
        let mean_list = |info: &GraphInfo| info.edges as f64 / info.vertices as f64 * (1.0 + info.degree_cv2);
        let skew = match object.layout {
            Layout::Positional => 1.0,
            Layout::Lists => mean_list(target) / mean_list(graph),
            Layout::Vertices => vertex_skew(profile, number, scale),
        };
        let bins = bin_count(page_count(object), bytes.div_ceil(page_bytes));
        Self {
            bytes,
            bins,
            skew,
            curve: AggregationCurve::default(),
            luck: 1.0,
            before: vec![0.0; page_count(object) as usize],
            after: vec![0.0; bins as usize],
            unreached: 0.0,
        }
    }

    /// The squared variation between pages that this stream has at the target.
    pub fn target_variation(&self, object: &ObjectInfo, stream: &Stream, page_bytes: u64) -> f64 {
        let recorded = variation(&stream.pages);
        let page_factor = page_bytes as f64 / PAGE_BYTES as f64;
        let together = page_factor / self.skew;
        if object.layout == Layout::Vertices {
            // Ids are permuted, so pages average independent elements. Counting noise does not grow with skew.
            let noise = stream.pages.len() as f64 / stream.weight;
            let excess = (recorded - noise).max(0.0);
            return excess * self.luck / together + recorded.min(noise) / page_factor;
        }
        // No page can be read more than whole: with a share f of all lines read, variation ends at 1/f - 1.
        let lines = stream.pages.len() as f64 * (PAGE_BYTES / LINE_BYTES) as f64;
        let whole = (lines / stream.weight - 1.0).max(recorded);
        // Finer than recorded (less than one page together) the recorded weights are kept: sharpening slice by slice would
        // change how often a page is read over the whole run.
        (recorded * self.curve.ratio(together.max(1.0))).min(whole)
    }
}

/// How much more single elements of a vertex array vary at the target, as far as memory sees them.
///
/// The law of the generator and a model of the cache give the growth for accesses in proportion to degree. Real accesses
/// follow degrees more or less closely; how closely is measured, as a power, between the recorded and the smaller graph.
fn vertex_skew(profile: &Profile, number: usize, scale: u32) -> f64 {
    let metadata = &profile.metadata;
    let object = &metadata.objects[number];
    let (Some(smaller), Some((GraphKind::Kron, recorded, degree))) =
        (&metadata.smaller, metadata.request.graph_input())
    else {
        // Uniform graphs have the same variation at every size.
        return 1.0;
    };
    if scale == recorded {
        return 1.0;
    }
    let columns = &profile.columns;
    let reads: u64 = (0..columns.len())
        .filter(|row| columns.object[*row] as usize == number)
        .map(|row| u64::from(columns.reads[row]))
        .sum();
    // Objects hold the last-level cache in proportion to what they bring into it.
    let held = metadata.llc_bytes as f64 * reads as f64 / metadata.total_reads.max(1) as f64;
    let share = (held / object.bytes as f64).min(0.95);
    let per_line = LINE_BYTES as u32 / object.element_bytes;
    let model = |scale: u32| filtered_line_cv2(scale, degree, per_line, share);
    let here = model(recorded);
    let modelled = (here / model(smaller.scale)).ln();
    let measured = object.skew_growth.ln() * f64::from(recorded - smaller.scale);
    let factor = (model(scale) / here).powf((measured / modelled).clamp(0.0, MOST_CLOSENESS));
    // Where the cache holds nearly everything, nothing is left to vary.
    if factor.is_finite() && factor > 0.0 {
        factor
    } else {
        1.0
    }
}

/// The hubs of one permutation fall on a few hundred recorded pages as luck has it; the variation between the lines of
/// the object, divided by the lines of a page, says what to expect of other permutations.
pub fn luck(object: &ObjectInfo, number: usize, streams: &[Stream]) -> f64 {
    let Some(line_cv2) = object.line_cv2 else { return 1.0 };
    let mut pages = vec![0.0; page_count(object) as usize];
    for stream in streams
        .iter()
        .filter(|stream| stream.object == number && reshaped(object, stream))
    {
        for (sum, value) in pages.iter_mut().zip(&stream.pages) {
            *sum += value;
        }
    }
    let found = variation(&pages);
    let expected = line_cv2 / (PAGE_BYTES / LINE_BYTES) as f64;
    if found > 0.0 { expected / found } else { 1.0 }
}

/// Target over recorded.
pub fn factor_of(recorded: u64, target: u64) -> f64 {
    target as f64 / recorded as f64
}
