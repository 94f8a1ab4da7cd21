//! Stamps of one clock, one after the other over one connection: mostly only what changed since the last is sent.
//!
//! A difference: a byte 2, its number in the session (modulo 2^64, from 0), how many counters changed, and for each how many were passed over since
//! the last that changed, and by how much it rose. It can be read by whoever has read the one before, and by nobody else:
//! after a loss the reader says so, and is to be sent a whole one. Every [`WHOLE_EVERY`]th is whole anyway, and so is the first of a generation,
//! and one that is shorter so.

use crate::encoding::{DecodeError, Reader, WHOLE, put, read_whole};
use crate::parameters::ClockParams;
use crate::stamp::Stamp;

/// The first byte of a difference.
const DIFFERENCE: u8 = 2;

/// The first byte of a whole stamp of a session: its number follows, then a stamp.
const NUMBERED: u8 = 3;

/// So many are sent until a whole one is.
pub const WHOLE_EVERY: u64 = 64;

/// The end that writes.
#[derive(Debug, Default)]
pub struct DeltaEncoder {
    last: Option<Stamp>,
    next: u64,
}

impl DeltaEncoder {
    /// The bytes of the next stamp, appended. It must be of the same clock as those before, and later.
    pub fn write(&mut self, stamp: &Stamp, out: &mut Vec<u8>) {
        let number = self.next;
        self.next = number.wrapping_add(1);
        match self.last.as_ref().filter(|last| !number.is_multiple_of(WHOLE_EVERY) && follows(last, stamp)) {
            Some(last) => write_shorter(number, last, stamp, out),
            None => write_numbered(number, stamp, out),
        }
        match &mut self.last {
            Some(last) if last.counters.len() == stamp.counters.len() => {
                last.generation = stamp.generation;
                last.counters.copy_from_slice(&stamp.counters);
            }
            last => *last = Some(stamp.clone()),
        }
    }

    /// The next one is whole: for a reader that lost one.
    pub fn begin_again(&mut self) {
        self.last = None;
    }
}

/// Whether only some counters rose.
fn follows(last: &Stamp, stamp: &Stamp) -> bool {
    last.generation == stamp.generation
        && last.counters.len() == stamp.counters.len()
        && last.counters.iter().zip(&stamp.counters).all(|(last, now)| last <= now)
}

fn write_numbered(number: u64, stamp: &Stamp, out: &mut Vec<u8>) {
    out.push(NUMBERED);
    put(number, out);
    stamp.write(out);
}

/// The difference, unless so many counters rose that the whole is shorter.
fn write_shorter(number: u64, last: &Stamp, stamp: &Stamp, out: &mut Vec<u8>) {
    let begin = out.len();
    write_difference(number, last, stamp, out);
    let middle = out.len();
    // A whole one has at least a byte for each counter.
    if middle - begin > stamp.counters.len() {
        write_numbered(number, stamp, out);
        if out.len() - middle < middle - begin {
            out.drain(begin..middle);
        } else {
            out.truncate(middle);
        }
    }
}

fn write_difference(number: u64, last: &Stamp, stamp: &Stamp, out: &mut Vec<u8>) {
    let rises = || {
        let pairs = last.counters.iter().zip(&stamp.counters).enumerate();
        pairs.filter(|(_, (last, now))| now > last).map(|(at, (last, now))| (at, now - last))
    };
    out.push(DIFFERENCE);
    put(number, out);
    put(rises().count() as u64, out);
    let mut next = 0;
    for (at, rise) in rises() {
        put((at - next) as u64, out);
        put(rise.into(), out);
        next = at + 1;
    }
}

/// Why bytes of a session were not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeltaError {
    /// One before it is missing: ask for a whole one.
    Missing,
    /// They are not what is expected here.
    Decode(DecodeError),
}

impl std::fmt::Display for DeltaError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => out.write_str("a stamp before this one is missing: ask for a whole one"),
            Self::Decode(why) => why.fmt(out),
        }
    }
}

impl std::error::Error for DeltaError {}

impl From<DecodeError> for DeltaError {
    fn from(malformed: DecodeError) -> Self {
        Self::Decode(malformed)
    }
}

/// The end that reads.
#[derive(Debug)]
pub struct DeltaDecoder {
    params: ClockParams,
    /// The stamp that was read last, and the number of the next.
    last: Option<(Stamp, u64)>,
}

impl DeltaDecoder {
    /// Of stamps of clocks of this params.
    pub fn new(params: ClockParams) -> Self {
        Self { params, last: None }
    }

    /// The stamp that these bytes are. What is refused leaves everything as it was.
    pub fn read(&mut self, bytes: &[u8]) -> Result<&Stamp, DeltaError> {
        let mut input = Reader(bytes);
        let (stamp, number) = match input.byte()? {
            NUMBERED => {
                let number = input.number()?;
                if input.byte()? != WHOLE {
                    return Err(DecodeError("another kind of bytes, or a later version").into());
                }
                (read_whole(&mut input, &self.params)?, number)
            }
            DIFFERENCE => {
                let number = input.number()?;
                match &self.last {
                    Some((last, next)) if *next == number => {
                        (read_difference(&mut input, last, self.params.limit)?, number)
                    }
                    _ => return Err(DeltaError::Missing),
                }
            }
            _ => return Err(DecodeError("another kind of bytes, or a later version").into()),
        };
        input.finish()?;
        Ok(&self.last.insert((stamp, number.wrapping_add(1))).0)
    }
}

fn read_difference(input: &mut Reader<'_>, last: &Stamp, limit: u32) -> Result<Stamp, DecodeError> {
    let mut stamp = last.clone();
    let count = input.number()?;
    if count > stamp.counters.len() as u64 {
        return Err(DecodeError("more changes than counters"));
    }
    let mut next = 0_usize;
    for _ in 0..count {
        let passed =
            usize::try_from(input.number()?).map_err(|_| DecodeError("a counter beyond the last"))?;
        let at = next.checked_add(passed).ok_or(DecodeError("a counter beyond the last"))?;
        let counter = stamp.counters.get_mut(at).ok_or(DecodeError("a counter beyond the last"))?;
        let rise = u32::try_from(input.number()?).ok().filter(|rise| *rise > 0);
        let risen = rise.and_then(|rise| counter.checked_add(rise)).filter(|risen| *risen <= limit);
        *counter = risen.ok_or(DecodeError("a rise of nothing, or above the limit"))?;
        next = at + 1;
    }
    Ok(stamp)
}
