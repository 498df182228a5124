//! What a policy may ask for: migrations of several kinds, guards, sampling periods, CPU time.

use serde::{Deserialize, Serialize};
use std::ops::Range;

use crate::signal::Event;
use crate::{Nanos, Page, Tier};

/// What happens to accesses to a page while it is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyMode {
    /// Readers go on, writers wait for the end of the copy (userfaultfd write protection).
    WriteProtected,
    /// The page is unmapped: every access waits.
    Unmapped,
    /// The page stays mapped; if it was written meanwhile the copy is thrown away and tried again, at
    /// most `passes` times in all, then given up ([`Outcome::Aborted`]). Accesses wait for the
    /// remapping only. So are moves to a faster tier made; others are as with [`CopyMode::Unmapped`].
    Transactional {
        /// Most copies of one page.
        passes: u32,
    },
}

/// How a system moves pages; constants of its design, not knobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MigrationMechanics {
    /// Copies under way at once.
    pub lanes: u32,
    /// Time per migration before and after the copy, for a thread that moves one page after the other of a list:
    /// protection, remapping, TLB shootdown.
    pub fixed_ns: Nanos,
    /// The same for a page that is moved alone: by the thread that faults on it, or by a transaction of its own.
    pub alone_fixed_ns: Nanos,
    /// The same for a run of several pages moved as one ([`Move::run`]).
    pub run_fixed_ns: Nanos,
    /// Time of a move without a copy, and what accesses wait at the end of a transactional copy.
    pub remap_ns: Nanos,
    /// Upper bound of one lane's copy speed, in 1e9 bytes per second.
    pub copy_gbps: f64,
    /// Who waits meanwhile.
    pub mode: CopyMode,
    /// Interrupts of each core that runs the program for a page that is moved in the background, of whose old place no
    /// TLB may know: 1 where pages are unmapped one by one, less where one interrupt serves a list.
    pub shootdowns: f64,
}

impl MigrationMechanics {
    /// Whether a move from tier `from` is a transaction: promotions in the background are, where copies are.
    #[must_use]
    pub fn is_transaction(&self, request: &Move, from: Tier) -> bool {
        let in_background = matches!(request.how, How::Background | How::KeepingFrame);
        matches!(self.mode, CopyMode::Transactional { .. }) && in_background && request.to < from
    }

    /// Interrupts of each core that runs the program for a move from tier `from`. A transaction has two: from its copy
    /// on writes must be seen, and at its end the page has another place. A fault finds the page unmapped, which it
    /// stays until it has moved (Linux from 5.13 on).
    #[must_use]
    pub fn shootdowns_of(&self, request: &Move, from: Tier) -> f64 {
        match request.how {
            How::InFault { .. } => 0.0,
            _ if self.is_transaction(request, from) => 2.0 * self.shootdowns,
            _ => self.shootdowns,
        }
    }

    /// Time of a copied move from tier `from` beside the copy.
    #[must_use]
    pub fn fixed_ns_of(&self, request: &Move, from: Tier) -> Nanos {
        if request.pages > 1 {
            self.run_fixed_ns
        } else if matches!(request.how, How::InFault { .. }) || self.is_transaction(request, from) {
            self.alone_fixed_ns
        } else {
            self.fixed_ns
        }
    }
}

/// Who carries out a move, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum How {
    /// A background thread, by the system's [`MigrationMechanics`].
    Background,
    /// As [`How::Background`]; the old frame is kept, unused, until [`Context::release`](crate::Context::release),
    /// [`How::Remap`] or the end of the page. Its first store after the move is reported
    /// ([`FaultKind::Write`](crate::FaultKind::Write)).
    KeepingFrame,
    /// A background thread, back to the frame that was kept, without a copy; the current frame becomes free.
    Remap,
    /// The application thread that faulted, which pays for all of it; others that touch the page wait.
    InFault {
        /// The thread.
        thread: u32,
    },
    /// The thread that allocates, before the new pages are placed; it pays for all of it (direct reclaim).
    /// From [`Policy::on_alloc`](crate::Policy::on_alloc) only.
    Reclaim,
    /// Nobody: at once, without time, traffic or waiting. For offline oracles that
    /// [need](crate::Needs) the truth, never offered by a live driver.
    Free,
}

impl How {
    /// Whether the move is complete before the driver does anything else.
    #[must_use]
    pub fn is_at_once(self) -> bool {
        matches!(self, How::Reclaim | How::Free)
    }
}

/// A request to move a page, or a run of neighbouring pages as one (a huge page in 4 KiB pages).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Move {
    /// The page, or the first of the run.
    pub page: Page,
    /// Pages of the run, which must all be in one tier; 1 for a single page.
    pub pages: u32,
    /// Where to.
    pub to: Tier,
    /// Who moves it.
    pub how: How,
}

impl Move {
    /// A single page, moved in the background.
    #[must_use]
    pub fn page(page: Page, to: Tier) -> Self {
        Self::run(page, 1, to)
    }

    /// A run of pages, moved in the background.
    #[must_use]
    pub fn run(page: Page, pages: u32, to: Tier) -> Self {
        Self {
            page,
            pages,
            to,
            how: How::Background,
        }
    }

    /// The pages that move.
    #[must_use]
    pub fn range(&self) -> Range<Page> {
        self.page..self.page + self.pages
    }
}

/// How a requested migration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// The page is where it was asked to be.
    Done,
    /// The target tier was full.
    NoSpace,
    /// The page was already there.
    AlreadyThere,
    /// It was written in every pass of a transactional copy.
    Aborted,
    /// It was freed, a run was not in one tier, or there was no kept frame to go back to.
    Gone,
    /// A policy that holds the one that asked did not let it happen.
    Refused,
}

/// One executed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Migrated {
    /// What was asked.
    pub request: Move,
    /// What came of it.
    pub outcome: Outcome,
    /// When it ended.
    pub at: Nanos,
}

/// Requests other than migrations, in the order made.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Order {
    /// Report the first touch of each of these pages.
    Arm(Range<Page>),
    /// Give up the frame that was kept when this page moved.
    Release(Page),
    /// Take a record every so many events from now on.
    SamplingPeriod(Event, u64),
    /// CPU time that a thread of the tiering system has used.
    Background(Nanos),
    /// CPU time that application threads have used for the tiering system (scans at the return to user space).
    InApplication(Nanos),
    /// An application thread takes so many more hint faults at the same access, as the guard was left on the page.
    FaultAgain {
        /// The thread.
        thread: u32,
        /// How often.
        times: u32,
    },
}
