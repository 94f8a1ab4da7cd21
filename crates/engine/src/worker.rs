//! The thread of a shard: takes requests as they come, lets the shard decide them, writes what it decided, and answers when that
//! is durable.
//!
//! No timers: at rest the first request goes at once. Under load batches are small, and many are on their way: the log makes those durable
//! together that came while it was at work, and neither it nor the callers wait for the shard to come to the end of a long batch.
//!
//! A batch is made durable, or the shard ends with it. The latter is for an engine that closes while the disk is full: then nothing
//! that rests on the batch goes anywhere, neither an answer nor what was frozen after it nor a mark. Tickets that are dropped say that the
//! engine is closed.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc as std_mpsc;
use std::task::Poll;

use arc_swap::ArcSwap;
use jeton_core::{Catalog, Timestamp, mutated};
use jeton_wal::disk::Disk;
use jeton_wal::{Error as LogError, Reservation};
use tokio::sync::{mpsc, oneshot};

use crate::clock::{Clock, StoreTime};
use crate::health::Health;
use crate::options::Options;
use crate::partition_log::PartitionLog;
use crate::pending::{PendingBatch, PendingResponse, Requests};
use crate::request::Request;
use crate::response::{EngineError, Response};
use crate::response_dispatcher::ResponseDispatcher;
use crate::shard::{FrozenIds, FrozenValues, Shard, Slots};
use crate::values::Values;

/// Batches that may be on their way to the disk.
const IN_FLIGHT_MAX: usize = 64;

/// Requests that are decided at a time if not many are waiting: the log and the answers go on in between.
const BATCH_REQUESTS: usize = 48;

/// If so many are waiting, they are decided together: those at the end wait long whatever is done, and together they take less room in the
/// log and its index.
const MANY_WAITING: usize = 512;

/// A shard whose index lags behind by so many freezes takes no more writes.
const LAG_MAX: usize = 8;

/// Requests that are decided at a time if they come in bursts and not many are waiting.
const BATCH_BURSTS: usize = 512;

/// What a shard's thread is told.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are requests, and memory of their own for them costs more"
)]
pub enum Message {
    /// By a caller.
    Request {
        /// What it asks.
        request: Request,
        /// Whom to answer.
        reply: oneshot::Sender<Response>,
    },
    /// By a caller, several at once.
    Burst {
        /// What it asks, at least one and at most [`BURST_MAX`](crate::pending::BURST_MAX).
        requests: Vec<Request>,
        /// Whom to answer.
        reply: oneshot::Sender<Vec<Response>>,
    },
    /// The ids of this freeze are in the index.
    IdsStored(u64),
    /// The rows of this freeze are in the value store.
    ValuesStored(u64),
    /// Tell the slots that were decided by now; if it is to be `durable`, when they are.
    Mark {
        /// Whether to wait until they are.
        durable: bool,
        /// Whom to tell.
        reply: oneshot::Sender<Slots>,
    },
    /// Tell when all that was decided by now is in the value store.
    Stored(oneshot::Sender<()>),
}

/// What a shard hands out to be stored.
pub enum Job {
    /// To the id index.
    Ids {
        /// By whom.
        shard: usize,
        /// What.
        frozen: FrozenIds,
    },
    /// To the value store.
    Values {
        /// By whom.
        shard: usize,
        /// What.
        frozen: FrozenValues,
    },
}

type Writing = Pin<Box<dyn Future<Output = Result<(), LogError>> + Send>>;

struct InFlight {
    number: u64,
    /// No entry of it has an earlier time, down to the millisecond.
    time: Timestamp,
    writing: Writing,
    /// Answers that wait for it.
    due: Vec<PendingResponse>,
    marks: Vec<(oneshot::Sender<Slots>, Slots)>,
}

/// A shard at work: [`run`](Self::run) is its thread.
pub struct Worker<L, V, D: Disk, C> {
    /// Which shard it is.
    pub number: usize,
    /// The shard.
    pub shard: Shard<V, D>,
    /// Where its batches are written.
    pub log: Arc<L>,
    /// The tables, as they are now.
    pub catalog: Arc<ArcSwap<Catalog>>,
    /// The time.
    pub time: Arc<StoreTime<C>>,
    /// What the threads tell one another.
    pub health: Arc<Health>,
    /// The limits.
    pub options: Options,
    /// What it is told.
    pub queue: mpsc::Receiver<Message>,
    /// What it hands out to be stored.
    pub jobs: std_mpsc::Sender<Job>,
    /// Who gives its answers, once they are durable.
    pub answers: ResponseDispatcher,
    /// How many requests of bursts are in the queue.
    pub bursting: Arc<AtomicUsize>,
    /// Whether all others that are ready go first when it is woken. For a task among those who ask: each that runs has more to
    /// be decided together.
    pub yields_first: bool,
}

