//! The service shared by both protocols.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jeton_auth::{Access, AuthContext};
use jeton_core::{
    Addition, BranchName, BranchOutcome, Change, MissingIdPolicy, Operation, TableSettings, Value,
};
use jeton_engine::{
    Ask, CommittedCount, CreationQuota, EngineError, FinishResult, OperationOutcome, PrepareError,
    PrepareResult, Request, Response, TableError,
};

use tokio::sync::Notify;

use crate::change_feed::{ChangeEvent, ChangeFeed};
use crate::client_memory::{self, ClientMemory};
use crate::log_limit::LogLimit;
use crate::metrics::{Metric, Metrics};
use crate::quota::{BranchCharges, CounterQuota};
use crate::resp::Cursors;
use crate::store::Store;
use crate::transactions::Transactions;

#[derive(Debug, Clone)]
pub struct Options {
    /// Table of keys without a table name.
    pub default_table: String,
    /// Whether `FLUSHALL` and `FLUSHDB` are allowed.
    pub allow_flush: bool,
    /// Maximum open connections per protocol.
    pub connections_max: usize,
    /// Timeout for a client to send its first request, and to complete a started one.
    pub request_read_timeout: Duration,
    pub request_timeout: Duration,
    pub request_bytes_max: usize,
    /// Names, with or without a port, under which clients may address the server over HTTP, besides IP
    /// addresses, `localhost` and the host name of the machine.
    pub http_hosts: Vec<String>,
    /// Maximum memory of all connections and streams together: requests, replies, queued commands.
    pub client_memory_max: usize,
    /// Directory below which backups over HTTP are made; without it there are none.
    pub backup_dir: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            default_table: "default".into(),
            allow_flush: false,
            connections_max: client_memory::default_connections(),
            request_read_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(30),
            request_bytes_max: 8 << 20,
            http_hosts: Vec::new(),
            client_memory_max: client_memory::default_max(),
            backup_dir: None,
        }
    }
}

pub struct Service {
    pub engine: Store,
    pub access: Arc<Access>,
    pub options: Options,
    pub metrics: Metrics,
    pub client_memory: Arc<ClientMemory>,
    pub changes: ChangeFeed,
    pub transactions: Arc<Transactions>,
    pub(crate) cursors: Cursors,
    pub(crate) branch_charges: BranchCharges,
    pub(crate) process: Process,
    /// The port of RESP; 0 before the server listens.
    resp_port: AtomicU16,
    http_on_resp: LogLimit,
    pub(crate) auth_failure_log: LogLimit,
    /// Locked while a backup is made.
    pub(crate) copying: Mutex<()>,
    /// Connections with a request in flight.
    in_flight: AtomicUsize,
    /// Whether connections close after the request in flight.
    stopping: AtomicBool,
    idle: Notify,
}

/// One run of the server.
pub(crate) struct Process {
    pub started: Instant,
    /// 40 random hexadecimal digits, by which clients notice a restart.
    pub run_id: String,
}

impl Process {
    fn new() -> Self {
        let mut random = [0; 20];
        // Without randomness every run has the id 0; nothing depends on it.
        let _may_be_zero = getrandom::fill(&mut random);
        let run_id = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { started: Instant::now(), run_id }
    }
}

/// Marks a connection as having a request in flight until it is dropped.
pub(crate) struct InFlightGuard(Arc<Service>);

impl InFlightGuard {
    pub fn begin(service: &Arc<Service>) -> Self {
        service.in_flight.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(service))
    }

    /// Whether the connection must close after this request.
    pub fn is_last(&self) -> bool {
        self.0.stopping.load(Ordering::SeqCst)
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        if self.0.in_flight.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.stopping.load(Ordering::SeqCst) {
            self.0.idle.notify_waiters();
        }
    }
}

/// Counts a connection while it is open.
pub(crate) struct OpenConnection(Arc<Service>, Metric);

impl OpenConnection {
    /// Adds to the counter `accepted` and to the gauge `open`, until it is dropped.
    pub fn new(service: &Arc<Service>, accepted: Metric, open: Metric) -> Self {
        service.metrics.add(accepted, 1);
        service.metrics.add(open, 1);
        Self(Arc::clone(service), open)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.metrics.take(self.1, 1);
    }
}

impl Service {
    /// Creates a service on a store, and the default table if it does not exist.
    pub fn new(engine: impl Into<Store>, access: Arc<Access>, options: Options) -> Result<Self, TableError> {
        let engine = engine.into();
        if engine.table(&options.default_table).is_err() {
            // Redis commands have no ids and must work on the default table.
            let settings =
                TableSettings { without_id: MissingIdPolicy::RespOnly, ..TableSettings::default() };
            let created = engine.create_table(&options.default_table, settings);
            // Another node of the cluster may have created it at the same time.
            if engine.table(&options.default_table).is_err() {
                created?;
            }
        }
        Ok(Self {
            client_memory: Arc::new(ClientMemory::new(options.client_memory_max)),
            engine,
            access,
            options,
            metrics: Metrics::default(),
            changes: ChangeFeed::default(),
            transactions: Transactions::none(),
            cursors: Cursors::default(),
            branch_charges: BranchCharges::default(),
            process: Process::new(),
            resp_port: AtomicU16::new(0),
            http_on_resp: LogLimit::default(),
            auth_failure_log: LogLimit::default(),
            copying: Mutex::new(()),
            in_flight: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            idle: Notify::new(),
        })
    }

    #[must_use]
    pub fn with_transactions(self, transactions: Arc<Transactions>) -> Self {
        Self { transactions, ..self }
    }

    /// The time, in milliseconds since 1970.
    pub fn millis(&self) -> u64 {
        self.engine.now().as_nanos() / 1_000_000
    }

