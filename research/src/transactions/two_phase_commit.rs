//! The protocols for comparison: plain commits, and two-phase commit with a log.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use async_trait::async_trait;
use tokio::sync::Mutex;

use super::client::{MariaDbClient, PostgresClient};
use super::databases::TestDatabases;
use super::forced_log::ForcedLog;
use super::protocol::{PhaseTimes, Protocol, ProtocolRunner};
use super::transfer::Transfer;

/// A protocol for comparison, with sessions for each client.
pub(crate) struct TwoPhaseCommit {
    kind: Kind,
    sessions: Vec<Mutex<(PostgresClient, MariaDbClient)>>,
    number: AtomicU64,
}

enum Kind {
    /// Independent commits in both databases.
    Two,
    PostgresAlone,
    MariaDbAlone,
    TwoPhase {
        log: ForcedLog,
        forces_start: bool,
    },
}

impl TwoPhaseCommit {
    pub(crate) async fn open(
        protocol: Protocol,
        pair: &TestDatabases,
        folder: &Path,
        clients: usize,
    ) -> Result<Self> {
        let two_phase = |forces_start: bool| -> Result<Kind> {
            let file = if forces_start { "presumed-nothing.log" } else { "presumed-abort.log" };
            Ok(Kind::TwoPhase { log: ForcedLog::open(&folder.join(file))?, forces_start })
        };
        let kind = match protocol {
            Protocol::PresumedNothing => two_phase(true)?,
            Protocol::PresumedAbort => two_phase(false)?,
            Protocol::PostgresPlain => Kind::PostgresAlone,
            Protocol::MariaDbPlain => Kind::MariaDbAlone,
            _ => Kind::Two,
        };
        let mut sessions = Vec::with_capacity(clients);
        for _ in 0..clients {
            sessions.push(Mutex::new((PostgresClient::open(pair).await?, MariaDbClient::open(pair).await?)));
        }
        // Two runs on the same databases never use the same names.
        let number = AtomicU64::new(getrandom::u64().context("no random number")? >> 1);
        Ok(Self { kind, sessions, number })
    }
}

#[async_trait]
impl ProtocolRunner for TwoPhaseCommit {
    async fn transact(&self, client: usize, task: Transfer) -> Result<PhaseTimes> {
        let session = self.sessions.get(client).context("a client without a session")?;
        let (postgres, mariadb) = &mut *session.lock().await;
        let started = Instant::now();
        match &self.kind {
            Kind::PostgresAlone => {
                postgres.work(task).await?;
                let sql = started.elapsed();
                postgres.run("COMMIT").await?;
                Ok(PhaseTimes { sql, commit: started.elapsed() - sql, ..PhaseTimes::default() })
            }
            Kind::MariaDbAlone => {
                mariadb.work("START TRANSACTION", task).await?;
                let sql = started.elapsed();
                mariadb.run("COMMIT").await?;
                Ok(PhaseTimes { sql, commit: started.elapsed() - sql, ..PhaseTimes::default() })
            }
            Kind::Two => {
                tokio::try_join!(postgres.work(task), mariadb.work("START TRANSACTION", task))?;
                let sql = started.elapsed();
                tokio::try_join!(postgres.run("COMMIT"), mariadb.run("COMMIT"))?;
                Ok(PhaseTimes { sql, commit: started.elapsed() - sql, ..PhaseTimes::default() })
            }
            Kind::TwoPhase { log, forces_start } => {
                let name = format!("research-{:016x}", self.number.fetch_add(1, Ordering::Relaxed));
                let start = format!("XA START '{name}'");
                tokio::try_join!(postgres.work(task), mariadb.work(&start, task))?;
                let sql = started.elapsed();
                if *forces_start {
                    log.force(format!("start {name}: PostgreSQL, MariaDB\n").into()).await?;
                }
                let logged = started.elapsed();
                let (to_postgres, to_mariadb) = (
                    format!("PREPARE TRANSACTION '{name}'"),
                    format!("XA END '{name}'; XA PREPARE '{name}'"),
                );
                tokio::try_join!(postgres.run(&to_postgres), mariadb.run(&to_mariadb))?;
                let prepared = started.elapsed();
                log.force(format!("commit {name}: PostgreSQL, MariaDB\n").into()).await?;
                let decided = started.elapsed();
                let (to_postgres, to_mariadb) =
                    (format!("COMMIT PREPARED '{name}'"), format!("XA COMMIT '{name}'"));
                tokio::try_join!(postgres.run(&to_postgres), mariadb.run(&to_mariadb))?;
                Ok(PhaseTimes {
                    sql,
                    prepare: prepared - logged,
                    decide: (logged - sql) + (decided - prepared),
                    commit: started.elapsed() - decided,
                })
            }
        }
    }
}
