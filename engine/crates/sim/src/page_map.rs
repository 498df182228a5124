//! Which pages are read and which are in fast memory, at moments of a run: for pictures, not for figures.
//!
//! Pages are taken in the order of the workload's laws, object after object, so that pages that are alike stand
//! together, and are put into equal bins. Only counts of pieces are read: a moment costs the same whatever the page
//! size, and the run is not changed by being looked at.

use serde::{Deserialize, Serialize};

use crate::memory::Memory;
use crate::workload::Workload;

/// How much of a page map is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageMapRequest {
    /// Bins over all pages, at least one.
    pub bins: usize,
    /// Moments, at most. They are at ends of slices: far apart where nothing happens that a policy would see.
    pub moments: usize,
}

/// The map of a run: a row a moment, a column a bin.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PageMap {
    /// Pages in each bin; bins on a border between pieces have a share of both.
    pub pages: Vec<f64>,
    /// Name of each object and the bin that it begins in.
    pub objects: Vec<(String, usize)>,
    /// When, from the start of the run.
    pub time_s: Vec<f64>,
    /// Reads that reach memory, per second, at that moment.
    pub reads_per_s: Vec<Vec<f32>>,
    /// Share of the bin's pages that are in the fast tier.
    pub fast_share: Vec<Vec<f32>>,
}

/// Reads per second of one page, by object and piece.
pub type Heat = Vec<Vec<f64>>;

/// Takes moments of a run: evenly spaced, and twice as far apart whenever there are too many.
#[derive(Debug, Default)]
pub struct Recorder {
    moments: usize,
    every_ns: u64,
    next_ns: u64,
    /// Bins and pages in them, by object and piece.
    places: Vec<Vec<Vec<(usize, f64)>>>,
    map: PageMap,
}

/// Moments are this far apart at first.
const FIRST_NS: u64 = 1_000_000;

impl Recorder {
    /// Takes nothing where nothing was asked for.
    #[must_use]
    pub fn new(request: Option<PageMapRequest>, workload: &Workload) -> Self {
        let Some(request) = request.filter(|r| r.bins > 0 && r.moments > 0) else {
            return Self::default();
        };
        let all: u64 = workload.objects.iter().map(|o| u64::from(o.pages)).sum();
        let bin_of = |page: f64| ((page * request.bins as f64 / all as f64) as usize).min(request.bins - 1);
        let mut map = PageMap {
            pages: vec![0.0; request.bins],
            ..PageMap::default()
        };
        let mut places = Vec::with_capacity(workload.objects.len());
        let mut before = 0.0;
        for object in &workload.objects {
            map.objects.push((object.name.clone(), bin_of(before)));
            let pieces = object.edges.windows(2).map(|edge| {
                let (start, end) = (before + f64::from(edge[0]), before + f64::from(edge[1]));
                let width = all as f64 / request.bins as f64;
                let mut parts = Vec::new();
                for bin in bin_of(start)..=bin_of(end) {
                    let upper = if bin + 1 == request.bins {
                        end
                    } else {
                        (bin + 1) as f64 * width
                    };
                    let pages = end.min(upper) - start.max(bin as f64 * width);
                    if pages > 0.0 {
                        map.pages[bin] += pages;
                        parts.push((bin, pages));
                    }
                }
                parts
            });
            places.push(pieces.collect());
            before += f64::from(object.pages);
        }
        Self {
            moments: request.moments,
            every_ns: FIRST_NS,
            next_ns: FIRST_NS,
            places,
            map,
        }
    }

    /// Whether a moment is to be taken at `now_ns`.
    #[must_use]
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.moments > 0 && now_ns >= self.next_ns
    }

    /// Takes a moment.
    pub fn take(&mut self, now_ns: u64, heat: &Heat, memory: &Memory) {
        let bins = self.map.pages.len();
        let (mut reads, mut fast) = (vec![0.0; bins], vec![0.0; bins]);
        for (object, pieces) in self.places.iter().enumerate() {
            let in_fast = memory.piece_pages(object, 0);
            for (piece, parts) in pieces.iter().enumerate() {
                let pages: f64 = parts.iter().map(|(_, pages)| pages).sum();
                for (bin, part) in parts {
                    reads[*bin] += heat[object][piece] * part;
                    fast[*bin] += f64::from(in_fast[piece]) * part / pages;
                }
            }
        }
        let share = |(fast, pages): (f64, &f64)| if *pages > 0.0 { (fast / pages) as f32 } else { 0.0 };
        self.map.time_s.push(now_ns as f64 / 1e9);
        self.map.reads_per_s.push(reads.into_iter().map(|r| r as f32).collect());
        self.map
            .fast_share
            .push(fast.into_iter().zip(&self.map.pages).map(share).collect());
        if self.map.time_s.len() > self.moments {
            self.every_ns *= 2;
            thin(&mut self.map.time_s);
            thin(&mut self.map.reads_per_s);
            thin(&mut self.map.fast_share);
        }
        self.next_ns = now_ns + self.every_ns;
    }

    /// What was taken, if anything was asked for.
    #[must_use]
    pub fn finish(self) -> Option<PageMap> {
        (self.moments > 0).then_some(self.map)
    }
}

/// Leaves every second one, the last included.
fn thin<T>(values: &mut Vec<T>) {
    let odd = values.len() % 2;
    let mut index = 0;
    values.retain(|_| {
        index += 1;
        index % 2 == odd
    });
}
