//! The knobs of `soar`. "ours" in a source marks a judgement of this project.

crate::knobs! {
    /// Knobs of `soar`: what campaigns tune, then switches and structural constants.
    pub struct SoarConfig for "soar" {
        /// Latency per unit of parallelism below which shares of samples are corrected
        l0_cycles: f64 = 100.0, float(30.0, 200.0), unit "cycles", special [], tuned, restart,
            when "scoring" = "paper", source "Soar section 4.2; 70 to 100 do as well (section 6.8); range ours";
        /// Share of samples below which an object counts for more
        r_min: f64 = 0.03, float(0.001, 0.4, log), unit "", special [], tuned, restart,
            source "the published scripts; section 6.8 sweeps 0.02 to 0.04; range ours";
        /// Above r_min by so much, an object counts for less (R_max = r_min + r_gap, at most 0.999)
        r_gap: f64 = 0.67, float(0.05, 0.95), unit "", special [], tuned, restart,
            source "the published scripts (R_max 0.7); section 6.8 sweeps 0.6 to 0.8; range ours";
        /// By how much
        factor: f64 = 8.0, float(1.0, 16.0), unit "", special [], tuned, restart,
            when "scoring" = "paper", source "Soar section 4.2; range ours";
        /// Time between two readings of the counters while profiling
        window_s: f64 = 1.0, float(0.05, 10.0, log), unit "s", special [], tuned, restart,
            source "prof.sh; range ours";
        /// LLC load misses per hardware sample while profiling
        pebs_period: u64 = 3001, int(500, 50_000, log), unit "events/sample", special [], tuned, restart,
            source "prof.sh; \"3000\" in the paper; range ours";
        /// Objects are placed in parts, not whole
        split_objects: bool = false, bool, unit "", special [], tuned, restart,
            source "ours; PACT section 5.4 finds that one object of 16 GB defeats whole ones";
        /// Size of a part; an object has at most 256 of them
        object_part_bytes: u64 = 1_073_741_824, int(16_777_216, 4_294_967_296, log), unit "bytes", special [], tuned,
            restart, when "split_objects" = true, source "ours";
        /// How shares are corrected: one factor below l0_cycles (paper), or by bands of latency (published scripts)
        scoring: String = "paper".to_string(), choice("paper", "bands"), unit "", special [], fixed, restart,
            source "Soar section 4.2 against proc_obj_e.py: bands up to 80, 60, 45 and 40 cycles";
        /// By how much a share is corrected in the band from 60 to 80 cycles
        factor_to_80_cycles: f64 = 2.0, float(1.0, 16.0), unit "", special [], fixed, restart,
            when "scoring" = "bands", source "proc_obj_e.py; range ours";
        /// The same from 45 to 60 cycles
        factor_to_60_cycles: f64 = 4.0, float(1.0, 16.0), unit "", special [], fixed, restart,
            when "scoring" = "bands", source "proc_obj_e.py; range ours";
        /// The same from 40 to 45 cycles
        factor_to_45_cycles: f64 = 8.0, float(1.0, 16.0), unit "", special [], fixed, restart,
            when "scoring" = "bands", source "proc_obj_e.py; range ours";
        /// The same up to 40 cycles
        factor_to_40_cycles: f64 = 12.0, float(1.0, 16.0), unit "", special [], fixed, restart,
            when "scoring" = "bands", source "proc_obj_e.py; range ours";
        /// r_min of the band from 60 to 80 cycles
        mid_r_min: f64 = 0.4, float(0.01, 0.5), unit "", special [], fixed, restart,
            when "scoring" = "bands", source "proc_obj_e.py";
        /// R_max of that band
        mid_r_max: f64 = 0.6, float(0.5, 0.99), unit "", special [], fixed, restart,
            when "scoring" = "bands", source "proc_obj_e.py";
        /// What stalls cost: slowdown is the stall share over (a + b / latency per unit of parallelism), a
        fit_constant: f64 = 0.87, float(0.01, 10.0, log), unit "", special [], fixed, restart,
            source "Soar section 4.1; proc_obj_e.py, fitted on Skylake; to be calibrated per machine";
        /// What stalls cost, b
        fit_cycles: f64 = 24.67, float(0.1, 1000.0, log), unit "cycles", special [], fixed, restart,
            source "Soar section 4.1; proc_obj_e.py, fitted on Skylake; to be calibrated per machine";
        /// Smaller objects are neither profiled nor placed
        min_object_bytes: u64 = 4096, int(4096, 16_777_216, log), unit "bytes", special [], fixed, restart,
            source "the published allocation logger; range ours";
        /// Whether pages of lower rank go down when an object that belongs in fast memory finds it taken
        demote_on_demand: bool = true, bool, unit "", special [], fixed, restart,
            source "Soar section 4.3; kernel demotion is on in its scripts";
    }
}
