//! The storage engine of one machine: group commit, id index, checkpoints, recovery.
//!
//! [`Engine`] is a store in a directory with its threads and its API. The parts below it ([`Shard`],
//! [`Checkpointer`], [`find`] and [`replay_log`]) have no threads and no clocks, so that the simulator runs
//! the same code step by step.

mod backup;
mod branches;
mod cache;
mod catalog_store;
mod cell_removal;
mod checkpoint_thread;
mod checkpointer;
mod clock;
mod creation_quota;
mod engine;
mod filter_store;
mod health;
mod id_memtable;
pub mod ids;
pub mod internals;
mod lock;
mod maintenance;
mod memory_limit;
mod options;
mod partition_log;
mod pending;
mod recovery;
mod request;
mod response;
mod response_dispatcher;
mod shard;
mod stats;
mod store_files;
mod task_group;
mod trim_guard;
pub mod values;
mod watermarks;
mod worker;

pub use backup::{BackupError, BackupReport};
pub use branches::{FinishResult, PrepareError, PrepareResult, PreparedBranchInfo};
pub use catalog_store::TableError;
pub use checkpointer::{CheckpointError, CheckpointPositions, Checkpointer};
pub use clock::{Clock, ClockAhead, SystemClock};
pub use creation_quota::CreationQuota;
pub use engine::{Engine, OpenError, TablesView, run_at_low_priority};
pub use filter_store::{FilterVersion, StoredFilters};
pub use memory_limit::memory_fraction;
pub use options::Options;
pub use partition_log::{AppendError, BlobStore, EntryLocation, PartitionLog};
pub use recovery::{
    CATALOG, LoadedState, Recovered, RecoveryError, Replayed, STORE, STORE_VERSION, find, replay_log,
};
pub use request::{BranchRequest, Request};
pub use response::{Ask, BranchResponse, CommittedCount, EngineError, OperationOutcome, Response};
pub use shard::{FrozenIds, FrozenValues, Shard, Slots, Stores};
pub use stats::{Stats, TableStats};
pub use store_files::StoreFiles;
pub use watermarks::Watermarks;
