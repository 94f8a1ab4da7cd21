//! The planted bugs: what each breaks, and which checker is expected to notice.
//!
//! They are in the code under test, which must be built with the feature `mutations` for them to act.

/// A planted bug, and what is expected of the checkers.
#[derive(Debug)]
pub struct Mutation {
    /// Its name, for the command line.
    pub name: &'static str,
    /// What it breaks.
    pub breaks: &'static str,
    /// The rules of which one is expected to notice. Where several defences stand behind one another, any of them may be the first.
    pub noticed_by: &'static [&'static str],
    /// Number of seeds within which it is detected.
    pub seeds: u64,
}

/// A planted bug that is known to the build.
#[derive(Debug, Clone, Copy)]
pub struct KnownMutation(#[cfg(feature = "mutations")] jeton_core::mutation::Mutation);

/// While this lives, the bug acts in the thread that planted it.
#[must_use]
#[derive(Debug)]
pub struct MutationGuard(());

impl Drop for MutationGuard {
    fn drop(&mut self) {
        #[cfg(feature = "mutations")]
        jeton_core::mutation::activate(None);
    }
}

impl KnownMutation {
    /// Lets it act in this thread.
    pub fn plant(self) -> MutationGuard {
        #[cfg(feature = "mutations")]
        jeton_core::mutation::activate(Some(self.0));
        MutationGuard(())
    }
}

macro_rules! mutations {
    ($($name:ident, $breaks:literal, [$($rule:literal),*], $seeds:literal;)*) => {
        /// All planted bugs.
        pub const ALL: &[Mutation] = &[$(
            Mutation { name: stringify!($name), breaks: $breaks, noticed_by: &[$($rule),*], seeds: $seeds },
        )*];

        /// The bug of this name; the message says why there is none.
        pub fn find(name: &str) -> Result<KnownMutation, String> {
            match name {
                $(#[cfg(feature = "mutations")] stringify!($name) => Ok(KnownMutation(jeton_core::mutation::Mutation::$name)),)*
                $(#[cfg(not(feature = "mutations"))] stringify!($name) => Err("build with --features mutations to plant a bug".into()),)*
                _ => {
                    let names: Vec<&str> = ALL.iter().map(|mutation| mutation.name).collect();
                    Err(format!("there is no mutation {name}; there are {}", names.join(", ")))
                }
            }
        }
    };
}

mutations! {
    AckBeforeSync, "a write is acknowledged before its batch is durable", ["answers"], 20;
    ReadBeforeDurable, "a read shows what a crash can take back", ["reads"], 20;
    SyncSkipped, "the log is written and not synced", ["history", "opening"], 40;
    ForgetIndex, "an id that may be known is not looked up in the index", ["recount", "branches"], 40;
    SkipTrimCheck, "an append to a trimmed slot is accepted", ["log"], 40;
    OverwriteSlot, "an append to a slot that is taken is accepted", ["log"], 20;
    DropGenerationEarly, "generations of ids are dropped ten minutes before they expire", ["recount"], 60;
    DropErasEarly, "eras of a table are dropped ten minutes early", ["recount", "refusals"], 100;
    SnapshotBeforeDurable, "filters are stored with ids that a crash can take back", ["answers", "opening"], 400;
    IdsBeforeDurable, "ids are stored in the index before their batch is durable", ["opening", "answers"], 200;
    ValuesBeforeDurable, "values are stored before their batch is durable", ["opening", "history"], 200;
    ReplaySkipsIds, "a replay does not take up the ids that the index lacks", ["recount", "branches"], 40;
    ReplaySkipsFilter, "a replay does not fill the filters where the value store is ahead", ["recount"], 100;
    ReplayTwice, "a replay applies twice what the value store lacks", ["history", "reads", "opening"], 100;
    ReplayForgetsEnds, "a replay forgets the ends that values were given", ["history", "reads", "opening"], 100;
    OverBeforeStored, "a value that is over is dropped while the log gives it a later end", ["opening", "history", "reads"], 800;
    ForgetRefusals, "an operation that a bound refused is not remembered", ["recount"], 40;
    IgnorePayload, "another payload under a known id gets the first answer", ["answers"], 20;
    IgnoreEpochs, "a client's ended epoch is taken up again", ["recount"], 100;
    LargeEpochs, "an epoch far ahead of the store's time is taken", ["recount"], 40;
    FloorNotStored, "the epochs of forgotten clients are forgotten in a restart", ["recount"], 200;
    EraFloorIgnored, "an id that an era of shorter memory forgot is taken by one of longer", ["recount"], 800;
    PastErasIgnored, "a change of settings forgets the ids taken before it", ["recount"], 100;
    LateIsTaken, "an id beyond its window is taken", ["recount"], 40;
    UncheckedFrames, "a torn frame of the log is taken for a whole one", ["opening", "history", "panic"], 200;
    WallClockTime, "the store's time is the wall clock's", ["time", "panic", "refusals"], 60;
    EvictDirty, "the cache lets go of a cell that the value store lacks", ["history", "reads"], 60;
    SessionsNotStored, "a partition's checkpoint goes without its sessions", ["recount"], 100;
    NoEscrow, "nothing is kept back for what is held", ["branches", "history"], 200;
    NoTombstones, "a branch is held though it was aborted before", ["branches"], 100;
    SettleTwice, "a branch that has ended is ended again", ["branches"], 40;
    BranchesNotStored, "a partition's checkpoint goes without its branches", ["opening"], 100;
    IgnoreBehind, "a value store that lost its last steps is served", ["history", "panic", "reads", "opening"], 2000;
}
