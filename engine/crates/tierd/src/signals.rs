//! What policies are told of accesses: the signals that they need from those that this host has.
//!
//! Hardware samples, hint faults and accessed bits are passed on as they are where a source has them. Otherwise they are
//! made of what there is, where that is honest, and the report says how; where it is not, the policy is refused.

use std::collections::BTreeMap;

use serde::Serialize;
use tiertune_host::source::{Access, AccessKind, Signals};
use tiertune_policy::{CounterRng, Event, Fault, FaultKind, Nanos, Needs, Page, PageMap, Sample, SamplerRequest};

use crate::table::{Accessed, BLOCK_FRAMES, FRAME_BYTES, LOOKED_UP, Table};

/// A signal that policies get otherwise than they were made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Emulated {
    /// The signal.
    pub signal: &'static str,
    /// What it is made of.
    pub from: &'static str,
    /// How, and what that does not show.
    pub how: &'static str,
}

/// Why a policy cannot run here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unmet {
    /// No live host can offer it.
    #[error("it needs {0}, which only the simulated machine has")]
    Never(&'static str),
    /// The sources that are open do not offer it.
    #[error("it needs {signal}, and {open} cannot stand for that; {instead}")]
    Here {
        /// What is missing.
        signal: &'static str,
        /// The sources.
        open: String,
        /// What would help.
        instead: &'static str,
    },
}

/// All that several sources offer together.
#[must_use]
pub fn together(all: impl IntoIterator<Item = Signals>) -> Signals {
    all.into_iter().fold(Signals::default(), |sum, one| Signals {
        load_misses: sum.load_misses || one.load_misses,
        slow_load_misses: sum.slow_load_misses || one.slow_load_misses,
        stores: sum.stores || one.stores,
        hint_faults: sum.hint_faults || one.hint_faults,
        accessed_bits: sum.accessed_bits || one.accessed_bits,
        written_bits: sum.written_bits || one.written_bits,
    })
}

/// The kind of hardware record that an event is.
#[must_use]
pub fn kind_of(event: Event) -> AccessKind {
    match event {
        Event::LoadMiss => AccessKind::LoadMiss,
        Event::Store => AccessKind::Store,
        Event::SlowLoadMiss => AccessKind::SlowLoadMiss,
    }
}

fn offers(signals: &Signals, event: Event) -> bool {
    match event {
        Event::LoadMiss => signals.load_misses,
        Event::Store => signals.stores,
        Event::SlowLoadMiss => signals.slow_load_misses || signals.load_misses,
    }
}

fn any_bits(signals: &Signals) -> bool {
    signals.accessed_bits || signals.written_bits
}

/// One event that a policy wants samples of.
#[derive(Debug, Clone)]
struct Stream {
    event: Event,
    /// Events a record that are wanted now.
    period: u64,
    /// Events that one observation of a bit stands for: the period of the policy's defaults.
    nominal: u64,
    /// Records come from hardware that counts.
    real: bool,
}

/// What the driver does with accesses.
#[derive(Debug)]
pub struct Translator {
    streams: Vec<Stream>,
    hint_faults: bool,
    emulates_faults: bool,
    accessed_bits: bool,
    /// When each page was armed, in units of 100 us, plus one; 0 for pages that are not. Only where faults are made up.
    armed: Vec<u32>,
    threads: BTreeMap<i32, u32>,
    fast_node: u32,
    rng: CounterRng,
    /// What was made of what.
    pub emulated: Vec<Emulated>,
    /// Accesses to memory that is not managed.
    pub elsewhere: u64,
    /// Events that samples stand for so far, by tier: what the software counters count.
    pub events: [f64; 2],
}

const ARM_UNIT_NS: u64 = 100_000;
/// Domain of the random numbers here.
const STREAMS: u64 = 2;

/// What a policy is to be told of after a drain.
#[derive(Debug, Default)]
pub struct News {
    /// In the order recorded.
    pub samples: Vec<Sample>,
    /// In the order of time.
    pub faults: Vec<Fault>,
}

