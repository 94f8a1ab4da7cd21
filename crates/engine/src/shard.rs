//! A shard owns partitions and their in-memory state, decides requests, and tracks which batches are durable.
//!
//! It has no thread, no clock and no log: requests and the time come in, a [`Batch`] for the log and
//! responses come out. The server runs it in a thread or task, the simulator step by step.
//!
//! Decisions are applied in memory at once, before they are durable. So:
//! - A response is sent only when the batch it depends on is durable (it carries the batch number), except in
//!   relaxed tables while [`Shard::acknowledge_early`] permits it.
//! - A batch that was handed out is written, or the shard is dropped as a whole. Nothing is rolled back.
//! - A checkpoint that was frozen after batch n is stored only when n is durable.

mod freeze;
mod memory;
mod replay;

use jeton_core::{
    Addition, BranchLogItem, BranchState, BranchVerdict, Catalog, Cell, Durability, Hashes, IdKey, IdStatus,
    LogPosition, OpId, Operation, OperationDecision, Partition, PartitionId, ReplayError, Secret,
    StateReader, Table, TableId, Timestamp, Verdict, limits, log_entry, mutated,
};
use jeton_wal::disk::Disk;
use jeton_wal::{Batch, Slot};

pub use self::freeze::{FrozenIds, FrozenValues};
use self::memory::Memory;
pub use self::memory::Stores;
use self::replay::ReplayQueue;
use crate::cache::Cache;
use crate::creation_quota::{self, CreationQuota};
use crate::id_memtable::IdMemtable;
use crate::partition_log::log_of;
use crate::request::{BranchRequest, Request};
use crate::response::{BranchResponse, CommittedCount, EngineError, OperationOutcome, Response};
use crate::values::Values;

/// Tables whose filters are prefetched for a batch.
const PREFETCH_TABLES_MAX: usize = 4;

/// Requests prefetched per round; more would overflow the TLB before they are used.
const PREFETCH_REQUESTS_MAX: usize = 64;

/// Upper bound of the head of an entry.
const ENTRY_HEAD_MAX: usize = 16;

/// A log slot for each partition.
pub type Slots = Vec<(PartitionId, u64)>;

/// A shard: the single writer of some partitions of a store.
pub struct Shard<V, D: Disk> {
    secret: Secret,
    /// By number; `None` where another shard or node is the owner.
    partitions: Vec<Option<Owned>>,
    memory: Memory<V, D>,
    /// The batch being decided.
    batch: u64,
    durable: u64,
    /// Tables that are about to be deleted.
    closed: Vec<TableId>,
    /// Maximum bytes of a log entry.
    entry_bytes_max: usize,
    freezing: Option<FrozenValues>,
    scratch: Vec<u8>,
    /// Buffer for sorting requests by partition.
    order: Vec<(PartitionId, u32)>,
    /// Buffer for the cache slots of their cells.
    hints: Vec<Option<u32>>,
    replaying: ReplayQueue,
    /// Whether operations of relaxed tables are acknowledged before they are durable.
    early: bool,
}

struct Owned {
    partition: Partition,
    /// The slot in its row of the value store, once the latest freeze is stored.
    frozen_slot: u64,
    /// The batch of its latest entry.
    batch: u64,
}

impl<V: Values, D: Disk> Shard<V, D> {
    /// A shard with these partitions, as read from the value store.
    pub fn new(
        secret: Secret,
        partitions: Vec<Partition>,
        stores: Stores<V, D>,
        cache_bytes: usize,
        entry_bytes_max: usize,
    ) -> Self {
        let mut owned: Vec<Option<Owned>> = (0..limits::PARTITIONS).map(|_| None).collect();
        for partition in partitions {
            let at = usize::from(partition.id().0);
            owned[at] = Some(Owned { frozen_slot: partition.slot(), batch: 0, partition });
        }
        let memory = Memory {
            stores,
            cache: Cache::new(cache_bytes),
            memtable: IdMemtable::default(),
            batch: 1,
            needs_batch: 0,
            scratch: Vec::new(),
        };
        Self {
            secret,
            partitions: owned,
            memory,
            batch: 1,
            durable: 0,
            closed: Vec::new(),
            entry_bytes_max,
            freezing: None,
            scratch: Vec::new(),
            order: Vec::new(),
            hints: Vec::new(),
            replaying: ReplayQueue::default(),
            early: true,
        }
    }

    /// Whether operations of relaxed tables are acknowledged before they are durable, from now on.
    pub fn acknowledge_early(&mut self, early: bool) {
        self.early = early;
    }

