//! Opening a wal: finds what was durable, and nothing else.
//!
//! Only the frame that was in flight when the process ended can be torn: it is the last one, and is cut. An
//! unreadable frame with a valid one after it was durable, so its appends may have been acknowledged: then
//! the wal does not open. It follows:
//! - A flipped bit in the *last* frame looks like a torn write, and the frame is cut. Only a copy of the data
//!   elsewhere helps.
//! - The last valid frame may be in the page cache only, left by a process that was killed before its fsync.
//!   It is written and synced again before anything in it is reported.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::blobs;
use crate::disk::{Disk, DiskFile};
use crate::frame::{self, FrameError, FrameFound};
use crate::journal::Journal;
use crate::location::{FrameNumber, Location};
use crate::log_table::LogTable;
use crate::open_error::OpenError;
use crate::options::{Options, SPARES_MAX};
use crate::record::{self, Record, StoredLog};
use crate::segment::{self, BLOCK_BYTES, FOLDER, Header, HeaderError, Segment};
use crate::segment_task::{SegmentCreation, SegmentTask};
use crate::{LogId, Slot};

pub fn open<D: Disk>(disk: Arc<D>, options: Options) -> Result<Journal<D>, OpenError> {
    options.check()?;
    let guard = disk.lock(&options.owner)?;
    let Found { numbers, mut segments, identity } = find_segments(&*disk)?;
    let mut replay = Replay::default();
    let scan = scan(&mut segments, identity.unwrap_or_default(), |record, at| replay.apply(record, at))?;
    check_start(&numbers, &segments, replay.released)?;
    // Nothing was changed so far: a directory that is refused stays as it is.
    blobs::clean(&*disk).map_err(OpenError::io("cannot remove unfinished blobs"))?;
    let spares = tidy(&*disk, &options)?;
    let identity = match identity {
        Some(identity) => identity,
        None => {
            create_first(&disk, &options)?;
            segments.push_back(open_segment(&*disk, 1)?.0);
            options.identity
        }
    };
    for segment in &mut segments {
        segment.lasts = replay.lasts(segment.number);
    }
    let mut journal = Journal {
        disk,
        _guard: guard,
        identity,
        logs: replay.logs,
        segments: VecDeque::new(),
        next: None,
        end: scan.end,
        next_frame: scan.number.next(),
        hash: scan.hash,
        open: None,
        full: VecDeque::new(),
        flushing: None,
        taken: false,
        durable: scan.number,
        durable_end: scan.end,
        buffers: Vec::new(),
        reserved: Arc::default(),
        released: replay.released,
        to_remove: Vec::new(),
        spares,
        task_running: false,
        next_wanted: false,
        task_error: None,
        write_error: None,
        retry_task: false,
        retry_write: false,
        fatal: None,
        options,
    };
    make_certain(&segments, scan.start, scan.end)?;
    let first = segments.front().map_or(1, |segment| segment.number);
    for segment in segments {
        let last = scan.end.segment();
        if segment.number <= replay.released || segment.number > last + 1 {
            journal.to_remove.push(segment);
        } else if segment.number == last + 1 {
            journal.next = Some(segment);
        } else {
            journal.segments.push_back(segment);
        }
    }
    for number in numbers.into_iter().filter(|&number| number < first) {
        journal.to_remove.push(open_segment(&*journal.disk, number)?.0);
    }
    Ok(journal)
}

/// The segments on disk.
pub(crate) struct Found<F> {
    /// The numbers of all, sorted.
    pub numbers: Vec<u32>,
    /// Those of the last run of consecutive numbers.
    pub segments: VecDeque<Segment<F>>,
    /// The identity of the wal, if it has a segment.
    pub identity: Option<u64>,
}

/// Opens the segments. Changes nothing.
pub(crate) fn find_segments<D: Disk>(disk: &D) -> Result<Found<D::File>, OpenError> {
    let files = disk.list(FOLDER).map_err(OpenError::io("cannot list the log's folder"))?;
    let mut numbers: Vec<u32> = files.iter().filter_map(|file| segment::number_of(file)).collect();
    numbers.sort_unstable();
    let gap = numbers.windows(2).rev().find(|pair| pair[1] != pair[0] + 1);
    let first = gap.map(|pair| pair[1]).or_else(|| numbers.first().copied()).unwrap_or(1);
    let mut segments = VecDeque::new();
    let mut identity = None;
    for &number in numbers.iter().filter(|&&number| number >= first) {
        let (segment, header) = open_segment(disk, number)?;
        if *identity.get_or_insert(header.identity) != header.identity {
            return Err(damage(number, 0, "the segment belongs to another log than the ones before it"));
        }
        segments.push_back(segment);
    }
    Ok(Found { numbers, segments, identity })
}

