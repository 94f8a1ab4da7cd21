//! A branch in MariaDB.

use std::sync::Arc;

use async_trait::async_trait;
use jeton_etx::{Branch, BranchName, Failure, Outcome, Row, Value, Vote};

use super::connection::Connection;
use super::{Shared, error, xid};
use crate::control::Trouble;
use crate::names::at_work;
use crate::pool::Lease;
use crate::text::{commits_by_itself, is_control};

pub struct MariaDbBranch {
    shared: Arc<Shared>,
    /// Nothing when the branch is over, or the connection is of no more use.
    lease: Option<Lease<Connection>>,
    name: BranchName,
    /// Whether it is a plain transaction, which the decision is a part of.
    is_home: bool,
    has_worked: bool,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Statements can be executed.
    Open,
    /// One is under way; if nobody waits for it any more, it stays so.
    Busy,
    /// A statement failed. MariaDB would prepare the rest; it is there only to be rolled back.
    Failed(Failure),
    /// It was asked for its vote, and the answer is not known.
    Asked,
    Prepared,
    /// Nothing is left to do.
    Over,
}

impl MariaDbBranch {
    pub fn new(shared: Arc<Shared>, lease: Lease<Connection>, name: BranchName, is_home: bool) -> Self {
        Self { shared, lease: Some(lease), name, is_home, has_worked: false, state: State::Open }
    }

    async fn run(&mut self, sql: &str) -> Result<(), Trouble> {
        match &mut self.lease {
            Some(lease) => lease.connection.run(&self.shared.settings, sql).await.map(drop),
            None => Err(self.shared.settings.passing("the connection is lost").into()),
        }
    }

    /// Statements that end the branch, and after it the session's name.
    async fn run_last(&mut self, sql: &str) -> Result<(), Trouble> {
        let lock = self.shared.lock_name(self.name.executor);
        self.run(&format!("{sql}; DO RELEASE_LOCK('{lock}')")).await?;
        self.state = State::Over;
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
        Ok(())
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

    fn not_open(&self) -> Failure {
        self.shared.settings.statement("1399", "the branch is not open any more")
    }

    /// Why a statement is not executed in a branch, if it is not.
    fn refusal(&self, statement: &str) -> Option<Failure> {
        let why = if is_control(statement) {
            "a branch is begun and ended by nobody but its executor"
        } else if commits_by_itself(statement) {
            "this statement commits what was done before it"
        } else {
            return None;
        };
        Some(self.shared.settings.statement("1399", why))
    }

    /// In one message: that the executor is not fenced; the mark; the vote. Of a fenced executor the first finds a row, and that
    /// makes it fail; it reads without a lock, which would be in the way of the next fence.
    fn question(&self) -> String {
        let (gid, xid, executor) = (self.name.gid(), xid(&self.name), at_work(self.name.executor));
        let mark = match mutated!(MarkOmitted) {
            true => String::new(),
            false => format!("INSERT INTO etx_mark (gid) VALUES ('{gid}');"),
        };
        format!(
            "SELECT (SELECT f.executor UNION ALL SELECT f.executor) FROM etx_fence f WHERE f.executor = '{executor}'; \
             {mark} XA END {xid}; XA PREPARE {xid}"
        )
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
    fn name(&self) -> BranchName {
        self.name
    }

    async fn execute(&mut self, statement: &str, parameters: &[Value]) -> Result<Vec<Row>, Failure> {
        match &self.state {
            State::Open => {}
            State::Failed(failure) => return Err(failure.clone()),
            _ => return Err(self.not_open()),
        }
        let refusal = self.refusal(statement);
        let settings = &self.shared.settings;
        let mut answer = match (refusal, &mut self.lease) {
            (Some(failure), _) => Err(failure),
            (None, None) => Err(settings.passing("the connection is lost")),
            (None, Some(lease)) => {
                (self.state, self.has_worked) = (State::Busy, true);
                let answer = lease.connection.execute(settings, statement, parameters).await;
                if answer.as_ref().is_err_and(|trouble| trouble.is_lost) {
                    self.lease = None;
                }
                answer.map_err(Failure::from)
            }
        };
        let is_gone = |lease: &Lease<Connection>| !lease.connection.is_in_transaction();
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
            State::Open if self.is_home => {
                let why = "a branch in the database that keeps the decision is committed with it";
                return Vote::No(self.shared.settings.statement("1399", why));
            }
            State::Open => {}
            State::Failed(failure) => return Vote::No(failure.clone()),
            _ => return Vote::No(self.not_open()),
        }
        if !self.has_worked {
            self.roll_back().await;
            return Vote::Unchanged;
        }
        self.state = State::Asked;
        let question = self.question();
        match self.run(&question).await {
            Ok(()) => {
                self.state = State::Prepared;
                Vote::Yes
            }
            Err(trouble) if trouble.is_lost => {
                self.lease = None;
                Vote::No(trouble.failure)
            }
            // It is not known at which of the statements it stands.
            Err(trouble) if trouble.code == error::ROWS => {
                Vote::No(self.shared.settings.passing("the executor is fenced"))
            }
            Err(trouble) => Vote::No(trouble.failure),
        }
    }

    async fn commit_deciding(mut self: Box<Self>, decision: &[u8]) -> Result<Vec<u8>, Failure> {
        let shared = Arc::clone(&self.shared);
        let (request, attempt) = (self.name.request, self.name.attempt);
        match self.state.clone() {
            State::Open if !self.is_home => {
                let why = "the decision about this branch is kept elsewhere";
                return Err(shared.settings.statement("1399", why));
            }
            State::Open => {}
            State::Failed(failure) => {
                self.roll_back().await;
                return Err(failure);
            }
            _ => return Err(self.not_open()),
        }
        let write = shared.writing(request, attempt, decision);
        let lost = match self.run_last(&format!("{write}; COMMIT")).await {
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
        shared.end_sessions(self.name.executor).await?;
        shared.read_decision(request, attempt).await?.ok_or(lost)
    }

    async fn decide(mut self: Box<Self>, outcome: Outcome) -> Result<(), Failure> {
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
            (State::Open | State::Failed(_), Outcome::Abort) => {
                self.roll_back().await;
                Ok(())
            }
            // What it was last asked may be under way, a vote even. It is waited for, so that it does not come about later.
            (State::Busy | State::Asked, Outcome::Abort) => {
                self.lease = None;
                shared.end_sessions(self.name.executor).await?;
                shared.decide(&self.name, outcome).await
            }
        }
    }
}
