//! A branch in MariaDB.

use std::sync::Arc;

use async_trait::async_trait;
use jeton_etx::{Branch, Outcome, QueryResult, ResourceError, Value, Vote, Xid};

use super::connection::Connection;
use super::{Inner, at_once, error, xid};
use crate::pool::PooledConnection;
use crate::query_error::{QueryError, TextRows};
use crate::statement_class::{commits_by_itself, is_control};

pub struct MariaDbBranch {
    shared: Arc<Inner>,
    /// Nothing when the branch is over, or the connection is of no more use.
    lease: Option<PooledConnection<Connection>>,
    name: Xid,
    /// Whether it is a plain transaction, which the decision is a part of.
    is_home: bool,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Nothing was asked of the database yet.
    Fresh,
    /// Statements can be executed.
    Open,
    /// One is under way; if nobody waits for it any more, it stays so.
    Busy,
    /// A statement failed. MariaDB would prepare the rest; it is there only to be rolled back.
    Failed(ResourceError),
    /// It was asked for its vote, and the answer is not known.
    Asked,
    Prepared,
    /// Nothing is left to do.
    Over,
}

impl MariaDbBranch {
    pub fn new(shared: Arc<Inner>, lease: PooledConnection<Connection>, name: Xid, is_home: bool) -> Self {
        Self { shared, lease: Some(lease), name, is_home, state: State::Fresh }
    }

    /// Begins it. If the connection that it has died while it lay idle, it takes another one.
    async fn begin(&mut self) -> Result<(), ResourceError> {
        loop {
            let begin = if self.is_home {
                "START TRANSACTION".into()
            } else {
                format!("XA START {}", xid(&self.name))
            };
            let was_idle = self.lease.as_ref().is_some_and(|lease| lease.was_idle);
            let Err(trouble) = self.run(&begin).await else { return Ok(()) };
            self.lease = None;
            if !(trouble.is_lost && was_idle) {
                return Err(trouble.into());
            }
            let lease = self.shared.lease_named(self.name.executor).await?;
            self.name.connection = lease.connection.id;
            self.lease = Some(lease);
        }
    }

    async fn run(&mut self, sql: &str) -> Result<TextRows, QueryError> {
        match &mut self.lease {
            Some(lease) => lease.connection.run(&self.shared.settings, sql).await,
            None => Err(self.shared.settings.passing("the connection is lost").into()),
        }
    }

    /// Statements that end the branch.
    async fn run_last(&mut self, sql: &str) -> Result<(), QueryError> {
        self.run(sql).await?;
        self.end();
        Ok(())
    }

    /// The branch is over, and the connection free.
    fn end(&mut self) {
        self.state = State::Over;
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }

    /// Rolls back what is not prepared.
    async fn roll_back(&mut self) {
        let xid = xid(&self.name);
        let end = if self.is_home { "ROLLBACK".into() } else { format!("XA END {xid}; XA ROLLBACK {xid}") };
        if self.run_last(&end).await.is_err() {
            // It is rolled back when its connection is gone.
            self.lease = None;
            self.state = State::Over;
        }
    }

    fn not_open(&self) -> ResourceError {
        self.shared.settings.statement("1399", "the branch is not open any more")
    }

    /// Why a statement is not executed in a branch, if it is not.
    fn refusal(&self, statement: &str) -> Option<ResourceError> {
        let why = if is_control(statement) {
            "a branch is begun and ended by nobody but its executor"
        } else if commits_by_itself(statement) {
            "this statement commits what was done before it"
        } else {
            return None;
        };
        Some(self.shared.settings.statement("1399", why))
    }

    /// The mark and the vote, in one statement.
    fn prepare_sql(&self) -> String {
        let (gid, xid) = (self.name.gid(), xid(&self.name));
        let mark = match mutated!(MarkOmitted) {
            true => String::new(),
            false => format!("INSERT INTO etx_mark (gid) VALUES ('{gid}');"),
        };
        let vote = format!("{mark} XA END {xid}; XA PREPARE {xid}");
        if mutated!(LateErrorIgnored) { vote } else { at_once(&vote) }
    }

    /// What is never done.
    async fn reset_session(&mut self) {
        #[cfg(feature = "mutations")]
        if mutated!(SessionReset)
            && let Some(lease) = &mut self.lease
        {
            lease.connection.reset().await;
        }
    }
}

#[async_trait]
impl Branch for MariaDbBranch {
    fn name(&self) -> Xid {
        self.name
    }

