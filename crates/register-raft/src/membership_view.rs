//! The cluster as a member sees it: who leads, and when each member was last heard from.
//!
//! For failure detectors. The leader hears from every member several times within an election timeout; the
//! others hear from the leader only. Safety does not depend on it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A member as another member sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberView {
    pub id: u64,
    pub role: MemberRole,
    /// When it was last heard from since this member started; for this member itself, now.
    pub last_seen: Option<Instant>,
    /// Why the last request to it failed, unless it was heard from since.
    pub last_error: Option<String>,
}

/// The role of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberRole {
    Leader,
    Voter,
    /// Its identity is not admitted (yet): it does not count for a majority.
    NotAdmitted,
}

/// When each member was last heard from, and the errors since.
#[derive(Debug, Default)]
pub struct LastSeen {
    members: Mutex<BTreeMap<u64, Contact>>,
    /// Why the cluster is not bootstrapped although all members respond.
    disagreement: Mutex<Option<String>>,
}

#[derive(Debug, Clone, Default)]
pub struct Contact {
    pub at: Option<Instant>,
    pub error: Option<String>,
}

impl LastSeen {
    fn members(&self) -> MutexGuard<'_, BTreeMap<u64, Contact>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn record(&self, member: u64) {
        self.members().insert(member, Contact { at: Some(Instant::now()), error: None });
    }

    pub fn record_error(&self, member: u64, error: String) {
        self.members().entry(member).or_default().error = Some(error);
    }

    pub fn set_disagreement(&self, why: Option<String>) {
        *self.disagreement.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    pub fn last(&self, member: u64) -> Contact {
        self.members().get(&member).cloned().unwrap_or_default()
    }

    /// All known errors, for the message of a request that found no leader.
    pub fn errors(&self) -> String {
        let disagreement = self.disagreement.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let members = self.members();
        let errors = members.values().filter_map(|contact| contact.error.clone());
        disagreement.into_iter().chain(errors).collect::<Vec<_>>().join("; ")
    }
}
