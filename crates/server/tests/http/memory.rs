//! What HTTP clients are charged for: replies until they are sent, incomplete heads, batches, values.

use std::time::{Duration, Instant};

use jeton_server::Metric;
use serde_json::json;

use crate::client::Client;
use crate::harness::{TestServer, uuid};

const ROWS: usize = 60;

/// A server with this limit, and rows whose values are 12 times as long in JSON.
fn server(client_memory_max: usize) -> TestServer {
    let server = TestServer::with_options(|options| options.client_memory_max = client_memory_max);
    let mut client = server.client();
    let value = "\u{1}".repeat(60_000);
    for row in 0..ROWS {
        let path = format!("/v1/tables/default/counters/big{row:02}:put");
        client.post(&path, json!({"text": value, "id": uuid()})).ok();
    }
    server
}

/// The path of the first rows.
fn rows(number: usize) -> String {
    let rows: Vec<String> = (0..number).map(|row| format!("row=big{row:02}")).collect();
    format!("/v1/tables/default/counters?{}", rows.join("&"))
}

fn send(server: &TestServer, path: &str) -> Client {
    let mut client = server.client();
    client.send("GET", path, &[], b"");
    client
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_unread_reply_is_charged_until_it_is_sent() {
    let server = server(256 << 20);
    let memory = &server.service.client_memory;
    let mut client = send(&server, &rows(ROWS));
    let bytes = 60_000 * 7 * ROWS as u64;
    wait_until("the reply is charged", || memory.charged() > bytes);
    let counters = client.receive().ok();
    assert_eq!(counters["counters"].as_array().unwrap().len(), ROWS);
    wait_until("the reply is not charged any more", || memory.charged() == 0);
    assert_eq!(memory.closed(), 0);
}

#[test]
fn unread_replies_close_the_largest_connection() {
    let server = server(128 << 20);
    let clients: Vec<Client> = (0..6).map(|_| send(&server, &rows(ROWS))).collect();
    let (memory, metrics) = (&server.service.client_memory, &server.service.metrics);
    wait_until("one is closed", || memory.closed() > 0 && metrics.get(Metric::HttpOpen) < 6);
    wait_until("what is left is within the budget", || memory.charged() <= 128 << 20);
    send(&server, "/healthz").receive().ok();
    drop(clients);
    wait_until("nothing is charged", || memory.charged() == 0);
}

#[test]
fn values_beyond_a_share_of_the_memory_are_rejected() {
    let server = server(64 << 20);
    let limit = (64 << 20) / 4 / 8;
    let problem = send(&server, &rows(ROWS)).receive().problem(413, "too-large");
    assert_eq!(problem["limit"], limit);
    let list = "/v1/tables/default/counters?prefix=big&limit=";
    send(&server, &format!("{list}50")).receive().problem_with(413, "too-large", "read fewer");
    let page = send(&server, &format!("{list}30")).receive().ok();
    assert_eq!(page["counters"].as_array().unwrap().len(), 30);
}

#[test]
fn incomplete_heads_are_charged() {
    let server = TestServer::with_options(|options| options.client_memory_max = 64 << 20);
    let mut clients: Vec<Client> = (0..10).map(|_| server.client()).collect();
    for client in &mut clients {
        client.write(format!("GET /healthz HTTP/1.1\r\nx: {}", "y".repeat(60_000)).as_bytes());
    }
    let memory = &server.service.client_memory;
    wait_until("the heads are charged", || memory.charged() >= 10 * 40_000);
    for client in &mut clients {
        client.write(b"\r\nhost: localhost\r\n\r\n");
        client.receive().ok();
    }
    drop(clients);
    wait_until("the heads are not charged any more", || memory.charged() == 0);
}

#[test]
fn a_batch_is_charged_for_one_part_of_it() {
    let server = TestServer::with_options(|options| options.client_memory_max = 12 << 20);
    let item = |at: usize| json!({"table": "default", "row": format!("r{at}"), "delta": 1, "id": uuid()});
    let batch = |number| json!({"operations": (0..number).map(item).collect::<Vec<_>>()});
    let mut client = server.client();
    client.post("/v1/batch", batch(10_000)).problem(413, "too-large");
    let mut client = server.client();
    assert_eq!(client.value("default", "r0"), 0);
    assert_eq!(client.post("/v1/batch", batch(5_000)).ok()["results"].as_array().unwrap().len(), 5_000);
    assert_eq!(client.value("default", "r4999"), 1);
    wait_until("nothing is charged", || server.service.client_memory.charged() == 0);
}

/// The maximum of the memory of this process so far.
fn most_resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn lists_of_small_items_cost_little_memory() {
    let server = TestServer::new();
    let before = most_resident_bytes();
    for (method, path, member, item, status, problem) in [
        ("POST", "/v1/batch", "operations", "1", 413, "too-large"),
        ("POST", "/v1/tables/default/operations", "changes", "{}", 400, "bad-operation"),
        ("PUT", "/v1/branches/b", "operations", "{}", 400, "bad-operation"),
        ("PUT", "/v1/tables/t", "formats", "\"\"", 413, "too-large"),
        ("POST", "/v1/transactions/t", "a", "{\"a\":1}", 413, "too-large"),
    ] {
        let items = vec![item; (7 << 20) / (item.len() + 1)].join(",");
        let body = format!("{{\"{member}\":[{items}]}}");
        let headers =
            [("content-type", "application/json"), ("idempotency-key", &*format!("\"{}\"", uuid()))];
        let headers = if path == "/v1/transactions/t" { &headers[..] } else { &headers[..1] };
        server.client().call(method, path, headers, body.as_bytes()).problem(status, problem);
    }
    let grown = most_resident_bytes().saturating_sub(before);
    // A list of changes would need 700 MiB.
    assert!(grown < 300 << 20, "{} MiB more", grown >> 20);
}

#[test]
fn details_of_problems_are_limited() {
    let server = TestServer::new();
    for (path, body) in [
        ("/v1/tables/default/operations", format!("{{\"{}\":1}}", "ä".repeat(1 << 20))),
        ("/v1/batch", format!("{{\"operations\":[{{\"table\":\"{}\"}}]}}", "\u{7f}".repeat(1 << 20))),
    ] {
        let reply = server.client().post(path, body);
        assert!(reply.text().len() < 4_000, "{} bytes", reply.text().len());
        assert!(reply.text().contains("…"), "{}", reply.text());
    }
}

#[test]
fn exceeded_limits_are_counted() {
    let server = TestServer::with_options(|options| options.request_bytes_max = 1000);
    let metrics = &server.service.metrics;
    server.client().post("/v1/batch", "x".repeat(2000)).problem(413, "too-large");
    let mut client = server.client();
    client.write(
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(66_000)).as_bytes(),
    );
    client.receive().problem(431, "head-too-large");
    let counts = [Metric::RequestBytesHit, Metric::HeadBytesHit].map(|limit| metrics.get(limit));
    assert_eq!(counts, [1, 1]);
    let text = server.client().get("/metrics");
    assert!(text.text().contains("jeton_limit_hits_total{limit=\"head_bytes\"} 1\n"), "{}", text.text());
}
