//! The partition: a state machine over its log.
//!
//! [`Partition::decide`] says what should become of an operation and changes nothing; [`Partition::apply`] makes it so. Whoever
//! owns a partition decides, writes the decision into the log, and applies it; whoever recovers or follows it applies what it
//! reads, [completed](crate::complete). The state after slot n is the same for all: a fold of `apply` over the entries.
//!
//! What must hold:
//! - *Once.* An operation with an id is applied at most once; its retries get the first answer, or a refusal.
//! - *All or none.* Of an operation every change is made, or none.
//! - *Time* never goes back, and decides what is too old: the partition's, not the reader's.

use forgetful_filter::Timestamp;

use crate::address::{Cell, PartitionId};
use crate::codec::{DecodeError, Reader, Write};
use crate::era::{Era, FilterAnswer};
use crate::escrow::PreparedBranches;
use crate::generation::Generation;
use crate::hash::{IdKey, PayloadHash, Secret};
use crate::id::OpId;
use crate::limits;
use crate::log_entry::{DedupLocation, OperationDecision, millis};
use crate::operation::{Change, Check, Operation};
use crate::operation_result::{DedupRecord, OperationResult, Rejection, Values};
use crate::session::{Client, SessionLookup, Sessions};
use crate::settings::{MissingIdPolicy, Mode};
use crate::table::Table;
use crate::value::Value;

/// What a partition holds in memory. Its values and the answers under its ids are with whoever implements [`StateReader`].
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    id: PartitionId,
    slot: u64,
    time: Timestamp,
    sessions: Sessions,
    pub(crate) branches: PreparedBranches,
}

/// What a partition can look up: values, and the answers given under ids.
pub trait StateReader {
    /// Why a look-up failed.
    type Error;

    /// What the cell holds.
    fn value(&mut self, cell: &Cell) -> Result<Option<Value>, Self::Error>;

    /// What became of the id; it is in one of these generations, if in any.
    fn remembered(
        &mut self,
        key: IdKey,
        generations: impl Iterator<Item = Generation>,
    ) -> Result<Option<DedupRecord>, Self::Error>;
}

/// Where the effects of an operation go.
pub trait StateWriter {
    /// The cell now holds this.
    fn store(&mut self, cell: &Cell, value: Option<Value>);

    /// This became of the id.
    fn remember(&mut self, key: IdKey, generation: Generation, remembered: DedupRecord);
}

/// A step of a partition: a slot of its log, and the time of everything in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPosition {
    /// The slot.
    pub slot: u64,
    /// The time, in whole milliseconds.
    pub time: Timestamp,
}

/// What should become of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It is new: to be logged and applied.
    Fresh(OperationDecision),
    /// It is known: this was the first answer.
    Replay(OperationResult),
    /// The filter takes it for known, and the table has nothing but the filter.
    ProbablySeen,
    /// It is not taken. Nothing changes.
    Rejected(Rejection),
}

/// What is known of an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdStatus {
    /// It was not taken here, within the window.
    No,
    /// It was taken: this was the first answer.
    Yes(OperationResult),
    /// The filter takes it for known, and the table has nothing but the filter.
    Probably,
    /// It may have been taken, but that is no longer remembered.
    Forgotten,
}

/// The hashes of an operation, computed once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hashes {
    /// Of its id, if it has one.
    pub key: Option<IdKey>,
    /// Of its changes.
    pub payload: PayloadHash,
}

impl Hashes {
    /// The hashes of an operation. `scratch` is room to work in.
    pub fn of(operation: &Operation, secret: &Secret, scratch: &mut Vec<u8>) -> Self {
        let key = operation.id().map(|id| {
            // The same id on rows of two partitions: each partition knows its own, and neither answers for the other.
            secret.id_key(operation.table(), id, scratch).in_partition(operation.partition())
        });
        scratch.clear();
        operation.encode_changes(scratch);
        Self { key, payload: secret.payload(scratch) }
    }
}

impl Partition {
    /// A partition to which nothing has happened.
    pub fn new(id: PartitionId) -> Self {
        let (sessions, branches) = (Sessions::default(), PreparedBranches::default());
        Self { id, slot: 0, time: Timestamp::ZERO, sessions, branches }
    }

    /// Which one it is.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// The last slot of its log.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// The time of its last step.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// What it remembers of clients.
    pub fn sessions(&mut self) -> &mut Sessions {
        &mut self.sessions
    }

