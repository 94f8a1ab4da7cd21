//! PostgreSQL as a participant.
//!
//! A branch is a transaction that ends with `PREPARE TRANSACTION`. It is the session that is known by the executor's name while the branch is open: the
//! name is set for the transaction and goes with it.

mod branch;
mod connection;
mod decisions;
mod error;
mod numeric;
mod recovery;
mod schema;
mod time;
mod value;

use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use jeton_etx::{
    AttemptId, Branch, CoordinatorId, Dialect, Outcome, PreparedBranch, Resource, ResourceError, Xid,
};
use jeton_etx::{AttemptNumber, RequestId};
use tokio_postgres::Config;

use crate::pool::{Pool, PooledConnection};
use crate::query_error::{QueryError, TextRows};
use crate::settings::Settings;
use branch::PostgresBranch;
use connection::Connection;

/// Connections beside those of branches, so that branches are ended even if all of them wait for one another.
const CONTROL_MAX: usize = 4;

/// A PostgreSQL database that takes part in transactions. All servers of a cluster must use the same role.
pub struct Postgres {
    shared: Arc<Inner>,
}

/// What branches and the resource have in common.
pub(crate) struct Inner {
    settings: Settings,
    config: Config,
    branches: Pool<Connection>,
    control: Pool<Connection>,
}

impl Postgres {
    /// A database by its URL or connection string. Nothing is connected yet.
    pub fn new(url: &str, settings: Settings) -> Result<Self, ResourceError> {
        let mut config = Config::from_str(url).map_err(|error| {
            settings.setup(error, "give a URL such as postgresql://role:password@host:5432/database")
        })?;
        config.connect_timeout(settings.wait_max);
        config.application_name("jeton");
        let (branches, control) =
            (Pool::new(settings.branches_max, settings.wait_max), Pool::new(CONTROL_MAX, settings.wait_max));
        Ok(Self { shared: Arc::new(Inner { settings, config, branches, control }) })
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
        match room.idle_one.take().filter(Connection::is_open) {
            Some(connection) => Ok(room.lease(connection, true)),
            None => Ok(room.lease(Connection::open(&self.config, &self.settings).await?, false)),
        }
    }

    /// A connection for a branch.
    async fn lease_learned(
        &self,
        executor: CoordinatorId,
    ) -> Result<PooledConnection<Connection>, ResourceError> {
        let mut lease = self.lease(&self.branches).await?;
        lease.connection.learn(&self.settings, executor).await?;
        Ok(lease)
    }

    /// Asks something on a connection beside those of branches. It must be safe to ask it twice.
    async fn ask(&self, sql: &str) -> Result<TextRows, QueryError> {
        loop {
            let lease = self.lease(&self.control).await?;
            match lease.connection.run(&self.settings, sql).await {
                Err(trouble) if trouble.is_lost && lease.was_idle => {}
                // A transaction that failed half-way goes with its connection.
                Err(trouble) if trouble.is_lost || sql.starts_with("BEGIN") => return Err(trouble),
                answer => {
                    lease.give_back();
                    return answer;
                }
            }
        }
    }
}

#[async_trait]
impl Resource for Postgres {
    fn name(&self) -> &str {
        &self.shared.settings.name
    }

    fn dialect(&self) -> Dialect {
        Dialect::Numbered
    }

    async fn begin(&self, attempt: AttemptId) -> Result<Box<dyn Branch>, ResourceError> {
        let shared = &self.shared;
        let lease = shared.lease_learned(attempt.executor).await?;
        let name = Xid {
            cluster: shared.settings.cluster,
            request: attempt.request,
            attempt: attempt.number,
            home: attempt.home,
            executor: attempt.executor,
            resource: shared.settings.number,
            connection: lease.connection.process,
        };
        Ok(Box::new(PostgresBranch::new(Arc::clone(shared), lease, name)))
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
