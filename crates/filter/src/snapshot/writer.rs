//! Sinks for the numbers of a snapshot: one computes the length, one writes bytes and their checksum.

use std::hash::Hasher;
use std::io;

use siphasher::sip128::{Hasher128, SipHasher13};

use super::COUNT_MAX;

/// Bytes hashed and written at a time.
const CHUNK: usize = 16 << 10;

/// Takes the numbers of a body, each as eight bytes.
pub(crate) trait Sink {
    fn number(&mut self, number: u64) -> io::Result<()>;

    /// Takes `count` words.
    fn words(&mut self, count: usize, words: impl Iterator<Item = u64>) -> io::Result<()>;

    fn numbers(&mut self, numbers: &[u64]) -> io::Result<()> {
        numbers.iter().try_for_each(|number| self.number(*number))
    }

    /// Takes counters, limited to the maximum that the reader accepts.
    fn counts(&mut self, counts: &[u64]) -> io::Result<()> {
        counts.iter().try_for_each(|count| self.number((*count).min(COUNT_MAX)))
    }
}

/// Counts bytes.
#[derive(Default)]
pub(super) struct ByteCounter(pub u64);

impl Sink for ByteCounter {
    fn number(&mut self, _: u64) -> io::Result<()> {
        self.0 += 8;
        Ok(())
    }

    fn words(&mut self, count: usize, _: impl Iterator<Item = u64>) -> io::Result<()> {
        self.0 += 8 * count as u64;
        Ok(())
    }
}

/// Writes bytes and computes their checksum.
pub(super) struct Writer<'a> {
    out: &'a mut dyn io::Write,
    hasher: SipHasher13,
    chunk: Vec<u8>,
    written: u64,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut dyn io::Write) -> Self {
        Self { out, hasher: super::hasher(), chunk: Vec::with_capacity(CHUNK), written: 0 }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.chunk.len() + bytes.len() > CHUNK {
            self.pass_on()?;
        }
        self.chunk.extend_from_slice(bytes);
        self.written += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    fn pass_on(&mut self) -> io::Result<()> {
        self.hasher.write(&self.chunk);
        self.out.write_all(&self.chunk)?;
        self.chunk.clear();
        Ok(())
    }

    /// Writes the checksum of everything before.
    pub(super) fn seal(mut self) -> io::Result<()> {
        self.pass_on()?;
        self.out.write_all(&self.hasher.finish128().as_bytes())
    }
}

impl Sink for Writer<'_> {
    fn number(&mut self, number: u64) -> io::Result<()> {
        self.bytes(&number.to_le_bytes())
    }

    fn words(&mut self, _: usize, mut words: impl Iterator<Item = u64>) -> io::Result<()> {
        words.try_for_each(|word| self.number(word))
    }
}
