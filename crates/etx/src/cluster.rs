//! Which servers belong together: those who share registers.
//!
//! Servers end what dead lives of one another left prepared. Of a branch of strangers they would find nothing in their registers, take its executor for dead, and roll it back, while the
//! strangers commit its other half. So every branch has the *deployment* in its name, a number that the registers themselves keep, and branches of others are left alone.
//!
//! The *number* of the cluster is given by whoever sets it up, and is what its decisions and marks in a database go by. A database takes each number from one deployment only, so
//! two that have the same by mistake are told so, and so is one whose registers were exchanged: it would look for its decisions in vain.

use jeton_register::{Batch, Failure, Log, Registers, Slot, Written};

/// Servers that share registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cluster {
    /// The number that it was given: different for those who share a database.
    pub number: u32,
    /// The number that its registers have kept since they were first used: drawn at random, different even where `number` is the same by mistake.
    pub deployment: u32,
}

/// For whoever sees to it that numbers are different.
impl From<u32> for Cluster {
    fn from(number: u32) -> Self {
        Self { number, deployment: 0 }
    }
}

/// Why it is not known who we are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentifyError {
    /// The registers are those of another cluster.
    #[error("the registers belong to cluster {of}, and this is cluster {ours}")]
    Others {
        /// Whose they are.
        of: u32,
        /// Who wanted to use them.
        ours: u32,
    },
    /// What they keep about it is not understood.
    #[error("the registers do not say in a way that is understood whose they are")]
    Unreadable,
    /// They cannot be asked now.
    #[error(transparent)]
    Trouble(#[from] Failure),
}

impl Cluster {
    /// The cluster of this number whose registers these are: `drawn` becomes its deployment if they are used for the first time.
    pub async fn identify<R: Registers>(
        registers: &R,
        number: u32,
        drawn: u32,
    ) -> Result<Self, IdentifyError> {
        let ours = Self { number, deployment: drawn };
        let bytes = ours.encode();
        let mut batch = Batch::new();
        batch.push(Log::DEPLOYMENT, Slot(1), &bytes);
        let permit = registers.admit(1, bytes.len())?;
        let found = match registers.write(batch, permit).await?.into_iter().next() {
            Some(Written::Fresh) => ours,
            Some(Written::Taken(stands)) => Self::decode(&stands).ok_or(IdentifyError::Unreadable)?,
            Some(Written::Trimmed) | None => return Err(IdentifyError::Unreadable),
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
    use jeton_register::block_on;
    use jeton_register::memory::Memory;

    use super::*;

    #[test]
    fn registers_keep_who_used_them_first() {
        let registers = Memory::new();
        let first = Cluster { number: 7, deployment: 0xfeed_beef };
        for drawn in [0xfeed_beef, 1, 2] {
            assert_eq!(block_on(Cluster::identify(&registers, 7, drawn)), Ok(first));
        }
        let others = IdentifyError::Others { of: 7, ours: 8 };
        assert_eq!(block_on(Cluster::identify(&registers, 8, 3)), Err(others));
        let elsewhere = block_on(Cluster::identify(&Memory::new(), 7, 4));
        assert_eq!(elsewhere, Ok(Cluster { number: 7, deployment: 4 }));
    }

    #[test]
    fn what_is_not_understood_is_not_ours() {
        let registers = Memory::new();
        let mut batch = Batch::new();
        batch.push(Log::DEPLOYMENT, Slot(1), b"strange");
        block_on(registers.write(batch, registers.admit(1, 7).unwrap())).unwrap();
        assert_eq!(block_on(Cluster::identify(&registers, 7, 1)), Err(IdentifyError::Unreadable));
    }
}
