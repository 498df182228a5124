//! The command line, and what of it is wrong.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use tiertune_host::source::SOURCES;
use tiertune_policy::nearest::nearest;
use tiertune_policy::registry::{self, Composed};
use tiertune_policy::{Config, Value};

use crate::{hold, limits, selfbench};

/// Where the lock, the journal of settings and the socket are.
pub const STATE_FOLDER: &str = "/run/tiertune";

/// Which policy runs on what.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Name of the policy.
    pub policy: String,
    /// Its knobs, every one with its value.
    pub knobs: Config,
    /// Node of the fast and of the slow tier.
    pub nodes: [u32; 2],
    /// Bytes of the fast tier.
    pub fast_bytes: u64,
    /// Bytes of a managed page.
    pub page_bytes: u64,
    /// Names of sources; empty for what works best.
    pub samplers: Vec<String>,
    /// Which counters of requests to memory a policy that needs some is given.
    pub counters: CountersFrom,
    /// Milliseconds between drains, looks for new memory, and questions where pages are.
    pub intervals_ms: [u64; 3],
    /// Most bytes moved a second.
    pub most_bytes_per_s: Option<f64>,
    /// Latency of a read by tier, where given.
    pub latency_ns: [Option<f64>; 2],
    /// Where the report goes.
    pub report: Option<PathBuf>,
    /// Seed.
    pub seed: u64,
    /// The report on standard output as well.
    pub json: bool,
    /// A line a second.
    pub live: bool,
    /// The workload ends with the daemon.
    pub kill_workload: bool,
    /// The folder of the lock.
    pub state: PathBuf,
    /// What is to be managed.
    pub target: Target,
}

/// Where counters come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountersFrom {
    /// Hardware, where it counts, otherwise software.
    Best,
    /// What samples stand for.
    Software,
    /// Hardware or not at all.
    Hardware,
}

/// What is managed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A program that is started.
    Command(Vec<OsString>),
    /// A process that runs already.
    Process(i32),
}

