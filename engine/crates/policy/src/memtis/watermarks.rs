//! How much of fast memory stays free.

use serde::{Deserialize, Serialize};

use super::MemtisConfig;
use crate::Topology;

const MIB: f64 = (1 << 20) as f64;
/// With less fast memory than this, bounds given in bytes shrink in proportion: a reserve of 100 MiB was
/// meant for machines of tens of gigabytes, and would leave nothing of a scaled-down tier.
const FULL_BOUNDS_BYTES: f64 = 4.0 * 1024.0 * MIB;

/// The reserves, in managed pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermarks {
    /// Promotion leaves this much free.
    pub promotion: u32,
    /// Demotion starts below this much.
    pub demotion: u32,
    /// A direct demotion makes this much more room than [`Self::promotion`].
    pub direct_extra: u32,
}

impl Watermarks {
    /// By shares of fast memory between bounds in bytes.
    #[must_use]
    pub fn new(config: &MemtisConfig, topology: &Topology) -> Self {
        let fast_pages = f64::from(topology.capacity_pages[0]);
        let fast_bytes = fast_pages * topology.page_bytes as f64;
        let scale = config.footprint_scale * (fast_bytes / FULL_BOUNDS_BYTES).min(1.0);
        let pages = |mib: f64| mib * MIB * scale / topology.page_bytes as f64;
        let share = |pct: f64| (fast_pages * pct / 100.0).min(fast_pages);
        let demotion_bounds = (pages(config.demo_wm_min_mib), pages(config.demo_wm_max_mib));
        let promotion_bounds = (pages(config.promo_wm_min_mib), pages(config.promo_wm_max_mib));
        let bounded = |wanted: f64, test: (f64, f64), bound: (f64, f64)| {
            let pages = if wanted < test.0 {
                bound.0
            } else if wanted > test.1 {
                bound.1
            } else {
                wanted
            };
            pages.min(fast_pages).round() as u32
        };
        let clamped_to = if config.promo_wm_demotion_bounds {
            demotion_bounds
        } else {
            promotion_bounds
        };
        Self {
            promotion: bounded(
                share(config.demo_wm_pct + config.promo_wm_gap_pct),
                promotion_bounds,
                clamped_to,
            ),
            demotion: bounded(share(config.demo_wm_pct), demotion_bounds, demotion_bounds),
            direct_extra: pages(config.direct_demotion_extra_mib).round() as u32,
        }
    }
}
