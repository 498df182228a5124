//! The loop: look for a moment, rest, and look again, until the process ends or time is up.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::area::Area;
use crate::referenced::Referenced;
use crate::tree::{Followed, Tree};
use crate::window::{Cell, Window, Windows};
use crate::written::Written;
use crate::{HostError, follow, probe, process};

/// How pages are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampler {
    /// Loads and stores in chunks of 2 MiB: accessed bits.
    Referenced,
    /// Stores in pages of 4 KiB: write protection.
    Written,
}

impl Sampler {
    /// All of them, the one that sees most first.
    pub const ALL: [Sampler; 2] = [Sampler::Referenced, Sampler::Written];

    /// Name on command lines and in profiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Sampler::Referenced => "referenced",
            Sampler::Written => "written",
        }
    }

    /// Tries it on memory of our own.
    ///
    /// # Errors
    /// With what this host lacks.
    pub fn probe(self) -> Result<(), HostError> {
        let found = match self {
            Sampler::Referenced => probe::referenced(),
            Sampler::Written => probe::written(),
        };
        found.map_err(|error| {
            let needs = match self {
                Sampler::Referenced => "clear_refs and smaps under /proc",
                Sampler::Written => "userfaultfd with asynchronous write protection and PAGEMAP_SCAN (Linux 6.7)",
            };
            HostError::Unfit(format!("the sampler {} needs {needs}: {error}", self.name()))
        })
    }
}

/// How long and how often.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Which sampler.
    pub sampler: Sampler,
    /// Most seconds; absent: until the process ends.
    pub seconds: Option<f64>,
    /// Least seconds from one look to the next.
    pub interval_s: f64,
    /// Most windows that looks are put together in.
    pub windows: usize,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// In order.
    pub windows: Vec<Window>,
    /// Areas of each process, by its number.
    pub areas: Vec<Vec<Area>>,
    /// Stretches of pages that were ever in memory: process, first page, page after the last.
    pub resident: Vec<(u16, u64, u64)>,
    /// Most threads at a time.
    pub threads: u32,
    /// Share of the time in which a look was being prepared or read, what the processes may feel.
    pub looking_share: f64,
    /// In words: what was left out.
    pub notes: Vec<String>,
}

/// Watched time starts at this and is fitted to how often pages are touched.
const FIRST_WATCH: Duration = Duration::from_millis(5);
const LEAST_WATCH: Duration = Duration::from_micros(300);
const MOST_WATCH: Duration = Duration::from_millis(200);
/// Preparing and reading looks takes at most this share of the time.
const LOOKING_SHARE: f64 = 0.1;
/// What a program pays for a page that is found written: a fault that takes the protection away (measured: 2 to 4 us).
const WRITE_FAULT: Duration = Duration::from_micros(4);
/// Share of the pages that a look should find touched: few enough for hot pages to stand out.
const TOUCHED_SHARE: f64 = 0.08;
/// A look that found too much, such as one at memory that is just being filled, is not rested for longer than this many
/// intervals: what comes next would go unseen.
const LONGEST_REST: f64 = 5.0;
const REFRESH_EVERY: Duration = Duration::from_secs(1);

enum Eyes {
    Referenced(Referenced),
    Written(Written),
}

impl Eyes {
    fn attach(&mut self, followed: &Followed) -> io::Result<()> {
        match self {
            Eyes::Referenced(eyes) => eyes.attach(followed),
            Eyes::Written(eyes) => eyes.attach(followed),
        }
    }

    fn refresh(&mut self, tree: &mut Tree) {
        match self {
            Eyes::Referenced(eyes) => eyes.refresh(tree),
            Eyes::Written(eyes) => eyes.refresh(tree),
        }
    }

    /// What a look costs the program itself, beside the time of looking.
    fn felt(&self, cells: &[Cell]) -> Duration {
        match self {
            Eyes::Referenced(_) => Duration::ZERO,
            Eyes::Written(_) => WRITE_FAULT * u32::try_from(cells.len()).unwrap_or(u32::MAX),
        }
    }

    fn look(&mut self, tree: &mut Tree, watched: Duration) -> Vec<Cell> {
        match self {
            Eyes::Referenced(eyes) => eyes.look(watched),
            Eyes::Written(eyes) => eyes.look(tree, watched),
        }
    }
}

