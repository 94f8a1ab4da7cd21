//! The state of a run: the machine, its clients and the model.

use std::collections::BTreeMap;
use std::sync::Arc;

use jeton_core::{BranchOutcome, Cell, Rejection, Secret};
use jeton_engine::{EngineError, OperationOutcome, Response};
use jeton_wal::disk::{Disk, FaultDisk};
use tokio::sync::oneshot;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::checkers::{answers, counting, reads, refusals};
use crate::client::{Client, is_add_only, rows_share_partition};
use crate::clock::SimClock;
use crate::event::Event;
use crate::model::Model;
use crate::model::table::TableModel;
use crate::model::value::ModelValue;
use crate::process::SimProcess;
use crate::rng::Rng;
use crate::scenario::Profile;
use crate::stats::Stats;
use crate::values::SimValues;
use crate::violation::{Checked, violated};

pub struct Simulation {
    pub(crate) profile: Profile,
    pub(crate) clock: SimClock,
    pub(crate) disk: FaultDisk,
    pub(crate) values: Arc<SimValues>,
    pub(crate) process: Option<SimProcess>,
    pub(crate) model: Model,
    pub(crate) clients: Vec<Client>,
    pub(crate) calls: Vec<Call>,
    /// The highest values that clients read of add-only counters.
    pub(crate) seen: BTreeMap<Cell, i64>,
    /// Whether the disk has a limit or a failure.
    pub(crate) limited: bool,
    pub(crate) damaged: bool,
    pub(crate) rolled_back: bool,
    /// Why the run ended early without a violation: the damaged store was rejected.
    pub(crate) ended: Option<String>,
    /// Whether only the observations of clients are checked: counts, missing responses, a store that does not
    /// open.
    pub(crate) outside: bool,
    pub(crate) stats: Stats,
    lines: Vec<(u64, String)>,
    step: u64,
    hash: u64,
}

pub(crate) struct Call {
    pub what: CallKind,
    pub answer: oneshot::Receiver<Response>,
}

pub(crate) enum CallKind {
    Attempt { op: usize, variant: usize },
    Branch { branch: usize, ending: Option<BranchOutcome> },
    Read { client: usize, cell: Cell, sent: reads::ReadStart, least: i128 },
}

#[derive(Debug, Clone)]
pub struct RunLog {
    /// Events with their steps.
    pub lines: Vec<(u64, String)>,
    /// Hash of the events.
    pub hash: u64,
    pub stats: Stats,
}

