//! Where the registers of one log are that are not trimmed.
//!
//! The steps of a partition follow one another: a word for each slot. A session has few registers, far apart, and there are very many sessions:
//! a pair for each register, and nothing for what is between.

use std::collections::VecDeque;

use super::location::Location;
use crate::Slot;

/// The places of registers, all above the trim point of their log. Whoever asks says where that is.
#[derive(Debug)]
pub enum Cells {
    /// One for each slot from the trim point on. The last one is never empty.
    Dense(VecDeque<Location>),
    /// Those that are written, in order.
    Sparse(VecDeque<(Slot, Location)>),
}

impl Cells {
    pub fn get(&self, trimmed: Slot, slot: Slot) -> Location {
        let found = match self {
            Self::Dense(cells) => index_of(trimmed, slot).and_then(|index| cells.get(index)),
            Self::Sparse(cells) => {
                let found = cells.binary_search_by_key(&slot, |(slot, _)| *slot);
                found.ok().map(|index| &cells[index].1)
            }
        };
        found.copied().unwrap_or(Location::NONE)
    }

    /// Puts a register where none is, or another place in the stead of the one there.
    pub fn put(&mut self, trimmed: Slot, slot: Slot, location: Location) {
        match self {
            Self::Dense(cells) => {
                let index = (slot.0 - trimmed.0 - 1) as usize;
                if index >= cells.len() {
                    cells.resize(index, Location::NONE);
                    cells.push_back(location);
                } else {
                    cells[index] = location;
                }
            }
            Self::Sparse(cells) => match cells.binary_search_by_key(&slot, |(slot, _)| *slot) {
                Ok(index) => cells[index].1 = location,
                Err(index) => {
                    if cells.is_empty() {
                        // Most sessions have one: no room for others is taken ahead.
                        cells.reserve_exact(1);
                    }
                    cells.insert(index, (slot, location));
                }
            },
        }
    }

    /// Makes room for one more register. False if there is no memory for it.
    pub fn try_reserve(&mut self, trimmed: Slot, slot: Slot) -> bool {
        match self {
            Self::Dense(cells) => {
                let wanted = usize::try_from(slot.0 - trimmed.0).unwrap_or(usize::MAX);
                cells.try_reserve(wanted.saturating_sub(cells.len())).is_ok()
            }
            Self::Sparse(_) => true,
        }
    }

    /// How many slots would be left empty above the highest register by one at this slot, each of which takes memory.
    pub fn gap(&self, trimmed: Slot, slot: Slot) -> u64 {
        match self {
            Self::Dense(cells) => (slot.0 - trimmed.0 - 1).saturating_sub(cells.len() as u64),
            Self::Sparse(_) => 0,
        }
    }

    /// The highest register.
    pub fn last(&self, trimmed: Slot) -> Option<Slot> {
        match self {
            Self::Dense(cells) if cells.is_empty() => None,
            Self::Dense(cells) => Some(Slot(trimmed.0 + cells.len() as u64)),
            Self::Sparse(cells) => cells.back().map(|(slot, _)| *slot),
        }
    }

    /// The highest register before this end of the log.
    pub fn last_before(&self, trimmed: Slot, end: Location) -> Option<Slot> {
        let is_there = |location: Location| !location.is_none() && location < end;
        match self {
            Self::Dense(cells) => {
                let back = cells.iter().rev().position(|&location| is_there(location))?;
                Some(Slot(trimmed.0 + (cells.len() - back) as u64))
            }
            Self::Sparse(cells) => {
                cells.iter().rev().find(|(_, location)| is_there(*location)).map(|(slot, _)| *slot)
            }
        }
    }

    /// Takes the registers up to a slot away, and tells of each. The highest of them.
    pub fn take_through(
        &mut self,
        trimmed: Slot,
        through: Slot,
        mut gone: impl FnMut(Location),
    ) -> Option<Slot> {
        let mut highest = None;
        match self {
            Self::Dense(cells) => {
                let mut slot = trimmed;
                while slot < through {
                    let Some(location) = cells.pop_front() else { break };
                    slot = slot.next();
                    if !location.is_none() {
                        highest = Some(slot);
                        gone(location);
                    }
                }
                if cells.len() * 4 < cells.capacity() {
                    cells.shrink_to(cells.len() * 2);
                }
            }
            Self::Sparse(cells) => {
                let count = cells.partition_point(|(slot, _)| *slot <= through);
                for (slot, location) in cells.drain(..count) {
                    highest = Some(slot);
                    gone(location);
                }
                if cells.len() * 4 < cells.capacity() {
                    cells.shrink_to(cells.len() * 2);
                }
            }
        }
        highest
    }

    /// All registers from a slot above the trim point on.
    pub fn from(&self, trimmed: Slot, slot: Slot) -> impl Iterator<Item = (Slot, Location)> {
        let (dense, sparse) = match self {
            Self::Dense(cells) => {
                let skip = index_of(trimmed, slot).unwrap_or(usize::MAX).min(cells.len());
                let first = trimmed.0 + 1 + skip as u64;
                let with_slot =
                    move |(index, &location): (usize, &Location)| (Slot(first + index as u64), location);
                (Some(cells.range(skip..).enumerate().map(with_slot)), None)
            }
            Self::Sparse(cells) => {
                let skip = cells.partition_point(|(its, _)| *its < slot);
                (None, Some(cells.range(skip..).copied()))
            }
        };
        let all = dense.into_iter().flatten().chain(sparse.into_iter().flatten());
        all.filter(|(_, location)| !location.is_none())
    }
}

fn index_of(trimmed: Slot, slot: Slot) -> Option<usize> {
    usize::try_from(slot.0 - trimmed.0 - 1).ok()
}
