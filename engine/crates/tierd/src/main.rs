//! `tierd`: a tiering policy on the memory of a real process.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use tierd::command::{self, Asked, Plan};
use tierd::facts;
use tierd::hold;
use tierd::limits;
use tierd::metrics;
use tierd::report::{Report, Status};
use tierd::selfbench;
use tierd::session::{self, Failure};

const BUG: u8 = 1;
/// Something that the user wrote cannot be done.
const BAD_INPUT: u8 = 2;
/// This host cannot do what was asked.
const UNFIT_HOST: u8 = 3;
/// The run is complete, but the workload said that it failed; the report has its own exit code.
const WORKLOAD_FAILED: u8 = 4;
/// A signal ended the run, in good order.
const STOPPED: u8 = 130;

fn main() -> ExitCode {
    let matches = match command::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            // Help and version come this way too, on standard output and with success.
            let failed = error.use_stderr();
            // Nobody listens any more if this fails.
            let _ = error.print();
            return if failed { BAD_INPUT.into() } else { ExitCode::SUCCESS };
        }
    };
    let asked = match command::asked(&matches) {
        Ok(asked) => asked,
        Err(sentence) => return failed(&Failure::Input(sentence)),
    };
    match asked {
        Asked::Run(plan) => run(&plan),
        Asked::Hold(plan) => hold(&plan),
        Asked::Limits(plan) => failed(&limits::run(&plan)),
        Asked::Probe { json } => probe(json),
        Asked::Restore { state, json } => match session::restore(&state) {
            Ok(restored) if json => document(&restored),
            Ok(restored) => {
                let each = restored.iter();
                let mut lines: Vec<String> = each
                    .map(|setting| format!("{} = {}", setting.path, setting.value))
                    .collect();
                if lines.is_empty() {
                    lines.push("nothing was left to be put back".to_owned());
                }
                shown(&lines.join("\n"), ExitCode::SUCCESS)
            }
            Err(failure) => failed(&failure),
        },
        Asked::Stats { state } => match metrics::ask(&state) {
            Ok(text) => shown(text.trim_end(), ExitCode::SUCCESS),
            Err(error) => failed(&Failure::Host(format!(
                "no tierd answers at {}: {error}",
                metrics::socket(&state).display()
            ))),
        },
        Asked::SelfBench { samples, of: Some(of) } => document(&selfbench::measure(of, samples)),
        Asked::SelfBench { samples, of: None } => match selfbench::each(samples) {
            Ok(costs) => document(&costs),
            Err(error) => failed(&Failure::Bug(error.to_string())),
        },
    }
}

/// Writes a line for whoever looks on. Nobody may be there any more, or a disk full: that ends no run.
fn say(text: impl Display) {
    let _ = writeln!(io::stderr(), "tierd: {text}");
}

/// Writes what was asked for to standard output. A reader that goes away, such as `head`, has what it wants.
fn print(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    match writeln!(output, "{text}").and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Host(format!("standard output cannot be written to: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints, and ends with `code` where that worked.
fn shown(text: &str, code: ExitCode) -> ExitCode {
    print(text).map_or_else(|failure| failed(&failure), |()| code)
}

fn failed(failure: &Failure) -> ExitCode {
    say(failure);
    match failure {
        Failure::Input(_) => BAD_INPUT.into(),
        Failure::Host(_) => UNFIT_HOST.into(),
        Failure::Bug(_) => BUG.into(),
        Failure::Stopped => STOPPED.into(),
    }
}

/// Writes a JSON document.
fn document(value: &impl serde::Serialize) -> ExitCode {
    match serde_json::to_string(value) {
        Ok(text) => shown(&text, ExitCode::SUCCESS),
        Err(error) => failed(&Failure::Bug(error.to_string())),
    }
}

fn probe(json: bool) -> ExitCode {
    let found = facts::probe();
    let fitness = if found.fit {
        ExitCode::SUCCESS
    } else {
        UNFIT_HOST.into()
    };
    if json {
        document(&found);
        return fitness;
    }
    let mut lines = Vec::new();
    for node in &found.host.nodes {
        let mib = |bytes: u64| bytes >> 20;
        lines.push(format!(
            "node {}: {} MiB, {} MiB free, {} processors",
            node.node,
            mib(node.total_bytes),
            mib(node.free_bytes),
            node.cpus
        ));
    }
    for source in &found.sources {
        lines.push(match &source.problem {
            None => format!("{}: works; {}", source.name, source.meaning),
            Some(problem) => format!("{}: does not work; {problem}", source.name),
        });
    }
    lines.push(match &found.counters_problem {
        None => format!("counters: {}", found.counters),
        Some(problem) => format!("counters: {}; {problem}", found.counters),
    });
    lines.extend(found.problems.iter().chain(&found.rivals).cloned());
    shown(&lines.join("\n"), fitness)
}

fn hold(plan: &hold::Plan) -> ExitCode {
    let report = match hold::run(plan, |line| say(line)) {
        Ok(report) => report,
        Err(failure) => return failed(&failure),
    };
    let written = write(plan.report.as_deref(), plan.json, &report);
    report.notes.iter().for_each(say);
    let stuck = report
        .settings
        .iter()
        .find_map(|held| Some((&held.path, held.problem.as_ref()?)));
    ended(report.status, stuck, written)
}

fn run(plan: &Plan) -> ExitCode {
    let report = match session::run(plan, |line| say(line)) {
        Ok(report) => report,
        Err(failure) => return failed(&failure),
    };
    let written = write(plan.report.as_deref(), plan.json, &report);
    summary(&report);
    let stuck = report
        .settings
        .iter()
        .find_map(|setting| Some((&setting.path, setting.problem.as_ref()?)));
    ended(report.status, stuck, written)
}

/// The exit code of a run that ended so, left a setting changed if `stuck` is one with its reason, and may not have
/// written its report.
fn ended(status: Status, stuck: Option<(&String, &String)>, written: Result<(), Failure>) -> ExitCode {
    let stuck = stuck.map(|(path, problem)| {
        Failure::Host(format!(
            "{path} could not be put back: {problem}; `tierd restore` tries again"
        ))
    });
    let mut code = None;
    for failure in written.err().into_iter().chain(stuck) {
        code = Some(failed(&failure));
    }
    if let Some(code) = code {
        return code;
    }
    match status {
        Status::Done => ExitCode::SUCCESS,
        Status::WorkloadFailed => WORKLOAD_FAILED.into(),
        Status::Stopped => STOPPED.into(),
        Status::SourceFailed => UNFIT_HOST.into(),
    }
}

fn write(path: Option<&Path>, json: bool, report: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(report).map_err(|error| Failure::Bug(error.to_string()))?;
    if let Some(path) = path {
        // Whole or not at all: a reader never finds half a report.
        let partial = path.with_extension("partial");
        fs::write(&partial, format!("{text}\n"))
            .and_then(|()| fs::rename(&partial, path))
            .map_err(|error| Failure::Host(format!("--report {}: {error}", path.display())))?;
    }
    if json { print(&text) } else { Ok(()) }
}

fn summary(report: &Report) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1u32 << 20);
    say(format_args!(
        "{:.1} s; at most {:.1} MiB in the fast tier; promoted {:.1} MiB, demoted {:.1} MiB; {} samples, {} hint faults; \
         {:.2} s of processor time",
        report.workload.runtime_s,
        mib(report.counts.most_fast_bytes),
        mib(report.migrations.promoted_bytes),
        mib(report.migrations.demoted_bytes),
        report.counts.samples,
        report.counts.hint_faults,
        report.overhead.cpu_s,
    ));
    report.notes.iter().for_each(say);
}
