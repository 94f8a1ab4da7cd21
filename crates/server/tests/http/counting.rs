//! Adding and reading.

use serde_json::json;

use crate::harness::{World, uuid};

#[test]
fn what_is_added_is_read_and_a_retry_counts_once() {
    let world = World::new();
    let mut client = world.client();
    let id = uuid();
    let path = "/v1/tables/default/counters/clicks:add";
    let first = client.post(path, json!({"delta": 3, "id": id}));
    let body = first.ok();
    assert_eq!(body["value"], 3);
    assert_eq!(body["value_text"], "3");
    assert_eq!((&body["applied"], &body["replayed"]), (&json!(true), &json!(false)));
    assert_eq!((&body["mode"], &body["durability"]), (&json!("exact"), &json!("strict")));
    assert_eq!(first.header("idempotency-replayed"), None);

    client.post(path, json!({"delta": 4, "id": uuid()})).ok();
    let again = client.post(path, json!({"delta": 3, "id": id}));
    let mut replayed = again.ok();
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(replayed["replayed"], true);
    // But for the mark, a retry gets the first answer.
    replayed["replayed"] = json!(false);
    assert_eq!(replayed, body);

    let read = client.get("/v1/tables/default/counters/clicks").ok();
    assert_eq!(read, json!({"row": "clicks", "value": 7, "value_text": "7", "exists": true}));
    let none = client.get("/v1/tables/default/counters/nobody").ok();
    assert_eq!(none, json!({"row": "nobody", "value": 0, "value_text": "0", "exists": false}));
    client.get("/v1/tables/nowhere/counters/clicks").problem(404, "unknown-table");
}
