//! Following the workload's memory: processes that come and go, mappings, pages that appear and vanish, where the kernel
//! says that they are, and the cap of the fast tier.

use tiertune_host::{Area, HostError};
use tiertune_policy::{Interleave, Page, PageMap, Placement};

use crate::driver::{Driver, Managed};
use crate::kernel::{Kernel, Process, Refusal};
use crate::mover::{Frame, elsewhere};
use crate::table::{BLOCK_FRAMES, FRAME_BYTES, Frames, Piece};

/// What a run that sees nothing of its workload would pass off as one that had nothing to move.
const UNSEEN: &str = "nothing of the workload's memory can be seen (/proc/PID/pagemap, move_pages); it takes root, in a container \
    CAP_SYS_PTRACE and CAP_SYS_NICE, and a filter of system calls that lets move_pages pass";

/// What is found in a block: its frames in memory, and which of its frames belong to which mapping.
#[derive(Debug, Default)]
struct Found {
    present: Frames,
    /// First frame, the one after the last, and the place of the mapping in the process's list.
    parts: Vec<(usize, usize, usize)>,
}

impl<K: Kernel> Driver<K> {
    /// Looks for processes and memory that came or went; with `full`, asks the kernel where every page is.
    pub(crate) fn refresh(&mut self, full: bool) -> Result<(), HostError> {
        let begun = self.kernel.own_cpu_ns();
        let moving = self.spent.migration_ns + self.spent.policy_ns;
        self.counts.refreshes += 1;
        let processes = self.kernel.processes();
        let left_out = self.kernel.left_out() as u64;
        self.counts.unmanaged_processes = self.counts.unmanaged_processes.max(left_out);
        let gone: Vec<i32> = self
            .managed
            .iter()
            .filter(|(pid, known)| {
                !processes
                    .iter()
                    .any(|process| process.pid == **pid && process.image == known.image)
            })
            .map(|(pid, _)| *pid)
            .collect();
        // Who has which frames is another matter after a fork or an exit.
        let forked = self.has_unknown(&processes);
        let full = full || forked || !gone.is_empty();
        if full {
            self.counts.resyncs += 1;
            self.frames_seen.clear();
            self.table.begin_count();
        }
        for pid in gone {
            self.forget(pid);
        }
        self.counts.unmanaged_bytes = 0;
        // All of them are known before the first is looked at: whether pages are counted by frame depends on it.
        for process in &processes {
            if !self.managed.contains_key(&process.pid) {
                self.take_up(process.pid, process.image.clone())?;
            }
        }
        for process in &processes {
            self.follow(process.pid, full)?;
        }
        // What a child that nobody knew kept is not counted yet.
        if full && !(self.table.doubts() && self.has_unknown_process()) {
            self.table.settle_doubts();
        }
        if let Some(reason) = self.refused.take()
            && self.table.present_bytes() == 0
            && self.kernel.lives()
        {
            return Err(HostError::Unfit(format!("{UNSEEN}: {reason}")));
        }
        self.keep_cap();
        self.deliver_migrations();
        self.placing = true;
        let inside = self.spent.migration_ns + self.spent.policy_ns - moving;
        self.spent.memory_ns += (self.kernel.own_cpu_ns() - begun).saturating_sub(inside);
        Ok(())
    }

    /// Whether one of them is not managed yet.
    fn has_unknown(&self, processes: &[Process]) -> bool {
        processes.iter().any(|process| !self.managed.contains_key(&process.pid))
    }

    /// Whether a process was started since the last look at them.
    fn has_unknown_process(&mut self) -> bool {
        let processes = self.kernel.processes();
        self.has_unknown(&processes)
    }

    fn take_up(&mut self, pid: i32, image: String) -> Result<(), HostError> {
        let first = self.counts.processes == 0;
        self.counts.processes += 1;
        let mut unwatched = false;
        for source in &mut self.sources {
            match source.attach(pid) {
                Ok(()) => {}
                // Without its first process there is nothing to be seen; a child may end before it can be looked at.
                Err(error) if first => return Err(error),
                Err(_) => unwatched = true,
            }
        }
        self.counts.unwatched += u64::from(unwatched);
        self.managed.insert(
            pid,
            Managed {
                image,
                areas: Vec::new(),
                objects: Vec::new(),
            },
        );
        Ok(())
    }

