//! The knobs of `memtis`, by their native names where they have one. "ours" in a source marks a judgement
//! of this project. Two relations are declared as such: the cooling period is a multiple of the adaptation
//! period, and the promotion watermark lies above the demotion watermark.

crate::knobs! {
    /// Knobs of `memtis`: what campaigns tune, then dead knobs, hidden constants and switches.
    pub struct MemtisConfig for "memtis" {
        /// Samples between two adaptations of the hot threshold
        htmm_adaptation_period: u64 = 100_000, int(1000, 2_000_000, log), unit "samples", special [], tuned, live,
            when "htmm_mode" != 0_u64, source "sysfs htmm; DIMES'25 adaptation_interval; range ours";
        /// Samples between two halvings of all counts, in adaptation periods (native: htmm_cooling_period, 2000000 samples)
        cooling_ratio: u64 = 20, int(2, 200, log), unit "adaptation periods", special [], tuned, live,
            when "htmm_mode" != 0_u64, source "sysfs htmm_cooling_period over htmm_adaptation_period; range ours";
        /// Samples wanted between two rounds of splitting: 4 KiB pages in use, shifted right by this (at least the fast tier)
        htmm_split_period: u32 = 2, int(0, 8), unit "shift", special [], tuned, live,
            when "htmm_thres_split" = true, source "sysfs htmm; range ours";
        /// Pause of the promoting thread between two rounds
        htmm_promotion_period_in_ms: u64 = 500, int(10, 10_000, log), unit "ms", special [], tuned, live,
            source "sysfs htmm; Colloid section 4.2; range ours";
        /// Pause of the demoting thread between two rounds
        htmm_demotion_period_in_ms: u64 = 500, int(10, 10_000, log), unit "ms", special [], tuned, live,
            source "sysfs htmm (a comment says 50); range ours";
        /// Lowest hot bin, and the hot threshold at the start
        htmm_thres_hot: u8 = 1, int(0, 12), unit "bin", special [], tuned, live, when "htmm_mode" != 0_u64, source "sysfs htmm; range ours";
        /// CPU time that the sampling thread aims at by changing the sampling periods
        ksampled_soft_cpu_quota: u64 = 30, int(5, 200, log), unit "permil",
            special [(0, "no throttling: the thread polls without sleep")], tuned, live,
            source "sysfs htmm; DIMES'25 section 2.2 (3 %); range ours";
        /// Entry of the table of load periods (199 to 19997 misses) to start with
        initial_period_index: u8 = 0, int(0, 29), unit "table entry", special [], tuned, rebuild,
            source "htmm_sampler.c, always entry 0; what htmm_sample_period would be if it were read";
        /// Retired stores per hardware sample at the start
        htmm_inst_sample_period: u64 = 100_007, int(10_007, 2_000_003, log), unit "stores/sample", special [], tuned, restart,
            source "sysfs htmm; range ours";
        /// Whether huge pages of skewed hotness are split; needs 4 KiB pages, whose hotness 2 MiB pages do not show
        htmm_thres_split: bool = true, bool, unit "", special [], tuned, live,
            when "htmm_mode" != 0_u64, source "sysfs htmm: 2 at boot, 1 by the run script, 0 off";
        /// Damping of the number of huge pages to split
        htmm_gamma: u64 = 4, int(1, 10), unit "tenths", special [], tuned, live,
            when "htmm_thres_split" = true, source "sysfs htmm; range ours";
        /// Whether warm pages are demoted like cold ones
        htmm_nowarm: bool = false, bool, unit "", special [], tuned, live, when "htmm_mode" != 0_u64, source "sysfs htmm";
        /// Whether new pages are left out of the first halving
        htmm_skip_cooling: bool = true, bool, unit "", special [], tuned, live, when "htmm_mode" != 0_u64, source "sysfs htmm";
        /// Growth of memory in use that halves all counts once more
        htmm_thres_cooling_alloc: u64 = 2_621_440, int(65_536, 16_777_216, log), unit "4 KiB pages", special [], tuned, live,
            when "htmm_mode" != 0_u64, source "sysfs htmm (10 GiB); range ours";
        /// Free share of fast memory below which the demoting thread acts when nothing waits to be promoted
        demo_wm_pct: f64 = 2.0, float(0.0, 20.0), unit "%", special [], tuned, rebuild, when "htmm_mode" != 0_u64, source "htmm_migrater.c; range ours";
        /// Share of fast memory beyond demo_wm_pct that promotion leaves free (native: 3 % in all)
        promo_wm_gap_pct: f64 = 1.0, float(0.0, 10.0), unit "%", special [], tuned, rebuild, when "htmm_mode" != 0_u64, source "htmm_migrater.c; range ours";
        /// Nothing is counted nor migrated at 0; 1, 2 and 3 are alike
        htmm_mode: u8 = 2, int(0, 3), unit "", special [], fixed, live,
            source "sysfs htmm: 1 at boot, 2 by the run script; htmm.h calls only 2 used";
        /// Whether the slow tier is remote DRAM (170 ns in the number of splits) or persistent memory (270 ns)
        htmm_cxl_mode: bool = false, bool, unit "", special [], fixed, live,
            when "htmm_thres_split" = true, source "sysfs htmm; htmm.h";
        /// Load sampling period; inert: shown and stored, never read by the sampler
        htmm_sample_period: u64 = 199, int(199, 19_997, log), unit "events/sample", special [], fixed, live,
            source "sysfs htmm; no reader outside mempolicy.c";
        /// Level to stop draining a buffer at; inert: the code compares bytes with a share of a page count
        ksampled_min_sample_ratio: u32 = 50, int(1, 100), unit "%", special [], fixed, live, source "sysfs htmm";
        /// Level to keep draining a buffer at; inert: the code compares bytes with a share of a page count
        ksampled_max_sample_ratio: u32 = 10, int(1, 100), unit "%", special [], fixed, live, source "sysfs htmm";
        /// Weight of utilisation; inert: nothing reads it, and its comment says so
        htmm_util_weight: u32 = 10, int(0, 100), unit "", special [], fixed, live, source "sysfs htmm";
        /// Lower bound of the promotion watermark
        promo_wm_min_mib: f64 = 100.0, float(0.0, 10_000.0), unit "MiB", special [], fixed, rebuild, when "htmm_mode" != 0_u64, source "htmm_migrater.c";
        /// Upper bound of the promotion watermark
        promo_wm_max_mib: f64 = 1500.0, float(0.0, 100_000.0), unit "MiB", special [], fixed, rebuild, when "htmm_mode" != 0_u64, source "htmm_migrater.c";
        /// Lower bound of the demotion watermark
        demo_wm_min_mib: f64 = 50.0, float(0.0, 10_000.0), unit "MiB", special [], fixed, rebuild, when "htmm_mode" != 0_u64, source "htmm_migrater.c";
        /// Upper bound of the demotion watermark
        demo_wm_max_mib: f64 = 1000.0, float(0.0, 100_000.0), unit "MiB", special [], fixed, rebuild, when "htmm_mode" != 0_u64, source "htmm_migrater.c";
        /// Whether a promotion watermark out of bounds becomes the demotion watermark's bound, as an oversight has it
        promo_wm_demotion_bounds: bool = false, bool, unit "", special [], fixed, rebuild,
            when "htmm_mode" != 0_u64, source "htmm_migrater.c of older commits and of the Colloid authors' branch";
        /// Room that a direct demotion makes beyond the promotion watermark
        direct_demotion_extra_mib: f64 = 50.0, float(0.0, 500.0), unit "MiB", special [], fixed, rebuild,
            when "htmm_mode" != 0_u64, source "htmm_migrater.c (a comment says 100)";
        /// A hot set below this share of fast memory gets a warm bin below it
        warm_fill_pct: f64 = 75.0, float(0.0, 100.0), unit "%", special [], fixed, rebuild, when "htmm_nowarm" = false, source "htmm_core.c";
        /// Sleep of the sampling thread between two rounds over all buffers, while it has a quota
        sampler_sleep_ms: f64 = 2.0, float(0.1, 20.0, log), unit "ms", special [], fixed, rebuild, when "ksampled_soft_cpu_quota" > 0_u64, source "htmm_sampler.c";
        /// Time between two comparisons of the sampling thread's CPU time with its quota
        quota_check_s: f64 = 15.0, float(0.5, 60.0, log), unit "s", special [], fixed, rebuild, when "ksampled_soft_cpu_quota" > 0_u64, source "htmm_sampler.c";
        /// Distance from the quota that changes nothing
        quota_deadband_permil: f64 = 5.0, float(0.0, 50.0), unit "permil", special [], fixed, rebuild, when "ksampled_soft_cpu_quota" > 0_u64, source "htmm_sampler.c";
        /// Share of a list that is looked at in one go
        list_walk_chunk_pct: f64 = 12.5, float(0.5, 100.0, log), unit "%", special [], fixed, rebuild,
            when "htmm_mode" != 0_u64, source "htmm_migrater.c: an eighth";
        /// Goes over a list in one round; 12 eighths are more than all of it
        list_walk_chunks: u32 = 12, int(1, 100), unit "", special [], fixed, rebuild, when "htmm_mode" != 0_u64, source "htmm_migrater.c";
        /// Pages looked at together for demotion; the target is checked in between (one huge page is 512)
        demote_batch_pages: u32 = 32, int(8, 16_384, log), unit "4 KiB pages", special [], fixed, rebuild,
            when "htmm_mode" != 0_u64, source "SWAP_CLUSTER_MAX; range ours";
        /// Whether memory comes in huge pages (transparent_hugepage: always, not never); pages of 2 MiB always do
        thp: bool = true, bool, unit "", special [], fixed, rebuild, source "transparent_hugepage: the run script needs it; PACT's authors turn it off";
        /// Huge pages split per round of a thread
        split_per_wake: u32 = 50, int(1, 10_000, log), unit "huge pages", special [], fixed, rebuild,
            when "htmm_thres_split" = true, source "htmm_core.c";
        /// Rise of the decayed number of fast samples without which splitting ends for good
        split_gain_stop_pct: f64 = 3.0, float(0.0, 100.0), unit "%", special [], fixed, rebuild,
            when "htmm_thres_split" = true, source "htmm_core.c";
        /// Share of the estimated fast samples of base pages that is believed
        ehr_scale_pct: u64 = 95, int(0, 100), unit "%", special [], fixed, rebuild,
            when "htmm_thres_split" = true, source "htmm_core.c";
        /// Huge pages in this bin or above are never split
        very_hot_bin: u8 = 13, int(0, 16), unit "bin", special [], fixed, rebuild,
            when "htmm_thres_split" = true, source "htmm_core.c";
        /// Divisor of the sum of squares in the skewness of a huge page
        skew_divisor: u64 = 11, int(1, 100_000, log), unit "", special [], fixed, rebuild,
            when "htmm_thres_split" = true, source "htmm_core.c";
        /// Sleep of khugepaged between two scans for split huge pages to collapse again
        khugepaged_sleep_ms: u64 = 10_000, int(10, 100_000, log), unit "ms", special [], fixed, live,
            when "htmm_thres_split" = true, source "khugepaged scan_sleep_millisecs";
        /// Pages that khugepaged looks at per scan
        khugepaged_scan_pages: u32 = 4096, int(512, 1_048_576, log), unit "4 KiB pages", special [], fixed, live,
            when "htmm_thres_split" = true, source "khugepaged pages_to_scan";
        /// Factor on all numbers of samples and bytes, for footprints smaller than real ones
        footprint_scale: f64 = 1.0, float(0.0001, 100.0, log), unit "", special [], fixed, rebuild, source "ours";
    }
}
