//! Sessions: the dedup records of clients that number their operations.
//!
//! A session keeps the first results of a client's highest sequence numbers, at most [`SESSION_WINDOW`]. A
//! number counts once for each routing key, so a result belongs to a number and a routing key, and a full
//! session drops all results of its lowest number at once. New operations with that number or a lower one are
//! rejected from then on: a result that is not recorded was never dropped. A higher epoch fences the lower
//! ones. The session of a client that is idle for longer than its lease expires. Of all expired sessions only
//! the highest epoch is kept, the *floor*: an unknown session at or below the floor may have expired, so its
//! operations are rejected and never counted again.
//!
//! Invariant: the floor stays below the current time in milliseconds. Otherwise one client with a huge epoch
//! would, once expired, shut out all new clients. So a new epoch is at most the current time plus the table's
//! skew, and a session does not expire before the current time has passed its epoch. Clients that use their
//! start time as epoch are above the floor.
//!
//! The sessions of a partition have a common limit, and each table a fair share of it. In a full partition a
//! table below its share takes the place of the least recently used session of the largest table; a table at
//! its share evicts its own idle ones or refuses new clients. Eviction counts as expiry: it raises the floor
//! of the table, also above the current time if the epoch is ahead of it. That shuts out new clients of that
//! table only, and for no longer than its skew.
//!
//! Invariant: a replay does not evict what has not expired. It may lack evictions of the original run, which
//! is harmless: no entry continues an evicted epoch. An additional one would forget results that count.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use forgetful_filter::Timestamp;

use crate::address::TableId;
use crate::codec::{DecodeError, Reader, Write};
use crate::hash::IdKey;
use crate::limits::{SESSION_BYTES_MAX, SESSION_IDLE_MIN, SESSION_WINDOW, SESSIONS_MAX};
use crate::operation_result::{DedupRecord, Rejection};
use crate::replay::ReplayError;

#[derive(Debug, Clone, PartialEq)]
pub struct Sessions {
    live: HashMap<Client, Session>,
    /// The same clients sorted by table and expiry time, so that eviction looks only at the first of a table.
    ends: BTreeSet<(TableId, Timestamp, Client)>,
    /// Bytes of the sessions of each table that has any.
    used: BTreeMap<TableId, usize>,
    /// The sum of `used`.
    total: usize,
    bytes_max: usize,
    floors: BTreeMap<TableId, u64>,
    /// Clients whose stored row is out of date.
    changed: BTreeSet<Client>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            live: HashMap::new(),
            ends: BTreeSet::new(),
            used: BTreeMap::new(),
            total: 0,
            bytes_max: SESSION_BYTES_MAX,
            floors: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }
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
    /// Bytes of the results.
    bytes: usize,
}

/// Bytes of a session without results: the entries of its client in maps and sets.
const SESSION_OVERHEAD: usize = 512;

fn bytes_of(record: &DedupRecord) -> usize {
    size_of::<(SequenceKey, DedupRecord)>() + size_of_val(record.answer.values.as_slice())
}

/// A sequence number, and half of the [key](IdKey) of its id and routing key. If two keys had the same half,
/// the second operation would be rejected as a mismatch: payloads contain the row.
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

    /// Bytes in memory; at least a share of the maximum that limits the number of sessions.
    fn cost(&self, bytes_max: usize) -> usize {
        (SESSION_OVERHEAD + self.bytes).max(bytes_max / SESSIONS_MAX)
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
        let bytes = answers.iter().map(|(_, record)| bytes_of(record)).sum();
        Ok(Self { epoch, dropped, last_used, lease, answers, bytes })
    }
}

