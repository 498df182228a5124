//! The page table of the managed processes: which pages there are, under which number policies know them, and in which
//! tier the kernel said that they are.
//!
//! Address space is taken in blocks of 2 MiB: a block has 512 page numbers in a row where pages of 4 KiB are managed, so
//! that a huge page's worth of them is aligned for policies as it is for the kernel, and one where pages of 2 MiB are.

use std::collections::{BTreeMap, HashMap, VecDeque};

use tiertune_policy::{AccessedBits, Extent, Page, PageMap, Tier};

/// Frames of 4 KiB in a block.
pub const BLOCK_FRAMES: usize = 512;
/// Bytes of a frame.
pub const FRAME_BYTES: u64 = 4096;
const WORDS: usize = BLOCK_FRAMES / 64;
/// Samples whose blocks are looked up together: few enough that all stays in the nearest caches.
pub const LOOKED_UP: usize = 16;

/// A bit for every frame of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frames(pub [u64; WORDS]);

impl Frames {
    /// Whether the frame is in it.
    #[must_use]
    pub fn has(&self, frame: usize) -> bool {
        self.0[frame / 64] >> (frame % 64) & 1 == 1
    }

    /// Puts the frame in or takes it out.
    pub fn set(&mut self, frame: usize, value: bool) {
        let (word, bit) = (&mut self.0[frame / 64], 1u64 << (frame % 64));
        *word = if value { *word | bit } else { *word & !bit };
    }

    /// How many of `from..to` are in it.
    #[must_use]
    pub fn count(&self, from: usize, to: usize) -> u32 {
        if (from, to) == (0, BLOCK_FRAMES) {
            return self.0.iter().map(|word| word.count_ones()).sum();
        }
        (from..to).filter(|frame| self.has(*frame)).count() as u32
    }

    /// Those that are in this but not in `other`.
    #[must_use]
    pub fn without(&self, other: &Frames) -> Frames {
        Frames(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// Those that are in both.
    #[must_use]
    pub fn and(&self, other: &Frames) -> Frames {
        Frames(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// The frames, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            let mut left = *bits;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(word * 64 + bit)
            })
        })
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

/// Pages that policies were told of together: within one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// First page of the block that belongs to it.
    pub start: u16,
    /// The page after the last one.
    pub end: u16,
    /// Number of the mapping.
    pub object: u32,
    /// Number of the kind of mapping.
    pub site: u32,
    /// Pages of the whole mapping.
    pub whole_pages: u32,
}

/// 2 MiB of a process.
#[derive(Debug, Clone)]
pub struct Block {
    /// The process; 0 for a block that is not used.
    pub pid: i32,
    /// Address in units of 2 MiB.
    pub chunk: u64,
    /// Frames in memory.
    pub present: Frames,
    /// Those of them that are in the fast tier.
    pub fast: Frames,
    /// Those of the fast ones that were counted elsewhere: other processes have them, too.
    pub counted_elsewhere: Frames,
    /// Pages that policies know, in order.
    pub pieces: Vec<Piece>,
    /// When something of it was last seen to be used.
    pub seen_ns: u64,
}

/// The table.
#[derive(Debug)]
pub struct Table {
    page_bytes: u64,
    /// Page numbers that there are, whether used or not.
    most_pages: u32,
    cap_bytes: u64,
    slow_pages: u32,
    blocks: Vec<Block>,
    /// By process and address, in order.
    places: BTreeMap<(i32, u64), u32>,
    /// The same for who looks for one: every sample does, and an ordered map waits for memory several times.
    numbers: HashMap<(i32, u64), u32>,
    free: VecDeque<u32>,
    fast_frames: u64,
    counted_elsewhere: u64,
    present_frames: u64,
    /// Frames that may still be in the fast tier, though no page of the table is known to have them: those of copies that a
    /// child has kept, until everything is counted again.
    doubtful: u64,
    /// Those of them that moves have left since everything began to be counted again.
    doubtful_moved: u64,
}

impl Table {
    /// An empty table with `most_pages` page numbers, for a fast tier of `cap_bytes` and a slow one of `slow_pages`.
    #[must_use]
    pub fn new(page_bytes: u64, most_pages: u32, cap_bytes: u64, slow_pages: u32) -> Self {
        Self {
            page_bytes,
            most_pages,
            cap_bytes,
            slow_pages,
            blocks: Vec::new(),
            places: BTreeMap::new(),
            numbers: HashMap::new(),
            free: VecDeque::new(),
            fast_frames: 0,
            counted_elsewhere: 0,
            present_frames: 0,
            doubtful: 0,
            doubtful_moved: 0,
        }
    }

