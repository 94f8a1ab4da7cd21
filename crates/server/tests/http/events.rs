//! CloudEvents in structured, batched and binary mode.

use jeton_core::Format;
use serde_json::{Value, json};

use crate::client::{Client, Reply, assert_members, column};
use crate::harness::TestServer;

const PATH: &str = "/v1/tables/events/events";

fn event(id: &str, time: &str, delta: Option<i64>) -> Value {
    let mut event = json!({"specversion": "1.0", "type": "click", "source": "/pages", "id": id, "time": time, "subject": "page/7",
        "anextension": "x"});
    if let Some(delta) = delta {
        event["data"] = json!({"delta": delta, "more": true});
    }
    event
}

fn send(client: &mut Client, kind: &str, body: &Value) -> Reply {
    client.call_with("POST", PATH, kind, body)
}

/// A server with a table of events, and its time.
fn start() -> (TestServer, String) {
    let (server, mut client) = TestServer::with_table("events", &[Format::Event]);
    (server, client.add("clock", 1)["time"].as_str().unwrap().to_owned())
}

#[test]
fn one_event_counts_once() {
    let (server, now) = start();
    let mut client = server.client();
    let kind = "application/cloudevents+json";
    let first = send(&mut client, kind, &event("a", &now, Some(5))).ok();
    assert_members(&first, json!({"value": 5, "replayed": false}));
    let again = send(&mut client, kind, &event("a", &now, Some(5)));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(send(&mut client, kind, &event("b", &now, None)).ok()["value"], 6);
    // The same id from another source is another event.
    let mut elsewhere = event("a", &now, Some(5));
    elsewhere["source"] = json!("/shop");
    assert_eq!(send(&mut client, kind, &elsewhere).ok()["value"], 11);
    send(&mut client, kind, &event("a", &now, Some(6))).problem(422, "id-mismatch");
    assert_eq!(client.value("events", "page%2F7"), 11);
    send(&mut client, kind, &event("a", "2020-01-01T00:00:00Z", None)).problem(410, "id-expired");
    send(&mut client, kind, &event("a", "2999-01-01T00:00:00Z", None)).problem(400, "id-from-future");
}

#[test]
fn each_event_of_a_batch_has_its_outcome() {
    let (server, now) = start();
    let mut client = server.client();
    let mut old_version = event("v", &now, None);
    old_version["specversion"] = json!("0.3");
    let mut without_subject = event("s", &now, None);
    without_subject.as_object_mut().unwrap().remove("subject");
    let mut with_base64 = event("b", &now, None);
    with_base64["data_base64"] = json!("eyJkZWx0YSI6NX0=");
    let batch = json!([
        event("a", &now, Some(2)),
        event("a", &now, Some(2)),
        event("t", "yesterday", None),
        old_version,
        without_subject,
        with_base64,
        event("d", &now, None),
        7
    ]);
    let body = send(&mut client, "application/cloudevents-batch+json", &batch).ok();
    let results = body["results"].as_array().unwrap();
    assert_eq!(column(&body["results"], "status"), [200, 200, 400, 400, 400, 400, 200, 400], "{body}");
    assert_eq!(results[1]["replayed"], true);
    let detail = results[2]["detail"].as_str().unwrap();
    assert!(detail.starts_with("`time` is \"yesterday\": a time has the form"), "{detail}");
    assert_eq!(results[3]["detail"], "`specversion` is \"0.3\", and only 1.0 is supported");
    assert_eq!(results[4]["detail"], "the event has no `subject`, which is required");
    assert_eq!(results[6]["value"], 3);
}

#[test]
fn binary_mode_has_the_event_in_headers() {
    let (server, now) = start();
    let mut client = server.client();
    let headers = [
        ("ce-specversion", "1.0"),
        ("ce-type", "click"),
        ("ce-source", "/pages"),
        ("ce-id", "bin%20%E2%82%AC"),
        ("ce-time", now.as_str()),
        ("ce-subject", "page-8"),
        ("content-type", "application/json"),
    ];
    let first = client.call("POST", PATH, &headers, b"{\"delta\": 4}").ok();
    assert_eq!(first["value"], 4);
    assert_eq!(client.call("POST", PATH, &headers, b"{\"delta\": 4}").ok()["replayed"], true);
    // The same event in structured mode.
    let mut event = event("bin €", &now, Some(4));
    event["subject"] = json!("page-8");
    assert_eq!(send(&mut client, "application/cloudevents+json", &event).ok()["replayed"], true);
    client.call("POST", PATH, &headers[..5], b"").problem(400, "bad-json");
}

#[test]
fn invalid_events_are_rejected() {
    let (server, now) = start();
    let mut client = server.client();
    send(&mut client, "application/json", &event("a", &now, None)).problem(415, "media-type");
    let kind = "application/cloudevents+json";
    let reply = client.call_with("POST", "/v1/tables/default/events", kind, event("a", &now, None));
    let detail = "the table does not accept ids of format event; it accepts uuid7";
    reply.problem_with(400, "id-invalid", detail);
    let mut wrong = event("a", &now, None);
    wrong["data"] = json!({"delta": "many"});
    send(&mut client, kind, &wrong).problem_with(400, "bad-json", "data: ");
}
