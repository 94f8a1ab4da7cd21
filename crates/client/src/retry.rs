//! The course of an operation: when to send, where to, when to wait, and when to give up. Pure: what happens comes in, what to do goes
//! out; times are counted from any fixed moment.
//!
//! What must hold:
//! - Nothing is sent at the end of the course or later; the end is the deadline or half the window, whichever comes first. An id that
//!   is sent is then far from the age at which a server refuses it without knowing what became of it.
//! - A course knows nothing of ids: it says *that* something is sent, and whoever drives it has only one thing to send.
//! - A course is over with a certain failure only if no attempt can have been taken up by a server.

use std::time::Duration;

/// How long to wait before the next attempt: any time up to a ceiling that doubles with each round and ends at `cap`. Chance alone keeps
/// clients apart that failed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The ceiling of the first wait.
    pub base: Duration,
    /// The ceiling of all.
    pub cap: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(20), cap: Duration::from_secs(2) }
    }
}

impl Backoff {
    /// The longest wait after this many rounds.
    pub fn ceiling(&self, round: u32) -> Duration {
        self.base.saturating_mul(1u32.checked_shl(round).unwrap_or(u32::MAX)).min(self.cap)
    }

    /// A wait after this many rounds, by this chance.
    pub fn wait(&self, round: u32, chance: u64) -> Duration {
        let ceiling = u64::try_from(self.ceiling(round).as_nanos()).unwrap_or(u64::MAX);
        // The high half of a product is the chance scaled to the ceiling.
        Duration::from_nanos(((u128::from(chance) * u128::from(ceiling)) >> 64) as u64)
    }
}

/// How hard to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How long to try.
    pub deadline: Duration,
    /// How long the table remembers ids. After half of it nothing is sent any more.
    pub window: Duration,
    /// How long to wait for the answer to an attempt.
    pub attempt_timeout: Duration,
    /// After which time without an answer to send it a second time, elsewhere; the first answer wins.
    pub hedge_after: Option<Duration>,
    /// How long to wait between attempts.
    pub backoff: Backoff,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(10),
            window: Duration::from_secs(24 * 3600),
            attempt_timeout: Duration::from_secs(2),
            hedge_after: None,
            backoff: Backoff::default(),
        }
    }
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAction {
    /// Send it to the address of this number.
    Send {
        /// The number of the attempt, from 0.
        attempt: u32,
        /// The number of the address.
        address: usize,
    },
    /// Give this attempt up, and [report](Course::report) whether it was sent.
    Abandon {
        /// The number of the attempt.
        attempt: u32,
    },
    /// Wait for a report, but not beyond this time.
    Wait {
        /// Until when.
        until: Duration,
    },
    /// It is over.
    Over(RetryOutcome),
}

/// How a course ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryOutcome {
    /// With the answer to this attempt.
    Answered {
        /// The number of the attempt.
        attempt: u32,
    },
    /// With a failure.
    Failed {
        /// Whether a server may have done it all the same.
        may_have_applied: bool,
    },
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptResult {
    /// An answer that is the answer.
    Answered,
    /// The server cannot do it now.
    Busy {
        /// Whether it may have done it all the same.
        may_have_applied: bool,
    },
    /// The server will not do it.
    Refused {
        /// Whether it may have done it all the same.
        may_have_applied: bool,
    },
    /// No attempt was or will be done: the same id stands for something else.
    Settled,
    /// No answer.
    Lost {
        /// Whether it may have been sent.
        sent: bool,
    },
}

/// The course of one operation.
#[derive(Debug)]
pub struct RetryState {
    policy: Policy,
    end: Duration,
    addresses: usize,
    first: usize,
    attempts: u32,
    /// Volleys that failed: an attempt and its hedge.
    failures: u32,
    /// Attempts without a report, and when they were sent.
    flying: Vec<(u32, Duration)>,
    hedged: bool,
    /// When the next attempt may be, if none is flying.
    next: Duration,
    may_have_applied: bool,
    over: Option<RetryOutcome>,
}

