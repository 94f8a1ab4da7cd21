//! The state of every log: its last slot and its trim point. Nothing is kept per entry.

use crate::location::FrameNumber;
use crate::{Extent, LogId, Slot};

/// The logs of a wal, by id.
#[derive(Debug, Default)]
pub struct LogTable {
    logs: Vec<Option<LogState>>,
    count: usize,
    /// The number of the batch that is being checked.
    batch: u64,
}

/// The state of a log. Some of it is ahead of the disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogState {
    /// The last slot appended.
    pub last: Slot,
    /// The last slot that is durable.
    pub durable: Slot,
    /// The trim point that is durable.
    pub trimmed: Slot,
    /// The trim point appended last, and the frame that contains it.
    pub trimming: Slot,
    pub trimming_in: FrameNumber,
    /// The last slot of the log in a batch that was checked, and the number of that batch.
    checked: (u64, Slot),
}

impl LogState {
    /// The slot of the next entry.
    pub fn next(&self) -> Slot {
        self.last.max(self.trimming).next()
    }
}

impl LogTable {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn find(&self, log: LogId) -> Option<&LogState> {
        self.logs.get(log.index())?.as_ref()
    }

    /// The state of a log, which is added if it is new.
    pub fn entry(&mut self, log: LogId) -> &mut LogState {
        if log.index() >= self.logs.len() {
            self.logs.resize(log.index() + 1, None);
        }
        let state = &mut self.logs[log.index()];
        self.count += usize::from(state.is_none());
        state.get_or_insert_default()
    }

    /// Begins to check a batch.
    pub fn begin_batch(&mut self) {
        self.batch += 1;
    }

    /// The slot at which the next entry of the log must be in the batch that is being checked.
    pub fn next_in_batch(&self, log: LogId) -> Slot {
        match self.find(log) {
            Some(state) if state.checked.0 == self.batch => state.checked.1.next(),
            Some(state) => state.next(),
            None => Slot(1),
        }
    }

    /// Notes an entry of the batch that is being checked. The log is added if it is new.
    pub fn check(&mut self, log: LogId, slot: Slot) {
        let batch = self.batch;
        self.entry(log).checked = (batch, slot);
    }

    pub fn iter(&self) -> impl Iterator<Item = (LogId, &LogState)> {
        let numbered = self.logs.iter().enumerate();
        numbered.filter_map(|(id, state)| Some((LogId(id as u16), state.as_ref()?)))
    }

    /// The last slot of every log, by id.
    pub fn lasts(&self) -> Vec<Slot> {
        self.logs.iter().map(|state| state.as_ref().map_or(Slot::ZERO, |state| state.last)).collect()
    }

    /// The durable trim point of every log, by id.
    pub fn trim_points(&self) -> Vec<Slot> {
        self.logs.iter().map(|state| state.as_ref().map_or(Slot::ZERO, |state| state.trimmed)).collect()
    }

    /// Whether every log is trimmed, durably, up to these slots.
    pub fn trimmed_past(&self, lasts: &[Slot]) -> bool {
        lasts.iter().zip(&self.logs).all(|(last, state)| state.is_none_or(|state| state.trimmed >= *last))
    }

    pub fn extent(&self, log: LogId) -> Extent {
        let extent = |state: &LogState| Extent { trimmed: state.trimmed, last: state.durable };
        self.find(log).map_or_else(Extent::default, extent)
    }
}
