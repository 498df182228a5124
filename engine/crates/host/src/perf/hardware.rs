//! Samples of loads and stores by the processor itself: Intel's PEBS with load latency, AMD's IBS.
//!
//! Both are opened on every processor for whoever runs there, and records of other processes are dropped here. Which loads
//! missed every cache is read from each record. So periods are not those of an event "load that missed", which a counter of that
//! event would have: PEBS counts loads that took at least [`SLOW_LOAD_CYCLES`], IBS counts micro-operations. The share
//! that is kept is in the report as records over accesses.
//!
//! No machine that this was written on has either; decoding is tested on records made up after the manuals.

use std::collections::BTreeSet;
use std::path::Path;

use super::attributes::{Attributes, Scope};
use super::data_source::{self, Operation, Origin};
use super::event::{DEVICES, Device};
use super::ibs;
use super::record::{Sample, field};
use super::stream::Stream;
use crate::descriptors::remedy;
use crate::source::{Access, AccessKind, Drained, Known, Setup, Signals, Source};
use crate::{HostError, value_of};

/// Loads that take fewer cycles are not sampled by PEBS: a hit of a last-level cache takes 40 to 80, memory 200 and more.
const SLOW_LOAD_CYCLES: u64 = 128;
/// Events between records where no policy says otherwise.
const DEFAULT_PERIOD: u64 = 5000;
/// IBS counts micro-operations in steps of 16 and fires at the earliest after these.
const LEAST_IBS_PERIOD: u64 = 0x90;
/// How many fallbacks there are to name.
const FALLBACKS: &str = "hint-faults, damon, referenced and written see accesses without one";

/// Intel.
pub const PEBS: Known = Known {
    name: "pebs",
    meaning: "loads that missed every cache and stores, by Intel's precise samples (PEBS with load latency)",
    signals: HARDWARE_SIGNALS,
    probe: || probe(intel(Path::new(DEVICES), &[])),
    open: |setup| {
        Ok(Box::new(Hardware::open(
            "pebs",
            intel(Path::new(DEVICES), &setup.periods)?,
            setup,
        )?))
    },
};

/// AMD.
pub const IBS: Known = Known {
    name: "ibs",
    meaning: "loads that missed every cache and stores, by AMD's instruction-based samples",
    signals: HARDWARE_SIGNALS,
    probe: || probe(amd(Path::new(DEVICES), &[])),
    open: |setup| {
        Ok(Box::new(Hardware::open(
            "ibs",
            amd(Path::new(DEVICES), &setup.periods)?,
            setup,
        )?))
    },
};

const HARDWARE_SIGNALS: Signals = Signals {
    load_misses: true,
    slow_load_misses: true,
    stores: true,
    hint_faults: false,
    accessed_bits: false,
    written_bits: false,
};

/// How a record says what it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    /// Address and data source are fields.
    Fields,
    /// They are in the raw registers.
    Registers,
}

/// An event to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sampled {
    event: Attributes,
    leader: Option<Attributes>,
    coding: Coding,
    /// What its period is the period of.
    kinds: Vec<AccessKind>,
    processors: Vec<u32>,
}

impl Sampled {
    /// Events that are opened for it.
    fn opened(&self, scopes: usize) -> usize {
        scopes * (1 + usize::from(self.leader.is_some()))
    }
}

fn unfit(sentence: impl Into<String>) -> HostError {
    HostError::Unfit(sentence.into())
}

fn period(periods: &[(AccessKind, u64)], kinds: &[AccessKind]) -> u64 {
    let wanted = periods
        .iter()
        .filter(|(kind, _)| kinds.contains(kind))
        .map(|(_, period)| *period);
    wanted.min().unwrap_or(DEFAULT_PERIOD).max(1)
}

