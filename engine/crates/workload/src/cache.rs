//! The cache model that decides which accesses of a kernel reach memory.

use crate::class::AccessClass;

/// Bytes per cache line.
pub const LINE_BYTES: u64 = 64;

const WAYS: usize = 8;
/// The last-level cache is this many times the modelled private cache.
const LLC_PER_PRIVATE: u64 = 8;
const EMPTY: u32 = u32::MAX;
/// Tags keep the line above four bits: three for the class that made it dirty, one for dirty.
const TAG_SHIFT: u32 = 4;
/// Line numbers must stay below this (16 GiB of objects), so that tags fit 32 bits and never equal `EMPTY`.
pub const LINE_LIMIT: u32 = (1 << (32 - TAG_SHIFT)) - 1;

/// A dirty line that left the last-level cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writeback {
    /// Line number.
    pub line: u32,
    /// Class of the store that made it dirty, as its position in [`AccessClass::ALL`].
    pub class: u8,
}

/// What an access that missed the private cache met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the line came from memory.
    pub fetched: bool,
    /// Lines that this pushed out to memory: by the fetched line, by the private victim.
    pub writebacks: [Option<Writeback>; 2],
}

/// A small private cache before a shared last-level cache, both write-back and write-allocate.
///
/// The private one is direct-mapped; the last-level one is 8-way with LRU within a set and hashed
/// set indices. They are not inclusive, as on the server parts that the presets describe.
#[derive(Debug)]
pub struct CacheModel {
    private: Vec<u32>,
    private_shift: u32,
    sets: Vec<[u32; WAYS]>,
    fetched: u64,
    written_back: u64,
}

#[inline(always)]
fn hash(line: u32) -> u64 {
    u64::from(line).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl CacheModel {
    /// A model with `llc_bytes` of last-level cache, rounded to whole sets of 512 bytes, at least one.
    #[must_use]
    pub fn new(llc_bytes: u64) -> Self {
        let lines = (llc_bytes / LINE_BYTES).max(WAYS as u64);
        let sets = (lines as f64 / WAYS as f64).round() as usize;
        let private = (lines / LLC_PER_PRIVATE).clamp(2, 4096);
        let private_bits = 63 - private.leading_zeros();
        Self {
            private: vec![EMPTY; 1 << private_bits],
            private_shift: 64 - private_bits,
            sets: vec![[EMPTY; WAYS]; sets],
            fetched: 0,
            written_back: 0,
        }
    }

    /// The size of the last-level cache as modelled, in bytes.
    #[must_use]
    pub fn llc_bytes(&self) -> u64 {
        (self.sets.len() * WAYS) as u64 * LINE_BYTES
    }

    /// Lines fetched from memory so far.
    #[must_use]
    pub fn fetched(&self) -> u64 {
        self.fetched
    }

    /// Lines written back to memory so far.
    #[must_use]
    pub fn written_back(&self) -> u64 {
        self.written_back
    }

    /// Whether the private cache has the line; a store makes it dirty there.
    #[inline(always)]
    pub fn private_hit(&mut self, line: u32, store: bool, class: AccessClass) -> bool {
        let slot = &mut self.private[(hash(line) >> self.private_shift) as usize];
        let hit = *slot >> TAG_SHIFT == line;
        if hit && store {
            *slot = tag(line, class);
        }
        hit
    }

    /// Brings a line that the private cache does not have into both caches.
    #[inline]
    pub fn fill(&mut self, line: u32, store: bool, class: AccessClass) -> Outcome {
        let slot = &mut self.private[(hash(line) >> self.private_shift) as usize];
        let victim = *slot;
        *slot = if store { tag(line, class) } else { line << TAG_SHIFT };
        let (hit, pushed) = self.touch_llc(line, 0);
        if !hit {
            self.fetched += 1;
        }
        let mut outcome = Outcome {
            fetched: !hit,
            writebacks: [pushed, None],
        };
        if victim != EMPTY && victim & 1 == 1 {
            outcome.writebacks[1] = self.touch_llc(victim >> TAG_SHIFT, victim & 0xf).1;
        }
        self.written_back += outcome.writebacks.iter().flatten().count() as u64;
        outcome
    }

    /// Moves the line to the front of its set, merging `dirt`; says whether it was there and what it pushed out.
    #[inline]
    fn touch_llc(&mut self, line: u32, dirt: u32) -> (bool, Option<Writeback>) {
        let index = ((hash(line) >> 32) * self.sets.len() as u64) >> 32;
        let set = &mut self.sets[index as usize];
        let mut way = WAYS;
        for (position, entry) in set.iter().enumerate() {
            if entry >> TAG_SHIFT == line {
                way = position;
            }
        }
        if way == WAYS {
            let last = set[WAYS - 1];
            set.copy_within(0..WAYS - 1, 1);
            set[0] = line << TAG_SHIFT | dirt;
            let dirty = last != EMPTY && last & 1 == 1;
            let writeback = dirty.then_some(Writeback {
                line: last >> TAG_SHIFT,
                class: (last >> 1 & 7) as u8,
            });
            (false, writeback)
        } else {
            let entry = if dirt == 0 { set[way] } else { line << TAG_SHIFT | dirt };
            set.copy_within(0..way, 1);
            set[0] = entry;
            (true, None)
        }
    }
}

#[inline(always)]
fn tag(line: u32, class: AccessClass) -> u32 {
    line << TAG_SHIFT | (class as u32) << 1 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(model: &mut CacheModel, line: u32, store: bool) -> Option<Outcome> {
        if model.private_hit(line, store, AccessClass::Update) {
            None
        } else {
            Some(model.fill(line, store, AccessClass::Update))
        }
    }

    #[test]
    fn classes_are_stored_by_their_position() {
        for (position, class) in AccessClass::ALL.iter().enumerate() {
            assert_eq!(*class as usize, position);
        }
    }

    #[test]
    fn a_working_set_that_fits_is_fetched_once() {
        let mut model = CacheModel::new(64 << 10);
        for _ in 0..20 {
            for line in 0..400 {
                access(&mut model, line, false);
            }
        }
        // 400 of 1024 lines: hashed sets of 8 overflow rarely.
        assert!(model.fetched() < 440, "{}", model.fetched());
        assert_eq!(model.written_back(), 0);
    }

    #[test]
    fn every_line_stored_to_is_written_back_exactly_once_by_a_long_sweep() {
        let mut model = CacheModel::new(16 << 10);
        let mut seen = vec![0u32; 20_000];
        for line in 0..20_000 {
            if let Some(outcome) = access(&mut model, line, line < 1000) {
                for writeback in outcome.writebacks.iter().flatten() {
                    assert_eq!(writeback.class, AccessClass::Update as u8);
                    seen[writeback.line as usize] += 1;
                }
            }
        }
        assert!(seen[..1000].iter().all(|count| *count == 1));
        assert!(seen[1000..].iter().all(|count| *count == 0));
    }

    #[test]
    fn random_accesses_hit_by_the_share_that_fits() {
        let mut model = CacheModel::new(256 << 10);
        let lines = 16_384;
        let mut rng = tiertune_policy::CounterRng::new(1, &[]);
        let mut fetched = 0;
        let count = 400_000;
        for step in 0..2 * count {
            let line = rng.below(lines) as u32;
            if access(&mut model, line, false).is_some_and(|outcome| outcome.fetched) && step >= count {
                fetched += 1;
            }
        }
        let hit_share = 1.0 - f64::from(fetched) / f64::from(count);
        assert!((hit_share - 0.25).abs() < 0.03, "{hit_share}");
    }
}
