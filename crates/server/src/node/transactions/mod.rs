//! Setup of transactions: databases, registers, procedures and peers, from the configuration to a
//! coordinator.

mod config;
mod databases;
mod plain_connections;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jeton_client::Tls;
use jeton_etx::{
    Cluster, Coordinator, DecisionLocationError, IdentifyError, NoPeers, Options, Peers, ResourceError,
    TransactionService, check_decision_locations,
};
use jeton_procedures::ProcedureRegistry;
use jeton_register::Registers;
use jeton_register::embedded::{self, EmbeddedRegisters};
use jeton_register_postgres::PostgresRegisters;
use jeton_register_raft::{Durability, Member, RaftRegisters, Secret};
use jeton_wal::disk::RealDisk;

use self::config::value_or_variable;
pub use self::config::{ClusterConfig, DatabaseConfig, DatabaseKind, RegistersBackend, TransactionsConfig};
use self::databases::OpenedDatabase;
use super::NodeError;
use super::error::Explain;
use super::peers::HttpPeers;
use crate::Transactions;

/// How long the start waits for databases and registers. The setup then continues in the background.
const START_TIMEOUT: Duration = Duration::from_secs(10);

const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Folder of the registers in the data directory.
pub const FOLDER: &str = "transactions";

/// What is known before the registers are open.
struct Setup {
    config: TransactionsConfig,
    options: Options,
    procedures: ProcedureRegistry,
    peers: Option<Arc<HttpPeers>>,
    /// Number of the deployment, if the registers do not keep it.
    deployment: Option<u32>,
}

/// Starts to accept transactions: at once, or when databases and registers are reachable.
pub async fn start(
    config: &TransactionsConfig,
    server: u16,
    data: &Path,
    service: Arc<Transactions>,
) -> Result<(), NodeError> {
    let cluster = &config.transactions;
    let procedures = read_procedures(config, &databases::open(config, cluster.cluster.into())?)?;
    let incarnation = getrandom::u64()
        .explain("the system returned no random bytes", "check that /dev/urandom is readable")?;
    let options = Options {
        procedure_timeout: cluster.procedure_timeout,
        unavailable_timeout: cluster.unavailable_timeout,
        recovery_interval: cluster.recovery_interval,
        max_in_flight: cluster.max_in_flight,
        window: cluster.window,
        ..Options::new(cluster.cluster, server, incarnation)
    };
    let peers = create_peers(config, server)?;
    plain_connections::warn(config, server);
    let mut setup = Setup { config: config.clone(), options, procedures, peers, deployment: None };
    match cluster.registers {
        RegistersBackend::Embedded => {
            if cluster.servers.len() > 1 {
                let fix = "choose registers = \"postgres\" or \"raft\" in [transactions]";
                let what = "several servers cannot share embedded registers";
                return Err(NodeError::with_cause("they are in the data directory of one server", what, fix));
            }
            let folder = data.join(FOLDER);
            let registers = blocking(move || open_embedded(&folder)).await?;
            continue_with(setup, Arc::new(registers), service).await
        }
        RegistersBackend::Postgres => {
            let url = registers_url(cluster)?;
            let registers = PostgresRegisters::open(&url, jeton_register_postgres::Options::default()).await;
            let fix = "create them with jeton init, and check that the database is running";
            let registers = registers.explain("the registers in PostgreSQL cannot be opened", fix)?;
            continue_with(setup, Arc::new(registers), service).await
        }
        RegistersBackend::Raft => {
            let secret = read_secret(cluster)?;
            // Registers in memory forget the deployment when all servers are down; the secret identifies it.
            setup.deployment = cluster.raft_in_memory.then(|| secret.fingerprint());
            let settings = raft_settings(cluster, server, data, secret);
            let open = move || {
                let fix = "check raft and secret_file in [transactions], and the data directory";
                RaftRegisters::open(settings).explain("the Raft registers cannot be opened", fix)
            };
            let registers = Arc::new(blocking(open).await?);
            let raft = Arc::clone(&registers);
            service.set_leader(move || raft.leader());
            continue_with(setup, registers, service).await
        }
    }
}

