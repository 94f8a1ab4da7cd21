//! Delta encoding of successive stamps of one clock over one connection.
//!
//! A delta is a byte 2, its sequence number (modulo 2^64, from 0), the number of changed counters, and for
//! each the counters skipped since the last changed one and the increment. A decoder needs the previous
//! stamp; after a loss it returns [`DeltaError::Missing`], and the sender must send a full stamp. Every
//! [`WHOLE_EVERY`]th stamp is full, and so are the first one of a generation and one whose full encoding is
//! shorter.

use crate::encoding::{DecodeError, Reader, put, read_whole};
use crate::parameters::ClockParams;
use crate::stamp::Stamp;

/// First byte of a delta.
const DIFFERENCE: u8 = 2;

/// First byte of a full stamp in a session; its sequence number and the stamp follow.
const NUMBERED: u8 = 3;

/// Interval of full stamps.
pub const WHOLE_EVERY: u64 = 64;

/// The sending side of a session.
#[derive(Debug, Default)]
pub struct DeltaEncoder {
    last: Option<Stamp>,
    next: u64,
}

impl DeltaEncoder {
    /// Appends the encoding of the next stamp. It must be a later stamp of the same clock.
    pub fn write(&mut self, stamp: &Stamp, out: &mut Vec<u8>) {
        let number = self.next;
        self.next = number.wrapping_add(1);
        match self.last.as_ref().filter(|last| !number.is_multiple_of(WHOLE_EVERY) && follows(last, stamp)) {
            Some(last) => write_shorter(number, last, stamp, out),
            None => write_numbered(number, stamp, out),
        }
        match &mut self.last {
            // Reuses the allocation.
            Some(last) if last.counters.len() == stamp.counters.len() => {
                last.generation = stamp.generation;
                last.counters.copy_from_slice(&stamp.counters);
            }
            last => *last = Some(stamp.clone()),
        }
    }

    /// Sends a full stamp next, for a receiver that lost one.
    pub fn begin_again(&mut self) {
        self.last = None;
    }
}

/// Whether `stamp` can be sent as a delta to `last`.
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

/// Writes the delta, or the full stamp if that is shorter.
fn write_shorter(number: u64, last: &Stamp, stamp: &Stamp, out: &mut Vec<u8>) {
    let begin = out.len();
    write_difference(number, last, stamp, out);
    let middle = out.len();
    // A full stamp has at least one byte per counter.
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

/// Why a message of a session was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeltaError {
    /// An earlier message is missing: request a full stamp.
    Missing,
    /// The bytes are not a valid encoding.
    Decode(DecodeError),
}

impl std::fmt::Display for DeltaError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => out.write_str("an earlier stamp is missing; request a full one"),
            Self::Decode(why) => why.fmt(out),
        }
    }
}

impl std::error::Error for DeltaError {}

impl From<DecodeError> for DeltaError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

/// The receiving side of a session.
#[derive(Debug)]
pub struct DeltaDecoder {
    params: ClockParams,
    /// The last stamp, and the next sequence number.
    last: Option<(Stamp, u64)>,
}

impl DeltaDecoder {
    /// A decoder for stamps of clocks with these parameters.
    pub fn new(params: ClockParams) -> Self {
        Self { params, last: None }
    }

    /// Decodes the next stamp. An error leaves the decoder unchanged.
    pub fn read(&mut self, bytes: &[u8]) -> Result<&Stamp, DeltaError> {
        let mut input = Reader(bytes);
        let (stamp, number) = match input.byte()? {
            NUMBERED => {
                let number = input.number()?;
                (read_whole(&mut input, &self.params)?, number)
            }
            DIFFERENCE => {
                let number = input.number()?;
                let last = self.last.as_ref().filter(|(_, next)| *next == number);
                let (last, _) = last.ok_or(DeltaError::Missing)?;
                (read_difference(&mut input, last, self.params.limit)?, number)
            }
            _ => return Err(DecodeError::KIND.into()),
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
    let mut counters = stamp.counters.iter_mut();
    for _ in 0..count {
        let skipped = usize::try_from(input.number()?).unwrap_or(usize::MAX);
        let counter = counters.nth(skipped).ok_or(DecodeError("a counter beyond the last"))?;
        let rise = u32::try_from(input.number()?).ok().filter(|rise| *rise > 0);
        let risen = rise.and_then(|rise| counter.checked_add(rise)).filter(|risen| *risen <= limit);
        *counter = risen.ok_or(DecodeError("an increment of zero, or above the limit"))?;
    }
    Ok(stamp)
}
