//! Where every register is: in memory, a word for each register that is not trimmed.

use std::collections::{HashMap, VecDeque};

use super::location::{Location, Sequence};
use crate::{Extent, Log, Slot};

/// All logs, by name and by number.
#[derive(Debug, Default)]
pub struct Index {
    by_name: HashMap<Log, u32>,
    logs: Vec<LogState>,
    /// The log that was looked up last: neighbours in a batch are often of one log.
    recent: Option<(Log, u32)>,
}

impl Index {
    pub fn len(&self) -> usize {
        self.logs.len()
    }

    pub fn find(&self, log: Log) -> Option<u32> {
        match self.recent {
            Some((recent, number)) if recent == log => Some(number),
            _ => self.by_name.get(&log).copied(),
        }
    }

    /// The number of a log, which is added if it is new.
    pub fn number(&mut self, log: Log) -> u32 {
        let number = self.find(log).unwrap_or_else(|| {
            let number = self.logs.len() as u32;
            self.logs.push(LogState::new(log));
            self.by_name.insert(log, number);
            number
        });
        self.recent = Some((log, number));
        number
    }

    pub fn log(&self, number: u32) -> &LogState {
        &self.logs[number as usize]
    }

    pub fn log_mut(&mut self, number: u32) -> &mut LogState {
        &mut self.logs[number as usize]
    }

    /// In the order they were first seen.
    pub fn iter(&self) -> impl Iterator<Item = &LogState> {
        self.logs.iter()
    }
}

/// One log.
#[derive(Debug)]
pub struct LogState {
    pub log: Log,
    /// Everything up to here is trimmed, durably.
    pub trimmed: Slot,
    /// Everything up to here is going to be: no write is taken any more.
    pub wanted: Slot,
    /// The frame that makes it so.
    pub wanted_in: Sequence,
    /// The highest slot that was ever written, among those that are no longer in the cells.
    floor: Slot,
    /// Where the registers above the trim point are. The last one is never empty.
    cells: VecDeque<Location>,
}

impl LogState {
    fn new(log: Log) -> Self {
        Self {
            log,
            trimmed: Slot::ZERO,
            wanted: Slot::ZERO,
            wanted_in: Sequence::ZERO,
            floor: Slot::ZERO,
            cells: VecDeque::new(),
        }
    }

    /// Where a register above the trim point is.
    pub fn cell(&self, slot: Slot) -> Location {
        debug_assert!(slot > self.trimmed);
        usize::try_from(slot.0 - self.trimmed.0 - 1)
            .ok()
            .and_then(|index| self.cells.get(index).copied())
            .unwrap_or(Location::NONE)
    }

    /// How far above the highest register of the cells a slot is.
    pub fn gap(&self, slot: Slot) -> u64 {
        (slot.0 - self.trimmed.0 - 1).saturating_sub(self.cells.len() as u64)
    }

    /// How far above the highest register that was ever written a slot is.
    pub fn gap_ever(&self, slot: Slot) -> u64 {
        slot.0.saturating_sub(self.last().max(self.floor).max(self.trimmed).0).saturating_sub(1)
    }

    /// Makes room for a register above the trim point. False if there is no memory for it.
    pub fn try_reserve(&mut self, slot: Slot) -> bool {
        let cells = usize::try_from(slot.0 - self.trimmed.0).unwrap_or(usize::MAX);
        self.cells.try_reserve(cells.saturating_sub(self.cells.len())).is_ok()
    }

    pub fn put(&mut self, slot: Slot, location: Location) {
        debug_assert!(self.cell(slot).is_none());
        let index = (slot.0 - self.trimmed.0 - 1) as usize;
        if index >= self.cells.len() {
            self.cells.resize(index, Location::NONE);
            self.cells.push_back(location);
        } else {
            self.cells[index] = location;
        }
    }

    /// Trims, and tells of every register that was there.
    pub fn trim(&mut self, through: Slot, mut gone: impl FnMut(Location)) {
        while self.trimmed < through {
            let Some(location) = self.cells.pop_front() else {
                self.trimmed = through;
                break;
            };
            self.trimmed = self.trimmed.next();
            if !location.is_none() {
                self.floor = self.floor.max(self.trimmed);
                gone(location);
            }
        }
        if self.cells.len() * 4 < self.cells.capacity() {
            self.cells.shrink_to(self.cells.len() * 2);
        }
        self.wanted = self.wanted.max(self.trimmed);
    }

    /// The highest slot that was ever written, durable or not.
    pub fn last(&self) -> Slot {
        if self.cells.is_empty() { self.floor } else { Slot(self.trimmed.0 + self.cells.len() as u64) }
    }

    /// Some slot up to this one was the highest that was ever written.
    pub fn raise_floor(&mut self, last: Slot) {
        self.floor = self.floor.max(last);
    }

    /// How far the log reaches, counting only what is before this end.
    pub fn extent(&self, durable: Location) -> Extent {
        let is_there = |location: &&Location| !location.is_none() && **location < durable;
        let last =
            self.cells.iter().rev().position(|location| is_there(&location)).map_or(self.floor, |back| {
                Slot(self.trimmed.0 + (self.cells.len() - back) as u64).max(self.floor)
            });
        Extent { trimmed: self.trimmed, last }
    }

    /// The registers from a slot on which are before this end.
    pub fn from(&self, slot: Slot, durable: Location) -> impl Iterator<Item = (Slot, Location)> {
        let skip = usize::try_from(slot.0 - self.trimmed.0 - 1).unwrap_or(usize::MAX);
        self.cells
            .range(skip.min(self.cells.len())..)
            .enumerate()
            .filter(move |(_, location)| !location.is_none() && **location < durable)
            .map(move |(index, &location)| (Slot(slot.0 + index as u64), location))
    }
}
