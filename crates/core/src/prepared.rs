//! Branches of transactions in a partition: held, and settled.
//!
//! What must hold:
//! - *Once.* A branch is held at most once under its name, and settled at most once. Whoever asks again is told what stands. How it was settled is remembered for
//!   [`BRANCH_WINDOW`] from then on, where the answers under ids are; one that comes later than that, which no message does, is held again, and then listed and settled like any other.
//! - *Nothing after an abort.* What was never held and is settled for nothing will not be held: an abort may overtake what it aborts.
//! - *Yes is a promise.* What is held can be committed, whatever else happens to its counters ([`escrow`](crate::escrow)).
//! - The home is settled last: while it holds its part, it knows where there are others.
//!
//! An operation is decided as if it came before everything that is held, and nothing of a branch is seen before its commit. Its own bounds are therefore those of the
//! counter as it is; but what it leaves must be enough for all that is held, or it is told to come again.

use forgetful_filter::Timestamp;

use crate::branch::{Addition, Branch, BranchLogItem, BranchName, BranchOutcome};
use crate::escrow::{Escrow, PreparedBranch, PreparedBranches};
use crate::generation::Generation;
use crate::hash::{IdKey, PayloadHash};
use crate::limits::BRANCH_WINDOW;
use crate::log_entry::{OperationDecision, millis};
use crate::operation::Operation;
use crate::operation_result::{DedupRecord, OperationResult, Rejection, Values};
use crate::partition::{LogPosition, Partition, StateReader, StateWriter, effects_of};
use crate::replay::ReplayError;
use crate::store_clock::with_clock_drift;
use crate::value::Value;

/// What should become of a branch.
#[derive(Debug, Clone, PartialEq)]
pub enum BranchVerdict {
    /// Something new: to be logged and applied.
    Fresh(BranchLogItem),
    /// It is held already, the same.
    Held,
    /// It has ended so, before.
    Settled(BranchOutcome),
    /// It is not held, and nothing is known of how it ended, if there ever was such a branch.
    Unknown,
    /// It is held here, and these partitions must be settled first.
    Elsewhere(Vec<crate::PartitionId>),
    /// It is not held. Nothing changes.
    Rejected(Rejection),
}

/// What is known of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchState {
    /// It is held.
    Held,
    /// It has ended.
    Settled(BranchOutcome),
    /// Neither, as far as is remembered.
    Unknown,
}

impl Partition {
    /// What is known of a branch, at this time. Changes nothing.
    pub fn branch<R: StateReader>(
        &self,
        now: Timestamp,
        name: &BranchName,
        key: IdKey,
        recall: &mut R,
    ) -> Result<BranchState, R::Error> {
        if self.branches.get(name).is_some() {
            return Ok(BranchState::Held);
        }
        let latest = now.after(with_clock_drift(BRANCH_WINDOW));
        let known = recall.remembered(key, Generation::between(now, latest, BRANCH_WINDOW))?;
        Ok(match known {
            Some(known) if known.answer.applied => BranchState::Settled(BranchOutcome::Commit),
            Some(_) => BranchState::Settled(BranchOutcome::Abort),
            None => BranchState::Unknown,
        })
    }

    /// Whether a branch is to be held, in this step (the next one, or the present one again). Changes nothing. `key` is that of its name in this partition.
    pub fn decide_prepare<R: StateReader>(
        &self,
        step: LogPosition,
        branch: &Branch,
        key: IdKey,
        recall: &mut R,
    ) -> Result<BranchVerdict, R::Error> {
        if let Some(held) = self.branches.get(branch.name()) {
            let same = held.branch == *branch;
            return Ok(if same { BranchVerdict::Held } else { BranchVerdict::Rejected(Rejection::Mismatch) });
        }
        if let BranchState::Settled(ending) = self.branch(step.time, branch.name(), key, recall)?
            && !(mutated!(NoTombstones) && ending == BranchOutcome::Abort)
        {
            return Ok(BranchVerdict::Settled(ending));
        }
        if !self.branches.has_room(branch) {
            return Ok(BranchVerdict::Rejected(Rejection::Capacity { what: "branches of transactions" }));
        }
        for one in branch.additions() {
            let value = recall.value(&one.cell)?.and_then(|value| value.at(millis(step.time)));
            if let Err(rejection) = self.bear(one, value.as_ref()) {
                return Ok(BranchVerdict::Rejected(rejection));
            }
        }
        Ok(BranchVerdict::Fresh(BranchLogItem::Held(branch.clone())))
    }

    /// Whether an addition can be held, given what its cell holds.
    fn bear(&self, one: &Addition, value: Option<&Value>) -> Result<(), Rejection> {
        let number = value.map_or(Some(0), Value::counter).ok_or(Rejection::NotACounter)?;
        // By itself: then it is what is asked for that cannot be, whoever else holds what.
        let mut escrow = Escrow::default();
        escrow.add(one);
        if !escrow.allows(value) {
            let bounded = one.min.is_some() || one.max.is_some();
            let overflows = number.checked_add(one.delta).is_none();
            return Err(if bounded && !overflows {
                Rejection::Bound { value: number }
            } else {
                Rejection::Overflow
            });
        }
        if let Some(others) = self.branches.escrow(&one.cell) {
            let mut together = others.clone();
            together.add(one);
            if !together.allows(value) {
                return Err(Rejection::Held);
            }
        }
        Ok(())
    }

