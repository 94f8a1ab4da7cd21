//! What both protocols share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jeton_auth::{Access, AuthContext, Quota};
use jeton_core::{Addition, BranchName, BranchOutcome, MissingIdPolicy, Operation, TableSettings};
use jeton_engine::{
    Ask, CommittedCount, Engine, EngineError, FinishResult, OperationOutcome, PrepareError, PrepareResult,
    Request, Response, TableError,
};

use tokio::sync::Notify;

use crate::change_feed::{ChangeEvent, ChangeFeed};
use crate::metrics::{Metric, Metrics};
use crate::quota;
use crate::resp::Cursors;
use crate::transactions::Transactions;

/// What can be chosen about the service.
#[derive(Debug, Clone)]
pub struct Options {
    /// The table of keys that name none.
    pub default_table: String,
    /// Whether all counters of a table may be deleted by one command.
    pub allow_flush: bool,
    /// Connections that may be open, of each protocol.
    pub connections_max: usize,
    /// How long a connection may take to say its first word, and to end one it has begun.
    pub word_timeout: Duration,
    /// How long a request may wait for its answer.
    pub answer_timeout: Duration,
    /// The longest request.
    pub request_bytes_max: usize,
    /// The directory below which copies of the store are made. Without it they are made anywhere, for callers on this machine.
    pub backup_dir: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            default_table: "default".into(),
            allow_flush: false,
            connections_max: 10_000,
            word_timeout: Duration::from_secs(30),
            answer_timeout: Duration::from_secs(30),
            request_bytes_max: 8 << 20,
            backup_dir: None,
        }
    }
}

/// The engine, who may do what, what is counted about the service itself, and who watches.
pub struct Service {
    /// The store.
    pub engine: Arc<Engine>,
    /// Who may do what.
    pub access: Arc<Access>,
    /// What was chosen.
    pub options: Options,
    /// What is counted.
    pub metrics: Metrics,
    /// Who watches.
    pub changes: ChangeFeed,
    /// Transactions over databases, if they are set up.
    pub transactions: Arc<Transactions>,
    /// Where walks through the keys are.
    pub(crate) cursors: Cursors,
    /// Held while a copy of the store is made.
    pub(crate) copying: Mutex<()>,
    /// Connections that are at work, and whether they are to end with that.
    working: AtomicUsize,
    stopping: AtomicBool,
    idle: Notify,
}

/// A connection at work, for as long as this is held.
pub(crate) struct InFlightGuard(Arc<Service>);

impl InFlightGuard {
    pub fn begin(service: &Arc<Service>) -> Self {
        service.working.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(service))
    }

    /// Whether nothing more is to be done after it.
    pub fn is_last(&self) -> bool {
        self.0.stopping.load(Ordering::SeqCst)
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        if self.0.working.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.stopping.load(Ordering::SeqCst) {
            self.0.idle.notify_waiters();
        }
    }
}

impl Service {
    /// A service on this store. The table of keys that name none is made, if it is not there.
    pub fn new(engine: Arc<Engine>, access: Arc<Access>, options: Options) -> Result<Self, TableError> {
        if engine.table(&options.default_table).is_err() {
            // The verbs of Redis have no ids, and must work on it.
            let settings =
                TableSettings { without_id: MissingIdPolicy::AtMostOnce, ..TableSettings::default() };
            engine.create_table(&options.default_table, settings)?;
        }
        Ok(Self {
            engine,
            access,
            options,
            metrics: Metrics::default(),
            changes: ChangeFeed::default(),
            transactions: Transactions::none(),
            cursors: Cursors::default(),
            copying: Mutex::new(()),
            working: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            idle: Notify::new(),
        })
    }

    /// The same, with transactions.
    #[must_use]
    pub fn with_transactions(self, transactions: Arc<Transactions>) -> Self {
        Self { transactions, ..self }
    }

    /// The time, in milliseconds since 1970.
    pub fn millis(&self) -> u64 {
        self.engine.now().as_nanos() / 1_000_000
    }

