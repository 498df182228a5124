//! Golden scripts: commands to a policy on a small machine, and what came of them.
//!
//! A script is blocks of `command`, `----`, output, separated by empty lines; `#` starts a comment.
//! Pages are numbers or ranges `a..b` (end excluded), tiers numbers, times have a unit.
//!
//! ```text
//! machine page=2MiB tiers=4,8 KNOB=VALUE …   a policy on a new machine; must come first
//! alloc 0..8 [site 3]                        an extent, of a place in the program (one of its own if not said)
//! rehearse | learn                           the profiling run begins | it ends, and the policy learns from it
//! load 5 x9 | store 0..2 x3 | load 1,5 x2    samples, page by page, each page x times
//! run 30ms [wakes | count]                   time passes: requests and what came of them; wake-ups
//!                                            too if asked for, or only numbers
//! occupy 0 2 | occupy 0 -2                   somebody else takes or returns pages of a tier
//! race 0 1                                   the same between the next requests and their execution
//! touch 0,3 | write 0..2                      an application thread reads or writes pages: accessed bits,
//!                                            hint faults of armed pages, write faults of shadowed ones
//! free 8                                     the extent that starts there is freed
//! latency 90,200 x1000,500 [mlp 8]           tiers had this latency (ns) and so many requests since the last, 4 in
//!                                            flight while any was, or as many as said
//! aol 45 [loads 120]                         core counters since the last: AOL and load latency in cycles
//! reads 0..4 9                               hidden truth: reads of pages, per run and per second
//! armed                                      which pages are armed
//! gauges NAME …                              numbers that the policy reports
//! declared                                   samplers, mechanics, overheads
//! ```
//!
//! Commands that may move pages show the tier of every page, in order, and the free pages per tier.

use std::fmt::Write;

use tiertune_policy::registry::{PAGE_2M, PAGE_4K, Tiering};
use tiertune_policy::{Config, Event, FaultKind, How, Move, Nanos, Order, Outcome, Page, PageMap, Topology, Value};

use crate::driver::{Driver, Entry, MS};
use crate::workload::built;

/// The script with every output replaced by what happens now.
pub fn replay(system: &dyn Tiering, script: &str) -> String {
    let mut replayed = String::new();
    let mut driver = None;
    let mut lines = script.lines().peekable();
    while let Some(line) = lines.next() {
        writeln!(replayed, "{line}").expect("strings take text");
        let command = line.split('#').next().unwrap_or_default().trim();
        if command.is_empty() {
            continue;
        }
        let output = execute(system, command, &mut driver).unwrap_or_else(|| panic!("cannot read: {line}"));
        write!(replayed, "----\n{output}").expect("strings take text");
        if lines.next_if_eq(&"----").is_some() {
            while lines.next_if(|old| !old.is_empty()).is_some() {}
        }
        if lines.peek().is_some_and(|next| !next.is_empty()) {
            replayed.push('\n');
        }
    }
    replayed
}