impl RetryState {
    /// A course that begins now, with the address of number `first` of so many.
    pub fn new(policy: Policy, now: Duration, addresses: usize, first: usize) -> Self {
        Self {
            end: now.saturating_add(policy.deadline.min(policy.window / 2)),
            policy,
            addresses: addresses.max(1),
            first,
            attempts: 0,
            failures: 0,
            flying: Vec::with_capacity(2),
            hedged: false,
            next: now,
            may_have_applied: false,
            over: None,
        }
    }

    /// What to do now.
    pub fn step(&mut self, now: Duration) -> RetryAction {
        if let Some(end) = self.over {
            return RetryAction::Over(end);
        }
        let timeout = self.policy.attempt_timeout;
        let late = |sent: Duration| now >= self.end || now >= sent.saturating_add(timeout);
        if let Some((attempt, _)) = self.flying.iter().find(|(_, sent)| late(*sent)) {
            return RetryAction::Abandon { attempt: *attempt };
        }
        let Some((_, oldest)) = self.flying.first().copied() else {
            if self.next >= self.end || now >= self.end {
                return self.finish(RetryOutcome::Failed { may_have_applied: self.may_have_applied });
            }
            return if now >= self.next { self.send(now) } else { RetryAction::Wait { until: self.next } };
        };
        let mut until = self.end.min(oldest.saturating_add(timeout));
        if let (Some(after), false) = (self.policy.hedge_after, self.hedged) {
            let hedge = oldest.saturating_add(after);
            if now >= hedge {
                self.hedged = true;
                return self.send(now);
            }
            until = until.min(hedge);
        }
        RetryAction::Wait { until }
    }

    /// What became of an attempt. Reports of attempts that are not flying say nothing new.
    pub fn report(&mut self, now: Duration, attempt: u32, report: AttemptResult, chance: u64) {
        let Some(at) = self.flying.iter().position(|(other, _)| *other == attempt) else { return };
        if self.over.is_some() {
            return;
        }
        self.flying.remove(at);
        let (busy, may_have_applied) = match report {
            AttemptResult::Answered => {
                self.finish(RetryOutcome::Answered { attempt });
                return;
            }
            AttemptResult::Settled => {
                self.finish(RetryOutcome::Failed { may_have_applied: false });
                return;
            }
            AttemptResult::Refused { may_have_applied } => {
                // A hedge that is still flying may be done after this refusal.
                let may_have_applied = may_have_applied || self.may_have_applied || !self.flying.is_empty();
                self.finish(RetryOutcome::Failed { may_have_applied });
                return;
            }
            AttemptResult::Busy { may_have_applied } => (true, may_have_applied),
            AttemptResult::Lost { sent } => (false, sent),
        };
        self.may_have_applied |= may_have_applied;
        if !self.flying.is_empty() {
            return;
        }
        self.hedged = false;
        self.failures += 1;
        let addresses = u32::try_from(self.addresses).unwrap_or(u32::MAX);
        self.next = if !busy && !self.failures.is_multiple_of(addresses) {
            // Another address may be well: no reason to wait before all were tried.
            now
        } else {
            now.saturating_add(self.policy.backoff.wait((self.failures - 1) / addresses, chance))
        };
    }

    /// When it ends at the latest.
    pub fn end(&self) -> Duration {
        self.end
    }

    /// How many attempts were begun.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    fn send(&mut self, now: Duration) -> RetryAction {
        let attempt = self.attempts;
        self.attempts += 1;
        self.flying.push((attempt, now));
        RetryAction::Send { attempt, address: (self.first + attempt as usize) % self.addresses }
    }

    fn finish(&mut self, end: RetryOutcome) -> RetryAction {
        self.over = Some(end);
        RetryAction::Over(end)
    }
}
