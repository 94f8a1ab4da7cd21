//! Where clients come in: addresses that are checked and taken first, opened when the store is, and served until the end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use jeton_auth::may_listen;
use jeton_server::tls::{self, Tls};
use jeton_server::{Service, http, resp};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cli_error::CliError;
use crate::config::Settings;

/// Clients that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// What is spoken at a door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenProtocol {
    Resp,
    Http,
    RespTls,
    HttpTls,
}

impl ListenProtocol {
    /// The flag of its address.
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

/// Addresses that are taken. Nobody is let in yet.
pub struct BoundSockets(Vec<(ListenProtocol, TcpSocket)>);

/// Addresses at which clients are let in.
pub struct Listeners(Vec<(ListenProtocol, TcpListener)>);

impl BoundSockets {
    /// Takes all addresses of the settings, if that is allowed and possible.
    pub fn bind(settings: &Settings, has_tokens: bool, has_tls: bool) -> Result<Self> {
        let wanted = [
            (ListenProtocol::Resp, settings.resp),
            (ListenProtocol::Http, settings.http),
            (ListenProtocol::RespTls, settings.resp_tls),
            (ListenProtocol::HttpTls, settings.http_tls),
        ];
        let mut doors = Vec::new();
        for (speaks, address) in wanted.into_iter().filter_map(|(speaks, listen)| Some((speaks, listen.0?))) {
            if speaks.needs_tls() && !has_tls {
                return Err(CliError {
                    what: format!("{} {address} needs a certificate", speaks.flag()),
                    fix: "give it with --tls-cert FILE and --tls-key FILE, both in PEM".into(),
                }
                .into());
            }
            may_listen(address, has_tokens, settings.insecure).map_err(|why| {
                let what = format!("{} {address} would let everybody in", speaks.flag());
                CliError::of(anyhow!(why), what, "jeton token create --help; then jeton serve --tokens FILE")
            })?;
            doors.push((speaks, bind(address).map_err(|why| cannot_listen(speaks, address, why))?));
        }
        if doors.is_empty() {
            return Err(CliError {
                what: "all addresses are off: nobody could connect".into(),
                fix: "leave one of --resp, --http, --resp-tls and --http-tls on".into(),
            }
            .into());
        }
        Ok(Self(doors))
    }

    /// Lets clients in.
    pub fn open(self) -> Result<Listeners> {
        let open = self.0.into_iter().map(|(speaks, socket)| {
            let address = socket.local_addr().map_err(anyhow::Error::from)?;
            let listener = socket.listen(BACKLOG).map_err(|why| cannot_listen(speaks, address, why))?;
            Ok((speaks, listener))
        });
        open.collect::<Result<_>>().map(Listeners)
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Otherwise a server that is started again at once would have to wait for the connections of the one before.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn cannot_listen(speaks: ListenProtocol, address: SocketAddr, why: io::Error) -> anyhow::Error {
    let flag = speaks.flag();
    let fix = match why.kind() {
        io::ErrorKind::AddrInUse => format!(
            "see who listens there (ss -ltnp | grep {}), perhaps another jeton; or choose another with {flag}",
            address.port()
        ),
        io::ErrorKind::PermissionDenied => {
            format!("ports below 1024 are for root: choose another with {flag}")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("choose an address that this machine has with {flag}: ip address")
        }
        _ => format!("choose another address with {flag}"),
    };
    CliError::of(why, format!("cannot listen on {address}"), fix)
}

impl Listeners {
    /// What is spoken where. A port that was left to the system is the one that it chose.
    pub fn addresses(&self) -> Vec<(ListenProtocol, SocketAddr)> {
        let known =
            self.0.iter().filter_map(|(speaks, listener)| Some((*speaks, listener.local_addr().ok()?)));
        known.collect()
    }

    /// Serves at all doors until it is told to stop, and what is under way is answered.
    pub async fn serve(
        self,
        service: &Arc<Service>,
        tls: Option<Arc<Tls>>,
        stopping: &mut watch::Receiver<bool>,
    ) -> Result<()> {
        let mut serving = JoinSet::new();
        for (speaks, listener) in self.0 {
            let (service, stop) = (service.clone(), stop(stopping.clone()));
            match (speaks, tls.clone()) {
                (ListenProtocol::Resp, _) => serving.spawn(resp::serve(service, listener, stop)),
                (ListenProtocol::RespTls, Some(tls)) => {
                    serving.spawn(tls::serve_resp(tls, service, listener, stop))
                }
                (ListenProtocol::Http, _) => serving.spawn(http::serve(service, listener, stop)),
                (ListenProtocol::HttpTls, Some(tls)) => {
                    serving.spawn(serve_https(tls, service, listener, stop))
                }
                (ListenProtocol::RespTls | ListenProtocol::HttpTls, None) => {
                    return Err(anyhow!("a door for TLS was opened without a certificate"));
                }
            };
        }
        while let Some(ended) = serving.join_next().await {
            ended.map_err(anyhow::Error::from).and_then(|ended| ended.map_err(Into::into)).map_err(
                |why| {
                    CliError::of(
                        why,
                        "the server stopped by itself",
                        "start it again, and report what is written above",
                    )
                },
            )?;
        }
        Ok(())
    }
}

/// Comes back when it is told to stop.
async fn stop(mut stopping: watch::Receiver<bool>) {
    // If nobody is left to tell, it is over too.
    let _over = stopping.wait_for(|stopping| *stopping).await;
}

/// How long connections over HTTPS have to end, once the server is closing.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Serves HTTP through TLS, until it is told to stop: then what is under way is answered.
async fn serve_https(
    tls: Arc<Tls>,
    service: Arc<Service>,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let server = Arc::new(http::Server::new(service.clone()));
    let of_connections = server.clone();
    let mut connections = tls::accept(tls, service, listener, stop, move |stream, peer| {
        let server = of_connections.clone();
        async move {
            if let Some(place) = server.place() {
                server.serve_connection(place, stream, peer).await;
            }
        }
    })
    .await;
    server.close();
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(LAST_WORDS, all_ended).await.is_err() {
        tracing::warn!(open = connections.len(), "connections were cut: they did not end in time");
    }
    Ok(())
}