    /// A process has ended, or runs another program.
    fn forget(&mut self, pid: i32) {
        for number in self.table.blocks_of(pid) {
            self.settle(pid, number, &Found::default(), false);
        }
        self.managed.remove(&pid);
        self.kernel.forget(pid);
        self.sources.iter_mut().for_each(|source| source.forget(pid));
    }

    fn follow(&mut self, pid: i32, full: bool) -> Result<(), HostError> {
        let areas = self.kernel.areas(pid);
        let Some(known) = self.managed.get_mut(&pid) else {
            return Ok(());
        };
        if known.areas != areas {
            // A mapping that overlaps one that was there is the same one, grown or cut.
            let next_object = &mut self.next_object;
            let objects: Vec<u32> = areas
                .iter()
                .map(|area| {
                    let before = known
                        .areas
                        .iter()
                        .position(|old| old.start < area.end && area.start < old.end);
                    before.map_or_else(
                        || {
                            *next_object += 1;
                            *next_object - 1
                        },
                        |place| known.objects[place],
                    )
                })
                .collect();
            known.areas.clone_from(&areas);
            known.objects = objects;
            for source in &mut self.sources {
                if let Err(error) = source.areas(pid, &areas) {
                    if self.kernel.processes().iter().any(|process| process.pid == pid) {
                        return Err(error);
                    }
                }
            }
        }
        let mut blocks: Vec<(u64, Found)> = Vec::new();
        for (place, area) in areas.iter().enumerate() {
            let looked = self.kernel.resident(pid, area, &mut |start, end| {
                each_block(start.max(area.start), end.min(area.end), |chunk, from, to| {
                    if blocks.last().is_none_or(|(last, _)| *last != chunk) {
                        blocks.push((chunk, Found::default()));
                    }
                    if let Some((_, found)) = blocks.last_mut() {
                        (from..to).for_each(|frame| found.present.set(frame, true));
                        found.parts.push((from, to, place));
                    }
                });
            });
            if let Err(refusal) = looked {
                // It is ending, which the next look at the processes will show, or may not be looked at.
                self.refuse(&refusal);
                return Ok(());
            }
        }
        let before = self.table.blocks_of(pid);
        for number in before {
            let chunk = self.table.block(number).chunk;
            if blocks.binary_search_by_key(&chunk, |(chunk, _)| *chunk).is_err() {
                self.settle(pid, number, &Found::default(), full);
            }
        }
        for (chunk, found) in &blocks {
            match self.table.find(pid, *chunk).or_else(|| self.table.take(pid, *chunk)) {
                Some(number) => self.settle(pid, number, found, full),
                None => {
                    self.counts.unmanaged_bytes += u64::from(found.present.count(0, BLOCK_FRAMES)) * FRAME_BYTES;
                }
            }
        }
        Ok(())
    }

