//! The recording accessor: filters accesses through the cache model and counts what is left, page by page.

use crate::cache::{CacheModel, LINE_BYTES, LINE_LIMIT, Writeback};
use crate::class::AccessClass;
use crate::memory::{Layout, Memory, ObjectId, ObjectSpec, Phase};
use crate::profile::{AllocationEvent, Columns, ObjectInfo, PAGE_BYTES, SliceInfo};

const LINES_PER_PAGE: u32 = (PAGE_BYTES / LINE_BYTES) as u32;
const CLASSES: usize = AccessClass::ALL.len();
const NO_LINE: u32 = u32::MAX;
/// Lines that a medium with blocks of 256 bytes, as Optane's, reads or writes at once.
const LINES_PER_BLOCK: u32 = 4;
/// Blocks of an object whose other lines are still at hand: 64 of 256 bytes, what a module of Optane buffers (16 KiB).
/// What goes to other objects meanwhile does not push them out: it may well be in another tier.
const BUFFERED_BLOCKS: usize = 64;

/// What one page saw from one class within the current slice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cell {
    reads: u32,
    prefetched: u32,
    writebacks: u32,
    stores: u32,
    touches: u32,
}

/// What operations that were passed over are taken to have done.
#[derive(Debug, Default)]
struct PassedOver {
    reads: u64,
    writebacks: u64,
}

/// Locked instructions of a slice, and what has happened since the last one.
#[derive(Debug, Default)]
struct Locked {
    all: u64,
    behind_miss: u64,
    behind_lookup: u64,
    missed: bool,
    looked_up: bool,
}

/// Lines fetched, and how many of them lay in a block that had not been begun shortly before.
#[derive(Debug, Clone, Copy, Default)]
struct Fetched {
    lines: u64,
    blocks: u64,
}

