//! Which events of which processor say how many reads wait for which memory.
//!
//! Names and codes are those of Intel's published event lists (perfmon); sysfs says which bits the terms stand for.

use std::path::Path;

/// How processors reach the slow node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// It is the memory of another socket.
    OtherSocket,
    /// Behind CXL.
    Cxl,
    /// Persistent memory on the memory bus.
    Persistent,
}

/// Demand reads that missed the last-level cache, by where they go, as the unit mask of entries of the table of requests
/// (TOR).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// DRAM of the socket (`IA_MISS_DRD_LOCAL_DDR`).
    LocalDram,
    /// DRAM of another (`IA_MISS_DRD_REMOTE_DDR`).
    RemoteDram,
    /// `IA_MISS_DRD_CXL_ACC`.
    Cxl,
    /// `IA_MISS_DRD_PMM`.
    Persistent,
}

impl Destination {
    /// The unit mask.
    #[must_use]
    pub fn mask(self) -> u64 {
        match self {
            Self::LocalDram => 0xc816_8601,
            Self::RemoteDram => 0xc817_0601,
            Self::Cxl => 0x10_c817_8201,
            Self::Persistent => 0xc817_8a01,
        }
    }
}

/// Events that several models have in common.
#[derive(Debug, PartialEq, Eq)]
pub struct Generation {
    /// As people call it.
    pub name: &'static str,
    models: &'static [u32],
    /// Clock of a slice of the last-level cache.
    pub clock: &'static str,
    /// Whether slices tell reads over CXL apart.
    pub cxl: bool,
    /// Whether there are modules of persistent memory for it.
    pub persistent: bool,
    /// Cycles in which a core waits for a demand read off it; with `cmask=0x0` the reads that wait.
    pub outstanding: &'static str,
    /// Demand reads that went off the core.
    pub reads: &'static str,
}

/// Cycles of a core.
pub const CYCLES: &str = "event=0x3c";
/// Cycles in which it executes nothing while a read that missed the last-level cache waits.
pub const STALLS: &str = "event=0xa3,umask=0x6,cmask=0x6";
/// Entries into the table of requests, and those in it summed up over clocks.
pub const INSERTS: &str = "event=0x35";
/// See [`INSERTS`].
pub const OCCUPANCY: &str = "event=0x36";

const GENERATIONS: [Generation; 4] = [
    Generation {
        name: "Ice Lake",
        models: &[0x6a, 0x6c],
        clock: "event=0x0",
        cxl: false,
        persistent: true,
        outstanding: "event=0x60,umask=0x1,cmask=0x1",
        reads: "event=0xb0,umask=0x1",
    },
    Generation {
        name: "Sapphire Rapids",
        models: &[0x8f],
        clock: "event=0x1",
        cxl: true,
        persistent: true,
        outstanding: "event=0x20,umask=0x1,cmask=0x1",
        reads: "event=0x21,umask=0x1",
    },
    Generation {
        name: "Emerald Rapids",
        models: &[0xcf],
        clock: "event=0x1",
        cxl: true,
        persistent: false,
        outstanding: "event=0x20,umask=0x1,cmask=0x1",
        reads: "event=0x21,umask=0x1",
    },
    Generation {
        name: "Granite Rapids",
        models: &[0xad],
        clock: "event=0x1",
        cxl: true,
        persistent: false,
        outstanding: "event=0x20,umask=0x1,cmask=0x1",
        reads: "event=0x21,umask=0x1",
    },
];

/// The generation of this host's processors; `Err` has a sentence that names the known ones.
///
/// # Errors
/// For any other processor.
pub fn generation(root: &Path) -> Result<&'static Generation, String> {
    let text = std::fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let value = |name: &str| {
        let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
    };
    let number = |name: &str| value(name).and_then(|text| text.parse::<u32>().ok());
    let intel = value("vendor_id") == Some("GenuineIntel") && number("cpu family") == Some(6);
    let found = GENERATIONS
        .iter()
        .find(|one| intel && number("model").is_some_and(|model| one.models.contains(&model)));
    found.ok_or_else(|| {
        let known: Vec<&str> = GENERATIONS.iter().map(|one| one.name).collect();
        format!(
            "counters of requests to memory are known of Intel's {} only, and this is {}",
            known.join(", "),
            value("model name").unwrap_or("another processor")
        )
    })
}
