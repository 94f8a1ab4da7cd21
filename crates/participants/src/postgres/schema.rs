//! The tables in PostgreSQL, and the check of its setup.

use async_trait::async_trait;
use jeton_etx::{Cluster, CoordinatorId, Outcome, ResourceError, Xid};

use super::PostgresDriver;
use crate::driver::{Recovery, Schema, Session};
use crate::query_error::first;
use crate::settings::Settings;
use crate::xa_resource::Database;

/// Branch names have a binary collation, so that the names of old sessions are a contiguous range.
const TABLES: &str = r#"
CREATE TABLE IF NOT EXISTS etx_commit_marker (
    gid text COLLATE "C" PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS etx_decision (
    cluster bigint, session uuid, sequence bigint, attempt smallint, decision bytea NOT NULL,
    PRIMARY KEY (cluster, session, sequence, attempt));
CREATE TABLE IF NOT EXISTS etx_retention (cluster bigint PRIMARY KEY, below uuid NOT NULL);
CREATE TABLE IF NOT EXISTS etx_deployment (cluster bigint PRIMARY KEY, deployment bigint NOT NULL);
"#;

/// The statements that end branches.
///
/// - `etx_changed` fails if the transaction has changed nothing.
/// - `etx_vote` writes the commit marker of a branch.
/// - `etx_share` blocks a rise of the retention limit until the transaction ends.
/// - `etx_decide` writes a decision. A session below the retention limit violates the not-null constraint.
pub fn prepared_statements(cluster: u32) -> String {
    format!(
        "PREPARE etx_changed AS SELECT 1 / (pg_current_xact_id_if_assigned() IS NOT NULL)::int; \
         PREPARE etx_vote (text) AS INSERT INTO etx_commit_marker (gid) VALUES ($1); \
         PREPARE etx_share AS SELECT pg_advisory_xact_lock_shared({}, 1); \
         PREPARE etx_decide (uuid, bigint, smallint, bytea) AS INSERT INTO etx_decision \
         SELECT {cluster}, $1, $2, $3, CASE WHEN below <= $1 THEN $4 END FROM etx_retention WHERE cluster = {cluster}",
        Xid::FORMAT
    )
}

#[async_trait]
impl Schema for PostgresDriver {
    fn claim_sql(settings: &Settings) -> String {
        let Cluster { number, deployment } = settings.cluster;
        format!(
            "INSERT INTO etx_deployment VALUES ({number}, {deployment}) ON CONFLICT DO NOTHING; \
             SELECT deployment FROM etx_deployment WHERE cluster = {number}"
        )
    }

    async fn ensure_schema(database: &Database<Self>) -> Result<Vec<String>, ResourceError> {
        let mut warnings = Vec::new();
        let server = "SELECT pg_is_in_recovery(), current_setting('server_version_num')::int >= 130000, \
                     current_setting('max_prepared_transactions')::int, current_setting('fsync'), \
                     (SELECT count(*) FROM pg_stat_replication)";
        let server = database.query(server).await?;
        let server = server.first().cloned().unwrap_or_default();
        let server: Vec<&str> = server.iter().map(|text| text.as_deref().unwrap_or_default()).collect();
        let [standby, new_enough, prepared_max, fsync, replicas] = server[..] else {
            return Err(database.settings.transient("it does not report its settings"));
        };
        if standby == "t" {
            return Err(database.settings.setup("it is a standby", "use the address of the primary"));
        }
        if new_enough != "t" {
            return Err(database.settings.setup("it is older than PostgreSQL 13", "use a newer PostgreSQL"));
        }
        let prepared_max: usize = prepared_max.parse().unwrap_or(0);
        if prepared_max == 0 {
            let remedy = "set max_prepared_transactions in postgresql.conf, for example to 200, and restart PostgreSQL";
            return Err(database.settings.setup("prepared transactions are disabled", remedy));
        }
        if prepared_max < database.settings.branches_max {
            let branches = database.settings.branches_max;
            warnings.push(format!(
                "max_prepared_transactions is {prepared_max}, less than the {branches} branches that one server \
                 may have open"
            ));
        }
        if fsync != "on" {
            warnings.push("fsync is off: prepared branches are lost when the machine stops".into());
        }
        if replicas != "0" {
            warnings.push(
                "it has replicas: decisions survive a failover only if synchronous_standby_names makes commits wait \
                 for the replicas"
                    .into(),
            );
        }
        database.rename_old_tables().await?;
        database.create_tables().await?;
        database.check_privileges().await?;
        Ok(warnings)
    }
}

impl Database<PostgresDriver> {
    /// The advisory lock serializes servers that start at the same moment.
    async fn create_tables(&self) -> Result<(), ResourceError> {
        let cluster = self.settings.cluster.number;
        let create = format!(
            "BEGIN; SELECT pg_advisory_xact_lock({}, 2); {TABLES} \
             INSERT INTO etx_retention VALUES ({cluster}, '00000000-0000-0000-0000-000000000000') \
             ON CONFLICT DO NOTHING; COMMIT",
            Xid::FORMAT
        );
        let missing = "SELECT count(*) FROM (VALUES ('etx_commit_marker'), ('etx_decision'), ('etx_retention'), ('etx_deployment')) \
                     AS needed(name) WHERE to_regclass(name) IS NULL";
        let row = format!("SELECT 1 FROM etx_retention WHERE cluster = {cluster}");
        // If the tables exist, the privilege to create them is not needed.
        if first(&self.query(missing).await?) == Some("0") && !self.query(&row).await?.is_empty() {
            return Ok(());
        }
        self.query(&create).await.map(drop).map_err(ResourceError::from)
    }

    /// Prepares a branch and rolls it back, and tries all other statements: missing privileges show now.
    async fn check_privileges(&self) -> Result<(), ResourceError> {
        // Resolve the branch of an interrupted check. A check in flight tolerates this.
        for left in PostgresDriver::prepared(self).await? {
            if left.name.coordinator == CoordinatorId::TRIAL {
                PostgresDriver::resolve(self, &left.name, Outcome::Abort).await?;
            }
        }
        let mut pooled = self.acquire_control().await?;
        let xid = self.settings.trial_branch(pooled.connection.id());
        let gid = xid.gid();
        let prepare = format!(
            "BEGIN; SAVEPOINT etx; RELEASE etx; INSERT INTO etx_commit_marker (gid) VALUES ('{gid}'); \
             PREPARE TRANSACTION '{gid}'"
        );
        pooled.connection.run(&self.settings, &prepare).await?;
        PostgresDriver::resolve(self, &xid, Outcome::Abort).await?;
        let statements = "BEGIN; DELETE FROM etx_commit_marker WHERE false; DELETE FROM etx_decision WHERE false; \
                      UPDATE etx_retention SET below = below WHERE false; \
                      INSERT INTO etx_decision TABLE etx_decision LIMIT 0; \
                      INSERT INTO etx_deployment TABLE etx_deployment LIMIT 0; ROLLBACK";
        pooled.connection.run(&self.settings, statements).await?;
        pooled.give_back();
        Ok(())
    }
}
