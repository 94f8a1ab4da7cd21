//! The shard: owns partitions and everything in memory about them, decides what comes, and remembers what waits for the disk.
//!
//! No thread, no clock, no log of its own: requests and the time come in, a [`Batch`] for the registers and responses come out.
//! The server runs it in a thread, the simulator step by step.
//!
//! What is decided is applied in memory at once, before it is durable. So:
//! - A response that rests on a batch is given only when that batch is durable (its number comes with the response), except in relaxed tables.
//! - A batch that was handed out is written, or the shard is dropped as a whole. Nothing is ever taken back.
//! - A checkpoint that was frozen after batch n is stored only when n is durable.

use std::sync::Arc;

use jeton_core::codec::Reader;
use jeton_core::{
    BranchLogItem, BranchState, BranchVerdict, Catalog, Cell, DedupRecord, Durability, Generation, Hashes,
    IdKey, IdStatus, LogItem, LogPosition, Moment, OpId, OperationDecision, Partition, PartitionId,
    RecomputeError, ReplayError, Secret, StateReader, StateWriter, Table, TableId, Value, Verdict, complete,
    limits, log_entry, mutated,
};
use jeton_register::disk::Disk;
use jeton_register::{Batch, Log, Slot};

use crate::cache::Cache;
use crate::id_memtable::{IdMemtable, Ids};
use crate::ids::IdIndex;
use crate::recovery::RecoveryError;
use crate::request::{BranchRequest, Request};
use crate::response::{BranchResponse, CommittedCount, EngineError, OperationOutcome, Response};
use crate::values::{Rows, Values, branch_key, cell_key, partition_key, session_key};

/// Of so many tables the filters are brought near for a batch. The rest waits for its memory when it comes to that.
const TABLES_NEAR_MAX: usize = 4;

/// For so many requests memory is brought near at a time. Each touches a handful of pages, and what the processor knows of pages are
/// a few thousand: of more requests the first would be forgotten again before their turn.
const NEAR_MAX: usize = 64;

/// The head of an entry is shorter than this.
const ENTRY_HEAD_MAX: usize = 16;

/// The slots up to which something speaks, by partition.
pub type Slots = Vec<(PartitionId, u64)>;

/// Ids on their way to the index.
#[derive(Debug)]
pub struct FrozenIds {
    /// Names the freeze.
    pub freeze: u64,
    /// To be stored only when this batch is durable.
    pub batch: u64,
    /// The ids.
    pub ids: Arc<Ids>,
    /// With them the index knows every id up to these slots.
    pub slots: Slots,
}

/// Rows on their way to the value store.
#[derive(Debug)]
pub struct FrozenValues {
    /// Names the freeze.
    pub freeze: u64,
    /// To be stored only when this batch is durable.
    pub batch: u64,
    /// The rows, in any order.
    pub rows: Rows,
    /// With them the store has everything up to these slots.
    pub slots: Slots,
    /// Whatever they lack was decided at this time or later.
    pub time: Timestamp,
}

/// The stores that a shard looks things up in.
pub struct Stores<V, D: Disk> {
    /// Of values.
    pub values: Arc<V>,
    /// Of ids.
    pub ids: Arc<IdIndex<D>>,
}

impl<V, D: Disk> Clone for Stores<V, D> {
    fn clone(&self) -> Self {
        Self { values: self.values.clone(), ids: self.ids.clone() }
    }
}

/// Some of the partitions of a store.
pub struct Shard<V, D: Disk> {
    secret: Secret,
    /// By number; nothing where another shard is the owner.
    partitions: Vec<Option<Owned>>,
    memory: Memory<V, D>,
    /// The batch being decided.
    batch: u64,
    durable: u64,
    /// The largest entry that the log takes.
    entry_bytes_max: usize,
    freezing: Option<FrozenValues>,
    scratch: Vec<u8>,
    /// Room to put requests in order.
    order: Vec<(PartitionId, u32)>,
    /// Where their cells are in the cache.
    hints: Vec<Option<u32>>,
}

