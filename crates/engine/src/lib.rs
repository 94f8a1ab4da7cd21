//! Partitions at work on one machine: group commit, id index, checkpoints, recovery.
//!
//! [`Engine`] is the whole: a store in a directory, its threads, and the way in. Below it everything is without threads and clocks
//! ([`Shard`], [`Keeper`], [`find`] and [`share_out`]), so that the simulator runs the same code step by step.

mod answers;
mod asked;
mod backup;
mod branches;
mod cache;
mod clock;
mod date;
mod engine;
mod filters;
mod health;
mod hold;
pub mod ids;
mod keeper;
mod marks;
mod options;
pub mod parts;
mod recent;
mod recovery;
mod reply;
mod request;
mod shard;
mod stats;
mod store_thread;
mod tables;
mod tasks;
mod upkeep;
pub mod values;
mod worker;

pub use backup::{BackupError, BackupReport};
pub use branches::{HeldBranch, HoldError, Settled, Vote};
pub use clock::{Clock, ClockAhead, SystemClock};
pub use engine::{Engine, OpenError, TablesView};
pub use filters::{FilterVersion, StoredFilters};
pub use keeper::{KeepError, Keeper, Kept};
pub use marks::Marks;
pub use options::Options;
pub use recovery::{Found, Recovered, RecoveryError, Replayed, find, share_out};
pub use reply::{Ask, BranchReply, Counted, Refusal, Reply, Response};
pub use request::{BranchAsk, Request};
pub use shard::{FrozenIds, FrozenValues, Shard, Slots, Stores};
pub use stats::{Stats, TableStats};
pub use tables::TableError;
