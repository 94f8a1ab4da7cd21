//! A client of HTTP/1.1 with access to the raw bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::uuid;

const READ_TIMEOUT: Duration = Duration::from_secs(20);

pub struct Client {
    stream: BufReader<TcpStream>,
    /// Sent with every request.
    pub token: Option<String>,
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream), token: None }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.try_write(bytes).unwrap();
    }

    pub fn try_write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if let Some(token) = &self.token {
            head += &format!("authorization: Bearer {token}\r\n");
        }
        if !body.is_empty() || method != "GET" {
            head += &format!("content-length: {}\r\n", body.len());
        }
        let mut bytes = (head + "\r\n").into_bytes();
        bytes.extend_from_slice(body);
        self.write(&bytes);
    }

    /// The next line, without its end.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end_matches(['\r', '\n']).to_owned()
    }

    /// The head of a response.
    pub fn head(&mut self) -> Reply {
        let first = self.line();
        assert!(first.starts_with("HTTP/1.1 "), "no response: {first:?}");
        let status = first[9..12].parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        Reply { status, headers, body: Vec::new() }
    }

    /// The next chunk of a chunked body; empty at its end.
    pub fn chunk(&mut self) -> Vec<u8> {
        let length = usize::from_str_radix(&self.line(), 16).unwrap();
        let mut chunk = vec![0; length];
        self.stream.read_exact(&mut chunk).unwrap();
        assert_eq!(self.line(), "");
        chunk
    }

    pub fn receive(&mut self) -> Reply {
        let mut reply = self.head();
        self.read_body(&mut reply);
        reply
    }

    pub fn read_body(&mut self, reply: &mut Reply) {
        if let Some(length) = reply.header("content-length") {
            reply.body = vec![0; length.parse().unwrap()];
            self.stream.read_exact(&mut reply.body).unwrap();
        } else if reply.header("transfer-encoding") == Some("chunked") {
            loop {
                let chunk = self.chunk();
                if chunk.is_empty() {
                    break;
                }
                reply.body.extend_from_slice(&chunk);
            }
        }
    }

    pub fn call(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.send(method, path, headers, body);
        self.receive()
    }

    pub fn get(&mut self, path: &str) -> Reply {
        self.call("GET", path, &[], b"")
    }

    /// Sends a body of this type without further headers.
    pub fn call_with(&mut self, method: &str, path: &str, media_type: &str, body: impl ToString) -> Reply {
        self.call(method, path, &[("content-type", media_type)], body.to_string().as_bytes())
    }

    pub fn post(&mut self, path: &str, body: impl ToString) -> Reply {
        self.call_with("POST", path, "application/json", body)
    }

    pub fn put(&mut self, path: &str, body: impl ToString) -> Reply {
        self.call_with("PUT", path, "application/json", body)
    }

    /// Adds to a counter of the default table under a new id.
    #[track_caller]
    pub fn add(&mut self, row: &str, delta: i64) -> Value {
        let path = format!("/v1/tables/default/counters/{row}:add");
        self.post(&path, json!({"delta": delta, "id": uuid()})).ok()
    }

    /// The counter at a path of this table.
    #[track_caller]
    pub fn value(&mut self, table: &str, row: &str) -> i64 {
        let counter = self.get(&format!("/v1/tables/{table}/counters/{row}")).ok();
        counter["value"].as_i64().unwrap_or_else(|| panic!("not a counter: {counter}"))
    }

    /// Sends operations as a batch, and returns their results.
    #[track_caller]
    pub fn batch(&mut self, operations: impl IntoIterator<Item = Value>) -> Vec<Value> {
        let operations: Vec<Value> = operations.into_iter().collect();
        let mut body = self.post("/v1/batch", json!({"operations": operations})).ok();
        serde_json::from_value(body["results"].take()).unwrap()
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        self.stream.fill_buf().is_ok_and(<[u8]>::is_empty)
    }
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    /// Asserts a success and returns its body.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/json"));
        self.json()
    }

    /// Asserts a problem of this type and returns its body.
    #[track_caller]
    pub fn problem(&self, status: u16, name: &str) -> Value {
        let body = self.json();
        assert_eq!(self.status, status, "{body}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(body["type"], format!("/problems/{name}"), "{body}");
        assert_eq!(body["status"], status);
        assert!(body["title"].as_str().is_some_and(|title| !title.is_empty()), "{body}");
        assert!(body["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{body}");
        body
    }

    /// Asserts a problem of this type whose detail contains this text, and returns its body.
    #[track_caller]
    pub fn problem_with(&self, status: u16, name: &str, text: &str) -> Value {
        let body = self.problem(status, name);
        assert!(body["detail"].as_str().unwrap().contains(text), "{text:?} is not in {body}");
        body
    }
}

/// Asserts that a body has these members, among others.
#[track_caller]
pub fn assert_members(body: &Value, members: Value) {
    for (name, value) in members.as_object().unwrap() {
        assert_eq!(&body[name], value, "{name} in {body}");
    }
}

/// The values of a member of the objects in a list.
pub fn column<'a>(list: &'a Value, name: &str) -> Vec<&'a Value> {
    list.as_array().unwrap().iter().map(|item| &item[name]).collect()
}
