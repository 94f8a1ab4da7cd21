//! Runs every input of the corpus of the fuzzer.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod fuzzed;
#[path = "../../../testing/fuzz/replay.rs"]
mod replay;

use fuzzed::{Checked, FuzzServer, KEYED, ROUTES};

/// An input: a route and a body.
fn to(path: &str, media_type: &str, body: &str) -> Vec<u8> {
    let at = ROUTES.iter().position(|(_, one, media)| *one == path && media.contains(media_type)).unwrap();
    [&[at as u8], body.as_bytes()].concat()
}

/// An input with the id in the header.
fn keyed(path: &str, key: &str, body: &str) -> Vec<u8> {
    let mut input = to(path, "json", &format!("{key}\n{body}"));
    input[0] |= KEYED;
    input
}

fn bodies() -> replay::Seeds {
    let counter = |verb: &str, body: &str| to(&format!("/v1/tables/every/counters/a:{verb}"), "json", body);
    let event = r#"{"specversion":"1.0","type":"click","source":"/pages","id":"A1","time":"2026-11-16T07:40:12.5Z","subject":"page-7","data":{"delta":2}}"#;
    let events = "/v1/tables/every/events";
    vec![
        ("add", counter("add", r#"{"delta":1,"id":"uuid7:01890a5d-ac96-774b-bcce-b302099a8057"}"#)),
        (
            "add-within",
            counter(
                "add",
                r#"{"delta":"-1","min":0,"max":9,"column":"f:q","id":"ulid:01H455VB4PEX5VSKNK084SN02Q"}"#,
            ),
        ),
        ("add-event", counter("add", r#"{"delta":1,"id":"event:1763278812000/source/id"}"#)),
        (
            "add-keyed",
            keyed("/v1/tables/every/counters/a:add", r#""opaque:an id""#, r#"{"delta":9223372036854775807}"#),
        ),
        ("add-without-id", counter("add", r#"{"delta":0}"#)),
        ("set", counter("set", r#"{"value":100,"id":"opaque:\u00fc"}"#)),
        ("put", counter("put", r#"{"base64":"Ynl0ZXM=","column":"f:b"}"#)),
        ("put-text", counter("put", r#"{"text":"blue","id":"opaque:2"}"#)),
        ("reset", counter("reset", r#"{"id":"sequenced:client/1/1"}"#)),
        ("delete", counter("delete", "{}")),
        (
            "batch",
            to(
                "/v1/batch",
                "json",
                r#"{"operations":[{"table":"every","row":"b","op":"add","delta":1,"id":"opaque:3"},{"table":"every","row_base64":"AAE=","op":"set","value":2},{"table":"none","row":"c","delta":1}]}"#,
            ),
        ),
        (
            "operation",
            to(
                "/v1/tables/every/operations",
                "json",
                r#"{"id":"opaque:4","changes":[{"row":"{u}spent","op":"add","delta":5},{"row":"{u}left","op":"add","delta":-5,"min":-9},{"row":"{u}c","op":"put","text":"x"}]}"#,
            ),
        ),
        (
            "operation-keyed",
            keyed(
                "/v1/tables/default/operations",
                r#""01890a5d-ac96-774b-bcce-b302099a8058""#,
                r#"{"changes":[{"row":"r","op":"reset"}]}"#,
            ),
        ),
        ("event", to(events, "cloudevents+json", event)),
        ("events", to(events, "batch+json", &format!("[{event},{}]", event.replace("A1", "A2")))),
        (
            "import",
            to(
                "/v1/tables/every/import",
                "ndjson",
                "{\"row\":\"d\",\"delta\":1,\"id\":\"opaque:5\"}\n\n{\"row\":\"d\",\"op\":\"delete\",\"id\":\"opaque:6\"}\r\n{\"row\":\"d\"}",
            ),
        ),
        (
            "table",
            to(
                "/v1/tables/made",
                "json",
                r#"{"formats":["uuid7","opaque"],"dated_window":"24h","opaque_window":"90s","skew":"0s","session_lease":"7d","mode":"probabilistic","target":1e-3,"durability":"relaxed","without_id":"at-most-once","expected_ids":100,"memory_cap":"1MiB"}"#,
            ),
        ),
        ("table-plain", to("/v1/tables/made", "json", r#"{"memory_cap":1048576,"expected_ids":"10"}"#)),
    ]
}

/// Runs the seeds and the corpus on one store.
#[test]
fn the_corpus_of_bodies_gets_valid_responses() {
    let folder = tempfile::tempdir().unwrap();
    let server = FuzzServer::new(folder.path());
    let seeds = bodies();
    for (name, seed) in &seeds {
        let Checked { status, lines } = server.respond(seed).unwrap();
        assert!(status != 400 && status != 404, "{name}: {status} {lines:?}");
    }
    replay::seeds("http_body", &seeds);
    replay::each("http_body", |input| drop(server.respond(input)));
}

fn requests() -> replay::Seeds {
    let get = |target: &str| format!("GET {target} HTTP/1.1\nHost: localhost\n\n").into_bytes();
    let post = |target: &str, headers: &str, body: &str| {
        format!("POST {target} HTTP/1.1\nHost: 127.0.0.1:6381\n{headers}\n\n{body}").into_bytes()
    };
    let json = "Content-Type: application/json";
    vec![
        ("start", get("/")),
        ("problem", get("/problems/busy")),
        ("openapi", get("/openapi.json")),
        ("metrics", get("/metrics")),
        ("ready", b"HEAD /readyz HTTP/1.0\n\n".to_vec()),
        ("counter", get("/v1/tables/every/counters/a%2Fb?column=f:q&encoding=base64")),
        ("counters", get("/v1/tables/every/counters?row=a&row=%7Bu%7Db&prefix=x&limit=3&after=a")),
        ("operation", get("/v1/tables/every/operations/opaque:1?row=a")),
        ("operation-by-query", get("/v1/operations/x?table=every&row=a&id=opaque:1")),
        ("table", get("/v1/tables/every?verbose=true")),
        ("watch", get("/v1/watch?table=every&prefix=a&heartbeat=1s")),
        ("transactions", get("/v1/transactions?limit=1")),
        ("branch", b"PUT /v1/branches/b%201 HTTP/1.1\nhost: localhost\ncontent-type: application/json\n\n{\"additions\":[{\"table\":\"every\",\"row\":\"a\",\"delta\":1}]}".to_vec()),
        ("abort", post("/v1/branches/b%201/abort", json, "{}")),
        ("backup", post("/v1/admin/backup", json, r#"{"to":"../x"}"#)),
        ("add", post("/v1/tables/every/counters/a:add?min=0", "content-type: application/json\nidempotency-key: \"opaque:7\"\nprefer: return=minimal", r#"{"delta":1}"#)),
        ("event", post("/v1/tables/every/events", "ce-specversion: 1.0\nce-id: 1\nce-source: /s\nce-type: click\nce-time: 2026-11-16T07:40:12Z\nce-subject: a\ncontent-type: application/json", r#"{"delta":2}"#)),
        ("rebinding", b"POST /v1/batch HTTP/1.1\nHost: evil.example\nOrigin: http://evil.example\nSec-Fetch-Site: cross-site\n\n{}".to_vec()),
        ("options", b"OPTIONS http://localhost/v1/tables/every/counters/a:add HTTP/1.1\nHost: localhost\nOrigin: null\n\n".to_vec()),
        ("gzip", post("/v1/tables/every/import", "content-type: application/x-ndjson\ncontent-encoding: gzip\nauthorization: Bearer jeton_x", "\x1f")),
    ]
}

#[test]
fn the_corpus_of_requests_gets_valid_responses() {
    let folder = tempfile::tempdir().unwrap();
    let server = FuzzServer::new(folder.path());
    let seeds = requests();
    for (name, seed) in &seeds {
        let status = server.request(seed).unwrap().status;
        println!("{name}: {status}");
    }
    replay::seeds("http_request", &seeds);
    replay::each("http_request", |input| drop(server.request(input)));
}

/// Steps: a digit or letter that selects connection and action, and a command.
fn sessions() -> replay::Seeds {
    let [open, guarded] =
        [0, 1].map(|choice: u8| move |steps: &[&str]| [&[choice], steps.join("\n").as_bytes()].concat());
    vec![
        (
            "pipeline",
            open(&["0DEL a", "0INCR a", "0INCRBY a 41", "0GET a", "0DECRBY default/a 50", "8JGET a"]),
        ),
        (
            "transaction",
            open(&["0SET {t}a 1", "0MULTI", "0INCR {t}a", "0GET {t}a", "8PING x", "9INCRBY {t}a 5", "8EXEC"]),
        ),
        (
            "discard",
            open(&[
                "0SET a 1", "0MULTI", "0INCR a", "0DISCARD", "0EXEC", "0MULTI", "0MULTI", "0FOO", "8EXEC",
            ]),
        ),
        ("cross-slot", open(&["0SET a 1", "0MULTI", "0INCR a", "0INCR b", "8EXEC"])),
        (
            "ids",
            open(&[
                "0SET every/a 5",
                "0JADD every/a 2 ID opaque:1",
                "9JADD every/a 2 ID opaque:1",
                "8JADD every/a -9 ID opaque:2 MIN 0",
                ":JOP every/a opaque:1",
            ]),
        ),
        (
            "many",
            open(&[
                "0DEL every/{t}a every/{t}b",
                "8JMADD ID opaque:3 every/{t}a 1 every/{t}b -2",
                "8JGET every/{t}b",
            ]),
        ),
        ("overflow", open(&["0SET a 9223372036854775807", "0INCR a", "0SET a x", "0DECR a", "8GET a"])),
        (
            "bounds",
            open(&["0SET a 1", "0INCREX a BYINT 2 UBOUND 2", "0INCREX a BYINT 1 UBOUND 2", "8APPEND a 0"]),
        ),
        ("expiry", open(&["0SET a 1 PX 1", "0INCR a", "0EXPIRE a 1 NX", "0GETEX a PERSIST", "8TTL a"])),
        (
            "scan",
            open(&[
                "0MSET a 1 b 2",
                "8SCAN 0 COUNT 1",
                "8SCAN @cursor MATCH [ab]* COUNT 1",
                "8DBSIZE",
                "8FLUSHALL",
            ]),
        ),
        (
            "hello",
            open(&[
                "0HELLO 3 SETNAME me",
                "0COMMAND INFO GET FOO",
                "0CONFIG GET *max*",
                "0CLIENT LIST",
                "0INFO",
                "8COMMAND DOCS JADD",
            ]),
        ),
        ("refused", open(&["0SUBSCRIBE c", "0WATCH a", "0KEYS *", "0EVAL x 0", "0MONITOR", "8UNWATCH"])),
        ("quit", open(&["0PING", "0QUIT", "8PING", "8PING", "<ECHO x"])),
        ("cut", open(&["0SET a 1", "0MULTI", "0SET a 2", "4GET a", "8RESET"])),
        (
            "raw",
            open(&[
                "0INCR a",
                r#"p"*2\r\n$3\r\nGET\r\n$1\r\na\r\nPING\r\n*1\r\n$99\r\nx""#,
                r#"q"*-1\r\n$x\r\n""#,
                r#"r"POST / HTTP/1.1\r\n""#,
            ]),
        ),
        (
            "login",
            guarded(&[
                "0GET a",
                "0AUTH x @admin",
                "0SET a 1",
                "8INCR a",
                "9HELLO 3 AUTH x @client",
                "9SET a 2",
                "9INCR a",
            ]),
        ),
        (
            "no-login",
            guarded(&["0PING", "0AUTH wrong", "0MULTI", "8EXEC", "1MGET a b c d e f g h i j k", "9PING"]),
        ),
    ]
}

#[test]
fn the_corpus_of_sessions_gets_one_reply_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let server = FuzzServer::new(folder.path());
    replay::seeds("resp_session", &sessions());
    replay::each("resp_session", |input| server.session(input));
}
