//! Puts a fingerprint of all that decides a simulated run into the module: the same sources built twice, here or on
//! another machine, are the same engine.

include!("../../fingerprint.rs");

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let engine = Path::new(&folder).join("../..");
    let parts = ["policy/src", "sim/src", "workload/src", "python/src"];
    let places: Vec<PathBuf> = parts
        .iter()
        .map(|part| engine.join("crates").join(part))
        .chain([engine.join("Cargo.toml"), engine.join("Cargo.lock")])
        .collect();
    for place in &places {
        println!("cargo:rerun-if-changed={}", place.display());
    }
    println!("cargo:rerun-if-changed=../../fingerprint.rs");
    let fingerprint = fingerprint(&places).expect("the sources can be read");
    println!("cargo:rustc-env=TIERTUNE_ENGINE_SOURCES={fingerprint}");
}