/// Intel's events: slow loads, and stores where the device names them.
fn intel(devices: &Path, periods: &[(AccessKind, u64)]) -> Result<Vec<Sampled>, HostError> {
    let broken = |error: std::io::Error| unfit(format!("the processor's events are not understood: {error}"));
    for name in ["cpu", "cpu_core"] {
        let Some(device) = Device::find(devices, name).map_err(broken)? else {
            continue;
        };
        let Some(loads) = device.event("mem-loads") else {
            continue;
        };
        let processors = device.processors().map_err(broken)?;
        let sampled = |config: [u64; 3], kinds: &[AccessKind], leader: Option<Attributes>| Sampled {
            event: Attributes {
                device: device.number,
                config,
                period: period(periods, kinds),
                fields: field::THREAD
                    | field::TIME
                    | field::ADDRESS
                    | field::PROCESSOR
                    | field::WEIGHT
                    | field::DATA_SOURCE,
                precision: 2,
                user_only: true,
            },
            leader,
            coding: Coding::Fields,
            kinds: kinds.to_vec(),
            processors: processors.clone(),
        };
        let counted = |config: [u64; 3]| Attributes::counting(device.number, config, true);
        // Some generations sample load latency only beside an event that is counted.
        let beside = device.event("mem-loads-aux");
        let beside = beside
            .map(|terms| device.encoded(&terms, &[]).map(counted))
            .transpose()
            .map_err(broken)?;
        let config = device.encoded(&loads, &[("ldlat", SLOW_LOAD_CYCLES)]).map_err(broken)?;
        let mut found = vec![sampled(
            config,
            &[AccessKind::LoadMiss, AccessKind::SlowLoadMiss],
            beside,
        )];
        if let Some(stores) = device.event("mem-stores") {
            let config = device.encoded(&stores, &[]).map_err(broken)?;
            found.push(sampled(config, &[AccessKind::Store], None));
        }
        return Ok(found);
    }
    Err(unfit(format!(
        "no processor here offers samples of loads (no event mem-loads below {}); virtual machines have it only when their host passes its counters through; {FALLBACKS}",
        devices.display()
    )))
}

/// AMD's one event.
fn amd(devices: &Path, periods: &[(AccessKind, u64)]) -> Result<Vec<Sampled>, HostError> {
    let broken = |error: std::io::Error| unfit(format!("the processor's events are not understood: {error}"));
    let Some(device) = Device::find(devices, "ibs_op").map_err(broken)? else {
        return Err(unfit(format!(
            "no processor here offers instruction-based samples (no device ibs_op below {}); virtual machines have it only when their host passes it through; {FALLBACKS}",
            devices.display()
        )));
    };
    // Counting micro-operations, not cycles, so that stalls draw no samples; processors before it count cycles only.
    let config = device
        .encoded("", &[("cnt_ctl", 1)])
        .or_else(|_| device.encoded("", &[]))
        .map_err(broken)?;
    let kinds = vec![AccessKind::LoadMiss, AccessKind::SlowLoadMiss, AccessKind::Store];
    let event = Attributes {
        device: device.number,
        config,
        period: ibs_period(period(periods, &kinds)),
        fields: field::THREAD | field::TIME | field::PROCESSOR | field::RAW,
        precision: 0,
        // IBS cannot tell the kernel apart before Linux 6.14; addresses of the kernel are in no process's mappings.
        user_only: false,
    };
    let processors = device.processors().map_err(broken)?;
    Ok(vec![Sampled {
        event,
        leader: None,
        coding: Coding::Registers,
        kinds,
        processors,
    }])
}

/// The hardware leaves the lowest four bits out.
fn ibs_period(period: u64) -> u64 {
    period.max(LEAST_IBS_PERIOD) & !0xf
}

/// Memory of our own, larger than caches, read line by line: samples have to come, with addresses in it.
fn probe(events: Result<Vec<Sampled>, HostError>) -> Result<(), HostError> {
    const BYTES: usize = 64 << 20;
    const LINE: usize = 64;
    let mut event = events?.swap_remove(0);
    event.event.period = 1000;
    let mut stream = Stream::open(&event.event, event.leader.as_ref(), &[Scope::ThisThread])
        .map_err(|error| refused(&error, event.opened(1)))?;
    let memory = vec![1_u8; BYTES];
    let mut place = 0;
    for _ in 0..BYTES / LINE {
        // A step that no prefetcher foresees, through all lines.
        place = (place * 5 + 0x1001 * LINE) % BYTES;
        std::hint::black_box(memory[place]);
    }
    let range = memory.as_ptr() as u64..memory.as_ptr() as u64 + BYTES as u64;
    let mut inside = 0_u32;
    stream.drain(|sample| {
        let found = read(sample, event.coding);
        inside += u32::from(found.is_some_and(|(_, address, _, _)| range.contains(&address)));
    });
    if inside > 0 {
        return Ok(());
    }
    Err(unfit(format!(
        "the processor's samples name no addresses of the memory that was read; {FALLBACKS}"
    )))
}

fn refused(error: &std::io::Error, needed: usize) -> HostError {
    let rights = "run as root or with CAP_PERFMON, while nobody else samples loads";
    unfit(format!(
        "the processor's samples cannot be opened ({error}); {}",
        remedy(error, needed, rights)
    ))
}

