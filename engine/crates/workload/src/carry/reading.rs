//! Reading a serialized graph as slices of work: what GAPBS' programs do with `-f` before the part that they time
//! (`ReadSerializedGraph` in src/reader.h, `GenIndex` in src/graph.h).

use tiertune_policy::registry::PAGE_2M;

use super::{ReplayObject, ReplaySlice, ReplayStream};
use crate::cache::LINE_BYTES;
use crate::class::AccessClass;

/// Slices of one pass through an array.
const PARTS: u32 = 32;

/// What one thread takes for a line of a file in the page cache, beside first touches. Measured with GAPBS' `-f` (Kronecker graph of
/// scale 23, Zen 4, Linux 6.18 in a virtual machine). It is 9.5 ns where source and target lie alike within their pages, which the
/// file's header of 17 bytes prevents.
const COPY_NS_PER_LINE: f64 = 35.0;

/// First touch of a page, the zeroing included, spread over its lines; measured in the same place.
const SMALL_PAGE_TOUCH_NS_PER_LINE: f64 = 44.0;
const HUGE_PAGE_TOUCH_NS_PER_LINE: f64 = 8.0;

/// Computing for an entry of the index, measured in the same place with all in the private caches.
const INDEX_NS_PER_VERTEX: f64 = 0.6;

/// Bytes of an offset, and of an entry of the index.
const ENTRY_BYTES: f64 = 8.0;

/// Nominal: allocating takes no time, but a slice has to.
const ALLOCATION_NS: f64 = 1.0;

/// A graph whose arrays have these places among the objects.
pub(super) struct Reading<'a> {
    pub objects: &'a [ReplayObject],
    pub offsets: usize,
    pub neighbours: usize,
    pub index: usize,
}

/// Parts of an array that is there while the graph is read, and only then.
pub(super) fn bins(bytes: u64, page_bytes: u64) -> u32 {
    bytes.div_ceil(page_bytes).clamp(1, u64::from(PARTS)) as u32
}

impl Reading<'_> {
    /// Offsets and neighbours are read, the index is made, the offsets go, and the arrays of the run come, those that are
    /// there `at_start`.
    pub(super) fn slices(&self, at_start: impl Fn(usize) -> bool, page_bytes: u64) -> Vec<ReplaySlice> {
        let graph = [self.offsets, self.neighbours, self.index];
        let of_run = (0..self.objects.len()).filter(|number| !graph.contains(number) && at_start(*number));
        let mut slices = self.read(self.offsets, page_bytes);
        slices.extend(allocating(self.neighbours, self.read(self.neighbours, page_bytes)));
        slices.extend(allocating(self.index, self.indexed()));
        slices.push(ReplaySlice {
            free: vec![self.offsets],
            allocate: of_run.collect(),
            ..slice("allocate", 1.0, ALLOCATION_NS, Vec::new())
        });
        slices
    }

    /// The kernel copies a file into an array, line by line, for the one thread that calls it. Samplers leave out what the
    /// kernel does, so that its stores are not counted; the bits of the page table tell of them.
    fn read(&self, array: usize, page_bytes: u64) -> Vec<ReplaySlice> {
        let lines = self.objects[array].bytes as f64 / LINE_BYTES as f64;
        let touch_ns = if page_bytes < PAGE_2M {
            SMALL_PAGE_TOUCH_NS_PER_LINE
        } else {
            HUGE_PAGE_TOUCH_NS_PER_LINE
        };
        let part = |nth| {
            let written = ReplayStream {
                writebacks_per_op: 1.0,
                first_touch: true,
                ..self.pass(array, nth)
            };
            ReplaySlice {
                one_thread: true,
                ..slice(
                    "read",
                    lines / f64::from(PARTS),
                    COPY_NS_PER_LINE + touch_ns,
                    vec![written],
                )
            }
        };
        (0..PARTS).map(part).collect()
    }

    /// All threads turn offsets into places, in order.
    fn indexed(&self) -> Vec<ReplaySlice> {
        let lines = ENTRY_BYTES / LINE_BYTES as f64;
        let vertices = self.objects[self.offsets].bytes as f64 / ENTRY_BYTES;
        let part = |nth| {
            let read = ReplayStream {
                reads_per_op: lines,
                ..self.pass(self.offsets, nth)
            };
            // A line is fetched before it is written, which is no load.
            let written = ReplayStream {
                reads_per_op: lines,
                prefetched_share: 1.0,
                writebacks_per_op: lines,
                stores_per_op: 1.0,
                first_touch: true,
                ..self.pass(self.index, nth)
            };
            slice(
                "index",
                vertices / f64::from(PARTS),
                INDEX_NS_PER_VERTEX,
                vec![read, written],
            )
        };
        (0..PARTS).map(part).collect()
    }

    /// A pass through the `nth` part of an array.
    fn pass(&self, array: usize, nth: u32) -> ReplayStream {
        let bins = self.objects[array].bins;
        let edge = |nth: u32| f64::from(nth) / f64::from(PARTS) * f64::from(bins);
        let (from, to) = (edge(nth), edge(nth + 1));
        let inside = |bin: u32| (to.min(f64::from(bin + 1)) - from.max(f64::from(bin))).max(0.0);
        ReplayStream {
            object: array,
            class: AccessClass::Stream,
            reads_per_op: 0.0,
            prefetched_share: AccessClass::Stream.prefetched_share(),
            random_share: 0.0,
            writebacks_per_op: 0.0,
            stores_per_op: 0.0,
            llc_hits_per_op: 0.0,
            weights: (0..bins).map(|bin| (inside(bin) / (to - from)) as f32).collect(),
            partitioned: false,
            first_touch: false,
        }
    }
}

/// Slices with the first of which an array comes.
fn allocating(array: usize, mut slices: Vec<ReplaySlice>) -> Vec<ReplaySlice> {
    slices[0].allocate.push(array);
    slices
}

fn slice(phase: &str, ops: f64, cpu_ns_per_op: f64, streams: Vec<ReplayStream>) -> ReplaySlice {
    ReplaySlice {
        phase: phase.to_owned(),
        ops,
        cpu_ns_per_op,
        locked_per_op: 0.0,
        locked_lookups_per_op: 0.0,
        one_thread: false,
        free: Vec::new(),
        allocate: Vec::new(),
        streams,
    }
}
