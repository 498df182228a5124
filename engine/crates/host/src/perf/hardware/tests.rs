//! Events as made-up devices describe them, and what becomes of samples.

use std::fs;
use std::path::PathBuf;

use super::*;

struct Devices(PathBuf);

impl Devices {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let folder = std::env::temp_dir().join(format!("tiertune-devices-{name}-{}", std::process::id()));
        for (file, text) in files {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        Self(folder)
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const FORMATS: [(&str, &str); 3] = [
    ("cpu/format/event", "config:0-7"),
    ("cpu/format/umask", "config:8-15"),
    ("cpu/format/ldlat", "config1:0-15"),
];

#[test]
fn intel_as_sysfs_describes_it() {
    let mut files = vec![
        ("cpu/type", "4\n"),
        ("cpu/cpus", "0-3\n"),
        ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
        ("cpu/events/mem-loads-aux", "event=0x03,umask=0x82\n"),
        ("cpu/events/mem-stores", "event=0xcd,umask=0x2\n"),
    ];
    files.extend(FORMATS);
    let devices = Devices::new("intel", &files);
    let events = intel(&devices.0, &[(AccessKind::LoadMiss, 1007), (AccessKind::Store, 20_011)]).expect("events");
    let found: Vec<_> = events
        .iter()
        .map(|event| (event.event.config, event.event.period))
        .collect();
    assert_eq!(found, [([0x1cd, SLOW_LOAD_CYCLES, 0], 1007), ([0x2cd, 0, 0], 20_011)]);
    assert_eq!(
        events[0].leader.as_ref().map(|leader| leader.config),
        Some([0x8203, 0, 0])
    );
    assert_eq!(events[1].leader, None);
    assert_eq!(events[0].processors, [0, 1, 2, 3]);
}

#[test]
fn amd_as_sysfs_describes_it() {
    let files = [
        ("ibs_op/type", "9"),
        ("ibs_op/cpus", "0-1"),
        ("ibs_op/format/cnt_ctl", "config:19"),
    ];
    let devices = Devices::new("amd", &files);
    let events = amd(&devices.0, &[(AccessKind::LoadMiss, 5003)]).expect("an event");
    assert_eq!((events[0].event.config[0], events[0].event.period), (1 << 19, 4992));
    assert_eq!(ibs_period(1), LEAST_IBS_PERIOD);
}

#[test]
fn without_counters_the_fallbacks_are_named() {
    let devices = Devices::new("none", &[("cpu/type", "4"), ("software/type", "1")]);
    for found in [intel(&devices.0, &[]), amd(&devices.0, &[])] {
        let Err(HostError::Unfit(sentence)) = found else {
            panic!("{found:?}");
        };
        assert!(
            sentence.contains("hint-faults") && sentence.contains("virtual machines"),
            "{sentence}"
        );
    }
}

const FAR_LOAD: u64 = 2 | (0xd << 33) | (1 << 37);
const CACHED_LOAD: u64 = 2 | (3 << 33);
const STORE: u64 = 4 | (1 << 33);

#[test]
fn samples_become_accesses() {
    let nodes = Nodes {
        fast: 2,
        slow: 5,
        slow_processors: BTreeSet::from([7]),
    };
    let kept = |data_source: u64, address: u64, processor: u32| {
        let sample = Sample {
            address,
            processor,
            data_source,
            weight: 333,
            pid: 9,
            ..Sample::default()
        };
        access(&sample, Coding::Fields, &nodes).map(|access| (access.kind, access.node, access.weight))
    };
    assert_eq!(kept(FAR_LOAD, 64, 0), Some((AccessKind::LoadMiss, Some(5), 333)));
    assert_eq!(
        kept(FAR_LOAD, 64, 7),
        Some((AccessKind::LoadMiss, Some(2), 333)),
        "from the slow node's processor"
    );
    assert_eq!(kept(CACHED_LOAD, 64, 0), None);
    assert_eq!(kept(STORE, 64, 0), Some((AccessKind::Store, None, 333)));
    assert_eq!(kept(FAR_LOAD, 0, 0), None, "no address");
}