    /// Brings a block up to date, and tells the policy what came and went.
    fn settle(&mut self, pid: i32, number: u32, found: &Found, full: bool) {
        let old = self.table.block(number).present;
        if old == found.present && !full {
            return;
        }
        let (present, fast) = self.located(pid, number, found, full);
        let frames = self.table.page_frames();
        let exists = |present: &Frames, place: u16| {
            let from = usize::from(place) * frames;
            present.count(from, from + frames) > 0
        };
        let pieces = self.table.block(number).pieces.clone();
        let (kept, broken): (Vec<Piece>, Vec<Piece>) = pieces
            .into_iter()
            .partition(|piece| (piece.start..piece.end).all(|place| exists(&present, place)));
        for piece in broken {
            self.free(number, &piece);
        }
        let tiers: Vec<(u16, u8)> = kept
            .iter()
            .flat_map(|piece| piece.start..piece.end)
            .map(|place| {
                (
                    place,
                    self.table.tier_of(self.table.first_page(number) + Page::from(place)),
                )
            })
            .collect();
        let block = self.table.block(number);
        let given_up = block.fast.without(&block.counted_elsewhere).without(&fast);
        // What this process has given up, another may have kept.
        if !given_up.is_empty() && (self.managed.len() > 1 || self.has_unknown_process()) {
            self.table.doubt(u64::from(given_up.count(0, BLOCK_FRAMES)));
        }
        for frame in 0..BLOCK_FRAMES {
            let tier = present.has(frame).then(|| u8::from(!fast.has(frame)));
            self.table.note(number, frame, tier);
        }
        self.count_shared(pid, number, &old, full);
        self.complete(number, &tiers, &old);
        let flipped: Vec<Piece> = kept
            .iter()
            .filter(|piece| {
                tiers.iter().any(|(place, tier)| {
                    piece.start <= *place
                        && *place < piece.end
                        && self.table.tier_of(self.table.first_page(number) + Page::from(*place)) != *tier
                })
            })
            .copied()
            .collect();
        for piece in flipped {
            self.counts.foreign_pages += u64::from(piece.end - piece.start);
            self.tell_again(number, &piece);
        }
        self.take_new(pid, number, found, &present);
        if self.table.block(number).present.is_empty() {
            // New pages may be gone again before they are placed.
            for piece in self.table.block(number).pieces.clone() {
                self.free(number, &piece);
            }
            self.table.give_back(number);
        }
    }

    /// Which frames are really there, and which of them in the fast tier: the kernel is asked about those that are new,
    /// or about all of them.
    fn located(&mut self, pid: i32, number: u32, found: &Found, full: bool) -> (Frames, Frames) {
        let block = self.table.block(number);
        let (chunk, mut fast) = (block.chunk, block.fast.and(&found.present));
        let mut present = found.present;
        let asked = if full { present } else { present.without(&block.present) };
        let asked: Vec<usize> = asked.iter().collect();
        if asked.is_empty() {
            return (present, fast);
        }
        let pages: Vec<u64> = asked
            .iter()
            .map(|frame| chunk * BLOCK_FRAMES as u64 + *frame as u64)
            .collect();
        match self.kernel.nodes(pid, &pages) {
            Ok(nodes) => {
                for (frame, node) in asked.iter().zip(nodes) {
                    // A page of zeros that was only read has no frame of its own.
                    present.set(*frame, node >= 0);
                    fast.set(*frame, node == self.options.nodes[0] as i32);
                }
            }
            // It has ended since. What it had in the fast tier, it has given up.
            Err(refusal) => {
                self.refuse(&refusal);
                for frame in asked {
                    present.set(frame, false);
                    fast.set(frame, false);
                }
            }
        }
        (present, fast)
    }

    /// Notes why something of a process that lives is not seen.
    fn refuse(&mut self, refusal: &Refusal) {
        if *refusal != Refusal::Gone {
            self.refused = Some(refusal.to_string());
        }
    }

    /// Counts fast frames that several processes have once.
    fn count_shared(&mut self, pid: i32, number: u32, old: &Frames, full: bool) {
        let block = self.table.block(number);
        let (chunk, fast) = (block.chunk, block.fast);
        let asked: Vec<usize> = if full { fast } else { fast.without(old) }.iter().collect();
        if asked.is_empty() || (self.managed.len() < 2 && block.counted_elsewhere.is_empty()) {
            return;
        }
        let pages: Vec<u64> = asked
            .iter()
            .map(|frame| chunk * BLOCK_FRAMES as u64 + *frame as u64)
            .collect();
        let shared = self.kernel.shared(pid, &pages).unwrap_or_default();
        for (frame, shared) in asked.into_iter().zip(shared) {
            // Between two questions about everything, what appears and is shared is shared with what was there.
            let elsewhere = shared != 0 && (!full || !self.frames_seen.insert(shared));
            self.table.note_counted_elsewhere(number, frame, elsewhere);
        }
    }

