//! The journal: the state machine of a wal. It has no threads and never blocks; the caller starts each step.
//!
//! [`Wal`](crate::Wal) is a journal under a lock with the two threads that drive it; the simulator drives a
//! journal itself. A log is named by a [`LogId`], a number within this wal. The registers of `jeton-register`
//! have a `LogId` of their own, with a kind and a 128-bit id.
//!
//! An append copies its records into the *open* frame. A frame is *taken*, *flushed* (written and synced,
//! without holding the journal, so that appends continue) and *completed*; then its appends are acknowledged.
//! Meanwhile a *segment task* creates the next segment and removes released ones.
//!
//! Invariants:
//! - *An append is all or nothing.* Everything that can refuse a batch is checked before its first record is
//!   copied.
//! - *One frame at a time is in flight.* So only the last frame of a wal can be torn.
//! - *A segment is released only when every log is trimmed past it, durably.* Its file is reused only when
//!   the release is durable.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::disk::{Disk, is_out_of_space};
use crate::error::Error;
use crate::frame::{self, Frame, OVERHEAD_MAX};
use crate::location::{FrameNumber, Location};
use crate::log_table::LogTable;
use crate::open_error::{Fatal, OpenError};
use crate::options::{BATCH_ENTRIES_MAX, Options, cost};
use crate::pending_flush::{FlushError, PendingFlush};
use crate::reader::{Reader, SegmentHandle};
use crate::record::{self, ENTRY_OVERHEAD_MAX, TRIM_BYTES_MAX};
use crate::recovery;
use crate::reservation::Reservation;
use crate::segment::{self, BLOCK_BYTES, Segment};
use crate::{Batch, Extent, LogId, Slot};

/// Buffers kept for reuse: one is filled while another is written.
const BUFFERS_MAX: usize = 2;

/// A wal without threads.
pub struct Journal<D: Disk> {
    pub(crate) disk: Arc<D>,
    pub(crate) _guard: D::Guard,
    pub(crate) options: Options,
    pub(crate) identity: u64,
    pub(crate) logs: LogTable,

    /// The segments in use, oldest first. Frames go to the last one.
    pub(crate) segments: VecDeque<Segment<D::File>>,
    /// The segment after those, once it is created.
    pub(crate) next: Option<Segment<D::File>>,
    /// Where the next frame starts, if none is open.
    pub(crate) end: Location,
    pub(crate) next_frame: FrameNumber,
    /// The hash of the last frame taken.
    pub(crate) hash: u64,

    /// The frame that is being filled.
    pub(crate) open: Option<Frame>,
    /// Frames that are full and not yet taken.
    pub(crate) full: VecDeque<Frame>,
    /// The frame that is being flushed, or that could not be written for lack of space.
    pub(crate) flushing: Option<Arc<Frame>>,
    pub(crate) taken: bool,
    pub(crate) durable: FrameNumber,
    /// Everything before this position is durable.
    pub(crate) durable_end: Location,
    pub(crate) buffers: Vec<Vec<u8>>,

    /// Bytes reserved and not yet appended.
    pub(crate) reserved: Arc<AtomicUsize>,
    /// The highest segment whose release is appended.
    pub(crate) released: u32,
    /// Segments whose release is durable and whose files are still there.
    pub(crate) to_remove: Vec<Segment<D::File>>,
    pub(crate) spares: Vec<String>,
    pub(crate) task_running: bool,
    /// A caller was refused because the next segment was missing.
    pub(crate) next_wanted: bool,
    /// Why the last segment task failed. It is retried when a caller is refused for it.
    pub(crate) task_error: Option<String>,
    /// Why the last frame could not be written. It is retried when a caller is refused for it.
    pub(crate) write_error: Option<String>,
    pub(crate) retry_task: bool,
    pub(crate) retry_write: bool,
    pub(crate) fatal: Option<Fatal>,
}

impl<D: Disk> Journal<D> {
    /// Opens the wal on this disk, or creates one. Everything ever acknowledged is there.
    pub fn open(disk: D, options: Options) -> Result<Self, OpenError> {
        recovery::open(Arc::new(disk), options)
    }

    /// Reserves space for a batch of `entries` entries with `entry_bytes` bytes together.
    pub fn reserve(&mut self, entries: usize, entry_bytes: usize) -> Result<Reservation, Error> {
        self.reserve_leaving(entries, entry_bytes, self.options.headroom_bytes())
    }

    /// As [`Journal::reserve`], but may use the headroom, the space with which a full WAL can still be
    /// trimmed. `keep_free` bytes of it stay free. For entries that must precede a trim.
    pub fn reserve_headroom(
        &mut self,
        entries: usize,
        entry_bytes: usize,
        keep_free: usize,
    ) -> Result<Reservation, Error> {
        // A trim and the release that follows it always remain possible.
        self.reserve_leaving(entries, entry_bytes, keep_free.max(2 * (TRIM_BYTES_MAX + OVERHEAD_MAX)))
    }

