//! Free-page watermarks of fast memory, from its size, as the kernel sets them.
//!
//! `min` is a node's share of `min_free_kbytes` (16 times the memory in KiB, square root, 128 KiB to
//! 256 MiB); the gap to the next mark is a quarter of it or `watermark_scale_factor` / 10 000 of
//! the node, whichever is more (mm/page_alloc.c). What the kernel does for huge pages and zones on top is left out.

use serde::{Deserialize, Serialize};

use crate::Topology;

/// The default of `vm.watermark_scale_factor`, in 1/10 000 of a node.
pub const WATERMARK_SCALE_FACTOR: u32 = 10;

/// Watermarks of tier 0, in pages of the managed size, each rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermarks {
    /// Below it only emergencies allocate.
    pub min: u32,
    /// Below it kswapd is woken and ordinary allocations go to the next node.
    pub low: u32,
    /// Where kswapd stops; promotions need as much.
    pub high: u32,
    /// Where it stops while balancing in tiering mode, so that promotions find room: at least a page
    /// above `high`, which large pages would not give.
    pub promo: u32,
}

impl Watermarks {
    /// The marks for `topology` with `vm.watermark_scale_factor`.
    #[must_use]
    pub fn new(topology: &Topology, watermark_scale_factor: u32) -> Self {
        let bytes = |pages: u32| f64::from(pages) * topology.page_bytes as f64;
        let (fast, all) = (
            bytes(topology.capacity_pages[0]),
            topology
                .capacity_pages
                .iter()
                .map(|pages| bytes(*pages))
                .sum::<f64>()
                .max(1.0),
        );
        let min_free_kib = (all / 1024.0 * 16.0).sqrt().clamp(128.0, 262_144.0);
        let min = min_free_kib * 1024.0 * fast / all;
        let gap = (min / 4.0).max(fast * f64::from(watermark_scale_factor) / 1e4);
        let pages = |bytes: f64| (bytes / topology.page_bytes as f64).ceil() as u32;
        let high = pages(min + 2.0 * gap);
        Self {
            min: pages(min),
            low: pages(min + gap),
            high,
            promo: pages(min + 3.0 * gap).max(high + 1),
        }
    }

    /// TPP's mark for demotion: `demote_scale_factor` / 10 000 of the node, at least twice the high
    /// mark and at most the node.
    #[must_use]
    pub fn demote(&self, topology: &Topology, demote_scale_factor: u32) -> u32 {
        let fast = topology.capacity_pages[0];
        let wanted = (f64::from(fast) * f64::from(demote_scale_factor) / 1e4).ceil() as u32;
        wanted.max(2 * self.high).min(fast)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(page_bytes: u64, fast: u32, slow: u32) -> Topology {
        Topology {
            page_bytes,
            pages: fast + slow,
            capacity_pages: vec![fast, slow],
        }
    }

    /// 8 GiB of 64 in 4 KiB pages: min_free_kbytes is 32 768, an eighth of that is this node's.
    #[test]
    fn a_node_of_eight_gib_has_the_kernels_marks() {
        let topology = topology(4096, 2 << 20, 14 << 20);
        let marks = Watermarks::new(&topology, WATERMARK_SCALE_FACTOR);
        let gap = 2098; // 0.1 % of 2 097 152 pages, 2097.2, rounded up; above min / 4
        assert_eq!(marks.min, 1024);
        assert_eq!([marks.low, marks.high], [1024 + gap, 1024 + 2 * gap - 1]);
        assert_eq!(marks.promo, (1024.0_f64 + 3.0 * 2097.152).ceil() as u32);
        assert_eq!(marks.demote(&topology, 200), 41_944);
        assert_eq!(marks.demote(&topology, 1), 2 * marks.high);
        assert_eq!(marks.demote(&topology, 10_000), 2 << 20);
    }

    #[test]
    fn in_huge_pages_they_are_the_same_bytes_rounded_up() {
        let (small, huge) = (topology(4096, 2 << 20, 14 << 20), topology(2 << 20, 4096, 14 << 11));
        let (small, huge) = (Watermarks::new(&small, 100), Watermarks::new(&huge, 100));
        for (small, huge) in [
            (small.min, huge.min),
            (small.high, huge.high),
            (small.promo, huge.promo),
        ] {
            assert_eq!(small.div_ceil(512), huge);
        }
    }
}
