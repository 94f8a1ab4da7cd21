//! Opening a store: finding again what was durable, and nothing else.
//!
//! Only the frame that was on its way when the process ended can be torn: it is the last. It is cut. A frame that cannot be read with a
//! good one after it was durable once, and so somebody was told of it: then the store does not open. Two things follow:
//! - A bit that turned over in the *last* frame cannot be told from a torn write, and the frame is cut. Copies of the data on another
//!   machine are the remedy, not this file.
//! - The last good frame may be in the memory of the system only, left there by a process that was killed before its sync. It is
//!   written and synced once more before anybody is told of it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::carrying::Carrying;
use super::frame::{self, Absent, Found};
use super::index::Index;
use super::journal::Journal;
use super::location::{Location, Sequence};
use super::open_error::OpenError;
use super::options::{GAP_SLOTS_MAX, Options, SPARES_MAX};
use super::record::{self, Record, Taken};
use super::retirement::Retirements;
use super::room::{Errand, Make};
use super::rows;
use super::segment::{self, BLOCK_BYTES, FOLDER, Header, HeaderError, Segment};
use super::tally::Tally;
use crate::disk::{Disk, DiskFile};

/// What the scan found so far.
struct Scan {
    index: Index,
    retirements: Retirements,
    /// The last good frame: its number, its hash, where it begins and where it ends.
    sequence: Sequence,
    hash: u64,
    begin: Location,
    end: Location,
    /// The segments up to here were released.
    released: u32,
}

pub fn open<D: Disk>(disk: Arc<D>, options: Options) -> Result<Journal<D>, OpenError> {
    options.check()?;
    let guard = disk.lock(&options.who)?;
    rows::clean(&*disk).map_err(OpenError::io("cannot clear unfinished rows away"))?;
    let (numbers, spares) = tidy_up(&*disk, &options)?;
    let numbers = if numbers.is_empty() { vec![make_first(&disk, &options)?] } else { numbers };

    let first = start_of_run(&numbers);
    let mut segments = VecDeque::new();
    let mut identity = None;
    for &number in numbers.iter().filter(|&&number| number >= first) {
        let (segment, header) = open_segment(&*disk, number)?;
        if *identity.get_or_insert(header.identity) != header.identity {
            return Err(damage(number, 0, "the segment is of another log than the ones before it"));
        }
        segments.push_back(segment);
    }
    let identity = identity.unwrap_or(options.identity);
    let scan = scan(&mut segments, identity)?;
    if first > scan.released + 1 {
        return Err(damage(first - 1, 0, "the segment is missing; later ones are there"));
    }

    let mut journal = Journal {
        disk,
        _guard: guard,
        identity,
        index: scan.index,
        retirements: scan.retirements,
        numbers: Vec::new(),
        segments: VecDeque::new(),
        next: None,
        at: scan.end,
        next_sequence: scan.sequence.next(),
        hash: scan.hash,
        open: None,
        full: VecDeque::new(),
        flying: None,
        taken: false,
        durable: scan.sequence,
        durable_end: scan.end,
        buffers: Vec::new(),
        promised: Arc::default(),
        released: scan.released,
        put_away: Vec::new(),
        spares,
        carrying: Carrying::default(),
        errand_out: false,
        pressed: false,
        trouble: None,
        stall: None,
        try_room: false,
        try_write: false,
        fatal: None,
        options,
    };
    make_certain(&journal, &segments, scan.begin)?;
    for segment in segments {
        let last = scan.end.segment();
        if segment.number <= scan.released || segment.number > last + 1 {
            journal.put_away.push(segment);
        } else if segment.number == last + 1 {
            journal.next = Some(segment);
        } else {
            journal.segments.push_back(segment);
        }
    }
    for number in numbers.into_iter().filter(|&number| number < first) {
        let (segment, _) = open_segment(&*journal.disk, number)?;
        journal.put_away.push(segment);
    }
    journal.weigh();
    Ok(journal)
}

fn damage(number: u32, offset: u32, why: impl Into<String>) -> OpenError {
    OpenError::Damaged { file: segment::name(number), offset: offset.into(), why: why.into() }
}

