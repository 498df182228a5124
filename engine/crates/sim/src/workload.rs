//! A workload compiled for one page size: objects cut in pieces, laws as tables over them.

use tiertune_workload::AccessClass;

use crate::alias::AliasTable;
use crate::error::RunError;
use crate::law;
use crate::lifetime;
use crate::scatter::Scatter;
use crate::scenario::{GroupModel, Law, StreamModel, WorkloadModel};

/// Bytes that one miss moves.
pub const LINE_BYTES: f64 = 64.0;
/// What the ranks of a zipf law count: the same bytes whatever the page size, so that runs on small and
/// on huge pages have the same accesses.
const ZIPF_ITEM_BYTES: f64 = 4096.0;
/// Bytes of a store.
const WORD_BYTES: f64 = 8.0;
/// Most pieces of an object, what an alias table holds.
const MAX_PIECES: usize = 65_535;

/// A contiguous range of pages, cut in pieces whose pages are alike in every law on it.
#[derive(Debug, Clone)]
pub struct Object {
    /// Name in reports.
    pub name: String,
    /// First page.
    pub first_page: u32,
    /// Number of pages.
    pub pages: u32,
    /// Piece boundaries in page positions, from 0 to `pages`.
    pub edges: Vec<u32>,
    /// Where positions lie, when they are not in page order.
    pub scatter: Option<Scatter>,
    /// Number of its allocation site.
    pub site: u32,
    /// Pages of the mapping that it is part of, or of each of those that it is made of.
    pub mapping_pages: u32,
    /// Whether it exists from the start.
    pub initial: bool,
    /// Whether it is first touched side by side with all others that are.
    pub side_by_side: bool,
    /// Of an object that is there before the first phase only, the one after which it is freed.
    pub freed_after: Option<usize>,
    equal_pieces: bool,
}

impl Object {
    /// The piece that holds `page` (an index over all objects).
    #[inline]
    #[must_use]
    pub fn piece_of(&self, page: u32) -> usize {
        let position = self.position_of(page);
        if self.equal_pieces {
            let pieces = self.edges.len() - 1;
            let mut piece = (u64::from(position) * pieces as u64 / u64::from(self.pages)) as usize;
            // Edges are rounded, so the division can be off by one either way.
            while self.edges[piece] > position {
                piece -= 1;
            }
            while self.edges[piece + 1] <= position {
                piece += 1;
            }
            return piece;
        }
        self.edges.partition_point(|e| *e <= position) - 1
    }

    /// The position of `page` (an index over all objects).
    #[inline]
    #[must_use]
    pub fn position_of(&self, page: u32) -> u32 {
        let index = page - self.first_page;
        self.scatter.as_ref().map_or(index, |s| s.position(index))
    }

    /// The page at `position`.
    #[inline]
    #[must_use]
    pub fn page_at(&self, position: u32) -> u32 {
        self.first_page + self.scatter.as_ref().map_or(position, |s| s.index(position))
    }

    /// Number of pieces.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.edges.len() - 1
    }
}

/// Where a stream's accesses go.
#[derive(Debug, Clone)]
pub enum Popularity {
    /// Independent draws.
    Stationary {
        /// Probability per page, by piece.
        density: Vec<f32>,
        /// Draws pieces.
        alias: AliasTable,
    },
    /// Each thread goes through its own part, front to back, over and over.
    Sweep,
}

/// A compiled stream.
#[derive(Debug, Clone)]
pub struct Stream {
    /// Index of the object.
    pub object: usize,
    /// Where its accesses go.
    pub popularity: Popularity,
    /// Access class.
    pub class: AccessClass,
    /// Lines read per operation.
    pub reads_per_op: f64,
    /// Lines written back per operation.
    pub writebacks_per_op: f64,
    /// Retired stores per operation.
    pub stores_per_op: f64,
    /// Demand misses in flight per core, where they are not those of its class.
    pub mlp: Option<f64>,
    /// Share of reads that the prefetcher brings in.
    pub prefetched_share: f64,
    /// Share of lines that come alone.
    pub random_share: f64,
    /// Whether reads have already missed the last-level cache.
    pub missed_llc: bool,
    /// Hits of the last-level cache per operation, beside reads that have missed it.
    pub llc_hits_per_op: f64,
    /// Visits of pages per operation: what sets accessed bits.
    pub visits_per_op: f64,
    /// Visits that write.
    pub writes_per_op: f64,
    /// Whether its pages come with these accesses.
    pub first_touch: bool,
}

