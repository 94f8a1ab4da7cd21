//! Carrying: what dated logs still have in the oldest segment is written again to the newest, so that the oldest can go.
//!
//! Dated logs live for a window, which may be a day; the others are trimmed within minutes, and would have to wait for them. Carrying begins when
//! the segments that only dated logs hold are more than twice what is needed in them, and a little more. So they take at most that much of the
//! disk; and over time no more is carried than was written.
//!
//! An errand reads a stretch of the segment, without the journal; the journal then stages what is still needed of it. Until the copy is durable the
//! register is where it was: a reader sees no difference.
//!
//! What must hold: a copy is staged only of what is neither trimmed nor retired, and not going to be.

use std::ops::Range;

use super::frame::{self, Carried, Frame, HEADER_BYTES, OVERHEAD_MAX};
use super::journal::Journal;
use super::location::Location;
use super::options::VALUE_BYTES_MAX;
use super::reading::Source;
use super::record::{self, REGISTER_OVERHEAD_MAX, Record, Taken};
use super::segment::{self, BLOCK_BYTES};
use crate::disk::{Disk, DiskFile};
use crate::{Log, Slot};

/// How much of a segment is looked at in one go.
const LOOK_BYTES: usize = 1 << 20;

/// How many segments that only dated logs hold are left alone, whatever is in them.
const SEGMENTS_LEFT: u64 = 2;

/// How far the journal has come with carrying.
#[derive(Debug, Default)]
pub struct Carrying {
    /// More of the disk is held by dated logs than they may hold.
    crowded: bool,
    /// The segment that is being gone through, and where in it.
    place: Option<(u32, Place)>,
    /// The last segment that was gone through. What is still needed in it is going to be forgotten, or cannot be carried.
    done: u32,
}

/// A place between two records of a segment.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    offset: u32,
    /// Where the records of this frame end.
    frame_end: u32,
}

/// A look at a stretch of a segment.
#[derive(Debug)]
pub struct Look<F> {
    source: Source<F>,
    from: Place,
    bytes: Vec<u8>,
    found: Vec<Item>,
    /// Where the next look begins; nothing if the segment ends.
    next: Option<Place>,
}

/// A record of a dated log.
#[derive(Debug)]
struct Item {
    place: Place,
    log: Log,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A register, and where its value is among the bytes.
    Register(Slot, Range<usize>),
    TrimPoint,
}

impl<F: DiskFile> Look<F> {
    /// Reads. What cannot be read is left where it is: whoever asks for it is told of the damage.
    pub fn run(&mut self) {
        let start = self.from.offset;
        // A record that begins in the stretch is read to its end.
        let most = LOOK_BYTES + VALUE_BYTES_MAX + REGISTER_OVERHEAD_MAX;
        self.bytes.resize(most.min((self.source.bytes - start) as usize), 0);
        if self.source.file.read_at(&mut self.bytes, start.into()).is_err() {
            return;
        }
        let mut place = self.from;
        while ((place.offset - start) as usize) < LOOK_BYTES {
            let next = if place.offset < place.frame_end { self.record(place) } else { self.frame(place) };
            let Some(next) = next else { return };
            place = next;
        }
        self.next = Some(place);
    }

    /// The start of the frame after this place.
    fn frame(&self, place: Place) -> Option<Place> {
        let at = frame::align(place.offset);
        let header = self.bytes.get((at - self.from.offset) as usize..)?.first_chunk::<HEADER_BYTES>()?;
        let payload = frame::payload_bytes(header, self.source.segment)?;
        let offset = at + HEADER_BYTES as u32;
        let frame_end = offset.checked_add(payload).filter(|end| *end <= self.source.bytes)?;
        Some(Place { offset, frame_end })
    }

    /// The end of the record at this place, of which a note is made.
    fn record(&mut self, place: Place) -> Option<Place> {
        let inside = |offset: u32| (offset - self.from.offset) as usize;
        let begin = inside(place.offset);
        let mut rest = self.bytes.get(begin..inside(place.frame_end).min(self.bytes.len()))?;
        let whole = rest.len();
        let Taken::Record(record) = record::take(&mut rest) else { return None };
        let taken = whole - rest.len();
        let found = match record {
            Record::Register { log, slot, value, .. } => {
                let end = begin + taken;
                Some((log, What::Register(slot, end - value.len()..end)))
            }
            Record::Trim { log, .. } => Some((log, What::TrimPoint)),
            Record::Released { .. } | Record::Retired { .. } => None,
        };
        if let Some((log, what)) = found.filter(|(log, _)| log.space.is_dated()) {
            self.found.push(Item { place, log, what });
        }
        Some(Place { offset: place.offset + taken as u32, ..place })
    }
}

