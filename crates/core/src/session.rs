//! Sessions: the dedup records of clients that number their operations.
//!
//! A session keeps the first results of a client's highest sequence numbers, at most [`SESSION_WINDOW`]. A number
//! counts once for each routing key, so a result belongs to a number and a routing key, and a full session drops
//! all results of its lowest number at once. New operations with that number or a lower one are rejected from then
//! on: a result that is not recorded was never dropped. A higher epoch fences the lower ones. The session of a
//! client that is idle for longer than its lease expires. Of all expired sessions only the highest epoch is
//! kept, the *floor*: an unknown session at or below the floor may have expired, so its operations are
//! rejected and never counted again.
//!
//! Invariant: the floor stays below the current time in milliseconds. Otherwise one client with a huge epoch
//! would, once expired, shut out all new clients. So a new epoch is at most the current time plus the table's
//! skew, and a session does not expire before the current time has passed its epoch. Clients that use their
//! start time as epoch are above the floor.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use forgetful_filter::Timestamp;

use crate::address::TableId;
use crate::codec::{DecodeError, Reader, Write};
use crate::hash::IdKey;
use crate::limits::{SESSION_WINDOW, SESSIONS_MAX};
use crate::operation_result::{DedupRecord, Rejection};
use crate::replay::ReplayError;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sessions {
    live: HashMap<Client, Session>,
    /// The same clients sorted by expiry time, so that eviction looks only at the first.
    ends: BTreeSet<(Timestamp, Client)>,
    floors: BTreeMap<TableId, u64>,
    /// Clients whose stored row is out of date.
    changed: BTreeSet<Client>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Client {
    pub table: TableId,
    pub name: Box<str>,
}

#[derive(Debug, Clone, PartialEq)]
struct Session {
    epoch: u64,
    /// Highest sequence number whose results were dropped; 0 if none was.
    dropped: u64,
    last_used: Timestamp,
    /// The lease at the last use.
    lease: Duration,
    /// The results, by ascending sequence number and hash.
    answers: VecDeque<(SequenceKey, DedupRecord)>,
}

/// A sequence number, and half of the [key](IdKey) of its id and routing key. If two keys had the same half, the
/// second operation would be rejected as a mismatch: payloads contain the row.
type SequenceKey = (u64, u64);

fn sequence_key((seq, key): (u64, IdKey)) -> SequenceKey {
    (seq, key.0 as u64)
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SessionLookup {
    New,
    Known(DedupRecord),
    Refused(Rejection),
}

impl Session {
    /// Expiry time: when the lease ends, and not before the current time has passed the epoch.
    fn end(&self) -> Timestamp {
        self.last_used.after(self.lease).max(Timestamp::from_millis(self.epoch.saturating_add(1)))
    }

    fn idle(&self, now: Timestamp) -> bool {
        now > self.end()
    }

    fn find(&self, place: SequenceKey) -> Result<usize, usize> {
        self.answers.binary_search_by_key(&place, |(place, _)| *place)
    }

    /// The highest sequence number that cannot be recorded: dropped already, or the first to be dropped.
    fn closed(&self) -> u64 {
        match self.answers.front() {
            Some(((lowest, _), _)) if self.answers.len() >= SESSION_WINDOW => *lowest,
            _ => self.dropped,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let (mut out, mut one) = (Vec::new(), Vec::new());
        out.put_varint(self.epoch);
        out.put_varint(self.dropped);
        out.put_varint(self.last_used.as_nanos());
        out.put_duration(self.lease);
        out.put_varint(self.answers.len() as u64);
        for ((seq, hash), record) in &self.answers {
            one.clear();
            record.encode(&mut one);
            out.put_varint(*seq);
            out.put_u64(*hash);
            out.put_bytes(&one);
        }
        out
    }

    fn decode(row: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(row);
        let (epoch, dropped) = (input.varint()?, input.varint()?);
        let last_used = Timestamp::from_nanos(input.varint()?);
        let lease = input.duration()?;
        let mut answers: VecDeque<(SequenceKey, DedupRecord)> = VecDeque::new();
        let count = input.count()?;
        if count > SESSION_WINDOW {
            return Err(DecodeError("more results than a session has"));
        }
        for _ in 0..count {
            let place = (input.varint()?, input.u64()?);
            if answers.back().is_some_and(|(before, _)| *before >= place) || place.0 <= dropped {
                return Err(DecodeError("sequence numbers out of order"));
            }
            answers.push_back((place, DedupRecord::decode(input.bytes()?)?));
        }
        input.finish()?;
        Ok(Self { epoch, dropped, last_used, lease, answers })
    }
}

impl Sessions {
    /// `latest` is the largest epoch that may begin now.
    pub(crate) fn lookup(
        &self,
        client: &Client,
        epoch: u64,
        number: (u64, IdKey),
        latest: u64,
        now: Timestamp,
    ) -> SessionLookup {
        let floor = self.floors.get(&client.table).copied();
        let session = match self.live.get(client) {
            Some(session) => session,
            None if floor.is_some_and(|floor| epoch <= floor) => {
                return SessionLookup::Refused(Rejection::UnknownSession {
                    floor: floor.unwrap_or_default(),
                });
            }
            None if epoch > latest && !mutated!(LargeEpochs) => {
                return SessionLookup::Refused(Rejection::EpochAhead { latest });
            }
            None if self.live.len() >= SESSIONS_MAX && self.first_idle(now).is_none() => {
                return SessionLookup::Refused(Rejection::Capacity { what: "sessions" });
            }
            None => return SessionLookup::New,
        };
        if session.idle(now) && epoch <= session.epoch {
            let floor = floor.unwrap_or_default().max(session.epoch);
            return SessionLookup::Refused(Rejection::UnknownSession { floor });
        }
        if epoch < session.epoch && !mutated!(IgnoreEpochs) {
            return SessionLookup::Refused(Rejection::Fenced { epoch: session.epoch });
        }
        // A running epoch continues even if the skew has become smaller: it has affected the floor already.
        if epoch > session.epoch && epoch > latest && !mutated!(LargeEpochs) {
            return SessionLookup::Refused(Rejection::EpochAhead { latest });
        }
        if epoch > session.epoch || mutated!(IgnoreEpochs) && epoch < session.epoch {
            return SessionLookup::New;
        }
        match (session.find(sequence_key(number)), session.closed()) {
            (Ok(at), _) => SessionLookup::Known(session.answers[at].1.clone()),
            (Err(_), closed) if number.0 <= closed => {
                SessionLookup::Refused(Rejection::Superseded { low_water: closed.saturating_add(1) })
            }
            (Err(_), _) => SessionLookup::New,
        }
    }

    /// Records the result of an operation that [`lookup`](Self::lookup) called new.
    pub(crate) fn record(
        &mut self,
        client: Client,
        epoch: u64,
        number: (u64, IdKey),
        record: DedupRecord,
        lease: Duration,
        now: Timestamp,
    ) -> Result<(), ReplayError> {
        let empty = || Session { epoch, dropped: 0, last_used: now, lease, answers: VecDeque::new() };
        if !self.changed.contains(&client) {
            self.changed.insert(client.clone());
        }
        let before = self.live.get(&client).map(Session::end);
        if before.is_none() {
            // In a replay no session may be idle, although one was when a checkpoint evicted it: insert all
            // the same.
            while self.live.len() >= SESSIONS_MAX && self.forget_first(now) {}
            self.live.insert(client.clone(), empty());
        }
        let Some(session) = self.live.get_mut(&client) else { unreachable!("it was inserted above") };
        if epoch > session.epoch || mutated!(IgnoreEpochs) && epoch < session.epoch {
            *session = empty();
        }
        if epoch < session.epoch {
            return Err(ReplayError::EndedEpoch { epoch, current: session.epoch });
        }
        session.last_used = session.last_used.max(now);
        session.lease = lease;
        // A replay may repeat what a checkpoint holds already, or has dropped.
        let place = sequence_key(number);
        if let Err(at) = session.find(place)
            && place.0 > session.dropped
        {
            session.answers.insert(at, (place, record));
        }
        if session.answers.len() > SESSION_WINDOW
            && let Some(((lowest, _), _)) = session.answers.front()
        {
            session.dropped = *lowest;
            let kept = session.answers.partition_point(|((seq, _), _)| *seq <= session.dropped);
            session.answers.drain(..kept);
        }
        let end = session.end();
        self.list(client, before, end);
        Ok(())
    }

    /// Moves a client to its new expiry time in `ends`.
    fn list(&mut self, client: Client, before: Option<Timestamp>, end: Timestamp) {
        if before == Some(end) {
            return;
        }
        let mut place = (before.unwrap_or(end), client);
        if before.is_some() {
            self.ends.remove(&place);
        }
        place.0 = end;
        self.ends.insert(place);
    }

    /// The client with the earliest expiry time, if that has passed.
    fn first_idle(&self, now: Timestamp) -> Option<&Client> {
        self.ends.first().filter(|(end, _)| now > *end).map(|(_, client)| client)
    }

    /// Removes the client with the earliest expiry time; false if none has expired.
    fn forget_first(&mut self, now: Timestamp) -> bool {
        if self.first_idle(now).is_none() {
            return false;
        }
        let Some((_, client)) = self.ends.pop_first() else { return false };
        if let Some(session) = self.live.remove(&client) {
            let floor = self.floors.entry(client.table).or_insert(session.epoch);
            *floor = session.epoch.max(*floor);
            self.changed.insert(client);
        }
        true
    }

    pub fn forget_idle(&mut self, now: Timestamp) {
        while self.forget_first(now) {}
    }

    /// The clients whose stored rows are out of date, with their new rows; `None` for an expired one. They
    /// count as stored from now on.
    pub fn take_changed(&mut self) -> Vec<(Client, Option<Vec<u8>>)> {
        let row = |client: &Client| self.live.get(client).map(Session::encode);
        std::mem::take(&mut self.changed).into_iter().map(|client| (client.clone(), row(&client))).collect()
    }

    pub fn restore(&mut self, client: Client, row: &[u8]) -> Result<(), DecodeError> {
        let session = Session::decode(row)?;
        let end = session.end();
        let before = self.live.insert(client.clone(), session).map(|before| before.end());
        self.list(client, before, end);
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.live.len()
    }

    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    pub(crate) fn encode_floors(&self, out: &mut Vec<u8>) {
        if mutated!(FloorNotStored) {
            return out.put_varint(0);
        }
        out.put_varint(self.floors.len() as u64);
        for (table, floor) in &self.floors {
            out.put_varint(u64::from(table.0));
            out.put_varint(*floor);
        }
    }

    pub(crate) fn decode_floors(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut sessions = Self::default();
        for _ in 0..input.count()? {
            let table = TableId(input.varint32()?);
            // Sorted, so that no table occurs twice and a lower floor cannot replace a higher one.
            if sessions.floors.last_key_value().is_some_and(|(before, _)| *before >= table) {
                return Err(DecodeError("floors out of order"));
            }
            sessions.floors.insert(table, input.varint()?);
        }
        Ok(sessions)
    }
}
