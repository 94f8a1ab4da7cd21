//! A life: one process of the simulated machine, from its start to its crash or its end.
//!
//! What the engine does with threads is done here by steps, with the same parts: workers are polled, jobs stored, filters and
//! catalogue written as `Engine` and its threads write them. Nothing happens unless the scheduler calls for it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::task::{Context, Poll, Waker};

use jeton_core::{Hashes, Operation, PartitionId, Secret, SettingsError, TableSettings};
use jeton_engine::ids::IdIndex;
use jeton_engine::internals::{Health, Job, Message, StoreTime, Tables};
use jeton_engine::values::Values as _;
use jeton_engine::{BranchRequest, CheckpointError, Checkpointer, Request, Response, Stores, TableError};
use jeton_wal::Error as LogError;
use jeton_wal::disk::FaultDisk;
use tokio::sync::{mpsc, oneshot};

use crate::clock::SimClock;
use crate::filters::Filters;
use crate::log::SimLog;
use crate::values::SimValues;

/// Generations are dropped this long after they expired, as the engine's upkeep does.
const SLACK_MILLIS: u64 = 60_000;

/// A process of the simulated machine.
pub struct SimProcess {
    /// The journal.
    pub log: Arc<SimLog>,
    /// The value store and the id index.
    pub stores: Stores<SimValues, FaultDisk>,
    /// The tables.
    pub tables: Tables<SimLog>,
    /// What the parts tell one another.
    pub health: Arc<Health>,
    pub(crate) time: Arc<StoreTime<SimClock>>,
    pub(crate) secret: Secret,
    pub(crate) checkpointer: Checkpointer<SimLog, SimValues, FaultDisk>,
    pub(crate) workers: Vec<Option<Pin<Box<dyn Future<Output = ()>>>>>,
    pub(crate) doors: Vec<mpsc::Sender<Message>>,
    pub(crate) jobs: std_mpsc::Receiver<Job>,
    pub(crate) waiting: VecDeque<Job>,
    /// Messages for shards whose queue was full.
    pub(crate) messages: VecDeque<(usize, Message)>,
    pub(crate) filters: Filters,
}

impl SimProcess {
    /// Asks for an operation. Nothing if the queue is full.
    pub fn apply(&self, operation: Operation) -> Option<oneshot::Receiver<Response>> {
        let hashes = Hashes::of(&operation, &self.secret, &mut Vec::new());
        let bytes_max = operation.size_max();
        self.send(Request::Apply { operation, hashes, bytes_max })
    }

    /// Asks for something about a branch. Nothing if the queue is full.
    pub fn branch(&self, what: BranchRequest, partition: PartitionId) -> Option<oneshot::Receiver<Response>> {
        self.send(Request::branch(what, partition, &self.secret))
    }

    /// Asks for what a cell holds. Nothing if the queue is full.
    pub fn read(&self, cell: jeton_core::Cell) -> Option<oneshot::Receiver<Response>> {
        self.send(Request::Read { cell })
    }

    fn send(&self, request: Request) -> Option<oneshot::Receiver<Response>> {
        let (reply, answer) = oneshot::channel();
        let door = &self.doors[usize::from(request.partition().0) % self.doors.len()];
        door.try_send(Message::Request { request, reply }).ok().map(|()| answer)
    }

    /// Lets a shard work until it waits for something.
    pub fn poll(&mut self, shard: usize) {
        let mut context = Context::from_waker(Waker::noop());
        if let Some(worker) = &mut self.workers[shard]
            && let Poll::Ready(()) = worker.as_mut().poll(&mut context)
        {
            self.workers[shard] = None;
        }
        self.waiting.extend(self.jobs.try_iter());
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.workers.len()
    }

    /// Gives shards the messages that did not fit before.
    pub fn deliver(&mut self) {
        for _ in 0..self.messages.len() {
            if let Some((shard, message)) = self.messages.pop_front() {
                self.tell(shard, message);
            }
        }
    }