    pub(crate) fn set_resp_port(&self, port: u16) {
        self.resp_port.store(port, Ordering::Relaxed);
    }

    pub(crate) fn resp_port(&self) -> u16 {
        self.resp_port.load(Ordering::Relaxed)
    }

    /// Counts and logs an HTTP request to the port of RESP, which a web page may have sent.
    pub fn report_http_on_resp(&self, peer: &str) {
        self.metrics.add(Metric::HttpOnResp, 1);
        if let Some(suppressed) = self.http_on_resp.permit(self.millis()) {
            tracing::warn!(
                peer,
                suppressed,
                "possible attack: closed a connection with an HTTP request to the port of RESP"
            );
        }
    }

    /// Makes connections close after their request in flight, and waits until none is in flight, at most 10
    /// s.
    pub async fn stop(&self) {
        const STOP_TIMEOUT: Duration = Duration::from_secs(10);
        self.stopping.store(true, Ordering::SeqCst);
        let all_idle = async {
            loop {
                let idle = self.idle.notified();
                if self.in_flight.load(Ordering::SeqCst) == 0 {
                    return;
                }
                idle.await;
            }
        };
        let _or_timeout = tokio::time::timeout(STOP_TIMEOUT, all_idle).await;
    }

    /// Submits operations and reads, counts them, and publishes the changes.
    pub async fn submit_batch(&self, requests: Vec<Ask>) -> Vec<Response> {
        self.submit_prehashed(requests.into_iter().map(|request| self.engine.to_request(request)).collect())
            .await
    }

    /// As [`submit_batch`](Self::submit_batch), for requests that are hashed already.
    pub async fn submit_prehashed(&self, requests: Vec<Request>) -> Vec<Response> {
        let published = self.changes.has_subscribers().then(|| requests.clone());
        let responses = self.engine.submit_prehashed(requests).await;
        self.metrics.add_responses(&responses);
        if let Some(requests) = published {
            for (request, response) in requests.iter().zip(&responses) {
                if let (Some(operation), Response::Applied(reply)) = (request.operation(), response) {
                    self.publish(operation, reply);
                }
            }
        }
        responses
    }

    /// Submits requests of a client, except those that exceed the counter quota of the client.
    pub async fn submit_as(&self, auth: &AuthContext, mut requests: Vec<Request>) -> Vec<Response> {
        let Some(name) = auth.name() else { return self.submit_prehashed(requests).await };
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let principal = hasher.finish().max(1);
        requests.iter_mut().for_each(|request| request.set_principal(principal));
        let quota: Arc<dyn CreationQuota> = Arc::new(CounterQuota(auth.clone()));
        self.submit_prehashed(requests.into_iter().map(|one| one.with_quota(&quota)).collect()).await
    }

    /// Prepares a branch of a transaction of a client, unless it exceeds the counter quota of the client.
    pub async fn prepare_branch_as(
        &self,
        auth: &AuthContext,
        name: &BranchName,
        additions: Vec<Addition>,
    ) -> Result<PrepareResult, PrepareError> {
        if auth.name().is_none() {
            return self.engine.prepare_branch(name, additions, None).await;
        }
        // Before the prepare, so that an abort that follows it finds the charge.
        let quota = self.branch_charges.begin(name, auth);
        let vote = self.engine.prepare_branch(name, additions, Some(&quota)).await;
        self.branch_charges.remove_unused(name);
        vote
    }

    /// Commits or aborts a branch of a transaction, and publishes its changes.
    pub async fn finish_branch(
        &self,
        name: &BranchName,
        outcome: BranchOutcome,
    ) -> Result<FinishResult, EngineError> {
        let quota = self.branch_charges.finishing(name);
        let finished = self.engine.finish_branch(name, outcome, quota.as_ref()).await;
        if let Ok(FinishResult::Done { counted, .. }) = &finished {
            self.branch_charges.settle(name);
            self.metrics.add(Metric::Applied, counted.len() as u64);
            for CommittedCount { cell, value, slot, millis } in counted {
                let (cell, value, slot, millis) = (cell.clone(), *value, *slot, *millis);
                self.changes.publish(ChangeEvent { cell, value, slot, millis });
            }
        }
        finished
    }

    fn publish(&self, operation: &Operation, outcome: &Result<OperationOutcome, EngineError>) {
        let Ok(OperationOutcome::Fresh(result)) = outcome else { return };
        if !result.applied {
            return;
        }
        let mut appended = None;
        for ((cell, change), value) in operation.changes().zip(result.values.as_slice()) {
            match change {
                // Its result is a length. The counter, if there is one, is the result of the check that
                // follows it.
                Change::Append(_) => {
                    appended = Some(cell);
                    continue;
                }
                Change::Check(_) if appended != Some(cell) => continue,
                _ => {}
            }
            let (slot, millis) = (result.slot, result.millis);
            self.changes.publish(ChangeEvent { cell: cell.clone(), value: *value, slot, millis });
        }
    }
}

/// The value of a response to a read.
pub(crate) fn read_value(response: Response) -> Result<Option<Value>, EngineError> {
    match response {
        Response::Read(value) => value,
        Response::Applied(Err(error)) | Response::Recalled(Err(error)) => Err(error),
        other => Err(EngineError::Storage(format!("unexpected response to a read: {other:?}"))),
    }
}

/// The outcome of a response to an operation.
pub(crate) fn operation_outcome(response: Response) -> Result<OperationOutcome, EngineError> {
    match response {
        Response::Applied(outcome) => outcome,
        other => Err(EngineError::Storage(format!("unexpected response to an operation: {other:?}"))),
    }
}
