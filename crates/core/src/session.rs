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
//! Invariant: expiry keeps the floor below the current time in milliseconds, and eviction (below) keeps it
//! at most the table's skew ahead of it. Otherwise one client with a huge epoch would, once expired, shut
//! out all new clients. So a new epoch is at most the current time plus the skew, and a session does not
//! expire before the current time has passed its epoch. Clients that use their start time as epoch are above
//! the floor, unless an eviction raised it above the current time.
//!
//! The sessions of a partition have a common limit, and each *owner* a fair share of it: the principal that
//! used a session last, in its table. In a full partition an owner below its share takes the place of the
//! least recently used session of the largest owner; an owner at its share evicts its own idle ones or gets
//! no new clients. Eviction counts as expiry: it raises the floor of the table, also above the current time
//! if the epoch is ahead of it. That shuts out new clients of that table only, and for no longer than its
//! skew. Principals are not in the log: after a restart they are unknown until a session is used.
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
    /// The same clients sorted by owner and expiry time, so that eviction looks only at the first of an
    /// owner.
    ends: BTreeSet<(Owner, Timestamp, Client)>,
    /// Bytes of the sessions of each owner that has any.
    used: BTreeMap<Owner, usize>,
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

/// The table of a session, and the principal that used it last; 0 if it is unknown.
pub type Owner = (TableId, u64);

#[derive(Debug, Clone, PartialEq)]
struct Session {
    principal: u64,
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

    /// The owner, and the expiry time.
    fn place(&self, client: &Client) -> (Owner, Timestamp) {
        ((client.table, self.principal), self.end())
    }

