//! The processes that are followed: the first one and all that it starts.

use std::collections::BTreeMap;

use crate::area::{Area, joined, mappings};
use crate::pagemap::{PRESENT, Pagemap, SWAPPED};
use crate::{HostError, follow, process};

/// One process with one program.
#[derive(Debug)]
pub(crate) struct Followed {
    pub pid: i32,
    /// Number in the sample.
    pub number: u16,
    pub image: String,
    pub pagemap: Pagemap,
    /// Mappings as they were when last looked at.
    pub mappings: Vec<Area>,
    cpu_ns: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub followed: Vec<Followed>,
    /// Areas of all processes ever followed, by number.
    pub areas: Vec<Vec<Area>>,
    /// Pages that were ever in memory, as stretches, by number.
    resident: Vec<BTreeMap<u64, u64>>,
    /// Most threads that the processes had at a time.
    pub most_threads: u32,
    /// Most processes at a time that are not followed, since there are too many.
    pub most_left_out: usize,
}

impl Tree {
    /// Brings the list up to date from the process `root` on; the new ones.
    ///
    /// # Errors
    /// When the root's memory may not be looked at.
    pub fn refresh(&mut self, root: i32) -> Result<Vec<u16>, HostError> {
        let follow::Numbers { pids, left_out } = follow::numbers(root);
        self.most_left_out = self.most_left_out.max(left_out);
        self.followed.retain(|known| {
            process::image(known.pid).is_some_and(|image| image == known.image) && process::lives(known.pid)
        });
        let mut new = Vec::new();
        for pid in pids {
            if self.followed.iter().any(|known| known.pid == pid) || !process::lives(pid) {
                continue;
            }
            let Some(image) = process::image(pid) else { continue };
            match Pagemap::open(pid) {
                Ok(pagemap) => {
                    let number = self.areas.len() as u16;
                    self.areas.push(Vec::new());
                    self.resident.push(BTreeMap::new());
                    // What it used before it was followed is not part of the sample.
                    let cpu_ns = process::cpu_ns(pid).unwrap_or(0);
                    self.followed.push(Followed {
                        pid,
                        number,
                        image,
                        pagemap,
                        mappings: Vec::new(),
                        cpu_ns,
                    });
                    new.push(number);
                }
                Err(error) if pid == root && process::lives(pid) => {
                    return Err(HostError::Unfit(format!(
                        "the memory of process {pid} may not be looked at ({error}); run as the user who started it, or as root"
                    )));
                }
                Err(_) => {}
            }
        }
        self.most_threads = self
            .most_threads
            .max(self.followed.iter().map(|known| process::threads(known.pid)).sum());
        for known in &mut self.followed {
            known.mappings = mappings(known.pid);
            let areas = &mut self.areas[known.number as usize];
            areas.extend(known.mappings.iter().cloned());
            *areas = joined(std::mem::take(areas));
        }
        Ok(new)
    }

    /// Notes which pages are there.
    pub fn note_resident(&mut self) {
        for known in &mut self.followed {
            let resident = &mut self.resident[known.number as usize];
            for area in &known.mappings {
                // A process that ends meanwhile has no pages any more.
                let _ = known
                    .pagemap
                    .each(area.start, area.end, 0, PRESENT | SWAPPED, |start, end| {
                        add(resident, start, end)
                    });
            }
        }
    }

    /// Processor time of all processes since the last call.
    pub fn cpu_ns(&mut self) -> u64 {
        let spent = self.followed.iter_mut().map(|known| {
            let now = process::cpu_ns(known.pid).unwrap_or(known.cpu_ns);
            let spent = now.saturating_sub(known.cpu_ns);
            known.cpu_ns = now;
            spent
        });
        spent.sum()
    }

    /// Stretches of pages that were ever in memory: process, first page, page after the last.
    pub fn resident(&self) -> Vec<(u16, u64, u64)> {
        let each = self.resident.iter().enumerate();
        each.flat_map(|(number, stretches)| stretches.iter().map(move |(start, end)| (number as u16, *start, *end)))
            .collect()
    }
}

/// Adds `start..end` to stretches that neither touch nor overlap.
fn add(stretches: &mut BTreeMap<u64, u64>, mut start: u64, mut end: u64) {
    while let Some((from, to)) = stretches.range(..=end).next_back().map(|(from, to)| (*from, *to)) {
        if to < start {
            break;
        }
        if from <= start && to >= end {
            return;
        }
        start = start.min(from);
        end = end.max(to);
        stretches.remove(&from);
    }
    stretches.insert(start, end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_join() {
        let mut stretches = BTreeMap::new();
        for (start, end) in [
            (10, 20),
            (30, 40),
            (50, 60),
            (20, 30),
            (12, 15),
            (5, 70),
            (80, 81),
            (70, 79),
        ] {
            add(&mut stretches, start, end);
        }
        assert_eq!(stretches.into_iter().collect::<Vec<_>>(), [(5, 79), (80, 81)]);
    }
}
