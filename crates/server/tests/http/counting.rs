//! Additions and reads.

use serde_json::json;

use crate::client::assert_members;
use crate::harness::{TestServer, uuid};

#[test]
fn a_retry_counts_once() {
    let (_server, mut client) = TestServer::with_client();
    let id = uuid();
    let path = "/v1/tables/default/counters/clicks:add";
    let first = client.post(path, json!({"delta": 3, "id": id}));
    let body = first.ok();
    assert_members(&body, json!({"value": 3, "value_text": "3"}));
    assert_members(&body, json!({"applied": true, "replayed": false}));
    assert_members(&body, json!({"mode": "exact", "durability": "strict"}));
    assert_eq!(first.header("idempotency-replayed"), None);

    client.post(path, json!({"delta": 4, "id": uuid()})).ok();
    let again = client.post(path, json!({"delta": 3, "id": id}));
    let mut replayed = again.ok();
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(replayed["replayed"], true);
    // Except for `replayed`, a retry gets the first response.
    replayed["replayed"] = json!(false);
    assert_eq!(replayed, body);

    let read = client.get("/v1/tables/default/counters/clicks").ok();
    assert_eq!(read, json!({"row": "clicks", "value": 7, "value_text": "7", "exists": true}));
    let none = client.get("/v1/tables/default/counters/missing").ok();
    assert_eq!(none, json!({"row": "missing", "value": 0, "value_text": "0", "exists": false}));
    client.get("/v1/tables/nowhere/counters/clicks").problem(404, "unknown-table");
}
