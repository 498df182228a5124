//! The knobs of `hemem`. "ours" in a source marks a judgement of this project.

crate::knobs! {
    /// Knobs of `hemem`: ten that campaigns tune, then switches and structural constants.
    pub struct HememConfig for "hemem" {
        /// LLC load misses per hardware sample
        sampling_period: u64 = 5003, int(100, 50_000, log), unit "events/sample", special [], tuned, restart,
            source "HeMem as published with Colloid (pebs.h SAMPLE_PERIOD); 10007 and 19997 in other branches; range ours";
        /// Retired stores per hardware sample
        write_sampling_period: u64 = 10_007, int(1000, 100_000, log), unit "events/sample", special [], tuned, restart,
            when "use_store_samples" = true, source "a public HeMem fork (pebs.h WRITE_SAMPLE_PERIOD); range ours";
        /// Load samples that make a page hot
        read_hot_threshold: u32 = 8, int(1, 64, log), unit "samples", special [], tuned, restart,
            source "DIMES'25 section 1; pebs.h HOT_READ_THRESHOLD (4 in one branch); range ours";
        /// Store samples that make a page hot
        write_hot_threshold: u32 = 4, int(1, 64, log), unit "samples", special [], tuned, restart,
            when "use_store_samples" = true, source "pebs.h HOT_WRITE_THRESHOLD; range ours";
        /// A count of one kind above this halves the counts of all pages
        cooling_threshold: u8 = 18, int(2, 128, log), unit "samples", special [], tuned, restart,
            when "sample_based_cooling" = false, source "DIMES'25 section 1; pebs.h PEBS_COOLING_THRESHOLD (10 in other branches); range ours";
        /// Entries of each hot list looked at for cooled pages per tick
        cooling_pages: u32 = 8192, int(64, 65_536, log), unit "pages", special [], tuned, restart,
            source "DIMES'25 section 2.1; pebs.h COOLING_PAGES; range ours";
        /// Time between two rounds of the policy thread
        migration_period_ms: f64 = 10.0, float(1.0, 5000.0, log), unit "ms",
            special [(0, "spin: the next round follows at once, at the earliest after 1 ms")], tuned, restart,
            source "DIMES'25 section 2.1, Colloid section 4.1; PEBS_KSWAPD_INTERVAL; two branches spin; range ours";
        /// Cap on promoted bytes: GiB per second, or GiB per tick when rate_mode says so
        max_migration_rate_gib: f64 = 10.0, float(0.1, 32.0, log), unit "GiB/s or GiB/tick", special [], tuned, restart,
            source "pebs.h PEBS_KSWAPD_MIGRATE_RATE; range ours";
        /// Hot requests served per tick
        hot_ring_reqs_threshold: u32 = 1_048_576, int(128, 1_048_576, log), unit "requests", special [], tuned, restart,
            source "pebs.h HOT_RING_REQS_THRESHOLD; range ours";
        /// Cold requests served per tick
        cold_ring_reqs_threshold: u32 = 128, int(16, 65_536, log), unit "requests", special [], tuned, restart,
            source "pebs.h COLD_RING_REQS_THRESHOLD; range ours";
        /// Whether stores are sampled (DIMES'25) or not (most published branches)
        use_store_samples: bool = true, bool, unit "", special [], fixed, rebuild,
            source "DIMES'25 section 2.1 against the branches, where the store stream is compiled out";
        /// What max_migration_rate_gib limits: bytes per second (its comment) or bytes per tick (its code)
        rate_mode: String = "per_second".to_string(), choice("per_second", "per_tick"), unit "", special [], fixed, rebuild,
            source "the constant's comment against the loop that uses it";
        /// Whether the hot lists are still cooled in a tick that found fast memory full of hot pages
        cool_when_full: bool = false, bool, unit "", special [], fixed, rebuild,
            source "ours; the published code jumps past the cooling";
        /// Whether each halving has the whole hot lists walked, to their newest page
        cooling_ends_at_newest: bool = false, bool, unit "", special [], fixed, rebuild,
            source "ours; the published walk ends where it begins, with the oldest page";
        /// Whether cooling leaves still-hot entries in place behind a cursor or requeues them at the back
        cool_in_place: bool = true, bool, unit "", special [], fixed, rebuild, source "COOL_IN_PLACE";
        /// Whether counts are halved every sample_cooling_interval samples instead of by cooling_threshold
        sample_based_cooling: bool = false, bool, unit "", special [], fixed, rebuild, source "SAMPLE_BASED_COOLING";
        /// Samples between two halvings
        sample_cooling_interval: u32 = 10_000, int(1, 1_000_000_000, log), unit "samples", special [], fixed, rebuild,
            when "sample_based_cooling" = true, source "SAMPLE_BASED_COOLING; 1000 in the Colloid branch";
        /// Smaller allocations are not managed: they take fast memory, where cold pages make room for them, and stay
        mmap_filter_size_bytes: u64 = 1 << 30, int(0, 1 << 40), unit "bytes", special [], fixed, rebuild,
            source "hemem.h; the Memtis authors used 128 MiB for one workload";
        /// Entries of each request ring; a request that finds it full is lost
        ring_capacity: u64 = 128 << 20, int(1, 1 << 32, log), unit "requests", special [], fixed, rebuild,
            source "pebs.h CAPACITY";
        /// Whether the I/OAT engine copies pages (default) or CPU threads do
        use_dma: bool = true, bool, unit "", special [], fixed, rebuild, source "HeMem's default build";
        /// DMA channels used per copy, 4.5 GB/s each in our judgement (I/OAT: 8 to 10 GB/s over two)
        dma_channels: u32 = 2, int(1, 16), unit "channels", special [], fixed, rebuild,
            when "use_dma" = true, source "hemem.c; speed ours";
        /// Threads that copy a page together, 2.5 GB/s each in our judgement
        copy_threads: u32 = 4, int(1, 64), unit "threads", special [], fixed, rebuild,
            when "use_dma" = false, source "hemem.c MAX_COPY_THREADS; speed ours";
        /// Size of one DMA request; recorded only, inert: its cost per request is below 1 % of a copy
        dma_request_bytes: u64 = 1 << 20, int(4096, 1 << 30, log), unit "bytes", special [], fixed, rebuild,
            when "use_dma" = true, source "hemem.c";
        /// Buffer pages per core and event; recorded only, inert: the driver owns sampling buffers
        perf_pages: u32 = 65_537, int(2, 1 << 24), unit "pages", special [], fixed, rebuild,
            source "pebs.h PERF_PAGES, 1 + 2^16; 1 + 2^14 and 1 + 2^8 in other branches";
        /// Weight of new values in the reported miss ratio; recorded only, inert: it feeds statistics
        miss_ratio_weight: f64 = 0.5, float(0.0, 1.0), unit "", special [], fixed, rebuild, source "pebs.c, statistics only";
    }
}