/// What the command line asks for.
#[derive(Debug)]
pub enum Asked {
    /// Manage memory.
    Run(Box<Plan>),
    /// Hold settings while a program runs.
    Hold(hold::Plan),
    /// Say which limits a program has.
    Limits(limits::Plan),
    /// What this host can do.
    Probe {
        /// As JSON.
        json: bool,
    },
    /// Put back what a run that was killed had changed.
    Restore {
        /// The folder of the journal.
        state: PathBuf,
        /// As JSON.
        json: bool,
    },
    /// Figures of the daemon that runs.
    Stats {
        /// The folder of the socket.
        state: PathBuf,
    },
    /// Measure the daemon's own costs.
    SelfBench {
        /// Samples of each measurement.
        samples: u64,
        /// Which one; absent: all, each in a process of its own.
        of: Option<selfbench::Of>,
    },
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn state() -> Arg {
    option(
        "state",
        "DIR",
        "folder of the lock, the journal of settings and the socket",
    )
    .value_parser(value_parser!(PathBuf))
    .default_value(STATE_FOLDER)
}

fn json() -> Arg {
    flag("json", "JSON")
}

fn program() -> Arg {
    Arg::new("command")
        .value_name("COMMAND")
        .help("the program and its arguments, after --")
        .num_args(1..)
        .last(true)
        .required(true)
        .value_parser(value_parser!(OsString))
}

fn managing(command: Command) -> Command {
    let milliseconds = |name, default, help| {
        option(name, "MS", help)
            .value_parser(value_parser!(u64).range(1..=3_600_000))
            .default_value(default)
    };
    command
        .arg(option("policy", "NAME", "the policy, as `tiertune list systems` names them").required(true))
        .arg(
            option(
                "knobs",
                "FILE",
                "its knobs: a JSON object of names and values [default: the policy's own]",
            )
            .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            option("fast", "NODE", "memory node of the fast tier")
                .required(true)
                .value_parser(value_parser!(u32)),
        )
        .arg(
            option("slow", "NODE", "memory node of the slow tier")
                .required(true)
                .value_parser(value_parser!(u32)),
        )
        .arg(
            option(
                "fast-bytes",
                "SIZE",
                "what the fast tier may hold: bytes, or with KiB, MiB, GiB, TiB",
            )
            .required(true)
            .value_parser(size),
        )
        .arg(
            option(
                "page-bytes",
                "SIZE",
                "managed pages: 4096 or 2097152 [default: what the policy is made for]",
            )
            .value_parser(size),
        )
        .arg(
            option(
                "sampler",
                "NAMES",
                "where accesses are seen, separated by commas; auto: what says most of what works here",
            )
            .default_value("auto"),
        )
        .arg(
            option("counters", "KIND", "counters for policies that need them")
                .value_parser(["auto", "software", "hardware"])
                .default_value("auto"),
        )
        .arg(milliseconds(
            "drain-ms",
            "100",
            "least time between two readings of the sampler",
        ))
        .arg(milliseconds(
            "refresh-ms",
            "200",
            "least time between two looks for new and freed memory",
        ))
        .arg(milliseconds(
            "resync-ms",
            "1000",
            "least time between two questions to the kernel where every page is",
        ))
        .arg(
            option(
                "rate-mib-s",
                "RATE",
                "most MiB moved a second [default: as many as can be]",
            )
            .value_parser(value_parser!(f64)),
        )
        .arg(
            option(
                "fast-latency-ns",
                "NS",
                "latency that the software counters assume [default: the firmware's, else 100]",
            )
            .value_parser(value_parser!(f64)),
        )
        .arg(
            option(
                "slow-latency-ns",
                "NS",
                "the same of the slow tier [default: the firmware's, else 250]",
            )
            .value_parser(value_parser!(f64)),
        )
        .arg(option("report", "FILE", "writes the report there").value_parser(value_parser!(PathBuf)))
        .arg(
            option("seed", "NUMBER", "seed of the policy's random choices")
                .value_parser(value_parser!(u64))
                .default_value("1"),
        )
        .arg(flag("json", "the report on standard output, at the end"))
        .arg(flag("live", "a line a second on standard error"))
        .arg(flag(
            "kill-workload",
            "a signal that ends the daemon ends the workload, too",
        ))
        .arg(state())
}

/// The whole command line.
#[must_use]
pub fn command() -> Command {
    let run =
        managing(Command::new("run").about("Starts a program and manages its memory until it ends")).arg(program());
    let hold = Command::new("hold")
        .about("Holds settings of the host while a program runs, and puts them back: for systems that the kernel runs itself")
        .arg(
            option("settings", "FILE", "JSON: a list of {\"path\", \"value\"}, set in this order; \"verify\": false for files that read otherwise, \"says\": {VALUE: WORD} for those with words of their own")
                .required(true)
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(flag("refuse-kdamonds", "does nothing where DAMON threads of somebody else run"))
        .arg(
            option("group", "DIR", "makes this control group, such as /sys/fs/cgroup/tiertune, before the settings are set, starts the program in it, and removes it")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(flag("htmm", "has Memtis, on its kernel, sample the program"))
        .arg(option("report", "FILE", "writes the report there").value_parser(value_parser!(PathBuf)))
        .arg(flag("json", "the report on standard output, at the end"))
        .arg(flag("kill-workload", "a signal that ends the daemon ends the workload, too"))
        .arg(state())
        .arg(program());
    let limits = Command::new("limits")
        .about("Writes which limits this process has (control group, nodes, rights), then becomes a program: for containers")
        .arg(
            option("report", "FILE", "where they are written, as JSON")
                .required(true)
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(program());
    let attach = managing(Command::new("attach").about("Manages the memory of a process that runs already"))
        .arg(
            option("pid", "PID", "the process")
                .required(true)
                .value_parser(value_parser!(i32).range(1..)),
        )
        .group(ArgGroup::new("target").arg("pid"));
    Command::new("tierd")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Runs a memory tiering policy on real memory nodes")
        .after_help(
            "Example: tierd run --policy hemem --fast 0 --slow 1 --fast-bytes 4GiB --report run.json -- ./program\n\
             Exit codes: 0 done, 1 a bug of ours, 2 bad input, 3 unfit host, 4 the workload failed, 130 stopped by a signal",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(run)
        .subcommand(attach)
        .subcommand(hold)
        .subcommand(limits)
        .subcommand(
            Command::new("probe")
                .about("Says what this host can do, and what is missing")
                .arg(json()),
        )
        .subcommand(
            Command::new("restore")
                .about("Puts back the settings that a run which was killed had changed")
                .arg(state())
                .arg(json()),
        )
        .subcommand(
            Command::new("stats")
                .about("Figures of the daemon that runs, as OpenMetrics")
                .arg(state()),
        )
        .subcommand(
            Command::new("selfbench")
                .about("Measures what the daemon itself costs, with made-up samples; JSON")
                .arg(
                    option("samples", "COUNT", "samples of each measurement")
                        .value_parser(value_parser!(u64).range(1..=1_000_000_000))
                        .default_value("1000000"),
                )
                .arg(
                    option("of", "SYSTEM:BYTES", "this measurement alone, such as hemem:4096")
                        .value_parser(measurement),
                ),
        )
}

/// A number of bytes with or without a unit.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "KiB" | "K" => 10,
        "MiB" | "M" => 20,
        "GiB" | "G" => 30,
        "TiB" | "T" => 40,
        unit => return Err(format!("'{unit}' is no unit; KiB, MiB, GiB and TiB are")),
    };
    let number: f64 = digits
        .parse()
        .map_err(|_| "it is no number of bytes, such as 64MiB".to_owned())?;
    let bytes = number * f64::from(1u32 << 10).powi(shift / 10);
    if bytes.is_finite() && bytes >= 1.0 && bytes <= 2f64.powi(60) {
        Ok(bytes as u64)
    } else {
        Err("it is not between 1 byte and 1024 PiB".to_owned())
    }
}

/// A measurement of the daemon itself.
fn measurement(text: &str) -> Result<selfbench::Of, String> {
    let all = selfbench::all();
    let name = |(system, page_bytes): &selfbench::Of| format!("{system}:{page_bytes}");
    let found = all.iter().find(|of| name(of) == text).copied();
    found.ok_or_else(|| format!("there are {}", all.iter().map(name).collect::<Vec<_>>().join(", ")))
}

/// The knobs of a file.
fn knobs(path: &Path) -> Result<Config, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let document: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("{}: this is no JSON: {error}", path.display()))?;
    let object = document
        .as_object()
        .ok_or_else(|| format!("{}: this is no object of knobs and values", path.display()))?;
    let value = |(name, value): (&String, &serde_json::Value)| {
        let known = match value {
            serde_json::Value::Bool(flag) => Value::Bool(*flag),
            serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => Value::Int(whole),
                (None, Some(real)) => Value::Float(real),
                (None, None) => return Err(format!("{}: {name}: {number} is too large", path.display())),
            },
            serde_json::Value::String(word) => Value::Text(word.clone()),
            other => {
                return Err(format!(
                    "{}: {name}: {other} is no value of a knob; a number, a word, true or false is",
                    path.display()
                ));
            }
        };
        Ok((name.clone(), known))
    };
    object.iter().map(value).collect()
}

