//! Events as sysfs describes them: each device names some (`event=0xcd,umask=0x1,ldlat=3`) and says which bits of which
//! configuration word a name stands for (`config1:0-15`), so that no table of processors is needed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the kernel lists its devices.
pub const DEVICES: &str = "/sys/bus/event_source/devices";

/// A device with events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    folder: PathBuf,
    /// Its number.
    pub number: u32,
}

fn broken(what: &str, text: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the kernel's {what} '{}' is of a form not known", text.trim()),
    )
}

/// A whole number, hexadecimal where it says so.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Ranges as the kernel lists them, `0-3,8`.
pub(crate) fn listed(text: &str) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // More than any list of the kernel's names.
        if last.checked_sub(first)? > 1 << 16 {
            return None;
        }
        found.extend(first..=last);
    }
    Some(found)
}

/// Puts `value` into the bits that `format` names: the lowest bit of the value first.
///
/// `None` for a form that is not known or a value that does not fit.
#[must_use]
pub fn placed(format: &str, value: u64, mut config: [u64; 3]) -> Option<[u64; 3]> {
    let (word, ranges) = format.trim().split_once(':')?;
    let word = match word {
        "config" => 0,
        "config1" => 1,
        "config2" => 2,
        _ => return None,
    };
    let bits = listed(ranges)?;
    for (place, bit) in bits.iter().enumerate() {
        if *bit >= 64 || place >= 64 {
            return None;
        }
        config[word] |= ((value >> place) & 1) << bit;
    }
    (bits.len() >= 64 || value >> bits.len() == 0).then_some(config)
}

impl Device {
    /// The device of that name below `devices`, if there is one.
    ///
    /// # Errors
    /// When it has no number.
    pub fn find(devices: &Path, name: &str) -> io::Result<Option<Self>> {
        let folder = devices.join(name);
        match fs::read_to_string(folder.join("type")) {
            Ok(text) => match text.trim().parse() {
                Ok(number) => Ok(Some(Self { folder, number })),
                Err(_) => Err(broken("number of a device", &text)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How it names an event, if it has it.
    #[must_use]
    pub fn event(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.folder.join("events").join(name)).ok()
    }

    /// The configuration words of terms such as `event=0xcd,umask=0x1`, `replaced` ones taking the place of those named.
    ///
    /// # Errors
    /// When a term is not one of the device's or does not fit.
    pub fn encoded(&self, terms: &str, replaced: &[(&str, u64)]) -> io::Result<[u64; 3]> {
        let mut config = [0; 3];
        let mut left: Vec<(&str, u64)> = replaced.to_vec();
        let mut place = |name: &str, value: u64| -> io::Result<()> {
            let format = fs::read_to_string(self.folder.join("format").join(name));
            let format = format.map_err(|_| broken("term of an event", name))?;
            config = placed(&format, value, config).ok_or_else(|| broken("format", &format))?;
            Ok(())
        };
        for term in terms.trim().split(',').filter(|term| !term.is_empty()) {
            let (name, value) = term.split_once('=').unwrap_or((term, "1"));
            let wanted = left
                .iter()
                .position(|(other, _)| *other == name)
                .map(|found| left.remove(found).1);
            let value = wanted
                .or_else(|| number(value))
                .ok_or_else(|| broken("term of an event", term))?;
            place(name, value)?;
        }
        for (name, value) in left {
            place(name, value)?;
        }
        Ok(config)
    }

    /// The processors that have it: its own list where the machine has several kinds, otherwise all that are on.
    ///
    /// # Errors
    /// When the kernel's list cannot be read.
    pub fn processors(&self) -> io::Result<Vec<u32>> {
        match fs::read_to_string(self.folder.join("cpus")) {
            Ok(text) => listed(&text).ok_or_else(|| broken("list of processors", &text)),
            Err(_) => online(),
        }
    }
}

/// Processors that are on.
///
/// # Errors
/// When the kernel's list cannot be read.
pub fn online() -> io::Result<Vec<u32>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    listed(&text).ok_or_else(|| broken("list of processors", &text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_where_formats_say() {
        assert_eq!(placed("config:0-7\n", 0xcd, [0; 3]), Some([0xcd, 0, 0]));
        assert_eq!(placed("config1:0-15", 128, [1, 0, 0]), Some([1, 128, 0]));
        // As older AMD processors split the number of the event.
        assert_eq!(placed("config:0-7,32-35", 0x1c0, [0; 3]), Some([0x1_0000_00c0, 0, 0]));
        assert_eq!(placed("config:19", 1, [0; 3]), Some([1 << 19, 0, 0]));
        assert_eq!(placed("config:0-7", 0x1cd, [0; 3]), None, "does not fit");
        assert_eq!(placed("config:60-70", 1, [0; 3]), None);
        assert_eq!(placed("config9:0", 1, [0; 3]), None);
        assert_eq!(placed("nothing", 1, [0; 3]), None);
    }

    #[test]
    fn lists_of_the_kernel() {
        assert_eq!(listed("0-2,7\n"), Some(vec![0, 1, 2, 7]));
        assert_eq!(listed("\n"), Some(vec![]));
        assert_eq!(listed("3-1"), None);
        assert_eq!(listed("0-4294967295"), None);
    }

    #[test]
    fn an_event_of_a_device() {
        let folder = std::env::temp_dir().join(format!("tiertune-event-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = folder.join("cpu").join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("type", "4\n");
        write("events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n");
        for (name, bits) in [
            ("event", "config:0-7"),
            ("umask", "config:8-15"),
            ("ldlat", "config1:0-15"),
        ] {
            write(&format!("format/{name}"), bits);
        }
        let device = Device::find(&folder, "cpu").expect("readable").expect("there");
        let terms = device.event("mem-loads").expect("an event");
        assert_eq!(device.number, 4);
        assert_eq!(device.encoded(&terms, &[]).ok(), Some([0x1cd, 3, 0]));
        assert_eq!(device.encoded(&terms, &[("ldlat", 128)]).ok(), Some([0x1cd, 128, 0]));
        assert_eq!(device.encoded("event=0xd0", &[("ldlat", 5)]).ok(), Some([0xd0, 5, 0]));
        let error = device
            .encoded("event=0xcd,edge=1", &[])
            .expect_err("no such term")
            .to_string();
        assert!(error.contains("'edge'"), "{error}");
        assert_eq!(device.event("mem-stores"), None);
        assert_eq!(Device::find(&folder, "ibs_op").expect("readable"), None);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