/// What is under way between a shard's thread and the rest.
#[derive(Default)]
struct ShardQueues {
    in_flight: VecDeque<InFlight>,
    /// Requests that did not fit into the batch.
    backlog: VecDeque<PendingBatch>,
    /// How many these are.
    waiting: usize,
    /// Frozen, but not yet durable.
    ids: Option<FrozenIds>,
    values: Option<FrozenValues>,
    /// Handed out, but not yet stored.
    storing_ids: bool,
    storing_values: bool,
    /// Who waits for the checkpoint that is being stored, and who for the next.
    stored: Vec<oneshot::Sender<()>>,
    to_be_stored: Vec<oneshot::Sender<()>>,
    /// Requests that came with a message, on average, lately.
    weight: usize,
}

impl<L: PartitionLog, V: Values, D: Disk, C: Clock> Worker<L, V, D, C> {
    /// Works until all senders of the queue are gone and everything is answered; or, when the engine is closing, until a batch is
    /// given up.
    pub async fn run(mut self) {
        let mut traffic = ShardQueues::default();
        let mut messages = Vec::new();
        let mut open = true;
        let mut stood_back = !self.yields_first;
        while open || !traffic.in_flight.is_empty() || !traffic.backlog.is_empty() {
            let few = self.queue.len() < MANY_WAITING;
            let max = match traffic.weight {
                _ if !few => self.options.batch_requests_max,
                0 | 1 => BATCH_REQUESTS.min(self.options.batch_requests_max),
                weight => (BATCH_BURSTS / weight).max(1),
            };
            let event = poll_fn(|context| {
                if !std::mem::replace(&mut stood_back, true) {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                if let Some(first) = traffic.in_flight.front_mut()
                    && let Poll::Ready(written) = first.writing.as_mut().poll(context)
                {
                    return Poll::Ready(Event::Written(written));
                }
                let may_decide = traffic.in_flight.len() < IN_FLIGHT_MAX;
                if may_decide && !traffic.backlog.is_empty() {
                    return Poll::Ready(Event::Received);
                }
                if may_decide && open {
                    match self.queue.poll_recv_many(context, &mut messages, max) {
                        Poll::Ready(0) => return Poll::Ready(Event::Closed),
                        Poll::Ready(_) => return Poll::Ready(Event::Received),
                        Poll::Pending => {}
                    }
                }
                // Nothing else to do: time to copy.
                if self.shard.is_freezing() {
                    return Poll::Ready(Event::Leisure);
                }
                stood_back = !self.yields_first;
                Poll::Pending
            })
            .await;
            match event {
                Event::Closed => open = false,
                // However little this takes at a time: whoever is ready comes in between.
                Event::Leisure => stood_back = !self.yields_first,
                Event::Written(written) => {
                    if !self.written(written, &mut traffic) {
                        return;
                    }
                }
                Event::Received => {
                    let (before, count) = (traffic.waiting, messages.len().max(1));
                    for message in messages.drain(..) {
                        self.receive(message, &mut traffic);
                    }
                    traffic.weight = (traffic.waiting - before).div_ceil(count);
                    self.decide(&mut traffic);
                }
            }
            self.freeze_if_due(&mut traffic);
            self.copy_values(&mut traffic);
        }
    }

    fn receive(&mut self, message: Message, traffic: &mut ShardQueues) {
        match message {
            Message::Request { request, reply } => {
                traffic.waiting += 1;
                traffic.backlog.push_back(PendingBatch::one(request, reply));
            }
            Message::Burst { requests, reply } => {
                self.bursting.fetch_sub(requests.len(), Ordering::Relaxed);
                traffic.waiting += requests.len();
                traffic.backlog.push_back(PendingBatch::many(requests, reply));
            }
            Message::Stored(reply) => traffic.to_be_stored.push(reply),
            Message::IdsStored(freeze) => {
                self.shard.ids_stored(freeze);
                traffic.storing_ids = false;
            }
            Message::ValuesStored(freeze) => {
                self.shard.values_stored(freeze);
                traffic.storing_values = false;
                for waits in traffic.stored.drain(..) {
                    let _gone_perhaps = waits.send(());
                }
            }
            Message::Mark { durable, reply } => {
                let slots = self.shard.slots();
                match traffic.in_flight.back_mut() {
                    Some(last) if durable && !mutated!(SnapshotBeforeDurable) => {
                        last.marks.push((reply, slots))
                    }
                    // Whoever asked may be gone.
                    _ => drop(reply.send(slots)),
                }
            }
        }
    }

    /// Decides what is in the backlog, as far as a batch goes.
    fn decide(&mut self, traffic: &mut ShardQueues) {
        let BatchInput { mut asked, mut due, bytes, writes } = self.take(traffic);
        let mut permit = None;
        let mut refusal = None;
        if writes > 0 {
            match self.admit(writes, bytes) {
                Ok(granted) => permit = Some(granted),
                Err(why) => refusal = Some(why),
            }
        }
        let mut requests = Vec::with_capacity(BATCH_BURSTS);
        for (whose, (of, range)) in asked.iter().enumerate() {
            for (request, at) in of.as_slice()[range.clone()].iter().zip(range.start..) {
                match (&refusal, request) {
                    // Reads go on.
                    (Some(refusal), request) if request.value_bytes_max() > 0 => {
                        due[whose].put(at, 0, request.refused(refusal.clone()));
                    }
                    _ => requests.push((request, (whose as u32, at as u32))),
                }
            }
        }
        let catalog = self.catalog.load();
        let now = self.time.now();
        let batch = self.shard.process(&catalog, &requests, now, |(whose, at), needs_batch, response| {
            due[whose as usize].put(at as usize, needs_batch, response);
        });
        if let Some(batch) = batch {
            let permit = permit.unwrap_or_else(|| unreachable!("a batch comes of writes that were admitted"));
            self.health.logged(batch.entry_bytes() as u64);
            traffic.in_flight.push_back(InFlight {
                number: self.shard.last_batch(),
                time: now,
                writing: Box::pin(self.log.append(&batch, permit)),
                due: Vec::new(),
                marks: Vec::new(),
            });
        }
        let mut ready = Vec::new();
        for ((requests, range), due) in asked.drain(..).zip(due.drain(..)) {
            if range.end < requests.as_slice().len() {
                traffic.backlog.push_front(PendingBatch { requests, decided: range.end, due });
            } else if self.shard.is_durable(due.needs_batch) || mutated!(AckBeforeSync) {
                ready.push(due);
            } else {
                let oldest = traffic.in_flight.front().map_or(due.needs_batch, |first| first.number);
                traffic.in_flight[(due.needs_batch - oldest) as usize].due.push(due);
            }
        }
        self.answers.give(ready);
    }

    /// Takes as much from the backlog as a batch holds. Of the last that is taken, some requests may be left.
    fn take(&self, traffic: &mut ShardQueues) -> BatchInput {
        let limits = self.log.limits();
        let requests_max = self.options.batch_requests_max.min(limits.batch_entries_max);
        let mut taken = BatchInput::default();
        let mut count = 0;
        let mut full = false;
        while !full && let Some(PendingBatch { requests, decided, due }) = traffic.backlog.pop_front() {
            let mut end = decided;
            for request in &requests.as_slice()[decided..] {
                let size = request.value_bytes_max();
                // One request goes, whatever it takes: it is refused if it is too large.
                full = count > 0 && (count >= requests_max || taken.bytes + size > limits.batch_bytes_max);
                if full {
                    break;
                }
                count += 1;
                end += 1;
                taken.bytes += size;
                taken.writes += usize::from(size > 0);
            }
            if end == decided {
                traffic.backlog.push_front(PendingBatch { requests, decided, due });
            } else {
                taken.asked.push((requests, decided..end));
                taken.due.push(due);
            }
        }
        traffic.waiting -= count;
        taken
    }

    fn admit(&self, writes: usize, bytes: usize) -> Result<Reservation, EngineError> {
        let (_, ids) = self.shard.recent_ids();
        let (dirty, _) = self.shard.cell_bytes();
        let share = self.options.dirty_bytes_max / self.options.shards;
        if ids > LAG_MAX * self.options.recent_ids || dirty > share {
            return Err(match self.health.last_error() {
                Some(why) => EngineError::Full(why),
                None => EngineError::Busy("checkpoints lag behind"),
            });
        }
        self.log.reserve(writes, bytes).map_err(|failure| match failure {
            LogError::Full(why) => EngineError::Full(why),
            LogError::Busy(_) => EngineError::Busy("the log lags behind"),
            LogError::Unavailable(_) if self.health.closing() => EngineError::Closed,
            other => EngineError::Storage(other.to_string()),
        })
    }

    /// Answers what waited for the first batch on its way. False if that batch was given up: then the shard must end.
    fn written(&mut self, written: Result<(), LogError>, traffic: &mut ShardQueues) -> bool {
        let Some(batch) = traffic.in_flight.pop_front() else { unreachable!("it was polled just now") };
        match written {
            Ok(()) => {}
            // What this shard holds in memory is not what the log holds. It can only stop; when closing, in peace.
            Err(LogError::Unknown(_) | LogError::Unavailable(_)) if self.health.closing() => return false,
            Err(failure) => panic!("the log failed after it accepted a batch: {failure}"),
        }
        self.shard.durable(batch.number);
        self.health.reached(Timestamp::from_millis(batch.time.as_nanos() / 1_000_000));
        self.answers.give(batch.due);
        for (reply, slots) in batch.marks {
            drop(reply.send(slots));
        }
        // Nobody listens once the engine is closing: the log has everything, the next start replays it.
        if let Some(frozen) = traffic.ids.take_if(|frozen| frozen.batch <= batch.number) {
            drop(self.jobs.send(Job::Ids { shard: self.number, frozen }));
        }
        if let Some(frozen) = traffic.values.take_if(|frozen| frozen.batch <= batch.number) {
            drop(self.jobs.send(Job::Values { shard: self.number, frozen }));
        }
        true
    }

    fn freeze_if_due(&mut self, traffic: &mut ShardQueues) {
        let due = self.health.checkpoint_due(self.number);
        if due && !traffic.storing_ids && !traffic.storing_values {
            self.health.checkpoint_begun(self.number);
        }
        let (ids, _) = self.shard.recent_ids();
        if due || ids >= self.options.recent_ids {
            self.freeze_ids(traffic);
        }
        let (dirty, _) = self.shard.cell_bytes();
        let wanted = !traffic.to_be_stored.is_empty();
        if due || wanted || dirty >= self.options.dirty_bytes_max / self.options.shards / 2 {
            self.freeze_values(traffic);
        }
    }

    fn freeze_ids(&mut self, traffic: &mut ShardQueues) {
        if traffic.storing_ids {
            return;
        }
        traffic.storing_ids = true;
        let frozen = self.shard.freeze_ids();
        if traffic.in_flight.is_empty() || mutated!(IdsBeforeDurable) {
            drop(self.jobs.send(Job::Ids { shard: self.number, frozen }));
        } else {
            traffic.ids = Some(frozen);
        }
    }

    fn freeze_values(&mut self, traffic: &mut ShardQueues) {
        if traffic.storing_values {
            return;
        }
        traffic.storing_values = true;
        traffic.stored.append(&mut traffic.to_be_stored);
        self.shard.freeze_values(self.time.now());
    }

    /// Copies some of what is frozen; what is copied whole goes to the store once it is durable.
    fn copy_values(&mut self, traffic: &mut ShardQueues) {
        let Some(frozen) = self.shard.copy_values(self.options.copy_cells) else { return };
        if self.shard.is_durable(frozen.batch) || mutated!(ValuesBeforeDurable) {
            drop(self.jobs.send(Job::Values { shard: self.number, frozen }));
        } else {
            traffic.values = Some(frozen);
        }
    }
}

/// What is to be decided together.
#[derive(Default)]
struct BatchInput {
    asked: Vec<(Requests, Range<usize>)>,
    /// The answers to them.
    due: Vec<PendingResponse>,
    bytes: usize,
    writes: usize,
}

enum Event {
    Received,
    Leisure,
    Written(Result<(), LogError>),
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
    use crate::recovery::{Recovered, find, replay_log};
    use crate::response::OperationOutcome;
    use crate::shard::Stores;
    use crate::values::MemoryValues;