    /// Counts so many frames more as in the fast tier, until [`Self::settle_doubts`].
    pub fn doubt(&mut self, frames: u64) {
        self.doubtful += frames;
    }

    /// The same for frames that a move has left with others.
    pub fn doubt_moved(&mut self, frames: u64) {
        self.doubtful += frames;
        self.doubtful_moved += frames;
    }

    /// From now on everything is counted again.
    pub fn begin_count(&mut self) {
        self.doubtful_moved = 0;
    }

    /// Whether there are frames of which it is not known who has them.
    #[must_use]
    pub fn doubts(&self) -> bool {
        self.doubtful > 0
    }

    /// Everything has been counted. What was moved meanwhile may have been counted with who has it no longer.
    pub fn settle_doubts(&mut self) {
        self.doubtful = self.doubtful_moved;
    }

    /// Frames of a managed page.
    #[must_use]
    pub fn page_frames(&self) -> usize {
        (self.page_bytes / FRAME_BYTES) as usize
    }

    /// Pages of a block.
    #[must_use]
    pub fn block_pages(&self) -> u32 {
        (BLOCK_FRAMES / self.page_frames()) as u32
    }

    /// Bytes of the fast tier that are in use: never fewer than there are, as long as nobody else moves pages there.
    #[must_use]
    pub fn fast_bytes(&self) -> u64 {
        (self.fast_frames - self.counted_elsewhere.min(self.fast_frames) + self.doubtful) * FRAME_BYTES
    }

    /// Bytes that are in memory, shared ones once for each process.
    #[must_use]
    pub fn present_bytes(&self) -> u64 {
        self.present_frames * FRAME_BYTES
    }

    /// Bytes that the fast tier may hold.
    #[must_use]
    pub fn cap_bytes(&self) -> u64 {
        self.cap_bytes
    }

    /// Frames that still fit into the fast tier.
    #[must_use]
    pub fn room_frames(&self) -> u64 {
        self.cap_bytes.saturating_sub(self.fast_bytes()) / FRAME_BYTES
    }

    /// Bytes of this table itself.
    #[must_use]
    pub fn own_bytes(&self) -> u64 {
        let pieces: usize = self.blocks.iter().map(|block| block.pieces.capacity()).sum();
        // Of the ordered map, and of the other one, a part of which is free.
        let entry = size_of::<((i32, u64), u32)>();
        let entries = self.places.len() * (entry + 4) + self.numbers.capacity() * entry;
        (self.blocks.capacity() * size_of::<Block>() + pieces * size_of::<Piece>() + entries) as u64
    }

    /// The number of the block at a place, if there is one.
    #[must_use]
    pub fn find(&self, pid: i32, chunk: u64) -> Option<u32> {
        self.numbers.get(&(pid, chunk)).copied()
    }

    /// [`Table::find`] for the first [`LOOKED_UP`] of `places`, with what samples will need of the blocks looked up, so that cache misses overlap.
    pub fn find_all(&self, places: impl Iterator<Item = (i32, u64)>) -> [Option<u32>; LOOKED_UP] {
        let mut numbers = [None; LOOKED_UP];
        for (number, (pid, chunk)) in numbers.iter_mut().zip(places) {
            *number = self.find(pid, chunk);
        }
        let of = |number: u32| {
            let block = &self.blocks[number as usize];
            let pages = block.pieces.first().map_or(0, |piece| u64::from(piece.end));
            block.seen_ns ^ block.present.0[0] ^ block.fast.0[0] ^ pages
        };
        std::hint::black_box(numbers.into_iter().flatten().fold(0, |seen, number| seen ^ of(number)));
        numbers
    }

    /// The blocks of a process, in order of address.
    #[must_use]
    pub fn blocks_of(&self, pid: i32) -> Vec<u32> {
        let range = self.places.range((pid, 0)..=(pid, u64::MAX));
        range.map(|(_, number)| *number).collect()
    }

    /// All blocks that are used.
    pub fn used_blocks(&self) -> impl Iterator<Item = (u32, &Block)> {
        let all = self.blocks.iter().enumerate();
        all.filter(|(_, block)| block.pid != 0)
            .map(|(number, block)| (number as u32, block))
    }

