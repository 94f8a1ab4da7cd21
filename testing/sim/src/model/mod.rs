//! The model: what must be, worked out apart from the engine.
//!
//! It records the requests and responses of clients and the appends to the log; of the engine's code it uses the encoding of log entries
//! and nothing else. The checkers compare.

pub mod branch;
pub mod history;
pub mod op;
pub mod table;
pub mod value;

use std::collections::HashMap;

use jeton_core::{BranchLogItem, Cell, Entry, LogItem, OpId, OperationResult, Secret};

use crate::checkers::{branches, recount, time::TimeBound};
use crate::clock::SimClock;
use crate::log::{ObservedWrite, WriteObserver};
use crate::violation::{Checked, Violation};
use branch::{BranchLogState, BranchModel};
use history::History;
use op::Op;
use table::TableModel;

/// An operation in the log.
#[derive(Debug, Clone)]
pub struct LoggedOperation {
    /// Which operation, and which of its payloads.
    pub op: usize,
    /// Which payload.
    pub variant: usize,
    /// Where.
    pub partition: u16,
    /// Where in its log.
    pub slot: u64,
    /// The response.
    pub answer: OperationResult,
    /// When it was staged, in real milliseconds.
    pub real: u64,
    /// In which life of the machine.
    pub life: u64,
    /// How long its id was to be remembered, in milliseconds.
    pub opaque_window: u64,
}

/// What must be.
#[derive(Debug)]
pub struct Model {
    /// The operations.
    pub ops: Vec<Op>,
    /// The branches of transactions: that of number 7 is called `b7`.
    pub branches: Vec<BranchModel>,
    /// The tables: the first has number 1.
    pub tables: Vec<TableModel>,
    /// What was decided.
    pub history: History,
    /// By operation: where in the log it is.
    pub takes: Vec<Vec<LoggedOperation>>,
    /// The store's secret: where a row is depends on it.
    pub secret: Secret,
    /// The latest that it can be on the store's timeline.
    pub bound: TimeBound,
    /// How many times the machine was started.
    pub life: u64,
    ids: HashMap<(u32, OpId), usize>,
    /// Staged and not settled.
    staged: Vec<ObservedWrite>,
}

impl Model {
    /// Of a store without tables.
    pub fn new(secret: Secret) -> Self {
        Self {
            ops: Vec::new(),
            branches: Vec::new(),
            tables: Vec::new(),
            history: History::default(),
            takes: Vec::new(),
            secret,
            bound: TimeBound::default(),
            life: 0,
            ids: HashMap::new(),
            staged: Vec::new(),
        }
    }

    /// An operation that a client is going to ask for.
    pub fn add(&mut self, op: Op) -> usize {
        if let Some(id) = op.id() {
            self.ids.insert((op.table(), id.clone()), self.ops.len());
        }
        self.ops.push(op);
        self.takes.push(Vec::new());
        self.ops.len() - 1
    }

    /// The table of an operation.
    pub fn table_of(&self, op: usize) -> &TableModel {
        self.table(self.ops[op].table())
    }

    /// The table of this number.
    pub fn table(&self, number: u32) -> &TableModel {
        &self.tables[number as usize - 1]
    }

    /// Appends since the last call.
    pub fn absorb(&mut self, tap: WriteObserver, clock: &SimClock) -> Checked {
        for one in &tap.staged {
            self.stage(one, clock)?;
        }
        self.staged.extend(tap.staged);
        let history = &mut self.history;
        self.staged.retain(|one| {
            let durable = one.frame <= tap.durable;
            if durable {
                history.settle(one.log.0, one.slot.0);
            }
            !durable
        });
        Ok(())
    }

