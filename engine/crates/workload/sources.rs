// Shared by build.rs and a test: what recordings depend on beside the request.

include!("../../fingerprint.rs");

/// The kernels with all that they use, and the generator of their random numbers.
pub fn places(crate_folder: &Path) -> Vec<PathBuf> {
    vec![crate_folder.join("src"), crate_folder.join("../policy/src/random.rs")]
}
