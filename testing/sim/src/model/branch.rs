//! The model of a branch: requests, decision and responses of its coordinator, and its log entries.

use jeton_core::{Addition, Branch, BranchOutcome, Cell, PartitionId};

#[derive(Debug, Clone)]
pub struct BranchModel {
    pub branch: Branch,
    pub partition: PartitionId,
    /// The decision of the coordinator, which is final.
    pub decided: Option<BranchOutcome>,
    /// Whether a prepare was acknowledged.
    pub voted: bool,
    /// Whether an outcome was acknowledged.
    pub ended: bool,
    /// Slots of its log entries, and what they record.
    pub logged: Vec<(u64, BranchLogState)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchLogState {
    Prepared,
    Ended(BranchOutcome),
}

impl BranchModel {
    pub fn new(branch: Branch, partition: PartitionId) -> Self {
        Self { branch, partition, decided: None, voted: false, ended: false, logged: Vec::new() }
    }

    pub fn addition(&self, cell: &Cell) -> Option<&Addition> {
        self.branch.additions().iter().find(|one| one.cell == *cell)
    }

    /// The least and the most that the branch contributes to the sum of a cell.
    pub fn bounds(&self, cell: &Cell) -> (i128, i128) {
        let delta = self.addition(cell).map_or(0, |one| i128::from(one.delta));
        match self.decided {
            Some(BranchOutcome::Commit) if self.ended => (delta, delta),
            Some(BranchOutcome::Commit) => (0, delta),
            _ => (0, 0),
        }
    }
}
