//! What goes wrong in the world, and what is wrong with those who live in it.

/// How many of each fault there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A server crashes. It comes back.
    pub crashes: u8,
    /// A server is taken for dead that is not.
    pub suspicions: u8,
    /// A database votes no, or the business logic fails.
    pub refusals: u8,
    /// The client asks another server before it has to.
    pub haste: u8,
    /// A database says that it does not know a branch, because another is just deciding it or its maker is still connected.
    pub unknown: u8,
    /// A database crashes: what is not prepared is lost.
    pub outages: u8,
    /// A fence is acknowledged and does nothing, in one database or in all: the sessions of the fenced live on, and what they had under way comes about.
    pub fences: u8,
    /// A connection breaks while a vote, or a commit with its decision, is under way. Its server lives on and hears of a failure; the deed comes about before, or
    /// after, or not at all.
    pub breaks: u8,
}

/// What is broken on purpose, to see that the checks see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mistake {
    /// Nothing.
    None,
    /// Nobody sweeps.
    NoSweep,
    /// A server has the same identity after a crash.
    SameIdentity,
    /// A database that does not know a branch is taken to have committed it.
    UnknownIsCommitted,
    /// A prepared branch without a decision is rolled back without writing that the try is void.
    SweepWithoutWriting,
    /// The client is answered when the decision stands, before it is carried out.
    EarlyAnswer,
    /// A vote that is lost is taken for yes.
    LostVoteIsYes,
    /// Who waits for another's decision waits for it even if that one is dead.
    WaitsForTheDead,
    /// Who steps in for another that seems dead takes its try for void, without writing so, and begins the next one.
    TakesForVoid,
    /// A commit that stands is taken for our own, whoever it names.
    EveryCommitIsOurs,
    /// The client gets what its server computed, though the work of another counts.
    OwnAnswer,
    /// What was computed first is kept, and is the answer of later tries too.
    FirstAnswerIsKept,
    /// What was computed for another request is kept, and is the answer to this one.
    OtherAnswerIsKept,
    /// What an executor had under way when it was fenced is not looked for any more.
    FenceIsTrusted,
}
