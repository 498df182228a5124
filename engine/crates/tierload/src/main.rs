//! `tierload`: the workload kernels as a native command, under the names and parameters of workload files.

mod command;
mod measure;
mod memory;
mod report;

use std::process::ExitCode;

use tiertune_workload::host::Host;
use tiertune_workload::kernels::KERNELS;

use command::{Asked, Run};
use report::Report;

/// A result that is not right.
const WRONG_RESULT: u8 = 1;
/// Something that the user wrote cannot be run.
const BAD_INPUT: u8 = 2;
/// This host cannot do what was asked.
const UNFIT_HOST: u8 = 3;

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
    match command::asked(&matches) {
        Ok(Asked::List { json }) => {
            report::list(KERNELS, json);
            ExitCode::SUCCESS
        }
        Ok(Asked::Run(run)) => execute(&run),
        Ok(Asked::Measure(plan)) => {
            report::document(&measure::begin(&plan));
            match measure::carry_out(&plan, |sample| report::document(&sample)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(sentence) => {
                    eprintln!("tierload: {sentence}");
                    UNFIT_HOST.into()
                }
            }
        }
        Err(sentence) => {
            eprintln!("tierload: {sentence}");
            BAD_INPUT.into()
        }
    }
}

fn execute(run: &Run) -> ExitCode {
    let report = Report::new(run.json);
    if run.dry {
        report.begin(run);
        return ExitCode::SUCCESS;
    }
    let bytes = run.kernel.footprint_bytes(&run.values);
    if let Err(sentence) = memory::check(bytes) {
        eprintln!("tierload: {sentence}");
        return UNFIT_HOST.into();
    }
    report.begin(run);
    let (mut runtimes, mut passed) = (Vec::new(), true);
    for trial in 1..=run.trials {
        let listener = report;
        let mut host = Host::new(run.threads).listening(move |event| listener.event(&event));
        let outcome = (run.kernel.native)(&mut host, &run.values, run.verify);
        let (runtime_s, ops) = host.timed();
        report.trial(trial, runtime_s, ops, &outcome);
        runtimes.push((runtime_s, ops));
        passed &= outcome.checks.iter().all(|check| check.passed);
    }
    report.end(&runtimes);
    if passed { ExitCode::SUCCESS } else { WRONG_RESULT.into() }
}
