//! A read of a range of registers: planned while the journal is held, run without it.
//!
//! What must hold: while a plan lives it holds the files it reads from, and a segment whose file is held is not used again.

use std::sync::Arc;

use bytes::Bytes;

use super::location::Location;
use super::options::READ_BYTES_MAX;
use super::record::{self, Record, Taken};
use super::segment;
use crate::disk::DiskFile;
use crate::{Failure, Log, Slot};

/// How much is read at once: neighbours in a log are often neighbours in the file.
const WINDOW_BYTES: usize = 64 << 10;

/// How much is read for one register: as much as the system reads at least.
const SINGLE_BYTES: usize = 4 << 10;

/// A file that a plan needs.
#[derive(Debug)]
pub struct Source<F> {
    pub segment: u32,
    pub bytes: u32,
    pub file: Arc<F>,
}

/// A read that was planned and can be run at any time.
#[derive(Debug)]
pub struct Reading<F> {
    pub(super) log: Log,
    pub(super) registers: Vec<(Slot, Location)>,
    /// Ordered by segment.
    pub(super) sources: Vec<Source<F>>,
}

impl<F: DiskFile> Reading<F> {
    /// Reads what was planned, or less if it is large. Needs no lock.
    pub fn run(&self) -> Result<Vec<(Slot, Bytes)>, Failure> {
        let mut window = Window::for_registers(self.registers.len());
        let mut values = Vec::new();
        let mut ranges = Vec::with_capacity(self.registers.len());
        for &(slot, location) in &self.registers {
            let source = self
                .sources
                .binary_search_by_key(&location.segment(), |source| source.segment)
                .map(|index| &self.sources[index])
                .expect("a plan has the files of all its registers");
            let value = window.value(source, self.log, slot, location)?;
            if !ranges.is_empty() && values.len() + value.len() > READ_BYTES_MAX {
                break;
            }
            let start = values.len();
            values.extend_from_slice(value);
            ranges.push((slot, start..values.len()));
        }
        let values = Bytes::from(values);
        Ok(ranges.into_iter().map(|(slot, range)| (slot, values.slice(range))).collect())
    }
}

/// A part of a segment, read ahead.
pub struct Window {
    start: Location,
    bytes: Vec<u8>,
    /// How much is read at once.
    step: usize,
}

impl Window {
    /// For so many registers.
    pub fn for_registers(count: usize) -> Self {
        let step = if count > 1 { WINDOW_BYTES } else { SINGLE_BYTES };
        Self { start: Location::NONE, bytes: Vec::new(), step }
    }

    /// The value of a register, checked.
    pub fn value<F: DiskFile>(
        &mut self,
        source: &Source<F>,
        log: Log,
        slot: Slot,
        location: Location,
    ) -> Result<&[u8], Failure> {
        let mut wanted = self.step;
        if !self.holds(location, 1) {
            self.read(source, location, wanted)?;
        }
        let range = loop {
            let inside = (location.offset() - self.start.offset()) as usize;
            let mut rest = &self.bytes[inside..];
            match record::take(&mut rest) {
                Taken::Record(Record::Register { log: its_log, slot: its_slot, value, .. })
                    if (its_log, its_slot) == (log, slot) =>
                {
                    let end = self.bytes.len() - rest.len();
                    break end - value.len()..end;
                }
                // The window ends within the record: a larger one, unless the file itself ends there.
                Taken::Cut(needed) if !self.holds(location, needed) && !self.reaches_the_end(source) => {
                    wanted = wanted.max(needed);
                    self.read(source, location, wanted)?;
                }
                _ => return Err(damaged(location, log, slot)),
            }
        };
        Ok(&self.bytes[range])
    }

    fn holds(&self, location: Location, bytes: usize) -> bool {
        self.start.segment() == location.segment()
            && !self.bytes.is_empty()
            && location >= self.start
            && (location.offset() - self.start.offset()) as usize + bytes <= self.bytes.len()
    }

    fn reaches_the_end<F>(&self, source: &Source<F>) -> bool {
        self.start.offset() as usize + self.bytes.len() >= source.bytes as usize
    }

    fn read<F: DiskFile>(
        &mut self,
        source: &Source<F>,
        location: Location,
        wanted: usize,
    ) -> Result<(), Failure> {
        let rest = (source.bytes - location.offset()) as usize;
        self.start = location;
        self.bytes.resize(wanted.min(rest), 0);
        source.file.read_at(&mut self.bytes, location.offset().into()).map_err(|error| {
            Failure::Damaged(format!(
                "{} at byte {} cannot be read: {error}",
                segment::name(location.segment()),
                location.offset()
            ))
        })
    }
}

/// What a reader says who does not find the register it was sent to.
pub fn damaged(location: Location, log: Log, slot: Slot) -> Failure {
    Failure::Damaged(format!(
        "{} at byte {} does not hold {log} slot {slot} as it was written",
        segment::name(location.segment()),
        location.offset()
    ))
}
