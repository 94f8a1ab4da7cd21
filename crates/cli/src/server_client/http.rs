//! Blocking HTTP requests through the product's HTTP client.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::BodyExt;
use jeton_client::http::{HttpClient, HttpError, HttpOptions, Request, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::runtime::Builder;

use super::ServerArgs;
use super::error_text::{http_error_of, lost, problem_of};
use super::resp::build;
use crate::cli_error::CliError;

/// Longest response body.
const BODY_BYTES_MAX: usize = 64 << 20;

/// A client of one server.
pub struct Http<'a>(pub &'a ServerArgs);

impl Http<'_> {
    /// Sends a request and returns the status and the body of the response.
    pub fn ask(&self, method: &str, path: &str, body: Option<&str>) -> Result<(u16, String)> {
        self.ask_within(method, path, body, self.0.timeout())
    }

    /// Like `ask`, with another time limit.
    pub fn ask_within(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
        timeout: Duration,
    ) -> Result<(u16, String)> {
        self.ask_with(method, path, &[], body, timeout)
    }

    /// Like `ask_within`, with headers.
    pub fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
        timeout: Duration,
    ) -> Result<(u16, String)> {
        let (client, request) = (self.client(Some(timeout))?, self.request(method, path, headers, body)?);
        let response = build(Builder::new_current_thread())?
            .block_on(client.send(request))
            .map_err(|error| self.error(&error))?;
        Ok((response.status().as_u16(), String::from_utf8_lossy(response.body()).into_owned()))
    }

    /// Passes each line of an endless response to `take`, until that returns false. Fails after a time
    /// without data.
    pub fn listen(
        &self,
        path: &str,
        read_timeout: Duration,
        mut take: impl FnMut(&str) -> Result<bool>,
    ) -> Result<()> {
        let (client, request) = (self.client(None)?, self.request("GET", path, &[], None)?);
        let timeout = || lost("timeout");
        build(Builder::new_current_thread())?.block_on(async {
            let response = tokio::time::timeout(read_timeout, client.open(request)).await;
            let response = response.map_err(|_| timeout())?.map_err(|error| self.error(&error))?;
            let status = response.status().as_u16();
            let (mut body, mut input) = (response.into_body(), Vec::new());
            while let Some(frame) =
                tokio::time::timeout(read_timeout, body.frame()).await.map_err(|_| timeout())?
            {
                let frame = frame.map_err(|error| lost(error.to_string()))?;
                input.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
                while let Some(end) = input.iter().position(|byte| *byte == b'\n')
                    && status == 200
                {
                    let line: Vec<u8> = input.drain(..=end).collect();
                    if !take(String::from_utf8_lossy(&line).trim_end())? {
                        return Ok(());
                    }
                }
                if input.len() > BODY_BYTES_MAX {
                    return Err(lost("a line is too long"));
                }
            }
            match status {
                200 => Ok(()),
                _ => Err(problem_of(status, &String::from_utf8_lossy(&input))),
            }
        })
    }

    fn client(&self, timeout: Option<Duration>) -> Result<HttpClient> {
        let (connect_timeout, tls) = (self.0.timeout(), self.0.tls()?);
        let response_bytes_max = BODY_BYTES_MAX;
        Ok(HttpClient::new(HttpOptions { connect_timeout, timeout, response_bytes_max, tls }))
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Result<Request<Bytes>> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.0.url()));
        if let Some(token) = self.0.token()? {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        // Also without a body: the server accepts no write that a web page could send.
        if method != "GET" {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        request.body(body.unwrap_or_default().to_owned().into()).map_err(|error| {
            let fix = "check the token and the address of --http";
            CliError::of(error, "the request cannot be sent", fix)
        })
    }

    fn error(&self, error: &HttpError) -> anyhow::Error {
        http_error_of(error, &self.0.http())
    }
}

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes a path segment.
pub fn escaped(segment: &str) -> String {
    utf8_percent_encode(segment, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn path_segments_are_percent_encoded() {
        assert_eq!(super::escaped("a/b c?%"), "a%2Fb%20c%3F%25");
    }
}
