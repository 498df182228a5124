//! The command line, built from what the kernels declare.

use std::collections::BTreeSet;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::Map;
use tiertune_workload::kernels::KERNELS;
use tiertune_workload::parameter::{Default, Kind, Parameter, ParameterError, suggestion};
use tiertune_workload::{Kernel, Values};

use crate::measure::{self, Plan};

/// The parameter that is the number of threads at the same time.
const THREADS: &str = "threads";
const MOST_THREADS: usize = 4096;
/// The option that says which larger input the parameters stand for.
const CARRY: &str = "carry";
const RUNS: &str = "runs";
const DRY_RUN: &str = "dry-run";

/// A kernel to run.
pub struct Run {
    /// The kernel.
    pub kernel: &'static Kernel,
    /// Its parameters.
    pub values: Values,
    /// Threads that run it.
    pub threads: usize,
    /// How often.
    pub trials: u32,
    /// Whether results are checked.
    pub verify: bool,
    /// Whether to write JSON.
    pub json: bool,
    /// Whether only to say what would run.
    pub dry: bool,
}

/// What the command line asks for.
pub enum Asked {
    /// The kernels and their parameters.
    List {
        /// As JSON.
        json: bool,
    },
    /// A run.
    Run(Box<Run>),
    /// A measurement of the host's memory.
    Measure(Plan),
}

/// The whole command line.
pub fn command() -> Command {
    let families: BTreeSet<&'static str> = KERNELS.iter().map(|kernel| kernel.family).collect();
    let list = Command::new("list")
        .about("Kernels by family, with their parameters")
        .arg(json());
    families.into_iter().fold(
        Command::new("tierload")
            .version(env!("CARGO_PKG_VERSION"))
            .about("Runs workload kernels on real memory and says when each phase starts and ends")
            .after_help("Example: tierload gapbs bc --graph kron --scale 20 --threads 2")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(list)
            .subcommand(measure::arguments::command()),
        |command, family| command.subcommand(family_command(family)),
    )
}

fn family_command(family: &'static str) -> Command {
    let kernels = || KERNELS.iter().filter(|kernel| kernel.family == family);
    let names: Vec<&str> = kernels().map(|kernel| kernel.name).collect();
    kernels().fold(
        Command::new(family)
            .about(format!("Kernels: {}", names.join(", ")))
            .subcommand_required(true)
            .arg_required_else_help(true),
        |command, kernel| command.subcommand(kernel_command(kernel)),
    )
}

fn kernel_command(kernel: &'static Kernel) -> Command {
    let about = format!(
        "{}, as in {}; one operation is {}",
        kernel.summary, kernel.source, kernel.op_meaning
    );
    let own = kernel
        .parameters
        .iter()
        .filter(|parameter| parameter.name != THREADS)
        .map(argument);
    Command::new(kernel.name)
        .about(about)
        .args(own)
        .arg(
            Arg::new(THREADS)
                .long(THREADS)
                .value_name("COUNT")
                .value_parser(clap::value_parser!(u64).range(1..=MOST_THREADS as u64))
                .help("threads [default: all processors]"),
        )
        .arg(
            Arg::new("trials")
                .long("trials")
                .value_name("COUNT")
                .value_parser(clap::value_parser!(u32).range(1..=10_000))
                .default_value("1")
                .help("how often everything is run"),
        )
        .arg(
            Arg::new("verify")
                .long("verify")
                .action(ArgAction::SetTrue)
                .help("check the result after each run; exits with 1 when it is wrong"),
        )
        .arg(
            Arg::new(DRY_RUN)
                .long(DRY_RUN)
                .action(ArgAction::SetTrue)
                .help("say what would run, with its footprint, and run nothing"),
        )
        .args(carry(kernel))
        .args(runs(kernel))
        .arg(json())
}

/// The option for what workload files have under `carry`, where a kernel is carried.
fn carry(kernel: &Kernel) -> Option<Arg> {
    let names: Vec<&str> = carried(kernel).map(|parameter| parameter.name).collect();
    (!names.is_empty()).then(|| {
        Arg::new(CARRY)
            .long(CARRY)
            .value_name("NAME=VALUE")
            .action(ArgAction::Append)
            .help(format!(
                "run at this size instead, with as much more work as a recording of the other parameters is carried to; {}",
                names.join(", ")
            ))
    })
}

/// The option for how often the work of a run is done, where a kernel can go on.
fn runs(kernel: &Kernel) -> Option<Arg> {
    work(kernel).map(|parameter| {
        Arg::new(RUNS)
            .long(RUNS)
            .value_name("COUNT")
            .value_parser(clap::value_parser!(u64).range(1..=100_000))
            .help(format!(
                "so many times the work on the same memory: {} is multiplied, after --{CARRY}",
                parameter.name
            ))
    })
}

fn work(kernel: &Kernel) -> Option<&'static Parameter> {
    kernel.parameters.iter().find(|parameter| parameter.work)
}