/// Carries out one command; `None` when it cannot be read.
fn execute(system: &dyn Tiering, command: &str, driver: &mut Option<Driver>) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    if words[0] == "machine" {
        *driver = Some(machine(system, &words[1..])?);
        return Some(String::new());
    }
    let driver = driver.as_mut().expect("the first command is 'machine'");
    let mut output = String::new();
    match words.as_slice() {
        ["rehearse"] => {
            let capacity = |tier| driver.capacity(tier as u8);
            let mut topology = Topology {
                page_bytes: driver.page_bytes,
                pages: (0..driver.tiers()).map(capacity).sum(),
                capacity_pages: (0..driver.tiers()).map(capacity).collect(),
            };
            topology.capacity_pages[0] = topology.pages;
            let earlier = Driver::new(driver.policy.rehearsal()?, &topology);
            let later = std::mem::replace(driver, earlier);
            driver.postponed = Some(Box::new(later));
        }
        ["learn"] => {
            let notes = driver.policy.save();
            *driver = *driver.postponed.take()?;
            driver.policy.learn(&notes).ok()?;
        }
        ["alloc", range, "site", site] => {
            let pages = pages(range)?;
            driver.alloc_at(*pages.first()?, pages.len() as u32, site.parse().ok()?);
            output.push_str(&tier_map(driver));
        }
        ["alloc", range] => {
            let pages = pages(range)?;
            driver.alloc(*pages.first()?, pages.len() as u32);
            output.push_str(&tier_map(driver));
        }
        [kind @ ("load" | "store"), list, times] => {
            let slow = driver.periods.iter().any(|(event, _)| *event == Event::SlowLoadMiss);
            let event = match (*kind, slow) {
                ("load", true) => Event::SlowLoadMiss,
                ("load", false) => Event::LoadMiss,
                _ => Event::Store,
            };
            let times: usize = times.strip_prefix('x')?.parse().ok()?;
            let accesses = pages(list)?.into_iter().flat_map(|page| vec![(page, event); times]);
            let seen = driver.log.len();
            driver.sample(&accesses.collect::<Vec<_>>());
            driver.log[seen..].iter().for_each(|entry| output += &describe(entry));
        }
        ["run", span, rest @ ..] => {
            let seen = driver.log.len();
            driver.run_until(driver.now + nanos(span)?);
            let seen = &driver.log[seen..];
            match rest {
                [] => seen
                    .iter()
                    .filter(|entry| !matches!(entry, Entry::Wake(_)))
                    .for_each(|e| output += &describe(e)),
                ["wakes"] => seen.iter().for_each(|entry| output += &describe(entry)),
                ["count"] => output += &count(seen),
                _ => return None,
            }
            output += &tier_map(driver);
        }
        [kind @ ("touch" | "write"), list] => {
            let seen = driver.log.len();
            driver.touch(&pages(list)?, *kind == "write");
            driver.log[seen..].iter().for_each(|entry| output += &describe(entry));
        }
        ["free", start] => {
            let seen = driver.log.len();
            driver.free(start.parse().ok()?);
            driver.log[seen..].iter().for_each(|entry| output += &describe(entry));
            output += &tier_map(driver);
        }
        ["latency", latencies, requests, rest @ ..] => {
            let parallelism = match rest {
                [] => 4.0,
                ["mlp", parallelism] => parallelism.parse::<f64>().ok()?,
                _ => return None,
            };
            let numbers = |text: &str| -> Option<Vec<f64>> { text.split(',').map(|n| n.parse().ok()).collect() };
            let (latencies, requests) = (numbers(latencies)?, numbers(requests.strip_prefix('x')?)?);
            for ((tier, latency), inserts) in driver.counters.tiers.iter_mut().zip(&latencies).zip(&requests) {
                tier.inserts += inserts;
                tier.occupancy_ns += inserts * latency;
                tier.busy_ns += inserts * latency / parallelism;
                tier.read_bytes += inserts * 64.0;
            }
            driver.hidden.latency_ns = latencies;
        }
        ["aol", aol, rest @ ..] => {
            let aol: f64 = aol.parse().ok()?;
            let loads = match rest {
                [] => 4.0 * aol,
                ["loads", latency] => latency.parse().ok()?,
                _ => return None,
            };
            let cores = &mut driver.counters.cores;
            cores.reads += 1e6;
            cores.outstanding_cycles += 1e6 * aol;
            cores.occupancy_cycles += 1e6 * loads;
            cores.stall_cycles += 0.9e6 * aol;
            cores.cycles += 2e6 * aol;
        }
        ["reads", list, reads] => {
            for page in pages(list)? {
                driver.hidden.reads_in_run[page as usize] = reads.parse().ok()?;
                driver.hidden.reads_now[page as usize] = reads.parse().ok()?;
            }
        }
        ["armed"] => {
            let armed: Vec<String> = (0..driver.existing_pages())
                .filter(|page| driver.is_armed(*page))
                .map(|page| page.to_string())
                .collect();
            writeln!(output, "armed {}", armed.join(" ")).ok()?;
        }
        ["occupy", tier, count] => {
            driver.occupy(tier.parse().ok()?, count.parse().ok()?);
            output += &tier_map(driver);
        }
        ["race", tier, count] => driver.race = Some((tier.parse().ok()?, count.parse().ok()?)),
        ["gauges", names @ ..] => {
            let gauges = driver.policy.gauges();
            for name in names {
                let gauge = gauges.iter().find(|gauge| gauge.name == *name)?;
                writeln!(output, "{name} {}", gauge.value).ok()?;
            }
        }
        ["declared"] => {
            for sampler in driver.policy.samplers() {
                writeln!(output, "{:?} every {}", sampler.event, sampler.period).ok()?;
            }
            let policy = &driver.policy;
            writeln!(output, "{:?}\n{:?}", policy.mechanics(), policy.overheads()).ok()?;
        }
        _ => return None,
    }
    Some(output)
}

fn machine(system: &dyn Tiering, words: &[&str]) -> Option<Driver> {
    let mut topology = Topology {
        page_bytes: 0,
        pages: 0,
        capacity_pages: Vec::new(),
    };
    let mut config = Config::new();
    for word in words {
        let (key, value) = word.split_once('=')?;
        match key {
            "page" => topology.page_bytes = if value == "2MiB" { PAGE_2M } else { PAGE_4K },
            "tiers" => {
                topology.capacity_pages = value
                    .split(',')
                    .map(|pages| pages.parse::<u32>().ok())
                    .collect::<Option<_>>()?
            }
            _ => drop(config.insert(key.to_string(), knob_value(value))),
        }
    }
    topology.pages = topology.capacity_pages.iter().sum();
    let policy = built(system, &config, &topology);
    Some(Driver::new(policy, &topology))
}

