//! The driver on an operating system in memory.

mod fake;
mod meanwhile;
mod measured;
mod placement;
mod said;
mod scripts;
mod signals;
mod trouble;
