//! Hint faults: the kernel's NUMA balancing takes access away from pages of slow memory, scan by scan, and the first touch
//! of each is a page fault, whose address the kernel's own event of page faults says.
//!
//! Balancing runs in its mode for memory tiers (2), in which it guards pages of slow tiers alone, with a threshold of 0 ms, so
//! that no page counts as hot. Both are settings of the whole host, changed through the journal. Mode 1, which kernels start
//! with on machines of several nodes, is taken over and put back; 2 and 3 say that somebody uses balancing for tiers, who is
//! left alone.
//!
//! The kernel asks for the threshold only where the node of the faulting processor is short of free memory; otherwise it moves
//! every page there that faults. It leaves what is preferred from the slow node, as the memory of a program that is started
//! here, but not what a process took that runs already: that one is not watched while a node has so much free. Memory
//! that becomes free later, and other processes of the host, remain; what the kernel moved is told in a note.
//!
//! What is honest to know: a page faults at most once a scan, so that hot pages stand out by faulting soon and in every
//! scan, not by number; and the first touch of a page that was never there is a fault, too. Pages that were in memory
//! when the mappings were listed are known; any other page's first fault is taken for the one that brought it in.
//!
//! When a page was guarded the kernel does not say, only how many passes over the address space it has made
//! (`/proc/PID/sched`). A fault's guard counts as set at the end of the last pass that was seen before it, which is right to
//! one drain where a pass is one scan (up to `scan_size_mb` of memory) and else to one pass.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;

use super::attributes::{Attributes, Scope};
use super::event;
use super::record::field;
use super::stream::Stream;
use crate::area::Area;
use crate::descriptors::remedy;
use crate::numa::{self, Node};
use crate::pagemap::{PRESENT, Pagemap};
use crate::source::{Access, AccessKind, Drained, Known, Setup, Signals, Source};
use crate::{HostError, PAGE_BYTES, monotonic_ns, value_of};

const MODE: &str = "/proc/sys/kernel/numa_balancing";
const SETTINGS: &str = "/sys/kernel/debug/sched/numa_balancing";
const TIERS: &str = "/sys/devices/virtual/memory_tiering";
const FOR_TIERS: &str = "2";
/// Scans come at least this often: what is not guarded again is not seen again.
const MOST_SCAN_PERIOD_MS: u64 = 1000;
const CHUNK_PAGES: u64 = 512;

/// Hint faults of NUMA balancing.
pub const HINT_FAULTS: Known = Known {
    name: "hint-faults",
    meaning: "first touches of pages of slow memory after each scan of NUMA balancing (Linux 5.18, 6.10 for programs that tierd starts, two memory tiers, debugfs)",
    signals: Signals {
        load_misses: false,
        slow_load_misses: false,
        stores: false,
        hint_faults: true,
        accessed_bits: false,
        written_bits: false,
    },
    probe,
    open: |setup| Ok(Box::new(HintFaults::open(setup)?)),
};

fn unfit(sentence: impl Into<String>) -> HostError {
    HostError::Unfit(sentence.into())
}

/// The kernel's event of page faults, with every fault's address.
fn page_faults() -> Attributes {
    Attributes {
        device: 1,
        config: [2, 0, 0],
        period: 1,
        fields: field::THREAD | field::TIME | field::ADDRESS,
        precision: 0,
        user_only: false,
    }
}

/// Pages of our own, touched for the first time while the event is on, come back with their addresses.
fn sees_faults() -> std::io::Result<bool> {
    const PAGES: usize = 16;
    let mut stream = Stream::open(&page_faults(), None, &[Scope::ThisThread])?;
    let bytes = PAGES * PAGE_BYTES as usize;
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping, touched within its bounds and given back.
    let place = unsafe {
        let place = libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0);
        if place == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        libc::madvise(place, bytes, libc::MADV_NOHUGEPAGE);
        for page in 0..PAGES {
            place.cast::<u8>().add(page * PAGE_BYTES as usize).write_volatile(1);
        }
        libc::munmap(place, bytes);
        place as u64
    };
    let mut seen = HashSet::new();
    stream.drain(|sample| {
        seen.insert(sample.address / PAGE_BYTES);
    });
    Ok((0..PAGES as u64).all(|page| seen.contains(&(place / PAGE_BYTES + page))))
}

