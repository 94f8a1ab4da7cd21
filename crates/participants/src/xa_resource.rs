//! A database with prepared transactions as a participant: connections, decisions and recovery.

use std::sync::Arc;

use async_trait::async_trait;
use jeton_etx::{
    AttemptId, AttemptNumber, Branch, CoordinatorId, DecisionLocation, Dialect, Outcome, PreparedBranch,
    RequestId, Resource, ResourceError, Xid,
};

use crate::driver::{Driver, ErrorClass, Recovery, Schema, Session};
use crate::identifiers::unhex;
use crate::pool::{Pool, PooledConnection};
use crate::query_error::{QueryError, TextRows, first};
use crate::settings::Settings;
use crate::xa_branch::XaBranch;

/// Connections for recovery and decisions. They are separate from the connections of branches, so that
/// branches can be resolved while all branches wait for each other.
const CONTROL_CONNECTIONS: usize = 4;

/// Tables that had another name in earlier versions.
const RENAMED_TABLES: &[(&str, &str)] =
    &[("etx_mark", "etx_commit_marker"), ("etx_forgotten", "etx_retention")];

/// Rows deleted per statement.
const DELETE_BATCH: usize = 1_000;

/// A database that takes part in transactions. All servers of a cluster must use the same account.
pub struct XaResource<D: Driver> {
    database: Arc<Database<D>>,
}

/// The state that the resource shares with its branches.
pub struct Database<D: Driver> {
    pub settings: Settings,
    pub driver: D,
    branches: Pool<D::Session>,
    control: Pool<D::Session>,
}

impl<D: Driver> XaResource<D> {
    /// A database by its URL. Does not connect yet.
    pub fn new(url: &str, settings: Settings) -> Result<Self, ResourceError> {
        let driver = D::new(url, &settings)?;
        let branches = Pool::new(settings.branches_max);
        let control = Pool::new(CONTROL_CONNECTIONS);
        Ok(Self { database: Arc::new(Database { settings, driver, branches, control }) })
    }
}

impl<D: Schema> XaResource<D> {
    /// Creates missing tables and checks that a branch can be prepared. Returns warnings.
    pub async fn ensure_schema(&self) -> Result<Vec<String>, ResourceError> {
        D::ensure_schema(&self.database).await
    }

    /// Reserves the cluster number for this deployment: [`ResourceError::Setup`] if another deployment has
    /// it. Needs the tables.
    pub async fn claim(&self) -> Result<(), ResourceError> {
        let settings = &self.database.settings;
        let rows = self.database.query(&D::claim_sql(settings)).await?;
        settings.claimed(first(&rows))
    }
}

impl<D: Driver> Database<D> {
    /// A connection of a pool, or a new one.
    async fn acquire(&self, pool: &Pool<D::Session>) -> Result<PooledConnection<D::Session>, ResourceError> {
        let connect = async { self.driver.connect(&self.settings).await };
        pool.acquire(&self.settings, D::Session::is_open, connect).await
    }

    /// A connection for recovery and decisions.
    pub async fn acquire_control(&self) -> Result<PooledConnection<D::Session>, ResourceError> {
        self.acquire(&self.control).await
    }

    /// A connection for a branch, labelled with its coordinator.
    pub async fn acquire_for_branch(
        &self,
        coordinator: CoordinatorId,
    ) -> Result<PooledConnection<D::Session>, ResourceError> {
        loop {
            let mut pooled = self.acquire(&self.branches).await?;
            match pooled.connection.label(&self.settings, coordinator).await {
                // The connection died while it was idle.
                Err(error) if error.is_lost && pooled.was_idle => {}
                result => return result.map(|()| pooled).map_err(ResourceError::from),
            }
        }
    }

    /// Executes statements on a control connection. They must be safe to repeat.
    pub async fn query(&self, sql: &str) -> Result<TextRows, QueryError> {
        loop {
            let mut pooled = self.acquire_control().await?;
            match pooled.connection.run(&self.settings, sql).await {
                Err(error) if error.is_lost && pooled.was_idle => {}
                // Closing the connection rolls back a transaction that failed halfway.
                Err(error) if error.is_lost || sql.starts_with("BEGIN") => return Err(error),
                result => {
                    pooled.give_back();
                    return result;
                }
            }
        }
    }

