//! A directory of the file system, with positioned reads and writes.
//!
//! Invariant: the blocks of a created file are allocated and filled with zeros, so that overwriting them
//! later changes no metadata, and an fsync is one write to the disk.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{Disk, DiskFile, LockError};

/// Zeros are written in pieces of this length.
const ZEROS_BYTES: usize = 1 << 20;

const LOCK: &str = "LOCK";

/// Modes of directories and files: data, and the secret of the id hash, are for the owner only.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Permissions of group and others, and the mark of a directory that users share, such as `/tmp`.
const OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;

/// Creates a directory and its missing parents for the owner only. Revokes the permissions of group and
/// others on an existing directory, and returns its former mode if they had any. Fails if that is not
/// possible.
pub fn private_folder(path: &Path) -> io::Result<Option<u32>> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)?;
    let mode = fs::metadata(path)?.permissions().mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(None);
    }
    let refused = |kind, why: &str| {
        let path = path.display();
        io::Error::new(kind, format!("other users can read or change {path} (mode {mode:03o}), and {why}"))
    };
    if mode & STICKY != 0 && fs::read_dir(path)?.next().is_some() {
        return Err(refused(io::ErrorKind::PermissionDenied, "it contains files of other users"));
    }
    let changed = fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS));
    changed.map_err(|error| refused(error.kind(), &format!("its mode cannot be changed: {error}")))?;
    Ok(Some(mode))
}

/// A directory of the file system.
#[derive(Debug, Clone)]
pub struct RealDisk {
    root: PathBuf,
}

impl RealDisk {
    /// The directory at this path, which is created if it is missing and made [private](private_folder).
    pub fn new(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        private_folder(&root)?;
        Ok(Self { root })
    }

    pub fn path(&self) -> &Path {
        &self.root
    }

    fn full_path(&self, name: &str) -> PathBuf {
        debug_assert!(!name.starts_with('/') && !name.split('/').any(|part| part == ".."));
        self.root.join(name)
    }

    /// Creates the folder of a name, durably.
    fn create_folder(&self, name: &str) -> io::Result<()> {
        let path = self.full_path(name);
        let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) else { return Ok(()) };
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
        folder.parent().map_or(Ok(()), sync_folder)
    }
}

impl Disk for RealDisk {
    type File = File;
    type Guard = File;

    fn lock(&self, owner: &str) -> Result<File, LockError> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(self.full_path(LOCK))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                file.read_to_string(&mut text)?;
                let (by, pid) = text.trim().rsplit_once(' ').unwrap_or((text.trim(), "0"));
                return Err(LockError::Held { by: by.to_owned(), pid: pid.parse().unwrap_or(0) });
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{owner} {}", std::process::id())?;
        Ok(file)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<File> {
        self.create_folder(name)?;
        let path = self.full_path(name);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE).open(&path)?;
        // A file that could not be filled is removed: it would take the space that is missing.
        allocate(&file, bytes)
            .and_then(|()| fill(&file, bytes))
            .inspect_err(|_| drop(fs::remove_file(&path)))?;
        Ok(file)
    }

    fn open(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.full_path(name))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.full_path(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.full_path(from), self.full_path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.full_path(name))
    }

    fn sync_names(&self, folder: &str) -> io::Result<()> {
        sync_folder(&self.full_path(folder))
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Allocates all blocks at once, so that they are contiguous and a full disk fails before anything is
/// written.
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if bytes > 0 {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        match fallocate(file, FallocateFlags::empty(), 0, bytes) {
            // Not every file system supports it; the zeros allocate the blocks, too.
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let _ = (file, bytes);
    Ok(())
}

/// Writes zeros, because the first write to an allocated block changes metadata, which an fsync must then
/// write, too.
fn fill(file: &File, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS_BYTES.min(usize::try_from(bytes).unwrap_or(ZEROS_BYTES))];
    let mut at = 0;
    while at < bytes {
        let piece = zeros.len().min(usize::try_from(bytes - at).unwrap_or(zeros.len()));
        file.write_all_at(&zeros[..piece], at)?;
        at += piece as u64;
    }
    Ok(())
}

impl DiskFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
