//! The CacheLib-like cache: hot and cold items at 4 KiB and at 2 MiB, in the recording and carried.

use serde_json::{Value as Json, json};
use tiertune_workload::host::Host;
use tiertune_workload::{CarrySpec, Profile, RecordRequest, Values, kernels, record};

fn recorded() -> Profile {
    // 8192 items of 4224 bytes; about 60 operations on each.
    let json = json!({"kernel": "cachelib", "keys": 8192, "operations": 500_000, "llc_bytes": 16384});
    record(&RecordRequest::try_from(json).unwrap()).unwrap()
}

/// Touches of each page of the items.
fn item_pages(profile: &Profile) -> Vec<f64> {
    let mut pages = Vec::new();
    for (number, object) in profile.metadata.objects.iter().enumerate() {
        if object.name != "items" {
            continue;
        }
        let start = pages.len();
        pages.resize(start + object.pages() as usize, 0.0);
        let columns = &profile.columns;
        for row in 0..columns.len() {
            if columns.object[row] as usize == number {
                pages[start + columns.page[row] as usize] += f64::from(columns.touches[row]);
            }
        }
    }
    pages
}

/// Squared variation of the rates of single items: 4.5 times the mean for a fifth of them, 0.125 times for the others.
const ITEM_CV2: f64 = 0.2 * 4.5 * 4.5 + 0.8 * 0.125 * 0.125 - 1.0;

#[test]
fn pages_of_4_kib_are_hot_or_cold_by_36_to_1() {
    let mut pages = item_pages(&recorded());
    pages.sort_by(f64::total_cmp);
    let n = pages.len();
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    // A page has parts of two items: both are cold on 64 % of the pages, both hot on 4 %.
    let (cold, hot) = (mean(&pages[n / 10..n / 2]), mean(&pages[n * 97 / 100..n * 99 / 100]));
    assert!((hot / cold / 36.0 - 1.0).abs() < 0.1, "{}", hot / cold);
    // On the others, 32 % but for those within one item, the hot part h gives a heat of 0.125 + 4.375 h; that is above twice
    // the cold and below 0.9 of the hot for h from 0.0286 to 0.897.
    let (low, high) = (0.125 / 4.375, (0.9 * 4.5 - 0.125) / 4.375);
    let expected = 0.32 * (high - low) * 4096.0 / 4224.0;
    let between = pages
        .iter()
        .filter(|touches| **touches > 2.0 * cold && **touches < 0.9 * hot)
        .count();
    assert!(
        (between as f64 / n as f64 - expected).abs() < 0.02,
        "{between} of {n} against {expected}"
    );
}

#[test]
fn pages_of_2_mib_are_flat() {
    let pages = item_pages(&recorded());
    let large: Vec<f64> = pages.chunks_exact(512).map(|chunk| chunk.iter().sum()).collect();
    let mean = large.iter().sum::<f64>() / large.len() as f64;
    // 496 items each: the share of hot ones is binomial, 20 +- 1.8 %.
    let deviation = f64::sqrt(ITEM_CV2 / (2_097_152.0 / 4224.0));
    for touches in &large {
        let off = touches / mean - 1.0;
        assert!(off.abs() < 4.0 * deviation, "{off} against a deviation of {deviation}");
    }
}

#[test]
fn carrying_keeps_both_pictures() {
    let profile = recorded();
    for (page_bytes, expected) in [
        (4096u64, ITEM_CV2 * 4096.0 / 4224.0),
        (2 << 20, ITEM_CV2 * 4224.0 / 2_097_152.0),
    ] {
        let replay = profile
            .carry(&CarrySpec::new(page_bytes).with("keys", 1 << 20))
            .unwrap();
        let mut cv2 = (0.0, 0.0);
        for stream in replay.slices.iter().flat_map(|slice| &slice.streams) {
            if replay.objects[stream.object].name == "items" && stream.prefetched_share > 0.5 {
                let n = f64::from(replay.objects[stream.object].bins);
                let squares: f64 = stream.weights.iter().map(|weight| f64::from(*weight).powi(2)).sum();
                cv2 = (cv2.0 + n * squares - 1.0, cv2.1 + 1.0);
            }
        }
        let found = cv2.0 / cv2.1;
        // A page of 4 KiB has parts of two items, which takes a third of the variation away.
        let expected = if page_bytes == 4096 {
            expected * 2.0 / 3.0
        } else {
            expected
        };
        assert!(
            found < 1.3 * expected + 0.002 && found > 0.5 * expected,
            "{page_bytes}: {found} against {expected}"
        );
    }
}

#[test]
fn threads_that_update_the_same_items_keep_them_whole() {
    let kernel = kernels::find("cachelib").unwrap();
    let json: Json = json!({"keys": 16, "operations": 60_000, "update_share": 0.5, "hot_keys": 0.5, "refresh": 0.1});
    let values = Values::read(kernel.parameters, json.as_object().unwrap()).unwrap();
    for threads in [1, 6] {
        let outcome = (kernel.native)(&mut Host::new(threads), &values, true);
        assert!(outcome.checks.iter().all(|check| check.passed), "{:?}", outcome.checks);
        assert!(
            outcome
                .metrics
                .iter()
                .any(|(name, value)| *name == "recency_moves" && *value > 1000.0)
        );
    }
}

#[test]
fn a_get_reads_every_line_of_the_value_once() {
    let profile = recorded();
    let columns = &profile.columns;
    let reads: u64 = columns.reads.iter().map(|reads| u64::from(*reads)).sum();
    // 66 lines of an item (header and key included) and one of the bucket; promotions and chains add little.
    let lines = reads as f64 / 5e5;
    assert!((65.0..71.0).contains(&lines), "{lines}");
}
