//! The registers and rows that all members agree on.
//!
//! What must hold: the state is a function of the proposals applied, in their order. The trim point of a log and the mark of a space are
//! looked at in the same step as the register. It does what the memory engine does; a test compares the two.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bytes::Bytes;
use jeton_register::{Blob, Error, Extent, LogId, LogKind, Slot};

use crate::command::{Answer, Applied, COMMAND_OVERHEAD, Command, Outcome, Proposal, Write};
use crate::dedup::{Known, Sessions, StoredAnswer};
use crate::settings::{READ_BYTES_MAX, READ_REGISTERS_MAX};

/// Values that are taken are carried in an answer up to so many bytes.
pub const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Registers and rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    pub logs: BTreeMap<LogId, SlotMap>,
    /// The logs below these are retired.
    pub retired: BTreeMap<LogKind, u128>,
    pub rows: BTreeMap<String, Blob>,
    pub sessions: Sessions,
    /// What all of it takes, about. Not in snapshots: it is counted again.
    pub bytes: usize,
}

/// A log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotMap {
    pub extent: Extent,
    pub values: BTreeMap<Slot, Bytes>,
}

impl SlotMap {
    fn bytes(&self) -> usize {
        COMMAND_OVERHEAD + self.values.values().map(|value| COMMAND_OVERHEAD + value.len()).sum::<usize>()
    }
}

fn row_bytes(name: &str, row: &Blob) -> usize {
    COMMAND_OVERHEAD + name.len() + row.bytes.len()
}

impl State {
    /// Does what was proposed, unless it was done before.
    pub fn apply(&mut self, proposal: &Proposal) -> Applied {
        match self.sessions.look(proposal.session, proposal.sequence) {
            Known::Stale => return Applied::Stale,
            Known::Done(memos) => return Applied::Answers(self.again(proposal, memos)),
            Known::Nothing => {}
        }
        let mut room = ANSWER_BYTES_MAX;
        let answers: Vec<Answer> =
            proposal.commands.iter().map(|command| self.command(command, &mut room)).collect();
        self.sessions.remember(proposal.session, proposal.sequence, &answers);
        Applied::Answers(answers)
    }

    /// What is to be answered to a proposal that was done before.
    fn again(&self, proposal: &Proposal, memos: &[StoredAnswer]) -> Vec<Answer> {
        let mut room = ANSWER_BYTES_MAX;
        let again = |(command, memo): (&Command, &StoredAnswer)| match (command, memo) {
            (Command::Write(writes), StoredAnswer::Written(fresh)) => {
                let outcome = |(write, fresh): (&Write, &bool)| match fresh {
                    true => Outcome::Fresh,
                    // It was taken then: if it is not there, it was trimmed since.
                    false => carried(self.find(write).unwrap_or(Outcome::Trimmed), &mut room),
                };
                Answer::Written(writes.iter().zip(fresh).map(outcome).collect())
            }
            (_, StoredAnswer::Stored(stored)) => Answer::Stored(*stored),
            _ => Answer::Done,
        };
        proposal.commands.iter().zip(memos).map(again).collect()
    }

    fn command(&mut self, command: &Command, room: &mut usize) -> Answer {
        match command {
            Command::Write(writes) => {
                Answer::Written(writes.iter().map(|write| carried(self.write(write), room)).collect())
            }
            Command::Trim { log, through } => {
                self.trim(log.0, Slot(*through));
                Answer::Done
            }
            Command::Retire { from } => {
                self.retire(from.0.kind, from.0.id);
                Answer::Done
            }
            Command::PutRow { name, slot, bytes } => {
                Answer::Stored(self.put_blob(name, Blob { version: *slot, bytes: bytes.clone() }))
            }
        }
    }

    /// What stands in the way of a write, if anything does.
    pub fn find(&self, write: &Write) -> Option<Outcome> {
        let (log, slot) = (write.log.0, Slot(write.slot));
        if self.is_retired(log) {
            return Some(Outcome::Trimmed);
        }
        let cells = self.logs.get(&log)?;
        if slot <= cells.extent.trimmed {
            return Some(Outcome::Trimmed);
        }
        cells.values.get(&slot).map(|value| Outcome::Taken(value.clone()))
    }

