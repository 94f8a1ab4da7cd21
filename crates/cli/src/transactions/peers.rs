//! The other servers of a cluster, asked over HTTP.
//!
//! Every server is asked from time to time whether it is there, so that it is known how long one has been silent when that matters. Where nobody listens, the server is
//! taken for dead at once. To be wrong about it costs a try, and nothing else.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, StatusCode, Uri, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use jeton_etx::{AttemptNumber, CoordinatorId, PeerStatus, Peers, RequestId};
use serde::Deserialize;
use tokio::task::JoinSet;

/// How long an answer is waited for.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// Longer answers are none of ours.
const ANSWER_BYTES_MAX: usize = 4096;

/// The other servers.
pub struct HttpPeers {
    others: Vec<Arc<Other>>,
    suspect_after: Duration,
    client: Client<HttpConnector, Empty<Bytes>>,
    token: Option<String>,
}

struct Other {
    number: u16,
    url: String,
    heard: Mutex<Heard>,
}

#[derive(Clone, Copy)]
struct Heard {
    last: Instant,
    /// Whether nobody listened there the last time.
    is_refused: bool,
}

/// What a server says about itself.
#[derive(Deserialize)]
struct Said {
    server: u16,
    incarnation: String,
    work: Option<String>,
}

enum Unheard {
    Refused,
    Silence,
}

impl HttpPeers {
    /// All servers but this one. The first URL is that of server 1.
    pub fn new(
        urls: &[String],
        own: u16,
        suspect_after: Duration,
        token: Option<String>,
    ) -> Result<Arc<Self>, String> {
        let mut others = Vec::new();
        for (url, number) in urls.iter().zip(1..) {
            let url = url.trim_end_matches('/');
            let is_usable =
                url.parse::<Uri>().is_ok_and(|uri| uri.scheme_str() == Some("http") && uri.host().is_some());
            if !is_usable {
                return Err(format!("{url:?} is not where a server is found, such as http://10.0.0.2:6381"));
            }
            if number != own {
                let heard = Mutex::new(Heard { last: Instant::now(), is_refused: false });
                others.push(Arc::new(Other { number, url: url.to_owned(), heard }));
            }
        }
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(ANSWER_MAX));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Arc::new(Self { others, suspect_after, client, token }))
    }

    /// Asks every server from time to time whether it is there, for ever.
    pub async fn listen_for_ever(self: Arc<Self>) {
        let every = self.suspect_after / 4;
        loop {
            let mut asking = JoinSet::new();
            for other in &self.others {
                let (peers, other) = (Arc::clone(&self), Arc::clone(other));
                // That it is noted whether it answered is all that is wanted.
                asking.spawn(async move { drop(peers.ask(&other, NOBODYS, AttemptNumber::FIRST).await) });
            }
            while asking.join_next().await.is_some() {}
            tokio::time::sleep(every).await;
        }
    }

    async fn ask(&self, other: &Other, request: RequestId, attempt: AttemptNumber) -> Result<Said, Unheard> {
        let said = self.say(other, request, attempt).await;
        let mut heard = other.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.is_refused = matches!(said, Err(Unheard::Refused));
        if said.is_ok() {
            heard.last = Instant::now();
        }
        said
    }

    async fn say(&self, other: &Other, request: RequestId, attempt: AttemptNumber) -> Result<Said, Unheard> {
        let RequestId { session, sequence } = request;
        let uri = format!("{}/v1/works/{session:032x}:{sequence}/{}", other.url, attempt.0);
        let mut asked = Request::get(uri);
        if let Some(token) = &self.token {
            asked = asked.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let asked = asked.body(Empty::new()).map_err(|_| Unheard::Silence)?;
        let answer = async {
            let answer = self.client.request(asked).await.map_err(|why| match is_refused(&why) {
                true => Unheard::Refused,
                false => Unheard::Silence,
            })?;
            if answer.status() != StatusCode::OK {
                tracing::warn!(server = other.number, status = %answer.status(), "another server does not tell what it works on");
                return Err(Unheard::Silence);
            }
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|_| Unheard::Silence)?.to_bytes();
            serde_json::from_slice(&body).map_err(|_| Unheard::Silence)
        };
        let said: Said = tokio::time::timeout(ANSWER_MAX, answer).await.map_err(|_| Unheard::Silence)??;
        if said.server != other.number {
            tracing::error!(
                url = other.url,
                expected = other.number,
                found = said.server,
                "another server than expected answers"
            );
            return Err(Unheard::Silence);
        }
        Ok(said)
    }

    fn is_suspected(&self, other: &Other) -> bool {
        let heard = *other.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.is_refused || heard.last.elapsed() >= self.suspect_after
    }
}

/// A request that nobody makes.
const NOBODYS: RequestId = RequestId { session: 0, sequence: 0 };

fn is_refused(why: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(why);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return io.kind() == std::io::ErrorKind::ConnectionRefused;
        }
        next = error.source();
    }
    false
}

impl Said {
    fn incarnation(&self) -> Option<u64> {
        u64::from_str_radix(&self.incarnation, 16).ok()
    }

    fn executor(&self) -> Option<CoordinatorId> {
        let work = u64::from_str_radix(self.work.as_deref()?, 16).ok()?;
        Some(CoordinatorId { server: self.server, incarnation: self.incarnation()?, work })
    }
}

#[async_trait]
impl Peers for HttpPeers {
    async fn executing(&self, request: RequestId, attempt: AttemptNumber) -> Option<CoordinatorId> {
        // Those who seem dead would only cost time.
        let asked = self.others.iter().filter(|other| !self.is_suspected(other));
        let answers = asked.map(|other| self.ask(other, request, attempt));
        let answers = futures_util::future::join_all(answers).await;
        answers.into_iter().find_map(|said| said.ok()?.executor())
    }

    async fn status(
        &self,
        executor: CoordinatorId,
        request: RequestId,
        attempt: AttemptNumber,
    ) -> PeerStatus {
        let Some(other) = self.others.iter().find(|other| other.number == executor.server) else {
            // It is not of this cluster any more.
            return PeerStatus::Suspected;
        };
        match self.ask(other, request, attempt).await {
            Ok(said) if said.executor() == Some(executor) => PeerStatus::Working,
            Ok(said) if said.incarnation() == Some(executor.incarnation) => PeerStatus::NotWorking,
            Ok(_) => PeerStatus::Restarted,
            Err(_) if self.is_suspected(other) => PeerStatus::Suspected,
            Err(_) => PeerStatus::Unreachable,
        }
    }
}
