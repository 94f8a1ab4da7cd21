//! The file of a book: read whole, replaced whole.
//!
//! What must hold:
//!
//! - Whoever reads sees the book before a change or the one after it, also after a crash: a change is written into a
//!   second file, brought to disk, and then given the name.
//! - One writer at a time, from reading to replacing: otherwise the second would write back what the first removed.
//! - Only its owner can read or write the file. Hashes do not give the secrets away, but whoever can write here can
//!   make tokens.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use crate::limits::FILE_BYTES_MAX;
use crate::token_file_format::ParseError;
use crate::token_store::{BookError, TokenStore};

/// Readable and writable for its owner.
const MODE: u32 = 0o600;
/// What others and the group must not have.
const OTHERS: u32 = 0o077;
/// What makes a folder one in which everybody can replace files: writable for others, and not sticky.
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Where a book is kept.
#[derive(Debug, Clone)]
pub struct TokenFile {
    path: PathBuf,
}

/// Why a book was not read or not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system said no.
    #[error("cannot {doing} {}: {source}", file.display())]
    System {
        /// The file.
        file: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Others can read or write the file.
    #[error("{0} can be read or written by others (mode {mode:03o}): chmod 600 {0}", file.display())]
    Exposed {
        /// The file.
        file: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Others can replace the file.
    #[error("everybody can replace files in {0} (mode {mode:03o}): chmod o-w {0}", folder.display())]
    ExposedFolder {
        /// The folder of the file.
        folder: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is a folder or a device.
    #[error("{} is not a file", .0.display())]
    NotAFile(PathBuf),
    /// It is too large to be a book.
    #[error("{} has {bytes} bytes, more than the {FILE_BYTES_MAX} of the largest book", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// It is not a book.
    #[error("{}: {broken}", file.display())]
    Broken {
        /// The file.
        file: PathBuf,
        /// Where in it, and why.
        #[source]
        broken: ParseError,
    },
    /// Somebody else is changing it.
    #[error("{} is being changed by somebody else: try again", .0.display())]
    Locked(PathBuf),
    /// The change cannot be made.
    #[error(transparent)]
    Book(#[from] BookError),
}

impl TokenFile {
    /// The file with this path. Nothing is opened yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the book.
    pub fn read(&self) -> Result<TokenStore, FileError> {
        let system = |doing| move |source| FileError::System { file: self.path.clone(), doing, source };
        self.check_folder()?;
        // Before it is opened, because opening a pipe waits for somebody at the other end.
        if !fs::metadata(&self.path).map_err(system("read"))?.is_file() {
            return Err(FileError::NotAFile(self.path.clone()));
        }
        let file = File::open(&self.path).map_err(system("read"))?;
        let found = file.metadata().map_err(system("read"))?;
        let mode = found.mode() & 0o7777;
        if mode & OTHERS != 0 {
            return Err(FileError::Exposed { file: self.path.clone(), mode });
        }
        self.check_length(found.size())?;
        let mut text = Vec::new();
        // It may grow while it is read.
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(system("read"))?;
        self.check_length(text.len() as u64)?;
        TokenStore::from_json(&text).map_err(|broken| FileError::Broken { file: self.path.clone(), broken })
    }

    /// Reads the book, changes it, and replaces it; if there is none, begins with an empty one. If the change fails,
    /// nothing is written.
    ///
    /// An error of kind [`FileError::System`] with "bring to disk" and the folder's name comes after the book was replaced:
    /// a crash of the machine may then still bring the old one back.
    pub fn edit<T>(
        &self,
        change: impl FnOnce(&mut TokenStore) -> Result<T, BookError>,
    ) -> Result<T, FileError> {
        // What a link leads to is replaced, and not the link.
        let there = Self::new(fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone()));
        let _until_the_end = there.lock()?;
        let mut book = match there.read() {
            Err(FileError::System { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                TokenStore::new()
            }
            read => read?,
        };
        let result = change(&mut book)?;
        let staged = there.stage(book.to_json().as_bytes())?;
        there.commit(&staged)?;
        Ok(result)
    }

    /// Held until it is dropped, or the process ends. The file of the lock stays: if it were removed, two could hold locks
    /// on two files of the same name.
    fn lock(&self) -> Result<File, FileError> {
        let path = self.beside(".lock");
        let system = |source| FileError::System { file: path.clone(), doing: "lock", source };
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(MODE).open(&path).map_err(system)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(FileError::Locked(self.path.clone())),
            Err(TryLockError::Error(error)) => Err(system(error)),
        }
    }

    /// Brings a book to disk under another name, which it returns.
    pub(crate) fn stage(&self, text: &[u8]) -> Result<PathBuf, FileError> {
        self.check_length(text.len() as u64)?;
        let path = self.beside(".new");
        let system = |doing| {
            let file = path.clone();
            move |source| FileError::System { file, doing, source }
        };
        // A crash may have left one. Made anew and not overwritten, so that its mode and owner are ours.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(system("replace")(error)),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create_new(true).mode(MODE).open(&path).map_err(system("create"))?;
        let written =
            file.write_all(text).and_then(|()| self.keep_owner(&file)).and_then(|()| file.sync_all());
        if let Err(error) = written {
            // It is of no use, and it may be what fills the disk. If it stays, the next change removes it.
            let _stays = fs::remove_file(&path);
            return Err(system("write")(error));
        }
        Ok(path)
    }

    /// Gives the staged book its name.
    pub(crate) fn commit(&self, staged: &Path) -> Result<(), FileError> {
        let renamed = fs::rename(staged, &self.path);
        renamed.map_err(|source| FileError::System { file: self.path.clone(), doing: "replace", source })?;
        let folder = self.folder();
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|source| FileError::System { file: folder.into(), doing: "bring to disk", source })
    }

    /// The new file belongs to whom the old one did: otherwise a change made by root takes it away from the server.
    fn keep_owner(&self, new: &File) -> io::Result<()> {
        let old = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            old => old?,
        };
        let made = new.metadata()?;
        if (old.uid(), old.gid()) == (made.uid(), made.gid()) {
            return Ok(());
        }
        fchown(new, Some(old.uid()), Some(old.gid()))
    }

    fn check_folder(&self) -> Result<(), FileError> {
        let folder = self.folder();
        let found = fs::metadata(folder);
        let found =
            found.map_err(|source| FileError::System { file: folder.into(), doing: "read", source })?;
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

    /// A folder with a book of one token, named "old".
    fn book_file() -> (tempfile::TempDir, TokenFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("tokens.json"));
        file.edit(|book| book.add(Grant::new("old"), &[1; RANDOM_BYTES], 0)).unwrap();
        (folder, file)
    }

    #[test]
    fn a_crash_before_the_name_is_given_leaves_the_old_book() {
        let (_folder, file) = book_file();
        let old = file.read().unwrap();
        let mut next = old.clone();
        next.add(Grant::new("new"), &[2; RANDOM_BYTES], 0).unwrap();
        let text = next.to_json();

        // Nobody commits what was staged: whole, or as far as the crash let it come.
        for staged_bytes in [text.len(), text.len() / 2, 0] {
            let staged = file.stage(&text.as_bytes()[..staged_bytes]).unwrap();
            assert!(staged.exists());
            assert_eq!(file.read().unwrap(), old, "{staged_bytes} bytes");
        }
        // And the leftover is in nobody's way, even with the rights of somebody else's umask.
        let leftover = file.beside(".new");
        fs::set_permissions(&leftover, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        file.edit(|book| book.add(Grant::new("new"), &[2; RANDOM_BYTES], 0)).unwrap();
        assert_eq!(file.read().unwrap(), next);
        assert!(!leftover.exists());
    }

    #[test]
    fn two_writers_are_one_too_many() {
        let (_folder, file) = book_file();
        let held = file.lock().unwrap();
        let refused = file.edit(|book| book.remove("old"));
        assert!(matches!(refused, Err(FileError::Locked(_))), "{refused:?}");
        assert!(file.read().unwrap().find("old").is_some());
        drop(held);
        file.edit(|book| book.remove("old")).unwrap();
    }

    #[test]
    fn the_lock_is_held_from_reading_to_replacing() {
        let (_folder, file) = book_file();
        let inside = file.edit(|book| {
            assert!(matches!(file.lock(), Err(FileError::Locked(_))));
            book.remove("old")
        });
        inside.unwrap();
        assert!(file.lock().is_ok());
    }

    #[test]
    fn a_file_or_a_book_that_is_too_large_is_refused_unread() {
        let (_folder, file) = book_file();
        assert!(matches!(file.check_length(FILE_BYTES_MAX), Ok(())));
        assert!(matches!(file.check_length(FILE_BYTES_MAX + 1), Err(FileError::TooLarge { .. })));
        let hollow = OpenOptions::new().write(true).open(file.path()).unwrap();
        hollow.set_len(FILE_BYTES_MAX + 1).unwrap();
        assert!(matches!(file.read(), Err(FileError::TooLarge { bytes, .. }) if bytes == FILE_BYTES_MAX + 1));
    }
}
