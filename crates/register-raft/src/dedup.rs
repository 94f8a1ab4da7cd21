//! Deduplication of proposals: the last proposal of each session and its results.
//!
//! A member has one proposal in flight at a time, so the last one of each session is enough; a lower number
//! is a late retry that no caller waits for. The sessions are part of the replicated state and of snapshots.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::command::{CommandResult, Outcome};

/// The number of sessions that are remembered, by latest use.
pub const SESSIONS_MAX: usize = 64;

/// The part of a result that cannot be computed from the state again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredResult {
    /// For each write, whether it was fresh.
    Written(Vec<bool>),
    Done,
    Stored(bool),
}

impl From<&CommandResult> for StoredResult {
    fn from(result: &CommandResult) -> Self {
        match result {
            CommandResult::Written(outcomes) => {
                Self::Written(outcomes.iter().map(|outcome| *outcome == Outcome::Fresh).collect())
            }
            CommandResult::Done => Self::Done,
            CommandResult::Stored(stored) => Self::Stored(*stored),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Session {
    id: u64,
    sequence: u64,
    results: Vec<StoredResult>,
}

/// The sessions, the most recently used one last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    known: VecDeque<Session>,
}

/// What is known about a proposal.
pub enum ProposalStatus<'a> {
    New,
    Applied(&'a [StoredResult]),
    /// A later proposal of the session was applied.
    Superseded,
}

impl Sessions {
    pub fn find(&self, session: u64, sequence: u64) -> ProposalStatus<'_> {
        match self.known.iter().find(|known| known.id == session) {
            Some(known) if known.sequence > sequence => ProposalStatus::Superseded,
            Some(known) if known.sequence == sequence => ProposalStatus::Applied(&known.results),
            _ => ProposalStatus::New,
        }
    }

    pub fn remember(&mut self, session: u64, sequence: u64, results: &[CommandResult]) {
        self.known.retain(|known| known.id != session);
        if self.known.len() == SESSIONS_MAX {
            self.known.pop_front();
        }
        let results = results.iter().map(StoredResult::from).collect();
        self.known.push_back(Session { id: session, sequence, results });
    }
}
