//! Holding settings of the host while a program runs: for systems that the kernel itself runs, such as NUMA balancing in its
//! tiering mode or DAMON's schemes. Nothing is moved by the daemon.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use tiertune_host::launch::{self, Launch};
use tiertune_host::owner::{Owner, stop_on_signals, stopped};
use tiertune_host::{Journal, SharedJournal, Words, group, htmm, monotonic_ns, value_of};

use crate::facts::{self, Facts};
use crate::kernel::Kernel;
use crate::linux::Linux;
use crate::report::{REPORT_VERSION, Status};
use crate::session::{Failure, and_stuck, caught, end_of, left, put_back, settings, start};

/// What is held, and for how long.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The file with the settings.
    pub settings: PathBuf,
    /// No DAMON thread of somebody else may run, whatever the settings are.
    pub refuse_kdamonds: bool,
    /// The control group that is made for the program.
    pub group: Option<PathBuf>,
    /// Memtis samples the program.
    pub htmm: bool,
    /// Where the report goes.
    pub report: Option<PathBuf>,
    /// The report on standard output as well.
    pub json: bool,
    /// A signal that ends the daemon ends the program, too.
    pub kill_workload: bool,
    /// The folder of the lock.
    pub state: PathBuf,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

/// An entry of the file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    path: PathBuf,
    value: serde_json::Value,
    /// Reads back and compares; false for files that say something else than what was written.
    #[serde(default = "yes")]
    verify: bool,
    /// What the file says for values that it takes, where that is something else.
    #[serde(default)]
    says: Words,
}

fn yes() -> bool {
    true
}

impl Wanted {
    fn text(&self) -> String {
        match &self.value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// Whether the file holds what it was to, by what it says.
    fn holds(&self, held: &str) -> bool {
        let asked = self.text();
        if self.path == Path::new(LRU_GEN) {
            return is_on(&asked) == is_on(held);
        }
        same(self.says.get(&asked).unwrap_or(&asked), held)
    }
}

/// A setting as it was before, during and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Its file.
    pub path: String,
    /// What it was to hold.
    pub asked: String,
    /// What it held before; absent where it cannot be read, or was not there yet.
    pub before: Option<String>,
    /// What it held once it was set.
    pub during: Option<String>,
    /// What it holds now; absent where it is not there any more.
    pub after: Option<String>,
    /// Why it could not be put back.
    pub problem: Option<String>,
}

/// The document that is left behind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Version of the document.
    pub version: u32,
    /// Version of the daemon.
    pub tierd: &'static str,
    /// How it ended.
    pub status: Status,
    /// The command.
    pub command: Vec<String>,
    /// Its first process.
    pub pid: i32,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The control group that was made for it.
    pub group: Option<String>,
    /// Seconds for which it ran.
    pub runtime_s: f64,
    /// Processor time of its processes.
    pub cpu_s: f64,
    /// The settings, in the order of the file.
    pub settings: Vec<Held>,
    /// Settings that an earlier run had left changed, put back at the start.
    pub left_over: Vec<crate::report::Setting>,
    /// By how much the kernel's counters of tiering grew, those that this kernel has.
    pub counters: BTreeMap<String, i64>,
    /// The host before the run.
    pub host: Facts,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

const COUNTERS: &[&str] = &[
    "pgpromote",
    "pgdemote",
    "numa_",
    "pgmigrate",
    "thp_migration",
    "compact_stall",
    "thp_collapse",
];

fn counters() -> BTreeMap<String, i64> {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let lines = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        let known = COUNTERS.iter().any(|prefix| name.starts_with(prefix));
        known.then_some((name.to_owned(), value.trim().parse().ok()?))
    });
    lines.collect()
}

