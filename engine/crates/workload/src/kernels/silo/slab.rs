//! Elements of equal size from one size class of an allocator, in the order in which they were first needed.

use std::ops::Range;

use crate::kernels::prelude::*;

/// Extents that the expected size is cut into, so that objects which grow side by side lie side by side in the order of
/// first touch.
const EXTENTS: usize = 16;
/// Fewest elements of an extent.
const LEAST_EXTENT: usize = 64;

/// One stretch of memory that holds the same number of elements as the others (the last may be shorter).
#[derive(Debug)]
struct Extent {
    id: ObjectId,
    elements: usize,
    data: Vec<AtomicU64>,
}

/// Fixed-size elements of 8-byte words that threads share; extents are allocated as the slab fills.
#[derive(Debug)]
pub struct Slab {
    spec: ObjectSpec,
    words: usize,
    shift: u32,
    expected: usize,
    extents: Vec<Extent>,
    capacity: usize,
    used: AtomicUsize,
}

impl Slab {
    /// An empty slab of elements of `words` words, expected to hold so many when loaded and so many more after the run.
    #[must_use]
    pub fn new(spec: ObjectSpec, words: usize, loaded: usize, growth: usize) -> Self {
        let extent = (loaded + growth).div_ceil(EXTENTS).max(LEAST_EXTENT);
        Self {
            words,
            shift: extent.next_power_of_two().trailing_zeros(),
            expected: loaded,
            spec,
            extents: Vec::new(),
            capacity: 0,
            used: AtomicUsize::new(0),
        }
    }

    /// Elements handed out so far.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Makes room for `count` elements more than are used.
    pub fn reserve<M: Memory>(&mut self, memory: &mut M, count: usize) {
        while self.capacity < self.used() + count {
            let full = 1 << self.shift;
            let last = self.extents.last().map_or(full, |extent| extent.elements);
            if last < full {
                // The short last extent is left as it is; numbering goes on with the next.
                self.used.store(self.extents.len() << self.shift, Relaxed);
            }
            let start = self.extents.len() << self.shift;
            // What was expected is met exactly; beyond it whole extents come.
            let elements = match self.expected.saturating_sub(start) {
                0 => full,
                missing => missing.min(full),
            };
            let spec = ObjectSpec {
                bytes: (elements * self.words * 8) as u64,
                ..self.spec.clone()
            };
            let id = memory.allocate(&spec);
            // The allocator notes in an extent what it is for.
            memory.store(id, 0, AccessClass::Update);
            self.extents.push(Extent {
                id,
                elements,
                data: (0..elements * self.words).map(|_| AtomicU64::new(0)).collect(),
            });
            self.capacity = start + elements;
        }
    }

    /// What comes from now on comes during the run; so many elements are expected.
    pub fn start(&mut self, growth: usize) {
        self.spec.built = false;
        self.expected = (self.extents.len() << self.shift) + growth;
    }

    /// The number of a new element, all of whose words are 0.
    ///
    /// # Panics
    /// When there is no room left: whoever uses the slab reserves enough.
    pub fn take(&self) -> u64 {
        let element = self.used.fetch_add(1, Relaxed);
        assert!(element < self.capacity, "{} is full", self.spec.name);
        element as u64
    }

    #[inline(always)]
    fn place(&self, element: u64) -> (&Extent, usize) {
        let element = element as usize;
        let extent = &self.extents[element >> self.shift];
        (extent, (element & ((1 << self.shift) - 1)) * self.words)
    }

    /// A word of an element.
    #[inline(always)]
    #[must_use]
    pub fn word(&self, element: u64, word: usize) -> &AtomicU64 {
        let (extent, base) = self.place(element);
        &extent.data[base + word]
    }

    /// The words of an element.
    #[inline(always)]
    #[must_use]
    pub fn words(&self, element: u64) -> &[AtomicU64] {
        let (extent, base) = self.place(element);
        &extent.data[base..base + self.words]
    }

    /// Announces loads of the lines of some words, the first as `first`, the others as independent of each other:
    /// their addresses are known at the same time.
    #[inline(always)]
    pub fn announce_load<M: Memory>(&self, memory: &mut M, element: u64, words: Range<usize>, first: AccessClass) {
        let (extent, base) = self.place(element);
        let start = (base + words.start) * 8;
        memory.load(extent.id, start, first);
        let next = (start / 64 + 1) * 64;
        let end = (base + words.end) * 8;
        if end > next {
            memory.load_lines(extent.id, next, end - next, AccessClass::Random);
        }
    }

    /// Announces that an element is read, or overwritten, from word `first` to its end in address order.
    #[inline(always)]
    pub fn announce_stream<M: Memory>(&self, memory: &mut M, element: u64, first: usize, store: bool) {
        let (extent, base) = self.place(element);
        let (offset, bytes) = ((base + first) * 8, (self.words - first) * 8);
        if store {
            memory.store_lines(extent.id, offset, bytes, AccessClass::Stream);
        } else {
            memory.load_lines(extent.id, offset, bytes, AccessClass::Stream);
        }
    }

    /// Announces stores to some words.
    #[inline(always)]
    pub fn announce_store<M: Memory>(&self, memory: &mut M, element: u64, words: Range<usize>) {
        let (extent, base) = self.place(element);
        memory.store_lines(
            extent.id,
            (base + words.start) * 8,
            words.len() * 8,
            AccessClass::Update,
        );
    }
}
