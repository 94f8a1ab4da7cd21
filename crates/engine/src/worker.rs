//! The loop of a shard: receives requests, has them decided, appends the batches to the log, and sends the
//! responses once they are durable.
//!
//! There are no timers: an idle shard decides the first request at once. Under load, batches are small and
//! many are in flight: the log writes with one fsync all that arrived during the previous one, and neither
//! the log nor the callers wait for the end of a long batch.
//!
//! A batch becomes durable, or the shard ends with it. The latter happens when an engine closes while the
//! disk is full, and when another owner has taken over the log: then nothing that depends on the batch leaves
//! the shard, no response, no checkpoint and no slots. The callers see dropped channels, which mean that the
//! engine is closed.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc as std_mpsc;
use std::task::Poll;
use std::time::Duration;

use arc_swap::ArcSwap;
use jeton_core::{Catalog, TableId, Timestamp, mutated};
use jeton_wal::Error as LogError;
use jeton_wal::disk::Disk;
use tokio::sync::{mpsc, oneshot};

use crate::clock::{Clock, StoreTime};
use crate::health::Health;
use crate::options::Options;
use crate::partition_log::{AppendError, PartitionLog};
use crate::pending::{Backlog, PendingBatch, PendingResponse};
use crate::request::Request;
use crate::response::{EngineError, Response};
use crate::response_dispatcher::ResponseDispatcher;
use crate::shard::{FrozenIds, FrozenValues, Shard, Slots};
use crate::values::Values;

/// Maximum number of batches in flight.
const IN_FLIGHT_MAX: usize = 64;

/// Requests per batch if few are waiting: the log and the responses continue in between.
const BATCH_REQUESTS: usize = 48;

/// As [`BATCH_REQUESTS`], if the requests arrive many at a time.
const BATCH_REQUESTS_TOGETHER: usize = 512;

/// From this many waiting messages on, batches are as large as the options permit: the last requests wait
/// long in any case, and large batches take less space in the log.
const MANY_WAITING: usize = 512;

/// Maximum number of callers in the backlog; the others wait in the queue.
const BACKLOG_MAX: usize = 1024;

/// A shard whose memtable has more ids than this many times [`Options::recent_ids`] refuses writes: the index
/// lacks them all.
const MEMTABLE_IDS_FACTOR: usize = 8;

/// A message to a shard.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are requests, and a heap allocation for each costs more"
)]
pub enum Message {
    Request {
        request: Request,
        reply: oneshot::Sender<Response>,
    },
    /// At least one request and at most `REQUESTS_MAX`.
    Batch {
        requests: Vec<Request>,
        reply: oneshot::Sender<Vec<Response>>,
    },
    /// The id index contains the ids of this freeze.
    IdsStored(u64),
    /// The value store contains the rows of this freeze.
    ValuesStored(u64),
    /// Asks for the decided slots; if `durable`, the reply waits until they are durable.
    Slots {
        durable: bool,
        reply: oneshot::Sender<Slots>,
    },
    /// The reply is sent when the value store contains everything decided so far.
    Flush(oneshot::Sender<()>),
    /// The same for the id index.
    FlushIds(oneshot::Sender<()>),
    /// Refuses operations and new branches of a table, or accepts them again. The reply is whether branches
    /// are prepared in it.
    SetClosed {
        table: TableId,
        closed: bool,
        reply: oneshot::Sender<bool>,
    },
}

/// A part of a checkpoint that a shard hands to the checkpoint thread.
pub enum Job {
    Ids {
        shard: usize,
        frozen: FrozenIds,
    },
    Values {
        shard: usize,
        frozen: FrozenValues,
    },
    /// Stores the filters. The reply is whether they are stored.
    Filters(oneshot::Sender<bool>),
}

/// A batch that is not durable yet.
struct InFlight {
    number: u64,
    /// No entry of the batch has an earlier time, to the millisecond.
    time: Timestamp,
    /// When it was appended, by the monotonic clock.
    appended: Duration,
    durable: Pin<Box<dyn Future<Output = Result<(), AppendError>> + Send>>,
    /// Responses that need this batch.
    responses: Vec<PendingResponse>,
    slots: Vec<(oneshot::Sender<Slots>, Slots)>,
}

