//! Page-table walks: what it costs to translate addresses that the TLB does not hold.
//!
//! A core's second-level TLB keeps the translations of `tlb_entries` pages; an access to another page reads that page's
//! entry in the page table. Eight entries share a cache line, so that these lines are few and their working set is a
//! 512th of the data's (with pages of 4 KiB), but they compete with the data for the last-level cache. Both are
//! caches with least-recently-used replacement, and both go through Che's approximation, as data do in [`crate::cache`].
//!
//! Upper levels of the table are taken to be in the walker's own caches. The lowest one lies where there was room when its
//! pages were touched first, and stays there wherever they go: kernels do not move page tables (Radiant, ISMM'21, section 2).
//! Its own room, a 512th of the data's, is left out. Streams in sequence do without: the next page's translation is fetched ahead. Nor
//! do their lines drive out entries: last-level caches keep lines that come once for a short time only (on Intel's
//! processors since Ivy Bridge). Without that a chase beside a stream would read most entries from memory, which the
//! latencies of Soar/Alto's microbenchmark on small pages (OSDI'25, section 2.1) exclude.
//! Huge pages do without too: 64 GiB of them have 256 KiB of entries, which a core's second-level cache holds.

use tiertune_workload::AccessClass;

use crate::cache::{hit_shares, miss_shares};
use crate::latency::Traffic;
use crate::memory::Memory;
use crate::operation::{Operation, operation_time};
use crate::scenario::{MOST_TIERS, Machine};
use crate::workload::{Group, LINE_BYTES, Object, Phase, Popularity, Stream, Workload};

/// Pages from this size on have entries that a core finds in its own caches.
const HUGE_BYTES: u64 = 2 << 20;
/// Entries of a page table in a cache line.
const ENTRIES_PER_LINE: f64 = 8.0;
/// Pages whose rates are within an eighth of an octave are taken together.
const CLASSES_PER_OCTAVE: f64 = 8.0;

/// What translating costs a read of a stream, in the mean.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Walk {
    /// Time for entries that come from the last-level cache.
    pub cached_ns: f64,
    /// Entries that come from memory, by tier.
    pub reads: [f64; MOST_TIERS],
}

impl Walk {
    /// The time that a read waits for its translation at the given latency multipliers.
    #[must_use]
    pub fn latency_ns(&self, machine: &Machine, multipliers: &[f64]) -> f64 {
        let tiers = machine.tiers.iter().zip(multipliers);
        let waits = self.reads.iter().zip(tiers);
        self.cached_ns
            + waits
                .map(|(reads, (tier, multiplier))| reads * tier.latency_ns * multiplier)
                .sum::<f64>()
    }

    /// Entries that come from memory.
    fn memory_reads(&self) -> f64 {
        self.reads.iter().sum()
    }

    /// Entries that a read has come from outside the core's own caches, which its counters of demand reads count as well
    /// (Intel's event list: "as well as demand data page table entry cacheline reads").
    #[must_use]
    pub fn off_core(&self, machine: &Machine) -> f64 {
        self.cached_ns / machine.llc_hit_ns + self.memory_reads()
    }
}

