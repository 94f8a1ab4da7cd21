//! Transactions as a server has them: databases, registers, procedures and the other servers, from the configuration file to a desk that takes requests.

mod config;
mod databases;
mod decision_location;
mod peers;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use jeton_etx::{
    Cluster, Coordinator, IdentifyError, NoPeers, Options, Peers, ResourceError, TransactionService,
};
use jeton_procedures::ProcedureRegistry;
use jeton_register::Registers;
use jeton_register::disk::RealDisk;
use jeton_register::embedded::{self, Embedded};
use jeton_register_postgres::PostgresRegisters;
use jeton_register_raft::{Durability, Member, RaftRegisters, Secret};
use jeton_server::Transactions;

use self::config::{Backend, said};
pub use self::config::{SECTIONS, TransactionsConfig};
use self::databases::OpenedDatabase;
use self::peers::HttpPeers;
use crate::cli_error::CliError;

/// How long the start waits for databases and registers, before it goes on without them.
const START_MAX: Duration = Duration::from_secs(10);

/// Pauses between looks whether what was missing at the start is there.
const AGAIN_EVERY: Duration = Duration::from_secs(1);

const FOLDER: &str = "transactions";

/// What is known before registers are opened.
struct Setup {
    declared: TransactionsConfig,
    options: Options,
    book: ProcedureRegistry,
    peers: Option<Arc<HttpPeers>>,
    /// What the deployment is called if its registers cannot be relied on to know it.
    named: Option<u32>,
}

/// Begins to take transactions: at once, or when databases and registers are there.
pub async fn begin(
    declared: &TransactionsConfig,
    server: u16,
    data: &Path,
    desk: Arc<Transactions>,
) -> Result<()> {
    let cluster = &declared.transactions;
    let book = book(declared, &databases::open(declared, cluster.cluster.into())?)?;
    let incarnation = getrandom::u64().map_err(|why| anyhow!("there is no randomness: {why}"))?;
    let options = Options {
        procedure_timeout: cluster.compute_max.0,
        recovery_interval: cluster.sweep_every.0,
        max_in_flight: cluster.works_max,
        window: cluster.window.0,
        ..Options::new(cluster.cluster, server, incarnation)
    };
    let peers = peers(declared, server)?;
    let mut setup = Setup { declared: declared.clone(), options, book, peers, named: None };
    match cluster.registers {
        Backend::Embedded => {
            if cluster.servers.len() > 1 {
                let fix = "choose registers = \"postgres\" or \"raft\" in [transactions]";
                return Err(CliError::of(
                    anyhow!("they are in the directory of one server"),
                    "several servers cannot share embedded registers",
                    fix,
                ));
            }
            let folder = data.join(FOLDER);
            go_on(setup, Arc::new(aside(move || embedded(&folder)).await?), desk).await
        }
        Backend::Postgres => {
            let url = said(cluster.registers_url.as_ref(), cluster.registers_url_variable.as_ref());
            let url = url.map_err(|why| wrong("registers_url", &why))?;
            let registers = PostgresRegisters::open(&url, jeton_register_postgres::Options::default()).await;
            let registers = registers.map_err(|why| {
                CliError::of(
                    why,
                    "the registers in PostgreSQL cannot be opened",
                    "make them with jeton init, and see that the database is there",
                )
            })?;
            go_on(setup, Arc::new(registers), desk).await
        }
        Backend::Raft => {
            let secret = secret(declared)?;
            // These forget all when all are down, and are the same deployment after it.
            setup.named = cluster.raft_in_memory.then(|| secret.fingerprint());
            let settings = raft(declared, server, data, secret);
            let open = move || {
                RaftRegisters::open(settings).map_err(|why| {
                    let fix = "see raft, secret_file and the directory of the data";
                    CliError::of(why, "the registers of Raft cannot be opened", fix)
                })
            };
            let registers = Arc::new(aside(open).await?);
            let led = Arc::clone(&registers);
            desk.follow(move || led.leader());
            go_on(setup, registers, desk).await
        }
    }
}

