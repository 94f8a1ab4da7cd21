//! Binary encoding of stamps.
//!
//! A stamp is a byte 1, the number of counters, the generation, the smallest counter, then each counter minus
//! the smallest. Numbers are LEB128 varints in their shortest form, so a stamp has exactly one encoding.
//!
//! Invariant: untrusted bytes are decoded or rejected without a panic, and allocate no more memory than the
//! expected counters.

use crate::generation::Generation;
use crate::parameters::ClockParams;
use crate::stamp::Stamp;

/// First byte of a stamp.
const WHOLE: u8 = 1;

/// The bytes are not a valid encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeError(pub(crate) &'static str);

impl DecodeError {
    pub(crate) const KIND: Self = Self("unknown kind or version");
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "invalid encoding: {}", self.0)
    }
}

impl std::error::Error for DecodeError {}

pub(crate) fn put(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads numbers from the front of a byte slice.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.0.split_first().ok_or(DecodeError("truncated"))?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn number(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(DecodeError("a number of more than 64 bits"));
            }
            number |= bits << shift;
            if byte < 0x80 {
                let shortest = byte != 0 || shift == 0;
                return shortest.then_some(number).ok_or(DecodeError("a number is not in its shortest form"));
            }
        }
        Err(DecodeError("a number of more than 64 bits"))
    }

    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError("trailing bytes")) }
    }
}

impl Stamp {
    /// Appends the encoding of the stamp.
    pub fn write(&self, out: &mut Vec<u8>) {
        let base = self.counters.iter().copied().min().unwrap_or(0);
        out.push(WHOLE);
        put(self.counters.len() as u64, out);
        put(self.generation.0, out);
        put(base.into(), out);
        self.counters.iter().for_each(|counter| put((counter - base).into(), out));
    }

    /// Decodes a stamp of a clock with these parameters. All bytes must be used.
    pub fn read(bytes: &[u8], params: &ClockParams) -> Result<Self, DecodeError> {
        let mut input = Reader(bytes);
        let stamp = read_whole(&mut input, params)?;
        input.finish()?;
        Ok(stamp)
    }
}

/// Decodes a full stamp.
pub(crate) fn read_whole(input: &mut Reader<'_>, params: &ClockParams) -> Result<Stamp, DecodeError> {
    if input.byte()? != WHOLE {
        return Err(DecodeError::KIND);
    }
    if input.number()? != params.counters as u64 {
        return Err(DecodeError("another number of counters"));
    }
    let generation = Generation(input.number()?);
    let base = input.number()?;
    let mut counters = Vec::with_capacity(params.counters);
    let mut least = u64::MAX;
    for _ in 0..params.counters {
        let above = input.number()?;
        least = least.min(above);
        let counter = base.checked_add(above).and_then(|counter| u32::try_from(counter).ok());
        let counter = counter.filter(|counter| *counter <= params.limit);
        counters.push(counter.ok_or(DecodeError("a counter above the limit"))?);
    }
    if least != 0 {
        return Err(DecodeError("the smallest counter does not occur"));
    }
    Ok(Stamp { generation, counters: counters.into() })
}