    /// The next step, if it is taken at this time; at that of the step before, if that is later.
    pub fn next_step(&self, now: Timestamp) -> LogPosition {
        // In the milliseconds that the entry will hold, so that a replay sees the same time.
        LogPosition { slot: self.slot + 1, time: self.time.max(Timestamp::from_millis(millis(now))) }
    }

    /// Takes a step: the next one, at a time no earlier than that of the step before.
    pub fn take(&mut self, step: LogPosition) {
        assert_eq!(step.slot, self.slot + 1, "a step of partition {} is missing", self.id.0);
        assert!(step.time >= self.time, "the time of partition {} goes back", self.id.0);
        (self.slot, self.time) = (step.slot, step.time);
    }

    /// What should become of an operation in this step (the next one, or the present one again). Changes nothing.
    pub fn decide<R: StateReader>(
        &self,
        step: LogPosition,
        table: &Table,
        operation: &Operation,
        hashes: Hashes,
        recall: &mut R,
    ) -> Result<Verdict, R::Error> {
        Ok(match self.decide_freely(step, table, operation, hashes, recall)? {
            Verdict::Fresh(decision) if !self.allows(step, operation, &decision) => {
                Verdict::Rejected(Rejection::Held)
            }
            verdict => verdict,
        })
    }

    /// As if no branch were held.
    fn decide_freely<R: StateReader>(
        &self,
        step: LogPosition,
        table: &Table,
        operation: &Operation,
        hashes: Hashes,
        recall: &mut R,
    ) -> Result<Verdict, R::Error> {
        debug_assert_eq!(operation.partition(), self.id);
        debug_assert_eq!(operation.table(), table.id);
        assert!(step.slot - self.slot <= 1 && step.time >= self.time, "decided out of order");
        let settings = table.settings();
        let (Some(id), Some(key)) = (operation.id(), hashes.key) else {
            return match settings.without_id {
                MissingIdPolicy::Refuse => Ok(Verdict::Rejected(Rejection::IdRequired)),
                MissingIdPolicy::AtMostOnce => evaluate(step, operation, DedupLocation::None, recall),
            };
        };
        if !settings.formats.contains(id.format()) {
            let (found, taken) = (id.format(), settings.formats);
            return Ok(Verdict::Rejected(Rejection::FormatNotTaken { found, taken }));
        }
        if let OpId::Sequenced { client, epoch, seq } = id {
            let client = Client { table: table.id, name: client.clone() };
            let latest = millis(step.time.after(settings.skew));
            return match self.sessions.recognise(&client, *epoch, *seq, latest, step.time) {
                SessionLookup::Known(known) => Ok(known.verdict(hashes.payload)),
                SessionLookup::Refused(rejection) => Ok(Verdict::Rejected(rejection)),
                SessionLookup::New => {
                    let lease = settings.session_lease;
                    evaluate(step, operation, DedupLocation::Session { lease }, recall)
                }
            };
        }
        let id = Sifted { key, dated: id.dated(), payload: hashes.payload };
        decide_by_filter(step, table, operation, id, recall)
    }

    /// What is known of an id here, at this time. Changes nothing.
    pub fn recall<R: StateReader>(
        &self,
        now: Timestamp,
        table: &Table,
        id: &OpId,
        key: IdKey,
        recall: &mut R,
    ) -> Result<IdStatus, R::Error> {
        if let OpId::Sequenced { client, epoch, seq } = id {
            let client = Client { table: table.id, name: client.clone() };
            return Ok(match self.sessions.recognise(&client, *epoch, *seq, u64::MAX, now) {
                SessionLookup::Known(known) => IdStatus::Yes(known.answer),
                SessionLookup::New => IdStatus::No,
                SessionLookup::Refused(_) => IdStatus::Forgotten,
            });
        }
        let dated = id.dated();
        let (mut look_up, mut probably, mut forgotten) = (false, false, false);
        for era in table.living(now) {
            match era.sighting(key, dated, now) {
                FilterAnswer::New => {}
                FilterAnswer::Maybe if era.settings.mode == Mode::Exact => look_up = true,
                FilterAnswer::Maybe => probably = true,
                FilterAnswer::Unknown | FilterAnswer::Forgotten => forgotten = true,
            }
        }
        if look_up {
            let eras = table.living(now).filter(|era| era.settings.mode == Mode::Exact);
            let candidates = eras.flat_map(|era| era.candidates(dated, now));
            if let Some(known) = recall.remembered(key, candidates)? {
                return Ok(IdStatus::Yes(known.answer));
            }
        }
        let late = dated.is_some_and(|dated| {
            let window = table.settings().dated_window;
            now.since(dated) > window || table.forgotten(dated, now)
        });
        Ok(match (probably, forgotten || late) {
            (true, _) => IdStatus::Probably,
            (false, true) => IdStatus::Forgotten,
            (false, false) => IdStatus::No,
        })
    }