impl Simulation {
    /// The state before the first step. The machine is off.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::of_seed(seed);
        let profile = Profile::draw(&mut rng);
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&rng.draw().to_le_bytes());
        let mut rest = rng.draw();
        secret[8..].copy_from_slice(&rest.to_le_bytes());
        // An id is used for several rows: some of them share a partition.
        while !rows_share_partition(&Secret::new(secret)) {
            rest = rest.wrapping_add(1);
            secret[8..].copy_from_slice(&rest.to_le_bytes());
        }
        let disk = FaultDisk::new();
        let mut model = Model::new(Secret::new(secret));
        for (number, settings) in profile.tables.iter().enumerate() {
            model.tables.push(TableModel::new(format!("t{number}"), settings.clone()));
        }
        let clients = (0..profile.clients).map(|number| Client::new(number, &mut rng)).collect();
        Self {
            profile,
            clock: SimClock::default(),
            values: Arc::new(SimValues::new(disk.clone())),
            disk,
            process: None,
            model,
            clients,
            calls: Vec::new(),
            seen: BTreeMap::new(),
            limited: false,
            damaged: false,
            rolled_back: false,
            ended: None,
            outside: false,
            stats: Stats::default(),
            lines: Vec::new(),
            step: 0,
            hash: 0,
        }
    }

    /// The result of a checker, unless it is ignored.
    pub(crate) fn judge(&self, checked: Checked) -> Checked {
        const SEEN_FROM_OUTSIDE: [&str; 3] = ["counting", "answering", "opening"];
        match checked {
            Err(violation) if self.outside && !SEEN_FROM_OUTSIDE.contains(&violation.rule) => Ok(()),
            checked => checked,
        }
    }

    pub fn into_log(self) -> RunLog {
        RunLog { lines: self.lines, hash: self.hash, stats: self.stats }
    }

    /// Whether the run ended early without a violation.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    pub fn step(&mut self, step: u64, rng: &mut Rng) -> Checked {
        self.step = step;
        let event = Event::draw(&self.profile, rng);
        self.perform(event, rng)?;
        self.settle(rng, false)
    }

    pub(crate) fn at_step(&mut self, step: u64) {
        self.step = step;
    }

    pub(crate) fn note(&mut self, line: String) {
        self.hash = xxh3_64_with_seed(line.as_bytes(), self.hash);
        self.lines.push((self.step, line));
    }

    /// Whether the process can continue.
    pub(crate) fn is_alive(&self) -> bool {
        self.disk.list("log").is_ok()
            && self.process.as_ref().is_some_and(|process| process.log.fatal().is_none())
    }

    /// Runs the shards, receives responses, and restarts the machine after a failure. `all` runs every shard.
    pub(crate) fn settle(&mut self, rng: &mut Rng, all: bool) -> Checked {
        if self.is_alive()
            && let Some(process) = &mut self.process
        {
            process.deliver();
            for shard in 0..process.shards() {
                if all || !rng.one_in(8) {
                    process.poll(shard);
                }
            }
        }
        self.receive_all()?;
        if self.ended.is_none() && !self.is_alive() { self.crash(rng) } else { Ok(()) }
    }

    /// Receives appends of the log and responses.
    pub(crate) fn receive_all(&mut self) -> Checked {
        let Some(process) = &self.process else { return Ok(()) };
        let tap = process.log.tap();
        let absorbed = self.model.absorb(tap, &self.clock);
        self.judge(absorbed)?;
        let mut open = Vec::new();
        for mut call in std::mem::take(&mut self.calls) {
            match call.answer.try_recv() {
                Ok(response) => self.receive(call.what, response)?,
                Err(oneshot::error::TryRecvError::Empty) => open.push(call),
                Err(oneshot::error::TryRecvError::Closed) => self.abandon(&call.what),
            }
        }
        self.calls = open;
        Ok(())
    }

    /// Records that a request gets no response.
    pub(crate) fn abandon(&mut self, what: &CallKind) {
        if let CallKind::Attempt { op, variant } = what {
            let one = &mut self.model.ops[*op];
            one.in_flight[*variant] -= 1;
            one.unknown[*variant] += 1;
            // An operation without an id cannot be retried.
            one.answered |= one.id().is_none();
        }
    }

    pub(crate) fn receive(&mut self, what: CallKind, response: Response) -> Checked {
        match (what, response) {
            (CallKind::Attempt { op, variant }, Response::Applied(reply)) => {
                self.replied(op, variant, &reply)
            }
            (CallKind::Branch { branch, ending }, Response::Branch(reply)) => {
                self.branch_answered(branch, ending, &reply)
            }
            (CallKind::Read { client, cell, sent, least }, Response::Read(value)) => {
                match value {
                    Ok(value) => {
                        self.was_read(client, &cell, &sent, least, &ModelValue::of(value.as_ref()))?
                    }
                    Err(refusal) => self.note(format!("   read of {cell:?} refused: {refusal}")),
                }
                Ok(())
            }
            (_, response) => {
                violated!("answers", "a response of another kind: {response:?}")
            }
        }
    }

    fn was_read(
        &mut self,
        client: usize,
        cell: &Cell,
        sent: &reads::ReadStart,
        least: i128,
        held: &ModelValue,
    ) -> Checked {
        self.note(format!("   client {client} reads {cell:?} as {held:?}"));
        self.stats.count("read");
        let add_only = is_add_only(cell);
        if held.until().is_some() {
            self.stats.count("read, expiring");
        } else if *held == ModelValue::Nothing && self.model.history.held(cell) != ModelValue::Nothing {
            self.stats.count("read, expired");
        }
        let latest = self.model.bound.latest(&self.clock);
        self.judge(reads::check(&self.model, cell, (sent, latest), held, add_only))?;
        // Only the log shows which acknowledged writes a relaxed table lost.
        let strict = self.model.table(cell.table().0).strict();
        if add_only && (strict || !self.outside) {
            counting::check(&self.model, cell, least, held)?;
            if let ModelValue::Counter(value) = held {
                let seen = self.clients[client].seen.entry(cell.clone()).or_insert(*value);
                *seen = *value.max(seen);
                if strict {
                    let most = self.seen.entry(cell.clone()).or_insert(*value);
                    *most = *value.max(most);
                }
            }
        }
        Ok(())
    }

    fn replied(
        &mut self,
        op: usize,
        variant: usize,
        reply: &Result<OperationOutcome, EngineError>,
    ) -> Checked {
        self.note(match reply {
            Ok(reply) => format!("   operation {op}{} answered: {reply:?}", prime(variant)),
            Err(refusal) => format!("   operation {op}{} refused: {refusal}", prime(variant)),
        });
        self.stats.count(kind(reply));
        self.model.ops[op].in_flight[variant] -= 1;
        self.judge(answers::check(&self.model, op, variant, reply))?;
        let one = &mut self.model.ops[op];
        match reply {
            Ok(OperationOutcome::Fresh(answer) | OperationOutcome::Replayed(answer)) => {
                if !one.acknowledged.iter().any(|(slot, ..)| *slot == answer.slot) {
                    one.acknowledged.push((answer.slot, variant, answer.clone()));
                }
                one.answered = true;
            }
            Ok(OperationOutcome::ProbablySeen) => one.answered = true,
            Err(EngineError::Rejected(rejection)) => {
                one.answered |=
                    variant == 0 && !matches!(rejection, Rejection::Capacity { .. } | Rejection::Reserved);
            }
            Err(_) => one.answered |= one.id().is_none(),
        }
        self.judge(refusals::check(&self.model, op, reply, &self.clock))
    }
}

fn prime(variant: usize) -> &'static str {
    if variant == 0 { "" } else { " (other payload)" }
}

fn kind(reply: &Result<OperationOutcome, EngineError>) -> &'static str {
    match reply {
        Ok(OperationOutcome::Fresh(answer)) if answer.applied => "fresh",
        Ok(OperationOutcome::Fresh(_)) => "fresh, refused by a bound",
        Ok(OperationOutcome::Replayed(_)) => "replayed",
        Ok(OperationOutcome::ProbablySeen) => "probably seen",
        Err(EngineError::Busy(_)) => "busy",
        Err(EngineError::Full(_)) => "full",
        Err(EngineError::Storage(_)) => "storage",
        Err(EngineError::Rejected(rejection)) => match rejection {
            Rejection::IdRequired => "id required",
            Rejection::Mismatch => "mismatch",
            Rejection::Expired { .. } => "expired",
            Rejection::Superseded { .. } => "superseded",
            Rejection::FromFuture { .. } => "from the future",
            Rejection::Fenced { .. } => "fenced",
            Rejection::EpochAhead { .. } => "epoch ahead",
            Rejection::UnknownSession { .. } => "unknown session",
            Rejection::Overflow => "overflow",
            Rejection::NotACounter => "not a counter",
            Rejection::Capacity { .. } => "capacity",
            Rejection::Reserved => "reserved",
            _ => "rejected",
        },
        Err(_) => "refused",
    }
}
