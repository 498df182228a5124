//! All integration tests of this crate in one program: linked once, and run side by side.

mod adding;
mod arms;
mod baselines;
mod colloid;
mod contract;
mod disagreements_colloid_memtis;
mod disagreements_flexmem;
mod disagreements_hemem;
mod disagreements_hint_faults;
mod disagreements_hmsdk;
mod disagreements_memtis;
mod disagreements_nomad;
mod disagreements_pact;
mod disagreements_wrappers;
mod golden;
mod harness;
mod hmsdk;
mod limits;
mod memtis;
mod nomad;
mod properties;
