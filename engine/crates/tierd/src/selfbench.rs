//! What the daemon itself costs: samples made up, the real translator, page table and policy, and no workload.

use std::io;
use std::process::{Command, Stdio};

use serde::Serialize;
use tiertune_host::owner::thread_cpu_ns;
use tiertune_host::source::{Access, AccessKind, Signals};
use tiertune_policy::{Config, Context, CounterRng, Counters, Move, Order, TierCounters, Topology, registry};

use crate::signals::Translator;
use crate::table::{Accessed, BLOCK_FRAMES, FRAME_BYTES, Piece, Table};

/// Memory of the measurement, by page size. There are enough pages that what does not depend on them is nothing beside.
const MEMORY_BYTES: [(u64, u64); 2] = [(4 << 10, 4 << 30), (2 << 20, 256 << 30)];
const BATCH: usize = 4096;
const SYSTEMS: [&str; 4] = ["hemem", "memtis", "pact", "flexmem"];

/// Costs of one system with one page size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// The system.
    pub policy: &'static str,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages.
    pub pages: u32,
    /// Samples that were given.
    pub samples: u64,
    /// From addresses to samples of pages, for a million.
    pub sampling_cpu_s_per_million: f64,
    /// In the policy, its wake-ups every 10 ms of 100 000 samples a second included, for a million.
    pub policy_cpu_s_per_million: f64,
    /// Bytes of the daemon's own tables for each page, without the policy's.
    pub daemon_bytes_per_page: f64,
    /// Bytes of memory that daemon and policy have come to use for each page.
    pub resident_bytes_per_page: f64,
}

/// Anonymous memory of this process.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = kib.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}

