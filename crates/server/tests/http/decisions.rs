//! The response to every kind of id.

use std::time::Duration;

use jeton_core::{Durability, Format, Formats, MissingIdPolicy, Mode, TableSettings};
use serde_json::{Value, json};

use crate::client::{Client, Reply, assert_members};
use crate::harness::{TestServer, millis, uuid, uuid_at};

const ADD: &str = "/v1/tables/default/counters/c:add";
const READ: &str = "/v1/tables/default/counters/c";

/// Adds with an id in the header only.
fn with_key(client: &mut Client, key: &str, body: Value) -> Reply {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    client.call("POST", ADD, &headers, body.to_string().as_bytes())
}

#[test]
fn a_retry_counts_once() {
    let (_server, mut client) = TestServer::with_client();
    let id = uuid();
    let first = client.post(ADD, json!({"delta": 3, "id": id}));
    let body = first.ok();
    assert_members(&body, json!({"value": 3, "value_text": "3"}));
    assert_members(&body, json!({"applied": true, "replayed": false}));
    assert_members(&body, json!({"mode": "exact", "durability": "strict"}));
    assert_eq!(first.header("idempotency-replayed"), None);

    client.add("c", 4);
    let again = client.post(ADD, json!({"delta": 3, "id": id}));
    let mut replayed = again.ok();
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(replayed["replayed"], true);
    // Except for `replayed`, a retry gets the first response.
    replayed["replayed"] = json!(false);
    assert_eq!(replayed, body);

    let read = client.get(READ).ok();
    assert_eq!(read, json!({"row": "c", "value": 7, "value_text": "7", "exists": true}));
    let none = client.get("/v1/tables/default/counters/missing").ok();
    assert_eq!(none, json!({"row": "missing", "value": 0, "value_text": "0", "exists": false}));
    client.get("/v1/tables/nowhere/counters/c").problem(404, "unknown-table");
}

#[test]
fn a_known_id_with_another_payload_is_a_mismatch() {
    let (_server, mut client) = TestServer::with_client();
    let id = uuid();
    client.post(ADD, json!({"delta": 1, "id": id})).ok();
    for other in [
        json!({"delta": 2, "id": id}),
        json!({"delta": 1, "max": 9, "id": id}),
        json!({"delta": 1, "column": "a:b", "id": id}),
    ] {
        client.post(ADD, other).problem_with(422, "id-mismatch", "used for another operation");
    }
    client.post("/v1/tables/default/counters/c:reset", json!({"id": id})).problem(422, "id-mismatch");
    assert_eq!(client.value("default", "c"), 1);
}

#[test]
fn after_a_timeout_the_client_retries_with_the_same_id() {
    let server = TestServer::with_options(|options| options.request_timeout = Duration::ZERO);
    let mut client = server.client();
    // A fast disk may complete some requests in time.
    let (id, reply, before) = (0..10_000)
        .find_map(|before| {
            let id = uuid();
            let reply = client.post(ADD, json!({"delta": 5, "id": id}));
            (reply.status != 200).then_some((id, reply, before))
        })
        .unwrap();
    reply.problem(409, "outcome-unknown");
    assert_eq!(reply.header("retry-after"), Some("1"));

    // The operation completed: a retry gets its result, and it counts once.
    let server = server.restart();
    let mut client = server.client();
    let again = client.post(ADD, json!({"delta": 5, "id": id})).ok();
    assert_members(&again, json!({"value": 5 * (before + 1), "replayed": true}));
    assert_eq!(client.value("default", "c"), 5 * (before + 1));
}