fn carried(kernel: &Kernel) -> impl Iterator<Item = &'static Parameter> {
    kernel.parameters.iter().filter(|parameter| parameter.carried)
}

/// The values at the sizes that `--carry` gives.
fn resized(kernel: &Kernel, values: &Values, given: &[&String]) -> Result<Values, String> {
    let mut sizes = Vec::new();
    for text in given {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| format!("--{CARRY} is {text}, it must be NAME=VALUE, such as scale=20"))?;
        let parameter = carried(kernel)
            .find(|parameter| parameter.name == name)
            .ok_or_else(|| {
                let near = suggestion(name, carried(kernel).map(|parameter| parameter.name));
                format!("--{CARRY} {text}: {} is not carried by {name}{near}", kernel.name)
            })?;
        let size = parameter.spelled(value).map_err(said)?;
        sizes.push((parameter.name, size.as_u64().unwrap_or_default()));
    }
    let larger = (kernel.resize)(values, &sizes);
    // Once more, as sizes and the work that grows with them have their bounds, too.
    let map: Map<_, _> = larger
        .iter()
        .map(|(name, value)| (name.to_owned(), value.document()))
        .collect();
    Values::read(kernel.parameters, &map).map_err(said)
}

fn json() -> Arg {
    Arg::new("json")
        .long("json")
        .action(ArgAction::SetTrue)
        .help("JSON, one document a line")
}

fn argument(parameter: &'static Parameter) -> Arg {
    let value = match parameter.kind {
        Kind::Int(..) => "COUNT".to_owned(),
        Kind::Bytes(..) => "SIZE".to_owned(),
        Kind::Real(..) => "NUMBER".to_owned(),
        Kind::Word(_, words) => words.join("|"),
        Kind::Flag => "BOOL".to_owned(),
        Kind::Text => "FILE".to_owned(),
        Kind::Other => "JSON".to_owned(),
    };
    let shown = match parameter.default {
        Default::Required => String::new(),
        Default::Int(number) => format!(" [default: {number}]"),
        Default::Real(number) => format!(" [default: {number}]"),
        Default::Word(word) => format!(" [default: {word}]"),
        Default::Flag(flag) => format!(" [default: {flag}]"),
    };
    let arg = Arg::new(parameter.name)
        .long(parameter.name.replace('_', "-"))
        // As workload files spell it.
        .alias(parameter.name)
        .value_name(value)
        .required(parameter.default == Default::Required)
        .help(format!("{}{shown}", parameter.meaning));
    if parameter.kind == Kind::Flag {
        arg.num_args(0..=1).default_missing_value("true").require_equals(true)
    } else {
        arg
    }
}

/// What the command line asks for, or why it cannot be done.
pub fn asked(matches: &ArgMatches) -> Result<Asked, String> {
    let Some((family, inner)) = matches.subcommand() else {
        return Err("say which family of kernels; `tierload list` names them".to_owned());
    };
    if family == "list" {
        return Ok(Asked::List {
            json: inner.get_flag("json"),
        });
    }
    if family == measure::arguments::MEASURE {
        return measure::arguments::asked(inner).map(Asked::Measure);
    }
    let Some((name, given)) = inner.subcommand() else {
        return Err(format!("say which kernel of {family}; `tierload list` names them"));
    };
    let found = KERNELS
        .iter()
        .find(|kernel| kernel.family == family && kernel.name == name);
    let kernel = found.ok_or_else(|| format!("{family} has no kernel {name}; `tierload list` names them"))?;
    let threads = match given.get_one::<u64>(THREADS) {
        Some(count) => *count as usize,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let mut map = Map::new();
    for parameter in kernel.parameters {
        if parameter.name == THREADS {
            map.insert(THREADS.to_owned(), threads.into());
        } else if let Some(text) = given.get_one::<String>(parameter.name) {
            map.insert(parameter.name.to_owned(), parameter.spelled(text).map_err(said)?);
        }
    }
    let mut values = Values::read(kernel.parameters, &map).map_err(said)?;
    if carried(kernel).next().is_some() {
        let sizes: Vec<&String> = given.get_many(CARRY).into_iter().flatten().collect();
        if !sizes.is_empty() {
            values = resized(kernel, &values, &sizes)?;
        }
    }
    if let Some(parameter) = work(kernel) {
        let runs = given.get_one::<u64>(RUNS).copied().unwrap_or(1);
        let count = values.int(parameter.name).saturating_mul(runs);
        // Read again, as what it counts has its bounds.
        parameter.read(&count.into()).map_err(said)?;
        values = values.with(parameter.name, count);
    }
    (kernel.check)(&values).map_err(said)?;
    Ok(Asked::Run(Box::new(Run {
        kernel,
        values,
        threads,
        trials: given.get_one::<u32>("trials").copied().unwrap_or(1),
        verify: given.get_flag("verify"),
        json: given.get_flag("json"),
        dry: given.get_flag(DRY_RUN),
    })))
}

fn said(error: ParameterError) -> String {
    format!("--{} {}", error.name.replace('_', "-"), error.text)
}
