//! The journal: the store without threads and without waiting. Whoever drives it says when each step happens.
//!
//! A write is *staged*: decided at once against the index, and its record appended to the frame that is being filled. A frame is *taken*,
//! *persisted* (written and synced, without holding the journal, so that staging goes on) and *settled*; then its writes may be
//! answered. Meanwhile *errands* make the next segment and put trimmed ones away.
//!
//! What must hold:
//! - *Nothing decided is taken back.* All that can refuse a batch is asked before its first record is staged.
//! - *Nothing is answered before it is durable*, nor anything that rests on it: every answer comes with the frame it must wait for.
//! - *One frame at a time is on its way to the disk.* So only the last frame of a log can be torn.
//! - *A segment is released only when nothing in it is needed any more, durably*: every register in it is trimmed, retired or carried to a later
//!   segment. It is put away only when its release is durable.

// Long file: the embedded log is to be replaced by a crate of its own (ADR 6).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::carrying::Carrying;
use super::frame::{self, Frame, OVERHEAD_MAX, Trim};
use super::index::Index;
use super::location::{Location, Sequence};
use super::open_error::{Fatal, OpenError};
use super::options::{
    BATCH_WRITES_MAX, DATED_LOGS_MAX, GAP_SLOTS_MAX, Options, READ_REGISTERS_MAX, SPARES_MAX, cost,
};
use super::reading::{Reading, Source, Window, damaged};
use super::record::{self, REGISTER_OVERHEAD_MAX, Record, TRIM_BYTES_MAX, Taken};
use super::recovery;
use super::retirement::Retirements;
use super::room::{Errand, Make, Outcome, Promise};
use super::segment::{self, BLOCK_BYTES, Header, Segment};
use super::staged::Staged;
use super::tally::Tally;
use crate::disk::{Disk, is_want_of_room};
use crate::{Batch, Extent, Failure, Log, Permit, Slot, Space, Written};

/// How many buffers are kept to be used again: one is filled while another is written.
const BUFFERS_MAX: usize = 2;

/// How many retired logs go in one step.
const PURGED_AT_ONCE: usize = 4096;

/// The store without threads and without waiting.
pub struct Journal<D: Disk> {
    pub(super) disk: Arc<D>,
    pub(super) _guard: D::Guard,
    pub(super) options: Options,
    pub(super) identity: u64,
    pub(super) index: Index,
    pub(super) retirements: Retirements,
    /// Kept from batch to batch so that staging allocates nothing.
    pub(super) numbers: Vec<Option<u32>>,

    /// The segments in use, oldest first; frames go to the last.
    pub(super) segments: VecDeque<Segment<D::File>>,
    /// The segment after those.
    pub(super) next: Option<Segment<D::File>>,
    /// Where the next frame begins, if none is being filled.
    pub(super) at: Location,
    pub(super) next_sequence: Sequence,
    /// The hash of the last frame that was taken.
    pub(super) hash: u64,

    /// The frame that is being filled.
    pub(super) open: Option<Frame>,
    /// Frames that became full.
    pub(super) full: VecDeque<Frame>,
    /// The frame on its way to the disk; or back from it, because it could not be written for want of room.
    pub(super) flying: Option<Arc<Frame>>,
    pub(super) taken: bool,
    pub(super) durable: Sequence,
    /// Everything before this place is durable.
    pub(super) durable_end: Location,
    /// Buffers of frames that are done, to be used again.
    pub(super) buffers: Vec<Vec<u8>>,

    /// What was promised and is not yet staged, in bytes.
    pub(super) promised: Arc<AtomicUsize>,
    /// The highest segment whose release is staged.
    pub(super) released: u32,
    /// Segments whose release is durable, and whose files may be used again.
    pub(super) put_away: Vec<Segment<D::File>>,
    pub(super) spares: Vec<String>,
    pub(super) carrying: Carrying,
    pub(super) errand_out: bool,
    /// Somebody was refused for want of the next segment.
    pub(super) pressed: bool,
    /// Why the last errand failed. It is tried again when somebody is refused for it.
    pub(super) trouble: Option<String>,
    /// Why the last frame could not be written. It is tried again when somebody is refused for it.
    pub(super) stall: Option<String>,
    pub(super) try_room: bool,
    pub(super) try_write: bool,
    pub(super) fatal: Option<Fatal>,
}

