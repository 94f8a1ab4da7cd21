//! What was done for whom under which number, so that what is asked again is not done again.
//!
//! A member has one proposal under way at a time. So it is enough to know the last one of each life of a member, and a lower number
//! is a straggler that nobody waits for. What must hold: this is part of the state, the same at all members, and in snapshots.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::command::{Answer, Outcome};

/// How many lives of members are remembered: those heard of last.
pub const SESSIONS_MAX: usize = 64;

/// What a command came to, as far as it cannot be found in the state afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredAnswer {
    /// Which of its writes were the first to their registers.
    Written(Vec<bool>),
    Done,
    Stored(bool),
}

impl From<&Answer> for StoredAnswer {
    fn from(answer: &Answer) -> Self {
        match answer {
            Answer::Written(outcomes) => {
                Self::Written(outcomes.iter().map(|outcome| *outcome == Outcome::Fresh).collect())
            }
            Answer::Done => Self::Done,
            Answer::Stored(stored) => Self::Stored(*stored),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Session {
    id: u64,
    sequence: u64,
    memos: Vec<StoredAnswer>,
}

/// The last proposal of each life of a member, the one heard of last at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    known: VecDeque<Session>,
}

/// What is known of a proposal.
pub enum Known<'a> {
    /// It is new.
    Nothing,
    /// It was done, and came to this.
    Done(&'a [StoredAnswer]),
    /// A later one was done.
    Stale,
}

impl Sessions {
    pub fn look(&self, session: u64, sequence: u64) -> Known<'_> {
        match self.known.iter().find(|known| known.id == session) {
            Some(known) if known.sequence > sequence => Known::Stale,
            Some(known) if known.sequence == sequence => Known::Done(&known.memos),
            _ => Known::Nothing,
        }
    }

    pub fn remember(&mut self, session: u64, sequence: u64, answers: &[Answer]) {
        self.known.retain(|known| known.id != session);
        if self.known.len() == SESSIONS_MAX {
            self.known.pop_front();
        }
        let memos = answers.iter().map(StoredAnswer::from).collect();
        self.known.push_back(Session { id: session, sequence, memos });
    }
}
