//! Samples of the kernel's performance events: rings of records, what is in them, and the sources that are made of them.
//!
//! Decoding works on bytes alone ([`record`], [`ring`], [`data_source`], [`ibs`]), so that it can be tried on records that
//! no machine at hand makes; [`event`] opens what sysfs describes.

pub mod attributes;
pub mod counted;
pub mod data_source;
pub mod event;
mod generation;
pub mod hardware;
pub mod hint_faults;
pub mod ibs;
pub mod record;
pub mod requests;
pub mod ring;
mod stream;
