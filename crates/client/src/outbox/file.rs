//! The file of an outbox: one process at a time, whole records only, and never longer than it must be.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::record::Record;
use super::state::State;

/// What a file of ours begins with.
const MAGIC: &[u8] = b"jeton outbox 1\n";

const NAME: &str = "outbox";
const NEW: &str = "outbox.new";
const LOCK: &str = "lock";

/// A file that is shorter is not worth rewriting.
const REWRITE_BYTES_MIN: usize = 1 << 20;

/// A file that is no outbox, or that another process has.
#[derive(Debug)]
pub(super) enum OpenFailure {
    Locked,
    Foreign,
    Io(io::Error),
}

impl From<io::Error> for OpenFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The file of an outbox, locked.
#[derive(Debug)]
pub(super) struct OutboxFile {
    folder: PathBuf,
    file: File,
    bytes: usize,
    rewrite_min: usize,
    /// Held for as long as this lives.
    _lock: File,
}

impl OutboxFile {
    /// Opens the outbox of a folder, or makes one; reads what it holds, and cuts off what is not whole.
    pub fn open(folder: &Path) -> Result<(Self, State), OpenFailure> {
        fs::create_dir_all(folder)?;
        let lock = OpenOptions::new().create(true).write(true).truncate(false).open(folder.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenFailure::Locked),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        // A rewriting that did not come to its end.
        match fs::remove_file(folder.join(NEW)) {
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
            // New, or its making did not come to its end.
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(MAGIC)?;
            MAGIC.len()
        } else {
            return Err(OpenFailure::Foreign);
        };
        file.set_len(whole as u64)?;
        file.seek(SeekFrom::Start(whole as u64))?;
        file.sync_all()?;
        sync_folder(folder)?;
        let rewrite_min = REWRITE_BYTES_MIN;
        Ok((Self { folder: folder.into(), file, bytes: whole, rewrite_min, _lock: lock }, state))
    }

    /// Appends records. With `sync` they survive everything from here on.
    pub fn append(&mut self, records: &[u8], sync: bool) -> io::Result<()> {
        self.file.write_all(records)?;
        self.bytes += records.len();
        if sync { self.file.sync_data() } else { Ok(()) }
    }

    /// Writes the file anew if most of it is about what is over.
    pub fn rewrite_if_worthwhile(&mut self, state: &State) -> io::Result<bool> {
        if self.bytes < self.rewrite_min || self.bytes < 4 * state.bytes {
            return Ok(false);
        }
        let mut bytes = MAGIC.to_vec();
        state.snapshot(&mut bytes);
        let path = self.folder.join(NEW);
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).open(&path)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&path, self.folder.join(NAME))?;
        sync_folder(&self.folder)?;
        (self.file, self.bytes) = (file, bytes.len());
        Ok(true)
    }
}

/// Makes what was made or renamed in a folder survive.
fn sync_folder(folder: &Path) -> io::Result<()> {
    // Other systems than Unix do not open folders, and write their entries through.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Appends a record to bytes, and takes it into the state.
pub(super) fn note(record: &Record, state: &mut State, out: &mut Vec<u8>) {
    let before = out.len();
    record.encode(out);
    state.apply(record, out.len() - before);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Write;
    use crate::id::Id;

    fn came(number: u64) -> Record {
        let (id, write) = (Id::new(number.to_string()).unwrap(), Write::Reset { key: b"k".to_vec() });
        Record::Came { number, id, write }
    }

    #[test]
    fn a_file_is_for_one_at_a_time_and_only_ours_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let first = OutboxFile::open(folder.path()).unwrap();
        assert!(matches!(OutboxFile::open(folder.path()), Err(OpenFailure::Locked)));
        drop(first);
        OutboxFile::open(folder.path()).unwrap();
        fs::write(folder.path().join(NAME), "something else").unwrap();
        assert!(matches!(OutboxFile::open(folder.path()), Err(OpenFailure::Foreign)));
        assert_eq!(fs::read(folder.path().join(NAME)).unwrap(), b"something else");
    }

    #[test]
    fn a_crash_at_any_byte_leaves_whole_records_and_a_file_that_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let (mut file, mut state) = OutboxFile::open(folder.path()).unwrap();
        let mut bytes = Vec::new();
        for number in 0..4 {
            note(&came(number), &mut state, &mut bytes);
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
            assert_eq!(state.kept.len(), expected, "cut at {cut}");
            let mut more = Vec::new();
            note(&came(9), &mut state, &mut more);
            file.append(&more, true).unwrap();
            drop(file);
            let (_, state) = OutboxFile::open(folder.path()).unwrap();
            assert_eq!(state.kept.len(), expected + 1, "cut at {cut}");
        }
    }

    #[test]
    fn a_rewritten_file_has_what_is_kept_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let (mut file, mut state) = OutboxFile::open(folder.path()).unwrap();
        file.rewrite_min = 1000;
        let mut rewritten = 0;
        for number in 0..200 {
            let mut bytes = Vec::new();
            note(&came(number), &mut state, &mut bytes);
            if number % 50 != 0 {
                note(&Record::Over { number }, &mut state, &mut bytes);
            }
            file.append(&bytes, false).unwrap();
            rewritten += u32::from(file.rewrite_if_worthwhile(&state).unwrap());
        }
        assert!(rewritten > 3, "{rewritten}");
        drop(file);
        let (_, again) = OutboxFile::open(folder.path()).unwrap();
        assert_eq!(again.kept.keys().collect::<Vec<_>>(), [&0, &50, &100, &150]);
        assert_eq!(again.next, 200);
    }
}
