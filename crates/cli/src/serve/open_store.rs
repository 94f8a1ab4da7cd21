//! Opening a store, with an answer for everything that can be in the way.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::path::Path;

use anyhow::Result;
use jeton_engine::{Engine, OpenError, Options};
use jeton_register::embedded;

use crate::cli_error::CliError;

/// Whether there is no store yet in this directory.
pub fn is_new(folder: &Path) -> bool {
    std::fs::read_dir(folder).map_or(true, |mut inside| inside.next().is_none())
}

/// Opens the store in a directory, or makes one.
pub fn open(folder: &Path, options: Options) -> Result<Engine> {
    Engine::open(folder, options).map_err(|error| explain(folder, error))
}

/// An error with what to do about it.
pub fn explain(folder: &Path, error: OpenError) -> anyhow::Error {
    let place = folder.display();
    let (what, fix) = match &error {
        OpenError::Log(embedded::OpenError::Locked { by, pid }) => (
            format!("the store in {place} is in use by {by} (process {pid})"),
            format!("stop that process (kill {pid}), or choose another directory with --data"),
        ),
        OpenError::Log(embedded::OpenError::Damaged { .. }) => (
            format!("the log of the store in {place} is damaged"),
            "keep the directory as it is, look after the disk, and restore a backup: jeton restore BACKUP NEW-DIR".into(),
        ),
        OpenError::Log(embedded::OpenError::Version { .. }) => (
            format!("the store in {place} was written by another version of jeton"),
            "use that version, or restore a backup that this one can read".into(),
        ),
        OpenError::Options(_) | OpenError::Log(embedded::OpenError::Options(_)) => (
            "the settings of the engine cannot be".into(),
            "see them with jeton config, and change the one that is named".into(),
        ),
        OpenError::Incomplete(_) => (
            format!("{place} is a backup that was never completed"),
            "make the backup again, or remove the directory".into(),
        ),
        OpenError::ClockAhead(_) => (
            format!("the clock of this machine is far ahead of the store in {place}"),
            "set the clock right; if the store was at rest for so long, raise --clock-ahead-max".into(),
        ),
        _ => (format!("the store in {place} cannot be opened"), of_system(folder, &error)),
    };
    CliError::of(error, what, fix)
}

/// What to do about what the system said.
fn of_system(folder: &Path, error: &OpenError) -> String {
    let place = folder.display();
    match kind(error) {
        Some(ErrorKind::PermissionDenied) => {
            format!(
                "let this user write there (ls -ld {place}; chown), or choose another directory with --data"
            )
        }
        Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            format!("make room (df -h {place}), or choose another directory with --data")
        }
        Some(ErrorKind::ReadOnlyFilesystem) => {
            "the file system is read-only: choose another directory with --data".into()
        }
        Some(ErrorKind::NotADirectory | ErrorKind::AlreadyExists) => {
            "there is a file where a directory should be: choose another directory with --data".into()
        }
        _ => "see what is wrong: jeton doctor; or choose another directory with --data".into(),
    }
}

/// What kind of trouble the system had, wherever in the error it is.
fn kind(error: &OpenError) -> Option<ErrorKind> {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        next = error.source();
    }
    // Some libraries keep only the text.
    let text = error.to_string();
    let code = text.rsplit_once("(os error ")?.1.split(')').next()?.parse().ok()?;
    Some(io::Error::from_raw_os_error(code).kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(error: OpenError) -> String {
        let error = explain(Path::new("/d"), error);
        let fix = error.downcast_ref::<CliError>().map(|failure| failure.fix.clone()).unwrap_or_default();
        format!("{error} | {fix}")
    }

    #[test]
    fn every_trouble_has_its_own_advice() {
        let system = |kind: ErrorKind| OpenError::System { what: "w".into(), source: kind.into() };
        for (error, words) in [
            (system(ErrorKind::PermissionDenied), "let this user write there"),
            (system(ErrorKind::StorageFull), "make room"),
            (system(ErrorKind::ReadOnlyFilesystem), "read-only"),
            (system(ErrorKind::NotADirectory), "there is a file"),
            (system(ErrorKind::Other), "jeton doctor"),
            (OpenError::Log(embedded::OpenError::Locked { by: "jeton".into(), pid: 7 }), "kill 7"),
            (
                OpenError::Log(embedded::OpenError::Damaged { file: "f".into(), offset: 1, why: "w".into() }),
                "jeton restore",
            ),
            (
                OpenError::Log(embedded::OpenError::Io {
                    what: "w".into(),
                    source: ErrorKind::StorageFull.into(),
                }),
                "make room",
            ),
            (OpenError::Options("shards".into()), "jeton config"),
        ] {
            let told = told(error);
            assert!(told.contains(words), "{words:?} is not in {told}");
        }
    }
}