    /// New parts of large pages follow the rest into the fast tier, as far as there is room.
    fn complete(&mut self, number: u32, tiers: &[(u16, u8)], old: &Frames) {
        if self.table.page_frames() == 1 {
            return;
        }
        for (place, tier) in tiers {
            let page = self.table.first_page(number) + Page::from(*place);
            let mut frames = elsewhere(page, 0, &self.table);
            frames.retain(|(_, frame)| !old.has(*frame));
            if *tier == 0 && !frames.is_empty() && frames.len() as u64 <= self.table.room_frames() {
                self.move_now(&frames, 0);
            }
        }
    }

    fn move_now(&mut self, frames: &[Frame], tier: u8) {
        let begun = self.kernel.own_cpu_ns();
        self.mover.move_frames(frames, tier, &mut self.kernel, &mut self.table);
        self.spent.migration_ns += self.kernel.own_cpu_ns() - begun;
    }

    /// Tells the policy of pages that it does not know yet, and puts them where it wants them.
    fn take_new(&mut self, pid: i32, number: u32, found: &Found, present: &Frames) {
        let frames = self.table.page_frames();
        let known = self.table.block(number).pieces.clone();
        let is_known = |place: usize| {
            known
                .iter()
                .any(|piece| usize::from(piece.start) <= place && place < usize::from(piece.end))
        };
        let mut new: Vec<(usize, usize, usize)> = Vec::new();
        for (from, to, area) in &found.parts {
            for place in from / frames..to.div_ceil(frames) {
                let exists = present.count(place * frames, (place + 1) * frames) > 0;
                if !exists || is_known(place) {
                    continue;
                }
                match new.last_mut() {
                    // A page of several mappings belongs to the first.
                    Some((_, end, _)) if *end > place => {}
                    Some((_, end, of)) if *end == place && *of == *area => *end += 1,
                    _ => new.push((place, place + 1, *area)),
                }
            }
        }
        for (start, end, area) in new {
            let Some(managed) = self.managed.get(&pid) else { return };
            let (object, area) = (managed.objects[area], managed.areas[area].clone());
            let piece = Piece {
                start: start as u16,
                end: end as u16,
                object,
                site: self.site(&area),
                whole_pages: u32::try_from((area.end - area.start).div_ceil(frames as u64)).unwrap_or(u32::MAX),
            };
            let pieces = self.table.pieces_mut(number);
            pieces.push(piece);
            pieces.sort_by_key(|piece| piece.start);
            self.tell(number, &piece, self.placing);
        }
    }

    /// Mappings of one purpose count as allocated in one place of the program: more is not seen from outside.
    fn site(&mut self, area: &Area) -> u32 {
        let known = self.sites.iter().position(|label| *label == area.label);
        known.unwrap_or_else(|| {
            self.sites.push(area.label.clone());
            self.sites.len() - 1
        }) as u32
    }

    /// A piece as new to the policy; with `place`, its pages go where the policy says.
    fn tell(&mut self, number: u32, piece: &Piece, place: bool) {
        let extent = self.table.extent(number, piece);
        for page in extent.start..extent.start + extent.pages {
            self.accessed.set(page);
            self.translator.disarm(page);
        }
        let placement = self.call(|policy, cx| policy.on_alloc(&extent, cx));
        if place {
            let mut frames: Vec<Frame> = Vec::new();
            for (nth, page) in (extent.start..extent.start + extent.pages).enumerate() {
                let page_frames = elsewhere(page, 0, &self.table);
                let room = self.table.room_frames() - frames.len() as u64;
                if page_frames.len() as u64 <= room
                    && wants_fast(&placement, nth as u32, room, self.table.page_frames())
                {
                    frames.extend(page_frames);
                }
            }
            if !frames.is_empty() {
                let before = self.mover.tally.promoted_bytes;
                self.move_now(&frames, 0);
                self.mover.tally.placed_bytes += self.mover.tally.promoted_bytes - before;
            }
        }
        self.deliver_migrations();
    }

    /// A piece is gone for the policy.
    fn free(&mut self, number: u32, piece: &Piece) {
        let extent = self.table.extent(number, piece);
        let now = self.now();
        self.call(|policy, cx| policy.on_free(&extent, cx));
        self.mover.cancel(extent.start, extent.start + extent.pages, now);
        self.deliver_migrations();
        let pieces = self.table.pieces_mut(number);
        pieces.retain(|known| known.start != piece.start);
        for page in extent.start..extent.start + extent.pages {
            self.translator.disarm(page);
        }
    }

