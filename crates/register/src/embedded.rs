//! The embedded engine: the registers are in memory, and every change is an entry of a wal.
//!
//! *Compaction.* When the segments take more than twice what the registers need (and two segments more), the
//! log is *rewritten*: each later change also appends some of the live registers again. At the end of the
//! pass the log is trimmed up to its start, which releases the segments before. So disk usage is bounded by
//! the live registers, whatever their age.
//!
//! Invariants:
//! - The order of the entries in the log is the order of the changes in memory: both happen under one lock.
//! - A result is returned only when everything it depends on is durable.

use std::future::Future;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use futures_executor::block_on;
use jeton_wal::disk::Disk;
use jeton_wal::{DurableAt, Location, LogId as WalLog, OnFatal, OpenError as WalOpenError, Reservation, Wal};

use crate::register_entry::{
    ENTRY_OVERHEAD, apply, format_entry, is_format, retire_entry, trim_entry, write_entry,
};
use crate::{
    Batch, Blob, Error, Extent, Limits, LogId, LogKind, RegisterMap, Registers, Slot, WritePermit,
    WriteResult, check_object,
};

/// The only log of the wal.
const LOG: WalLog = WalLog(0);

/// The blobs that are objects.
const OBJECT: &str = "object.";

/// How many bytes a change rewrites while a rewrite is in progress.
const REWRITE_BYTES: usize = 64 << 10;

/// Options of the embedded engine.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    pub wal: jeton_wal::Options,
    /// The memory that the registers may take, in bytes. Above it writes fail with [`Error::Full`].
    pub bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { wal: jeton_wal::Options::default(), bytes_max: 1 << 30 }
    }
}

impl Options {
    /// The defaults with segments of this length, for tests.
    pub fn small(segment_bytes: u32) -> Self {
        Self { wal: jeton_wal::Options::small(segment_bytes), ..Self::default() }
    }

    /// How large values and batches may be.
    pub fn limits(&self) -> Limits {
        let limits = self.wal.limits();
        let writes = limits.batch_entries_max.min(limits.batch_bytes_max / 4 / ENTRY_OVERHEAD);
        Limits {
            value_bytes_max: limits.entry_bytes_max - ENTRY_OVERHEAD,
            batch_writes_max: writes,
            batch_bytes_max: limits.batch_bytes_max - writes * ENTRY_OVERHEAD,
        }
    }
}