/// What a sample is of: operation, address, origin, and latency in cycles.
fn read(sample: &Sample<'_>, coding: Coding) -> Option<(Operation, u64, Origin, u64)> {
    match coding {
        Coding::Fields => {
            let (operation, origin) = data_source::read(sample.data_source);
            (sample.address != 0).then_some((operation, sample.address, origin, sample.weight))
        }
        Coding::Registers => {
            let access = ibs::read(sample.raw)?;
            Some((access.operation, access.address, access.origin, access.latency_cycles))
        }
    }
}

/// Nodes that a load can come from, as the processor sees them.
#[derive(Debug, Clone)]
struct Nodes {
    fast: u32,
    slow: u32,
    /// Processors of the slow node, where it has any.
    slow_processors: BTreeSet<u32>,
}

impl Nodes {
    fn new(fast: u32, slow: u32) -> Self {
        let path = format!("/sys/devices/system/node/node{slow}/cpulist");
        let list = value_of(Path::new(&path))
            .ok()
            .and_then(|text| super::event::listed(&text));
        Self {
            fast,
            slow,
            slow_processors: list.unwrap_or_default().into_iter().collect(),
        }
    }

    /// The node, where memory is of two tiers and the processor says only "mine" or "further away".
    fn served(&self, origin: Origin, processor: u32) -> Option<u32> {
        let at_slow = self.slow_processors.contains(&processor);
        match origin {
            Origin::LocalMemory => Some(if at_slow { self.slow } else { self.fast }),
            Origin::FarMemory => Some(if at_slow { self.fast } else { self.slow }),
            _ => None,
        }
    }
}

/// What a policy gets of a sample; nothing for loads that a cache served.
fn access(sample: &Sample<'_>, coding: Coding, nodes: &Nodes) -> Option<Access> {
    let (operation, address, origin, latency) = read(sample, coding)?;
    let kind = match operation {
        Operation::Load if origin.is_memory() => AccessKind::LoadMiss,
        Operation::Store => AccessKind::Store,
        _ => return None,
    };
    Some(Access {
        pid: sample.pid,
        thread: sample.thread,
        address,
        bytes: 1,
        kind,
        weight: u32::try_from(latency).unwrap_or(u32::MAX),
        time_ns: sample.time_ns,
        armed_ns: None,
        node: nodes.served(origin, sample.processor),
    })
}

#[derive(Debug)]
struct Hardware {
    name: &'static str,
    streams: Vec<(Sampled, Stream)>,
    nodes: Nodes,
    processes: BTreeSet<i32>,
}

impl Hardware {
    fn open(name: &'static str, events: Vec<Sampled>, setup: &Setup) -> Result<Self, HostError> {
        let mut streams = Vec::new();
        let needed = events.iter().map(|event| event.opened(event.processors.len())).sum();
        for sampled in events {
            let scopes: Vec<Scope> = sampled.processors.iter().copied().map(Scope::Processor).collect();
            let stream = Stream::open(&sampled.event, sampled.leader.as_ref(), &scopes)
                .map_err(|error| refused(&error, needed))?;
            streams.push((sampled, stream));
        }
        let nodes = Nodes::new(setup.fast_node, setup.slow_node);
        Ok(Self {
            name,
            streams,
            nodes,
            processes: BTreeSet::new(),
        })
    }
}

impl Source for Hardware {
    fn name(&self) -> &'static str {
        self.name
    }

    fn signals(&self) -> Signals {
        HARDWARE_SIGNALS
    }

    fn attach(&mut self, pid: i32) -> Result<(), HostError> {
        self.processes.insert(pid);
        Ok(())
    }

    fn forget(&mut self, pid: i32) {
        self.processes.remove(&pid);
    }

    fn set_period(&mut self, kind: AccessKind, period: u64) -> bool {
        let mut changed = false;
        for (sampled, stream) in self.streams.iter().filter(|(sampled, _)| sampled.kinds.contains(&kind)) {
            let period = if sampled.coding == Coding::Registers {
                ibs_period(period)
            } else {
                period.max(1)
            };
            changed |= stream.set_period(period).is_ok();
        }
        changed
    }

    fn drain(&mut self, into: &mut Vec<Access>) -> Result<Drained, HostError> {
        let (before, mut all) = (into.len(), Drained::default());
        for (sampled, stream) in &mut self.streams {
            let drained = stream.drain(|sample| {
                if self.processes.contains(&sample.pid) {
                    into.extend(access(sample, sampled.coding, &self.nodes));
                }
            });
            all.records += drained.records;
            all.lost += drained.lost;
            all.throttled += drained.throttled;
        }
        // Processors and events are read one after the other.
        into[before..].sort_by_key(|access| access.time_ns);
        Ok(all)
    }

    fn detach(&mut self) {
        self.streams.clear();
    }
}

#[cfg(test)]
mod tests;
