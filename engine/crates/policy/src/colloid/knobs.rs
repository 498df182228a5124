//! The knobs of `colloid`, and how its ports differ. "ours" in a source marks a judgement of this project.

use crate::Knob;
use crate::knob::{KnobKind, Value};
use crate::registry::Composed;

crate::knobs! {
    /// Knobs of `colloid`.
    pub struct ColloidConfig for "colloid" {
        /// How a shift is found: binary search between watermarks (the paper), the closed form of the HeMem port, or no more than its direction (the TPP port)
        colloid_shift_mode: String = "binary_search".to_string(), choice("binary_search", "closed_form", "boolean"),
            unit "", special [], fixed, rebuild, source "SOSP'24 section 3.2; hemem.c and mm/memory.c of the ports";
        /// Latencies within this share of the fast tier's are balanced: nothing is shifted
        colloid_delta: f64 = 0.05, float(0.005, 0.5, log), unit "", special [], tuned, live,
            when "colloid_shift_mode" = "binary_search", source "SOSP'24 section 5; 5 % in the Memtis port; range ours";
        /// Watermarks closer than this have collapsed: one of them is given up, and the search goes on
        colloid_epsilon: f64 = 0.01, float(0.001, 0.2, log), unit "probability", special [], tuned, live,
            when "colloid_shift_mode" = "binary_search", source "SOSP'24 section 5; 1 % in the Memtis port; range ours";
        /// Weight of a new reading of occupancy and request rate
        colloid_ewma_alpha: f64 = 0.0625, float(0.005, 1.0, log), unit "", special [], tuned, live,
            source "1/16 in the ports to HeMem (pebs.h) and Memtis, 1/32 on TPP (colloid-mon.c); range ours";
        /// Time between two readings of the counters
        colloid_latency_sample_interval_us: u32 = 10_000, int(10, 100_000, log), unit "us",
            special [(0, "a core of its own spins: a reading every 10 us")], tuned, restart,
            source "each tick of HeMem, a work queue every 10 ms on Memtis, a spinning core on TPP; range ours";
        /// Time between two shifts, or longer while the last one is being carried out
        colloid_quantum_ms: f64 = 10.0, float(1.0, 5000.0, log), unit "ms", special [], tuned, live,
            when "colloid_shift_mode" != "boolean", source "SOSP'24 section 4.1; 500 ms on Memtis (kmigraterd); on TPP ours: what a shift may move is used up fault by fault; range ours";
        /// Most that is moved in a quantum
        colloid_static_limit_mib: f64 = 100.0, float(1.0, 8192.0, log), unit "MiB/quantum",
            special [(0, "no such limit")], tuned, live,
            when "colloid_shift_mode" != "boolean", source "50 pages of 2 MiB per 10 ms tick on HeMem, 1310720 pages of 4 KiB per 500 ms on Memtis, none on TPP; range ours";
        /// Whether a quantum also moves no more than the requests that it shifts take in bandwidth
        colloid_dynamic_limit: bool = true, bool, unit "", special [], fixed, live, when "colloid_shift_mode" != "boolean", source "SOSP'24 section 3.2";
        /// How pages are found: lists by frequency (the paper), the best pairs of all pages (the HeMem port), or in the host's order into free frames only (the Memtis port)
        colloid_page_find: String = "bins".to_string(), choice("bins", "sort_pairs", "list"), unit "", special [], fixed, rebuild,
            source "SOSP'24 section 4.1; hemem.c and mm/htmm_migrater.c of the ports";
        /// Lists by frequency in each tier
        colloid_n_freq_bins: u8 = 5, int(2, 32), unit "lists", special [], fixed, rebuild,
            when "colloid_page_find" = "bins", source "SOSP'24 section 4.1; range ours";
        /// Whether probabilities come from the host's cooled counts or from samples since the start
        colloid_use_cooled_counts: bool = true, bool, unit "", special [], fixed, rebuild, source "COLLOID_COOLING";
        /// Least latency that the fast tier is taken to have, as long as nothing was measured too
        colloid_lat_floor_fast_ns: f64 = 70.0, float(0.0, 1000.0), unit "ns", special [], fixed, restart,
            source "unloaded latency of the paper's machine, section 2.1; 15 in units of colloid-mon.c";
        /// Least latency that slow tiers are taken to have, as long as nothing was measured too
        colloid_lat_floor_slow_ns: f64 = 135.0, float(0.0, 1000.0), unit "ns", special [], fixed, restart,
            source "unloaded latency of the paper's machine, section 2.1; 30 in units of colloid-mon.c";
    }
}

/// What decides how much is shifted, of which `boolean` knows nothing.
const ONLY_WITH_A_SHIFT: [&str; 3] = [
    "colloid_quantum_ms",
    "colloid_static_limit_mib",
    "colloid_dynamic_limit",
];
const ONLY_BY_HEAT: [&str; 3] = ["colloid_page_find", "colloid_n_freq_bins", "colloid_use_cooled_counts"];

/// The knobs around `host`. A host that knows how hot its pages are is told what to move, one that
/// takes hint faults is gated: each has knobs that the other has no use for, and defaults of its port.
pub(super) fn around(host: &Composed) -> Vec<Knob> {
    let by_heat = host.smallest().is_ok_and(|policy| policy.heat().is_some());
    let mut knobs = ColloidConfig::knobs();
    if !by_heat {
        knobs.retain(|knob| !ONLY_BY_HEAT.contains(&knob.name));
    }
    for knob in &mut knobs {
        if by_heat && knob.name == "colloid_shift_mode" {
            let choices = &["binary_search", "closed_form"];
            knob.kind = KnobKind::Choice { choices };
        }
        // Where the gate of the TPP port is no choice, neither is being without a shift.
        if by_heat && ONLY_WITH_A_SHIFT.contains(&knob.name) {
            knob.condition = None;
        }
        let default = match (host.base.name, knob.name) {
            ("memtis", "colloid_quantum_ms") => Value::Float(500.0),
            ("memtis", "colloid_static_limit_mib") => Value::Float(5120.0),
            ("memtis", "colloid_page_find") => Value::Text("list".to_string()),
            (_, "colloid_ewma_alpha") if !by_heat => Value::Float(0.03125),
            (_, "colloid_latency_sample_interval_us") if !by_heat => Value::Int(0),
            (_, "colloid_static_limit_mib") if !by_heat => Value::Float(0.0),
            _ => continue,
        };
        // A default outside the range ("spins", "no limit") is no place to start a search from.
        knob.tunable &= default != Value::Int(0) && default != Value::Float(0.0);
        knob.default = default;
    }
    knobs
}

/// Knobs of `host` that are about what is done for it, such as placing pages.
pub(super) fn idles(host: &Composed) -> &'static [&'static str] {
    host.smallest().map_or(&[], |policy| policy.idle_knobs())
}