    fn is_expired(&self, now: Timestamp) -> bool {
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
        Ok(Self { principal: 0, epoch, dropped, last_used, lease, answers, bytes })
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
        (principal, now): (u64, Timestamp),
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
            None if self.is_full() && !self.may_evict((client.table, principal), now) => {
                return SessionLookup::Refused(Rejection::Capacity { what: "sessions" });
            }
            None => return SessionLookup::New,
        };
        if session.is_expired(now) && epoch <= session.epoch {
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
        (principal, lease): (u64, Duration),
        now: Timestamp,
    ) -> Result<(), ReplayError> {
        let (dropped, last_used, bytes) = (0, now, 0);
        let empty =
            || Session { principal, epoch, dropped, last_used, lease, answers: VecDeque::new(), bytes };
        if !self.changed.contains(&client) {
            self.changed.insert(client.clone());
        }
        let before = self.live.get(&client).map(|session| session.place(&client));
        if before.is_none() {
            // In a replay no session may have expired, although one was evicted before: insert all the same.
            while self.is_full() && self.forget_first(now) {}
            self.live.insert(client.clone(), empty());
        }
        let bytes_max = self.bytes_max;
        let Some(session) = self.live.get_mut(&client) else { unreachable!("it was inserted above") };
        let charged = before.map(|(owner, _)| (owner, session.cost(bytes_max)));
        if epoch > session.epoch || mutated!(IgnoreEpochs) && epoch < session.epoch {
            *session = empty();
        }
        if epoch < session.epoch {
            return Err(ReplayError::EndedEpoch { epoch, current: session.epoch });
        }
        session.last_used = session.last_used.max(now);
        (session.lease, session.principal) = (lease, principal);
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
            let count = session.answers.partition_point(|((seq, _), _)| *seq <= session.dropped);
            let freed: usize = session.answers.drain(..count).map(|(_, record)| bytes_of(&record)).sum();
            session.bytes -= freed;
        }
        let (after, bytes) = (session.place(&client), session.cost(bytes_max));
        self.recharge(charged, (after.0, bytes));
        self.list(client, before, after);
        Ok(())
    }

    /// Limits the bytes of all sessions.
    pub fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        (self.total, self.used) = (0, BTreeMap::new());
        let live =
            self.live.iter().map(|(client, session)| (session.place(client).0, session.cost(bytes_max)));
        let costs: Vec<_> = live.collect();
        costs.into_iter().for_each(|(owner, bytes)| self.charge(owner, 0, bytes));
    }

    /// Evicts sessions down to the limit, after an operation of an owner was recorded. Never in a replay.
    pub fn evict_for(&mut self, owner: Owner) {
        while self.total > self.bytes_max {
            let largest = self.used.iter().max_by_key(|(_, bytes)| **bytes).map(|(owner, _)| *owner);
            let own = self.used.get(&owner).is_some_and(|bytes| *bytes > self.share(owner));
            let Some(client) = largest.and_then(|largest| self.oldest(if own { owner } else { largest }))
            else {
                return;
            };
            self.forget(client.clone());
        }
    }

    /// Charges a session to its owner, instead of what was charged for it before.
    fn recharge(&mut self, before: Option<(Owner, usize)>, (owner, bytes): (Owner, usize)) {
        match before {
            Some((same, before)) if same == owner => self.charge(owner, before, bytes),
            _ => {
                if let Some((other, before)) = before {
                    self.charge(other, before, 0);
                }
                self.charge(owner, 0, bytes);
            }
        }
    }

    fn charge(&mut self, owner: Owner, before: usize, after: usize) {
        if before == after {
            return;
        }
        self.total = self.total + after - before;
        let used = self.used.entry(owner).or_default();
        *used = *used + after - before;
        if *used == 0 {
            self.used.remove(&owner);
        }
    }

    /// Whether there is no room for another session.
    fn is_full(&self) -> bool {
        self.total + self.bytes_max / SESSIONS_MAX > self.bytes_max
    }

    /// The fair share of an owner in bytes.
    fn share(&self, owner: Owner) -> usize {
        self.bytes_max / (self.used.len() + usize::from(!self.used.contains_key(&owner)))
    }

    /// Whether a full partition has a place for a new session of the owner.
    fn may_evict(&self, owner: Owner, now: Timestamp) -> bool {
        let used = self.used.get(&owner).copied().unwrap_or_default();
        used + self.bytes_max / SESSIONS_MAX <= self.share(owner)
            || self.first_expired(now).is_some()
            || self.oldest(owner).is_some_and(|client| {
                let session = &self.live[client];
                let epoch_passed = Timestamp::from_millis(session.epoch) < now;
                epoch_passed && now > session.last_used.after(SESSION_IDLE_MIN)
            })
    }

    /// The client of an owner with the earliest expiry time.
    fn oldest(&self, owner: Owner) -> Option<&Client> {
        self.first_of(owner).map(|(_, _, client)| client)
    }

    fn first_of(&self, owner: Owner) -> Option<&(Owner, Timestamp, Client)> {
        let least = (owner, Timestamp::ZERO, Client { table: owner.0, name: "".into() });
        self.ends.range(least..).next().filter(|first| first.0 == owner)
    }

    /// Moves a client to its new owner and expiry time in `ends`.
    fn list(&mut self, client: Client, before: Option<(Owner, Timestamp)>, after: (Owner, Timestamp)) {
        if before == Some(after) {
            return;
        }
        let (owner, end) = before.unwrap_or(after);
        let mut place = (owner, end, client);
        if before.is_some() {
            self.ends.remove(&place);
        }
        (place.0, place.1) = after;
        self.ends.insert(place);
    }

    /// The client with the earliest expiry time, if that has passed.
    fn first_expired(&self, now: Timestamp) -> Option<&Client> {
        let first = self.used.keys().filter_map(|owner| self.first_of(*owner));
        let (_, end, client) = first.min_by_key(|(owner, end, _)| (*end, *owner))?;
        (now > *end).then_some(client)
    }

    /// Removes the client with the earliest expiry time; false if none has expired.
    fn forget_first(&mut self, now: Timestamp) -> bool {
        let Some(client) = self.first_expired(now).cloned() else { return false };
        self.forget(client);
        true
    }

    fn forget(&mut self, client: Client) {
        let Some(session) = self.live.remove(&client) else { return };
        let (owner, end) = session.place(&client);
        self.charge(owner, session.cost(self.bytes_max), 0);
        let floor = self.floors.entry(client.table).or_insert(session.epoch);
        *floor = session.epoch.max(*floor);
        let place = (owner, end, client);
        self.ends.remove(&place);
        self.changed.insert(place.2);
    }

    /// Removes the clients that have expired by the time of a log entry. Not by a clock: after a restart with
    /// the clock set back, they would be within their lease.
    pub fn forget_expired(&mut self, now: Timestamp) {
        while self.forget_first(now) {}
    }

    /// Removes the sessions of deleted tables, whose numbers are never used again.
    pub fn forget_deleted(&mut self, is_deleted: impl Fn(TableId) -> bool) {
        let owners: Vec<Owner> = self.used.keys().copied().filter(|(table, _)| is_deleted(*table)).collect();
        for owner in owners {
            while let Some(client) = self.oldest(owner).cloned() {
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
        let (after, bytes) = (session.place(&client), session.cost(self.bytes_max));
        let before = self.live.insert(client.clone(), session);
        let charged = before.as_ref().map(|before| (before.place(&client).0, before.cost(self.bytes_max)));
        self.recharge(charged, (after.0, bytes));
        let before = before.map(|before| before.place(&client));
        self.list(client, before, after);
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
        /// The time of the first operation of each client.
        epochs: HashMap<Client, u64>,
    }

    impl Scenario {
        fn new() -> Self {
            Self { sessions: Sessions::default(), now: START, epochs: HashMap::new() }
        }

        /// Submits an operation, as a shard does, a millisecond after the one before.
        fn submit(&mut self, table: TableId, name: &str, seq: u64, values: usize) -> SessionLookup {
            self.submit_as((table, 0), name, seq, values)
        }

        fn submit_as(&mut self, owner: Owner, name: &str, seq: u64, values: usize) -> SessionLookup {
            let (table, principal) = owner;
            self.now += 1;
            let (now, client) = (Timestamp::from_millis(self.now), Client { table, name: name.into() });
            let number = (seq, IdKey(1));
            let epoch = *self.epochs.entry(client.clone()).or_insert(self.now);
            let found = self.sessions.lookup(&client, epoch, number, (None, u64::MAX), (principal, now));
            if found == SessionLookup::New {
                let values = Values::from_vec(vec![Some(1); values]);
                let answer = OperationResult { applied: true, slot: 1, millis: self.now, values };
                let record = DedupRecord { payload: PayloadHash(1), answer };
                self.sessions.record(client, epoch, number, record, (principal, LEASE), now).unwrap();
                self.sessions.evict_for(owner);
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
            let floor = START + SESSIONS_MAX as u64 / 2;
            assert_eq!(evicted, SessionLookup::Refused(Rejection::UnknownSession { floor }));
        }
        assert!(matches!(scenario.submit(ATTACKED, "1023", 1, 1), SessionLookup::Known(_)));
        // A new client of the attacked table takes the place of an idle one of its own.
        scenario.now += SESSION_IDLE_MIN.as_millis() as u64 + 1;
        let client = Client { table: ATTACKED, name: "late".into() };
        let now = Timestamp::from_millis(scenario.now);
        assert_eq!(
            scenario.sessions.lookup(&client, scenario.now, (1, IdKey(1)), (None, u64::MAX), (0, now)),
            SessionLookup::New
        );
        let others = scenario.sessions.used[&(OTHER, 0)];
        scenario.submit(ATTACKED, "late", 1, 1);
        assert_eq!(scenario.sessions.used[&(OTHER, 0)], others);
    }

    /// Two tokens with rights on one table, before and after a restart.
    #[test]
    fn a_principal_leaves_others_of_its_table_their_share() {
        const ATTACKER: Owner = (ATTACKED, 7);
        const VICTIM: Owner = (ATTACKED, 8);
        for restarted in [false, true] {
            let mut scenario = Scenario::new();
            for client in 0..SESSIONS_MAX {
                let name = format!("{client:04}");
                assert_eq!(scenario.submit_as(ATTACKER, &name, 1, 1), SessionLookup::New);
            }
            assert_eq!(scenario.submit_as(ATTACKER, "late", 1, 1), busy());
            if restarted {
                let rows = scenario.sessions.take_changed();
                scenario.sessions = Sessions::default();
                rows.into_iter().for_each(|(client, row)| {
                    scenario.sessions.restore(client, &row.unwrap()).unwrap();
                });
            }
            // After a restart the sessions without a known principal are a third owner.
            for client in 0..SESSIONS_MAX / if restarted { 3 } else { 2 } {
                let name = format!("victim-{client:04}");
                assert_eq!(scenario.submit_as(VICTIM, &name, 1, 1), SessionLookup::New, "{name}");
                // The attacker keeps its newest clients busy.
                let name = format!("{:04}", SESSIONS_MAX - 1 - client);
                assert_eq!(scenario.submit_as(ATTACKER, &name, 2 + client as u64, 1), SessionLookup::New);
            }
            // The attacker gets no place of the victim, whose clients continue.
            assert!(!matches!(scenario.submit_as(ATTACKER, "later", 1, 1), SessionLookup::New));
            let first = scenario.submit_as(VICTIM, "victim-0000", 1, 1);
            assert!(matches!(first, SessionLookup::Known(_)), "{first:?}");
        }
    }

    /// A client that another principal uses is charged to it.
    #[test]
    fn a_session_belongs_to_the_principal_that_used_it_last() {
        let mut scenario = Scenario::new();
        scenario.submit_as((OTHER, 1), "client", 1, 1);
        scenario.submit_as((OTHER, 2), "client", 2, 1);
        assert_eq!(scenario.sessions.used.keys().collect::<Vec<_>>(), [&(OTHER, 2)]);
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
            sessions.record(client, START, (1, IdKey(1)), record.clone(), (0, LEASE), now).unwrap();
        }
        assert_eq!(sessions.len(), SESSIONS_MAX + 10);
        sessions.evict_for((ATTACKED, 0));
        assert_eq!(sessions.len(), SESSIONS_MAX);
    }
}