    /// The latest time of any of its partitions.
    pub fn time(&self) -> Timestamp {
        self.owned().map(|owned| owned.partition.time()).max().unwrap_or_default()
    }

    fn owned(&self) -> impl Iterator<Item = &Owned> {
        self.partitions.iter().flatten()
    }

    /// Refuses operations and new branches of a table, or accepts them again. Returns whether branches are
    /// prepared in it.
    pub fn set_closed(&mut self, table: TableId, closed: bool) -> bool {
        self.closed.retain(|other| *other != table);
        if closed {
            self.closed.push(table);
        }
        let mut partitions = self.partitions.iter_mut().flatten();
        partitions.any(|owned| {
            let mut prepared = owned.partition.branches().iter();
            prepared.any(|one| one.branch.additions().iter().any(|one| one.cell.table() == table))
        })
    }

    /// The last decided slot of each partition.
    pub fn slots(&self) -> Slots {
        self.owned().map(|owned| (owned.partition.id(), owned.partition.slot())).collect()
    }

    /// Number of the last batch that was handed out.
    pub fn last_batch(&self) -> u64 {
        self.batch - 1
    }

    /// Decides requests; those of one partition in the order given. `T` identifies a request. Returns the
    /// batch to be written, if any; it has the number [`last_batch`](Self::last_batch), and must be written.
    /// Calls `respond` for each request with the batch that must be durable before the response is sent.
    pub fn process<T: Copy>(
        &mut self,
        catalog: &Catalog,
        requests: &[(&Request, T)],
        now: Timestamp,
        mut respond: impl FnMut(T, u64, Response),
    ) -> Option<Batch> {
        // Requests of one partition stay in order and share one entry.
        let mut order = std::mem::take(&mut self.order);
        order.extend(requests.iter().zip(0..).map(|((request, _), at)| (request.partition(), at)));
        order.sort_unstable();
        let mut hints = std::mem::take(&mut self.hints);
        let mut batch = Batch::new();
        let mut open: Option<(LogPosition, PartitionId)> = None;
        let mut entry = Vec::new();
        for window in order.chunks(PREFETCH_REQUESTS_MAX) {
            let window_requests = window.iter().map(|(_, at)| requests[*at as usize].0);
            let operations = window_requests.clone().filter_map(|request| match request {
                Request::Apply { operation, hashes, .. } => Some((operation, *hashes)),
                _ => None,
            });
            self.prefetch(catalog, operations, window_requests.map(Request::first_cell), &mut hints);
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
                    _ if self.partitions[usize::from(id.0)].is_none() => {
                        (0, request.refused(EngineError::Moved))
                    }
                    Request::Read { cell } => self.read(catalog, cell, now),
                    Request::Recall { cell, id, key } => self.recall(catalog, (cell, id, *key), now),
                    Request::PreparedBranches { .. } => self.prepared_branches(id),
                    _ if size + ENTRY_HEAD_MAX > self.entry_bytes_max => {
                        let refusal = EngineError::Storage(format!(
                            "an operation of up to {size} bytes does not fit the log, which takes {}",
                            self.entry_bytes_max
                        ));
                        (0, request.refused(refusal))
                    }
                    Request::Branch { what, key, quota, .. } => {
                        let place = (id, &mut open, &mut entry);
                        let what = (what, *key, quota.as_deref());
                        let (needs_batch, reply) = self.branch(catalog, what, now, place);
                        (needs_batch, Response::Branch(reply))
                    }
                    Request::Apply { operation, hashes, quota, .. } => {
                        let table = match writable(catalog, &self.closed, operation.table()) {
                            Ok(table) => table,
                            Err(refusal) => {
                                respond(ticket, 0, Response::Applied(Err(refusal)));
                                continue;
                            }
                        };
                        let owned = owned(&mut self.partitions, id);
                        let partition = &mut owned.partition;
                        let step = open.map_or_else(|| partition.next_step(now), |(step, _)| step);
                        let verdict = partition.decide(step, table, operation, *hashes, &mut self.memory);
                        if let (Some(quota), Ok(Verdict::Fresh(decision))) = (quota, &verdict) {
                            let memory = &mut self.memory;
                            let charged =
                                creation_quota::charge(&**quota, operation, decision, step.time, memory);
                            if let Err(refusal) = charged {
                                respond(ticket, 0, Response::Applied(Err(refusal)));
                                continue;
                            }
                        }
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
                            if matches!(operation.id(), Some(OpId::Sequenced { .. })) {
                                partition.sessions().evict_for((table.id, hashes.principal));
                            }
                        }
                        // Neither filter nor session knows the batch of an id: use the latest of the
                        // partition.
                        let needs_latest = matches!(verdict, Ok(Verdict::ProbablySeen))
                            || matches!(operation.id(), Some(OpId::Sequenced { .. }));
                        if needs_latest {
                            self.memory.needs_batch = self.memory.needs_batch.max(owned.batch);
                        }
                        self.response(table, verdict)
                    }
                };
                respond(ticket, needs_batch, response);
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

