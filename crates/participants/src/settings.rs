//! What is the same for all connections to one database.

use std::time::Duration;

use jeton_etx::{Cluster, CoordinatorId, ResourceError, Xid};

/// A database among those of a cluster.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What it is called.
    pub name: String,
    /// The cluster, as in [`Xid::cluster`](jeton_etx::BranchName::cluster).
    pub cluster: Cluster,
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
    pub fn new(name: &str, cluster: impl Into<Cluster>, number: u8) -> Self {
        Self {
            name: name.to_owned(),
            cluster: cluster.into(),
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

    pub(crate) fn passing(&self, why: impl std::fmt::Display) -> ResourceError {
        ResourceError::Passing { resource: self.name.clone(), why: why.to_string() }
    }

    pub(crate) fn statement(&self, code: impl Into<String>, why: impl std::fmt::Display) -> ResourceError {
        ResourceError::Statement { resource: self.name.clone(), code: code.into(), why: why.to_string() }
    }

    pub(crate) fn setup(&self, why: impl std::fmt::Display, remedy: impl Into<String>) -> ResourceError {
        ResourceError::Setup { resource: self.name.clone(), why: why.to_string(), remedy: remedy.into() }
    }

    pub(crate) fn damage(&self, gid: String, why: impl Into<String>) -> ResourceError {
        ResourceError::Damage { resource: self.name.clone(), gid, why: why.into() }
    }

    pub(crate) fn forgotten(&self) -> ResourceError {
        ResourceError::Forgotten { resource: self.name.clone() }
    }

    /// Whether a branch is of our cluster, in this database. A trial is everybody's who has the same number: whoever comes across one that was left ends it.
    pub(crate) fn is_own(&self, name: &Xid) -> bool {
        let is_of_us = match name.executor {
            CoordinatorId::TRIAL => name.cluster.number == self.cluster.number,
            _ => name.cluster == self.cluster,
        };
        is_of_us && name.resource == self.number
    }

    /// Whether the deployment that has our number in the database is ours.
    pub(crate) fn claimed(&self, by: Option<&str>) -> Result<(), ResourceError> {
        let Cluster { number, deployment } = self.cluster;
        match by {
            Some(by) if by == deployment.to_string() => Ok(()),
            Some(by) => Err(self.setup(
                format_args!("cluster {number} is deployment {by} here, and this one is {deployment}"),
                format!(
                    "if these are two deployments, give this one another number of cluster; if its registers were exchanged, bring them back, or see \
                     \"Other registers\" in docs/transactions.md before you DELETE FROM etx_deployment WHERE cluster = {number}"
                ),
            )),
            None => Err(self.passing("it does not say whose it is")),
        }
    }

    /// A future with a limit of time.
    pub(crate) async fn in_time<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, ResourceError>>,
    ) -> Result<T, ResourceError> {
        let late = || self.passing(format_args!("no answer within {limit:?}"));
        tokio::time::timeout(limit, work).await.map_err(|_| late())?
    }
}