/// Creates the tables of registers and databases. Returns one line per result.
pub async fn init_transactions(config: &TransactionsConfig) -> Result<Vec<String>, NodeError> {
    let mut lines = Vec::new();
    let cluster = &config.transactions;
    let databases = databases::open(config, cluster.cluster.into())?;
    read_procedures(config, &databases)?;
    if cluster.registers == RegistersBackend::Postgres {
        let url = registers_url(cluster)?;
        jeton_register_postgres::create_schema(&url).await.explain(
            "the registers were not created in PostgreSQL",
            "check that the database is running and that the role may create tables",
        )?;
        lines.push("registers: ready".to_owned());
    }
    for database in &databases {
        let name = database.resource().name().to_owned();
        let notes = database.ensure_schema().await.explain(
            format!("the database {name:?} cannot participate in transactions"),
            "correct the cause, then run jeton init again",
        )?;
        lines.push(format!("{name}: ready"));
        lines.extend(notes.into_iter().map(|note| format!("{name}: {note}")));
    }
    Ok(lines)
}

fn invalid(key: &str, reason: &str) -> NodeError {
    let what = format!("{key} in [transactions] is invalid");
    NodeError::with_cause(reason.to_owned(), what, "correct it: see docs/transactions.md")
}

fn registers_url(cluster: &ClusterConfig) -> Result<String, NodeError> {
    value_or_variable(cluster.registers_url.as_ref(), cluster.registers_url_variable.as_ref())
        .map_err(|reason| invalid("registers_url", &reason))
}

/// The certificates that are trusted in `https` URLs, if not those of the operating system.
fn trusted_certificates(cluster: &ClusterConfig) -> Result<Option<Tls>, NodeError> {
    let Some(file) = &cluster.ca_file else { return Ok(None) };
    let pem = std::fs::read(file).map_err(|error| error.to_string());
    let tls = pem.and_then(|pem| Tls::trusting(pem).map_err(|error| error.to_string()));
    tls.map(Some).map_err(|reason| invalid("ca_file", &format!("{}: {reason}", file.display())))
}

fn read_procedures(
    config: &TransactionsConfig,
    databases: &[OpenedDatabase],
) -> Result<ProcedureRegistry, NodeError> {
    let read = ProcedureRegistry::read(&config.procedures, &databases::by_name(databases));
    read.explain("a procedure of the configuration file is invalid", "correct it: see docs/transactions.md")
}

fn create_peers(config: &TransactionsConfig, server: u16) -> Result<Option<Arc<HttpPeers>>, NodeError> {
    let cluster = &config.transactions;
    if cluster.servers.len() < 2 {
        return Ok(None);
    }
    if usize::from(server) > cluster.servers.len() {
        let reason = format!("this is server {server}, and [transactions] lists {}", cluster.servers.len());
        let fix = "set --server-number, or add its URL to servers";
        return Err(NodeError::with_cause(reason, "this server is not in the cluster", fix));
    }
    let token = cluster.token_variable.as_ref().map(|variable| value_or_variable(None, Some(variable)));
    let token = token.transpose().map_err(|reason| invalid("token_variable", &reason))?;
    let tls = trusted_certificates(cluster)?;
    let peers = HttpPeers::new(&cluster.servers, server, cluster.failure_timeout, token, tls);
    peers.map(Some).map_err(|reason| invalid("servers", &reason))
}

async fn blocking<T: Send + 'static>(
    open: impl FnOnce() -> Result<T, NodeError> + Send + 'static,
) -> Result<T, NodeError> {
    let opened = tokio::task::spawn_blocking(open).await;
    opened.explain("the registers were not opened", "report this with the log output above")?
}

fn open_embedded(folder: &Path) -> Result<EmbeddedRegisters<RealDisk>, NodeError> {
    let what = || format!("the registers of transactions in {} cannot be opened", folder.display());
    let check = "check the directory: jeton doctor";
    let disk = RealDisk::new(folder).explain(what(), check)?;
    EmbeddedRegisters::open(disk, embedded::Options::default()).map_err(|error| {
        let data = folder.parent().unwrap_or(folder).display();
        let fix = match error.is_old_format() {
            true => format!("stop the server and convert them: jeton migrate {data}"),
            false => check.into(),
        };
        NodeError::with_cause(error, what(), fix)
    })
}

fn read_secret(cluster: &ClusterConfig) -> Result<Secret, NodeError> {
    let file = cluster.secret_file.as_ref();
    let file = file.ok_or_else(|| invalid("secret_file", "Raft needs a secret that all servers share"))?;
    let secret = std::fs::read(file)
        .map_err(|error| invalid("secret_file", &format!("{}: {error}", file.display())))?;
    Ok(Secret::new(secret.trim_ascii()))
}

