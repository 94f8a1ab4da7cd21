//! Opening a store, with advice for every error.

use std::io::{self, ErrorKind};
use std::path::Path;

use jeton_engine::{Engine, OpenError, Options};
use jeton_wal as wal;
use jeton_wal::disk::private_folder;

use super::NodeError;
use super::error::io_error;

pub fn is_new(folder: &Path) -> bool {
    std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}

pub fn open_store(folder: &Path, options: Options) -> Result<Engine, NodeError> {
    let path = folder.display();
    // The engine does the same, but has no log.
    match private_folder(folder) {
        Ok(Some(mode)) => {
            tracing::warn!("other users could read {path} (mode {mode:03o}); it is now for its owner only");
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied && folder.is_dir() => {
            let fix = format!("run jeton as the owner of {path}, or choose another directory with --data");
            return Err(NodeError::with_cause(error, format!("{path} is not private"), fix));
        }
        // The engine reports it.
        Ok(None) | Err(_) => {}
    }
    let engine = Engine::open(folder, options).map_err(|error| explain_open_error(folder, error))?;
    for table in engine.tables_without_filters() {
        tracing::warn!(
            table,
            "the filters of the table do not fit into memory_max and were left out: until its ids have expired, \
             each operation reads the id index on the disk. Raise memory_max and restart"
        );
    }
    Ok(engine)
}

/// Adds what to do to an error of [`Engine::open`].
pub fn explain_open_error(folder: &Path, error: OpenError) -> NodeError {
    let path = folder.display();
    let (what, fix) = match &error {
        OpenError::Log(wal::OpenError::Locked { by, pid }) => (
            format!("the store in {path} is in use by {by} (process {pid})"),
            format!("stop that process (kill {pid}), or choose another directory with --data"),
        ),
        OpenError::Log(wal::OpenError::Damaged { .. }) => (
            format!("the log of the store in {path} is damaged"),
            "keep the directory unchanged, check the disk, and restore a backup: jeton restore BACKUP NEW-DIR"
                .into(),
        ),
        OpenError::Log(wal::OpenError::Version { .. }) => (
            format!("the store in {path} was written by another version of jeton"),
            "use that version, or restore a backup that this version can read".into(),
        ),
        OpenError::Options(_) | OpenError::Log(wal::OpenError::Options(_)) => (
            "the engine settings are invalid".into(),
            "list them with jeton config, and change the one that is named".into(),
        ),
        OpenError::Incomplete(_) => (
            format!("{path} is a backup that was not completed"),
            "make the backup again, or remove the directory".into(),
        ),
        OpenError::ClockAhead(_) => (
            format!("the clock of this machine is far ahead of the store in {path}"),
            "set the clock; if the store was not used for that long, raise --clock-ahead-max".into(),
        ),
        _ => (format!("the store in {path} cannot be opened"), advice_for_io(folder, &error)),
    };
    NodeError::with_cause(error, what, fix)
}

fn advice_for_io(folder: &Path, error: &OpenError) -> String {
    let path = folder.display();
    match io_error_kind(error) {
        Some(ErrorKind::PermissionDenied) => format!(
            "give this user write access (ls -ld {path}; chown), or choose another directory with --data"
        ),
        Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            format!("free disk space (df -h {path}), or choose another directory with --data")
        }
        Some(ErrorKind::ReadOnlyFilesystem) => {
            "the file system is read-only: choose another directory with --data".into()
        }
        Some(ErrorKind::NotADirectory | ErrorKind::AlreadyExists) => {
            "the path is a file, not a directory: choose another directory with --data".into()
        }
        _ => "run jeton doctor, or choose another directory with --data".into(),
    }
}

fn io_error_kind(error: &OpenError) -> Option<ErrorKind> {
    if let Some(error) = io_error(error) {
        return Some(error.kind());
    }
    // Some libraries keep only the text.
    let text = error.to_string();
    let code = text.rsplit_once("(os error ")?.1.split(')').next()?.parse().ok()?;
    Some(io::Error::from_raw_os_error(code).kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_own_advice() {
        let system = |kind: ErrorKind| OpenError::System { what: "w".into(), source: kind.into() };
        for (error, words) in [
            (system(ErrorKind::PermissionDenied), "write access"),
            (system(ErrorKind::StorageFull), "free disk space"),
            (system(ErrorKind::ReadOnlyFilesystem), "read-only"),
            (system(ErrorKind::NotADirectory), "the path is a file"),
            (system(ErrorKind::Other), "jeton doctor"),
            (OpenError::Log(wal::OpenError::Locked { by: "jeton".into(), pid: 7 }), "kill 7"),
            (
                OpenError::Log(wal::OpenError::Damaged { file: "f".into(), offset: 1, why: "w".into() }),
                "jeton restore",
            ),
            (
                OpenError::Log(wal::OpenError::Io {
                    what: "w".into(),
                    source: ErrorKind::StorageFull.into(),
                }),
                "free disk space",
            ),
            (OpenError::Options("shards".into()), "jeton config"),
        ] {
            let error = explain_open_error(Path::new("/d"), error);
            let text = format!("{error} | {}", error.fix);
            assert!(text.contains(words), "{words:?} is not in {text}");
        }
    }
}
