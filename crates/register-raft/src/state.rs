//! The replicated state: registers, blobs, and the results of the last proposals.
//!
//! Invariant: the state is a function of the applied proposals and their order.

use std::collections::BTreeMap;

use jeton_register::{Blob, Error, LogId, RegisterMap, Slot};

use crate::command::{Applied, COMMAND_OVERHEAD, Command, CommandResult, Outcome, Proposal, Write};
use crate::dedup::{ProposalStatus, Sessions, StoredResult};
use crate::settings::READ_REGISTERS_MAX;

/// The most bytes of taken values in one response.
pub const RESPONSE_BYTES_MAX: usize = 8 << 20;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    pub registers: RegisterMap,
    pub blobs: BTreeMap<String, Blob>,
    pub sessions: Sessions,
    /// The memory that the blobs take, about.
    blob_bytes: usize,
}

fn blob_bytes(name: &str, blob: &Blob) -> usize {
    COMMAND_OVERHEAD + name.len() + blob.bytes.len()
}

impl State {
    /// Applies a proposal, unless it was applied before.
    pub fn apply(&mut self, proposal: &Proposal) -> Applied {
        let mut space = RESPONSE_BYTES_MAX;
        match self.sessions.find(proposal.session, proposal.sequence) {
            ProposalStatus::Superseded => return Applied::Superseded,
            ProposalStatus::Applied(results) => {
                let again = |(command, result)| self.result_again(command, result, &mut space);
                return Applied::Results(proposal.commands.iter().zip(results).map(again).collect());
            }
            ProposalStatus::New => {}
        }
        let results: Vec<CommandResult> =
            proposal.commands.iter().map(|command| self.execute(command, &mut space)).collect();
        self.sessions.remember(proposal.session, proposal.sequence, &results);
        Applied::Results(results)
    }

    /// The result of a command that was applied before.
    fn result_again(&self, command: &Command, result: &StoredResult, space: &mut usize) -> CommandResult {
        match (command, result) {
            (Command::Write(writes), StoredResult::Written(fresh)) => {
                let outcome = |(write, fresh): (&Write, &bool)| match fresh {
                    true => Outcome::Fresh,
                    false => limited(self.find(write), space),
                };
                CommandResult::Written(writes.iter().zip(fresh).map(outcome).collect())
            }
            (_, StoredResult::Stored(stored)) => CommandResult::Stored(*stored),
            _ => CommandResult::Done,
        }
    }

    fn execute(&mut self, command: &Command, space: &mut usize) -> CommandResult {
        match command {
            Command::Write(writes) => {
                let write = |write: &Write| {
                    let value = || write.value.clone();
                    let result = self.registers.write_with(write.log.0, Slot(write.slot), value);
                    limited(result.into(), space)
                };
                return CommandResult::Written(writes.iter().map(write).collect());
            }
            Command::PutBlob { name, version, bytes } => {
                let blob = Blob { version: *version, bytes: bytes.clone() };
                return CommandResult::Stored(self.put_blob(name, blob));
            }
            Command::Trim { log, through } => {
                let through = Slot(*through).min(Slot::MAX);
                if through > Slot::ZERO && !self.registers.is_trimmed(log.0, through) {
                    self.registers.trim(log.0, through);
                }
            }
            Command::Retire { below } => self.registers.retire(below.0.kind, below.0.id),
        }
        CommandResult::Done
    }

    /// The present result for a write that was not fresh. An empty register was refused for a gap.
    pub fn find(&self, write: &Write) -> Outcome {
        let found = self.registers.find(write.log.0, Slot(write.slot));
        found.map_or(Outcome::Gap, Outcome::from)
    }

