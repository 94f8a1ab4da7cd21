//! The retry state machine of one request: when to send, to which server, how long to wait, when to give up.
//!
//! Pure: the caller passes the time and random numbers in, and executes the returned actions. Times are
//! measured from any fixed instant.
//!
//! Invariants:
//! - No attempt starts at or after [`RetryState::end`]. The end is the deadline or half the window, whichever
//!   is earlier: a server never sees an id so old that its dedup record may have expired.
//! - The machine never sees the id. It returns *that* something is sent; its driver has one request to send.
//! - With [`FanOut::One`] at most one attempt is in flight, plus one hedge. With [`FanOut::All`] at most one
//!   attempt is in flight to each server.
//! - A failure is definite only if no server can have received any attempt.

use std::time::Duration;

/// Exponential backoff with full jitter: the wait is uniform in `0..ceiling`, and the ceiling doubles with
/// each round up to `cap`. The jitter spreads clients that failed at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Ceiling of the first wait.
    pub base: Duration,
    /// Ceiling of every wait.
    pub cap: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(20), cap: Duration::from_secs(2) }
    }
}

impl Backoff {
    /// The longest wait after `round` rounds.
    pub fn ceiling(&self, round: u32) -> Duration {
        self.base.saturating_mul(1u32.checked_shl(round).unwrap_or(u32::MAX)).min(self.cap)
    }

    /// The wait after `round` rounds; `random` is uniform over all of `u64`.
    pub fn wait(&self, round: u32, random: u64) -> Duration {
        let ceiling = u64::try_from(self.ceiling(round).as_nanos()).unwrap_or(u64::MAX);
        // The high half of the product is the random number scaled to the ceiling.
        Duration::from_nanos(((u128::from(random) * u128::from(ceiling)) >> 64) as u64)
    }
}

/// How many servers receive a request at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FanOut {
    /// One server after the other, in order. All failures share one backoff, which starts after a round over
    /// all servers, or at once when a server is busy.
    One {
        /// After this long without a response, send a second attempt to the next server; the first response
        /// wins.
        hedge_after: Option<Duration>,
    },
    /// One server first; all of them once it fails, or after `widen_after`. Each server has its own backoff.
    All {
        /// How long to wait for the first server before the others receive the request too.
        widen_after: Duration,
    },
}

/// The retry policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How long to try; without it, until the caller stops waiting.
    pub deadline: Option<Duration>,
    /// How long the servers keep dedup records. No attempt starts after half of it.
    pub window: Option<Duration>,
    /// How long to wait for the response to one attempt.
    pub attempt_timeout: Duration,
    /// How many servers receive the request at the same time.
    pub fan_out: FanOut,
    /// How long to wait between attempts.
    pub backoff: Backoff,
}

impl Policy {
    /// Rejects times of zero.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let limits = [self.deadline, self.window, Some(self.attempt_timeout)];
        if limits.iter().flatten().any(Duration::is_zero) {
            return Err("deadline, attempt_timeout and window must not be zero");
        }
        if self.backoff.base.is_zero() || self.backoff.cap.is_zero() {
            // Without a wait between retries, clients would keep an overloaded server overloaded.
            return Err("backoff must not be zero");
        }
        Ok(())
    }
}

/// What the driver does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAction {
    /// Send the request.
    Send {
        /// Number of the attempt, from 0.
        attempt: u32,
        /// Index of the server.
        server: usize,
    },
    /// Give the attempt up, and [report](RetryState::report) it as lost.
    Abandon {
        /// Number of the attempt.
        attempt: u32,
    },
    /// Wait for a result, at most until this time. `None`: only a result ends the wait.
    Wait {
        /// When to call [`RetryState::step`] again.
        until: Option<Duration>,
    },
    /// The request has ended.
    Finished(RetryOutcome),
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryOutcome {
    /// A server responded.
    Answered {
        /// Number of the attempt.
        attempt: u32,
        /// Index of the server.
        server: usize,
    },
    /// No attempt got a usable response.
    Failed {
        /// Whether a server may have applied the request, or may still apply it.
        may_have_applied: bool,
    },
}

