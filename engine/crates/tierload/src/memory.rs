//! Whether this host has the memory that a run takes: without that, the kernel would end it without a word, or others.

/// What is free, and what the kernel can free without swapping; `None` where it does not say.
fn available_bytes() -> Option<u64> {
    available(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Whether objects of so many bytes fit.
///
/// # Errors
/// With both figures and what to do.
pub fn check(footprint_bytes: u64) -> Result<(), String> {
    compare(footprint_bytes, available_bytes())
}

fn compare(footprint_bytes: u64, available: Option<u64>) -> Result<(), String> {
    match available {
        Some(available) if footprint_bytes > available => Err(format!(
            "the run takes {} of memory, {} are available here; ask for a smaller input, or end what else runs",
            spelled(footprint_bytes),
            spelled(available)
        )),
        _ => Ok(()),
    }
}

fn spelled(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1u32 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_runs_and_what_does_not_is_told_with_both_figures() {
        let meminfo = "MemTotal:       24576000 kB\nMemFree:         1000000 kB\nMemAvailable:    2097152 kB\n";
        assert_eq!(available(meminfo), Some(2 << 30));
        assert_eq!(available("MemTotal: 5 kB\n"), None);
        assert_eq!(compare(2 << 30, Some(2 << 30)), Ok(()));
        assert_eq!(compare(u64::MAX, None), Ok(()));
        let refused = compare(3 << 30, Some(2 << 30)).unwrap_err();
        assert!(
            refused.starts_with("the run takes 3.0 GiB of memory, 2.0 GiB are available here;"),
            "{refused}"
        );
    }
}
