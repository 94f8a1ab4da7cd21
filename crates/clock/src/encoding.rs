//! Stamps as bytes.
//!
//! A stamp: a byte 1, the number of counters, the generation, the smallest counter, then each counter less that one. All numbers in seven
//! bits a byte, lowest first, with a bit on all but the last, and as few bytes as they need: a stamp has one spelling.
//!
//! What must hold: bytes of a stranger are read or refused, never with a panic, and never with more memory than the counters of the params that is
//! expected.

use crate::generation::Generation;
use crate::parameters::ClockParams;
use crate::stamp::Stamp;

/// The first byte of a stamp.
pub(crate) const WHOLE: u8 = 1;

/// The bytes are not what is expected here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeError(pub(crate) &'static str);

impl std::fmt::Display for DecodeError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "not the bytes that are expected here: {}", self.0)
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

/// Takes numbers from the front of bytes.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.0.split_first().ok_or(DecodeError("it ends too early"))?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn bytes<const MANY: usize>(&mut self) -> Result<[u8; MANY], DecodeError> {
        let (first, rest) = self.0.split_first_chunk().ok_or(DecodeError("it ends too early"))?;
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
                return if byte == 0 && shift > 0 {
                    Err(DecodeError("a number with needless bytes"))
                } else {
                    Ok(number)
                };
            }
        }
        Err(DecodeError("a number without an end"))
    }

    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError("bytes are left over")) }
    }
}

impl Stamp {
    /// Appends the stamp as bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let base = self.counters.iter().copied().min().unwrap_or(0);
        out.push(WHOLE);
        put(self.counters.len() as u64, out);
        put(self.generation.0, out);
        put(base.into(), out);
        self.counters.iter().for_each(|counter| put((counter - base).into(), out));
    }

    /// A stamp of a clock of this params, from all of these bytes.
    pub fn read(bytes: &[u8], params: &ClockParams) -> Result<Self, DecodeError> {
        let mut input = Reader(bytes);
        if input.byte()? != WHOLE {
            return Err(DecodeError("another kind of bytes, or a later version"));
        }
        let stamp = read_whole(&mut input, params)?;
        input.finish()?;
        Ok(stamp)
    }
}

/// A stamp, after its first byte.
pub(crate) fn read_whole(input: &mut Reader<'_>, params: &ClockParams) -> Result<Stamp, DecodeError> {
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
        return Err(DecodeError("a smallest counter that is not there"));
    }
    Ok(Stamp { generation, counters: counters.into() })
}
