//! The file of an outbox: locked by one process, cut back to complete records, compacted when most of it is
//! obsolete.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::record::Record;
use super::state::State;

/// First bytes of an outbox file.
const MAGIC: &[u8] = b"jeton outbox 1\n";

const NAME: &str = "outbox";
const NEW_NAME: &str = "outbox.new";
const LOCK_NAME: &str = "lock";

/// A shorter file is not compacted.
const COMPACT_BYTES_MIN: usize = 1 << 20;

/// Why an outbox file cannot be opened.
#[derive(Debug)]
pub(super) enum OpenError {
    Locked,
    Foreign,
    Io(io::Error),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The locked file of an outbox.
#[derive(Debug)]
pub(super) struct OutboxFile {
    folder: PathBuf,
    file: File,
    bytes: usize,
    compact_min: usize,
    /// Locked until it is dropped.
    _lock: File,
}

impl OutboxFile {
    /// Opens or creates the outbox of a directory, reads its records, and truncates an incomplete one at the
    /// end.
    pub fn open(folder: &Path) -> Result<(Self, State), OpenError> {
        fs::create_dir_all(folder)?;
        let lock =
            OpenOptions::new().create(true).write(true).truncate(false).open(folder.join(LOCK_NAME))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        // Left by a compaction that did not finish.
        match fs::remove_file(folder.join(NEW_NAME)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let path = folder.join(NAME);
        let mut file = OpenOptions::new().create(true).read(true).write(true).truncate(false).open(&path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let mut state = State::default();
        let whole = if bytes.starts_with(MAGIC) {
            MAGIC.len() + state.replay(&bytes[MAGIC.len()..])
        } else if MAGIC.starts_with(&bytes) {
            // A new file, or one whose creation did not finish.
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(MAGIC)?;
            MAGIC.len()
        } else {
            return Err(OpenError::Foreign);
        };
        file.set_len(whole as u64)?;
        file.seek(SeekFrom::Start(whole as u64))?;
        file.sync_all()?;
        sync_directory(folder)?;
        let compact_min = COMPACT_BYTES_MIN;
        Ok((Self { folder: folder.into(), file, bytes: whole, compact_min, _lock: lock }, state))
    }

    /// Appends records; with `sync` they are durable when this returns.
    pub fn append(&mut self, records: &[u8], sync: bool) -> io::Result<()> {
        self.file.write_all(records)?;
        self.bytes += records.len();
        if sync { self.file.sync_data() } else { Ok(()) }
    }

    /// Compacts the file if most of it is obsolete. Returns whether it did.
    pub fn compact_if_worthwhile(&mut self, state: &State) -> io::Result<bool> {
        if self.bytes < self.compact_min || self.bytes < 4 * state.bytes {
            return Ok(false);
        }
        let mut bytes = MAGIC.to_vec();
        state.snapshot(&mut bytes);
        let path = self.folder.join(NEW_NAME);
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).open(&path)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&path, self.folder.join(NAME))?;
        sync_directory(&self.folder)?;
        (self.file, self.bytes) = (file, bytes.len());
        Ok(true)
    }
}

/// Makes the creation and renaming of files in a directory durable.
fn sync_directory(folder: &Path) -> io::Result<()> {
    // Only Unix can open directories; other systems write their entries through.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Appends a record to the output, and applies it to the state.
pub(super) fn append(record: &Record, state: &mut State, out: &mut Vec<u8>) {
    let before = out.len();
    record.encode(out);
    state.apply(record, out.len() - before);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Write;
    use crate::id::Id;

    fn stored(number: u64) -> Record {
        let (id, write) = (Id::new(number.to_string()).unwrap(), Write::Reset { key: b"k".to_vec() });
        Record::Stored { number, id, write }
    }

    #[test]
    fn a_locked_or_foreign_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let first = OutboxFile::open(folder.path()).unwrap();
        assert!(matches!(OutboxFile::open(folder.path()), Err(OpenError::Locked)));
        drop(first);
        OutboxFile::open(folder.path()).unwrap();
        fs::write(folder.path().join(NAME), "something else").unwrap();
        assert!(matches!(OutboxFile::open(folder.path()), Err(OpenError::Foreign)));
        assert_eq!(fs::read(folder.path().join(NAME)).unwrap(), b"something else");
    }

    #[test]
    fn a_file_cut_at_any_byte_keeps_complete_records() {
        let folder = tempfile::tempdir().unwrap();
        let (mut file, mut state) = OutboxFile::open(folder.path()).unwrap();
        let mut bytes = Vec::new();
        for number in 0..4 {
            append(&stored(number), &mut state, &mut bytes);
        }
        file.append(&bytes, true).unwrap();
        drop(file);
        let whole = fs::read(folder.path().join(NAME)).unwrap();
        let each = bytes.len() / 4;
        for cut in 0..=whole.len() {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join(NAME), &whole[..cut]).unwrap();
            let (mut file, mut state) = OutboxFile::open(folder.path()).unwrap();
            let expected = cut.saturating_sub(MAGIC.len()) / each;
            assert_eq!(state.pending.len(), expected, "cut at {cut}");
            let mut more = Vec::new();
            append(&stored(9), &mut state, &mut more);
            file.append(&more, true).unwrap();
            drop(file);
            let (_, state) = OutboxFile::open(folder.path()).unwrap();
            assert_eq!(state.pending.len(), expected + 1, "cut at {cut}");
        }
    }

    #[test]
    fn a_compacted_file_keeps_stored_operations() {
        let folder = tempfile::tempdir().unwrap();
        let (mut file, mut state) = OutboxFile::open(folder.path()).unwrap();
        file.compact_min = 1000;
        let mut compacted = 0;
        for number in 0..200 {
            let mut bytes = Vec::new();
            append(&stored(number), &mut state, &mut bytes);
            if number % 50 != 0 {
                append(&Record::Removed { number }, &mut state, &mut bytes);
            }
            file.append(&bytes, false).unwrap();
            compacted += u32::from(file.compact_if_worthwhile(&state).unwrap());
        }
        assert!(compacted > 3, "{compacted}");
        drop(file);
        let (_, again) = OutboxFile::open(folder.path()).unwrap();
        assert_eq!(again.pending.keys().collect::<Vec<_>>(), [&0, &50, &100, &150]);
        assert_eq!(again.next, 200);
    }
}
