//! What is asked of a shard, ready to be decided: with its hashes, which whoever asks computes, for shards are few.

use jeton_core::{
    Branch, BranchName, BranchOutcome, Cell, Hashes, IdKey, OpId, Operation, PartitionId, Secret, TableId,
};

use crate::response::Ask;

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
    /// Something about a branch of a transaction, in a partition.
    Branch {
        /// What.
        what: BranchRequest,
        /// The key of its name there.
        key: IdKey,
        /// The partition.
        partition: PartitionId,
        /// No more bytes of a log's value than this come of it.
        bytes_max: usize,
    },
    /// Tell which branches a partition holds.
    Held {
        /// The partition.
        partition: PartitionId,
    },
}

/// What is asked about a branch.
#[derive(Debug, Clone)]
pub enum BranchRequest {
    /// Hold it.
    Hold(Branch),
    /// End it.
    Settle {
        /// Which.
        name: BranchName,
        /// How.
        ending: BranchOutcome,
        /// Whether it has ended wherever else there is a part of it.
        rest_settled: bool,
    },
    /// Tell what is known of it.
    Look(BranchName),
}

impl Request {
    /// Something about a branch in a partition.
    pub fn branch(what: BranchRequest, partition: PartitionId, secret: &Secret) -> Self {
        let (name, bytes_max) = match &what {
            BranchRequest::Hold(branch) => (branch.name(), branch.size_max()),
            BranchRequest::Settle { name, .. } => (name, Branch::settled_size_max(name)),
            BranchRequest::Look(name) => (name, 0),
        };
        let key = secret.branch_key(name).in_partition(partition);
        Self::Branch { what, key, partition, bytes_max }
    }

    /// The response to it, if it is not done.
    pub(crate) fn refused(&self, refusal: crate::EngineError) -> crate::Response {
        match self {
            Self::Branch { .. } => crate::Response::Branch(Err(refusal)),
            _ => crate::Response::Applied(Err(refusal)),
        }
    }

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
            _ => None,
        }
    }

    /// The partition it concerns.
    pub fn partition(&self) -> PartitionId {
        match self {
            Self::Apply { operation, .. } => operation.partition(),
            Self::Read { cell } => cell.partition(),
            Self::Recall { partition, .. } | Self::Branch { partition, .. } | Self::Held { partition } => {
                *partition
            }
        }
    }

    /// The cell that it looks at first.
    pub(crate) fn first_cell(&self) -> Option<&Cell> {
        match self {
            Self::Apply { operation, .. } => Some(operation.first_cell()),
            Self::Read { cell } => Some(cell),
            Self::Recall { .. } | Self::Branch { .. } | Self::Held { .. } => None,
        }
    }

    /// No more bytes of a log's value than this come of it.
    pub fn value_bytes_max(&self) -> usize {
        match self {
            Self::Apply { bytes_max, .. } | Self::Branch { bytes_max, .. } => *bytes_max,
            Self::Read { .. } | Self::Recall { .. } | Self::Held { .. } => 0,
        }
    }
}
