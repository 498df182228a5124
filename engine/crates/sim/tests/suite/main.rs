//! All integration tests of this crate in one program: linked once, and run side by side.

mod accounting;
mod counters;
mod every_system;
mod fidelity;
mod fidelity_faults;
mod fidelity_hmsdk;
mod fidelity_nomad;
mod fidelity_pact;
mod fidelity_recorded;
mod invariants;
mod loading;
mod mechanics;
mod observe;
mod oracle;
mod page_map;
mod saturation;
mod shadows;
mod support;
mod touches;
mod uncertain;