/// What translating costs the reads of each stream of `phase`; nothing on a machine whose TLB is not known. From rates
/// with all memory fast: only their proportions matter. Page tables are where `memory` has them, in the fastest tier
/// without.
#[must_use]
pub fn walks(workload: &Workload, phase: &Phase, machine: &Machine, memory: Option<&Memory>) -> Vec<Walk> {
    let (objects, page_bytes) = (&workload.objects, workload.page_bytes);
    let none = vec![Walk::default(); phase.streams.len()];
    let Some(entries) = machine.tlb_entries else {
        return none;
    };
    if page_bytes >= HUGE_BYTES {
        return none;
    }
    let rates = rates(phase, machine);
    let mut reads = vec![0.0; phase.streams.len()];
    for (group, rate) in phase.groups.iter().zip(&rates) {
        for s in group.streams.clone() {
            reads[s] = rate * phase.streams[s].reads_per_op;
        }
    }
    let hits = hit_shares(&phase.streams, objects, &reads, page_bytes, machine.llc_bytes);
    let miss = miss_shares(&phase.streams, objects, &hits);
    // Lines that come into the cache from memory, and stay as long as others.
    let passing = reads
        .iter()
        .zip(&miss)
        .zip(&phase.streams)
        .filter(|(_, stream)| walked(stream));
    let passing = passing.map(|((reads, miss), _)| reads * miss).sum();
    let stays: Vec<f64> = phase
        .groups
        .iter()
        .map(|group| {
            let streams = &phase.streams[group.streams.clone()];
            let swept = streams.iter().filter(|s| !walked(s));
            let passing = swept.map(|s| s.reads_per_op * LINE_BYTES / page_bytes as f64).sum();
            let mut pages = Classes::default();
            for (object, rates) in translated(streams, objects) {
                pages.add(object, &rates, 1.0);
            }
            pages.stay(passing, entries)
        })
        .collect();
    // Entries are read at the rate of all threads' misses of their own TLBs.
    let mut read: Vec<Option<Vec<f64>>> = vec![None; objects.len()];
    for ((group, rate), stay) in phase.groups.iter().zip(&rates).zip(&stays) {
        let streams = &phase.streams[group.streams.clone()];
        for (object, rates) in translated(streams, objects) {
            let of_object = read[index_of(object, objects)].get_or_insert_with(|| vec![0.0; rates.len()]);
            for (read, per_op) in of_object.iter_mut().zip(&rates) {
                *read += rate * per_op * forgotten(*per_op, *stay);
            }
        }
    }
    let mut lines = Classes::default();
    for (object, read) in objects.iter().zip(&mut read) {
        if let Some(read) = read {
            if object.scatter.is_some() {
                // Neighbours are not alike: each line has its share of all.
                let pages = |piece: usize| f64::from(object.edges[piece + 1] - object.edges[piece]);
                let all: f64 = read.iter().enumerate().map(|(piece, rate)| rate * pages(piece)).sum();
                read.fill(all / f64::from(object.pages));
            }
            lines.add(object, read, ENTRIES_PER_LINE);
        }
    }
    let stay = lines.stay(passing, machine.llc_bytes as f64 / LINE_BYTES);
    let mut walks = none;
    for (group, tlb_stay) in phase.groups.iter().zip(&stays) {
        let streams = &phase.streams[group.streams.clone()];
        let translated: Vec<_> = translated(streams, objects).collect();
        for (s, stream) in group.streams.clone().zip(streams).filter(|(_, stream)| walked(stream)) {
            let Popularity::Stationary { density, .. } = &stream.popularity else {
                continue;
            };
            let object = &objects[stream.object];
            let (_, per_op) = translated
                .iter()
                .find(|(other, _)| std::ptr::eq(*other, object))
                .expect("every walked stream is of a translated object");
            let read = read[stream.object].as_ref().expect("what is translated has entries");
            for (piece, density) in density.iter().enumerate() {
                let pages = f64::from(object.edges[piece + 1] - object.edges[piece]);
                let walked = f64::from(*density) * pages * forgotten(per_op[piece], *tlb_stay);
                let missed = forgotten(read[piece] * ENTRIES_PER_LINE, stay);
                match memory {
                    Some(memory) => {
                        for (reads, share) in walks[s].reads.iter_mut().zip(memory.tables(stream.object, piece)) {
                            *reads += walked * missed * share;
                        }
                    }
                    None => walks[s].reads[0] += walked * missed,
                }
                walks[s].cached_ns += walked * (1.0 - missed) * machine.llc_hit_ns;
            }
        }
    }
    walks
}

/// Adds the lines of page tables that operations of `group` read to `traffic`, by tier; `lines` is what one line for each
/// operation comes to.
pub fn add_reads(traffic: &mut [Traffic], lines: f64, group: &Group, streams: &[Stream], walks: &[Walk]) {
    for (s, walk) in group.streams.clone().filter_map(|s| Some((s, walks.get(s)?))) {
        let waited = streams[s].reads_per_op * (1.0 - streams[s].prefetched_share);
        for (traffic, reads) in traffic.iter_mut().zip(&walk.reads) {
            traffic.add(lines * waited * reads, 0.0, 1.0);
        }
    }
}

/// Whether reads of `stream` wait for walks.
fn walked(stream: &Stream) -> bool {
    stream.class != AccessClass::Stream && matches!(stream.popularity, Popularity::Stationary { .. })
}