fn wanted(path: &Path) -> Result<Vec<Wanted>, Failure> {
    let problem = |text: String| Failure::Input(format!("--settings {}: {text}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| problem(error.to_string()))?;
    let wanted: Vec<Wanted> = serde_json::from_str(&text).map_err(|error| {
        problem(format!(
            "{error}; it has to be a list of {{\"path\": ..., \"value\": ...}}"
        ))
    })?;
    for setting in &wanted {
        if !is_setting(&setting.path) {
            return Err(problem(format!(
                "{}: only files below /proc/sys and /sys are settings of the host",
                setting.path.display()
            )));
        }
        if !(setting.value.is_string() || setting.value.is_number() || setting.value.is_boolean()) {
            return Err(problem(format!(
                "{}: {} is no value; a number, a word, true or false is",
                setting.path.display(),
                setting.value
            )));
        }
    }
    Ok(wanted)
}

/// The switch of the multi-generational LRU, which has bits. What a processor cannot do is left out of what the file says;
/// the first bit turns generations on.
const LRU_GEN: &str = "/sys/kernel/mm/lru_gen/enabled";

fn is_on(bits: &str) -> Option<bool> {
    let bits = bits.trim();
    let number = bits.strip_prefix("0x").unwrap_or(bits);
    Some(u32::from_str_radix(number, 16).ok()? & 1 != 0)
}

/// Whether a path leads below `/proc/sys` or `/sys`, symbolic links followed as far as it is there.
fn is_setting(path: &Path) -> bool {
    let plain = path.is_absolute() && path.components().all(|part| part != Component::ParentDir);
    let there = path.ancestors().find_map(|part| part.canonicalize().ok());
    let below = |path: &Path| ["/proc/sys", "/sys"].iter().any(|root| path.starts_with(root));
    plain && below(path) && there.is_some_and(|there| below(&there) || there == Path::new("/"))
}

/// Whether a value that was read is the one that was written: numbers as numbers, and yes and no in any of their spellings.
fn same(asked: &str, held: &str) -> bool {
    let word = |text: &str| match text.trim() {
        "true" | "Y" | "y" => "1".to_owned(),
        "false" | "N" | "n" => "0".to_owned(),
        text => text.split_ascii_whitespace().collect::<Vec<_>>().join(" "),
    };
    let (asked, held) = (word(asked), word(held));
    let numbers = (asked.parse::<f64>(), held.parse::<f64>());
    asked == held || matches!(numbers, (Ok(asked), Ok(held)) if asked == held)
}

/// Why these settings are somebody else's matter just now.
fn taken(wanted: &[Wanted], refuse_kdamonds: bool) -> Option<String> {
    let of_damon = wanted
        .iter()
        .any(|setting| setting.path.starts_with("/sys/kernel/mm/damon"));
    let kdamonds = facts::kdamonds();
    if kdamonds > 0 && (of_damon || refuse_kdamonds) {
        return Some(format!(
            "{kdamonds} DAMON thread(s) of somebody else run on this host, which tierd does not touch; end them first"
        ));
    }
    let balancing = Path::new("/proc/sys/kernel/numa_balancing");
    let touched = wanted.iter().any(|setting| setting.path == balancing);
    match value_of(balancing).as_deref() {
        Ok(mode @ ("2" | "3")) if touched => Some(format!(
            "{} is {mode}: somebody has the kernel tier memory, which tierd does not touch; set it to 0 first",
            balancing.display()
        )),
        _ => None,
    }
}

/// Whether a setting is the number of huge pages that are set aside.
fn is_pool(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name == "nr_hugepages" || name == "nr_hugepages_mempolicy")
}

fn set(journal: &mut Journal, wanted: &Wanted) -> Result<Held, Failure> {
    let asked = wanted.text();
    let before = value_of(&wanted.path).ok();
    if before.is_none() && !wanted.verify {
        journal.write_only(&wanted.path, &asked)?;
    } else {
        journal.set_as(&wanted.path, &asked, &wanted.says)?;
    }
    if is_pool(&wanted.path) && !value_of(&wanted.path).is_ok_and(|held| wanted.holds(&held)) {
        // Huge pages take memory in one piece. In four of six nodes with every other page free the kernel gave 199 to
        // 245 of 330 to 343, and no more when asked five times again; all of them once it had compacted, which need not
        // be repeated. The trigger holds nothing, and where it fails the setting tells soon enough.
        let _ = fs::write("/proc/sys/vm/compact_memory", "1");
        journal.set(&wanted.path, &asked)?;
    }
    let during = value_of(&wanted.path).ok();
    if wanted.verify && !during.as_deref().is_some_and(|held| wanted.holds(held)) {
        return Err(Failure::Host(format!(
            "{} was set to {asked} and holds {}: this kernel does not take that",
            wanted.path.display(),
            during.unwrap_or_else(|| "nothing that can be read".to_owned())
        )));
    }
    Ok(Held {
        path: wanted.path.display().to_string(),
        asked,
        before,
        during,
        after: None,
        problem: None,
    })
}

/// Holds the settings while the program runs.
///
/// # Errors
/// When it did not run. The settings are put back in any case.
pub fn run(plan: &Plan, mut line: impl FnMut(&str)) -> Result<Report, Failure> {
    let wanted = wanted(&plan.settings)?;
    let host = facts::facts();
    let _owner = Owner::take(&plan.state)?;
    let (journal, left_over) = put_back(&plan.state)?;
    if let Some(reason) = taken(&wanted, plan.refuse_kdamonds) {
        return Err(Failure::Host(reason));
    }
    if plan.htmm {
        htmm::check()?;
    }
    plan.group.as_deref().map_or(Ok(()), group::check)?;
    let journal = SharedJournal::new(journal);
    let before = counters();
    // From here on a signal ends the run in good order.
    stop_on_signals();
    let result = caught(|| hold(plan, &wanted, &journal, &mut line));
    let after = counters();
    // Whatever became of it, the host is as it was.
    let changed = journal.get().changed().to_vec();
    let restored = settings(journal.get().restore(), &changed);
    let mut report = and_stuck(result, &restored)?;
    for held in &mut report.settings {
        held.after = value_of(held.path.as_ref()).ok();
        let stuck = restored.iter().find(|setting| setting.path == held.path);
        held.problem = stuck.and_then(|setting| setting.problem.clone());
    }
    let grown = after
        .iter()
        .map(|(name, value)| (name.clone(), value - before.get(name).unwrap_or(&0)));
    (report.counters, report.left_over, report.host) = (grown.collect(), left_over, host);
    Ok(report)
}

fn hold(
    plan: &Plan,
    wanted: &[Wanted],
    journal: &SharedJournal,
    line: &mut impl FnMut(&str),
) -> Result<Report, Failure> {
    let mut held = Vec::new();
    if let Some(group) = &plan.group {
        journal.get().make_group(group)?;
        line(&format!("{} is made", group.display()));
    }
    for setting in wanted {
        let set = set(&mut journal.get(), setting)?;
        line(&format!(
            "{} = {}",
            set.path,
            set.during.as_deref().unwrap_or(&set.asked)
        ));
        held.push(set);
    }
    launch::adopt_orphans().map_err(|error| Failure::Bug(error.to_string()))?;
    let pid = start(&Launch {
        command: plan.command.clone(),
        node: None,
        hint_faults: false,
        huge_pages: true,
        group: plan.group.clone(),
    })?;
    let mut kernel = Linux::new(pid, true, false);
    if plan.htmm
        && let Err(error) = journal.get().start_sampling(pid)
    {
        // What it would go on with is not what was asked for.
        kernel.kill();
        return Err(error.into());
    }
    let begun_ns = monotonic_ns();
    while kernel.lives() && !stopped() {
        let until = kernel.now_ns() + 20_000_000;
        kernel.rest(until);
    }
    let mut notes = Vec::new();
    if stopped() {
        notes.push(left(&mut kernel, plan.kill_workload, "without these settings"));
    }
    let (exit_code, signal) = end_of(kernel.status());
    Ok(Report {
        version: REPORT_VERSION,
        tierd: env!("CARGO_PKG_VERSION"),
        status: if stopped() {
            Status::Stopped
        } else if exit_code == Some(0) {
            Status::Done
        } else {
            Status::WorkloadFailed
        },
        command: plan
            .command
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        pid,
        exit_code,
        signal,
        group: plan.group.as_ref().map(|group| group.display().to_string()),
        runtime_s: (monotonic_ns() - begun_ns) as f64 / 1e9,
        cpu_s: kernel.workload_cpu_ns() as f64 / 1e9,
        settings: held,
        left_over: Vec::new(),
        counters: BTreeMap::new(),
        host: Facts::default(),
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `touch FILE` is held a setting that has its value already, so that nothing of this host is changed.
    fn touching(folder: &Path) -> Plan {
        let path = Path::new("/proc/sys/kernel/ostype");
        let value = value_of(path).expect("every kernel has it");
        fs::create_dir_all(folder).expect("a folder");
        let settings = serde_json::json!([{"path": path, "value": value}]);
        fs::write(folder.join("settings.json"), settings.to_string()).expect("a file");
        Plan {
            settings: folder.join("settings.json"),
            refuse_kdamonds: false,
            group: None,
            htmm: false,
            report: None,
            json: false,
            kill_workload: false,
            state: folder.join("state"),
            command: vec!["touch".into(), folder.join("touched").into()],
        }
    }

    #[test]
    fn a_signal_before_the_start_is_the_end() {
        let folder = std::env::temp_dir().join(format!("hold-stopped-{}", std::process::id()));
        let plan = touching(&folder);
        // It comes when the settings are held; no other test of this program asks for signals.
        let result = run(&plan, |_| {
            launch::signal(std::process::id() as i32, libc::SIGTERM);
            while !stopped() {
                std::thread::yield_now();
            }
        });
        assert!(matches!(result, Err(Failure::Stopped)), "{result:?}");
        assert!(!folder.join("touched").exists());
        fs::remove_dir_all(&folder).expect("ours");
    }

    #[test]
    fn a_bug_keeps_nothing_from_being_put_back() {
        let folder = std::env::temp_dir().join(format!("hold-bug-{}", std::process::id()));
        let plan = touching(&folder);
        let result = run(&plan, |line| panic!("while it says '{line}'"));
        let problem = result.expect_err("it was a bug").to_string();
        assert!(
            problem.contains("a bug of ours") && problem.contains("ostype = Linux"),
            "{problem}"
        );
        // Nothing is held any more, and somebody else may run.
        assert!(!folder.join("state/settings.journal").exists());
        assert!(Owner::take(&plan.state).is_ok());
        fs::remove_dir_all(&folder).expect("ours");
    }

    #[test]
    fn only_settings_of_the_host() {
        assert!(is_setting("/proc/sys/vm/swappiness".as_ref()));
        assert!(is_setting("/sys/kernel/mm/damon/admin/kdamonds/0/state".as_ref()));
        for other in [
            "/etc/passwd",
            "/proc/sys/../1/mem",
            "/proc/self/mem",
            "proc/sys/vm/swappiness",
            "/system/x",
        ] {
            assert!(!is_setting(other.as_ref()), "{other}");
        }
    }

    #[test]
    fn pools_of_huge_pages() {
        assert!(is_pool(
            "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages".as_ref()
        ));
        assert!(is_pool("/proc/sys/vm/nr_hugepages".as_ref()));
        assert!(!is_pool("/proc/sys/vm/nr_overcommit_hugepages".as_ref()));
    }

    #[test]
    fn generations_are_on_or_off_whatever_else_the_processor_can_do() {
        let holds = |asked: &str, held: &str| {
            let text = format!(r#"{{"path": "{LRU_GEN}", "value": "{asked}"}}"#);
            let wanted: Wanted = serde_json::from_str(&text).expect("an entry");
            wanted.holds(held)
        };
        assert!(holds("0x0007", "0x0007\n") && holds("0x0007", "0x0003\n") && holds("0x0000", "0x0000"));
        assert!(holds("0x0000", "0x0006")); // the others alone turn nothing on
        assert!(!holds("0x0007", "0x0000") && !holds("0x0000", "0x0001") && !holds("0x0007", ""));
    }

    #[test]
    fn values_are_compared_as_the_kernel_spells_them() {
        for (asked, held) in [
            ("1", "1"),
            ("1", "true"),
            ("true", "Y"),
            ("0x", "0x"),
            ("10.0", "10"),
            ("4\t6", "4 6"),
        ] {
            assert!(same(asked, held), "{asked} {held}");
        }
        assert!(!same("1", "2") && !same("never", "always") && !same("1", "false"));
    }

    #[test]
    fn a_file_may_say_another_word_than_the_one_it_takes() {
        let text = r#"{"path": "/sys/mode", "value": 2, "says": {"1": "BASE-1", "2": "SPLIT-2"}}"#;
        let mode: Wanted = serde_json::from_str(text).expect("it is right");
        assert!(mode.holds("SPLIT-2") && !mode.holds("BASE-1") && !mode.holds("2"));
    }

    #[test]
    fn mistakes_in_the_file_are_named() {
        let folder = std::env::temp_dir().join(format!("hold-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("settings.json");
        for (text, expected) in [
            ("{}", "it has to be a list"),
            (r#"[{"path": "/etc/passwd", "value": 1}]"#, "only files below"),
            (r#"[{"path": "/proc/sys/vm/swappiness", "value": []}]"#, "is no value"),
            (
                r#"[{"path": "/proc/sys/vm/swappiness", "value": 1, "verfy": false}]"#,
                "verfy",
            ),
        ] {
            fs::write(&path, text).expect("a file");
            let problem = wanted(&path).expect_err(text).to_string();
            assert!(problem.contains(expected), "{text}: {problem}");
        }
        fs::remove_dir_all(&folder).expect("ours");
    }
}
