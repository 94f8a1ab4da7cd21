//! A branch in PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use jeton_etx::{Branch, BranchName, Failure, Outcome, Row, Value, Vote};

use super::Shared;
use super::connection::Connection;
use crate::control::Trouble;
use crate::names::at_work;
use crate::pool::Lease;
use crate::text::is_control;

pub struct PostgresBranch {
    shared: Arc<Shared>,
    /// Nothing when the branch is over, or the connection is of no more use.
    lease: Option<Lease<Connection>>,
    name: BranchName,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Statements can be executed.
    Open,
    /// One is under way; if nobody waits for it any more, it stays so.
    Busy,
    /// A statement failed. The transaction is there only to be rolled back.
    Failed(Failure),
    /// It was asked for its vote, and the answer is not known.
    Asked,
    Prepared,
    /// Nothing is left to do.
    Over,
}

impl PostgresBranch {
    pub fn new(shared: Arc<Shared>, lease: Lease<Connection>, name: BranchName) -> Self {
        Self { shared, lease: Some(lease), name, state: State::Open }
    }

    async fn run(&self, sql: &str) -> Result<(), Trouble> {
        match &self.lease {
            Some(lease) => lease.connection.run(&self.shared.settings, sql).await.map(drop),
            None => Err(self.shared.settings.passing("the connection is lost").into()),
        }
    }

    /// The transaction is over, and the connection free.
    fn end(&mut self) {
        self.state = State::Over;
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }

    /// Rolls back what is not prepared.
    async fn roll_back(&mut self) {
        match self.run("ROLLBACK").await {
            Ok(()) => self.end(),
            // It is rolled back when its connection is gone.
            Err(_) => {
                self.lease = None;
                self.state = State::Over;
            }
        }
    }

    fn fail(&mut self, failure: &Failure) {
        self.state = State::Failed(failure.clone());
    }

    /// In one message: that there is a sound transaction; whether it changed anything; that the executor is not fenced; the mark; the vote.
    ///
    /// `PREPARE` of a failed transaction, or of none, says `ROLLBACK` and that all is well, and the driver does not tell the two apart. A savepoint cannot be
    /// set in either of them. The name of a fenced executor is no number, so reading it as one fails.
    fn question(&self) -> String {
        let (gid, executor) = (self.name.gid(), at_work(self.name.executor));
        if mutated!(UnguardedVote) {
            return format!("PREPARE TRANSACTION '{gid}'");
        }
        format!(
            "SAVEPOINT etx; SELECT 1 / (pg_current_xact_id_if_assigned() IS NOT NULL)::int; RELEASE etx; \
             SELECT executor::int FROM etx_fence WHERE executor = '{executor}'; \
             INSERT INTO etx_mark (gid) VALUES ('{gid}'); PREPARE TRANSACTION '{gid}'"
        )
    }
}

#[async_trait]
impl Branch for PostgresBranch {
    fn name(&self) -> BranchName {
        self.name
    }

    async fn execute(&mut self, statement: &str, parameters: &[Value]) -> Result<Vec<Row>, Failure> {
        let settings = &self.shared.settings;
        match &self.state {
            State::Open => {}
            State::Failed(failure) => return Err(failure.clone()),
            _ => return Err(settings.statement("25P01", "the branch is not open any more")),
        }
        let answer = if is_control(statement) {
            Err(settings.statement("2D000", "a branch is begun and ended by nobody but its executor"))
        } else if let Some(lease) = &mut self.lease {
            self.state = State::Busy;
            let answer = lease.connection.execute(settings, statement, parameters).await;
            if answer.as_ref().is_err_and(|trouble| trouble.is_lost) {
                self.lease = None;
            }
            answer.map_err(Failure::from)
        } else {
            Err(settings.passing("the connection is lost"))
        };
        match &answer {
            Ok(_) => self.state = State::Open,
            Err(failure) => self.fail(&failure.clone()),
        }
        answer
    }

    async fn vote(&mut self) -> Vote {
        match self.state.clone() {
            State::Open => {}
            State::Failed(_) if mutated!(UnguardedVote) => {}
            State::Failed(failure) => return Vote::No(failure),
            _ => return Vote::No(self.shared.settings.statement("25P01", "the branch is not open any more")),
        }
        self.state = State::Asked;
        let question = self.question();
        match self.run(&question).await {
            Ok(()) => {
                self.state = State::Prepared;
                Vote::Yes
            }
            // Nothing changed. If it is the error of something else, the savepoint is gone, and this fails.
            Err(trouble) if trouble.code == "22012" => match self.run("ROLLBACK TO etx; COMMIT").await {
                Ok(()) => {
                    self.end();
                    Vote::Unchanged
                }
                Err(_) => {
                    self.roll_back().await;
                    Vote::No(trouble.failure)
                }
            },
            Err(trouble) if trouble.is_lost => {
                self.lease = None;
                Vote::No(trouble.failure)
            }
            Err(trouble) => {
                let failure = match trouble.code.as_str() {
                    "22P02" => self.shared.settings.passing("the executor is fenced"),
                    _ => trouble.failure,
                };
                self.fail(&failure);
                Vote::No(failure)
            }
        }
    }

    async fn commit_deciding(mut self: Box<Self>, decision: &[u8]) -> Result<Vec<u8>, Failure> {
        let shared = Arc::clone(&self.shared);
        let (request, attempt) = (self.name.request, self.name.attempt);
        match self.state.clone() {
            State::Open => {}
            State::Failed(failure) => {
                self.roll_back().await;
                return Err(failure);
            }
            _ => return Err(shared.settings.statement("25P01", "the branch is not open any more")),
        }
        let write = shared.writing(request, attempt, decision, "");
        let lost = match self.run(&format!("SAVEPOINT etx; RELEASE etx; {write}; COMMIT")).await {
            Ok(()) => {
                self.end();
                return Ok(decision.to_vec());
            }
            Err(trouble) if trouble.is_lost => trouble.failure,
            Err(trouble) => {
                self.roll_back().await;
                if Shared::is_forgotten(&trouble) {
                    return Err(shared.settings.forgotten());
                }
                if !Shared::stands_already(&trouble) {
                    return Err(trouble.into());
                }
                trouble.failure
            }
        };
        // If the session is gone, the row is there or will never be.
        self.lease = None;
        shared.end_sessions(self.name.executor).await?;
        shared.read_decision(request, attempt).await?.ok_or(lost)
    }

    async fn decide(mut self: Box<Self>, outcome: Outcome) -> Result<(), Failure> {
        let shared = Arc::clone(&self.shared);
        let gid = self.name.gid();
        match (self.state.clone(), outcome) {
            (State::Over, _) => Ok(()),
            (State::Prepared, outcome) => {
                let word = if outcome == Outcome::Commit { "COMMIT" } else { "ROLLBACK" };
                match self.run(&format!("{word} PREPARED '{gid}'")).await {
                    Ok(()) => {
                        self.end();
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
