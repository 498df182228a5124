//! Where a load was served from, in the kernel's common encoding (`perf_mem_data_src`); Intel's samples carry it.

/// What an access was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A load.
    Load,
    /// A store.
    Store,
    /// A prefetch, an instruction, or not said.
    Other,
}

/// What served it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A cache, anybody's, or a buffer on the way to one.
    Cache,
    /// Memory of the processor's own node.
    LocalMemory,
    /// Memory that is further away: another node's, behind CXL, or persistent.
    FarMemory,
    /// A device, or memory that is not cached.
    Device,
    /// Not said.
    Unknown,
}

impl Origin {
    /// Whether the access missed every cache.
    #[must_use]
    pub fn is_memory(self) -> bool {
        matches!(self, Origin::LocalMemory | Origin::FarMemory)
    }
}

/// Levels by bits, the older way of saying it (bits 5 to 18).
mod bits {
    pub const MISS: u64 = 0x4;
    pub const CACHES: u64 = 0x8 | 0x10 | 0x20 | 0x40 | 0x400 | 0x800;
    pub const LOCAL: u64 = 0x80;
    pub const FAR: u64 = 0x100 | 0x200;
    pub const DEVICE: u64 = 0x1000 | 0x2000;
}

/// What the access was and what served it.
#[must_use]
pub fn read(data_source: u64) -> (Operation, Origin) {
    let operation = match data_source & 0x1f {
        bits if bits & 2 != 0 => Operation::Load,
        bits if bits & 4 != 0 => Operation::Store,
        _ => Operation::Other,
    };
    (operation, origin(data_source))
}

fn origin(data_source: u64) -> Origin {
    let level = (data_source >> 5) & 0x3fff;
    let number = (data_source >> 33) & 0xf;
    let far = (data_source >> 37) & 1 == 1;
    match number {
        1..=6 | 0xb | 0xc => return Origin::Cache,
        8 | 0xa => return Origin::Device,
        9 | 0xe => return Origin::FarMemory,
        // Drivers set the number and the bits; where only "memory" is numbered the bits may know more.
        0xd if far || level & bits::FAR != 0 => return Origin::FarMemory,
        0xd => return Origin::LocalMemory,
        _ => {}
    }
    // A miss of a level names that level, too, and says nothing of where the data came from.
    if level & bits::MISS != 0 && level & (bits::LOCAL | bits::FAR) == 0 {
        return Origin::Unknown;
    }
    match level {
        level if level & bits::FAR != 0 => Origin::FarMemory,
        level if level & bits::LOCAL != 0 => Origin::LocalMemory,
        level if level & bits::CACHES != 0 => Origin::Cache,
        level if level & bits::DEVICE != 0 => Origin::Device,
        _ => Origin::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(operation: u64, level: u64, number: u64, far: u64) -> u64 {
        operation | (level << 5) | (number << 33) | (far << 37)
    }

    #[test]
    fn loads_by_number_of_the_level() {
        let memory = encoded(2, 0x82, 0xd, 0);
        assert_eq!(read(memory), (Operation::Load, Origin::LocalMemory));
        assert_eq!(read(encoded(2, 0x102, 0xd, 1)), (Operation::Load, Origin::FarMemory));
        assert_eq!(read(encoded(2, 0, 9, 0)).1, Origin::FarMemory);
        assert_eq!(read(encoded(2, 0, 0xe, 0)).1, Origin::FarMemory);
        assert_eq!(read(encoded(2, 0x42, 3, 0)).1, Origin::Cache);
        assert_eq!(read(encoded(2, 0, 0xc, 0)).1, Origin::Cache);
        assert_eq!(read(encoded(2, 0x2002, 8, 0)).1, Origin::Device);
    }

    #[test]
    fn loads_by_bits_alone() {
        assert_eq!(read(encoded(2, 0x82, 0, 0)).1, Origin::LocalMemory);
        assert_eq!(read(encoded(2, 0x202, 0xf, 0)).1, Origin::FarMemory);
        assert_eq!(read(encoded(2, 0x0a, 0, 0)).1, Origin::Cache);
        assert_eq!(read(encoded(2, 0x44, 0, 0)).1, Origin::Unknown);
        assert_eq!(read(encoded(2, 0x1, 0, 0)).1, Origin::Unknown);
    }

    #[test]
    fn operations() {
        assert_eq!(read(encoded(4, 0x0a, 1, 0)).0, Operation::Store);
        assert_eq!(read(encoded(8, 0, 0, 0)).0, Operation::Other);
        assert_eq!(read(0), (Operation::Other, Origin::Unknown));
    }
}
