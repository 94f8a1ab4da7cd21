//! What is asked of a shard, ready to be decided: with its hashes, which whoever asks computes, for shards are few.

use jeton_core::{Cell, Hashes, OpId, Operation, PartitionId, Secret, TableId};

use crate::reply::Ask;

/// What is asked of a shard.
#[derive(Debug, Clone)]
pub enum Request {
    /// Do this.
    Apply {
        /// What.
        operation: Operation,
        /// Its hashes.
        hashes: Hashes,
        /// No more bytes of a log's value than this come of it.
        bytes_max: usize,
    },
    /// Tell what this cell holds.
    Read {
        /// Which.
        cell: Cell,
    },
    /// Tell what became of an id in a partition.
    Recall {
        /// Of which table.
        table: TableId,
        /// The id.
        id: OpId,
        /// The partition.
        partition: PartitionId,
    },
}

impl Request {
    /// To do this. `scratch` is room to work in.
    pub fn apply(operation: Operation, secret: &Secret, scratch: &mut Vec<u8>) -> Self {
        let hashes = Hashes::of(&operation, secret, scratch);
        let bytes_max = operation.size_max();
        Self::Apply { operation, hashes, bytes_max }
    }

    /// What is asked, made ready. `scratch` is room to work in.
    pub fn new(ask: Ask, secret: &Secret, scratch: &mut Vec<u8>) -> Self {
        match ask {
            Ask::Apply(operation) => Self::apply(operation, secret, scratch),
            Ask::Read(cell) => Self::Read { cell },
        }
    }

    /// The operation, if it is one.
    pub fn operation(&self) -> Option<&Operation> {
        match self {
            Self::Apply { operation, .. } => Some(operation),
            Self::Read { .. } | Self::Recall { .. } => None,
        }
    }

    /// The partition it concerns.
    pub fn partition(&self) -> PartitionId {
        match self {
            Self::Apply { operation, .. } => operation.partition(),
            Self::Read { cell } => cell.partition(),
            Self::Recall { partition, .. } => *partition,
        }
    }

    /// The cell that it looks at first.
    pub(crate) fn first_cell(&self) -> Option<&Cell> {
        match self {
            Self::Apply { operation, .. } => Some(operation.first_cell()),
            Self::Read { cell } => Some(cell),
            Self::Recall { .. } => None,
        }
    }

    /// No more bytes of a log's value than this come of it.
    pub fn value_bytes_max(&self) -> usize {
        match self {
            Self::Apply { bytes_max, .. } => *bytes_max,
            Self::Read { .. } | Self::Recall { .. } => 0,
        }
    }
}
