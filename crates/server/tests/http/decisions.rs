//! The table of decisions, row by row: what becomes of an id, and what its client is told.

use std::time::Duration;

use jeton_core::{Durability, Format, Formats, MissingIdPolicy, Mode, TableSettings};
use serde_json::{Value, json};

use crate::client::{Client, Reply};
use crate::harness::{Start, World, millis, uuid, uuid_at};

const ADD: &str = "/v1/tables/default/counters/c:add";
const READ: &str = "/v1/tables/default/counters/c";

#[track_caller]
fn counts(client: &mut Client, path: &str, value: i64) {
    assert_eq!(client.get(path).ok()["value"], value);
}

/// Asks with an id in the header alone.
fn with_key(client: &mut Client, key: &str, body: Value) -> Reply {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    client.ask("POST", ADD, &headers, body.to_string().as_bytes())
}

#[test]
fn known_with_another_payload_is_a_mismatch() {
    let world = World::new();
    let mut client = world.client();
    let id = uuid();
    client.post(ADD, json!({"delta": 1, "id": id})).ok();
    for other in [
        json!({"delta": 2, "id": id}),
        json!({"delta": 1, "max": 9, "id": id}),
        json!({"delta": 1, "column": "a:b", "id": id}),
    ] {
        let problem = client.post(ADD, other).problem(422, "id-mismatch");
        assert!(problem["detail"].as_str().unwrap().contains("used for another operation"), "{problem}");
    }
    client.post("/v1/tables/default/counters/c:reset", json!({"id": id})).problem(422, "id-mismatch");
    counts(&mut client, READ, 1);
}

#[test]
fn without_an_answer_in_time_the_same_id_may_come_again() {
    let world = Start::default().options(|options| options.request_timeout = Duration::ZERO).go();
    let mut client = world.client();
    // A quick disk may be in time even so, now and then.
    let (id, reply, before) = (0..10_000)
        .find_map(|before| {
            let id = uuid();
            let reply = client.post(ADD, json!({"delta": 5, "id": id}));
            (reply.status != 200).then_some((id, reply, before))
        })
        .unwrap();
    reply.problem(409, "outcome-unknown");
    assert_eq!(reply.header("retry-after"), Some("1"));

    // It went on: whoever asks again gets its answer, and it counts once.
    let world = world.restart();
    let mut client = world.client();
    let again = client.post(ADD, json!({"delta": 5, "id": id})).ok();
    assert_eq!((&again["value"], &again["replayed"]), (&json!(5 * (before + 1)), &json!(true)));
    counts(&mut client, READ, 5 * (before + 1));
}

#[test]
fn a_bound_refuses_for_good_and_the_refusal_is_replayed() {
    let world = World::new();
    let mut client = world.client();
    client.post(ADD, json!({"delta": 5, "id": uuid()})).ok();
    let id = uuid();
    let take = json!({"delta": -6, "min": 0, "id": id});
    let first = client.post(ADD, &take);
    let refused = first.ok();
    assert_eq!(
        (&refused["applied"], &refused["replayed"], &refused["value"]),
        (&json!(false), &json!(false), &json!(5))
    );
    assert_eq!(first.header("idempotency-replayed"), None);
    client.post(ADD, json!({"delta": 5, "id": uuid()})).ok();
    // Now there would be enough. But the answer was given.
    let again = client.post(ADD, &take);
    let replayed = again.ok();
    assert_eq!(
        (&replayed["applied"], &replayed["replayed"], &replayed["value"]),
        (&json!(false), &json!(true), &json!(5))
    );
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let within = client.post(ADD, json!({"delta": 90, "min": 0, "max": 100, "id": uuid()})).ok();
    assert_eq!((&within["applied"], &within["value"]), (&json!(true), &json!(100)));
    let above = client.post(ADD, json!({"delta": 1, "max": 100, "id": uuid()})).ok();
    assert_eq!((&above["applied"], &above["value"]), (&json!(false), &json!(100)));
}