/// Chance that nothing came for something of this rate within `stay`.
fn forgotten(rate: f64, stay: f64) -> f64 {
    if stay.is_infinite() { 0.0 } else { (-rate * stay).exp() }
}

/// Operations of each group in a nanosecond.
fn rates(phase: &Phase, machine: &Machine) -> Vec<f64> {
    let tiers = machine.tiers.len();
    let mut mass = vec![0.0; phase.streams.len() * tiers];
    mass.iter_mut().step_by(tiers).for_each(|share| *share = 1.0);
    let miss = vec![1.0; phase.streams.len()];
    let rate = |group| {
        let operation = Operation {
            group,
            streams: &phase.streams,
            mass: &mass,
            miss: &miss,
            walks: &[],
        };
        f64::from(group.threads) / operation_time(machine, &operation, &vec![1.0; tiers])
    };
    phase.groups.iter().map(rate).collect()
}

fn index_of(object: &Object, objects: &[Object]) -> usize {
    let same = objects.iter().position(|other| std::ptr::eq(other, object));
    same.expect("one of them")
}

/// Objects that `streams` read out of sequence, and how often an operation reads a page of each piece.
fn translated<'a>(streams: &'a [Stream], objects: &'a [Object]) -> impl Iterator<Item = (&'a Object, Vec<f64>)> {
    objects.iter().enumerate().filter_map(move |(number, object)| {
        let mut rates: Option<Vec<f64>> = None;
        for stream in streams.iter().filter(|s| s.object == number && walked(s)) {
            if let Popularity::Stationary { density, .. } = &stream.popularity {
                let rates = rates.get_or_insert_with(|| vec![0.0; density.len()]);
                for (rate, density) in rates.iter_mut().zip(density) {
                    *rate += stream.reads_per_op * f64::from(*density);
                }
            }
        }
        rates.map(|rates| (object, rates))
    })
}

/// What a cache may keep: numbers of things by rate.
#[derive(Default)]
struct Classes(std::collections::BTreeMap<i64, (f64, f64)>);

impl Classes {
    /// Adds the pages of an object that are read at `rates`, `together` of them as one thing.
    fn add(&mut self, object: &Object, rates: &[f64], together: f64) {
        for (edges, rate) in object.edges.windows(2).zip(rates).filter(|(_, rate)| **rate > 0.0) {
            let count = f64::from(edges[1] - edges[0]) / together;
            let class = (rate.log2() * CLASSES_PER_OCTAVE).round() as i64;
            let (things, sum) = self.0.entry(class).or_default();
            *things += count;
            *sum += count * rate * together;
        }
    }

    /// How long a thing stays in a cache that holds `room` of them, through which `passing` others come in a unit of
    /// time and do not come again.
    fn stay(&self, passing: f64, room: f64) -> f64 {
        let held = |stay: f64| -> f64 {
            let kept = self
                .0
                .values()
                .map(|(count, sum)| count * (1.0 - forgotten(sum / count, stay)));
            kept.sum::<f64>() + passing * stay
        };
        let all: f64 = self.0.values().map(|(count, _)| count).sum();
        if passing <= 0.0 && all <= room {
            return f64::INFINITY;
        }
        let (mut low, mut high) = (0.0, 1.0);
        while held(high) < room {
            (low, high) = (high, 2.0 * high);
        }
        while high - low > 1e-4 * high {
            let middle = f64::midpoint(low, high);
            if held(middle) < room {
                low = middle;
            } else {
                high = middle;
            }
        }
        f64::midpoint(low, high)
    }
}

#[cfg(test)]
mod tests {
    use tiertune_policy::Placement;

    use super::*;

    const LATENCY_NS: f64 = 100.0;

    fn machine() -> Machine {
        serde_json::from_value(serde_json::json!({
            "name": "m", "cores": 4, "clock_ghz": 2.0, "llc_bytes": 16 << 20, "llc_hit_ns": 20.0, "fill_buffers": 12.0,
            "window_instructions": 200.0, "sample_assist_ns": 250.0, "tlb_entries": 1536.0,
            "tiers": [{"name": "t", "capacity_bytes": 1u64 << 40, "latency_ns": LATENCY_NS, "read_gbps": 50.0,
                       "write_gbps": 50.0, "curve": [[0.0, 1.0], [1.0, 2.0]]}],
        }))
        .expect("a machine")
    }

