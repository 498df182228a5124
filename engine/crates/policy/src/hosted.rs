//! The policy that another policy holds: calls to it, with what it asks for set aside to be judged.

use serde::{Deserialize, Serialize};

use crate::{Context, Migrated, Move, Nanos, Order, Outcome, Policy, StateError};

/// A refusal is reported with the next call, at the latest this much later: a host that asks again
/// at once must not stop the clock.
const REPORT_NS: Nanos = 1_000_000;

/// What is kept about a host, beside its own state.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Account {
    /// When it wants to be woken; a driver knows of the earliest wake-up only.
    wake: Option<Nanos>,
    /// Moves that were not let through and that it has yet to hear of.
    refused: Vec<Migrated>,
    /// Its moves that were let through and have not ended.
    in_flight: u32,
    /// All that were ever refused.
    refusals: u64,
}

/// A host policy.
pub struct Hosted {
    /// The host itself.
    pub policy: Box<dyn Policy>,
    account: Account,
}

/// What a host asked for during a call.
#[derive(Debug, Default)]
pub struct Asked {
    /// Its moves, not yet let through.
    pub moves: Vec<Move>,
    /// Its other requests, not yet passed on.
    pub orders: Vec<Order>,
}

impl Hosted {
    /// Takes a host in.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>) -> Self {
        Self {
            policy,
            account: Account {
                wake: Some(0), // the first call, which is promised to every policy
                ..Account::default()
            },
        }
    }

    /// Calls the host; moves and orders come back to be judged, the rest of `cx` is the host's too.
    pub fn call<R>(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut dyn Policy, &mut Context<'_>) -> R,
    ) -> (R, Asked) {
        let mut asked = Asked::default();
        let mut inner = Context {
            now: cx.now,
            pages: cx.pages,
            accessed: &mut *cx.accessed,
            counters: cx.counters,
            truth: cx.truth,
            rng: &mut *cx.rng,
            moves: &mut asked.moves,
            orders: &mut asked.orders,
            wake_at: &mut self.account.wake,
        };
        let result = work(self.policy.as_mut(), &mut inner);
        (result, asked)
    }

    /// Lets a move through.
    pub fn let_through(&mut self, request: Move, cx: &mut Context<'_>) {
        self.account.in_flight += 1;
        cx.moves.push(request);
    }

    /// Refuses a move; the host hears of it soon.
    pub fn refuse(&mut self, request: Move, now: Nanos) {
        self.account.refusals += 1;
        self.account.refused.push(Migrated {
            request,
            outcome: Outcome::Refused,
            at: now,
        });
    }

    /// Moves refused so far.
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.account.refusals
    }

    /// Takes note that `count` moves that were let through have ended.
    pub fn ended(&mut self, count: u32) {
        self.account.in_flight = self.account.in_flight.saturating_sub(count);
    }

    /// Whether none of the host's moves is under way.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.account.in_flight == 0
    }

    /// The refusals that the host has yet to hear of, which it is now told.
    pub fn take_refused(&mut self) -> Vec<Migrated> {
        std::mem::take(&mut self.account.refused)
    }

    /// Whether the host asked to be woken by now; it will then have been.
    pub fn take_wake(&mut self, now: Nanos) -> bool {
        let due = self.account.wake.is_some_and(|at| at <= now);
        if due {
            self.account.wake = None;
        }
        due
    }

    /// When the host has to be called next.
    #[must_use]
    pub fn next_call(&self, now: Nanos) -> Option<Nanos> {
        let report = (!self.account.refused.is_empty()).then_some(now + REPORT_NS);
        self.account.wake.into_iter().chain(report).min()
    }

    /// The host's state and what is kept about it, together with `own`, the state of its holder.
    pub fn save_with<T: Serialize>(&self, own: &T) -> Vec<u8> {
        crate::policy::to_bytes(&(own, &self.account, self.policy.save()))
    }

    /// Takes up what [`Self::save_with`] made and returns the holder's part.
    ///
    /// # Errors
    /// When `state` is not of such a pair.
    pub fn restore_with<T: serde::de::DeserializeOwned>(&mut self, state: &[u8]) -> Result<T, StateError> {
        let (own, account, host): (T, Account, Vec<u8>) = crate::policy::from_bytes(state)?;
        self.policy.restore(&host)?;
        self.account = account;
        Ok(own)
    }
}
