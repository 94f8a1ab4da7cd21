//! Reads the little-endian numbers of a snapshot and verifies the checksum. The input may be truncated or
//! forged.

use std::hash::Hasher;
use std::io;

use siphasher::sip128::{Hasher128, SipHasher13};

use super::{CHECKSUM, COUNT_MAX, SnapshotError};
use crate::probe::Layout;

/// Bytes read and hashed at a time.
const CHUNK: usize = 16 << 10;

pub(crate) struct Reader<'a> {
    input: &'a mut dyn io::Read,
    hasher: SipHasher13,
    read: u64,
    /// Announced bytes of the body that are not read yet.
    left: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(input: &'a mut dyn io::Read) -> Self {
        Self { input, hasher: super::hasher(), read: 0, left: u64::MAX }
    }

    /// Announces the length of the body.
    pub(super) fn expect(&mut self, body: u64) {
        self.left = body;
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), SnapshotError> {
        let read = self.input.read_exact(bytes);
        self.read += bytes.len() as u64;
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => SnapshotError::WrongLength {
                expected: self.read.saturating_add(self.left.min(u64::MAX / 2)),
                found: self.read - bytes.len() as u64,
            },
            _ => SnapshotError::Unreadable(error.to_string()),
        })
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        self.hasher.write(&bytes);
        Ok(bytes)
    }

    /// Reads a number of eight bytes; `name` is for the error.
    pub(super) fn number(&mut self, name: &'static str) -> Result<u64, SnapshotError> {
        self.left = self.left.checked_sub(8).ok_or(SnapshotError::Invalid(name))?;
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a number of eight bytes that is at most `max`.
    pub(super) fn index(&mut self, name: &'static str, max: usize) -> Result<usize, SnapshotError> {
        let number = usize::try_from(self.number(name)?).map_err(|_| SnapshotError::Invalid(name))?;
        if number <= max { Ok(number) } else { Err(SnapshotError::Invalid(name)) }
    }

    /// Reads a counter.
    pub(super) fn count(&mut self, name: &'static str) -> Result<u64, SnapshotError> {
        let count = self.number(name)?;
        if count <= COUNT_MAX { Ok(count) } else { Err(SnapshotError::Invalid(name)) }
    }

    pub(super) fn layout(&mut self) -> Result<Layout, SnapshotError> {
        let (probes, bits) = (self.number("probes")?, self.number("bits")?);
        Layout::checked(probes, bits).ok_or(SnapshotError::Invalid("probes and bits"))
    }

    /// Whether that many words are announced. Call this before allocating memory for them.
    pub(super) fn announces(&self, words: usize) -> bool {
        (words as u64).checked_mul(8).is_some_and(|bytes| bytes <= self.left)
    }

    /// Reads that many words and passes each with its position.
    pub(super) fn words(
        &mut self,
        name: &'static str,
        count: usize,
        mut each: impl FnMut(usize, u64),
    ) -> Result<(), SnapshotError> {
        if !self.announces(count) {
            return Err(SnapshotError::Invalid(name));
        }
        let mut chunk = [0; CHUNK];
        let mut place = 0;
        while place < count {
            let bytes = &mut chunk[..8 * (count - place).min(CHUNK / 8)];
            self.fill(bytes)?;
            self.hasher.write(bytes);
            self.left -= bytes.len() as u64;
            for word in bytes.chunks_exact(8) {
                each(place, word.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte)));
                place += 1;
            }
        }
        Ok(())
    }

    /// Checks that the body is consumed and that the checksum matches.
    pub(super) fn end(mut self) -> Result<(), SnapshotError> {
        if self.left != 0 {
            return Err(SnapshotError::Invalid("bytes after the end"));
        }
        let expected = self.hasher.finish128().as_bytes();
        let mut sum = [0; CHECKSUM];
        self.fill(&mut sum)?;
        if sum == expected { Ok(()) } else { Err(SnapshotError::ChecksumMismatch) }
    }
}
