//! The store's secret, and the keyed hashes of ids, payloads and rows.
//!
//! Clients choose ids and rows, so a known hash would let them provoke collisions. The secret is drawn when a
//! store is created and stored with it: data on disk is keyed by it.

use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher13 as SipHasher13Wide};
use std::hash::Hasher;

use forgetful_filter::Fingerprint;

use crate::address::{Cell, PartitionId, TableId};
use crate::branch::BranchName;
use crate::id::OpId;
use crate::limits::PARTITIONS;

const _: () = assert!(PARTITIONS.is_power_of_two(), "a partition is taken from the low bits of a hash");

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; 16]);

/// 128-bit hash of an id and the routing key that it is used for. A collision is too improbable to handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdKey(pub u128);

/// 64-bit hash of the changes of an operation, without its id. It distinguishes a retry from another
/// operation under the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PayloadHash(pub u64);

impl Secret {
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The key of the dedup record of an id that is used for the routing key of this cell. It does not depend
    /// on the partition otherwise, so an id has the same scope wherever rows are. `scratch` is a buffer.
    pub fn id_key(&self, cell: &Cell, id: &OpId, scratch: &mut Vec<u8>) -> IdKey {
        scratch.clear();
        scratch.extend_from_slice(&cell.table().0.to_le_bytes());
        if !mutated!(ScopeIgnoresRow) {
            scratch.extend_from_slice(cell.routing_key());
        }
        // Two 0 bytes do not occur in the routing key, so no two pairs of routing key and id are the same
        // bytes.
        scratch.extend_from_slice(&[0, 0]);
        // The whole event, time included: the time determines its generation, so another time would be looked
        // up elsewhere.
        id.encode(scratch);
        let mut hasher = SipHasher13Wide::new_with_key(&self.0);
        hasher.write(scratch);
        IdKey(hasher.finish128().as_u128())
    }

    /// The key of the record of how a branch ended.
    pub fn branch_key(&self, name: &BranchName) -> IdKey {
        let mut hasher = SipHasher13Wide::new_with_key(&self.0);
        // No table has this number, so branch keys are disjoint from the ids of all tables.
        hasher.write(&u32::MAX.to_le_bytes());
        hasher.write(name.as_bytes());
        IdKey(hasher.finish128().as_u128())
    }

    pub fn branch_home(&self, name: &BranchName) -> PartitionId {
        PartitionId((self.branch_key(name).0 >> 64) as u16 % PARTITIONS)
    }

    pub fn payload(&self, encoded_changes: &[u8]) -> PayloadHash {
        PayloadHash(SipHasher13::new_with_key(&self.0).hash(encoded_changes))
    }

    /// The partition of a row, which follows from its [routing key](Cell::routing_key).
    pub fn partition(&self, table: TableId, row: &[u8]) -> PartitionId {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write_u32(table.0.to_le());
        hasher.write(tag(row));
        PartitionId((hasher.finish() % u64::from(PARTITIONS)) as u16)
    }
}

/// The text between the first `{` of a row and the next `}`, as in Redis Cluster; the whole row if that is
/// empty.
pub(crate) fn tag(row: &[u8]) -> &[u8] {
    let Some(open) = row.iter().position(|byte| *byte == b'{') else { return row };
    let inside = &row[open + 1..];
    match inside.iter().position(|byte| *byte == b'}') {
        None | Some(0) => row,
        Some(close) => &inside[..close],
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Secret")
    }
}

impl IdKey {
    /// The key of a branch's part in this partition.
    #[must_use]
    pub fn in_partition(self, partition: PartitionId) -> Self {
        // Mixed into all bits, so that both halves differ between partitions.
        Self(self.0 ^ u128::from(partition.0).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    }

    /// The half that the filter uses.
    pub fn fingerprint(self) -> Fingerprint {
        Fingerprint::from_keyed_hash(self.0 as u64)
    }

    /// Bytes that sort like the number.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}