impl<D: Disk> Journal<D> {
    /// Opens the store on this disk, or makes one if there is none. Everything that was ever answered is there again.
    pub fn open(disk: D, options: Options) -> Result<Self, OpenError> {
        recovery::open(Arc::new(disk), options)
    }

    /// Promises room for a batch of so many writes and bytes.
    pub fn admit(&mut self, writes: usize, value_bytes: usize) -> Result<Permit, Failure> {
        self.promise(writes, value_bytes).map(Permit::holding)
    }

    fn promise(&mut self, writes: usize, value_bytes: usize) -> Result<Promise, Failure> {
        self.check_alive()?;
        let bytes = cost(writes, value_bytes);
        let most = self.options.batch_cost_max();
        if writes > BATCH_WRITES_MAX || bytes > most {
            return Err(Failure::TooLarge(format!(
                "a batch of {writes} writes and {value_bytes} bytes; at most {BATCH_WRITES_MAX} writes that take {most} bytes"
            )));
        }
        if let Some(stall) = &self.stall {
            self.try_write = true;
            return Err(Failure::Full(stall.clone()));
        }
        let promised = self.promised.load(Ordering::Relaxed);
        if promised + self.staged_bytes() + bytes > self.options.staged_bytes_max {
            return Err(Failure::Busy(format!(
                "{} bytes are on their way to the disk already",
                promised + self.staged_bytes()
            )));
        }
        if promised + bytes + self.options.reserve_bytes() > self.rest() {
            return Err(self.refusal());
        }
        Ok(Promise::new(bytes, &self.promised))
    }

    /// Decides every register of the batch, and stages those that were empty. The answers may be given once the frame of this
    /// number is durable. If it fails, nothing has changed.
    pub fn stage(&mut self, batch: &Batch, permit: Permit) -> Result<(Vec<Written>, Sequence), Failure> {
        self.check_alive()?;
        let _extra = if self.covers(&permit, cost(batch.len(), batch.value_bytes())) {
            None
        } else {
            Some(self.promise(batch.len(), batch.value_bytes())?)
        };
        let mut numbers = std::mem::take(&mut self.numbers);
        let decided = self.decide(batch, &mut numbers);
        self.numbers = numbers;
        let (mut written, mut until) = decided?;
        for (index, (log, slot, value)) in batch.iter().enumerate() {
            if written[index] != Written::Fresh {
                continue;
            }
            let already = match self.numbers[index] {
                Some(number) => Some(self.index.numbered(number)),
                None => self.index.find(log),
            };
            if mutated!(SkipTrimCheck) && already.is_some_and(|state| slot <= state.trimmed) {
                continue;
            }
            let already = already.map_or(Location::NONE, |state| state.cell(slot));
            if mutated!(OverwriteSlot) && !already.is_none() {
                continue;
            }
            if !already.is_none() {
                // Written by this very batch, a moment ago.
                let value = self.staged_value(log, slot, already).ok_or_else(|| damaged(already, log, slot));
                written[index] = Written::Taken(value.expect("what was just staged is in memory"));
                continue;
            }
            let frame = self.frame_for(REGISTER_OVERHEAD_MAX + value.len());
            let location = frame.end();
            record::put_register(&mut frame.bytes, log, slot, value, false);
            let bytes = (frame.end().offset() - location.offset()) as usize;
            until = until.max(frame.sequence);
            match self.numbers[index] {
                Some(number) => self.index.numbered_mut(number).put(slot, location),
                None => self.index.entry(log).put(slot, location),
            }
            self.newest().tally.add(log.space, bytes);
        }
        Ok((written, until))
    }

