//! Reads that wait for each tier, counted by the slices of the last-level cache, and what cores wait for: Intel's `cha`
//! units and core counters.
//!
//! A slice has one counter that can sum up requests in flight, so slices take turns by their number: each counts the
//! requests of one tier, and sums up either those in flight or the clocks in which there is one. Addresses are spread
//! over slices evenly, so what some of them count stands for all of a socket. Counters are of everybody on the host.
//!
//! No machine that this was written on has such counters. What sysfs has to say is tried on files made up after the
//! kernel's sources, and on a host [`MemoryCounters::open`] believes no counter before it has counted reads that were
//! made on purpose.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use super::attributes::{Attributes, Scope};
use super::counted::{Group, More};
use super::event::{Device, listed};
use super::generation::{self, CYCLES, Destination, Generation, INSERTS, Link, OCCUPANCY, STALLS};
use crate::HostError;
use crate::descriptors::remedy;

/// With fewer slices nothing is left of a turn.
const LEAST_SLICES: usize = 4;

/// What a slice sums up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Requests in flight.
    InFlight,
    /// Clocks in which there is one.
    Busy,
}

/// A slice of a socket and what it counts: requests, what its turn says, its clock.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slice {
    tier: usize,
    turn: Turn,
    processor: u32,
    events: [Attributes; 3],
}

/// What is counted where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Layout {
    slices: Vec<Slice>,
    slices_a_socket: usize,
    /// Two groups of a processor.
    cores: [Vec<Attributes>; 2],
    processors: Vec<u32>,
    /// Processors beside the fast tier.
    near: Vec<u32>,
}

impl Layout {
    /// How many are opened.
    fn events(&self) -> usize {
        let of_slices = self.slices.iter().map(|slice| slice.events.len()).sum::<usize>();
        let of_a_processor = self.cores.iter().map(Vec::len).sum::<usize>();
        of_slices + of_a_processor * self.processors.len()
    }
}

/// Requests to a tier since the last reading.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Requests {
    /// Requests.
    pub inserts: f64,
    /// Those in flight, integrated over time.
    pub occupancy_ns: f64,
    /// Time with at least one in flight.
    pub busy_ns: f64,
}

/// Events of all cores since the last reading, of programs and not of the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cores {
    /// Cycles.
    pub cycles: f64,
    /// Those stalled on misses of the last-level cache.
    pub stall_cycles: f64,
    /// Those with a demand read off the core.
    pub outstanding_cycles: f64,
    /// Demand reads off the core, summed up over cycles.
    pub occupancy_cycles: f64,
    /// Demand reads that left the core.
    pub reads: f64,
}

/// What was counted since the last reading.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counted {
    /// By tier.
    pub tiers: [Requests; 2],
    /// Of the cores.
    pub cores: Cores,
}