/// Makes the tables of registers and databases. What was done, in lines.
pub async fn init(declared: &TransactionsConfig) -> Result<Vec<String>> {
    let mut told = Vec::new();
    let cluster = &declared.transactions;
    let databases = databases::open(declared, cluster.cluster.into())?;
    book(declared, &databases)?;
    if cluster.registers == Backend::Postgres {
        let url = said(cluster.registers_url.as_ref(), cluster.registers_url_variable.as_ref());
        let url = url.map_err(|why| wrong("registers_url", &why))?;
        jeton_register_postgres::create_schema(&url).await.map_err(|why| {
            CliError::of(
                why,
                "the registers cannot be made in PostgreSQL",
                "see that the database is there, and that the role may make tables",
            )
        })?;
        told.push("registers: ready".to_owned());
    }
    for database in &databases {
        let name = database.resource().name().to_owned();
        let notes = database.ensure_schema().await.map_err(|why| {
            CliError::of(
                why,
                format!("the database {name:?} cannot take part in transactions"),
                "do what is said there, then run jeton init again",
            )
        })?;
        told.push(format!("{name}: ready"));
        told.extend(notes.into_iter().map(|note| format!("{name}: {note}")));
    }
    Ok(told)
}

fn wrong(key: &str, why: &str) -> anyhow::Error {
    let what = format!("{key} of [transactions] cannot be used");
    CliError::of(anyhow!("{why}"), what, "mend it: see docs/transactions.md")
}

fn book(declared: &TransactionsConfig, databases: &[OpenedDatabase]) -> Result<ProcedureRegistry> {
    ProcedureRegistry::read(&declared.procedures, &databases::named(databases)).map_err(|why| {
        CliError::of(
            why,
            "a procedure of the configuration file cannot be used",
            "mend it: see docs/transactions.md",
        )
    })
}

fn peers(declared: &TransactionsConfig, server: u16) -> Result<Option<Arc<HttpPeers>>> {
    let cluster = &declared.transactions;
    if cluster.servers.len() < 2 {
        return Ok(None);
    }
    if usize::from(server) > cluster.servers.len() {
        let why = anyhow!("this is server {server}, and [transactions] names {}", cluster.servers.len());
        return Err(CliError::of(
            why,
            "this server is none of the cluster",
            "set --server-number, or add its address to servers",
        ));
    }
    let token = match &cluster.token_variable {
        Some(_) => {
            Some(said(None, cluster.token_variable.as_ref()).map_err(|why| wrong("token_variable", &why))?)
        }
        None => None,
    };
    let peers = HttpPeers::new(&cluster.servers, server, cluster.suspect_after.0, token);
    peers.map(Some).map_err(|why| wrong("servers", &why))
}

/// Runs what waits for the disk where nobody else is kept waiting by it.
async fn aside<T: Send + 'static>(open: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(open).await?
}

fn embedded(folder: &Path) -> Result<Embedded<RealDisk>> {
    let fail = |why: anyhow::Error| {
        let what = format!("the registers of transactions in {} cannot be opened", folder.display());
        CliError::of(why, what, "see what is wrong with the directory: jeton doctor")
    };
    let disk = RealDisk::new(folder).map_err(|why| fail(why.into()))?;
    Embedded::open(disk, embedded::Options::default()).map_err(|why| fail(why.into()))
}

fn secret(declared: &TransactionsConfig) -> Result<Secret> {
    let file = declared.transactions.secret_file.as_ref();
    let file = file.ok_or_else(|| wrong("secret_file", "Raft needs a secret that all servers have"))?;
    let secret =
        std::fs::read(file).map_err(|why| wrong("secret_file", &format!("{}: {why}", file.display())))?;
    Ok(Secret::new(secret.trim_ascii()))
}

