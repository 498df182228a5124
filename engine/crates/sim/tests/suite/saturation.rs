//! A tier that is asked for more than it can: it moves what it can in both modes, also where phases are short.

use crate::support::{MIB, compile, request};
use serde_json::json;
use tiertune_policy::Config;
use tiertune_policy::registry::PAGE_4K;
use tiertune_sim::scenario::Mode;

const BYTES: u64 = 8 * MIB;
const PEAK_GBPS: f64 = 4.0;
/// Of single lines, as of Optane.
const RANDOM_GBPS: f64 = 1.0;

/// How threads read slow memory in a phase: a few lines at once, or in order, ahead of themselves, which asks for more at once.
#[derive(Debug, Clone, Copy)]
enum Reads {
    AtRandom,
    InOrder,
}

/// Runtime of 16 threads that read slow memory, `lines` in each of `phases`, and fast memory before each.
fn runtime_ns(mode: Mode, phases: &[Reads], lines: f64, random_gbps: Option<f64>) -> f64 {
    let phase = |object: &str, reads: Reads, ops: f64| {
        let (law, class, prefetched_share) = match reads {
            Reads::AtRandom => ("uniform", "gather", 0.0),
            Reads::InOrder => ("sweep", "stream", 1.0),
        };
        json!({"name": object, "groups": [{"name": "w", "threads": 16, "ops": ops, "cpu_ns_per_op": 1.0, "streams": [
            {"object": object, "law": {"kind": law}, "class": class, "prefetched_share": prefetched_share,
             "reads_per_op": 1.0, "missed_llc": true}]}]})
    };
    let both: Vec<_> = phases
        .iter()
        .flat_map(|reads| [phase("near", Reads::AtRandom, 20_000.0), phase("far", *reads, lines)])
        .collect();
    let workload = compile(
        json!({"objects": [{"name": "near", "bytes": BYTES}, {"name": "far", "bytes": BYTES}], "blocks": [{"phases": both}]}),
        PAGE_4K,
    );
    let mut request = request("notier", Config::new(), PAGE_4K, BYTES, 1);
    request.mode = mode;
    request.machine.tiers[1].read_gbps = PEAK_GBPS;
    request.machine.tiers[1].random_read_gbps = random_gbps;
    let run = tiertune_sim::run(&workload, &request).expect("a run");
    run.metrics.runtime_s * 1e9
}

/// Lines that the tier supplies in so many milliseconds.
fn lines_of(ms: f64) -> f64 {
    ms * 1e6 * PEAK_GBPS / 64.0
}

#[test]
fn a_saturated_tier_moves_what_it_can() {
    let turns = [Reads::AtRandom, Reads::InOrder].repeat(20);
    for mode in [Mode::Fast, Mode::Reference] {
        for (phases, ms) in [
            (&[Reads::AtRandom][..], 40.0),
            (&[Reads::AtRandom; 20], 2.0),
            (&turns, 1.0),
            (&turns, 0.4),
        ] {
            let without_ns = runtime_ns(mode, phases, 0.001, None);
            let took_ns = runtime_ns(mode, phases, lines_of(ms), None) - without_ns;
            let utilisation = phases.len() as f64 * ms * 1e6 / took_ns;
            assert!(
                (0.95..1.05).contains(&utilisation),
                "{mode:?}, {} phases of {ms} ms: {utilisation}",
                phases.len()
            );
        }
    }
}

/// Where the medium reads four lines for one, single ones pass at a quarter of the rate, and those in order at all of it.
#[test]
fn single_lines_saturate_a_tier_of_large_blocks_earlier() {
    for mode in [Mode::Fast, Mode::Reference] {
        for (reads, peak_gbps) in [(Reads::AtRandom, RANDOM_GBPS), (Reads::InOrder, PEAK_GBPS)] {
            let took_ns = |lines| runtime_ns(mode, &[reads], lines, Some(RANDOM_GBPS));
            let lines = lines_of(20.0);
            let gbps = lines * 64.0 / (took_ns(lines) - took_ns(0.001));
            assert!(
                (0.95..1.05).contains(&(gbps / peak_gbps)),
                "{mode:?}, {reads:?}: {gbps} GB/s"
            );
        }
    }
}
