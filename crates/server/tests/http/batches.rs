//! Batches, operations of several changes, and the status of an id.

use jeton_core::Format;
use serde_json::{Value, json};

use crate::client::{assert_members, column};
use crate::harness::{TestServer, millis, uuid, uuid_at};

#[test]
fn each_item_of_a_batch_has_its_own_outcome() {
    let (_server, mut client) = TestServer::with_table("opaque", &[Format::Opaque]);
    let known = uuid();
    client.post("/v1/tables/default/counters/a:add", json!({"delta": 1, "id": known})).ok();
    let batch = json!([
        {"table": "default", "row": "a", "op": "add", "delta": 1, "id": known},
        {"table": "default", "row": "a", "delta": 2, "id": uuid()},
        {"table": "default", "row": "a", "delta": 9, "id": known},
        {"table": "nowhere", "row": "a", "delta": 1, "id": uuid()},
        {"table": "default", "row": "a", "delta": 1, "colum": "x:y", "id": uuid()},
        {"table": "default", "row_base64": "AP8A", "op": "set", "value": 5, "id": uuid()},
        {"table": "opaque", "row": "b", "op": "put", "text": "blue", "id": "x"},
        {"table": "opaque", "row": "b", "delta": 1},
        {"table": "default", "row": "a", "op": "reset", "delta": 1, "id": uuid()},
        {"row": "a", "delta": 1, "id": uuid()},
        {"table": "default", "row": "a", "op": "add", "id": uuid()},
        {"table": "default", "row": "a", "delta": 4, "max": 3, "id": uuid()},
    ]);
    let batch = batch.as_array().unwrap();
    let results = json!(client.batch(batch.clone()));
    let statuses = [200, 200, 422, 404, 400, 200, 200, 400, 400, 400, 400, 200];
    assert_eq!(column(&results, "status"), statuses, "{results}");
    assert_members(&results[0], json!({"replayed": true, "value": 1}));
    assert_members(&results[1], json!({"applied": true, "value": 3}));
    assert_eq!(results[2]["type"], "/problems/id-mismatch");
    assert!(results[4]["detail"].as_str().unwrap().ends_with("did you mean `column`?"), "{}", results[4]);
    assert_eq!(results[7]["type"], "/problems/id-required");
    assert_eq!(results[8]["detail"], "`delta` has no meaning for the op \"reset\"");
    assert_eq!(results[9]["detail"], "missing member `table`");
    assert_eq!(results[10]["detail"], "the op \"add\" needs `delta`");
    assert_eq!(results[11]["applied"], false);
    // The same batch again changes nothing.
    assert_eq!(client.batch(batch.clone())[1]["replayed"], true);
    assert_eq!(client.value("default", "a"), 3);
}

#[test]
fn a_batch_has_a_limit() {
    let (_server, mut client) = TestServer::with_client();
    let item = |at: usize| json!({"table": "default", "row": format!("r{at}"), "delta": 1, "id": uuid()});
    assert!(client.batch((0..10_000).map(item)).iter().all(|result| result["applied"] == true));
    let items: Vec<Value> = (0..10_001).map(item).collect();
    let problem = client.post("/v1/batch", json!({"operations": items})).problem(413, "too-large");
    assert_eq!(problem["limit"], 10_000);
    assert_eq!(client.value("default", "r7"), 1);
    let keyed = [("content-type", "application/json"), ("idempotency-key", "\"a\"")];
    client.call("POST", "/v1/batch", &keyed, b"{\"operations\":[]}").problem(400, "bad-request");
    assert_eq!(client.post("/v1/batch", "{\"operations\":[]}").ok(), json!({"results": []}));
}

#[test]
fn changes_under_one_id_are_atomic() {
    let (_server, mut client) = TestServer::with_client();
    let path = "/v1/tables/default/operations";
    let id = uuid();
    let pay = json!({"id": id, "changes": [
        {"row": "{u7}left", "op": "set", "value": 10},
        {"row": "{u7}spent", "delta": 0},
    ]});
    let body = client.post(path, &pay).ok();
    assert_members(&body, json!({"values": [10, 0], "values_text": ["10", "0"]}));
    let again = client.post(path, &pay);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.ok()["replayed"], true);
    let spend = |amount: i64| {
        json!({"id": uuid(), "changes": [
            {"row": "{u7}spent", "delta": amount},
            {"row": "{u7}left", "delta": -amount, "min": 0},
        ]})
    };
    assert_eq!(client.post(path, spend(7)).ok()["values"], json!([7, 3]));
    assert_eq!(client.post(path, spend(7)).ok()["applied"], false);
    assert_eq!(client.value("default", "%7Bu7%7Dspent"), 7);

    // Some of the rows share a partition with `r0`, which is no reason to accept them.
    for at in 1..1_000 {
        let rows = json!([{"row": "r0", "delta": 1}, {"row": format!("r{at}"), "delta": 1}]);
        let reply = client.post(path, json!({"id": uuid(), "changes": rows}));
        reply.problem_with(400, "several-routing-keys", "must have the same hash tag, as {user7}spent");
    }
    let inner = json!({"id": uuid(), "changes": [{"row": "a", "delta": 1, "id": "x"}]});
    let problem = client.post(path, inner).problem(400, "bad-json");
    assert_eq!(problem["detail"], "changes[0]: `id` belongs to the operation, not to one of its changes");
    client.post(path, json!({"id": uuid(), "changes": []})).problem(400, "bad-operation");
    let many: Vec<Value> = (0..257).map(|_| json!({"row": "a", "delta": 1})).collect();
    client.post(path, json!({"id": uuid(), "changes": many})).problem(400, "bad-operation");
}

#[test]
fn the_status_of_an_id_is_reported() {
    let (_server, mut client) = TestServer::with_table("numbered", &[Format::Sequenced]);
    let id = uuid();
    let added = client.post("/v1/tables/default/counters/c:add", json!({"delta": 3, "id": id})).ok();
    for path in [
        format!("/v1/tables/default/operations/{id}?row=c"),
        format!("/v1/operations/{id}?table=default&row=%7Bc%7Dother"),
    ] {
        let body = client.get(&path).ok();
        assert_members(&body, json!({"state": "taken", "id": id}));
        let operation = &body["operation"];
        assert_members(operation, json!({"values": [3], "applied": true}));
        assert_members(operation, json!({"slot": added["slot"], "partition": added["partition"]}));
    }
    for unused in [format!("{id}?row=d"), format!("{}?row=c", uuid())] {
        let unused = client.get(&format!("/v1/tables/default/operations/{unused}")).ok();
        assert_members(&unused, json!({"state": "not-taken", "operation": null}));
    }
    let old = client.get(&format!("/v1/operations/{}?row=c", uuid_at(millis() - 3 * 24 * 3600 * 1000))).ok();
    assert_eq!(old["state"], "forgotten");
    client.post("/v1/tables/numbered/counters/c:add", json!({"delta": 1, "id": "me/1/1"})).ok();
    let body = client.get("/v1/tables/numbered/operations/me%2F1%2F1?row=c").ok();
    assert_members(&body, json!({"state": "taken", "id": "me/1/1"}));
    client.get("/v1/tables/default/operations/nonsense?row=c").problem(400, "id-invalid");
    client.get(&format!("/v1/operations/{id}?table=nowhere&row=c")).problem(404, "unknown-table");
    for path in [format!("/v1/tables/default/operations/{id}"), format!("/v1/operations/{id}?table=default")]
    {
        client.get(&path).problem_with(400, "bad-request", "needs `row`");
    }
    client.get(&format!("/v1/operations/{id}?row=")).problem(400, "bad-operation");
}
