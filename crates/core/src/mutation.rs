//! Mutations: deliberate bugs that show that the checkers of the simulators can fail. Compiled only with the
//! feature `mutations`.
//!
//! `if mutated!(Name)` marks the place of a bug, in this crate, `wal`, `engine` and `cluster`. Without the
//! feature the macro is `false`, so the bug is not in the program. At most one bug is active, in the thread
//! that selected it. The simulators list what each bug breaks and which checker must detect it.

use std::cell::Cell;

/// A deliberate bug.
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
    OwnerIgnoresTaken,
    UnknownIsFailure,
    UnknownIsSuccess,
    RetryWithOtherBytes,
    RetryAtNextSlot,
    ClaimWithoutReadingToEnd,
    TwoClaimsOneTerm,
    ChainNotChecked,
    ReadWithoutProof,
    TrimBeforeManifest,
    DeleteListedObject,
    ManifestOnOldBase,
    SeedWithoutTail,
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
