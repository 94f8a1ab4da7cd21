//! Planted bugs, for the simulator: proof that its checkers can fail. Not compiled unless the feature `mutations` is on.
//!
//! At most one is active, in the thread that chose it. What each breaks, and who should notice, is listed with the simulator.

use std::cell::Cell;

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the simulator has a table that says what each one breaks")]
pub enum Mutation {
    AckBeforeSync,
    ReadBeforeDurable,
    SyncSkipped,
    ForgetIndex,
    SkipTrimCheck,
    OverwriteSlot,
    DropGenerationEarly,
    DropErasEarly,
    SnapshotBeforeDurable,
    IdsBeforeDurable,
    ValuesBeforeDurable,
    ReplaySkipsIds,
    ReplaySkipsFilter,
    ReplayTwice,
    ReplayForgetsEnds,
    OverBeforeStored,
    ForgetRefusals,
    IgnorePayload,
    IgnoreEpochs,
    LargeEpochs,
    FloorNotStored,
    EraFloorIgnored,
    PastErasIgnored,
    LateIsTaken,
    UncheckedFrames,
    WallClockTime,
    EvictDirty,
    SessionsNotStored,
    IgnoreBehind,
    NoEscrow,
    NoTombstones,
    SettleTwice,
    BranchesNotStored,
}

std::thread_local! {
    static ACTIVE: Cell<Option<Mutation>> = const { Cell::new(None) };
}

/// Lets a bug act in this thread, or none.
pub fn activate(mutation: Option<Mutation>) {
    ACTIVE.set(mutation);
}

/// Whether a bug acts in this thread.
pub fn is_active(mutation: Mutation) -> bool {
    ACTIVE.get() == Some(mutation)
}
