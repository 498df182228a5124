//! Parameters by which microbenchmarks follow published runs: what is touched first, and when the hot set is replaced.

use serde_json::{Value, json};
use tiertune_workload::host::Host;
use tiertune_workload::kernels::find;
use tiertune_workload::{AccessClass, Profile, RecordRequest, Values, record};

const BUFFER_BYTES: u64 = 1 << 20;

fn chase(first: &str) -> Profile {
    let asked = json!({"kernel": "seq_chase", "buffer_bytes": BUFFER_BYTES, "hops": 40_000, "first": first,
        "llc_bytes": 8192});
    record(&RecordRequest::try_from(asked).unwrap()).unwrap()
}

fn reads_by_class(profile: &Profile) -> [u64; 2] {
    [AccessClass::Chase, AccessClass::Stream].map(|class| {
        let rows = 0..profile.columns.len();
        rows.filter(|row| profile.columns.class[*row] == class as u8)
            .map(|row| u64::from(profile.columns.reads[row]))
            .sum()
    })
}

#[test]
fn the_buffer_that_is_asked_for_is_touched_first() {
    let names = |profile: &Profile| -> Vec<String> {
        profile
            .metadata
            .objects
            .iter()
            .map(|object| object.name.clone())
            .collect()
    };
    let (seq, other, both) = (chase("seq"), chase("chase"), chase("both"));
    assert_eq!(names(&seq), ["seq", "chase"]);
    assert_eq!(names(&other), ["chase", "seq"]);
    assert_eq!(names(&both), ["seq-1", "chase-1", "seq-2", "chase-2"]);
    let bytes: Vec<u64> = both.metadata.objects.iter().map(|object| object.bytes).collect();
    assert_eq!(bytes, [BUFFER_BYTES / 2; 4]);
    // The same walk over the same lines; caches differ by which lines share a set.
    let [chased, swept] = reads_by_class(&seq);
    for profile in [&other, &both] {
        let [c, s] = reads_by_class(profile);
        assert!((c as f64 / chased as f64 - 1.0).abs() < 0.02, "{c} against {chased}");
        assert!((s as f64 / swept as f64 - 1.0).abs() < 0.02, "{s} against {swept}");
    }
}

fn native(kernel: &str, parameters: Value) -> Vec<u64> {
    let kernel = find(kernel).unwrap();
    let values = Values::read(kernel.parameters, parameters.as_object().unwrap()).unwrap();
    (kernel.check)(&values).unwrap();
    let mut host = Host::new(2);
    let outcome = (kernel.native)(&mut host, &values, true);
    assert!(outcome.checks.iter().all(|check| check.passed), "{:?}", outcome.checks);
    host.marks().iter().map(|mark| mark.ops).collect()
}

#[test]
fn every_order_of_touching_gives_the_right_walk() {
    for first in ["seq", "chase", "both"] {
        let asked = json!({"buffer_bytes": 65_536 + 128, "hops": 5_000, "first": first});
        assert_eq!(native("seq_chase", asked), [5_000]);
    }
}

#[test]
fn the_first_phase_has_the_share_of_the_updates_that_is_asked_for() {
    let asked = |share: f64, phases: u64| {
        json!({"table_bytes": 1 << 20, "hot_bytes": 1 << 18, "updates": 10_000, "phases": phases,
            "first_share": share})
    };
    assert_eq!(native("gups_objects", asked(0.1, 2)), [1_000, 9_000]);
    assert_eq!(native("gups_objects", asked(0.25, 4)), [2_500; 4]);
    assert_eq!(native("gups_objects", asked(0.0, 4)), [2_500; 4]);
    let kernel = find("gups_objects").unwrap();
    let values = Values::read(kernel.parameters, asked(0.5, 1).as_object().unwrap()).unwrap();
    assert!((kernel.check)(&values).unwrap_err().text.contains("there is one phase"));
}