impl Translator {
    /// Finds out whether sources that offer `signals`, called `open`, are enough for a policy.
    ///
    /// # Errors
    /// With what is missing.
    pub fn new(
        requests: &[SamplerRequest],
        nominal: &[SamplerRequest],
        needs: Needs,
        signals: &Signals,
        open: &str,
        seed: u64,
    ) -> Result<Self, Unmet> {
        if needs.truth {
            return Err(Unmet::Never("the truth about future accesses"));
        }
        let missing = |signal, instead| Unmet::Here {
            signal,
            open: if open.is_empty() {
                "no source".to_owned()
            } else {
                open.to_owned()
            },
            instead,
        };
        const BITS: &str = "a source of accessed or written bits could (tierd probe names those that work here)";
        let mut emulated = Vec::new();
        let mut streams = Vec::new();
        for request in requests {
            let real = offers(signals, request.event);
            if !real && !any_bits(signals) {
                return Err(missing("hardware samples", BITS));
            }
            streams.push(Stream {
                event: request.event,
                period: request.period.max(1),
                nominal: nominal
                    .iter()
                    .find(|other| other.event == request.event)
                    .map_or(request.period, |other| other.period)
                    .max(1),
                real,
            });
        }
        if streams.iter().any(|stream| !stream.real) {
            emulated.push(Emulated {
                signal: "hardware samples",
                from: bits_name(signals),
                how: if signals.accessed_bits {
                    "each page that a look finds used counts as the events of one default period, and a record is made \
                     every period: a shorter period than the default cannot be had; how often a page was used between \
                     two looks is not seen"
                } else {
                    "each page that a look finds written counts as the events of one default period, of stores where \
                     the policy samples stores and of loads otherwise: a shorter period than the default cannot be had; \
                     pages that are only read are not seen, nor how often a page was written between two looks"
                },
            });
        }
        let emulates_faults = needs.hint_faults && !signals.hint_faults;
        if emulates_faults {
            if !any_bits(signals) {
                return Err(missing("hint faults", BITS));
            }
            emulated.push(Emulated {
                signal: "hint faults",
                from: bits_name(signals),
                how: if signals.accessed_bits {
                    "an armed page that a look finds used has faulted at the time of the look"
                } else {
                    "an armed page that a look finds written has faulted at the time of the look; reads are not seen"
                },
            });
        }
        if needs.hint_faults && signals.hint_faults {
            emulated.push(Emulated {
                signal: "hint faults",
                from: "the kernel's NUMA balancing",
                how: "which pages are armed, and when, is the choice of the kernel's scanner: the policy's own scans decide \
                      only what it does itself",
            });
        }
        if needs.accessed_bits {
            if !any_bits(signals) {
                return Err(missing("accessed bits", BITS));
            }
            if !signals.accessed_bits {
                emulated.push(Emulated {
                    signal: "accessed bits",
                    from: bits_name(signals),
                    how: "a page that was written was accessed; reads are not seen",
                });
            }
        }
        Ok(Self {
            streams,
            hint_faults: needs.hint_faults,
            emulates_faults,
            accessed_bits: needs.accessed_bits,
            armed: Vec::new(),
            threads: BTreeMap::new(),
            fast_node: 0,
            rng: CounterRng::new(seed, &[STREAMS]),
            emulated,
            elsewhere: 0,
            events: [0.0; 2],
        })
    }

    /// Records that name a node mean this one by the fast tier.
    #[must_use]
    pub fn with_fast_node(mut self, node: u32) -> Self {
        self.fast_node = node;
        self
    }

    /// Events a record by event, as they are now; an emulated one is not shorter than the nominal one.
    #[must_use]
    pub fn periods(&self) -> Vec<(Event, u64, bool)> {
        let each = self.streams.iter();
        each.map(|stream| {
            let period = if stream.real {
                stream.period
            } else {
                stream.period.max(stream.nominal)
            };
            (stream.event, period, stream.real)
        })
        .collect()
    }

    /// The policy wants another period; whether a source has to be told.
    pub fn set_period(&mut self, event: Event, period: u64) -> bool {
        let mut real = false;
        for stream in self.streams.iter_mut().filter(|stream| stream.event == event) {
            stream.period = period.max(1);
            real |= stream.real;
        }
        real
    }

    /// The policy wants to hear of the first touch of these pages.
    pub fn arm(&mut self, pages: std::ops::Range<Page>, now: Nanos) {
        if !self.emulates_faults {
            return;
        }
        if self.armed.len() < pages.end as usize {
            self.armed.resize(pages.end as usize, 0);
        }
        let stamp = u32::try_from(now / ARM_UNIT_NS).unwrap_or(u32::MAX - 1) + 1;
        for armed in &mut self.armed[pages.start as usize..pages.end as usize] {
            if *armed == 0 {
                *armed = stamp;
            }
        }
    }

    /// A page came, moved, or went: its guard is gone.
    pub fn disarm(&mut self, page: Page) {
        if let Some(armed) = self.armed.get_mut(page as usize) {
            *armed = 0;
        }
    }

    /// Bytes that are kept by page.
    #[must_use]
    pub fn own_bytes(&self) -> u64 {
        self.armed.capacity() as u64 * 4
    }

    /// Whether faults come with the thread that took them.
    #[must_use]
    pub fn names_threads(&self) -> bool {
        self.hint_faults && !self.emulates_faults
    }

    /// The threads that accesses have named, with their numbers.
    pub fn threads(&self) -> impl Iterator<Item = (i32, u32)> {
        self.threads.iter().map(|(tid, number)| (*tid, *number))
    }

    fn thread(&mut self, tid: i32) -> u32 {
        let next = self.threads.len() as u32;
        *self.threads.entry(tid).or_insert(next)
    }