struct Owned {
    partition: Partition,
    /// The slot in its row of the value store, once the latest freeze is stored.
    frozen_slot: u64,
    /// The batch of its latest entry.
    batch: u64,
}

/// What a shard has in memory beside its partitions, and where it looks for the rest.
struct Memory<V, D: Disk> {
    stores: Stores<V, D>,
    cache: Cache,
    recent: IdMemtable,
    batch: u64,
    /// The batch on which what was recalled rests.
    needs_batch: u64,
    scratch: Vec<u8>,
}

impl<V: Values, D: Disk> Shard<V, D> {
    /// A shard with these partitions, as the value store has them.
    pub fn new(
        secret: Secret,
        partitions: Vec<Partition>,
        stores: Stores<V, D>,
        cache_bytes: usize,
        entry_bytes_max: usize,
    ) -> Self {
        let mut places: Vec<Option<Owned>> = (0..limits::PARTITIONS).map(|_| None).collect();
        for partition in partitions {
            let at = usize::from(partition.id().0);
            places[at] = Some(Owned { frozen_slot: partition.slot(), batch: 0, partition });
        }
        let memory = Memory {
            stores,
            cache: Cache::new(cache_bytes),
            recent: IdMemtable::default(),
            batch: 1,
            needs_batch: 0,
            scratch: Vec::new(),
        };
        Self {
            secret,
            partitions: places,
            memory,
            batch: 1,
            durable: 0,
            entry_bytes_max,
            freezing: None,
            scratch: Vec::new(),
            order: Vec::new(),
            hints: Vec::new(),
        }
    }

    /// Takes up an entry of the log, in the order of its slots. `index_has` says whether the id index has it already; the value
    /// store has it if the partition is at its slot or beyond.
    pub fn replay(
        &mut self,
        catalog: &Catalog,
        id: PartitionId,
        slot: u64,
        bytes: &[u8],
        index_has: bool,
    ) -> Result<(), RecoveryError> {
        let place = |error: &dyn std::fmt::Display| {
            RecoveryError::Damaged(format!("entry {slot} of partition {}: {error}", id.0))
        };
        let Some(owned) = &mut self.partitions[usize::from(id.0)] else {
            return Err(place(&"not ours"));
        };
        let entry = log_entry::Entry::read(slot, bytes).map_err(|error| place(&error))?;
        let step = entry.step();
        let new = slot > owned.partition.slot();
        if new {
            owned.partition.advance(step).map_err(|error| place(&error))?;
        }
        for decided in entry {
            let (operation, mut decision) = match decided.map_err(|error| place(&error))? {
                LogItem::Operation(operation, decision) => (operation, decision),
                LogItem::Branch(branch_step) => {
                    let key = self.secret.branch_key(branch_step.name()).in_partition(id);
                    let mut absorb = Replaying { memory: &mut self.memory, index_has };
                    if new {
                        let applied = owned.partition.apply_branch(&branch_step, key, &mut absorb);
                        applied.map_err(|error| place(&error))?;
                    } else {
                        jeton_core::recollect_branch(&branch_step, key, slot, step.time, &mut absorb);
                    }
                    continue;
                }
            };
            let table = catalog
                .get(operation.table())
                .ok_or_else(|| place(&format_args!("{} is not in the catalogue", operation.table())))?;
            let hashes = Hashes::of(&operation, &self.secret, &mut self.scratch);
            if new {
                for _ in 0..=usize::from(mutated!(ReplayTwice)) {
                    // What the cells held before: the value store has it as of the partition's slot, and the cache what was replayed since.
                    complete(&operation, &mut decision, &mut self.memory).map_err(|error| match error {
                        RecomputeError::Contradicted => place(&error),
                        RecomputeError::Recall(why) => RecoveryError::Unread { partition: id.0, slot, why },
                    })?;
                    let mut absorb = Replaying { memory: &mut self.memory, index_has };
                    let applied = owned.partition.apply(table, &operation, hashes, &decision, &mut absorb);
                    applied.map_err(|error| place(&error))?;
                }
            } else if !mutated!(ReplaySkipsFilter) {
                let mut absorb = Replaying { memory: &mut self.memory, index_has };
                jeton_core::restore_dedup(table, &operation, hashes, &decision, step.time, &mut absorb)
                    .map_err(|error| place(&error))?;
            }
        }
        Ok(())
    }

