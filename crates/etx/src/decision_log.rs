//! Where decisions are kept: in the registers that the servers share, or in a database of the request.

use std::sync::Arc;

use jeton_register::{Batch, Log, Registers, Slot, Written};

use crate::backoff::Backoff;
use crate::{AttemptNumber, Decision, DecisionLocation, RequestId, Resource, ResourceError, TRIES_MAX};

/// What is known about a try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionLookup {
    /// This stands; or nothing yet.
    Stands(Option<Decision>),
    /// What stood is forgotten.
    Forgotten,
}

/// The registers have no room for a decision, and nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the registers are full: {0}")]
pub struct RegistersFull(String);

/// Why a decision is not known to be written.
enum Unwritten {
    /// It is not.
    NoRoom(RegistersFull),
    /// It may be, or may be the next time.
    Trouble { may_be_written: bool, why: String },
}

impl Unwritten {
    fn trouble(why: impl ToString) -> Self {
        Self::Trouble { may_be_written: false, why: why.to_string() }
    }
}

impl From<jeton_register::Failure> for Unwritten {
    fn from(why: jeton_register::Failure) -> Self {
        match why {
            jeton_register::Failure::Full(why) => Self::NoRoom(RegistersFull(why)),
            jeton_register::Failure::Unknown(_) => {
                Self::Trouble { may_be_written: true, why: why.to_string() }
            }
            why => Self::trouble(why),
        }
    }
}

/// All places of decisions.
pub struct DecisionLog<R> {
    registers: Arc<R>,
    resources: Arc<[Arc<dyn Resource>]>,
}

/// The register of a try: the sessions have logs, and each request of a session has as many slots as it may have tries.
fn register(request: RequestId, attempt: AttemptNumber) -> (Log, Slot) {
    let slot = u64::from(request.sequence) * u64::from(TRIES_MAX) + u64::from(attempt.0);
    (Log::transaction(request.session), Slot(slot))
}

/// The last slot that a request of this number may have.
pub(crate) fn last_slot(sequence: u32) -> u64 {
    (u64::from(sequence) + 1) * u64::from(TRIES_MAX)
}

impl<R: Registers> DecisionLog<R> {
    /// Decisions in these registers and databases.
    pub fn new(registers: Arc<R>, resources: Arc<[Arc<dyn Resource>]>) -> Self {
        Self { registers, resources }
    }

    /// The registers.
    pub fn registers(&self) -> &R {
        &self.registers
    }

    /// What stands about a try, asked until there is an answer. That nothing stands is no more than a hint.
    pub async fn look(
        &self,
        request: RequestId,
        home: DecisionLocation,
        attempt: AttemptNumber,
    ) -> DecisionLookup {
        let mut pause = Backoff::default();
        loop {
            match self.look_once(request, home, attempt).await {
                Ok(known) => return known,
                Err(why) => pause.after("what stands about a try cannot be read", &why).await,
            }
        }
    }

    /// The same, or why it cannot be told now.
    pub(crate) async fn look_once(
        &self,
        request: RequestId,
        home: DecisionLocation,
        attempt: AttemptNumber,
    ) -> Result<DecisionLookup, String> {
        match home {
            DecisionLocation::Registers => {
                let (log, slot) = register(request, attempt);
                match self.registers.read(log, slot, 1).await {
                    Ok(found) => match found.into_iter().find(|(place, _)| *place == slot) {
                        Some((_, bytes)) => decoded(&bytes),
                        None => Ok(DecisionLookup::Stands(None)),
                    },
                    Err(jeton_register::Failure::Trimmed { .. }) => Ok(DecisionLookup::Forgotten),
                    Err(why) => Err(why.to_string()),
                }
            }
            DecisionLocation::Resource(number) => {
                match self.resource(number)?.read_decision(request, attempt).await {
                    Ok(Some(bytes)) => decoded(&bytes),
                    Ok(None) => Ok(DecisionLookup::Stands(None)),
                    Err(ResourceError::Forgotten { .. }) => Ok(DecisionLookup::Forgotten),
                    Err(why) => Err(why.to_string()),
                }
            }
        }
    }

    /// Writes a decision, if none stands, until it is known what does. If there is no room for it, that is told at once, for what it is about must not be held up so long; and only if it
    /// is certain that none of the writes has come about, or will.
    pub async fn propose(
        &self,
        request: RequestId,
        home: DecisionLocation,
        attempt: AttemptNumber,
        decision: &Decision,
    ) -> Result<DecisionLookup, RegistersFull> {
        let mut pause = Backoff::default();
        let mut may_be_written = false;
        loop {
            let why = match self.write(request, home, attempt, decision).await {
                Ok(known) => return Ok(known),
                Err(Unwritten::NoRoom(full)) if !may_be_written => return Err(full),
                Err(Unwritten::NoRoom(full)) => full.to_string(),
                Err(Unwritten::Trouble { may_be_written: may_be, why }) => {
                    may_be_written |= may_be;
                    why
                }
            };
            pause.after("a decision cannot be written", &why).await;
        }
    }

    /// Writes a decision, if none stands; what stands, or why it cannot be told now.
    pub(crate) async fn propose_once(
        &self,
        request: RequestId,
        home: DecisionLocation,
        attempt: AttemptNumber,
        decision: &Decision,
    ) -> Result<DecisionLookup, String> {
        self.write(request, home, attempt, decision).await.map_err(|unwritten| match unwritten {
            Unwritten::NoRoom(full) => full.to_string(),
            Unwritten::Trouble { why, .. } => why,
        })
    }

    async fn write(
        &self,
        request: RequestId,
        home: DecisionLocation,
        attempt: AttemptNumber,
        decision: &Decision,
    ) -> Result<DecisionLookup, Unwritten> {
        let bytes = decision.encode();
        match home {
            DecisionLocation::Registers => {
                let (log, slot) = register(request, attempt);
                let permit = self.registers.admit(1, bytes.len())?;
                let mut batch = Batch::new();
                batch.push(log, slot, &bytes);
                let written = self.registers.write(batch, permit).await?;
                match written.into_iter().next() {
                    Some(Written::Fresh) => Ok(DecisionLookup::Stands(Some(decision.clone()))),
                    Some(Written::Taken(stands)) => decoded(&stands).map_err(Unwritten::trouble),
                    Some(Written::Trimmed) => Ok(DecisionLookup::Forgotten),
                    None => Err(Unwritten::trouble("an engine did not answer for a register")),
                }
            }
            DecisionLocation::Resource(number) => {
                let resource = self.resource(number).map_err(Unwritten::trouble)?;
                match resource.write_decision(request, attempt, &bytes).await {
                    Ok(stands) => decoded(&stands).map_err(Unwritten::trouble),
                    Err(ResourceError::Forgotten { .. }) => Ok(DecisionLookup::Forgotten),
                    Err(why) => Err(Unwritten::trouble(why)),
                }
            }
        }
    }

    fn resource(&self, number: u8) -> Result<&Arc<dyn Resource>, String> {
        let resource = self.resources.get(usize::from(number));
        resource.ok_or_else(|| format!("there is no database {number} among those of this server"))
    }
}

fn decoded(bytes: &[u8]) -> Result<DecisionLookup, String> {
    Decision::decode(bytes)
        .map(|decision| DecisionLookup::Stands(Some(decision)))
        .map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_try_of_every_request_has_a_register_of_its_own() {
        let slots = |sequence| {
            let request = RequestId { session: 9, sequence };
            (1..=TRIES_MAX).map(move |attempt| register(request, AttemptNumber(attempt)).1)
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
