//! The identity of a deployment: a register that the first node writes and that never changes.

use jeton_core::codec::{DecodeError, Reader, Write};
use jeton_core::{Secret, limits};
use jeton_register::{Batch, Error as RegisterError, LogId, Registers, Slot, WriteResult};

use crate::chain::Chain;
use crate::frame::{hash, origin};

/// Slot 1 of the log is the identity of the cluster of e-Transactions.
const SLOT: Slot = Slot(2);

const FORMAT: u8 = 1;

/// A fixed group of partitions with one log and one owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripe {
    pub number: u16,
    pub partitions: std::ops::Range<u16>,
}

/// What all nodes of a deployment have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deployment {
    /// Number of stripes.
    stripes: u16,
    /// The key of ids and partitions.
    secret: [u8; 16],
    /// The key by which clients will find the node of a row. They must not have the secret.
    placement: [u8; 16],
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeploymentError {
    #[error("the number of stripes is {0}: it must be between 1 and 256")]
    Stripes(u16),
    #[error("the identity of the deployment in the registers: {0}")]
    Damaged(#[from] DecodeError),
    #[error("the identity of the deployment in the registers was removed")]
    Trimmed,
    #[error(transparent)]
    Registers(#[from] RegisterError),
}

impl Deployment {
    /// A new identity. The keys are random.
    pub fn new(stripes: u16, secret: [u8; 16], placement: [u8; 16]) -> Result<Self, DeploymentError> {
        if !(1..=limits::PARTITIONS).contains(&stripes) {
            return Err(DeploymentError::Stripes(stripes));
        }
        Ok(Self { stripes, secret, placement })
    }

    /// The identity of the deployment. At the first use of the registers it is the candidate; otherwise the
    /// candidate is dropped. After an error the caller may try again with any candidate.
    pub async fn found<R: Registers>(registers: &R, candidate: Self) -> Result<Self, DeploymentError> {
        let bytes = candidate.encode();
        let mut batch = Batch::new();
        batch.push(LogId::DEPLOYMENT, SLOT, &bytes);
        let permit = registers.admit(1, bytes.len())?;
        match registers.write(batch, permit).await?.pop() {
            Some(WriteResult::Fresh) => Ok(candidate),
            Some(WriteResult::Taken(recorded)) => Self::decode(&recorded),
            Some(WriteResult::Trimmed | WriteResult::Gap) | None => Err(DeploymentError::Trimmed),
        }
    }

    pub fn stripes(&self) -> u16 {
        self.stripes
    }

    pub fn secret(&self) -> Secret {
        Secret::new(self.secret)
    }

    pub fn placement(&self) -> [u8; 16] {
        self.placement
    }

    /// The stripe with this number.
    pub fn stripe(&self, number: u16) -> Option<Stripe> {
        let start = |number: u16| u32::from(number) * u32::from(limits::PARTITIONS) / u32::from(self.stripes);
        let partitions = start(number) as u16..start(number.checked_add(1)?) as u16;
        (number < self.stripes).then_some(Stripe { number, partitions })
    }

    /// The empty log of a stripe. A log of another deployment or stripe is damaged.
    pub fn chain(&self, stripe: Stripe) -> Chain {
        let origin = origin(hash(&self.encode()), stripe.number);
        Chain::new(stripe, origin)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.put_varint(self.stripes.into());
        out.extend_from_slice(&self.secret);
        out.extend_from_slice(&self.placement);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, DeploymentError> {
        let mut input = Reader::new(bytes);
        if input.u8()? != FORMAT {
            return Err(DecodeError("an unknown format").into());
        }
        let stripes = u16::try_from(input.varint()?).map_err(|_| DecodeError("too many stripes"))?;
        let (secret, placement) = (input.u128()?.to_le_bytes(), input.u128()?.to_le_bytes());
        input.finish()?;
        Self::new(stripes, secret, placement)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use futures_executor::block_on;
    use jeton_register::memory::{Faults, MemoryRegisters};

    use super::*;

    fn candidate(number: u8) -> Deployment {
        Deployment::new(32, [number; 16], [number + 100; 16]).unwrap()
    }

    #[test]
    fn nodes_that_found_at_once_get_the_same_secret() {
        for seed in 0..200 {
            let faults = Faults { refused: 200, lost: 200, late: 200, delayed: 200 };
            let registers = MemoryRegisters::with_faults(seed, faults);
            let mut founding: Vec<_> = (0..4_u8).map(|node| (node, None)).collect();
            let mut number = 0;
            while founding.iter().any(|(_, found)| found.is_none()) {
                for (_, found) in founding.iter_mut().filter(|(_, found)| found.is_none()) {
                    number += 1;
                    *found = block_on(Deployment::found(&registers, candidate(number % 100))).ok();
                }
            }
            registers.set_faults(Faults::default());
            registers.deliver_late();
            let later = block_on(Deployment::found(&registers, candidate(99))).unwrap();
            assert!(founding.iter().all(|(_, found)| *found == Some(later)), "seed {seed}: {founding:?}");
        }
    }

    #[test]
    fn stripes_cover_all_partitions_once() {
        for stripes in [1, 2, 3, 32, 100, 256] {
            let deployment = Deployment::new(stripes, [1; 16], [2; 16]).unwrap();
            let all: Vec<u16> =
                (0..stripes).flat_map(|number| deployment.stripe(number).unwrap().partitions).collect();
            assert_eq!(all, (0..256).collect::<Vec<_>>());
            assert_eq!(deployment.stripe(stripes), None);
        }
        for stripes in [0, 257] {
            assert_eq!(Deployment::new(stripes, [1; 16], [2; 16]), Err(DeploymentError::Stripes(stripes)));
        }
    }

    #[test]
    fn an_undecodable_identity_is_an_error() {
        let good = candidate(1).encode();
        assert_eq!(Deployment::decode(&good), Ok(candidate(1)));
        let none = [&[FORMAT, 0][..], &good[2..]].concat();
        for bad in [&good[..good.len() - 1], &[&good[..], b"x"].concat(), b"\x02", b"", &none] {
            assert!(Deployment::decode(bad).is_err(), "{bad:?}");
        }
    }
}
