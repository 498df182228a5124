//! Sees loads and stores, in chunks of 2 MiB: accessed bits that `clear_refs` takes away and `smaps` counts.
//!
//! The kernel counts them for each mapping, so large mappings are cut: every other chunk is left out of core dumps for
//! the time of the sampling, which is the mildest property that mappings differ by. Any Linux.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::thread::sleep;
use std::time::Duration;

use crate::PAGE_BYTES;
use crate::area::parse;
use crate::inject::Held;
use crate::pagemap::{PRESENT, Pagemap};
use crate::translations::Translations;
use crate::tree::{Followed, Tree};
use crate::window::Cell;

const CHUNK_PAGES: u64 = 512;
/// Mappings that a process may be cut into; the kernel's limit is 65 530 by default.
const MOST_CUTS: usize = 24_000;

/// Accessed bits of one process, by chunk.
#[derive(Debug)]
pub(crate) struct Bits {
    pid: i32,
    /// First page and the page after the last of each chunk that was cut out.
    cuts: Vec<(u64, u64)>,
    /// An error where the kernel or another watcher does not let them be dropped.
    translations: io::Result<Translations>,
}

/// The sampler of accesses.
#[derive(Debug, Default)]
pub(crate) struct Referenced {
    processes: BTreeMap<u16, Bits>,
    /// Why the hottest pages of some process may go unseen.
    pub blind: Option<String>,
    /// Mappings of which the user wants no core dump, so that they are not cut.
    pub uncut: u64,
}

/// One entry of `smaps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    start: u64,
    end: u64,
    data: bool,
    resident_pages: u64,
    referenced_pages: u64,
    undumped: bool,
}

fn entries(text: &str) -> Vec<Entry> {
    let mut result: Vec<Entry> = Vec::new();
    for line in text.lines() {
        if line.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
            || line.as_bytes().first().is_some_and(u8::is_ascii_digit)
        {
            if let Some((area, data)) = parse(line) {
                let (start, end) = (area.start, area.end);
                result.push(Entry {
                    start,
                    end,
                    data,
                    resident_pages: 0,
                    referenced_pages: 0,
                    undumped: false,
                });
            }
            continue;
        }
        let Some(entry) = result.last_mut() else { continue };
        let pages = |text: &str| {
            text.split_ascii_whitespace()
                .next()
                .and_then(|word| word.parse::<u64>().ok())
                .unwrap_or(0)
                / (PAGE_BYTES >> 10)
        };
        match line.split_once(':') {
            Some(("Rss", value)) => entry.resident_pages = pages(value),
            Some(("Referenced", value)) => entry.referenced_pages = pages(value),
            Some(("VmFlags", value)) => entry.undumped = value.split_ascii_whitespace().any(|flag| flag == "dd"),
            _ => {}
        }
    }
    result
}

fn smaps(pid: i32) -> Vec<Entry> {
    entries(&fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default())
}

impl Bits {
    /// Finds out whether the process lets itself be looked at.
    pub fn of(pid: i32) -> io::Result<Self> {
        clear_referenced(pid)?;
        Ok(Self {
            pid,
            cuts: Vec::new(),
            translations: Translations::of(pid),
        })
    }

    /// Why its hottest pages may go unseen, where that is so.
    pub fn blind(&self) -> Option<String> {
        let error = self.translations.as_ref().err()?;
        Some(format!(
            "pages that are used all the time may be seen too seldom: processors cannot be made to look up their \
             translations again ({error})"
        ))
    }

    /// Clears the bits, so that what is touched from now on has them.
    pub fn clear(&self) -> io::Result<()> {
        clear_referenced(self.pid)?;
        // Fails for a process that became another program, which is attached to anew.
        let _ = self.translations.as_ref().map(Translations::forget);
        Ok(())
    }

    /// Stretches of pages that were touched since the bits were cleared: first page, pages, pages touched.
    pub fn touched(&self) -> Vec<(u64, u64, u64)> {
        let entries = smaps(self.pid).into_iter();
        let touched = entries.filter(|entry| entry.data && entry.referenced_pages > 0);
        touched
            .map(|entry| (entry.start, entry.end - entry.start, entry.referenced_pages))
            .collect()
    }

