//! Recordings are kept by the fingerprint of what made them.

include!("../sources.rs");

use tiertune_workload::profile::SOURCES;

fn crate_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_crate_knows_its_own_sources() {
    assert_eq!(fingerprint(&places(&crate_folder())).expect("readable"), SOURCES);
}

#[test]
fn any_change_of_a_kernel_is_another_fingerprint() {
    let copy = std::env::temp_dir().join(format!("tiertune-sources-{}", std::process::id()));
    let of_copy = || fingerprint(std::slice::from_ref(&copy)).expect("readable");
    fs::create_dir_all(copy.join("kernels")).expect("a folder");
    for file in ["recorder.rs", "kernels/gups.rs"] {
        fs::copy(crate_folder().join("src").join(file), copy.join(file)).expect("a copy");
    }
    let before = of_copy();
    assert_eq!(of_copy(), before);
    let kernel = copy.join("kernels/gups.rs");
    let text = fs::read_to_string(&kernel).expect("text");
    fs::write(&kernel, text.replacen("0.9", "0.8", 1)).expect("written");
    let changed = of_copy();
    fs::write(&kernel, &text).expect("written");
    fs::rename(&kernel, copy.join("kernels/other.rs")).expect("renamed");
    let renamed = of_copy();
    fs::remove_dir_all(&copy).expect("removed");
    assert_ne!(changed, before);
    assert_ne!(renamed, before);
}