/// Why registers could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The wal could not be opened.
    #[error(transparent)]
    Wal(#[from] WalOpenError),
    /// The wal could not be read.
    #[error(transparent)]
    Read(#[from] jeton_wal::Error),
    /// An entry of the wal is not one of registers.
    #[error("{at}: entry {slot} of the log of registers: {why}")]
    Entry { at: Location, slot: Slot, why: &'static str },
}

impl OpenError {
    /// Whether the directory has an older format, which [`migrate`](crate::migrate()) converts.
    pub fn is_old_format(&self) -> bool {
        matches!(self, Self::Wal(WalOpenError::OldRegisters { .. }))
    }
}

/// Registers in a directory that one process uses alone.
pub struct EmbeddedRegisters<D: Disk> {
    wal: Wal<D>,
    limits: Limits,
    bytes_max: usize,
    /// The wal may take this many bytes beyond twice what the registers need.
    slack_bytes: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    map: RegisterMap,
    /// The last slot of the log.
    last: Slot,
    rewrite: Option<Rewrite>,
    /// The position in the wal at which the last complete rewrite started. Everything before it is trimmed.
    start_position: u64,
}

/// A rewrite of the log in progress.
#[derive(Default)]
struct Rewrite {
    /// The slot of its first entry.
    first: Slot,
    /// The position in the wal, and what the registers needed, when it started.
    position: u64,
    bytes: usize,
    /// The last trim point, and the last register, that was rewritten.
    trim: Option<LogId>,
    register: Option<(LogId, Slot)>,
    /// Everything is rewritten; the trim remains.
    done: bool,
}

impl<D: Disk> EmbeddedRegisters<D> {
    /// Opens the registers on this disk, or creates them. If the disk fails and it is unknown what is
    /// durable, the process aborts.
    pub fn open(disk: D, options: Options) -> Result<Self, OpenError> {
        let wal = Wal::open(disk, options.wal.clone())?;
        Self::recover(wal, options)
    }

    /// As [`EmbeddedRegisters::open`], but calls `on_fatal` instead of aborting.
    pub fn open_with(disk: D, options: Options, on_fatal: OnFatal) -> Result<Self, OpenError> {
        let wal = Wal::open_with(disk, options.wal.clone(), on_fatal)?;
        Self::recover(wal, options)
    }

    fn recover(wal: Wal<D>, options: Options) -> Result<Self, OpenError> {
        let mut state = State::default();
        let (reader, extents) = wal.snapshot([LOG])?;
        let mut first = true;
        reader.for_each_at(|at, log, slot, entry| {
            let applied = match std::mem::replace(&mut first, false) {
                _ if log != LOG => Err("it belongs to another log"),
                true if !is_format(entry) => Err("the log does not start with the format of registers"),
                _ => apply(&mut state.map, entry),
            };
            applied.map_err(|why| OpenError::Entry { at, slot, why })
        })?;
        state.last = extents[0].end();
        state.start_position = wal.positions().start;
        let registers = Self {
            wal,
            limits: options.limits(),
            bytes_max: options.bytes_max,
            slack_bytes: 2 * u64::from(options.wal.segment_bytes),
            state: Mutex::new(state),
        };
        if first {
            registers.create()?;
        }
        Ok(registers)
    }

    /// Writes the first entry of a new log.
    fn create(&self) -> Result<(), jeton_wal::Error> {
        let mut state = self.state();
        let reservation = self.wal.reserve(1, 2)?;
        // Not awaited: it is durable before any entry after it.
        self.append(&mut state, [format_entry()], reservation).map(drop)
    }

    /// Replaces the content. When this returns, it is durable.
    pub(crate) fn import(&self, map: RegisterMap) -> Result<(), Error> {
        let mut state = self.state();
        state.map = map;
        loop {
            match self.rewrite(&mut state) {
                Ok(()) if state.rewrite.is_none() => break,
                Ok(()) => {}
                // The next segment is being created.
                Err(jeton_wal::Error::Busy(_)) => std::thread::yield_now(),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(block_on(self.wal.durable()?)?)
    }

    /// After a panic under the lock, memory and log may differ: no caller may continue.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panicked while it held the registers")
    }

    fn append(
        &self,
        state: &mut State,
        entries: impl IntoIterator<Item = Vec<u8>>,
        reservation: Reservation,
    ) -> Result<DurableAt, jeton_wal::Error> {
        let mut batch = jeton_wal::Batch::new();
        let mut last = state.last;
        for entry in entries {
            last = last.next();
            batch.push(LOG, last, &entry);
        }
        let durable = self.wal.append(&batch, reservation)?;
        state.last = last;
        Ok(durable)
    }

    fn write_now(&self, batch: &Batch, permit: WritePermit) -> Result<(Vec<WriteResult>, DurableAt), Error> {
        // The wal limits the size of the whole batch.
        self.limits.check_writes(batch)?;
        // The append must not fail after the registers in memory have changed.
        let bytes = entry_bytes(batch.len(), batch.value_bytes());
        let reservation = match permit.into_reserved::<Reservation>() {
            Some(reservation) if self.wal.covers(&reservation, batch.len(), bytes) => reservation,
            _ => self.reserve(batch.len(), batch.value_bytes())?,
        };
        let mut state = self.state();
        if state.map.bytes() + batch.value_bytes() > self.bytes_max {
            return Err(Error::Full(format!("the registers take {} bytes of memory", state.map.bytes())));
        }
        // From here on the append fails only if the wal has failed; it then refuses all later appends, too.
        let mut entries = Vec::new();
        let results = batch.iter().map(|(log, slot, value)| {
            let result = state.map.write(log, slot, value);
            if result == WriteResult::Fresh {
                entries.push(write_entry(log, slot, value));
            }
            result
        });
        let results: Vec<WriteResult> = results.collect();
        let durable = match entries.is_empty() {
            // The values may still be in flight.
            true => self.wal.durable()?,
            false => self.append(&mut state, entries, reservation)?,
        };
        self.compact(&mut state);
        Ok((results, durable))
    }

    fn reserve(&self, writes: usize, value_bytes: usize) -> Result<Reservation, Error> {
        self.wal.reserve(writes, entry_bytes(writes, value_bytes)).map_err(|error| {
            self.compact_if_full(&mut self.state(), &error);
            error.into()
        })
    }

    /// Appends a trim or a retirement. They may use half of the headroom: a rewrite must be possible after
    /// them.
    fn forget(
        &self,
        is_done: impl FnOnce(&RegisterMap) -> bool,
        entry: impl FnOnce(&RegisterMap) -> Vec<u8>,
        change: impl FnOnce(&mut RegisterMap),
    ) -> Result<DurableAt, Error> {
        let mut state = self.state();
        if is_done(&state.map) {
            return Ok(self.wal.durable()?);
        }
        let kept = self.wal.limits().headroom_bytes / 2;
        let reserved = self.wal.reserve_headroom(1, ENTRY_OVERHEAD, kept);
        let reservation = reserved.inspect_err(|error| self.compact_if_full(&mut state, error))?;
        let entry = entry(&state.map);
        let durable = self.append(&mut state, [entry], reservation)?;
        change(&mut state.map);
        self.compact(&mut state);
        Ok(durable)
    }

    /// After a refusal for lack of space: a rewrite may free it.
    fn compact_if_full(&self, state: &mut State, error: &jeton_wal::Error) {
        if matches!(error, jeton_wal::Error::Full(_)) {
            self.compact(state);
        }
    }

    /// Starts a rewrite if it is due, or continues with it. Without space the next change tries again.
    fn compact(&self, state: &mut State) {
        let bytes = state.map.bytes();
        // Most registers were dropped meanwhile: a new rewrite is shorter, and releases the segments of the
        // present one.
        state.rewrite.take_if(|rewrite| bytes < rewrite.bytes / 2);
        let used = self.wal.positions().end.saturating_sub(state.start_position);
        if state.rewrite.is_none() && used <= 2 * bytes as u64 + self.slack_bytes {
            return;
        }
        let _retried_later = self.rewrite(state);
    }

    fn rewrite(&self, state: &mut State) -> Result<(), jeton_wal::Error> {
        let begun = state.rewrite.is_some();
        let State { map, rewrite, last, .. } = &mut *state;
        let Rewrite { trim, register, done, .. } = rewrite.get_or_insert_with(|| Rewrite {
            first: last.next(),
            position: self.wal.positions().end,
            bytes: map.bytes(),
            ..Rewrite::default()
        });
        let limits = self.wal.limits();
        let limit = REWRITE_BYTES.min(limits.batch_bytes_max / 2);
        let mut entries = Vec::new();
        if !begun {
            entries.push(format_entry());
            entries.extend(map.retired().map(|(kind, below)| retire_entry(kind, below)));
        }
        let (mut new_trim, mut new_register) = (*trim, *register);
        let trims = map.trims_after(*trim).map(|(log, extent)| (None, log, trim_entry(log, extent)));
        let writes = map.values_after(*register);
        let writes = writes.map(|((log, slot), value)| (Some(slot), log, write_entry(log, slot, value)));
        let (mut bytes, mut all) = (0, true);
        for (slot, log, entry) in trims.chain(writes).filter(|_| !*done) {
            if bytes > 0 && (bytes + entry.len() > limit || entries.len() >= limits.batch_entries_max) {
                all = false;
                break;
            }
            bytes += entry.len();
            entries.push(entry);
            match slot {
                Some(slot) => new_register = Some((log, slot)),
                None => new_trim = Some(log),
            }
        }
        if !entries.is_empty() {
            let bytes = entries.iter().map(Vec::len).sum();
            // A rewrite may use the headroom only if all of it fits: else the headroom is gone and nothing is
            // trimmed.
            let reserved = match state.map.bytes() <= limits.headroom_bytes / 8 {
                true => self.wal.reserve_headroom(entries.len(), bytes, 0),
                false => self.wal.reserve(entries.len(), bytes),
            };
            let appended = reserved.and_then(|reserved| self.append(state, entries, reserved));
            if appended.is_err() && !begun {
                state.rewrite = None;
            }
            let _durable = appended?;
        }
        let Some(rewrite) = &mut state.rewrite else { return Ok(()) };
        (rewrite.trim, rewrite.register) = (new_trim, new_register);
        rewrite.done |= all;
        if rewrite.done {
            // The trim is durable after the entries before it.
            let _durable = self.wal.trim(&[(LOG, Slot(rewrite.first.0 - 1))])?;
            state.start_position = rewrite.position;
            state.rewrite = None;
        }
        Ok(())
    }

    /// Waits until everything before is durable, then returns the result.
    fn after_all<T>(
        &self,
        result: Result<T, Error>,
    ) -> impl Future<Output = Result<T, Error>> + Send + use<D, T>
    where
        T: Send,
    {
        let durable = self.wal.durable();
        async move {
            durable?.await?;
            result
        }
    }
}

/// The most bytes that the entries of a batch take.
fn entry_bytes(writes: usize, value_bytes: usize) -> usize {
    value_bytes.saturating_add(writes.saturating_mul(ENTRY_OVERHEAD))
}

fn object_blob(name: &str) -> String {
    format!("{OBJECT}{name}")
}

async fn done(durable: Result<DurableAt, Error>) -> Result<(), Error> {
    Ok(durable?.await?)
}

impl<D: Disk> Registers for EmbeddedRegisters<D> {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn admit(&self, writes: usize, value_bytes: usize) -> Result<WritePermit, Error> {
        self.reserve(writes, value_bytes).map(WritePermit::holding)
    }

    fn write(
        &self,
        batch: Batch,
        permit: WritePermit,
    ) -> impl Future<Output = Result<Vec<WriteResult>, Error>> + Send + 'static {
        let written = self.write_now(&batch, permit);
        async move {
            let (results, durable) = written?;
            durable.await?;
            Ok(results)
        }
    }

    fn read(
        &self,
        log: LogId,
        from: Slot,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Slot, Bytes)>, Error>> + Send {
        let read = self.state().map.read(log, from, limit);
        self.after_all(read)
    }

    fn extent(&self, log: LogId) -> impl Future<Output = Result<Extent, Error>> + Send {
        let extent = self.state().map.extent(log);
        self.after_all(Ok(extent))
    }

    fn trim(&self, log: LogId, through: Slot) -> impl Future<Output = Result<(), Error>> + Send {
        let trimmed = |map: &RegisterMap| Extent { trimmed: through, last: map.extent(log).last };
        done(self.forget(
            |map| through == Slot::ZERO || map.is_trimmed(log, through),
            |map| trim_entry(log, trimmed(map)),
            |map| map.trim(log, through),
        ))
    }

    fn retire(&self, kind: LogKind, below: u128) -> impl Future<Output = Result<(), Error>> + Send {
        let retired = kind.check_dated().and_then(|()| {
            self.forget(
                |map| map.is_retired_below(kind, below),
                |_| retire_entry(kind, below),
                |map| map.retire(kind, below),
            )
        });
        done(retired)
    }

    /// Blocks the caller. No blob of the embedded engine is on a hot path.
    fn put_blob(&self, name: &str, blob: Blob) -> impl Future<Output = Result<bool, Error>> + Send {
        std::future::ready(self.wal.put_blob(name, &blob).map_err(Error::from))
    }

    /// Blocks the caller.
    fn get_blob(&self, name: &str) -> impl Future<Output = Result<Option<Blob>, Error>> + Send {
        std::future::ready(self.wal.get_blob(name).map_err(Error::from))
    }

    /// An object is a blob. Blocks the caller.
    fn put_object(&self, name: &str, bytes: Bytes) -> impl Future<Output = Result<(), Error>> + Send {
        let put = check_object(name, bytes.len())
            .and_then(|()| Ok(self.wal.put_blob(&object_blob(name), &Blob { version: 0, bytes })?));
        std::future::ready(put.map(drop))
    }

    /// Blocks the caller.
    fn get_object(&self, name: &str) -> impl Future<Output = Result<Option<Bytes>, Error>> + Send {
        let blob = self.wal.get_blob(&object_blob(name)).map_err(Error::from);
        std::future::ready(blob.map(|blob| blob.map(|blob| blob.bytes)))
    }

    /// Blocks the caller.
    fn delete_objects(&self, names: Vec<String>) -> impl Future<Output = Result<(), Error>> + Send {
        let blobs: Vec<String> = names.iter().map(|name| object_blob(name)).collect();
        std::future::ready(self.wal.remove_blobs(&blobs).map_err(Error::from))
    }

    /// Blocks the caller.
    fn list_objects(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<String>, Error>> + Send {
        let listed = self.wal.list_blobs().map_err(Error::from).map(|blobs| {
            let names = blobs.iter().filter_map(|blob| blob.strip_prefix(OBJECT));
            let found = names.filter(|name| name.starts_with(prefix) && *name > after);
            found.take(limit).map(str::to_owned).collect()
        });
        std::future::ready(listed)
    }
}