impl Stream {
    /// Visits of pages per operation that can take hint faults: a page that only comes with its visit was never marked.
    #[must_use]
    pub fn markable_visits_per_op(&self) -> f64 {
        if self.first_touch { 0.0 } else { self.visits_per_op }
    }

    /// Whether a thread that comes to a page goes through it before it comes to the next one.
    #[must_use]
    pub fn in_order(&self) -> bool {
        self.class == AccessClass::Stream && matches!(self.popularity, Popularity::Stationary { .. })
    }

    /// Lines that such a thread takes from a page; write-backs where it does not read, stores where it does neither.
    #[must_use]
    pub fn lines_per_visit(&self) -> f64 {
        let lines = [self.reads_per_op, self.writebacks_per_op, self.stores_per_op];
        let lines = lines.into_iter().find(|lines| *lines > 0.0).unwrap_or(0.0);
        if self.visits_per_op > 0.0 {
            (lines / self.visits_per_op).max(1.0)
        } else {
            1.0
        }
    }
}

/// Threads with the same operation.
#[derive(Debug, Clone)]
pub struct Group {
    /// Name in reports.
    pub name: String,
    /// Threads.
    pub threads: u32,
    /// Operations of all threads, or as many as fit.
    pub ops: Option<f64>,
    /// Compute time per operation.
    pub cpu_ns_per_op: f64,
    /// Locked instructions per operation that wait for misses.
    pub locked_per_op: f64,
    /// Locked instructions per operation with a lookup since the one before.
    pub locked_lookups_per_op: f64,
    /// Its streams within [`Phase::streams`].
    pub streams: std::ops::Range<usize>,
}

/// A compiled phase.
#[derive(Debug, Clone)]
pub struct Phase {
    /// Name in reports.
    pub name: String,
    /// Whether its time counts.
    pub timed: bool,
    /// Fixed duration.
    pub seconds: Option<f64>,
    /// Objects freed when it begins.
    pub free: Vec<usize>,
    /// Objects allocated when it begins.
    pub allocate: Vec<usize>,
    /// Groups.
    pub groups: Vec<Group>,
    /// Streams of all groups.
    pub streams: Vec<Stream>,
}

/// A compiled workload.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Page size it was compiled for.
    pub page_bytes: u64,
    /// Pages of all objects.
    pub pages: u32,
    /// Most pages that exist at a time.
    pub peak_pages: u32,
    /// Objects, in order of first touch.
    pub objects: Vec<Object>,
    /// Phases.
    pub phases: Vec<Phase>,
    /// Order of execution: ranges of phases and how often each repeats.
    pub schedule: Vec<(std::ops::Range<usize>, u32)>,
    /// Most threads of any phase.
    pub max_threads: u32,
    /// Whether the program's first thread is none of them.
    pub first_thread_waits: bool,
}

impl Workload {
    /// The phases as they run, repetitions included.
    pub fn phases_in_order(&self) -> impl Iterator<Item = &Phase> {
        let repeated = self
            .schedule
            .iter()
            .flat_map(|(phases, repeat)| (0..*repeat).map(move |_| phases.clone()));
        repeated.flatten().map(|phase| &self.phases[phase])
    }

