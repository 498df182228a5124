//! A run from its beginning to its end: everything that is checked before, done, and put back afterwards.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use tiertune_host::descriptors;
use tiertune_host::follow;
use tiertune_host::launch::{self, KEPT, Launch};
use tiertune_host::owner::{Owner, process_cpu_ns, stop_on_signals, stopped};
use tiertune_host::perf::requests::MemoryCounters;
use tiertune_host::source::{SOURCES, Setup};
use tiertune_host::{HostError, Journal, PAGE_BYTES, Restored, SharedJournal, monotonic_ns, value_of};
use tiertune_policy::{Needs, Policy, SamplerRequest, registry};

use crate::choose::{self, Chosen};
use crate::command::{CountersFrom, Plan, Target};
use crate::counters::Assumed;
use crate::driver::{Driver, Options};
use crate::facts::{self, Facts};
use crate::linux::Linux;
use crate::metrics::{self, Server};
use crate::report::{self, Period, REPORT_VERSION, Report, Setting, Signals, Status, TierFacts, Workload};
use crate::signals::{Translator, kind_of};

/// Latencies where nothing is known: of local memory, and of memory behind a link.
const ASSUMED_LATENCY_NS: [f64; 2] = [100.0, 250.0];
/// Cycles a nanosecond that software counters assume; policies look at ratios of cycles.
const CYCLES_PER_NS: f64 = 2.0;
const SECOND_NS: u64 = 1_000_000_000;

/// Why there was no run.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What the user wrote cannot be done anywhere.
    #[error("{0}")]
    Input(String),
    /// This host cannot do it.
    #[error("{0}")]
    Host(String),
    /// A bug of ours.
    #[error("{0}")]
    Bug(String),
    /// A signal came before there was anything to be run.
    #[error("stopped by a signal before the program was started")]
    Stopped,
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Unfit(text) => Failure::Host(text),
            HostError::Wrong(text) => Failure::Input(text),
        }
    }
}

pub(crate) fn settings(restored: Vec<Restored>, changed: &[tiertune_host::Changed]) -> Vec<Setting> {
    let each = restored.into_iter();
    each.map(|restored| Setting {
        during: changed
            .iter()
            .find(|change| change.path == restored.path)
            .and_then(|change| change.after.clone()),
        path: restored.path.display().to_string(),
        value: restored.value,
        problem: restored.problem,
    })
    .collect()
}

/// Puts back what an earlier run left changed. The caller has the lock.
pub(crate) fn put_back(folder: &Path) -> Result<(Journal, Vec<Setting>), Failure> {
    let mut journal = Journal::open(folder)?;
    let changed = journal.changed().to_vec();
    let restored = settings(journal.restore(), &changed);
    if let Some(stuck) = restored.iter().find(|setting| setting.problem.is_some()) {
        return Err(Failure::Host(format!(
            "the setting {}, which an earlier run had changed, cannot be put back: {}",
            stuck.path,
            stuck.problem.as_deref().unwrap_or_default()
        )));
    }
    Ok((journal, restored))
}

/// `tierd restore`.
///
/// # Errors
/// When another daemon runs, or a setting cannot be put back.
pub fn restore(folder: &Path) -> Result<Vec<Setting>, Failure> {
    let _owner = Owner::take(folder)?;
    Ok(put_back(folder)?.1)
}

