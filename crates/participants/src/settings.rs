//! Settings of a database, and constructors of its errors.

use std::time::Duration;

use jeton_etx::{
    AttemptId, AttemptNumber, Cluster, CoordinatorId, DecisionLocation, RequestId, ResourceError, Xid,
};

/// Settings of a database of a cluster.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The name in the configuration.
    pub name: String,
    /// The cluster, as in [`Xid::cluster`].
    pub cluster: Cluster,
    /// The number of the database in the cluster.
    pub number: u8,
    /// Limit of open branches.
    pub branches_max: usize,
    /// Timeout for a free connection, and for opening one.
    pub wait_max: Duration,
    /// Lock timeout of a statement. MariaDB has whole seconds, at least one.
    pub lock_max: Duration,
    /// Timeout of a statement.
    pub statement_max: Duration,
    /// Timeout of an idle branch before its vote.
    pub idle_max: Duration,
}

impl Settings {
    /// Default settings.
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

    /// Timeout for a response: longer than the statement timeout of the database itself.
    pub(crate) fn answer_max(&self) -> Duration {
        self.statement_max + Duration::from_secs(5)
    }

    pub(crate) fn transient(&self, why: impl std::fmt::Display) -> ResourceError {
        ResourceError::Transient { resource: self.name.clone(), why: why.to_string() }
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

    /// Whether a branch belongs to our cluster, in this database. The branch of an interrupted privilege
    /// check belongs to every deployment with the same cluster number: the next check resolves it.
    pub(crate) fn is_own(&self, name: &Xid) -> bool {
        let is_of_us = match name.coordinator {
            CoordinatorId::TRIAL => name.cluster.number == self.cluster.number,
            _ => name.cluster == self.cluster,
        };
        is_of_us && name.resource == self.number
    }

    /// Checks that the deployment recorded in the database is ours.
    pub(crate) fn claimed(&self, by: Option<&str>) -> Result<(), ResourceError> {
        let Cluster { number, deployment } = self.cluster;
        match by {
            Some(by) if by == deployment.to_string() => Ok(()),
            Some(by) => Err(self.setup(
                format_args!("cluster {number} is deployment {by} here, and this one is {deployment}"),
                format!(
                    "if these are two deployments, give this one another cluster number; if the registers were replaced, \
                     restore them, or see \"Other registers\" in docs/transactions.md before you \
                     DELETE FROM etx_deployment WHERE cluster = {number}"
                ),
            )),
            None => Err(self.transient("the deployment was not recorded")),
        }
    }

    /// Runs a future with a timeout.
    pub(crate) async fn in_time<T, E: From<ResourceError>>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let late = || self.transient(format_args!("no response within {limit:?}"));
        tokio::time::timeout(limit, work).await.map_err(|_| late())?
    }

    /// Waits for a response. The limit is longer than the statement timeout of the database itself.
    pub(crate) async fn in_answer_time<T, E: From<ResourceError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.in_time(self.answer_max(), work).await
    }

    /// The name of a branch in this database.
    pub(crate) fn branch(&self, attempt: AttemptId, connection: u64) -> Xid {
        attempt.branch(self.cluster, self.number, connection)
    }

    /// The branch of a privilege check.
    pub(crate) fn trial_branch(&self, connection: u64) -> Xid {
        let attempt = AttemptId {
            request: RequestId { session: 0, sequence: 0 },
            number: AttemptNumber::FIRST,
            coordinator: CoordinatorId::TRIAL,
            decision_location: DecisionLocation::Registers,
        };
        self.branch(attempt, connection)
    }
}
