//! A monitor as sysfs shows it: a folder of settings, a file that takes commands, and a folder of regions for each answer.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::setting;

/// The kernel refuses a command to any monitor while it works on another one's (it answers "busy", and an answer with regions takes
/// as long as their interval), so that commands wait for each other here.
static COMMANDS: Mutex<()> = Mutex::new(());

/// Keeps others in this process from giving commands.
pub fn alone() -> MutexGuard<'static, ()> {
    COMMANDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks at a region in each answer, as DAMON's own default has it.
const LOOKS: u64 = 20;
const LEAST_LOOK_US: u64 = 5_000;
const MOST_AGGREGATION_US: u64 = 2_000_000;
const UPDATE_US: u64 = 1_000_000;
const LEAST_REGIONS: u64 = 10;
const MOST_REGIONS: u64 = 1000;

/// How often it looks, counts together, and follows changes of mappings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intervals {
    look_us: u64,
    aggregation_us: u64,
}

impl Intervals {
    /// One answer for each drain, as far as looks are not too frequent for the kernel's taste.
    pub fn for_drains(drain_ns: u64) -> Self {
        let aggregation_us = (drain_ns / 1000).clamp(LOOKS * LEAST_LOOK_US, MOST_AGGREGATION_US);
        Self {
            look_us: aggregation_us / LOOKS,
            aggregation_us,
        }
    }

    /// From one answer to the next.
    pub fn aggregation(self) -> Duration {
        Duration::from_micros(self.aggregation_us)
    }
}

/// Addresses that are about equally hot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub start: u64,
    /// The byte after the last one.
    pub end: u64,
    /// Looks that found it touched, of [`LOOKS`].
    pub touched: u32,
}

/// The folder of a monitor.
#[derive(Debug, Clone)]
pub struct Kdamond {
    folder: PathBuf,
}

fn number(path: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim()
        .parse()
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("{} is no number", path.display())))
}

impl Kdamond {
    pub fn new(monitors: &Path, slot: usize) -> Self {
        Self {
            folder: monitors.join(slot.to_string()),
        }
    }

    /// Where it is switched on and off.
    pub fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    fn context(&self) -> PathBuf {
        self.folder.join("contexts/0")
    }

    fn scheme(&self) -> PathBuf {
        self.context().join("schemes/0")
    }

    /// Whether it can watch virtual addresses.
    pub fn watches_virtual(&self) -> bool {
        let made = setting::write(&self.folder.join("contexts/nr_contexts"), "1");
        let offered = fs::read_to_string(self.context().join("avail_operations")).unwrap_or_default();
        made.is_ok() && offered.split_ascii_whitespace().any(|name| name == "vaddr")
    }

    /// Sets it up for a process; it is not switched on.
    pub fn watch(&self, pid: i32, intervals: Intervals) -> io::Result<()> {
        let write = |path: PathBuf, value: String| setting::write(&path, value);
        // Kernels crash when a monitor that runs loses its context (until 2026).
        if setting::value_of(&self.state())? == "on" {
            self.stop()?;
        }
        // An old target would be kept.
        write(self.folder.join("contexts/nr_contexts"), "0".into())?;
        write(self.folder.join("contexts/nr_contexts"), "1".into())?;
        let context = self.context();
        write(context.join("operations"), "vaddr".into())?;
        let attributes = context.join("monitoring_attrs");
        write(attributes.join("intervals/sample_us"), intervals.look_us.to_string())?;
        write(
            attributes.join("intervals/aggr_us"),
            intervals.aggregation_us.to_string(),
        )?;
        write(
            attributes.join("intervals/update_us"),
            UPDATE_US.max(intervals.aggregation_us).to_string(),
        )?;
        // The most first: the least may not be above it.
        write(attributes.join("nr_regions/max"), MOST_REGIONS.to_string())?;
        write(attributes.join("nr_regions/min"), LEAST_REGIONS.to_string())?;
        write(context.join("targets/nr_targets"), "1".into())?;
        write(context.join("targets/0/pid_target"), pid.to_string())?;
        // A scheme that does nothing but count says which regions it was tried on: all.
        write(context.join("schemes/nr_schemes"), "1".into())?;
        let scheme = self.scheme();
        write(scheme.join("action"), "stat".into())?;
        for (range, most) in [
            ("sz", u64::MAX),
            ("nr_accesses", u64::from(u32::MAX)),
            ("age", u64::from(u32::MAX)),
        ] {
            write(scheme.join("access_pattern").join(range).join("max"), most.to_string())?;
            write(scheme.join("access_pattern").join(range).join("min"), "0".into())?;
        }
        Ok(())
    }

    /// Switches it off.
    pub fn stop(&self) -> io::Result<()> {
        setting::write(&self.state(), "off")
    }

    /// Its regions now; waits for the end of the interval.
    pub fn regions(&self) -> io::Result<Vec<Region>> {
        setting::write(&self.state(), "update_schemes_tried_regions")?;
        let mut found = Vec::new();
        for entry in fs::read_dir(self.scheme().join("tried_regions"))?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                found.push(Region {
                    start: number(&path.join("start"))?,
                    end: number(&path.join("end"))?,
                    touched: u32::try_from(number(&path.join("nr_accesses"))?).unwrap_or(u32::MAX),
                });
            }
        }
        found.sort_unstable_by_key(|region| region.start);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_as_often_as_drains_within_reason() {
        let of = |drain_ms: u64| Intervals::for_drains(drain_ms * 1_000_000);
        assert_eq!(
            of(500),
            Intervals {
                look_us: 25_000,
                aggregation_us: 500_000
            }
        );
        assert_eq!(of(1).look_us, LEAST_LOOK_US);
        assert_eq!(of(60_000).aggregation_us, MOST_AGGREGATION_US);
    }

    #[test]
    fn regions_as_sysfs_shows_them() {
        let monitors = std::env::temp_dir().join(format!("tiertune-kdamond-{}", std::process::id()));
        let tried = monitors.join("3/contexts/0/schemes/0/tried_regions");
        for (name, values) in [("1", ["8192", "16384", "0"]), ("0", ["4096", "8192", "20"])] {
            fs::create_dir_all(tried.join(name)).expect("made");
            for (file, value) in ["start", "end", "nr_accesses"].iter().zip(values) {
                fs::write(tried.join(name).join(file), format!("{value}\n")).expect("written");
            }
        }
        fs::write(tried.join("total_bytes"), "12288").expect("written");
        let monitor = Kdamond::new(&monitors, 3);
        let found = monitor.regions().expect("regions");
        let expected = [
            Region {
                start: 4096,
                end: 8192,
                touched: 20,
            },
            Region {
                start: 8192,
                end: 16_384,
                touched: 0,
            },
        ];
        assert_eq!(found, expected);
        assert_eq!(
            fs::read_to_string(monitor.state()).expect("a command"),
            "update_schemes_tried_regions"
        );
        fs::write(tried.join("0/end"), "x").expect("written");
        assert!(monitor.regions().is_err());
        fs::remove_dir_all(&monitors).expect("removed");
    }
}
