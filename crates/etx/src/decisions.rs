//! Where decisions are kept: in the registers that the servers share, or in a database of the request.

use std::sync::Arc;

use jeton_register::{Batch, Log, Registers, Slot, Written};

use crate::pause::Pause;
use crate::{Decision, Failure, Home, RequestId, Resource, TRIES_MAX, Try};

/// What is known about a try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// This stands; or nothing yet.
    Stands(Option<Decision>),
    /// What stood is forgotten.
    Forgotten,
}

/// All places of decisions.
pub struct Decisions<R> {
    registers: Arc<R>,
    resources: Arc<[Arc<dyn Resource>]>,
}

/// The register of a try: the sessions have logs, and each request of a session has as many slots as it may have tries.
fn register(request: RequestId, attempt: Try) -> (Log, Slot) {
    let slot = u64::from(request.sequence) * u64::from(TRIES_MAX) + u64::from(attempt.0);
    (Log::transaction(request.session), Slot(slot))
}

impl<R: Registers> Decisions<R> {
    /// Decisions in these registers and databases.
    pub fn new(registers: Arc<R>, resources: Arc<[Arc<dyn Resource>]>) -> Self {
        Self { registers, resources }
    }

    /// The registers.
    pub fn registers(&self) -> &R {
        &self.registers
    }

    /// What stands about a try, asked until there is an answer. That nothing stands is no more than a hint.
    pub async fn look(&self, request: RequestId, home: Home, attempt: Try) -> Known {
        let mut pause = Pause::default();
        loop {
            match self.look_once(request, home, attempt).await {
                Ok(known) => return known,
                Err(why) => pause.after("what stands about a try cannot be read", &why).await,
            }
        }
    }

    async fn look_once(&self, request: RequestId, home: Home, attempt: Try) -> Result<Known, String> {
        match home {
            Home::Registers => {
                let (log, slot) = register(request, attempt);
                match self.registers.read(log, slot, 1).await {
                    Ok(found) => match found.into_iter().find(|(place, _)| *place == slot) {
                        Some((_, bytes)) => decoded(&bytes),
                        None => Ok(Known::Stands(None)),
                    },
                    Err(jeton_register::Failure::Trimmed { .. }) => Ok(Known::Forgotten),
                    Err(why) => Err(why.to_string()),
                }
            }
            Home::Resource(number) => match self.resource(number)?.read_decision(request, attempt).await {
                Ok(Some(bytes)) => decoded(&bytes),
                Ok(None) => Ok(Known::Stands(None)),
                Err(Failure::Forgotten { .. }) => Ok(Known::Forgotten),
                Err(why) => Err(why.to_string()),
            },
        }
    }

    /// Writes a decision, if none stands, until it is known what does.
    pub async fn propose(&self, request: RequestId, home: Home, attempt: Try, decision: &Decision) -> Known {
        let bytes = decision.encode();
        let mut pause = Pause::default();
        loop {
            match self.propose_once(request, home, attempt, decision, &bytes).await {
                Ok(known) => return known,
                Err(why) => pause.after("a decision cannot be written", &why).await,
            }
        }
    }

    async fn propose_once(
        &self,
        request: RequestId,
        home: Home,
        attempt: Try,
        decision: &Decision,
        bytes: &[u8],
    ) -> Result<Known, String> {
        match home {
            Home::Registers => {
                let (log, slot) = register(request, attempt);
                let permit = self.registers.admit(1, bytes.len()).map_err(|why| why.to_string())?;
                let mut batch = Batch::new();
                batch.push(log, slot, bytes);
                let written = self.registers.write(batch, permit).await.map_err(|why| why.to_string())?;
                match written.into_iter().next() {
                    Some(Written::Fresh) => Ok(Known::Stands(Some(decision.clone()))),
                    Some(Written::Taken(stands)) => decoded(&stands),
                    Some(Written::Trimmed) => Ok(Known::Forgotten),
                    None => Err("an engine did not answer for a register".to_owned()),
                }
            }
            Home::Resource(number) => {
                match self.resource(number)?.write_decision(request, attempt, bytes).await {
                    Ok(stands) => decoded(&stands),
                    Err(Failure::Forgotten { .. }) => Ok(Known::Forgotten),
                    Err(why) => Err(why.to_string()),
                }
            }
        }
    }

    fn resource(&self, number: u8) -> Result<&Arc<dyn Resource>, String> {
        let resource = self.resources.get(usize::from(number));
        resource.ok_or_else(|| format!("there is no database {number} among those of this server"))
    }
}

fn decoded(bytes: &[u8]) -> Result<Known, String> {
    Decision::decode(bytes).map(|decision| Known::Stands(Some(decision))).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_try_of_every_request_has_a_register_of_its_own() {
        let slots = |sequence| {
            let request = RequestId { session: 9, sequence };
            (1..=TRIES_MAX).map(move |attempt| register(request, Try(attempt)).1)
        };
        let mut all: Vec<Slot> = [0, 1, 2, u32::MAX].into_iter().flat_map(slots).collect();
        assert!(all.is_sorted() && all[0] > Slot::ZERO);
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
