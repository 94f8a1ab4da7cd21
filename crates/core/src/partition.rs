//! The partition: a state machine over its log.
//!
//! [`Partition::decide`] is read-only; [`Partition::apply`] changes the state. The owner of a partition
//! decides, writes the decision to the log, and applies it. A recovery applies what it reads from the log,
//! [completed](crate::complete). The state after slot n is a fold of `apply` over the entries, so it is the
//! same for both.
//!
//! Invariants:
//! - *Once.* An operation with an id is applied at most once to its routing key; its retries get the first
//!   result, or a rejection.
//! - *Atomicity.* All changes of an operation are made, or none.
//! - *Time* never goes back. The partition's time, not the reader's, decides which ids are too old.

use forgetful_filter::Timestamp;

use crate::address::{Cell, PartitionId};
use crate::codec::{DecodeError, Reader, Write};
use crate::era::{Era, FilterAnswer};
use crate::escrow::PreparedBranches;
use crate::evaluate::{effects_of, evaluate};
use crate::generation::Generation;
use crate::hash::{IdKey, PayloadHash, Secret};
use crate::id::OpId;
use crate::log_entry::{DedupLocation, OperationDecision, millis};
use crate::operation::Operation;
use crate::operation_result::{DedupRecord, OperationResult, Rejection};
use crate::replay::ReplayError;
use crate::session::{Client, SessionLookup, Sessions};
use crate::settings::{MissingIdPolicy, Mode};
use crate::table::Table;
use crate::value::Value;

/// The in-memory state of a partition. Values and dedup records are behind [`StateReader`].
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    id: PartitionId,
    slot: u64,
    time: Timestamp,
    sessions: Sessions,
    pub(crate) branches: PreparedBranches,
}

/// Lookups of a partition: values and dedup records.
pub trait StateReader {
    type Error;

    fn value(&mut self, cell: &Cell) -> Result<Option<Value>, Self::Error>;

    /// The dedup record of an id, which can only be in one of these generations.
    fn dedup_record(
        &mut self,
        key: IdKey,
        generations: impl Iterator<Item = Generation>,
    ) -> Result<Option<DedupRecord>, Self::Error>;
}

/// Receives the effects of an operation.
pub trait StateWriter {
    fn store(&mut self, cell: &Cell, value: Option<Value>);

    fn record(&mut self, key: IdKey, generation: Generation, record: DedupRecord);
}

/// A position in a partition's log: a slot, and the time of its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPosition {
    /// The slot, from 1.
    pub slot: u64,
    /// The time, in whole milliseconds.
    pub time: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The operation is new: log it and apply it.
    Fresh(OperationDecision),
    /// A retry: this was the first result.
    Replay(OperationResult),
    /// The filter of a probabilistic table reports the id as known.
    ProbablySeen,
    /// The operation is rejected. Nothing changes.
    Rejected(Rejection),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdStatus {
    /// It was not used here within the window.
    No,
    /// It was used: this was the first result.
    Yes(OperationResult),
    /// The filter of a probabilistic table reports the id as known.
    Probably,
    /// It may have been used, but its record has expired.
    Forgotten,
}

/// The hashes of an operation, computed once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hashes {
    pub key: Option<IdKey>,
    pub payload: PayloadHash,
    /// The principal that sent the operation; 0 if it is unknown. Sessions are shared fairly between
    /// principals. Not logged.
    pub principal: u64,
}

impl Hashes {
    /// Computes the hashes of an operation. `scratch` is a buffer.
    pub fn of(operation: &Operation, secret: &Secret, scratch: &mut Vec<u8>) -> Self {
        let key = operation.id().map(|id| secret.id_key(operation.first_cell(), id, scratch));
        scratch.clear();
        operation.encode_changes(scratch);
        Self { key, payload: secret.payload(scratch), principal: 0 }
    }
}

impl Partition {
    pub fn new(id: PartitionId) -> Self {
        let (sessions, branches) = (Sessions::default(), PreparedBranches::default());
        Self { id, slot: 0, time: Timestamp::ZERO, sessions, branches }
    }

    pub fn id(&self) -> PartitionId {
        self.id
    }

    pub fn slot(&self) -> u64 {
        self.slot
    }

    pub fn time(&self) -> Timestamp {
        self.time
    }

    pub fn sessions(&mut self) -> &mut Sessions {
        &mut self.sessions
    }

    /// The next log position at the time `now`, or at the time of the last entry if that is later.
    pub fn next_step(&self, now: Timestamp) -> LogPosition {
        // In whole milliseconds, as in the entry, so that a replay sees the same time.
        LogPosition { slot: self.slot + 1, time: self.time.max(Timestamp::from_millis(millis(now))) }
    }