/// A measurement: of which system, with pages of how many bytes.
pub type Of = (&'static str, u64);

/// All measurements.
#[must_use]
pub fn all() -> Vec<Of> {
    let sizes = |system| MEMORY_BYTES.iter().map(move |(page_bytes, _)| (system, *page_bytes));
    let mut all: Vec<Of> = SYSTEMS.into_iter().flat_map(sizes).collect();
    all.retain(|(system, page_bytes)| {
        registry::find(system).is_ok_and(|system| system.page_bytes().contains(page_bytes))
    });
    all
}

/// Measures one. Memory is that of the process, so each takes one of its own.
#[must_use]
pub fn measure((name, page_bytes): Of, samples: u64) -> Option<Cost> {
    let (_, memory_bytes) = *MEMORY_BYTES.iter().find(|(known, _)| *known == page_bytes)?;
    cost(name, page_bytes, memory_bytes, samples)
}

/// Measures all of them, in processes of this program.
///
/// # Errors
/// Where one cannot be started, or does not say what it measured.
pub fn each(samples: u64) -> io::Result<Vec<serde_json::Value>> {
    let this = std::env::current_exe()?;
    let one = |(system, page_bytes): Of| {
        let (samples, of) = (samples.to_string(), format!("{system}:{page_bytes}"));
        let output = Command::new(&this)
            .args(["selfbench", "--samples", &samples, "--of", &of])
            .stderr(Stdio::inherit())
            .output()?;
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    all().into_iter().map(one).collect()
}

fn cost(name: &'static str, page_bytes: u64, memory_bytes: u64, samples: u64) -> Option<Cost> {
    let resident_before = resident_bytes();
    let pages = (memory_bytes / page_bytes) as u32;
    let topology = Topology {
        page_bytes,
        pages,
        capacity_pages: vec![pages / 4, pages],
    };
    let system = registry::find(name).ok()?;
    let mut config = Config::new();
    if name == "hemem" {
        // Everything is managed, however small.
        config.insert("mmap_filter_size_bytes".to_owned(), tiertune_policy::Value::Int(0));
    }
    let mut policy = system.build(&config, &topology).ok()?;
    let requests = policy.samplers();
    let signals = Signals {
        load_misses: true,
        slow_load_misses: true,
        stores: true,
        // Hint faults are made of these, which takes memory a page.
        accessed_bits: true,
        ..Signals::default()
    };
    let mut translator = Translator::new(&requests, &requests, policy.needs(), &signals, "", 1).ok()?;
    let mut table = Table::new(page_bytes, pages, memory_bytes / 4, pages);
    let mut accessed = Accessed::default();
    let mut world = World {
        counters: Counters {
            tiers: vec![TierCounters::default(); 2],
            ..Counters::default()
        },
        rng: CounterRng::new(1, &[]),
        moves: Vec::new(),
        orders: Vec::new(),
        wake: Some(0),
    };
    for chunk in 0..memory_bytes >> 21 {
        let block = table.take(1, chunk)?;
        for frame in 0..BLOCK_FRAMES {
            table.note(block, frame, Some(u8::from(chunk >= memory_bytes >> 23)));
        }
        let piece = Piece {
            start: 0,
            end: table.block_pages() as u16,
            object: chunk as u32,
            site: 0,
            whole_pages: pages,
        };
        table.pieces_mut(block).push(piece);
        let extent = table.extent(block, &piece);
        world.call(0, &table, &mut accessed, |cx| policy.on_alloc(&extent, cx));
    }
    translator.arm(0..pages, 0);
    let kinds: Vec<AccessKind> = requests
        .iter()
        .map(|request| crate::signals::kind_of(request.event))
        .collect();
    let mut draw = CounterRng::new(2, &[]);
    let (mut sampling_ns, mut policy_ns, mut given, mut now) = (0, 0, 0, 0);
    while given < samples && !kinds.is_empty() {
        // A tenth of the memory takes nine tenths of the accesses.
        let batch: Vec<Access> = (0..BATCH)
            .map(|nth| {
                let part = if draw.next_f64() < 0.9 { 0.1 } else { 1.0 };
                let frame = (draw.next_f64() * part * (memory_bytes / FRAME_BYTES) as f64) as u64;
                now += 10_000;
                Access {
                    pid: 1,
                    thread: 1,
                    address: frame * FRAME_BYTES + 64,
                    bytes: 1,
                    kind: kinds[nth % kinds.len()],
                    weight: 1,
                    time_ns: now,
                    armed_ns: None,
                    node: None,
                }
            })
            .collect();
        let begun = thread_cpu_ns();
        let news = translator.translate(&batch, &mut table, &mut accessed, |time| time);
        let between = thread_cpu_ns();
        world.call(now, &table, &mut accessed, |cx| policy.on_samples(&news.samples, cx));
        if world.wake.is_some_and(|at| at <= now) {
            world.wake = None;
            world.call(now, &table, &mut accessed, |cx| policy.on_wake(cx));
        }
        let ended: Vec<tiertune_policy::Migrated> = world
            .moves
            .drain(..)
            .map(|request: Move| tiertune_policy::Migrated {
                request,
                outcome: tiertune_policy::Outcome::NoSpace,
                at: now,
            })
            .collect();
        if !ended.is_empty() {
            world.call(now, &table, &mut accessed, |cx| policy.on_migrations(&ended, true, cx));
            world.moves.clear();
        }
        sampling_ns += between - begun;
        policy_ns += thread_cpu_ns() - between;
        given += BATCH as u64;
    }
    let resident = resident_bytes().max(resident_before);
    let millions = given as f64 / 1e6;
    Some(Cost {
        policy: name,
        page_bytes,
        pages,
        samples: given,
        sampling_cpu_s_per_million: sampling_ns as f64 / 1e9 / millions,
        policy_cpu_s_per_million: policy_ns as f64 / 1e9 / millions,
        daemon_bytes_per_page: (table.own_bytes() + accessed.own_bytes() + translator.own_bytes()) as f64
            / f64::from(pages),
        resident_bytes_per_page: (resident - resident_before) as f64 / f64::from(pages),
    })
}

struct World {
    counters: Counters,
    rng: CounterRng,
    moves: Vec<Move>,
    orders: Vec<Order>,
    wake: Option<u64>,
}

impl World {
    fn call<R>(
        &mut self,
        now: u64,
        table: &Table,
        accessed: &mut Accessed,
        work: impl FnOnce(&mut Context<'_>) -> R,
    ) -> R {
        let mut context = Context {
            now,
            pages: table,
            accessed,
            counters: &self.counters,
            truth: None,
            rng: &mut self.rng,
            moves: &mut self.moves,
            orders: &mut self.orders,
            wake_at: &mut self.wake,
        };
        let result = work(&mut context);
        self.orders.clear();
        result
    }
}