    /// Makes a decision come true. Its step is the one taken last. One that was read from an entry must be [complete](crate::complete).
    pub fn apply<A: StateWriter>(
        &mut self,
        table: &Table,
        operation: &Operation,
        hashes: Hashes,
        decision: &OperationDecision,
        absorb: &mut A,
    ) {
        debug_assert_eq!(decision.answer.slot, self.slot);
        if decision.answer.applied {
            effects_of(operation, decision).for_each(|(cell, value)| absorb.store(cell, value));
        }
        restore_dedup(table, operation, hashes, decision, self.time, absorb);
        if let (DedupLocation::Session { lease }, Some(OpId::Sequenced { client, epoch, seq })) =
            (decision.memory, operation.id())
        {
            let client = Client { table: table.id, name: client.clone() };
            let remembered = DedupRecord { payload: hashes.payload, answer: decision.answer.clone() };
            self.sessions.take(client, *epoch, *seq, remembered, lease, self.time);
        }
    }

    /// The row of a checkpoint: everything but the sessions and the branches, which have rows of their own.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_varint(self.slot);
        out.put_varint(self.time.as_nanos());
        self.sessions.encode_floors(&mut out);
        self.branches.encode_count(&mut out);
        out
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(id: PartitionId, row: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(row);
        let (slot, time) = (input.varint()?, Timestamp::from_nanos(input.varint()?));
        // What it logs next must be replayed in the same place and at the same time.
        if slot == u64::MAX || time != Timestamp::from_millis(millis(time)) {
            return Err(DecodeError("a slot without a next one, or a time that no entry has"));
        }
        let sessions = Sessions::decode_floors(&mut input)?;
        let branches = PreparedBranches::decode_count(&mut input)?;
        input.finish()?;
        Ok(Self { id, slot, time, sessions, branches })
    }
}

/// What an operation that is applied leaves in its cells, change by change.
pub(crate) fn effects_of<'a>(
    operation: &'a Operation,
    decision: &'a OperationDecision,
) -> impl Iterator<Item = (&'a Cell, Option<Value>)> {
    let values = decision.answer.values.as_slice();
    operation.changes().enumerate().filter_map(move |(at, (cell, change))| {
        let kept = decision.effects.as_ref().and_then(|effects| effects[at].clone());
        match (kept, change) {
            (Some(value), _) => Some((cell, Some(value))),
            (None, Change::Check(_)) => None,
            (None, change) => Some((cell, change.effect(values[at]))),
        }
    })
}

/// Makes only the part of a decision come true that concerns filter and id index: for whoever has restored the rest from
/// elsewhere. May be repeated.
pub fn restore_dedup<A: StateWriter>(
    table: &Table,
    operation: &Operation,
    hashes: Hashes,
    decision: &OperationDecision,
    time: Timestamp,
    absorb: &mut A,
) {
    let (Some(id), Some(key)) = (operation.id(), hashes.key) else { return };
    if mutated!(ForgetRefusals) && !decision.answer.applied {
        return;
    }
    match decision.memory {
        DedupLocation::None | DedupLocation::Session { .. } => {}
        DedupLocation::Filter { era } => table.insert_into_filter(era, key, id.dated(), time),
        DedupLocation::Index { era, generation } => {
            table.insert_into_filter(era, key, id.dated(), time);
            absorb.remember(
                key,
                generation,
                DedupRecord { payload: hashes.payload, answer: decision.answer.clone() },
            );
        }
    }
}

/// An id that the filter knows: a dated or an opaque one.
struct Sifted {
    key: IdKey,
    dated: Option<Timestamp>,
    payload: PayloadHash,
}