    /// The latest time of any of its partitions.
    pub fn time(&self) -> Timestamp {
        self.owned().map(|owned| owned.partition.time()).max().unwrap_or_default()
    }

    fn owned(&self) -> impl Iterator<Item = &Owned> {
        self.partitions.iter().flatten()
    }

    /// The slots that were decided, by partition.
    pub fn slots(&self) -> Slots {
        self.owned().map(|owned| (owned.partition.id(), owned.partition.slot())).collect()
    }

    /// The number of the last batch that was handed out.
    pub fn last_batch(&self) -> u64 {
        self.batch - 1
    }

    /// Decides requests: in the order in which they came, as far as they concern one partition. `T` tells the requests apart. What is to be
    /// written comes back; it has the number [`last_batch`](Self::last_batch), and must be written. Each request is answered, with the batch that
    /// must be durable before anybody is told.
    pub fn process<T: Copy>(
        &mut self,
        catalog: &Catalog,
        requests: &[(&Request, T)],
        now: Timestamp,
        mut answer: impl FnMut(T, u64, Response),
    ) -> Option<Batch> {
        // What concerns one partition stays in order, and becomes one entry.
        let mut order = std::mem::take(&mut self.order);
        order.extend(requests.iter().zip(0..).map(|((request, _), at)| (request.partition(), at)));
        order.sort_unstable();
        let mut hints = std::mem::take(&mut self.hints);
        let mut batch = Batch::new();
        let mut open: Option<(LogPosition, PartitionId)> = None;
        let mut entry = Vec::new();
        for window in order.chunks(NEAR_MAX) {
            self.prefetch(catalog, window.iter().map(|(_, at)| requests[*at as usize].0), &mut hints);
            for ((id, at), hint) in window.iter().copied().zip(hints.drain(..)) {
                if let Some(hint) = hint {
                    self.memory.cache.hint(hint);
                }
                let (request, ticket) = requests[at as usize];
                let size = request.value_bytes_max();
                let full = entry.len() + size > self.entry_bytes_max;
                if full || open.is_some_and(|(_, partition)| partition != id) {
                    close(&mut open, &mut entry, &mut batch);
                }
                self.memory.needs_batch = 0;
                let (needs_batch, response) = match request {
                    Request::Read { cell } => self.read(catalog, cell, now),
                    Request::Recall { table, id: op_id, partition: _ } => {
                        self.recall(catalog, (*table, op_id, id), now)
                    }
                    Request::Held { .. } => self.held(id),
                    _ if size + ENTRY_HEAD_MAX > self.entry_bytes_max => {
                        let refusal = EngineError::Storage(format!(
                            "an operation of up to {size} bytes does not fit the log, which takes {}",
                            self.entry_bytes_max
                        ));
                        (0, request.refused(refusal))
                    }
                    Request::Branch { what, key, .. } => {
                        let place = (id, &mut open, &mut entry);
                        let (needs_batch, reply) = self.branch(catalog, (what, *key), now, place);
                        (needs_batch, Response::Branch(reply))
                    }
                    Request::Apply { operation, hashes, .. } => {
                        let Some(table) = catalog.get(operation.table()) else {
                            let refusal = EngineError::NoSuchTable(operation.table().to_string());
                            answer(ticket, 0, Response::Applied(Err(refusal)));
                            continue;
                        };
                        let Some(owned) = &mut self.partitions[usize::from(id.0)] else {
                            unreachable!("requests are routed to the owner of their partition");
                        };
                        let partition = &mut owned.partition;
                        let step = open.map_or_else(|| partition.next_step(now), |(step, _)| step);
                        let verdict = partition.decide(step, table, operation, *hashes, &mut self.memory);
                        if let Ok(Verdict::Fresh(decision)) = &verdict {
                            if open.is_none() {
                                follows(partition.advance(step));
                                owned.batch = self.batch;
                                log_entry::begin(step, &mut entry);
                                open = Some((step, id));
                            }
                            log_entry::push(operation, decision, &mut entry);
                            let memory = &mut self.memory;
                            follows(partition.apply(table, operation, *hashes, decision, memory));
                        }
                        // Neither a filter nor a session tells which batch an id came with: the latest of its partition, at worst.
                        let vague = matches!(verdict, Ok(Verdict::ProbablySeen))
                            || matches!(operation.id(), Some(OpId::Sequenced { .. }));
                        if vague {
                            self.memory.needs_batch = self.memory.needs_batch.max(owned.batch);
                        }
                        self.response(table, verdict)
                    }
                };
                answer(ticket, needs_batch, response);
            }
        }
        order.clear();
        close(&mut open, &mut entry, &mut batch);
        (self.order, self.hints) = (order, hints);
        if batch.is_empty() {
            return None;
        }
        self.batch += 1;
        self.memory.batch = self.batch;
        Some(batch)
    }