    fn stage(&mut self, one: &ObservedWrite, clock: &SimClock) -> Checked {
        let (partition, slot) = (one.log.0, one.slot.0);
        let unreadable = |error: jeton_core::codec::DecodeError| {
            Violation::new("history", format!("slot {slot} of partition {partition}: {error}"))
        };
        let entry = Entry::read(slot, &one.bytes).map_err(unreadable)?;
        let millis = entry.step().time.as_nanos() / 1_000_000;
        self.bound.check(millis, clock)?;
        self.history.stage(partition, slot, &one.bytes, millis)?;
        for decided in entry {
            let (operation, decision) = match decided.map_err(unreadable)? {
                LogItem::Operation(operation, decision) => (operation, decision),
                LogItem::Branch(step) => {
                    self.stage_branch(partition, slot, &step)?;
                    continue;
                }
            };
            self.history.apply(partition, &operation, &decision.answer)?;
            let Some(id) = operation.id() else { continue };
            let known = self.ids.get(&(operation.table().0, id.clone()));
            let of = known.and_then(|op| {
                let variant = self.ops[*op].variants.iter().position(|variant| *variant == operation)?;
                Some((*op, variant))
            });
            let Some((op, variant)) = of else {
                let what = format!(
                    "slot {slot} of partition {partition} holds what nobody asked for: {operation:?}"
                );
                return Err(Violation::new("history", what));
            };
            let opaque_window = self.table_of(op).settings.opaque_window.as_millis() as u64;
            let answer = decision.answer;
            let (real, life) = (clock.real_millis(), self.life);
            let take = LoggedOperation { op, variant, partition, slot, answer, real, life, opaque_window };
            recount::check(self, &take, clock)?;
            self.takes[op].push(take);
        }
        Ok(())
    }

    fn stage_branch(&mut self, partition: u16, slot: u64, step: &BranchLogItem) -> Checked {
        let number = step.name().to_string().strip_prefix('b').and_then(|number| number.parse().ok());
        let known = |number: &usize| {
            self.branches
                .get(*number)
                .is_some_and(|one| one.partition.0 == partition && one.branch.name() == step.name())
        };
        let Some(number) = number.filter(known) else {
            let what = format!("slot {slot} of partition {partition} holds a branch of nobody: {step:?}");
            return Err(Violation::new("branches", what));
        };
        branches::logged(self, number, step)?;
        let one = &mut self.branches[number];
        one.logged.push(match step {
            BranchLogItem::Prepared(_) => (slot, BranchLogState::Held),
            BranchLogItem::Finished { outcome: ending, values, .. } => {
                if !values.is_empty() {
                    self.history.commit(partition, one.branch.additions(), values)?;
                }
                (slot, BranchLogState::Ended(*ending))
            }
        });
        Ok(())
    }

    /// The process ended: of a partition's log this is left. What was acknowledged and is lost is taken off the accounts, which only
    /// a relaxed table may come to.
    pub fn cut(&mut self, partition: u16, last: u64) -> Checked {
        let millis =
            |bytes: &[u8]| Entry::read(1, bytes).map_or(0, |entry| entry.step().time.as_nanos() / 1_000_000);
        self.history.cut(partition, last, millis)?;
        self.staged.clear();
        for one in self.branches.iter_mut().filter(|one| one.partition.0 == partition) {
            one.logged.retain(|(slot, _)| *slot <= last);
        }
        for takes in &mut self.takes {
            takes.retain(|take| take.partition != partition || take.slot <= last);
        }
        for (number, op) in self.ops.iter_mut().enumerate() {
            if op.variants[0].partition().0 != partition {
                continue;
            }
            let lost = op.acknowledged.iter().find(|(slot, ..)| *slot > last);
            if let Some((slot, ..)) = lost
                && self.tables[op.table() as usize - 1].strict()
            {
                let what = format!(
                    "operation {number} was acknowledged in slot {slot} of partition {partition}, which a crash took"
                );
                return Err(Violation::new("durability", what));
            }
            op.acknowledged.retain(|(slot, ..)| *slot <= last);
        }
        Ok(())
    }

    /// What is certain to be in a cell that only ever is added to, and what may be beside it.
    pub fn sums(&self, cell: &Cell) -> (i128, i128) {
        let bounds = self.ops.iter().filter(|op| op.table() == cell.table().0).map(|op| op.bounds(cell));
        let branches = self.branches.iter().map(|branch| branch.bounds(cell));
        bounds.chain(branches).fold((0, 0), |(least, most), (sure, maybe)| (least + sure, most + maybe))
    }

    /// The takes of an operation that are durable.
    pub fn durable_takes(&self, op: usize) -> impl Iterator<Item = &LoggedOperation> {
        self.takes[op].iter().filter(|take| take.slot <= self.history.durable(take.partition))
    }
}