/// For ids that the filter knows: dated and opaque ones.
fn decide_by_filter<R: StateReader>(
    step: LogPosition,
    table: &Table,
    operation: &Operation,
    Sifted { key, dated, payload }: Sifted,
    recall: &mut R,
) -> Result<Verdict, R::Error> {
    let (settings, now) = (table.settings(), step.time);
    // Why a new id is not taken. An id that an earlier era took is answered all the same: that was promised then.
    let mut refusal = None;
    if let Some(dated) = dated {
        let early = |era: &Era| dated > now.after(era.settings.skew);
        let late = |era: &Era| now.since(dated) > era.settings.dated_window && !mutated!(LateIsTaken);
        let present = table.present();
        if early(present) {
            let (ahead, skew) = (dated.since(now), settings.skew);
            refusal = Some(Rejection::FromFuture { ahead, skew, now });
        } else if late(present) || table.forgotten(dated, now) {
            refusal = Some(Rejection::Expired { window: settings.dated_window, now });
        }
        if let Some(rejection) = &refusal
            && table.living(now).all(|era| early(era) || late(era))
        {
            return Ok(Verdict::Rejected(rejection.clone()));
        }
    }
    let mut probably_seen = false;
    let mut look_up = false;
    for era in table.living(now) {
        match era.sighting(key, dated, now) {
            FilterAnswer::New => {}
            FilterAnswer::Maybe => match era.settings.mode {
                Mode::Exact => look_up = true,
                Mode::Probabilistic { .. } => probably_seen = true,
            },
            FilterAnswer::Unknown => refusal = refusal.or(Some(Rejection::Capacity { what: "ids" })),
            FilterAnswer::Forgotten => {
                refusal = refusal.or(Some(Rejection::Expired { window: settings.dated_window, now }));
            }
        }
    }
    if look_up {
        let eras = table.living(now).filter(|era| era.settings.mode == Mode::Exact);
        let candidates = eras.flat_map(|era| era.candidates(dated, now));
        if let Some(known) = recall.remembered(key, candidates)? {
            return Ok(known.verdict(payload));
        }
    }
    if probably_seen {
        return Ok(Verdict::ProbablySeen);
    }
    if let Some(rejection) = refusal {
        return Ok(Verdict::Rejected(rejection));
    }
    let era = table.present().number;
    let memory = match settings.mode {
        Mode::Exact => DedupLocation::Index { era, generation: table.present().generation(dated, now) },
        Mode::Probabilistic { .. } => DedupLocation::Filter { era },
    };
    evaluate(step, operation, memory, recall)
}

/// What the changes of a new operation come to.
pub(crate) fn evaluate<R: StateReader>(
    step: LogPosition,
    operation: &Operation,
    memory: DedupLocation,
    recall: &mut R,
) -> Result<Verdict, R::Error> {
    let (slot, at) = (step.slot, millis(step.time));
    let fresh = |applied, values, effects| {
        let answer = OperationResult { applied, slot, millis: at, values };
        Ok(Verdict::Fresh(OperationDecision { answer, memory, effects }))
    };
    let mut look = |cell: &Cell| Ok(recall.value(cell)?.and_then(|value| value.at(at)));
    if operation.len() == 1 {
        let Some((cell, change)) = operation.changes().next() else { unreachable!("it has one") };
        let before = if change.looks() { look(cell)? } else { None };
        return match change.outcome(before.as_ref()) {
            Ok(Outcome::After(value, None)) => fresh(true, Values::One(value), None),
            Ok(Outcome::After(value, kept)) => fresh(true, Values::One(value), Some([kept].into())),
            Ok(Outcome::Refused(value)) => fresh(false, Values::One(value), None),
            Err(rejection) => Ok(Verdict::Rejected(rejection)),
        };
    }
    // A later change of the same cell must see the earlier one; a refusal tells the counters as they were before all.
    let mut befores: Vec<Option<i64>> = Vec::with_capacity(operation.len());
    let mut after: Vec<(&Cell, Option<i64>, Option<Value>)> = Vec::with_capacity(operation.len());
    let mut values = Vec::with_capacity(operation.len());
    let mut effects = Vec::new();
    let mut refused = false;
    for (cell, change) in operation.changes() {
        let (first, before) = match after.iter().rev().find(|(other, ..)| *other == cell) {
            Some((_, first, value)) => (*first, value.clone()),
            None => {
                let value = look(cell)?;
                (value.as_ref().map_or(Some(0), Value::counter), value)
            }
        };
        befores.push(first);
        match change.outcome(before.as_ref()) {
            Ok(Outcome::After(value, kept)) => {
                if kept.is_some() {
                    effects.resize(values.len(), None);
                    effects.push(kept.clone());
                }
                values.push(value);
                let held = match change {
                    Change::Check(_) => before,
                    _ => kept.or_else(|| change.effect(value)),
                };
                after.push((cell, first, held));
            }
            // It refuses the whole; go on, to tell what the counters are.
            Ok(Outcome::Refused(_)) => refused = true,
            Err(rejection) => return Ok(Verdict::Rejected(rejection)),
        }
    }
    if refused {
        return fresh(false, Values::from_vec(befores), None);
    }
    if effects.is_empty() {
        return fresh(true, Values::from_vec(values), None);
    }
    effects.resize(values.len(), None);
    fresh(true, Values::from_vec(values), Some(effects.into()))
}

