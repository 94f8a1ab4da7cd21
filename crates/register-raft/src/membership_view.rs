//! How the cluster looks from here: who leads, and who was heard of when.
//!
//! It is for whoever suspects members of being gone. A leader hears from all of them, several times in the time of an election; the others hear from
//! the leader. Suspicion is never needed for safety.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A member, as it looks from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberView {
    /// Its number.
    pub id: u64,
    /// What part it has.
    pub standing: MemberRole,
    /// When it was last heard of, if ever since this member started. This member is heard of now.
    pub heard: Option<Instant>,
    /// What went wrong when it was last asked something, unless it has been heard of since.
    pub trouble: Option<String>,
}

/// What part a member has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberRole {
    /// It leads.
    Leader,
    /// It votes.
    Voter,
    /// It is about to be let in, or is not: it counts for nothing.
    Outside,
}

/// When each member was last heard of, and what went wrong since.
#[derive(Debug, Default)]
pub struct LastSeen {
    members: Mutex<BTreeMap<u64, Word>>,
    /// Why the cluster is not founded though all are there.
    discord: Mutex<Option<String>>,
}

#[derive(Debug, Clone, Default)]
pub struct Word {
    pub at: Option<Instant>,
    pub trouble: Option<String>,
}

impl LastSeen {
    /// It was heard of now.
    pub fn note(&self, member: u64) {
        let word = Word { at: Some(Instant::now()), trouble: None };
        self.members.lock().unwrap_or_else(PoisonError::into_inner).insert(member, word);
    }

    /// Something went wrong with it now.
    pub fn note_trouble(&self, member: u64, why: String) {
        self.members.lock().unwrap_or_else(PoisonError::into_inner).entry(member).or_default().trouble =
            Some(why);
    }

    /// Whether the members disagree about something, and what it is.
    pub fn note_discord(&self, why: Option<String>) {
        *self.discord.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    pub fn last(&self, member: u64) -> Word {
        self.members.lock().unwrap_or_else(PoisonError::into_inner).get(&member).cloned().unwrap_or_default()
    }

    /// What is wrong with whom, for whoever asks why there is no answer.
    pub fn troubles(&self) -> String {
        let discord = self.discord.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        let troubles = members.values().filter_map(|word| word.trouble.clone());
        discord.into_iter().chain(troubles).collect::<Vec<_>>().join("; ")
    }
}