/// Follows process `pid` and its children; `go_on` is asked between looks.
///
/// # Errors
/// When there is no such process, or when it may not be watched.
pub fn sample(pid: i32, options: Options, mut go_on: impl FnMut() -> bool) -> Result<Sample, HostError> {
    if !process::lives(pid) {
        return Err(HostError::Wrong(format!("there is no process {pid}")));
    }
    let mut eyes = match options.sampler {
        Sampler::Referenced => Eyes::Referenced(Referenced::default()),
        Sampler::Written => Eyes::Written(Written::default()),
    };
    let mut tree = Tree::default();
    let mut windows = Windows::new(options.windows);
    let mut watch = FIRST_WATCH;
    let begin = Instant::now();
    let mut refreshed: Option<Instant> = None;
    let (mut looking, mut unwatched) = (Duration::ZERO, 0);
    while process::lives(pid) && go_on() {
        let from = Instant::now();
        if refreshed.is_none_or(|then| then.elapsed() >= REFRESH_EVERY) {
            for number in tree.refresh(pid)? {
                unwatched += u32::from(!attached(&mut eyes, &tree, number, pid)?);
            }
            eyes.refresh(&mut tree);
            tree.note_resident();
            refreshed = Some(from);
        }
        let looked = Instant::now();
        let cells = eyes.look(&mut tree, watch);
        let spent = looked.elapsed().saturating_sub(watch);
        looking += from.elapsed().saturating_sub(watch);
        // What lies between protecting a page and reading it is watched, too: half of what both take together.
        let watched = watch + spent / 2;
        watch = next_watch(watch, &cells, &tree);
        let felt = eyes.felt(&cells).div_f64(LOOKING_SHARE);
        let felt = felt.min(Duration::from_secs_f64(LONGEST_REST * options.interval_s));
        let rest = Duration::from_secs_f64(options.interval_s)
            .max(spent.div_f64(LOOKING_SHARE))
            .max(felt);
        let rest = rest.saturating_sub(from.elapsed());
        let left = options
            .seconds
            .map(|seconds| Duration::from_secs_f64(seconds).saturating_sub(begin.elapsed()));
        nap(pid, rest.min(left.unwrap_or(rest)), &mut go_on);
        windows.add(Window {
            elapsed_s: from.elapsed().as_secs_f64(),
            cpu_ns: tree.cpu_ns(),
            looks: 1,
            watched_s: watched.as_secs_f64(),
            cells,
        });
        if left.is_some_and(|left| left <= rest) {
            break;
        }
    }
    tree.note_resident();
    let mut notes = Vec::new();
    if unwatched > 0 {
        notes.push(format!(
            "{unwatched} child processes could not be watched and are left out"
        ));
    }
    if tree.most_left_out > 0 {
        notes.push(format!(
            "{} or more processes at a time are left out: the program has more than {}",
            tree.most_left_out,
            follow::MOST_PROCESSES
        ));
    }
    if let Eyes::Referenced(eyes) = &eyes {
        notes.extend(eyes.blind.clone());
        if eyes.uncut > 0 {
            notes.push("areas that the program keeps out of core dumps are seen as a whole, not in chunks".to_owned());
        }
    }
    Ok(Sample {
        windows: windows.finish(),
        resident: tree.resident(),
        areas: tree.areas,
        threads: tree.most_threads,
        looking_share: looking.as_secs_f64() / begin.elapsed().as_secs_f64().max(1e-9),
        notes,
    })
}

/// Begins to watch a new process; false for a child that cannot be watched.
fn attached(eyes: &mut Eyes, tree: &Tree, number: u16, root: i32) -> Result<bool, HostError> {
    let Some(followed) = tree.followed.iter().find(|known| known.number == number) else {
        return Ok(true);
    };
    match eyes.attach(followed) {
        Ok(()) => Ok(true),
        Err(error) if followed.pid == root && process::lives(root) => Err(HostError::Unfit(format!(
            "process {root} cannot be watched ({error}); run as the user who started it or as root, where no debugger holds it"
        ))),
        Err(_) => Ok(!process::lives(followed.pid)),
    }
}

/// Watched time after a look: longer when few pages were touched, shorter when so many that hot ones do not stand out.
fn next_watch(watch: Duration, cells: &[Cell], tree: &Tree) -> Duration {
    let resident: u64 = tree.resident().iter().map(|(_, start, end)| end - start).sum();
    let share = cells.iter().map(|cell| f64::from(cell.hits)).sum::<f64>() / resident.max(1) as f64;
    let next = watch.mul_f64((TOUCHED_SHARE / share.max(1e-6)).clamp(0.2, 1.5));
    next.clamp(LEAST_WATCH, MOST_WATCH)
}

/// Sleeps, but not longer than the process lives.
fn nap(pid: i32, long: Duration, go_on: &mut impl FnMut() -> bool) {
    let until = Instant::now() + long;
    while let Some(left) = until
        .checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
    {
        if !process::lives(pid) || !go_on() {
            return;
        }
        sleep(left.min(Duration::from_millis(50)));
    }
}