/// Mode of balancing, if it may be taken over.
fn mode() -> Result<String, HostError> {
    let mode = value_of(Path::new(MODE))
        .map_err(|_| unfit("hint faults need a kernel with NUMA balancing; this one has no kernel.numa_balancing"))?;
    if mode != "0" && mode != "1" {
        return Err(unfit(format!(
            "kernel.numa_balancing is {mode}: somebody on this host uses balancing for memory tiers, and it is left alone; set it to 0 to use hint faults"
        )));
    }
    Ok(mode)
}

fn probe() -> Result<(), HostError> {
    mode()?;
    let tiers = fs::read_dir(TIERS).map_or(0, |found| {
        found
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("memory_tier"))
            .count()
    });
    if tiers < 2 {
        return Err(unfit(format!(
            "hint faults come from pages of slow tiers, and the kernel sees {tiers} memory tier(s) here ({TIERS}); firmware has to describe the nodes (HMAT) as different"
        )));
    }
    value_of(&Path::new(SETTINGS).join("hot_threshold_ms")).map_err(|error| {
        unfit(format!(
            "hint faults need root and debugfs ({SETTINGS}): {error}; mount -t debugfs none /sys/kernel/debug"
        ))
    })?;
    match sees_faults() {
        Ok(true) => Ok(()),
        Ok(false) => Err(unfit("the kernel's event of page faults does not say their addresses")),
        Err(error) => Err(unfit(format!(
            "the kernel's event of page faults cannot be opened ({error}); run as root or with CAP_PERFMON"
        ))),
    }
}

/// Free memory of a node above which the kernel moves there what faults. Its own bound is for each zone of the node, and
/// higher by watermarks.
fn plenty_bytes(node: &Node) -> u64 {
    (1 << 30).max(node.total_bytes / 16)
}

/// Whether the kernel leaves pages of a process that runs already where they are when they fault.
fn left_alone(nodes: &[Node], slow_node: u32) -> Result<(), HostError> {
    let mut fast = nodes.iter().filter(|node| node.cpus > 0 && node.number != slow_node);
    let Some(node) = fast.find(|node| node.free_bytes > plenty_bytes(node)) else {
        return Ok(());
    };
    let mib = |bytes: u64| bytes >> 20;
    Err(unfit(format!(
        "hint faults are not used on a process that runs already while node {} has {} MiB free: above {} MiB the kernel itself moves there what faults",
        node.number,
        mib(node.free_bytes),
        mib(plenty_bytes(node))
    )))
}

