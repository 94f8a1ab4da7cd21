//! The change feed over HTTP.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jeton_auth::Grant;
use serde_json::{Value, json};

use crate::client::{Client, assert_members};
use crate::harness::{TestServer, grant, uuid};

/// The next event, without comments.
pub fn event(client: &mut Client) -> (String, String, Value) {
    loop {
        let chunk = String::from_utf8(client.chunk()).unwrap();
        assert!(!chunk.starts_with(": still here"), "no more events");
        let field = |name: &str| {
            let value = chunk.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.unwrap_or_default().to_owned()
        };
        if !field("event").is_empty() {
            return (field("event"), field("id"), serde_json::from_str(&field("data")).unwrap());
        }
    }
}

pub fn watch(server: &TestServer, query: &str) -> Client {
    let mut watcher = server.client();
    watcher.send("GET", &format!("/v1/watch{query}"), &[], b"");
    let head = watcher.head();
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    // The first line confirms the subscription.
    assert_eq!(watcher.chunk(), b": watching\n\n");
    watcher
}

#[test]
fn changes_are_reported_once_and_in_order() {
    let server = TestServer::new();
    let mut watcher = watch(&server, "");
    let mut client = server.client();
    let mut slots = Vec::new();
    for at in 1..=50 {
        let (id, body) = (uuid(), "/v1/tables/default/counters/c:add");
        let reply = client.post(body, json!({"delta": 2, "id": id})).ok();
        // Retries and refused operations change nothing.
        client.post(body, json!({"delta": 2, "id": id})).ok();
        client.post(body, json!({"delta": 2, "max": 0, "id": uuid()})).ok();
        slots.push((at * 2, format!("{}-{}", reply["partition"], reply["slot"])));
    }
    for (value, id) in slots {
        let (name, seen, data) = event(&mut watcher);
        assert_eq!((name.as_str(), seen), ("change", id));
        assert_members(&data, json!({"table": "default", "row": "c"}));
        assert_members(&data, json!({"value": value, "value_text": value.to_string()}));
    }
}

#[test]
fn the_feed_is_filtered_by_table_and_prefix() {
    let server = TestServer::new();
    server.table("other", &[jeton_core::Format::Uuid7]);
    let mut watcher = watch(&server, "?table=other&prefix=a%2F");
    let mut client = server.client();
    for path in ["default/counters/a%2F1", "other/counters/b", "other/counters/a", "other/counters/a%2F2"] {
        client.post(&format!("/v1/tables/{path}:add"), json!({"delta": 1, "id": uuid()})).ok();
    }
    client.batch([json!({"table": "other", "row": "a/3", "column": "x:y", "delta": 1, "id": uuid()})]);
    let (_, _, data) = event(&mut watcher);
    assert_members(&data, json!({"table": "other", "row": "a/2"}));
    let (_, _, data) = event(&mut watcher);
    assert_members(&data, json!({"row": "a/3", "column": "x:y"}));
    server.client().get("/v1/watch?table=nowhere").problem(404, "unknown-table");
}

#[test]
fn an_idle_stream_ends_with_its_token() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let expires = Some(now + 4000);
    let server = TestServer::with_tokens([Grant { expires, ..grant("short", "*", "read") }]);
    let mut watcher = server.client_as("short");
    watcher.send("GET", "/v1/watch", &[], b"");
    assert_eq!(watcher.head().status, 200);
    assert_eq!(watcher.chunk(), b": watching\n\n");
    let start = Instant::now();
    assert_eq!(watcher.chunk(), b"");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn a_slow_subscriber_gets_the_number_of_missed_changes() {
    let server = TestServer::new();
    let mut watcher = watch(&server, "");
    // The subscriber does not read, and the long rows fill all buffers.
    let mut client = server.client();
    let mut made = 0;
    for _ in 0..12 {
        let row = "x".repeat(1000);
        let item = |at: usize| json!({"table": "default", "row": format!("{row}{}", at % 100), "delta": 1, "id": uuid()});
        let results = client.batch((0..5000).map(item));
        // The store may reject some operations of such a large batch.
        made += results.iter().filter(|result| result["applied"] == true).count() as u64;
    }
    let (mut seen, mut missed) = (0, 0);
    while seen + missed < made {
        match event(&mut watcher) {
            (name, _, data) if name == "lagged" => missed += data["missed"].as_u64().unwrap(),
            _ => seen += 1,
        }
    }
    assert!(missed > 0);
    assert_eq!(seen + missed, made);
}