fn tiers(plan: &Plan, host: &Facts) -> Result<Vec<TierFacts>, Failure> {
    if host.nodes.len() < 2 {
        return Err(Failure::Host(facts::too_few_nodes(&host.nodes)));
    }
    let numbers: Vec<String> = host.nodes.iter().map(|node| node.node.to_string()).collect();
    let mut tiers = Vec::new();
    for (place, option) in ["--fast", "--slow"].into_iter().enumerate() {
        let number = plan.nodes[place];
        let Some(node) = host.nodes.iter().find(|node| node.node == number) else {
            return Err(Failure::Input(format!(
                "{option} {number}: there is no such memory node; this host has {}",
                numbers.join(", ")
            )));
        };
        let bytes = if place == 0 { plan.fast_bytes } else { node.total_bytes };
        if bytes > node.total_bytes {
            return Err(Failure::Input(format!(
                "--fast-bytes {bytes}: node {number} has {} bytes",
                node.total_bytes
            )));
        }
        let (latency_ns, latency_from) = match (plan.latency_ns[place], node.read_latency_ns) {
            (Some(given), _) => (given, "given"),
            (None, Some(known)) => (known, "firmware"),
            (None, None) => (ASSUMED_LATENCY_NS[place], "assumed"),
        };
        tiers.push(TierFacts {
            node: number,
            bytes,
            latency_ns,
            latency_from,
        });
    }
    if plan.nodes[0] == plan.nodes[1] {
        return Err(Failure::Input(format!(
            "--fast and --slow are both {}: the tiers have to be two nodes; this host has {}",
            plan.nodes[0],
            numbers.join(", ")
        )));
    }
    if plan.fast_bytes < plan.page_bytes {
        return Err(Failure::Input(format!(
            "--fast-bytes {}: a page of {} bytes has to fit in",
            plan.fast_bytes, plan.page_bytes
        )));
    }
    Ok(tiers)
}

/// Counters of requests to memory, for policies that need some.
struct Counting {
    /// Those of hardware, if they are read.
    measured: Option<MemoryCounters>,
    /// As the report has it.
    from: &'static str,
    /// Why they are not those of hardware.
    problem: Option<String>,
}

fn counting(plan: &Plan, needs: Needs) -> Result<Counting, Failure> {
    let of = |from, measured, problem| Counting {
        measured,
        from,
        problem,
    };
    if !needs.counters {
        return Ok(of("none", None, None));
    }
    if plan.counters == CountersFrom::Software {
        return Ok(of("software", None, None));
    }
    match MemoryCounters::open(plan.nodes) {
        Ok(measured) => Ok(of("hardware", Some(measured), None)),
        Err(reason) if plan.counters == CountersFrom::Hardware => Err(Failure::Host(format!(
            "{} cannot run live: --counters hardware: {reason}; --counters software says what is assumed instead",
            plan.policy
        ))),
        Err(reason) => Ok(of("software", None, Some(reason.to_string()))),
    }
}

fn build(plan: &Plan, options: &Options) -> Result<(Box<dyn Policy>, Vec<SamplerRequest>), Failure> {
    let system = registry::find(&plan.policy).map_err(|error| Failure::Input(error.to_string()))?;
    let topology = options.topology();
    let policy = system
        .build(&plan.knobs, &topology)
        .map_err(|error| Failure::Input(error.to_string()))?;
    let usual = system.smallest().map_err(|error| Failure::Bug(error.to_string()))?;
    Ok((policy, usual.samplers()))
}

fn sources(plan: &Plan, policy: &dyn Policy, setup: &Setup) -> Result<Chosen, Failure> {
    let (requests, needs) = (policy.samplers(), policy.needs());
    if plan.samplers.is_empty() {
        Ok(choose::automatic(SOURCES, &requests, needs, setup))
    } else {
        Ok(choose::named(SOURCES, &plan.samplers, setup)?)
    }
}

const BALANCING: &str = "/proc/sys/kernel/numa_balancing";

/// Keeps the kernel from moving pages by itself meanwhile: what distributions turn on by default is turned off and put back;
/// what somebody has set up is not touched.
fn still_balancing(journal: &SharedJournal) -> Result<Option<String>, Failure> {
    let path = Path::new(BALANCING);
    match value_of(path).as_deref() {
        // Kernels without it do not balance.
        Err(_) | Ok("0") => Ok(None),
        Ok("1") => {
            journal.get().set(path, "0")?;
            Ok(Some(
                "the kernel's NUMA balancing, which would move pages by itself, is off for the time of the run"
                    .to_owned(),
            ))
        }
        Ok(mode) => Err(Failure::Host(format!(
            "{BALANCING} is {mode}: somebody has the kernel tier memory, which tierd does not touch; set it to 0 first"
        ))),
    }
}

