//! What the configuration file says about transactions.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use jeton_procedures::ProcedureConfig;
use serde::{Deserialize, Deserializer};

use crate::config::DurationValue;

/// The sections of the file that are not plain settings.
pub const SECTIONS: [&str; 3] = ["transactions", "databases", "procedures"];

/// The sections `[transactions]`, `[databases]` and `[procedures]`.
#[derive(Debug, Clone, Deserialize)]
pub struct TransactionsConfig {
    /// How the servers work together.
    #[serde(default)]
    pub transactions: Cluster,
    /// The databases, by name.
    #[serde(default)]
    pub databases: BTreeMap<String, DeclaredDatabase>,
    /// The procedures, by name.
    #[serde(default)]
    pub procedures: BTreeMap<String, ProcedureConfig>,
}

/// `[transactions]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cluster {
    /// Those who share databases and do not know of each other are told apart by this.
    pub cluster: u32,
    /// Where the servers of the cluster are found over HTTP: the first is server 1.
    pub servers: Vec<String>,
    /// The environment variable with the token that servers show each other.
    pub token_variable: Option<String>,
    /// Where decisions are kept about what is not decided in a database.
    pub registers: Backend,
    /// The PostgreSQL of the registers.
    pub registers_url: Option<String>,
    /// The environment variable with its URL.
    pub registers_url_variable: Option<String>,
    /// Where the servers keep registers together, by Raft: the first is that of server 1.
    pub raft: Vec<SocketAddr>,
    /// Whether Raft's log is in memory only.
    pub raft_in_memory: bool,
    /// The file with what the servers know and nobody else, for Raft.
    pub secret_file: Option<PathBuf>,
    /// For how long decisions are kept.
    #[serde(deserialize_with = "span")]
    pub window: DurationValue,
    /// After how much silence a server is taken for dead.
    #[serde(deserialize_with = "span")]
    pub suspect_after: DurationValue,
    /// How often databases are searched for what was left behind.
    #[serde(deserialize_with = "span")]
    pub sweep_every: DurationValue,
    /// How long the steps of a procedure may take.
    #[serde(deserialize_with = "span")]
    pub compute_max: DurationValue,
    /// How many transactions are worked on at the same time.
    pub works_max: usize,
}

impl Default for Cluster {
    fn default() -> Self {
        let options = jeton_etx::Options::new(1, 1, 0);
        Self {
            cluster: options.cluster.number,
            servers: Vec::new(),
            token_variable: None,
            registers: Backend::Embedded,
            registers_url: None,
            registers_url_variable: None,
            raft: Vec::new(),
            raft_in_memory: false,
            secret_file: None,
            window: DurationValue(options.window),
            suspect_after: DurationValue(std::time::Duration::from_secs(2)),
            sweep_every: DurationValue(options.recovery_interval),
            compute_max: DurationValue(options.procedure_timeout),
            works_max: options.max_in_flight,
        }
    }
}

/// Where registers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// In the directory of the data: for one server.
    Embedded,
    /// In a PostgreSQL.
    Postgres,
    /// In the servers themselves, three or five of them.
    Raft,
}

/// `[databases.NAME]`.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredDatabase {
    /// What it is.
    pub kind: DatabaseKind,
    /// Its number, from 0 on without a gap. It is in the names of branches: it must stay.
    pub number: u8,
    /// Where it is.
    pub url: Option<String>,
    /// The environment variable that says where it is.
    pub url_variable: Option<String>,
    /// The environment variable with the token that is shown there, of a Jeton server.
    pub token_variable: Option<String>,
    /// How many branches can be open at once.
    pub branches_max: Option<usize>,
}

/// A URL may have a password in it.
impl fmt::Debug for DeclaredDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeclaredDatabase")
            .field("kind", &self.kind)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// What a database is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DatabaseKind {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mariadb,
    /// The counters of a Jeton server, over HTTP.
    Jeton,
}

impl TransactionsConfig {
    /// What the file says; nothing if it has none of the sections.
    pub fn read(text: &str) -> Result<Option<Self>, toml::de::Error> {
        let declared: Self = toml::from_str(text)?;
        Ok((!declared.databases.is_empty()).then_some(declared))
    }
}

/// What is said outright, or the value of an environment variable.
pub fn said(outright: Option<&String>, variable: Option<&String>) -> Result<String, String> {
    match (outright, variable) {
        (Some(text), None) => Ok(text.clone()),
        (None, Some(name)) => {
            std::env::var(name).map_err(|_| format!("the environment variable {name} is not set"))
        }
        (Some(_), Some(_)) => Err("both the URL and its variable are given; one is enough".into()),
        (None, None) => Err("neither the URL nor its variable is given".into()),
    }
}

fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DurationValue, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}