    /// Touches what deciding on the requests will look at: filter, recent ids, cells. Between other work each would be waited for; in
    /// short loops the processor waits for many at once. Tells where the cells may be.
    fn prefetch<'a>(
        &self,
        catalog: &Catalog,
        requests: impl Iterator<Item = &'a Request> + Clone,
        places: &mut Vec<Option<u32>>,
    ) {
        let ids = requests.clone().filter_map(|request| match request {
            Request::Apply { operation, hashes, .. } => {
                Some((operation.table(), operation.id()?, hashes.key?))
            }
            _ => None,
        });
        // Mostly all are of one table.
        let mut table = ids.clone().map(|(table, ..)| table).min();
        for _ in 0..TABLES_NEAR_MAX {
            let Some(this) = table else { break };
            let of_this = ids.clone().filter(|(table, ..)| *table == this);
            if let Some(known) = catalog.get(this) {
                known.prefetch(of_this.map(|(_, id, key)| (id, key)));
            }
            table = ids.clone().map(|(table, ..)| table).filter(|table| *table > this).min();
        }
        for (_, _, key) in ids {
            std::hint::black_box(self.memory.recent.anticipate(key));
        }
        let cache = &self.memory.cache;
        places.extend(requests.map(|request| request.first_cell().and_then(|cell| cache.guess(cell))));
        places.iter().flatten().for_each(|place| cache.prefetch(*place));
    }

    /// The response to an operation, and the batch that it rests on.
    fn response(&self, table: &Table, verdict: Result<Verdict, EngineError>) -> (u64, Response) {
        let (needs_batch, reply) = match verdict {
            Ok(Verdict::Fresh(OperationDecision { answer, .. })) => {
                (self.batch, Ok(OperationOutcome::Fresh(answer)))
            }
            Ok(Verdict::Replay(answer)) => (self.memory.needs_batch, Ok(OperationOutcome::Replayed(answer))),
            Ok(Verdict::ProbablySeen) => (self.memory.needs_batch, Ok(OperationOutcome::ProbablySeen)),
            Ok(Verdict::Rejected(rejection)) => (self.memory.needs_batch, Err(rejection.into())),
            Err(refusal) => (0, Err(refusal)),
        };
        let relaxed = table.settings().durability == Durability::Relaxed;
        (if relaxed { 0 } else { needs_batch }, Response::Applied(reply))
    }

    fn read(&mut self, catalog: &Catalog, cell: &Cell, now: Timestamp) -> (u64, Response) {
        let now = self.time_in(cell.partition(), now);
        let value = self.memory.value(cell).map(|value| value?.at(now));
        let relaxed =
            catalog.get(cell.table()).is_some_and(|table| table.settings().durability == Durability::Relaxed);
        let at_once = relaxed || mutated!(ReadBeforeDurable);
        (if at_once { 0 } else { self.memory.needs_batch }, Response::Read(value))
    }

    fn recall(
        &mut self,
        catalog: &Catalog,
        (table, id, partition): (TableId, &OpId, PartitionId),
        now: Timestamp,
    ) -> (u64, Response) {
        let known = match (catalog.get(table), &self.partitions[usize::from(partition.0)]) {
            (Some(table), Some(owned)) => {
                let key = self.secret.id_key(table.id, id, &mut self.scratch).in_partition(partition);
                let now = owned.partition.time().max(now);
                let known = owned.partition.recall(now, table, id, key, &mut self.memory);
                // Neither a filter nor a session tells which batch an id came with: the latest of its partition, at worst.
                if matches!(known, Ok(IdStatus::Probably)) || matches!(id, OpId::Sequenced { .. }) {
                    self.memory.needs_batch = self.memory.needs_batch.max(owned.batch);
                }
                known
            }
            (None, _) => Err(EngineError::NoSuchTable(table.to_string())),
            (_, None) => unreachable!("requests are routed to the owner of their partition"),
        };
        (self.memory.needs_batch, Response::Recalled(known))
    }

    /// Does what is asked about a branch, in the open entry or one that it opens. The batch that the answer rests on, and the answer.
    fn branch(
        &mut self,
        catalog: &Catalog,
        (what, key): (&BranchRequest, IdKey),
        now: Timestamp,
        (id, open, entry): (PartitionId, &mut Option<(LogPosition, PartitionId)>, &mut Vec<u8>),
    ) -> (u64, Result<BranchResponse, EngineError>) {
        let Some(owned) = &mut self.partitions[usize::from(id.0)] else {
            unreachable!("requests are routed to the owner of their partition");
        };
        let partition = &mut owned.partition;
        let step = open.map_or_else(|| partition.next_step(now), |(step, _)| step);
        let verdict = match what {
            BranchRequest::Hold(branch) => {
                let unknown = branch.additions().iter().find(|one| catalog.get(one.cell.table()).is_none());
                if let Some(one) = unknown {
                    return (0, Err(EngineError::NoSuchTable(one.cell.table().to_string())));
                }
                partition.decide_prepare(step, branch, key, &mut self.memory)
            }
            BranchRequest::Settle { name, ending, rest_settled } => {
                partition.decide_finish(step, (name, key), *ending, *rest_settled, &mut self.memory)
            }
            BranchRequest::Look(name) => {
                let state = partition.branch(step.time, name, key, &mut self.memory);
                state.map(|state| match state {
                    BranchState::Held => BranchVerdict::Held,
                    BranchState::Settled(ending) => BranchVerdict::Settled(ending),
                    BranchState::Unknown => BranchVerdict::Unknown,
                })
            }
        };
        let reply = match verdict {
            Err(refusal) => return (0, Err(refusal)),
            Ok(BranchVerdict::Fresh(branch_step)) => {
                if open.is_none() {
                    follows(partition.advance(step));
                    owned.batch = self.batch;
                    log_entry::begin(step, entry);
                    *open = Some((step, id));
                }
                log_entry::push_branch(&branch_step, entry);
                let counted = counted(partition, &branch_step, step);
                follows(partition.apply_branch(&branch_step, key, &mut self.memory));
                Ok(match branch_step {
                    BranchLogItem::Held(_) => BranchResponse::Held { fresh: true },
                    BranchLogItem::Settled { ending, .. } => {
                        BranchResponse::Settled { ending, fresh: true, counted }
                    }
                })
            }
            Ok(BranchVerdict::Held) => Ok(BranchResponse::Held { fresh: false }),
            Ok(BranchVerdict::Settled(ending)) => {
                Ok(BranchResponse::Settled { ending, fresh: false, counted: Vec::new() })
            }
            Ok(BranchVerdict::Unknown) => Ok(BranchResponse::Unknown),
            Ok(BranchVerdict::Elsewhere(partitions)) => Ok(BranchResponse::Elsewhere(partitions)),
            Ok(BranchVerdict::Rejected(rejection)) => Err(rejection.into()),
        };
        // Which batch a branch came with is not remembered: the latest of its partition, at worst.
        (self.memory.needs_batch.max(owned.batch), reply)
    }

    fn held(&mut self, id: PartitionId) -> (u64, Response) {
        let Some(owned) = &mut self.partitions[usize::from(id.0)] else {
            unreachable!("requests are routed to the owner of their partition");
        };
        (owned.batch, Response::Held(owned.partition.branches().iter().cloned().collect()))
    }

    /// The time of a partition, in the milliseconds of its entries.
    fn time_in(&self, partition: PartitionId, now: Timestamp) -> u64 {
        let owned = self.partitions[usize::from(partition.0)].as_ref();
        let time = owned.map_or(now, |owned| owned.partition.time().max(now));
        time.as_nanos() / 1_000_000
    }

    /// Whether everything up to this batch is durable.
    pub fn is_durable(&self, batch: u64) -> bool {
        batch <= self.durable
    }

    /// Everything up to this batch is durable.
    pub fn durable(&mut self, batch: u64) {
        assert!(batch < self.batch && batch >= self.durable, "batch {batch} was not handed out, or not now");
        self.durable = batch;
    }

    /// How many ids are not in the index: since the last freeze, and in all.
    pub fn recent_ids(&self) -> (usize, usize) {
        (self.memory.recent.live_len(), self.memory.recent.total_len())
    }

    /// Bytes of cells that no freeze has taken, and bytes of all cells in memory.
    pub fn cell_bytes(&self) -> (usize, usize) {
        (self.memory.cache.dirty_bytes(), self.memory.cache.bytes())
    }

    /// Hands out the ids that the index lacks.
    pub fn freeze_ids(&mut self) -> FrozenIds {
        let (freeze, ids) = self.memory.recent.freeze();
        FrozenIds { freeze, batch: self.last_batch(), ids, slots: self.slots() }
    }

    /// The ids of a freeze are in the index.
    pub fn ids_stored(&mut self, freeze: u64) {
        self.memory.recent.complete(freeze);
    }

    /// Freezes what the value store lacks. [`copy_values`](Self::copy_values) hands it out.
    pub fn freeze_values(&mut self, now: Timestamp) {
        assert!(self.freezing.is_none(), "one freeze at a time");
        let mut rows = Rows::default();
        let freeze = self.memory.cache.freeze();
        for owned in self.partitions.iter_mut().flatten() {
            let (id, time) = (owned.partition.id(), owned.partition.time().max(now));
            owned.partition.sessions().forget_idle(time);
            let sessions = owned.partition.sessions().take_changed();
            // The partition's row holds the floor below which forgotten sessions are refused: it goes with them.
            if owned.partition.slot() > owned.frozen_slot || !sessions.is_empty() {
                owned.frozen_slot = owned.partition.slot();
                rows.push_bytes(&partition_key(id), Some(&owned.partition.encode()));
            }
            for (name, row) in owned.partition.branches().take_changed() {
                if !mutated!(BranchesNotStored) {
                    rows.push_bytes(&branch_key(id, &name), row.as_deref());
                }
            }
            if mutated!(SessionsNotStored) {
                continue;
            }
            for (client, row) in sessions {
                rows.push_bytes(&session_key(id, &client), row.as_deref());
            }
        }
        let (batch, slots) = (self.last_batch(), self.slots());
        self.freezing = Some(FrozenValues { freeze, batch, rows, slots, time: now });
    }

    /// Whether something is frozen and not handed out.
    pub fn is_freezing(&self) -> bool {
        self.freezing.is_some()
    }

    /// Copies some of what is frozen, and hands it out when it has all of it.
    pub fn copy_values(&mut self, cells: usize) -> Option<FrozenValues> {
        if self.freezing.is_none() || !self.memory.cache.copy_some(cells) {
            return None;
        }
        let mut frozen = self.freezing.take()?;
        let mut rows = self.memory.cache.take_frozen();
        rows.append(&frozen.rows);
        frozen.rows = rows;
        Some(frozen)
    }

    /// The rows of a freeze are in the value store.
    pub fn values_stored(&mut self, freeze: u64) {
        self.memory.cache.complete(freeze);
    }
}