/// The first process of the workload.
fn begin(plan: &Plan, needs: Needs, chosen: &Chosen) -> Result<i32, Failure> {
    match &plan.target {
        Target::Process(pid) => {
            if !follow::lives(*pid) {
                return Err(Failure::Input(format!("--pid {pid}: there is no such process")));
            }
            Ok(*pid)
        }
        Target::Command(command) => {
            launch::adopt_orphans().map_err(|error| Failure::Bug(error.to_string()))?;
            let launch = Launch {
                command: command.clone(),
                node: Some(plan.nodes[1]),
                hint_faults: needs.hint_faults && chosen.signals().hint_faults,
                huge_pages: plan.page_bytes > PAGE_BYTES,
                group: None,
            };
            start(&launch)
        }
    }
}

/// Starts a program, unless a signal has come; its process.
pub(crate) fn start(launch: &Launch) -> Result<i32, Failure> {
    if stopped() {
        return Err(Failure::Stopped);
    }
    launch.check()?;
    let child = launch.start().map_err(|error| {
        let program = launch.command.first().map(|word| word.to_string_lossy().into_owned());
        Failure::Input(format!("{}: {error}", program.unwrap_or_default()))
    })?;
    Ok(child.id() as i32)
}

/// Names of the rights that are left, once the others were to be given up. Where they could not be, a program that was just
/// started is ended: the daemon would watch it with more rights than it says.
fn kept(left: io::Result<u64>, target: &Target, pid: i32) -> Result<Vec<&'static str>, Failure> {
    let left = left.map_err(|error| {
        if matches!(target, Target::Command(_)) {
            Linux::new(pid, true, false).kill();
        }
        Failure::Host(format!(
            "the rights that are not needed cannot be given up (capset, no_new_privs): {error}; so nothing is run with them"
        ))
    })?;
    let each = KEPT.iter().filter(|(_, number, _)| left >> number & 1 == 1);
    Ok(each.map(|(name, ..)| *name).collect())
}

/// Exit code and signal of what `waitpid` says.
pub(crate) fn end_of(status: Option<i32>) -> (Option<i32>, Option<i32>) {
    let exited = status.filter(|status| libc::WIFEXITED(*status));
    let killed = status.filter(|status| libc::WIFSIGNALED(*status));
    (
        exited.map(|status| libc::WEXITSTATUS(status)),
        killed.map(|status| libc::WTERMSIG(status)),
    )
}

/// Runs the plan; `line` is given what the user may want to read meanwhile.
///
/// # Errors
/// When there was no run. What went wrong within one is in the report.
pub fn run(plan: &Plan, mut line: impl FnMut(&str)) -> Result<Report, Failure> {
    let host = facts::facts();
    let tiers = tiers(plan, &host)?;
    let owner = Owner::take(&plan.state)?;
    let (journal, left_over) = put_back(&plan.state)?;
    for setting in &left_over {
        line(&format!(
            "put back {} = {}, as an earlier run had found it",
            setting.path, setting.value
        ));
    }
    let journal = SharedJournal::new(journal);
    descriptors::raise();
    let millis = |place: usize| plan.intervals_ms[place] * 1_000_000;
    let options = Options {
        page_bytes: plan.page_bytes,
        nodes: plan.nodes,
        cap_bytes: plan.fast_bytes,
        slow_bytes: tiers[1].bytes,
        drain_ns: millis(0),
        refresh_ns: millis(1),
        resync_ns: millis(2),
        most_bytes_per_s: plan.most_bytes_per_s,
        seed: plan.seed,
        place_first: matches!(plan.target, Target::Command(_)),
        assumed: Assumed {
            latency_ns: [tiers[0].latency_ns, tiers[1].latency_ns],
            cycles_per_ns: CYCLES_PER_NS,
        },
    };
    let (policy, usual) = build(plan, &options)?;
    let (requests, needs) = (policy.samplers(), policy.needs());
    let setup = Setup {
        fast_node: plan.nodes[0],
        slow_node: plan.nodes[1],
        starts_program: matches!(plan.target, Target::Command(_)),
        periods: requests
            .iter()
            .map(|request| (kind_of(request.event), request.period))
            .collect(),
        drain_ns: options.drain_ns,
        journal: journal.clone(),
    };
    let ready = Ready {
        host,
        tiers,
        counting: counting(plan, needs)?,
    };
    let result = caught(|| manage(plan, &options, policy, &usual, &setup, &mut line, ready));
    // Whatever became of it, the host is as it was.
    let changed = journal.get().changed().to_vec();
    let restored = settings(journal.get().restore(), &changed);
    drop(owner);
    let mut report = and_stuck(result, &restored)?;
    (report.settings, report.left_over) = (restored, left_over);
    Ok(report)
}

