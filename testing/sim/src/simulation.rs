//! The world: a machine, its clients, and the model beside them; everything that a run consists of.

use std::collections::BTreeMap;
use std::sync::Arc;

use jeton_core::{BranchOutcome, Cell, Rejection, Secret};
use jeton_engine::{EngineError, OperationOutcome, Response};
use jeton_wal::disk::{Disk, FaultDisk};
use tokio::sync::oneshot;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::checkers::{answers, counting, reads, refusals};
use crate::client::{Client, is_add_only};
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
use crate::violation::{Checked, Violation};

/// Everything that a run consists of.
pub struct Simulation {
    pub(crate) profile: Profile,
    pub(crate) clock: SimClock,
    pub(crate) disk: FaultDisk,
    pub(crate) values: Arc<SimValues>,
    pub(crate) life: Option<SimProcess>,
    pub(crate) model: Model,
    pub(crate) clients: Vec<Client>,
    pub(crate) calls: Vec<Call>,
    /// The most that anybody read of cells that are only added to.
    pub(crate) seen: BTreeMap<Cell, i64>,
    /// Whether the disk is full, read-only or out of handles.
    pub(crate) limited: bool,
    /// Whether a bit was turned over.
    pub(crate) damaged: bool,
    /// Whether the value store was rolled back.
    pub(crate) rolled_back: bool,
    /// Why the run has ended early, and well: what is damaged was refused.
    pub(crate) ended: Option<String>,
    /// Whether only that counts which a client can see: counts, answers that do not come, a store that does not open.
    pub(crate) outside: bool,
    /// What happened.
    pub(crate) stats: Stats,
    lines: Vec<(u64, String)>,
    step: u64,
    hash: u64,
}

/// A request in flight.
pub(crate) struct Call {
    pub what: CallKind,
    pub answer: oneshot::Receiver<Response>,
}

/// What a request is about.
pub(crate) enum CallKind {
    Attempt { op: usize, variant: usize },
    Branch { branch: usize, ending: Option<BranchOutcome> },
    Read { client: usize, cell: Cell, sent: reads::ReadStart, least: i128 },
}

/// What a run came to.
#[derive(Debug, Clone)]
pub struct RunLog {
    /// What happened, each with the step in which it did.
    pub lines: Vec<(u64, String)>,
    /// The hash of all that.
    pub hash: u64,
    /// The same in numbers.
    pub stats: Stats,
}

impl Simulation {
    /// The world of a seed, before its first step. The machine is off.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::of_seed(seed);
        let profile = Profile::draw(&mut rng);
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&rng.draw().to_le_bytes());
        secret[8..].copy_from_slice(&rng.draw().to_le_bytes());
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
            life: None,
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

    /// Judges by that alone which a client can see.
    pub fn judge_from_outside(&mut self) {
        self.outside = true;
    }

    /// What a checker said, if it counts.
    pub(crate) fn judge(&self, checked: Checked) -> Checked {
        const SEEN_FROM_OUTSIDE: [&str; 3] = ["counting", "answering", "opening"];
        match checked {
            Err(violation) if self.outside && !SEEN_FROM_OUTSIDE.contains(&violation.rule) => Ok(()),
            checked => checked,
        }
    }

    /// What happened so far.
    pub fn tell(self) -> RunLog {
        RunLog { lines: self.lines, hash: self.hash, stats: self.stats }
    }

    /// Whether the run has ended before its last step, and well.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Takes a step.
    pub fn step(&mut self, step: u64, rng: &mut Rng) -> Checked {
        self.step = step;
        let event = Event::draw(&self.profile, rng);
        self.perform(event, rng)?;
        self.settle(rng, false)
    }

    /// The steps from here on belong to the end of the run.
    pub(crate) fn at_step(&mut self, step: u64) {
        self.step = step;
    }

    /// Something happened.
    pub(crate) fn note(&mut self, line: String) {
        self.hash = xxh3_64_with_seed(line.as_bytes(), self.hash);
        self.lines.push((self.step, line));
    }

    /// Whether the process can go on.
    pub(crate) fn is_alive(&self) -> bool {
        self.disk.list("log").is_ok() && self.life.as_ref().is_some_and(|life| life.log.fatal().is_none())
    }

    /// Lets the shards work, hears what they answer, and brings the machine up again if it went down. `all` leaves nothing to
    /// rng.
    pub(crate) fn settle(&mut self, rng: &mut Rng, all: bool) -> Checked {
        if self.is_alive()
            && let Some(life) = &mut self.life
        {
            life.deliver();
            for shard in 0..life.shards() {
                if all || !rng.one_in(8) {
                    life.poll(shard);
                }
            }
        }
        self.hear()?;
        if self.ended.is_none() && !self.is_alive() { self.crash(rng) } else { Ok(()) }
    }

    /// Takes in what the log was given and what was answered.
    pub(crate) fn hear(&mut self) -> Checked {
        let Some(life) = &self.life else { return Ok(()) };
        let tap = life.log.tap();
        let absorbed = self.model.absorb(tap, &self.clock);
        self.judge(absorbed)?;
        let mut open = Vec::new();
        for mut call in std::mem::take(&mut self.calls) {
            match call.answer.try_recv() {
                Ok(response) => self.heard(call.what, response)?,
                Err(oneshot::error::TryRecvError::Empty) => open.push(call),
                Err(oneshot::error::TryRecvError::Closed) => self.forsake(&call.what),
            }
        }
        self.calls = open;
        Ok(())
    }

    /// Nobody will ever answer this.
    pub(crate) fn forsake(&mut self, what: &CallKind) {
        if let CallKind::Attempt { op, variant } = what {
            let one = &mut self.model.ops[*op];
            one.in_flight[*variant] -= 1;
            one.unknown[*variant] += 1;
            // An operation without an id cannot be asked for again.
            one.answered |= one.id().is_none();
        }
    }

    pub(crate) fn heard(&mut self, what: CallKind, response: Response) -> Checked {
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
                Err(Violation::new("answers", format!("answered like something else: {response:?}")))
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
            self.stats.count("read, with an end");
        } else if *held == ModelValue::Nothing && self.model.history.held(cell) != ModelValue::Nothing {
            self.stats.count("read, over");
        }
        let latest = self.model.bound.latest(&self.clock);
        self.judge(reads::check(&self.model, cell, (sent, latest), held, add_only))?;
        // Which acknowledgements a relaxed table may lose, only the log can tell.
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

/// A reply in a word.
fn kind(reply: &Result<OperationOutcome, EngineError>) -> &'static str {
    match reply {
        Ok(OperationOutcome::Fresh(answer)) if answer.applied => "fresh",
        Ok(OperationOutcome::Fresh(_)) => "fresh, beyond a bound",
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
            Rejection::Reserved => "held",
            _ => "rejected",
        },
        Err(_) => "refused",
    }
}
