//! The tables in MariaDB, and the check of its setup.

use async_trait::async_trait;
use jeton_etx::{Cluster, CoordinatorId, ResourceError};

use super::{MariaDbDriver, xid_sql};
use crate::driver::{Recovery, Schema, Session};
use crate::query_error::first;
use crate::settings::Settings;
use crate::xa_resource::Database;

const TABLES: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS etx_commit_marker (
        gid varchar(160) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
        at timestamp NOT NULL DEFAULT current_timestamp) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS etx_decision (
        cluster int unsigned NOT NULL, session binary(16) NOT NULL, sequence int unsigned NOT NULL,
        attempt tinyint unsigned NOT NULL, decision longblob NOT NULL,
        PRIMARY KEY (cluster, session, sequence, attempt)) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS etx_retention (
        cluster int unsigned NOT NULL PRIMARY KEY, below binary(16) NOT NULL) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS etx_deployment (
        cluster int unsigned NOT NULL PRIMARY KEY, deployment int unsigned NOT NULL) ENGINE=InnoDB",
];

#[async_trait]
impl Schema for MariaDbDriver {
    fn claim_sql(settings: &Settings) -> String {
        let Cluster { number, deployment } = settings.cluster;
        format!(
            "INSERT IGNORE INTO etx_deployment VALUES ({number}, {deployment}); \
             SELECT deployment FROM etx_deployment WHERE cluster = {number}"
        )
    }

    async fn ensure_schema(database: &Database<Self>) -> Result<Vec<String>, ResourceError> {
        let settings = &database.settings;
        let mut warnings = Vec::new();
        let server = "SELECT VERSION(), DATABASE(), @@read_only, @@innodb_flush_log_at_trx_commit, @@log_bin";
        let server = database.query(server).await?;
        let server = server.first().cloned().unwrap_or_default();
        let server: Vec<&str> = server.iter().map(|text| text.as_deref().unwrap_or_default()).collect();
        let [version, name, read_only, flush, binlog] = server[..] else {
            return Err(settings.transient("it does not report its settings"));
        };
        if !version.contains("MariaDB") || is_old(version) {
            let why = format!("it is {version}");
            return Err(settings.setup(why, "use MariaDB 10.5 or newer"));
        }
        if name.is_empty() {
            return Err(settings.setup("no database is selected", "name one at the end of the URL"));
        }
        if read_only == "1" {
            return Err(settings.setup("it is read-only", "use the address of the primary"));
        }
        // A build without Galera does not have the variable.
        if let Ok(rows) = database.query("SELECT @@wsrep_on").await
            && first(&rows) == Some("1")
        {
            return Err(settings
                .setup("it is a Galera cluster, which does not support XA", "use a MariaDB without Galera"));
        }
        if flush != "1" {
            warnings.push(
                "innodb_flush_log_at_trx_commit is not 1: prepared branches are lost when the machine stops"
                    .into(),
            );
        }
        if binlog == "1" {
            warnings
                .push("the binary log is on: XA is not replicated safely, so a replica may differ".into());
        }
        database.rename_old_tables().await?;
        database.create_tables().await?;
        database.check_privileges().await?;
        let pooled = database.acquire_control().await?;
        let non_transactional = pooled.connection.non_transactional();
        if !non_transactional.is_empty() {
            let tables = non_transactional.join(", ");
            warnings.push(format!("these tables are not transactional and cannot be written to: {tables}"));
        }
        pooled.give_back();
        Ok(warnings)
    }
}

impl Database<MariaDbDriver> {
    async fn create_tables(&self) -> Result<(), ResourceError> {
        let cluster = self.settings.cluster.number;
        let existing = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() \
                     AND TABLE_NAME IN ('etx_commit_marker', 'etx_decision', 'etx_retention', 'etx_deployment')";
        // If the tables exist, the privilege to create them is not needed.
        if first(&self.query(existing).await?) != Some("4") {
            for table in TABLES {
                self.query(table).await?;
            }
        }
        let row = format!("SELECT 1 FROM etx_retention WHERE cluster = {cluster}");
        if self.query(&row).await?.is_empty() {
            let zero = "0".repeat(32);
            self.query(&format!("INSERT IGNORE INTO etx_retention VALUES ({cluster}, x'{zero}')")).await?;
        }
        Ok(())
    }

    /// Prepares a branch and rolls it back, and tries all other statements: missing privileges show now.
    async fn check_privileges(&self) -> Result<(), ResourceError> {
        // Resolve the branch of an interrupted check. The branch of a check in flight belongs to its session
        // and stays.
        for left in MariaDbDriver::prepared(self).await? {
            if left.name.coordinator == CoordinatorId::TRIAL
                && let Err(error) = self.query(&format!("XA ROLLBACK {}", xid_sql(&left.name))).await
                && error.is_lost
            {
                return Err(error.into());
            }
        }
        let mut pooled = self.acquire_control().await?;
        let xid = self.settings.trial_branch(pooled.connection.id());
        let (xid, gid) = (xid_sql(&xid), xid.gid());
        let statements = format!(
            "XA START {xid}; INSERT INTO etx_commit_marker (gid) VALUES ('{gid}'); \
             XA END {xid}; XA PREPARE {xid}; XA ROLLBACK {xid}; XA RECOVER; \
             DELETE FROM etx_commit_marker WHERE gid = ''; DELETE FROM etx_decision WHERE cluster = 0 AND sequence = 0; \
             UPDATE etx_retention SET below = below WHERE cluster = 0 AND 1 = 0; \
             INSERT INTO etx_decision SELECT * FROM etx_decision WHERE 1 = 0; \
             INSERT INTO etx_deployment SELECT * FROM etx_deployment WHERE 1 = 0"
        );
        pooled.connection.run(&self.settings, &statements).await?;
        pooled.give_back();
        Ok(())
    }
}

/// Before 10.5 a prepared branch was lost with its connection.
fn is_old(version: &str) -> bool {
    let numbers: Vec<u32> = version.split('.').take(2).filter_map(|number| number.parse().ok()).collect();
    numbers < vec![10, 5]
}

#[cfg(test)]
mod tests {
    use super::is_old;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(is_old("10.4.32-MariaDB") && is_old("5.5.68-MariaDB"));
        assert!(!is_old("10.5.0-MariaDB") && !is_old("10.11.19-MariaDB-deb12") && !is_old("11.4.2-MariaDB"));
    }
}