/// Does work that must not keep what comes after it from being done, even if it panics.
pub(crate) fn caught<R>(work: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Failure::Bug(format!(
            "this is a bug of ours, please report it: {}; the workload, if it was started, goes on",
            text.unwrap_or_else(|| "a panic".to_owned())
        )))
    })
}

/// Why there was no run, and with it the setting that is still changed, if any is.
pub(crate) fn and_stuck<R>(result: Result<R, Failure>, restored: &[Setting]) -> Result<R, Failure> {
    let stuck = restored.iter().find(|setting| setting.problem.is_some());
    match (result, stuck) {
        (Err(failure), Some(stuck)) => Err(Failure::Host(format!(
            "{failure}; and {} could not be put back, which `tierd restore` tries again",
            stuck.path
        ))),
        (result, _) => result,
    }
}

/// What is known of the host before the run.
struct Ready {
    host: Facts,
    tiers: Vec<TierFacts>,
    counting: Counting,
}

fn manage(
    plan: &Plan,
    options: &Options,
    policy: Box<dyn Policy>,
    usual: &[SamplerRequest],
    setup: &Setup,
    line: &mut impl FnMut(&str),
    mut ready: Ready,
) -> Result<Report, Failure> {
    // From here on a signal ends the run in good order.
    stop_on_signals();
    let mut notes = facts::rivals();
    let chosen = sources(plan, policy.as_ref(), setup)?;
    let translator = Translator::new(
        &policy.samplers(),
        usual,
        policy.needs(),
        &chosen.signals(),
        &chosen.names(),
        plan.seed,
    )
    .map_err(|unmet| {
        let tried: Vec<String> = chosen
            .not_used
            .iter()
            .map(|(_, reason)| format!("; {reason}"))
            .collect();
        Failure::Host(format!("{} cannot run here: {unmet}{}", plan.policy, tried.concat()))
    })?
    .with_fast_node(plan.nodes[0]);
    if !chosen.signals().hint_faults {
        notes.extend(still_balancing(&setup.journal)?);
    }
    if let Target::Process(pid) = plan.target {
        if plan.page_bytes == PAGE_BYTES && follow::huge_bytes(pid) > 0 {
            notes.push(
                "the process has huge pages, which move as a whole: --page-bytes 2097152 manages them as such"
                    .to_owned(),
            );
        }
        notes.push(
            "new memory comes from where the process takes it, and what is above the cap is moved out afterwards: only a \
             program that tierd starts gets its memory from the slow node first"
                .to_owned(),
        );
    }
    let server = Server::open(&plan.state)
        .map_err(|error| Failure::Host(format!("{}: {error}", metrics::socket(&plan.state).display())))?;
    let pid = begin(plan, policy.needs(), &chosen)?;
    let capabilities = kept(launch::drop_capabilities(), &plan.target, pid)?;
    let moves_shared = capabilities.contains(&"CAP_SYS_NICE");
    if let Err(error) = server.serve() {
        notes.push(format!("there are no figures on the socket: {error}"));
    }
    let source_names: Vec<&'static str> = chosen.sources.iter().map(|source| source.name()).collect();
    line(&format!(
        "process {pid} under {}, {} of {} bytes in node {}, seen by {}",
        plan.policy,
        if plan.page_bytes == PAGE_BYTES {
            "pages of 4 KiB"
        } else {
            "pages of 2 MiB"
        },
        plan.fast_bytes,
        plan.nodes[0],
        if source_names.is_empty() {
            "nothing, which is all it needs".to_owned()
        } else {
            source_names.join(" and ")
        },
    ));
    for emulated in &translator.emulated {
        line(&format!(
            "{} are made of {}: {}",
            emulated.signal, emulated.from, emulated.how
        ));
    }
    let kernel = Linux::new(pid, matches!(plan.target, Target::Command(_)), moves_shared);
    let mut driver = Driver::new(kernel, options.clone(), policy, chosen.sources, translator);
    if let Some(measured) = ready.counting.measured.take() {
        driver = driver.with_counters(Box::new(measured));
    }
    let begun_ns = monotonic_ns();
    // Sources may have threads of their own.
    let cpu_begun_ns = process_cpu_ns();
    let mut next_line_ns = begun_ns;
    let mut failed_source = false;
    let mut said_crowd = false;
    while !stopped() {
        match driver.turn() {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                notes.push(format!("the run was ended early: {error}"));
                failed_source = true;
                break;
            }
        }
        if !said_crowd && let Some(text) = driver.crowd() {
            // Once, however many come and go; the most of them are in the report.
            line(&text);
            said_crowd = true;
        }
        let now_ns = monotonic_ns();
        if now_ns >= next_line_ns {
            next_line_ns = now_ns + SECOND_NS;
            let point = driver.latest();
            let text = metrics::text(
                &plan.policy,
                plan.fast_bytes,
                &point,
                driver.counts(),
                driver.tally(),
                &driver.gauges(),
            );
            server.set(text);
            if plan.live {
                let mib = |bytes: u64| bytes as f64 / f64::from(1u32 << 20);
                line(&format!(
                    "{:.0} s: fast {:.1} of {:.1} MiB, {:.1} MiB in memory; promoted {:.1}, demoted {:.1} MiB; {} samples, {} faults",
                    point.at_s,
                    mib(point.fast_bytes),
                    mib(plan.fast_bytes),
                    mib(point.present_bytes),
                    mib(point.promoted_bytes),
                    mib(point.demoted_bytes),
                    point.samples,
                    point.hint_faults,
                ));
            }
        }
    }
    let runtime_s = (monotonic_ns() - begun_ns) as f64 / 1e9;
    let cpu_ns = process_cpu_ns() - cpu_begun_ns;
    notes.extend(driver.notes());
    driver.detach();
    Ok(finish(
        plan,
        ready,
        &mut driver,
        Ended {
            notes,
            pid,
            runtime_s,
            cpu_ns,
            failed_source,
            not_used: chosen.not_used,
            source_names,
            capabilities,
        },
    ))
}

