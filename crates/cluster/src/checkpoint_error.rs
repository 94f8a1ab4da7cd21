//! Why a checkpoint of a stripe could not be stored or loaded.

use std::io;
use std::path::{Path, PathBuf};

use jeton_engine::{EngineError, RecoveryError};
use jeton_register::Error as RegisterError;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    #[error("the registers: {0}")]
    Registers(#[from] RegisterError),
    /// A manifest or an object is not what was written.
    #[error("damaged: {0}")]
    Damaged(String),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the engine: {0}")]
    Engine(#[from] EngineError),
    #[error("the stores: {0}")]
    Stores(#[from] RecoveryError),
    /// A later owner has stored a checkpoint.
    #[error("another node owns the stripe")]
    Deposed,
    /// Another node has stored a checkpoint at the same time. The next attempt builds on it.
    #[error("another checkpoint was stored at the same time")]
    Overtaken,
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

pub(crate) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> CheckpointError {
    let path = path.to_owned();
    move |source| CheckpointError::Io { path, source }
}