/// A shard and its surroundings.
pub struct Worker<L, V, D: Disk, C> {
    pub number: usize,
    pub shard: Shard<V, D>,
    pub log: Arc<L>,
    pub catalog: Arc<ArcSwap<Catalog>>,
    pub time: Arc<StoreTime<C>>,
    pub health: Arc<Health>,
    pub options: Options,
    pub queue: mpsc::Receiver<Message>,
    pub jobs: std_mpsc::Sender<Job>,
    pub responses: ResponseDispatcher,
    /// Number of requests in the batches of the queue.
    pub queued_requests: Arc<AtomicUsize>,
    /// Whether a woken worker lets all ready tasks run first. For a task among its callers: each caller that
    /// runs adds requests to the next batch.
    pub yields_first: bool,
}

/// What is in flight between a shard and its surroundings.
#[derive(Default)]
struct ShardQueues {
    in_flight: VecDeque<InFlight>,
    /// Requests that are not decided yet.
    backlog: Backlog,
    /// Frozen, and not durable yet.
    ids: Option<FrozenIds>,
    values: Option<FrozenValues>,
    /// Frozen, and not stored yet.
    storing_ids: bool,
    storing_values: bool,
    /// Callers that wait for the running checkpoint of values, and for the next one.
    flushing: Vec<oneshot::Sender<()>>,
    flush_next: Vec<oneshot::Sender<()>>,
    /// The same for ids.
    flushing_ids: Vec<oneshot::Sender<()>>,
    flush_ids_next: Vec<oneshot::Sender<()>>,
    /// Requests per message in the last round.
    weight: usize,
}