    /// A shard at work on a disk that can be made to take nothing; its stores are elsewhere, and would take everything.
    struct Scenario {
        disk: FaultDisk,
        log: Arc<Wal<FaultDisk>>,
        health: Arc<Health>,
        door: mpsc::Sender<Message>,
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
        let found = find(&*log, &stores, &note, || [7; 16]).unwrap();
        let catalog = Arc::new(found.catalog.create("t", TableSettings::default()).unwrap());
        let known = (found.secret, found.partitions, &found.kept);
        let Recovered { mut shards, logged, .. } =
            replay_log(&*log, &stores, &catalog, known, &options).unwrap();
        let table = catalog.find("t").unwrap().id;
        let millis = time.now().as_nanos() / 1_000_000;
        let request = move |number: u64, reply| {
            let bits = u128::from(millis) << 80 | 7 << 76 | 0b10 << 62 | u128::from(number);
            let id = OpId::uuid7(bits).unwrap();
            let row = number.to_be_bytes();
            let cell = Cell::new(&found.secret, table, &row, &Column::unnamed()).unwrap();
            let operation = Operation::single(Some(id), cell, Change::Add(1)).unwrap();
            let request = Request::apply(operation, &found.secret, &mut Vec::new());
            Message::Request { request, reply }
        };
        let health = Arc::new(Health::new(1, 0, logged));
        let (door, queue) = mpsc::channel(options.queue_max);
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
            answers: ResponseDispatcher::at_once(),
            bursting: Arc::default(),
            yields_first,
        };
        (Scenario { disk, log, health, door, jobs, request: Box::new(request) }, worker)
    }