/// What is left to be reported.
struct Ended {
    notes: Vec<String>,
    pid: i32,
    runtime_s: f64,
    cpu_ns: u64,
    failed_source: bool,
    not_used: Vec<(String, String)>,
    source_names: Vec<&'static str>,
    capabilities: Vec<&'static str>,
}

fn finish(plan: &Plan, ready: Ready, driver: &mut Driver<Linux>, ended: Ended) -> Report {
    let mut notes = ended.notes;
    let was_stopped = stopped();
    if was_stopped {
        notes.push(left(
            driver.kernel(),
            plan.kill_workload,
            "with its pages where they are",
        ));
    }
    if ended.failed_source && matches!(plan.target, Target::Command(_)) && !was_stopped {
        notes.push("the workload was waited for".to_owned());
        wait(driver.kernel());
    }
    let (exit_code, signal) = end_of(driver.kernel().status());
    let status = if was_stopped {
        Status::Stopped
    } else if signal.is_some() || exit_code.is_some_and(|code| code != 0) {
        Status::WorkloadFailed
    } else if ended.failed_source {
        Status::SourceFailed
    } else {
        Status::Done
    };
    let counts = driver.counts().clone();
    let periods = driver.translator().periods();
    Report {
        version: REPORT_VERSION,
        tierd: env!("CARGO_PKG_VERSION"),
        status,
        policy: plan.policy.clone(),
        knobs: plan.knobs.clone(),
        seed: plan.seed,
        page_bytes: plan.page_bytes,
        tiers: ready.tiers,
        placement: match plan.target {
            Target::Command(_) => "born in the slow tier, moved at once where the policy places them",
            Target::Process(_) => "where the process takes them; what is above the cap is moved out",
        },
        workload: Workload {
            command: match &plan.target {
                Target::Command(words) => words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
                Target::Process(_) => Vec::new(),
            },
            pid: ended.pid,
            exit_code,
            signal,
            runtime_s: ended.runtime_s,
            cpu_s: crate::kernel::Kernel::workload_cpu_ns(driver.kernel()) as f64 / 1e9,
        },
        signals: Signals {
            sources: ended.source_names,
            not_used: ended.not_used,
            periods: periods
                .into_iter()
                .map(|(event, events_per_record, hardware)| Period {
                    event: format!("{event:?}"),
                    events_per_record,
                    hardware,
                })
                .collect(),
            emulated: driver.translator().emulated.clone(),
            counters: ready.counting.from,
            counters_problem: ready.counting.problem,
        },
        migrations: driver.tally().clone(),
        gauges: report::by_name(driver.gauges()),
        series: driver.series().points().to_vec(),
        overhead: report::overhead(
            driver.spent(),
            &counts,
            ended.cpu_ns,
            driver.own_bytes(),
            plan.page_bytes,
        ),
        counts,
        settings: Vec::new(),
        left_over: Vec::new(),
        capabilities: ended.capabilities,
        host: ready.host,
        notes,
    }
}

