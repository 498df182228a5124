//! An operating system in memory: processes, their pages on two nodes, and everything that may go wrong with them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use tierd::counters::Assumed;
use tierd::driver::{Driver, Options};
use tierd::kernel::{ABSENT, BUSY, Kernel, NO_MEMORY, Process, Refusal};
use tierd::signals::{Translator, together};
use tiertune_host::source::{Access, AccessKind, Drained, Signals, Source};
use tiertune_host::{Area, HostError};
use tiertune_policy::{Config, Value, registry};

pub const MS: u64 = 1_000_000;
pub const NODES: [u32; 2] = [0, 2];

/// Something that pages are in; several processes may have it.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    pub node: u32,
    /// How often moving it fails because it is busy; `u32::MAX` for ever.
    pub busy: u32,
    /// How often it is found to be absent when it is to be moved, and touched again soon after.
    pub vanishes: u32,
}

#[derive(Debug, Clone, Default)]
pub struct Task {
    pub image: String,
    pub areas: Vec<Area>,
    /// Frame by page.
    pub pages: BTreeMap<u64, u64>,
}

/// What a process does while the daemon is at work.
#[derive(Debug, Clone)]
pub enum Deed {
    /// It forks, and writes at once to what it shares with the child.
    Fork(Range<u64>),
    Write(Range<u64>),
    Unmap(Range<u64>),
    Exit,
}

#[derive(Debug, Default)]
pub struct World {
    pub now_ns: u64,
    /// Of this time threads have slept.
    pub slept_ns: u64,
    /// Calls of the kernel until each deed, from the one before, and whose it is.
    pub meanwhile: VecDeque<(u32, i32, Deed)>,
    pub tasks: BTreeMap<i32, Task>,
    pub frames: BTreeMap<u64, Frame>,
    /// What was touched since the last drain.
    pub touched: BTreeSet<(i32, u64)>,
    pub offline: bool,
    /// First threads have ended, so that nothing is seen of processes that live.
    pub unseen: bool,
    /// Processes beside the tasks, which are too many to be followed.
    pub left_out: usize,
    /// Nobody may ask where pages are.
    pub forbidden: bool,
    /// Frames that fit on the slow node.
    pub slow_frames: usize,
    pub migrate_calls: u64,
    /// Pages that were found absent just now.
    vanished: BTreeSet<(i32, u64)>,
    /// Pages that were asked to move and were not of the kind that never will.
    pub asked_in_earnest: u64,
    pub most_batch: usize,
    next_frame: u64,
    next_pid: i32,
    next_page: u64,
}

impl World {
    pub fn spawn(&mut self) -> i32 {
        self.next_pid += 1;
        let pid = 100 + self.next_pid;
        self.tasks.insert(
            pid,
            Task {
                image: format!("program {pid}"),
                ..Task::default()
            },
        );
        pid
    }

    /// Maps pages at a fresh place, `offset` pages after the beginning of a block; its first page.
    pub fn map(&mut self, pid: i32, pages: u64, offset: u64) -> u64 {
        let start = 0x10_0000 + self.next_page + offset;
        self.next_page += (offset + pages).div_ceil(512) * 512 + 512;
        if let Some(task) = self.tasks.get_mut(&pid) {
            task.areas.push(Area {
                start,
                end: start + pages,
                label: "anonymous".to_owned(),
            });
            task.areas.sort_by_key(|area| area.start);
        }
        start
    }

    /// Touches pages; those that are not there yet come into being on the slow node.
    pub fn touch(&mut self, pid: i32, pages: Range<u64>) {
        self.touch_on(pid, pages, NODES[1]);
    }

    pub fn touch_on(&mut self, pid: i32, pages: Range<u64>, node: u32) {
        let Some(task) = self.tasks.get_mut(&pid) else { return };
        for page in pages {
            if !task.areas.iter().any(|area| area.start <= page && page < area.end) {
                continue;
            }
            let (next, frames) = (&mut self.next_frame, &mut self.frames);
            task.pages.entry(page).or_insert_with(|| {
                *next += 1;
                frames.insert(
                    *next,
                    Frame {
                        node,
                        busy: 0,
                        vanishes: 0,
                    },
                );
                *next
            });
            self.touched.insert((pid, page));
        }
    }

