//! A branch in a database with prepared transactions.

use std::sync::Arc;

use async_trait::async_trait;
use jeton_etx::{Branch, Outcome, QueryResult, ResourceError, Value, Vote, Xid};

use crate::driver::{Driver, ErrorClass, Recovery, Session};
use crate::pool::PooledConnection;
use crate::query_error::{QueryError, TextRows};
use crate::statement_class::is_reading;
use crate::xa_resource::Database;

pub struct XaBranch<D: Driver> {
    database: Arc<Database<D>>,
    /// `None` after the branch has ended, or when the connection is unusable.
    connection: Option<PooledConnection<D::Session>>,
    xid: Xid,
    /// Whether the decision of the attempt is recorded in this database: the branch then commits together
    /// with the decision and is never prepared.
    decides_here: bool,
    /// Whether rows were changed for certain.
    has_changed: bool,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Nothing was sent to the database yet.
    Fresh,
    /// Statements can be executed.
    Open,
    /// A statement is in flight. If the caller drops its future, the branch stays in this state.
    Busy,
    /// A statement failed. The branch can only be rolled back, even where the engine would prepare it.
    Failed(ResourceError),
    /// The prepare was sent, and its result is not known.
    Preparing,
    Prepared,
    Ended,
}

impl<D: Recovery> XaBranch<D> {
    pub fn new(
        database: Arc<Database<D>>,
        connection: PooledConnection<D::Session>,
        xid: Xid,
        decides_here: bool,
    ) -> Self {
        Self {
            database,
            connection: Some(connection),
            xid,
            decides_here,
            has_changed: false,
            state: State::Fresh,
        }
    }

    fn lost(&self) -> QueryError {
        self.database.settings.transient("the connection is lost").into()
    }

    fn invalid_state(&self, why: &str) -> ResourceError {
        self.database.settings.statement(D::INVALID_STATE, why)
    }

    fn not_open(&self) -> ResourceError {
        self.invalid_state("the branch is no longer open")
    }

    async fn run(&mut self, sql: &str) -> Result<TextRows, QueryError> {
        match &mut self.connection {
            Some(pooled) => pooled.connection.run(&self.database.settings, sql).await,
            None => Err(self.lost()),
        }
    }

    async fn send(
        &mut self,
        begin: Option<&str>,
        statement: &str,
        parameters: &[Value],
    ) -> Result<QueryResult, QueryError> {
        let settings = &self.database.settings;
        match &mut self.connection {
            Some(pooled) => pooled.connection.execute(settings, begin, statement, parameters).await,
            None => Err(self.lost()),
        }
    }

    fn was_idle(&self) -> bool {
        self.connection.as_ref().is_some_and(|pooled| pooled.was_idle)
    }

    /// Replaces a connection that died while it was idle. Whatever was executed on it is rolled back with it.
    async fn reconnect(&mut self) -> Result<(), ResourceError> {
        self.connection = None;
        let pooled = self.database.acquire_for_branch(self.xid.coordinator).await?;
        self.xid.connection = pooled.connection.id();
        self.connection = Some(pooled);
        Ok(())
    }

    async fn begin(&mut self) -> Result<(), QueryError> {
        loop {
            let was_idle = self.was_idle();
            match self.run(&D::begin_sql(&self.xid, self.decides_here)).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_lost && was_idle => self.reconnect().await?,
                Err(error) => {
                    self.connection = None;
                    return Err(error);
                }
            }
        }
    }

    /// Begins the branch and executes its first statement in one round trip.
    async fn begin_with(&mut self, statement: &str, parameters: &[Value]) -> Result<QueryResult, QueryError> {
        loop {
            let was_idle = self.was_idle();
            let begin = D::begin_sql(&self.xid, self.decides_here);
            match self.send(Some(&begin), statement, parameters).await {
                Err(error) if error.is_lost && was_idle => self.reconnect().await?,
                result => return result,
            }
        }
    }

    async fn execute_open(
        &mut self,
        is_first: bool,
        statement: &str,
        parameters: &[Value],
    ) -> Result<QueryResult, ResourceError> {
        if let Some(why) = D::refusal(statement) {
            return Err(self.database.settings.statement(D::REFUSED_STATEMENT, why));
        }
        self.state = State::Busy;
        let result = if is_first && D::BEGIN_WITH_STATEMENT {
            self.begin_with(statement, parameters).await
        } else {
            if is_first {
                self.begin().await?;
            }
            self.send(None, statement, parameters).await
        };
        if result.as_ref().is_err_and(|error| error.is_lost) {
            self.connection = None;
        }
        let result = result?;
        let has_left = |pooled: &PooledConnection<D::Session>| !pooled.connection.is_in_transaction();
        if self.decides_here && self.connection.as_ref().is_some_and(has_left) {
            return Err(self.invalid_state("the statement has ended the transaction"));
        }
        Ok(result)
    }

    /// The branch has ended. Its connection returns to the pool.
    fn end(&mut self) {
        self.state = State::Ended;
        if let Some(pooled) = self.connection.take() {
            pooled.give_back();
        }
    }

    /// Executes statements that end the branch.
    async fn run_last(&mut self, sql: &str) -> Result<(), QueryError> {
        self.run(sql).await?;
        self.end();
        Ok(())
    }

    /// Rolls back a branch that is not prepared.
    async fn roll_back(&mut self) {
        if self.run_last(&D::rollback_sql(&self.xid, self.decides_here)).await.is_err() {
            // Closing the connection rolls it back.
            self.connection = None;
            self.state = State::Ended;
        }
    }

    /// For a planted bug: a session is never reset.
    async fn reset_session(&mut self) {
        #[cfg(feature = "mutations")]
        if mutated!(SessionReset)
            && let Some(pooled) = &mut self.connection
        {
            pooled.connection.reset().await;
        }
    }

    async fn end_prepared(&mut self, outcome: Outcome) -> Result<(), ResourceError> {
        self.reset_session().await;
        if self.run_last(&D::end_sql(&self.xid, outcome)).await.is_err() {
            self.connection = None;
            return D::resolve(&self.database, &self.xid, outcome).await;
        }
        if outcome == Outcome::Abort {
            self.database.driver.on_rolled_back(&self.xid);
        }
        Ok(())
    }
}