/// Whether the segments before the first one were released.
pub(crate) fn check_start<F>(
    numbers: &[u32],
    segments: &VecDeque<Segment<F>>,
    released: u32,
) -> Result<(), OpenError> {
    let first = segments.front().map_or(1, |segment| segment.number);
    if !numbers.is_empty() && first > released + 1 {
        return Err(damage(first - 1, 0, "the segment is missing; later ones are there"));
    }
    Ok(())
}

fn damage(number: u32, offset: u32, why: impl Into<String>) -> OpenError {
    OpenError::Damaged { file: segment::name(number), offset: offset.into(), why: why.into() }
}

/// Removes unfinished files and unneeded spares. Returns the spares that remain.
fn tidy<D: Disk>(disk: &D, options: &Options) -> Result<Vec<String>, OpenError> {
    let io = || OpenError::io("cannot tidy the log's folder");
    let files = disk.list(FOLDER).map_err(io())?;
    let mut spares = Vec::new();
    for file in &files {
        let path = format!("{FOLDER}/{file}");
        if file.starts_with(segment::SPARE) {
            let bytes = disk.open(&path).and_then(|file| file.len()).map_err(io())?;
            if spares.len() < SPARES_MAX && bytes == u64::from(options.segment_bytes) {
                spares.push(path);
            } else {
                disk.remove(&path).map_err(io())?;
            }
        } else if path == segment::NEW_FILE {
            disk.remove(&path).map_err(io())?;
        }
    }
    if !files.is_empty() {
        // A killed process may have left names that are in the page cache only.
        disk.sync_names(FOLDER).map_err(io())?;
    }
    Ok(spares)
}

fn create_first<D: Disk>(disk: &Arc<D>, options: &Options) -> Result<(), OpenError> {
    let (bytes, identity) = (options.segment_bytes, options.identity);
    let header = Header { version: segment::VERSION, number: 1, bytes, identity };
    let creation = Some(SegmentCreation { header, spare: None });
    let mut task = SegmentTask { disk: Arc::clone(disk), released: Vec::new(), creation, outcome: None };
    task.run();
    match task.outcome.and_then(|outcome| outcome.error) {
        Some((_, source)) => {
            Err(OpenError::Io { what: "cannot create the log's first segment".into(), source })
        }
        None => Ok(()),
    }
}

fn open_segment<D: Disk>(disk: &D, number: u32) -> Result<(Segment<D::File>, Header), OpenError> {
    let name = segment::name(number);
    let file = disk.open(&name).map_err(OpenError::io(format!("cannot open {name}")))?;
    let len = file.len().map_err(OpenError::io(format!("cannot open {name}")))?;
    let mut block = vec![0; BLOCK_BYTES.min(u32::try_from(len).unwrap_or(BLOCK_BYTES)) as usize];
    file.read_at(&mut block, 0).map_err(OpenError::io(format!("cannot read {name}")))?;
    let header = Header::read(&block).map_err(|error| match error {
        HeaderError::Version(found) => {
            OpenError::Version { file: name.clone(), found, expected: segment::VERSION }
        }
        HeaderError::Bad(why) => damage(number, 0, why),
    })?;
    if header.number != number {
        return Err(damage(number, 0, format!("the header is of segment {}", header.number)));
    }
    if u64::from(header.bytes) != len {
        return Err(damage(number, 0, format!("the file has {len} bytes instead of {}", header.bytes)));
    }
    Ok((Segment::new(number, header.bytes, Arc::new(file)), header))
}

/// The last valid frame.
pub(crate) struct Scan {
    pub number: FrameNumber,
    pub hash: u64,
    pub start: Location,
    pub end: Location,
}