    async fn execute(&mut self, statement: &str, parameters: &[Value]) -> Result<QueryResult, ResourceError> {
        let is_first = match &self.state {
            State::Fresh => true,
            State::Open => false,
            State::Failed(failure) => return Err(failure.clone()),
            _ => return Err(self.not_open()),
        };
        let mut refusal = self.refusal(statement);
        if is_first && refusal.is_none() {
            self.state = State::Busy;
            refusal = self.begin().await.err();
        }
        let settings = &self.shared.settings;
        let mut answer = match (refusal, &mut self.lease) {
            (Some(failure), _) => Err(failure),
            (None, None) => Err(settings.passing("the connection is lost")),
            (None, Some(lease)) => {
                self.state = State::Busy;
                let answer = lease.connection.execute(settings, statement, parameters).await;
                if answer.as_ref().is_err_and(|trouble| trouble.is_lost) {
                    self.lease = None;
                }
                answer.map_err(ResourceError::from)
            }
        };
        let is_gone = |lease: &PooledConnection<Connection>| !lease.connection.is_in_transaction();
        if answer.is_ok() && self.is_home && self.lease.as_ref().is_some_and(is_gone) {
            answer = Err(settings.statement("1399", "the statement has ended the transaction"));
        }
        self.state = match &answer {
            Err(failure) if !mutated!(ErrorForgiven) => State::Failed(failure.clone()),
            _ => State::Open,
        };
        answer
    }

    async fn vote(&mut self) -> Vote {
        match &self.state {
            State::Fresh | State::Open if self.is_home => {
                let why = "a branch in the database that keeps the decision is committed with it";
                return Vote::No(self.shared.settings.statement("1399", why));
            }
            State::Fresh => {
                self.end();
                return Vote::Unchanged;
            }
            State::Open => {}
            State::Failed(failure) => return Vote::No(failure.clone()),
            _ => return Vote::No(self.not_open()),
        }
        self.state = State::Asked;
        let question = self.prepare_sql();
        match self.run(&question).await {
            Ok(_) => {
                self.state = State::Prepared;
                Vote::Yes
            }
            Err(trouble) if trouble.is_lost => {
                self.lease = None;
                Vote::No(trouble.failure)
            }
            // It is not known at which of the statements it stands.
            Err(trouble) => Vote::No(trouble.failure),
        }
    }

    async fn commit_deciding(mut self: Box<Self>, decision: &[u8]) -> Result<Vec<u8>, ResourceError> {
        let shared = Arc::clone(&self.shared);
        let (request, attempt) = (self.name.request, self.name.attempt);
        match self.state.clone() {
            State::Fresh | State::Open if !self.is_home => {
                let why = "the decision about this branch is kept elsewhere";
                return Err(shared.settings.statement("1399", why));
            }
            State::Fresh => self.begin().await?,
            State::Open => {}
            State::Failed(failure) => {
                self.roll_back().await;
                return Err(failure);
            }
            _ => return Err(self.not_open()),
        }
        let write = shared.writing(request, attempt, decision);
        let lost = match self.run_last(&at_once(&format!("{write}; COMMIT"))).await {
            Ok(()) => return Ok(decision.to_vec()),
            Err(trouble) if trouble.is_lost => trouble.failure,
            Err(trouble) => {
                self.roll_back().await;
                match trouble.code.as_str() {
                    error::NULL => return Err(shared.settings.forgotten()),
                    error::DUPLICATE => trouble.failure,
                    _ => return Err(trouble.into()),
                }
            }
        };
        // If the session is gone, the row is there or will never be.
        self.lease = None;
        shared.end_session(&self.name).await?;
        shared.read_decision(request, attempt).await?.ok_or(lost)
    }

    async fn decide(mut self: Box<Self>, outcome: Outcome) -> Result<(), ResourceError> {
        let shared = Arc::clone(&self.shared);
        match (self.state.clone(), outcome) {
            (State::Over, _) => Ok(()),
            (State::Prepared, outcome) => {
                self.reset_session().await;
                let word = if outcome == Outcome::Commit { "COMMIT" } else { "ROLLBACK" };
                let end = format!("XA {word} {}", xid(&self.name));
                match self.run_last(&end).await {
                    Ok(()) => {
                        if outcome == Outcome::Abort {
                            shared.remember_rolled_back(&self.name);
                        }
                        Ok(())
                    }
                    Err(_) => {
                        self.lease = None;
                        shared.decide(&self.name, outcome).await
                    }
                }
            }
            (_, Outcome::Commit) => {
                self.lease = None;
                shared.decide(&self.name, outcome).await
            }
            (State::Fresh, Outcome::Abort) => {
                self.end();
                Ok(())
            }
            (State::Open | State::Failed(_), Outcome::Abort) => {
                self.roll_back().await;
                Ok(())
            }
            // What it was last asked may be under way, a vote even. It is waited for, so that it does not come about later.
            (State::Busy | State::Asked, Outcome::Abort) => {
                self.lease = None;
                shared.end_session(&self.name).await?;
                shared.decide(&self.name, outcome).await
            }
        }
    }
}