#[async_trait]
impl<D: Recovery> Branch for XaBranch<D> {
    fn name(&self) -> Xid {
        self.xid
    }

    async fn execute(&mut self, statement: &str, parameters: &[Value]) -> Result<QueryResult, ResourceError> {
        let is_first = match &self.state {
            State::Fresh => true,
            State::Open => false,
            State::Failed(error) => return Err(error.clone()),
            _ => return Err(self.not_open()),
        };
        let result = self.execute_open(is_first, statement, parameters).await;
        self.state = match &result {
            Err(error) if !mutated!(ErrorIgnored) => State::Failed(error.clone()),
            _ => State::Open,
        };
        if let Ok(executed) = &result {
            self.has_changed |= executed.count > 0 && !is_reading(statement);
        }
        result
    }

    async fn vote(&mut self) -> Vote {
        match &self.state {
            State::Fresh | State::Open if self.decides_here => {
                let why = "the branch commits together with its decision and cannot be prepared";
                return Vote::No(self.invalid_state(why));
            }
            State::Fresh => {
                self.end();
                return Vote::Unchanged;
            }
            State::Open => {}
            State::Failed(_) if mutated!(UnguardedVote) => {}
            State::Failed(error) => return Vote::No(error.clone()),
            _ => return Vote::No(self.not_open()),
        }
        self.state = State::Preparing;
        let settings = &self.database.settings;
        let result = match &mut self.connection {
            Some(pooled) => D::prepare(&mut pooled.connection, settings, &self.xid, self.has_changed).await,
            None => Err(self.lost()),
        };
        match result {
            Ok(Vote::Unchanged) => {
                self.end();
                Vote::Unchanged
            }
            Ok(vote) => {
                self.state = State::Prepared;
                vote
            }
            Err(error) => {
                if error.is_lost {
                    self.connection = None;
                } else if D::ERROR_FAILS_TRANSACTION {
                    self.state = State::Failed(error.error.clone());
                }
                Vote::No(error.error)
            }
        }
    }

    async fn commit_deciding(mut self: Box<Self>, decision: &[u8]) -> Result<Vec<u8>, ResourceError> {
        let database = Arc::clone(&self.database);
        let begin = match self.state.clone() {
            State::Fresh | State::Open if !self.decides_here => {
                return Err(self.invalid_state("the decision of this branch is recorded elsewhere"));
            }
            State::Fresh if D::BEGIN_WITH_STATEMENT => Some(D::begin_sql(&self.xid, self.decides_here)),
            State::Fresh => {
                self.begin().await?;
                None
            }
            State::Open => None,
            State::Failed(error) => {
                self.roll_back().await;
                return Err(error);
            }
            _ => return Err(self.not_open()),
        };
        let commit = D::commit_deciding_sql(&database.settings, begin.as_deref(), &self.xid, decision);
        let error = match self.run_last(&commit).await {
            Ok(()) => return Ok(decision.to_vec()),
            Err(error) if error.is_lost => error.error,
            Err(error) => {
                self.roll_back().await;
                match D::classify(&error) {
                    ErrorClass::DecisionExists => error.error,
                    ErrorClass::Forgotten => return Err(database.settings.forgotten()),
                    ErrorClass::Other => return Err(error.into()),
                }
            }
        };
        // After the session has ended, the decision is recorded or never will be.
        self.connection = None;
        D::end_session(&database, &self.xid).await?;
        database.read_decision(self.xid.request, self.xid.attempt).await?.ok_or(error)
    }

    async fn decide(mut self: Box<Self>, outcome: Outcome) -> Result<(), ResourceError> {
        match (&self.state, outcome) {
            (State::Ended, _) => Ok(()),
            (State::Prepared, outcome) => self.end_prepared(outcome).await,
            (_, Outcome::Commit) => {
                self.connection = None;
                D::resolve(&self.database, &self.xid, outcome).await
            }
            (State::Fresh, Outcome::Abort) => {
                self.end();
                Ok(())
            }
            (State::Open | State::Failed(_), Outcome::Abort) => {
                self.roll_back().await;
                Ok(())
            }
            // A statement, perhaps the prepare, may be in flight. Wait for its end, so that it cannot take
            // effect later.
            (State::Busy | State::Preparing, Outcome::Abort) => {
                self.connection = None;
                D::end_session(&self.database, &self.xid).await?;
                D::resolve(&self.database, &self.xid, outcome).await
            }
        }
    }
}
