//! A small HTTP client.

use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// Timeout of a response.
const TIMEOUT: Duration = Duration::from_secs(4);

static CLIENT: LazyLock<Client<HttpConnector, Full<Bytes>>> = LazyLock::new(|| {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(Duration::from_millis(500)));
    Client::builder(TokioExecutor::new()).build(connector)
});

/// Sends a GET; returns status and body.
pub async fn get(url: &str) -> Result<(u16, Bytes)> {
    send(Method::GET, url, &[], Bytes::new()).await
}

/// Sends a PUT with a body.
pub async fn put(url: &str, body: &str) -> Result<(u16, Bytes)> {
    send(Method::PUT, url, &[], body.to_owned().into()).await
}

/// Sends a POST with headers and a body; returns status and body.
pub async fn post(url: &str, headers: &[(&str, String)], body: String) -> Result<(u16, Bytes)> {
    send(Method::POST, url, headers, body.into()).await
}

async fn send(method: Method, url: &str, headers: &[(&str, String)], body: Bytes) -> Result<(u16, Bytes)> {
    let mut request = Request::builder().method(method).uri(url);
    request = request.header(header::CONTENT_TYPE, "application/json");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let response = async {
        let response = CLIENT.request(request.body(Full::new(body))?).await?;
        let status = response.status().as_u16();
        anyhow::Ok((status, response.into_body().collect().await?.to_bytes()))
    };
    tokio::time::timeout(TIMEOUT, response).await.context("no response in time")?
}
