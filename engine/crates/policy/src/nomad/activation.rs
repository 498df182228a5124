//! Batches of pages that are to become active, one for each CPU (`lru_pvecs.activate_page` of mm/swap.c).
//!
//! A batch is carried out when it is full. Until then each entry holds a reference to its page, so that nobody can move
//! the page, also when it is active already by another CPU's batch. A page may be in a batch several times.

use serde::{Deserialize, Serialize};
use std::ops::Range;

use crate::Page;

/// The batches of the CPUs that threads fault on, one thread a CPU.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ActivationBatches {
    size: usize,
    /// By thread.
    batches: Vec<Vec<Page>>,
}

impl ActivationBatches {
    /// Empty ones that are carried out when they have `size` entries.
    pub fn new(size: u32) -> Self {
        Self {
            size: size.max(1) as usize,
            batches: Vec::new(),
        }
    }

    /// Enters a page; the pages that become active now, if that filled the batch.
    pub fn enter(&mut self, thread: u32, page: Page) -> Vec<Page> {
        let index = thread as usize;
        if self.batches.len() <= index {
            self.batches.resize_with(index + 1, Vec::new);
        }
        let batch = &mut self.batches[index];
        batch.push(page);
        if batch.len() < self.size {
            return Vec::new();
        }
        std::mem::take(batch)
    }

    /// Whether an entry refers to the page.
    pub fn hold(&self, page: Page) -> bool {
        self.batches.iter().any(|batch| batch.contains(&page))
    }

    /// Forgets pages that are freed.
    pub fn forget(&mut self, pages: &Range<Page>) {
        for batch in &mut self.batches {
            batch.retain(|page| !pages.contains(page));
        }
    }
}