/// A decision that this shard has just made follows from its own state; only a replayed one may not.
fn follows(applied: Result<(), ReplayError>) {
    if let Err(error) = applied {
        unreachable!("a decision made here does not apply: {error}");
    }
}

/// What a step of a branch that is still held will count.
fn counted(partition: &mut Partition, branch_step: &BranchLogItem, step: LogPosition) -> Vec<CommittedCount> {
    let BranchLogItem::Settled { name, values, .. } = branch_step else { return Vec::new() };
    let Some(held) = partition.branches().get(name) else { return Vec::new() };
    let (slot, millis) = (step.slot, step.time.as_nanos() / 1_000_000);
    let additions = held.branch.additions().iter().zip(values);
    additions
        .map(|(one, value)| CommittedCount { cell: one.cell.clone(), value: value.counter(), slot, millis })
        .collect()
}

/// Ends an entry and puts it into the batch.
fn close(open: &mut Option<(LogPosition, PartitionId)>, entry: &mut Vec<u8>, batch: &mut Batch) {
    if let Some((step, id)) = open.take() {
        batch.push(Log::partition(id.0), Slot(step.slot), entry);
        entry.clear();
    }
}

impl<V: Values, D: Disk> StateReader for Memory<V, D> {
    type Error = EngineError;

    fn value(&mut self, cell: &Cell) -> Result<Option<Value>, EngineError> {
        if let Some((value, batch)) = self.cache.get(cell) {
            self.needs_batch = self.needs_batch.max(batch);
            return Ok(value.cloned());
        }
        self.scratch.clear();
        cell_key(cell, &mut self.scratch);
        let row =
            self.stores.values.get(&self.scratch).map_err(|error| EngineError::Storage(error.to_string()))?;
        let value = match row {
            None => None,
            Some(row) => Some(
                Value::decode(&mut Reader::new(&row))
                    .map_err(|error| EngineError::Storage(format!("the row of {cell:?}: {error}")))?,
            ),
        };
        self.cache.fill(cell, value.clone());
        Ok(value)
    }