    /// Writes to pages: those that other processes have as well are copied, to the slow node.
    pub fn write(&mut self, pid: i32, pages: Range<u64>) {
        self.touch(pid, pages.clone());
        let mut users: BTreeMap<u64, u32> = BTreeMap::new();
        for frame in self.tasks.values().flat_map(|task| task.pages.values()) {
            *users.entry(*frame).or_default() += 1;
        }
        let (next, frames) = (&mut self.next_frame, &mut self.frames);
        let Some(task) = self.tasks.get_mut(&pid) else { return };
        for (_, frame) in task.pages.range_mut(pages) {
            if users[&*frame] > 1 {
                *next += 1;
                frames.insert(
                    *next,
                    Frame {
                        node: NODES[1],
                        busy: 0,
                        vanishes: 0,
                    },
                );
                *frame = *next;
            }
        }
    }

    /// Takes mappings, or parts of them, away.
    pub fn unmap(&mut self, pid: i32, pages: Range<u64>) {
        let Some(task) = self.tasks.get_mut(&pid) else { return };
        let mut left = Vec::new();
        for area in task.areas.drain(..) {
            let (before, after) = (
                area.start..area.end.min(pages.start),
                area.start.max(pages.end)..area.end,
            );
            for part in [before, after] {
                if part.start < part.end {
                    left.push(Area {
                        start: part.start,
                        end: part.end,
                        label: area.label.clone(),
                    });
                }
            }
        }
        task.areas = left;
        task.pages.retain(|page, _| !pages.contains(page));
        self.collect();
    }

    /// A child with the same pages.
    pub fn fork(&mut self, pid: i32) -> Option<i32> {
        let task = self.tasks.get(&pid)?.clone();
        let child = self.spawn();
        self.tasks.insert(child, task);
        Some(child)
    }

    pub fn exit(&mut self, pid: i32) {
        self.tasks.remove(&pid);
        self.collect();
    }

    /// Another program in the same process.
    pub fn exec(&mut self, pid: i32) {
        if let Some(task) = self.tasks.get_mut(&pid) {
            *task = Task {
                image: format!("{} again", task.image),
                ..Task::default()
            };
        }
        self.collect();
    }

    /// Does what is due at this call of the kernel.
    fn go_on(&mut self) {
        while let Some((calls, pid, deed)) = self.meanwhile.pop_front() {
            if calls > 0 {
                self.meanwhile.push_front((calls - 1, pid, deed));
                return;
            }
            match deed {
                Deed::Fork(pages) => {
                    self.fork(pid);
                    self.write(pid, pages);
                }
                Deed::Write(pages) => self.write(pid, pages),
                Deed::Unmap(pages) => self.unmap(pid, pages),
                Deed::Exit if self.tasks.len() > 1 => self.exit(pid),
                Deed::Exit => {}
            }
        }
    }

    fn collect(&mut self) {
        let used: BTreeSet<u64> = self
            .tasks
            .values()
            .flat_map(|task| task.pages.values().copied())
            .collect();
        self.frames.retain(|frame, _| used.contains(frame));
        let tasks = &self.tasks;
        self.touched
            .retain(|(pid, page)| tasks.get(pid).is_some_and(|task| task.pages.contains_key(page)));
    }

    /// Bytes on the fast node, as the kernel would say.
    pub fn fast_bytes(&self) -> u64 {
        self.frames.values().filter(|frame| frame.node == NODES[0]).count() as u64 * 4096
    }

    /// Bytes on the fast node that cannot leave it.
    pub fn stuck_bytes(&self) -> u64 {
        let stuck = self
            .frames
            .values()
            .filter(|frame| frame.node == NODES[0] && frame.busy > 3);
        stuck.count() as u64 * 4096
    }

    /// How many of the pages are on the fast node.
    pub fn fast_pages(&self, pid: i32, pages: Range<u64>) -> usize {
        let task = &self.tasks[&pid];
        let frames = task.pages.range(pages).map(|(_, frame)| self.frames[frame]);
        frames.filter(|frame| frame.node == NODES[0]).count()
    }
}

/// The world as the driver sees it.
#[derive(Debug, Clone, Default)]
pub struct Fake(Arc<Mutex<World>>);

impl Fake {
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no test thread panicked")
    }

    /// The world at a call of the kernel, before which processes may have done something.
    fn asked(&self) -> MutexGuard<'_, World> {
        let mut world = self.world();
        world.go_on();
        world
    }
}

impl Kernel for Fake {
    fn now_ns(&mut self) -> u64 {
        self.world().now_ns
    }

    fn rest(&mut self, until_ns: u64) {
        let mut world = self.world();
        world.now_ns = world.now_ns.max(until_ns);
    }

