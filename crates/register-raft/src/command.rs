//! What an entry of the log asks for, and what became of it.
//!
//! These are bytes on disk and on the wire: a change of them is a new version of both.

use bytes::Bytes;
use jeton_register::{Batch, Blob, Error, LogId, LogKind, Slot, WriteResult};
use serde::{Deserialize, Serialize};

use crate::settings::{BATCH_BYTES_MAX, BATCH_WRITES_MAX, ROW_BYTES_MAX, VALUE_BYTES_MAX};

/// What a command takes beside its values, about, in bytes.
pub const COMMAND_OVERHEAD: usize = 64;

/// A log's name, as it travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(u8, u128)", into = "(u8, u128)")]
pub struct LogName(pub LogId);

impl From<LogName> for (u8, u128) {
    fn from(name: LogName) -> Self {
        (name.0.kind as u8, name.0.id)
    }
}

impl TryFrom<(u8, u128)> for LogName {
    type Error = String;

    fn try_from((space, id): (u8, u128)) -> Result<Self, String> {
        let space = LogKind::from_number(space).ok_or_else(|| format!("there is no space {space}"))?;
        Ok(Self(LogId { kind: space, id }))
    }
}

/// One write to one register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    pub log: LogName,
    pub slot: u64,
    pub value: Bytes,
}

/// A change that somebody asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    Write(Vec<Write>),
    Trim {
        log: LogName,
        through: u64,
    },
    /// The id is the first that stays.
    Retire {
        from: LogName,
    },
    PutRow {
        name: String,
        slot: u64,
        bytes: Bytes,
    },
}

impl Command {
    /// A batch, if it is within the limits.
    pub fn write(batch: &Batch) -> Result<Self, Error> {
        if batch.len() > BATCH_WRITES_MAX || batch.value_bytes() > BATCH_BYTES_MAX {
            return Err(Error::TooLarge(format!(
                "a batch of {} writes and {} bytes; at most {BATCH_WRITES_MAX} and {BATCH_BYTES_MAX}",
                batch.len(),
                batch.value_bytes()
            )));
        }
        let write = |(log, slot, value): (LogId, Slot, &[u8])| {
            if value.len() > VALUE_BYTES_MAX {
                let len = value.len();
                return Err(Error::TooLarge(format!("a value of {len} bytes; at most {VALUE_BYTES_MAX}")));
            }
            if slot > Slot::MAX {
                return Err(Error::Invalid(format!("slot {slot} is beyond the last")));
            }
            Ok(Write { log: LogName(log), slot: slot.0, value: Bytes::copy_from_slice(value) })
        };
        Ok(Self::Write(batch.iter().map(write).collect::<Result<_, _>>()?))
    }

    /// A row, if it is within the limits.
    pub fn put_blob(name: &str, row: Blob) -> Result<Self, Error> {
        jeton_register::check_blob_name(name)?;
        if row.bytes.len() > ROW_BYTES_MAX {
            let len = row.bytes.len();
            return Err(Error::TooLarge(format!("a row of {len} bytes; at most {ROW_BYTES_MAX}")));
        }
        Ok(Self::PutRow { name: name.into(), slot: row.version, bytes: row.bytes })
    }

    /// What it takes in the log, about, in bytes.
    pub fn cost(&self) -> usize {
        match self {
            Self::Write(writes) => {
                let bytes: usize = writes.iter().map(|write| write.value.len()).sum();
                write_cost(writes.len(), bytes)
            }
            Self::PutRow { name, bytes, .. } => write_cost(1, name.len() + bytes.len()),
            Self::Trim { .. } | Self::Retire { .. } => COMMAND_OVERHEAD,
        }
    }

    /// Whether it makes the state larger: such are refused when there is no room.
    pub fn grows(&self) -> bool {
        matches!(self, Self::Write(_) | Self::PutRow { .. })
    }
}

/// What a batch takes in the log, about, in bytes.
pub fn write_cost(writes: usize, value_bytes: usize) -> usize {
    writes.saturating_add(1).saturating_mul(COMMAND_OVERHEAD).saturating_add(value_bytes)
}

/// What a member asks for in one entry of the log: everything that came while the entry before was on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The life of the member that asks; no other ever had the same.
    pub session: u64,
    /// Counts its proposals. The same one may be in the log several times, and is done once.
    pub sequence: u64,
    pub commands: Vec<Command>,
}

impl Proposal {
    /// What it takes in the log, about, in bytes.
    pub fn cost(&self) -> usize {
        self.commands.iter().map(Command::cost).sum()
    }
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Fresh,
    Taken(Bytes),
    Trimmed,
    /// Taken by a value that is not carried, because the answer is large already. Whoever asked finds it in its own state.
    Held,
}

impl From<Outcome> for WriteResult {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Fresh => Self::Fresh,
            Outcome::Taken(value) => Self::Taken(value),
            // Whoever asked has looked for it already: it is not there any more.
            Outcome::Trimmed | Outcome::Held => Self::Trimmed,
        }
    }
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Written(Vec<Outcome>),
    Done,
    Stored(bool),
}

/// What became of an entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Applied {
    /// It was one of Raft's own.
    Nothing,
    /// One answer for each command.
    Answers(Vec<Answer>),
    /// A later proposal of the same member came before it: nothing was done, and nothing ever will be.
    Stale,
}
