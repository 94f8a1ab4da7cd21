//! The decision log: writes the decision of a transaction to disk, in the registers that the servers share or
//! in a database of the request. A last agent commits its decision itself.

use std::sync::Arc;

use jeton_register::{Batch, LogId, Registers, Slot, WriteResult};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::{ATTEMPTS_MAX, AttemptNumber, Decision, DecisionLocation, RequestId, Resource, ResourceError};

/// The recorded decision of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionLookup {
    /// The recorded decision, if there is one.
    Recorded(Option<Decision>),
    /// The decision is forgotten.
    Forgotten,
}

/// The registers are full, and nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the registers are full: {0}")]
pub struct RegistersFull(String);

/// Why a write of a decision is not confirmed.
enum Unwritten {
    /// The registers are full; nothing was written.
    NoRoom(RegistersFull),
    /// Any other error. A retry may succeed.
    Error { may_be_written: bool, why: String },
}

impl Unwritten {
    fn error(why: impl ToString) -> Self {
        Self::Error { may_be_written: false, why: why.to_string() }
    }
}

impl From<jeton_register::Error> for Unwritten {
    fn from(why: jeton_register::Error) -> Self {
        match why {
            jeton_register::Error::Full(why) => Self::NoRoom(RegistersFull(why)),
            jeton_register::Error::Unknown(_) => Self::Error { may_be_written: true, why: why.to_string() },
            why => Self::error(why),
        }
    }
}

/// All decision locations. The commit of a last agent writes its decision in `Branch::commit_deciding`
/// instead.
pub struct DecisionLog<R> {
    registers: Arc<R>,
    resources: Arc<[Arc<dyn Resource>]>,
}

/// The register of an attempt: a session has a log, and each of its requests has a slot per attempt.
fn register(request: RequestId, attempt: AttemptNumber) -> (LogId, Slot) {
    let slot = u64::from(request.sequence) * u64::from(ATTEMPTS_MAX) + u64::from(attempt.0);
    (LogId::transaction(request.session), Slot(slot))
}

/// The last slot of a request.
pub(crate) fn last_slot(sequence: u32) -> u64 {
    (u64::from(sequence) + 1) * u64::from(ATTEMPTS_MAX)
}

impl<R: Registers> DecisionLog<R> {
    /// A decision log in these registers and databases.
    pub fn new(registers: Arc<R>, resources: Arc<[Arc<dyn Resource>]>) -> Self {
        Self { registers, resources }
    }

    pub fn registers(&self) -> &R {
        &self.registers
    }

    /// Reads the decision of an attempt, and retries until there is a response or the deadline has passed.
    /// The absence of a decision is only a hint.
    pub async fn read(
        &self,
        request: RequestId,
        decision_location: DecisionLocation,
        attempt: AttemptNumber,
        deadline: Instant,
    ) -> Result<DecisionLookup, String> {
        let mut backoff = Backoff::default();
        loop {
            match self.read_once(request, decision_location, attempt).await {
                Err(why) if Instant::now() < deadline => {
                    backoff.after("the decision of an attempt cannot be read", &why).await;
                }
                result => return result,
            }
        }
    }

    /// Reads the decision once.
    pub(crate) async fn read_once(
        &self,
        request: RequestId,
        decision_location: DecisionLocation,
        attempt: AttemptNumber,
    ) -> Result<DecisionLookup, String> {
        match decision_location {
            DecisionLocation::Registers => {
                let (log, slot) = register(request, attempt);
                match self.registers.read(log, slot, 1).await {
                    Ok(found) => match found.into_iter().find(|(place, _)| *place == slot) {
                        Some((_, bytes)) => decoded(&bytes),
                        None => Ok(DecisionLookup::Recorded(None)),
                    },
                    Err(jeton_register::Error::Trimmed { .. }) => Ok(DecisionLookup::Forgotten),
                    Err(why) => Err(why.to_string()),
                }
            }
            DecisionLocation::Resource(number) => {
                match self.resource(number)?.read_decision(request, attempt).await {
                    Ok(Some(bytes)) => decoded(&bytes),
                    Ok(None) => Ok(DecisionLookup::Recorded(None)),
                    Err(ResourceError::Forgotten { .. }) => Ok(DecisionLookup::Forgotten),
                    Err(why) => Err(why.to_string()),
                }
            }
        }
    }

