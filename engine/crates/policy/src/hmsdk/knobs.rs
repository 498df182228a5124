//! The knobs of `hmsdk`, with the values that HMSDK's generator of migration policies writes.

crate::knobs! {
    /// Knobs of `hmsdk`.
    pub struct HmsdkConfig for "hmsdk" {
        /// Time between two looks at the accessed bit of each region's sampled page
        sample_interval_us: u64 = 100_000, int(1_000, 1_000_000, log), unit "us", special [], tuned, live,
            source "gen_migpol.py monitoring_intervals 100ms; DAMON 5 ms; DIMES'25 sample_interval; range ours";
        /// Looks per aggregation: aggr_interval = sample_interval x this, and the most accesses a region can count
        aggr_ratio: u32 = 20, int(2, 200, log), unit "samples", special [], tuned, live,
            source "gen_migpol.py monitoring_intervals 2s; DAMON 100 ms; DIMES'25 aggr_interval; range ours";
        /// Time between two readings of the target ranges; inert: physical ranges never change (paddr has no update)
        update_interval_us: u64 = 20_000_000, int(1_000_000, 120_000_000, log), unit "us", special [], fixed, live,
            source "gen_migpol.py monitoring_intervals 20s; DAMON 60 s";
        /// No region grows beyond its node's size over this
        min_regions: u32 = 100, int(3, 5_000, log), unit "regions", special [], tuned, live,
            source "gen_migpol.py monitoring_nr_regions_range; DAMON 10; DIMES'25 min_regions; range ours";
        /// Most regions per context over min_regions; the product stops at 100 000
        max_regions_ratio: u32 = 100, int(2, 1_000, log), unit "", special [], tuned, live,
            source "gen_migpol.py monitoring_nr_regions_range 100 10000; DAMON 1000; DIMES'25 max_regions; range ours";
        /// Regions of slow memory are promoted from this share of looks that found an access; the tool rounds it down to looks
        prom_accesses_min_percent: f64 = 5.0, float(0.5, 100.0, log), unit "%", special [], tuned, live,
            source "gen_migpol.py damos_access_rate 5% 100%; DIMES'25 prom_accesses; range ours";
        /// Regions above this share are not promoted
        prom_accesses_max_percent: f64 = 100.0, float(0.0, 100.0), unit "%", special [], fixed, live,
            source "gen_migpol.py damos_access_rate 5% 100%";
        /// Regions are promoted once their access rate has been steady for this long
        prom_age_min_s: f64 = 0.0, float(0.0, 60.0), unit "s", special [], tuned, live,
            source "gen_migpol.py damos_age 0 max; DIMES'25 prom_age; range ours";
        /// Regions that have been steady for longer are not promoted
        prom_age_max_s: f64 = 0.0, float(1.0, 600.0, log), unit "s", special [(0, "no limit")], fixed, live,
            source "gen_migpol.py damos_age 0 max; range ours";
        /// Regions of fast memory are demoted up to this share of prom_accesses_min_percent
        dem_accesses_ratio: f64 = 0.0, float(0.0, 1.0), unit "", special [], tuned, live,
            source "gen_migpol.py damos_access_rate 0% 0%; DIMES'25 dem_accesses, as a share so that it stays below; range ours";
        /// Regions are demoted once their access rate has been steady for this long
        dem_age_min_s: f64 = 30.0, float(0.1, 300.0, log), unit "s", special [], tuned, live,
            source "gen_migpol.py damos_age 30s max; DIMES'25 dem_age; range ours";
        /// Time that promoting may take per quota window
        prom_quota_ms: u64 = 2_000, int(10, 20_000, log), unit "ms", special [(0, "no limit")], tuned, live,
            source "gen_migpol.py damos_quotas 2s 50G 20s; DAMON off; range ours";
        /// Time that demoting may take per quota window
        dem_quota_ms: u64 = 1_000, int(10, 20_000, log), unit "ms", special [(0, "no limit")], tuned, live,
            source "gen_migpol.py damos_quotas 1s 50G 20s; DAMON off; range ours";
        /// Region bytes that may be tried for promotion per quota window
        prom_quota_gib: f64 = 50.0, float(0.1, 100.0, log), unit "GiB", special [(0, "no limit")], tuned, live,
            source "gen_migpol.py damos_quotas 2s 50G 20s; DAMON off; range ours";
        /// Region bytes that may be tried for demotion per quota window
        dem_quota_gib: f64 = 50.0, float(0.1, 100.0, log), unit "GiB", special [(0, "no limit")], tuned, live,
            source "gen_migpol.py damos_quotas 1s 50G 20s; DAMON off; range ours";
        /// Length of a quota window
        quota_reset_interval_s: f64 = 20.0, float(0.5, 60.0, log), unit "s", special [], tuned, live,
            source "gen_migpol.py damos_quotas 20s; range ours";
        /// Weight of a region's size in its priority; inert: physical-address schemes do not look at it
        weight_size_permil: u32 = 0, int(0, 1_000), unit "permil", special [], fixed, live,
            source "gen_migpol.py damos_quotas 0 0 1%; ops-common.c damon_hot_score";
        /// Weight of a region's accesses in its priority under a quota
        weight_accesses_permil: u32 = 0, int(0, 1_000), unit "permil", special [], tuned, live,
            source "gen_migpol.py damos_quotas 0 0 1%; ops-common.c damon_hot_score; range ours";
        /// Weight of a region's age in its priority under a quota
        weight_age_permil: u32 = 10, int(0, 1_000), unit "permil", special [], tuned, live,
            source "gen_migpol.py damos_quotas 0 0 1%; ops-common.c damon_hot_score; range ours";
        /// Smaller regions are left alone
        region_min_sz_bytes: u64 = 4_096, int(4_096, 1_073_741_824, log), unit "bytes", special [], fixed, live,
            source "gen_migpol.py damos_sz_region 4096 max; range ours";
        /// Larger regions are left alone
        region_max_sz_bytes: u64 = 0, int(4_096, 1_073_741_824, log), unit "bytes", special [(0, "no limit")], fixed, live,
            source "gen_migpol.py damos_sz_region 4096 max; range ours";
        /// Whether each page is looked at again before it moves: idle ones are not promoted, accessed ones not demoted
        young_filter: bool = true, bool, unit "", special [], tuned, live, source "gen_migpol.py damos_filter young; DAMON off";
        /// Whether only pages of the application's cgroup move; recorded only, inert: there are no others
        memcg_filter: bool = true, bool, unit "", special [], fixed, live, source "gen_migpol.py damos_filter memcg";
        /// Most memory that one context watches: a larger node is shared out among several, each with a thread
        region_max_size_mib: u32 = 0, int(512, 65_536, log), unit "MiB", special [(0, "one context per node")], fixed, restart,
            source "gen_migpol.py --region-max-size; range ours";
        /// Regions are alike when their accesses differ by at most the largest of all over this
        merge_divisor: u32 = 10, int(2, 50), unit "", special [], fixed, rebuild,
            source "core.c kdamond_fn, max_nr_accesses / 10; range ours";
        /// Whether percent and seconds are converted for the intervals in force, or stay as converted for 100 ms and 2 s
        thresholds: String = "rederived".to_string(), choice("rederived", "kernel"), unit "", special [], fixed, live,
            source "damo converts once; the kernel keeps counts of samples and of aggregations";
        /// Whether quotas are steered towards fast memory 99.7 % used (promoting) and 0.5 % free (demoting), below time and size
        quota_goal: bool = false, bool, unit "", special [], fixed, live, source "linux samples/damon/mtier.c";
        /// What the watermarks are of; between them the threads work, elsewhere they rest
        wmark_metric: String = "none".to_string(), choice("none", "free_mem_rate"), unit "", special [], fixed, live,
            source "core.c damos_wmark_wait_us; HMSDK and DAMON none";
        /// Time between two looks at free memory by a thread that rests
        wmark_interval_ms: u64 = 5_000, int(10, 60_000, log), unit "ms", special [], fixed, live,
            when "wmark_metric" = "free_mem_rate", source "reclaim.c 5 s; range ours";
        /// Share of the machine's memory above which, where so much is free, threads rest
        wmark_high_permil: u32 = 500, int(1, 1_000), unit "permil", special [], fixed, live,
            when "wmark_metric" = "free_mem_rate", source "reclaim.c 50 %";
        /// Share of the high watermark below which free memory has to fall before a thread that rests works
        wmark_mid_ratio: f64 = 0.8, float(0.0, 1.0), unit "", special [], fixed, live,
            when "wmark_metric" = "free_mem_rate", source "reclaim.c 40 %, as a share so that it stays below";
        /// Share of that watermark below which threads rest
        wmark_low_ratio: f64 = 0.5, float(0.0, 1.0), unit "", special [], fixed, live,
            when "wmark_metric" = "free_mem_rate", source "reclaim.c 20 %, as a share so that it stays below";
        /// Simulated footprint over the footprint that the byte quotas are meant for; scales them
        footprint_scale: f64 = 1.0, float(0.0001, 1.0, log), unit "", special [], fixed, live, source "ours";
    }
}

/// Most regions of a context, whatever the ratio says.
const MOST_REGIONS: u32 = 100_000;

impl HmsdkConfig {
    /// `max_nr_regions` of a context.
    #[must_use]
    pub fn max_regions(&self) -> u32 {
        (self.min_regions * self.max_regions_ratio).min(MOST_REGIONS)
    }

    /// `aggr_interval`, in microseconds.
    #[must_use]
    pub fn aggr_interval_us(&self) -> u64 {
        self.sample_interval_us * u64::from(self.aggr_ratio)
    }
}