impl Sessions {
    /// No epoch up to `table_floor` and none beyond `latest` may begin now.
    pub(crate) fn lookup(
        &self,
        client: &Client,
        epoch: u64,
        number: (u64, IdKey),
        (table_floor, latest): (Option<u64>, u64),
        now: Timestamp,
    ) -> SessionLookup {
        let floor = self.floors.get(&client.table).copied().max(table_floor);
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
            None if self.is_full() && !self.may_evict(client.table, now) => {
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
        let empty =
            || Session { epoch, dropped: 0, last_used: now, lease, answers: VecDeque::new(), bytes: 0 };
        if !self.changed.contains(&client) {
            self.changed.insert(client.clone());
        }
        let before = self.live.get(&client).map(Session::end);
        if before.is_none() {
            // In a replay no session may be idle, although one was evicted before: insert all the same.
            while self.is_full() && self.forget_first(now) {}
            self.live.insert(client.clone(), empty());
        }
        let bytes_max = self.bytes_max;
        let Some(session) = self.live.get_mut(&client) else { unreachable!("it was inserted above") };
        let bytes_before = before.map_or(0, |_| session.cost(bytes_max));
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
            session.bytes += bytes_of(&record);
            session.answers.insert(at, (place, record));
        }
        if session.answers.len() > SESSION_WINDOW
            && let Some(((lowest, _), _)) = session.answers.front()
        {
            session.dropped = *lowest;
            let kept = session.answers.partition_point(|((seq, _), _)| *seq <= session.dropped);
            let freed: usize = session.answers.drain(..kept).map(|(_, record)| bytes_of(&record)).sum();
            session.bytes -= freed;
        }
        let (end, bytes) = (session.end(), session.cost(bytes_max));
        self.charge(client.table, bytes_before, bytes);
        self.list(client, before, end);
        Ok(())
    }

