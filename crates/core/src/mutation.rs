//! Planted bugs that show that the simulator's checkers can fail. Compiled only with the feature `mutations`.
//!
//! At most one is active, in the thread that selected it. The simulator lists what each breaks and which
//! checker must notice.

use std::cell::Cell;

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    AckBeforeSync,
    ReadBeforeDurable,
    RelaxedUnbounded,
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
    ScopeIgnoresRow,
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

/// Selects the bug of this thread, or none.
pub fn activate(mutation: Option<Mutation>) {
    ACTIVE.set(mutation);
}

/// Whether this bug is active in this thread.
pub fn is_active(mutation: Mutation) -> bool {
    ACTIVE.get() == Some(mutation)
}
