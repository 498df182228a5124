//! How the Linux kernel moves pages, and what it costs: shared by the systems that are kernel patches.
//!
//! A page is unmapped, copied by the CPU that migrates it, and mapped again, one after another. A
//! promotion in a fault is paid by the faulting thread, a demotion by kswapd. Threads that move lists of pages share
//! the work around a page, such as draining the batches of other CPUs, among those of a list.

use crate::mover::REMAP_NS;
use crate::registry::{PAGE_2M, PAGE_4K};
use crate::{CopyMode, MigrationMechanics, Nanos};

/// Isolation, unmapping, remapping and TLB shootdown of a 4 KiB page that is moved alone: 12 us end to end (Soar/Alto
/// section 5.1) less 0.5 us of copying.
const ALONE_4K_NS: f64 = 11_500.0;
/// The same for a page of a list: 1.9 us of CPU time beside the copy, as compaction takes on Linux 6.18 (our
/// measurement, 2.1 to 2.7 us with the copy), where a list shares a TLB shootdown, and 2.6 us for a shootdown of its own,
/// as in kernels before 6.3, on which these systems are built (published: 1 us, and 0.2 us for each of eight CPUs).
const LISTED_4K_NS: f64 = 4_500.0;
/// Either for a 2 MiB page: 60 to 120 us are reported for the kernel; the middle.
const FIXED_2M_NS: f64 = 90_000.0;
/// One CPU that copies (`copy_page`): about 0.5 us per 4 KiB page.
const COPY_GBPS: f64 = 8.0;

/// Time of a migration beside the copy, from that of a 4 KiB page; linear between the two sizes in use.
fn fixed_ns(of_4k_ns: f64, page_bytes: u64) -> Nanos {
    let share = (page_bytes as f64 - PAGE_4K as f64) / (PAGE_2M - PAGE_4K) as f64;
    (of_4k_ns + share * (FIXED_2M_NS - of_4k_ns)).max(0.0).round() as Nanos
}

/// One background thread (kswapd) that migrates page by page; nobody can use a page meanwhile.
#[must_use]
pub fn mechanics(page_bytes: u64) -> MigrationMechanics {
    MigrationMechanics {
        lanes: 1,
        fixed_ns: fixed_ns(LISTED_4K_NS, page_bytes),
        alone_fixed_ns: fixed_ns(ALONE_4K_NS, page_bytes),
        run_fixed_ns: fixed_ns(LISTED_4K_NS, PAGE_2M),
        remap_ns: REMAP_NS,
        copy_gbps: COPY_GBPS,
        mode: CopyMode::Unmapped,
        shootdowns: 1.0,
    }
}

/// Interrupts for a page where lists are unmapped together, as from Linux 6.3 on: 99 % fewer (commit 6f7d760e86fa).
pub const BATCHED_SHOOTDOWNS: f64 = 0.01;

/// CPU time of a thread that migrates one page of `page_bytes` of a list.
#[must_use]
pub fn cpu_ns(page_bytes: u64) -> f64 {
    fixed_ns(LISTED_4K_NS, page_bytes) as f64 + page_bytes as f64 / COPY_GBPS
}

/// CPU time of a thread that migrates one page of `page_bytes` alone.
#[must_use]
pub fn alone_cpu_ns(page_bytes: u64) -> f64 {
    fixed_ns(ALONE_4K_NS, page_bytes) as f64 + page_bytes as f64 / COPY_GBPS
}