    /// Cuts large mappings that are new into chunks; how many of them the user wants no core dump of, so that they are
    /// left whole.
    pub fn cut(&mut self, pagemap: &mut Pagemap) -> u64 {
        let (mut wanted, mut uncut): (Vec<(u64, u64)>, u64) = (Vec::new(), 0);
        let large = smaps(self.pid)
            .into_iter()
            .filter(|entry| entry.data && entry.end - entry.start > CHUNK_PAGES && entry.resident_pages > 0);
        for entry in large {
            let ours = self
                .cuts
                .iter()
                .any(|(start, end)| *start < entry.end && *end > entry.start);
            if entry.undumped && !ours {
                uncut += 1;
                continue;
            }
            // Only where there are pages: address space is reserved by the terabyte.
            let _ = pagemap.each(entry.start, entry.end, PRESENT, 0, |from, to| {
                for chunk in (from / CHUNK_PAGES..=(to - 1) / CHUNK_PAGES).filter(|chunk| chunk % 2 == 1) {
                    let cut = (
                        (chunk * CHUNK_PAGES).max(entry.start),
                        ((chunk + 1) * CHUNK_PAGES).min(entry.end),
                    );
                    if wanted.last() != Some(&cut) {
                        wanted.push(cut);
                    }
                }
            });
        }
        wanted.retain(|(start, end)| !self.cuts.iter().any(|(from, to)| from <= start && end <= to));
        wanted.truncate(MOST_CUTS.saturating_sub(self.cuts.len()));
        if wanted.is_empty() {
            return uncut;
        }
        let Ok(mut held) = Held::stop(self.pid) else {
            return uncut;
        };
        for (start, end) in wanted {
            if dump(&mut held, start, end, libc::MADV_DONTDUMP).is_ok() {
                self.cuts.push((start, end));
            }
        }
        uncut
    }

    /// Puts mappings together again.
    pub fn mend(&self) {
        if self.cuts.is_empty() {
            return;
        }
        let Ok(mut held) = Held::stop(self.pid) else { return };
        for (start, end) in &self.cuts {
            let _ = dump(&mut held, *start, *end, libc::MADV_DODUMP);
        }
    }
}

fn clear_referenced(pid: i32) -> io::Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "1")
}

impl Referenced {
    /// Begins with a process.
    pub fn attach(&mut self, followed: &Followed) -> io::Result<()> {
        let bits = Bits::of(followed.pid)?;
        self.blind = bits.blind().or(self.blind.take());
        self.processes.insert(followed.number, bits);
        Ok(())
    }

    /// Cuts what is new into chunks.
    pub fn refresh(&mut self, tree: &mut Tree) {
        let followed = |number: &u16| tree.followed.iter().any(|known| known.number == *number);
        self.processes.retain(|number, _| followed(number));
        for known in &mut tree.followed {
            if let Some(bits) = self.processes.get_mut(&known.number) {
                self.uncut += bits.cut(&mut known.pagemap);
            }
        }
    }

    /// Clears the accessed bits, waits, and counts those that are set again.
    pub fn look(&mut self, watched: Duration) -> Vec<Cell> {
        for bits in self.processes.values() {
            // Fails for processes that end, which have nothing to be seen.
            let _ = bits.clear();
        }
        sleep(watched);
        let mut cells = Vec::new();
        for (process, bits) in &self.processes {
            cells.extend(bits.touched().into_iter().map(|(start, pages, hits)| Cell {
                process: *process,
                start,
                pages: pages as u32,
                hits: hits as u32,
            }));
        }
        cells.sort_unstable();
        cells
    }
}

fn dump(held: &mut Held, start: u64, end: u64, advice: i32) -> io::Result<u64> {
    held.call(
        libc::SYS_madvise,
        [start * PAGE_BYTES, (end - start) * PAGE_BYTES, advice as u64],
    )
}

impl Drop for Referenced {
    /// Puts the mappings together again.
    fn drop(&mut self) {
        self.processes.values().for_each(Bits::mend);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_the_kernel() {
        let text = "7f0000000000-7f0000400000 rw-p 00000000 00:00 0 \nSize:               4096 kB\nRss:                2048 kB\n\
                    Referenced:          512 kB\nAnonymous:          2048 kB\nVmFlags: rd wr mr mw me ac dd \n\
                    7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0  [vdso]\nRss: 4 kB\nReferenced: 4 kB\nVmFlags: rd ex\n";
        let found = entries(text);
        let expected = Entry {
            start: 0x7_f000_0000,
            end: 0x7_f000_0400,
            data: true,
            resident_pages: 512,
            referenced_pages: 128,
            undumped: true,
        };
        assert_eq!(found[0], expected);
        assert!(!found[1].data);
    }
}