    impl Scenario {
        fn ask(&self, number: u64) -> oneshot::Receiver<Response> {
            let (reply, answer) = oneshot::channel();
            self.tell((self.request)(number, reply));
            answer
        }

        fn tell(&self, message: Message) {
            assert!(self.door.try_send(message).is_ok());
        }

        fn mark(&self, durable: bool) -> oneshot::Receiver<Slots> {
            let (reply, slots) = oneshot::channel();
            self.tell(Message::Mark { durable, reply });
            slots
        }
    }

    /// A checkpoint is frozen after the batch that is given up, or is due when it is. The latter is a matter of moments, and tried
    /// more than once.
    #[test]
    fn nothing_of_a_batch_that_is_given_up_goes_anywhere() {
        for frozen_before in [true, false].repeat(8) {
            let (scenario, worker) = scenario(false, 512);
            let thread = std::thread::spawn(move || block_on(worker.run()));
            let acknowledged = block_on(scenario.ask(1)).unwrap();
            assert!(
                matches!(acknowledged, Response::Applied(Ok(OperationOutcome::Fresh(_)))),
                "{acknowledged:?}"
            );
            scenario.disk.set_read_only(true);
            if frozen_before {
                scenario.health.demand_checkpoint();
            }
            let given_up = scenario.ask(2);
            // When the first of these is answered, the request is about to be decided; with the second, it was.
            block_on(scenario.mark(false)).unwrap();
            let mark = scenario.mark(true);
            block_on(scenario.mark(false)).unwrap();
            scenario.health.demand_checkpoint();
            scenario.health.close();
            scenario.log.stop_waiting_for_space();
            drop(scenario.door);
            thread.join().unwrap();
            assert!(block_on(given_up).is_err(), "it was answered");
            assert!(block_on(mark).is_err(), "it was called durable");
            let batch = |job| match job {
                Job::Ids { frozen, .. } => frozen.batch,
                Job::Values { frozen, .. } => frozen.batch,
            };
            let mut handed_out = scenario.jobs.iter().map(batch);
            assert!(
                handed_out.all(|batch| batch == 1),
                "what was frozen after it was handed out to be stored"
            );
        }
    }

    /// A task among others must not keep them waiting while it copies, though nobody asks it for anything.
    #[test]
    fn others_come_in_between_the_steps_of_a_checkpoint() {
        const CELLS: u64 = 20;
        for yields_first in [true, false] {
            let (scenario, worker) = scenario(yields_first, 1);
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let mut work = std::pin::pin!(worker.run());
            let mut step = || assert!(work.as_mut().poll(&mut context).is_pending());
            let mut answers: Vec<_> = (0..CELLS).map(|number| scenario.ask(number)).collect();
            while !answers.is_empty() {
                step();
                answers.retain_mut(|answer| answer.try_recv().is_err());
            }
            let (reply, _stored) = oneshot::channel();
            scenario.tell(Message::Stored(reply));
            let mut steps = 0;
            while !scenario.jobs.try_iter().any(|job| matches!(job, Job::Values { .. })) {
                step();
                steps += 1;
            }
            assert_eq!(steps >= CELLS, yields_first, "{steps} steps");
        }
    }
}
