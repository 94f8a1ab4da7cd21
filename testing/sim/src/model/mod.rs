//! The model: the expected state, computed independently of the engine.
//!
//! It records the requests and responses of clients and the appends to the log. It shares only the encoding
//! of log entries with the engine. The checkers compare both.

pub mod branch;
pub mod history;
pub mod op;
pub mod table;
pub mod value;

use std::collections::HashMap;
use std::time::Duration;

use jeton_core::{BranchLogItem, Cell, Entry, LogItem, OpId, Operation, OperationResult, Secret};

use crate::checkers::{branches, recount, time::TimeBound};
use crate::clock::SimClock;
use crate::log::{ObservedWrite, WriteObserver};
use crate::scenario::RELAXED_INTERVAL;
use crate::violation::{Checked, Violation, violated};
use branch::{BranchLogState, BranchModel};
use history::History;
use op::Op;
use table::TableModel;

#[derive(Debug, Clone)]
pub struct LoggedOperation {
    /// Index in [`Model::ops`].
    pub op: usize,
    /// Index in [`Op::variants`].
    pub variant: usize,
    pub partition: u16,
    pub slot: u64,
    pub answer: OperationResult,
    /// Real time of the append, in milliseconds.
    pub real: u64,
    /// Number of the start of the machine in which it was appended.
    pub start: u64,
    /// Opaque window of the table then, in milliseconds.
    pub opaque_window: u64,
}

#[derive(Debug)]
pub struct Model {
    pub ops: Vec<Op>,
    /// The branches; number 7 has the name `b7`.
    pub branches: Vec<BranchModel>,
    /// The tables, from number 1.
    pub tables: Vec<TableModel>,
    pub history: History,
    pub logged: Vec<Vec<LoggedOperation>>,
    /// The secret of the store, which determines the partition of a row.
    pub secret: Secret,
    pub bound: TimeBound,
    /// How often the machine was started.
    pub starts: u64,
    /// By table, routing key and id: the scope of an id.
    ids: HashMap<(u32, Box<[u8]>, OpId), usize>,
    /// Appended and not durable.
    staged: Vec<ObservedWrite>,
}

impl Model {
    pub fn new(secret: Secret) -> Self {
        Self {
            ops: Vec::new(),
            branches: Vec::new(),
            tables: Vec::new(),
            history: History::default(),
            logged: Vec::new(),
            secret,
            bound: TimeBound::default(),
            starts: 0,
            ids: HashMap::new(),
            staged: Vec::new(),
        }
    }

    pub fn add(&mut self, op: Op) -> usize {
        self.ids.extend(scope(&op.variants[0]).map(|scope| (scope, self.ops.len())));
        self.ops.push(op);
        self.logged.push(Vec::new());
        self.ops.len() - 1
    }

    /// The operation with the id and the routing key of this one.
    pub fn find(&self, operation: &Operation) -> Option<usize> {
        self.ids.get(&scope(operation)?).copied()
    }

    pub fn table_of(&self, op: usize) -> &TableModel {
        self.table(self.ops[op].table())
    }

    pub fn table(&self, number: u32) -> &TableModel {
        &self.tables[number as usize - 1]
    }

    /// Takes the appends since the last call.
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
        let unreadable = |error: jeton_core::codec::DecodeError| Violation {
            rule: "history",
            what: format!("slot {slot} of partition {partition}: {error}"),
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
            if operation.id().is_none() {
                continue;
            }
            let of = self.find(&operation).and_then(|op| {
                let variant = self.ops[op].variants.iter().position(|variant| *variant == operation)?;
                Some((op, variant))
            });
            let Some((op, variant)) = of else {
                return violated!(
                    "history",
                    "slot {slot} of partition {partition} has an unknown operation: {operation:?}"
                );
            };
            let opaque_window = self.table_of(op).settings.opaque_window.as_millis() as u64;
            let answer = decision.answer;
            let (real, start) = (clock.real_millis(), self.starts);
            let entry = LoggedOperation { op, variant, partition, slot, answer, real, start, opaque_window };
            recount::check(self, &entry, clock)?;
            self.logged[op].push(entry);
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
            return violated!(
                "branches",
                "slot {slot} of partition {partition} has an unknown branch: {step:?}"
            );
        };
        branches::logged(self, number, step)?;
        let one = &mut self.branches[number];
        one.logged.push(match step {
            BranchLogItem::Prepared(_) => (slot, BranchLogState::Prepared),
            BranchLogItem::Finished { outcome: ending, values, .. } => {
                if !values.is_empty() {
                    self.history.commit(partition, one.branch.additions(), values)?;
                }
                (slot, BranchLogState::Ended(*ending))
            }
        });
        Ok(())
    }

    /// The latest time of an acknowledged operation, in milliseconds since 1970.
    pub fn latest_acknowledged(&self) -> u64 {
        let all = self.ops.iter().flat_map(|op| &op.acknowledged);
        all.map(|(_, _, answer)| answer.millis).max().unwrap_or(0)
    }

    /// The process ended, and the log of a partition ends at slot `last`. Removes lost operations, also
    /// acknowledged ones of a relaxed table. `latest` is the time of the last acknowledgement.
    pub fn cut(&mut self, partition: u16, last: u64, latest: u64) -> Checked {
        let millis =
            |bytes: &[u8]| Entry::read(1, bytes).map_or(0, |entry| entry.step().time.as_nanos() / 1_000_000);
        self.history.cut(partition, last, millis)?;
        self.staged.clear();
        for one in self.branches.iter_mut().filter(|one| one.partition.0 == partition) {
            one.logged.retain(|(slot, _)| *slot <= last);
        }
        for logged in &mut self.logged {
            logged.retain(|entry| entry.partition != partition || entry.slot <= last);
        }
        for (number, op) in self.ops.iter_mut().enumerate() {
            if op.variants[0].partition().0 != partition {
                continue;
            }
            let lost = op.acknowledged.iter().find(|(slot, ..)| *slot > last);
            if let Some((slot, ..)) = lost
                && self.tables[op.table() as usize - 1].strict()
            {
                return violated!(
                    "durability",
                    "a crash lost slot {slot} of partition {partition} with the acknowledged operation {number}"
                );
            }
            // In whole milliseconds of the store clock, which gains an eighth.
            let span = RELAXED_INTERVAL + RELAXED_INTERVAL / 8;
            let early = lost.map_or(latest, |(_, _, answer)| answer.millis);
            if Duration::from_millis(latest - early) > span + Duration::from_millis(1) {
                return violated!(
                    "durability",
                    "a crash lost operation {number}, which was acknowledged {} ms before the last one",
                    latest - early
                );
            }
            op.acknowledged.retain(|(slot, ..)| *slot <= last);
        }
        Ok(())
    }

    /// The least and the most that an add-only counter can be.
    pub fn sums(&self, cell: &Cell) -> (i128, i128) {
        let bounds = self.ops.iter().filter(|op| op.table() == cell.table().0).map(|op| op.bounds(cell));
        let branches = self.branches.iter().map(|branch| branch.bounds(cell));
        bounds.chain(branches).fold((0, 0), |(least, most), (sure, maybe)| (least + sure, most + maybe))
    }
}

fn scope(operation: &Operation) -> Option<(u32, Box<[u8]>, OpId)> {
    let id = operation.id()?.clone();
    Some((operation.table().0, operation.first_cell().routing_key().into(), id))
}