    fn write(&mut self, write: &Write) -> Outcome {
        if let Some(outcome) = self.find(write) {
            return outcome;
        }
        let cells = match self.logs.entry(write.log.0) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => {
                self.bytes += COMMAND_OVERHEAD;
                place.insert(SlotMap::default())
            }
        };
        self.bytes += COMMAND_OVERHEAD + write.value.len();
        cells.values.insert(Slot(write.slot), write.value.clone());
        cells.extent.last = cells.extent.last.max(Slot(write.slot));
        Outcome::Fresh
    }

    fn trim(&mut self, log: LogId, through: Slot) {
        if self.is_retired(log) || through <= self.extent(log).trimmed {
            return;
        }
        let through = through.min(Slot::MAX);
        let cells = match self.logs.entry(log) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => {
                self.bytes += COMMAND_OVERHEAD;
                place.insert(SlotMap::default())
            }
        };
        cells.extent.trimmed = through;
        let kept = cells.values.split_off(&through.next());
        let gone = std::mem::replace(&mut cells.values, kept);
        self.bytes -= gone.values().map(|value| COMMAND_OVERHEAD + value.len()).sum::<usize>();
    }

    fn retire(&mut self, space: LogKind, below: u128) {
        let mark = self.retired.entry(space).or_default();
        *mark = below.max(*mark);
        let below = *mark;
        let bytes = &mut self.bytes;
        self.logs.retain(|log, cells| {
            let stays = log.kind != space || log.id >= below;
            if !stays {
                *bytes -= cells.bytes();
            }
            stays
        });
    }

    fn put_blob(&mut self, name: &str, row: Blob) -> bool {
        if self.rows.get(name).is_some_and(|there| there.version > row.version) {
            return false;
        }
        self.bytes += row_bytes(name, &row);
        if let Some(old) = self.rows.insert(name.to_owned(), row) {
            self.bytes -= row_bytes(name, &old);
        }
        true
    }

    fn is_retired(&self, log: LogId) -> bool {
        self.retired.get(&log.kind).is_some_and(|&below| log.id < below)
    }

    pub fn extent(&self, log: LogId) -> Extent {
        if self.is_retired(log) {
            return Extent::RETIRED;
        }
        self.logs.get(&log).map(|cells| cells.extent).unwrap_or_default()
    }

    pub fn read(&self, log: LogId, from: Slot, limit: usize) -> Result<Vec<(Slot, Bytes)>, Error> {
        let through = self.extent(log).trimmed;
        if from <= through {
            return Err(Error::Trimmed { log, through });
        }
        let values = self.logs.get(&log).into_iter().flat_map(|cells| cells.values.range(from..));
        let mut read: Vec<(Slot, Bytes)> = Vec::new();
        let mut bytes = 0;
        for (&slot, value) in values.take(limit.min(READ_REGISTERS_MAX)) {
            bytes += value.len();
            if !read.is_empty() && bytes > READ_BYTES_MAX {
                break;
            }
            read.push((slot, value.clone()));
        }
        Ok(read)
    }

    /// What all of it takes, counted anew.
    pub fn count_bytes(&self) -> usize {
        let logs: usize = self.logs.values().map(SlotMap::bytes).sum();
        logs + self.rows.iter().map(|(name, row)| row_bytes(name, row)).sum::<usize>()
    }
}

