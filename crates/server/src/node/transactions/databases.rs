//! The databases that participate in transactions.

use std::sync::Arc;

use jeton_client::Tls;
use jeton_etx::{Cluster, Resource, ResourceError};
use jeton_participants::{Jeton, MariaDb, Postgres, Settings};
use jeton_procedures::Database;

use super::config::{DatabaseConfig, DatabaseKind, TransactionsConfig, value_or_variable};
use crate::node::NodeError;

#[derive(Clone)]
pub enum OpenedDatabase {
    Postgres(Arc<Postgres>),
    MariaDb(Arc<MariaDb>),
    Jeton(Arc<Jeton>),
}

impl OpenedDatabase {
    fn new(
        name: &str,
        config: &DatabaseConfig,
        cluster: Cluster,
        tls: Option<&Tls>,
    ) -> Result<Self, NodeError> {
        let invalid = |reason: String| {
            let what = format!("the database {name:?} of the configuration file is not usable");
            NodeError::with_cause(reason, what, "correct its section: see docs/transactions.md")
        };
        let url = value_or_variable(config.url.as_ref(), config.url_variable.as_ref()).map_err(invalid)?;
        let mut settings = Settings::new(name, cluster, config.number);
        if let Some(branches_max) = config.branches_max {
            settings.branches_max = branches_max.max(1);
        }
        let token = config.token_variable.as_ref().map(|variable| value_or_variable(None, Some(variable)));
        let token = token.transpose().map_err(invalid)?;
        let opened = match config.kind {
            DatabaseKind::Postgres => Postgres::new(&url, settings).map(|one| Self::Postgres(Arc::new(one))),
            DatabaseKind::Jeton => {
                Jeton::new(&url, token.as_deref(), tls, settings).map(|one| Self::Jeton(Arc::new(one)))
            }
            DatabaseKind::Mariadb => MariaDb::new(&url, settings).map(|one| Self::MariaDb(Arc::new(one))),
        };
        opened.map_err(|error| invalid(error.to_string()))
    }

    pub fn resource(&self) -> Arc<dyn Resource> {
        match self {
            Self::Postgres(database) => database.clone(),
            Self::MariaDb(database) => database.clone(),
            Self::Jeton(database) => database.clone(),
        }
    }

    /// Creates missing tables and checks that the database can prepare a branch. Returns warnings.
    pub async fn ensure_schema(&self) -> Result<Vec<String>, ResourceError> {
        match self {
            Self::Postgres(database) => database.ensure_schema().await,
            Self::MariaDb(database) => database.ensure_schema().await,
            // A Jeton server needs no schema, only a connection.
            Self::Jeton(database) => database.check().await.map(|()| Vec::new()),
        }
    }

    /// Fails if another deployment uses the same cluster number in this database.
    pub async fn claim(&self) -> Result<(), ResourceError> {
        match self {
            Self::Postgres(database) => database.claim().await,
            Self::MariaDb(database) => database.claim().await,
            // A Jeton server stores nothing under the cluster number.
            Self::Jeton(_) => Ok(()),
        }
    }
}

/// Creates the databases in the order of their numbers. Does not connect.
pub fn open(config: &TransactionsConfig, cluster: Cluster) -> Result<Vec<OpenedDatabase>, NodeError> {
    let mut sorted: Vec<_> = config.databases.iter().collect();
    sorted.sort_by_key(|(_, database)| database.number);
    for (at, (name, database)) in sorted.iter().enumerate() {
        if usize::from(database.number) != at {
            let reason =
                format!("the database {name:?} has the number {}, expected was {at}", database.number);
            let fix = "number the databases from 0 without gaps; never reuse a number for another database";
            return Err(NodeError::with_cause(reason, "the numbers of the databases have gaps", fix));
        }
    }
    let tls = super::trusted_certificates(&config.transactions)?;
    let open = |(name, database): &(&String, &DatabaseConfig)| {
        OpenedDatabase::new(name, database, cluster, tls.as_ref())
    };
    sorted.iter().map(open).collect()
}

/// The databases under the names that procedures use.
pub fn by_name(opened: &[OpenedDatabase]) -> Vec<Database> {
    let describe = |(database, number): (&OpenedDatabase, u8)| {
        let resource = database.resource();
        Database {
            name: resource.name().to_owned(),
            number,
            dialect: resource.dialect(),
            keeps_decisions: resource.keeps_decisions(),
        }
    };
    opened.iter().zip(0_u8..).map(describe).collect()
}
