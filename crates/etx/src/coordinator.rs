//! A server at work: requests come in, are worked on once at a time, and are answered; what others left behind is swept up.

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

/// How a server is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Those who share databases and do not know of each other are told apart by this.
    pub cluster: Cluster,
    /// The number of this server among those of the cluster.
    pub server: u16,
    /// Drawn at random at each start: what has another incarnation is of a server that is no more.
    pub incarnation: u64,
    /// How long the business logic may take.
    pub compute_max: Duration,
    /// How often the databases are swept.
    pub sweep_every: Duration,
    /// How many requests are worked on at the same time.
    pub works_max: usize,
    /// For how long decisions are kept, counted from the date of a session. What is older is refused.
    pub window: Duration,
    /// How far the date of a session may be ahead.
    pub ahead_max: Duration,
    /// The time, in milliseconds since 1970.
    pub now: fn() -> u64,
}

impl Options {
    /// For how long decisions are kept beyond the window: what was taken up within it has come to its end by then.
    pub(crate) fn grace(&self) -> Duration {
        (self.window / 8).min(GRACE_MAX)
    }

    /// Those that fit most.
    pub fn new(cluster: impl Into<Cluster>, server: u16, incarnation: u64) -> Self {
        Self {
            cluster: cluster.into(),
            server,
            incarnation,
            compute_max: Duration::from_secs(30),
            sweep_every: Duration::from_secs(1),
            works_max: 1024,
            window: Duration::from_secs(24 * 3600),
            ahead_max: Duration::from_secs(60),
            now: || {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
            },
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// Too many are under way.
    #[error("too many transactions are under way; ask again with the same id")]
    Busy,
    /// There is no such procedure.
    #[error("there is no such procedure")]
    Unknown,
    /// There can be no such request.
    #[error("{0}")]
    Invalid(String),
    /// It is too old: whether it took effect is no longer known.
    #[error(
        "the session is older than the window of {0:?}: whether this took effect is no longer known, and it is not done now"
    )]
    Old(Duration),
    /// It is dated in the future.
    #[error("the session is dated {0:?} ahead of this server's clock: set the clock right")]
    FromFuture(Duration),
    /// The same request is under way with other words.
    #[error("the same id is under way with another request")]
    Mismatch,
    /// The work broke off, by a mistake in this program. What it left will be ended; whether it took effect is told to whoever asks again.
    #[error("the work on it broke off; ask again with the same id")]
    BrokeOff,
}

/// A server of e-Transactions.
pub struct Coordinator<R> {
    pub(crate) options: Options,
    pub(crate) decisions: DecisionLog<R>,
    pub(crate) resources: Arc<[Arc<dyn Resource>]>,
    pub(crate) logic: Arc<dyn ProcedureLogic>,
    pub(crate) peers: Arc<dyn Peers>,
    works: Mutex<HashMap<RequestId, InFlight>>,
    answered: Mutex<AnsweredWatermarks>,
    next_work: AtomicU64,
}

/// A request that is worked on here.
struct InFlight {
    executor: CoordinatorId,
    asked: u128,
    /// The try in which the executor may have branches.
    executing: Option<AttemptNumber>,
    ending: watch::Receiver<Option<ClientOutcome>>,
}

