//! The accessor of native runs: real memory, real threads, and the time that every phase takes.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use crate::class::AccessClass;
use crate::memory::{Memory, ObjectId, ObjectSpec, Phase};

/// A phase of a native run.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// The phase.
    pub phase: Phase,
    /// When it started, in seconds from the start of the run.
    pub start_s: f64,
    /// How long it took.
    pub seconds: f64,
    /// Operations done in it.
    pub ops: u64,
}

/// What a native run says while it goes on.
#[derive(Debug)]
pub enum Event<'a> {
    /// An object is there; seconds from the start of the run.
    Allocated(&'a ObjectSpec, f64),
    /// A phase starts.
    Started(&'a Phase, f64),
    /// A phase is over.
    Ended(&'a Mark),
}

type Listener = Box<dyn FnMut(Event<'_>) + Send>;

/// Runs a kernel on real memory with real threads: accesses are not announced, so the compiler removes all that is not the
/// kernel's own.
pub struct Host {
    threads: usize,
    origin: Instant,
    running: Option<(Phase, f64)>,
    ops: u64,
    marks: Vec<Mark>,
    listener: Option<Listener>,
}

impl Host {
    /// An accessor for so many threads.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self {
            threads: threads.max(1),
            origin: Instant::now(),
            running: None,
            ops: 0,
            marks: Vec::new(),
            listener: None,
        }
    }

    /// The same with something that hears of phases and objects at once.
    #[must_use]
    pub fn listening(mut self, listener: impl FnMut(Event<'_>) + Send + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// All phases that are over.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Seconds and operations of all timed phases.
    #[must_use]
    pub fn timed(&self) -> (f64, u64) {
        let timed = || self.marks.iter().filter(|mark| mark.phase.timed);
        (
            timed().map(|mark| mark.seconds).sum(),
            timed().map(|mark| mark.ops).sum(),
        )
    }

    fn now(&self) -> f64 {
        self.origin.elapsed().as_secs_f64()
    }
}

impl Memory for Host {
    fn allocate(&mut self, spec: &ObjectSpec) -> ObjectId {
        let now = self.now();
        if let Some(listener) = &mut self.listener {
            listener(Event::Allocated(spec, now));
        }
        ObjectId(0)
    }

    #[inline(always)]
    fn load(&mut self, _object: ObjectId, _offset: usize, _class: AccessClass) {}

    #[inline(always)]
    fn store(&mut self, _object: ObjectId, _offset: usize, _class: AccessClass) {}

    #[inline(always)]
    fn load_lines(&mut self, _object: ObjectId, _offset: usize, _bytes: usize, _class: AccessClass) {}

    #[inline(always)]
    fn store_lines(&mut self, _object: ObjectId, _offset: usize, _bytes: usize, _class: AccessClass) {}

    fn phase(&mut self, phase: Phase) {
        self.end();
        let now = self.now();
        if let Some(listener) = &mut self.listener {
            listener(Event::Started(&phase, now));
        }
        self.running = Some((phase, self.now()));
    }

    fn end(&mut self) {
        if let Some((phase, start_s)) = self.running.take() {
            let mark = Mark {
                phase,
                start_s,
                seconds: self.now() - start_s,
                ops: self.ops,
            };
            if let Some(listener) = &mut self.listener {
                listener(Event::Ended(&mark));
            }
            self.marks.push(mark);
        }
        self.ops = 0;
    }

    #[inline(always)]
    fn ops(&mut self, count: u64) {
        self.ops += count;
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn for_chunks(&mut self, range: Range<usize>, chunk: usize, body: impl Fn(&mut Self, Range<usize>) + Sync) {
        let chunk = chunk.max(1);
        if self.threads == 1 || range.len() <= chunk {
            let mut start = range.start;
            while start < range.end {
                let end = range.end.min(start + chunk);
                body(self, start..end);
                start = end;
            }
            return;
        }
        let next = AtomicUsize::new(range.start);
        let done = Mutex::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    let mut worker = Host::new(self.threads);
                    loop {
                        let start = next.fetch_add(chunk, Relaxed);
                        if start >= range.end {
                            break;
                        }
                        body(&mut worker, start..range.end.min(start + chunk));
                    }
                    if let Ok(mut sum) = done.lock() {
                        *sum += worker.ops;
                    }
                });
            }
        });
        self.ops += done.into_inner().unwrap_or(0);
    }
}
