//! Connections: timeouts, limits and shutdown.

use std::time::{Duration, Instant};

use jeton_server::Metric;
use serde_json::json;

use crate::client::Client;
use crate::harness::{TestServer, uuid};
use crate::watch::watch;

const TIMEOUT: Duration = Duration::from_millis(300);
const ADD: &str = "/v1/tables/default/counters/c:add";

#[test]
fn incomplete_heads_and_bodies_time_out() {
    let server =
        TestServer::with_options(|options| options.request_read_timeout = Duration::from_millis(200));
    let mut clients = [server.client(), server.client()];
    clients[1].write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n");
    for client in &mut clients {
        // Hyper may send a response before it closes the connection. A read has a timeout.
        while !client.is_closed() {
            client.line();
        }
    }
    // An incomplete body gets a response.
    let mut half = server.client();
    half.write(&[head("content-length: 100"), b"{".to_vec()].concat());
    half.receive().problem_with(400, "bad-request", "no part of the body arrived");
}

/// The head of an addition with these header lines.
fn head(lines: &str) -> Vec<u8> {
    format!("POST {ADD} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{lines}\r\n\r\n")
        .into_bytes()
}

/// Waits until no connection is open.
fn all_ended(server: &TestServer) {
    let begun = Instant::now();
    while server.service.metrics.get(Metric::HttpOpen) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(15), "a client that does not read is not closed");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_client_that_does_not_read_a_response_is_closed() {
    let server = TestServer::with_options(|options| options.request_read_timeout = TIMEOUT);
    // A response that is larger than all buffers.
    let rows = "&row=large".repeat(499);
    let mut client = server.client();
    let path = "/v1/tables/default/counters/large:put";
    client.post(path, json!({"text": "x".repeat(60_000), "id": uuid()})).ok();
    client.send("GET", &format!("/v1/tables/default/counters?row=large{rows}"), &[], b"");
    all_ended(&server);
    assert_eq!(client.head().status, 200, "the response was started");
}

#[test]
fn a_client_that_does_not_read_a_stream_is_closed() {
    let server = TestServer::with_options(|options| options.request_read_timeout = TIMEOUT);
    let _watcher = watch(&server, "");
    // An idle stream has no timeout.
    std::thread::sleep(2 * TIMEOUT);
    assert!(server.service.changes.has_subscribers());
    let row = "x".repeat(1000);
    let begun = Instant::now();
    while server.service.changes.has_subscribers() {
        assert!(begun.elapsed() < Duration::from_secs(15), "a stream that is not read is not closed");
        let item =
            |at: usize| json!({"table": "default", "row": format!("{row}{at}"), "delta": 1, "id": uuid()});
        server.client().batch((0..1000).map(item));
    }
    all_ended(&server);
}

#[test]
fn an_oversized_body_is_rejected() {
    let server = TestServer::with_options(|options| options.request_bytes_max = 1000);
    // By its content length.
    let mut client = server.client();
    client.write(&head("content-length: 1001"));
    assert_eq!(client.receive().problem(413, "too-large")["limit"], 1000);
    // By the bytes received.
    let mut client = server.client();
    client.write(&head("transfer-encoding: chunked"));
    client.write(format!("3e9\r\n{}\r\n", " ".repeat(1001)).as_bytes());
    client.receive().problem(413, "too-large");
    // A body of the maximum size is accepted.
    let body = json!({"delta": 1, "id": uuid()}).to_string();
    let padded = format!("{body}{}", " ".repeat(1000 - body.len()));
    server.client().post(ADD, padded).ok();
}

#[test]
fn an_error_arrives_while_the_client_still_sends() {
    let server = TestServer::with_options(|options| options.request_bytes_max = 1000);
    for (line, status) in [("", 413), ("content-encoding: gzip\r\n", 415)] {
        let mut client = server.client();
        client.write(&head(&format!("{line}content-length: {}", 20 << 20)));
        for _ in 0..20 {
            client.write(&vec![b' '; 1 << 20]);
        }
        assert_eq!(client.receive().status, status);
        // The rest of the body was read, so the connection is still in use.
        client.get("/healthz").ok();
    }
}