    fn lives(&mut self) -> bool {
        !self.world().tasks.is_empty()
    }

    fn processes(&mut self) -> Vec<Process> {
        let world = self.asked();
        let each = world.tasks.iter().filter(|_| !world.unseen);
        each.map(|(pid, task)| Process {
            pid: *pid,
            image: task.image.clone(),
        })
        .collect()
    }

    fn left_out(&self) -> usize {
        self.world().left_out
    }

    fn areas(&mut self, pid: i32) -> Vec<Area> {
        self.asked()
            .tasks
            .get(&pid)
            .map(|task| task.areas.clone())
            .unwrap_or_default()
    }

    fn resident(&mut self, pid: i32, area: &Area, found: &mut dyn FnMut(u64, u64)) -> Result<(), Refusal> {
        let world = self.asked();
        let task = world.tasks.get(&pid).ok_or(Refusal::Gone)?;
        let pages: Vec<u64> = task.pages.range(area.start..area.end).map(|(page, _)| *page).collect();
        for run in pages.chunk_by(|page, next| page + 1 == *next) {
            found(run[0], run[0] + run.len() as u64);
        }
        Ok(())
    }

    fn nodes(&mut self, pid: i32, pages: &[u64]) -> Result<Vec<i32>, Refusal> {
        let mut world = self.asked();
        if world.forbidden {
            return Err(Refusal::Other("Operation not permitted".to_owned()));
        }
        let vanished = std::mem::take(&mut world.vanished);
        let task = world.tasks.get(&pid).ok_or(Refusal::Gone)?;
        let node = |page: &u64| {
            let frame = task.pages.get(page).filter(|_| !vanished.contains(&(pid, *page)));
            frame.map_or(ABSENT, |frame| world.frames[frame].node as i32)
        };
        Ok(pages.iter().map(node).collect())
    }

    fn shared(&mut self, pid: i32, pages: &[u64]) -> Result<Vec<u64>, Refusal> {
        let world = self.asked();
        let task = world.tasks.get(&pid).ok_or(Refusal::Gone)?;
        let mut users: BTreeMap<u64, u32> = BTreeMap::new();
        for frame in world.tasks.values().flat_map(|task| task.pages.values()) {
            *users.entry(*frame).or_default() += 1;
        }
        let shared = |page: &u64| {
            let frame = task.pages.get(page).copied().unwrap_or(0);
            if users.get(&frame).copied().unwrap_or(0) > 1 {
                frame
            } else {
                0
            }
        };
        Ok(pages.iter().map(shared).collect())
    }

    fn migrate(&mut self, pid: i32, pages: &[u64], node: u32) -> Result<Vec<i32>, Refusal> {
        let mut world = self.asked();
        world.migrate_calls += 1;
        world.most_batch = world.most_batch.max(pages.len());
        world.now_ns += 1000 * pages.len() as u64;
        if world.offline {
            return Err(Refusal::Offline);
        }
        let task = world.tasks.get(&pid).ok_or(Refusal::Gone)?;
        let frames: Vec<Option<u64>> = pages.iter().map(|page| task.pages.get(page).copied()).collect();
        let mut slow = world.frames.values().filter(|frame| frame.node == NODES[1]).count();
        let room = world.slow_frames;
        let mut in_earnest = 0;
        let mut status = Vec::new();
        let mut vanished = BTreeSet::new();
        for (page, frame) in pages.iter().zip(frames) {
            let Some(frame) = frame.and_then(|number| world.frames.get_mut(&number)) else {
                in_earnest += 1;
                status.push(ABSENT);
                continue;
            };
            in_earnest += u64::from(frame.node == node || frame.busy != u32::MAX);
            if frame.vanishes > 0 {
                frame.vanishes -= 1;
                vanished.insert((pid, *page));
                status.push(ABSENT);
            } else if frame.node != node && frame.busy > 0 {
                if frame.busy != u32::MAX {
                    frame.busy -= 1;
                }
                status.push(BUSY);
            } else if frame.node != node && node == NODES[1] && slow >= room {
                status.push(NO_MEMORY);
            } else {
                slow = slow + usize::from(node == NODES[1]) - usize::from(frame.node == NODES[1]);
                frame.node = node;
                status.push(node as i32);
            }
        }
        world.asked_in_earnest += in_earnest;
        world.vanished.extend(vanished);
        Ok(status)
    }

    fn workload_cpu_ns(&mut self) -> u64 {
        self.world().now_ns
    }

