//! The state machine of Jeton: ids, addresses, operations, results and partitions.
//!
//! Pure: no clock, no file, no thread, no random numbers. The caller supplies time and stored data, so that
//! the same code runs in the server, in recovery and in the simulator.
//!
//! An [`Operation`] carries an [`OpId`] and changes [`Cell`]s of one [`PartitionId`]. [`Partition::decide`]
//! decides it, given the [`Table`]'s settings and filters and a [`StateReader`]; the decision goes into a
//! [`log_entry`] of the partition's log; [`Partition::apply`] applies it.

/// Marks the place of a deliberate bug (a mutation), which a test must detect: `true` in the thread that
/// selected this bug, always `false` without the feature `mutations`.
#[cfg(feature = "mutations")]
#[doc(hidden)]
#[macro_export]
macro_rules! mutated {
    ($name:ident) => {
        $crate::mutation::is_active($crate::mutation::Mutation::$name)
    };
}

/// Always `false`: see the definition for the feature `mutations` above.
#[cfg(not(feature = "mutations"))]
#[doc(hidden)]
#[macro_export]
macro_rules! mutated {
    ($name:ident) => {
        false
    };
}

mod address;
mod branch;
mod catalog;
pub mod codec;
mod era;
pub mod error_code;
mod escrow;
mod evaluate;
mod generation;
mod hash;
mod id;
mod inline_bytes;
pub mod limits;
pub mod log_entry;
#[cfg(feature = "mutations")]
pub mod mutation;
mod operation;
mod operation_result;
mod partition;
mod prepared;
mod recompute;
mod replay;
pub mod rfc3339;
mod session;
mod settings;
mod store_clock;
mod table;
mod ulid;
pub mod units;
mod uuid;
mod value;

pub use address::{AddressError, Cell, Column, PartitionId, TableId};
pub use branch::{Addition, Branch, BranchError, BranchLogItem, BranchName, BranchOutcome};
pub use catalog::{Catalog, DeletedTable, TABLES_MAX};
pub use era::{Era, FilterRestoreError};
pub use error_code::ErrorCode;
pub use escrow::{PreparedBranch, PreparedBranches};
pub use evaluate::effects_of;
pub use forgetful_filter::{Budget, Pressure, Status, Timestamp};
pub use generation::Generation;
pub use hash::{IdKey, PayloadHash, Secret};
pub use id::{Format, Formats, IdError, OpId};
pub use log_entry::{DedupLocation, Entry, LogItem, OperationDecision};
pub use operation::{Change, Check, Operation, OperationError};
pub use operation_result::{DedupRecord, OperationResult, Rejection, Values};
pub use partition::{
    Hashes, IdStatus, LogPosition, Partition, StateReader, StateWriter, Verdict, restore_dedup,
};
pub use prepared::{BranchState, BranchVerdict, restore_branch_dedup};
pub use recompute::{RecomputeError, complete};
pub use replay::ReplayError;
pub use session::{Client, Owner, Sessions};
pub use settings::{
    Durability, EXACT_FILTER_RATE, MissingIdPolicy, Mode, SettingsError, TableSettings, WINDOW_MAX,
    WINDOW_MIN,
};
pub use store_clock::{GAIN, StoreClock, with_clock_drift};
pub use table::{CatalogError, ERAS_MAX, StoredEras, Table};
pub use value::Value;
