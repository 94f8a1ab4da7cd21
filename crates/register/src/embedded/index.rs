//! Where every register is, in memory: which logs there are, and how far each is trimmed.
//!
//! Logs that are not dated are few and stay for ever; they have numbers. Dated ones come and go by the million, and are found by their
//! names, in order, so that those below an id can be taken away together.

use std::collections::{BTreeMap, HashMap};

use super::cells::Cells;
use super::location::{Location, Sequence};
use crate::{Extent, Log, Slot, Space};

/// All logs.
#[derive(Debug, Default)]
pub struct Index {
    by_name: HashMap<Log, u32>,
    lasting: Vec<(Log, LogState)>,
    /// The lasting log that was looked up last: neighbours in a batch are often of one log.
    recent: Option<(Log, u32)>,
    dated: BTreeMap<Space, BTreeMap<u128, LogState>>,
}

impl Index {
    /// How many logs are not dated.
    pub fn lasting_len(&self) -> usize {
        self.lasting.len()
    }

    /// How many logs are dated.
    pub fn dated_len(&self) -> usize {
        self.dated.values().map(BTreeMap::len).sum()
    }

    /// The number of a log that is there and not dated.
    pub fn number(&self, log: Log) -> Option<u32> {
        match self.recent {
            Some((recent, number)) if recent == log => Some(number),
            _ => self.by_name.get(&log).copied(),
        }
    }

    pub fn find(&self, log: Log) -> Option<&LogState> {
        if log.space.is_dated() {
            return self.dated.get(&log.space)?.get(&log.id);
        }
        self.number(log).map(|number| self.numbered(number))
    }

    pub fn find_mut(&mut self, log: Log) -> Option<&mut LogState> {
        if log.space.is_dated() {
            return self.dated.get_mut(&log.space)?.get_mut(&log.id);
        }
        self.number(log).map(|number| &mut self.lasting[number as usize].1)
    }

    /// A log, which is added if it is new.
    pub fn entry(&mut self, log: Log) -> &mut LogState {
        if log.space.is_dated() {
            let logs = self.dated.entry(log.space).or_default();
            return logs.entry(log.id).or_insert_with(|| LogState::new(log.space));
        }
        let number = self.number(log).unwrap_or_else(|| {
            let number = self.lasting.len() as u32;
            self.lasting.push((log, LogState::new(log.space)));
            self.by_name.insert(log, number);
            number
        });
        self.recent = Some((log, number));
        &mut self.lasting[number as usize].1
    }

    /// The log with this number.
    pub fn numbered(&self, number: u32) -> &LogState {
        &self.lasting[number as usize].1
    }

    pub fn numbered_mut(&mut self, number: u32) -> &mut LogState {
        &mut self.lasting[number as usize].1
    }

    /// The logs that are not dated, in the order they were first seen.
    pub fn lasting(&self) -> impl Iterator<Item = &(Log, LogState)> {
        self.lasting.iter()
    }

    /// Takes the oldest log of a dated space away, if its id is below this one.
    pub fn take_below(&mut self, space: Space, below: u128) -> Option<LogState> {
        let oldest = self.dated.get_mut(&space)?.first_entry()?;
        (*oldest.key() < below).then(|| oldest.remove())
    }
}

/// One log.
#[derive(Debug)]
pub struct LogState {
    /// Everything up to here is trimmed, durably.
    pub trimmed: Slot,
    /// Everything up to here is going to be: no write is taken any more.
    pub wanted: Slot,
    /// The frame that makes it so.
    pub wanted_in: Sequence,
    /// Where the trim point of a dated log is written down. Those of other logs are at the start of every segment.
    pub mark: Location,
    /// The highest slot that was ever written, among those that are no longer in the cells.
    floor: Slot,
    /// Where the registers above the trim point are.
    cells: Cells,
}

impl LogState {
    fn new(space: Space) -> Self {
        let dated = space.is_dated();
        Self {
            trimmed: Slot::ZERO,
            wanted: Slot::ZERO,
            wanted_in: Sequence::ZERO,
            mark: Location::NONE,
            floor: Slot::ZERO,
            cells: if dated { Cells::Sparse(Default::default()) } else { Cells::Dense(Default::default()) },
        }
    }

    /// Where a register above the trim point is.
    pub fn cell(&self, slot: Slot) -> Location {
        debug_assert!(slot > self.trimmed);
        self.cells.get(self.trimmed, slot)
    }

    /// How many slots that take memory lie between the highest register of the cells and this one.
    pub fn gap(&self, slot: Slot) -> u64 {
        self.cells.gap(self.trimmed, slot)
    }

    /// The same, from the highest register that was ever written.
    pub fn gap_ever(&self, slot: Slot) -> u64 {
        let above = slot.0.saturating_sub(self.last().max(self.floor).max(self.trimmed).0).saturating_sub(1);
        self.gap(slot).min(above)
    }

    /// Makes room for a register above the trim point. False if there is no memory for it.
    pub fn try_reserve(&mut self, slot: Slot) -> bool {
        self.cells.try_reserve(self.trimmed, slot)
    }

    pub fn put(&mut self, slot: Slot, location: Location) {
        debug_assert!(slot > self.trimmed);
        self.cells.put(self.trimmed, slot, location);
    }

    /// Trims, and tells of every register that was there.
    pub fn trim(&mut self, through: Slot, gone: impl FnMut(Location)) {
        if through > self.trimmed {
            let highest = self.cells.take_through(self.trimmed, through, gone);
            self.floor = self.floor.max(highest.unwrap_or_default());
            self.trimmed = through;
        }
        self.wanted = self.wanted.max(self.trimmed);
    }

    /// The highest slot that was ever written, durable or not.
    pub fn last(&self) -> Slot {
        self.cells.last(self.trimmed).unwrap_or(self.floor)
    }

    /// Some slot up to this one was the highest that was ever written.
    pub fn raise_floor(&mut self, last: Slot) {
        self.floor = self.floor.max(last);
    }

    /// How far the log reaches, counting only what is before this end.
    pub fn extent(&self, durable: Location) -> Extent {
        let last = self.cells.last_before(self.trimmed, durable).unwrap_or_default();
        Extent { trimmed: self.trimmed, last: last.max(self.floor) }
    }

    /// The registers from a slot on which are before this end.
    pub fn from(&self, slot: Slot, durable: Location) -> impl Iterator<Item = (Slot, Location)> {
        self.cells.from(self.trimmed, slot).filter(move |(_, location)| *location < durable)
    }

    /// The places of everything in the log that is needed.
    pub fn places(&self) -> impl Iterator<Item = Location> {
        let mark = Some(self.mark).filter(|mark| !mark.is_none());
        self.cells.from(self.trimmed, self.trimmed.next()).map(|(_, location)| location).chain(mark)
    }
}