    /// Moves to a log position: the next slot, at a time no earlier than the last. On an error nothing
    /// changes.
    pub fn advance(&mut self, step: LogPosition) -> Result<(), ReplayError> {
        if self.slot.checked_add(1) != Some(step.slot) {
            let expected = self.slot.saturating_add(1);
            return Err(ReplayError::Slot { expected, found: step.slot });
        }
        if step.time < self.time {
            return Err(ReplayError::Time { last: millis(self.time), found: millis(step.time) });
        }
        // Once a second of log time: in a replay at the same entries.
        if millis(step.time) / 1_000 > millis(self.time) / 1_000 {
            self.sessions.forget_expired(step.time);
        }
        (self.slot, self.time) = (step.slot, step.time);
        Ok(())
    }

    /// Decides an operation at this log position (the next one, or the current one again). Read-only.
    pub fn decide<R: StateReader>(
        &self,
        step: LogPosition,
        table: &Table,
        operation: &Operation,
        hashes: Hashes,
        reader: &mut R,
    ) -> Result<Verdict, R::Error> {
        Ok(match self.decide_without_escrow(step, table, operation, hashes, reader)? {
            Verdict::Fresh(decision) if !self.allows(step, operation, &decision) => {
                Verdict::Rejected(Rejection::Reserved)
            }
            verdict => verdict,
        })
    }

    /// As [`decide`](Self::decide), without regard to prepared branches.
    fn decide_without_escrow<R: StateReader>(
        &self,
        step: LogPosition,
        table: &Table,
        operation: &Operation,
        hashes: Hashes,
        reader: &mut R,
    ) -> Result<Verdict, R::Error> {
        debug_assert_eq!(operation.partition(), self.id);
        debug_assert_eq!(operation.table(), table.id);
        assert!(step.slot - self.slot <= 1 && step.time >= self.time, "decided out of order");
        let settings = table.settings();
        let (Some(id), Some(key)) = (operation.id(), hashes.key) else {
            return match settings.without_id {
                MissingIdPolicy::Refuse => Ok(Verdict::Rejected(Rejection::IdRequired)),
                MissingIdPolicy::AtMostOnce | MissingIdPolicy::RespOnly => {
                    evaluate(step, operation, DedupLocation::None, reader)
                }
            };
        };
        if !settings.formats.contains(id.format()) {
            let (found, taken) = (id.format(), settings.formats);
            return Ok(Verdict::Rejected(Rejection::FormatNotTaken { found, taken }));
        }
        if let OpId::Sequenced { client, epoch, seq } = id {
            let client = Client { table: table.id, name: client.clone() };
            let (floor, latest) = (table.epoch_floor(), millis(step.time.after(settings.skew)));
            let sent = (hashes.principal, step.time);
            return match self.sessions.lookup(&client, *epoch, (*seq, key), (floor, latest), sent) {
                SessionLookup::Known(known) => Ok(known.verdict(hashes.payload)),
                SessionLookup::Refused(rejection) => Ok(Verdict::Rejected(rejection)),
                SessionLookup::New => {
                    let lease = settings.session_lease;
                    evaluate(step, operation, DedupLocation::Session { lease }, reader)
                }
            };
        }
        decide_by_filter(step, table, operation, (key, id.dated(), hashes.payload), reader)
    }

