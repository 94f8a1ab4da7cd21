//! An operation as its client knows it: payloads, attempts and responses.

use jeton_core::{Cell, Change, OpId, Operation, OperationResult};

#[derive(Debug, Clone)]
pub struct Op {
    /// The client's operation; the others are other payloads under the same id.
    pub variants: Vec<Operation>,
    /// Attempts in flight, by variant.
    pub in_flight: Vec<usize>,
    /// Attempts with an unknown outcome, by variant.
    pub unknown: Vec<usize>,
    /// Acknowledged results: slot, variant, result.
    pub acknowledged: Vec<(u64, usize, OperationResult)>,
    /// Whether the client has a response and stops retrying.
    pub answered: bool,
    /// Real time of the last attempt, in milliseconds.
    pub last_sent: u64,
}

impl Op {
    pub fn new(operation: Operation) -> Self {
        Self {
            variants: vec![operation],
            in_flight: vec![0],
            unknown: vec![0],
            acknowledged: Vec::new(),
            answered: false,
            last_sent: 0,
        }
    }

    pub fn id(&self) -> Option<&OpId> {
        self.variants[0].id()
    }

    pub fn table(&self) -> u32 {
        self.variants[0].table().0
    }

    /// Whether the id counts once only within its window.
    pub fn is_opaque(&self) -> bool {
        matches!(self.id(), Some(OpId::Opaque(_)))
    }

    /// Adds another payload under the same id.
    pub fn add_variant(&mut self, operation: Operation) -> usize {
        if let Some(at) = self.variants.iter().position(|variant| *variant == operation) {
            return at;
        }
        self.variants.push(operation);
        self.in_flight.push(0);
        self.unknown.push(0);
        self.variants.len() - 1
    }

    /// Whether an attempt without a response may have taken effect, or may still do so.
    pub fn in_doubt(&self) -> bool {
        self.in_flight.iter().chain(&self.unknown).any(|attempts| *attempts > 0)
    }

    /// The sum that a variant adds to a cell.
    pub fn delta(&self, variant: usize, cell: &Cell) -> i128 {
        let changes = self.variants[variant].changes().filter(|(its, _)| its == cell);
        changes.map(|(_, change)| if let Change::Add(delta) = change { i128::from(*delta) } else { 0 }).sum()
    }

    /// The least and the most that the operation contributes to the sum of a cell. An id counts once, however
    /// often it was acknowledged; an opaque id counts again after its window, which `recount` checks.
    pub fn bounds(&self, cell: &Cell) -> (i128, i128) {
        let counted = if self.is_opaque() { usize::MAX } else { 1 };
        let acknowledged = self.acknowledged.iter().take(counted).filter(|(_, _, answer)| answer.applied);
        let sure = acknowledged.map(|(_, variant, _)| self.delta(*variant, cell)).sum();
        let doubts = self.in_flight.iter().zip(&self.unknown).map(|(flying, unknown)| flying + unknown);
        let doubts = doubts.enumerate().map(|(variant, attempts)| (attempts, self.delta(variant, cell)));
        let more = if self.is_opaque() {
            doubts.map(|(attempts, delta)| attempts as i128 * delta).sum()
        } else if self.acknowledged.is_empty() {
            doubts.filter(|(attempts, _)| *attempts > 0).map(|(_, delta)| delta).max().unwrap_or(0)
        } else {
            0
        };
        (sure, sure + more)
    }
}
