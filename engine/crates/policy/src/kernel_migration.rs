//! How the Linux kernel moves pages, and what it costs: shared by the systems that are kernel patches.
//!
//! A page is unmapped, copied by the CPU that migrates it, and mapped again, one after another. A
//! promotion in a fault is paid by the faulting thread, a demotion by kswapd. Threads that move lists of pages share
//! the work around a page, such as draining the batches of other CPUs, among those of a list.

use serde::{Deserialize, Serialize};

use crate::mover::REMAP_NS;
use crate::registry::{PAGE_2M, PAGE_4K};
use crate::{CopyMode, MigrationMechanics, Nanos};

/// Isolation, unmapping, remapping and TLB shootdown of a 4 KiB page that is moved alone: 12 us end to end (Soar/Alto
/// section 5.1) less 0.5 us of copying.
const ALONE_4K_NS: f64 = 11_500.0;
/// The same for a page of a list: 1.9 us of CPU time beside the copy, as compaction takes on Linux 6.18 (our
/// measurement, 2.1 to 2.7 us with the copy), where a list shares a TLB shootdown.
const LISTED_4K_NS: f64 = 1_900.0;
/// A shootdown for each page of a list, as in kernels before 6.3: 2.6 us more (published: 1 us, and 0.2 us for each of
/// eight CPUs).
const OWN_SHOOTDOWN_NS: f64 = 2_600.0;
/// Either for a 2 MiB page: 60 to 120 us are reported for the kernel; the middle.
const FIXED_2M_NS: f64 = 90_000.0;
/// One CPU that copies (`copy_page`): about 0.5 us per 4 KiB page.
const COPY_GBPS: f64 = 8.0;

/// Time of a migration beside the copy, from that of a 4 KiB page; linear between the two sizes in use.
fn fixed_ns(of_4k_ns: f64, page_bytes: u64) -> Nanos {
    let share = (page_bytes as f64 - PAGE_4K as f64) / (PAGE_2M - PAGE_4K) as f64;
    (of_4k_ns + share * (FIXED_2M_NS - of_4k_ns)).max(0.0).round() as Nanos
}

/// How the pages of a list are unmapped, which is a matter of the kernel's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unmapping {
    /// One by one, with interrupts to other CPUs for each.
    Each,
    /// A list together, from Linux 6.3 on: 99 % fewer interrupts (commit 6f7d760e86fa).
    Together,
}

impl Unmapping {
    fn listed_4k_ns(self) -> f64 {
        match self {
            Self::Each => LISTED_4K_NS + OWN_SHOOTDOWN_NS,
            Self::Together => LISTED_4K_NS,
        }
    }

    /// Interrupts for a page, on each CPU that runs the program.
    fn shootdowns(self) -> f64 {
        match self {
            Self::Each => 1.0,
            Self::Together => 0.01,
        }
    }

    /// CPU time of a thread that migrates one page of `page_bytes` of a list.
    #[must_use]
    pub fn cpu_ns(self, page_bytes: u64) -> f64 {
        fixed_ns(self.listed_4k_ns(), page_bytes) as f64 + page_bytes as f64 / COPY_GBPS
    }

    /// One background thread (kswapd) that migrates page by page; nobody can use a page meanwhile.
    #[must_use]
    pub fn mechanics(self, page_bytes: u64) -> MigrationMechanics {
        MigrationMechanics {
            lanes: 1,
            fixed_ns: fixed_ns(self.listed_4k_ns(), page_bytes),
            alone_fixed_ns: fixed_ns(ALONE_4K_NS, page_bytes),
            run_fixed_ns: fixed_ns(self.listed_4k_ns(), PAGE_2M),
            remap_ns: REMAP_NS,
            copy_gbps: COPY_GBPS,
            mode: CopyMode::Unmapped,
            shootdowns: self.shootdowns(),
        }
    }
}

/// [`Unmapping::mechanics`] of kernels that unmap each page by itself.
#[must_use]
pub fn mechanics(page_bytes: u64) -> MigrationMechanics {
    Unmapping::Each.mechanics(page_bytes)
}

/// [`Unmapping::cpu_ns`] of the same.
#[must_use]
pub fn cpu_ns(page_bytes: u64) -> f64 {
    Unmapping::Each.cpu_ns(page_bytes)
}

/// CPU time of a thread that migrates one page of `page_bytes` alone.
#[must_use]
pub fn alone_cpu_ns(page_bytes: u64) -> f64 {
    fixed_ns(ALONE_4K_NS, page_bytes) as f64 + page_bytes as f64 / COPY_GBPS
}
