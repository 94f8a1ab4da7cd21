//! The databases of a run: started for it, or given by URL.

use anyhow::{Context, Result};
use jeton_testbed as testbed;
use mysql_async::prelude::Queryable;
use tokio_postgres::NoTls;

use super::transfer::ACCOUNTS;
use crate::Setting;

/// Two databases to work on.
#[derive(Debug, Clone)]
pub(crate) struct TestDatabases {
    pub(crate) postgres: String,
    pub(crate) mariadb: String,
    /// How the MariaDB is set up.
    pub(crate) label: &'static str,
}

/// The databases of a run. Dropping this stops them.
pub(crate) struct Databases {
    pairs: Vec<TestDatabases>,
    _servers: (Option<testbed::Postgres>, Vec<testbed::MariaDb>),
    /// For logs and registers: on the same disk as the databases.
    folder: tempfile::TempDir,
}

impl Databases {
    /// Starts databases that were not given. With `binlogs`, MariaDB runs with and without a binary log, in
    /// turn.
    pub(crate) fn open(setting: &Setting, binlogs: bool) -> Result<Self> {
        let folder = testbed::folder()?;
        if let Some((postgres, mariadb)) = &setting.databases {
            let (postgres, mariadb) = (postgres.clone(), mariadb.clone());
            let pairs = vec![TestDatabases { postgres, mariadb, label: "as given" }];
            return Ok(Self { pairs, _servers: (None, Vec::new()), folder });
        }
        let install = "the databases are started from the system's packages (on Debian: postgresql, mariadb-server); or give --postgres and --mariadb";
        let many = [("max_connections", "700"), ("max_prepared_transactions", "400")];
        let postgres = testbed::Postgres::start(&folder.path().join("postgres"), &many).context(install)?;
        let mut mariadbs = Vec::new();
        let mut pairs = Vec::new();
        for (binlog, label) in [(false, "binlog off"), (true, "binlog on")] {
            if binlog && !binlogs {
                continue;
            }
            let place = folder.path().join(if binlog { "mariadb-binlog" } else { "mariadb" });
            std::fs::create_dir_all(&place)?;
            // A log large enough for the whole run, because a checkpoint would disturb one of the protocols.
            let settings = ["--max-connections=700", "--innodb-log-file-size=512M"];
            let mariadb = testbed::MariaDb::start(&place, binlog, &settings).context(install)?;
            pairs.push(TestDatabases { postgres: postgres.url(), mariadb: mariadb.url(), label });
            mariadbs.push(mariadb);
        }
        Ok(Self { pairs, _servers: (Some(postgres), mariadbs), folder })
    }

    pub(crate) fn pairs(&self) -> &[TestDatabases] {
        &self.pairs
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}

impl TestDatabases {
    /// Creates the accounts and empties the tables of e-Transactions, so that their size does not depend on
    /// earlier runs.
    pub(crate) async fn prepare(&self) -> Result<()> {
        let drop = "DROP TABLE IF EXISTS jeton_research_account";
        let create = "CREATE TABLE jeton_research_account (id bigint PRIMARY KEY, balance bigint NOT NULL)";
        let (client, connection) =
            tokio_postgres::connect(&self.postgres, NoTls).await.context("PostgreSQL cannot be reached")?;
        tokio::spawn(connection);
        client.batch_execute(drop).await?;
        client.batch_execute(create).await?;
        let fill = format!(
            "INSERT INTO jeton_research_account SELECT id, 0 FROM generate_series(0, {}) AS id",
            ACCOUNTS - 1
        );
        client.batch_execute(&fill).await?;
        client.batch_execute("VACUUM ANALYZE jeton_research_account").await?;
        let options = mysql_async::Opts::from_url(&self.mariadb).context("the URL of MariaDB")?;
        let mut conn = mysql_async::Conn::new(options).await.context("MariaDB cannot be reached")?;
        conn.query_drop(drop).await?;
        conn.query_drop(format!("{create} ENGINE=InnoDB")).await?;
        conn.query_drop(format!(
            "INSERT INTO jeton_research_account SELECT seq, 0 FROM seq_0_to_{}",
            ACCOUNTS - 1
        ))
        .await?;
        conn.disconnect().await?;
        Ok(())
    }
}