    /// Makes of accesses what the policy is told; `time` turns the clock's time into the policy's.
    pub fn translate(
        &mut self,
        accesses: &[Access],
        table: &mut Table,
        accessed: &mut Accessed,
        time: impl Fn(u64) -> Nanos,
    ) -> News {
        let mut news = News::default();
        let mut previous = None;
        let place = |access: &Access| (access.pid, access.address / FRAME_BYTES / BLOCK_FRAMES as u64);
        let mut blocks = [None; LOOKED_UP];
        for (nth, access) in accesses.iter().enumerate() {
            if nth % LOOKED_UP == 0 {
                blocks = table.find_all(accesses[nth..].iter().map(place));
            }
            let first = access.address / FRAME_BYTES;
            let last = (access.address + access.bytes.max(1) - 1) / FRAME_BYTES;
            let step = table.page_frames() as u64;
            let (mut frame, mut known) = (first, false);
            while frame <= last {
                let found = match frame == first {
                    true => blocks[nth % LOOKED_UP],
                    false => table.find(access.pid, frame / BLOCK_FRAMES as u64),
                };
                let Some(number) = found else {
                    frame = (frame / BLOCK_FRAMES as u64 + 1) * BLOCK_FRAMES as u64;
                    continue;
                };
                table.see(number, access.time_ns);
                if let Some(page) = table.page_in(number, frame) {
                    known = true;
                    // A look finds a page used or not, however many of its parts were.
                    let again = previous == Some((page, access.kind)) && is_bit(access.kind);
                    previous = Some((page, access.kind));
                    if !again {
                        self.take(access, page, table, accessed, &time, &mut news);
                    }
                }
                frame = (frame / step + 1) * step;
            }
            self.elsewhere += u64::from(!known);
        }
        news.faults.sort_by_key(|fault| fault.at);
        news
    }

    fn take(
        &mut self,
        access: &Access,
        page: Page,
        table: &Table,
        accessed: &mut Accessed,
        time: &impl Fn(u64) -> Nanos,
        news: &mut News,
    ) {
        // What a record says is more recent than what the table knows.
        let named = access.node.map(|node| u8::from(node != self.fast_node));
        let tier = named.unwrap_or_else(|| table.tier_of(page));
        let at = time(access.time_ns);
        let is_bit = is_bit(access.kind);
        if self.accessed_bits {
            accessed.set(page);
        }
        if access.kind == AccessKind::HintFault {
            if self.hint_faults && !self.emulates_faults {
                news.faults.push(Fault {
                    page,
                    tier,
                    kind: FaultKind::Hint,
                    armed_at: access.armed_ns.map_or(at, time).min(at),
                    at,
                    thread: self.thread(access.thread),
                });
            }
            return;
        }
        if is_bit && self.emulates_faults {
            if let Some(armed) = self.armed.get_mut(page as usize).filter(|armed| **armed != 0) {
                let armed_at = u64::from(std::mem::take(armed) - 1) * ARM_UNIT_NS;
                news.faults.push(Fault {
                    page,
                    tier,
                    kind: FaultKind::Hint,
                    armed_at: armed_at.min(at),
                    at,
                    thread: self.thread(access.thread),
                });
            }
        }
        let samples_stores = self.streams.iter().any(|stream| stream.event == Event::Store);
        for stream in &mut self.streams {
            let matches = match (access.kind, stream.event) {
                (AccessKind::LoadMiss, Event::LoadMiss) | (AccessKind::Store, Event::Store) => stream.real,
                (AccessKind::SlowLoadMiss, Event::SlowLoadMiss) => stream.real,
                // The general event serves where there is none for slow memory alone.
                (AccessKind::LoadMiss, Event::SlowLoadMiss) => stream.real && tier != 0,
                (AccessKind::Accessed, Event::LoadMiss) => !stream.real,
                (AccessKind::Accessed, Event::SlowLoadMiss) => !stream.real && tier != 0,
                (AccessKind::Written, Event::Store) => !stream.real,
                (AccessKind::Written, Event::LoadMiss) => !stream.real && !samples_stores,
                (AccessKind::Written, Event::SlowLoadMiss) => !stream.real && !samples_stores && tier != 0,
                _ => false,
            };
            if !matches {
                continue;
            }
            let sample = Sample {
                page,
                tier,
                event: stream.event,
            };
            if stream.real {
                if stream.event != Event::Store {
                    self.events[usize::from(tier)] += stream.period as f64;
                }
                news.samples.push(sample);
                continue;
            }
            let weight = f64::from(access.weight);
            self.events[usize::from(tier)] += weight * stream.nominal as f64;
            // By chance, not by counting: looks go through memory in order, so that counting would always leave out the
            // same pages.
            let records = weight * (stream.nominal as f64 / stream.period as f64).min(1.0);
            let one_more = self.rng.next_f64() < records.fract();
            for _ in 0..records as u64 + u64::from(one_more) {
                news.samples.push(sample);
            }
        }
        if self.streams.is_empty() && is_bit {
            // Nobody samples, but counters may be wanted: an observation is one event.
            self.events[usize::from(tier)] += f64::from(access.weight);
        }
    }
}

fn is_bit(kind: AccessKind) -> bool {
    matches!(kind, AccessKind::Accessed | AccessKind::Written)
}

fn bits_name(signals: &Signals) -> &'static str {
    if signals.accessed_bits {
        "accessed bits"
    } else {
        "written bits"
    }
}