impl<L: PartitionLog, V: Values, D: Disk, C: Clock> Worker<L, V, D, C> {
    /// Runs until all senders of the queue are dropped and every request has a response; or until a batch is
    /// dropped, when the engine closes or another owner has taken over the log.
    pub async fn run(mut self) {
        let mut queues = ShardQueues::default();
        let mut messages = Vec::new();
        let mut open = true;
        let mut yielded = !self.yields_first;
        while open || !queues.in_flight.is_empty() || !queues.backlog.is_empty() {
            let few = self.queue.len() + queues.backlog.len() < MANY_WAITING;
            let requests_max = match queues.weight {
                _ if !few => self.options.batch_requests_max,
                0 | 1 => BATCH_REQUESTS.min(self.options.batch_requests_max),
                _ => BATCH_REQUESTS_TOGETHER.min(self.options.batch_requests_max),
            };
            let receive_max = (requests_max / queues.weight.max(1)).max(1);
            let event = poll_fn(|context| {
                if !std::mem::replace(&mut yielded, true) {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                if let Some(first) = queues.in_flight.front_mut()
                    && let Poll::Ready(result) = first.durable.as_mut().poll(context)
                {
                    return Poll::Ready(Event::Durable(result));
                }
                let may_decide = queues.in_flight.len() < IN_FLIGHT_MAX;
                // Also with a backlog: small batches overtake large ones.
                if may_decide && open && queues.backlog.len() < BACKLOG_MAX {
                    match self.queue.poll_recv_many(context, &mut messages, receive_max) {
                        Poll::Ready(0) => return Poll::Ready(Event::Closed),
                        Poll::Ready(_) => return Poll::Ready(Event::Received),
                        Poll::Pending => {}
                    }
                }
                if may_decide && !queues.backlog.is_empty() {
                    return Poll::Ready(Event::Received);
                }
                if self.shard.is_freezing() {
                    return Poll::Ready(Event::Idle);
                }
                yielded = !self.yields_first;
                Poll::Pending
            })
            .await;
            match event {
                Event::Closed => open = false,
                // Copying takes long: let the ready tasks run between its steps.
                Event::Idle => yielded = !self.yields_first,
                Event::Durable(result) => {
                    if !self.durable(result, &mut queues) {
                        return;
                    }
                }
                Event::Received => {
                    if !messages.is_empty() {
                        let (before, count) = (queues.backlog.requests(), messages.len());
                        for message in messages.drain(..) {
                            self.receive(message, &mut queues);
                        }
                        queues.weight = (queues.backlog.requests() - before).div_ceil(count);
                    }
                    self.decide(&mut queues, requests_max);
                }
            }
            self.freeze_if_due(&mut queues);
            self.copy_values(&mut queues);
        }
    }

    fn receive(&mut self, message: Message, queues: &mut ShardQueues) {
        match message {
            Message::Request { request, reply } => {
                queues.backlog.push(PendingBatch::one(request, reply));
            }
            Message::Batch { requests, reply } => {
                queues.backlog.push(PendingBatch::many(requests, reply));
            }
            Message::Flush(reply) => queues.flush_next.push(reply),
            Message::FlushIds(reply) => queues.flush_ids_next.push(reply),
            Message::SetClosed { table, closed, reply } => {
                let _caller_gone = reply.send(self.shard.set_closed(table, closed));
            }
            Message::IdsStored(freeze) => {
                self.shard.ids_stored(freeze);
                queues.storing_ids = false;
                for reply in queues.flushing_ids.drain(..) {
                    let _caller_gone = reply.send(());
                }
            }
            Message::ValuesStored(freeze) => {
                self.shard.values_stored(freeze);
                queues.storing_values = false;
                for reply in queues.flushing.drain(..) {
                    let _caller_gone = reply.send(());
                }
            }
            Message::Slots { durable, reply } => {
                let slots = self.shard.slots();
                match queues.in_flight.back_mut() {
                    Some(last) if durable && !mutated!(SnapshotBeforeDurable) => {
                        last.slots.push((reply, slots))
                    }
                    _ => drop(reply.send(slots)),
                }
            }
        }
    }

    /// Decides requests of the backlog, up to the size of a batch.
    fn decide(&mut self, queues: &mut ShardQueues, requests_max: usize) {
        let BatchInput { mut batches, bytes, writes } = self.take(queues, requests_max);
        let (mut reservation, mut refusal) = (None, None);
        if writes > 0 {
            match self.admit(writes, bytes) {
                Ok(reserved) => reservation = Some(reserved),
                Err(why) => refusal = Some(why),
            }
        }
        let mut requests = Vec::with_capacity(BATCH_REQUESTS_TOGETHER);
        let mut responses = Vec::with_capacity(batches.len());
        for (batch, index) in batches.iter_mut().zip(0_u32..) {
            let taken = batch.taken.clone();
            for (request, at) in batch.requests.as_slice()[taken.clone()].iter().zip(taken.start..) {
                match &refusal {
                    // Reads continue.
                    Some(refusal) if request.value_bytes_max() > 0 => {
                        batch.response.put(at, 0, request.refused(refusal.clone()));
                    }
                    _ => requests.push((request, (index, at as u32))),
                }
            }
            responses.push(&mut batch.response);
        }
        let catalog = self.catalog.load();
        let now = self.time.now();
        let appended = self.time.elapsed();
        let ahead = self.health.undurable_for(appended);
        self.shard.acknowledge_early(ahead < self.options.relaxed_interval || mutated!(RelaxedUnbounded));
        let batch = self.shard.process(&catalog, &requests, now, |(index, at), needs_batch, response| {
            responses[index as usize].put(at as usize, needs_batch, response);
        });
        if let Some(batch) = batch {
            let reservation = reservation.unwrap_or_else(|| unreachable!("writes were admitted"));
            self.health.logged(batch.entry_bytes() as u64);
            queues.in_flight.push_back(InFlight {
                number: self.shard.last_batch(),
                time: now,
                appended,
                durable: Box::pin(self.log.append(&batch, reservation)),
                responses: Vec::new(),
                slots: Vec::new(),
            });
            self.report_oldest(queues);
        }
        let mut ready = Vec::new();
        for batch in batches {
            let needs_batch = batch.response.needs_batch;
            if batch.undecided() > 0 {
                queues.backlog.put_back(batch);
            } else if self.shard.is_durable(needs_batch) || mutated!(AckBeforeSync) {
                ready.push(batch.response);
            } else {
                let oldest = queues.in_flight.front().map_or(needs_batch, |first| first.number);
                queues.in_flight[(needs_batch - oldest) as usize].responses.push(batch.response);
            }
        }
        self.responses.send(ready);
    }

    /// Takes as much from the backlog as a batch holds. Of the large ones that are taken, some requests may
    /// be left.
    fn take(&self, queues: &mut ShardQueues, requests_max: usize) -> BatchInput {
        let limits = self.log.limits();
        let requests_max = requests_max.min(limits.batch_entries_max);
        let share = queues.backlog.large_share(requests_max);
        let mut input = BatchInput::default();
        let (mut count, mut queued, mut full) = (0, 0, false);
        while !full && let Some(mut batch) = queues.backlog.pop(2 * count >= requests_max) {
            batch.taken.start = batch.taken.end;
            for request in batch.requests.as_slice()[batch.taken.start..].iter().take(share) {
                let size = request.value_bytes_max();
                // A single request is taken whatever its size: the shard refuses it if it is too large.
                full = count > 0 && (count >= requests_max || input.bytes + size > limits.batch_bytes_max);
                if full {
                    break;
                }
                count += 1;
                batch.taken.end += 1;
                input.bytes += size;
                input.writes += usize::from(size > 0);
            }
            if batch.taken.is_empty() {
                queues.backlog.put_back(batch);
            } else {
                queued += if batch.is_one() { 0 } else { batch.taken.len() };
                input.batches.push(batch);
            }
        }
        self.queued_requests.fetch_sub(queued, Ordering::Relaxed);
        input
    }

    fn admit(&self, writes: usize, bytes: usize) -> Result<L::Reservation, EngineError> {
        let (_, ids) = self.shard.recent_ids();
        let (dirty, _) = self.shard.cell_bytes();
        let share = self.options.dirty_bytes_max / self.options.shards;
        if ids > MEMTABLE_IDS_FACTOR * self.options.recent_ids || dirty > share {
            return Err(match self.health.last_error() {
                Some(why) => EngineError::Full(why),
                None => EngineError::Busy("checkpoints lag behind"),
            });
        }
        self.log.reserve(writes, bytes).map_err(|error| match error {
            AppendError::Deposed => EngineError::Moved,
            AppendError::Log(LogError::Full(why)) => EngineError::Full(why),
            AppendError::Log(LogError::Busy(_)) => EngineError::Busy("the log lags behind"),
            AppendError::Log(LogError::Unavailable(_)) if self.health.closing() => EngineError::Closed,
            AppendError::Log(other) => EngineError::Storage(other.to_string()),
        })
    }

    /// Handles the result of the oldest batch in flight. Returns false if it was dropped: then the shard must
    /// end.
    fn durable(&mut self, result: Result<(), AppendError>, queues: &mut ShardQueues) -> bool {
        let Some(batch) = queues.in_flight.pop_front() else { unreachable!("it was polled just now") };
        match result {
            Ok(()) => {}
            // Memory contains what the log lacks: the shard can only end. That is an error unless the engine
            // closes or another owner has the log.
            Err(AppendError::Deposed) => return false,
            Err(AppendError::Log(LogError::Unknown(_) | LogError::Unavailable(_)))
                if self.health.closing() =>
            {
                return false;
            }
            Err(error) => panic!("the log failed after it accepted a batch: {error}"),
        }
        self.shard.durable(batch.number);
        self.report_oldest(queues);
        self.health.reached(Timestamp::from_millis(batch.time.as_nanos() / 1_000_000));
        self.responses.send(batch.responses);
        for (reply, slots) in batch.slots {
            drop(reply.send(slots));
        }
        if let Some(frozen) = queues.ids.take_if(|frozen| frozen.batch <= batch.number) {
            self.send_job(Job::Ids { shard: self.number, frozen });
        }
        if let Some(frozen) = queues.values.take_if(|frozen| frozen.batch <= batch.number) {
            self.send_job(Job::Values { shard: self.number, frozen });
        }
        true
    }

    fn report_oldest(&self, queues: &ShardQueues) {
        self.health.set_undurable_since(self.number, queues.in_flight.front().map(|batch| batch.appended));
    }

    /// The receiver is gone once the engine closes: the log contains everything, and the next start replays
    /// it.
    fn send_job(&self, job: Job) {
        drop(self.jobs.send(job));
    }

    fn freeze_if_due(&mut self, queues: &mut ShardQueues) {
        let due = self.health.checkpoint_due(self.number);
        if due && !queues.storing_ids && !queues.storing_values {
            self.health.checkpoint_begun(self.number);
        }
        let (ids, _) = self.shard.recent_ids();
        if due || !queues.flush_ids_next.is_empty() || ids >= self.options.recent_ids {
            self.freeze_ids(queues);
        }
        let (dirty, _) = self.shard.cell_bytes();
        let requested = !queues.flush_next.is_empty();
        if due || requested || dirty >= self.options.dirty_bytes_max / self.options.shards / 2 {
            self.freeze_values(queues);
        }
    }

    fn freeze_ids(&mut self, queues: &mut ShardQueues) {
        if std::mem::replace(&mut queues.storing_ids, true) {
            return;
        }
        queues.flushing_ids.append(&mut queues.flush_ids_next);
        let frozen = self.shard.freeze_ids();
        if queues.in_flight.is_empty() || mutated!(IdsBeforeDurable) {
            self.send_job(Job::Ids { shard: self.number, frozen });
        } else {
            queues.ids = Some(frozen);
        }
    }

    fn freeze_values(&mut self, queues: &mut ShardQueues) {
        if std::mem::replace(&mut queues.storing_values, true) {
            return;
        }
        queues.flushing.append(&mut queues.flush_next);
        self.shard.freeze_values(&self.catalog.load(), self.time.now());
    }

    /// Copies some of the frozen cells. Once all are copied and durable, they are stored.
    fn copy_values(&mut self, queues: &mut ShardQueues) {
        let Some(frozen) = self.shard.copy_values(self.options.copy_cells) else { return };
        if self.shard.is_durable(frozen.batch) || mutated!(ValuesBeforeDurable) {
            self.send_job(Job::Values { shard: self.number, frozen });
        } else {
            queues.values = Some(frozen);
        }
    }
}

/// The requests of one batch.
#[derive(Default)]
struct BatchInput {
    batches: Vec<PendingBatch>,
    bytes: usize,
    writes: usize,
}

enum Event {
    Received,
    /// Nothing to do but to copy frozen cells.
    Idle,
    Durable(Result<(), AppendError>),
    Closed,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use futures_executor::block_on;
    use jeton_core::{Cell, Change, Column, OpId, Operation, TableSettings};
    use jeton_wal::Wal;
    use jeton_wal::disk::FaultDisk;