/// What a change comes to.
enum Outcome {
    /// The counter afterwards; and what the cell holds, if [`Change::effect`] cannot tell.
    After(Option<i64>, Option<Value>),
    /// A bound or a check refuses it; the counter is at this.
    Refused(Option<i64>),
}

impl Change {
    /// Whether the outcome depends on what the cell holds.
    fn looks(&self) -> bool {
        !matches!(self, Self::Set(_) | Self::Reset | Self::Delete | Self::Put(_))
    }

    fn outcome(&self, before: Option<&Value>) -> Result<Outcome, Rejection> {
        let number = before.map_or(Some(0), Value::counter);
        let sum = |delta: i64| {
            let before = number.ok_or(Rejection::NotACounter)?;
            Ok((before, before.checked_add(delta)))
        };
        // A counter that expires goes on to.
        let counted = |sum: Option<i64>| {
            let sum = sum.ok_or(Rejection::Overflow)?;
            let until = before.and_then(Value::until);
            Ok(Outcome::After(Some(sum), until.map(|until| Value::Counter(sum).lasting(Some(until)))))
        };
        match self {
            Self::Add(delta) => counted(sum(*delta)?.1),
            Self::AddWithin { delta, min, max } => {
                let (before, sum) = sum(*delta)?;
                // A sum beyond i64 is beyond a bound on that side, if there is one.
                let below = min.is_some_and(|min| sum.map_or(*delta < 0, |sum| sum < min));
                let above = max.is_some_and(|max| sum.map_or(*delta > 0, |sum| sum > max));
                if below || above {
                    return Ok(Outcome::Refused(Some(before)));
                }
                counted(sum)
            }
            Self::Set(value) => Ok(Outcome::After(Some(*value), None)),
            Self::Reset => Ok(Outcome::After(Some(0), None)),
            Self::Delete | Self::Put(_) => Ok(Outcome::After(None, None)),
            Self::Check(check) => {
                let holds = match check {
                    Check::Absent => before.is_none(),
                    Check::Present => before.is_some(),
                    Check::Holds(value) => before == Some(value),
                    Check::ExpiresWithin { min, max } => {
                        let expiry = before.map(|value| value.until().unwrap_or(u64::MAX));
                        expiry.is_some_and(|expiry| (*min..=*max).contains(&expiry))
                    }
                };
                let value = if before.is_some() { number } else { None };
                Ok(if holds { Outcome::After(value, None) } else { Outcome::Refused(number) })
            }
            Self::Expire(until) => Ok(match before {
                None => Outcome::Refused(Some(0)),
                Some(value) => Outcome::After(number, Some(value.clone().lasting(*until))),
            }),
            Self::Append(more) => {
                let until = before.and_then(Value::until);
                let mut bytes = before.map_or_else(Vec::new, Value::text);
                bytes.extend_from_slice(more);
                if bytes.len() > limits::CELL_BYTES_MAX {
                    return Err(Rejection::CellTooLarge);
                }
                let length = bytes.len() as i64;
                let value = Value::from_text(&bytes).lasting(until);
                Ok(Outcome::After(Some(length), Some(value)))
            }
        }
    }

    /// What the cell holds after the change, given the counter that was answered. Not for changes that keep some of what was there: their
    /// decisions have it.
    fn effect(&self, value: Option<i64>) -> Option<Value> {
        match self {
            Self::Put(bytes) => Some(Value::Bytes(bytes.clone())),
            Self::Expire(_) | Self::Append(_) => {
                unreachable!("what was kept is not made up: complete it first")
            }
            _ => value.map(Value::Counter),
        }
    }
}

impl DedupRecord {
    /// What a retry with this payload is told.
    fn verdict(self, payload: PayloadHash) -> Verdict {
        if self.payload == payload || mutated!(IgnorePayload) {
            Verdict::Replay(self.answer)
        } else {
            Verdict::Rejected(Rejection::Mismatch)
        }
    }
}
