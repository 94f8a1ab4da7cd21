//! Tables and their settings.

use jeton_core::{Format, Mode};
use serde_json::json;

use crate::client::{assert_members, column};
use crate::harness::{TestServer, uuid};

#[test]
fn a_table_is_created_changed_and_read() {
    let (server, mut client) = TestServer::with_client();
    let settings_body = json!({"formats": ["ulid", "event"], "dated_window": "2d", "skew": "30s", "mode": "probabilistic",
        "target": 0.001, "durability": "relaxed", "without_id": "at-most-once", "expected_ids": 5000, "memory_cap": "64MiB"});
    let made = client.put("/v1/tables/clicks", &settings_body);
    assert_eq!(made.status, 201, "{}", made.text());
    let settings = server.service.engine.table("clicks").unwrap().settings().clone();
    assert!(settings.formats.contains(Format::Ulid) && settings.formats.contains(Format::Event));
    assert_eq!((settings.dated_window.as_secs(), settings.skew.as_secs()), (172_800, 30));
    assert_eq!(settings.mode, Mode::Probabilistic { target: 0.001 });
    assert_eq!((settings.expected_ids, settings.memory_cap), (5000, 64 << 20));

    let shown = client.get("/v1/tables/clicks").ok();
    assert_eq!(shown["name"], "clicks");
    assert_members(&shown["settings"], settings_body.clone());
    assert_members(&shown["settings"], json!({"opaque_window": "10m", "session_lease": "7d"}));
    assert_eq!(shown["filters"]["opaque"], json!(null));
    assert_members(&shown["filters"]["dated"], json!({"bytes_max": 64 << 20, "target": 0.001}));

    // Equal settings start no era.
    assert_eq!(client.put("/v1/tables/clicks", &settings_body).ok()["eras"], 1);
    assert_eq!(client.put("/v1/tables/clicks", &shown["settings"]).ok()["eras"], 1);
    let changed = client.put("/v1/tables/clicks", json!({"formats": ["ulid"]})).ok();
    assert_eq!((&changed["eras"], &changed["settings"]["dated_window"]), (&json!(2), &json!("24h")));
    assert_eq!(client.put("/v1/tables/clicks", &changed["settings"]).ok()["eras"], 2);
    assert_eq!(column(&client.get("/v1/tables").ok()["tables"], "name"), ["default", "clicks"]);
    client.get("/v1/tables/nowhere").problem(404, "unknown-table");
}

#[test]
fn invalid_settings_are_rejected() {
    let (_server, mut client) = TestServer::with_client();
    for (body, expected) in [
        (json!({"dated_windw": "1h"}), "did you mean `dated_window`?"),
        (
            json!({"dated_window": "1 hour"}),
            "dated_window: \"1 hour\": a duration is written as 500ms, 90s, 10min, 1h30m or 30d (units d, h, min, m, \
             s, ms)",
        ),
        (
            json!({"formats": ["uuid4"]}),
            "formats: \"uuid4\" is none of uuid7, ulid, sequenced, event, opaque; did you mean \"uuid7\"?",
        ),
        (
            json!({"mode": "exakt"}),
            "mode: \"exakt\" is none of exact, probabilistic; did you mean \"exact\"?",
        ),
        (
            json!({"mode": "probabilistic"}),
            "target: a probabilistic table needs it: the probability that a new id is dropped",
        ),
        (json!({"target": 0.1}), "target: it belongs to the mode \"probabilistic\""),
        (json!({"mode": "probabilistic", "target": 0.5}), "mode: the target 0.5 is not between 1e-9 and 0.1"),
        (json!({"durability": "strickt"}), "did you mean \"strict\"?"),
        (
            json!({"memory_cap": "1GB"}),
            "memory_cap: \"1GB\": a size is a number of bytes, or written as 64KiB, 16MiB or 1GiB",
        ),
        (json!({"expected_ids": -1}), "expected_ids: -1 is not between 1 and 2^40"),
        (json!({"skew": "25h"}), "skew: 90000s is longer than the dated window of 86400s"),
        (json!({"formats": []}), "formats: a table that accepts no id formats"),
    ] {
        let reply = client.put("/v1/tables/new", &body);
        assert_eq!(reply.status, 400, "{body}");
        let detail = reply.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(expected), "{body}: {detail}");
    }
    client.get("/v1/tables/new").problem(404, "unknown-table");
    client.put("/v1/tables/Upper", json!({})).problem(400, "bad-settings");
}