    use super::*;
    use crate::clock::SystemClock;
    use crate::ids::IdIndex;
    use crate::pending::REQUESTS_MAX;
    use crate::recovery::{Recovered, find, replay_log};
    use crate::response::OperationOutcome;
    use crate::shard::Stores;
    use crate::values::MemoryValues;

    /// A shard whose log is on a disk that can become read-only. The disks of its stores stay writable.
    struct Scenario {
        disk: FaultDisk,
        log: Arc<Wal<FaultDisk>>,
        health: Arc<Health>,
        queue: mpsc::Sender<Message>,
        jobs: std_mpsc::Receiver<Job>,
        request: Box<dyn Fn(u64, oneshot::Sender<Response>) -> Message>,
    }

    type TestWorker = Worker<Wal<FaultDisk>, MemoryValues, FaultDisk, SystemClock>;

    fn scenario(yields_first: bool, copy_cells: usize) -> (Scenario, TestWorker) {
        let disk = FaultDisk::new();
        let segments = jeton_wal::Options::small(1 << 20);
        let log = Arc::new(Wal::open(disk.clone(), segments).unwrap());
        let (ids, note) = IdIndex::open(Arc::new(FaultDisk::new()), "ids").unwrap();
        let stores = Stores { values: Arc::new(MemoryValues::default()), ids: Arc::new(ids) };
        let options = Options { shards: 1, copy_cells, ..Options::default() };
        let time = StoreTime::begin(SystemClock::default(), Timestamp::ZERO, options.clock_ahead_max);
        let time = Arc::new(time.unwrap());
        let found = find(&*log, &stores, &note, options.memory_max, || [7; 16]).unwrap();
        let catalog = Arc::new(found.catalog.create("t", TableSettings::default(), Timestamp::ZERO).unwrap());
        let known = (found.secret, found.partitions, &found.positions);
        let Recovered { mut shards, logged, .. } =
            replay_log(&*log, &stores, &catalog, known, &options).unwrap();
        let table = catalog.find("t").unwrap().id;
        let millis = time.now().as_nanos() / 1_000_000;
        let request = move |number: u64, reply| {
            let id = OpId::uuid7_from(millis, number.into());
            let cell = Cell::new(&found.secret, table, &number.to_be_bytes(), &Column::unnamed()).unwrap();
            let operation = Operation::single(Some(id), cell, Change::Add(1)).unwrap();
            let request = Request::apply(operation, &found.secret, &mut Vec::new());
            Message::Request { request, reply }
        };
        let health = Arc::new(Health::new(1, 0, logged));
        let (sender, queue) = mpsc::channel(options.queue_max);
        let (job_sender, jobs) = std_mpsc::channel();
        let worker = Worker {
            number: 0,
            shard: shards.remove(0),
            log: log.clone(),
            catalog: Arc::new(ArcSwap::new(catalog)),
            time,
            health: health.clone(),
            options,
            queue,
            jobs: job_sender,
            responses: ResponseDispatcher::inline(),
            queued_requests: Arc::default(),
            yields_first,
        };
        (Scenario { disk, log, health, queue: sender, jobs, request: Box::new(request) }, worker)
    }

