//! Sequenced ids.

use std::time::Duration;

use jeton_core::limits::{SESSION_WINDOW, SESSIONS_MAX};
use jeton_core::{Format, Formats, TableSettings};
use serde_json::json;

use crate::harness::{TestServer, grant, millis};

const ADD: &str = "/v1/tables/numbered/counters/c:add";

#[test]
fn a_new_epoch_fences_earlier_ones() {
    let (_server, mut client) = TestServer::with_table("numbered", &[Format::Sequenced]);
    client.post(ADD, json!({"delta": 1, "id": "me/5/1"})).ok();
    assert_eq!(client.post(ADD, json!({"delta": 1, "id": "me/5/1"})).ok()["replayed"], true);
    client.post(ADD, json!({"delta": 1, "id": "me/6/1"})).ok();
    let problem = client.post(ADD, json!({"delta": 1, "id": "me/5/2"})).problem(409, "fenced");
    assert_eq!(problem["epoch"], 6);
    let ahead = millis() + 3_600_000;
    let problem =
        client.post(ADD, json!({"delta": 1, "id": format!("me/{ahead}/1")})).problem(400, "epoch-ahead");
    assert!(problem["latest"].as_u64().unwrap() < ahead, "{problem}");
    assert_eq!(client.get("/v1/tables/numbered/counters/c").ok()["value"], 2);
    // A full session drops its lowest number.
    let add = |seq| json!({"table": "numbered", "row": "c", "delta": 1, "id": format!("me/6/{seq}")});
    client.batch((2..2 + SESSION_WINDOW).map(add));
    let problem = client.post(ADD, json!({"delta": 1, "id": "me/6/1"})).problem(410, "id-expired");
    assert_eq!(problem["low_water"], 3);
}

#[test]
fn a_session_is_unknown_after_its_lease() {
    let server = TestServer::new();
    let (formats, session_lease) = (Formats::only(Format::Sequenced), Duration::from_millis(20));
    server.table_with("numbered", TableSettings { formats, session_lease, ..TableSettings::default() });
    let mut client = server.client();
    client.post(ADD, json!({"delta": 1, "id": "me/5/1"})).ok();
    // Operations of other clients advance the store clock.
    let begun = millis();
    let mut epoch = 1;
    while millis() < begun + 200 {
        client.post(ADD, json!({"delta": 1, "id": format!("other/{epoch}/1")}));
        epoch += 1;
    }
    let problem = client.post(ADD, json!({"delta": 1, "id": "me/5/2"})).problem(409, "unknown-session");
    assert!(problem["floor"].as_u64().unwrap() >= 5, "{problem}");
    assert!(
        problem["detail"].as_str().unwrap().contains("it is unknown whether the operation was counted"),
        "{problem}"
    );
}

/// One token fills the partition of a row with clients; then another token begins clients.
#[test]
fn a_token_does_not_take_the_sessions_of_another() {
    let server = TestServer::with_tokens(["first", "second"].map(|name| grant(name, "numbered", "add")));
    server.table("numbered", &[Format::Sequenced]);
    // An eviction ends the epochs up to that of the evicted client.
    let statuses = |token: &str, epoch: u64, clients: std::ops::Range<usize>| -> Vec<u64> {
        let id = |client| format!("{token}-{client}/{epoch}/1");
        let add = |client| json!({"table": "numbered", "row": "c", "delta": 1, "id": id(client)});
        let results = server.client_as(token).batch(clients.map(add));
        results.iter().map(|result| result["status"].as_u64().unwrap()).collect()
    };
    for first in (0..SESSIONS_MAX).step_by(256) {
        assert_eq!(statuses("first", 5, first..first + 256), [200; 256]);
    }
    assert_eq!(statuses("first", 5, SESSIONS_MAX..SESSIONS_MAX + 1), [503]);
    assert_eq!(statuses("second", 6, 0..256), [200; 256]);
    assert_eq!(statuses("first", 7, SESSIONS_MAX..SESSIONS_MAX + 1), [503]);
}
