//! A server at work: requests come in, are worked on once at a time, and are answered; what others left behind is swept up.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jeton_register::Registers;
use tokio::sync::watch;

use crate::decisions::Decisions;
use crate::logic::{Logic, Request};
use crate::peers::Peers;
use crate::running::run;
use crate::{Ending, Executor, Question, RequestId, Resource, Try};

/// How a server is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Those who share databases and do not know of each other are told apart by this.
    pub cluster: u32,
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
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Too many are under way.
    #[error("too many transactions are under way; ask again with the same id")]
    Busy,
    /// There is no such procedure.
    #[error("there is no such procedure")]
    Unknown,
    /// The same request is under way with other words.
    #[error("the same id is under way with another request")]
    Mismatch,
    /// The work broke off, by a mistake in this program. What it left will be ended; whether it took effect is told to whoever asks again.
    #[error("the work on it broke off; ask again with the same id")]
    BrokeOff,
}

/// A server of e-Transactions.
pub struct Server<R> {
    pub(crate) options: Options,
    pub(crate) decisions: Decisions<R>,
    pub(crate) resources: Arc<[Arc<dyn Resource>]>,
    pub(crate) logic: Arc<dyn Logic>,
    pub(crate) peers: Arc<dyn Peers>,
    works: Mutex<HashMap<RequestId, UnderWay>>,
    next_work: AtomicU64,
}

/// A request that is worked on here.
struct UnderWay {
    executor: Executor,
    asked: u128,
    /// The try in which the executor may have branches.
    executing: Option<Try>,
    ending: watch::Receiver<Option<Ending>>,
}

impl<R: Registers> Server<R> {
    /// A server. Its sweeps begin with [`Server::sweep_for_ever`].
    pub fn new(
        options: Options,
        registers: Arc<R>,
        resources: Arc<[Arc<dyn Resource>]>,
        logic: Arc<dyn Logic>,
        peers: Arc<dyn Peers>,
    ) -> Arc<Self> {
        let decisions = Decisions::new(registers, Arc::clone(&resources));
        Arc::new(Self {
            options,
            decisions,
            resources,
            logic,
            peers,
            works: Mutex::default(),
            next_work: AtomicU64::new(1),
        })
    }

    /// Does what is asked, exactly once, and returns the one answer; if it was done before, that answer. Whoever asks twice waits twice for the same work.
    ///
    /// The work goes on when the future is dropped.
    pub async fn issue(
        self: &Arc<Self>,
        id: RequestId,
        request: Request,
        is_first_time: bool,
    ) -> Result<Ending, Refusal> {
        let home = self.logic.home(&request.procedure).ok_or(Refusal::Unknown)?;
        let asked = fingerprint(&request);
        let mut ending = self.attach(Question { request: id, home, asked }, request, is_first_time)?;
        let ended = ending.wait_for(Option::is_some).await;
        ended.ok().and_then(|ended| ended.clone()).ok_or(Refusal::BrokeOff)
    }

    fn attach(
        self: &Arc<Self>,
        question: Question,
        request: Request,
        is_first_time: bool,
    ) -> Result<watch::Receiver<Option<Ending>>, Refusal> {
        let mut works = self.works();
        if let Some(work) = works.get(&question.request) {
            return if work.asked == question.asked {
                Ok(work.ending.clone())
            } else {
                Err(Refusal::Mismatch)
            };
        }
        if works.len() >= self.options.works_max {
            return Err(Refusal::Busy);
        }
        let Options { server, incarnation, .. } = self.options;
        let executor = Executor { server, incarnation, work: self.next_work.fetch_add(1, Ordering::Relaxed) };
        let (tell, ending) = watch::channel(None);
        let executing = is_first_time.then_some(Try::FIRST);
        let under_way = UnderWay { executor, asked: question.asked, executing, ending: ending.clone() };
        works.insert(question.request, under_way);
        drop(works);
        tokio::spawn(run(Arc::clone(self), question, executor, request, is_first_time, tell));
        Ok(ending)
    }

    /// Who works here on a try.
    pub fn at_work(&self, request: RequestId, attempt: Try) -> Option<Executor> {
        let works = self.works();
        works.get(&request).filter(|work| work.executing == Some(attempt)).map(|work| work.executor)
    }

    /// Whether this very executor works here on a try.
    pub fn is_working(&self, executor: Executor, request: RequestId, attempt: Try) -> bool {
        self.at_work(request, attempt) == Some(executor)
    }

    pub(crate) fn note(&self, request: RequestId, executing: Option<Try>) {
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

    fn works(&self) -> MutexGuard<'_, HashMap<RequestId, UnderWay>> {
        // Every change of the table is whole before a panic could come.
        self.works.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is asked, as a number: the name of the procedure and the parameters as they came.
fn fingerprint(request: &Request) -> u128 {
    let mut bytes = Vec::with_capacity(8 + request.procedure.len() + request.parameters.len());
    bytes.extend_from_slice(&(request.procedure.len() as u64).to_be_bytes());
    bytes.extend_from_slice(request.procedure.as_bytes());
    bytes.extend_from_slice(&request.parameters);
    xxhash_rust::xxh3::xxh3_128(&bytes)
}