    /// Lets connections end with what they are at work on, and comes back when none is at work, or when that takes too long.
    pub async fn stop(&self) {
        const PATIENCE: Duration = Duration::from_secs(10);
        self.stopping.store(true, Ordering::SeqCst);
        let all_idle = async {
            loop {
                let idle = self.idle.notified();
                if self.working.load(Ordering::SeqCst) == 0 {
                    return;
                }
                idle.await;
            }
        };
        let _or_too_long = tokio::time::timeout(PATIENCE, all_idle).await;
    }

    /// Does an operation, counts it, and tells those who watch.
    pub async fn apply(&self, operation: Operation) -> Result<OperationOutcome, EngineError> {
        let watched = self.changes.are_watched().then(|| operation.clone());
        let reply = self.engine.apply(operation).await;
        self.metrics.add_outcome(&reply);
        if let Some(operation) = watched {
            self.tell(&operation, &reply);
        }
        reply
    }

    /// Does many operations and reads, counts them, and tells those who watch.
    pub async fn submit_batch(&self, asks: Vec<Ask>) -> Vec<Response> {
        self.submit_prehashed(asks.into_iter().map(|ask| self.engine.to_request(ask)).collect()).await
    }

    /// As [`burst`](Self::burst), of what the engine has prepared.
    pub async fn submit_prehashed(&self, requests: Vec<Request>) -> Vec<Response> {
        let watched = self.changes.are_watched().then(|| requests.clone());
        let responses = self.engine.submit_prehashed(requests).await;
        self.metrics.add_responses(&responses);
        if let Some(requests) = watched {
            for (request, response) in requests.iter().zip(&responses) {
                if let (Some(operation), Response::Applied(reply)) = (request.operation(), response) {
                    self.tell(operation, reply);
                }
            }
        }
        responses
    }

    /// Does an operation for somebody: not if it would create more counters than they may.
    pub async fn apply_as(
        &self,
        pass: &AuthContext,
        operation: Operation,
    ) -> Result<OperationOutcome, EngineError> {
        if !pass.is_limited(Quota::Counters) {
            return self.apply(operation).await;
        }
        let request = self.engine.to_request(Ask::Apply(operation));
        match quota::submit_batch(self, pass, vec![request]).await.pop() {
            Some(Response::Applied(reply)) => reply,
            _ => Err(EngineError::Closed),
        }
    }

    /// Does many operations and reads for somebody: not those that would create more counters than they may.
    pub async fn submit_as(&self, pass: &AuthContext, requests: Vec<Request>) -> Vec<Response> {
        if !pass.is_limited(Quota::Counters) {
            return self.submit_prehashed(requests).await;
        }
        quota::submit_batch(self, pass, requests).await
    }

    /// Holds a branch of a transaction for somebody: not if it would create more counters than they may.
    pub async fn hold_as(
        &self,
        pass: &AuthContext,
        name: &BranchName,
        additions: Vec<Addition>,
    ) -> Result<PrepareResult, PrepareError> {
        if pass.is_limited(Quota::Counters) {
            return quota::prepare_branch(self, pass, name, additions).await;
        }
        self.engine.prepare_branch(name, additions).await
    }

    /// Ends a branch of a transaction, and tells those who watch.
    pub async fn finish_branch(
        &self,
        name: &BranchName,
        ending: BranchOutcome,
    ) -> Result<FinishResult, EngineError> {
        let settled = self.engine.finish_branch(name, ending).await;
        if let Ok(FinishResult::Done { counted, .. }) = &settled {
            self.metrics.add(Metric::Applied, counted.len() as u64);
            for CommittedCount { cell, value, slot, millis } in counted {
                let (cell, value, slot, millis) = (cell.clone(), *value, *slot, *millis);
                self.changes.tell(ChangeEvent { cell, value, slot, millis });
            }
        }
        settled
    }

    fn tell(&self, operation: &Operation, reply: &Result<OperationOutcome, EngineError>) {
        let Ok(OperationOutcome::Fresh(answer)) = reply else { return };
        if !answer.applied {
            return;
        }
        for ((cell, _), value) in operation.changes().zip(answer.values.as_slice()) {
            let (slot, millis) = (answer.slot, answer.millis);
            self.changes.tell(ChangeEvent { cell: cell.clone(), value: *value, slot, millis });
        }
    }
}
