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
