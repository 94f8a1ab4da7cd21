//! The identity of a cluster: the servers that share registers.
//!
//! Servers resolve the prepared branches of dead servers. For a branch of another cluster they would find no
//! decision in their registers, suspect its coordinator, and roll it back while the other cluster commits its
//! other branches. So every branch name contains the *deployment*, a number that the registers store, and
//! servers leave branches of other deployments alone.
//!
//! The operator assigns the *number* of the cluster; decisions and commit markers in a database are stored
//! under it. A database accepts each number from one deployment only. This detects two clusters with the same
//! number, and a cluster whose registers were replaced, which would not find its decisions.

use jeton_register::{Batch, Error as RegisterError, LogId, Registers, Slot, WriteResult};

/// Servers that share registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cluster {
    /// The number that the operator assigned. Clusters that share a database must have different numbers.
    pub number: u32,
    /// A random number that the registers store since their first use. It differs even if two clusters have
    /// the same `number` by mistake.
    pub deployment: u32,
}

/// For callers that guarantee different numbers.
impl From<u32> for Cluster {
    fn from(number: u32) -> Self {
        Self { number, deployment: 0 }
    }
}

/// Why the cluster could not be identified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentifyError {
    /// The registers belong to another cluster.
    #[error("the registers belong to cluster {of}, and this is cluster {ours}")]
    Others {
        /// The cluster that the registers belong to.
        of: u32,
        /// The cluster of this server.
        ours: u32,
    },
    /// The stored identity cannot be decoded.
    #[error("the identity of the cluster in the registers cannot be decoded")]
    Unreadable,
    /// The registers are not available now.
    #[error(transparent)]
    Trouble(#[from] RegisterError),
}

impl Cluster {
    /// Identifies the cluster by its registers. `drawn` becomes the deployment at the first use of the
    /// registers.
    pub async fn identify<R: Registers>(
        registers: &R,
        number: u32,
        drawn: u32,
    ) -> Result<Self, IdentifyError> {
        let ours = Self { number, deployment: drawn };
        let bytes = ours.encode();
        let mut batch = Batch::new();
        batch.push(LogId::DEPLOYMENT, Slot(1), &bytes);
        let permit = registers.admit(1, bytes.len())?;
        let found = match registers.write(batch, permit).await?.into_iter().next() {
            Some(WriteResult::Fresh) => ours,
            Some(WriteResult::Taken(recorded)) => Self::decode(&recorded).ok_or(IdentifyError::Unreadable)?,
            Some(WriteResult::Trimmed | WriteResult::Gap) | None => return Err(IdentifyError::Unreadable),
        };
        if found.number == number {
            Ok(found)
        } else {
            Err(IdentifyError::Others { of: found.number, ours: number })
        }
    }

    fn encode(self) -> [u8; 8] {
        (u64::from(self.number) << 32 | u64::from(self.deployment)).to_be_bytes()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let both = u64::from_be_bytes(bytes.try_into().ok()?);
        Some(Self { number: (both >> 32) as u32, deployment: both as u32 })
    }
}

#[cfg(test)]
mod tests {
    use futures_executor::block_on;
    use jeton_register::memory::MemoryRegisters;

    use super::*;

    #[test]
    fn registers_belong_to_the_first_cluster() {
        let registers = MemoryRegisters::new();
        let first = Cluster { number: 7, deployment: 0xfeed_beef };
        for drawn in [0xfeed_beef, 1, 2] {
            assert_eq!(block_on(Cluster::identify(&registers, 7, drawn)), Ok(first));
        }
        let others = IdentifyError::Others { of: 7, ours: 8 };
        assert_eq!(block_on(Cluster::identify(&registers, 8, 3)), Err(others));
        let elsewhere = block_on(Cluster::identify(&MemoryRegisters::new(), 7, 4));
        assert_eq!(elsewhere, Ok(Cluster { number: 7, deployment: 4 }));
    }

    #[test]
    fn undecodable_identity_is_an_error() {
        let registers = MemoryRegisters::new();
        let mut batch = Batch::new();
        batch.push(LogId::DEPLOYMENT, Slot(1), b"unknown");
        block_on(registers.write(batch, registers.admit(1, 7).unwrap())).unwrap();
        assert_eq!(block_on(Cluster::identify(&registers, 7, 1)), Err(IdentifyError::Unreadable));
    }
}
