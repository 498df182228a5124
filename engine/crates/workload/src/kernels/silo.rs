//! A transaction engine in the manner of Silo (Tu et al., SOSP'13): rows with a transaction number each, concurrent ordered
//! indexes, and optimistic concurrency control that validates what a transaction read before it writes.

pub mod slab;
pub mod tpcc;
pub mod transaction;
pub mod tree;
pub mod ycsb;
