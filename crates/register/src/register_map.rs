//! Registers in memory: the state that the memory and the embedded engine share. No I/O.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{Error, Extent, LogId, LogKind, Slot, WriteResult};

/// The most bytes of values that one read returns, except that it always returns one register.
const READ_BYTES_MAX: usize = 4 << 20;

/// What a register or a trim point takes besides its value, about.
const OVERHEAD_BYTES: usize = 64;

/// How many registers of retired logs are removed at a time.
const PURGE_MAX: usize = 4096;

/// Write-once registers in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegisterMap {
    values: BTreeMap<(LogId, Slot), Bytes>,
    /// The trim points, and the highest slots ever written, of logs that are trimmed.
    trims: BTreeMap<LogId, Extent>,
    /// The logs with lower ids are retired.
    retired: BTreeMap<LogKind, u128>,
    /// There may be registers of retired logs in memory.
    purging: bool,
    bytes: usize,
}

impl RegisterMap {
    /// The memory that the registers take, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// What a write to a register would return; `None` if it is empty.
    pub fn find(&self, log: LogId, slot: Slot) -> Option<WriteResult> {
        match self.is_trimmed(log, slot) {
            true => Some(WriteResult::Trimmed),
            false => self.values.get(&(log, slot)).cloned().map(WriteResult::Taken),
        }
    }

    /// Writes a register if it is empty.
    pub fn write(&mut self, log: LogId, slot: Slot, value: &[u8]) -> WriteResult {
        self.write_with(log, slot, || Bytes::copy_from_slice(value))
    }

    /// As [`RegisterMap::write`], with a value that is only made if the register is empty.
    pub fn write_with(&mut self, log: LogId, slot: Slot, value: impl FnOnce() -> Bytes) -> WriteResult {
        self.purge();
        if let Some(result) = self.find(log, slot) {
            return result;
        }
        if log.kind.is_dense() && slot > Slot(1) && self.find(log, Slot(slot.0 - 1)).is_none() {
            return WriteResult::Gap;
        }
        self.restore(log, slot, value())
    }

    /// Writes a register if it is empty, in any order.
    pub fn restore(&mut self, log: LogId, slot: Slot, value: Bytes) -> WriteResult {
        if let Some(result) = self.find(log, slot) {
            return result;
        }
        self.bytes += value.len() + OVERHEAD_BYTES;
        self.values.insert((log, slot), value);
        WriteResult::Fresh
    }

    /// The registers of a log from a slot on, at most `limit`.
    pub fn read(&self, log: LogId, from: Slot, limit: usize) -> Result<Vec<(Slot, Bytes)>, Error> {
        if self.is_trimmed(log, from) {
            return Err(Error::Trimmed { log, through: self.extent(log).trimmed });
        }
        let mut bytes = 0;
        let mut found = Vec::new();
        for ((_, slot), value) in self.values.range((log, from)..=(log, Slot(u64::MAX))).take(limit) {
            bytes += value.len();
            if !found.is_empty() && bytes > READ_BYTES_MAX {
                break;
            }
            found.push((*slot, value.clone()));
        }
        Ok(found)
    }

    /// The range of a log.
    pub fn extent(&self, log: LogId) -> Extent {
        if self.is_retired(log) {
            return Extent::RETIRED;
        }
        let mut extent = self.trims.get(&log).copied().unwrap_or_default();
        let last = self.values.range((log, Slot::ZERO)..=(log, Slot(u64::MAX))).next_back();
        extent.last = last.map_or(extent.last, |((_, slot), _)| (*slot).max(extent.last));
        extent
    }

    /// Whether a slot is trimmed, or its log retired.
    pub fn is_trimmed(&self, log: LogId, slot: Slot) -> bool {
        self.is_retired(log) || self.trims.get(&log).is_some_and(|trim| slot <= trim.trimmed)
    }

    /// Trims a log.
    pub fn trim(&mut self, log: LogId, through: Slot) {
        let last = self.extent(log).last;
        self.restore_trim(log, through, last);
    }

    /// Trims a log whose highest slot ever written was at least `last`.
    pub fn restore_trim(&mut self, log: LogId, through: Slot, last: Slot) {
        self.purge();
        if self.is_retired(log) {
            return;
        }
        let trim = self.trims.entry(log).or_insert_with(|| {
            self.bytes += OVERHEAD_BYTES;
            Extent::default()
        });
        trim.trimmed = trim.trimmed.max(through);
        trim.last = trim.last.max(last);
        while let Some((&name, value)) = self.values.range((log, Slot::ZERO)..=(log, through)).next() {
            self.bytes -= value.len() + OVERHEAD_BYTES;
            self.values.remove(&name);
        }
    }

    /// Whether retiring below this id changes nothing.
    pub fn is_retired_below(&self, kind: LogKind, below: u128) -> bool {
        below <= self.retired.get(&kind).copied().unwrap_or(0)
    }

    /// Retires all logs of a kind below an id.
    pub fn retire(&mut self, kind: LogKind, below: u128) {
        if self.is_retired_below(kind, below) {
            return;
        }
        self.retired.insert(kind, below);
        self.purging = true;
        self.purge();
    }

    /// Removes some registers of retired logs. The marks already hide them, so that it need not be all at
    /// once.
    fn purge(&mut self) {
        if !self.purging {
            return;
        }
        for (&kind, &below) in &self.retired {
            let (first, end) = (LogId { kind, id: 0 }, LogId { kind, id: below });
            for _ in 0..PURGE_MAX {
                let register = self.values.range((first, Slot::ZERO)..(end, Slot::ZERO)).next();
                let Some((&name, value)) = register else { break };
                self.bytes -= value.len() + OVERHEAD_BYTES;
                self.values.remove(&name);
            }
            for _ in 0..PURGE_MAX {
                let Some((&log, _)) = self.trims.range(first..end).next() else { break };
                self.bytes -= OVERHEAD_BYTES;
                self.trims.remove(&log);
            }
        }
        let gone = |(&kind, &below): (&LogKind, &u128)| {
            let (first, end) = (LogId { kind, id: 0 }, LogId { kind, id: below });
            self.values.range((first, Slot::ZERO)..(end, Slot::ZERO)).next().is_none()
                && self.trims.range(first..end).next().is_none()
        };
        self.purging = !self.retired.iter().all(gone);
    }

    pub fn retired(&self) -> impl Iterator<Item = (LogKind, u128)> {
        self.retired.iter().map(|(kind, below)| (*kind, *below))
    }

    /// The trim points after this log, in order.
    pub fn trims_after(&self, after: Option<LogId>) -> impl Iterator<Item = (LogId, Extent)> {
        let after = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let trims = self.trims.range((after, std::ops::Bound::Unbounded));
        trims.map(|(log, extent)| (*log, *extent)).filter(|(log, _)| !self.is_retired(*log))
    }

    /// The registers after this one, in order.
    pub fn values_after(
        &self,
        after: Option<(LogId, Slot)>,
    ) -> impl Iterator<Item = ((LogId, Slot), &Bytes)> {
        let after = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let values = self.values.range((after, std::ops::Bound::Unbounded));
        values.map(|(name, value)| (*name, value)).filter(|((log, _), _)| !self.is_retired(*log))
    }

    fn is_retired(&self, log: LogId) -> bool {
        self.retired.get(&log.kind).is_some_and(|&below| log.id < below)
    }
}
