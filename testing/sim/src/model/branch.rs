//! A branch of a transaction: the requests, the decision and the responses of its coordinator, and its log entries.

use jeton_core::{Addition, Branch, BranchOutcome, Cell, PartitionId};

/// A branch.
#[derive(Debug, Clone)]
pub struct BranchModel {
    /// What is to be held.
    pub branch: Branch,
    /// Where.
    pub partition: PartitionId,
    /// How it is to end, once that is decided: it stays so.
    pub decided: Option<BranchOutcome>,
    /// Whether it was acknowledged that it is held.
    pub voted: bool,
    /// Whether its end was acknowledged.
    pub ended: bool,
    /// What the log says of it, and where.
    pub logged: Vec<(u64, BranchLogState)>,
}

/// What the log says of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchLogState {
    /// It is held.
    Held,
    /// It has ended.
    Ended(BranchOutcome),
}

impl BranchModel {
    /// A branch that nobody has asked for yet.
    pub fn new(branch: Branch, partition: PartitionId) -> Self {
        Self { branch, partition, decided: None, voted: false, ended: false, logged: Vec::new() }
    }

    /// What it adds to a cell.
    pub fn addition(&self, cell: &Cell) -> Option<&Addition> {
        self.branch.additions().iter().find(|one| one.cell == *cell)
    }

    /// What is certain to be in the sum of a cell, and what may be. It counts once if it is committed, and never otherwise.
    pub fn bounds(&self, cell: &Cell) -> (i128, i128) {
        let delta = self.addition(cell).map_or(0, |one| i128::from(one.delta));
        match self.decided {
            Some(BranchOutcome::Commit) if self.ended => (delta, delta),
            Some(BranchOutcome::Commit) => (0, delta),
            _ => (0, 0),
        }
    }
}