/// The outcome without its value, if there is no room for that.
fn carried(outcome: Outcome, room: &mut usize) -> Outcome {
    match outcome {
        Outcome::Taken(value) if value.len() > *room => Outcome::Held,
        Outcome::Taken(value) => {
            *room -= value.len();
            Outcome::Taken(value)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::LogName;
    use futures_executor::block_on;
    use jeton_register::memory::MemoryRegisters;
    use jeton_register::{Batch, Registers, WritePermit, WriteResult};

    fn write(log: u16, slot: u64, value: &str) -> Write {
        let value = Bytes::copy_from_slice(value.as_bytes());
        Write { log: LogName(LogId::partition(log)), slot, value }
    }

    fn asked(sequence: u64, commands: Vec<Command>) -> Proposal {
        Proposal { session: 1, sequence, commands }
    }

    fn written(applied: Applied) -> Vec<Outcome> {
        match applied {
            Applied::Answers(answers) => match &answers[..] {
                [Answer::Written(outcomes)] => outcomes.clone(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_asked_twice_is_done_once_and_answered_alike() {
        let mut state = State::default();
        let first = asked(1, vec![Command::Write(vec![write(1, 1, "a"), write(1, 1, "b")])]);
        let outcomes = vec![Outcome::Fresh, Outcome::Taken("a".into())];
        assert_eq!(written(state.apply(&first)), outcomes);
        let before = state.clone();
        assert_eq!(written(state.apply(&first)), outcomes, "it was the first, and still is");
        assert_eq!(state, before);
        let trim = asked(2, vec![Command::Trim { log: LogName(LogId::partition(1)), through: 1 }]);
        state.apply(&trim);
        assert_eq!(state.apply(&first), Applied::Stale);
        assert_eq!(state.apply(&trim), Applied::Answers(vec![Answer::Done]));
        // Another life of the same member counts anew.
        let other = Proposal { session: 2, ..asked(1, vec![Command::Write(vec![write(1, 1, "c")])]) };
        assert_eq!(written(state.apply(&other)), [Outcome::Trimmed]);
    }

    #[test]
    fn a_row_that_was_stored_was_stored_when_it_is_asked_again() {
        let mut state = State::default();
        let row = |slot| Command::PutRow { name: "row".into(), slot, bytes: Bytes::new() };
        let first = asked(1, vec![row(5)]);
        assert_eq!(state.apply(&first), Applied::Answers(vec![Answer::Stored(true)]));
        let other = Proposal { session: 2, sequence: 1, commands: vec![row(9), row(7)] };
        let stored = vec![Answer::Stored(true), Answer::Stored(false)];
        assert_eq!(state.apply(&other), Applied::Answers(stored));
        assert_eq!(state.apply(&first), Applied::Answers(vec![Answer::Stored(true)]));
        assert_eq!(state.rows["row"].version, 9);
    }

    #[test]
    fn values_beyond_what_an_answer_carries_are_held() {
        let mut state = State::default();
        let large = Write { value: vec![0; ANSWER_BYTES_MAX / 2].into(), ..write(1, 1, "") };
        state.apply(&asked(1, vec![Command::Write(vec![large])]));
        let again = asked(2, vec![Command::Write(vec![write(1, 1, ""); 3])]);
        let outcomes = written(state.apply(&again));
        assert!(matches!(outcomes[..], [Outcome::Taken(_), Outcome::Taken(_), Outcome::Held]));
    }

    /// The same requests, in a chosen disorder, to the memory engine and to the state.
    #[test]
    fn it_does_what_the_memory_engine_does() {
        let memory = MemoryRegisters::new();
        let mut state = State::default();
        let mut chance = 1u64;
        let mut draw = |below: u64| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (chance >> 33) % below
        };
        for sequence in 1..20_000 {
            let log = match draw(3) {
                0 => LogId::partition(draw(3) as u16),
                _ => LogId::transaction(u128::from(draw(40))),
            };
            let slot = Slot(1 + draw(12));
            let answer = |state: &mut State, command| match state.apply(&asked(sequence, vec![command])) {
                Applied::Answers(mut answers) => answers.remove(0),
                other => panic!("{other:?}"),
            };
            match draw(20) {
                0 => {
                    block_on(memory.trim(log, slot)).unwrap();
                    answer(&mut state, Command::Trim { log: LogName(log), through: slot.0 });
                }
                1 if draw(50) == 0 => {
                    let from = LogId::transaction(u128::from(draw(40)));
                    block_on(memory.retire(from.kind, from.id)).unwrap();
                    answer(&mut state, Command::Retire { from: LogName(from) });
                }
                2 => {
                    let row = Blob { version: slot.0, bytes: sequence.to_le_bytes().to_vec().into() };
                    let name = format!("row-{}", draw(3));
                    let stored = block_on(memory.put_blob(&name, row.clone())).unwrap();
                    let command = Command::put_blob(&name, row).unwrap();
                    assert_eq!(answer(&mut state, command), Answer::Stored(stored));
                    assert_eq!(block_on(memory.get_blob(&name)).unwrap(), state.rows.get(&name).cloned());
                }
                _ => {
                    let mut batch = Batch::new();
                    batch.push(log, slot, &sequence.to_le_bytes());
                    batch.push(log, slot.next(), b"next");
                    let theirs = block_on(memory.write(batch.clone(), WritePermit::unlimited())).unwrap();
                    let Answer::Written(ours) = answer(&mut state, Command::write(&batch).unwrap()) else {
                        panic!("a write is answered as one")
                    };
                    assert_eq!(ours.into_iter().map(WriteResult::from).collect::<Vec<_>>(), theirs);
                }
            }
            assert_eq!(block_on(memory.extent(log)).unwrap(), state.extent(log));
            assert_eq!(block_on(memory.read(log, slot, 5)), state.read(log, slot, 5));
        }
        assert_eq!(state.bytes, state.count_bytes());
    }
}