    /// Whether an id was used for the routing key in `key`, as recorded at this time. Read-only.
    pub fn id_status<R: StateReader>(
        &self,
        now: Timestamp,
        table: &Table,
        id: &OpId,
        key: IdKey,
        reader: &mut R,
    ) -> Result<IdStatus, R::Error> {
        if let OpId::Sequenced { client, epoch, seq } = id {
            let client = Client { table: table.id, name: client.clone() };
            let epochs = (table.epoch_floor(), u64::MAX);
            return Ok(match self.sessions.lookup(&client, *epoch, (*seq, key), epochs, (0, now)) {
                SessionLookup::Known(known) => IdStatus::Yes(known.answer),
                SessionLookup::New => IdStatus::No,
                SessionLookup::Refused(_) => IdStatus::Forgotten,
            });
        }
        let dated = id.dated();
        let (mut look_up, mut probably, mut forgotten) = (false, false, false);
        for era in table.living(now) {
            match era.lookup(key, dated, now) {
                FilterAnswer::New => {}
                FilterAnswer::Maybe if era.settings.mode == Mode::Exact => look_up = true,
                FilterAnswer::Maybe => probably = true,
                FilterAnswer::Unknown | FilterAnswer::Forgotten => forgotten = true,
            }
        }
        if look_up && let Some(known) = reader.dedup_record(key, table.candidates(dated, now))? {
            return Ok(IdStatus::Yes(known.answer));
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

    /// Applies a decision of the current log position. A decision that was read from an entry must be
    /// [complete](crate::complete); it is an error if it does not follow from the state before it. After an
    /// error the partition and `writer` may hold a part of the decision, and must be dropped.
    pub fn apply<A: StateWriter>(
        &mut self,
        table: &Table,
        operation: &Operation,
        hashes: Hashes,
        decision: &OperationDecision,
        writer: &mut A,
    ) -> Result<(), ReplayError> {
        debug_assert_eq!(decision.answer.slot, self.slot);
        if operation.partition() != self.id {
            return Err(ReplayError::OtherPartition(operation.partition()));
        }
        if decision.answer.applied {
            effects_of(operation, decision).for_each(|(cell, value)| writer.store(cell, value));
        }
        restore_dedup(table, operation, hashes, decision, self.time, writer)?;
        if let (DedupLocation::Session { lease }, Some(OpId::Sequenced { client, epoch, seq }), Some(key)) =
            (decision.memory, operation.id(), hashes.key)
        {
            let client = Client { table: table.id, name: client.clone() };
            let record = DedupRecord { payload: hashes.payload, answer: decision.answer.clone() };
            let sent = (hashes.principal, lease);
            self.sessions.record(client, *epoch, (*seq, key), record, sent, self.time)?;
        }
        Ok(())
    }

    /// The row of a checkpoint, without sessions and branches, which have rows of their own.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_varint(self.slot);
        out.put_varint(self.time.as_nanos());
        self.sessions.encode_floors(&mut out);
        self.branches.encode_count(&mut out);
        out
    }

    pub fn decode(id: PartitionId, row: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(row);
        let (slot, time) = (input.varint()?, Timestamp::from_nanos(input.varint()?));
        // The next entry must get the same slot and time in a replay.
        if slot == u64::MAX || time != Timestamp::from_millis(millis(time)) {
            return Err(DecodeError("a slot without a next one, or a time that no entry has"));
        }
        let sessions = Sessions::decode_floors(&mut input)?;
        let branches = PreparedBranches::decode_count(&mut input)?;
        input.finish()?;
        Ok(Self { id, slot, time, sessions, branches })
    }
}

/// Applies only the part of a decision that concerns the filter and the id index, for a recovery that has the
/// rest from a checkpoint. Idempotent.
pub fn restore_dedup<A: StateWriter>(
    table: &Table,
    operation: &Operation,
    hashes: Hashes,
    decision: &OperationDecision,
    time: Timestamp,
    writer: &mut A,
) -> Result<(), ReplayError> {
    let (Some(id), Some(key)) = (operation.id(), hashes.key) else { return Ok(()) };
    if mutated!(ForgetRefusals) && !decision.answer.applied {
        return Ok(());
    }
    match decision.memory {
        DedupLocation::None | DedupLocation::Session { .. } => {}
        DedupLocation::Filter { era } => table.insert_into_filter(era, key, id, time)?,
        DedupLocation::Index { era, generation } => {
            table.insert_into_filter(era, key, id, time)?;
            let record = DedupRecord { payload: hashes.payload, answer: decision.answer.clone() };
            writer.record(key, generation, record);
        }
    }
    Ok(())
}

/// Decides dated and opaque ids, which the filter records.
///
/// The *window* is the time for which a table records an id. An *era* is a period of unchanged settings with
/// filters of its own (`era.rs`), so the filters of all living eras are searched. A *generation* is the part
/// of the id index with the ids that expire together (`generation.rs`); the date of an id, or its arrival,
/// selects the generations to read.
fn decide_by_filter<R: StateReader>(
    step: LogPosition,
    table: &Table,
    operation: &Operation,
    (key, dated, payload): (IdKey, Option<Timestamp>, PayloadHash),
    reader: &mut R,
) -> Result<Verdict, R::Error> {
    let (settings, now) = (table.settings(), step.time);
    // Why a new id is rejected. An id that an earlier era accepted still gets its result: that era's window
    // covers it.
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
        match era.lookup(key, dated, now) {
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
    if look_up && let Some(known) = reader.dedup_record(key, table.candidates(dated, now))? {
        return Ok(known.verdict(payload));
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
    evaluate(step, operation, memory, reader)
}

impl DedupRecord {
    fn verdict(self, payload: PayloadHash) -> Verdict {
        if self.payload == payload || mutated!(IgnorePayload) {
            Verdict::Replay(self.answer)
        } else {
            Verdict::Rejected(Rejection::Mismatch)
        }
    }
}
