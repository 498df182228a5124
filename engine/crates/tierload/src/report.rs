//! What a run writes: parameters, objects and phases as they come, then figures; a line each, at once.

use std::io::Write;

use serde_json::{Value as Json, json};
use tiertune_workload::Kernel;
use tiertune_workload::host::Event;
use tiertune_workload::kernel::Outcome;

use crate::command::Run;

/// Writes lines of text or JSON documents.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    json: bool,
}

impl Report {
    /// A report of text or of JSON.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Writes a line; `text` if it is not JSON that is asked for.
    fn line(&self, document: Json, text: &str) {
        if self.json {
            write(&document.to_string());
        } else {
            write(text);
        }
    }

    /// What is run.
    pub fn begin(&self, run: &Run) {
        let bytes = run.kernel.footprint_bytes(&run.values);
        let parameters: serde_json::Map<String, Json> = run
            .values
            .iter()
            .map(|(name, value)| (name.to_owned(), value.document()))
            .collect();
        let spelled: Vec<String> = parameters
            .iter()
            .map(|(name, value)| format!("{name}={}", plain(value)))
            .collect();
        self.line(
            json!({
                "event": "begin", "family": run.kernel.family, "kernel": run.kernel.name, "parameters": parameters,
                "threads": run.threads, "trials": run.trials, "footprint_bytes": bytes, "version": env!("CARGO_PKG_VERSION"),
                "process": std::process::id(),
            }),
            &format!(
                "{} {}: {}; {} threads, process {}\nfootprint_bytes: {bytes}",
                run.kernel.family,
                run.kernel.name,
                spelled.join(" "),
                run.threads,
                std::process::id()
            ),
        );
    }

    /// An object or a phase.
    pub fn event(&self, event: &Event<'_>) {
        match event {
            Event::Allocated(spec, at_s) => self.line(
                json!({"event": "object", "name": spec.name, "bytes": spec.bytes, "at_s": at_s}),
                &format!("object {}: {} bytes at {at_s:.6} s", spec.name, spec.bytes),
            ),
            Event::Started(phase, at_s) => self.line(
                json!({"event": "phase_start", "name": phase.name, "timed": phase.timed, "at_s": at_s}),
                &format!("phase start: {} at {at_s:.6} s", phase.name),
            ),
            Event::Ended(mark) => self.line(
                json!({
                    "event": "phase_end", "name": mark.phase.name, "timed": mark.phase.timed, "seconds": mark.seconds,
                    "ops": mark.ops,
                }),
                &format!(
                    "phase end: {} took {:.6} s for {} operations",
                    mark.phase.name, mark.seconds, mark.ops
                ),
            ),
        }
    }

    /// The figures of one run.
    pub fn trial(&self, number: u32, runtime_s: f64, ops: u64, outcome: &Outcome) {
        let metrics: serde_json::Map<String, Json> = outcome
            .metrics
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).into()))
            .collect();
        let checks: Vec<Json> = outcome
            .checks
            .iter()
            .map(|check| json!({"name": check.name, "passed": check.passed, "detail": check.detail}))
            .collect();
        let mut text = format!("trial_s: {runtime_s:.6}");
        for (name, value) in &outcome.metrics {
            text += &format!("\n{name}: {value}");
        }
        for check in &outcome.checks {
            let verdict = if check.passed { "PASS" } else { "FAIL" };
            text += &format!("\ncheck {}: {verdict} ({})", check.name, check.detail);
        }
        self.line(
            json!({
                "event": "trial", "number": number, "trial_s": runtime_s, "ops": ops, "metrics": metrics, "checks": checks,
            }),
            &text,
        );
    }

    /// The figures of all runs together.
    pub fn end(&self, trials: &[(f64, u64)]) {
        let count = trials.len() as f64;
        let runtime_s = trials.iter().map(|(seconds, _)| seconds).sum::<f64>() / count;
        let ops = trials.iter().map(|(_, ops)| *ops as f64).sum::<f64>() / count;
        let throughput_mops = ops / runtime_s / 1e6;
        let mut document = json!({"event": "end", "runtime_s": runtime_s, "throughput_mops": throughput_mops});
        let mut text = format!("runtime_s: {runtime_s:.6}\nthroughput_mops: {throughput_mops:.6}");
        if let Some(bytes) = peak_bytes() {
            document["peak_rss_bytes"] = bytes.into();
            text += &format!("\npeak_rss_bytes: {bytes}");
        }
        self.line(document, &text);
    }
}

/// All kernels with their parameters.
pub fn list(kernels: &[Kernel], json: bool) {
    if json {
        let documents: Vec<Json> = kernels.iter().map(Kernel::document).collect();
        write(&Json::from(documents).to_string());
        return;
    }
    let mut families: Vec<&str> = kernels.iter().map(|kernel| kernel.family).collect();
    families.sort_unstable();
    families.dedup();
    for family in families {
        for kernel in kernels.iter().filter(|kernel| kernel.family == family) {
            write(&format!("{family:9} {:12} {}", kernel.name, kernel.summary));
        }
    }
}

/// A document on a line.
pub fn document(document: &Json) {
    write(&document.to_string());
}

/// A value without the quotes of JSON.
fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The most memory that the process has held, in bytes, as Linux counts it.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}

fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    // Marks are for those who watch: each line goes out at once. When nobody reads any more there is nothing to do.
    if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