    /// Limits the bytes of all sessions.
    pub fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        (self.total, self.used) = (0, BTreeMap::new());
        let live = self.live.iter().map(|(client, session)| (client.table, session.cost(bytes_max)));
        let costs: Vec<_> = live.collect();
        costs.into_iter().for_each(|(table, bytes)| self.charge(table, 0, bytes));
    }

    /// Evicts sessions down to the limit, after an operation of a table was recorded. Never in a replay.
    pub fn evict_for(&mut self, table: TableId) {
        while self.total > self.bytes_max {
            let largest = self.used.iter().max_by_key(|(_, bytes)| **bytes).map(|(table, _)| *table);
            let own = self.used.get(&table).is_some_and(|bytes| *bytes > self.share(table));
            let Some(client) = largest.and_then(|largest| self.oldest(if own { table } else { largest }))
            else {
                return;
            };
            self.forget(client.clone());
        }
    }

    fn charge(&mut self, table: TableId, before: usize, after: usize) {
        if before == after {
            return;
        }
        self.total = self.total + after - before;
        let used = self.used.entry(table).or_default();
        *used = *used + after - before;
        if *used == 0 {
            self.used.remove(&table);
        }
    }

    /// Whether there is no room for another session.
    fn is_full(&self) -> bool {
        self.total + self.bytes_max / SESSIONS_MAX > self.bytes_max
    }

    /// The fair share of a table in bytes.
    fn share(&self, table: TableId) -> usize {
        self.bytes_max / (self.used.len() + usize::from(!self.used.contains_key(&table)))
    }

    /// Whether a full partition has a place for a new session of the table.
    fn may_evict(&self, table: TableId, now: Timestamp) -> bool {
        let used = self.used.get(&table).copied().unwrap_or_default();
        used + self.bytes_max / SESSIONS_MAX <= self.share(table)
            || self.first_idle(now).is_some()
            || self.oldest(table).is_some_and(|client| {
                let session = &self.live[client];
                let epoch_passed = Timestamp::from_millis(session.epoch) < now;
                epoch_passed && now > session.last_used.after(SESSION_IDLE_MIN)
            })
    }

    /// The client of a table with the earliest expiry time.
    fn oldest(&self, table: TableId) -> Option<&Client> {
        self.first_of(table).map(|(_, _, client)| client)
    }

    fn first_of(&self, table: TableId) -> Option<&(TableId, Timestamp, Client)> {
        let least = (table, Timestamp::ZERO, Client { table, name: "".into() });
        self.ends.range(least..).next().filter(|first| first.0 == table)
    }

    /// Moves a client to its new expiry time in `ends`.
    fn list(&mut self, client: Client, before: Option<Timestamp>, end: Timestamp) {
        if before == Some(end) {
            return;
        }
        let mut place = (client.table, before.unwrap_or(end), client);
        if before.is_some() {
            self.ends.remove(&place);
        }
        place.1 = end;
        self.ends.insert(place);
    }

    /// The client with the earliest expiry time, if that has passed.
    fn first_idle(&self, now: Timestamp) -> Option<&Client> {
        let first = self.used.keys().filter_map(|table| self.first_of(*table));
        let (_, end, client) = first.min_by_key(|(table, end, _)| (*end, *table))?;
        (now > *end).then_some(client)
    }

    /// Removes the client with the earliest expiry time; false if none has expired.
    fn forget_first(&mut self, now: Timestamp) -> bool {
        let Some(client) = self.first_idle(now).cloned() else { return false };
        self.forget(client);
        true
    }

    fn forget(&mut self, client: Client) {
        let Some(session) = self.live.remove(&client) else { return };
        self.charge(client.table, session.cost(self.bytes_max), 0);
        let floor = self.floors.entry(client.table).or_insert(session.epoch);
        *floor = session.epoch.max(*floor);
        let place = (client.table, session.end(), client);
        self.ends.remove(&place);
        self.changed.insert(place.2);
    }

    pub fn forget_idle(&mut self, now: Timestamp) {
        while self.forget_first(now) {}
    }

    /// Removes the sessions of deleted tables, whose numbers are never used again.
    pub fn forget_deleted(&mut self, is_deleted: impl Fn(TableId) -> bool) {
        let tables: Vec<TableId> = self.used.keys().copied().filter(|table| is_deleted(*table)).collect();
        for table in tables {
            while let Some(client) = self.oldest(table).cloned() {
                self.forget(client);
            }
        }
        self.floors.retain(|table, _| !is_deleted(*table));
    }

    /// The clients whose stored rows are out of date, with their new rows; `None` for an expired one. They
    /// count as stored from now on.
    pub fn take_changed(&mut self) -> Vec<(Client, Option<Vec<u8>>)> {
        let row = |client: &Client| self.live.get(client).map(Session::encode);
        std::mem::take(&mut self.changed).into_iter().map(|client| (client.clone(), row(&client))).collect()
    }

    pub fn restore(&mut self, client: Client, row: &[u8]) -> Result<(), DecodeError> {
        let session = Session::decode(row)?;
        let (end, bytes) = (session.end(), session.cost(self.bytes_max));
        let before = self.live.insert(client.clone(), session);
        self.charge(client.table, before.as_ref().map_or(0, |before| before.cost(self.bytes_max)), bytes);
        self.list(client, before.map(|before| before.end()), end);
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::hash::PayloadHash;
    use crate::operation_result::{OperationResult, Values};

    const LEASE: Duration = Duration::from_secs(7 * 24 * 3600);
    const START: u64 = 1_700_000_000_000;
    const ATTACKED: TableId = TableId(1);
    const OTHER: TableId = TableId(2);

    struct Scenario {
        sessions: Sessions,
        now: u64,
    }

    impl Scenario {
        fn new() -> Self {
            Self { sessions: Sessions::default(), now: START }
        }

        /// Submits an operation, as a shard does, a millisecond after the one before.
        fn submit(&mut self, table: TableId, name: &str, seq: u64, values: usize) -> SessionLookup {
            self.now += 1;
            let (now, client) = (Timestamp::from_millis(self.now), Client { table, name: name.into() });
            let number = (seq, IdKey(1));
            let found = self.sessions.lookup(&client, START, number, (None, u64::MAX), now);
            if found == SessionLookup::New {
                let values = Values::from_vec(vec![Some(1); values]);
                let answer = OperationResult { applied: true, slot: 1, millis: self.now, values };
                let record = DedupRecord { payload: PayloadHash(1), answer };
                self.sessions.record(client, START, number, record, LEASE, now).unwrap();
                self.sessions.evict_for(table);
            }
            let largest = self.sessions.used.values().sum::<usize>();
            assert_eq!((self.sessions.total, self.sessions.ends.len()), (largest, self.sessions.len()));
            assert!(self.sessions.total <= self.sessions.bytes_max);
            found
        }

        fn fill(&mut self, table: TableId) {
            for client in 0..SESSIONS_MAX {
                assert_eq!(self.submit(table, &format!("{client:04}"), 1, 1), SessionLookup::New);
            }
        }
    }

    fn busy() -> SessionLookup {
        SessionLookup::Refused(Rejection::Capacity { what: "sessions" })
    }

    #[test]
    fn a_full_table_leaves_other_tables_their_share() {
        let mut scenario = Scenario::new();
        scenario.fill(ATTACKED);
        assert_eq!(scenario.submit(ATTACKED, "late", 1, 1), busy(), "its own clients are in use");
        for client in 0..SESSIONS_MAX / 2 {
            assert_eq!(scenario.submit(OTHER, &format!("{client:04}"), 1, 1), SessionLookup::New);
        }
        assert_eq!(scenario.submit(OTHER, "late", 1, 1), busy(), "it has its share");
        assert!(matches!(scenario.submit(OTHER, "0000", 1, 1), SessionLookup::Known(_)));
        // The least recently used were evicted, and stay so: nothing of theirs counts again.
        for seq in [1, 2] {
            let evicted = scenario.submit(ATTACKED, "0000", seq, 1);
            assert_eq!(evicted, SessionLookup::Refused(Rejection::UnknownSession { floor: START }));
        }
        assert!(matches!(scenario.submit(ATTACKED, "1023", 1, 1), SessionLookup::Known(_)));
        // A new client of the attacked table takes the place of an idle one of its own.
        scenario.now += SESSION_IDLE_MIN.as_millis() as u64 + 1;
        let client = Client { table: ATTACKED, name: "late".into() };
        let now = Timestamp::from_millis(scenario.now);
        assert_eq!(
            scenario.sessions.lookup(&client, START + 9, (1, IdKey(1)), (None, u64::MAX), now),
            SessionLookup::New
        );
        let others = scenario.sessions.used[&OTHER];
        scenario.submit(ATTACKED, "late", 1, 1);
        assert_eq!(scenario.sessions.used[&OTHER], others);
    }

    #[test]
    fn results_of_many_counters_are_limited_in_bytes() {
        let mut scenario = Scenario::new();
        scenario.submit(OTHER, "small", 1, 1);
        for client in 0..40 {
            for seq in 1..=SESSION_WINDOW as u64 {
                scenario.submit(ATTACKED, &format!("{client:04}"), seq, 256);
            }
        }
        assert!(scenario.sessions.len() < 20, "{} sessions", scenario.sessions.len());
        assert!(matches!(scenario.submit(OTHER, "small", 1, 1), SessionLookup::Known(_)));
    }

    /// A replay lacks evictions. Its sessions are complete, so an evicted client continues or is refused.
    #[test]
    fn a_replay_beyond_the_limit_evicts_nothing() {
        let mut sessions = Sessions::default();
        let answer = OperationResult { applied: true, slot: 1, millis: 1, values: Values::One(Some(1)) };
        let record = DedupRecord { payload: PayloadHash(1), answer };
        let now = Timestamp::from_millis(START);
        for client in 0..SESSIONS_MAX + 10 {
            let client = Client { table: ATTACKED, name: format!("{client}").into() };
            sessions.record(client, START, (1, IdKey(1)), record.clone(), LEASE, now).unwrap();
        }
        assert_eq!(sessions.len(), SESSIONS_MAX + 10);
        sessions.evict_for(ATTACKED);
        assert_eq!(sessions.len(), SESSIONS_MAX);
    }
}
