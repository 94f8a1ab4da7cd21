//! What can happen in a step, and how often.

use crate::rng::Rng;
use crate::scenario::Profile;

/// What happens in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A client sends something.
    Send,
    /// Clients send a lot at once.
    Burst,
    /// A client reads.
    Read,
    /// A client waits no longer for an answer.
    Impatience,
    /// The log takes a frame, or brings it to the disk.
    Flush,
    /// The log works on its files.
    SegmentTask,
    /// Something that a shard handed out is stored.
    Keep,
    /// The filters are stored, by a step.
    Filters,
    /// All shards are asked to hand out what the stores lack.
    Checkpoint,
    /// Runs are merged.
    Merge,
    /// What has expired is dropped.
    Expire,
    /// A little time passes.
    Timestamp,
    /// Much time passes.
    Age,
    /// The wall clock is set.
    WallStep,
    /// A table gets other settings.
    Settings,
    /// The disk becomes full, read-only, or has no handles left.
    Limit,
    /// It has room again.
    Relief,
    /// One of the next operations of the disk fails.
    FailSoon,
    /// Syncs fail from now on.
    SyncFails,
    /// The power fails during one of the next operations of the disk.
    DieSoon,
    /// The power fails now.
    Crash,
    /// The process is ended in good order, and started again.
    Restart,
    /// A bit turns over.
    Flip,
    /// The value store comes back older than it was, after a crash.
    RollBack,
    /// A former owner of a partition writes to its log.
    Sleeper,
}

impl Event {
    /// Draws what happens.
    pub fn draw(profile: &Profile, rng: &mut Rng) -> Self {
        let rough = profile.rough;
        let when = |condition: bool, weight: u32| if condition { weight } else { 0 };
        rng.weighted(&[
            (60, Self::Send),
            (profile.bursts, Self::Burst),
            (14, Self::Read),
            (2 * rough, Self::Impatience),
            (45, Self::Flush),
            (8, Self::SegmentTask),
            (22, Self::Keep),
            (4, Self::Filters),
            (2, Self::Checkpoint),
            (5, Self::Merge),
            (3, Self::Expire),
            (10, Self::Timestamp),
            (profile.ageing, Self::Age),
            (when(profile.clock_steps, 2), Self::WallStep),
            (profile.changing, Self::Settings),
            (rough, Self::Limit),
            (2 * rough, Self::Relief),
            (rough, Self::FailSoon),
            (when(rough > 1, 1), Self::SyncFails),
            (2 * rough, Self::DieSoon),
            (rough, Self::Crash),
            (1, Self::Restart),
            (when(profile.flips, 2), Self::Flip),
            (when(profile.rollbacks, 2), Self::RollBack),
            (2, Self::Sleeper),
        ])
    }
}