    /// Compiles `model` for pages of `page_bytes`.
    pub fn compile(model: &WorkloadModel, page_bytes: u64) -> Result<Self, RunError> {
        let mut first_page = 0u64;
        let mut objects = Vec::new();
        for object in &model.objects {
            // Streams find their object by its name.
            if objects.iter().any(|other: &Object| other.name == object.name) {
                return Err(RunError::Workload(format!("two objects are named '{}'", object.name)));
            }
            let pages = object.bytes.div_ceil(page_bytes).max(1);
            let mapped = object.mapping_bytes.unwrap_or(object.bytes).div_ceil(page_bytes).max(1);
            if first_page + pages > u64::from(u32::MAX) {
                return Err(RunError::Workload(format!(
                    "more than 2^32 pages of {page_bytes} bytes"
                )));
            }
            objects.push(Object {
                name: object.name.clone(),
                first_page: first_page as u32,
                pages: pages as u32,
                edges: vec![0, pages as u32],
                scatter: (object.scattered && pages > 1).then(|| Scatter::new(pages as u32)),
                site: 0,
                mapping_pages: u32::try_from(mapped).unwrap_or(u32::MAX),
                initial: true,
                side_by_side: object.side_by_side,
                freed_after: None,
                equal_pieces: false,
            });
            first_page += pages;
        }
        if objects.is_empty() {
            return Err(RunError::Workload("it has no objects".into()));
        }
        lifetime::settle(model, &mut objects)?;
        cut_pieces(model, &mut objects)?;
        let (mut phases, mut schedule, mut max_threads) = (Vec::new(), Vec::new(), 0);
        for block in &model.blocks {
            let start = phases.len();
            for phase in &block.phases {
                let mut streams = Vec::new();
                let mut groups = Vec::new();
                for group in &phase.groups {
                    check_group(&phase.name, phase.seconds, group)?;
                    for part in parts_of(group, page_bytes) {
                        let from = streams.len();
                        for stream in &group.streams {
                            streams.push(compile_stream(stream, &objects, &part)?);
                        }
                        groups.push(Group {
                            name: part.name,
                            threads: part.threads,
                            ops: group.ops.map(|ops| ops / f64::from(part.of)),
                            cpu_ns_per_op: group.cpu_ns_per_op,
                            locked_per_op: group.locked_per_op,
                            locked_lookups_per_op: group.locked_lookups_per_op.unwrap_or(group.locked_per_op),
                            streams: from..streams.len(),
                        });
                    }
                }
                if groups.is_empty() || (phase.seconds.is_none() && groups.iter().all(|g| g.ops.is_none())) {
                    return Err(RunError::Workload(format!(
                        "phase '{}' never ends: give it 'seconds' or a group with 'ops'",
                        phase.name
                    )));
                }
                max_threads = max_threads.max(groups.iter().map(|g| g.threads).sum());
                phases.push(Phase {
                    name: phase.name.clone(),
                    timed: !block.untimed,
                    seconds: phase.seconds,
                    free: lifetime::indices(&objects, &phase.free)?,
                    allocate: lifetime::indices(&objects, &phase.allocate)?,
                    groups,
                    streams,
                });
            }
            schedule.push((start..phases.len(), block.repeat));
        }
        if phases.is_empty() {
            return Err(RunError::Workload("it has no phases".into()));
        }
        if !phases.iter().any(|phase: &Phase| phase.timed) {
            return Err(RunError::Workload("none of its phases is timed".into()));
        }
        let mut workload = Self {
            page_bytes,
            pages: first_page as u32,
            peak_pages: 0,
            objects,
            phases,
            schedule,
            max_threads,
            first_thread_waits: model.first_thread_waits,
        };
        workload.peak_pages = lifetime::peak_pages(&workload)?;
        Ok(workload)
    }
}

/// A group, or one thread of it.
struct Part {
    name: String,
    threads: u32,
    index: u32,
    of: u32,
    page_bytes: u64,
}

/// Threads with parts of their own are groups of one: each has its share of the operations and its
/// own speed, and only it waits for its pages.
fn parts_of(group: &GroupModel, page_bytes: u64) -> Vec<Part> {
    if group.streams.iter().all(|s| !s.partitioned) {
        return vec![Part {
            name: group.name.clone(),
            threads: group.threads,
            index: 0,
            of: 1,
            page_bytes,
        }];
    }
    (0..group.threads)
        .map(|index| Part {
            name: format!("{} {index}", group.name),
            threads: 1,
            index,
            of: group.threads,
            page_bytes,
        })
        .collect()
}

/// Page positions where thread `index` of `of` has its part of `pages`.
fn part_range(pages: u32, index: u32, of: u32) -> (u32, u32) {
    let edge = |i: u32| (u64::from(pages) * u64::from(i) / u64::from(of)) as u32;
    (edge(index), edge(index + 1))
}