    /// Pages have changed tiers without the policy's doing, which it can only take as new ones in their place.
    fn tell_again(&mut self, number: u32, piece: &Piece) {
        self.free(number, piece);
        let pieces = self.table.pieces_mut(number);
        pieces.push(*piece);
        pieces.sort_by_key(|piece| piece.start);
        self.tell(number, piece, false);
    }

    /// Moves what is above the cap to the slow tier, what was seen longest ago first.
    pub(crate) fn keep_cap(&mut self) {
        let cap = self.table.cap_bytes();
        let over = self.table.fast_bytes().saturating_sub(cap);
        if over == 0 {
            return;
        }
        self.counts.over_cap += 1;
        self.counts.most_over_cap_bytes = self.counts.most_over_cap_bytes.max(over);
        let mut blocks: Vec<(u64, u32)> = self
            .table
            .used_blocks()
            .filter(|(_, block)| !block.fast.is_empty())
            .map(|(number, block)| (block.seen_ns, number))
            .collect();
        blocks.sort_unstable();
        let before = self.mover.tally.demoted_bytes;
        for (_, number) in blocks {
            let over = self.table.fast_bytes().saturating_sub(cap);
            if over == 0 {
                break;
            }
            self.evict(number, over.div_ceil(FRAME_BYTES));
        }
        self.mover.tally.excess_bytes += self.mover.tally.demoted_bytes - before;
        let left = self.table.fast_bytes().saturating_sub(cap);
        self.counts.most_left_over_cap_bytes = self.counts.most_left_over_cap_bytes.max(left);
    }

    /// Moves frames of a block, whole pages of them, to the slow tier.
    fn evict(&mut self, number: u32, frames: u64) {
        let mut chosen: Vec<Frame> = Vec::new();
        let mut touched: Vec<Piece> = Vec::new();
        for piece in self.table.block(number).pieces.clone() {
            for place in piece.start..piece.end {
                if chosen.len() as u64 >= frames {
                    break;
                }
                let page = self.table.first_page(number) + Page::from(place);
                let of_page = elsewhere(page, 1, &self.table);
                if !of_page.is_empty() && touched.last() != Some(&piece) {
                    touched.push(piece);
                }
                chosen.extend(of_page);
            }
        }
        self.move_now(&chosen, 1);
        for piece in touched {
            self.tell_again(number, &piece);
        }
    }
}

/// Splits a stretch of pages at the borders of blocks: chunk, first frame, the one after the last.
fn each_block(start: u64, end: u64, mut each: impl FnMut(u64, usize, usize)) {
    let mut from = start;
    while from < end {
        let chunk = from / BLOCK_FRAMES as u64;
        let to = end.min((chunk + 1) * BLOCK_FRAMES as u64);
        let first = chunk * BLOCK_FRAMES as u64;
        each(chunk, (from - first) as usize, (to - first) as usize);
        from = to;
    }
}

/// Whether the `nth` page of an extent is to begin in the fast tier, which has `room` frames.
fn wants_fast(placement: &Placement, nth: u32, room: u64, page_frames: usize) -> bool {
    let in_round = |interleave: &Interleave| {
        interleave
            .run_at((interleave.position + nth) % interleave.round_pages(2))
            .0
    };
    match placement {
        Placement::FastestFree | Placement::FastUnbounded => true,
        Placement::FastestAbove { free_pages } => room > u64::from(*free_pages) * page_frames as u64,
        Placement::Parts { part_pages, fast } => {
            let part = nth / part_pages.max(&1);
            fast[(part as usize / 64).min(3)] >> (part % 64) & 1 == 1
        }
        Placement::SlowestFree => false,
        Placement::Interleaved(interleave) => in_round(interleave) == 0,
        Placement::ByPage(tiers) => tiers.get(nth as usize) == Some(&0),
    }
}
