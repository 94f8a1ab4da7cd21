//! Why the log of a stripe cannot be opened.

use std::io;
use std::path::PathBuf;

use jeton_register::Error as RegisterError;
use jeton_wal::{Error as LogError, Slot};
use jeton_wal::disk::LockError;

use crate::chain::ChainError;
use crate::checkpoint_error::CheckpointError;
use crate::frame::NodeId;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("the deployment has no stripe {0}")]
    NoStripe(u16),
    #[error("cannot use {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the directory of the stripe: {0}")]
    Locked(#[from] LockError),
    /// The directory is the cache of another stripe.
    #[error("{} belongs to another stripe or deployment", .0.display())]
    Foreign(PathBuf),
    #[error("the directory of the stripe: {0}")]
    Cache(#[from] LogError),
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// Another node became the owner while this one claimed the stripe, or the owner is alive.
    #[error("the stripe is owned by the node {:032x}", .0.0)]
    Owned(NodeId),
    #[error("the registers: {0}")]
    Registers(#[from] RegisterError),
    #[error("the checkpoint of the stripe: {0}")]
    Checkpoint(#[from] CheckpointError),
    /// The registers have lost frames: a standby without the latest transactions was promoted, or an old backup
    /// was restored.
    #[error(
        "{} was written from the frames up to slot {slot}, but the log, which ends at slot {end}, does not contain \
         them: the registers have lost frames. Remove the directory to accept that what they contained is lost",
        folder.display()
    )]
    OtherHistory { folder: PathBuf, slot: Slot, end: Slot },
}
