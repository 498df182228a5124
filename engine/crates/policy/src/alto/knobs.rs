//! The knobs of `alto`. "ours" in a source marks a judgement of this project.

use crate::Knob;
use crate::knob::Value;
use crate::registry::Composed;

crate::knobs! {
    /// Knobs of `alto`.
    pub struct AltoConfig for "alto" {
        /// At and below this latency per read, parallelism counted, nothing is promoted
        alto_aol_low_cycles: u32 = 40, int(0, 150), unit "cycles", special [], tuned, live,
            source "OSDI'25 section 5.2, Skylake (25 on Sapphire Rapids); range ours";
        /// Above the lower bound and this together everything is promoted
        alto_aol_gap_cycles: u32 = 60, int(0, 230), unit "cycles", special [], tuned, live,
            source "OSDI'25 section 5.2: 100 less 40 (95 less 25 on Sapphire Rapids; 90 to 150 and 90 to 270 in section 6.10); range ours";
        /// How much is promoted between the bounds: in proportion (the paper), as 1 / (a + b / AOL), or in the steps of the run scripts
        alto_curve: String = "linear".to_string(), choice("linear", "hyperbolic", "step"), unit "", special [], tuned, live,
            source "OSDI'25 sections 4.1 and 5.2; run scripts";
        /// Time between two readings of the counters
        alto_sample_period_s: f64 = 1.0, float(0.05, 10.0, log), unit "s", special [], tuned, live,
            source "OSDI'25 sections 5.3 and 6.8; range ours";
        /// Nothing changes while a load takes no longer than this
        alto_min_load_latency_cycles: u32 = 0, int(0, 300), unit "cycles", special [], fixed, live,
            source "100 in the run scripts, not in the paper; range ours";
        /// Where promotions are thinned: when a page that faulted is to be promoted, when pages are armed, or at both places
        alto_hook: String = "scan".to_string(), choice("promote", "scan", "both"), unit "", special [], fixed, rebuild,
            source "published patches: promote for TPP, scan for the others; both is ours";
        /// Of how many candidates for promotion of a thread a share passes
        alto_promote_modulus: u32 = 10, int(1, 100), unit "pages", special [], fixed, rebuild, when "alto_hook" in ["promote", "both"], source "published patches";
        /// Of how many units of 2 MiB in a row a share is armed
        alto_scan_modulus: u32 = 16, int(1, 64), unit "units", special [], fixed, rebuild, when "alto_hook" in ["scan", "both"], source "published patches";
        /// Whether a scan that arms fewer pages ends as early as ever (the paper's intent) or goes on until it has armed as many
        alto_scan_scale_mode: String = "budgeted".to_string(), choice("budgeted", "as_patched"), unit "", special [], fixed, rebuild,
            when "alto_hook" in ["scan", "both"], source "OSDI'25 section 5.3 against the patch, which counts armed pages only";
        /// Pages of which tiers are armed more thinly: slow ones, so that only promotions are (the paper), or all (the patch)
        alto_thins: String = "all".to_string(), choice("slow", "all"), unit "", special [], fixed, rebuild,
            when "alto_hook" in ["scan", "both"], source "OSDI'25 section 5.3 against the patch, which does not look at the tier";
    }
}

/// The knobs around `host`: the hook is that of its patch, and only Colloid arms fast memory too.
pub(super) fn around(host: &Composed) -> Vec<Knob> {
    let mut knobs = AltoConfig::knobs();
    let both_ways = host.wrappers.iter().any(|wrapper| wrapper.name == "colloid");
    knobs.retain(|knob| both_ways || knob.name != "alto_thins");
    for knob in &mut knobs {
        match knob.name {
            "alto_thins" => knob.default = Value::Text("slow".to_string()),
            "alto_hook" if host.base.name == "tpp" => knob.default = Value::Text("promote".to_string()),
            _ => {}
        }
    }
    knobs
}