#[test]
fn a_refusal_by_a_bound_is_final_and_replayed() {
    let (_server, mut client) = TestServer::with_client();
    client.add("c", 5);
    let id = uuid();
    let take = json!({"delta": -6, "min": 0, "id": id});
    let first = client.post(ADD, &take);
    let refused = first.ok();
    assert_members(&refused, json!({"applied": false, "replayed": false, "value": 5}));
    assert_eq!(first.header("idempotency-replayed"), None);
    client.add("c", 5);
    // The bound would allow it now, but the refusal is final.
    let again = client.post(ADD, &take);
    let replayed = again.ok();
    assert_members(&replayed, json!({"applied": false, "replayed": true, "value": 5}));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let within = client.post(ADD, json!({"delta": 90, "min": 0, "max": 100, "id": uuid()})).ok();
    assert_members(&within, json!({"applied": true, "value": 100}));
    let above = client.post(ADD, json!({"delta": 1, "max": 100, "id": uuid()})).ok();
    assert_members(&above, json!({"applied": false, "value": 100}));
}

#[test]
fn ids_outside_window_and_skew_are_rejected() {
    let (_server, mut client) = TestServer::with_client();
    let (day, hour) = (24 * 3600 * 1000, 3600 * 1000);
    for (time, status, name, member, value) in [
        (millis() - day - 60_000, 410, "id-expired", "window", "24h"),
        (millis() + hour, 400, "id-from-future", "skew", "1m"),
    ] {
        let problem = client.post(ADD, json!({"delta": 1, "id": uuid_at(time)})).problem(status, name);
        assert_eq!(problem[member], value);
        let time = problem["server_time"].as_str().unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z'), "{problem}");
        assert_eq!(status == 410, problem["detail"].as_str().unwrap().contains("no longer known"));
        assert_eq!(status == 400, problem["ahead"].is_string(), "{problem}");
    }
    assert_eq!(client.value("default", "c"), 0);
    // Within the skew it is accepted.
    client.post(ADD, json!({"delta": 1, "id": uuid_at(millis() + 5_000)})).ok();
}

#[test]
fn a_missing_id_follows_the_policy_of_the_table() {
    let (server, mut client) = TestServer::with_table("strict", &[Format::Uuid7]);
    let reply = client.post("/v1/tables/strict/counters/c:add", json!({"delta": 1}));
    reply.problem_with(400, "id-required", "Idempotency-Key");
    assert_eq!(client.value("strict", "c"), 0);
    // The default table accepts writes without ids over RESP only.
    assert_eq!(client.get("/v1/tables/default").ok()["settings"]["without_id"], "resp-only");
    client.post(ADD, json!({"delta": 1})).problem_with(400, "id-required", "Idempotency-Key");
    let change = json!({"row": "c", "delta": 1});
    let operation = json!({"changes": [change]});
    client.post("/v1/tables/default/operations", operation).problem(400, "id-required");
    let results = client.batch([json!({"table": "default", "row": "c", "delta": 1})]);
    assert_eq!(results[0]["type"], "/problems/id-required");
    assert_eq!(client.value("default", "c"), 0);
    // A table that allows it counts each of them, also after a restart.
    client.put("/v1/tables/default", json!({"without_id": "at-most-once"})).ok();
    client.post(ADD, json!({"delta": 1})).ok();
    assert_eq!(client.post(ADD, json!({"delta": 1})).ok()["value"], 2);
    client.put("/v1/tables/default", json!({"without_id": "resp-only"})).ok();
    let server = server.restart();
    let settings = server.service.engine.table("default").unwrap().settings().clone();
    assert_eq!(settings.without_id, MissingIdPolicy::RespOnly);
}

#[test]
fn ids_are_parsed_in_the_formats_of_the_table() {
    let (_server, mut client) = TestServer::with_table("both", &[Format::Ulid, Format::Opaque]);
    let not_seven = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
    let both = "/v1/tables/both/counters/c:add";
    for (path, id, detail) in [
        (ADD, not_seven, "not a uuid7 id:"),
        (both, "order-7", "the table accepts ids of several formats; begin the id with one of ulid, opaque"),
        (
            both,
            &format!("uuid7:{}", uuid()),
            "the table does not accept ids of format uuid7; it accepts ulid, opaque",
        ),
    ] {
        client.post(path, json!({"delta": 1, "id": id})).problem_with(400, "id-invalid", detail);
    }
    client.post(both, json!({"delta": 1, "id": "opaque:order-7"})).ok();
    assert_eq!(client.post(both, json!({"delta": 1, "id": "opaque:order-7"})).ok()["replayed"], true);
}