    /// What each write would meet, and the frame that must be durable before it is told. Asks everything that can be refused.
    /// Notes the numbers of the logs that are known.
    fn decide(
        &self,
        batch: &Batch,
        numbers: &mut Vec<Option<u32>>,
    ) -> Result<(Vec<Written>, Sequence), Failure> {
        numbers.clear();
        let value_bytes_max = self.options.value_bytes_max();
        let mut until = Sequence::ZERO;
        let (mut new_lasting, mut new_dated) = (0, 0);
        let mut written = Vec::with_capacity(batch.len());
        for (index, (log, slot, value)) in batch.iter().enumerate() {
            if value.len() > value_bytes_max {
                let len = value.len();
                return Err(Failure::TooLarge(format!("a value of {len} bytes; at most {value_bytes_max}")));
            }
            let number = if log.space.is_dated() { None } else { self.index.number(log) };
            numbers.push(number);
            if let Some(wanted_in) = self.retirements.wanted(log) {
                until = until.max(wanted_in);
                written.push(Written::Trimmed);
                continue;
            }
            let state = match number {
                Some(number) => Some(self.index.numbered(number)),
                None => self.index.find(log),
            };
            written.push(match state {
                Some(state) if slot <= state.wanted && !mutated!(SkipTrimCheck) => {
                    until = until.max(state.wanted_in);
                    Written::Trimmed
                }
                Some(_) if mutated!(OverwriteSlot) => Written::Fresh,
                Some(state) if mutated!(SkipTrimCheck) && slot <= state.trimmed => Written::Fresh,
                Some(state) if !state.cell(slot).is_none() => {
                    let (value, frame) = self.value(log, slot, state.cell(slot))?;
                    until = until.max(frame);
                    Written::Taken(value)
                }
                _ => {
                    let gap = match state {
                        Some(state) => state.gap(slot),
                        None if log.space.is_dated() => 0,
                        None => slot.0 - 1,
                    };
                    if gap > GAP_SLOTS_MAX && !follows_in_batch(batch, index, log, slot) {
                        return Err(Failure::TooLarge(format!(
                            "{log} slot {slot} leaves {gap} slots empty below it; at most {GAP_SLOTS_MAX}"
                        )));
                    }
                    let new = if log.space.is_dated() { &mut new_dated } else { &mut new_lasting };
                    *new += usize::from(state.is_none());
                    Written::Fresh
                }
            });
        }
        // Counts a log twice that is new twice in the batch: the limit may be met a little early.
        self.check_logs(new_lasting, new_dated)?;
        Ok((written, if until > self.durable { until } else { Sequence::ZERO }))
    }

    /// Forgets the values of a log up to here, once the frame of the number returned is durable.
    pub fn trim(&mut self, log: Log, through: Slot) -> Result<Sequence, Failure> {
        self.check_alive()?;
        if let Some(retired_in) = self.retirements.wanted(log) {
            return Ok(retired_in);
        }
        let wanted = self.index.find(log);
        if let Some(state) = wanted
            && through <= state.wanted
        {
            return Ok(state.wanted_in);
        }
        if through == Slot::ZERO {
            return Ok(Sequence::ZERO);
        }
        if wanted.is_none() {
            let dated = usize::from(log.space.is_dated());
            self.check_logs(1 - dated, dated)?;
        }
        self.check_room_to_forget()?;
        Ok(self.stage_trim(log, through))
    }

    /// Stages a trim point for which there is room.
    pub(super) fn stage_trim(&mut self, log: Log, through: Slot) -> Sequence {
        let last = self.index.entry(log).last();
        let frame = self.frame_for(TRIM_BYTES_MAX);
        let at = frame.end();
        record::put_trim(&mut frame.bytes, log, through, last);
        frame.trims.push(Trim { log, through, at });
        let (sequence, bytes) = (frame.sequence, (frame.end().offset() - at.offset()) as usize);
        if log.space.is_dated() {
            self.newest().tally.add(log.space, bytes);
        }
        let state = self.index.entry(log);
        if through > state.wanted {
            (state.wanted, state.wanted_in) = (through, sequence);
        }
        sequence
    }

    /// Forgets all logs of a dated space below an id, once the frame of the number returned is durable.
    pub fn retire(&mut self, space: Space, below: u128) -> Result<Sequence, Failure> {
        self.check_alive()?;
        space.check_dated()?;
        if let Some(retired_in) = self.retirements.covers(space, below) {
            return Ok(retired_in);
        }
        self.check_room_to_forget()?;
        let frame = self.frame_for(TRIM_BYTES_MAX);
        record::put_retired(&mut frame.bytes, space, below);
        frame.retired.push((space, below));
        let sequence = frame.sequence;
        self.retirements.want(space, below, sequence);
        Ok(sequence)
    }

