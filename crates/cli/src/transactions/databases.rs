//! The databases that take part.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use jeton_etx::{Cluster, Resource, ResourceError};
use jeton_participants::{Jeton, MariaDb, Postgres, Settings};
use jeton_procedures::Database;

use super::config::{DatabaseKind, DeclaredDatabase, TransactionsConfig, said};
use crate::cli_error::CliError;

/// A database, and how to make it ready.
#[derive(Clone)]
pub enum OpenedDatabase {
    Postgres(Arc<Postgres>),
    MariaDb(Arc<MariaDb>),
    Jeton(Arc<Jeton>),
}

impl OpenedDatabase {
    fn new(name: &str, declared: &DeclaredDatabase, cluster: Cluster) -> Result<Self> {
        let fail = |why: String| {
            let what = format!("the database {name:?} of the configuration file cannot be used");
            CliError::of(anyhow!("{why}"), what, "mend its section: see docs/transactions.md")
        };
        let url = said(declared.url.as_ref(), declared.url_variable.as_ref()).map_err(fail)?;
        let mut settings = Settings::new(name, cluster, declared.number);
        if let Some(branches_max) = declared.branches_max {
            settings.branches_max = branches_max.max(1);
        }
        let token = match &declared.token_variable {
            Some(_) => Some(said(None, declared.token_variable.as_ref()).map_err(fail)?),
            None => None,
        };
        let opened = match declared.kind {
            DatabaseKind::Postgres => Postgres::new(&url, settings).map(|one| Self::Postgres(Arc::new(one))),
            DatabaseKind::Jeton => {
                Jeton::new(&url, token.as_deref(), settings).map(|one| Self::Jeton(Arc::new(one)))
            }
            DatabaseKind::Mariadb => MariaDb::new(&url, settings).map(|one| Self::MariaDb(Arc::new(one))),
        };
        opened.map_err(|why| fail(why.to_string()))
    }

    pub fn resource(&self) -> Arc<dyn Resource> {
        match self {
            Self::Postgres(database) => database.clone(),
            Self::MariaDb(database) => database.clone(),
            Self::Jeton(database) => database.clone(),
        }
    }

    /// Makes what is missing, and tries out whether it can take part. What should be known of it.
    pub async fn ensure_schema(&self) -> Result<Vec<String>, ResourceError> {
        match self {
            Self::Postgres(database) => database.ensure_schema().await,
            Self::MariaDb(database) => database.ensure_schema().await,
            // It has what it needs; only that it is there is seen.
            Self::Jeton(database) => database.check().await.map(|()| Vec::new()),
        }
    }

    /// Makes sure that no other deployment has our number here.
    pub async fn claim(&self) -> Result<(), ResourceError> {
        match self {
            Self::Postgres(database) => database.claim().await,
            Self::MariaDb(database) => database.claim().await,
            // It keeps nothing by that number.
            Self::Jeton(_) => Ok(()),
        }
    }
}

/// All databases, in the order of their numbers. Nothing is connected yet.
pub fn open(declared: &TransactionsConfig, cluster: Cluster) -> Result<Vec<OpenedDatabase>> {
    let mut sorted: Vec<_> = declared.databases.iter().collect();
    sorted.sort_by_key(|(_, database)| database.number);
    for (at, (name, database)) in sorted.iter().enumerate() {
        if usize::from(database.number) != at {
            let why =
                anyhow!("the database {name:?} has the number {}, where {at} is expected", database.number);
            let fix =
                "number the databases from 0 on, without a gap; never give a number to another database";
            return Err(CliError::of(why, "the numbers of the databases are not in order", fix));
        }
    }
    sorted.iter().map(|(name, database)| OpenedDatabase::new(name, database, cluster)).collect()
}

/// The databases as procedures name them.
pub fn named(opened: &[OpenedDatabase]) -> Vec<Database> {
    let of = |(database, number): (&OpenedDatabase, u8)| {
        let resource = database.resource();
        Database {
            name: resource.name().to_owned(),
            number,
            dialect: resource.dialect(),
            keeps_decisions: resource.keeps_decisions(),
        }
    };
    opened.iter().zip(0_u8..).map(of).collect()
}
