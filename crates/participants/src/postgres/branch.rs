//! A branch in PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use jeton_etx::{Branch, Outcome, QueryResult, ResourceError, Value, Vote, Xid};

use super::Inner;
use super::connection::Connection;
use crate::pool::PooledConnection;
use crate::query_error::QueryError;
use crate::statement_class::{is_control, is_reading};

/// Outside of what this begins, the session writes nothing.
const BEGIN: &str = "BEGIN READ WRITE";

pub struct PostgresBranch {
    shared: Arc<Inner>,
    /// Nothing when the branch is over, or the connection is of no more use.
    lease: Option<PooledConnection<Connection>>,
    name: Xid,
    /// Whether rows were changed for certain. Of a branch of which it is not certain it is asked for in the vote.
    has_changed: bool,
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
    /// A statement failed. The transaction is there only to be rolled back.
    Failed(ResourceError),
    /// It was asked for its vote, and the answer is not known.
    Asked,
    Prepared,
    /// Nothing is left to do.
    Over,
}

impl PostgresBranch {
    pub fn new(shared: Arc<Inner>, lease: PooledConnection<Connection>, name: Xid) -> Self {
        Self { shared, lease: Some(lease), name, has_changed: false, state: State::Fresh }
    }

    /// Begins it, and executes the first statement in the same breath.
    async fn execute_first(
        &mut self,
        statement: &str,
        parameters: &[Value],
    ) -> Result<QueryResult, QueryError> {
        loop {
            let Some(lease) = &mut self.lease else {
                return Err(self.shared.settings.passing("the connection is lost").into());
            };
            let settings = &self.shared.settings;
            match lease.connection.execute(settings, Some(BEGIN), statement, parameters).await {
                // It died while it lay idle. What may have been done on it goes with it.
                Err(trouble) if trouble.is_lost && lease.was_idle => {
                    self.lease = None;
                    let lease = self.shared.lease_learned(self.name.executor).await?;
                    self.name.connection = lease.connection.process;
                    self.lease = Some(lease);
                }
                answer => return answer,
            }
        }
    }

    async fn run(&self, sql: &str) -> Result<(), QueryError> {
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

    fn fail(&mut self, failure: &ResourceError) {
        self.state = State::Failed(failure.clone());
    }

    /// In one message: whether the transaction changed anything, if that is not known; the mark; the vote.
    ///
    /// `PREPARE` of a failed transaction, or of none, says `ROLLBACK` and that all is well, and the driver does not tell the two apart. The mark guards against both: in a failed
    /// transaction nothing is executed, and outside of one our sessions write nothing. The statements that are executed are in [`statements`](super::schema::statements).
    fn prepare_sql(&self) -> String {
        let gid = self.name.gid();
        if mutated!(UnguardedVote) {
            return format!("PREPARE TRANSACTION '{gid}'");
        }
        let changed = if self.has_changed { "" } else { "SAVEPOINT etx; EXECUTE etx_changed; RELEASE etx;" };
        format!("{changed} EXECUTE etx_vote('{gid}'); PREPARE TRANSACTION '{gid}'")
    }
}

#[async_trait]
impl Branch for PostgresBranch {
    fn name(&self) -> Xid {
        self.name
    }

    async fn execute(&mut self, statement: &str, parameters: &[Value]) -> Result<QueryResult, ResourceError> {
        let settings = &self.shared.settings;
        let is_first = match &self.state {
            State::Fresh => true,
            State::Open => false,
            State::Failed(failure) => return Err(failure.clone()),
            _ => return Err(settings.statement("25P01", "the branch is not open any more")),
        };
        let answer = if is_control(statement) {
            Err(settings.statement("2D000", "a branch is begun and ended by nobody but its executor"))
        } else if let Some(lease) = &mut self.lease {
            self.state = State::Busy;
            let answer = if is_first {
                self.execute_first(statement, parameters).await
            } else {
                lease.connection.execute(settings, None, statement, parameters).await
            };
            if answer.as_ref().is_err_and(|trouble| trouble.is_lost) {
                self.lease = None;
            }
            answer.map_err(ResourceError::from)
        } else {
            Err(settings.passing("the connection is lost"))
        };
        match &answer {
            Ok(executed) => {
                self.state = State::Open;
                self.has_changed |= executed.count > 0 && !is_reading(statement);
            }
            Err(failure) => self.fail(&failure.clone()),
        }
        answer
    }

    async fn vote(&mut self) -> Vote {
        match self.state.clone() {
            State::Fresh => {
                self.end();
                return Vote::Unchanged;
            }
            State::Open => {}
            State::Failed(_) if mutated!(UnguardedVote) => {}
            State::Failed(failure) => return Vote::No(failure),
            _ => return Vote::No(self.shared.settings.statement("25P01", "the branch is not open any more")),
        }
        self.state = State::Asked;
        let question = self.prepare_sql();
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
                self.fail(&trouble.failure);
                Vote::No(trouble.failure)
            }
        }
    }

    async fn commit_deciding(mut self: Box<Self>, decision: &[u8]) -> Result<Vec<u8>, ResourceError> {
        let shared = Arc::clone(&self.shared);
        let (request, attempt) = (self.name.request, self.name.attempt);
        let begin = match self.state.clone() {
            State::Fresh => BEGIN,
            State::Open => "",
            State::Failed(failure) => {
                self.roll_back().await;
                return Err(failure);
            }
            _ => return Err(shared.settings.statement("25P01", "the branch is not open any more")),
        };
        let write = Inner::deciding(request, attempt, decision);
        let lost = match self.run(&format!("{begin}; {write}; COMMIT")).await {
            Ok(()) => {
                self.end();
                return Ok(decision.to_vec());
            }
            Err(trouble) if trouble.is_lost => trouble.failure,
            Err(trouble) => {
                self.roll_back().await;
                if Inner::is_forgotten(&trouble) {
                    return Err(shared.settings.forgotten());
                }
                if !Inner::stands_already(&trouble) {
                    return Err(trouble.into());
                }
                trouble.failure
            }
        };
        // If the session is gone, the row is there or will never be.
        self.lease = None;
        shared.end_session(&self.name).await?;
        shared.read_decision(request, attempt).await?.ok_or(lost)
    }

    async fn decide(mut self: Box<Self>, outcome: Outcome) -> Result<(), ResourceError> {
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