impl<D: Disk> Journal<D> {
    /// The oldest segment, if carrying on what is in it lets it go.
    fn to_carry(&self) -> Option<u32> {
        let oldest = self.segments.front().filter(|oldest| {
            let settled = oldest.number < self.durable_end.segment();
            settled
                && oldest.number > self.carrying.done
                && oldest.tally.is_dated()
                && !oldest.tally.is_empty()
        });
        oldest.filter(|_| self.carrying.crowded && self.stall.is_none()).map(|oldest| oldest.number)
    }

    /// Room for the largest register, beside what is kept back.
    fn has_room_to_carry(&self, value_bytes: usize) -> bool {
        let bytes = REGISTER_OVERHEAD_MAX + value_bytes + OVERHEAD_MAX;
        self.has_room(self.options.reserve_bytes() + bytes)
    }

    pub(super) fn lacks_room_to_carry(&self) -> bool {
        self.to_carry().is_some() && !self.has_room_to_carry(self.options.value_bytes_max())
    }

    pub(super) fn wants_look(&self) -> bool {
        // What is carried waits for what callers write.
        let busy = self.staged_bytes() > self.options.staged_bytes_max / 8;
        self.to_carry().is_some() && !busy && self.has_room_to_carry(self.options.value_bytes_max())
    }

    /// The next stretch to look at, if one is due.
    pub(super) fn look(&self) -> Option<Look<D::File>> {
        let number = self.to_carry().filter(|_| self.wants_look())?;
        let from = match self.carrying.place {
            Some((its, place)) if its == number => place,
            _ => Place { offset: BLOCK_BYTES, frame_end: BLOCK_BYTES },
        };
        let source = self.source(number);
        Some(Look { source, from, bytes: Vec::new(), found: Vec::new(), next: None })
    }

    /// Stages what is still needed of what was found.
    pub(super) fn carry(&mut self, look: Look<D::File>) {
        let number = look.source.segment;
        if self.segments.front().is_none_or(|oldest| oldest.number != number) {
            return;
        }
        for Item { place, log, what } in &look.found {
            let at = Location::new(number, place.offset);
            let Some(state) = self.index.find(*log).filter(|_| self.retirements.wanted(*log).is_none())
            else {
                continue;
            };
            let needed = match what {
                What::Register(slot, _) => *slot > state.wanted && state.cell(*slot) == at,
                What::TrimPoint => state.mark == at,
            };
            if !needed {
                continue;
            }
            let value = match what {
                What::Register(_, range) => &look.bytes[range.clone()],
                What::TrimPoint => &[],
            };
            if value.len() > self.options.value_bytes_max() {
                // From a time of larger segments: it stays, and the segment with it.
                (self.carrying.place, self.carrying.done) = (None, number);
                return;
            }
            if !self.has_room_to_carry(value.len()) {
                self.carrying.place = Some((number, *place));
                return;
            }
            match what {
                What::Register(slot, _) => self.stage_carried(*log, *slot, value, at),
                What::TrimPoint => {
                    let through = state.wanted;
                    self.stage_trim(*log, through);
                }
            }
        }
        self.carrying.place = look.next.map(|place| (number, place));
        if look.next.is_none() {
            self.carrying.done = number;
        }
    }

    fn stage_carried(&mut self, log: Log, slot: Slot, value: &[u8], from: Location) {
        let frame = self.frame_for(REGISTER_OVERHEAD_MAX + value.len());
        let to = frame.end();
        record::put_register(&mut frame.bytes, log, slot, value, true);
        frame.carried.push(Carried { log, slot, from, to });
        let bytes = (frame.end().offset() - to.offset()) as usize;
        self.newest().tally.add(log.space, bytes);
    }

    /// The copies in this frame are durable: from now on they are the registers.
    pub(super) fn settle_carried(&mut self, frame: &Frame) {
        let Self { index, segments, .. } = self;
        for &Carried { log, slot, from, to } in &frame.carried {
            let state = index.find_mut(log).filter(|state| slot > state.trimmed && state.cell(slot) == from);
            // What was trimmed meanwhile was not needed where it was, and is not needed where it is.
            let unneeded = if state.is_some() { from } else { to };
            if let Some(state) = state {
                state.put(slot, to);
            }
            segment::of(segments, unneeded.segment()).tally.remove(log.space);
        }
    }

    /// Compares what only dated logs hold with what they need.
    pub(super) fn weigh(&mut self) {
        let held = self.segments.iter().take_while(|segment| segment.tally.is_dated());
        let (mut count, mut bytes, mut needed) = (0, 0, 0);
        for segment in held {
            count += 1;
            bytes += u64::from(segment.bytes);
            needed += segment.tally.dated_bytes();
        }
        let left = bytes / count.max(1) * SEGMENTS_LEFT;
        self.carrying.crowded = bytes > 2 * needed + left;
    }
}