fn knob_value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::Text(text.to_string()))
}

/// `3`, `3..6`, `1,3..6`.
fn pages(list: &str) -> Option<Vec<Page>> {
    let mut pages = Vec::new();
    for part in list.split(',') {
        match part.split_once("..") {
            Some((start, end)) => pages.extend(start.parse::<Page>().ok()?..end.parse().ok()?),
            None => pages.push(part.parse().ok()?),
        }
    }
    Some(pages)
}

fn nanos(span: &str) -> Option<Nanos> {
    let (number, unit) = span.split_at(span.find(|c: char| c.is_ascii_alphabetic())?);
    let scale = match unit {
        "us" => 1_000,
        "ms" => MS,
        "s" => 1_000 * MS,
        _ => return None,
    };
    Some(number.parse::<Nanos>().ok()? * scale)
}

fn describe(entry: &Entry) -> String {
    let ms = |at: &Nanos| *at as f64 / MS as f64;
    match entry {
        Entry::Wake(at) => format!("{:8.3} ms  wake\n", ms(at)),
        Entry::Ask { at, from, request } => {
            let how = match request.how {
                How::Background => "",
                How::KeepingFrame => " keeping its frame",
                How::Remap => " to its old frame",
                How::InFault { .. } => " in the fault",
                How::Reclaim => " before the new pages",
                How::Free => " at no cost",
            };
            format!(
                "{:8.3} ms  ask   {}: {from} -> {}{how}\n",
                ms(at),
                named(request),
                request.to
            )
        }
        Entry::Order { at, order } => match order {
            Order::Arm(pages) => format!("{:8.3} ms  arm   {}..{}\n", ms(at), pages.start, pages.end),
            Order::Release(page) => format!("{:8.3} ms  drop  old frame of page {page}\n", ms(at)),
            Order::SamplingPeriod(event, period) => format!("{:8.3} ms  {event:?} every {period}\n", ms(at)),
            // CPU time is in the gauges and metrics; here it would drown what is decided.
            Order::Background(_) | Order::InApplication(_) => String::new(),
            Order::FaultAgain { thread, times } => {
                format!("{:8.3} ms  thread {thread} faults {times} times more\n", ms(at))
            }
        },
        Entry::Fault(fault) => {
            let kind = match fault.kind {
                FaultKind::Hint => "fault",
                FaultKind::Write => "write",
            };
            format!(
                "{:8.3} ms  {kind} page {} in {}\n",
                ms(&fault.at),
                fault.page,
                fault.tier
            )
        }
        Entry::Ended(migrated) => {
            let outcome = match migrated.outcome {
                Outcome::Done => "done ",
                Outcome::NoSpace => "full ",
                Outcome::AlreadyThere => "there",
                Outcome::Aborted => "abort",
                Outcome::Gone => "gone ",
                Outcome::Refused => "not  ",
            };
            let request = &migrated.request;
            format!(
                "{:8.3} ms  {outcome} {} -> {}\n",
                ms(&migrated.at),
                named(request),
                request.to
            )
        }
    }
}

fn named(request: &Move) -> String {
    match request.pages {
        1 => format!("page {}", request.page),
        _ => format!("pages {}..{}", request.range().start, request.range().end),
    }
}

fn count(entries: &[Entry]) -> String {
    let ended = |wanted: Outcome| {
        let wanted = |entry: &&Entry| matches!(entry, Entry::Ended(migrated) if migrated.outcome == wanted);
        entries.iter().filter(wanted).count()
    };
    let asked = entries
        .iter()
        .filter(|entry| matches!(entry, Entry::Ask { .. }))
        .count();
    format!(
        "asked {asked}, done {}, full {}\n",
        ended(Outcome::Done),
        ended(Outcome::NoSpace)
    )
}

/// One digit a page, or `tier x pages` where that is shorter, `.` for pages that do not exist yet.
fn tier_map(driver: &Driver) -> String {
    let tiers: Vec<String> = (0..driver.existing_pages())
        .map(|page| driver.placed(page).map_or(".".to_string(), |tier| tier.to_string()))
        .collect();
    let runs = tiers.chunk_by(|tier, next| tier == next);
    let groups: Vec<String> = if tiers.len() <= 40 {
        tiers.chunks(8).map(|group| group.concat()).collect()
    } else {
        runs.map(|run| format!("{}x{}", run[0], run.len())).collect()
    };
    let free: Vec<String> = (0..driver.tiers())
        .map(|tier| driver.pages.free_pages(tier as u8).to_string())
        .collect();
    format!("tiers {}  free {}\n", groups.join(" "), free.join(","))
}
