//! Planted bugs, for tests of the tests: each is a trap of an engine that we would fall into without what we do about it.

use std::sync::atomic::{AtomicU8, Ordering};

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mutation {
    /// PostgreSQL: the vote does not look whether there is a sound transaction. `PREPARE` of a failed one says that all is well.
    UnguardedVote = 1,
    /// MariaDB: a statement that failed is forgiven. `XA PREPARE` prepares the rest.
    ErrorForgiven,
    /// Both: "no such branch" counts as committed.
    UnknownIsDone,
    /// MariaDB: the session is reset while it holds a prepared branch. `XA COMMIT` then says that all is well.
    SessionReset,
    /// MariaDB: what was rolled back once is not looked for again. After a crash it is prepared again.
    RollbackTrusted,
    /// MariaDB: no mark. A branch that changed nothing is gone with its connection, though it voted.
    MarkOmitted,
    /// MariaDB: a branch is ended in the moment in which its session goes. `XA COMMIT` then says that all is well.
    PartingNotAwaited,
    /// MariaDB's driver: an error of any statement of a message but the first is shown only to who asks once more. A vote of several statements that failed
    /// looks like a yes.
    LateErrorIgnored,
    /// Both: the sessions of a server that hangs are not ended. What they have open is in everybody's way.
    FenceOmitted,
}

static ACTIVE: AtomicU8 = AtomicU8::new(0);

/// Plants one, or none.
pub fn plant(mutation: Option<Mutation>) {
    ACTIVE.store(mutation.map_or(0, |mutation| mutation as u8), Ordering::SeqCst);
}

/// Whether it is planted.
pub(crate) fn is_active(mutation: Mutation) -> bool {
    ACTIVE.load(Ordering::SeqCst) == mutation as u8
}
