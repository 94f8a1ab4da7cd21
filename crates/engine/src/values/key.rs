//! Keys of rows in the value store.

use jeton_core::codec::DecodeError;
use jeton_core::{BranchName, Cell, Client, PartitionId, TableId};

const CELL: u8 = 1;
const PARTITION: u8 = 2;
const SESSION: u8 = 3;
const BRANCH: u8 = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowKey {
    Partition(PartitionId),
    Session(PartitionId, Client),
    Branch(PartitionId, BranchName),
}

impl RowKey {
    pub const PARTITIONS: u8 = PARTITION;
    pub const SESSIONS: u8 = SESSION;
    pub const BRANCHES: u8 = BRANCH;

    pub fn read(key: &[u8]) -> Option<Self> {
        match key {
            [PARTITION, a, b] => Some(Self::Partition(PartitionId(u16::from_be_bytes([*a, *b])))),
            [SESSION, a, b, t0, t1, t2, t3, name @ ..] => {
                let table = TableId(u32::from_be_bytes([*t0, *t1, *t2, *t3]));
                let name = std::str::from_utf8(name).ok()?.into();
                Some(Self::Session(PartitionId(u16::from_be_bytes([*a, *b])), Client { table, name }))
            }
            [BRANCH, a, b, name @ ..] => {
                let name = BranchName::new(name).ok()?;
                Some(Self::Branch(PartitionId(u16::from_be_bytes([*a, *b])), name))
            }
            _ => None,
        }
    }

    pub fn partition(&self) -> PartitionId {
        match self {
            Self::Partition(id) | Self::Session(id, _) | Self::Branch(id, _) => *id,
        }
    }
}

pub(super) fn is_cell(key: &[u8]) -> bool {
    key.first() == Some(&CELL)
}

pub fn cell_key(cell: &Cell, key: &mut Vec<u8>) {
    key.push(CELL);
    key.extend_from_slice(cell.as_bytes());
}

/// A range of cell keys: one partition, one table, one row prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellKeys {
    prefix: Vec<u8>,
    /// Only keys after this one.
    after: Option<Vec<u8>>,
}

impl CellKeys {
    /// The keys of cells of this partition and table whose rows begin with these bytes; after `after`, if
    /// given.
    pub fn new(partition: PartitionId, table: TableId, row: &[u8], after: Option<&Cell>) -> Self {
        let mut prefix = vec![CELL];
        Cell::encode_prefix(partition, table, row, &mut prefix);
        let after = after.map(|cell| {
            let mut key = Vec::new();
            cell_key(cell, &mut key);
            key
        });
        Self { prefix, after }
    }

    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The lower bound, inclusive or exclusive.
    pub fn begin(&self) -> std::ops::Bound<&[u8]> {
        match &self.after {
            Some(after) if after.as_slice() >= self.prefix.as_slice() => std::ops::Bound::Excluded(after),
            _ => std::ops::Bound::Included(&self.prefix),
        }
    }

    /// The cell of a key in the range.
    pub fn cell(&self, key: &[u8]) -> Result<Cell, DecodeError> {
        Cell::from_bytes(&key[1..])
    }
}

pub fn partition_key(partition: PartitionId) -> Vec<u8> {
    let [a, b] = partition.0.to_be_bytes();
    vec![PARTITION, a, b]
}

pub fn session_key(partition: PartitionId, client: &Client) -> Vec<u8> {
    let mut key = vec![SESSION];
    key.extend_from_slice(&partition.0.to_be_bytes());
    key.extend_from_slice(&client.table.0.to_be_bytes());
    key.extend_from_slice(client.name.as_bytes());
    key
}

pub fn branch_key(partition: PartitionId, name: &BranchName) -> Vec<u8> {
    let mut key = vec![BRANCH];
    key.extend_from_slice(&partition.0.to_be_bytes());
    key.extend_from_slice(name.as_bytes());
    key
}