fn check_group(phase: &str, seconds: Option<f64>, group: &GroupModel) -> Result<(), RunError> {
    let bad = |what: &str, value: f64| {
        Err(RunError::Workload(format!(
            "phase '{phase}', group '{}': {what} is {value}",
            group.name
        )))
    };
    if group.threads == 0 {
        return bad("threads", 0.0);
    }
    if let Some(ops) = group.ops.filter(|o| !(*o > 0.0 && o.is_finite())) {
        return bad("ops", ops);
    }
    if let Some(seconds) = seconds.filter(|s| !(*s > 0.0 && s.is_finite())) {
        return bad("seconds", seconds);
    }
    if !(group.cpu_ns_per_op >= 0.0 && group.cpu_ns_per_op.is_finite()) {
        return bad("cpu_ns_per_op", group.cpu_ns_per_op);
    }
    if !(group.locked_per_op >= 0.0 && group.locked_per_op.is_finite()) {
        return bad("locked_per_op", group.locked_per_op);
    }
    let reads: f64 = group.streams.iter().map(|s| s.reads_per_op).sum();
    if group.cpu_ns_per_op + reads <= 0.0 {
        return bad("time per operation", 0.0);
    }
    Ok(())
}

/// Cuts every object where any law on it has an edge.
fn cut_pieces(model: &WorkloadModel, objects: &mut [Object]) -> Result<(), RunError> {
    let mut cuts: Vec<Vec<u32>> = objects.iter().map(|o| o.edges.clone()).collect();
    let mut binned: Vec<Option<usize>> = vec![None; objects.len()];
    let groups = model.blocks.iter().flat_map(|b| &b.phases).flat_map(|p| &p.groups);
    for (threads, stream) in groups.flat_map(|g| g.streams.iter().map(|s| (g.threads, s))) {
        let index = find_object(objects, &stream.object)?;
        if stream.partitioned {
            cuts[index].extend((0..threads).map(|i| part_range(objects[index].pages, i, threads).0));
        }
        if let Law::Bins { weights } = &stream.law {
            // All slices of a profile share their bins.
            if binned[index].replace(weights.len()) == Some(weights.len()) {
                continue;
            }
        }
        for edge in law::edges(&stream.law, objects[index].pages)? {
            cuts[index].push(edge);
        }
        if cuts[index].len() > 4 * MAX_PIECES {
            cuts[index].sort_unstable();
            cuts[index].dedup();
        }
    }
    for (object, mut edges) in objects.iter_mut().zip(cuts) {
        edges.sort_unstable();
        edges.dedup();
        if edges.len() - 1 > MAX_PIECES {
            return Err(RunError::Workload(format!(
                "object '{}' is cut in {} pieces; at most {MAX_PIECES} are supported",
                object.name,
                edges.len() - 1
            )));
        }
        let pieces = edges.len() as u64 - 1;
        object.equal_pieces = pieces > 8
            && edges.iter().enumerate().all(|(i, e)| {
                let ideal = i as u64 * u64::from(object.pages) / pieces;
                u64::from(*e).abs_diff(ideal) <= 1
            });
        object.edges = edges;
    }
    Ok(())
}

pub(crate) fn find_object(objects: &[Object], name: &str) -> Result<usize, RunError> {
    objects.iter().position(|o| o.name == name).ok_or_else(|| {
        let near = tiertune_policy::nearest::nearest(name, objects.iter().map(|o| o.name.as_str()));
        RunError::Workload(format!(
            "no object '{name}'; did you mean '{}'?",
            near.unwrap_or_default()
        ))
    })
}

