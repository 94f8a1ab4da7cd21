//! The workload of clients: new operations, retries, duplicates, other payloads, reads.

use jeton_core::limits::SESSION_WINDOW;
use jeton_core::{Cell, Change, Format, MissingIdPolicy, OpId, Operation};

use crate::checkers::reads::ReadStart;
use crate::client::{self, is_add_only};
use crate::model::op::Op;
use crate::rng::Rng;
use crate::simulation::{Call, CallKind, Simulation};
use crate::violation::Checked;

impl Simulation {
    pub(crate) fn send_request(&mut self, rng: &mut Rng) {
        if rng.one_in(1_500) {
            return self.fill_session(rng);
        }
        if rng.one_in(6) {
            return self.step_branches(rng);
        }
        let open = |op: &Op| op.id().is_some() && !op.answered && op.in_flight[0] == 0;
        let choice = rng.below(12);
        if choice < 4
            && let Some(op) = self.pick_op(rng, open)
        {
            self.attempt(op, 0, rng);
        } else if rng.one_in(self.profile.duplicates)
            && let Some(op) = self.pick_op(rng, |op| op.id().is_some())
        {
            // Of an operation in flight, or of one answered earlier.
            let variant = self.variant(op, rng);
            self.attempt(op, variant, rng);
        } else if rng.one_in(12)
            && let Some(op) = self.pick_op(rng, |op| op.id().is_some())
        {
            self.send_for_another_row(op, rng);
        } else {
            self.send_new(rng);
        }
    }

    /// One more operation of a client than a session records: the first number is superseded.
    fn fill_session(&mut self, rng: &mut Rng) {
        let sequenced = |table: &u32| {
            let table = self.model.table(*table);
            table.created && table.settings.formats.contains(Format::Sequenced)
        };
        let Some(table) = (1..=self.model.tables.len() as u32).find(sequenced) else { return };
        let (client, cell) =
            (rng.index(self.clients.len()), client::cells(&self.model.secret, table).swap_remove(0));
        self.note(format!("{} fills its session", self.clients[client].name));
        for _ in 0..=SESSION_WINDOW {
            let id = Some(self.clients[client].next_number(table));
            let operation = Operation::single(id, cell.clone(), Change::Add(1)).expect("within all limits");
            let op = self.model.add(Op::new(operation));
            self.attempt(op, 0, rng);
            // The queues are shorter.
            if let Some(process) = &mut self.process {
                (0..process.shards()).for_each(|shard| process.poll(shard));
            }
        }
    }

    /// A new operation with the id of an earlier one, for another row: an operation of its own.
    fn send_for_another_row(&mut self, op: usize, rng: &mut Rng) {
        let (table, id) = (self.model.ops[op].table(), self.model.ops[op].id().cloned());
        let operation = client::operation(&self.model.secret, table, (id, self.clock.wall_millis()), rng);
        if self.model.find(&operation).is_some() {
            return;
        }
        self.note(format!(
            "operation {} with the id of operation {op}: {}",
            self.model.ops.len(),
            shown(&operation)
        ));
        let op = self.model.add(Op::new(operation));
        self.stats.count("operation with the id of another row");
        self.attempt(op, 0, rng);
    }

    /// Mostly the first payload; sometimes another one, if the id was acknowledged.
    fn variant(&mut self, op: usize, rng: &mut Rng) -> usize {
        let one = &mut self.model.ops[op];
        if rng.one_in(4) && !one.acknowledged.is_empty() {
            let other = client::other_payload(&one.variants[0], rng);
            return one.add_variant(other);
        }
        0
    }

    /// An operation of this kind, usually a recent one.
    fn pick_op(&self, rng: &mut Rng, kind: impl Fn(&Op) -> bool) -> Option<usize> {
        let ops = &self.model.ops;
        if ops.is_empty() {
            return None;
        }
        let from = if rng.one_in(2) { ops.len().saturating_sub(12) } else { 0 };
        let start = rng.within(from as u64, ops.len() as u64 - 1) as usize;
        (start..ops.len()).chain(0..start).find(|op| kind(&ops[*op]))
    }

