//! Measures what an operation of a kernel costs with all data in the private caches, phase by phase.
//!
//! `cargo run --release -p tiertune-workload --example cpu_cost -- gups '{"table_bytes": 65536, ...}'`; give parameters
//! whose objects together fit the private caches. The printed minima (the machine may be shared) are the constants in
//! `kernels/`. Without arguments: the runs from which those of bc, pr and gups come.

use std::collections::BTreeMap;

use tiertune_workload::Values;
use tiertune_workload::host::Host;
use tiertune_workload::kernels;

const RUNS: usize = 15;

fn measure(name: &str, json: &str) -> Result<(), Box<dyn std::error::Error>> {
    let kernel = kernels::find(name).ok_or_else(|| format!("{name} is not a kernel"))?;
    let given: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json)?;
    let values = Values::read(kernel.parameters, &given).map_err(|error| format!("{} {}", error.name, error.text))?;
    let bytes: u64 = (kernel.objects)(&values).iter().map(|object| object.bytes).sum();
    println!("{name}: {bytes} bytes");
    let mut runs: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for _ in 0..RUNS {
        let mut host = Host::new(1);
        (kernel.native)(&mut host, &values, false);
        let mut spent: BTreeMap<String, (f64, u64)> = BTreeMap::new();
        for mark in host.marks() {
            let kind = mark.phase.name.split(' ').next().unwrap_or_default().to_owned();
            let entry = spent.entry(kind).or_default();
            entry.0 += mark.seconds * 1e9;
            entry.1 += mark.ops;
        }
        for (kind, (ns, ops)) in spent.into_iter().filter(|(_, (_, ops))| *ops > 0) {
            runs.entry(kind).or_default().push(ns / ops as f64);
        }
    }
    for (kind, mut costs) in runs {
        costs.sort_by(f64::total_cmp);
        let (least, median) = (costs[0], costs[costs.len() / 2]);
        println!("{name:9} {kind:14} {least:6.2} ns per operation at least, {median:6.2} in the median");
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [name, json] = arguments.as_slice() {
        return measure(name, json);
    }
    measure("bc", r#"{"graph": "kron", "scale": 11, "sources": 200}"#)?;
    measure("pr", r#"{"graph": "kron", "scale": 11, "iterations": 200}"#)?;
    measure(
        "gups",
        r#"{"table_bytes": 1048576, "hot_bytes": 8192, "updates": 2000000, "threads": 4, "hot_share": 1.0}"#,
    )
}
