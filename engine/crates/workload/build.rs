//! Puts a fingerprint of the kernels' sources into the crate, so that changed kernels never reuse old recordings.

include!("sources.rs");

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let places = places(Path::new(&folder));
    for place in &places {
        println!("cargo:rerun-if-changed={}", place.display());
    }
    println!("cargo:rerun-if-changed=sources.rs");
    println!("cargo:rerun-if-changed=../../fingerprint.rs");
    let fingerprint = fingerprint(&places).expect("the sources can be read");
    println!("cargo:rustc-env=TIERTUNE_WORKLOAD_SOURCES={fingerprint}");
}
