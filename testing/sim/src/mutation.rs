//! The mutations: what each breaks, and which checker must detect it.
//!
//! They are in the code under test, which must be built with the feature `mutations`.

#[derive(Debug)]
pub struct Mutation {
    pub name: &'static str,
    pub breaks: &'static str,
    /// One of these rules must detect it. If several can, the first one depends on the seed.
    pub detected_by: &'static [&'static str],
    /// It is detected within this number of seeds.
    pub seeds: u64,
}

/// A mutation that is compiled in.
#[derive(Debug, Clone, Copy)]
pub struct KnownMutation(#[cfg(feature = "mutations")] jeton_core::mutation::Mutation);

/// While it exists, the mutation is active in the thread that activated it.
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
    pub fn plant(self) -> MutationGuard {
        #[cfg(feature = "mutations")]
        jeton_core::mutation::activate(Some(self.0));
        MutationGuard(())
    }
}

macro_rules! mutations {
    ($($name:ident, $breaks:literal, [$($rule:literal),*], $seeds:literal;)*) => {
        pub const ALL: &[Mutation] = &[$(
            Mutation { name: stringify!($name), breaks: $breaks, detected_by: &[$($rule),*], seeds: $seeds },
        )*];

        /// The mutation with this name, or why there is none.
        pub fn find(name: &str) -> Result<KnownMutation, String> {
            match name {
                $(#[cfg(feature = "mutations")] stringify!($name) => Ok(KnownMutation(jeton_core::mutation::Mutation::$name)),)*
                $(#[cfg(not(feature = "mutations"))] stringify!($name) => Err("mutations need --features mutations".into()),)*
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
    ReadBeforeDurable, "a read shows values that a crash can lose", ["reads"], 20;
    RelaxedUnbounded, "a relaxed table acknowledges any number of writes while the disk stalls", ["durability"], 40;
    SyncSkipped, "the log is written and not synced", ["history", "opening"], 40;
    ForgetIndex, "the index lookup of a possibly known id is skipped", ["recount", "branches"], 40;
    SkipTrimCheck, "an append to a trimmed slot is accepted", ["log"], 40;
    OverwriteSlot, "an append to a slot that is taken is accepted", ["log"], 20;
    DropGenerationEarly, "generations of ids are dropped ten minutes before they expire", ["recount"], 60;
    DropErasEarly, "eras of a table are dropped ten minutes early", ["recount", "refusals"], 100;
    SnapshotBeforeDurable, "filters are stored with ids that a crash can lose", ["answers", "opening"], 400;
    IdsBeforeDurable, "ids are stored in the index before their batch is durable", ["opening", "answers"], 200;
    ValuesBeforeDurable, "values are stored before their batch is durable", ["opening", "history"], 200;
    ReplaySkipsIds, "a replay skips the ids that the index lacks", ["recount", "branches"], 40;
    ReplaySkipsFilter, "a replay does not fill the filters where the value store is ahead", ["recount"], 100;
    ReplayTwice, "a replay applies entries twice that the value store lacks", ["history", "reads", "opening"], 100;
    ReplayForgetsEnds, "a replay drops expiry times", ["history", "reads", "opening"], 100;
    OverBeforeStored, "an expired value is dropped while the log has a later expiry time", ["opening", "history", "reads"], 800;
    ForgetRefusals, "a refusal by a bound is not recorded", ["recount"], 40;
    IgnorePayload, "another payload under a known id gets the first result", ["answers"], 20;
    ScopeIgnoresRow, "an id that was used for one row is known for all rows", ["answers"], 40;
    IgnoreEpochs, "a fenced epoch is accepted", ["recount"], 100;
    LargeEpochs, "an epoch far ahead of the store clock is accepted", ["recount"], 40;
    FloorNotStored, "a restart loses the epochs of expired clients", ["recount"], 200;
    EraFloorIgnored, "an era with a longer window accepts an id that a shorter era dropped", ["recount"], 800;
    PastErasIgnored, "a change of settings drops earlier ids", ["recount"], 100;
    LateIsTaken, "an expired id is accepted", ["recount"], 40;
    UncheckedFrames, "a torn frame of the log is accepted", ["opening", "history", "panic"], 200;
    WallClockTime, "the store clock is the wall clock", ["time", "panic", "refusals", "durability"], 60;
    EvictDirty, "the cache evicts a cell that the value store lacks", ["history", "reads"], 60;
    SessionsNotStored, "a checkpoint omits the sessions", ["recount"], 100;
    NoEscrow, "the escrow of prepared branches is ignored", ["branches", "history"], 200;
    NoTombstones, "a branch is prepared after its abort", ["branches"], 100;
    SettleTwice, "a finished branch is finished again", ["branches"], 40;
    BranchesNotStored, "a checkpoint omits the branches", ["opening"], 100;
    IgnoreBehind, "a value store that lost its last steps is accepted", ["history", "panic", "reads", "opening"], 2000;
}
