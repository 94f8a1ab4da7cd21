//! MariaDB as a participant.
//!
//! A branch is an XA transaction; where its try is decided in this database, it is a plain one, for it is never prepared. A session holds a lock with
//! the names of its server and of itself: by that it is found, and ended if need be.
//!
//! It cannot be told from outside whether a branch changed anything, so every branch that executed a statement is marked and prepared. That is right also for one
//! that did not: a prepared branch without a change is gone with its session.

mod branch;
mod connection;
mod decisions;
mod error;
mod recovery;
mod schema;
mod value;

use std::sync::Arc;

use async_trait::async_trait;
use jeton_etx::{
    AttemptId, Branch, CoordinatorId, DecisionLocation, Dialect, Outcome, PreparedBranch, Resource,
    ResourceError, Xid,
};
use jeton_etx::{AttemptNumber, RequestId};
use mysql_async::{Opts, OptsBuilder};

use crate::identifiers::at_work;
use crate::pool::{Pool, PooledConnection};
use crate::query_error::{QueryError, TextRows};
use crate::settings::Settings;
use branch::MariaDbBranch;
use connection::Connection;

/// Connections beside those of branches, so that branches are ended even if all of them wait for one another.
const CONTROL_MAX: usize = 4;

/// A MariaDB database that takes part in transactions. All servers of a cluster must use the same account.
pub struct MariaDb {
    shared: Arc<Inner>,
}

/// What branches and the resource have in common.
pub(crate) struct Inner {
    settings: Settings,
    options: Opts,
    branches: Pool<Connection>,
    control: Pool<Connection>,
    #[cfg(feature = "mutations")]
    rolled_back: std::sync::Mutex<std::collections::HashSet<Xid>>,
}