    fn send_new(&mut self, rng: &mut Rng) {
        let created: Vec<u32> =
            (1..=self.model.tables.len() as u32).filter(|table| self.model.table(*table).created).collect();
        if created.is_empty() {
            return;
        }
        let table = *rng.pick(&created);
        let number = self.model.ops.len() as u64;
        let wall = self.clock.wall_millis();
        let client = rng.index(self.clients.len());
        let without = self.model.table(table).settings.without_id == MissingIdPolicy::AtMostOnce;
        let id = if rng.one_in(if without { 8 } else { 80 }) {
            None
        } else {
            let formats = self.model.table(table).settings.formats;
            Some(self.clients[client].id(table, formats, number, wall, rng))
        };
        let operation = client::operation(&self.model.secret, table, (id, wall), rng);
        self.note(format!("new operation {number} of {}: {}", self.clients[client].name, shown(&operation)));
        let op = self.model.add(Op::new(operation));
        self.stats.count("operation");
        let lossy = self.clients[client].lossy;
        if lossy && rng.one_in(6) {
            self.note(format!("the request of operation {op} is lost"));
            return;
        }
        self.attempt(op, 0, rng);
        if lossy && rng.one_in(4) {
            self.attempt(op, 0, rng);
        }
    }

    pub(crate) fn attempt(&mut self, op: usize, variant: usize, rng: &mut Rng) {
        let operation = self.model.ops[op].variants[variant].clone();
        // Without an id, a second attempt is another operation.
        let again = operation.id().is_none() && self.model.ops[op].last_sent > 0;
        let answer = self.process.as_ref().filter(|_| !again).and_then(|process| process.apply(operation));
        let Some(answer) = answer else {
            self.note(format!("the queue is full for operation {op}"));
            return;
        };
        self.note(format!("send operation {op}{}", if variant == 0 { "" } else { " (other payload)" }));
        let one = &mut self.model.ops[op];
        one.in_flight[variant] += 1;
        one.last_sent = self.clock.real_millis() + 1;
        let call = Call { what: CallKind::Attempt { op, variant }, answer };
        if rng.one_in(25) {
            self.note(format!("the response to operation {op} will be lost"));
            self.abandon(&call.what);
        } else {
            self.calls.push(call);
        }
    }

    pub(crate) fn read_random(&mut self, rng: &mut Rng) {
        let table = 1 + rng.below(self.model.tables.len() as u64) as u32;
        let client = rng.index(self.clients.len());
        let cells = client::cells(&self.model.secret, table);
        let cell = rng.pick(&cells).clone();
        self.read(client, cell);
    }

    pub(crate) fn read(&mut self, client: usize, cell: Cell) {
        if !self.model.table(cell.table().0).created {
            return;
        }
        let Some(answer) = self.process.as_ref().and_then(|process| process.read(cell.clone())) else {
            return;
        };
        let sent = ReadStart {
            durable: self.model.history.durable(cell.partition().0),
            millis: self.model.history.millis(cell.partition().0),
            seen: self.clients[client].seen.get(&cell).copied(),
        };
        let least = if is_add_only(&cell) { self.model.sums(&cell).0 } else { 0 };
        self.calls.push(Call { what: CallKind::Read { client, cell, sent, least }, answer });
    }

    pub(crate) fn time_out(&mut self, rng: &mut Rng) -> Checked {
        if !self.calls.is_empty() {
            let call = self.calls.swap_remove(rng.index(self.calls.len()));
            if let CallKind::Attempt { op, .. } = &call.what {
                self.note(format!("the client stops waiting for operation {op}"));
            }
            self.abandon(&call.what);
        }
        Ok(())
    }
}

fn shown(operation: &Operation) -> String {
    let id = match operation.id() {
        None => "without an id".to_owned(),
        Some(id @ OpId::Opaque(_)) => format!("opaque {id}"),
        Some(id) => format!("{} {id}", id.format()),
    };
    let changes: Vec<String> =
        operation.changes().map(|(cell, change)| format!("{cell:?} {change:?}")).collect();
    format!("{id}: {}", changes.join(", "))
}
