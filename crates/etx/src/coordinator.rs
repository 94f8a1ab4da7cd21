//! The coordinator of a server: executes each request once, answers it, and recovers the branches of other
//! servers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jeton_register::Registers;
use tokio::sync::watch;

use crate::answered_watermarks::AnsweredWatermarks;
use crate::coordinator_task::run;
use crate::decision_gc::date_of;
use crate::decision_log::DecisionLog;
use crate::failure_detector::{PeerStatus, Peers};
use crate::logic::{ProcedureCall, ProcedureLogic};
use crate::{AttemptNumber, ClientOutcome, Cluster, CoordinatorId, RequestId, Resource, TransactionRequest};

const GRACE_MAX: Duration = Duration::from_secs(3600);

/// Settings of a coordinator.
#[derive(Debug, Clone)]
pub struct Options {
    /// Identifies the cluster among others that share its databases.
    pub cluster: Cluster,
    /// The number of this server in the cluster.
    pub server: u16,
    /// A random number, different at each start. Another incarnation of this server is not running any more.
    pub incarnation: u64,
    /// Limit for one execution of a procedure.
    pub procedure_timeout: Duration,
    /// How long a request waits for an unavailable database before it is answered with
    /// [`ClientOutcome::Unavailable`].
    pub unavailable_timeout: Duration,
    /// Interval between two recovery runs.
    pub recovery_interval: Duration,
    /// Limit of requests in flight.
    pub max_in_flight: usize,
    /// Retention of decisions, counted from the date of a session. Requests of older sessions are refused.
    pub window: Duration,
    /// Tolerance for session dates in the future.
    pub ahead_max: Duration,
    /// The clock, in milliseconds since 1970.
    pub now: fn() -> u64,
}

impl Options {
    /// How long decisions are kept beyond the window, so that requests which were accepted within the window
    /// have finished.
    pub(crate) fn grace(&self) -> Duration {
        (self.window / 8).min(GRACE_MAX)
    }

    /// Default settings.
    pub fn new(cluster: impl Into<Cluster>, server: u16, incarnation: u64) -> Self {
        Self {
            cluster: cluster.into(),
            server,
            incarnation,
            procedure_timeout: Duration::from_secs(30),
            unavailable_timeout: Duration::from_secs(5),
            recovery_interval: Duration::from_secs(1),
            max_in_flight: 1024,
            window: Duration::from_secs(24 * 3600),
            ahead_max: Duration::from_secs(60),
            now: || {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
            },
        }
    }
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// Too many requests are in flight.
    #[error("too many transactions are in flight; retry with the same id")]
    Busy,
    /// The procedure is not declared.
    #[error("there is no such procedure")]
    Unknown,
    /// The parameters are invalid.
    #[error("{0}")]
    Invalid(String),
    /// The session is too old: whether the request took effect is no longer known.
    #[error(
        "the session is older than the window of {0:?}: whether this request took effect is no longer known, and it is \
         not executed now"
    )]
    Old(Duration),
    /// The session is dated in the future.
    #[error("the session is dated {0:?} ahead of this server's clock: correct the clock")]
    FromFuture(Duration),
    /// A request with the same id and other content is in flight.
    #[error("the same id is in flight with another request")]
    Mismatch,
    /// An action panicked, which is a bug. Recovery resolves the branches; a retry returns the outcome.
    #[error("the execution was interrupted; retry with the same id")]
    Interrupted,
}

/// The coordinator of one server.
pub struct Coordinator<R> {
    pub(crate) options: Options,
    pub(crate) decisions: DecisionLog<R>,
    pub(crate) resources: Arc<[Arc<dyn Resource>]>,
    pub(crate) logic: Arc<dyn ProcedureLogic>,
    pub(crate) peers: Arc<dyn Peers>,
    in_flight: Mutex<HashMap<RequestId, InFlight>>,
    answered: Mutex<AnsweredWatermarks>,
    next_work: AtomicU64,
}

/// A request in flight on this server.
struct InFlight {
    coordinator: CoordinatorId,
    request_hash: u128,
    /// The attempt in which the coordinator may have branches.
    executing: Option<AttemptNumber>,
    outcome: watch::Receiver<Option<ClientOutcome>>,
}

impl<R: Registers> Coordinator<R> {
    /// Creates a coordinator. [`Coordinator::run_recovery`] starts its recovery task.
    pub fn new(
        options: Options,
        registers: Arc<R>,
        resources: Arc<[Arc<dyn Resource>]>,
        logic: Arc<dyn ProcedureLogic>,
        peers: Arc<dyn Peers>,
    ) -> Arc<Self> {
        let decisions = DecisionLog::new(registers, Arc::clone(&resources));
        Arc::new(Self {
            options,
            decisions,
            resources,
            logic,
            peers,
            in_flight: Mutex::default(),
            answered: Mutex::default(),
            next_work: AtomicU64::new(1),
        })
    }

