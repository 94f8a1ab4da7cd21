//! Reads the durable entries of a wal in the order in which they were appended.
//!
//! A reader holds the files it reads, and a segment whose file is held is not reused.

use std::sync::Arc;

use crate::disk::DiskFile;
use crate::error::Error;
use crate::frame::{self, HEADER_BYTES};
use crate::location::Location;
use crate::record::{self, Record};
use crate::segment::{self, BLOCK_BYTES};
use crate::{LogId, Slot};

/// A segment that is read.
#[derive(Debug)]
pub struct SegmentHandle<F> {
    pub number: u32,
    /// Its frames end here or before.
    pub end: u32,
    pub file: Arc<F>,
}

/// The durable entries of a wal at one instant.
#[derive(Debug)]
pub struct Reader<F> {
    pub(crate) identity: u64,
    pub(crate) segments: Vec<SegmentHandle<F>>,
    /// The trim points, by log.
    pub(crate) trimmed: Vec<Slot>,
}

impl<F: DiskFile> Reader<F> {
    /// Visits every entry that is not trimmed. An error of `visit` ends the reading.
    pub fn for_each<E: From<Error>>(
        &self,
        mut visit: impl FnMut(LogId, Slot, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.for_each_at(|_, log, slot, entry| visit(log, slot, entry))
    }

    /// As [`Reader::for_each`], with the position of every entry, for error messages.
    pub fn for_each_at<E: From<Error>>(
        &self,
        mut visit: impl FnMut(Location, LogId, Slot, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut bytes = Vec::new();
        for segment in &self.segments {
            let mut offset = BLOCK_BYTES;
            while offset + BLOCK_BYTES <= segment.end {
                let mut rest = self.frame(segment, offset, &mut bytes)?;
                let whole = (HEADER_BYTES + rest.len()) as u32;
                let next = offset + frame::align(whole);
                while !rest.is_empty() {
                    let at = Location::new(segment.number, offset + whole - rest.len() as u32);
                    let record = record::take(&mut rest).ok_or_else(|| damaged(segment.number, offset))?;
                    let Record::Entry { log, slot, entry, .. } = record else { continue };
                    let log = log.log_id().ok_or_else(|| damaged(segment.number, offset))?;
                    if self.trimmed.get(log.index()).is_none_or(|trimmed| slot > *trimmed) {
                        visit(at, log, slot, entry)?;
                    }
                }
                offset = next;
            }
        }
        Ok(())
    }

    /// The payload of the frame at this offset.
    fn frame<'a>(
        &self,
        segment: &SegmentHandle<F>,
        offset: u32,
        bytes: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Error> {
        let read = |bytes: &mut [u8], offset: u32| {
            segment.file.read_at(bytes, offset.into()).map_err(|error| {
                let name = segment::name(segment.number);
                Error::Damaged(format!("{name} at byte {offset} cannot be read: {error}"))
            })
        };
        bytes.resize(BLOCK_BYTES as usize, 0);
        read(bytes, offset)?;
        let payload = frame::payload_bytes(bytes, segment.number);
        let whole = payload.and_then(|payload| payload.checked_add(HEADER_BYTES as u32));
        let whole = whole.filter(|whole| *whole <= segment.end - offset);
        let whole = whole.ok_or_else(|| damaged(segment.number, offset))?;
        if whole > BLOCK_BYTES {
            bytes.resize(whole as usize, 0);
            read(&mut bytes[BLOCK_BYTES as usize..], offset + BLOCK_BYTES)?;
        }
        let found = frame::find(bytes, segment.number, self.identity);
        Ok(found.map_err(|_| damaged(segment.number, offset))?.payload)
    }
}

fn damaged(segment: u32, offset: u32) -> Error {
    let name = segment::name(segment);
    Error::Damaged(format!("{name} at byte {offset} does not hold the frame that was written"))
}