/// The result of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptResult {
    /// The response to the request.
    Answered,
    /// The server cannot serve the request now.
    Busy {
        /// Whether it may have applied the request.
        may_have_applied: bool,
    },
    /// The server rejects the request; a retry would not help.
    Refused {
        /// Whether this attempt may have been applied.
        may_have_applied: bool,
    },
    /// The id belongs to another request: no attempt was applied, and none will be.
    NeverApplied,
    /// No response.
    Lost {
        /// Whether the request may have reached the server.
        sent: bool,
    },
}

/// A sequence of attempts with its own backoff: one for all servers with [`FanOut::One`], one for each server
/// with [`FanOut::All`].
#[derive(Debug, Clone, Copy)]
struct Lane {
    /// When the next attempt may start, if none is in flight.
    next: Duration,
    /// Failed attempts; an attempt and its hedge count as one.
    failures: u32,
    is_hedged: bool,
}

#[derive(Debug, Clone, Copy)]
struct Attempt {
    number: u32,
    lane: usize,
    server: usize,
    sent_at: Duration,
}

/// The state of one request.
#[derive(Debug)]
pub struct RetryState {
    policy: Policy,
    end: Option<Duration>,
    servers: usize,
    /// Index of the server that receives the first attempt.
    first: usize,
    attempts: u32,
    lanes: Vec<Lane>,
    /// Oldest first.
    in_flight: Vec<Attempt>,
    may_have_applied: bool,
    outcome: Option<RetryOutcome>,
}

impl RetryState {
    /// A request that starts now, at server `first` of `servers`. `may_have_applied` says that an earlier
    /// process may have sent the same request.
    pub fn new(policy: Policy, now: Duration, servers: usize, first: usize, may_have_applied: bool) -> Self {
        let servers = servers.max(1);
        let first = first % servers;
        let lane = |next| Lane { next, failures: 0, is_hedged: false };
        let lanes = match policy.fan_out {
            FanOut::One { .. } => vec![lane(now)],
            FanOut::All { widen_after } => {
                let later = now.saturating_add(widen_after);
                (0..servers).map(|server| lane(if server == first { now } else { later })).collect()
            }
        };
        let limits = [policy.deadline, policy.window.map(|window| window / 2)];
        let end = limits.into_iter().flatten().min().map(|limit| now.saturating_add(limit));
        Self {
            policy,
            end,
            servers,
            first,
            attempts: 0,
            lanes,
            in_flight: Vec::with_capacity(2),
            may_have_applied,
            outcome: None,
        }
    }

    /// Returns the next action at the time `now`.
    pub fn step(&mut self, now: Duration) -> RetryAction {
        if let Some(outcome) = self.outcome {
            return RetryAction::Finished(outcome);
        }
        let is_at_end = self.end.is_some_and(|end| now >= end);
        let timeout = self.policy.attempt_timeout;
        let is_late = |attempt: &&Attempt| is_at_end || now >= attempt.sent_at.saturating_add(timeout);
        if let Some(attempt) = self.in_flight.iter().find(is_late) {
            return RetryAction::Abandon { attempt: attempt.number };
        }
        let starts_in_time = |lane: &Lane| self.end.is_none_or(|end| lane.next < end);
        if is_at_end || self.in_flight.is_empty() && !self.lanes.iter().any(starts_in_time) {
            return self.finish(RetryOutcome::Failed { may_have_applied: self.may_have_applied });
        }
        let (mut until, mut due) = (self.end, None);
        for index in 0..self.lanes.len() {
            let start = self.next_start(index);
            let times_out = self.oldest_in(index).map(|attempt| attempt.sent_at.saturating_add(timeout));
            if start.is_none_or(|start| now < start) {
                until = [until, start, times_out].into_iter().flatten().min();
            } else if due.is_none() || index == self.first {
                // Several servers may be due: the first one goes first.
                due = Some(index);
            }
        }
        match due {
            Some(lane) => self.send(now, lane),
            None => RetryAction::Wait { until },
        }
    }

