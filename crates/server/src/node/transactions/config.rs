//! The sections `[transactions]`, `[databases]` and `[procedures]` of the configuration file.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jeton_core::units::parse_duration;
use jeton_procedures::ProcedureConfig;
use serde::{Deserialize, Deserializer};

/// Databases, procedures and the servers that execute them.
#[derive(Debug, Clone, Deserialize)]
pub struct TransactionsConfig {
    #[serde(default)]
    pub transactions: ClusterConfig,
    #[serde(default)]
    pub databases: BTreeMap<String, DatabaseConfig>,
    #[serde(default)]
    pub procedures: BTreeMap<String, ProcedureConfig>,
}

impl TransactionsConfig {
    pub const SECTIONS: [&str; 3] = ["transactions", "databases", "procedures"];
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterConfig {
    /// Number of the cluster. Clusters that share a database have different numbers.
    pub cluster: u32,
    /// HTTP URLs of the servers of the cluster. The first is server 1.
    pub servers: Vec<String>,
    /// Environment variable with the token that servers send to each other.
    pub token_variable: Option<String>,
    /// PEM file with the certificates that are trusted in `https` URLs of servers and Jeton databases,
    /// instead of those of the operating system.
    pub ca_file: Option<PathBuf>,
    /// Backend of the registers, for decisions that are not stored in a database.
    pub registers: RegistersBackend,
    pub registers_url: Option<String>,
    pub registers_url_variable: Option<String>,
    /// Raft addresses of the servers. The first is server 1.
    pub raft: Vec<SocketAddr>,
    /// Keep the Raft log in memory only.
    pub raft_in_memory: bool,
    /// File with the shared secret of the Raft servers.
    pub secret_file: Option<PathBuf>,
    /// How long decisions are kept.
    #[serde(deserialize_with = "duration")]
    pub window: Duration,
    /// How long a server may be silent before it is suspected.
    #[serde(deserialize_with = "duration")]
    pub failure_timeout: Duration,
    /// Time between two searches for prepared branches of failed coordinators.
    #[serde(deserialize_with = "duration")]
    pub recovery_interval: Duration,
    /// Time limit of the steps of a procedure.
    #[serde(deserialize_with = "duration")]
    pub procedure_timeout: Duration,
    /// How long a transaction waits for an unavailable database.
    #[serde(deserialize_with = "duration")]
    pub unavailable_timeout: Duration,
    /// Transactions that one server executes at the same time.
    pub max_in_flight: usize,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        let options = jeton_etx::Options::new(1, 1, 0);
        Self {
            cluster: options.cluster.number,
            servers: Vec::new(),
            token_variable: None,
            ca_file: None,
            registers: RegistersBackend::Embedded,
            registers_url: None,
            registers_url_variable: None,
            raft: Vec::new(),
            raft_in_memory: false,
            secret_file: None,
            window: options.window,
            failure_timeout: Duration::from_secs(2),
            recovery_interval: options.recovery_interval,
            procedure_timeout: options.procedure_timeout,
            unavailable_timeout: options.unavailable_timeout,
            max_in_flight: options.max_in_flight,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RegistersBackend {
    /// In the data directory, for one server.
    Embedded,
    /// In a PostgreSQL database.
    Postgres,
    /// Replicated by three or five servers.
    Raft,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseConfig {
    pub kind: DatabaseKind,
    /// Number of the database, from 0 without gaps. It is part of branch names and must not change.
    pub number: u8,
    pub url: Option<String>,
    /// Environment variable with the URL.
    pub url_variable: Option<String>,
    /// Environment variable with the token, for a Jeton server.
    pub token_variable: Option<String>,
    /// Branches that may be open at the same time.
    pub branches_max: Option<usize>,
}

/// Omits the URL, which may contain a password.
impl fmt::Debug for DatabaseConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseConfig")
            .field("kind", &self.kind)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DatabaseKind {
    Postgres,
    Mariadb,
    /// The counters of a Jeton server, over HTTP.
    Jeton,
}

/// A value given directly or in an environment variable; exactly one of both.
pub(super) fn value_or_variable(value: Option<&String>, variable: Option<&String>) -> Result<String, String> {
    match (value, variable) {
        (Some(text), None) => Ok(text.clone()),
        (None, Some(name)) => {
            std::env::var(name).map_err(|_| format!("the environment variable {name} is not set"))
        }
        (Some(_), Some(_)) => Err("both the URL and its variable are given; remove one".into()),
        (None, None) => Err("neither the URL nor its variable is given".into()),
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}
