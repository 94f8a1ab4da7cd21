//! Log entries: what a partition's log holds in one slot.
//!
//! An entry holds the time of its decisions and, for each operation, the changes and the result. Applying it
//! needs no settings and no clock. A change that depends on the old content of its cell needs that content,
//! so that an entry is as large as the operations in it, not as the cells ([`complete`](crate::complete)).
//!
//! Layout: version (1), milliseconds (varint), then items until the end. Each operation: flags (1), the id if
//! there is one, changes, result, the era (varint) if a filter records the id, the generation (varint) if the
//! id index does, the lease in ns (varint) if a session does, and last the new contents of the cells if they
//! follow neither from changes and result nor from changes and old contents: counters with an expiry time.
//! Steps of branches have flags of their own.

use std::time::Duration;

use forgetful_filter::Timestamp;

use crate::branch::BranchLogItem;
use crate::codec::{DecodeError, Reader, Write};
use crate::generation::Generation;
use crate::id::{Format, OpId};
use crate::operation::Operation;
use crate::operation_result::OperationResult;
use crate::partition::LogPosition;
use crate::value::Value;

const VERSION: u8 = 2;

/// The decision on an operation: its result, and the location of its dedup record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationDecision {
    pub answer: OperationResult,
    pub memory: DedupLocation,
    /// The new contents of the cells, one for each change; `None` where it follows from the change and the
    /// result. A decision read from an entry may lack all of them: see [`complete`](crate::complete).
    pub effects: Option<Box<[Option<Value>]>>,
}

/// The location of the dedup record of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DedupLocation {
    /// Nowhere: the operation has no id.
    None,
    /// Into the filter only: the table is probabilistic.
    Filter { era: u32 },
    /// Into the filter and the id index.
    Index {
        era: u32,
        /// The record is kept until this generation expires.
        generation: Generation,
    },
    /// Into the client's session, until the lease ends.
    Session {
        /// How long the client may be idle.
        lease: Duration,
    },
}

/// In place of a value: it follows from the change and the result. No value begins with this byte.
const FOLLOWS: u8 = 0;

const HAS_ID: u8 = 1;
const MEMORY_SHIFT: u8 = 1;
const MEMORY_MASK: u8 = 3;
const HAS_EFFECTS: u8 = 1 << 3;
const FLAGS: u8 = HAS_ID | MEMORY_MASK << MEMORY_SHIFT | HAS_EFFECTS;
/// In place of an operation's flags: a step of a branch, with its kind in the bits below. A program that does
/// not know branches rejects it as unknown flags.
const BRANCH: u8 = 1 << 4;

#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are operations, and boxing them costs more")]
pub enum LogItem {
    Operation(Operation, OperationDecision),
    Branch(BranchLogItem),
}

pub fn begin(step: LogPosition, out: &mut Vec<u8>) {
    out.put_u8(VERSION);
    out.put_varint(millis(step.time));
}

pub fn push(operation: &Operation, decision: &OperationDecision, out: &mut Vec<u8>) {
    let memory = match decision.memory {
        DedupLocation::None => 0,
        DedupLocation::Filter { .. } => 1,
        DedupLocation::Index { .. } => 2,
        DedupLocation::Session { .. } => 3,
    };
    let id = if operation.id().is_some() { HAS_ID } else { 0 };
    // Contents that can be recomputed from the old ones are left out: they may be large.
    let effects = decision.effects.as_ref().filter(|_| !operation.keeps());
    let has_effects = if effects.is_some() { HAS_EFFECTS } else { 0 };
    out.put_u8(memory << MEMORY_SHIFT | id | has_effects);
    if let Some(id) = operation.id() {
        id.encode(out);
    }
    operation.encode_changes(out);
    decision.answer.encode(out);
    match decision.memory {
        DedupLocation::None => {}
        DedupLocation::Filter { era } => out.put_varint(u64::from(era)),
        DedupLocation::Index { era, generation } => {
            out.put_varint(u64::from(era));
            out.put_varint(generation.0);
        }
        DedupLocation::Session { lease } => out.put_duration(lease),
    }
    for effect in effects.into_iter().flatten() {
        match effect {
            Some(value) => value.encode(out),
            None => out.put_u8(FOLLOWS),
        }
    }
}

pub fn push_branch(step: &BranchLogItem, out: &mut Vec<u8>) {
    out.put_u8(BRANCH | step.kind());
    step.encode(out);
}

#[derive(Debug)]
pub struct Entry<'a> {
    slot: u64,
    millis: u64,
    input: Reader<'a>,
}

impl<'a> Entry<'a> {
    /// Decodes the head of the entry in this slot.
    pub fn read(slot: u64, bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        if input.u8()? != VERSION {
            return Err(DecodeError("an entry of an unknown version"));
        }
        let time = input.varint()?;
        // The results and the log position must have the same time.
        if time != millis(Timestamp::from_millis(time)) {
            return Err(DecodeError("a time out of range"));
        }
        Ok(Self { slot, millis: time, input })
    }

    pub fn step(&self) -> LogPosition {
        LogPosition { slot: self.slot, time: Timestamp::from_millis(self.millis) }
    }

    fn item(&mut self) -> Result<LogItem, DecodeError> {
        let input = &mut self.input;
        let flags = input.u8()?;
        if flags & BRANCH != 0 {
            return Ok(LogItem::Branch(BranchLogItem::decode(flags & !BRANCH, input)?));
        }
        let id = if flags & HAS_ID != 0 { Some(OpId::decode(input)?) } else { None };
        let operation = Operation::decode(id, input)?;
        let answer = OperationResult::decode(self.slot, self.millis, input)?;
        if answer.values.as_slice().len() != operation.len() {
            return Err(DecodeError("a result of another operation"));
        }
        if flags & !FLAGS != 0 {
            return Err(DecodeError("unknown flags"));
        }
        let memory = match flags >> MEMORY_SHIFT & MEMORY_MASK {
            0 => DedupLocation::None,
            1 => DedupLocation::Filter { era: input.varint32()? },
            2 => DedupLocation::Index { era: input.varint32()?, generation: Generation(input.varint()?) },
            _ => DedupLocation::Session { lease: input.duration()? },
        };
        match (operation.id(), memory) {
            (None, DedupLocation::None) | (Some(OpId::Sequenced { .. }), DedupLocation::Session { .. }) => {}
            (Some(id), DedupLocation::Filter { .. } | DedupLocation::Index { .. })
                if id.format() != Format::Sequenced => {}
            _ => return Err(DecodeError("a dedup location that does not match the id")),
        }
        let effects = match flags & HAS_EFFECTS {
            0 => None,
            _ if operation.keeps() => return Err(DecodeError("contents that entries leave out")),
            _ => Some(effects(operation.len(), input)?),
        };
        Ok(LogItem::Operation(operation, OperationDecision { answer, memory, effects }))
    }
}

impl Iterator for Entry<'_> {
    type Item = Result<LogItem, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.input.rest().is_empty()).then(|| self.item())
    }
}

fn effects(count: usize, input: &mut Reader<'_>) -> Result<Box<[Option<Value>]>, DecodeError> {
    let mut effects = Vec::with_capacity(count);
    for _ in 0..count {
        effects.push(match input.rest().first() {
            Some(&FOLLOWS) => {
                input.u8()?;
                None
            }
            _ => Some(Value::decode(input)?),
        });
    }
    Ok(effects.into())
}

/// A time in whole milliseconds, as in entries.
pub(crate) fn millis(moment: Timestamp) -> u64 {
    moment.as_nanos() / 1_000_000
}
