//! HTTP requests with short timeouts.

use std::sync::LazyLock;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use jeton_client::http::{HttpClient, HttpOptions, Method, Request, header};

static CLIENT: LazyLock<HttpClient> = LazyLock::new(|| {
    let (connect_timeout, timeout) = (Duration::from_millis(500), Some(Duration::from_secs(4)));
    HttpClient::new(HttpOptions { connect_timeout, timeout, ..HttpOptions::default() })
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
    let response = CLIENT.send(request.body(body)?).await?;
    Ok((response.status().as_u16(), response.into_body()))
}