impl MariaDb {
    /// A database by its URL. Nothing is connected yet.
    pub fn new(url: &str, settings: Settings) -> Result<Self, ResourceError> {
        let options = Opts::from_url(url).map_err(|error| {
            settings.setup(error, "give a URL such as mysql://account:password@host:3306/database")
        })?;
        let seconds = |time: std::time::Duration| time.as_secs().max(1);
        let session = format!(
            "SET SESSION autocommit = 1, completion_type = 'NO_CHAIN', innodb_lock_wait_timeout = {lock}, \
             lock_wait_timeout = {lock}, max_statement_time = {}, idle_transaction_timeout = {}",
            settings.statement_max.as_secs_f64(),
            seconds(settings.idle_max),
            lock = seconds(settings.lock_max),
        );
        // A socket would be another way than the one that was given.
        let options = OptsBuilder::from_opts(options)
            .prefer_socket(false)
            .tcp_nodelay(true)
            .stmt_cache_size(256)
            // Rows that were as they should be count, as they do in PostgreSQL.
            .client_found_rows(true)
            .init(vec![session])
            .into();
        let (branches, control) =
            (Pool::new(settings.branches_max, settings.wait_max), Pool::new(CONTROL_MAX, settings.wait_max));
        #[cfg(feature = "mutations")]
        let rolled_back = Default::default();
        let shared = Inner {
            settings,
            options,
            branches,
            control,
            #[cfg(feature = "mutations")]
            rolled_back,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Makes the tables that are missing, and tries out whether a branch can be prepared. Returns what is not wrong and still should be known.
    pub async fn ensure_schema(&self) -> Result<Vec<String>, ResourceError> {
        self.shared.ensure_schema().await
    }

    /// Makes sure that no other deployment has our number here, and that none will: [`ResourceError::Setup`] if one has. Needs the tables.
    pub async fn claim(&self) -> Result<(), ResourceError> {
        self.shared.claim().await
    }
}

impl Inner {
    /// A connection of a pool, or a new one.
    async fn lease(&self, pool: &Pool<Connection>) -> Result<PooledConnection<Connection>, ResourceError> {
        let room = pool.room().await;
        let mut room = room.map_err(|_| self.settings.passing("no connection came free in time"))?;
        match room.idle_one.take() {
            Some(connection) => Ok(room.lease(connection, true)),
            None => Ok(room.lease(Connection::open(&self.options, &self.settings).await?, false)),
        }
    }

    /// Asks something on a connection beside those of branches. It must be safe to ask it twice.
    async fn ask(&self, sql: &str) -> Result<TextRows, QueryError> {
        loop {
            let mut lease = self.lease(&self.control).await?;
            match lease.connection.run(&self.settings, sql).await {
                Err(trouble) if trouble.is_lost && lease.was_idle => {}
                Err(trouble) if trouble.is_lost => return Err(trouble),
                answer => {
                    lease.give_back();
                    return answer;
                }
            }
        }
    }

    /// A connection for a branch.
    async fn lease_named(
        &self,
        executor: CoordinatorId,
    ) -> Result<PooledConnection<Connection>, ResourceError> {
        loop {
            let mut lease = self.lease(&self.branches).await?;
            let lock = self.lock_name(executor, lease.connection.id);
            match lease.connection.take_name(&self.settings, lock).await {
                // It died while it lay idle.
                Err(trouble) if trouble.is_lost && lease.was_idle => {}
                answer => return answer.map(|()| lease).map_err(ResourceError::from),
            }
        }
    }

    /// The lock of a session of a server. Locks are those of the whole database server, which may be several resources.
    fn lock_name(&self, executor: CoordinatorId, connection: impl std::fmt::Display) -> String {
        format!("{}:{:02x}:{connection}", at_work(executor), self.settings.number)
    }
}

#[async_trait]
impl Resource for MariaDb {
    fn name(&self) -> &str {
        &self.shared.settings.name
    }

    fn dialect(&self) -> Dialect {
        Dialect::Question
    }

    async fn begin(&self, attempt: AttemptId) -> Result<Box<dyn Branch>, ResourceError> {
        let shared = &self.shared;
        let settings = &shared.settings;
        let lease = shared.lease_named(attempt.executor).await?;
        let name = Xid {
            cluster: settings.cluster,
            request: attempt.request,
            attempt: attempt.number,
            home: attempt.home,
            executor: attempt.executor,
            resource: settings.number,
            connection: lease.connection.id,
        };
        let is_home = attempt.home == DecisionLocation::Resource(settings.number);
        Ok(Box::new(MariaDbBranch::new(Arc::clone(shared), lease, name, is_home)))
    }

    async fn locks(&self, branch: &Xid) -> Result<Vec<String>, ResourceError> {
        self.shared.locks(branch).await
    }

    async fn prepared(&self) -> Result<Vec<PreparedBranch>, ResourceError> {
        self.shared.prepared().await
    }

    async fn decide(&self, branch: &Xid, outcome: Outcome) -> Result<(), ResourceError> {
        self.shared.decide(branch, outcome).await
    }

    async fn write_decision(
        &self,
        request: RequestId,
        attempt: AttemptNumber,
        decision: &[u8],
    ) -> Result<Vec<u8>, ResourceError> {
        self.shared.write_decision(request, attempt, decision).await
    }

    async fn read_decision(
        &self,
        request: RequestId,
        attempt: AttemptNumber,
    ) -> Result<Option<Vec<u8>>, ResourceError> {
        self.shared.read_decision(request, attempt).await
    }

    async fn forget(&self, below: u128) -> Result<(), ResourceError> {
        self.shared.forget(below).await
    }

    async fn fence(&self, executor: CoordinatorId) -> Result<(), ResourceError> {
        self.shared.fence(executor).await
    }
}

/// Statements as one: MariaDB answers once, and not after each. That is sooner, for each answer wakes who waits; and no error comes late.
fn at_once(statements: &str) -> String {
    format!("BEGIN NOT ATOMIC {statements}; END")
}

/// The name of a branch in statements.
fn xid(name: &Xid) -> String {
    format!("'{}','{}',{}", name.gtrid(), name.bqual(), Xid::FORMAT)
}