    /// Gives the tables of an earlier version their present names. Fails if both names exist, because a
    /// server of the earlier version may have written to the old table.
    pub async fn rename_old_tables(&self) -> Result<(), ResourceError> {
        for (old, new) in RENAMED_TABLES {
            // The new name first: another server may rename the table between the two queries.
            let has_new = self.has_table(new).await?;
            if !self.has_table(old).await? {
                continue;
            }
            if has_new {
                let why = format!("the tables {old} and {new} both exist");
                let remedy = "stop all servers of the earlier version; if the new table is empty, drop it and \
                              start again; if the old table is empty, drop that one";
                return Err(self.settings.setup(why, remedy));
            }
            let rename = self.query(&format!("ALTER TABLE {old} RENAME TO {new}")).await;
            // Another server may have renamed it at the same moment.
            if let Err(error) = rename
                && self.has_table(old).await?
            {
                let why = format!("the table {old} cannot be renamed to {new}: {}", error.error);
                let remedy = "let the earlier version resolve its prepared branches, stop its servers and start \
                              again";
                return Err(self.settings.setup(why, remedy));
            }
        }
        Ok(())
    }

    async fn has_table(&self, table: &str) -> Result<bool, ResourceError> {
        let query = format!(
            "SELECT 1 FROM information_schema.tables WHERE table_name = '{table}' AND table_schema = {}",
            D::CURRENT_SCHEMA
        );
        Ok(!self.query(&query).await?.is_empty())
    }

    pub async fn read_decision(
        &self,
        request: RequestId,
        attempt: AttemptNumber,
    ) -> Result<Option<Vec<u8>>, ResourceError> {
        let rows = self.query(&D::read_decision_sql(&self.settings, request, attempt)).await?;
        self.parse_decision(&rows)
    }

    /// The decision in the last row of a result of [`Driver::read_decision_sql`].
    fn parse_decision(&self, rows: &TextRows) -> Result<Option<Vec<u8>>, ResourceError> {
        match rows.last().map(Vec::as_slice) {
            Some([Some(text), _]) => {
                let unreadable = || self.settings.transient("a decision cannot be decoded");
                unhex(text).map(Some).ok_or_else(unreadable)
            }
            Some([None, Some(is_forgotten)]) if is_forgotten == D::TRUE => Err(self.settings.forgotten()),
            _ => Ok(None),
        }
    }
}

#[async_trait]
impl<D: Recovery> Resource for XaResource<D> {
    fn name(&self) -> &str {
        &self.database.settings.name
    }

    fn dialect(&self) -> Dialect {
        D::DIALECT
    }

    fn keeps_decisions(&self) -> bool {
        true
    }

    async fn begin(&self, attempt: AttemptId) -> Result<Box<dyn Branch>, ResourceError> {
        let settings = &self.database.settings;
        let pooled = self.database.acquire_for_branch(attempt.coordinator).await?;
        let xid = settings.branch(attempt, pooled.connection.id());
        let decides_here = attempt.decision_location == DecisionLocation::Resource(settings.number);
        Ok(Box::new(XaBranch::new(Arc::clone(&self.database), pooled, xid, decides_here)))
    }

    async fn locks(&self, branch: &Xid) -> Result<Vec<String>, ResourceError> {
        let rows = self.database.query(&D::locks_sql(branch)).await?;
        Ok(rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
    }

    async fn prepared(&self) -> Result<Vec<PreparedBranch>, ResourceError> {
        D::prepared(&self.database).await
    }

    async fn decide(&self, branch: &Xid, outcome: Outcome) -> Result<(), ResourceError> {
        D::resolve(&self.database, branch, outcome).await
    }

    async fn write_decision(
        &self,
        request: RequestId,
        attempt: AttemptNumber,
        decision: &[u8],
    ) -> Result<Vec<u8>, ResourceError> {
        let database = &self.database;
        let write = D::write_decision_sql(&database.settings, request, attempt, decision);
        match database.query(&write).await {
            Ok(rows) => {
                let recorded = database.parse_decision(&rows)?;
                recorded.ok_or_else(|| database.settings.transient("a decision that was written is missing"))
            }
            Err(error) if D::classify(&error) == ErrorClass::Forgotten => Err(database.settings.forgotten()),
            Err(error) => Err(error.into()),
        }
    }

    async fn read_decision(
        &self,
        request: RequestId,
        attempt: AttemptNumber,
    ) -> Result<Option<Vec<u8>>, ResourceError> {
        self.database.read_decision(request, attempt).await
    }

    async fn forget(&self, below: u128) -> Result<(), ResourceError> {
        let database = &self.database;
        database.query(&D::raise_retention_sql(&database.settings, below)).await?;
        for delete in D::delete_expired_sql(&database.settings, below, DELETE_BATCH) {
            while first(&database.query(&delete).await?) == Some(DELETE_BATCH.to_string().as_str()) {}
        }
        Ok(())
    }

    async fn fence(&self, coordinator: CoordinatorId) -> Result<(), ResourceError> {
        if mutated!(FenceOmitted) {
            return Ok(());
        }
        D::fence(&self.database, coordinator).await
    }
}
