//! A process with a known hot set, which tests move about: `hotset FOLDER BYTES HOT_BYTES [NODE]`.
//!
//! It touches every page of the hot range some hundred times a second and the others now and then. What it has is in
//! `FOLDER/state`; it does what is written to the pipe `FOLDER/control`, a line each: `hot OFFSET`, `grow BYTES`, `shrink`,
//! `fork`, `reap`, `work MS`, `exit CODE`. It touches hot pages once before it rests, or for as long as `work` says. With a
//! node its memory begins there, whatever policy it was started with.
// Maps memory and forks by system calls.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
/// Rounds over the hot pages from one to the next over a part of the cold ones.
const ROUNDS: usize = 64;
const COLD_PARTS: usize = 64;
const REST: Duration = Duration::from_millis(3);

/// Maps memory without huge pages, on a node where one is given, and fills it.
fn map(bytes: usize, node: Option<u32>) -> usize {
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping, filled within its bounds.
    unsafe {
        let place = libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0);
        assert_ne!(place, libc::MAP_FAILED, "no memory");
        libc::madvise(place, bytes, libc::MADV_NOHUGEPAGE);
        let bind =
            |mode: libc::c_int, mask: u64| libc::syscall(libc::SYS_mbind, place, bytes, mode, &raw const mask, 64, 0);
        if let Some(node) = node {
            assert_eq!(bind(libc::MPOL_BIND, 1 << node), 0, "no node {node}");
        }
        for page in 0..bytes / PAGE {
            place.cast::<u8>().add(page * PAGE).write_volatile(1);
        }
        if node.is_some() {
            bind(libc::MPOL_DEFAULT, 0);
        }
        place as usize
    }
}

fn touch(place: usize, pages: std::ops::Range<usize>) {
    for page in pages {
        // SAFETY: within the mapping, which lasts as long as the process.
        unsafe {
            let byte = (place as *mut u8).add(page * PAGE + page % 64 * 64);
            byte.write_volatile(byte.read_volatile().wrapping_add(1));
        }
    }
}

/// What the thread that touches pages is told.
#[derive(Default)]
struct Wanted {
    /// Where the hot range begins.
    hot: AtomicUsize,
    /// How long it touches hot pages before it rests; balancing scans by a process's processor time.
    work_ms: AtomicUsize,
}

/// Touches for ever.
fn work(place: usize, bytes: usize, hot_bytes: usize, wanted: &Wanted) -> ! {
    let (pages, mut round) = (bytes / PAGE, 0);
    loop {
        let begin = Instant::now();
        loop {
            let first = wanted.hot.load(Ordering::Relaxed) / PAGE;
            touch(place, first..first + hot_bytes / PAGE);
            if begin.elapsed() >= Duration::from_millis(wanted.work_ms.load(Ordering::Relaxed) as u64) {
                break;
            }
        }
        if round % ROUNDS == 0 {
            let part = round / ROUNDS % COLD_PARTS;
            touch(place, pages * part / COLD_PARTS..pages * (part + 1) / COLD_PARTS);
        }
        round += 1;
        std::thread::sleep(REST);
    }
}

struct Process {
    folder: PathBuf,
    place: usize,
    bytes: usize,
    hot_bytes: usize,
    wanted: Arc<Wanted>,
    grown: Vec<(usize, usize)>,
    children: Vec<i32>,
    done: usize,
}

impl Process {
    /// Written beside and moved, so that nobody reads half of it.
    fn tell(&self) {
        let (place, bytes, hot_bytes, done) = (self.place, self.bytes, self.hot_bytes, self.done);
        let (pid, hot) = (std::process::id(), self.wanted.hot.load(Ordering::Relaxed));
        let grown: Vec<String> = self
            .grown
            .iter()
            .map(|(place, bytes)| format!("[{place}, {bytes}]"))
            .collect();
        let text = format!(
            r#"{{"pid": {pid}, "address": {place}, "bytes": {bytes}, "hot": {hot}, "hot_bytes": {hot_bytes}, "grown": [{}], "children": {:?}, "done": {done}}}"#,
            grown.join(", "),
            self.children
        );
        let beside = self.folder.join("state.new");
        fs::write(&beside, text).expect("a state");
        fs::rename(beside, self.folder.join("state")).expect("a state");
    }

    fn fork(&mut self) {
        // SAFETY: the child uses nothing that another thread could have locked.
        let child = unsafe { libc::fork() };
        if child == 0 {
            work(self.place, self.bytes, self.hot_bytes, &self.wanted);
        }
        self.children.push(child);
    }

    fn obey(&mut self, line: &str) {
        let (word, number) = line.split_once(' ').unwrap_or((line, "0"));
        let number: usize = number.trim().parse().expect("a number");
        match word.trim() {
            "hot" => self.wanted.hot.store(number, Ordering::Relaxed),
            "work" => self.wanted.work_ms.store(number, Ordering::Relaxed),
            "grow" => self.grown.push((map(number, None), number)),
            "shrink" => {
                if let Some((place, bytes)) = self.grown.pop() {
                    // SAFETY: nobody touches it.
                    unsafe { libc::munmap(place as *mut libc::c_void, bytes) };
                }
            }
            "fork" => self.fork(),
            "reap" => {
                for child in self.children.drain(..) {
                    // SAFETY: a child of ours.
                    unsafe {
                        libc::kill(child, libc::SIGKILL);
                        libc::waitpid(child, std::ptr::null_mut(), 0);
                    }
                }
            }
            "exit" => std::process::exit(number as i32),
            other => panic!("no such command: {other}"),
        }
        self.done += 1;
        self.tell();
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |place: usize| -> usize { words[place].parse().expect("a number") };
    let folder = Path::new(&words[1]).to_owned();
    let (bytes, hot_bytes) = (number(2), number(3));
    let node = words.get(4).map(|word| word.parse().expect("a node"));
    let wanted = Arc::new(Wanted::default());
    let place = map(bytes, node);
    let (grown, children) = (Vec::new(), Vec::new());
    let mut process = Process {
        folder,
        place,
        bytes,
        hot_bytes,
        wanted: Arc::clone(&wanted),
        grown,
        children,
        done: 0,
    };
    std::thread::spawn(move || work(place, bytes, hot_bytes, &wanted));
    process.tell();
    let control = process.folder.join("control");
    loop {
        // The pipe ends whenever a writer closes it.
        let lines = BufReader::new(File::open(&control).expect("a pipe"));
        for line in lines.lines() {
            process.obey(&line.expect("a line"));
        }
    }
}
