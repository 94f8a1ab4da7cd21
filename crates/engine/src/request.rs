//! Requests to a shard. The caller computes the hashes, because shards are the bottleneck.

use std::sync::Arc;

use jeton_core::{
    Branch, BranchName, BranchOutcome, Cell, Hashes, IdKey, OpId, Operation, PartitionId, Secret,
};

use crate::creation_quota::CreationQuota;

#[derive(Debug, Clone)]
pub enum Request {
    Apply {
        operation: Operation,
        hashes: Hashes,
        /// Upper bound of the bytes that it adds to a log entry.
        bytes_max: usize,
        /// Charged for the cells that it creates.
        quota: Option<Arc<dyn CreationQuota>>,
    },
    Read {
        cell: Cell,
    },
    Recall {
        /// A cell with the routing key that the id is used for.
        cell: Cell,
        id: OpId,
        key: IdKey,
    },
    Branch {
        what: BranchRequest,
        /// Key of the branch's name in the partition.
        key: IdKey,
        partition: PartitionId,
        /// Upper bound of the bytes that it adds to a log entry.
        bytes_max: usize,
        /// Charged for the cells that the branch creates.
        quota: Option<Arc<dyn CreationQuota>>,
    },
    PreparedBranches {
        partition: PartitionId,
    },
}

#[derive(Debug, Clone)]
pub enum BranchRequest {
    Prepare(Branch),
    Finish {
        name: BranchName,
        outcome: BranchOutcome,
        /// Whether all other partitions have finished their parts.
        others_finished: bool,
    },
    Lookup(BranchName),
}

impl BranchRequest {
    pub fn name(&self) -> &BranchName {
        match self {
            Self::Prepare(branch) => branch.name(),
            Self::Finish { name, .. } | Self::Lookup(name) => name,
        }
    }
}

impl Request {
    pub fn branch(what: BranchRequest, partition: PartitionId, secret: &Secret) -> Self {
        let bytes_max = match &what {
            BranchRequest::Prepare(branch) => branch.size_max(),
            BranchRequest::Finish { name, .. } => Branch::finished_size_max(name),
            BranchRequest::Lookup(_) => 0,
        };
        let key = secret.branch_key(what.name()).in_partition(partition);
        Self::Branch { what, key, partition, bytes_max, quota: None }
    }

    /// The response if the request is refused.
    pub(crate) fn refused(&self, refusal: crate::EngineError) -> crate::Response {
        match self {
            Self::Branch { .. } => crate::Response::Branch(Err(refusal)),
            Self::Read { .. } => crate::Response::Read(Err(refusal)),
            Self::Recall { .. } => crate::Response::Recalled(Err(refusal)),
            Self::Apply { .. } | Self::PreparedBranches { .. } => crate::Response::Applied(Err(refusal)),
        }
    }

    /// A request to apply an operation. `scratch` is a buffer.
    pub fn apply(operation: Operation, secret: &Secret, scratch: &mut Vec<u8>) -> Self {
        let hashes = Hashes::of(&operation, secret, scratch);
        let bytes_max = operation.size_max();
        Self::Apply { operation, hashes, bytes_max, quota: None }
    }

    /// The request, charged to a quota if it creates cells.
    #[must_use]
    pub fn with_quota(mut self, charged: &Arc<dyn CreationQuota>) -> Self {
        if let Self::Apply { quota, .. } | Self::Branch { quota, .. } = &mut self {
            *quota = Some(Arc::clone(charged));
        }
        self
    }

    /// Names the principal that sends the request, by a hash that is not 0.
    pub fn set_principal(&mut self, hash: u64) {
        if let Self::Apply { hashes, .. } = self {
            hashes.principal = hash;
        }
    }

    pub fn operation(&self) -> Option<&Operation> {
        match self {
            Self::Apply { operation, .. } => Some(operation),
            _ => None,
        }
    }

    pub fn partition(&self) -> PartitionId {
        match self {
            Self::Apply { operation, .. } => operation.partition(),
            Self::Read { cell } | Self::Recall { cell, .. } => cell.partition(),
            Self::Branch { partition, .. } | Self::PreparedBranches { partition } => *partition,
        }
    }

    /// The first cell that the request reads.
    pub(crate) fn first_cell(&self) -> Option<&Cell> {
        match self {
            Self::Apply { operation, .. } => Some(operation.first_cell()),
            Self::Read { cell } => Some(cell),
            Self::Recall { .. } | Self::Branch { .. } | Self::PreparedBranches { .. } => None,
        }
    }

    /// Upper bound of the bytes that it adds to a log entry.
    pub fn value_bytes_max(&self) -> usize {
        match self {
            Self::Apply { bytes_max, .. } | Self::Branch { bytes_max, .. } => *bytes_max,
            Self::Read { .. } | Self::Recall { .. } | Self::PreparedBranches { .. } => 0,
        }
    }
}
