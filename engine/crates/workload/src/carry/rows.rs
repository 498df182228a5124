//! The rows of a profile as streams: all pages of one object touched by one class within one slice.

use crate::class::AccessClass;
use crate::profile::{Columns, ObjectInfo, PAGE_BYTES};

/// One stream of a recorded slice.
#[derive(Debug)]
pub struct Stream {
    pub slice: usize,
    pub object: usize,
    pub class: AccessClass,
    pub reads: u64,
    pub prefetched: u64,
    pub writebacks: u64,
    pub stores: u64,
    /// Hits of the last-level cache.
    pub hits: u64,
    /// For every page of the object: lines read; if none was read, lines written back; if none, stores.
    pub pages: Vec<f64>,
    /// The sum over pages, above 0.
    pub weight: f64,
}

impl Stream {
    /// The part of each page in the sum.
    pub fn shares(&self) -> Vec<f64> {
        self.pages.iter().map(|value| value / self.weight).collect()
    }
}

/// Recorded pages of an object for its statistics: a last page that is less than half full counts to the one before.
pub fn page_count(object: &ObjectInfo) -> u32 {
    ((object.bytes as f64 / PAGE_BYTES as f64).round() as u32).max(1)
}

/// All streams that reach memory or retire stores, in the order of the rows.
pub fn streams(columns: &Columns, objects: &[ObjectInfo]) -> Vec<Stream> {
    let key = |row: usize| (columns.slice[row], columns.object[row], columns.class[row]);
    let mut result = Vec::new();
    let mut start = 0;
    while start < columns.len() {
        let end = (start..columns.len())
            .find(|row| key(*row) != key(start))
            .unwrap_or(columns.len());
        let sum = |column: &[u32]| column[start..end].iter().map(|value| u64::from(*value)).sum::<u64>();
        let (reads, writebacks, stores) = (sum(&columns.reads), sum(&columns.writebacks), sum(&columns.stores));
        let counts = match (reads, writebacks) {
            (0, 0) => &columns.stores,
            (0, _) => &columns.writebacks,
            _ => &columns.reads,
        };
        let (slice, object, class) = key(start);
        let mut pages = vec![0.0; page_count(&objects[object as usize]) as usize];
        let last = pages.len() - 1;
        for row in start..end {
            pages[(columns.page[row] as usize).min(last)] += f64::from(counts[row]);
        }
        // Rows may hold nothing but hits in the last-level cache; those need no memory, and are left out
        // of the counts of hits too.
        if reads + writebacks + stores > 0 {
            result.push(Stream {
                slice: slice as usize,
                object: object as usize,
                class: AccessClass::ALL[class as usize],
                reads,
                prefetched: sum(&columns.prefetched),
                writebacks,
                stores,
                hits: sum(&columns.touches).saturating_sub(reads),
                weight: pages.iter().sum(),
                pages,
            });
        }
        start = end;
    }
    result
}
