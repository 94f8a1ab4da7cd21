//! A node of a cluster: its settings, its start, and the tables in the database of the cluster.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jeton_cluster::{ClusterNode, ClusterStatus, Deployment, NodeOptions, PeerTls};
use jeton_register_postgres::{OpenError, Options as PostgresOptions, PostgresRegisters, create_schema};
use tokio::sync::watch;

use super::error::Explain;
use super::{ListenProtocol, NodeError};
use crate::Store;

/// How long a stopping node waits for other nodes to take its stripes.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval of looks at the other nodes while this one stops.
const STATUS_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub struct ClusterSettings {
    /// Connection URL of the PostgreSQL of the cluster.
    pub url: String,
    /// Address to listen on for other nodes.
    pub peers: SocketAddr,
    /// Host name or address under which clients and other nodes reach this node, if it is not that of the
    /// addresses that it listens on.
    pub host: Option<String>,
    /// Number of stripes of a new cluster.
    pub stripes: u16,
    /// PEM files for encrypted connections between nodes: authority, certificate of this node, its key. All
    /// of them or none.
    pub tls: [Option<PathBuf>; 3],
}

/// Omits the URL, which may contain a password.
impl fmt::Debug for ClusterSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterSettings").field("peers", &self.peers).finish_non_exhaustive()
    }
}

impl ClusterSettings {
    /// An address under which others reach this node.
    fn advertised(&self, address: SocketAddr) -> Result<String, NodeError> {
        match &self.host {
            Some(host) => Ok(format!("{host}:{}", address.port())),
            None if address.ip().is_unspecified() => Err(NodeError::new(
                format!("the address {address} does not say how others reach this node"),
                "name the host with --cluster-host, or listen on one address",
            )),
            None => Ok(address.to_string()),
        }
    }

    fn open_tls(&self) -> Result<Option<PeerTls>, NodeError> {
        let fix = "name three files in PEM with cluster_tls_ca, cluster_tls_cert and cluster_tls_key";
        match &self.tls {
            [None, None, None] => Ok(None),
            [Some(ca), Some(certificate), Some(key)] => {
                let tls = PeerTls::open(ca, certificate, key);
                tls.map(Some).explain("connections between nodes cannot be encrypted", fix)
            }
            _ => {
                Err(NodeError::new("encryption between nodes has three settings, and some are missing", fix))
            }
        }
    }

    /// The addresses for clients, as URLs.
    fn client_addresses(&self, listen: &[(ListenProtocol, SocketAddr)]) -> Result<Vec<String>, NodeError> {
        let url = |&(protocol, address): &(ListenProtocol, SocketAddr)| {
            let scheme = match protocol {
                ListenProtocol::Resp => "redis",
                ListenProtocol::RespTls => "rediss",
                ListenProtocol::Http => "http",
                ListenProtocol::HttpTls => "https",
            };
            Ok(format!("{scheme}://{}", self.advertised(address)?))
        };
        listen.iter().map(url).collect()
    }
}

/// Joins the cluster. `listen` are the addresses for clients.
pub async fn open(
    settings: &ClusterSettings,
    directory: &Path,
    listen: &[(ListenProtocol, SocketAddr)],
    engine: jeton_engine::Options,
) -> Result<Store, NodeError> {
    let advertised = match settings.host {
        Some(_) => Some(settings.advertised(settings.peers)?),
        None => settings.advertised(settings.peers).map(|_| None)?,
    };
    let options = NodeOptions {
        advertised,
        client_addresses: settings.client_addresses(listen)?,
        engine,
        stripes: settings.stripes,
        tls: settings.open_tls()?,
        ..NodeOptions::new(directory.to_owned(), settings.peers)
    };
    if !settings.peers.ip().is_loopback() && options.tls.is_none() {
        tracing::warn!(
            "connections between the nodes are authenticated, but not encrypted: set cluster_tls_ca, \
             cluster_tls_cert and cluster_tls_key"
        );
    }
    let registers = Arc::new(open_registers(&settings.url).await?);
    let runtime = tokio::runtime::Handle::current();
    let opened = tokio::task::spawn_blocking(move || ClusterNode::open(registers, options, runtime)).await;
    let node = opened.explain("the node was not started", "report this with the log output above")?;
    let path = directory.display();
    let fix = format!(
        "check the database of the cluster, the address --cluster-peers and the directory {path}, which is a cache \
         and may be removed"
    );
    Ok(Store::Postgres(node.explain("the node did not join the cluster", fix)?))
}