fn page_bytes(system: &Composed, asked: Option<u64>) -> Result<u64, String> {
    let known = system.page_bytes();
    let Some(asked) = asked else { return Ok(known[0]) };
    if known.contains(&asked) {
        return Ok(asked);
    }
    let list: Vec<String> = known.iter().map(ToString::to_string).collect();
    Err(format!(
        "--page-bytes {asked}: {} manages pages of {} bytes",
        system.name(),
        list.join(" or ")
    ))
}

fn samplers(text: &str) -> Result<Vec<String>, String> {
    if text == "auto" {
        return Ok(Vec::new());
    }
    let names = text.split(',').map(|name| {
        if SOURCES.iter().any(|known| known.name == name) {
            return Ok(name.to_owned());
        }
        let all = SOURCES.iter().map(|known| known.name).chain(["auto"]);
        Err(format!(
            "--sampler {name}: there is no such source; did you mean '{}'?",
            nearest(name, all).unwrap_or("auto")
        ))
    });
    names.collect()
}

/// Where the report goes: a mistake in it is not to be found out after the run.
fn report(matches: &ArgMatches) -> Result<Option<PathBuf>, String> {
    let path = matches.get_one::<PathBuf>("report").cloned();
    if let Some(path) = &path {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if path.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
            return Err(format!(
                "--report {}: this is no file in a folder that exists",
                path.display()
            ));
        }
    }
    Ok(path)
}