    fn reserve_leaving(
        &mut self,
        entries: usize,
        entry_bytes: usize,
        keep_free: usize,
    ) -> Result<Reservation, Error> {
        self.check_alive()?;
        let bytes = cost(entries, entry_bytes);
        let max = self.options.batch_cost_max();
        if entries > BATCH_ENTRIES_MAX || bytes > max {
            return Err(Error::TooLarge(format!(
                "a batch of {entries} entries and {entry_bytes} bytes; \
                 the limit is {BATCH_ENTRIES_MAX} entries that take {max} bytes"
            )));
        }
        self.check_writable()?;
        let in_flight = self.reserved.load(Ordering::Relaxed) + self.appended_bytes();
        if in_flight + bytes > self.options.in_flight_bytes_max {
            return Err(Error::Busy(format!("{in_flight} bytes are in flight to the disk")));
        }
        if !self.has_space(bytes + keep_free) {
            return Err(self.refuse());
        }
        Ok(Reservation::new(bytes, &self.reserved))
    }

    /// Appends a batch. It is durable when the returned frame is. On an error nothing has changed.
    pub fn append(&mut self, batch: &Batch, reservation: Reservation) -> Result<FrameNumber, Error> {
        self.check_alive()?;
        let bytes = cost(batch.len(), batch.entry_bytes());
        let _more = match reservation.covers(bytes, &self.reserved) {
            true => None,
            false => Some(self.reserve(batch.len(), batch.entry_bytes())?),
        };
        self.check_batch(batch)?;
        let mut number = FrameNumber::ZERO;
        for (log, slot, entry) in batch.iter() {
            let frame = self.frame_for(ENTRY_OVERHEAD_MAX + entry.len());
            record::put_entry(&mut frame.bytes, log, slot, entry);
            frame.note_entry(log, slot);
            number = frame.number;
            self.logs.entry(log).last = slot;
        }
        Ok(number)
    }

    /// Whether every entry is at the next slot of its log and within the limits. New logs are added, which
    /// has no effect.
    fn check_batch(&mut self, batch: &Batch) -> Result<(), Error> {
        let entry_bytes_max = self.options.entry_bytes_max();
        self.logs.begin_batch();
        for (log, slot, entry) in batch.iter() {
            if entry.len() > entry_bytes_max {
                let len = entry.len();
                return Err(Error::TooLarge(format!(
                    "an entry of {len} bytes; the limit is {entry_bytes_max}"
                )));
            }
            self.check_logs(log)?;
            let next = self.logs.next_in_batch(log);
            if (slot != next && !self.is_mutated(log, slot)) || slot > Slot::MAX {
                return Err(Error::OutOfOrder(format!("{log}: the next slot is {next}, not {slot}")));
            }
            self.logs.check(log, slot);
        }
        Ok(())
    }

    /// Whether a planted bug lets this entry pass.
    fn is_mutated(&self, log: LogId, slot: Slot) -> bool {
        let Extent { trimmed, last } = self.logs.extent(log);
        match slot <= trimmed {
            true => mutated!(SkipTrimCheck),
            false => slot <= last && mutated!(OverwriteSlot),
        }
    }

    /// Rejects a new log if there are `logs_max` already.
    fn check_logs(&self, log: LogId) -> Result<(), Error> {
        let max = self.options.logs_max();
        if self.logs.find(log).is_none() && self.logs.len() >= max {
            return Err(Error::TooLarge(format!("{log} would be a new log; the maximum is {max} logs")));
        }
        Ok(())
    }

    /// Trims a log up to and including `through`. It is done when the returned frame is durable. A lower trim
    /// point than the present one changes nothing. The log may end below `through`; it then continues after
    /// it.
    pub fn trim(&mut self, log: LogId, through: Slot) -> Result<FrameNumber, Error> {
        self.check_alive()?;
        let state = self.logs.find(log).copied();
        if let Some(state) = state.filter(|state| through <= state.trimming) {
            return Ok(state.trimming_in);
        }
        if through == Slot::ZERO {
            return Ok(FrameNumber::ZERO);
        }
        if through > Slot::MAX {
            return Err(Error::Invalid(format!("{log}: slot {through} is above the highest slot")));
        }
        self.check_logs(log)?;
        self.check_writable()?;
        // A block remains for the release that may follow.
        if !self.has_space(TRIM_BYTES_MAX + OVERHEAD_MAX + BLOCK_BYTES as usize) {
            return Err(self.refuse());
        }
        let last = state.unwrap_or_default().last;
        let frame = self.frame_for(TRIM_BYTES_MAX);
        record::put_trim(&mut frame.bytes, log, through, last);
        frame.trims.push((log, through));
        let number = frame.number;
        let state = self.logs.entry(log);
        (state.trimming, state.trimming_in) = (through, number);
        Ok(number)
    }