async fn open_registers(url: &str) -> Result<PostgresRegisters, NodeError> {
    let mut options = PostgresOptions::default();
    options.refuse_asynchronous_standbys = true;
    PostgresRegisters::open(url, options).await.map_err(explain)
}

fn explain(error: OpenError) -> NodeError {
    let fix = match &error {
        OpenError::NoSchema => "create them: jeton init --cluster URL",
        OpenError::Version { .. } => "use the version of jeton that created the tables",
        OpenError::Url(_) => "write it as postgres://user@host/database?sslmode=verify-full",
        OpenError::Tls(_) => "check sslmode and sslrootcert in the URL, and the certificate of the server",
        OpenError::Unfit(_) => "correct the settings of the server, or name the primary in the URL",
        _ => "check that the database is running, and the URL of the setting cluster",
    };
    NodeError::with_cause(error, "the database of the cluster cannot be used", fix)
}

/// Creates the tables of the cluster and founds it, unless they exist. Returns the number of its stripes.
pub async fn init_cluster(url: &str, stripes: u16) -> Result<u16, NodeError> {
    create_schema(url).await.map_err(explain)?;
    let registers = open_registers(url).await?;
    let mut keys = [[0; 16]; 2];
    for key in &mut keys {
        getrandom::fill(key)
            .explain("the system returned no random bytes", "check that /dev/urandom is readable")?;
    }
    let candidate = Deployment::new(stripes, keys[0], keys[1])
        .explain("the cluster was not founded", "choose another number with --cluster-stripes")?;
    let deployment = Deployment::found(&registers, candidate).await;
    let fix = "check that the database is running, then run jeton init again";
    Ok(deployment.explain("the cluster was not founded", fix)?.stripes())
}

/// Becomes true some time after `shutdown`: when the other nodes have taken the stripes of this one, or after
/// a timeout. Until then this node serves its clients.
pub fn drain_before(mut shutdown: watch::Receiver<bool>, store: Store) -> watch::Receiver<bool> {
    if store.local().is_some() {
        return shutdown;
    }
    let (sender, drained) = watch::channel(false);
    tokio::spawn(async move {
        // An error means that the sender is gone, which is a shutdown as well.
        drop(shutdown.wait_for(|stopping| *stopping).await);
        tokio::select! {
            () = store.drain() => tracing::info!("other nodes have taken the stripes"),
            () = alone(&store) => tracing::info!("no other node runs: the stripes have no owner from now on"),
            () = tokio::time::sleep(DRAIN_TIMEOUT) => tracing::warn!("the stripes were not handed over in time"),
        }
        sender.send_replace(true);
    });
    drained
}

/// Returns when no other node can take stripes.
async fn alone(store: &Store) {
    let is_taker = |status: &ClusterStatus| {
        status.nodes.iter().any(|node| node.id != status.me && !node.suspected && !node.leaving)
    };
    while store.cluster_status().is_some_and(|status| is_taker(&status)) {
        tokio::time::sleep(STATUS_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_node_are_reachable() {
        let mut settings = ClusterSettings {
            url: "postgres://u:secret@h/d".into(),
            peers: "10.0.0.2:6382".parse().unwrap(),
            host: None,
            stripes: 32,
            tls: Default::default(),
        };
        let listen = |address: &str| {
            let address = address.parse().unwrap();
            [(ListenProtocol::Resp, address), (ListenProtocol::HttpTls, address)]
        };
        let addresses = settings.client_addresses(&listen("[::1]:7"));
        assert_eq!(addresses.unwrap(), ["redis://[::1]:7", "https://[::1]:7"]);
        let error = settings.client_addresses(&listen("0.0.0.0:7")).unwrap_err();
        assert!(error.fix.contains("--cluster-host"), "{}", error.fix);
        settings.host = Some("node1.example".into());
        let addresses = settings.client_addresses(&listen("0.0.0.0:7"));
        assert_eq!(addresses.unwrap(), ["redis://node1.example:7", "https://node1.example:7"]);
        assert!(!format!("{settings:?}").contains("secret"));
        assert!(settings.open_tls().unwrap().is_none());
        settings.tls[0] = Some("ca.pem".into());
        assert!(settings.open_tls().unwrap_err().fix.contains("cluster_tls_key"));
    }
}