    /// Whether what makes room can be written.
    fn check_room_to_forget(&mut self) -> Result<(), Failure> {
        if let Some(stall) = &self.stall {
            self.try_write = true;
            return Err(Failure::Full(stall.clone()));
        }
        // A block is left for the release that it may lead to.
        if !self.has_room(TRIM_BYTES_MAX + OVERHEAD_MAX + BLOCK_BYTES as usize) {
            return Err(self.refusal());
        }
        Ok(())
    }

    /// The next frame to be persisted, if there is one and none is on its way.
    pub fn take_staged(&mut self) -> Option<Staged<D::File>> {
        if !self.has_staged() {
            return None;
        }
        let frame = match self.flying.take() {
            Some(frame) => frame,
            None => {
                let mut frame = self.full.pop_front().or_else(|| self.open.take())?;
                let end = frame::align(frame.end().offset());
                if self.full.is_empty() && self.open.is_none() {
                    self.at = Location::new(frame.at.segment(), end);
                }
                self.hash = frame.seal(self.hash, self.identity);
                Arc::new(frame)
            }
        };
        self.flying = Some(Arc::clone(&frame));
        self.taken = true;
        self.try_write = false;
        let file = Arc::clone(&self.segment(frame.at.segment()).file);
        Some(Staged { frame, file, outcome: None })
    }

    /// Whether [`Journal::take_staged`] would return a frame.
    pub fn has_staged(&self) -> bool {
        let anything = self.flying.is_some() || self.open.is_some() || !self.full.is_empty();
        anything && !self.taken && self.fatal.is_none() && (self.stall.is_none() || self.try_write)
    }

    /// Takes a frame back that was persisted. Everything up to the number returned is durable.
    ///
    /// A frame that could not be written for want of room is kept, and tried again when somebody asks for room.
    pub fn settle(&mut self, mut staged: Staged<D::File>) -> Result<Sequence, Fatal> {
        self.taken = false;
        match staged.outcome.take().expect("a frame is persisted before it is settled") {
            Ok(()) => self.stall = None,
            Err((true, error)) if is_want_of_room(&error) => {
                self.stall = Some(format!("cannot write to the log: {error}"));
                return Ok(self.durable);
            }
            Err((_, error)) => {
                let name = super::segment::name(staged.frame.at.segment());
                return Err(self.die(format!("cannot make {name} durable: {error}")));
            }
        }
        self.flying = None;
        let frame = staged.frame;
        debug_assert_eq!(frame.sequence, self.durable.next());
        self.durable = frame.sequence;
        self.durable_end = frame.end();
        self.settle_trims(&frame);
        self.settle_carried(&frame);
        for &(space, below) in &frame.retired {
            self.retirements.settle(space, below);
        }
        self.purge();
        if let Some(through) = frame.released {
            while self.segments.front().is_some_and(|segment| segment.number <= through) {
                self.put_away.extend(self.segments.pop_front());
            }
            // A file that is given back may be all that was wanted.
            self.try_room = true;
        }
        let turned = frame.at.offset() == BLOCK_BYTES;
        if turned || !frame.trims.is_empty() || frame.released.is_some() {
            self.weigh();
        }
        if self.buffers.len() < BUFFERS_MAX
            && let Ok(frame) = Arc::try_unwrap(frame)
        {
            self.buffers.push(frame.bytes);
        }
        self.release();
        Ok(self.durable)
    }

    fn settle_trims(&mut self, frame: &Frame) {
        let Self { index, segments, .. } = self;
        for &Trim { log, through, at } in &frame.trims {
            let mut gone =
                |location: Location| segment::of(segments, location.segment()).tally.remove(log.space);
            let state = index.find_mut(log).expect("a log is there until what retires it is settled");
            state.trim(through, &mut gone);
            if log.space.is_dated() {
                let before = std::mem::replace(&mut state.mark, at);
                if !before.is_none() {
                    gone(before);
                }
            }
        }
    }

