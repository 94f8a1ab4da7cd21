//! The options of a node.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// The directory of the node: its id, and a cache of each stripe.
    pub directory: PathBuf,
    /// The address on which the node listens for other nodes. Port 0 is any free port.
    pub listen: SocketAddr,
    /// The host and port at which other nodes reach this one, if it is not `listen`.
    pub advertised: Option<String>,
    /// The addresses of the node for clients, which its heartbeats name.
    pub client_addresses: Vec<String>,
    /// Options of the engines. Memory is divided by the number of stripes; `partitions` and `shards` are set
    /// by the node.
    pub engine: jeton_engine::Options,
    /// Number of stripes if the node founds the deployment.
    pub stripes: u16,
    pub timing: Timing,
    /// Encrypts and authenticates connections between nodes with certificates, in addition to the key that
    /// all nodes of a deployment have.
    pub tls: Option<jeton_peer::Tls>,
}

impl NodeOptions {
    pub fn new(directory: PathBuf, listen: SocketAddr) -> Self {
        Self {
            directory,
            listen,
            advertised: None,
            client_addresses: Vec::new(),
            engine: jeton_engine::Options::default(),
            stripes: 32,
            timing: Timing::default(),
            tls: None,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Timing {
    pub heartbeat: Duration,
    /// A node without a new heartbeat for this long is suspected.
    pub failure_timeout: Duration,
    /// A node that is away for less time keeps its place in planned moves.
    pub absence: Duration,
    /// After this time a request that no owner has answered gets an error.
    pub request_timeout: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(500),
            failure_timeout: Duration::from_secs(2),
            absence: Duration::from_secs(30),
            request_timeout: Duration::from_secs(10),
        }
    }
}