    /// Records a decision unless there is one, and returns the recorded decision. Retries until it is known.
    /// Full registers are reported at once, because the branches must not stay prepared meanwhile, but only
    /// if none of the writes can take effect.
    pub async fn propose(
        &self,
        request: RequestId,
        decision_location: DecisionLocation,
        attempt: AttemptNumber,
        decision: &Decision,
    ) -> Result<DecisionLookup, RegistersFull> {
        let mut backoff = Backoff::default();
        let mut may_be_written = false;
        loop {
            let why = match self.write(request, decision_location, attempt, decision).await {
                Ok(lookup) => return Ok(lookup),
                Err(Unwritten::NoRoom(full)) if !may_be_written => return Err(full),
                Err(Unwritten::NoRoom(full)) => full.to_string(),
                Err(Unwritten::Error { may_be_written: may_be, why }) => {
                    may_be_written |= may_be;
                    why
                }
            };
            backoff.after("a decision cannot be recorded", &why).await;
        }
    }

    /// Records a decision unless there is one, and returns the recorded decision. Does not retry.
    pub(crate) async fn propose_once(
        &self,
        request: RequestId,
        decision_location: DecisionLocation,
        attempt: AttemptNumber,
        decision: &Decision,
    ) -> Result<DecisionLookup, String> {
        self.write(request, decision_location, attempt, decision).await.map_err(|unwritten| match unwritten {
            Unwritten::NoRoom(full) => full.to_string(),
            Unwritten::Error { why, .. } => why,
        })
    }

    async fn write(
        &self,
        request: RequestId,
        decision_location: DecisionLocation,
        attempt: AttemptNumber,
        decision: &Decision,
    ) -> Result<DecisionLookup, Unwritten> {
        let bytes = decision.encode();
        match decision_location {
            DecisionLocation::Registers => {
                let (log, slot) = register(request, attempt);
                let permit = self.registers.admit(1, bytes.len())?;
                let mut batch = Batch::new();
                batch.push(log, slot, &bytes);
                let written = self.registers.write(batch, permit).await?;
                match written.into_iter().next() {
                    Some(WriteResult::Fresh) => Ok(DecisionLookup::Recorded(Some(decision.clone()))),
                    Some(WriteResult::Taken(recorded)) => decoded(&recorded).map_err(Unwritten::error),
                    Some(WriteResult::Trimmed) => Ok(DecisionLookup::Forgotten),
                    Some(WriteResult::Gap) | None => {
                        Err(Unwritten::error("the registers returned no result for a write"))
                    }
                }
            }
            DecisionLocation::Resource(number) => {
                let resource = self.resource(number).map_err(Unwritten::error)?;
                match resource.write_decision(request, attempt, &bytes).await {
                    Ok(recorded) => decoded(&recorded).map_err(Unwritten::error),
                    Err(ResourceError::Forgotten { .. }) => Ok(DecisionLookup::Forgotten),
                    Err(why) => Err(Unwritten::error(why)),
                }
            }
        }
    }

    fn resource(&self, number: u8) -> Result<&Arc<dyn Resource>, String> {
        let resource = self.resources.get(usize::from(number));
        resource.ok_or_else(|| format!("database {number} is not declared on this server"))
    }
}

fn decoded(bytes: &[u8]) -> Result<DecisionLookup, String> {
    Decision::decode(bytes)
        .map(|decision| DecisionLookup::Recorded(Some(decision)))
        .map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attempt_has_its_own_register() {
        let slots = |sequence| {
            let request = RequestId { session: 9, sequence };
            (1..=ATTEMPTS_MAX).map(move |attempt| register(request, AttemptNumber(attempt)).1)
        };
        let mut all: Vec<Slot> = [0, 1, 2, u32::MAX].into_iter().flat_map(slots).collect();
        assert!(all.is_sorted() && all[0] > Slot::ZERO);
        assert!(
            slots(7).all(|slot| slot <= Slot(last_slot(7))) && slots(8).all(|slot| slot > Slot(last_slot(7)))
        );
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