/// Pages that the kernel's balancing has moved to fast memory since the boot.
fn promoted_pages() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("pgpromote_success "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// Whether the kernel makes hint faults of the memory that a workload will have, and leaves it to us to move it.
fn made(setup: &Setup) -> Result<(), HostError> {
    if !setup.starts_program {
        return left_alone(&numa::nodes(), setup.slow_node);
    }
    numa::prefers(setup.slow_node, true).map_err(|error| {
        unfit(format!(
            "before Linux 6.10 balancing makes no hint faults of memory that a program takes from one node first, as tierd has it do (node {}: {error})",
            setup.slow_node
        ))
    })
}

/// Passes of balancing over an address space.
#[derive(Debug, Default)]
struct Passes {
    count: Option<u64>,
    looked_ns: u64,
    /// Times before which the last two passes ended, the older one first.
    ends_ns: [u64; 2],
}

impl Passes {
    /// Takes note of how many there are now; a pass that ended since the last look did so after that look.
    fn look(&mut self, count: Option<u64>, now_ns: u64) {
        if self.count.is_some() && count != self.count {
            self.ends_ns = [self.ends_ns[1], self.looked_ns];
        }
        (self.count, self.looked_ns) = (count, now_ns);
    }

    /// When the guard of a fault was set, as far as passes tell.
    fn guarded(&self, fault_ns: u64) -> Option<u64> {
        self.ends_ns
            .into_iter()
            .rev()
            .find(|end_ns| (1..=fault_ns).contains(end_ns))
    }
}

/// Passes that the kernel has made over the address space of a process.
fn passes(pid: i32) -> Option<u64> {
    counted(&fs::read_to_string(format!("/proc/{pid}/sched")).ok()?)
}

fn counted(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("mm->numa_scan_seq"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

/// A process that is watched.
#[derive(Debug, Default)]
struct Watched {
    resident: Resident,
    areas: Vec<Area>,
    passes: Passes,
}

/// Pages of a process that are known to be in memory: bits by chunk of 512 pages.
#[derive(Debug, Default)]
struct Resident(HashMap<u64, [u64; 8]>);

impl Resident {
    /// Adds a page; false when it was known.
    fn add(&mut self, page: u64) -> bool {
        let chunk = self.0.entry(page / CHUNK_PAGES).or_default();
        let (word, bit) = ((page % CHUNK_PAGES / 64) as usize, 1 << (page % 64));
        let new = chunk[word] & bit == 0;
        chunk[word] |= bit;
        new
    }

    /// Forgets what lies in none of the areas; a chunk that one of them reaches into stays.
    fn keep(&mut self, areas: &[Area]) {
        self.0.retain(|chunk, _| {
            let (from, to) = (chunk * CHUNK_PAGES, (chunk + 1) * CHUNK_PAGES);
            areas.iter().any(|area| area.start < to && from < area.end)
        });
    }
}

#[derive(Debug)]
struct HintFaults {
    stream: Stream,
    /// What the kernel had moved itself when this began.
    promoted_pages: u64,
    processes: BTreeMap<i32, Watched>,
}

impl HintFaults {
    fn open(setup: &Setup) -> Result<Self, HostError> {
        mode()?;
        made(setup)?;
        let scopes: Vec<Scope> = event::online()
            .map_err(|error| unfit(format!("the processors of this host are not known: {error}")))?
            .into_iter()
            .map(Scope::Processor)
            .collect();
        let stream = Stream::open(&page_faults(), None, &scopes).map_err(|error| {
            let remedy = remedy(&error, scopes.len(), "run as root or with CAP_PERFMON");
            unfit(format!(
                "page faults of other processes cannot be seen ({error}); {remedy}"
            ))
        })?;
        let mut journal = setup.journal.get();
        let folder = Path::new(SETTINGS);
        journal.set(&folder.join("hot_threshold_ms"), "0")?;
        let wanted_ms = (setup.drain_ns / 1_000_000).clamp(100, MOST_SCAN_PERIOD_MS);
        shorten(&mut |path, value| journal.set(path, value), folder, wanted_ms)?;
        journal.set(Path::new(MODE), FOR_TIERS)?;
        Ok(Self {
            stream,
            promoted_pages: promoted_pages(),
            processes: BTreeMap::new(),
        })
    }
}

/// Makes scans come every `wanted_ms`, where they come less often; the least period must not pass the most.
fn shorten(
    set: &mut dyn FnMut(&Path, &str) -> Result<(), HostError>,
    folder: &Path,
    wanted_ms: u64,
) -> Result<(), HostError> {
    for name in ["scan_delay_ms", "scan_period_min_ms", "scan_period_max_ms"] {
        let path = folder.join(name);
        let now: Option<u64> = value_of(&path).ok().and_then(|value| value.parse().ok());
        if now.is_some_and(|now_ms| now_ms > wanted_ms) {
            set(&path, &wanted_ms.to_string())?;
        }
    }
    Ok(())
}

impl Source for HintFaults {
    fn name(&self) -> &'static str {
        HINT_FAULTS.name
    }

    fn signals(&self) -> Signals {
        HINT_FAULTS.signals
    }

    fn attach(&mut self, pid: i32) -> Result<(), HostError> {
        self.processes.insert(pid, Default::default());
        Ok(())
    }

    fn forget(&mut self, pid: i32) {
        self.processes.remove(&pid);
    }

    fn areas(&mut self, pid: i32, areas: &[Area]) -> Result<(), HostError> {
        let Some(Watched {
            resident, areas: known, ..
        }) = self.processes.get_mut(&pid)
        else {
            return Ok(());
        };
        // What is gone may come back as other memory, whose first touch is no hint.
        resident.keep(areas);
        let mut pagemap = Pagemap::open(pid)
            .map_err(|error| unfit(format!("the page table of process {pid} cannot be read: {error}")))?;
        for area in areas.iter().filter(|area| !known.contains(area)) {
            // Fails for mappings that went away meanwhile.
            let _ = pagemap.each(area.start, area.end, PRESENT, 0, |start, end| {
                (start..end).for_each(|page| {
                    resident.add(page);
                });
            });
        }
        *known = areas.to_vec();
        Ok(())
    }

    fn drain(&mut self, into: &mut Vec<Access>) -> Result<Drained, HostError> {
        let before = into.len();
        let processes = &mut self.processes;
        let now_ns = monotonic_ns();
        for (pid, watched) in processes.iter_mut() {
            watched.passes.look(passes(*pid), now_ns);
        }
        let drained = self.stream.drain(|sample| {
            let Some(Watched {
                resident,
                areas,
                passes,
            }) = processes.get_mut(&sample.pid)
            else {
                return;
            };
            let page = sample.address / PAGE_BYTES;
            if !areas.iter().any(|area| area.start <= page && page < area.end) || resident.add(page) {
                return;
            }
            into.push(Access {
                pid: sample.pid,
                thread: sample.thread,
                address: sample.address,
                bytes: 1,
                kind: AccessKind::HintFault,
                weight: 1,
                time_ns: sample.time_ns,
                armed_ns: passes.guarded(sample.time_ns),
                node: None,
            });
        });
        // Processors are read one after the other.
        into[before..].sort_by_key(|access| access.time_ns);
        Ok(drained)
    }

    fn notes(&self) -> Vec<String> {
        let moved = promoted_pages().saturating_sub(self.promoted_pages);
        let note = format!(
            "the kernel moved {moved} pages of 4 KiB to fast memory itself at their hint faults, this process's or somebody else's"
        );
        Vec::from_iter((moved > 0).then_some(note))
    }

    fn detach(&mut self) {
        self.processes.clear();
        self.stream = Stream::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numa::tests::play_linux_6_9;
    use crate::{Journal, SharedJournal};

    #[test]
    fn the_fault_that_brings_a_page_in_is_no_hint() {
        let mut resident = Resident::default();
        assert!(resident.add(7) && resident.add(7 + CHUNK_PAGES));
        assert!(!resident.add(7) && resident.add(8) && !resident.add(8));
        let label = String::new();
        resident.keep(&[Area {
            start: CHUNK_PAGES,
            end: CHUNK_PAGES + 8,
            label,
        }]);
        assert!(resident.add(7), "its mapping went away");
        assert!(!resident.add(7 + CHUNK_PAGES));
    }

    #[test]
    fn guards_are_as_old_as_the_last_pass_before_the_fault() {
        let text = "python (7, #threads: 1)\nmm->numa_scan_seq                            :                   17\nnuma_pages_migrated : 3\n";
        assert_eq!(counted(text), Some(17));
        assert_eq!(counted("se.exec_start : 1"), None);
        let mut passes = Passes::default();
        passes.look(Some(3), 100);
        assert_eq!(passes.guarded(150), None, "no pass was seen");
        passes.look(Some(4), 200);
        assert_eq!(passes.guarded(150), Some(100));
        assert_eq!(passes.guarded(90), None);
        passes.look(Some(4), 300);
        passes.look(Some(5), 400);
        assert_eq!((passes.guarded(250), passes.guarded(350)), (Some(100), Some(300)));
        // Nobody knows without the kernel's count.
        let mut unknown = Passes::default();
        unknown.look(None, 100);
        unknown.look(None, 200);
        assert_eq!(unknown.guarded(150), None);
    }

    fn setup(starts_program: bool) -> Setup {
        let nowhere = Path::new("/nowhere");
        Setup {
            fast_node: 1,
            slow_node: numa::nodes().first().map_or(0, |node| node.number),
            starts_program,
            periods: Vec::new(),
            drain_ns: 100_000_000,
            journal: SharedJournal::new(Journal::open(nowhere).expect("nothing is written down there")),
        }
    }

    #[test]
    fn programs_that_are_started_need_a_kernel_that_looks_at_preferred_memory() {
        let found = std::thread::spawn(|| {
            play_linux_6_9();
            [true, false].map(|starts_program| made(&setup(starts_program)))
        });
        let [started, running] = found.join().expect("it ends");
        let problem = started.expect_err("it sees nothing").to_string();
        assert!(problem.contains("before Linux 6.10"), "{problem}");
        let problem = running.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(!problem.contains("Linux 6.10"), "{problem}");
    }

    #[test]
    fn where_the_kernel_moves_pages_itself_a_running_process_is_not_watched() {
        const GIB: u64 = 1 << 30;
        let node = |number, total_bytes, free_bytes, cpus| Node {
            number,
            total_bytes,
            free_bytes,
            cpus,
            read_latency_ns: None,
        };
        let slow = node(2, 256 * GIB, 200 * GIB, 0);
        // A sixteenth of the node, and never less than 1 GiB.
        for (total_bytes, most_bytes) in [(64 * GIB, 4 * GIB), (8 * GIB, GIB)] {
            let fast = |free_bytes| [node(0, total_bytes, free_bytes, 16), slow.clone()];
            assert_eq!(left_alone(&fast(most_bytes), 2), Ok(()));
            let problem = left_alone(&fast(most_bytes + GIB), 2).expect_err("the kernel moves pages");
            assert!(problem.to_string().contains("node 0 has"), "{problem}");
        }
        // Pages go to where the processor is that takes the fault, whichever node is the fast tier.
        let sockets = [
            node(0, 64 * GIB, GIB, 16),
            node(1, 64 * GIB, 50 * GIB, 16),
            slow.clone(),
        ];
        let problem = left_alone(&sockets, 2).expect_err("the kernel moves pages").to_string();
        assert!(
            problem.contains("node 1 has 51200 MiB free: above 4096 MiB"),
            "{problem}"
        );
    }

    #[test]
    fn scans_are_only_ever_made_more_frequent() {
        let folder = std::env::temp_dir().join(format!("tiertune-scans-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("made");
        for (name, value) in [
            ("scan_delay_ms", "1000"),
            ("scan_period_min_ms", "100"),
            ("scan_period_max_ms", "60000"),
        ] {
            fs::write(folder.join(name), value).expect("written");
        }
        let mut changed = Vec::new();
        shorten(
            &mut |path, value| {
                changed.push((path.file_name().expect("a name").to_owned(), value.to_owned()));
                Ok(())
            },
            &folder,
            500,
        )
        .expect("set");
        assert_eq!(
            changed,
            [
                ("scan_delay_ms".into(), "500".into()),
                ("scan_period_max_ms".into(), "500".into())
            ]
        );
        fs::remove_dir_all(&folder).expect("removed");
    }
}