#[test]
fn the_header_is_a_string_in_quotes() {
    let (_server, mut client) = TestServer::with_client();
    let id = uuid();
    assert_eq!(with_key(&mut client, &format!("\"{id}\""), json!({"delta": 2})).ok()["replayed"], false);
    // Parameters are ignored. Header and body may have the same id.
    assert_eq!(with_key(&mut client, &format!("\"{id}\";v=1"), json!({"delta": 2})).ok()["replayed"], true);
    let both = with_key(&mut client, &format!("\"{id}\""), json!({"delta": 2, "id": id})).ok();
    assert_eq!(both["replayed"], true);
    assert_eq!(client.post(ADD, json!({"delta": 2, "id": id})).ok()["replayed"], true);

    with_key(&mut client, &id, json!({"delta": 2})).problem_with(400, "id-invalid", "a string in quotes");
    let reply = with_key(&mut client, &format!("\"{}\"", uuid()), json!({"delta": 2, "id": id}));
    reply.problem_with(400, "id-conflict", &id);
    let twice =
        [("content-type", "application/json"), ("idempotency-key", "\"a\""), ("idempotency-key", "\"a\"")];
    client.call("POST", ADD, &twice, b"{\"delta\":1}").problem(400, "id-invalid");
    assert_eq!(client.value("default", "c"), 2);
}

#[test]
fn rejected_operations_are_not_stored() {
    let (_server, mut client) = TestServer::with_client();
    let id = uuid();
    client.add("c", i64::MAX);
    client.post(ADD, json!({"delta": 1, "id": id})).problem(409, "overflow");
    assert_eq!(client.value("default", "c"), i64::MAX);
    client.post(ADD, json!({"delta": "x", "id": id})).problem(400, "bad-json");
    client.post("/v1/tables/default/counters/c:put", json!({"text": "blue", "id": uuid()})).ok();
    client.post(ADD, json!({"delta": 1, "id": id})).problem(409, "not-a-counter");
    client.post("/v1/tables/default/counters/c:reset", json!({"id": uuid()})).ok();
    let done = client.post(ADD, json!({"delta": 1, "id": id})).ok();
    assert_members(&done, json!({"value": 1, "replayed": false}));
}

#[test]
fn responses_name_probabilistic_and_relaxed_tables() {
    let server = TestServer::new();
    let formats = Formats::only(Format::Opaque);
    let mode = Mode::Probabilistic { target: 1e-6 };
    server.table_with("maybe", TableSettings { formats, mode, ..TableSettings::default() });
    let durability = Durability::Relaxed;
    server.table_with("quick", TableSettings { formats, durability, ..TableSettings::default() });
    let mut client = server.client();
    let maybe = "/v1/tables/maybe/counters/c:add";
    let first = client.post(maybe, json!({"delta": 1, "id": "a"})).ok();
    assert_members(&first, json!({"mode": "probabilistic", "applied": true}));
    assert_eq!(first.get("probably_seen"), None);
    let reply = client.post(maybe, json!({"delta": 1, "id": "a"}));
    let again = reply.ok();
    assert_members(&again, json!({"applied": false, "probably_seen": true}));
    assert_members(&again, json!({"mode": "probabilistic", "value": null}));
    assert_eq!(client.value("maybe", "c"), 1);

    let quick = client.post("/v1/tables/quick/counters/c:add", json!({"delta": 1, "id": "a"})).ok();
    assert_eq!(quick["durability"], "relaxed");
    assert_eq!(client.get("/v1/tables/quick/counters/c").ok()["durability"], "relaxed");
}

#[test]
fn a_closed_store_responds_with_retry_after() {
    let (server, mut client) = TestServer::with_client();
    client.get("/healthz").ok();
    server.service.engine.close();
    let reply = client.post(ADD, json!({"delta": 1, "id": uuid()}));
    reply.problem(503, "closing");
    assert_eq!(reply.header("retry-after"), Some("1"));
    client.get(READ).problem(503, "closing");
}