    /// Records the result of an attempt; `random` is uniform over all of `u64`. Results of attempts that are
    /// not in flight are ignored.
    pub fn report(&mut self, now: Duration, attempt: u32, result: AttemptResult, random: u64) {
        let Some(at) = self.in_flight.iter().position(|other| other.number == attempt) else { return };
        if self.outcome.is_some() {
            return;
        }
        let Attempt { lane, server, .. } = self.in_flight.remove(at);
        let (is_busy, may_have_applied) = match result {
            AttemptResult::Answered => {
                self.finish(RetryOutcome::Answered { attempt, server });
                return;
            }
            AttemptResult::NeverApplied => {
                self.finish(RetryOutcome::Failed { may_have_applied: false });
                return;
            }
            AttemptResult::Refused { may_have_applied } => {
                // Another server may still apply an attempt that is in flight.
                let may_have_applied =
                    may_have_applied || self.may_have_applied || !self.in_flight.is_empty();
                self.finish(RetryOutcome::Failed { may_have_applied });
                return;
            }
            AttemptResult::Busy { may_have_applied } => (true, may_have_applied),
            AttemptResult::Lost { sent } => (false, sent),
        };
        self.may_have_applied |= may_have_applied;
        if self.oldest_in(lane).is_some() {
            return;
        }
        self.back_off(now, lane, is_busy, random);
    }

    /// When the request ends at the latest.
    pub fn end(&self) -> Option<Duration> {
        self.end
    }

    /// Number of attempts that were started.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Schedules the next attempt of a lane after a failure.
    fn back_off(&mut self, now: Duration, index: usize, is_busy: bool, random: u64) {
        let servers_of_lane = match self.policy.fan_out {
            FanOut::One { .. } => u32::try_from(self.servers).unwrap_or(u32::MAX),
            FanOut::All { .. } => 1,
        };
        let lane = &mut self.lanes[index];
        lane.is_hedged = false;
        lane.failures = lane.failures.saturating_add(1);
        lane.next = if !is_busy && !lane.failures.is_multiple_of(servers_of_lane) {
            // Another server may be reachable: try each of them once before waiting.
            now
        } else {
            now.saturating_add(self.policy.backoff.wait((lane.failures - 1) / servers_of_lane, random))
        };
        // Servers without an attempt so far waited for this one. A busy server suggests that the others are
        // busy too; a lost one does not.
        let others_from = if is_busy { lane.next } else { now };
        for lane in self.lanes.iter_mut().filter(|lane| lane.failures == 0) {
            lane.next = lane.next.min(others_from);
        }
    }

    /// When the lane starts its next attempt, unless a result arrives before: the retry, or the hedge.
    fn next_start(&self, index: usize) -> Option<Duration> {
        let lane = &self.lanes[index];
        let Some(oldest) = self.oldest_in(index) else { return Some(lane.next) };
        match self.policy.fan_out {
            FanOut::One { hedge_after: Some(after) } if !lane.is_hedged => {
                Some(oldest.sent_at.saturating_add(after))
            }
            _ => None,
        }
    }

    fn oldest_in(&self, lane: usize) -> Option<&Attempt> {
        self.in_flight.iter().find(|attempt| attempt.lane == lane)
    }

    fn send(&mut self, now: Duration, lane: usize) -> RetryAction {
        let number = self.attempts;
        self.attempts += 1;
        let server = match self.policy.fan_out {
            FanOut::One { .. } => (self.first + number as usize) % self.servers,
            FanOut::All { .. } => lane,
        };
        self.lanes[lane].is_hedged = self.oldest_in(lane).is_some();
        self.in_flight.push(Attempt { number, lane, server, sent_at: now });
        RetryAction::Send { attempt: number, server }
    }

    fn finish(&mut self, outcome: RetryOutcome) -> RetryAction {
        self.outcome = Some(outcome);
        RetryAction::Finished(outcome)
    }
}