/// What becomes of the workload of a daemon that is stopped, in words: it is asked to end, or goes on in some way.
pub(crate) fn left(kernel: &mut Linux, kill: bool, how: &str) -> String {
    use crate::kernel::Kernel;
    if !kernel.lives() {
        // Its number may be another process's by now.
        return "the workload had ended when the daemon was stopped".to_owned();
    }
    if !kill {
        return format!("the daemon was stopped; the workload goes on {how}");
    }
    kernel.ask_to_end();
    "the workload was ended with the daemon, as asked".to_owned()
}

/// Waits for a workload that is not managed any more.
fn wait(kernel: &mut Linux) {
    use crate::kernel::Kernel;
    while kernel.status().is_none() && !stopped() {
        kernel.processes();
        let until = kernel.now_ns() + SECOND_NS / 20;
        kernel.rest(until);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn who_is_stopped_hears_of_a_setting_that_is_still_changed() {
        let setting = |problem: Option<&str>| Setting {
            path: "/proc/sys/vm/swappiness".to_owned(),
            value: "1".to_owned(),
            during: None,
            problem: problem.map(ToOwned::to_owned),
        };
        let stopped = || Err::<(), _>(Failure::Stopped);
        assert!(matches!(and_stuck(stopped(), &[setting(None)]), Err(Failure::Stopped)));
        match and_stuck(stopped(), &[setting(None), setting(Some("it still holds '1'"))]) {
            Err(Failure::Host(text)) => assert!(text.contains("swappiness could not be put back"), "{text}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_workload_that_has_ended_is_asked_nothing() {
        let sleeps = || Command::new("sleep").arg("1000").spawn().expect("it starts");
        let mut child = sleeps();
        let mut kernel = Linux::new(child.id() as i32, false, false);
        assert!(left(&mut kernel, false, "alone").ends_with("goes on alone"));
        assert!(child.try_wait().expect("a child of ours").is_none());
        assert!(left(&mut kernel, true, "alone").contains("was ended"));
        let status = child.wait().expect("it ended");
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(libc::SIGTERM)
        );
        assert!(left(&mut kernel, true, "alone").contains("had ended"));
    }

    #[test]
    fn rights_that_are_left_have_names() {
        let target = Target::Process(1);
        let named = kept(Ok(1 << 21 | 1 << 23), &target, 1).expect("they were given up");
        assert_eq!(named, ["CAP_SYS_ADMIN", "CAP_SYS_NICE"]);
    }

    #[test]
    fn nothing_runs_with_rights_that_were_not_given_up() {
        let mut child = Command::new("sleep").arg("1000").spawn().expect("it starts");
        let pid = child.id() as i32;
        let refused = || Err(io::Error::from_raw_os_error(libc::EPERM));
        // A process that ran before is nobody's to end.
        assert!(matches!(
            kept(refused(), &Target::Process(pid), pid),
            Err(Failure::Host(_))
        ));
        assert!(child.try_wait().expect("a child of ours").is_none());
        let problem = kept(refused(), &Target::Command(vec!["sleep".into()]), pid).expect_err("it was refused");
        assert!(problem.to_string().contains("cannot be given up"), "{problem}");
        assert!(!follow::lives(pid));
    }
}
