//! The B-tree: its shape after random insertions, and what a recording sees of its levels.

use serde_json::json;
use tiertune_workload::kernels::btree::{FANOUT, LEAF_FILL, build};
use tiertune_workload::memory::Native;
use tiertune_workload::{Profile, RecordRequest, Values, kernels, record};

const KEYS: u64 = 300_000;
const LOOKUPS: f64 = 500_000.0;

fn shape() -> Vec<f64> {
    let kernel = kernels::find("btree").unwrap();
    let json = json!({"keys": KEYS, "lookups": 1});
    let values = Values::read(kernel.parameters, json.as_object().unwrap()).unwrap();
    let levels = build(&mut Native, &values).levels().expect("the tree is in order");
    levels.iter().map(|nodes| *nodes as f64).collect()
}

fn recorded(llc_bytes: u64) -> Profile {
    let json = json!({"kernel": "btree", "keys": KEYS, "lookups": LOOKUPS as u64, "llc_bytes": llc_bytes});
    record(&RecordRequest::try_from(json).unwrap()).unwrap()
}

/// Reads of each page of an object in all classes, extents one after the other.
fn page_reads(profile: &Profile, name: &str) -> Vec<f64> {
    let mut pages = Vec::new();
    for (number, object) in profile.metadata.objects.iter().enumerate() {
        if object.name != name {
            continue;
        }
        let start = pages.len();
        pages.resize(start + object.pages() as usize, 0.0);
        let columns = &profile.columns;
        for row in 0..columns.len() {
            if columns.object[row] as usize == number {
                pages[start + columns.page[row] as usize] += f64::from(columns.reads[row]);
            }
        }
    }
    pages
}

#[test]
fn levels_are_in_the_proportions_of_random_splits() {
    let levels = shape();
    let fill = KEYS as f64 / levels[0];
    assert!((fill / LEAF_FILL - 1.0).abs() < 0.01, "{fill} keys in a leaf");
    for pair in levels.windows(2).take_while(|pair| pair[1] > 1000.0) {
        let fanout = pair[0] / pair[1];
        assert!((fanout / FANOUT - 1.0).abs() < 0.03, "{fanout}");
    }
    let nodes: f64 = levels.iter().sum();
    // Three quarters of the nodes are leaves, as counted in the original (76 % and 18 %).
    assert!((levels[0] / nodes - (1.0 - 1.0 / FANOUT)).abs() < 0.005);
    assert!((levels[1] / nodes - 0.18).abs() < 0.005);
}

/// The time within which a least-recently-used cache of `lines` sees that many different lines, each node of a level having
/// three that are seen at the same rate (Che's approximation), and what a lookup touches besides.
fn characteristic_time(levels: &[f64], lines: f64) -> f64 {
    let held = |time: f64| -> f64 {
        let nodes: f64 = levels.iter().map(|nodes| 3.0 * nodes * -(-time / nodes).exp_m1()).sum();
        // Half of the lookups touch one of as many records and elements.
        nodes + 2.0 * KEYS as f64 * -(-time / (2.0 * KEYS as f64)).exp_m1()
    };
    let (mut low, mut high) = (1.0, 1e9);
    for _ in 0..100 {
        let middle = f64::sqrt(low * high);
        if held(middle) < lines {
            low = middle
        } else {
            high = middle
        }
    }
    low
}

#[test]
fn misses_are_those_of_a_geometric_mix_of_levels() {
    let levels = shape();
    for llc_bytes in [32 << 10, 1 << 20] {
        let profile = recorded(llc_bytes);
        let found = page_reads(&profile, "nodes").iter().sum::<f64>() / LOOKUPS;
        let time = characteristic_time(&levels, llc_bytes as f64 / 64.0);
        let expected: f64 = levels.iter().map(|nodes| 3.0 * (-time / nodes).exp()).sum();
        assert!(
            (found / expected - 1.0).abs() < 0.08,
            "{llc_bytes}: {found} against {expected} lines a lookup"
        );
    }
}

#[test]
fn pages_mix_all_levels_and_are_hardly_skewed() {
    let levels = shape();
    let llc_bytes = 64u64 << 10;
    let mut pages = page_reads(&recorded(llc_bytes), "nodes");
    pages.retain(|reads| *reads > 0.0);
    pages.sort_by(f64::total_cmp);
    // If levels lay apart, the inner nodes, on less than a quarter of the pages, would have two thirds of the reads.
    let time = characteristic_time(&levels, llc_bytes as f64 / 64.0);
    let reads = |level: &f64| (-time / level).exp();
    let all: f64 = levels.iter().map(reads).sum();
    let apart = 1.0 - reads(&levels[0]) / all;
    let inner = 1.0 - levels[0] / levels.iter().sum::<f64>();
    let hottest = &pages[(pages.len() as f64 * (1.0 - inner)) as usize..];
    let found = hottest.iter().sum::<f64>() / pages.iter().sum::<f64>();
    assert!(apart > 0.6 && found < 0.85 * apart, "{found}, {apart} apart");
    // Inner nodes a level up are read four times as often as leaves; pages differ less.
    let place = |share: f64| pages[(pages.len() as f64 * share) as usize];
    assert!(place(0.8) / place(0.2) < 3.0, "{}", place(0.8) / place(0.2));
}

#[test]
fn half_of_the_lookups_read_a_record_and_an_element() {
    let profile = recorded(16 << 10);
    for name in ["records", "elements"] {
        let reads = page_reads(&profile, name).iter().sum::<f64>() / LOOKUPS;
        assert!((reads - 0.5).abs() < 0.005, "{name}: {reads}");
    }
    let columns = &profile.columns;
    let written: u64 = columns.writebacks.iter().map(|count| u64::from(*count)).sum();
    // A hit is counted in its record, which so becomes dirty.
    assert!((written as f64 / (LOOKUPS / 2.0) - 1.0).abs() < 0.02, "{written}");
}