    /// The next frame to flush, if there is one and none is in flight.
    pub fn take_flush(&mut self) -> Option<PendingFlush<D::File>> {
        if !self.has_flush() {
            return None;
        }
        let frame = match self.flushing.take() {
            Some(frame) => frame,
            None => {
                let mut frame = self.full.pop_front().or_else(|| self.open.take())?;
                if self.full.is_empty() && self.open.is_none() {
                    self.end = Location::new(frame.start.segment(), frame::align(frame.end().offset()));
                }
                self.hash = frame.seal(self.hash, self.identity);
                Arc::new(frame)
            }
        };
        self.flushing = Some(Arc::clone(&frame));
        self.taken = true;
        self.retry_write = false;
        let first = self.segments.front().map_or(0, |segment| segment.number);
        let file = Arc::clone(&self.segments[(frame.start.segment() - first) as usize].file);
        Some(PendingFlush { frame, file, outcome: None })
    }

    /// Whether [`Journal::take_flush`] would return a frame.
    pub fn has_flush(&self) -> bool {
        let any = self.flushing.is_some() || self.open.is_some() || !self.full.is_empty();
        any && !self.taken && self.fatal.is_none() && (self.write_error.is_none() || self.retry_write)
    }

    /// Takes back a frame after [`PendingFlush::run`]. Everything up to the returned frame is durable.
    ///
    /// A frame that could not be written for lack of space is kept and retried when a caller asks for space.
    pub fn complete(&mut self, mut flush: PendingFlush<D::File>) -> Result<FrameNumber, Fatal> {
        self.taken = false;
        match flush.outcome.take().expect("a flush runs before it is completed") {
            Ok(()) => self.write_error = None,
            Err(FlushError::Write(error)) if is_out_of_space(&error) => {
                self.write_error = Some(format!("cannot write to the log: {error}"));
                return Ok(self.durable);
            }
            Err(FlushError::Write(error) | FlushError::Sync(error)) => {
                let name = segment::name(flush.frame.start.segment());
                return Err(self.die(format!("cannot make {name} durable: {error}")));
            }
        }
        self.flushing = None;
        let frame = flush.frame;
        debug_assert_eq!(frame.number, self.durable.next());
        self.durable = frame.number;
        self.durable_end = frame.end();
        for &(log, slot) in &frame.lasts {
            self.logs.entry(log).durable = slot;
        }
        for &(log, through) in &frame.trims {
            let state = self.logs.entry(log);
            state.trimmed = state.trimmed.max(through);
        }
        if let Some(through) = frame.released {
            while self.segments.front().is_some_and(|segment| segment.number <= through) {
                self.to_remove.extend(self.segments.pop_front());
            }
            // The file may be all that is needed for the next segment.
            self.retry_task = true;
        }
        if self.buffers.len() < BUFFERS_MAX
            && let Ok(frame) = Arc::try_unwrap(frame)
        {
            self.buffers.push(frame.bytes);
        }
        self.release();
        Ok(self.durable)
    }

    /// Appends the release of the oldest segments, if all logs are trimmed past them.
    pub(crate) fn release(&mut self) {
        let last = self.segments.back().map_or(0, |segment| segment.number);
        let unneeded =
            |segment: &&Segment<_>| segment.number < last && self.logs.trimmed_past(&segment.lasts);
        let through = self.segments.iter().take_while(unneeded).last().map_or(0, |segment| segment.number);
        if through > self.released && self.has_space(TRIM_BYTES_MAX + OVERHEAD_MAX) {
            let frame = self.frame_for(TRIM_BYTES_MAX);
            record::put_released(&mut frame.bytes, through);
            frame.released = Some(through);
            self.released = through;
        }
    }

    /// Everything up to this frame is durable.
    pub fn durable(&self) -> FrameNumber {
        self.durable
    }

    /// The last frame that contains anything; it may not be durable yet.
    pub fn last_frame(&self) -> FrameNumber {
        FrameNumber(self.next_frame.0 - 1)
    }

    /// The durable range of a log.
    pub fn extent(&self, log: LogId) -> Result<Extent, Error> {
        self.check_alive()?;
        Ok(self.logs.extent(log))
    }

    /// Where the segments in use start and where the last frame ends, in bytes since the wal was created, as
    /// if all segments had the present length.
    pub fn positions(&self) -> std::ops::Range<u64> {
        let offset = |number: u32| u64::from(number) * u64::from(self.options.segment_bytes);
        let number = |segment: Option<&Segment<_>>| segment.map_or(0, |segment| segment.number);
        let last = offset(number(self.segments.back())) + u64::from(self.position());
        offset(number(self.segments.front()))..last
    }