    /// Executes a request exactly once and returns its answer. A repeated request gets the same answer; a
    /// concurrent one waits for the same execution.
    ///
    /// The execution continues if the future is dropped.
    pub async fn issue(
        self: &Arc<Self>,
        id: RequestId,
        request: ProcedureCall,
        is_first_time: bool,
    ) -> Result<ClientOutcome, SubmitError> {
        let decision_location =
            self.logic.decision_location(&request.procedure).ok_or(SubmitError::Unknown)?;
        self.logic.check(&request).map_err(SubmitError::Invalid)?;
        self.check_date(id)?;
        let request_hash = fingerprint(&request);
        let mut outcome = self.attach(
            TransactionRequest { request: id, decision_location, request_hash },
            request,
            is_first_time,
        )?;
        let finished = outcome.wait_for(Option::is_some).await;
        finished.ok().and_then(|finished| finished.clone()).ok_or(SubmitError::Interrupted)
    }

    fn check_date(&self, id: RequestId) -> Result<(), SubmitError> {
        let (date, now) = (date_of(id.session), (self.options.now)());
        let ahead = Duration::from_millis(date.saturating_sub(now));
        if Duration::from_millis(now.saturating_sub(date)) > self.options.window {
            Err(SubmitError::Old(self.options.window))
        } else if ahead > self.options.ahead_max {
            Err(SubmitError::FromFuture(ahead))
        } else {
            Ok(())
        }
    }

    fn attach(
        self: &Arc<Self>,
        transaction: TransactionRequest,
        request: ProcedureCall,
        is_first_time: bool,
    ) -> Result<watch::Receiver<Option<ClientOutcome>>, SubmitError> {
        let mut in_flight = self.in_flight();
        if let Some(work) = in_flight.get(&transaction.request) {
            return if work.request_hash == transaction.request_hash {
                Ok(work.outcome.clone())
            } else {
                Err(SubmitError::Mismatch)
            };
        }
        if in_flight.len() >= self.options.max_in_flight {
            return Err(SubmitError::Busy);
        }
        let coordinator = self.new_id();
        let (sender, outcome) = watch::channel(None);
        let executing = is_first_time.then_some(AttemptNumber::FIRST);
        let entry = InFlight {
            coordinator,
            request_hash: transaction.request_hash,
            executing,
            outcome: outcome.clone(),
        };
        in_flight.insert(transaction.request, entry);
        drop(in_flight);
        tokio::spawn(run(Arc::clone(self), transaction, coordinator, request, is_first_time, sender));
        Ok(outcome)
    }

    fn new_id(&self) -> CoordinatorId {
        let Options { server, incarnation, .. } = self.options;
        CoordinatorId { server, incarnation, work: self.next_work.fetch_add(1, Ordering::Relaxed) }
    }

    /// Replaces the coordinator of a request in flight, which has withdrawn.
    pub(crate) fn replace_coordinator(&self, request: RequestId) -> CoordinatorId {
        let coordinator = self.new_id();
        if let Some(work) = self.in_flight().get_mut(&request) {
            (work.coordinator, work.executing) = (coordinator, None);
        }
        coordinator
    }

    /// The coordinator on this server that executes an attempt.
    pub fn executing(&self, request: RequestId, attempt: AttemptNumber) -> Option<CoordinatorId> {
        let in_flight = self.in_flight();
        in_flight.get(&request).filter(|work| work.executing == Some(attempt)).map(|work| work.coordinator)
    }

    pub(crate) fn has_in_flight_below(&self, session: u128) -> bool {
        self.in_flight().keys().any(|request| request.session < session)
    }

    /// The status of a coordinator on this server or another.
    pub(crate) async fn peer_status(
        &self,
        coordinator: CoordinatorId,
        request: RequestId,
        attempt: AttemptNumber,
    ) -> PeerStatus {
        if coordinator.server != self.options.server {
            self.peers.status(coordinator, request, attempt).await
        } else if coordinator.incarnation != self.options.incarnation {
            PeerStatus::Restarted
        } else if self.is_working(coordinator, request, attempt) {
            PeerStatus::Working
        } else {
            PeerStatus::NotWorking
        }
    }

    /// Whether this coordinator executes the attempt on this server.
    pub fn is_working(&self, coordinator: CoordinatorId, request: RequestId, attempt: AttemptNumber) -> bool {
        self.executing(request, attempt) == Some(coordinator)
    }

    pub(crate) fn set_executing(&self, request: RequestId, executing: Option<AttemptNumber>) {
        if let Some(work) = self.in_flight().get_mut(&request) {
            work.executing = executing;
        }
    }

    pub(crate) fn end(&self, request: RequestId) {
        self.in_flight().remove(&request);
    }

    pub(crate) fn resource(&self, number: u8) -> Option<&Arc<dyn Resource>> {
        self.resources.get(usize::from(number))
    }

    pub(crate) fn answered(&self) -> MutexGuard<'_, AnsweredWatermarks> {
        // No panic can interrupt a change of the table.
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_flight(&self) -> MutexGuard<'_, HashMap<RequestId, InFlight>> {
        // No panic can interrupt a change of the table.
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hash of a request: procedure name and parameters as they were received.
fn fingerprint(request: &ProcedureCall) -> u128 {
    let mut bytes = Vec::with_capacity(8 + request.procedure.len() + request.parameters.len());
    bytes.extend_from_slice(&(request.procedure.len() as u64).to_be_bytes());
    bytes.extend_from_slice(request.procedure.as_bytes());
    bytes.extend_from_slice(&request.parameters);
    xxhash_rust::xxh3::xxh3_128(&bytes)
}