#[test]
fn older_than_the_window_is_gone() {
    let world = World::new();
    let mut client = world.client();
    let day = 24 * 3600 * 1000;
    let problem = client
        .post(ADD, json!({"delta": 1, "id": uuid_at(millis() - day - 60_000)}))
        .problem(410, "id-expired");
    assert_eq!(problem["window"], "24h");
    let time = problem["server_time"].as_str().unwrap();
    assert!(time.starts_with("20") && time.ends_with('Z'), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("no longer known"), "{problem}");
    counts(&mut client, READ, 0);
}

#[test]
fn from_the_future_is_refused_until_its_time_comes() {
    let world = World::new();
    let mut client = world.client();
    let problem = client
        .post(ADD, json!({"delta": 1, "id": uuid_at(millis() + 3_600_000)}))
        .problem(400, "id-from-future");
    assert_eq!(problem["skew"], "1m");
    assert!(problem["server_time"].is_string() && problem["ahead"].is_string(), "{problem}");
    counts(&mut client, READ, 0);
    // Within the skew it is taken.
    client.post(ADD, json!({"delta": 1, "id": uuid_at(millis() + 5_000)})).ok();
}

#[test]
fn no_id_is_the_policy_of_the_table() {
    let world = World::new();
    world.table("strict", &[Format::Uuid7]);
    let mut client = world.client();
    let problem =
        client.post("/v1/tables/strict/counters/c:add", json!({"delta": 1})).problem(400, "id-required");
    assert!(problem["detail"].as_str().unwrap().contains("Idempotency-Key"), "{problem}");
    counts(&mut client, "/v1/tables/strict/counters/c", 0);
    // The table of keys that name none takes writes without ids, and each is another.
    let settings = world.service.engine.table("default").unwrap().settings().clone();
    assert_eq!(settings.without_id, MissingIdPolicy::AtMostOnce);
    client.post(ADD, json!({"delta": 1})).ok();
    assert_eq!(client.post(ADD, json!({"delta": 1})).ok()["value"], 2);
}

#[test]
fn an_id_is_read_in_the_format_that_the_table_declares() {
    let world = World::new();
    world.table("both", &[Format::Ulid, Format::Opaque]);
    let mut client = world.client();
    let not_seven = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
    let problem = client.post(ADD, json!({"delta": 1, "id": not_seven})).problem(400, "id-invalid");
    assert!(problem["detail"].as_str().unwrap().starts_with("not a uuid7 id:"), "{problem}");
    let both = "/v1/tables/both/counters/c:add";
    let problem = client.post(both, json!({"delta": 1, "id": "order-7"})).problem(400, "id-invalid");
    assert_eq!(
        problem["detail"],
        "the table takes ids of several formats; begin the id with one of ulid, opaque"
    );
    let problem =
        client.post(both, json!({"delta": 1, "id": format!("uuid7:{}", uuid())})).problem(400, "id-invalid");
    assert_eq!(problem["detail"], "an id of format uuid7 is not taken here; the table takes ulid, opaque");
    client.post(both, json!({"delta": 1, "id": "opaque:order-7"})).ok();
    assert_eq!(client.post(both, json!({"delta": 1, "id": "opaque:order-7"})).ok()["replayed"], true);
}

#[test]
fn the_header_is_a_string_in_quotes() {
    let world = World::new();
    let mut client = world.client();
    let id = uuid();
    assert_eq!(with_key(&mut client, &format!("\"{id}\""), json!({"delta": 2})).ok()["replayed"], false);
    // Parameters mean nothing; the body may say the same; and it is the same id in either place.
    assert_eq!(with_key(&mut client, &format!("\"{id}\";v=1"), json!({"delta": 2})).ok()["replayed"], true);
    assert_eq!(
        with_key(&mut client, &format!("\"{id}\""), json!({"delta": 2, "id": id})).ok()["replayed"],
        true
    );
    assert_eq!(client.post(ADD, json!({"delta": 2, "id": id})).ok()["replayed"], true);

    let problem = with_key(&mut client, &id, json!({"delta": 2})).problem(400, "id-invalid");
    assert!(problem["detail"].as_str().unwrap().contains("a string in quotes"), "{problem}");
    let problem = with_key(&mut client, &format!("\"{}\"", uuid()), json!({"delta": 2, "id": id}))
        .problem(400, "id-conflict");
    assert!(problem["detail"].as_str().unwrap().contains(&id), "{problem}");
    let twice =
        [("content-type", "application/json"), ("idempotency-key", "\"a\""), ("idempotency-key", "\"a\"")];
    client.ask("POST", ADD, &twice, b"{\"delta\":1}").problem(400, "id-invalid");
    counts(&mut client, READ, 2);
}