    /// Reads the durable entries as of now. The reader needs no lock, and later trims do not affect it.
    pub fn reader(&self) -> Result<Reader<D::File>, Error> {
        self.check_alive()?;
        let last = self.durable_end.segment();
        let handle = |segment: &Segment<D::File>| SegmentHandle {
            number: segment.number,
            end: if segment.number == last { frame::align(self.durable_end.offset()) } else { segment.end },
            file: Arc::clone(&segment.file),
        };
        let durable = self.segments.iter().filter(|segment| segment.number <= last);
        Ok(Reader {
            identity: self.identity,
            segments: durable.map(handle).collect(),
            trimmed: self.logs.trim_points(),
        })
    }

    /// Why the journal refuses everything, if it does.
    pub fn fatal(&self) -> Option<&Fatal> {
        self.fatal.as_ref()
    }

    pub(crate) fn die(&mut self, why: String) -> Fatal {
        self.fatal.get_or_insert(Fatal(why)).clone()
    }

    fn check_alive(&self) -> Result<(), Error> {
        match &self.fatal {
            Some(fatal) => Err(Error::Unavailable(fatal.0.clone())),
            None => Ok(()),
        }
    }

    fn check_writable(&mut self) -> Result<(), Error> {
        let Some(error) = &self.write_error else { return Ok(()) };
        self.retry_write = true;
        Err(Error::Full(error.clone()))
    }

    /// Why there is no space. Also requests the next segment.
    fn refuse(&mut self) -> Error {
        if self.next.is_some() {
            return Error::Busy(
                "the free space of the log is reserved for batches in flight and trims".into(),
            );
        }
        self.next_wanted = true;
        match &self.task_error {
            Some(error) => {
                self.retry_task = true;
                Error::Full(error.clone())
            }
            None => Error::Busy("the next segment of the log is being created".into()),
        }
    }

    /// The end of everything appended, as an offset in the last segment.
    pub(crate) fn position(&self) -> u32 {
        self.open.as_ref().map_or(self.end.offset(), |frame| frame::align(frame.end().offset()))
    }

    /// The bytes that can still be appended for certain, whatever the size of the records; reserved ones
    /// included.
    fn space(&self) -> usize {
        let segment = self.segments.back().map_or(0, |segment| segment.bytes);
        let rest = (segment - self.position()) as usize;
        let Some(next) = &self.next else { return rest };
        // The record that does not fit leaves its space unused; the frame after it starts with the trim
        // points.
        let unused = self.options.entry_bytes_max() + ENTRY_OVERHEAD_MAX + OVERHEAD_MAX;
        let trim_points = (self.logs.len() + 1) * TRIM_BYTES_MAX + OVERHEAD_MAX;
        rest.saturating_sub(unused) + ((next.bytes - BLOCK_BYTES) as usize).saturating_sub(trim_points)
    }

    fn has_space(&self, bytes: usize) -> bool {
        self.reserved.load(Ordering::Relaxed) + bytes <= self.space()
    }

    /// The bytes appended and not yet durable.
    fn appended_bytes(&self) -> usize {
        let flushing = self.flushing.as_ref().map_or(0, |frame| frame.bytes.len());
        let full: usize = self.full.iter().map(|frame| frame.bytes.len()).sum();
        flushing + full + self.open.as_ref().map_or(0, |frame| frame.bytes.len())
    }

    /// The frame to append a record of up to `bytes` bytes to.
    fn frame_for(&mut self, bytes: usize) -> &mut Frame {
        let position = self.position();
        let segment = self.segments.back_mut().expect("a journal has a segment");
        let end = match &self.open {
            Some(frame) => frame.end().offset() as usize,
            None => self.end.offset() as usize + frame::HEADER_BYTES,
        };
        if end + bytes > segment.bytes as usize {
            segment.end = position;
            segment.lasts = self.logs.lasts();
            self.full.extend(self.open.take());
            let next = self.next.take().expect("an append has reserved its space");
            self.end = Location::new(next.number, BLOCK_BYTES);
            self.segments.push_back(next);
        }
        let Self { open, logs, end, next_frame, buffers, .. } = self;
        open.get_or_insert_with(|| {
            let mut frame = Frame::begin(*next_frame, *end, buffers.pop().unwrap_or_default());
            *next_frame = next_frame.next();
            if end.offset() == BLOCK_BYTES {
                for (log, state) in logs.iter() {
                    record::put_trim(&mut frame.bytes, log, state.trimming, state.last);
                }
            }
            frame
        })
    }
}
