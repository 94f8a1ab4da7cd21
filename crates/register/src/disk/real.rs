//! The real disk: a directory of the file system, with positioned reads and writes.
//!
//! What must hold: a created file is really there. Its blocks are allotted and written with zeros, so that overwriting them
//! later changes no metadata, and a sync of it is one write to the disk.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{Disk, DiskFile, LockError};

/// Zeros are written in pieces of so many bytes.
const ZEROS_BYTES: usize = 1 << 20;

/// The name of the lock file.
const LOCK: &str = "LOCK";

/// A directory of the file system.
#[derive(Debug, Clone)]
pub struct RealDisk {
    root: PathBuf,
}

impl RealDisk {
    /// The directory at this path, which is made if it is not there.
    pub fn new(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        fs::create_dir_all(&root)?;
        Ok(Self { root })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.root
    }

    fn place(&self, name: &str) -> PathBuf {
        debug_assert!(!name.starts_with('/') && !name.split('/').any(|part| part == ".."));
        self.root.join(name)
    }

    /// Makes the folder of a name, and makes it durable in its own folder.
    fn make_folder(&self, name: &str) -> io::Result<()> {
        let place = self.place(name);
        let Some(folder) = place.parent().filter(|folder| !folder.is_dir()) else { return Ok(()) };
        fs::create_dir_all(folder)?;
        folder.parent().map_or(Ok(()), sync_folder)
    }
}

impl Disk for RealDisk {
    type File = File;
    type Guard = File;

    fn lock(&self, who: &str) -> Result<File, LockError> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(self.place(LOCK))?;
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
        writeln!(file, "{who} {}", std::process::id())?;
        Ok(file)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<File> {
        self.make_folder(name)?;
        let place = self.place(name);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&place)?;
        // What could not be filled is taken away: it would hold the very room that is wanted.
        allot(&file, bytes)
            .and_then(|()| fill(&file, bytes))
            .inspect_err(|_| drop(fs::remove_file(&place)))?;
        Ok(file)
    }

    fn open(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.place(name))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.place(folder)) {
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
        fs::rename(self.place(from), self.place(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.place(name))
    }

    fn sync_names(&self, folder: &str) -> io::Result<()> {
        sync_folder(&self.place(folder))
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Asks for all blocks at once: they lie together, and a full disk says so before anything is written.
fn allot(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if bytes > 0 {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        match fallocate(file, FallocateFlags::empty(), 0, bytes) {
            // Not every file system can; the zeros allot the blocks as well.
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let _ = (file, bytes);
    Ok(())
}

/// Writes zeros, because the first write to an allotted block changes metadata, and a sync must then wait for them too.
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
