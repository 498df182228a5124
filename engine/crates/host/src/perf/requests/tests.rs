//! Layouts of hosts made of files, and counts of requests that are made up one by one.

use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use super::*;
use crate::descriptors;
use crate::launch::Launch;
use crate::perf::counted::may_count;

struct Host(PathBuf);

impl Host {
    /// A host of the model, with two sockets of four processors (0 to 3, 4 to 7) and as many slices as said.
    fn new(name: &str, model: u32, slices: usize) -> Self {
        let host = Self(std::env::temp_dir().join(format!("tiertune-host-{name}-{}", std::process::id())));
        let _ = fs::remove_dir_all(&host.0);
        host.write(
            "proc/cpuinfo",
            &format!("processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {model}\nmodel name\t: made up\n"),
        );
        for processor in 0..8 {
            let path = format!("sys/devices/system/cpu/cpu{processor}/topology/physical_package_id");
            host.write(&path, if processor < 4 { "0" } else { "1" });
        }
        host.write("sys/devices/system/node/has_memory", "0-1");
        host.write("sys/devices/system/node/node0/cpulist", "0-3");
        host.write("sys/devices/system/node/node1/cpulist", "4-7");
        for number in 0..slices {
            let format = |term: &str| format!("sys/bus/event_source/devices/uncore_cha_{number}/format/{term}");
            host.write(&format("event"), "config:0-7");
            host.write(&format("umask"), "config:8-15,32-63");
            host.write(&format("thresh"), "config:24-31");
            let device = format!("sys/bus/event_source/devices/uncore_cha_{number}");
            host.write(&format!("{device}/type"), &format!("{}", 20 + number));
            host.write(&format!("{device}/cpumask"), "0,4");
        }
        for (term, bits) in [
            ("event", "config:0-7"),
            ("umask", "config:8-15"),
            ("cmask", "config:24-31"),
        ] {
            host.write(&format!("sys/bus/event_source/devices/cpu/format/{term}"), bits);
        }
        host.write("sys/bus/event_source/devices/cpu/type", "4");
        host.write("sys/bus/event_source/devices/cpu/cpus", "0-7");
        host
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, format!("{text}\n")).expect("written");
    }

    /// Makes a node without processors of a device at a place of its own.
    fn memory_of(&self, node: u32, place: &str) {
        self.write(&format!("sys/devices/system/node/node{node}/cpulist"), "");
        self.write(&format!("sys/devices/{place}/target_node"), &node.to_string());
        let listed = self.0.join("sys/bus/dax/devices");
        fs::create_dir_all(&listed).expect("made");
        symlink(
            self.0.join("sys/devices").join(place),
            listed.join(format!("dax{node}.0")),
        )
        .expect("linked");
    }

    fn refused(&self, nodes: [u32; 2]) -> String {
        match layout(&self.0, nodes) {
            Err(HostError::Unfit(sentence)) => sentence,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const ICE_LAKE: u32 = 0x6a;
const SAPPHIRE_RAPIDS: u32 = 0x8f;

#[test]
fn two_sockets_count_their_own_memory_and_the_others() {
    let host = Host::new("sockets", ICE_LAKE, 6);
    let layout = layout(&host.0, [0, 1]).expect("a layout");
    assert_eq!((layout.slices_a_socket, layout.slices.len()), (6, 12));
    assert_eq!(layout.near, [0, 1, 2, 3]);
    // Inserts and occupancy of local and remote DRAM as Colloid's configuration words have them, but for DRAM alone.
    let near: Vec<&Slice> = layout.slices.iter().filter(|slice| slice.processor == 0).collect();
    assert_eq!((near[0].tier, near[0].turn), (0, Turn::InFlight));
    assert_eq!(near[0].events[0].config[0], 0x00c8_1686_0000_0135);
    assert_eq!(near[0].events[1].config[0], 0x00c8_1686_0000_0136);
    assert_eq!(near[0].events[2].config[0], 0);
    assert_eq!((near[1].tier, near[1].events[1].config[0]), (1, 0x00c8_1706_0000_0136));
    assert_eq!(
        (near[2].tier, near[2].turn, near[2].events[1].config[0]),
        (0, Turn::Busy, 0x00c8_1686_0100_0136)
    );
    // What is near for the cores of the other socket is the slow tier.
    let far: Vec<&Slice> = layout.slices.iter().filter(|slice| slice.processor == 4).collect();
    assert_eq!((far[0].tier, far[0].events[0].config[0]), (0, 0x00c8_1706_0000_0135));
    assert_eq!((far[1].tier, far[1].events[0].config[0]), (1, 0x00c8_1686_0000_0135));
    assert!(layout.slices.iter().all(|slice| !slice.events[0].user_only));
    let core: Vec<u64> = layout.cores.iter().flatten().map(|event| event.config[0]).collect();
    assert_eq!(core, [0x3c, 0x0600_06a3, 0x0100_0160, 0x0160, 0x01b0]);
}

#[test]
fn memory_behind_cxl_and_persistent_memory_have_events_of_their_own() {
    let host = Host::new("cxl", SAPPHIRE_RAPIDS, 8);
    host.write("sys/devices/system/node/has_memory", "0-2");
    host.memory_of(2, "platform/ACPI0017/root0/decoder0.0/region0/dax_region0/dax0.0");
    let layout = layout(&host.0, [0, 2]).expect("a layout");
    // Cores of the other socket are not counted: requests of theirs to node 1 would be.
    assert!(layout.slices.iter().all(|slice| slice.processor == 0));
    assert_eq!(layout.slices[1].events[0].config[0], 0x10c8_1782_0000_0135);
    assert_eq!(layout.slices[0].events[2].config[0], 1);

    let old = Host::new("old", ICE_LAKE, 8);
    old.write("sys/devices/system/node/has_memory", "0,2");
    old.memory_of(2, "LNXSYSTM:00/ndbus0/region0/dax0.0");
    let persistent = super::layout(&old.0, [0, 2]).expect("a layout");
    assert_eq!(persistent.slices[1].events[0].config[0], 0x00c8_178a_0000_0135);
}

#[test]
fn hosts_whose_counters_would_say_something_else_are_refused() {
    let other = Host::new("other", 0x55, 8);
    assert!(other.refused([0, 1]).contains("Sapphire Rapids") && other.refused([0, 1]).ends_with("this is made up"));
    let bare = Host::new("virtual", ICE_LAKE, 0);
    assert!(bare.refused([0, 1]).contains("uncore_cha"));
    assert!(bare.refused([7, 1]).starts_with("node 7 has no processors"));
    let halves = Host::new("halves", ICE_LAKE, 8);
    halves.write("sys/devices/system/node/has_memory", "0-2");
    halves.write("sys/devices/system/node/node2/cpulist", "2-3");
    assert!(halves.refused([0, 1]).starts_with("requests to node 2 would count"));
    assert!(halves.refused([0, 2]).contains("of one socket"));
    let cxl = Host::new("cxl-on-old", ICE_LAKE, 8);
    cxl.memory_of(2, "root0/dax_region0/dax0.0");
    assert!(
        cxl.refused([0, 2])
            .contains("Ice Lake has no counter of requests to node 2, which is behind CXL")
    );
    cxl.write("sys/devices/system/node/node3/cpulist", "");
    assert!(cxl.refused([0, 3]).contains("whose device the kernel does not name"));
    // A kernel that describes its events in another way is no reason to count something else.
    cxl.write("sys/bus/event_source/devices/uncore_cha_0/format/umask", "config:8-15");
    assert!(cxl.refused([0, 1]).contains("'config:8-15' is of a form not known"));
}

/// Requests of tier 0 on `slices` slices, `in_flight` of them at all times for half of the time, each of 200 ns.
fn made_up(slices: usize, in_flight: usize) -> (Vec<(usize, Turn, More)>, f64) {
    let (clocks, clocks_per_ns, latency_clocks) = (4_000_000u64, 2.0, 400);
    let mut state = 1u64;
    let mut slice_of = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % slices
    };
    let (mut inserts, mut summed, mut busy) = (vec![0.0; slices], vec![0.0; slices], vec![0.0; slices]);
    let mut total = 0.0;
    for _ in 0..clocks / 2 / latency_clocks {
        let mut here = vec![0; slices];
        (0..in_flight).for_each(|_| here[slice_of()] += 1);
        total += in_flight as f64;
        for (slice, count) in here.into_iter().enumerate() {
            inserts[slice] += f64::from(count);
            summed[slice] += f64::from(count) * latency_clocks as f64;
            busy[slice] += f64::from(u8::from(count > 0)) * latency_clocks as f64;
        }
    }
    let more = |slice: usize| {
        let (tier, turn) = (slice % 2, if slice / 2 % 2 == 0 { Turn::InFlight } else { Turn::Busy });
        let sum = if turn == Turn::InFlight {
            summed[slice]
        } else {
            busy[slice]
        };
        let counts = if tier == 0 {
            vec![inserts[slice], sum, clocks as f64]
        } else {
            vec![0.0, 0.0, clocks as f64]
        };
        let elapsed_ns = clocks as f64 / clocks_per_ns;
        (tier, turn, More { elapsed_ns, counts })
    };
    ((0..slices).map(more).collect(), total)
}

#[test]
fn latency_and_parallelism_come_out_of_what_slices_count() {
    for (slices, in_flight) in [(8, 1), (28, 1), (28, 6), (40, 24), (60, 120)] {
        let (counted, total) = made_up(slices, in_flight);
        let [fast, slow] = requests(&counted, slices);
        let near = |found: f64, true_value: f64, most: f64| {
            assert!(
                (found / true_value - 1.0).abs() < most,
                "{found} for {true_value}, {in_flight} on {slices}"
            );
        };
        near(fast.inserts, total, 0.1);
        near(fast.occupancy_ns, total * 200.0, 0.1);
        near(fast.occupancy_ns / fast.busy_ns, in_flight as f64, 0.15);
        near(fast.busy_ns, 1e6, 0.15);
        assert_eq!(slow, Requests::default());
    }
    assert_eq!(requests(&[], 8), [Requests::default(); 2]);
}

#[test]
fn parallelism_of_one_slice_is_undone() {
    for (in_flight, slices) in [(1.0f64, 28.0f64), (2.5, 28.0), (10.0, 40.0), (300.0, 60.0)] {
        let of_a_slice = (in_flight / slices) / (1.0 - (1.0 - 1.0 / slices).powf(in_flight));
        let found = parallelism(of_a_slice, slices);
        assert!((found / in_flight - 1.0).abs() < 1e-6, "{found} for {in_flight}");
    }
    assert_eq!(parallelism(0.9, 28.0), 1.0);
}

const LIMITED: &str = "TIERTUNE_LIMITED";
const SLICES: usize = 40;

/// As many events as a socket of many slices has, but of the kernel's own, which every host has.
fn of_the_kernel() -> Layout {
    let clock = || Attributes::counting(1, [0; 3], false);
    let slice = |number| Slice {
        tier: number % 2,
        turn: Turn::InFlight,
        processor: 0,
        events: [clock(), clock(), clock()],
    };
    Layout {
        slices: (0..SLICES).map(slice).collect(),
        slices_a_socket: SLICES,
        cores: [vec![clock(); 2], vec![clock(); 3]],
        processors: vec![0],
        near: vec![0],
    }
}

/// Not a test of its own: what a process with few open files finds. One is opened with them, and with more if it may.
#[test]
fn limited() {
    if std::env::var(LIMITED).is_err() {
        return;
    }
    let opened = || MemoryCounters::of(&of_the_kernel()).map_or_else(|error| error.to_string(), |_| "all".to_owned());
    println!("before: {}", opened());
    descriptors::raise();
    println!("raised: {}", opened());
    let shell = Launch {
        command: ["sh", "-c", "echo \"program: $(ulimit -Sn)\""].map(Into::into).into(),
        node: None,
        hint_faults: false,
        huge_pages: true,
        group: None,
    };
    shell.start().expect("a shell").wait().expect("it ends");
}

#[test]
fn large_hosts_need_more_files_than_a_process_usually_may_open() {
    if !may_count(Scope::Processor(0)) {
        return;
    }
    let found = |soft: u64, hard: u64| {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command.args(["--exact", "perf::requests::tests::limited", "--nocapture"]);
        command.env(LIMITED, "1");
        let limit = libc::rlimit {
            rlim_cur: soft,
            rlim_max: hard,
        };
        // SAFETY: one system call.
        unsafe {
            command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        let output = command.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = |name: &str| {
            let line = text.lines().find_map(|line| line.split_once(name));
            line.map_or_else(|| panic!("no {name} in {text}"), |(_, rest)| rest.trim().to_owned())
        };
        ["before:", "raised:", "program:"].map(line)
    };
    let needed = 3 * SLICES + 5;
    let few =
        |most: u64| format!("it takes {needed} open files, and this process may have {most}: raise the hard limit");
    let [before, raised, program] = found(64, 1024);
    assert!(before.contains(&few(64)), "{before}");
    assert_eq!((raised.as_str(), program.as_str()), ("all", "64"));
    let [_, raised, program] = found(64, 100);
    assert!(raised.contains(&few(100)) && !raised.contains("root"), "{raised}");
    assert_eq!(program, "64");
}