    /// Stores a blob unless a higher version is stored.
    pub fn put_blob(&mut self, name: &str, blob: Blob) -> bool {
        if self.blobs.get(name).is_some_and(|stored| stored.version > blob.version) {
            return false;
        }
        self.blob_bytes += blob_bytes(name, &blob);
        if let Some(old) = self.blobs.insert(name.to_owned(), blob) {
            self.blob_bytes -= blob_bytes(name, &old);
        }
        true
    }

    pub fn read(&self, log: LogId, from: Slot, limit: usize) -> Result<Vec<(Slot, bytes::Bytes)>, Error> {
        self.registers.read(log, from, limit.min(READ_REGISTERS_MAX))
    }

    /// The memory that registers and blobs take, about.
    pub fn bytes(&self) -> usize {
        self.registers.bytes() + self.blob_bytes
    }
}

/// The outcome, without its value if that is larger than the space left in the response.
fn limited(outcome: Outcome, space: &mut usize) -> Outcome {
    match outcome {
        Outcome::Taken(value) if value.len() > *space => Outcome::Omitted,
        Outcome::Taken(value) => {
            *space -= value.len();
            Outcome::Taken(value)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::LogName;
    use bytes::Bytes;

    const LOG: LogName = LogName(LogId::partition(1));

    fn write(slot: u64, value: &str) -> Write {
        Write { log: LOG, slot, value: Bytes::copy_from_slice(value.as_bytes()) }
    }

    fn proposal(session: u64, sequence: u64, commands: Vec<Command>) -> Proposal {
        Proposal { session, sequence, commands }
    }

    fn written(outcomes: Vec<Outcome>) -> Applied {
        Applied::Results(vec![CommandResult::Written(outcomes)])
    }

    #[test]
    fn retried_proposal_is_applied_once_with_the_same_result() {
        let mut state = State::default();
        let first = proposal(1, 1, vec![Command::Write(vec![write(1, "a"), write(1, "b")])]);
        let expected = written(vec![Outcome::Fresh, Outcome::Taken("a".into())]);
        assert_eq!(state.apply(&first), expected);
        let before = state.clone();
        assert_eq!(state.apply(&first), expected);
        assert_eq!(state, before);
        let trim = proposal(1, 2, vec![Command::Trim { log: LOG, through: 1 }]);
        state.apply(&trim);
        assert_eq!(state.apply(&first), Applied::Superseded);
        assert_eq!(state.apply(&trim), Applied::Results(vec![CommandResult::Done]));
        let other_session = proposal(2, 1, vec![Command::Write(vec![write(1, "c")])]);
        assert_eq!(state.apply(&other_session), written(vec![Outcome::Trimmed]));
    }

    #[test]
    fn retried_blob_returns_the_first_result() {
        let mut state = State::default();
        let put = |version| Command::PutBlob { name: "blob".into(), version, bytes: Bytes::new() };
        let stored =
            |stored: &[bool]| Applied::Results(stored.iter().map(|s| CommandResult::Stored(*s)).collect());
        let first = proposal(1, 1, vec![put(5)]);
        assert_eq!(state.apply(&first), stored(&[true]));
        assert_eq!(state.apply(&proposal(2, 1, vec![put(9), put(7)])), stored(&[true, false]));
        assert_eq!(state.apply(&first), stored(&[true]));
        assert_eq!(state.blobs["blob"].version, 9);
    }

    #[test]
    fn values_above_the_limit_of_a_response_are_omitted() {
        let mut state = State::default();
        let large = Write { value: vec![0; RESPONSE_BYTES_MAX / 2].into(), ..write(1, "") };
        state.apply(&proposal(1, 1, vec![Command::Write(vec![large])]));
        let again = state.apply(&proposal(1, 2, vec![Command::Write(vec![write(1, ""); 3])]));
        let Applied::Results(results) = again else { panic!("{again:?}") };
        let [CommandResult::Written(outcomes)] = &results[..] else { panic!("one command") };
        assert!(matches!(outcomes[..], [Outcome::Taken(_), Outcome::Taken(_), Outcome::Omitted]));
    }
}
