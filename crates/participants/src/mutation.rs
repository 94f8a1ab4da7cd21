//! Planted bugs, which the scenarios must detect. Each removes the protection against one pitfall of an
//! engine.

use std::sync::atomic::{AtomicU8, Ordering};

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mutation {
    /// PostgreSQL: the vote does not check for a valid transaction. `PREPARE TRANSACTION` of a failed one
    /// reports success.
    UnguardedVote = 1,
    /// MariaDB: a branch continues after a failed statement. `XA PREPARE` prepares the rest.
    ErrorIgnored,
    /// Both: "no such branch" counts as committed.
    UnknownIsDone,
    /// MariaDB: the session is reset while it has a prepared branch. `XA COMMIT` then reports success without
    /// effect.
    SessionReset,
    /// MariaDB: a branch that was rolled back is not listed again. After a crash it is prepared again.
    RollbackTrusted,
    /// MariaDB: no commit marker. A branch that changed nothing is lost with its connection after its yes
    /// vote.
    MarkerOmitted,
    /// MariaDB: a branch is resolved while its session ends. `XA COMMIT` then reports success without effect.
    SessionEndNotAwaited,
    /// MariaDB's client library: an error of any statement of a message but the first is reported only by the
    /// next read. A failed prepare of several statements looks like a yes vote.
    LateErrorIgnored,
    /// Both: the sessions of a suspected server are not terminated. Its open branches block others.
    FenceOmitted,
}

static ACTIVE: AtomicU8 = AtomicU8::new(0);

/// Activates a planted bug, or none.
pub fn plant(mutation: Option<Mutation>) {
    ACTIVE.store(mutation.map_or(0, |mutation| mutation as u8), Ordering::SeqCst);
}

/// Whether a planted bug is active.
pub(crate) fn is_active(mutation: Mutation) -> bool {
    ACTIVE.load(Ordering::SeqCst) == mutation as u8
}
