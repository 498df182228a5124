//! The knobs of `flexmem`: its own, and those of `memtis` that it keeps. "ours" in a source marks a judgement
//! of this project.

use crate::Knob;
use crate::knob::{Config, KnobError};
use crate::memtis::MemtisConfig;

crate::knobs! {
    /// Knobs that `flexmem` adds to those of `memtis`.
    pub struct FlexmemOwn for "flexmem" {
        /// A bin below the hot ones is warm when at least this share of its pages has risen from it since the last round
        beta_warm: f64 = 0.2, float(0.02, 0.8, log), unit "", special [], tuned, rebuild,
            when "htmm_nowarm" = false, source "ATC'24 section 7, default not printed; sweep of 0.1 to 0.4 in section 8.4; range ours";
        /// In how many rounds a page promoted for its faults is passed over for demotion
        countdown_init: u8 = 5, int(0, 32), unit "selections", special [], tuned, rebuild, when "htmm_mode" != 0_u64, source "ATC'24 section 5; range ours";
        /// Whether the weight of failed promotions of faulted pages follows their mistakes or is fixed
        alpha_mode: String = "adaptive".to_string(), choice("adaptive", "fixed"), unit "", special [], fixed, rebuild,
            when "htmm_mode" != 0_u64, source "ATC'24 section 6; fixed is ours";
        /// The weight at the start
        alpha_init: f64 = 1.0, float(0.0, 1.0), unit "", special [], tuned, rebuild,
            when "alpha_mode" = "adaptive", source "ATC'24 section 6";
        /// The weight
        alpha_fixed: f64 = 1.0, float(0.0, 1.0), unit "", special [], fixed, rebuild, when "alpha_mode" = "fixed", source "ours";
        /// Weight of what was before in the moving average of a page's samples; 0.5 is a halving
        ema_k: f64 = 0.5, float(0.1, 0.9), unit "", special [], tuned, rebuild, when "htmm_mode" != 0_u64, source "ATC'24 equation 1; range ours";
        /// Free share of fast memory below which cold pages are demoted between rounds, and which promotions leave free
        free_space_trigger_pct: f64 = 2.0, float(0.0, 10.0), unit "%", special [], tuned, rebuild,
            when "htmm_mode" != 0_u64, source "ATC'24 sections 5 and 6; range ours";
        /// Memory that the hint-fault scanner marks per scan
        pf_scan_size_mb: u32 = 256, int(16, 4096, log), unit "MiB", special [], tuned, live, source "ATC'24 section 2.2; range ours";
        /// Period of the hint-fault scanner, for a process of one such window
        pf_scan_period_ms: u32 = 1000, int(50, 60_000, log), unit "ms", special [], tuned, live,
            source "ATC'24 section 2.2; range ours";
        /// Hint faults after which a page of slow memory is active
        pf_faults_to_active: u8 = 2, int(1, 4), unit "faults", special [], tuned, rebuild,
            when "htmm_mode" != 0_u64, source "ATC'24 sections 2.2 and 5; range ours";
        /// Share of promotions that goes to active pages while both they and hot ones wait; half is round robin
        rr_share_pf: f64 = 0.5, float(0.0, 1.0), unit "", special [], fixed, rebuild, when "htmm_mode" != 0_u64, source "ATC'24 section 5";
    }
}

/// Knobs of `memtis` that decide something here as well. It has neither migration periods nor watermarks, its warm
/// bins are its own, its lists are never walked in parts, and it has no huge pages to split.
const KEPT: [&str; 14] = [
    "htmm_adaptation_period",
    "cooling_ratio",
    "htmm_thres_hot",
    "ksampled_soft_cpu_quota",
    "initial_period_index",
    "htmm_inst_sample_period",
    "htmm_nowarm",
    "htmm_skip_cooling",
    "htmm_thres_cooling_alloc",
    "htmm_mode",
    "sampler_sleep_ms",
    "quota_check_s",
    "quota_deadband_permil",
    "footprint_scale",
];

/// All knobs.
pub(super) fn knobs() -> Vec<Knob> {
    let kept = MemtisConfig::knobs()
        .into_iter()
        .filter(|knob| KEPT.contains(&knob.name));
    kept.chain(FlexmemOwn::knobs()).collect()
}

/// Both parts of a config.
pub(super) fn parts(config: &Config) -> Result<(FlexmemOwn, MemtisConfig), KnobError> {
    let (kept, own) = config
        .clone()
        .into_iter()
        .partition(|(name, _)| KEPT.contains(&name.as_str()));
    Ok((FlexmemOwn::from_config(&own)?, MemtisConfig::from_config(&kept)?))
}