fn compile_stream(model: &StreamModel, objects: &[Object], part: &Part) -> Result<Stream, RunError> {
    let index = find_object(objects, &model.object)?;
    let object = &objects[index];
    let rates = [model.reads_per_op, model.writebacks_per_op, model.stores_per_op];
    if rates.iter().any(|r| !(*r >= 0.0 && r.is_finite())) {
        return Err(RunError::Workload(format!(
            "stream on '{}': reads, write-backs and stores per op are {rates:?}",
            model.object
        )));
    }
    let popularity = if let Law::Sweep = model.law {
        if part.of > 1 {
            return Err(RunError::Workload(format!(
                "stream on '{}': a sweep is partitioned by itself and cannot stand beside a partitioned stream",
                model.object
            )));
        }
        Popularity::Sweep
    } else {
        let mut mass = law::mass(
            &model.law,
            object.pages,
            &object.edges,
            part.page_bytes as f64 / ZIPF_ITEM_BYTES,
        );
        if model.partitioned {
            let (from, to) = part_range(object.pages, part.index, part.of);
            for (mass, edges) in mass.iter_mut().zip(object.edges.windows(2)) {
                if edges[0] < from || edges[0] >= to {
                    *mass = 0.0;
                }
            }
        }
        let total: f64 = mass.iter().sum();
        if total <= 0.0 {
            return Err(RunError::Workload(format!(
                "stream on '{}': thread {} has nothing to touch in its part",
                model.object, part.index
            )));
        }
        let density = mass
            .iter()
            .zip(object.edges.windows(2))
            .map(|(m, e)| (m / total / f64::from(e[1] - e[0])) as f32)
            .collect();
        Popularity::Stationary {
            density,
            alias: AliasTable::new(&mass),
        }
    };
    let prefetched_share = model.prefetched_share.unwrap_or_else(|| model.class.prefetched_share());
    let random_share = model.random_share.unwrap_or_else(|| model.class.random_share());
    let mlp = model.mlp.unwrap_or(1.0);
    let shares = [prefetched_share, random_share];
    if shares.iter().any(|share| !(0.0..=1.0).contains(share)) || !(1.0..=64.0).contains(&mlp) {
        return Err(RunError::Workload(format!(
            "stream on '{}': prefetched_share {prefetched_share} and random_share {random_share} must lie in 0 to 1 and mlp {mlp} in \
             1 to 64",
            model.object
        )));
    }
    if !(model.llc_hits_per_op >= 0.0 && model.llc_hits_per_op.is_finite()) {
        return Err(RunError::Workload(format!(
            "stream on '{}': llc_hits_per_op is {}",
            model.object, model.llc_hits_per_op
        )));
    }
    let (visits_per_op, writes_per_op) = visits(model, matches!(popularity, Popularity::Sweep), part.page_bytes);
    Ok(Stream {
        object: index,
        popularity,
        class: model.class,
        reads_per_op: model.reads_per_op,
        writebacks_per_op: model.writebacks_per_op,
        stores_per_op: model.stores_per_op,
        mlp: model.mlp,
        prefetched_share,
        random_share,
        missed_llc: model.missed_llc,
        llc_hits_per_op: model.llc_hits_per_op,
        visits_per_op,
        writes_per_op,
        first_touch: model.first_touch,
    })
}