impl Fetched {
    /// Share of lines that come alone: all where each begins a block, none where all lines of a block follow.
    fn random_share(self) -> f64 {
        let whole = self.lines as f64 / f64::from(LINES_PER_BLOCK);
        let share = (self.blocks as f64 - whole) / (self.lines as f64 - whole);
        if self.lines > 0 { share.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// A line and whether it was stored to.
#[derive(Debug, Clone, Copy)]
struct LastLine {
    line: u32,
    dirty: bool,
}

/// An object as the recorder sees it.
#[derive(Debug)]
struct Object {
    spec: ObjectSpec,
    first_line: u32,
    /// The lines touched last, by streams and by all other classes: what the first-level cache always keeps of a
    /// stream, however small the modelled caches are scaled.
    last: [LastLine; 2],
    /// Read counts of each line over the whole run, streams left out; empty unless laid out by vertices.
    line_reads: Vec<u32>,
    /// Lines fetched and blocks begun by them, by class.
    fetched: [Fetched; CLASSES],
    /// Blocks begun last, each at the place that its number has modulo their count.
    blocks: [u32; BUFFERED_BLOCKS],
    /// When the object was first touched, as a running number.
    touched: Option<u32>,
    freed: bool,
}

/// A [`Memory`] that records.
#[derive(Debug)]
pub struct Recorder {
    cache: CacheModel,
    objects: Vec<Object>,
    /// Cells of all pages, class by class, so that a class's cells lie together.
    cells: Vec<Cell>,
    pages: usize,
    /// Pages for which there are cells; above `pages` where objects came during the run.
    cell_pages: usize,
    ops_per_slice: u64,
    /// Operations of a slice that are looked at in a stationary phase; the others do the same on the average.
    ops_per_window: u64,
    phase: Option<Phase>,
    ops: u64,
    /// Operations of the slice that were looked at.
    seen_ops: u64,
    skipping: bool,
    passed_over: PassedOver,
    /// Slices of the phase so far.
    phase_slices: u64,
    accesses: u64,
    /// Locked instructions of the slice that were looked at.
    locked: Locked,
    touched_objects: u32,
    slices: Vec<SliceInfo>,
    events: Vec<AllocationEvent>,
    columns: Columns,
}

/// What a finished recording holds.
#[derive(Debug)]
pub struct Recording {
    /// Objects in allocation order; `skew_growth` is left at 1.
    pub objects: Vec<ObjectInfo>,
    /// Allocations and frees after the first phase began.
    pub events: Vec<AllocationEvent>,
    /// Slices in order.
    pub slices: Vec<SliceInfo>,
    /// Rows.
    pub columns: Columns,
    /// Last-level cache as modelled, in bytes.
    pub llc_bytes: u64,
    /// Lines fetched: as the cache model counted them, those of operations that were passed over added.
    pub total_reads: u64,
    /// Lines written back, likewise.
    pub total_writebacks: u64,
}

impl Recorder {
    /// A recorder with the given last-level cache that starts a new slice after `ops_per_slice` operations.
    #[must_use]
    pub fn new(llc_bytes: u64, ops_per_slice: u64) -> Self {
        Self {
            cache: CacheModel::new(llc_bytes),
            objects: Vec::new(),
            cells: Vec::new(),
            pages: 0,
            cell_pages: 0,
            ops_per_slice: ops_per_slice.max(1),
            ops_per_window: u64::MAX,
            phase: None,
            ops: 0,
            seen_ops: 0,
            skipping: false,
            passed_over: PassedOver::default(),
            phase_slices: 0,
            accesses: 0,
            locked: Locked::default(),
            touched_objects: 0,
            slices: Vec::new(),
            events: Vec::new(),
            columns: Columns::default(),
        }
    }

    /// The same, but of stationary phases only `share` of each slice is looked at: a window at its start, for which the
    /// rest stands. Their operations are all alike, so the cache is in a state that fits when the next window begins. The
    /// first slice of a phase is looked at as a whole, since the cache is filled in it.
    #[must_use]
    pub fn windowed(self, share: f64) -> Self {
        let ops_per_window = match share < 1.0 {
            true => ((self.ops_per_slice as f64 * share) as u64).max(1),
            false => u64::MAX,
        };
        Self { ops_per_window, ..self }
    }

    /// Ends the last slice and hands out what was recorded.
    #[must_use]
    pub fn finish(mut self) -> Recording {
        self.cut();
        // Built objects come first, in allocation order; objects never touched come last.
        let mut order: Vec<usize> = (0..self.objects.len()).collect();
        order.sort_by_key(|index| {
            let object = &self.objects[*index];
            (
                !object.spec.built,
                if object.spec.built {
                    0
                } else {
                    object.touched.unwrap_or(u32::MAX)
                },
                *index,
            )
        });
        let mut touch_order = vec![0; order.len()];
        for (rank, index) in order.iter().enumerate() {
            touch_order[*index] = rank as u32;
        }
        let objects = self
            .objects
            .iter()
            .zip(touch_order)
            .map(|(object, touch_order)| ObjectInfo {
                name: object.spec.name.to_owned(),
                bytes: object.spec.bytes,
                element_bytes: object.spec.element_bytes,
                layout: object.spec.layout,
                sweeps: object.spec.sweeps,
                touch_order,
                line_cv2: variation(&object.line_reads),
                skew_growth: 1.0,
                partitioned: object.spec.partitioned,
                random_share: Some(object.fetched.map(Fetched::random_share)),
            });
        Recording {
            objects: objects.collect(),
            events: self.events,
            slices: self.slices,
            llc_bytes: self.cache.llc_bytes(),
            total_reads: self.cache.fetched() + self.passed_over.reads,
            total_writebacks: self.cache.written_back() + self.passed_over.writebacks,
            columns: self.columns,
        }
    }

    /// Makes cells for all pages; what the current slice counted stays.
    fn reserve(&mut self) {
        if self.pages <= self.cell_pages {
            return;
        }
        let before = self.cell_pages;
        // Objects that come during the run come in numbers, so there is room for more.
        self.cell_pages = if self.phase.is_some() {
            self.pages * 2
        } else {
            self.pages
        };
        let mut cells = vec![Cell::default(); self.cell_pages * CLASSES];
        for class in 0..CLASSES {
            let (from, to) = (class * before, class * self.cell_pages);
            cells[to..to + before].copy_from_slice(&self.cells[from..from + before]);
        }
        self.cells = cells;
    }

    /// Notes that an object came or went during the run.
    fn event(&mut self, number: usize, freed: bool) {
        if self.phase.is_some() {
            self.events.push(AllocationEvent {
                object: self.objects[number].spec.name.to_owned(),
                number: number as u16,
                bytes: self.objects[number].spec.bytes,
                slice: self.slices.len() as u32,
                ops: self.ops,
                freed,
            });
        }
    }

    /// Ends the current slice; does nothing when nothing happened in it.
    fn cut(&mut self) {
        let Some(phase) = &self.phase else { return };
        if self.ops == 0 && self.accesses == 0 {
            return;
        }
        let slice = self.slices.len() as u32;
        // 1 where everything was looked at, also where something happened and no operation was done.
        let stands_for = if self.skipping {
            self.ops as f64 / self.seen_ops as f64
        } else {
            1.0
        };
        for (number, object) in self.objects.iter().enumerate() {
            let first_page = (object.first_line / LINES_PER_PAGE) as usize;
            let pages = object.spec.bytes.div_ceil(PAGE_BYTES) as usize;
            for class in 0..CLASSES {
                let start = class * self.cell_pages + first_page;
                for (page, cell) in self.cells[start..start + pages].iter_mut().enumerate() {
                    if *cell == Cell::default() {
                        continue;
                    }
                    self.columns.slice.push(slice);
                    self.columns.object.push(number as u16);
                    self.columns.class.push(class as u8);
                    self.columns.page.push(page as u32);
                    let all = |count: u32| (f64::from(count) * stands_for).round() as u32;
                    self.passed_over.reads += u64::from(all(cell.reads) - cell.reads);
                    self.passed_over.writebacks += u64::from(all(cell.writebacks) - cell.writebacks);
                    self.columns.reads.push(all(cell.reads));
                    self.columns.prefetched.push(all(cell.prefetched));
                    self.columns.writebacks.push(all(cell.writebacks));
                    self.columns.stores.push(all(cell.stores));
                    self.columns.touches.push(all(cell.touches));
                    *cell = Cell::default();
                }
            }
        }
        let all = |count: u64| (count as f64 * stands_for).round() as u64;
        self.slices.push(SliceInfo {
            phase: phase.name.clone(),
            unit: phase.unit,
            ops: self.ops,
            cpu_ns_per_op: match phase.by_access {
                true => phase.cpu_ns * self.accesses as f64 / self.ops.max(1) as f64,
                false => phase.cpu_ns,
            },
            accesses: self.accesses,
            locked: all(self.locked.all),
            locked_behind_miss: all(self.locked.behind_miss),
            locked_behind_lookup: all(self.locked.behind_lookup),
            stationary: phase.stationary,
            by_access: phase.by_access,
        });
        self.ops = 0;
        self.seen_ops = 0;
        self.skipping = false;
        self.phase_slices += 1;
        self.accesses = 0;
        self.locked = Locked::default();
    }

    #[inline(always)]
    fn cell(&mut self, line: u32, class: AccessClass) -> &mut Cell {
        &mut self.cells[class as usize * self.cell_pages + (line / LINES_PER_PAGE) as usize]
    }

    /// An access to another line than the object's last one (or the first store to that).
    fn reach_caches(&mut self, number: usize, line: u32, store: bool, class: AccessClass) {
        let object = &mut self.objects[number];
        object.last[usize::from(class == AccessClass::Stream)] = LastLine { line, dirty: store };
        if self.cache.private_hit(line, store, class) {
            return;
        }
        if object.touched.is_none() {
            object.touched = Some(self.touched_objects);
            self.touched_objects += 1;
        }
        let outcome = self.cache.fill(line, store, class);
        if outcome.fetched {
            let block = line / LINES_PER_BLOCK;
            let buffered = &mut object.blocks[block as usize % BUFFERED_BLOCKS];
            let fetched = &mut object.fetched[class as usize];
            fetched.lines += 1;
            fetched.blocks += u64::from(*buffered != block);
            *buffered = block;
        }
        self.locked.missed |= outcome.fetched && !store && class.independent();
        self.locked.looked_up |= class == AccessClass::Lookup;
        if outcome.fetched && class != AccessClass::Stream && !object.line_reads.is_empty() {
            object.line_reads[(line - object.first_line) as usize] += 1;
        }
        // The stream prefetcher does not cross a page, so the first line of each is a demand miss. Lines fetched
        // for a store are not load misses either.
        let hidden = store || (class == AccessClass::Stream && line % LINES_PER_PAGE != 0);
        let cell = self.cell(line, class);
        cell.touches += 1;
        cell.reads += u32::from(outcome.fetched);
        cell.prefetched += u32::from(outcome.fetched && hidden);
        for Writeback { line, class } in outcome.writebacks.into_iter().flatten() {
            self.cell(line, AccessClass::ALL[class as usize]).writebacks += 1;
        }
    }
}

impl Memory for Recorder {
    const ADDRESSES_ONLY: bool = true;

    fn allocate(&mut self, spec: &ObjectSpec) -> ObjectId {
        // As a kernel does, what comes again goes where it was.
        let same = |object: &Object| object.freed && object.spec.name == spec.name && object.spec.bytes == spec.bytes;
        if let Some(number) = self.objects.iter().position(same) {
            self.objects[number].freed = false;
            self.event(number, false);
            return ObjectId(number as u16);
        }
        let number = self.objects.len();
        let pages = spec.bytes.div_ceil(PAGE_BYTES) as usize;
        let first_line = self.pages as u32 * LINES_PER_PAGE;
        assert!(
            (self.pages + pages) as u64 * u64::from(LINES_PER_PAGE) < u64::from(LINE_LIMIT),
            "the recorder addresses 16 GiB; requests above are refused before"
        );
        self.pages += pages;
        self.reserve();
        let counted = if spec.layout == Layout::Vertices {
            spec.bytes.div_ceil(LINE_BYTES) as usize
        } else {
            0
        };
        self.objects.push(Object {
            spec: spec.clone(),
            first_line,
            last: [LastLine {
                line: NO_LINE,
                dirty: false,
            }; 2],
            line_reads: vec![0; counted],
            fetched: [Fetched::default(); CLASSES],
            blocks: [NO_LINE; BUFFERED_BLOCKS],
            touched: None,
            freed: false,
        });
        self.event(number, false);
        ObjectId(number as u16)
    }

    fn free(&mut self, object: ObjectId) {
        self.objects[object.0 as usize].freed = true;
        self.event(object.0 as usize, true);
    }

    #[inline(always)]
    fn load(&mut self, object: ObjectId, offset: usize, class: AccessClass) {
        self.accesses += 1;
        if self.skipping {
            return;
        }
        let number = object.0 as usize;
        let object = &self.objects[number];
        let line = object.first_line + (offset as u64 / LINE_BYTES) as u32;
        if object.last[usize::from(class == AccessClass::Stream)].line != line {
            self.reach_caches(number, line, false, class);
        }
    }

    #[inline(always)]
    fn store(&mut self, object: ObjectId, offset: usize, class: AccessClass) {
        self.accesses += 1;
        if self.skipping {
            return;
        }
        let number = object.0 as usize;
        let object = &self.objects[number];
        let line = object.first_line + (offset as u64 / LINE_BYTES) as u32;
        let last = object.last[usize::from(class == AccessClass::Stream)];
        let same = last.line == line && last.dirty;
        self.cell(line, class).stores += 1;
        if !same {
            self.reach_caches(number, line, true, class);
        }
    }

    #[inline(always)]
    fn locked(&mut self) {
        if !self.skipping {
            let locked = &mut self.locked;
            locked.all += 1;
            locked.behind_miss += u64::from(std::mem::take(&mut locked.missed));
            locked.behind_lookup += u64::from(std::mem::take(&mut locked.looked_up));
        }
    }

    fn phase(&mut self, phase: Phase) {
        self.cut();
        self.phase = Some(phase);
        self.phase_slices = 0;
    }

    #[inline(always)]
    fn ops(&mut self, count: u64) {
        self.ops += count;
        if !self.skipping {
            self.seen_ops = self.ops;
            self.skipping = self.ops >= self.ops_per_window
                && self.phase_slices > 0
                && self
                    .phase
                    .as_ref()
                    .is_some_and(|phase| phase.stationary && phase.divisible);
        }
        if self.ops >= self.ops_per_slice && self.phase.as_ref().is_some_and(|phase| phase.divisible) {
            self.cut();
        }
    }
}

/// Squared coefficient of variation; `None` without counts or when all are 0.
fn variation(counts: &[u32]) -> Option<f64> {
    let n = counts.len() as f64;
    let mean = counts.iter().map(|count| f64::from(*count)).sum::<f64>() / n;
    if counts.is_empty() || mean == 0.0 {
        return None;
    }
    let variance = counts
        .iter()
        .map(|count| (f64::from(*count) - mean).powi(2))
        .sum::<f64>()
        / n;
    Some(variance / (mean * mean))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Unit;

    /// Eight lines of cache, one slice.
    fn recorder() -> (Recorder, ObjectId) {
        let mut recorder = Recorder::new(512, u64::MAX);
        let object = recorder.allocate(&ObjectSpec::new("o", 1 << 20, 8));
        recorder.phase(Phase::new("p", Unit::Operations, 1.0));
        (recorder, object)
    }

    #[test]
    fn locked_instructions_wait_for_what_missed_since_the_last_one() {
        let (mut recorder, object) = recorder();
        recorder.load(object, 0, AccessClass::Gather);
        recorder.load(object, 8192, AccessClass::Gather);
        recorder.locked();
        // The line is there.
        recorder.load(object, 8192, AccessClass::Gather);
        recorder.locked();
        // Fetched ahead.
        recorder.load(object, 16_384, AccessClass::Stream);
        recorder.locked();
        recorder.load(object, 65_536, AccessClass::Lookup);
        recorder.locked();
        recorder.locked();
        recorder.ops(1);
        let slice = &recorder.finish().slices[0];
        assert_eq!(
            (slice.locked, slice.locked_behind_miss, slice.locked_behind_lookup),
            (5, 1, 1)
        );
    }

    /// Blocks 0 and 100 are kept side by side, 0 and 64 have the same place.
    #[test]
    fn lines_come_alone_where_none_beside_them_follow() {
        let share = |lines: &[usize]| {
            let (mut recorder, object) = recorder();
            for line in lines {
                recorder.load(object, line * 64, AccessClass::Random);
            }
            recorder.ops(1);
            recorder.finish().objects[0].random_share(AccessClass::Random)
        };
        let third = 1.0 / 3.0;
        assert_eq!(share(&[0, 1, 2, 3, 8, 9, 10, 11]), 0.0);
        assert_eq!(share(&[0, 4, 8, 12]), 1.0);
        assert!((share(&[0, 1, 8, 9, 16, 17]) - third).abs() < 1e-9);
        assert_eq!(share(&[0, 400, 1, 401, 2, 402, 3, 403]), 0.0);
        assert_eq!(share(&[0, 256, 1, 257, 2, 258, 3, 259]), 1.0);
    }

    #[test]
    fn what_is_allocated_again_is_the_same_object() {
        let (mut recorder, _) = recorder();
        let spec = ObjectSpec::new("t", 4096, 8);
        let first = recorder.allocate(&spec);
        let beside = recorder.allocate(&spec);
        recorder.free(first);
        assert_eq!(recorder.allocate(&spec), first);
        recorder.free(beside);
        let larger = ObjectSpec::new("t", 8192, 8);
        assert!(![first, beside].contains(&recorder.allocate(&larger)));
        let events = recorder.finish().events;
        let found: Vec<_> = events.iter().map(|event| (event.number, event.freed)).collect();
        let expected = [(1, false), (2, false), (1, true), (1, false), (2, true), (3, false)];
        assert_eq!(found, expected);
    }
}
