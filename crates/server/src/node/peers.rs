//! The failure detector: status of the other servers of the cluster, over HTTP.
//!
//! Every server is probed periodically, so that the time of its last response is known when a coordinator
//! needs it. A refused connection makes a server suspected at once. A false suspicion costs one attempt,
//! nothing else.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, StatusCode, Uri, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use jeton_client::tls::{HttpsConnector, Tls, https_connector, is_untrusted};
use jeton_etx::{AttemptNumber, CoordinatorId, PeerStatus, Peers, RequestId};
use tokio::task::JoinSet;

use super::error::io_error;
use crate::http::PeerBody;

const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);

const RESPONSE_BYTES_MAX: usize = 4096;

pub struct HttpPeers {
    others: Vec<Arc<Peer>>,
    failure_timeout: Duration,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    token: Option<String>,
}

struct Peer {
    number: u16,
    url: String,
    contact: Mutex<Contact>,
}

#[derive(Clone, Copy)]
struct Contact {
    last_response: Instant,
    /// Whether the last connection was refused.
    is_refused: bool,
}

enum NoStatus {
    Refused,
    NoResponse,
}

impl HttpPeers {
    /// All servers but `own`. The first URL is that of server 1. A server with an `https` URL needs a
    /// certificate that `tls` or else the operating system trusts.
    pub fn new(
        urls: &[String],
        own: u16,
        failure_timeout: Duration,
        token: Option<String>,
        tls: Option<Tls>,
    ) -> Result<Arc<Self>, String> {
        let mut others = Vec::new();
        for (url, number) in urls.iter().zip(1..) {
            let url = url.trim_end_matches('/');
            let is_usable = url
                .parse::<Uri>()
                .is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some());
            if !is_usable {
                return Err(format!("{url:?} is not the URL of a server, such as http://10.0.0.2:6381"));
            }
            if number != own {
                let contact = Mutex::new(Contact { last_response: Instant::now(), is_refused: false });
                others.push(Arc::new(Peer { number, url: url.to_owned(), contact }));
            }
        }
        let tls = match tls {
            None if others.iter().any(|peer| peer.url.starts_with("https")) => {
                Some(Tls::system().map_err(|error| error.to_string())?)
            }
            given => given,
        };
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(RESPONSE_TIMEOUT));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(https_connector(connector, tls.as_ref()));
        Ok(Arc::new(Self { others, failure_timeout, client, token }))
    }

    /// Probes all servers four times per failure timeout, until the task is dropped.
    pub async fn probe(self: Arc<Self>) {
        let interval = self.failure_timeout / 4;
        loop {
            let mut probes = JoinSet::new();
            for peer in &self.others {
                let (peers, peer) = (Arc::clone(&self), Arc::clone(peer));
                // Only the time of contact matters here.
                probes.spawn(
                    async move { drop(peers.request_status(&peer, PROBE, AttemptNumber::FIRST).await) },
                );
            }
            while probes.join_next().await.is_some() {}
            tokio::time::sleep(interval).await;
        }
    }

    async fn request_status(
        &self,
        peer: &Peer,
        request: RequestId,
        attempt: AttemptNumber,
    ) -> Result<PeerBody, NoStatus> {
        let status = self.fetch_status(peer, request, attempt).await;
        let mut contact = peer.contact.lock().unwrap_or_else(PoisonError::into_inner);
        contact.is_refused = matches!(status, Err(NoStatus::Refused));
        if status.is_ok() {
            contact.last_response = Instant::now();
        }
        status
    }

    async fn fetch_status(
        &self,
        peer: &Peer,
        request: RequestId,
        attempt: AttemptNumber,
    ) -> Result<PeerBody, NoStatus> {
        let RequestId { session, sequence } = request;
        let id = format!("{session:032x}:{sequence}");
        let uri = format!("{}/v1/internal/transactions/{id}/attempts/{}", peer.url, attempt.0);
        let mut request = Request::get(uri);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Empty::new()).map_err(|_| NoStatus::NoResponse)?;
        let response = async {
            let response = self.client.request(request).await.map_err(|error| {
                if is_untrusted(&error) {
                    let url = &peer.url;
                    tracing::warn!(url, "the certificate of another server is not trusted: check ca_file");
                }
                if is_refused(&error) { NoStatus::Refused } else { NoStatus::NoResponse }
            })?;
            if response.status() != StatusCode::OK {
                let status = response.status();
                tracing::warn!(server = peer.number, %status, "another server does not report its status");
                return Err(NoStatus::NoResponse);
            }
            let body = Limited::new(response.into_body(), RESPONSE_BYTES_MAX).collect().await;
            let body = body.map_err(|_| NoStatus::NoResponse)?.to_bytes();
            serde_json::from_slice(&body).map_err(|_| NoStatus::NoResponse)
        };
        let timed = tokio::time::timeout(RESPONSE_TIMEOUT, response).await;
        let status: PeerBody = timed.map_err(|_| NoStatus::NoResponse)??;
        if status.server != peer.number {
            let (url, expected, found) = (&peer.url, peer.number, status.server);
            tracing::error!(url, expected, found, "the URL of a server belongs to another server");
            return Err(NoStatus::NoResponse);
        }
        Ok(status)
    }

    fn is_suspected(&self, peer: &Peer) -> bool {
        let contact = *peer.contact.lock().unwrap_or_else(PoisonError::into_inner);
        contact.is_refused || contact.last_response.elapsed() >= self.failure_timeout
    }
}

/// A request id that no client uses.
const PROBE: RequestId = RequestId { session: 0, sequence: 0 };

fn is_refused(error: &hyper_util::client::legacy::Error) -> bool {
    io_error(error).is_some_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[async_trait]
impl Peers for HttpPeers {
    async fn executing(&self, request: RequestId, attempt: AttemptNumber) -> Option<CoordinatorId> {
        // A suspected server would only cost its timeout.
        let alive = self.others.iter().filter(|peer| !self.is_suspected(peer));
        let statuses = alive.map(|peer| self.request_status(peer, request, attempt));
        let statuses = futures_util::future::join_all(statuses).await;
        statuses.into_iter().find_map(|status| status.ok()?.coordinator())
    }

    async fn status(
        &self,
        coordinator: CoordinatorId,
        request: RequestId,
        attempt: AttemptNumber,
    ) -> PeerStatus {
        let Some(peer) = self.others.iter().find(|peer| peer.number == coordinator.server) else {
            // The server was removed from the cluster.
            return PeerStatus::Suspected;
        };
        match self.request_status(peer, request, attempt).await {
            Ok(status) if status.coordinator() == Some(coordinator) => PeerStatus::Working,
            Ok(status) if status.incarnation() == Some(coordinator.incarnation) => PeerStatus::NotWorking,
            Ok(_) => PeerStatus::Restarted,
            Err(_) if self.is_suspected(peer) => PeerStatus::Suspected,
            Err(_) => PeerStatus::Unreachable,
        }
    }
}