    /// A block by its number.
    #[must_use]
    pub fn block(&self, number: u32) -> &Block {
        &self.blocks[number as usize]
    }

    /// Takes a block for a place; nothing when there are no page numbers left.
    pub fn take(&mut self, pid: i32, chunk: u64) -> Option<u32> {
        let fresh = Block {
            pid,
            chunk,
            present: Frames::default(),
            fast: Frames::default(),
            counted_elsewhere: Frames::default(),
            pieces: Vec::new(),
            seen_ns: 0,
        };
        let room = (self.most_pages / self.block_pages()) as usize;
        let number = if self.blocks.len() < room {
            self.blocks.push(fresh);
            (self.blocks.len() - 1) as u32
        } else {
            let number = self.free.pop_front()?;
            self.blocks[number as usize] = fresh;
            number
        };
        self.places.insert((pid, chunk), number);
        self.numbers.insert((pid, chunk), number);
        Some(number)
    }

    /// Gives an empty block back.
    pub fn give_back(&mut self, number: u32) {
        let block = &mut self.blocks[number as usize];
        debug_assert!(block.present.is_empty() && block.pieces.is_empty());
        self.places.remove(&(block.pid, block.chunk));
        self.numbers.remove(&(block.pid, block.chunk));
        block.pid = 0;
        self.free.push_back(number);
    }

    /// Notes where frames are: `fast` for those of `which` that are in the fast tier, none for what is gone.
    pub fn note(&mut self, number: u32, frame: usize, tier: Option<Tier>) {
        let block = &mut self.blocks[number as usize];
        let (was_present, was_fast) = (block.present.has(frame), block.fast.has(frame));
        let (present, fast) = (tier.is_some(), tier == Some(0));
        if (was_present, was_fast) == (present, fast) {
            return;
        }
        block.present.set(frame, present);
        block.fast.set(frame, fast);
        self.present_frames = self.present_frames + u64::from(present) - u64::from(was_present);
        self.fast_frames = self.fast_frames + u64::from(fast) - u64::from(was_fast);
        if !fast && block.counted_elsewhere.has(frame) {
            block.counted_elsewhere.set(frame, false);
            self.counted_elsewhere -= 1;
        }
    }

    /// Notes whether a fast frame was counted with another process.
    pub fn note_counted_elsewhere(&mut self, number: u32, frame: usize, elsewhere: bool) {
        let block = &mut self.blocks[number as usize];
        if block.counted_elsewhere.has(frame) != elsewhere && (block.fast.has(frame) || !elsewhere) {
            block.counted_elsewhere.set(frame, elsewhere);
            if elsewhere {
                self.counted_elsewhere += 1;
            } else {
                self.counted_elsewhere -= 1;
            }
        }
    }

    /// The pieces of a block, to be changed.
    pub fn pieces_mut(&mut self, number: u32) -> &mut Vec<Piece> {
        &mut self.blocks[number as usize].pieces
    }

    /// Notes that something of a block was used.
    pub fn see(&mut self, number: u32, at_ns: u64) {
        let seen = &mut self.blocks[number as usize].seen_ns;
        *seen = (*seen).max(at_ns);
    }

    /// The first page number of a block.
    #[must_use]
    pub fn first_page(&self, number: u32) -> Page {
        number * self.block_pages()
    }

    /// The piece as policies know it.
    #[must_use]
    pub fn extent(&self, number: u32, piece: &Piece) -> Extent {
        Extent {
            object: piece.object,
            site: piece.site,
            start: self.first_page(number) + Page::from(piece.start),
            pages: u32::from(piece.end - piece.start),
            whole_pages: piece.whole_pages,
        }
    }

    /// Block and frames of a page number: the first and the one after the last.
    #[must_use]
    pub fn frames_of(&self, page: Page) -> (u32, usize, usize) {
        let (block, place) = (page / self.block_pages(), (page % self.block_pages()) as usize);
        (block, place * self.page_frames(), (place + 1) * self.page_frames())
    }

    /// Whether policies know the page.
    #[must_use]
    pub fn exists(&self, page: Page) -> bool {
        let (number, ..) = self.frames_of(page);
        let place = (page % self.block_pages()) as u16;
        self.blocks.get(number as usize).is_some_and(|block| {
            block.pid != 0
                && block
                    .pieces
                    .iter()
                    .any(|piece| piece.start <= place && place < piece.end)
        })
    }

