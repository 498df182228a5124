//! What every listed system owes on the simulated machine, with pages of both sizes on two and three tiers: the policy
//! crate's contract suite holds systems to their promises on a toy, this one where everything has its price.
//!
//! In debug builds, as here, the simulator recounts its page table after every phase: each page is in exactly one
//! tier, no tier is above its capacity.

use crate::support::{MIB, compile, machine, request};
use serde_json::json;
use tiertune_policy::registry::{self, PAGE_2M};
use tiertune_policy::{Config, Value};
use tiertune_sim::run_many;

const THREADS: usize = 2;
/// Some seconds: scanners of page tables begin after one, and come by again after another.
const OPS: f64 = 3e8;
/// Slices are whole nanoseconds.
const ROUNDED: f64 = 1.0 + 1e-6;

/// Knobs without which a system looks away from objects as small as these, or for as short a time.
fn config(system: &str) -> Config {
    let knobs: &[(&str, Value)] = match system.rsplit('+').next() {
        Some("hemem") => &[("mmap_filter_size_bytes", Value::Int(0))],
        Some("hmsdk") => &[("dem_age_min_s", Value::Float(0.1))],
        // Without, it never demotes, and fast memory is full from the start.
        Some("autonuma") => &[("variant", Value::Text("tiering-0.8".into()))],
        _ => &[],
    };
    knobs
        .iter()
        .map(|(name, value)| ((*name).to_string(), value.clone()))
        .collect()
}

/// A hot set that goes elsewhere half-way, over pages that are touched so rarely that even a look at accessed bits
/// tells them apart.
fn workload(bytes: u64) -> serde_json::Value {
    let phase = |from: f64| {
        json!({"name": "p", "groups": [{"name": "w", "threads": 4, "ops": OPS / 2.0, "cpu_ns_per_op": 20.0, "streams": [
            {"object": "t", "law": {"kind": "uniform", "from": from, "to": from + 0.08}, "class": "update", "mlp": 1.5,
             "reads_per_op": 1.0, "writebacks_per_op": 1.0, "stores_per_op": 1.0},
            {"object": "t", "law": {"kind": "uniform"}, "class": "update", "mlp": 1.5,
             "reads_per_op": 1e-6, "writebacks_per_op": 1e-6, "stores_per_op": 1e-6}]}]})
    };
    json!({"objects": [{"name": "t", "bytes": bytes}], "blocks": [{"phases": [phase(0.0), phase(0.5)]}]})
}

#[test]
fn runs_are_repeatable_and_their_books_balance() {
    let mut wrong = Vec::new();
    for system in registry::listed() {
        let name = system.name();
        let mut moved = 0.0;
        for page_bytes in system.page_bytes() {
            let bytes = if *page_bytes == PAGE_2M { 512 * MIB } else { 96 * MIB };
            let compiled = compile(workload(bytes), *page_bytes);
            for tiers in [2, 3] {
                let mut request = request(&name, config(&name), *page_bytes, bytes / 9, 1);
                request.machine = machine(tiers);
                request.machine.llc_bytes = MIB;
                request.machine.tiers[1].capacity_bytes = if tiers == 3 { bytes / 2 } else { 2 * bytes };
                request.slice_ns = 5_000_000;
                let place = format!("{name} with pages of {page_bytes} bytes on {tiers} tiers");
                let results = run_many(&compiled, &[request.clone(), request], THREADS);
                let mut results = results
                    .into_iter()
                    .map(|result| result.unwrap_or_else(|error| panic!("{place}: {error}")));
                let (once, again) = (results.next().expect("two runs"), results.next().expect("two runs"));
                let text = |run| serde_json::to_string(run).expect("it serialises");
                if text(&once) != text(&again) {
                    wrong.push(format!("{place}: two runs differ"));
                }
                let m = &once.metrics;
                moved += m.promotions + m.demotions;
                let done = m.throughput_mops * 1e6 * m.runtime_s;
                if (done / OPS - 1.0).abs() > 1e-3 {
                    wrong.push(format!("{place}: {done} operations of {OPS}"));
                }
                // Aborted copies were bytes as well; a page that goes back to its shadow, or for free, was none.
                let most = (m.promotions + m.demotions + m.migrations_aborted) * *page_bytes as f64;
                if m.migrated_bytes > most || m.stall_s < m.fault_stall_s + m.scan_stall_s - 1e-9 {
                    wrong.push(format!("{place}: {m:?}"));
                }
                if !(0.0..=ROUNDED).contains(&m.fast_hit_ratio) || m.runtime_s <= 0.0 {
                    wrong.push(format!("{place}: {m:?}"));
                }
            }
        }
        println!("{name}: {moved} pages moved");
        // Soar and static place objects and pages once.
        let once = ["soar", "static"].contains(&system.base.name);
        if (moved > 0.0) == system.signal().starts_with("none") && !once {
            wrong.push(format!("{name} moved {moved} pages"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