    /// Lets some of the retired logs go. That they are retired says the mark: so it need not be all of them at once, while others wait.
    pub(super) fn purge(&mut self) {
        let mut rest = PURGED_AT_ONCE;
        for (space, below) in self.retirements.to_purge() {
            while rest > 0 {
                let Some(state) = self.index.take_below(space, below) else { break };
                for place in state.places() {
                    segment::of(&mut self.segments, place.segment()).tally.remove(space);
                }
                rest -= 1;
            }
        }
        if rest > 0 {
            self.retirements.purged();
        }
        if rest < PURGED_AT_ONCE {
            self.weigh();
        }
    }

    /// Stages the release of the oldest segments, if nothing in them is needed any more.
    fn release(&mut self) {
        let last = self.segments.back().map_or(0, |segment| segment.number);
        let through = self
            .segments
            .iter()
            .take_while(|segment| segment.tally.is_empty() && segment.number < last)
            .last()
            .map_or(0, |segment| segment.number);
        if through > self.released && self.has_room(TRIM_BYTES_MAX + OVERHEAD_MAX) {
            let frame = self.frame_for(TRIM_BYTES_MAX);
            record::put_released(&mut frame.bytes, through);
            frame.released = Some(through);
            self.released = through;
        }
    }

    /// Everything up to this frame is durable.
    pub fn durable(&self) -> Sequence {
        self.durable
    }

    /// How far a log reaches, durably.
    pub fn extent(&self, log: Log) -> Result<Extent, Failure> {
        self.check_alive()?;
        if self.retirements.holds(log) {
            return Ok(Extent::RETIRED);
        }
        Ok(self.index.find(log).map_or_else(Extent::default, |state| state.extent(self.durable_end)))
    }

    /// Plans a read of durable registers. The plan can be run without the journal.
    pub fn read(&self, log: Log, from: Slot, limit: usize) -> Result<Reading<D::File>, Failure> {
        self.check_alive()?;
        let state = self.index.find(log);
        let trimmed = match state {
            _ if self.retirements.holds(log) => Slot::MAX,
            Some(state) => state.trimmed,
            None => Slot::ZERO,
        };
        if from <= trimmed || self.retirements.holds(log) {
            return Err(Failure::Trimmed { log, through: trimmed });
        }
        let durable = state.into_iter().flat_map(|state| state.from(from, self.durable_end));
        let registers: Vec<_> = durable.take(limit.min(READ_REGISTERS_MAX)).collect();
        let mut needed: Vec<u32> = registers.iter().map(|(_, location)| location.segment()).collect();
        needed.sort_unstable();
        needed.dedup();
        let sources = needed.into_iter().map(|number| self.source(number)).collect();
        Ok(Reading { log, registers, sources })
    }

    /// Work on files that is due, if none is under way.
    pub fn take_errand(&mut self) -> Option<Errand<D>> {
        if !self.wants_errand() {
            return None;
        }
        self.errand_out = true;
        self.try_room = false;
        let mut room = SPARES_MAX.saturating_sub(self.spares.len());
        let put_away = self
            .put_away
            .iter()
            .map(|segment| {
                // A reader may hold the file: then it must stay as it is, and goes when the reader is done.
                let keep = room > 0
                    && segment.bytes == self.options.segment_bytes
                    && Arc::strong_count(&segment.file) == 1;
                room -= usize::from(keep);
                (segment.number, keep)
            })
            .collect();
        let look = self.look();
        let number = self.segments.back().map_or(1, |segment| segment.number + 1);
        let make = self.wants_next().then(|| Make {
            header: Header { number, bytes: self.options.segment_bytes, identity: self.identity },
            spare: self.spares.pop(),
        });
        Some(Errand { disk: Arc::clone(&self.disk), put_away, make, look, outcome: None })
    }

    /// Whether [`Journal::take_errand`] would return one.
    pub fn wants_errand(&self) -> bool {
        let due = self.wants_next()
            || !self.put_away.is_empty()
            || self.wants_look()
            || self.retirements.wants_purge();
        due && !self.errand_out && self.fatal.is_none() && (self.trouble.is_none() || self.try_room)
    }