#[test]
fn what_could_not_be_done_is_not_remembered() {
    let world = World::new();
    let mut client = world.client();
    let id = uuid();
    client.post(ADD, json!({"delta": i64::MAX, "id": uuid()})).ok();
    client.post(ADD, json!({"delta": 1, "id": id})).problem(409, "overflow");
    counts(&mut client, READ, i64::MAX);
    client.post(ADD, json!({"delta": "x", "id": id})).problem(400, "bad-json");
    client.post("/v1/tables/default/counters/c:put", json!({"text": "blue", "id": uuid()})).ok();
    client.post(ADD, json!({"delta": 1, "id": id})).problem(409, "not-a-counter");
    client.post("/v1/tables/default/counters/c:reset", json!({"id": uuid()})).ok();
    let done = client.post(ADD, json!({"delta": 1, "id": id})).ok();
    assert_eq!((&done["value"], &done["replayed"]), (&json!(1), &json!(false)));
}

#[test]
fn probabilistic_and_relaxed_tables_say_so() {
    let world = World::new();
    let formats = Formats::only(Format::Opaque);
    let mode = Mode::Probabilistic { target: 1e-6 };
    world.table_with("maybe", TableSettings { formats, mode, ..TableSettings::default() });
    let durability = Durability::Relaxed;
    world.table_with("quick", TableSettings { formats, durability, ..TableSettings::default() });
    let mut client = world.client();
    let maybe = "/v1/tables/maybe/counters/c:add";
    let first = client.post(maybe, json!({"delta": 1, "id": "a"})).ok();
    assert_eq!((&first["mode"], &first["applied"]), (&json!("probabilistic"), &json!(true)));
    assert_eq!(first.get("probably_seen"), None);
    let reply = client.post(maybe, json!({"delta": 1, "id": "a"}));
    let again = reply.ok();
    assert_eq!((&again["applied"], &again["probably_seen"]), (&json!(false), &json!(true)));
    assert_eq!((&again["mode"], &again["value"]), (&json!("probabilistic"), &Value::Null));
    counts(&mut client, "/v1/tables/maybe/counters/c", 1);

    let quick = client.post("/v1/tables/quick/counters/c:add", json!({"delta": 1, "id": "a"})).ok();
    assert_eq!(quick["durability"], "relaxed");
    assert_eq!(client.get("/v1/tables/quick/counters/c").ok()["durability"], "relaxed");
}

#[test]
fn what_was_answered_before_a_restart_is_answered_after_it() {
    let world = World::new();
    let mut client = world.client();
    let (add, refused) = (uuid(), uuid());
    let first = client.post(ADD, json!({"delta": 3, "id": add})).ok();
    client.post(ADD, json!({"delta": 3, "max": 3, "id": refused})).ok();
    drop(client);
    let world = world.restart();
    let mut client = world.client();
    let again = client.post(ADD, json!({"delta": 3, "id": add}));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let again = again.ok();
    assert_eq!(
        (&again["value"], &again["slot"], &again["time"]),
        (&first["value"], &first["slot"], &first["time"])
    );
    let again = client.post(ADD, json!({"delta": 3, "max": 3, "id": refused})).ok();
    assert_eq!((&again["applied"], &again["replayed"]), (&json!(false), &json!(true)));
    counts(&mut client, READ, 3);
}

#[test]
fn a_store_that_is_closed_says_when_to_ask_again() {
    let world = World::new();
    let mut client = world.client();
    client.get("/healthz").ok();
    world.service.engine.close();
    let reply = client.post(ADD, json!({"delta": 1, "id": uuid()}));
    reply.problem(503, "closing");
    assert_eq!(reply.header("retry-after"), Some("1"));
    client.get(READ).problem(503, "closing");
}
