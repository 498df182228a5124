// Shared by build scripts and a test: a fingerprint of sources that does not depend on where they lie.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// All files under `place`, or `place` itself, in an order that does not depend on the machine.
fn files(place: &Path) -> io::Result<Vec<PathBuf>> {
    if place.is_file() {
        return Ok(vec![place.to_owned()]);
    }
    let mut entries = fs::read_dir(place)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    let nested = entries.iter().map(|entry| files(entry)).collect::<io::Result<Vec<_>>>()?;
    Ok(nested.concat())
}

/// A fingerprint of the sources at `places`, as 16 hexadecimal digits: names and contents.
pub fn fingerprint(places: &[PathBuf]) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    for place in places {
        for file in files(place)? {
            let name = file.strip_prefix(place).unwrap_or(&file).to_string_lossy().into_owned();
            let content = fs::read(&file)?;
            hasher.write_u64(name.len() as u64);
            hasher.write(name.as_bytes());
            hasher.write_u64(content.len() as u64);
            hasher.write(&content);
        }
    }
    Ok(format!("{:016x}", hasher.finish()))
}
