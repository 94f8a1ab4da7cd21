//! Our tables in MariaDB, and whether it is set up for us.

use jeton_etx::{AttemptNumber, Cluster, CoordinatorId, DecisionLocation, RequestId, ResourceError, Xid};

use super::{Inner, xid};
use crate::query_error::first;

const TABLES: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS etx_mark (
        gid varchar(160) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
        at timestamp NOT NULL DEFAULT current_timestamp) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS etx_decision (
        cluster int unsigned NOT NULL, session binary(16) NOT NULL, sequence int unsigned NOT NULL,
        attempt tinyint unsigned NOT NULL, decision longblob NOT NULL,
        PRIMARY KEY (cluster, session, sequence, attempt)) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS etx_forgotten (
        cluster int unsigned NOT NULL PRIMARY KEY, below binary(16) NOT NULL) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS etx_deployment (
        cluster int unsigned NOT NULL PRIMARY KEY, deployment int unsigned NOT NULL) ENGINE=InnoDB",
];

impl Inner {
    pub async fn ensure_schema(&self) -> Result<Vec<String>, ResourceError> {
        let settings = &self.settings;
        let mut warnings = Vec::new();
        let about = "SELECT VERSION(), DATABASE(), @@read_only, @@innodb_flush_log_at_trx_commit, @@log_bin";
        let about = self.ask(about).await?;
        let about = about.first().cloned().unwrap_or_default();
        let about: Vec<&str> = about.iter().map(|text| text.as_deref().unwrap_or_default()).collect();
        let [version, database, read_only, flush, binlog] = about[..] else {
            return Err(settings.passing("it says nothing about itself"));
        };
        if !version.contains("MariaDB") || is_old(version) {
            let why = format!("it is {version}");
            return Err(settings.setup(why, "use MariaDB 10.5 or newer"));
        }
        if database.is_empty() {
            return Err(settings.setup("no database is selected", "name one at the end of the URL"));
        }
        if read_only == "1" {
            return Err(settings.setup("it is read-only", "give the address of the primary"));
        }
        // A build without Galera does not know the word.
        if let Ok(rows) = self.ask("SELECT @@wsrep_on").await
            && first(&rows) == Some("1")
        {
            return Err(
                settings.setup("it is a Galera cluster, which has no XA", "use a MariaDB without Galera")
            );
        }
        if flush != "1" {
            warnings.push(
                "innodb_flush_log_at_trx_commit is not 1: a vote is forgotten when the machine stops".into(),
            );
        }
        if binlog == "1" {
            warnings
                .push("it writes a binary log: XA is not replicated safely, so a replica may differ".into());
        }
        self.make_tables().await?;
        self.try_out().await?;
        let lease = self.lease(&self.control).await?;
        let strangers = lease.connection.strangers();
        if !strangers.is_empty() {
            let tables = strangers.join(", ");
            warnings.push(format!(
                "tables that take no part in transactions, and cannot be written to: {tables}"
            ));
        }
        lease.give_back();
        Ok(warnings)
    }

    async fn make_tables(&self) -> Result<(), ResourceError> {
        let cluster = self.settings.cluster.number;
        let there = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() \
                     AND TABLE_NAME IN ('etx_mark', 'etx_decision', 'etx_forgotten', 'etx_deployment')";
        // Where all is there, the right to make it is not needed.
        if first(&self.ask(there).await?) != Some("4") {
            for table in TABLES {
                self.ask(table).await?;
            }
        }
        let row = format!("SELECT 1 FROM etx_forgotten WHERE cluster = {cluster}");
        if self.ask(&row).await?.is_empty() {
            let zero = "0".repeat(32);
            self.ask(&format!("INSERT IGNORE INTO etx_forgotten VALUES ({cluster}, x'{zero}')")).await?;
        }
        Ok(())
    }

    pub async fn claim(&self) -> Result<(), ResourceError> {
        let Cluster { number, deployment } = self.settings.cluster;
        self.ask(&format!("INSERT IGNORE INTO etx_deployment VALUES ({number}, {deployment})")).await?;
        let stands = format!("SELECT deployment FROM etx_deployment WHERE cluster = {number}");
        self.settings.claimed(first(&self.ask(&stands).await?))
    }

    /// A branch that is prepared and rolled back: what is not allowed shows now.
    async fn try_out(&self) -> Result<(), ResourceError> {
        // What a trial left that did not come to its end. One that is just under way is not known to others, and stays.
        for left in
            self.prepared().await?.into_iter().filter(|left| left.name.executor == CoordinatorId::TRIAL)
        {
            if let Err(trouble) = self.ask(&format!("XA ROLLBACK {}", xid(&left.name))).await
                && trouble.is_lost
            {
                return Err(trouble.into());
            }
        }
        let mut lease = self.lease(&self.control).await?;
        let name = Xid {
            cluster: self.settings.cluster,
            request: RequestId { session: 0, sequence: 0 },
            attempt: AttemptNumber::FIRST,
            home: DecisionLocation::Registers,
            executor: CoordinatorId::TRIAL,
            resource: self.settings.number,
            connection: lease.connection.id,
        };
        let (xid, gid) = (xid(&name), name.gid());
        let trial = format!(
            "XA START {xid}; INSERT INTO etx_mark (gid) VALUES ('{gid}'); \
             XA END {xid}; XA PREPARE {xid}; XA ROLLBACK {xid}; XA RECOVER; \
             DELETE FROM etx_mark WHERE gid = ''; DELETE FROM etx_decision WHERE cluster = 0 AND sequence = 0; \
             UPDATE etx_forgotten SET below = below WHERE cluster = 0 AND 1 = 0; \
             INSERT INTO etx_decision SELECT * FROM etx_decision WHERE 1 = 0; \
             INSERT INTO etx_deployment SELECT * FROM etx_deployment WHERE 1 = 0"
        );
        lease.connection.run(&self.settings, &trial).await?;
        lease.give_back();
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
