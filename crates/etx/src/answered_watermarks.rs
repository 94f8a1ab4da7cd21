//! Which requests of which sessions this server has answered, so far as their numbers go on without a gap.
//!
//! A decision is forgotten early when its client says that it has the answer. Should that not be true, of a client that is mistaken or means harm, a commit would be forgotten before it is carried
//! out, and count as aborted. So a server goes by what it has seen itself: an answer is given when all is carried out.
//!
//! What must hold: nothing is in here that was not answered; what is left out only stays until its session is old. So the table has a limit.

use std::collections::{BTreeMap, BTreeSet};

use crate::RequestId;

/// Sessions that are remembered, those that were begun last.
const SESSIONS_MAX: usize = 65_536;

/// Numbers beyond a gap that are remembered of a session: those of requests that are under way at the same time.
const BEYOND_MAX: usize = 256;

/// The table.
#[derive(Debug, Default)]
pub(crate) struct AnsweredWatermarks {
    sessions: BTreeMap<u128, Numbers>,
}

#[derive(Debug, Default)]
struct Numbers {
    /// All below this were answered.
    below: u32,
    /// These too.
    beyond: BTreeSet<u32>,
}

impl AnsweredWatermarks {
    /// A request was answered.
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

    /// Up to which request of a session all were answered, and were acknowledged up to `through`; nothing if there is none.
    pub(crate) fn up_to(&self, session: u128, through: u32) -> Option<u32> {
        let last = self.sessions.get(&session)?.below.checked_sub(1)?;
        Some(last.min(through))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_answered_without_a_gap_counts() {
        let mut answered = AnsweredWatermarks::default();
        let mut note = |sequence| {
            answered.note(RequestId { session: 1, sequence });
            answered.up_to(1, 9)
        };
        assert_eq!([1, 3, 0, 0, 2, 12].map(&mut note), [None, None, Some(1), Some(1), Some(3), Some(3)]);
        assert_eq!((answered.up_to(1, 2), answered.up_to(2, 0)), (Some(2), None));
    }

    #[test]
    fn it_has_a_limit() {
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