    /// A chase by `law` over `mib` on pages of `page_bytes`.
    fn chased(law: &serde_json::Value, mib: u64, page_bytes: u64) -> Workload {
        let model = serde_json::json!({"objects": [{"name": "o", "bytes": mib << 20}],
            "blocks": [{"phases": [{"name": "p", "groups": [{"name": "g", "threads": 2, "ops": 1.0, "cpu_ns_per_op": 1.0,
                "streams": [{"object": "o", "law": law, "class": "chase", "reads_per_op": 1.0, "missed_llc": true}]}]}]}]});
        let model = serde_json::from_value(model).expect("a valid model");
        Workload::compile(&model, page_bytes).expect("compiles")
    }

    /// What it costs.
    fn walk(law: &serde_json::Value, mib: u64, page_bytes: u64) -> Walk {
        let workload = chased(law, mib, page_bytes);
        walks(&workload, &workload.phases[0], &machine(), None)[0]
    }

    fn uniform() -> serde_json::Value {
        serde_json::json!({"kind": "uniform"})
    }

    /// By hand: of 2^20 pages a core keeps 1536, so that w = 0.99854 of the reads walk. Entries are 2^17 lines, in a cache of
    /// 2^18 lines into which a line of data comes with each read: x + 1 - exp(-w x) = 2 gives the stay x = 1.27887, in units
    /// of 2^17 reads, and w exp(-w x) = 0.27846 of the reads have their entry from memory.
    #[test]
    fn entries_compete_with_data_for_the_cache() {
        let walk = walk(&uniform(), 4096, 4096);
        let walked = 1.0 - 1536.0 / f64::from(1 << 20);
        assert!((walk.reads[0] - 0.278_46).abs() < 5e-5, "{walk:?}");
        assert!(
            (walk.cached_ns - (walked - walk.reads[0]) * 20.0).abs() < 1e-2,
            "{walk:?}"
        );
        assert!(
            (walk.latency_ns(&machine(), &[1.0]) - (14.4 + 27.85)).abs() < 0.2,
            "{walk:?}"
        );
    }

    #[test]
    fn what_the_tlb_holds_costs_nothing() {
        assert_eq!(walk(&uniform(), 6, 4096), Walk::default());
        assert!(walk(&uniform(), 12, 4096).cached_ns > 9.0);
    }

    #[test]
    fn huge_pages_and_sweeps_cost_nothing() {
        assert_eq!(walk(&uniform(), 65536, 2 << 20), Walk::default());
        assert_eq!(walk(&serde_json::json!({"kind": "sweep"}), 4096, 4096), Walk::default());
    }

    #[test]
    fn entries_come_from_where_page_tables_are() {
        let (workload, machine) = (chased(&uniform(), 4096, 4096), machine());
        let mut memory = Memory::new(&workload, vec![workload.pages, workload.pages]);
        let object = &workload.objects[0];
        memory.place(0, object, Placement::SlowestFree, object.pages.into());
        let phase = &workload.phases[0];
        let [fast, slow] = [None, Some(&memory)].map(|memory| walks(&workload, phase, &machine, memory)[0]);
        assert_eq!((fast.reads[1], slow.reads[0]), (0.0, 0.0));
        assert!(
            (slow.reads[1] - fast.reads[0]).abs() < 1e-6 && slow.cached_ns == fast.cached_ns,
            "{slow:?}"
        );
        let mut of_two = machine;
        of_two.tiers.push(of_two.tiers[0].clone());
        of_two.tiers[1].latency_ns = 3.0 * LATENCY_NS;
        let longer = slow.latency_ns(&of_two, &[1.0, 2.0]) - fast.latency_ns(&of_two, &[1.0, 2.0]);
        assert!((longer - 5.0 * LATENCY_NS * fast.reads[0]).abs() < 1e-3, "{longer}");
    }

    /// A hot tenth of the pages, read nine times in ten, stays longer, and so do its entries.
    #[test]
    fn hot_pages_cost_less() {
        let hot = serde_json::json!({"kind": "pieces", "edges": [0.0, 0.1, 1.0], "weights": [9.0, 1.0]});
        let (hot, even) = (walk(&hot, 4096, 4096), walk(&uniform(), 4096, 4096));
        assert!(hot.reads[0] < 0.6 * even.reads[0], "{hot:?} {even:?}");
    }
}
