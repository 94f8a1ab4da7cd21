//! HTTP requests of the tests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::program::TIMEOUT;

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// The kind of problem.
    pub fn problem(&self) -> String {
        let kind = self.json()["type"].as_str().unwrap_or_default().to_owned();
        kind.trim_start_matches("/problems/").to_owned()
    }
}

/// Sends a request. `None` without a complete response.
pub fn ask(address: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    let mut request = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    if method == "POST" {
        request += &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    }
    request += &format!("\r\n{body}");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some(Answer { status: head.get(9..12)?.parse().ok()?, body: body.to_owned() })
}

/// Requests a transaction.
pub fn post(address: &str, procedure: &str, id: &str, headers: &[(&str, &str)], parameters: &str) -> Answer {
    let key = format!("\"{id}\"");
    let mut all = vec![("idempotency-key", key.as_str())];
    all.extend(headers);
    ask(address, "POST", &format!("/v1/transactions/{procedure}"), &all, parameters).expect("an answer")
}

/// A unique UUIDv7 with this age in seconds.
pub fn id(age_seconds: i64) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    let millis = (now - age_seconds * 1000).cast_unsigned();
    let tail = NEXT.fetch_add(1, Ordering::Relaxed) << 20 | u64::from(std::process::id()) & 0xf_ffff;
    jeton_core::OpId::uuid7_from(millis, tail.into()).to_string()
}
