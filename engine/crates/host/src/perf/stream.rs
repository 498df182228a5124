//! One event on several processors, read as one stream of samples.

use std::io;
use std::os::fd::OwnedFd;

use super::attributes::{self, Attributes, Scope};
use super::record::{self, Record, Sample};
use super::ring::Ring;
use crate::source::Drained;

/// Pages of each ring's data: half a mebibyte, what the kernel lets anybody lock for each processor.
const DATA_PAGES: usize = 128;

/// The rings of an event.
#[derive(Debug, Default)]
pub(super) struct Stream {
    rings: Vec<Ring>,
    /// Events that are only counted, since their followers need them.
    leaders: Vec<OwnedFd>,
    fields: u64,
    bytes: Vec<u8>,
}

impl Stream {
    /// Opens and starts the event in each scope, beside `leader` where it needs one. A processor that was switched off
    /// meanwhile is left out.
    pub fn open(event: &Attributes, leader: Option<&Attributes>, scopes: &[Scope]) -> io::Result<Self> {
        let mut stream = Self {
            fields: event.fields,
            ..Self::default()
        };
        for scope in scopes {
            match stream.add(event, leader, *scope) {
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) && scopes.len() > 1 => {}
                other => other?,
            }
        }
        Ok(stream)
    }

    fn add(&mut self, event: &Attributes, leader: Option<&Attributes>, scope: Scope) -> io::Result<()> {
        let first = leader.map(|leader| leader.open(scope, None)).transpose()?;
        let ring = Ring::new(event.open(scope, first.as_ref())?, DATA_PAGES)?;
        attributes::switch(ring.event(), true)?;
        if let Some(first) = first {
            attributes::switch(&first, true)?;
            self.leaders.push(first);
        }
        self.rings.push(ring);
        Ok(())
    }

    /// Calls `visit` with each sample since the last call: those of one processor in order, one processor after the other.
    pub fn drain(&mut self, mut visit: impl FnMut(&Sample<'_>)) -> Drained {
        let mut drained = Drained::default();
        for ring in &mut self.rings {
            self.bytes.clear();
            let whole = ring.take(&mut self.bytes);
            let left = record::decode(&self.bytes, self.fields, |record| {
                drained.records += 1;
                match record {
                    Record::Sample(sample) => visit(&sample),
                    Record::Lost(count) => drained.lost += count,
                    Record::Throttled => drained.throttled += 1,
                    Record::Malformed(_) => drained.lost += 1,
                    Record::Unthrottled | Record::Other(_) => {}
                }
            });
            // What cannot be read counts as one loss: nobody knows how many records it was.
            drained.lost += u64::from(!whole || left > 0);
        }
        drained
    }

    /// Changes the events from one sample to the next.
    pub fn set_period(&self, period: u64) -> io::Result<()> {
        self.rings
            .iter()
            .try_for_each(|ring| attributes::set_period(ring.event(), period))
    }
}