    /// Prefetches filter and memtable for operations, and cells. In short loops the processor overlaps the
    /// cache misses. Collects the cache slots that may hold the cells.
    fn prefetch<'a>(
        &self,
        catalog: &Catalog,
        operations: impl Iterator<Item = (&'a Operation, Hashes)> + Clone,
        cells: impl Iterator<Item = Option<&'a Cell>>,
        places: &mut Vec<Option<u32>>,
    ) {
        let ids = operations
            .filter_map(|(operation, hashes)| Some((operation.table(), operation.id()?, hashes.key?)));
        // Usually all operations are of one table.
        let mut table = ids.clone().map(|(table, ..)| table).min();
        for _ in 0..PREFETCH_TABLES_MAX {
            let Some(this) = table else { break };
            let of_this = ids.clone().filter(|(table, ..)| *table == this);
            if let Some(known) = catalog.get(this) {
                known.prefetch(of_this.map(|(_, id, key)| (id, key)));
            }
            table = ids.clone().map(|(table, ..)| table).filter(|table| *table > this).min();
        }
        for (_, _, key) in ids {
            std::hint::black_box(self.memory.memtable.prefetch(key));
        }
        let cache = &self.memory.cache;
        places.extend(cells.map(|cell| cell.and_then(|cell| cache.guess(cell))));
        places.iter().flatten().for_each(|place| cache.prefetch(*place));
    }

    /// The response to an operation, and the batch that it depends on.
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
        (if relaxed && self.early { 0 } else { needs_batch }, Response::Applied(reply))
    }

    fn read(&mut self, catalog: &Catalog, cell: &Cell, now: Timestamp) -> (u64, Response) {
        let Some(table) = catalog.get(cell.table()) else {
            return (0, Response::Read(Err(EngineError::NoSuchTable(cell.table().to_string()))));
        };
        let now = self.time_in(cell.partition(), now);
        let value = self.memory.value(cell).map(|value| value?.at(now));
        let relaxed = table.settings().durability == Durability::Relaxed;
        let at_once = relaxed || mutated!(ReadBeforeDurable);
        (if at_once { 0 } else { self.memory.needs_batch }, Response::Read(value))
    }

    fn recall(
        &mut self,
        catalog: &Catalog,
        (cell, id, key): (&Cell, &OpId, IdKey),
        now: Timestamp,
    ) -> (u64, Response) {
        let owned = owned(&mut self.partitions, cell.partition());
        let status = match catalog.get(cell.table()) {
            Some(table) => {
                let now = owned.partition.time().max(now);
                let status = owned.partition.id_status(now, table, id, key, &mut self.memory);
                // Neither filter nor session knows the batch of an id: use the latest of the partition.
                if matches!(status, Ok(IdStatus::Probably)) || matches!(id, OpId::Sequenced { .. }) {
                    self.memory.needs_batch = self.memory.needs_batch.max(owned.batch);
                }
                status
            }
            None => Err(EngineError::NoSuchTable(cell.table().to_string())),
        };
        (self.memory.needs_batch, Response::Recalled(status))
    }

    /// Handles a request about a branch, in the open entry or a new one. Returns the batch that the response
    /// depends on, and the response.
    fn branch(
        &mut self,
        catalog: &Catalog,
        (what, key, quota): (&BranchRequest, IdKey, Option<&dyn CreationQuota>),
        now: Timestamp,
        (id, open, entry): (PartitionId, &mut Option<(LogPosition, PartitionId)>, &mut Vec<u8>),
    ) -> (u64, Result<BranchResponse, EngineError>) {
        let owned = owned(&mut self.partitions, id);
        let partition = &mut owned.partition;
        let step = open.map_or_else(|| partition.next_step(now), |(step, _)| step);
        let verdict = match what {
            BranchRequest::Prepare(branch) => {
                let closed = |one: &Addition| writable(catalog, &self.closed, one.cell.table()).err();
                if let Some(refusal) = branch.additions().iter().find_map(closed) {
                    return (0, Err(refusal));
                }
                partition.decide_prepare(step, branch, key, &mut self.memory)
            }
            BranchRequest::Finish { name, outcome, others_finished } => {
                partition.decide_finish(step, (name, key), *outcome, *others_finished, &mut self.memory)
            }
            BranchRequest::Lookup(name) => {
                let state = partition.branch(step.time, name, key, &mut self.memory);
                state.map(|state| match state {
                    BranchState::Prepared => BranchVerdict::Prepared,
                    BranchState::Finished(outcome) => BranchVerdict::Finished(outcome),
                    BranchState::Unknown => BranchVerdict::Unknown,
                })
            }
        };
        let reply = match verdict {
            Err(refusal) => return (0, Err(refusal)),
            Ok(BranchVerdict::Fresh(branch_step)) => {
                if let Some(quota) = quota {
                    let prepared = partition.branches().get(what.name()).map(|prepared| &prepared.branch);
                    let memory = &mut self.memory;
                    let charged =
                        creation_quota::charge_branch(quota, prepared, &branch_step, step.time, memory);
                    if let Err(refusal) = charged {
                        return (0, Err(refusal));
                    }
                }
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
                    BranchLogItem::Prepared(_) => BranchResponse::Prepared { fresh: true },
                    BranchLogItem::Finished { outcome, .. } => {
                        BranchResponse::Finished { outcome, fresh: true, counted }
                    }
                })
            }
            Ok(BranchVerdict::Prepared) => Ok(BranchResponse::Prepared { fresh: false }),
            Ok(BranchVerdict::Finished(outcome)) => {
                Ok(BranchResponse::Finished { outcome, fresh: false, counted: Vec::new() })
            }
            Ok(BranchVerdict::Unknown) => Ok(BranchResponse::Unknown),
            Ok(BranchVerdict::Elsewhere(partitions)) => Ok(BranchResponse::Elsewhere(partitions)),
            Ok(BranchVerdict::Rejected(rejection)) => Err(rejection.into()),
        };
        // The batch of a branch is not recorded: use the latest of the partition.
        (self.memory.needs_batch.max(owned.batch), reply)
    }

    fn prepared_branches(&mut self, id: PartitionId) -> (u64, Response) {
        let owned = owned(&mut self.partitions, id);
        (owned.batch, Response::PreparedBranches(owned.partition.branches().iter().cloned().collect()))
    }

    /// The time of a partition in milliseconds.
    fn time_in(&self, partition: PartitionId, now: Timestamp) -> u64 {
        let owned = self.partitions[usize::from(partition.0)].as_ref();
        let time = owned.map_or(now, |owned| owned.partition.time().max(now));
        time.as_nanos() / 1_000_000
    }

    /// Whether everything up to this batch is durable.
    pub fn is_durable(&self, batch: u64) -> bool {
        batch <= self.durable
    }

    /// Reports that everything up to this batch is durable.
    pub fn durable(&mut self, batch: u64) {
        assert!(batch < self.batch && batch >= self.durable, "batch {batch} is not in flight");
        self.durable = batch;
    }
}

