//! What is the same for all connections to one database.

use std::time::Duration;

use jeton_etx::Failure;

/// A database among those of a cluster.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What it is called.
    pub name: String,
    /// The cluster, as in [`BranchName::cluster`](jeton_etx::BranchName::cluster).
    pub cluster: u32,
    /// The number of the database in the cluster.
    pub number: u8,
    /// How many branches can be open at once.
    pub branches_max: usize,
    /// How long a branch waits for a connection, and a connection for the database.
    pub wait_max: Duration,
    /// How long a statement waits for a lock. MariaDB counts in seconds, from one on.
    pub lock_max: Duration,
    /// How long a statement may take.
    pub statement_max: Duration,
    /// How long a branch may do nothing before it votes.
    pub idle_max: Duration,
}

impl Settings {
    /// Those that fit most.
    pub fn new(name: &str, cluster: u32, number: u8) -> Self {
        Self {
            name: name.to_owned(),
            cluster,
            number,
            branches_max: 32,
            wait_max: Duration::from_secs(5),
            lock_max: Duration::from_secs(5),
            statement_max: Duration::from_secs(30),
            idle_max: Duration::from_secs(60),
        }
    }

    /// When an answer is not waited for any more: the database itself should have given up long before.
    pub(crate) fn answer_max(&self) -> Duration {
        self.statement_max + Duration::from_secs(5)
    }

    pub(crate) fn passing(&self, why: impl std::fmt::Display) -> Failure {
        Failure::Passing { resource: self.name.clone(), why: why.to_string() }
    }

    pub(crate) fn statement(&self, code: impl Into<String>, why: impl std::fmt::Display) -> Failure {
        Failure::Statement { resource: self.name.clone(), code: code.into(), why: why.to_string() }
    }

    pub(crate) fn setup(&self, why: impl std::fmt::Display, remedy: impl Into<String>) -> Failure {
        Failure::Setup { resource: self.name.clone(), why: why.to_string(), remedy: remedy.into() }
    }

    pub(crate) fn damage(&self, gid: String, why: impl Into<String>) -> Failure {
        Failure::Damage { resource: self.name.clone(), gid, why: why.into() }
    }

    pub(crate) fn forgotten(&self) -> Failure {
        Failure::Forgotten { resource: self.name.clone() }
    }

    /// A future with a limit of time.
    pub(crate) async fn in_time<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let late = || self.passing(format_args!("no answer within {limit:?}"));
        tokio::time::timeout(limit, work).await.map_err(|_| late())?
    }
}