    /// The page of a block that policies know at an address, in units of 4 KiB.
    #[must_use]
    pub fn page_in(&self, number: u32, frame_number: u64) -> Option<Page> {
        let frame = (frame_number % BLOCK_FRAMES as u64) as usize;
        let page = self.first_page(number) + (frame / self.page_frames()) as Page;
        self.exists(page).then_some(page)
    }

    /// Present frames of a page that are in the fast tier, and all of them.
    #[must_use]
    pub fn frames_in(&self, page: Page) -> (u32, u32) {
        let (number, from, to) = self.frames_of(page);
        match self.blocks.get(number as usize) {
            Some(block) => (block.fast.count(from, to), block.present.count(from, to)),
            None => (0, 0),
        }
    }
}

impl PageMap for Table {
    /// The tier that most of the page is in.
    fn tier_of(&self, page: Page) -> Tier {
        let (fast, present) = self.frames_in(page);
        Tier::from(fast * 2 < present || fast == 0)
    }

    fn free_pages(&self, tier: Tier) -> u32 {
        if tier == 0 {
            return u32::try_from(self.room_frames() / self.page_frames() as u64).unwrap_or(u32::MAX);
        }
        let slow = (self.present_frames - self.fast_frames) / self.page_frames() as u64;
        self.slow_pages.saturating_sub(u32::try_from(slow).unwrap_or(u32::MAX))
    }
}

/// A bit a page: whether it was used since a policy last asked.
#[derive(Debug, Default)]
pub struct Accessed(Vec<u64>);

impl Accessed {
    /// Notes a use.
    pub fn set(&mut self, page: Page) {
        let word = page as usize / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (page % 64);
    }

    /// Bytes that it takes.
    #[must_use]
    pub fn own_bytes(&self) -> u64 {
        self.0.capacity() as u64 * 8
    }
}

impl AccessedBits for Accessed {
    fn test_and_clear(&mut self, page: Page) -> bool {
        let was = self.test(page);
        if was {
            self.0[page as usize / 64] &= !(1 << (page % 64));
        }
        was
    }

    fn test(&mut self, page: Page) -> bool {
        let word = self.0.get(page as usize / 64);
        word.is_some_and(|word| word >> (page % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_once() {
        let mut table = Table::new(FRAME_BYTES, 2048, 16 * FRAME_BYTES, 1000);
        let block = table.take(7, 3).expect("room");
        for frame in 0..8 {
            table.note(block, frame, Some(u8::from(frame >= 5)));
        }
        table.note(block, 1, Some(0));
        table.note_counted_elsewhere(block, 2, true);
        assert_eq!(
            (table.fast_bytes(), table.present_bytes()),
            (4 * FRAME_BYTES, 8 * FRAME_BYTES)
        );
        assert_eq!(table.room_frames(), 12);
        table.note(block, 2, Some(1));
        table.note(block, 4, None);
        assert_eq!(
            (table.fast_bytes(), table.present_bytes()),
            (3 * FRAME_BYTES, 7 * FRAME_BYTES)
        );
        table.note(block, 2, Some(0));
        assert_eq!(
            table.fast_bytes(),
            4 * FRAME_BYTES,
            "what went away and came back is its own"
        );
    }

    #[test]
    fn pages_of_two_mebibytes_are_where_most_of_them_is() {
        let mut table = Table::new(2 << 20, 16, 4 << 20, 1000);
        let block = table.take(7, 3).expect("room");
        table.pieces_mut(block).push(Piece {
            start: 0,
            end: 1,
            object: 0,
            site: 0,
            whole_pages: 1,
        });
        assert_eq!(table.tier_of(0), 1);
        for frame in 0..100 {
            table.note(block, frame, Some(u8::from(frame >= 49)));
        }
        assert_eq!((table.tier_of(0), table.page_in(block, 3 * 512 + 400)), (1, Some(0)));
        table.note(block, 60, Some(0));
        assert_eq!(table.tier_of(0), 0);
        assert_eq!(table.free_pages(0), 1);
    }

    #[test]
    fn numbers_are_used_again_when_there_are_no_others() {
        let mut table = Table::new(FRAME_BYTES, 1024, 0, 0);
        let (first, second) = (table.take(1, 0), table.take(1, 1));
        assert_eq!((first, second, table.take(1, 2)), (Some(0), Some(1), None));
        table.give_back(0);
        assert_eq!((table.find(1, 0), table.take(2, 9)), (None, Some(0)));
        assert_eq!(table.blocks_of(2), [0]);
    }
}