fn raft_settings(
    cluster: &ClusterConfig,
    server: u16,
    data: &Path,
    secret: Secret,
) -> jeton_register_raft::Settings {
    let members =
        cluster.raft.iter().zip(1..).map(|(address, id)| Member { id, address: *address }).collect();
    let durability = match cluster.raft_in_memory {
        true => Durability::Memory,
        false => Durability::Disk(data.join(FOLDER)),
    };
    jeton_register_raft::Settings::new(u64::from(server), members, secret, durability)
}

/// Finishes the setup in a task, and waits for it up to [`START_TIMEOUT`].
async fn continue_with<R: Registers>(
    mut setup: Setup,
    registers: Arc<R>,
    service: Arc<Transactions>,
) -> Result<(), NodeError> {
    let (sender, result) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let databases = connect(&mut setup, &*registers).await;
        let finished = databases.map(|databases| start_coordinator(setup, &databases, registers, &service));
        if let Err(Err(error)) = sender.send(finished) {
            tracing::error!(%error, "this server executes no transactions");
        }
    });
    match tokio::time::timeout(START_TIMEOUT, result).await {
        Ok(Ok(failed @ Err(_))) => {
            let fix = "correct the cause, then start the server again";
            failed.explain("transactions are not available", fix)
        }
        Ok(_) => Ok(()),
        Err(_) => {
            tracing::warn!(
                "databases or registers do not respond yet; transactions are accepted once they do"
            );
            Ok(())
        }
    }
}

/// Waits until registers and databases are ready. An error is permanent.
async fn connect<R: Registers>(setup: &mut Setup, registers: &R) -> Result<Vec<OpenedDatabase>, String> {
    let cluster = identify(setup, registers).await?;
    setup.options.cluster = cluster;
    let databases = databases::open(&setup.config, cluster).map_err(|error| error.to_string())?;
    for database in &databases {
        let resource = database.resource();
        loop {
            let ready = async {
                let notes = database.ensure_schema().await?;
                database.claim().await.map(|()| notes)
            };
            match ready.await {
                Ok(notes) => {
                    notes.iter().for_each(|note| tracing::info!(database = resource.name(), "{note}"));
                    break;
                }
                Err(error @ ResourceError::Setup { .. }) => return Err(error.to_string()),
                Err(error) => tracing::warn!(%error, "a database is not ready"),
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
    loop {
        match check_decision_locations(registers, setup.procedures.decision_locations()).await {
            Ok(()) => return Ok(databases),
            Err(DecisionLocationError::Unavailable(error)) => {
                tracing::warn!(%error, "the registers are not ready");
            }
            Err(error) => return Err(error.to_string()),
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// Reads the identity of the deployment from the registers, and waits until they respond.
async fn identify<R: Registers>(setup: &Setup, registers: &R) -> Result<Cluster, String> {
    let deployment = match setup.deployment {
        Some(deployment) => deployment,
        None => getrandom::u32().map_err(|error| format!("the system returned no random bytes: {error}"))?,
    };
    loop {
        match Cluster::identify(registers, setup.options.cluster.number, deployment).await {
            Ok(cluster) => return Ok(cluster),
            Err(IdentifyError::Trouble(error)) => tracing::warn!(%error, "the registers are not ready"),
            Err(error) => return Err(format!("{error}; give every cluster its own registers")),
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

fn start_coordinator<R: Registers>(
    setup: Setup,
    databases: &[OpenedDatabase],
    registers: Arc<R>,
    service: &Transactions,
) {
    let Setup { options, procedures, peers, .. } = setup;
    let others: Arc<dyn Peers> = match &peers {
        Some(peers) => peers.clone(),
        None => Arc::new(NoPeers),
    };
    let retire_every = (options.window / 10).clamp(Duration::from_secs(1), Duration::from_secs(600));
    let resources = databases.iter().map(OpenedDatabase::resource).collect();
    let coordinator = Coordinator::new(options, registers, resources, Arc::new(procedures), others);
    tokio::spawn(coordinator.clone().run_recovery());
    tokio::spawn(coordinator.clone().run_retention(retire_every));
    if let Some(peers) = peers {
        tokio::spawn(peers.probe());
    }
    service.set_service(Arc::new(coordinator) as Arc<dyn TransactionService>);
}
