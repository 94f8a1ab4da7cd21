//! Which dated logs are retired: one mark for each space, for ever.
//!
//! What must hold: a mark never goes down. It is at the start of every segment, so that it outlives the segments before.

use std::collections::BTreeMap;

use super::location::Sequence;
use crate::{Log, Space};

/// The marks of all spaces.
#[derive(Debug, Default)]
pub struct Retirements {
    marks: BTreeMap<Space, Mark>,
    /// There may be logs in memory that are retired.
    purging: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    /// All below are retired, durably.
    below: u128,
    /// All below are going to be: no write is taken any more.
    wanted: u128,
    /// The frame that makes it so.
    wanted_in: Sequence,
}

impl Retirements {
    /// Whether the log is retired, durably.
    pub fn holds(&self, log: Log) -> bool {
        log.space.is_dated() && self.marks.get(&log.space).is_some_and(|mark| log.id < mark.below)
    }

    /// Whether the log is retired or going to be; then the frame that makes it so.
    pub fn wanted(&self, log: Log) -> Option<Sequence> {
        if !log.space.is_dated() {
            return None;
        }
        self.covers(log.space, log.id.checked_add(1)?)
    }

    /// Whether all below this id are retired or going to be; then the frame that makes it so.
    pub fn covers(&self, space: Space, below: u128) -> Option<Sequence> {
        let mark = self.marks.get(&space).copied().unwrap_or_default();
        (below <= mark.wanted).then_some(mark.wanted_in)
    }

    /// From now on no write below is taken.
    pub fn want(&mut self, space: Space, below: u128, wanted_in: Sequence) {
        let mark = self.marks.entry(space).or_default();
        assert!(below > mark.wanted, "a mark never goes down");
        (mark.wanted, mark.wanted_in) = (below, wanted_in);
    }

    /// It is durable.
    pub fn settle(&mut self, space: Space, below: u128) {
        self.purging = true;
        let mark = self.marks.entry(space).or_default();
        mark.below = mark.below.max(below);
        mark.wanted = mark.wanted.max(below);
    }

    /// What is to be at the start of a segment.
    pub fn marks(&self) -> impl Iterator<Item = (Space, u128)> {
        self.marks.iter().map(|(space, mark)| (*space, mark.wanted))
    }

    /// How many marks there are.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Whether there may be logs in memory that are retired.
    pub fn wants_purge(&self) -> bool {
        self.purging
    }

    /// What is to go from memory.
    pub fn to_purge(&self) -> Vec<(Space, u128)> {
        let marks = self.marks.iter().filter(|_| self.purging);
        marks.map(|(space, mark)| (*space, mark.below)).collect()
    }

    /// All of it is gone.
    pub fn purged(&mut self) {
        self.purging = false;
    }
}
