//! Which line a thread reads next.

use super::{Reference, Thread, Visit};
use crate::workload::{LINE_BYTES, Popularity, Stream};

impl Reference<'_> {
    /// The next line of a stream: page and line number over all memory.
    pub(super) fn next_line(&self, stream: &Stream, thread: &mut Thread, i: usize, threads: u32) -> (u32, u64) {
        let object = &self.driver.workload.objects[stream.object];
        let lines_per_page = self.driver.workload.page_bytes / LINE_BYTES as u64;
        match &stream.popularity {
            Popularity::Stationary { alias, .. } => {
                if let Some(visit) = thread.visits[i].as_mut().filter(|visit| visit.left >= 1.0) {
                    visit.left -= 1.0;
                    visit.line = (visit.line + 1) % lines_per_page;
                    return (visit.page, u64::from(visit.page) * lines_per_page + visit.line);
                }
                let piece = alias.draw((thread.rng.next_u64() >> 32) as u32);
                let (from, to) = (object.edges[piece], object.edges[piece + 1]);
                let page = object.page_at(from + thread.rng.below(u64::from(to - from)) as u32);
                let line = thread.rng.below(lines_per_page);
                if stream.in_order() {
                    let lines = stream.lines_per_visit();
                    // Phases are cut anywhere: the first page of one has been gone through in part.
                    let left = match thread.visits[i] {
                        Some(visit) => visit.left + lines,
                        None => lines * thread.rng.next_f64(),
                    };
                    thread.visits[i] = Some(Visit {
                        page,
                        line,
                        left: left - 1.0,
                    });
                }
                (page, u64::from(page) * lines_per_page + line)
            }
            Popularity::Sweep => {
                let line = self.swept_line(stream, thread, i, threads);
                thread.swept_lines[i] += 1;
                line
            }
        }
    }

    /// Lines of a thread's part of what it sweeps.
    pub(super) fn lines_swept(&self, stream: &Stream, threads: u32) -> u64 {
        let pages = self.driver.workload.objects[stream.object].pages;
        let lines = u64::from(pages) * self.driver.workload.page_bytes / LINE_BYTES as u64;
        (lines / u64::from(threads)).max(1)
    }

    /// Where the sweep of a thread stands.
    pub(super) fn swept_line(&self, stream: &Stream, thread: &Thread, i: usize, threads: u32) -> (u32, u64) {
        let object = &self.driver.workload.objects[stream.object];
        let lines_per_page = self.driver.workload.page_bytes / LINE_BYTES as u64;
        let part = self.lines_swept(stream, threads);
        let line = u64::from(thread.index) * part + thread.swept_lines[i] % part;
        let page = object.page_at((line / lines_per_page) as u32);
        (page, u64::from(page) * lines_per_page + line % lines_per_page)
    }
}