fn unfit(sentence: impl Into<String>) -> HostError {
    HostError::Unfit(sentence.into())
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

fn processors_of(root: &Path, node: u32) -> Vec<u32> {
    listed(&text(&root.join(format!("sys/devices/system/node/node{node}/cpulist")))).unwrap_or_default()
}

fn socket_of(root: &Path, processor: u32) -> Option<u32> {
    let path = format!("sys/devices/system/cpu/cpu{processor}/topology/physical_package_id");
    text(&root.join(path)).parse().ok()
}

/// How the node without processors is reached, which the device says that its memory came from.
fn link_of(root: &Path, node: u32) -> Option<Link> {
    let devices = fs::read_dir(root.join("sys/bus/dax/devices")).ok()?;
    let device = devices
        .flatten()
        .find(|device| text(&device.path().join("target_node")) == node.to_string())?;
    let place = fs::canonicalize(device.path()).ok()?.to_string_lossy().into_owned();
    if place.contains("/ndbus") {
        Some(Link::Persistent)
    } else {
        (place.contains("dax_region") || place.contains("cxl")).then_some(Link::Cxl)
    }
}

/// Where demand reads of a socket's cores go, for each tier.
fn destinations(link: Link, beside_fast: bool) -> [Destination; 2] {
    match link {
        Link::OtherSocket if beside_fast => [Destination::LocalDram, Destination::RemoteDram],
        Link::OtherSocket => [Destination::RemoteDram, Destination::LocalDram],
        Link::Cxl => [Destination::LocalDram, Destination::Cxl],
        Link::Persistent => [Destination::LocalDram, Destination::Persistent],
    }
}

fn layout(root: &Path, nodes: [u32; 2]) -> Result<Layout, HostError> {
    let generation = generation::generation(root).map_err(unfit)?;
    let near = processors_of(root, nodes[0]);
    let Some(socket) = near.first().and_then(|processor| socket_of(root, *processor)) else {
        return Err(unfit(format!(
            "node {} has no processors, so requests to it are not told apart",
            nodes[0]
        )));
    };
    let link = link(root, generation, nodes)?;
    let with_memory = listed(&text(&root.join("sys/devices/system/node/has_memory"))).unwrap_or_default();
    for other in with_memory.into_iter().filter(|node| !nodes.contains(node)) {
        let its_socket = processors_of(root, other)
            .first()
            .and_then(|processor| socket_of(root, *processor));
        // Slices of this socket would count requests to the other node for one of the tiers.
        if link == Link::OtherSocket
            || its_socket == Some(socket)
            || (its_socket.is_none() && link_of(root, other) == Some(link))
        {
            return Err(unfit(format!(
                "requests to node {other} would count for a tier, as counters do not tell it from nodes {} and {}",
                nodes[0], nodes[1]
            )));
        }
    }
    let devices = root.join("sys/bus/event_source/devices");
    let broken = |error: io::Error| unfit(format!("the processor's counters are not understood: {error}"));
    let mut slices = Vec::new();
    let mut slices_a_socket = 0;
    for number in 0.. {
        let name = format!("uncore_cha_{number}");
        let Some(device) = Device::find(&devices, &name).map_err(broken)? else {
            break;
        };
        slices_a_socket += 1;
        let readers = listed(&text(&devices.join(&name).join("cpumask"))).unwrap_or_default();
        for processor in readers {
            let Some(its_socket) = socket_of(root, processor) else {
                continue;
            };
            if link != Link::OtherSocket && its_socket != socket {
                continue;
            }
            let slice = slice(
                &device,
                generation,
                number,
                processor,
                destinations(link, its_socket == socket),
            );
            slices.push(slice.map_err(broken)?);
        }
    }
    if slices_a_socket < LEAST_SLICES || slices.is_empty() {
        return Err(unfit(format!(
            "the kernel shows no counters of the last-level cache's slices (uncore_cha); {} has them on bare metal",
            generation.name
        )));
    }
    let Some(cpu) = Device::find(&devices, "cpu").map_err(broken)? else {
        return Err(unfit("the kernel shows no counters of the cores"));
    };
    let core = |terms: &str, replaced: &[(&str, u64)]| {
        let config = cpu.encoded(terms, replaced).map_err(broken)?;
        Ok(Attributes::counting(cpu.number, config, true))
    };
    Ok(Layout {
        slices,
        slices_a_socket,
        cores: [
            vec![core(CYCLES, &[])?, core(STALLS, &[])?],
            vec![
                core(generation.outstanding, &[])?,
                core(generation.outstanding, &[("cmask", 0)])?,
                core(generation.reads, &[])?,
            ],
        ],
        processors: cpu.processors().map_err(broken)?,
        near,
    })
}

fn link(root: &Path, generation: &Generation, nodes: [u32; 2]) -> Result<Link, HostError> {
    let far = processors_of(root, nodes[1]);
    let sockets: BTreeSet<u32> = (processors_of(root, nodes[0]).iter().chain(&far))
        .filter_map(|processor| socket_of(root, *processor))
        .collect();
    if !far.is_empty() {
        return match sockets.len() {
            2 => Ok(Link::OtherSocket),
            _ => Err(unfit(format!(
                "nodes {} and {} are of one socket, whose counters do not tell them apart",
                nodes[0], nodes[1]
            ))),
        };
    }
    let link = link_of(root, nodes[1]);
    match link {
        Some(Link::Cxl) if generation.cxl => Ok(Link::Cxl),
        Some(Link::Persistent) if generation.persistent => Ok(Link::Persistent),
        _ => Err(unfit(format!(
            "{} has no counter of requests to node {}, {}",
            generation.name,
            nodes[1],
            match link {
                Some(Link::Cxl) => "which is behind CXL",
                Some(_) => "which is persistent memory",
                None => "whose device the kernel does not name (in /sys/bus/dax/devices)",
            }
        ))),
    }
}

fn slice(
    device: &Device,
    generation: &Generation,
    number: usize,
    processor: u32,
    destinations: [Destination; 2],
) -> io::Result<Slice> {
    let tier = number % 2;
    let turn = if number / 2 % 2 == 0 {
        Turn::InFlight
    } else {
        Turn::Busy
    };
    let mask = ("umask", destinations[tier].mask());
    let summed = match turn {
        Turn::InFlight => device.encoded(OCCUPANCY, &[mask])?,
        Turn::Busy => device.encoded(OCCUPANCY, &[mask, ("thresh", 1)])?,
    };
    // Units outside of the cores cannot leave the kernel out.
    let counting = |config| Attributes::counting(device.number, config, false);
    Ok(Slice {
        tier,
        turn,
        processor,
        events: [
            counting(device.encoded(INSERTS, &[mask])?),
            counting(summed),
            counting(device.encoded(generation.clock, &[])?),
        ],
    })
}

/// Requests in flight at a time, from how many a slice has while it has any: `in_flight` that are spread over `slices` by
/// chance leave a slice empty with the probability `(1 - 1 / slices) ^ in_flight`.
///
/// Times without any request do not matter, as they are no part of the mean. While there is one, as many are taken to be
/// in flight as in the mean.
fn parallelism(of_a_slice: f64, slices: f64) -> f64 {
    let seen = |in_flight: f64| (in_flight / slices) / (1.0 - (1.0 - 1.0 / slices).powf(in_flight));
    let (mut low, mut high) = (1.0, slices * 64.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if seen(middle) < of_a_slice {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// What all slices would have counted, from those that counted.
fn requests(counted: &[(usize, Turn, More)], slices_a_socket: usize) -> [Requests; 2] {
    let all = counted.len() as f64;
    std::array::from_fn(|tier| {
        let of_tier = || counted.iter().filter(move |(its, ..)| *its == tier);
        let mean = |turn: Option<Turn>, event: usize| -> f64 {
            let chosen = of_tier().filter(|(_, its, _)| turn.is_none_or(|turn| turn == *its));
            let (mut sum, mut count) = (0.0, 0.0);
            for (_, _, more) in chosen {
                let clocks = more.counts[2];
                // Requests are plain counts; what is summed up over clocks becomes time.
                let unit_ns = if event == 0 {
                    1.0
                } else if clocks > 0.0 {
                    more.elapsed_ns / clocks
                } else {
                    0.0
                };
                sum += more.counts[event] * unit_ns;
                count += 1.0;
            }
            if count > 0.0 { sum / count } else { 0.0 }
        };
        let (in_flight_ns, busy_ns) = (mean(Some(Turn::InFlight), 1), mean(Some(Turn::Busy), 1));
        let occupancy_ns = in_flight_ns * all;
        let elapsed_ns = of_tier().map(|(_, _, more)| more.elapsed_ns).fold(0.0, f64::max);
        let at_a_time = if busy_ns > 0.0 {
            parallelism(in_flight_ns / busy_ns, slices_a_socket as f64)
        } else {
            1.0
        };
        Requests {
            inserts: mean(None, 0) * all,
            occupancy_ns,
            busy_ns: (occupancy_ns / at_a_time).min(elapsed_ns),
        }
    })
}

/// Counters that count.
#[derive(Debug)]
pub struct MemoryCounters {
    slices: Vec<(usize, Turn, Group)>,
    slices_a_socket: usize,
    cores: Vec<[Group; 2]>,
}

impl MemoryCounters {
    /// Opens the counters of requests to both tiers' nodes, and tries them out.
    ///
    /// # Errors
    /// Where the processor has none, the kernel does not show them, they may not be read, or do not count what is read.
    pub fn open(nodes: [u32; 2]) -> Result<Self, HostError> {
        let layout = layout(Path::new("/"), nodes)?;
        let mut counters = Self::of(&layout)?;
        counters.try_out(nodes, &layout.near)?;
        Ok(counters)
    }

    fn of(layout: &Layout) -> Result<Self, HostError> {
        Self::opened(layout).map_err(|error| {
            let rights = "it takes root, CAP_PERFMON or kernel.perf_event_paranoid of 0";
            let remedy = remedy(&error, layout.events(), rights);
            unfit(format!(
                "the counters of requests to memory cannot be opened: {error}; {remedy}"
            ))
        })
    }

    fn opened(layout: &Layout) -> io::Result<Self> {
        let slices = layout.slices.iter().map(|slice| {
            let group = Group::open(&slice.events, Scope::Processor(slice.processor))?;
            Ok((slice.tier, slice.turn, group))
        });
        let cores = layout.processors.iter().map(|processor| {
            let open = |events: &[Attributes]| Group::open(events, Scope::Processor(*processor));
            Ok([open(&layout.cores[0])?, open(&layout.cores[1])?])
        });
        Ok(Self {
            slices: slices.collect::<io::Result<_>>()?,
            slices_a_socket: layout.slices_a_socket,
            cores: cores.collect::<io::Result<_>>()?,
        })
    }

    /// What was counted since the last call.
    ///
    /// # Errors
    /// As the kernel has it.
    pub fn more(&mut self) -> io::Result<Counted> {
        let mut counted = Vec::with_capacity(self.slices.len());
        for (tier, turn, group) in &mut self.slices {
            if let Some(more) = group.more()? {
                counted.push((*tier, *turn, more));
            }
        }
        let mut cores = Cores::default();
        for [first, second] in &mut self.cores {
            if let Some(more) = first.more()? {
                cores.cycles += more.counts[0];
                cores.stall_cycles += more.counts[1];
            }
            if let Some(more) = second.more()? {
                cores.outstanding_cycles += more.counts[0];
                cores.occupancy_cycles += more.counts[1];
                cores.reads += more.counts[2];
            }
        }
        Ok(Counted {
            tiers: requests(&counted, self.slices_a_socket),
            cores,
        })
    }

    /// Reads memory of each node past the caches, and looks whether that tier's counter has seen it.
    fn try_out(&mut self, nodes: [u32; 2], near: &[u32]) -> Result<(), HostError> {
        let failed = |error: io::Error| unfit(format!("the counters of requests to memory: {error}"));
        for (tier, node) in nodes.into_iter().enumerate() {
            self.more().map_err(failed)?;
            let reads = misses::read(node, near).map_err(failed)?;
            let seen = self.more().map_err(failed)?.tiers.map(|tier| tier.inserts);
            if seen[tier] < reads as f64 / 2.0 || seen[tier] < seen[1 - tier] {
                return Err(unfit(format!(
                    "the counters of requests to memory do not count here: {reads} reads of node {node} were {:.0} requests \
                     to it and {:.0} to node {}",
                    seen[tier],
                    seen[1 - tier],
                    nodes[1 - tier]
                )));
            }
        }
        Ok(())
    }
}

/// Reads that miss every cache.
mod misses {
    use std::io;

    #[cfg(target_arch = "x86_64")]
    pub fn read(node: u32, near: &[u32]) -> io::Result<usize> {
        let near = near.to_vec();
        // Where it runs and where its memory comes from ends with the thread.
        let reader = std::thread::spawn(move || {
            stay_on(&near)?;
            crate::numa::prefer(node, false)?;
            Ok(read_past_caches())
        });
        reader
            .join()
            .map_err(|_| io::Error::other("the reads that try them out failed"))?
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub fn read(_: u32, _: &[u32]) -> io::Result<usize> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    #[cfg(target_arch = "x86_64")]
    fn stay_on(processors: &[u32]) -> io::Result<()> {
        let mut set = [0u64; 64];
        for processor in processors {
            if let Some(word) = set.get_mut(*processor as usize / 64) {
                *word |= 1 << (processor % 64);
            }
        }
        // SAFETY: the mask is as large as said; 0 is the calling thread.
        let result = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&set), set.as_ptr()) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn read_past_caches() -> usize {
        use std::arch::x86_64::{_mm_clflush, _mm_mfence};
        const LINES: usize = 1 << 18;
        /// Many pages from one read to the next, so that no prefetcher comes first; odd, so that each line comes once.
        const STRIDE: usize = 40_503;
        let memory = vec![1u64; LINES * 8];
        let line = |number: usize| &raw const memory[number % LINES * 8];
        for number in 0..LINES {
            // SAFETY: the line is ours.
            unsafe { _mm_clflush(line(number).cast()) };
        }
        // SAFETY: takes nothing and gives nothing.
        unsafe { _mm_mfence() };
        let mut place = 0;
        for _ in 0..LINES {
            // SAFETY: within the memory; volatile, so that the read happens. It is 1, so the next read waits for it.
            place += STRIDE * unsafe { line(place).read_volatile() } as usize;
        }
        std::hint::black_box(place);
        LINES
    }

    #[cfg(all(test, target_arch = "x86_64"))]
    #[test]
    fn reads_are_made_where_they_are_asked_for() {
        let here = crate::perf::event::online().expect("processors");
        assert_eq!(read(0, &here).expect("node 0 is there"), 1 << 18);
        assert!(read(0, &[]).is_err(), "nowhere to run");
    }
}

#[cfg(test)]
mod tests;
