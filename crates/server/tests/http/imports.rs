//! Imports.

use std::time::{Duration, Instant};

use jeton_core::Format;
use serde_json::{Value, json};

use crate::client::{Client, Reply, assert_members};
use crate::harness::{TestServer, uuid};

const PATH: &str = "/v1/tables/default/import";

/// The head of an import whose chunks follow.
const CHUNKED_HEAD: &str = "POST /v1/tables/default/import HTTP/1.1\r\nhost: localhost\r\n\
    content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";

fn import(client: &mut Client, body: &str) -> Reply {
    client.call_with("POST", PATH, "application/x-ndjson", body)
}

/// Additions of one, a line each.
fn lines(rows: impl Iterator<Item = String>) -> String {
    rows.map(|row| json!({"row": row, "delta": 1, "id": uuid()}).to_string() + "\n").collect()
}

/// The last line of the response.
fn last(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    let lines: Vec<Value> = reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines[..lines.len() - 1].iter().all(|line| line["done"] == false), "{}", reply.text());
    lines.last().unwrap().clone()
}

#[test]
fn a_repeated_import_counts_once() {
    let (_server, mut client) = TestServer::with_client();
    let file = lines((0..12_345).map(|at| format!("r{}", at % 10)));
    let first = last(&import(&mut client, &file));
    assert_members(&first, json!({"lines": 12_345, "applied": 12_345, "replayed": 0}));
    assert_members(&first, json!({"failed": 0, "done": true, "errors": []}));
    let again = last(&import(&mut client, &file));
    assert_members(&again, json!({"applied": 0, "replayed": 12_345, "done": true}));
    assert_eq!(client.value("default", "r3"), 1235);
}

#[test]
fn errors_have_the_number_of_their_line() {
    let (_server, mut client) = TestServer::with_client();
    let (good, bound) = (uuid(), uuid());
    let file = format!(
        "{{\"row\":\"a\",\"delta\":1,\"id\":\"{good}\"}}\n\n  \nnonsense\n{{\"row\":\"a\",\"delta\":1}}\r\n\
         {{\"row\":\"a\",\"delta\":2,\"id\":\"{good}\"}}\n{{\"row\":\"a\",\"delta\":5,\"max\":3,\"id\":\"{bound}\"}}\n\
         {{\"table\":\"other\",\"row\":\"a\",\"delta\":1,\"id\":\"x\"}}\n{{\"row\":\"a\",\"op\":\"set\",\"value\":9,\"id\":\"{}\"}}",
        uuid()
    );
    let end = last(&import(&mut client, &file));
    assert_members(&end, json!({"lines": 7, "applied": 2, "refused": 1, "failed": 4}));
    let mut errors: Vec<_> = end["errors"].as_array().unwrap().iter().collect();
    errors.sort_by_key(|error| error["line"].as_u64());
    let expected = [(4, "bad-json"), (5, "id-required"), (6, "id-mismatch"), (8, "bad-json")];
    assert_eq!(errors.len(), expected.len());
    for (error, (line, name)) in errors.into_iter().zip(expected) {
        assert_members(error, json!({"line": line, "type": format!("/problems/{name}")}));
    }
    // The last line counts without a line end.
    assert_eq!(client.value("default", "a"), 9);

    let many = last(&import(&mut client, &"{}\n".repeat(250)));
    assert_eq!((&many["failed"], many["errors"].as_array().unwrap().len()), (&json!(250), 100));
}

#[test]
fn progress_is_reported_while_lines_arrive() {
    let (server, mut client) = TestServer::with_client();
    client.write(CHUNKED_HEAD.as_bytes());
    let send = |client: &mut Client, text: &str| {
        client.write(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
    };
    // A line in two chunks; the body does not end.
    let line = json!({"row": "a", "delta": 3, "id": uuid()}).to_string() + "\n";
    send(&mut client, &line[..10]);
    send(&mut client, &line[10..]);
    assert_eq!(client.head().status, 200);
    // Progress is reported although nothing more is sent, and the line is counted.
    let progress: Value = serde_json::from_slice(&client.chunk()).unwrap();
    assert_members(&progress, json!({"lines": 1, "applied": 1, "done": false}));
    assert_eq!(server.client().value("default", "a"), 3);
    client.write(b"0\r\n\r\n");
    let mut end = client.chunk();
    while serde_json::from_slice::<Value>(&end).unwrap()["done"] == false {
        end = client.chunk();
    }
    assert!(client.chunk().is_empty());
}

#[test]
fn single_bytes_do_not_keep_an_import_open() {
    let timeout = Duration::from_millis(300);
    let server = TestServer::with_options(|options| options.request_read_timeout = timeout);
    // Empty lines are not progress.
    for byte in ["x", "\n"] {
        let mut client = server.client();
        client.write(CHUNKED_HEAD.as_bytes());
        let (begun, chunk) = (Instant::now(), format!("1\r\n{byte}\r\n"));
        while client.try_write(chunk.as_bytes()).is_ok() {
            assert!(begun.elapsed() < 30 * timeout, "still open");
            std::thread::sleep(timeout / 10);
        }
    }
}

#[test]
fn an_import_is_charged_for_its_memory() {
    let server = TestServer::with_options(|options| options.client_memory_max = 16 << 20);
    let memory = &server.service.client_memory;
    let mut client = server.client();
    client.write(CHUNKED_HEAD.as_bytes());
    client.write(format!("80000\r\n{}\r\n", "x".repeat(512 << 10)).as_bytes());
    assert_eq!(client.head().status, 200);
    let begun = Instant::now();
    while memory.charged() < 512 << 10 {
        assert!(begun.elapsed() < Duration::from_secs(15), "not charged: {memory:?}");
        std::thread::yield_now();
    }
    let _closed = client.try_write(format!("400000\r\n{}\r\n", "x".repeat(4 << 20)).as_bytes());
    let mut end = client.chunk();
    while !String::from_utf8_lossy(&end).contains("stopped") {
        end = client.chunk();
    }
    let end: Value = serde_json::from_slice(&end).unwrap();
    assert_eq!(end["stopped"]["type"], "/problems/too-large");
    let detail = end["stopped"]["detail"].as_str().unwrap();
    assert!(detail.starts_with("this connection needs "), "{detail}");
    assert_eq!(memory.closed(), 1);
}

#[test]
fn an_import_that_stops_has_the_reason() {
    let server = TestServer::with_options(|options| options.request_bytes_max = 1000);
    server.table("numbered", &[Format::Sequenced]);
    let mut client = server.client();
    // The size limit applies to a line, not to the body.
    let file = lines((0..100).map(|_| "a".to_owned()));
    assert!(file.len() > 5000);
    assert_eq!(last(&import(&mut client, &file))["applied"], 100);
    let end = last(&import(&mut server.client(), &format!("{file}{}", "x".repeat(2000))));
    assert_eq!(end["done"], false);
    let detail = "line 101 is longer than the maximum size of a request";
    assert_members(&end["stopped"], json!({"type": "/problems/too-large", "detail": detail}));
    // The lines before it were applied.
    assert_eq!(end["replayed"], 100);
    client.post(PATH, "{}").problem(415, "media-type");
    let reply = client.call_with("POST", "/v1/tables/nowhere/import", "application/x-ndjson", "{}");
    reply.problem(404, "unknown-table");
}
