//! The identity of a member towards Raft.
//!
//! A voter that forgets its vote or its log can undo a decision: it may vote twice in a term, or elect a
//! leader without an acknowledged entry. So Raft does not know the member's number but an identity, which is
//! drawn at random when the log is created and stored in it.
//!
//! Invariant: *a member with an empty log has an identity that never voted.* In memory that is every start;
//! on disk, the first start and every start without the directory. The leader [admits](crate::bootstrap) it
//! in place of the member's previous identity.

use serde::{Deserialize, Serialize};

use crate::open_error::OpenError;

/// The version of the format of the log.
const VERSION: u32 = 1;

/// The owner of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogIdentity {
    version: u32,
    member: u64,
    pub identity: u64,
}

impl LogIdentity {
    /// For a new log of this member.
    pub fn new(member: u64) -> Result<Self, OpenError> {
        Ok(Self { version: VERSION, member, identity: draw()? })
    }

    /// Whether the log belongs to this member and has this version.
    pub fn check(&self, member: u64) -> Result<(), OpenError> {
        let Self { version, member: owner, .. } = *self;
        if version != VERSION {
            return Err(OpenError::Damaged(format!(
                "the log has version {version}, this program reads {VERSION}"
            )));
        }
        if owner != member {
            return Err(OpenError::Settings(format!(
                "the directory belongs to member {owner}, not to {member}"
            )));
        }
        Ok(())
    }
}

/// A random number other than 0, which openraft uses for no identity.
pub fn draw() -> Result<u64, OpenError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| OpenError::Io { what: "no random numbers".into(), source: error.into() })?;
    Ok(u64::from_le_bytes(bytes).max(1))
}