fn raft(
    declared: &TransactionsConfig,
    server: u16,
    data: &Path,
    secret: Secret,
) -> jeton_register_raft::Settings {
    let cluster = &declared.transactions;
    let members =
        cluster.raft.iter().zip(1..).map(|(address, id)| Member { id, address: *address }).collect();
    let durability = match cluster.raft_in_memory {
        true => Durability::Memory,
        false => Durability::Disk(data.join(FOLDER)),
    };
    jeton_register_raft::Settings::new(u64::from(server), members, secret, durability)
}

async fn go_on<R: Registers>(mut setup: Setup, registers: Arc<R>, desk: Arc<Transactions>) -> Result<()> {
    let (tell, told) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let ended = make_ready(&mut setup, &*registers).await;
        let ended = ended.map(|databases| open_desk(setup, &databases, registers, &desk));
        if let Err(Err(why)) = tell.send(ended) {
            tracing::error!(%why, "there are no transactions on this server");
        }
    });
    match tokio::time::timeout(START_MAX, told).await {
        Ok(Ok(Err(why))) => Err(CliError::of(
            anyhow!("{why}"),
            "transactions cannot be taken",
            "mend what is named, then start again",
        )),
        Ok(_) => Ok(()),
        Err(_) => {
            tracing::warn!("databases or registers do not answer yet; transactions are taken when they do");
            Ok(())
        }
    }
}

/// Comes back with the databases when these and the registers are ready; an error is one that waiting does not mend.
async fn make_ready<R: Registers>(setup: &mut Setup, registers: &R) -> Result<Vec<OpenedDatabase>, String> {
    let cluster = identify(setup, registers).await?;
    setup.options.cluster = cluster;
    let databases = databases::open(&setup.declared, cluster).map_err(|why| why.to_string())?;
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
                Err(why @ ResourceError::Setup { .. }) => return Err(why.to_string()),
                Err(why) => tracing::warn!(%why, "a database is not ready"),
            }
            tokio::time::sleep(AGAIN_EVERY).await;
        }
    }
    loop {
        match decision_location::check(registers, setup.book.decision_locations()).await {
            Ok(moved) => return moved.map_or(Ok(databases), Err),
            Err(why) => tracing::warn!(%why, "the registers are not ready"),
        }
        tokio::time::sleep(AGAIN_EVERY).await;
    }
}

/// Who we are, when the registers can tell.
async fn identify<R: Registers>(setup: &Setup, registers: &R) -> Result<Cluster, String> {
    let drawn = match setup.named {
        Some(named) => named,
        None => getrandom::u32().map_err(|why| format!("there is no randomness: {why}"))?,
    };
    loop {
        match Cluster::identify(registers, setup.options.cluster.number, drawn).await {
            Ok(cluster) => return Ok(cluster),
            Err(IdentifyError::Trouble(why)) => tracing::warn!(%why, "the registers are not ready"),
            Err(why) => return Err(format!("{why}; give every cluster registers of its own")),
        }
        tokio::time::sleep(AGAIN_EVERY).await;
    }
}

fn open_desk<R: Registers>(
    setup: Setup,
    databases: &[OpenedDatabase],
    registers: Arc<R>,
    desk: &Transactions,
) {
    let Setup { options, book, peers, .. } = setup;
    let others: Arc<dyn Peers> = match &peers {
        Some(peers) => peers.clone(),
        None => Arc::new(NoPeers),
    };
    let retire_every = (options.window / 10).clamp(Duration::from_secs(1), Duration::from_secs(600));
    let resources = databases.iter().map(OpenedDatabase::resource).collect();
    let server = Coordinator::new(options, registers, resources, Arc::new(book), others);
    tokio::spawn(server.clone().run_recovery());
    tokio::spawn(server.clone().run_retention(retire_every));
    if let Some(peers) = peers {
        tokio::spawn(peers.listen_for_ever());
    }
    desk.open(Arc::new(server) as Arc<dyn TransactionService>);
}