/// The numbers of the segments, sorted, and the spare files. What was being made is removed, and spares that nobody will need.
fn tidy_up<D: Disk>(disk: &D, options: &Options) -> Result<(Vec<u32>, Vec<String>), OpenError> {
    let io = || OpenError::io("cannot clear the log's folder up");
    let files = disk.list(FOLDER).map_err(OpenError::io("cannot list the log's folder"))?;
    let mut numbers = Vec::new();
    let mut spares = Vec::new();
    for file in &files {
        let path = format!("{FOLDER}/{file}");
        if let Some(number) = segment::number_of(file) {
            numbers.push(number);
        } else if file.starts_with(segment::SPARE) {
            let bytes = disk.open(&path).and_then(|file| file.len()).map_err(io())?;
            if spares.len() < SPARES_MAX && bytes == u64::from(options.segment_bytes) {
                spares.push(path);
            } else {
                disk.remove(&path).map_err(io())?;
            }
        } else if path == segment::MAKING {
            disk.remove(&path).map_err(io())?;
        }
    }
    if !files.is_empty() {
        // A process that was killed may have left names that only the memory of the system knows.
        disk.sync_names(FOLDER).map_err(io())?;
    }
    numbers.sort_unstable();
    Ok((numbers, spares))
}

fn make_first<D: Disk>(disk: &Arc<D>, options: &Options) -> Result<u32, OpenError> {
    let header = Header { number: 1, bytes: options.segment_bytes, identity: options.identity };
    let make = Some(Make { header, spare: None });
    let mut errand = Errand { disk: Arc::clone(disk), put_away: Vec::new(), make, look: None, outcome: None };
    errand.run();
    match errand.outcome.and_then(|outcome| outcome.error) {
        Some((_, source)) => {
            Err(OpenError::Io { what: "cannot make the log's first segment".into(), source })
        }
        None => Ok(1),
    }
}

/// Where the unbroken run of numbers begins that leads to the last one.
fn start_of_run(numbers: &[u32]) -> u32 {
    let breaks = numbers.windows(2).rev().find(|pair| pair[1] != pair[0] + 1);
    breaks.map_or(numbers[0], |pair| pair[1])
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
    let file = Arc::new(file);
    Ok((Segment { number, bytes: header.bytes, file, tally: Tally::default() }, header))
}

fn scan<F: DiskFile>(segments: &mut VecDeque<Segment<F>>, identity: u64) -> Result<Scan, OpenError> {
    let first = segments.front().map_or(1, |segment| segment.number);
    let beginning = Location::new(first, BLOCK_BYTES);
    let mut scan = Scan {
        index: Index::default(),
        retirements: Retirements::default(),
        sequence: Sequence::ZERO,
        hash: 0,
        begin: beginning,
        end: beginning,
        released: 0,
    };
    // Where the first frame should be that is not there, and why it is none.
    let mut missing: Option<(Location, Absent)> = None;
    let mut bytes = Vec::new();
    for position in 0..segments.len() {
        let number = segments[position].number;
        read_all(&segments[position], &mut bytes)?;
        let mut offset = BLOCK_BYTES;
        while offset < segments[position].bytes {
            let found = frame::find(&bytes[offset as usize..], number, identity);
            let here = Location::new(number, offset);
            // A frame goes on where the last one ended, or at the start of the segment after it.
            let in_place = here == scan.end || (offset == BLOCK_BYTES && number == scan.end.segment() + 1);
            match found {
                Ok(found) if in_place && scan.follows(&found, first == number) => {
                    missing = None;
                    scan.begin = here;
                    offset += found.bytes();
                    scan.end = Location::new(number, offset);
                    scan.take(&found, here, segments)?;
                    continue;
                }
                Ok(found) if found.sequence > scan.sequence => {
                    return Err(not_the_end(missing, here));
                }
                Ok(_) => {}
                // Of two places where the frame could be, the one that looks like it; or else the later: it is the start
                // of a segment, and the one before was full.
                Err(absent) if in_place && !matches!(missing, Some((_, Absent::Broken))) => {
                    missing = Some((here, absent));
                }
                Err(_) => {}
            }
            offset += BLOCK_BYTES;
        }
    }
    if scan.sequence == Sequence::ZERO && first > 1 {
        return Err(damage(first, BLOCK_BYTES, "the segment has no frame; the log cannot begin here"));
    }
    Ok(scan)
}

fn not_the_end(missing: Option<(Location, Absent)>, here: Location) -> OpenError {
    let (at, why) = match missing {
        None => (here, "the frames before this one are gone"),
        Some((at, Absent::Nothing)) => (at, "no frame is here"),
        Some((at, Absent::Broken)) => (at, "the frame does not match its hash"),
    };
    let why = format!("{why}; a later frame is whole, so this is not the end of the log");
    damage(at.segment(), at.offset(), why)
}

fn read_all<F: DiskFile>(segment: &Segment<F>, bytes: &mut Vec<u8>) -> Result<(), OpenError> {
    bytes.resize(segment.bytes as usize, 0);
    let name = segment::name(segment.number);
    segment.file.read_at(bytes, 0).map_err(OpenError::io(format!("cannot read {name}")))
}