#[test]
fn a_table_is_deleted_in_two_steps() {
    let (server, mut client) = TestServer::with_client();
    assert_eq!(client.put("/v1/tables/t", json!({"dated_window": "1h"})).status, 201);
    let id = uuid();
    for row in ["a", "b"] {
        client.post(&format!("/v1/tables/t/counters/{row}:add"), json!({"delta": 1, "id": id})).ok();
    }
    let mut delete = |path: &str| client.call("DELETE", path, &[], b"");
    let asked = delete("/v1/tables/t").problem(428, "confirmation-required");
    assert_members(&asked, json!({"table": "t", "counters": 2, "more_counters": false}));
    assert_eq!(asked["settings"]["dated_window"], "1h");
    delete("/v1/tables/t?confirm=T").problem(400, "bad-request");
    delete("/v1/tables/default?confirm=default").problem(400, "bad-request");
    delete("/v1/tables/none?confirm=none").problem(404, "unknown-table");
    let deleted = delete("/v1/tables/t?confirm=t").ok();
    assert_eq!(deleted["name"], "t");
    delete("/v1/tables/t?confirm=t").problem(404, "unknown-table");

    client.get("/v1/tables/t").problem(404, "unknown-table");
    client.get("/v1/tables/t/counters/a").problem(404, "unknown-table");
    let retry = client.post("/v1/tables/t/counters/a:add", json!({"delta": 1, "id": id}));
    retry.problem(404, "unknown-table");
    let early = client.put("/v1/tables/t", json!({}));
    assert!(early.header("retry-after").is_some(), "{}", early.text());
    assert_eq!(early.problem(409, "name-reserved")["reserved_until"], deleted["reserved_until"]);

    // A name that is reserved briefly.
    let brief = json!({"skew": "1ms"});
    assert_eq!(client.put("/v1/tables/brief", &brief).status, 201);
    client.call("DELETE", "/v1/tables/brief?confirm=brief", &[], b"").ok();
    while client.put("/v1/tables/brief", &brief).status != 201 {}
    assert_eq!(server.service.engine.catalog().deleted().count(), 1);
}

#[test]
fn a_table_with_prepared_branches_is_not_deleted() {
    let (_server, mut client) = TestServer::with_client();
    assert_eq!(client.put("/v1/tables/t", json!({})).status, 201);
    let branch = json!({"operations": [{"table": "t", "row": "a", "delta": 1}]});
    client.put("/v1/branches/b", &branch).ok();
    let refused = client.call("DELETE", "/v1/tables/t?confirm=t", &[], b"");
    assert_eq!(refused.header("retry-after"), Some("1"));
    refused.problem(503, "held");
    client.post("/v1/branches/b/abort", json!({})).ok();
    client.call("DELETE", "/v1/tables/t?confirm=t", &[], b"").ok();
}

#[test]
fn known_ids_stay_known_after_a_change_of_settings() {
    let (_server, mut client) = TestServer::with_client();
    assert_eq!(client.put("/v1/tables/t", json!({"dated_window": "1h"})).status, 201);
    let id = uuid();
    client.post("/v1/tables/t/counters/c:add", json!({"delta": 1, "id": id})).ok();
    client.put("/v1/tables/t", json!({"dated_window": "2h"})).ok();
    let retry = client.post("/v1/tables/t/counters/c:add", json!({"delta": 1, "id": id})).ok();
    assert_eq!(retry["replayed"], true);
}
