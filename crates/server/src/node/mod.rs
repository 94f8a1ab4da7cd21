//! A server process: store, listeners, transactions and background tasks, from configuration to shutdown.
//!
//! Order of start: tokens and certificate, signal handlers, sockets (bound, not listening), store,
//! transactions, reloader, listeners. An address in use is therefore reported before a long recovery, and
//! clients connect only to a store that is open. Shutdown is the reverse.

mod cluster;
mod error;
mod listeners;
mod open_store;
mod peers;
mod reloader;
mod shutdown;
mod transactions;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use hyper::Uri;
use jeton_auth::{Access, UsageFile};
pub use jeton_cluster::ClusterStatus;
use tokio::sync::watch;

pub use self::cluster::{ClusterSettings, init_cluster};
use self::error::Explain;
pub use self::error::NodeError;
pub use self::listeners::ListenProtocol;
use self::listeners::{BoundSockets, Listeners};
pub use self::open_store::{explain_open_error, open_store};
use self::reloader::Reloader;
pub use self::transactions::{
    ClusterConfig, DatabaseConfig, DatabaseKind, FOLDER as TRANSACTIONS_FOLDER, RegistersBackend,
    TransactionsConfig, init_transactions,
};
use crate::tls::Tls;
use crate::{Service, Store, Transactions};

#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Directory of the store. Created if it does not exist.
    pub data: PathBuf,
    /// Addresses to listen on. At least one.
    pub listen: Vec<(ListenProtocol, SocketAddr)>,
    /// Token file. Without one, every client has all rights.
    pub tokens: Option<PathBuf>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    /// Listen on non-loopback addresses without tokens.
    pub insecure: bool,
    /// Options of the engine. `runtime` is overwritten.
    pub engine: jeton_engine::Options,
    pub service: crate::Options,
    /// The cluster that the server joins; without it, the counters are in `data`.
    pub cluster: Option<ClusterSettings>,
    /// Number of this server in the cluster of transactions, from 1.
    pub server_number: u16,
    /// Databases and procedures, if transactions are configured.
    pub transactions: Option<TransactionsConfig>,
}

pub struct Node {
    is_new: bool,
    listeners: Listeners,
    service: Arc<Service>,
    tls: Option<Arc<Tls>>,
    engine: Store,
    reloader: Reloader,
    shutdown: watch::Receiver<bool>,
}

impl Node {
    /// Opens the store and starts to listen. Clients are accepted once [`Node::run`] is called.
    ///
    /// Must be called inside a multi-threaded Tokio runtime.
    pub async fn start(config: NodeConfig) -> Result<Self, NodeError> {
        let access = Arc::new(open_access(&config)?);
        let tls = open_tls(&config)?.map(Arc::new);
        let shutdown = shutdown::on_signal()?;
        let sockets =
            BoundSockets::bind(&config.listen, access.has_tokens(), tls.is_some(), config.insecure)?;
        let is_new = open_store::is_new(&config.data);
        let engine = open(&config, &sockets.addresses()).await?;
        let mut options = config.service.clone();
        // Clients and other servers use the URLs of the cluster.
        let urls = config.transactions.iter().flat_map(|declared| &declared.transactions.servers);
        options
            .http_hosts
            .extend(urls.filter_map(|url| Some(url.parse::<Uri>().ok()?.authority()?.to_string())));
        let (store, allowed) = (engine.clone(), access.clone());
        let service = tokio::task::spawn_blocking(move || Service::new(store, allowed, options)).await;
        let service =
            service.explain("the service was not started", "report this with the log output above")?;
        let service = service.explain(
            format!("the default table {:?} was not created", config.service.default_table),
            "choose another name with --default-table",
        )?;
        let transactions = match &config.transactions {
            Some(declared) => {
                let service = Transactions::configured();
                transactions::start(declared, config.server_number, &config.data, service.clone()).await?;
                service
            }
            None => Transactions::none(),
        };
        let service = Arc::new(service.with_transactions(transactions));
        let usage = restore_usage(&config, &access)?;
        let reloader = reloader::start(access, tls.clone(), engine.clone(), usage)?;
        let listeners = sockets.listen()?;
        Ok(Self { is_new, listeners, service, tls, engine, reloader, shutdown })
    }

    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The status of the cluster, if the server is a node of one.
    pub fn cluster(&self) -> Option<ClusterStatus> {
        self.engine.cluster_status()
    }

    /// The addresses in use. Port 0 is replaced by the port that the system chose.
    pub fn addresses(&self) -> Vec<(ListenProtocol, SocketAddr)> {
        self.listeners.addresses()
    }

    /// Serves until SIGTERM or SIGINT, gives its stripes to other nodes, completes the requests in flight and
    /// closes the store.
    pub async fn run(self) -> Result<(), NodeError> {
        let shutdown = cluster::drain_before(self.shutdown, self.engine.clone());
        self.listeners.serve(&self.service, self.tls, &shutdown).await?;
        self.reloader.stop();
        let engine = self.engine;
        let closed = tokio::task::spawn_blocking(move || engine.close()).await;
        closed.explain("the store was not closed", "start the server again: it recovers")?;
        tracing::info!("stopped");
        Ok(())
    }
}

async fn open(config: &NodeConfig, listen: &[(ListenProtocol, SocketAddr)]) -> Result<Store, NodeError> {
    let (folder, mut options) = (config.data.clone(), config.engine.clone());
    // Shards run on the threads of the connections, which saves a wake-up per request.
    options.runtime = Some(tokio::runtime::Handle::current());
    if let Some(settings) = &config.cluster {
        return cluster::open(settings, &folder, listen, options).await;
    }
    let opened = tokio::task::spawn_blocking(move || open_store(&folder, options)).await;
    let engine = opened.explain("the store was not opened", "report this with the log output above")??;
    Ok(Store::Local(Arc::new(engine)))
}

fn open_access(config: &NodeConfig) -> Result<Access, NodeError> {
    let Some(file) = &config.tokens else { return Ok(Access::open_to_all()) };
    let path = file.display();
    Access::from_file(file).explain(
        format!("the token file {path} is not usable"),
        format!("create a token: jeton token create --tokens {path} --name NAME --table TABLE --right read"),
    )
}

/// Restores what each token has created so far. Called after the store is open, which locks the directory.
fn restore_usage(config: &NodeConfig, access: &Access) -> Result<Option<UsageFile>, NodeError> {
    if !access.has_tokens() {
        return Ok(None);
    }
    let path = config.data.join(UsageFile::NAME);
    let file = UsageFile::new(&path);
    let path = path.display();
    let fix = format!("repair {path}, or remove it: the limits on tables and counters then start from zero");
    let usage = file.read().explain("the usage of tokens is not readable", fix)?;
    for used in &usage {
        // The usage of a deleted token is dropped.
        let _exists = access.set_used(used);
    }
    Ok(Some(file))
}

fn open_tls(config: &NodeConfig) -> Result<Option<Tls>, NodeError> {
    match (&config.tls_cert, &config.tls_key) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Tls::open(cert, key).map(Some).explain(
            "the certificate is not usable",
            "name a certificate and its key in PEM with --tls-cert and --tls-key",
        ),
        _ => Err(NodeError::new(
            "a certificate and its key are two settings, and only one is given",
            "give both: --tls-cert FILE and --tls-key FILE",
        )),
    }
}