fn positive(matches: &ArgMatches, name: &str) -> Result<Option<f64>, String> {
    match matches.get_one::<f64>(name) {
        Some(value) if !(value.is_finite() && *value > 0.0) => Err(format!("--{name} {value}: it has to be above 0")),
        value => Ok(value.copied()),
    }
}

fn plan(matches: &ArgMatches, target: Target) -> Result<Plan, String> {
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or_default();
    let node = |name: &str| matches.get_one::<u32>(name).copied().unwrap_or_default();
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let policy = text("policy");
    let system = registry::find(&policy).map_err(|error| format!("--policy: {error}"))?;
    if let Some(reason) = system.live_obstacle() {
        return Err(format!("--policy {policy} cannot run live: {reason}"));
    }
    let config = match path("knobs") {
        Some(path) => system
            .resolve(&knobs(&path)?)
            .map_err(|error| format!("{}: {error}", path.display()))?,
        None => system.resolve(&Config::new()).map_err(|error| error.to_string())?,
    };
    Ok(Plan {
        page_bytes: page_bytes(&system, matches.get_one::<u64>("page-bytes").copied())?,
        policy,
        knobs: config,
        nodes: [node("fast"), node("slow")],
        fast_bytes: number("fast-bytes"),
        samplers: samplers(&text("sampler"))?,
        counters: match text("counters").as_str() {
            "hardware" => CountersFrom::Hardware,
            "software" => CountersFrom::Software,
            _ => CountersFrom::Best,
        },
        intervals_ms: [number("drain-ms"), number("refresh-ms"), number("resync-ms")],
        most_bytes_per_s: positive(matches, "rate-mib-s")?.map(|rate| rate * f64::from(1u32 << 20)),
        latency_ns: [
            positive(matches, "fast-latency-ns")?,
            positive(matches, "slow-latency-ns")?,
        ],
        report: report(matches)?,
        seed: number("seed"),
        json: matches.get_flag("json"),
        live: matches.get_flag("live"),
        kill_workload: matches.get_flag("kill-workload"),
        state: path("state").unwrap_or_else(|| STATE_FOLDER.into()),
        target,
    })
}

