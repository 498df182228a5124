//! Which page lies in which physical frame: what physical-address monitoring walks over.
//!
//! Every tier has as many frames as it holds pages. New pages take never used frames in order of their
//! index, as a freshly booted buddy allocator hands out ascending addresses; a page that moves takes the
//! frame of its new tier that was given back last, as per-CPU free lists do, else a never used one.

use serde::{Deserialize, Serialize};

use crate::{Page, Tier};

/// Frame numbers count from 0 in each tier.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Frames {
    capacity: Vec<u32>,
    /// One more than the page in each frame used so far, 0 when it is free.
    held: Vec<Vec<u32>>,
    /// Frames that were given back, by tier.
    spare: Vec<Vec<u32>>,
    /// Tier in the upper half, one more than the frame in the lower; 0 for a page that has none.
    of_page: Vec<u64>,
}

impl Frames {
    /// Free frames only.
    #[must_use]
    pub fn new(capacity: &[u32], pages: u32) -> Self {
        Self {
            capacity: capacity.to_vec(),
            held: vec![Vec::new(); capacity.len()],
            spare: vec![Vec::new(); capacity.len()],
            of_page: vec![0; pages as usize],
        }
    }

    /// The page in a frame.
    #[must_use]
    pub fn page(&self, tier: Tier, frame: u32) -> Option<Page> {
        let held = self.held[usize::from(tier)].get(frame as usize);
        held.and_then(|page| page.checked_sub(1))
    }

    /// The frame of a page.
    #[must_use]
    pub fn frame(&self, page: Page) -> Option<(Tier, u32)> {
        let found = self.of_page[page as usize];
        (found != 0).then(|| ((found >> 32) as Tier, found as u32 - 1))
    }

    /// Puts a page into a free frame of `tier`; `false` when there is none.
    pub fn put(&mut self, page: Page, tier: Tier) -> bool {
        self.take_out(page);
        let index = usize::from(tier);
        let frame = match self.spare[index].pop() {
            Some(frame) => frame,
            None if self.held[index].len() < self.capacity[index] as usize => {
                self.held[index].push(0);
                self.held[index].len() as u32 - 1
            }
            None => return false,
        };
        self.held[index][frame as usize] = page + 1;
        self.of_page[page as usize] = u64::from(tier) << 32 | u64::from(frame + 1);
        true
    }

    /// Frees the frame of a page, if it has one.
    pub fn take_out(&mut self, page: Page) {
        if let Some((tier, frame)) = self.frame(page) {
            self.held[usize::from(tier)][frame as usize] = 0;
            self.spare[usize::from(tier)].push(frame);
            self.of_page[page as usize] = 0;
        }
    }
}