    fn thread_run_ns(&mut self, _: i32) -> Option<u64> {
        let world = self.world();
        Some(world.now_ns - world.slept_ns)
    }

    fn own_cpu_ns(&mut self) -> u64 {
        self.world().now_ns
    }
}

/// Sees what the world touches: as accessed bits, or as hardware samples and hint faults.
pub struct Eyes {
    world: Fake,
    signals: Signals,
}

impl Source for Eyes {
    fn name(&self) -> &'static str {
        "eyes"
    }

    fn signals(&self) -> Signals {
        self.signals
    }

    fn attach(&mut self, _: i32) -> Result<(), HostError> {
        Ok(())
    }

    fn drain(&mut self, into: &mut Vec<Access>) -> Result<Drained, HostError> {
        let mut world = self.world.world();
        let touched = std::mem::take(&mut world.touched);
        let now = world.now_ns;
        let mut add = |pid, page: u64, kind| {
            into.push(Access {
                pid,
                thread: pid,
                address: page * 4096 + 8,
                bytes: 1,
                kind,
                weight: 1,
                time_ns: now,
                armed_ns: Some(now.saturating_sub(10 * MS)),
                node: None,
            });
        };
        for (pid, page) in touched {
            if self.signals.accessed_bits {
                add(pid, page, AccessKind::Accessed);
            }
            if self.signals.load_misses {
                add(pid, page, AccessKind::LoadMiss);
                add(pid, page, AccessKind::Store);
            }
            if self.signals.hint_faults {
                add(pid, page, AccessKind::HintFault);
            }
        }
        Ok(Drained::default())
    }

    fn detach(&mut self) {}
}

pub const BITS: Signals = Signals {
    load_misses: false,
    slow_load_misses: false,
    stores: false,
    hint_faults: false,
    accessed_bits: true,
    written_bits: false,
};

pub const EVERYTHING: Signals = Signals {
    load_misses: true,
    slow_load_misses: false,
    stores: true,
    hint_faults: true,
    accessed_bits: true,
    written_bits: false,
};

/// Options for a machine of `fast` frames, with every interval as short as it can be.
pub fn options(page_bytes: u64, fast_frames: u64, slow_frames: u64) -> Options {
    Options {
        page_bytes,
        nodes: NODES,
        cap_bytes: fast_frames * 4096,
        slow_bytes: slow_frames * 4096,
        drain_ns: 20 * MS,
        refresh_ns: 20 * MS,
        resync_ns: 100 * MS,
        most_bytes_per_s: None,
        seed: 1,
        place_first: true,
        assumed: Assumed {
            latency_ns: [100.0, 250.0],
            cycles_per_ns: 2.0,
        },
    }
}

/// Knobs for small machines and short runs: allocations of any size are managed, and scans come often.
pub fn knobs(name: &str) -> Config {
    let small: &[(&str, Value)] = &[
        ("mmap_filter_size_bytes", Value::Int(0)),
        ("scan_period_min_ms", Value::Int(200)),
        ("scan_period_ratio", Value::Int(1)),
        ("scan_delay_ms", Value::Int(0)),
        ("kswapd_retry_ms", Value::Int(100)),
        ("free_enough_mib", Value::Int(1)),
        ("demotion_margin", Value::Int(64)),
    ];
    let system = registry::find(name).expect("it is listed");
    let known = system.knobs();
    let own = small
        .iter()
        .filter(|(knob, _)| known.iter().any(|other| other.name == *knob));
    own.map(|(knob, value)| ((*knob).to_owned(), value.clone())).collect()
}

/// A driver of system `name` on `world`.
pub fn driver(name: &str, config: &Config, world: &Fake, options: Options, signals: Signals) -> Driver<Fake> {
    let system = registry::find(name).expect("it is listed");
    let policy = system.build(config, &options.topology()).expect("the knobs are right");
    let usual = system.smallest().expect("defaults are right").samplers();
    let eyes = Eyes {
        world: world.clone(),
        signals,
    };
    let translator = Translator::new(
        &policy.samplers(),
        &usual,
        policy.needs(),
        &together([signals]),
        "eyes",
        1,
    )
    .expect("the signals are enough");
    world.world().slow_frames = usize::try_from(options.slow_bytes / 4096).expect("small");
    Driver::new(world.clone(), options, policy, vec![Box::new(eyes)], translator)
}

/// Systems that can run live.
pub fn live_systems() -> Vec<&'static str> {
    registry::names()
        .filter(|name| registry::find(name).expect("listed").live_obstacle().is_none())
        .collect()
}
