//! The operations in which database engines with prepared transactions differ.

use async_trait::async_trait;
use jeton_etx::{
    AttemptNumber, CoordinatorId, Dialect, Outcome, PreparedBranch, QueryResult, RequestId, ResourceError,
    Value, Vote, Xid,
};

use crate::query_error::{QueryError, TextRows};
use crate::settings::Settings;
use crate::xa_resource::Database;

/// What the error of a statement that writes a decision means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The attempt has a decision already.
    DecisionExists,
    /// The session is below the retention limit.
    Forgotten,
    /// Any other error.
    Other,
}

/// A session of a database. It is closed when it is dropped.
#[async_trait]
pub trait Session: Send + 'static {
    /// Whether a pooled session looks alive.
    fn is_open(&self) -> bool {
        true
    }

    /// The engine's number for the session.
    fn id(&self) -> u64;

    /// Labels the session with its coordinator, so that other servers can find and terminate it.
    async fn label(&mut self, settings: &Settings, coordinator: CoordinatorId) -> Result<(), QueryError>;

    /// Executes statements without parameters in one message, up to the first error.
    async fn run(&mut self, settings: &Settings, sql: &str) -> Result<TextRows, QueryError>;

    /// Executes a statement with parameters, after `begin` if there is one.
    async fn execute(
        &mut self,
        settings: &Settings,
        begin: Option<&str>,
        sql: &str,
        values: &[Value],
    ) -> Result<QueryResult, QueryError>;

    /// Whether the session was in a transaction after its last statement. An engine that refuses statements
    /// which end a transaction need not look.
    fn is_in_transaction(&self) -> bool {
        true
    }

    /// Resets the session, for a planted bug.
    #[cfg(feature = "mutations")]
    async fn reset(&mut self) {}
}

/// The statements about decisions.
pub trait DecisionSql {
    /// Writes a decision and commits, on the session of a branch, after `begin` if there is one.
    fn commit_deciding_sql(settings: &Settings, begin: Option<&str>, xid: &Xid, decision: &[u8]) -> String;

    /// Writes a decision unless there is one, and returns the row of
    /// [`read_decision_sql`](Self::read_decision_sql) last. A decision below the retention limit violates the
    /// not-null constraint.
    fn write_decision_sql(
        settings: &Settings,
        request: RequestId,
        attempt: AttemptNumber,
        decision: &[u8],
    ) -> String;

    /// Returns the decision in hexadecimal digits, and whether the session is below the retention limit.
    fn read_decision_sql(settings: &Settings, request: RequestId, attempt: AttemptNumber) -> String;

    /// Raises the retention limit.
    fn raise_retention_sql(settings: &Settings, below: u128) -> String;

    /// Delete at most `batch` commit markers or decisions below the retention limit, and return the number of
    /// deleted rows.
    fn delete_expired_sql(settings: &Settings, below: u128, batch: usize) -> [String; 2];

    /// What the error of a statement that writes a decision means.
    fn classify(error: &QueryError) -> ErrorClass;
}

/// A database engine: its sessions, and the statements that begin and end branches.
/// [`XaResource`](crate::xa_resource::XaResource) and [`XaBranch`](crate::xa_branch::XaBranch) implement the
/// protocol on top of it.
#[async_trait]
pub trait Driver: DecisionSql + Sized + Send + Sync + 'static {
    type Session: Session;

    /// The placeholder syntax of statements.
    const DIALECT: Dialect;
    /// Error code for a call that the state of the branch does not permit.
    const INVALID_STATE: &'static str;
    /// Error code for a statement that a branch does not accept.
    const REFUSED_STATEMENT: &'static str;
    /// Whether the statement that begins a branch is sent together with the first statement of the branch.
    const BEGIN_WITH_STATEMENT: bool;
    /// Whether the engine accepts nothing but a rollback after an error in a transaction.
    const ERROR_FAILS_TRANSACTION: bool;
    /// SQL function that returns the schema of the tables.
    const CURRENT_SCHEMA: &'static str;
    /// The text of the boolean value true in a result.
    const TRUE: &'static str;

    /// Parses a URL. Does not connect.
    fn new(url: &str, settings: &Settings) -> Result<Self, ResourceError>;

    /// Opens a session.
    async fn connect(&self, settings: &Settings) -> Result<Self::Session, ResourceError>;

    /// The reason why a branch does not accept a statement.
    fn refusal(statement: &str) -> Option<&'static str>;

    /// Begins a branch. A branch that `decides_here` commits together with its decision and is never
    /// prepared.
    fn begin_sql(xid: &Xid, decides_here: bool) -> String;

    /// Rolls back a branch that is not prepared.
    fn rollback_sql(xid: &Xid, decides_here: bool) -> String;

    /// Commits or rolls back a prepared branch.
    fn end_sql(xid: &Xid, outcome: Outcome) -> String;

    /// Prepares a branch. `has_changed`: the branch has changed rows for certain.
    async fn prepare(
        session: &mut Self::Session,
        settings: &Settings,
        xid: &Xid,
        has_changed: bool,
    ) -> Result<Vote, QueryError>;

    /// Called after a branch was rolled back on its own session.
    fn on_rolled_back(&self, _xid: &Xid) {}
}

/// The tables of the coordinators, and the setup of the database.
#[async_trait]
pub trait Schema: Driver {
    /// Records the deployment unless there is one, and returns the recorded one last.
    fn claim_sql(settings: &Settings) -> String;

    /// Creates missing tables and checks the setup; returns warnings.
    async fn ensure_schema(database: &Database<Self>) -> Result<Vec<String>, ResourceError>;
}

/// Prepared branches without their session.
#[async_trait]
pub trait Recovery: Driver {
    /// Lists the locks of a prepared branch, one row each.
    fn locks_sql(xid: &Xid) -> String;

    /// The prepared branches of this cluster.
    async fn prepared(database: &Database<Self>) -> Result<Vec<PreparedBranch>, ResourceError>;

    /// Commits or rolls back a branch whose session is not known.
    async fn resolve(database: &Database<Self>, xid: &Xid, outcome: Outcome) -> Result<(), ResourceError>;

    /// Terminates the session that began a branch and waits until it is gone.
    async fn end_session(database: &Database<Self>, xid: &Xid) -> Result<(), ResourceError>;

    /// Terminates all sessions of a coordinator's server and waits until they are gone.
    async fn fence(database: &Database<Self>, coordinator: CoordinatorId) -> Result<(), ResourceError>;
}