impl Scan {
    /// Whether a frame is the one after the last.
    fn follows(&self, found: &Found<'_>, in_first_segment: bool) -> bool {
        if self.sequence > Sequence::ZERO {
            found.sequence == self.sequence.next() && found.previous == self.hash
        } else {
            // The first that is left of a log: what came before it was released.
            in_first_segment
        }
    }

    fn take<F>(
        &mut self,
        found: &Found<'_>,
        at: Location,
        segments: &mut VecDeque<Segment<F>>,
    ) -> Result<(), OpenError> {
        self.sequence = found.sequence;
        self.hash = found.hash;
        let mut rest = found.payload;
        while !rest.is_empty() {
            let inside = (frame::HEADER_BYTES + found.payload.len() - rest.len()) as u32;
            let location = Location::new(at.segment(), at.offset() + inside);
            let before = rest.len();
            let taken = record::take(&mut rest);
            let bytes = before - rest.len();
            let good = match taken {
                Taken::Record(record) => self.take_record(record, location, bytes, segments),
                Taken::Cut(_) | Taken::Bad => Err("a whole frame holds a broken record"),
            };
            good.map_err(|why| damage(location.segment(), location.offset(), why))?;
        }
        Ok(())
    }

    /// The error says what no writer would have written.
    fn take_record<F>(
        &mut self,
        record: Record<'_>,
        location: Location,
        bytes: usize,
        segments: &mut VecDeque<Segment<F>>,
    ) -> Result<(), &'static str> {
        match record {
            Record::Register { log, .. } | Record::Trim { log, .. } if self.retirements.holds(log) => {
                return Err("a retired log is written");
            }
            Record::Register { log, slot, carried, .. } => {
                let state = self.index.entry(log);
                if slot <= state.trimmed {
                    return Err("a trimmed register is written");
                }
                if carried && !log.space.is_dated() {
                    return Err("a register is carried whose log is not dated");
                }
                let there = state.cell(slot);
                if !there.is_none() {
                    if !carried {
                        return Err("a register is written twice");
                    }
                    segment::of(segments, there.segment()).tally.remove(log.space);
                }
                // No writer leaves so many empty; and a number that is wrong must not decide how much memory is taken.
                if state.gap_ever(slot) > GAP_SLOTS_MAX || !state.try_reserve(slot) {
                    return Err("a register is too far above the others of its log");
                }
                state.put(slot, location);
                segment::of(segments, location.segment()).tally.add(log.space, bytes);
            }
            Record::Trim { log, trimmed, last } => {
                let state = self.index.entry(log);
                let mut gone =
                    |location: Location| segment::of(segments, location.segment()).tally.remove(log.space);
                state.trim(trimmed, &mut gone);
                state.raise_floor(last);
                if log.space.is_dated() {
                    let before = std::mem::replace(&mut state.mark, location);
                    if !before.is_none() {
                        gone(before);
                    }
                    segment::of(segments, location.segment()).tally.add(log.space, bytes);
                }
            }
            Record::Retired { space, below } => {
                if !space.is_dated() {
                    return Err("logs are retired that are not dated");
                }
                self.retirements.settle(space, below);
                while let Some(state) = self.index.take_below(space, below) {
                    for place in state.places() {
                        segment::of(segments, place.segment()).tally.remove(space);
                    }
                }
            }
            Record::Released { through } => {
                let holds = |segment: &Segment<F>| segment.number <= through && !segment.tally.is_empty();
                if through >= location.segment() || segments.iter().any(holds) {
                    return Err("a segment is released that is still needed");
                }
                self.released = self.released.max(through);
            }
        }
        Ok(())
    }
}

/// Writes the last frame once more and ends the log behind it, so that what is told from now on is durable, and nothing that was cut
/// can come back.
fn make_certain<D: Disk>(
    journal: &Journal<D>,
    segments: &VecDeque<Segment<D::File>>,
    begin: Location,
) -> Result<(), OpenError> {
    let zeros = vec![0; BLOCK_BYTES as usize];
    for segment in segments.iter().filter(|segment| segment.number >= journal.at.segment()) {
        let name = segment::name(segment.number);
        let io = || OpenError::io(format!("cannot make {name} durable"));
        let end = if segment.number == journal.at.segment() {
            let mut frame = vec![0; (journal.at.offset() - begin.offset()) as usize];
            segment.file.read_at(&mut frame, begin.offset().into()).map_err(io())?;
            segment.file.write_at(&frame, begin.offset().into()).map_err(io())?;
            journal.at.offset()
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
