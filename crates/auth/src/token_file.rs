//! The file of the token store, replaced atomically.
//!
//! What must hold:
//!
//! - A reader sees the store before a change or after it, also after a crash: a change is written to a second
//!   file, synced, and renamed.
//! - One writer at a time holds the lock from reading to replacing: otherwise a second writer could restore a
//!   token that the first one removed.
//! - Only the owner can read or write the file. Hashes do not reveal the secrets, but write access allows
//!   creating tokens.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use crate::limits::FILE_BYTES_MAX;
use crate::token_file_format::ParseError;
use crate::token_store::{TokenStore, TokenStoreError};

/// Readable and writable for the owner.
const MODE: u32 = 0o600;
/// Permissions of group and others, which must not be set.
const OTHERS: u32 = 0o077;
/// In a directory that others can write to and that is not sticky, every user can replace files.
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

#[derive(Debug, Clone)]
pub struct TokenFile {
    path: PathBuf,
}

/// Why a token file was not read or not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    #[error("cannot {doing} {}: {source}", file.display())]
    System { file: PathBuf, doing: &'static str, source: io::Error },
    #[error("{0} can be read or written by other users (mode {mode:03o}): chmod 600 {0}", file.display())]
    Exposed { file: PathBuf, mode: u32 },
    #[error("every user can replace files in {0} (mode {mode:03o}): chmod o-w {0}", folder.display())]
    ExposedFolder { folder: PathBuf, mode: u32 },
    #[error("{} is not a file", .0.display())]
    NotAFile(PathBuf),
    #[error("{} has {bytes} bytes, more than the maximum of {FILE_BYTES_MAX}", file.display())]
    TooLarge { file: PathBuf, bytes: u64 },
    #[error("{}: {broken}", file.display())]
    Broken {
        file: PathBuf,
        #[source]
        broken: ParseError,
    },
    #[error("another process is changing {}: try again", .0.display())]
    Locked(PathBuf),
    #[error(transparent)]
    Store(#[from] TokenStoreError),
}

fn system(file: &Path, doing: &'static str, source: io::Error) -> FileError {
    FileError::System { file: file.into(), doing, source }
}

impl TokenFile {
    /// The file with this path. Nothing is opened yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn read(&self) -> Result<TokenStore, FileError> {
        let system = |source| system(&self.path, "read", source);
        self.check_folder()?;
        // Before it is opened, because opening a pipe blocks until the other end is open.
        if !fs::metadata(&self.path).map_err(system)?.is_file() {
            return Err(FileError::NotAFile(self.path.clone()));
        }
        let file = File::open(&self.path).map_err(system)?;
        let found = file.metadata().map_err(system)?;
        let mode = found.mode() & 0o7777;
        if mode & OTHERS != 0 {
            return Err(FileError::Exposed { file: self.path.clone(), mode });
        }
        self.check_length(found.size())?;
        let mut text = Vec::new();
        // The file may grow during the read.
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(system)?;
        self.check_length(text.len() as u64)?;
        TokenStore::from_json(&text).map_err(|broken| FileError::Broken { file: self.path.clone(), broken })
    }

    /// Reads the token store, changes it, and replaces the file; starts with an empty store if there is no
    /// file. If the change fails, nothing is written.
    ///
    /// A [`FileError::System`] with "sync" and the directory's name occurs after the file was replaced: a
    /// crash of the machine may then still restore the old file.
    pub fn edit<T>(
        &self,
        change: impl FnOnce(&mut TokenStore) -> Result<T, TokenStoreError>,
    ) -> Result<T, FileError> {
        // The target of a symbolic link is replaced, not the link.
        let target = Self::new(fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone()));
        let _lock = target.lock()?;
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let mut tokens = match target.read() {
            Err(FileError::System { source, .. }) if is_missing(&source) => TokenStore::new(),
            read => read?,
        };
        let result = change(&mut tokens)?;
        let staged = target.stage(tokens.to_json().as_bytes())?;
        target.commit(&staged)?;
        Ok(result)
    }

    /// Takes the lock until the returned file is dropped or the process ends. The lock file stays: if it were
    /// removed, two processes could hold locks on two files of the same name.
    fn lock(&self) -> Result<File, FileError> {
        let path = self.beside(".lock");
        let system = |source| system(&path, "lock", source);
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(MODE).open(&path).map_err(system)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(FileError::Locked(self.path.clone())),
            Err(TryLockError::Error(error)) => Err(system(error)),
        }
    }

    /// Writes and syncs a file under a temporary name, and returns that name.
    pub(crate) fn stage(&self, text: &[u8]) -> Result<PathBuf, FileError> {
        self.check_length(text.len() as u64)?;
        let path = self.beside(".new");
        // A crash may have left a file. It is removed rather than overwritten, so that mode and owner are
        // ours.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(system(&path, "replace", error));
            }
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&path);
        let mut file = file.map_err(|error| system(&path, "create", error))?;
        let written =
            file.write_all(text).and_then(|()| self.keep_owner(&file)).and_then(|()| file.sync_all());
        if let Err(error) = written {
            // The file may be what fills the disk. If it stays, the next change removes it.
            let _best_effort = fs::remove_file(&path);
            return Err(system(&path, "write", error));
        }
        Ok(path)
    }

    /// Renames the staged file to its final name and syncs the directory.
    pub(crate) fn commit(&self, staged: &Path) -> Result<(), FileError> {
        fs::rename(staged, &self.path).map_err(|error| system(&self.path, "replace", error))?;
        let folder = self.folder();
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| system(folder, "sync", error))
    }

    /// Copies the owner of the old file: otherwise a change by root would make the file unreadable for the
    /// server.
    fn keep_owner(&self, new: &File) -> io::Result<()> {
        let old = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            old => old?,
        };
        let current = new.metadata()?;
        if (old.uid(), old.gid()) == (current.uid(), current.gid()) {
            return Ok(());
        }
        fchown(new, Some(old.uid()), Some(old.gid()))
    }

    fn check_folder(&self) -> Result<(), FileError> {
        let folder = self.folder();
        let found = fs::metadata(folder).map_err(|error| system(folder, "read", error))?;
        let mode = found.mode() & 0o7777;
        if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
            return Err(FileError::ExposedFolder { folder: folder.into(), mode });
        }
        Ok(())
    }

    fn check_length(&self, bytes: u64) -> Result<(), FileError> {
        if bytes > FILE_BYTES_MAX {
            return Err(FileError::TooLarge { file: self.path.clone(), bytes });
        }
        Ok(())
    }

    fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(suffix);
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant::Grant;
    use crate::token_store::RANDOM_BYTES;

    /// A directory with a token file of one token named "old".
    fn token_file() -> (tempfile::TempDir, TokenFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("tokens.json"));
        file.edit(|tokens| tokens.add(Grant::new("old"), &[1; RANDOM_BYTES], 0)).unwrap();
        (folder, file)
    }

    #[test]
    fn a_crash_before_the_rename_leaves_the_old_file() {
        let (_folder, file) = token_file();
        let old = file.read().unwrap();
        let mut next = old.clone();
        next.add(Grant::new("new"), &[2; RANDOM_BYTES], 0).unwrap();
        let text = next.to_json();

        // The staged file is never committed, as after a crash during or after the write.
        for staged_bytes in [text.len(), text.len() / 2, 0] {
            let staged = file.stage(&text.as_bytes()[..staged_bytes]).unwrap();
            assert!(staged.exists());
            assert_eq!(file.read().unwrap(), old, "{staged_bytes} bytes");
        }
        // The leftover does not prevent the next change, whatever its permissions.
        let leftover = file.beside(".new");
        fs::set_permissions(&leftover, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        file.edit(|tokens| tokens.add(Grant::new("new"), &[2; RANDOM_BYTES], 0)).unwrap();
        assert_eq!(file.read().unwrap(), next);
        assert!(!leftover.exists());
    }

    #[test]
    fn a_second_writer_is_rejected() {
        let (_folder, file) = token_file();
        let lock = file.lock().unwrap();
        let refused = file.edit(|tokens| tokens.remove("old"));
        assert!(matches!(refused, Err(FileError::Locked(_))), "{refused:?}");
        assert!(file.read().unwrap().find("old").is_some());
        drop(lock);
        file.edit(|tokens| tokens.remove("old")).unwrap();
    }

    #[test]
    fn the_lock_is_held_from_reading_to_replacing() {
        let (_folder, file) = token_file();
        let inside = file.edit(|tokens| {
            assert!(matches!(file.lock(), Err(FileError::Locked(_))));
            tokens.remove("old")
        });
        inside.unwrap();
        assert!(file.lock().is_ok());
    }

    #[test]
    fn an_oversized_file_is_rejected_unread() {
        let (_folder, file) = token_file();
        assert!(matches!(file.check_length(FILE_BYTES_MAX), Ok(())));
        assert!(matches!(file.check_length(FILE_BYTES_MAX + 1), Err(FileError::TooLarge { .. })));
        let sparse = OpenOptions::new().write(true).open(file.path()).unwrap();
        sparse.set_len(FILE_BYTES_MAX + 1).unwrap();
        assert!(matches!(file.read(), Err(FileError::TooLarge { bytes, .. }) if bytes == FILE_BYTES_MAX + 1));
    }
}