/// Visits of pages per operation, and those that write.
///
/// A random access is a visit of its own, and a store goes where the operation has read, if it reads. What
/// goes through memory in order visits a page once, however many lines it takes from it.
fn visits(model: &StreamModel, sweep: bool, page_bytes: u64) -> (f64, f64) {
    if sweep || model.class == AccessClass::Stream {
        let lines = model.reads_per_op.max(model.writebacks_per_op);
        let bytes = if lines > 0.0 {
            lines * LINE_BYTES
        } else {
            model.stores_per_op * WORD_BYTES
        };
        let pages = bytes / page_bytes as f64;
        return (pages, if model.stores_per_op > 0.0 { pages } else { 0.0 });
    }
    let reads = model.reads_per_op + model.llc_hits_per_op;
    (reads.max(model.stores_per_op), model.stores_per_op)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ObjectModel;

    fn model(law: Law, bytes: u64, scattered: bool) -> WorkloadModel {
        serde_json::from_value(serde_json::json!({
            "objects": [ObjectModel { name: "o".into(), bytes, scattered, site: None, mapping_bytes: None, side_by_side: false, freed_after: None }],
            "blocks": [{"phases": [{"name": "p", "groups": [{"name": "g", "threads": 2, "ops": 10.0,
                "cpu_ns_per_op": 1.0, "streams": [{"object": "o", "law": law, "class": "random", "reads_per_op": 1.0}]}]}]}],
        }))
        .expect("a valid model")
    }

    fn density(workload: &Workload) -> Vec<f32> {
        match &workload.phases[0].streams[0].popularity {
            Popularity::Stationary { density, .. } => density.clone(),
            Popularity::Sweep => unreachable!("a stationary law"),
        }
    }

    #[test]
    fn every_law_has_mass_one() {
        let laws = [
            Law::Uniform { from: 0.25, to: 0.5 },
            Law::Zipf { theta: 0.5 },
            Law::Zipf { theta: 1.0 },
            Law::Zipf { theta: 1.3 },
            Law::Pieces {
                edges: vec![0.0, 0.1, 0.11, 1.0],
                weights: vec![1.0, 5.0, 2.0],
            },
        ];
        for law in laws {
            let workload = Workload::compile(&model(law.clone(), 1 << 28, true), 4096).unwrap();
            let object = &workload.objects[0];
            let mass: f64 = density(&workload)
                .iter()
                .zip(object.edges.windows(2))
                .map(|(d, e)| f64::from(*d) * f64::from(e[1] - e[0]))
                .sum();
            assert!((mass - 1.0).abs() < 1e-4, "{law:?}: {mass}");
        }
    }

    #[test]
    fn zipf_is_the_discrete_law_on_pages_of_any_size() {
        for theta in [0.5, 0.99, 1.0, 1.2] {
            let items = 1 << 18;
            let total: f64 = (1..=items).map(|k| f64::from(k).powf(-theta)).sum();
            for (page_bytes, items_per_page) in [(4096, 1), (2 << 20, 512)] {
                let workload = Workload::compile(&model(Law::Zipf { theta }, 4096 << 18, false), page_bytes).unwrap();
                let share: f64 = (1..=items_per_page).map(|k| f64::from(k).powf(-theta)).sum::<f64>() / total;
                let first = f64::from(density(&workload)[0]);
                assert!(
                    (first / share - 1.0).abs() < 0.12,
                    "theta {theta}, {page_bytes}: {first} against {share}"
                );
                let object = &workload.objects[0];
                let half: f64 = (density(&workload).iter().zip(object.edges.windows(2)))
                    .filter(|(_, e)| e[1] <= object.pages / 8)
                    .map(|(d, e)| f64::from(*d) * f64::from(e[1] - e[0]))
                    .sum();
                let exact: f64 = (1..=items / 8).map(|k| f64::from(k).powf(-theta)).sum::<f64>() / total;
                assert!(
                    (half / exact - 1.0).abs() < 0.03,
                    "theta {theta}, {page_bytes}: {half} against {exact}"
                );
            }
        }
    }

    #[test]
    fn more_pieces_than_pages_add_up_on_the_pages() {
        let law = Law::Pieces {
            edges: (0..=1000).map(|i| f64::from(i) / 1000.0).collect(),
            weights: (0..1000).map(|i| if i < 500 { 3.0 } else { 1.0 }).collect(),
        };
        let workload = Workload::compile(&model(law, 8 * (2 << 20), false), 2 << 20).unwrap();
        let density = density(&workload);
        assert_eq!(density.len(), 8);
        assert!((density[0] / density[7] - 3.0).abs() < 0.05, "{density:?}");
    }

    #[test]
    fn pieces_and_positions_agree() {
        let law = Law::Pieces {
            edges: (0..=100).map(|i| f64::from(i) / 100.0).collect(),
            weights: (0..100).map(|i| f64::from(i + 1)).collect(),
        };
        let workload = Workload::compile(&model(law, 4096 * 12_345, true), 4096).unwrap();
        let object = &workload.objects[0];
        for position in 0..object.pages {
            let piece = object.piece_of(object.page_at(position));
            assert!(object.edges[piece] <= position && position < object.edges[piece + 1]);
        }
    }

    #[test]
    fn a_stream_without_a_random_share_has_its_class_value() {
        let mut model = model(Law::Sweep, 1 << 20, false);
        let mut share = |class, random_share| {
            let stream = &mut model.blocks[0].phases[0].groups[0].streams[0];
            (stream.class, stream.random_share) = (class, random_share);
            Workload::compile(&model, 4096).map(|workload| workload.phases[0].streams[0].random_share)
        };
        assert_eq!(share(AccessClass::Stream, None).unwrap(), 0.0);
        assert_eq!(share(AccessClass::Update, None).unwrap(), 1.0);
        assert_eq!(share(AccessClass::Update, Some(0.25)).unwrap(), 0.25);
        assert!(share(AccessClass::Update, Some(1.5)).is_err());
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = Workload::compile(&model(Law::Zipf { theta: 5.0 }, 4096, false), 4096).unwrap_err();
        assert!(error.to_string().contains("theta"), "{error}");
    }
}
