//! What AMD's instruction-based sampling says of an operation: the registers that the kernel copies into each sample.
//!
//! See "Instruction-Based Sampling" in AMD's programmer's manual, volume 2, and the processor references for `IBS_OP_DATA`.

use super::data_source::{Operation, Origin};

/// A load or store that was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Load or store.
    pub operation: Operation,
    /// Linear address of the data.
    pub address: u64,
    /// What served it; known only for loads.
    pub origin: Origin,
    /// Cycles from the miss of the first cache to the data; 0 without a miss.
    pub latency_cycles: u64,
}

/// Places of registers in the raw bytes, behind 4 bytes of capabilities.
mod register {
    pub const DATA_2: usize = 3;
    pub const DATA_3: usize = 4;
    pub const LINEAR_ADDRESS: usize = 5;
}

/// Bits of `IBS_OP_DATA3`.
mod bit {
    pub const LOAD: u64 = 1 << 0;
    pub const STORE: u64 = 1 << 1;
    pub const FIRST_CACHE_MISSED: u64 = 1 << 7;
    pub const UNCACHED: u64 = (1 << 13) | (1 << 14);
    pub const ADDRESS_VALID: u64 = 1 << 17;
    pub const SECOND_CACHE_MISSED: u64 = 1 << 20;
    pub const PREFETCH: u64 = 1 << 21;
}

fn value(raw: &[u8], register: usize) -> Option<u64> {
    let at = 4 + register * 8;
    Some(u64::from_le_bytes(raw.get(at..at + 8)?.try_into().ok()?))
}

/// The access of a sample, from its raw bytes; nothing for operations that touch no memory, whose address the processor
/// does not know, or that are prefetches.
#[must_use]
pub fn read(raw: &[u8]) -> Option<Access> {
    let flags = value(raw, register::DATA_3)?;
    if flags & bit::ADDRESS_VALID == 0 || flags & bit::PREFETCH != 0 {
        return None;
    }
    let operation = match (flags & bit::LOAD != 0, flags & bit::STORE != 0) {
        (true, _) => Operation::Load,
        (false, true) => Operation::Store,
        (false, false) => return None,
    };
    let missed = flags & bit::FIRST_CACHE_MISSED != 0;
    let origin = match operation {
        _ if flags & bit::UNCACHED != 0 => Origin::Device,
        Operation::Load if !missed || flags & bit::SECOND_CACHE_MISSED == 0 => Origin::Cache,
        // The register is filled for loads that went past the caches of the core.
        Operation::Load => served(value(raw, register::DATA_2)?),
        _ => Origin::Unknown,
    };
    Some(Access {
        operation,
        address: value(raw, register::LINEAR_ADDRESS)?,
        origin,
        latency_cycles: if missed { (flags >> 32) & 0xffff } else { 0 },
    })
}

/// The source in `IBS_OP_DATA2`: three bits, since Zen 4 two more, and whether it is of another node.
fn served(data: u64) -> Origin {
    let far = (data >> 4) & 1 == 1;
    match data & 7 | (((data >> 6) & 3) << 3) {
        1 | 2 | 5 => Origin::Cache,
        3 if far => Origin::FarMemory,
        3 => Origin::LocalMemory,
        // Long-latency modules, and memory behind an extension such as CXL.
        6 | 8 => Origin::FarMemory,
        7 => Origin::Device,
        _ => Origin::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(data_2: u64, data_3: u64, address: u64) -> Vec<u8> {
        let mut bytes = vec![0xff; 4];
        for word in [0, 0, 0, data_2, data_3, address, 0] {
            bytes.extend(u64::to_le_bytes(word));
        }
        bytes
    }

    const MISSED: u64 = bit::ADDRESS_VALID | bit::FIRST_CACHE_MISSED | bit::SECOND_CACHE_MISSED;

    #[test]
    fn loads_from_memory() {
        let near = read(&raw(3, MISSED | bit::LOAD | (310 << 32), 0x7f00_1234_5678));
        let expected = Access {
            operation: Operation::Load,
            address: 0x7f00_1234_5678,
            origin: Origin::LocalMemory,
            latency_cycles: 310,
        };
        assert_eq!(near, Some(expected));
        let origin_of = |data_2| read(&raw(data_2, MISSED | bit::LOAD, 8)).map(|access| access.origin);
        assert_eq!(origin_of(3 | (1 << 4)), Some(Origin::FarMemory));
        assert_eq!(origin_of(1 << 6), Some(Origin::FarMemory), "extension memory");
        assert_eq!(origin_of(2), Some(Origin::Cache));
        assert_eq!(origin_of(7), Some(Origin::Device));
        assert_eq!(origin_of(4), Some(Origin::Unknown));
    }

    #[test]
    fn what_the_source_register_says_of_hits_is_not_read() {
        let hit = read(&raw(3, bit::ADDRESS_VALID | bit::LOAD | (99 << 32), 8)).expect("a load");
        assert_eq!((hit.origin, hit.latency_cycles), (Origin::Cache, 0));
        let second = read(&raw(3, MISSED & !bit::SECOND_CACHE_MISSED | bit::LOAD, 8)).expect("a load");
        assert_eq!(second.origin, Origin::Cache);
    }

    #[test]
    fn stores_have_an_address_and_no_origin() {
        let store = read(&raw(3, MISSED | bit::STORE, 16)).expect("a store");
        assert_eq!(
            (store.operation, store.address, store.origin),
            (Operation::Store, 16, Origin::Unknown)
        );
    }

    #[test]
    fn operations_that_name_no_data_are_left_out() {
        assert_eq!(read(&raw(3, MISSED & !bit::ADDRESS_VALID | bit::LOAD, 8)), None);
        assert_eq!(read(&raw(3, MISSED, 8)), None);
        assert_eq!(read(&raw(3, MISSED | bit::LOAD | bit::PREFETCH, 8)), None);
        let whole = raw(3, MISSED | bit::LOAD, 8);
        assert_eq!(read(&whole[..40]), None);
        assert_eq!(read(&[]), None);
    }
}