/// The table, unless it does not exist or is about to be deleted.
fn writable<'a>(catalog: &'a Catalog, closed: &[TableId], id: TableId) -> Result<&'a Table, EngineError> {
    let Some(table) = catalog.get(id) else { return Err(EngineError::NoSuchTable(id.to_string())) };
    if closed.contains(&id) { Err(EngineError::Busy("the table is being deleted")) } else { Ok(table) }
}

fn owned(partitions: &mut [Option<Owned>], id: PartitionId) -> &mut Owned {
    let Some(owned) = &mut partitions[usize::from(id.0)] else {
        unreachable!("requests and entries of other partitions were refused before");
    };
    owned
}

/// A decision that this shard has just made follows from its own state; only a replayed one may not.
fn follows(applied: Result<(), ReplayError>) {
    if let Err(error) = applied {
        unreachable!("a decision made here does not apply: {error}");
    }
}

/// The counters that a commit will change; the branch is still prepared.
fn counted(partition: &mut Partition, branch_step: &BranchLogItem, step: LogPosition) -> Vec<CommittedCount> {
    let BranchLogItem::Finished { name, values, .. } = branch_step else { return Vec::new() };
    let Some(prepared) = partition.branches().get(name) else { return Vec::new() };
    let (slot, millis) = (step.slot, step.time.as_nanos() / 1_000_000);
    let additions = prepared.branch.additions().iter().zip(values);
    additions
        .map(|(one, value)| CommittedCount { cell: one.cell.clone(), value: value.counter(), slot, millis })
        .collect()
}

/// Ends an entry and adds it to the batch.
fn close(open: &mut Option<(LogPosition, PartitionId)>, entry: &mut Vec<u8>, batch: &mut Batch) {
    if let Some((step, id)) = open.take() {
        batch.push(log_of(id), Slot(step.slot), entry);
        entry.clear();
    }
}