    fn tell(&mut self, shard: usize, message: Message) {
        let Some(door) = self.doors.get(shard) else { return };
        if let Err(mpsc::error::TrySendError::Full(message)) = door.try_send(message) {
            self.messages.push_back((shard, message));
        }
    }

    /// Whether there is something to be stored.
    pub fn has_job(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Stores what a shard handed out, or goes on with the filters if that has begun. What came of it, if there was anything.
    pub fn keep_step(&mut self) -> Option<Result<&'static str, CheckpointError>> {
        if self.filters.begun() {
            return self.filters_step();
        }
        let mut job = self.waiting.pop_front()?;
        let done = match &mut job {
            Job::Ids { frozen, .. } => self.checkpointer.store_ids(frozen),
            Job::Values { frozen, .. } => self.checkpointer.store_values(frozen),
        };
        Some(match done {
            Ok(()) => {
                self.health.set_last_error(None);
                let (shard, what, message) = match job {
                    Job::Ids { shard, frozen } => (shard, "ids", Message::IdsStored(frozen.freeze)),
                    Job::Values { shard, frozen } => {
                        self.health.stored(shard, frozen.time);
                        (shard, "values", Message::ValuesStored(frozen.freeze))
                    }
                };
                self.tell(shard, message);
                Ok(what)
            }
            Err(error) => {
                self.health.set_last_error(Some(error.to_string()));
                self.waiting.push_front(job);
                Err(error)
            }
        })
    }

    /// Begins to store the filters, or goes on with it.
    pub fn filters_step(&mut self) -> Option<Result<&'static str, CheckpointError>> {
        let Self { filters, doors, tables, checkpointer, .. } = self;
        filters.step(doors, &tables.catalog().load(), checkpointer)
    }

    fn index(&self) -> &IdIndex<FaultDisk> {
        &self.stores.ids
    }

    /// Merges about this number of bytes.
    pub fn merge(&self, bytes: u64) -> Result<bool, jeton_engine::ids::Error> {
        self.index().merge(bytes)
    }

    /// Lets go of what has expired, as the engine's upkeep does: how many eras, and how many generations.
    pub fn expire(&self) -> (Result<usize, LogError>, Result<usize, jeton_engine::ids::Error>) {
        let now = self.health.logged_time();
        for table in self.tables.catalog().load().iter() {
            for era in table.eras() {
                era.maintain(now);
            }
        }
        // Of rows in memory nothing is left to do, and nothing fails.
        drop(self.stores.values.compact(self.health.expiry_horizon().as_nanos() / 1_000_000));
        let eras = self.tables.drop_expired(now);
        (eras, self.index().drop_expired((now.as_nanos() / 1_000_000).saturating_sub(SLACK_MILLIS)))
    }

    /// Makes a table, or gives one other settings. An error that is not about the settings leaves open whether it happened.
    pub fn set_table(&mut self, name: &str, settings: TableSettings) -> Result<(), SetTableError> {
        let known = self.tables.catalog().load().find(name).is_some();
        let done = if known {
            self.tables.alter(name, settings, || self.time.now(), self.health.logged_time())
        } else {
            self.tables.create(name, settings)
        };
        done.map_err(|error| match error {
            TableError::Settings(error) => SetTableError::Settings(error),
            error => SetTableError::Storage(error.to_string()),
        })
    }

    /// Answers the requests in flight and stops. False if the log rejects all writes.
    pub fn close(mut self) -> bool {
        self.health.close();
        self.messages.clear();
        self.doors.clear();
        for _ in 0..10_000 {
            for shard in 0..self.shards() {
                self.poll(shard);
            }
            if self.workers.iter().all(Option::is_none) {
                self.log.flush();
                return self.log.fatal().is_none();
            }
            if self.log.fatal().is_some() || !self.log.flush_step() {
                return false;
            }
        }
        false
    }
}

/// Why a table is not what was asked for.
#[derive(Debug)]
pub enum SetTableError {
    /// The settings cannot be. Nothing changed.
    Settings(SettingsError),
    /// They could not be stored.
    Storage(String),
}
