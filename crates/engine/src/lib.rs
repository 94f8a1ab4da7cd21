//! Partitions at work on one machine: group commit, id index, checkpoints, recovery.
//!
//! [`Engine`] is the whole: a store in a directory, its threads, and the way in. Below it everything is without threads and clocks
//! ([`Shard`], [`Checkpointer`], [`find`] and [`share_out`]), so that the simulator runs the same code step by step.

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
pub use branches::{FinishResult, PrepareError, PrepareResult, PreparedBranchInfo};
pub use clock::{Clock, ClockAhead, SystemClock};
pub use engine::{Engine, OpenError, TablesView};
pub use filters::{FilterVersion, StoredFilters};
pub use keeper::{CheckpointError, CheckpointPositions, Checkpointer};
pub use marks::Watermarks;
pub use options::Options;
pub use recovery::{LoadedState, Recovered, RecoveryError, Replayed, find, share_out};
pub use reply::{Ask, BranchResponse, CommittedCount, EngineError, OperationOutcome, Response};
pub use request::{BranchRequest, Request};
pub use shard::{FrozenIds, FrozenValues, Shard, Slots, Stores};
pub use stats::{Stats, TableStats};
pub use tables::TableError;
