//! An HTTP/1.1 client with pooled connections, timeouts and a limit on response bodies.
//!
//! It does not retry on its own, except on a pooled connection that closed before it took the request.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
pub use hyper::{Method, Request, Response, StatusCode, Uri, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

#[cfg(feature = "tls")]
type Connector = hyper_rustls::HttpsConnector<HttpConnector>;
#[cfg(not(feature = "tls"))]
type Connector = HttpConnector;

/// Options of an HTTP client.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// How long to wait for a whole response; without it, as long as the caller waits.
    pub timeout: Option<Duration>,
    /// Longest response body, in bytes.
    pub response_bytes_max: usize,
    /// Trusted certificates. Without them `https` requests fail to connect.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::Tls>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            timeout: None,
            response_bytes_max: 16 << 20,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

/// Why a request got no response. The texts contain neither headers nor bodies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// No connection could be opened. The request was not sent.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The certificate of the server is not trusted. The request was not sent.
    #[error("the certificate is not trusted: {0}")]
    Untrusted(String),
    /// The connection ended before the whole response arrived. The request may have been sent.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// The response did not arrive in time. The request may have been sent.
    #[error("no response in time")]
    TimedOut,
    /// The response body is longer than [`HttpOptions::response_bytes_max`]. The request was sent.
    #[error("the response is too long")]
    TooLong,
}

impl HttpError {
    /// Whether the request may have reached the server.
    pub fn may_have_been_sent(&self) -> bool {
        !matches!(self, Self::Connect(_) | Self::Untrusted(_))
    }
}

/// An HTTP client. Clones share its connections.
#[derive(Debug, Clone)]
pub struct HttpClient {
    client: Client<Connector, Full<Bytes>>,
    timeout: Option<Duration>,
    response_bytes_max: usize,
}

impl HttpClient {
    /// Creates a client. It connects at its first use, and then needs a tokio runtime with I/O and time.
    pub fn new(options: HttpOptions) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(options.connect_timeout));
        connector.set_nodelay(true);
        #[cfg(feature = "tls")]
        let connector = crate::tls::https_connector(connector, options.tls.as_ref());
        let client = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Self { client, timeout: options.timeout, response_bytes_max: options.response_bytes_max }
    }

    /// Sends a request, and reads the whole response.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let exchange = async {
            let (head, body) = self.open(request).await?.into_parts();
            let body = Limited::new(body, self.response_bytes_max).collect().await;
            let body = body.map_err(|error| match error.is::<LengthLimitError>() {
                true => HttpError::TooLong,
                false => HttpError::Lost(with_sources(&*error)),
            })?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        match self.timeout {
            Some(timeout) => {
                tokio::time::timeout(timeout, exchange).await.unwrap_or(Err(HttpError::TimedOut))
            }
            None => exchange.await,
        }
    }

    /// Sends a request, and returns as soon as the head of the response is there. Neither the timeout nor the
    /// limit on the body applies.
    pub async fn open(&self, request: Request<Bytes>) -> Result<Response<Incoming>, HttpError> {
        self.client.request(request.map(Full::new)).await.map_err(|error| {
            #[cfg(feature = "tls")]
            if crate::tls::is_untrusted(&error) {
                return HttpError::Untrusted(with_sources(&error));
            }
            match error.is_connect() {
                true => HttpError::Connect(with_sources(&error)),
                false => HttpError::Lost(with_sources(&error)),
            }
        })
    }
}

/// The text of an error and of its sources; the error of the operating system comes last.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text += &format!(": {error}");
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Serves one connection with this response, and keeps it open.
    async fn server(response: &'static str) -> Request<Bytes> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _count = stream.read(&mut [0; 4096]).await.unwrap();
            stream.write_all(response.as_bytes()).await.unwrap();
            let _closed = stream.read(&mut [0; 1]).await;
        });
        Request::get(uri).body(Bytes::new()).unwrap()
    }

    fn client() -> HttpClient {
        HttpClient::new(HttpOptions { response_bytes_max: 4, ..HttpOptions::default() })
    }

    #[tokio::test]
    async fn a_response_within_the_limit_is_read() {
        let request = server("HTTP/1.1 404 X\r\ncontent-length: 4\r\n\r\nabcd").await;
        let response = client().send(request).await.unwrap();
        assert_eq!((response.status(), &response.body()[..]), (StatusCode::NOT_FOUND, &b"abcd"[..]));
        let request = server("HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabcde\r\n").await;
        assert_eq!(client().send(request).await.unwrap_err(), HttpError::TooLong);
    }

    #[tokio::test]
    async fn errors_say_whether_the_request_was_sent() {
        let mut quick = client();
        quick.timeout = Some(Duration::from_millis(50));
        assert_eq!(quick.send(server("").await).await.unwrap_err(), HttpError::TimedOut);
        let lost = client().send(server("not http\r\n\r\n").await).await.unwrap_err();
        assert!(matches!(lost, HttpError::Lost(_)) && lost.may_have_been_sent(), "{lost}");
        let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let request = Request::get(format!("http://{unused}/")).body(Bytes::new()).unwrap();
        let refused = client().send(request).await.unwrap_err();
        assert!(matches!(refused, HttpError::Connect(_)) && !refused.may_have_been_sent(), "{refused}");
    }
}
