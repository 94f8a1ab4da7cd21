//! The HTTP client: one request at a time per connection, and a pool of connections.
//!
//! Invariants: every request may be sent twice, because an idle connection may be dead and the request is
//! then repeated on another. Every request has a timeout, and every response a size limit. No error contains
//! the token.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use jeton_client::tls::{Tls, is_untrusted};
use jeton_etx::ResourceError;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::pool::{Pool, PooledConnection};
use crate::settings::Settings;

/// Limit of a response, in bytes: the list of all prepared branches.
const ANSWER_MAX: usize = 64 << 20;

const URL_REMEDY: &str = "use a URL such as https://host:6382 or http://host:6381";

type Connection = SendRequest<Full<Bytes>>;

pub struct Http {
    /// Host and port.
    address: String,
    /// Encrypts the connections.
    tls: Option<Tls>,
    token: Option<HeaderValue>,
    pool: Pool<Connection>,
}

/// A response.
pub struct Reply {
    pub status: u16,
    /// The JSON body; null if it is not JSON.
    pub body: Value,
}

impl Reply {
    /// The problem type, if the response is a problem of Jeton.
    pub fn problem(&self) -> &str {
        let kind = self.body["type"].as_str().unwrap_or_default();
        kind.strip_prefix("/problems/").unwrap_or_default()
    }

    pub fn detail(&self) -> &str {
        self.body["detail"].as_str().unwrap_or("no detail")
    }
}

impl Http {
    pub fn new(
        url: &str,
        token: Option<&str>,
        tls: Option<&Tls>,
        settings: &Settings,
    ) -> Result<Self, ResourceError> {
        let wrong = |why: &str| settings.setup(why, URL_REMEDY);
        let (rest, tls) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => {
                let system = || Tls::system().map_err(|error| wrong(&error.to_string()));
                (rest, Some(tls.map_or_else(system, |tls| Ok(tls.clone()))?))
            }
            (_, Some(rest)) => (rest, None),
            _ => return Err(wrong("the URL does not begin with https:// or http://")),
        };
        let address = rest.strip_suffix('/').unwrap_or(rest);
        let port = address
            .rsplit_once(':')
            .and_then(|(host, port)| port.parse::<u16>().ok().filter(|_| !host.is_empty()));
        if port.is_none() || address.contains(['/', '@', '?', '#']) {
            return Err(wrong("the URL is not a host and a port, and nothing else"));
        }
        let shown = |token| HeaderValue::try_from(format!("Bearer {token}"));
        let token = token.map(shown).transpose().map_err(|_| wrong("the token has invalid characters"))?;
        let token = token.map(|mut token| {
            token.set_sensitive(true);
            token
        });
        let pool = Pool::new(settings.branches_max);
        Ok(Self { address: address.to_owned(), tls, token, pool })
    }

    /// Sends a request and waits for the response.
    pub async fn ask(
        &self,
        settings: &Settings,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Reply, ResourceError> {
        let request = self.request(method, path, body).map_err(|error| settings.setup(error, URL_REMEDY))?;
        let reply = async {
            loop {
                let mut lease = self.lease(settings).await?;
                match exchange(&mut lease.connection, request.clone()).await {
                    Ok(reply) => {
                        // A proxy without a server to forward to. The next connection checks for one.
                        if reply.status < 500 || !reply.problem().is_empty() {
                            lease.give_back();
                        }
                        return Ok(reply);
                    }
                    // The connection died while it was idle.
                    Err(_) if lease.was_idle => {}
                    Err(why) => return Err(settings.transient(why)),
                }
            }
        };
        settings.in_answer_time(reply).await
    }

    /// Checks that there is a connection, or opens one.
    pub async fn connect(&self, settings: &Settings) -> Result<(), ResourceError> {
        self.lease(settings).await.map(PooledConnection::give_back)
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, &self.address);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        // Also without a body: the server accepts no write that a web page could send.
        if method != "GET" {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request.body(Full::new(body.map(|body| Bytes::from(body.to_string())).unwrap_or_default()))
    }

    async fn lease(&self, settings: &Settings) -> Result<PooledConnection<Connection>, ResourceError> {
        let opening = async {
            let unreachable =
                |error: &dyn std::fmt::Display| settings.transient(format_args!("{}: {error}", self.address));
            let stream = TcpStream::connect(&self.address).await.map_err(|error| unreachable(&error))?;
            stream.set_nodelay(true).map_err(|error| unreachable(&error))?;
            let mut sender = match &self.tls {
                None => start(stream).await,
                Some(tls) => {
                    let stream = tls.connect(&self.address, stream).await.map_err(|error| {
                        let remedy = "check ca_file in [transactions], and the certificate of the server";
                        if is_untrusted(&error) {
                            settings.setup(&error, remedy)
                        } else {
                            unreachable(&error)
                        }
                    })?;
                    start(stream).await
                }
            }
            .map_err(|error| unreachable(&error))?;
            // A proxy accepts connections also without a server to forward to.
            let check = self.request("GET", "/healthz", None).map_err(|error| unreachable(&error))?;
            let reply = exchange(&mut sender, check).await.map_err(|error| unreachable(&error))?;
            if reply.status >= 500 {
                return Err(unreachable(&format_args!("{} for /healthz", reply.status)));
            }
            Ok(sender)
        };
        let opening = settings.in_time(settings.wait_max, opening);
        self.pool.acquire(settings, |connection| !connection.is_closed(), opening).await
    }
}

/// Starts a connection, whose task ends when the sender is dropped.
async fn start<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S) -> hyper::Result<Connection> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn exchange(connection: &mut Connection, request: Request<Full<Bytes>>) -> Result<Reply, String> {
    connection.ready().await.map_err(|error| error.to_string())?;
    let response = connection.send_request(request).await.map_err(|error| error.to_string())?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    Ok(Reply { status, body: serde_json::from_slice(&body).unwrap_or_default() })
}

/// Percent-encodes a segment of a path or query.
pub fn encoded(part: &str) -> String {
    use std::fmt::Write;
    part.bytes().fold(String::with_capacity(part.len()), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _infallible = write!(text, "%{byte:02X}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_host_and_a_port() {
        let settings = Settings::new("j", 1, 0);
        let tls = Tls::trusting(jeton_testbed::Certificate::of("jeton").unwrap().pem).unwrap();
        for url in ["http://127.0.0.1:6381", "http://[::1]:6381/", "http://jeton:80", "https://jeton:6382"] {
            let http =
                Http::new(url, Some("jeton_x"), Some(&tls), &settings).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(http.tls.is_some(), url.starts_with("https"), "{url}");
        }
        for url in [
            "jeton:6381",
            "https://jeton",
            "http://jeton",
            "http://:6381",
            "http://a:b@jeton:1",
            "http://jeton:1/x",
        ] {
            assert!(
                matches!(Http::new(url, None, Some(&tls), &settings), Err(ResourceError::Setup { .. })),
                "{url}"
            );
        }
        let error = Http::new("http://jeton:1", Some("secret\n"), None, &settings).err().unwrap().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(encoded("a/b c?d%é"), "a%2Fb%20c%3Fd%25%C3%A9");
    }
}
