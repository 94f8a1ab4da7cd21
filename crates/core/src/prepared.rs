//! Prepare, commit and abort of branches in a partition.
//!
//! Invariants:
//! - *Once.* A branch is prepared at most once under its name, and finished at most once. A retry gets the
//!   recorded outcome. The outcome is recorded for [`BRANCH_WINDOW`], with the dedup records of ids. A
//!   prepare that arrives later than that is accepted again; it is then listed and finished like any other.
//! - *Abort is final.* A branch that is aborted before it was prepared will not be prepared: an abort may
//!   overtake the prepare.
//! - *A yes vote is binding.* A prepared branch can commit, whatever other writes do to its counters
//!   ([`escrow`](crate::escrow)).
//! - The home is finished last: while its part is prepared, it records the other partitions.
//!
//! An operation is decided as if it preceded all prepared branches, and sees nothing of a branch before
//! its commit. So its own bounds apply to the current counter. But its result must leave enough for all
//! prepared branches, or it is rejected as [`Reserved`](Rejection::Reserved).

use forgetful_filter::Timestamp;

use crate::branch::{Addition, Branch, BranchLogItem, BranchName, BranchOutcome};
use crate::escrow::{Escrow, PreparedBranch, PreparedBranches};
use crate::evaluate::effects_of;
use crate::generation::Generation;
use crate::hash::{IdKey, PayloadHash};
use crate::limits::BRANCH_WINDOW;
use crate::log_entry::{OperationDecision, millis};
use crate::operation::Operation;
use crate::operation_result::{DedupRecord, OperationResult, Rejection, Values};
use crate::partition::{LogPosition, Partition, StateReader, StateWriter};
use crate::replay::ReplayError;
use crate::store_clock::with_clock_drift;
use crate::value::Value;

#[derive(Debug, Clone, PartialEq)]
pub enum BranchVerdict {
    /// A new step: log it and apply it.
    Fresh(BranchLogItem),
    /// The same branch is prepared already.
    Prepared,
    /// It was finished before, with this outcome.
    Finished(BranchOutcome),
    /// It is not prepared, and no outcome is recorded.
    Unknown,
    /// These partitions must be finished first.
    Elsewhere(Vec<crate::PartitionId>),
    /// The prepare is rejected. Nothing changes.
    Rejected(Rejection),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchState {
    Prepared,
    Finished(BranchOutcome),
    /// No outcome is recorded.
    Unknown,
}

impl Partition {
    /// The state of a branch at this time. Read-only.
    pub fn branch<R: StateReader>(
        &self,
        now: Timestamp,
        name: &BranchName,
        key: IdKey,
        reader: &mut R,
    ) -> Result<BranchState, R::Error> {
        if self.branches.get(name).is_some() {
            return Ok(BranchState::Prepared);
        }
        let latest = now.after(with_clock_drift(BRANCH_WINDOW));
        let known = reader.dedup_record(key, Generation::between(now, latest, BRANCH_WINDOW))?;
        Ok(match known {
            Some(known) if known.answer.applied => BranchState::Finished(BranchOutcome::Commit),
            Some(_) => BranchState::Finished(BranchOutcome::Abort),
            None => BranchState::Unknown,
        })
    }

    /// Decides a prepare at this log position (the next one, or the current one again). Read-only. `key` is
    /// the key of the branch's name in this partition.
    pub fn decide_prepare<R: StateReader>(
        &self,
        step: LogPosition,
        branch: &Branch,
        key: IdKey,
        reader: &mut R,
    ) -> Result<BranchVerdict, R::Error> {
        if let Some(prepared) = self.branches.get(branch.name()) {
            let mismatch = BranchVerdict::Rejected(Rejection::Mismatch);
            return Ok(if prepared.branch == *branch { BranchVerdict::Prepared } else { mismatch });
        }
        if let BranchState::Finished(outcome) = self.branch(step.time, branch.name(), key, reader)?
            && !(mutated!(NoTombstones) && outcome == BranchOutcome::Abort)
        {
            return Ok(BranchVerdict::Finished(outcome));
        }
        if !self.branches.has_room(branch) {
            return Ok(BranchVerdict::Rejected(Rejection::Capacity { what: "branches of transactions" }));
        }
        for one in branch.additions() {
            let value = reader.value(&one.cell)?.and_then(|value| value.at(millis(step.time)));
            if let Err(rejection) = self.check_escrow(one, value.as_ref()) {
                return Ok(BranchVerdict::Rejected(rejection));
            }
        }
        Ok(BranchVerdict::Fresh(BranchLogItem::Prepared(branch.clone())))
    }

    /// Whether an addition can be prepared, given the content of its cell.
    fn check_escrow(&self, one: &Addition, value: Option<&Value>) -> Result<(), Rejection> {
        let number = value.map_or(Some(0), Value::counter).ok_or(Rejection::NotACounter)?;
        // By itself first: if the addition violates its own bounds, other branches do not matter.
        let mut escrow = Escrow::default();
        escrow.add(one);
        if !escrow.allows(value) {
            let bounded = one.min.is_some() || one.max.is_some();
            let overflows = number.checked_add(one.delta).is_none();
            let bound = Rejection::Bound { value: number };
            return Err(if bounded && !overflows { bound } else { Rejection::Overflow });
        }
        if let Some(others) = self.branches.escrow(&one.cell) {
            let mut together = others.clone();
            together.add(one);
            if !together.allows(value) {
                return Err(Rejection::Reserved);
            }
        }
        Ok(())
    }