/// Walks through all frames and passes their records to `apply`, which returns the reason if no writer would
/// have written a record. Sets the ends of the segments.
pub(crate) fn scan<F: DiskFile>(
    segments: &mut VecDeque<Segment<F>>,
    identity: u64,
    mut apply: impl FnMut(Record<'_>, Location) -> Result<(), ApplyError>,
) -> Result<Scan, OpenError> {
    let first = segments.front().map_or(1, |segment| segment.number);
    let start = Location::new(first, BLOCK_BYTES);
    let mut scan = Scan { number: FrameNumber::ZERO, hash: 0, start, end: start };
    // Where the first missing frame should be, and why it is not there.
    let mut missing: Option<(Location, FrameError)> = None;
    let mut window = Window::default();
    for segment in segments.iter_mut() {
        let number = segment.number;
        window.clear();
        let mut offset = BLOCK_BYTES;
        while offset < segment.bytes {
            let found = frame::find(window.frame(segment, offset)?, number, identity);
            let here = Location::new(number, offset);
            // A frame follows the last one directly, or starts the next segment.
            let in_place = here == scan.end || (offset == BLOCK_BYTES && number == scan.end.segment() + 1);
            match found {
                Ok(found) if in_place && scan.follows(&found, first == number) => {
                    missing = None;
                    offset += found.bytes();
                    scan.start = here;
                    scan.end = Location::new(number, offset);
                    scan.number = found.number;
                    scan.hash = found.hash;
                    segment.end = offset;
                    apply_frame(&found, here, &mut apply)?;
                    continue;
                }
                Ok(found) if found.number > scan.number => return Err(not_the_end(missing, here)),
                Ok(_) => {}
                // Of two places where the frame could be, the one that looks like it; otherwise the later
                // one: it is the start of a segment, and the segment before was full.
                Err(error) if in_place && !matches!(missing, Some((_, FrameError::Broken))) => {
                    missing = Some((here, error));
                }
                Err(_) => {}
            }
            offset += BLOCK_BYTES;
        }
    }
    if scan.number == FrameNumber::ZERO && first > 1 {
        return Err(damage(first, BLOCK_BYTES, "the segment has no frame; the log cannot start here"));
    }
    Ok(scan)
}

fn not_the_end(missing: Option<(Location, FrameError)>, here: Location) -> OpenError {
    let (at, why) = match missing {
        None => (here, "the frames before this one are missing"),
        Some((at, FrameError::Nothing)) => (at, "no frame is here"),
        Some((at, FrameError::Broken)) => (at, "the frame does not match its hash"),
    };
    let why = format!("{why}; a later frame is valid, so this is not the end of the log");
    damage(at.segment(), at.offset(), why)
}

/// A part of a segment in memory, small enough for the cache of the processor unless a frame is larger.
#[derive(Default)]
struct Window {
    start: u32,
    bytes: Vec<u8>,
}

impl Window {
    const BYTES: u32 = 256 << 10;

    fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The segment from `offset` on, at least to the end of the frame there, if there is one.
    fn frame<F: DiskFile>(&mut self, segment: &Segment<F>, offset: u32) -> Result<&[u8], OpenError> {
        self.load(segment, offset, BLOCK_BYTES)?;
        if let Some(payload) = frame::payload_bytes(self.from(offset), segment.number) {
            self.load(segment, offset, payload.saturating_add(frame::HEADER_BYTES as u32))?;
        }
        Ok(self.from(offset))
    }

    fn from(&self, offset: u32) -> &[u8] {
        &self.bytes[(offset - self.start) as usize..]
    }

    /// Loads `len` bytes at `offset`, or all up to the end of the segment.
    fn load<F: DiskFile>(&mut self, segment: &Segment<F>, offset: u32, len: u32) -> Result<(), OpenError> {
        let end = offset.saturating_add(len).min(segment.bytes);
        if offset >= self.start && (end - self.start) as usize <= self.bytes.len() {
            return Ok(());
        }
        let len = len.max(Self::BYTES).min(segment.bytes - offset);
        self.bytes.resize(len as usize, 0);
        self.start = offset;
        let name = segment::name(segment.number);
        let read = segment.file.read_at(&mut self.bytes, offset.into());
        read.map_err(OpenError::io(format!("cannot read {name}")))
    }
}

fn apply_frame(
    found: &FrameFound<'_>,
    at: Location,
    apply: &mut impl FnMut(Record<'_>, Location) -> Result<(), ApplyError>,
) -> Result<(), OpenError> {
    let mut rest = found.payload;
    while !rest.is_empty() {
        let inside = (frame::HEADER_BYTES + found.payload.len() - rest.len()) as u32;
        let location = Location::new(at.segment(), at.offset() + inside);
        let record = record::take(&mut rest);
        let applied = match record {
            Some(record) => apply(record, location),
            None => Err(ApplyError::Damage("a valid frame holds an invalid record")),
        };
        applied.map_err(|error| match error {
            ApplyError::Damage(why) => damage(location.segment(), location.offset(), why),
            ApplyError::OldRegisters => OpenError::OldRegisters { file: segment::name(location.segment()) },
        })?;
    }
    Ok(())
}

impl Scan {
    /// Whether a frame is the one after the last.
    fn follows(&self, found: &FrameFound<'_>, in_first_segment: bool) -> bool {
        if self.number > FrameNumber::ZERO {
            found.number == self.number.next() && found.previous == self.hash
        } else {
            // The first one left: the segments before it were released.
            in_first_segment
        }
    }
}

/// Why a record cannot be applied.
pub(crate) enum ApplyError {
    /// No writer would have written it.
    Damage(&'static str),
    /// It belongs to registers of transactions in an older format.
    OldRegisters,
}

/// The state of the logs, rebuilt record by record.
#[derive(Default)]
struct Replay {
    logs: LogTable,
    /// The last slots of all logs at the end of each segment that is followed by another one.
    ends: Vec<(u32, Vec<Slot>)>,
    segment: u32,
    released: u32,
}

impl Replay {
    fn apply(&mut self, record: Record<'_>, at: Location) -> Result<(), ApplyError> {
        if at.segment() != self.segment {
            self.ends.push((self.segment, self.logs.lasts()));
            self.segment = at.segment();
        }
        match record {
            Record::Entry { log, slot, moved: false, .. } => {
                let state = self.logs.entry(wal_log(log)?);
                if slot != state.next() {
                    return Err(ApplyError::Damage("an entry is not at the next slot of its log"));
                }
                (state.last, state.durable) = (slot, slot);
            }
            Record::Trim { log, trimmed, last } => {
                if trimmed > Slot::MAX || last > Slot::MAX {
                    return Err(ApplyError::Damage("a slot is above the highest slot"));
                }
                let state = self.logs.entry(wal_log(log)?);
                state.trimmed = state.trimmed.max(trimmed);
                state.trimming = state.trimmed;
                state.last = state.last.max(last);
                state.durable = state.last;
            }
            Record::Released { through } => {
                let needed =
                    |(number, lasts): &(u32, Vec<Slot>)| *number <= through && !self.logs.trimmed_past(lasts);
                if through >= at.segment() || self.ends.iter().any(needed) {
                    return Err(ApplyError::Damage("a segment is released that is still needed"));
                }
                self.released = self.released.max(through);
            }
            Record::Entry { moved: true, .. } | Record::Retired { .. } => {
                return Err(ApplyError::OldRegisters);
            }
        }
        Ok(())
    }

    /// The last slots of all logs at the end of a segment.
    fn lasts(&self, number: u32) -> Vec<Slot> {
        let end = self.ends.iter().find(|(its, _)| *its == number);
        end.map_or_else(|| self.logs.lasts(), |(_, lasts)| lasts.clone())
    }
}

fn wal_log(log: StoredLog) -> Result<LogId, ApplyError> {
    if log.kind != record::LOG_KIND {
        return Err(ApplyError::OldRegisters);
    }
    log.log_id().ok_or(ApplyError::Damage("the id of a log is too large"))
}

/// Writes the last frame again and ends the wal after it, so that everything reported from now on is durable
/// and nothing that was cut can come back.
fn make_certain<F: DiskFile>(
    segments: &VecDeque<Segment<F>>,
    start: Location,
    end: Location,
) -> Result<(), OpenError> {
    let zeros = vec![0; BLOCK_BYTES as usize];
    for segment in segments.iter().filter(|segment| segment.number >= end.segment()) {
        let name = segment::name(segment.number);
        let io = || OpenError::io(format!("cannot make {name} durable"));
        let end = if segment.number == end.segment() {
            let mut frame = vec![0; (end.offset() - start.offset()) as usize];
            segment.file.read_at(&mut frame, start.offset().into()).map_err(io())?;
            segment.file.write_at(&frame, start.offset().into()).map_err(io())?;
            end.offset()
        } else {
            BLOCK_BYTES
        };
        if end < segment.bytes {
            segment.file.write_at(&zeros, end.into()).map_err(io())?;
        }
        segment.file.sync().map_err(io())?;
    }
    Ok(())
}
