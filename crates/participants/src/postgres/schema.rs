//! Our tables in PostgreSQL, and whether it is set up for us.

use jeton_etx::{
    AttemptNumber, Cluster, CoordinatorId, DecisionLocation, Outcome, RequestId, ResourceError, Xid,
};

use super::Inner;
use crate::query_error::first;

/// Names of branches are compared byte by byte, whatever the language of the database: those of old sessions are a range.
const TABLES: &str = r#"
CREATE TABLE IF NOT EXISTS etx_mark (
    gid text COLLATE "C" PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS etx_decision (
    cluster bigint, session uuid, sequence bigint, attempt smallint, decision bytea NOT NULL,
    PRIMARY KEY (cluster, session, sequence, attempt));
CREATE TABLE IF NOT EXISTS etx_forgotten (cluster bigint PRIMARY KEY, below uuid NOT NULL);
CREATE TABLE IF NOT EXISTS etx_deployment (cluster bigint PRIMARY KEY, deployment bigint NOT NULL);
"#;

/// What a session executes at the end of every branch.
///
/// - `etx_changed` fails if the transaction has changed nothing.
/// - `etx_vote` writes the mark of a branch.
/// - `etx_share` keeps whoever forgets from doing so meanwhile.
/// - `etx_decide` writes a decision. What is forgotten violates that a decision is never null.
pub fn statements(cluster: u32) -> String {
    format!(
        "PREPARE etx_changed AS SELECT 1 / (pg_current_xact_id_if_assigned() IS NOT NULL)::int; \
         PREPARE etx_vote (text) AS INSERT INTO etx_mark (gid) VALUES ($1); \
         PREPARE etx_share AS SELECT pg_advisory_xact_lock_shared({}, 1); \
         PREPARE etx_decide (uuid, bigint, smallint, bytea) AS INSERT INTO etx_decision \
         SELECT {cluster}, $1, $2, $3, CASE WHEN below <= $1 THEN $4 END FROM etx_forgotten WHERE cluster = {cluster}",
        Xid::FORMAT
    )
}

impl Inner {
    pub async fn ensure_schema(&self) -> Result<Vec<String>, ResourceError> {
        let mut warnings = Vec::new();
        let about = "SELECT pg_is_in_recovery(), current_setting('server_version_num')::int >= 130000, \
                     current_setting('max_prepared_transactions')::int, current_setting('fsync'), \
                     (SELECT count(*) FROM pg_stat_replication)";
        let about = self.ask(about).await?;
        let about = about.first().cloned().unwrap_or_default();
        let about: Vec<&str> = about.iter().map(|text| text.as_deref().unwrap_or_default()).collect();
        let [standby, new_enough, prepared_max, fsync, replicas] = about[..] else {
            return Err(self.settings.passing("it says nothing about itself"));
        };
        if standby == "t" {
            return Err(self.settings.setup("it is a standby", "give the address of the primary"));
        }
        if new_enough != "t" {
            return Err(self.settings.setup("it is older than PostgreSQL 13", "use a newer PostgreSQL"));
        }
        let prepared_max: usize = prepared_max.parse().unwrap_or(0);
        if prepared_max == 0 {
            let remedy =
                "set max_prepared_transactions in postgresql.conf, to 200 say, and restart PostgreSQL";
            return Err(self.settings.setup("prepared transactions are disabled", remedy));
        }
        if prepared_max < self.settings.branches_max {
            let branches = self.settings.branches_max;
            warnings.push(format!(
                "max_prepared_transactions is {prepared_max}, less than the {branches} branches that one server may have open"
            ));
        }
        if fsync != "on" {
            warnings.push("fsync is off: a vote is forgotten when the machine stops".into());
        }
        if replicas != "0" {
            warnings.push(
                "it has replicas: decisions survive a fail-over only if synchronous_standby_names makes commits wait for them"
                    .into(),
            );
        }
        self.make_tables().await?;
        self.try_out().await?;
        Ok(warnings)
    }

    /// Those who start at the same moment would otherwise disturb one another.
    async fn make_tables(&self) -> Result<(), ResourceError> {
        let cluster = self.settings.cluster.number;
        let all = format!(
            "BEGIN; SELECT pg_advisory_xact_lock({}, 2); {TABLES} \
             INSERT INTO etx_forgotten VALUES ({cluster}, '00000000-0000-0000-0000-000000000000') \
             ON CONFLICT DO NOTHING; COMMIT",
            Xid::FORMAT
        );
        let there = "SELECT count(*) FROM (VALUES ('etx_mark'), ('etx_decision'), ('etx_forgotten'), ('etx_deployment')) \
                     AS needed(name) WHERE to_regclass(name) IS NULL";
        let row = format!("SELECT 1 FROM etx_forgotten WHERE cluster = {cluster}");
        // Where all is there, the right to make it is not needed.
        if first(&self.ask(there).await?) == Some("0") && !self.ask(&row).await?.is_empty() {
            return Ok(());
        }
        self.ask(&all).await.map(drop).map_err(ResourceError::from)
    }

    pub async fn claim(&self) -> Result<(), ResourceError> {
        let Cluster { number, deployment } = self.settings.cluster;
        let claim = format!(
            "INSERT INTO etx_deployment VALUES ({number}, {deployment}) ON CONFLICT DO NOTHING; \
             SELECT deployment FROM etx_deployment WHERE cluster = {number}"
        );
        self.settings.claimed(first(&self.ask(&claim).await?))
    }

    /// A branch that is prepared and rolled back: what is not allowed shows now.
    async fn try_out(&self) -> Result<(), ResourceError> {
        // What a trial left that did not come to its end. One that is just under way expects it.
        for left in
            self.prepared().await?.into_iter().filter(|left| left.name.executor == CoordinatorId::TRIAL)
        {
            self.decide(&left.name, Outcome::Abort).await?;
        }
        let request = RequestId { session: 0, sequence: 0 };
        let lease = self.lease(&self.control).await?;
        let name = Xid {
            cluster: self.settings.cluster,
            request,
            attempt: AttemptNumber::FIRST,
            home: DecisionLocation::Registers,
            executor: CoordinatorId::TRIAL,
            resource: self.settings.number,
            connection: lease.connection.process,
        };
        let gid = name.gid();
        let trial = format!(
            "BEGIN; SAVEPOINT etx; RELEASE etx; INSERT INTO etx_mark (gid) VALUES ('{gid}'); \
             PREPARE TRANSACTION '{gid}'"
        );
        lease.connection.run(&self.settings, &trial).await?;
        self.decide(&name, Outcome::Abort).await?;
        let rights = "BEGIN; DELETE FROM etx_mark WHERE false; DELETE FROM etx_decision WHERE false; \
                      UPDATE etx_forgotten SET below = below WHERE false; \
                      INSERT INTO etx_decision SELECT FROM etx_decision WHERE false; \
                      INSERT INTO etx_deployment TABLE etx_deployment LIMIT 0; ROLLBACK";
        let rights = rights.replace("SELECT FROM etx_decision", "SELECT * FROM etx_decision");
        lease.connection.run(&self.settings, &rights).await?;
        lease.give_back();
        Ok(())
    }
}