impl<R: Registers> Coordinator<R> {
    /// A server. Its sweeps begin with [`Coordinator::sweep_for_ever`].
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
            works: Mutex::default(),
            answered: Mutex::default(),
            next_work: AtomicU64::new(1),
        })
    }

    /// Does what is asked, exactly once, and returns the one answer; if it was done before, that answer. Whoever asks twice waits twice for the same work.
    ///
    /// The work goes on when the future is dropped.
    pub async fn issue(
        self: &Arc<Self>,
        id: RequestId,
        request: ProcedureCall,
        is_first_time: bool,
    ) -> Result<ClientOutcome, SubmitError> {
        let home = self.logic.home(&request.procedure).ok_or(SubmitError::Unknown)?;
        self.logic.check(&request).map_err(SubmitError::Invalid)?;
        self.check_date(id)?;
        let asked = fingerprint(&request);
        let mut ending =
            self.attach(TransactionRequest { request: id, home, asked }, request, is_first_time)?;
        let ended = ending.wait_for(Option::is_some).await;
        ended.ok().and_then(|ended| ended.clone()).ok_or(SubmitError::BrokeOff)
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
        question: TransactionRequest,
        request: ProcedureCall,
        is_first_time: bool,
    ) -> Result<watch::Receiver<Option<ClientOutcome>>, SubmitError> {
        let mut works = self.works();
        if let Some(work) = works.get(&question.request) {
            return if work.asked == question.asked {
                Ok(work.ending.clone())
            } else {
                Err(SubmitError::Mismatch)
            };
        }
        if works.len() >= self.options.works_max {
            return Err(SubmitError::Busy);
        }
        let Options { server, incarnation, .. } = self.options;
        let executor =
            CoordinatorId { server, incarnation, work: self.next_work.fetch_add(1, Ordering::Relaxed) };
        let (tell, ending) = watch::channel(None);
        let executing = is_first_time.then_some(AttemptNumber::FIRST);
        let under_way = InFlight { executor, asked: question.asked, executing, ending: ending.clone() };
        works.insert(question.request, under_way);
        drop(works);
        tokio::spawn(run(Arc::clone(self), question, executor, request, is_first_time, tell));
        Ok(ending)
    }

    /// Who works here on a try.
    pub fn executing(&self, request: RequestId, attempt: AttemptNumber) -> Option<CoordinatorId> {
        let works = self.works();
        works.get(&request).filter(|work| work.executing == Some(attempt)).map(|work| work.executor)
    }

    pub(crate) fn is_at_work_below(&self, session: u128) -> bool {
        self.works().keys().any(|request| request.session < session)
    }

    /// How an executor is doing, of this server or another.
    pub(crate) async fn sign(
        &self,
        executor: CoordinatorId,
        request: RequestId,
        attempt: AttemptNumber,
    ) -> PeerStatus {
        if executor.server != self.options.server {
            self.peers.sign(executor, request, attempt).await
        } else if executor.incarnation != self.options.incarnation {
            PeerStatus::Gone
        } else if self.is_working(executor, request, attempt) {
            PeerStatus::Working
        } else {
            PeerStatus::NotWorking
        }
    }

    /// Whether this very executor works here on a try.
    pub fn is_working(&self, executor: CoordinatorId, request: RequestId, attempt: AttemptNumber) -> bool {
        self.executing(request, attempt) == Some(executor)
    }

    pub(crate) fn note(&self, request: RequestId, executing: Option<AttemptNumber>) {
        if let Some(work) = self.works().get_mut(&request) {
            work.executing = executing;
        }
    }

    pub(crate) fn end(&self, request: RequestId) {
        self.works().remove(&request);
    }

    pub(crate) fn resource(&self, number: u8) -> Option<&Arc<dyn Resource>> {
        self.resources.get(usize::from(number))
    }

    pub(crate) fn answered(&self) -> MutexGuard<'_, AnsweredWatermarks> {
        // Every change of the table is whole before a panic could come.
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn works(&self) -> MutexGuard<'_, HashMap<RequestId, InFlight>> {
        // Every change of the table is whole before a panic could come.
        self.works.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is asked, as a number: the name of the procedure and the parameters as they came.
fn fingerprint(request: &ProcedureCall) -> u128 {
    let mut bytes = Vec::with_capacity(8 + request.procedure.len() + request.parameters.len());
    bytes.extend_from_slice(&(request.procedure.len() as u64).to_be_bytes());
    bytes.extend_from_slice(request.procedure.as_bytes());
    bytes.extend_from_slice(&request.parameters);
    xxhash_rust::xxh3::xxh3_128(&bytes)
}