    fn wants_next(&self) -> bool {
        let Some(segment) = self.segments.back() else { return false };
        let wanted = self.pressed || self.position() > segment.bytes / 2 || self.lacks_room_to_carry();
        self.next.is_none() && wanted
    }

    /// Takes back an errand that was run.
    pub fn end_errand(&mut self, mut errand: Errand<D>) -> Result<(), Fatal> {
        self.errand_out = false;
        let Outcome { spares, all_put_away, made, error } =
            errand.outcome.expect("an errand is run before it ends");
        if let Some((what, error)) = error {
            if !is_want_of_room(&error) {
                return Err(self.die(format!("{what}: {error}")));
            }
            self.trouble = Some(format!("{what}: {error}"));
            self.spares.extend(errand.make.as_mut().and_then(|make| make.spare.take()));
        } else {
            self.trouble = None;
        }
        if all_put_away {
            self.spares.extend(spares);
            let done: Vec<u32> = errand.put_away.iter().map(|(number, _)| *number).collect();
            self.put_away.retain(|segment| !done.contains(&segment.number));
        }
        if let (Some(file), Some(make)) = (made, errand.make) {
            let Header { number, bytes, .. } = make.header;
            self.next = Some(Segment { number, bytes, file, tally: Tally::default() });
            self.pressed = false;
            // There may not have been room for it before.
            self.release();
        }
        if let Some(look) = errand.look {
            self.carry(look);
        }
        if self.retirements.wants_purge() {
            self.purge();
            self.release();
        }
        Ok(())
    }

    /// Why the journal refuses everything, if it does.
    pub fn fatal(&self) -> Option<&Fatal> {
        self.fatal.as_ref()
    }

    pub(super) fn die(&mut self, why: String) -> Fatal {
        self.fatal.get_or_insert(Fatal(why)).clone()
    }

    fn check_alive(&self) -> Result<(), Failure> {
        match &self.fatal {
            Some(fatal) => Err(Failure::Unavailable(fatal.0.clone())),
            None => Ok(()),
        }
    }

    /// Whether so many more logs can be.
    fn check_logs(&self, lasting: usize, dated: usize) -> Result<(), Failure> {
        let most = self.options.logs_max();
        if lasting > 0 && self.index.lasting_len() + lasting > most {
            return Err(Failure::TooLarge(format!("more than {most} logs")));
        }
        if dated > 0 && self.index.dated_len() + dated > DATED_LOGS_MAX {
            return Err(Failure::Full(format!("{DATED_LOGS_MAX} dated logs are there; none is retired")));
        }
        Ok(())
    }

    fn covers(&self, permit: &Permit, bytes: usize) -> bool {
        permit
            .room()
            .and_then(|room| (room as &dyn std::any::Any).downcast_ref::<Promise>())
            .is_some_and(|promise| Arc::ptr_eq(&promise.total, &self.promised) && promise.bytes >= bytes)
    }

    /// Why there is no room; and sees to it that it is made.
    fn refusal(&mut self) -> Failure {
        if self.next.is_some() {
            return Failure::Busy("the segments of the log are promised to others".into());
        }
        self.pressed = true;
        match &self.trouble {
            Some(trouble) => {
                self.try_room = true;
                Failure::Full(trouble.clone())
            }
            None => Failure::Busy("the next segment of the log is being made".into()),
        }
    }

    /// The end of everything staged, as an offset in the last segment.
    fn position(&self) -> u32 {
        self.open.as_ref().map_or(self.at.offset(), |frame| frame::align(frame.end().offset()))
    }