#[test]
fn bodies_are_charged_for_their_memory() {
    let server = TestServer::with_options(|options| options.client_memory_max = 16 << 20);
    let memory = &server.service.client_memory;
    // More than a connection may hold.
    let detail = "this connection needs ";
    server.client().post(ADD, " ".repeat(4 << 20)).problem_with(413, "too-large", detail);
    // Incomplete bodies that are too much together.
    let mut clients: Vec<_> = (0..12).map(|_| server.client()).collect();
    for client in &mut clients {
        client.write(&head("content-length: 1900000"));
        let _may_be_closed = client.try_write(&[b' '; 1_800_000]);
    }
    let begun = Instant::now();
    while memory.closed() < 3 || memory.charged() > 16 << 20 {
        assert!(begun.elapsed() < Duration::from_secs(15), "not closed: {memory:?}");
        std::thread::yield_now();
    }
    server.client().add("c", 1);
    drop(clients);
    while memory.charged() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(15), "still charged: {memory:?}");
        std::thread::yield_now();
    }
}

#[test]
fn a_body_that_does_not_end_is_dropped() {
    let server = TestServer::with_options(|options| options.request_bytes_max = 1000);
    let mut client = server.client();
    client.write(&head("content-length: 100000000"));
    client.receive().problem(413, "too-large");
    all_ended(&server);
}

#[test]
fn an_oversized_head_is_rejected_at_the_limit() {
    let (_server, mut client) = TestServer::with_client();
    let get = |client: &mut Client, length: usize| {
        let head = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ";
        client.write(format!("{head}{}\r\n\r\n", "x".repeat(length - head.len() - 4)).as_bytes());
        client.receive()
    };
    get(&mut client, 64 << 10).ok();
    let problem = get(&mut client, (64 << 10) + 1).problem(431, "head-too-large");
    assert_eq!(problem["limit"], 64 << 10);
    assert_eq!(get(&mut client, 100_000).status, 431);
}

#[test]
fn an_encoded_body_is_rejected() {
    let (_server, mut client) = TestServer::with_client();
    let body = json!({"delta": 1, "id": uuid()}).to_string();
    let mut add = |coding: &str| {
        let headers = [("content-type", "application/json"), ("content-encoding", coding)];
        client.call("POST", ADD, &headers, body.as_bytes())
    };
    for coding in ["gzip", "identity, gzip", "br"] {
        add(coding).problem_with(415, "media-type", "Content-Encoding");
    }
    add("identity").ok();
}

#[test]
fn connections_above_the_limit_are_rejected() {
    let server = TestServer::with_options(|options| options.connections_max = 3);
    let mut clients: Vec<_> = (0..3).map(|_| server.client()).collect();
    for client in &mut clients {
        client.get("/healthz").ok();
    }
    let mut fourth = server.client();
    let reply = fourth.receive();
    reply.problem(503, "busy");
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert!(fourth.is_closed());
    assert_eq!(server.service.metrics.get(Metric::TurnedAway), 1);
    assert_eq!(server.service.metrics.get(Metric::HttpOpen), 3);
    // A closed connection makes room for another.
    drop(clients.pop());
    let begun = Instant::now();
    while server.service.metrics.get(Metric::HttpOpen) > 2 {
        assert!(begun.elapsed() < Duration::from_secs(15));
        std::thread::yield_now();
    }
    server.client().get("/healthz").ok();
}

#[test]
fn shutdown_completes_the_requests_in_flight() {
    let mut server = TestServer::new();
    let mut watcher = watch(&server, "");
    let mut idle = server.client();
    idle.get("/healthz").ok();
    // A request that is half sent when the shutdown starts.
    let mut client = server.client();
    let body = json!({"delta": 4, "id": uuid()}).to_string();
    client.write(&head(&format!("expect: 100-continue\r\ncontent-length: {}", body.len())));
    // The server has read the head and waits for the body.
    assert_eq!(client.line(), "HTTP/1.1 100 Continue");
    assert_eq!(client.line(), "");
    server.begin_stop();
    // Idle connections and streams end at once.
    assert!(idle.is_closed());
    assert!(watcher.chunk().is_empty());
    client.write(body.as_bytes());
    assert_eq!(client.receive().ok()["value"], 4);
    assert!(client.is_closed());
    server.stop();
    assert_eq!(server.service.metrics.get(Metric::HttpOpen), 0);
}
