//! One process of the simulated machine, from its start to its crash or shutdown.
//!
//! The threads of the engine are steps here: workers are polled, jobs, filters and catalogue are stored as
//! the engine stores them. Nothing happens unless the scheduler calls it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::task::{Context, Poll, Waker};

use jeton_core::{Hashes, Operation, PartitionId, Secret, SettingsError, TableSettings};
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

/// Delay between the expiry of a generation and its removal, as in the engine.
const SLACK_MILLIS: u64 = 60_000;

pub struct SimProcess {
    pub log: Arc<SimLog>,
    pub stores: Stores<SimValues, FaultDisk>,
    pub tables: Tables<SimLog>,
    pub health: Arc<Health>,
    pub(crate) time: Arc<StoreTime<SimClock>>,
    pub(crate) secret: Secret,
    pub(crate) checkpointer: Checkpointer<SimLog, SimValues, FaultDisk>,
    pub(crate) workers: Vec<Option<Pin<Box<dyn Future<Output = ()>>>>>,
    pub(crate) senders: Vec<mpsc::Sender<Message>>,
    pub(crate) jobs: std_mpsc::Receiver<Job>,
    pub(crate) waiting: VecDeque<Job>,
    /// Messages for shards whose queue was full.
    pub(crate) messages: VecDeque<(usize, Message)>,
    pub(crate) filters: Filters,
}

impl SimProcess {
    /// Submits an operation; `None` if the queue is full.
    pub fn apply(&self, operation: Operation) -> Option<oneshot::Receiver<Response>> {
        let hashes = Hashes::of(&operation, &self.secret, &mut Vec::new());
        let bytes_max = operation.size_max();
        self.send(Request::Apply { operation, hashes, bytes_max, quota: None })
    }

    /// Submits a request about a branch; `None` if the queue is full.
    pub fn branch(&self, what: BranchRequest, partition: PartitionId) -> Option<oneshot::Receiver<Response>> {
        self.send(Request::branch(what, partition, &self.secret))
    }

    /// Submits a read; `None` if the queue is full.
    pub fn read(&self, cell: jeton_core::Cell) -> Option<oneshot::Receiver<Response>> {
        self.send(Request::Read { cell })
    }

    fn send(&self, request: Request) -> Option<oneshot::Receiver<Response>> {
        let (reply, answer) = oneshot::channel();
        let sender = &self.senders[usize::from(request.partition().0) % self.senders.len()];
        sender.try_send(Message::Request { request, reply }).ok().map(|()| answer)
    }

    /// Runs a shard until it waits.
    pub fn poll(&mut self, shard: usize) {
        let mut context = Context::from_waker(Waker::noop());
        if let Some(worker) = &mut self.workers[shard]
            && let Poll::Ready(()) = worker.as_mut().poll(&mut context)
        {
            self.workers[shard] = None;
        }
        self.waiting.extend(self.jobs.try_iter());
    }

    pub fn shards(&self) -> usize {
        self.workers.len()
    }

    /// Sends the messages for which queues had no room.
    pub fn deliver(&mut self) {
        for _ in 0..self.messages.len() {
            if let Some((shard, message)) = self.messages.pop_front() {
                self.send_message(shard, message);
            }
        }
    }

    fn send_message(&mut self, shard: usize, message: Message) {
        let Some(sender) = self.senders.get(shard) else { return };
        if let Err(mpsc::error::TrySendError::Full(message)) = sender.try_send(message) {
            self.messages.push_back((shard, message));
        }
    }

    /// Stores a frozen memtable, or continues with the filters. `None` if there was nothing to do.
    pub fn store_step(&mut self) -> Option<Result<&'static str, CheckpointError>> {
        if self.filters.begun() {
            return self.filters_step();
        }
        let mut job = self.waiting.pop_front()?;
        let done = match &mut job {
            Job::Ids { frozen, .. } => self.checkpointer.store_ids(frozen),
            Job::Values { frozen, .. } => self.checkpointer.store_values(frozen),
            Job::Filters(_) => unreachable!("an engine sends it, not a shard"),
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
                    Job::Filters(_) => unreachable!("an engine sends it, not a shard"),
                };
                self.send_message(shard, message);
                Ok(what)
            }
            Err(error) => {
                self.health.set_last_error(Some(error.to_string()));
                self.waiting.push_front(job);
                Err(error)
            }
        })
    }

    pub fn filters_step(&mut self) -> Option<Result<&'static str, CheckpointError>> {
        let Self { filters, senders, tables, checkpointer, .. } = self;
        filters.step(senders, &tables.catalog().load(), checkpointer)
    }

    pub fn merge(&self, bytes: u64) -> Result<bool, jeton_engine::ids::Error> {
        self.stores.ids.merge(bytes)
    }

    /// Drops expired data, as the engine does; returns the numbers of eras and generations.
    pub fn expire(&self) -> (Result<usize, LogError>, Result<usize, jeton_engine::ids::Error>) {
        let now = self.health.logged_time();
        for table in self.tables.catalog().load().iter() {
            for era in table.eras() {
                era.maintain(now);
            }
        }
        // Compaction of rows in memory cannot fail.
        drop(self.stores.values.compact(self.health.expiry_horizon().as_nanos() / 1_000_000));
        let eras = self.tables.drop_expired(now);
        (eras, self.stores.ids.drop_expired((now.as_nanos() / 1_000_000).saturating_sub(SLACK_MILLIS)))
    }

    /// Creates a table or changes its settings. After a storage error the outcome is unknown.
    pub fn set_table(&mut self, name: &str, settings: TableSettings) -> Result<(), SetTableError> {
        let known = self.tables.catalog().load().find(name).is_some();
        let done = if known {
            self.tables.alter(name, settings, || self.time.now(), self.health.logged_time())
        } else {
            self.tables.create(name, settings, self.time.now())
        };
        done.map_err(|error| match error {
            TableError::Settings(error) => SetTableError::Settings(error),
            error => SetTableError::Storage(error.to_string()),
        })
    }

    /// Completes the requests in flight and stops. False if the log rejects all writes.
    pub fn close(mut self) -> bool {
        self.health.close();
        self.messages.clear();
        self.senders.clear();
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

#[derive(Debug)]
pub enum SetTableError {
    /// Invalid settings. Nothing changed.
    Settings(SettingsError),
    Storage(String),
}
