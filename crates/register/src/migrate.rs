//! Converts registers from format version 1 or 2 to the present one.
//!
//! Those versions stored registers as records of the log itself. The new directory is built beside the old
//! one and takes its place by two renames. Every step can be repeated after a crash.

use std::io;
use std::path::{Path, PathBuf};

use futures_executor::block_on;
use jeton_wal::blobs;
use jeton_wal::disk::{Disk, RealDisk};
use jeton_wal::legacy::{OldLog, OldRecord, read_registers};

use crate::embedded::{EmbeddedRegisters, OpenError, Options};
use crate::{Error, LogId, LogKind, RegisterMap, Registers, WriteResult};

/// Why a directory could not be converted. The old directory is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// The old registers cannot be read.
    #[error("the old registers: {0}")]
    Old(#[from] jeton_wal::OpenError),
    /// A record of the old registers is not one that was written.
    #[error("the old registers: {0}")]
    Damaged(String),
    /// The new registers cannot be opened.
    #[error("the new registers: {0}")]
    Open(#[from] OpenError),
    /// The new registers cannot be written.
    #[error("the new registers: {0}")]
    Write(#[from] Error),
    /// A directory cannot be used.
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// The result of a conversion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigrateReport {
    /// There is nothing to convert: the directory has the present format, is empty or does not exist.
    UpToDate,
    /// The directory was converted.
    Converted {
        registers: usize,
        /// Where the old directory is now.
        old: PathBuf,
    },
}

/// Converts the registers in a directory, if they are of version 1 or 2. The old directory is kept beside it.
pub fn migrate(folder: &Path) -> Result<MigrateReport, MigrateError> {
    let (new, old) = (with_suffix(folder, "new"), with_suffix(folder, "old"));
    if !folder.exists() && new.exists() && old.exists() {
        // The conversion was interrupted between the two renames.
        rename(&new, folder)?;
    }
    if !folder.exists() {
        return Ok(MigrateReport::UpToDate);
    }
    let disk = RealDisk::new(folder).map_err(io_error(folder))?;
    let _lock = disk.lock("jeton migrate").map_err(jeton_wal::OpenError::from)?;
    let Some(map) = read_old(&disk)? else { return Ok(MigrateReport::UpToDate) };
    if old.exists() {
        let source =
            io::Error::new(io::ErrorKind::AlreadyExists, "remove the result of an earlier conversion first");
        return Err(MigrateError::Io { path: old, source });
    }
    if new.exists() {
        std::fs::remove_dir_all(&new).map_err(io_error(&new))?;
    }
    let registers = map.len();
    write_new(&disk, map, &new)?;
    rename(folder, &old)?;
    rename(&new, folder)?;
    Ok(MigrateReport::Converted { registers, old })
}

/// The old registers; `None` if there are none.
fn read_old(disk: &RealDisk) -> Result<Option<RegisterMap>, MigrateError> {
    let mut map = RegisterMap::default();
    let mut is_old = false;
    let mut damaged = None;
    read_registers(disk, |record| {
        let mut apply = || {
            match record {
                OldRecord::Register { log, slot, value, moved } => {
                    is_old |= moved || log.0 != LogKind::Partition as u8;
                    match map.write(log_id(log)?, slot, value) {
                        WriteResult::Taken(there) if there != value => {
                            return Err(format!("{log:?} slot {slot} has two values"));
                        }
                        WriteResult::Trimmed => {
                            return Err(format!("{log:?} slot {slot} was written after its trim"));
                        }
                        _ => {}
                    }
                }
                OldRecord::Trim { log, trimmed, last } => {
                    is_old |= log.0 != LogKind::Partition as u8;
                    map.restore_trim(log_id(log)?, trimmed, last);
                }
                OldRecord::Retired { kind, below } => {
                    is_old = true;
                    map.retire(log_id((kind, 0))?.kind, below);
                }
            }
            Ok(())
        };
        if let Err(why) = apply() {
            damaged.get_or_insert(why);
        }
    })?;
    match damaged {
        Some(why) if is_old => Err(MigrateError::Damaged(why)),
        _ => Ok(is_old.then_some(map)),
    }
}

fn log_id((kind, id): OldLog) -> Result<LogId, String> {
    let kind = LogKind::from_number(kind).ok_or_else(|| format!("a log has the unknown kind {kind}"))?;
    Ok(LogId { kind, id })
}

fn write_new(old: &RealDisk, map: RegisterMap, folder: &Path) -> Result<(), MigrateError> {
    let disk = RealDisk::new(folder).map_err(io_error(folder))?;
    let registers = EmbeddedRegisters::open(disk, Options::default())?;
    registers.import(map)?;
    for name in blobs::list(old).map_err(io_error(old.path()))? {
        if let Some(blob) = blobs::get(old, &name).map_err(Error::from)? {
            block_on(registers.put_blob(&name, blob))?;
        }
    }
    Ok(())
}

fn rename(from: &Path, to: &Path) -> Result<(), MigrateError> {
    std::fs::rename(from, to).map_err(io_error(from))?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(parent).and_then(|parent| parent.sync_all()).map_err(io_error(parent))
}

fn with_suffix(folder: &Path, suffix: &str) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> MigrateError {
    let path = path.to_owned();
    move |source| MigrateError::Io { path, source }
}