    /// Decides a commit or abort at this log position (the next one, or the current one again). Read-only.
    /// `others_finished`: all other partitions have finished their parts.
    pub fn decide_finish<R: StateReader>(
        &self,
        step: LogPosition,
        (name, key): (&BranchName, IdKey),
        outcome: BranchOutcome,
        others_finished: bool,
        reader: &mut R,
    ) -> Result<BranchVerdict, R::Error> {
        let mut values = Vec::new();
        match self.branches.get(name) {
            Some(prepared) if !others_finished && !prepared.branch.elsewhere().is_empty() => {
                return Ok(BranchVerdict::Elsewhere(prepared.branch.elsewhere().to_vec()));
            }
            Some(prepared) if outcome == BranchOutcome::Commit => {
                for one in prepared.branch.additions() {
                    let value = reader.value(&one.cell)?.and_then(|value| value.at(millis(step.time)));
                    match added(value.as_ref(), one.delta) {
                        Ok(value) => values.push(value),
                        // The escrow was violated; do not commit.
                        Err(rejection) => return Ok(BranchVerdict::Rejected(rejection)),
                    }
                }
            }
            Some(_) => {}
            None => match self.branch(step.time, name, key, reader)? {
                BranchState::Finished(outcome) if !mutated!(SettleTwice) => {
                    return Ok(BranchVerdict::Finished(outcome));
                }
                _ if outcome == BranchOutcome::Commit => return Ok(BranchVerdict::Unknown),
                _ => {}
            },
        }
        let generation = Generation::of(step.time.after(with_clock_drift(BRANCH_WINDOW)), BRANCH_WINDOW);
        Ok(BranchVerdict::Fresh(BranchLogItem::Finished { name: name.clone(), outcome, values, generation }))
    }

    /// Applies a step of a branch at the current log position. An error if it does not follow from the state
    /// before.
    pub fn apply_branch<A: StateWriter>(
        &mut self,
        step: &BranchLogItem,
        key: IdKey,
        writer: &mut A,
    ) -> Result<(), ReplayError> {
        match step {
            BranchLogItem::Prepared(branch) => {
                let mut partitions = branch.additions().iter().map(|one| one.cell.partition());
                if let Some(other) = partitions.find(|partition| *partition != self.id()) {
                    return Err(ReplayError::OtherPartition(other));
                }
                if self.branches.get(branch.name()).is_some() {
                    return Err(ReplayError::PreparedTwice(branch.name().clone()));
                }
                self.branches.insert(PreparedBranch { branch: branch.clone(), since: millis(self.time()) });
            }
            BranchLogItem::Finished { name, outcome, values, .. } => {
                let prepared = self.branches.release(name);
                let additions = prepared.as_ref().map_or(&[][..], |prepared| prepared.branch.additions());
                if *outcome == BranchOutcome::Commit
                    && (prepared.is_none() || values.len() != additions.len())
                {
                    return Err(ReplayError::NotPrepared(name.clone()));
                }
                for (one, value) in additions.iter().zip(values) {
                    writer.store(&one.cell, Some(value.clone()));
                }
                restore_branch_dedup(step, key, self.slot(), self.time(), writer);
            }
        }
        Ok(())
    }

    pub fn branches(&mut self) -> &mut PreparedBranches {
        &mut self.branches
    }

    /// Whether the result of a decision leaves enough for all prepared branches.
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
            // Contents that a later change of the same operation replaces are never visible.
            let replaced = left[at + 1..].iter().any(|(later, _)| later == cell);
            // An expired value is empty, and stays empty: the partition's time never goes back.
            let value = value.clone().and_then(|value| value.at(millis(step.time)));
            replaced || escrow.allows(value.as_ref())
        })
    }
}

/// Applies only the part of a step that concerns the id index, for a recovery that has the rest from a
/// checkpoint. Idempotent.
pub fn restore_branch_dedup<A: StateWriter>(
    step: &BranchLogItem,
    key: IdKey,
    slot: u64,
    time: Timestamp,
    writer: &mut A,
) {
    let BranchLogItem::Finished { outcome, generation, .. } = step else { return };
    let (applied, values) = (*outcome == BranchOutcome::Commit, Values::from_vec(Vec::new()));
    let answer = OperationResult { applied, slot, millis: millis(time), values };
    writer.record(key, *generation, DedupRecord { payload: PayloadHash(0), answer });
}

/// The content of a cell after an addition: a counter keeps its expiry time.
fn added(value: Option<&Value>, delta: i64) -> Result<Value, Rejection> {
    let number = value.map_or(Some(0), Value::counter).ok_or(Rejection::NotACounter)?;
    let sum = number.checked_add(delta).ok_or(Rejection::Overflow)?;
    Ok(Value::Counter(sum).lasting(value.and_then(Value::until)))
}
