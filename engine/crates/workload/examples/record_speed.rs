//! Records one kernel and prints how fast that went and what the profile holds.
//!
//! `cargo run --release -p tiertune-workload --example record_speed -- '{"kernel": "bc", ...}'`

use std::time::Instant;

use tiertune_workload::{RecordRequest, record};

fn main() {
    let default = r#"{"kernel": "bc", "graph": "kron", "scale": 18, "llc_bytes": 32768}"#;
    let text = std::env::args().nth(1).unwrap_or_else(|| default.to_owned());
    let request: RecordRequest = match serde_json::from_str(&text) {
        Ok(request) => request,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    };
    let start = Instant::now();
    let profile = match record(&request) {
        Ok(profile) => profile,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    let accesses: u64 = profile.metadata.slices.iter().map(|slice| slice.accesses).sum();
    let (rows, slices) = (profile.columns.len(), profile.metadata.slices.len());
    println!(
        "{seconds:.2} s, {:.1} M accesses/s, {rows} rows, {slices} slices",
        accesses as f64 / seconds / 1e6
    );
    let ops = profile.ops() as f64;
    println!(
        "reads per op {:.4}, write-backs {:.4}",
        profile.metadata.total_reads as f64 / ops,
        profile.metadata.total_writebacks as f64 / ops
    );
    println!(
        "graph {:?}\nsmaller {:?}",
        profile.metadata.graph, profile.metadata.smaller
    );
    for (number, object) in profile.metadata.objects.iter().enumerate() {
        println!("{object:?}");
        let columns = &profile.columns;
        for class in 0..5u8 {
            let mut sums = [0u64; 5];
            for row in (0..rows).filter(|row| columns.object[*row] as usize == number && columns.class[*row] == class) {
                sums[0] += u64::from(columns.reads[row]);
                sums[1] += u64::from(columns.prefetched[row]);
                sums[2] += u64::from(columns.writebacks[row]);
                sums[3] += u64::from(columns.stores[row]);
                sums[4] += u64::from(columns.touches[row]);
            }
            if sums != [0; 5] {
                println!(
                    "  class {class}: per op reads {:.4} prefetched {:.4} writebacks {:.4} stores {:.4} touches {:.4}",
                    sums[0] as f64 / ops,
                    sums[1] as f64 / ops,
                    sums[2] as f64 / ops,
                    sums[3] as f64 / ops,
                    sums[4] as f64 / ops
                );
            }
        }
    }
}
