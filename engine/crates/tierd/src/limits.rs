//! What a container lets its processes have, seen from inside: what was asked of an engine is one thing, what the kernel
//! holds a process to another.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use crate::session::Failure;

/// Where control groups are, of the version 2 or with a folder for each controller.
const CGROUPS: &str = "/sys/fs/cgroup";
/// What version 1 says of memory that is not limited: the most whole pages of a signed number.
const UNLIMITED: u64 = 1 << 62;

/// Where the limits go, and the program that is held to them.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where they are written.
    pub report: PathBuf,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

/// Limits of this process; absent where there is none.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Limits {
    /// Most memory.
    pub memory_bytes: Option<u64>,
    /// Share of processors' time, 1 for one processor.
    pub cpus: Option<f64>,
    /// Most processes and threads.
    pub pids: Option<u64>,
    /// Processors and memory nodes, as the kernel lists them: 0-3,8.
    pub processors: String,
    /// Memory nodes.
    pub nodes: String,
    /// Effective capabilities, a mask.
    pub capabilities: u64,
    /// No program that it starts can gain rights.
    pub no_new_privileges: bool,
    /// System calls are filtered.
    pub seccomp: bool,
    /// The root folder cannot be written to.
    pub read_only: bool,
    /// Names of network interfaces.
    pub interfaces: Vec<String>,
    /// The boot of the kernel that all of this is of.
    pub boot: String,
}

/// Reads those of this process, from below `root`.
#[must_use]
pub fn limits(root: &Path) -> Limits {
    let text = |path: &str| fs::read_to_string(root.join(path.trim_start_matches('/'))).unwrap_or_default();
    let group = |newer: &str, older: &str| {
        let found = text(&format!("{CGROUPS}/{newer}"));
        if found.is_empty() {
            text(&format!("{CGROUPS}/{older}"))
        } else {
            found
        }
    };
    let status = text("/proc/self/status");
    let field = |name: &str| {
        let found = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or_default().trim().to_owned()
    };
    let number = |text: String| text.trim().parse::<u64>().ok();
    Limits {
        memory_bytes: number(group("memory.max", "memory/memory.limit_in_bytes")).filter(|bytes| *bytes < UNLIMITED),
        cpus: cpus(
            &text(&format!("{CGROUPS}/cpu.max")),
            &text(&format!("{CGROUPS}/cpu/cpu.cfs_quota_us")),
            &text(&format!("{CGROUPS}/cpu/cpu.cfs_period_us")),
        ),
        pids: number(group("pids.max", "pids/pids.max")),
        processors: field("Cpus_allowed_list"),
        nodes: field("Mems_allowed_list"),
        capabilities: u64::from_str_radix(&field("CapEff"), 16).unwrap_or_default(),
        no_new_privileges: field("NoNewPrivs") == "1",
        seccomp: field("Seccomp") == "2",
        read_only: read_only(&text("/proc/self/mounts")),
        interfaces: interfaces(&text("/proc/self/net/dev")),
        boot: text("/proc/sys/kernel/random/boot_id").trim().to_owned(),
    }
}

/// `cpu.max` is a quota and a period, of which version 1 has a file each.
fn cpus(newer: &str, quota: &str, period: &str) -> Option<f64> {
    let mut words = if newer.is_empty() {
        vec![quota.trim(), period.trim()]
    } else {
        newer.split_whitespace().collect()
    }
    .into_iter()
    .map(str::parse::<f64>);
    let (quota_us, period_us) = (words.next()?.ok()?, words.next()?.ok()?);
    (quota_us > 0.0 && period_us > 0.0).then(|| quota_us / period_us)
}

/// Whether the last mount over the root folder is read-only.
fn read_only(mounts: &str) -> bool {
    let mut options = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        (words.nth(1)? == "/").then(|| words.nth(1))?
    });
    options
        .next_back()
        .is_some_and(|options| options.split(',').any(|option| option == "ro"))
}

fn interfaces(table: &str) -> Vec<String> {
    let names = table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    names
        .filter(|name| !name.contains('|'))
        .map(ToOwned::to_owned)
        .collect()
}

/// Writes the limits, then becomes the program: what is written is what it is held to.
///
/// # Errors
/// Returns only where there is no such program, or nowhere to write.
pub fn run(plan: &Plan) -> Failure {
    let wrong = |what: &[u8], error: &io::Error| format!("{}: {error}", String::from_utf8_lossy(what));
    let text = match serde_json::to_string(&limits(Path::new("/"))) {
        Ok(text) => text,
        Err(error) => return Failure::Bug(error.to_string()),
    };
    if let Err(error) = fs::write(&plan.report, text + "\n") {
        return Failure::Host(wrong(plan.report.as_os_str().as_bytes(), &error));
    }
    let Some((program, arguments)) = plan.command.split_first() else {
        return Failure::Input("a program is needed after --".to_owned());
    };
    let error = Command::new(program).args(arguments).exec();
    Failure::Input(wrong(program.as_bytes(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of a container, below a folder of their own.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("tierd-limits-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().expect("a folder")).expect("made");
                fs::write(path, text).expect("written");
            }
            Self(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const STATUS: &str = "Name:\tx\nCapEff:\t0000004000a80022\nNoNewPrivs:\t1\nSeccomp:\t2\nCpus_allowed_list:\t0-1\n\
                          Mems_allowed_list:\t0,2\n";

    #[test]
    fn both_versions_of_control_groups_are_read() {
        let shared = [
            ("proc/self/status", STATUS),
            (
                "proc/self/mounts",
                "overlay / overlay ro,relatime 0 0\ntmpfs /tmp tmpfs rw 0 0\n",
            ),
            (
                "proc/self/net/dev",
                "Inter-| Receive\n face |bytes\n    lo: 0 0\n  eth0: 1 2\n",
            ),
            ("proc/sys/kernel/random/boot_id", "b\n"),
        ];
        let newer = [
            ("sys/fs/cgroup/memory.max", "67108864\n"),
            ("sys/fs/cgroup/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/pids.max", "64\n"),
        ];
        let older = [
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "67108864\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/pids/pids.max", "64\n"),
        ];
        for (name, group) in [("newer", newer.as_slice()), ("older", &older)] {
            let root = Root::new(name, &[shared.as_slice(), group].concat());
            let wanted = Limits {
                memory_bytes: Some(64 << 20),
                cpus: Some(1.5),
                pids: Some(64),
                processors: "0-1".to_owned(),
                nodes: "0,2".to_owned(),
                capabilities: 0x40_00a8_0022,
                no_new_privileges: true,
                seccomp: true,
                read_only: true,
                interfaces: vec!["lo".to_owned(), "eth0".to_owned()],
                boot: "b".to_owned(),
            };
            assert_eq!(limits(&root.0), wanted, "{name}");
        }
    }

    #[test]
    fn what_is_not_limited_is_absent() {
        let files = [
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/pids.max", "max\n"),
            (
                "proc/self/mounts",
                "overlay / overlay ro 0 0\noverlay / overlay rw,noerror 0 0\n",
            ),
        ];
        let root = Root::new("none", &files);
        assert_eq!(limits(&root.0), Limits::default());
    }
}