    fn remembered(
        &mut self,
        key: IdKey,
        generations: impl Iterator<Item = Generation>,
    ) -> Result<Option<DedupRecord>, EngineError> {
        let read = |bytes: &[u8], whose: &str| {
            DedupRecord::decode(bytes)
                .map_err(|error| EngineError::Storage(format!("what {whose} of an id: {error}")))
        };
        if let Some((bytes, batch)) = self.recent.get(key) {
            self.needs_batch = self.needs_batch.max(batch);
            return read(bytes, "memory has").map(Some);
        }
        if mutated!(ForgetIndex) {
            return Ok(None);
        }
        let found = self.stores.ids.find(&key.to_bytes(), generations.map(|generation| generation.0));
        let found = found.map_err(|error| EngineError::Storage(error.to_string()))?;
        found.map(|bytes| read(&bytes, "the id index has")).transpose()
    }
}

impl<V: Values, D: Disk> StateWriter for Memory<V, D> {
    fn store(&mut self, cell: &Cell, value: Option<Value>) {
        self.cache.put(cell, value, self.batch);
    }

    fn remember(&mut self, key: IdKey, generation: Generation, remembered: DedupRecord) {
        self.recent.put(key, generation, self.batch, &remembered);
    }
}

/// Takes in what is replayed: it is durable, and the index may have it already.
struct Replaying<'a, V, D: Disk> {
    memory: &'a mut Memory<V, D>,
    index_has: bool,
}

impl<V: Values, D: Disk> StateWriter for Replaying<'_, V, D> {
    fn store(&mut self, cell: &Cell, value: Option<Value>) {
        self.memory.cache.put(cell, value, 0);
    }

    fn remember(&mut self, key: IdKey, generation: Generation, remembered: DedupRecord) {
        if !self.index_has && !mutated!(ReplaySkipsIds) {
            self.memory.recent.put(key, generation, 0, &remembered);
        }
    }
}