/// What the command line asks for.
///
/// # Errors
/// With what of it is wrong.
pub fn asked(matches: &ArgMatches) -> Result<Asked, String> {
    let state = |matches: &ArgMatches| {
        let given = matches.get_one::<PathBuf>("state").cloned();
        given.unwrap_or_else(|| STATE_FOLDER.into())
    };
    let words = |matches: &ArgMatches| -> Vec<OsString> {
        let words = matches.get_many::<OsString>("command").into_iter().flatten();
        words.cloned().collect()
    };
    match matches.subcommand() {
        Some(("hold", matches)) => Ok(Asked::Hold(hold::Plan {
            settings: matches.get_one::<PathBuf>("settings").cloned().unwrap_or_default(),
            refuse_kdamonds: matches.get_flag("refuse-kdamonds"),
            group: matches.get_one::<PathBuf>("group").cloned(),
            htmm: matches.get_flag("htmm"),
            report: report(matches)?,
            json: matches.get_flag("json"),
            kill_workload: matches.get_flag("kill-workload"),
            state: state(matches),
            command: words(matches),
        })),
        Some(("limits", matches)) => Ok(Asked::Limits(limits::Plan {
            report: report(matches)?.unwrap_or_default(),
            command: words(matches),
        })),
        Some(("run", matches)) => {
            let target = Target::Command(words(matches));
            Ok(Asked::Run(Box::new(plan(matches, target)?)))
        }
        Some(("attach", matches)) => {
            let pid = matches.get_one::<i32>("pid").copied().unwrap_or_default();
            Ok(Asked::Run(Box::new(plan(matches, Target::Process(pid))?)))
        }
        Some(("restore", matches)) => Ok(Asked::Restore {
            state: state(matches),
            json: matches.get_flag("json"),
        }),
        Some(("stats", matches)) => Ok(Asked::Stats { state: state(matches) }),
        Some(("selfbench", matches)) => Ok(Asked::SelfBench {
            samples: matches.get_one::<u64>("samples").copied().unwrap_or_default(),
            of: matches.get_one::<selfbench::Of>("of").copied(),
        }),
        Some((_, matches)) => Ok(Asked::Probe {
            json: matches.get_flag("json"),
        }),
        None => Err("no command was given; `tierd --help` lists them".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_of(words: &str) -> Result<Asked, String> {
        let matches = command()
            .try_get_matches_from(words.split(' '))
            .map_err(|error| error.to_string())?;
        asked(&matches)
    }

    #[test]
    fn a_whole_line() {
        let line = "tierd run --policy colloid+hemem --fast 0 --slow 1 --fast-bytes 1.5GiB -- program --with arguments";
        let Ok(Asked::Run(plan)) = asked_of(line) else {
            panic!("it is right")
        };
        assert_eq!(
            (plan.fast_bytes, plan.page_bytes, plan.nodes),
            (3 << 29, 2 << 20, [0, 1])
        );
        assert_eq!(
            plan.target,
            Target::Command(vec!["program".into(), "--with".into(), "arguments".into()])
        );
        assert!(plan.knobs.contains_key("hot_threshold_reads") || plan.knobs.len() > 5);
    }

    #[test]
    fn mistakes_are_named_with_what_is_near() {
        let run = "--fast 0 --slow 1 --fast-bytes";
        for (line, expected) in [
            (
                format!("tierd run --policy hemen {run} 1MiB -- x"),
                "did you mean 'hemem'",
            ),
            (format!("tierd run --policy tpp {run} 1MB -- x"), "'MB' is no unit"),
            (
                format!("tierd run --policy soar {run} 1MiB -- x"),
                "soar cannot run live: it is planned by a rehearsal",
            ),
            (
                format!("tierd run --policy oracle {run} 1MiB -- x"),
                "oracle cannot run live: it needs the truth about future accesses",
            ),
            (
                format!("tierd run --policy tpp --page-bytes 8192 {run} 1MiB -- x"),
                "manages pages of",
            ),
            (
                format!("tierd run --policy tpp --sampler writen {run} 1MiB -- x"),
                "did you mean 'written'",
            ),
            (
                format!("tierd run --policy tpp --rate-mib-s 0 {run} 1MiB -- x"),
                "above 0",
            ),
            (
                format!("tierd run --policy tpp --knobs /nowhere.json {run} 1MiB -- x"),
                "/nowhere.json",
            ),
            (format!("tierd attach --policy tpp {run} 1MiB"), "--pid"),
        ] {
            let problem = asked_of(&line).expect_err(&line);
            assert!(problem.contains(expected), "{line}: {problem}");
        }
    }
}
