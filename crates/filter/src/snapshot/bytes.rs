//! Reading little-endian numbers from bytes that may end too soon.

use super::SnapshotError;

pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number of eight bytes; the error names it.
    pub(super) fn number(&mut self, name: &'static str) -> Result<u64, SnapshotError> {
        self.u64().ok_or(SnapshotError::Invalid(name))
    }

    /// A number of eight bytes that is at most `max`.
    pub(super) fn index(&mut self, name: &'static str, max: usize) -> Result<usize, SnapshotError> {
        let number = usize::try_from(self.number(name)?).map_err(|_| SnapshotError::Invalid(name))?;
        if number <= max { Ok(number) } else { Err(SnapshotError::Invalid(name)) }
    }

    /// A count of things that happened. No real one is near the bound, and a forged one overflows nothing.
    pub(super) fn count(&mut self, name: &'static str) -> Result<u64, SnapshotError> {
        const MAX: u64 = 1 << 48;
        if let count @ 0..=MAX = self.number(name)? { Ok(count) } else { Err(SnapshotError::Invalid(name)) }
    }

    /// That many words; checked against what is left before anything is built from them.
    pub(super) fn words(&mut self, count: usize) -> Option<impl Iterator<Item = u64> + use<'a>> {
        let bytes = self.take(count.checked_mul(8)?)?;
        Some(bytes.chunks_exact(8).map(|word| word.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte))))
    }

    /// Nothing may be left.
    pub(super) fn end(&self) -> Result<(), SnapshotError> {
        if self.0.is_empty() { Ok(()) } else { Err(SnapshotError::Invalid("bytes after the end")) }
    }
}
