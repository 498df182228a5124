//! All integration tests of this crate in one program: linked once, and run side by side.

mod btree;
mod cachelib;
mod carrying;
mod contract;
mod kernels;
mod liblinear;
mod loading;
mod masim;
mod microbenchmarks;
mod npb;
mod recording;
mod redis;
mod tpcc;
mod transaction;
mod xsbench;
mod ycsb;
