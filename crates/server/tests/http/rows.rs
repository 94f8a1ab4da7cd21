//! Rows and columns of any bytes, large numbers, and all kinds of change.

use serde_json::{Value, json};

use crate::client::{assert_members, column};
use crate::harness::{TestServer, uuid};

#[test]
fn a_row_may_have_any_bytes() {
    let (_server, mut client) = TestServer::with_client();
    for (row, text) in [
        ("a%2Fb", Some("a/b")),
        ("with%20space", Some("with space")),
        ("a+b", Some("a+b")),
        ("user:7", Some("user:7")),
        ("odd%3Aadd", Some("odd:add")),
        ("%E2%82%AC", Some("€")),
        ("%00%FF%00", None),
        ("%25", Some("%")),
        ("100%2525", Some("100%25")),
    ] {
        client.add(row, 7);
        let read = client.get(&format!("/v1/tables/default/counters/{row}")).ok();
        assert_eq!(read["value"], 7, "{row}");
        match text {
            Some(text) => assert_eq!(read["row"], text),
            None => assert_eq!(read["row_base64"], "AP8A"),
        }
    }
    let many = client.get("/v1/tables/default/counters?row=a/b&row=%00%ff%00&row=missing&row=a%2Bb").ok();
    assert_eq!(column(&many["counters"], "value"), [7, 7, 0, 7]);
    assert_eq!(many["counters"][2]["exists"], false);

    let long = "x".repeat(1025);
    let problem =
        client.post(&format!("/v1/tables/default/counters/{long}:add"), json!({"delta": 1, "id": uuid()}));
    assert_eq!(problem.problem(400, "bad-operation")["detail"], "the row is longer than 1024 bytes");
    client.get("/v1/tables/default/counters/%zz").problem(400, "bad-request");
}

#[test]
fn numbers_beyond_2_to_the_53_are_exact() {
    let (_server, mut client) = TestServer::with_client();
    let path = "/v1/tables/default/counters/big:add";
    let large = 9_007_199_254_740_993_i64;
    let reply = client.post(path, json!({"delta": large.to_string(), "id": uuid()}));
    assert!(reply.text().contains("\"value\":9007199254740993,"), "{}", reply.text());
    assert_eq!(reply.ok()["value_text"], "9007199254740993");
    let sum = client.post(path, json!({"delta": large, "id": uuid()})).ok();
    assert_eq!(sum["value_text"], "18014398509481986");
    let set = json!({"value": i64::MIN.to_string(), "id": uuid()});
    client.post("/v1/tables/default/counters/big:set", set).ok();
    let read = client.get("/v1/tables/default/counters/big").ok();
    assert_members(&read, json!({"value": i64::MIN, "value_text": "-9223372036854775808"}));
    let beyond = client.post(path, "{\"delta\": 9223372036854775808}");
    beyond.problem_with(400, "bad-json", "a whole number from -9223372036854775808 to");
}

#[test]
fn set_reset_delete_and_put_change_a_cell() {
    let (_server, mut client) = TestServer::with_client();
    let base = "/v1/tables/default/counters/c";
    let mut change = |verb: &str, body: Value| client.post(&format!("{base}:{verb}"), body);
    let id = uuid();
    assert_eq!(change("set", json!({"value": 40, "id": id})).ok()["value"], 40);
    assert_eq!(change("add", json!({"delta": 2, "id": uuid()})).ok()["value"], 42);
    // A retry does not set again.
    assert_eq!(change("set", json!({"value": 40, "id": id})).ok()["replayed"], true);
    assert_eq!(change("reset", json!({"id": uuid()})).ok()["value"], 0);
    assert_eq!(change("delete", json!({"id": uuid()})).ok()["value"], Value::Null);
    assert_eq!(change("put", json!({"text": "blue", "id": uuid()})).ok()["value"], Value::Null);
    change("put", json!({"id": uuid()})).problem(400, "bad-json");
    change("put", json!({"text": "a", "base64": "YQ==", "id": uuid()})).problem(400, "bad-json");
    change("put", json!({"base64": "!", "id": uuid()})).problem(400, "bad-json");
    change("append", json!({"id": uuid()})).problem(404, "not-found");
    let read = client.get(base).ok();
    assert_members(&read, json!({"value": null, "text": "blue", "base64": "Ymx1ZQ=="}));
    client.post(&format!("{base}:put"), json!({"base64": "AP8A", "id": uuid()})).ok();
    let read = client.get(base).ok();
    assert_eq!((read.get("text"), &read["base64"], &read["exists"]), (None, &json!("AP8A"), &json!(true)));
    // With the id in the header, the body may be empty.
    let key = format!("\"{}\"", uuid());
    client.call("POST", &format!("{base}:delete"), &[("idempotency-key", &key)], b"").ok();
    assert_eq!(client.get(base).ok()["exists"], false);
}

#[test]
fn columns_of_a_row_are_counters_of_their_own() {
    let (_server, mut client) = TestServer::with_client();
    let path = "/v1/tables/default/counters/page";
    for (column, delta) in [("views:mobile", 3), ("views:desk", 4)] {
        client.post(&format!("{path}:add"), json!({"delta": delta, "column": column, "id": uuid()})).ok();
    }
    let read = client.get(&format!("{path}?column=views:mobile")).ok();
    assert_members(&read, json!({"value": 3, "column": "views:mobile"}));
    assert_eq!(client.get(&format!("{path}?column=views%3Adesk")).ok()["value"], 4);
    assert_eq!(client.get(path).ok()["exists"], false);
    let problem = client.get(&format!("{path}?column=mobile")).problem(400, "bad-operation");
    assert_eq!(problem["detail"], "a column is written family:qualifier");
}
