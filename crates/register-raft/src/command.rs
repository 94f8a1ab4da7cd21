//! The content of an entry of the Raft log, and the result of applying it.
//!
//! The types are serialised on disk and on the wire: a change of their fields is a new version of both.

use bytes::Bytes;
use jeton_register::{Batch, Blob, Error, LogId, LogKind, Slot, WriteResult};
use serde::{Deserialize, Serialize};

use crate::settings::{BLOB_BYTES_MAX, LIMITS};

/// The bytes of a command besides its values, about.
pub const COMMAND_OVERHEAD: usize = 64;

/// A log id in serialised form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "(u8, u128)", into = "(u8, u128)")]
pub struct LogName(pub LogId);

impl From<LogName> for (u8, u128) {
    fn from(name: LogName) -> Self {
        (name.0.kind as u8, name.0.id)
    }
}

impl TryFrom<(u8, u128)> for LogName {
    type Error = String;

    fn try_from((kind, id): (u8, u128)) -> Result<Self, String> {
        let kind = LogKind::from_number(kind).ok_or_else(|| format!("unknown kind of log {kind}"))?;
        Ok(Self(LogId { kind, id }))
    }
}

/// A write to one register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    pub log: LogName,
    pub slot: u64,
    pub value: Bytes,
}

/// A change of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    Write(Vec<Write>),
    Trim {
        log: LogName,
        through: u64,
    },
    /// Retires the logs of a kind below this id.
    Retire {
        below: LogName,
    },
    PutBlob {
        name: String,
        version: u64,
        bytes: Bytes,
    },
}

impl Command {
    /// A batch, if it is within the limits.
    pub fn write(batch: &Batch) -> Result<Self, Error> {
        LIMITS.check(batch)?;
        let write = |(log, slot, value): (LogId, Slot, &[u8])| Write {
            log: LogName(log),
            slot: slot.0,
            value: Bytes::copy_from_slice(value),
        };
        Ok(Self::Write(batch.iter().map(write).collect()))
    }

    /// A blob, if it is within the limits.
    pub fn put_blob(name: &str, blob: Blob) -> Result<Self, Error> {
        jeton_register::check_blob_name(name)?;
        let len = blob.bytes.len();
        if len > BLOB_BYTES_MAX {
            return Err(Error::TooLarge(format!("a blob of {len} bytes; the limit is {BLOB_BYTES_MAX}")));
        }
        Ok(Self::PutBlob { name: name.into(), version: blob.version, bytes: blob.bytes })
    }

    /// The bytes that it takes in the log, about.
    pub fn cost(&self) -> usize {
        match self {
            Self::Write(writes) => {
                write_cost(writes.len(), writes.iter().map(|write| write.value.len()).sum())
            }
            Self::PutBlob { name, bytes, .. } => write_cost(1, name.len() + bytes.len()),
            Self::Trim { .. } | Self::Retire { .. } => COMMAND_OVERHEAD,
        }
    }

    /// Whether it makes the state larger. Such commands are refused when the state is full.
    pub fn grows(&self) -> bool {
        matches!(self, Self::Write(_) | Self::PutBlob { .. })
    }
}

/// The bytes that a batch takes in the log, about.
pub fn write_cost(writes: usize, value_bytes: usize) -> usize {
    writes.saturating_add(1).saturating_mul(COMMAND_OVERHEAD).saturating_add(value_bytes)
}

/// The content of an entry: the commands of one member that arrived while its previous proposal was in
/// flight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Drawn at random at each start of a member.
    pub session: u64,
    /// The number of the proposal in its session. A retried proposal may be in the log several times, and is
    /// applied once.
    pub sequence: u64,
    pub commands: Vec<Command>,
}

impl Proposal {
    /// The bytes that it takes in the log, about.
    pub fn cost(&self) -> usize {
        self.commands.iter().map(Command::cost).sum()
    }
}

/// The result of a write to one register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Fresh,
    Taken(Bytes),
    Trimmed,
    /// Taken by a value that is left out because the response is large. The caller's member reads it from its
    /// own state.
    Omitted,
    Gap,
}

impl From<WriteResult> for Outcome {
    fn from(result: WriteResult) -> Self {
        match result {
            WriteResult::Fresh => Self::Fresh,
            WriteResult::Taken(value) => Self::Taken(value),
            WriteResult::Trimmed => Self::Trimmed,
            WriteResult::Gap => Self::Gap,
        }
    }
}

impl From<Outcome> for WriteResult {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Fresh => Self::Fresh,
            Outcome::Taken(value) => Self::Taken(value),
            // An omitted value was looked up before, and was trimmed meanwhile.
            Outcome::Trimmed | Outcome::Omitted => Self::Trimmed,
            Outcome::Gap => Self::Gap,
        }
    }
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandResult {
    Written(Vec<Outcome>),
    Done,
    Stored(bool),
}

/// The result of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Applied {
    /// An entry of Raft itself.
    Nothing,
    /// One result for each command.
    Results(Vec<CommandResult>),
    /// A later proposal of the session was applied before: this one has no effect, now or later.
    Superseded,
}