    impl Scenario {
        fn add(&self, number: u64) -> oneshot::Receiver<Response> {
            let (reply, response) = oneshot::channel();
            self.send((self.request)(number, reply));
            response
        }

        fn send(&self, message: Message) {
            assert!(self.queue.try_send(message).is_ok());
        }

        fn slots(&self, durable: bool) -> oneshot::Receiver<Slots> {
            let (reply, slots) = oneshot::channel();
            self.send(Message::Slots { durable, reply });
            slots
        }
    }

    /// The checkpoint is frozen after the dropped batch, or becomes due while the batch is dropped. The
    /// latter is a race, so it is tried several times.
    #[test]
    fn nothing_depends_on_a_dropped_batch() {
        for frozen_before in [true, false].repeat(8) {
            let (scenario, worker) = scenario(false, 512);
            let thread = std::thread::spawn(move || block_on(worker.run()));
            let acknowledged = block_on(scenario.add(1)).unwrap();
            assert!(
                matches!(acknowledged, Response::Applied(Ok(OperationOutcome::Fresh(_)))),
                "{acknowledged:?}"
            );
            scenario.disk.set_read_only(true);
            if frozen_before {
                scenario.health.demand_checkpoint();
            }
            let dropped = scenario.add(2);
            // The first reply comes just before the request is decided, the last one after it.
            block_on(scenario.slots(false)).unwrap();
            let durable = scenario.slots(true);
            block_on(scenario.slots(false)).unwrap();
            scenario.health.demand_checkpoint();
            scenario.health.close();
            scenario.log.stop_waiting_for_space();
            drop(scenario.queue);
            thread.join().unwrap();
            assert!(block_on(dropped).is_err(), "the request got a response");
            assert!(block_on(durable).is_err(), "the batch was reported as durable");
            let batch = |job| match job {
                Job::Ids { frozen, .. } => frozen.batch,
                Job::Values { frozen, .. } => frozen.batch,
                Job::Filters(_) => unreachable!("a shard stores no filters"),
            };
            assert!(scenario.jobs.iter().map(batch).all(|batch| batch == 1), "a later freeze was stored");
        }
    }

