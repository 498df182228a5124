//! Asks for what a table holds of a page before it is needed.
//!
//! A trial on millions of pages is one cache miss after another. A load that is made ahead holds up what comes after it
//! until its line is there; a prefetch does not, so that many more misses overlap.
#![allow(unsafe_code)]

/// Asks the processor for the cache line of `table[index]`; changes nothing, whatever the index.
#[inline]
pub fn prefetch<T>(table: &[T], index: usize) {
    let Some(entry) = table.get(index) else { return };
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the address is of a live entry, and a prefetch neither reads nor writes for the program.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(entry).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::hint::black_box(std::ptr::from_ref(entry));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_index_may_be_asked_for() {
        let table = [7u64; 3];
        for index in [0, 2, 3, usize::MAX] {
            prefetch(&table, index);
        }
        prefetch::<u64>(&[], 0);
    }
}