    /// How a branch is to end, in this step (the next one, or the present one again). Changes nothing. `rest_settled` says that this was done wherever else there is a part.
    pub fn decide_finish<R: StateReader>(
        &self,
        step: LogPosition,
        (name, key): (&BranchName, IdKey),
        ending: BranchOutcome,
        rest_settled: bool,
        recall: &mut R,
    ) -> Result<BranchVerdict, R::Error> {
        let mut values = Vec::new();
        match self.branches.get(name) {
            Some(held) if !rest_settled && !held.branch.elsewhere().is_empty() => {
                return Ok(BranchVerdict::Elsewhere(held.branch.elsewhere().to_vec()));
            }
            Some(held) if ending == BranchOutcome::Commit => {
                for one in held.branch.additions() {
                    let value = recall.value(&one.cell)?.and_then(|value| value.at(millis(step.time)));
                    match added(value.as_ref(), one.delta) {
                        Ok(value) => values.push(value),
                        // What was promised cannot be kept; nothing is made of it.
                        Err(rejection) => return Ok(BranchVerdict::Rejected(rejection)),
                    }
                }
            }
            Some(_) => {}
            None => match self.branch(step.time, name, key, recall)? {
                BranchState::Settled(ending) if !mutated!(SettleTwice) => {
                    return Ok(BranchVerdict::Settled(ending));
                }
                _ if ending == BranchOutcome::Commit => return Ok(BranchVerdict::Unknown),
                _ => {}
            },
        }
        let generation = Generation::of(step.time.after(with_clock_drift(BRANCH_WINDOW)), BRANCH_WINDOW);
        Ok(BranchVerdict::Fresh(BranchLogItem::Settled { name: name.clone(), ending, values, generation }))
    }

    /// Makes a step of a branch come true. Its step is the one taken last. An error means that it does not follow from what was before.
    pub fn apply_branch<A: StateWriter>(
        &mut self,
        step: &BranchLogItem,
        key: IdKey,
        absorb: &mut A,
    ) -> Result<(), ReplayError> {
        match step {
            BranchLogItem::Held(branch) => {
                let mut partitions = branch.additions().iter().map(|one| one.cell.partition());
                if let Some(other) = partitions.find(|partition| *partition != self.id()) {
                    return Err(ReplayError::OtherPartition(other));
                }
                if self.branches.get(branch.name()).is_some() {
                    return Err(ReplayError::PreparedTwice(branch.name().clone()));
                }
                self.branches.insert(PreparedBranch { branch: branch.clone(), since: millis(self.time()) });
            }
            BranchLogItem::Settled { name, ending, values, .. } => {
                let held = self.branches.release(name);
                let additions = held.as_ref().map_or(&[][..], |held| held.branch.additions());
                if *ending == BranchOutcome::Commit && (held.is_none() || values.len() != additions.len()) {
                    return Err(ReplayError::NotPrepared(name.clone()));
                }
                for (one, value) in additions.iter().zip(values) {
                    absorb.store(&one.cell, Some(value.clone()));
                }
                recollect_branch(step, key, self.slot(), self.time(), absorb);
            }
        }
        Ok(())
    }

    /// The branches it holds.
    pub fn branches(&mut self) -> &mut PreparedBranches {
        &mut self.branches
    }

    /// Whether what a decision leaves is enough for all that is held.
    pub(crate) fn allows(
        &self,
        step: LogPosition,
        operation: &Operation,
        decision: &OperationDecision,
    ) -> bool {
        if self.branches.is_empty() || !decision.answer.applied {
            return true;
        }
        let left: Vec<_> = effects_of(operation, decision).collect();
        left.iter().enumerate().all(|(at, (cell, value))| {
            let Some(escrow) = self.branches.escrow(cell) else { return true };
            // What a later change of the same operation replaces is never seen.
            let replaced = left[at + 1..].iter().any(|(later, _)| later == cell);
            // What is over already is nothing, and stays it: the partition's time never goes back.
            let value = value.clone().and_then(|value| value.at(millis(step.time)));
            replaced || escrow.allows(value.as_ref())
        })
    }
}

/// Makes only the part of a step come true that concerns the id index: for whoever has restored the rest from elsewhere. May be repeated.
pub fn recollect_branch<A: StateWriter>(
    step: &BranchLogItem,
    key: IdKey,
    slot: u64,
    time: Timestamp,
    absorb: &mut A,
) {
    let BranchLogItem::Settled { ending, generation, .. } = step else { return };
    let applied = *ending == BranchOutcome::Commit;
    let answer =
        OperationResult { applied, slot, millis: millis(time), values: Values::from_vec(Vec::new()) };
    absorb.remember(key, *generation, DedupRecord { payload: PayloadHash(0), answer });
}

/// What a cell holds after an addition: a counter that has an end goes on to have it.
fn added(value: Option<&Value>, delta: i64) -> Result<Value, Rejection> {
    let number = value.map_or(Some(0), Value::counter).ok_or(Rejection::NotACounter)?;
    let sum = number.checked_add(delta).ok_or(Rejection::Overflow)?;
    Ok(Value::Counter(sum).lasting(value.and_then(Value::until)))
}