    #[test]
    fn a_small_batch_overtakes_a_large_one() {
        let (scenario, mut worker) = scenario(false, 512);
        let request = |number| match (scenario.request)(number, oneshot::channel().0) {
            Message::Request { request, .. } => request,
            _ => unreachable!("a request"),
        };
        let mut queues = ShardQueues::default();
        let requests = (0..REQUESTS_MAX as u64).map(request).collect();
        worker.receive(Message::Batch { requests, reply: oneshot::channel().0 }, &mut queues);
        let cell = request(0).first_cell().expect("an addition has a cell").clone();
        let (reply, mut small) = oneshot::channel();
        worker.receive(Message::Request { request: Request::Read { cell }, reply }, &mut queues);
        worker.decide(&mut queues, BATCH_REQUESTS_TOGETHER);
        assert!(small.try_recv().is_ok(), "the read waits for the large batch");
        let decided = REQUESTS_MAX - queues.backlog.requests();
        assert!((BATCH_REQUESTS_TOGETHER / 2..BATCH_REQUESTS_TOGETHER).contains(&decided), "{decided}");
    }

    /// A shard that runs as a task must yield while it copies, also if it has no requests.
    #[test]
    fn a_task_yields_between_the_steps_of_a_checkpoint() {
        const CELLS: u64 = 20;
        for yields_first in [true, false] {
            let (scenario, worker) = scenario(yields_first, 1);
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let mut work = std::pin::pin!(worker.run());
            let mut step = || assert!(work.as_mut().poll(&mut context).is_pending());
            let mut responses: Vec<_> = (0..CELLS).map(|number| scenario.add(number)).collect();
            while !responses.is_empty() {
                step();
                responses.retain_mut(|response| response.try_recv().is_err());
            }
            let (reply, _flushed) = oneshot::channel();
            scenario.send(Message::Flush(reply));
            let mut steps = 0;
            while !scenario.jobs.try_iter().any(|job| matches!(job, Job::Values { .. })) {
                step();
                steps += 1;
            }
            assert_eq!(steps >= CELLS, yields_first, "{steps} steps");
        }
    }
}
