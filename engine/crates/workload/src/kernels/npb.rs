//! Kernels with the access structure of the NAS Parallel Benchmarks (Bailey et al., NAS-95-020).

pub mod ft;
pub mod grid;
pub mod lu;
pub mod sp;
