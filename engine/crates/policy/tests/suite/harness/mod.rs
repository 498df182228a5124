//! The machine of `tiertune-contract` for systems by their names, and second implementations to compare with.

pub mod naive_hemem;
pub mod naive_mru;

pub use tiertune_contract::driver::*;

use tiertune_policy::registry::{self, Composed};

fn found(system: &str) -> Composed {
    registry::find(system).unwrap_or_else(|error| panic!("{error}"))
}

/// The workload under a system of the registry.
pub mod workload {
    pub use tiertune_contract::workload::*;
    use tiertune_policy::Config;

    /// Runs the workload.
    pub fn run(system: &str, config: &Config, page_bytes: u64, tiers: usize) -> Observed {
        tiertune_contract::workload::run(&super::found(system), config, page_bytes, tiers)
    }
}

/// Scripts under a system of the registry.
pub mod script {
    /// The script with every output replaced by what happens now.
    pub fn replay(system: &str, script: &str) -> String {
        tiertune_contract::script::replay(&super::found(system), script)
    }
}
