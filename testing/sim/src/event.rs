//! The events of a step, and their weights.

use crate::rng::Rng;
use crate::scenario::Profile;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Send,
    Burst,
    Read,
    /// A client stops waiting for a response.
    ClientTimeout,
    /// The log takes a frame for writing, or writes it.
    Flush,
    /// The log prepares or removes segments.
    SegmentTask,
    /// The checkpointer stores a frozen memtable.
    StoreJob,
    /// The next step of storing the filters.
    Filters,
    /// All shards freeze what the stores lack.
    Checkpoint,
    Merge,
    Expire,
    ShortPause,
    LongPause,
    WallStep,
    Settings,
    /// The disk becomes full, read-only, or runs out of handles.
    Limit,
    /// The disk works again.
    ClearLimits,
    FailSoon,
    SyncFails,
    /// The power fails during one of the next disk operations.
    PowerFailsSoon,
    Crash,
    /// The process shuts down and starts again.
    Restart,
    BitFlip,
    /// After a crash the value store is older than it was.
    RollBack,
    /// A former owner of a partition appends to its log.
    StaleAppend,
}

impl Event {
    pub fn draw(profile: &Profile, rng: &mut Rng) -> Self {
        let fault_level = profile.fault_level;
        let when = |condition: bool, weight: u32| if condition { weight } else { 0 };
        rng.weighted(&[
            (60, Self::Send),
            (profile.bursts, Self::Burst),
            (14, Self::Read),
            (2 * fault_level, Self::ClientTimeout),
            (45, Self::Flush),
            (8, Self::SegmentTask),
            (22, Self::StoreJob),
            (4, Self::Filters),
            (2, Self::Checkpoint),
            (5, Self::Merge),
            (3, Self::Expire),
            (10, Self::ShortPause),
            (profile.long_pauses, Self::LongPause),
            (when(profile.clock_steps, 2), Self::WallStep),
            (profile.changing, Self::Settings),
            (fault_level, Self::Limit),
            (2 * fault_level, Self::ClearLimits),
            (fault_level, Self::FailSoon),
            (when(fault_level > 1, 1), Self::SyncFails),
            (2 * fault_level, Self::PowerFailsSoon),
            (fault_level, Self::Crash),
            (1, Self::Restart),
            (when(profile.flips, 2), Self::BitFlip),
            (when(profile.rollbacks, 2), Self::RollBack),
            (2, Self::StaleAppend),
        ])
    }
}
