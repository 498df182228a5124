//! Records a kernel, carries it, and prints what the notes say.
//!
//! `cargo run --release -p tiertune-workload --example carry_notes -- RECORD-JSON CARRY-JSON MACHINE-LLC-BYTES`

use std::error::Error;
use std::time::Instant;

use tiertune_workload::{CarrySpec, RecordRequest, plan, record};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |position: usize, default: &str| arguments.get(position).map_or(default.to_owned(), Clone::clone);
    let request: RecordRequest = serde_json::from_str(&text(
        0,
        r#"{"kernel": "bc", "graph": "kron", "scale": 18, "llc_bytes": 512}"#,
    ))?;
    let spec: CarrySpec = serde_json::from_str(&text(1, r#"{"scale": 29, "page_bytes": 2097152}"#))?;
    let plan = plan(&request, &spec, text(2, "14417920").parse()?)?;
    println!("{plan:?}");
    let profile = record(&request.with_llc_bytes(plan.llc_bytes))?;
    let start = Instant::now();
    let replay = profile.carry(&spec)?;
    println!(
        "carried in {:.2} s: {} slices",
        start.elapsed().as_secs_f64(),
        replay.slices.len()
    );
    for note in &replay.notes {
        println!("- {note}");
    }
    for (number, object) in replay.objects.iter().enumerate() {
        let mut per_op = [0.0; 4];
        for slice in &replay.slices {
            for stream in slice.streams.iter().filter(|stream| stream.object == number) {
                per_op[0] += stream.reads_per_op * slice.ops;
                per_op[1] += stream.reads_per_op * stream.prefetched_share * slice.ops;
                per_op[2] += stream.writebacks_per_op * slice.ops;
                per_op[3] += stream.stores_per_op * slice.ops;
            }
        }
        let [reads, hidden, writebacks, stores] = per_op.map(|sum| sum / 1e9);
        println!(
            "{:14} {:12} bytes {:5} bins; in 1e9: reads {reads:.3} (hidden {hidden:.3}), write-backs {writebacks:.3}, stores {stores:.3}",
            object.name, object.bytes, object.bins
        );
    }
    Ok(())
}
