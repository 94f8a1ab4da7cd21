//! Watermarks of answered requests: the sequence number below which this server has answered all requests of
//! a session.
//!
//! A client acknowledges answers, so that their decisions can be forgotten early. If a faulty or malicious
//! client acknowledges too early, a commit could be forgotten before it is carried out, and would count as
//! aborted. So a server forgets only what it has answered itself: an answer is given after all branches are
//! committed.
//!
//! Invariant: the table contains answered requests only. A request that is missing is kept until its session
//! expires, so the table can be bounded.

use std::collections::{BTreeMap, BTreeSet};

use crate::RequestId;

/// Sessions in the table; the newest ones stay.
const SESSIONS_MAX: usize = 65_536;

/// Sequence numbers beyond a gap per session: requests in flight at the same time.
const BEYOND_MAX: usize = 256;

/// The table of watermarks.
#[derive(Debug, Default)]
pub(crate) struct AnsweredWatermarks {
    sessions: BTreeMap<u128, Numbers>,
}

#[derive(Debug, Default)]
struct Numbers {
    /// All requests below this sequence number were answered.
    below: u32,
    /// Answered requests above a gap.
    beyond: BTreeSet<u32>,
}

impl AnsweredWatermarks {
    /// Records that a request was answered.
    pub(crate) fn note(&mut self, request: RequestId) {
        let RequestId { session, sequence } = request;
        let numbers = self.sessions.entry(session).or_default();
        if sequence >= numbers.below {
            numbers.beyond.insert(sequence);
        }
        while numbers.beyond.remove(&numbers.below) {
            numbers.below = numbers.below.saturating_add(1);
        }
        if numbers.beyond.len() > BEYOND_MAX {
            numbers.beyond.pop_last();
        }
        if self.sessions.len() > SESSIONS_MAX {
            self.sessions.pop_first();
        }
    }

    /// The last request of a session, at most `through`, up to which all requests were answered; `None` if
    /// there is none.
    pub(crate) fn up_to(&self, session: u128, through: u32) -> Option<u32> {
        let last = self.sessions.get(&session)?.below.checked_sub(1)?;
        Some(last.min(through))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_a_gap_do_not_count() {
        let mut answered = AnsweredWatermarks::default();
        let mut note = |sequence| {
            answered.note(RequestId { session: 1, sequence });
            answered.up_to(1, 9)
        };
        assert_eq!([1, 3, 0, 0, 2, 12].map(&mut note), [None, None, Some(1), Some(1), Some(3), Some(3)]);
        assert_eq!((answered.up_to(1, 2), answered.up_to(2, 0)), (Some(2), None));
    }

    #[test]
    fn table_is_bounded() {
        let mut answered = AnsweredWatermarks::default();
        for session in 0..SESSIONS_MAX as u128 + 9 {
            answered.note(RequestId { session, sequence: 0 });
        }
        assert_eq!(answered.sessions.len(), SESSIONS_MAX);
        for sequence in 2..5_000 {
            answered.note(RequestId { session: u128::MAX, sequence });
        }
        assert!(answered.sessions.values().all(|numbers| numbers.beyond.len() <= BEYOND_MAX));
    }
}
