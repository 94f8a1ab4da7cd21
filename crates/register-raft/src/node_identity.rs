//! Who a member is to Raft.
//!
//! A voter that forgets what it voted or stored can undo what was agreed: it may vote twice in one term, or elect a leader that
//! lacks what it had acknowledged. So the identity that Raft knows is not the member's number but a number drawn when its log is
//! made, and kept in the log. What must hold: *whoever has an empty log has an identity that never voted*. In memory that is so at every start;
//! on disk, at the first one and whenever the folder is gone.
//!
//! The member's number is a seat. An identity without a seat is let into its own by the leader, in the place of the one that sat there
//! ([`founding`](crate::bootstrap)).

use serde::{Deserialize, Serialize};

use crate::open_error::OpenError;

/// The version of what is in the folder.
const VERSION: u32 = 1;

/// What a log says whose it is.
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

    /// Whether the log is one of this member's, and can be read.
    pub fn check(&self, member: u64) -> Result<(), OpenError> {
        if self.version != VERSION {
            let version = self.version;
            return Err(OpenError::Damaged(format!(
                "the log is of version {version}, this program reads {VERSION}"
            )));
        }
        if self.member != member {
            let theirs = self.member;
            return Err(OpenError::Settings(format!(
                "the folder is that of member {theirs}, not of {member}"
            )));
        }
        Ok(())
    }
}

/// A number that nobody else draws, and not 0, which Raft takes for nobody.
pub fn draw() -> Result<u64, OpenError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| OpenError::Io { what: "no randomness".into(), source: error.into() })?;
    Ok(u64::from_le_bytes(bytes).max(1))
}
