//! The knobs of `pact`. "ours" in a source marks a judgement of this project; file names are those of the published code.

crate::knobs! {
    /// Knobs of `pact`: those that campaigns tune, then switches, ablations and structural constants.
    pub struct PactConfig for "pact" {
        /// Load misses served by slow memory per hardware sample
        pebs_period: u64 = 400, int(50, 20_000, log), unit "events/sample", special [], tuned, restart,
            source "PACT section 4.3.5; config.h PACT_PEBS_SAMPLE_PERIOD; range ours";
        /// Length of a window, at whose end stalls are read and attributed
        sampling_interval_ms: u32 = 20, int(5, 1000, log), unit "ms", special [], tuned, restart,
            source "PACT section 4.3.3; config.h PACT_DEFAULT_SAMPLING_INTERVAL_MS; range ours";
        /// Time between two additions of attributed stalls to scores, each followed by a computation of the bin width
        adaptive_interval_ms: u32 = 20, int(5, 1000, log), unit "ms", special [], tuned, restart,
            source "config.h PACT_DEFAULT_ADAPTIVE_INTERVAL_MS; range ours";
        /// Bins; pages of the last one are promoted
        bin_count: u32 = 20, int(4, 128), unit "bins", special [], tuned, restart,
            source "config.h PACT_INITIAL_BIN_COUNT; range ours";
        /// Bin width until the first can be computed
        initial_bin_width: f64 = 1000.0, float(10.0, 1_000_000.0, log), unit "cycles", special [], tuned, restart,
            source "config.h PACT_INITIAL_BIN_WIDTH; range ours";
        /// Tracked pages per candidate above which bins are doubled, else halved
        t_scale: f64 = 0.7, float(0.1, 10_000.0, log), unit "", special [], tuned, rebuild,
            when "width_scaling" != "none", source "PACT algorithm 3, without a value; binning.c PACT_BINNING_TH_SCALE; range ours";
        /// Scores kept as a sample of their distribution
        reservoir_size: u32 = 100, int(16, 4096, log), unit "samples", special [], tuned, rebuild,
            when "binning" = "adaptive", source "pact.c RESERVOIR_SIZE; range ours";
        /// Whether and when scores cool: never, in passes over pages long unseen, or with each window that samples them
        cooling_mode: String = "off".to_string(), choice("off", "pass", "update"), unit "", special [], tuned, rebuild,
            source "off as in PACT and config.h (alpha 1); passes as in section 5.7 and cooling.c, updates as in algorithm 1";
        /// Factor that cools scores; 1 does not
        cooling_alpha: f64 = 0.5, float(0.0, 1.0), unit "", special [], tuned, restart,
            when "cooling_mode" != "off", source "PACT section 5.7, which halves or resets; cli --cooling-alpha";
        /// Samples, of all pages, since its last one after which a page is cooled
        cooling_trigger_samples: u64 = 200_000, int(1000, 10_000_000, log), unit "samples", special [], tuned, restart,
            when "cooling_mode" = "pass", source "PACT section 5.7; cli --cooling-trigger-samples; range ours";
        /// Time between two passes that cool
        cooling_interval_ms: u32 = 5000, int(100, 60_000, log), unit "ms", special [], tuned, restart,
            when "cooling_mode" = "pass", source "config.h PACT_DEFAULT_COOLING_INTERVAL_MS; range ours";
        /// Pages that demotion may be ahead of promotion, kept free as headroom
        demotion_margin: u32 = 0, int(0, 262_144), unit "pages", special [], tuned, restart,
            source "PACT section 4.4.2, algorithm 2; cli --demotion-margin; range ours";
        /// Time between two looks at the demotion switch
        balance_interval_s: f64 = 1.0, float(0.02, 10.0, log), unit "s", special [], fixed, rebuild,
            when "demotion_trigger" = "switch", source "pact.c; range ours";
        /// Pages promoted per cycle of sampling_interval_ms, or per call when migration_limit says so
        max_migrations_per_cycle: u32 = 4096, int(64, 65_536, log), unit "pages", special [], tuned, restart,
            source "config.h PACT_DEFAULT_MAX_MIGRATIONS_PER_CYCLE; range ours";
        /// Most pages that are tracked; samples of others are ignored
        pac_pool_max: u64 = 2_097_152, int(16_384, 16_777_216, log), unit "pages", special [], tuned, restart,
            source "config.h PACT_DEFAULT_PAC_POOL_MAX; range ours";
        /// What a page is scored by: stalls, or (ablation) only how often it was sampled
        criterion: String = "stalls".to_string(), choice("stalls", "frequency"), unit "", special [], fixed, rebuild,
            source "PACT algorithm 1; frequency is the paper's ablation";
        /// Whether bins adapt to the scores or (ablation) keep initial_bin_width
        binning: String = "adaptive".to_string(), choice("adaptive", "static"), unit "", special [], fixed, rebuild,
            source "PACT algorithm 3; static is the paper's ablation";
        /// How t_scale acts: on each width anew (code), on the width before, or (ablation) not at all
        width_scaling: String = "fresh".to_string(), choice("fresh", "compounding", "none"), unit "", special [], fixed, rebuild,
            when "binning" = "adaptive", source "binning.c computes each width from scratch; algorithm 3 may be read as compounding; none is the ablation";
        /// How stalls are shared out: by samples, or weighted by the latency of their tier; inert with one slow tier, as samples carry no latency of their own
        attribution: String = "proportional".to_string(), choice("proportional", "latency_weighted"), unit "", special [],
            fixed, rebuild, source "PACT section 4.3.7";
        /// Whether the least recently used pages go down to make room
        demotion_policy: String = "lru".to_string(), choice("lru", "disabled"), unit "", special [], fixed, restart,
            source "PACT section 4.4.2; pact.h demotion_policy_t";
        /// What demotion follows: each promotion (paper), or the kernel's reclaim that a switch lets run (code)
        demotion_trigger: String = "promotion".to_string(), choice("promotion", "switch"), unit "", special [], fixed, rebuild,
            when "demotion_policy" = "lru", source "PACT algorithm 2 against the 1 Hz toggle of the code";
        /// Whether max_migrations_per_cycle caps a cycle (its documentation) or only a call, repeated until none waits (code)
        migration_limit: String = "cycle".to_string(), choice("cycle", "call"), unit "", special [], fixed, rebuild,
            source "config.h's comment against the drain loop of pact.c";
        /// Longest sleep of the idle migration thread; recorded only, inert: a candidate wakes it
        migration_poll_ms: f64 = 100.0, float(1.0, 1000.0, log), unit "ms", special [], fixed, rebuild, source "pact.c";
        /// Samples of a window that are kept for its end; excess ones are lost
        pac_update_ring: u32 = 131_072, int(1024, 16_777_216, log), unit "samples", special [], fixed, rebuild,
            source "pact.c PAC_UPDATE_RING_SIZE";
        /// Samples taken from that ring at a time; recorded only, inert: a window is drained whole
        pac_update_batch: u32 = 1024, int(1, 131_072, log), unit "samples", special [], fixed, rebuild, source "constants.h";
        /// Candidates that may wait; one that finds the ring full tries again with its next sample
        promotion_ring: u32 = 65_536, int(16, 16_777_216, log), unit "pages", special [], fixed, rebuild,
            source "constants.h; 524288 in a later version";
        /// Largest stall of one sample that its encoding holds
        sample_stall_max: u32 = 262_143, int(1, 1_000_000_000, log), unit "cycles", special [], fixed, rebuild,
            source "pact.h: 18 bits";
        /// Stall cycles per miss and unit of parallelism, slow memory; to be calibrated per machine
        k_slow: f64 = 771.0, float(1.0, 100_000.0, log), unit "cycles", special [], fixed, rebuild, source "pact.h k_constant_cxl";
        /// The same for fast memory; recorded only, inert: only loads from slow memory are sampled
        k_fast: f64 = 238.0, float(1.0, 100_000.0, log), unit "cycles", special [], fixed, rebuild, source "pact.h k_constant_dram";
        /// Size of this run in proportion to the one meant: tracked pages count divided by it, cooling_trigger_samples times it
        footprint_scale: f64 = 1.0, float(0.0001, 1.0, log), unit "", special [], fixed, live, source "ours";
    }
}
