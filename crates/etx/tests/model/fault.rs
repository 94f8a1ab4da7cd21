//! Faults of the model, and mistakes planted in the protocol.

/// The limit of each kind of fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A server crashes and restarts.
    pub crashes: u8,
    /// A server is suspected by mistake.
    pub suspicions: u8,
    /// A database votes no, or the procedure fails.
    pub refusals: u8,
    /// The client sends to another server before it has to.
    pub haste: u8,
    /// A database reports an unknown branch, because another session is resolving it or its session still
    /// exists.
    pub unknown: u8,
    /// A database crashes: branches that are not prepared are lost.
    pub outages: u8,
    /// A fence is acknowledged without effect, in one database or in all: the sessions of the fenced
    /// coordinator continue, and their statements in flight take effect.
    pub fences: u8,
    /// A connection breaks while a prepare, or a commit with its decision, is in flight. The server gets an
    /// error; the statement takes effect before, or after, or not at all.
    pub breaks: u8,
    /// A database accepts no connection when a branch is to begin, or the decision store does not respond.
    pub unavailable: u8,
}

/// A mistake planted in the protocol, which the checks must detect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mistake {
    None,
    /// There is no recovery.
    NoRecovery,
    /// A server has the same identity after a crash.
    SameIdentity,
    /// An unknown branch counts as committed.
    UnknownIsCommitted,
    /// Recovery rolls a prepared branch without a decision back and does not record an abort.
    RecoveryWithoutDecision,
    /// The client is answered when the decision is recorded, before it is carried out.
    EarlyAnswer,
    /// A lost vote counts as yes.
    LostVoteIsYes,
    /// A coordinator waits for the decision of another one even if that one is dead.
    WaitsForTheDead,
    /// A coordinator that takes over from a suspected one assumes an abort without recording it, and begins
    /// the next attempt.
    AssumesAbort,
    /// A recorded commit counts as our own, whatever coordinator it names.
    EveryCommitIsOurs,
    /// The client gets the answer of its server, though another coordinator won.
    OwnAnswer,
    /// The first computed answer is also the answer of later attempts.
    FirstAnswerIsKept,
    /// The answer of another request is the answer to this one.
    OtherAnswerIsKept,
    /// Branches that a coordinator had in flight when it was fenced are not recovered.
    FenceIsTrusted,
    /// An attempt whose database is unavailable is recorded as aborted.
    UnavailableIsAborted,
}