    /// The bytes that can still be staged for certain, whatever the size of the records; those promised included.
    fn rest(&self) -> usize {
        let segment = self.segments.back().map_or(0, |segment| segment.bytes);
        let rest = (segment - self.position()) as usize;
        let Some(next) = &self.next else { return rest };
        // The record that does not fit any more leaves its room unused; the frame after it begins with the trim points.
        let unused = self.options.value_bytes_max() + REGISTER_OVERHEAD_MAX + OVERHEAD_MAX;
        let marks = self.index.lasting_len() + 1 + self.retirements.len() + 1;
        let trim_points = marks * TRIM_BYTES_MAX + OVERHEAD_MAX;
        rest.saturating_sub(unused) + ((next.bytes - BLOCK_BYTES) as usize).saturating_sub(trim_points)
    }

    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.promised.load(Ordering::Relaxed) + bytes <= self.rest()
    }

    pub(super) fn staged_bytes(&self) -> usize {
        let flying = self.flying.as_ref().map_or(0, |frame| frame.bytes.len());
        let full: usize = self.full.iter().map(|frame| frame.bytes.len()).sum();
        flying + full + self.open.as_ref().map_or(0, |frame| frame.bytes.len())
    }

    /// The frame to append a record of so many bytes to.
    pub(super) fn frame_for(&mut self, bytes: usize) -> &mut Frame {
        let segment_bytes = self.segments.back().map_or(0, |segment| segment.bytes) as usize;
        let end = self
            .open
            .as_ref()
            .map_or(self.at.offset() as usize + frame::HEADER_BYTES, |frame| frame.end().offset() as usize);
        if end + bytes > segment_bytes {
            self.full.extend(self.open.take());
            let next = self.next.take().expect("nothing is staged for which there is no room");
            self.at = Location::new(next.number, BLOCK_BYTES);
            self.segments.push_back(next);
        }
        let Self { open, index, retirements, at, next_sequence, buffers, .. } = self;
        open.get_or_insert_with(|| {
            let mut frame = Frame::begin(*next_sequence, *at, buffers.pop().unwrap_or_default());
            *next_sequence = next_sequence.next();
            if at.offset() == BLOCK_BYTES {
                for (log, state) in index.lasting() {
                    record::put_trim(&mut frame.bytes, *log, state.wanted, state.last());
                }
                for (space, below) in retirements.marks() {
                    record::put_retired(&mut frame.bytes, space, below);
                }
            }
            frame
        })
    }

    /// The segment that frames go to.
    pub(super) fn newest(&mut self) -> &mut Segment<D::File> {
        self.segments.back_mut().expect("a journal has a segment")
    }

    fn segment(&self, number: u32) -> &Segment<D::File> {
        let first = self.segments.front().map_or(0, |segment| segment.number);
        &self.segments[(number - first) as usize]
    }

    pub(super) fn source(&self, number: u32) -> Source<D::File> {
        let segment = self.segment(number);
        Source { segment: number, bytes: segment.bytes, file: Arc::clone(&segment.file) }
    }

    /// The value of a register, and the frame that must be durable before it is told.
    fn value(&self, log: Log, slot: Slot, location: Location) -> Result<(Bytes, Sequence), Failure> {
        if location < self.durable_end {
            let source = self.source(location.segment());
            let mut window = Window::for_registers(1);
            let value = window.value(&source, log, slot, location)?;
            return Ok((Bytes::copy_from_slice(value), Sequence::ZERO));
        }
        let value = self.staged_value(log, slot, location).ok_or_else(|| damaged(location, log, slot))?;
        let frame = self.frame_of(location).map_or(self.next_sequence, |frame| frame.sequence);
        Ok((value, frame))
    }

    fn frame_of(&self, location: Location) -> Option<&Frame> {
        let flying = self.flying.as_deref();
        flying.into_iter().chain(&self.full).chain(&self.open).rfind(|frame| frame.at <= location)
    }

    fn staged_value(&self, log: Log, slot: Slot, location: Location) -> Option<Bytes> {
        let frame = self.frame_of(location)?;
        let mut bytes = frame.bytes.get((location.offset() - frame.at.offset()) as usize..)?;
        match record::take(&mut bytes) {
            Taken::Record(Record::Register { log: its_log, slot: its_slot, value, .. })
                if (its_log, its_slot) == (log, slot) =>
            {
                Some(Bytes::copy_from_slice(value))
            }
            _ => None,
        }
    }
}

/// Whether an earlier write of the batch comes near enough below a slot. The nearest is mostly the one just before.
fn follows_in_batch(batch: &Batch, index: usize, log: Log, slot: Slot) -> bool {
    let near = slot.0.saturating_sub(GAP_SLOTS_MAX + 1)..slot.0;
    (0..index)
        .rev()
        .map(|index| batch.name(index))
        .any(|(its_log, its_slot)| its_log == log && near.contains(&its_slot.0))
}
