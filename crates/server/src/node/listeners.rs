//! Listeners: addresses are checked and bound first, opened once the store is open, and served until
//! shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use jeton_auth::may_listen;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::NodeError;
use super::error::Explain;
use crate::tls::{self, Tls};
use crate::{Service, http, resp};

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenProtocol {
    Resp,
    Http,
    RespTls,
    HttpTls,
}

impl ListenProtocol {
    const fn flag(self) -> &'static str {
        match self {
            Self::Resp => "--resp",
            Self::Http => "--http",
            Self::RespTls => "--resp-tls",
            Self::HttpTls => "--http-tls",
        }
    }

    const fn needs_tls(self) -> bool {
        matches!(self, Self::RespTls | Self::HttpTls)
    }
}

/// Bound addresses that do not listen yet.
pub struct BoundSockets(Vec<(ListenProtocol, TcpSocket)>);

pub struct Listeners(Vec<(ListenProtocol, TcpListener)>);

impl BoundSockets {
    pub fn bind(
        addresses: &[(ListenProtocol, SocketAddr)],
        has_tokens: bool,
        has_tls: bool,
        insecure: bool,
    ) -> Result<Self, NodeError> {
        let mut sockets = Vec::new();
        for &(protocol, address) in addresses {
            if protocol.needs_tls() && !has_tls {
                return Err(NodeError::new(
                    format!("{} {address} needs a certificate", protocol.flag()),
                    "give it with --tls-cert FILE and --tls-key FILE, both in PEM",
                ));
            }
            may_listen(address, has_tokens, insecure).explain(
                format!("{} {address} would accept every client", protocol.flag()),
                "create a token (jeton token create --help), then jeton serve --tokens FILE",
            )?;
            let socket = bind(address).map_err(|error| cannot_listen(protocol, address, error))?;
            sockets.push((protocol, socket));
        }
        if sockets.is_empty() {
            return Err(NodeError::new(
                "all addresses are off: no client could connect",
                "leave one of --resp, --http, --resp-tls and --http-tls on",
            ));
        }
        Ok(Self(sockets))
    }

    /// The addresses. Port 0 is replaced by the port that the system chose.
    pub fn addresses(&self) -> Vec<(ListenProtocol, SocketAddr)> {
        let address = |(protocol, socket): &(_, TcpSocket)| Some((*protocol, socket.local_addr().ok()?));
        self.0.iter().filter_map(address).collect()
    }

    pub fn listen(self) -> Result<Listeners, NodeError> {
        let listeners = self.0.into_iter().map(|(protocol, socket)| {
            let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
            let address = socket.local_addr().unwrap_or(unspecified);
            let listener = socket.listen(BACKLOG).map_err(|error| cannot_listen(protocol, address, error))?;
            Ok((protocol, listener))
        });
        listeners.collect::<Result<_, NodeError>>().map(Listeners)
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Without it a restart fails while connections of the previous process are in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn cannot_listen(protocol: ListenProtocol, address: SocketAddr, error: io::Error) -> NodeError {
    let flag = protocol.flag();
    let fix = match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "find the process that listens there (ss -ltnp | grep {}), perhaps another jeton; or choose another \
             address with {flag}",
            address.port()
        ),
        io::ErrorKind::PermissionDenied => {
            format!("ports below 1024 need root: choose another with {flag}")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("choose an address of this machine (ip address) with {flag}")
        }
        _ => format!("choose another address with {flag}"),
    };
    NodeError::with_cause(error, format!("cannot listen on {address}"), fix)
}

impl Listeners {
    pub fn addresses(&self) -> Vec<(ListenProtocol, SocketAddr)> {
        let address =
            |(protocol, listener): &(_, TcpListener)| Some((*protocol, listener.local_addr().ok()?));
        self.0.iter().filter_map(address).collect()
    }

    /// Serves all listeners until `shutdown` is true and the requests in flight are complete.
    pub async fn serve(
        self,
        service: &Arc<Service>,
        tls: Option<Arc<Tls>>,
        shutdown: &watch::Receiver<bool>,
    ) -> Result<(), NodeError> {
        let mut tasks = JoinSet::new();
        for (protocol, listener) in self.0 {
            let (service, stop) = (service.clone(), wait_for_shutdown(shutdown.clone()));
            match (protocol, tls.clone()) {
                (ListenProtocol::Resp, _) => tasks.spawn(resp::serve(service, listener, stop)),
                (ListenProtocol::RespTls, Some(tls)) => {
                    tasks.spawn(tls::serve_resp(tls, service, listener, stop))
                }
                (ListenProtocol::Http, _) => {
                    tasks.spawn(async move { http::Server::new(service)?.serve(listener, stop).await })
                }
                (ListenProtocol::HttpTls, Some(tls)) => {
                    tasks.spawn(tls::serve_https(tls, service, listener, stop))
                }
                (ListenProtocol::RespTls | ListenProtocol::HttpTls, None) => {
                    unreachable!("bind() rejects TLS listeners without a certificate")
                }
            };
        }
        while let Some(ended) = tasks.join_next().await {
            let fix = "start the server again, and report this with the log output above";
            ended.map_err(io::Error::other).flatten().explain("a listener failed", fix)?;
        }
        Ok(())
    }
}

async fn wait_for_shutdown(mut shutdown: watch::Receiver<bool>) {
    // An error means that the sender is gone, which is a shutdown as well.
    let _result = shutdown.wait_for(|stopping| *stopping).await;
}
