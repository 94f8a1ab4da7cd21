//! Rows and columns of any bytes, numbers of any size, and everything else that can be done to a counter.

use serde_json::{Value, json};

use crate::harness::{World, uuid};

#[test]
fn a_row_is_any_bytes() {
    let world = World::new();
    let mut client = world.client();
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
        let body = json!({"delta": 7, "id": uuid()});
        client.post(&format!("/v1/tables/default/counters/{row}:add"), body).ok();
        let read = client.get(&format!("/v1/tables/default/counters/{row}")).ok();
        assert_eq!(read["value"], 7, "{row}");
        match text {
            Some(text) => assert_eq!(read["row"], text),
            None => assert_eq!(read["row_base64"], "AP8A"),
        }
    }
    let many = client.get("/v1/tables/default/counters?row=a/b&row=%00%ff%00&row=nobody&row=a%2Bb").ok();
    let values: Vec<&Value> = many["counters"].as_array().unwrap().iter().map(|one| &one["value"]).collect();
    assert_eq!(values, [7, 7, 0, 7]);
    assert_eq!(many["counters"][2]["exists"], false);

    let long = "x".repeat(1025);
    let problem =
        client.post(&format!("/v1/tables/default/counters/{long}:add"), json!({"delta": 1, "id": uuid()}));
    assert_eq!(problem.problem(400, "bad-operation")["detail"], "the row is longer than 1024 bytes");
    client.get("/v1/tables/default/counters/%zz").problem(400, "bad-request");
}

#[test]
fn numbers_beyond_2_to_the_53_are_exact() {
    let world = World::new();
    let mut client = world.client();
    let path = "/v1/tables/default/counters/big:add";
    let large = 9_007_199_254_740_993_i64;
    let reply = client.post(path, json!({"delta": large.to_string(), "id": uuid()}));
    assert!(reply.text().contains("\"value\":9007199254740993,"), "{}", reply.text());
    assert_eq!(reply.ok()["value_text"], "9007199254740993");
    assert_eq!(
        client.post(path, json!({"delta": large, "id": uuid()})).ok()["value_text"],
        "18014398509481986"
    );
    let set = json!({"value": i64::MIN.to_string(), "id": uuid()});
    client.post("/v1/tables/default/counters/big:set", set).ok();
    let read = client.get("/v1/tables/default/counters/big").ok();
    assert_eq!(
        (read["value"].as_i64(), &read["value_text"]),
        (Some(i64::MIN), &json!("-9223372036854775808"))
    );
    let beyond = client.post(path, "{\"delta\": 9223372036854775808}").problem(400, "bad-json");
    assert!(
        beyond["detail"].as_str().unwrap().contains("a whole number from -9223372036854775808 to"),
        "{beyond}"
    );
}

#[test]
fn set_reset_delete_and_put() {
    let world = World::new();
    let mut client = world.client();
    let base = "/v1/tables/default/counters/c";
    let mut change = |verb: &str, body: Value| client.post(&format!("{base}:{verb}"), body);
    let id = uuid();
    assert_eq!(change("set", json!({"value": 40, "id": id})).ok()["value"], 40);
    assert_eq!(change("add", json!({"delta": 2, "id": uuid()})).ok()["value"], 42);
    // A set that comes again does not set again.
    assert_eq!(change("set", json!({"value": 40, "id": id})).ok()["replayed"], true);
    assert_eq!(change("reset", json!({"id": uuid()})).ok()["value"], 0);
    assert_eq!(change("delete", json!({"id": uuid()})).ok()["value"], Value::Null);
    assert_eq!(change("put", json!({"text": "blue", "id": uuid()})).ok()["value"], Value::Null);
    change("put", json!({"id": uuid()})).problem(400, "bad-json");
    change("put", json!({"text": "a", "base64": "YQ==", "id": uuid()})).problem(400, "bad-json");
    change("put", json!({"base64": "!", "id": uuid()})).problem(400, "bad-json");
    change("append", json!({"id": uuid()})).problem(404, "not-found");
    let read = client.get(base).ok();
    assert_eq!(
        (&read["value"], &read["text"], &read["base64"]),
        (&Value::Null, &json!("blue"), &json!("Ymx1ZQ=="))
    );
    client.post(&format!("{base}:put"), json!({"base64": "AP8A", "id": uuid()})).ok();
    let read = client.get(base).ok();
    assert_eq!((read.get("text"), &read["base64"], &read["exists"]), (None, &json!("AP8A"), &json!(true)));
    // Without a body the header will do.
    let key = format!("\"{}\"", uuid());
    client.ask("POST", &format!("{base}:delete"), &[("idempotency-key", &key)], b"").ok();
    assert_eq!(client.get(base).ok()["exists"], false);
}

#[test]
fn columns_of_a_row_are_counters_of_their_own() {
    let world = World::new();
    let mut client = world.client();
    let path = "/v1/tables/default/counters/page";
    for (column, delta) in [("views:mobile", 3), ("views:desk", 4)] {
        client.post(&format!("{path}:add"), json!({"delta": delta, "column": column, "id": uuid()})).ok();
    }
    let read = client.get(&format!("{path}?column=views:mobile")).ok();
    assert_eq!((&read["value"], &read["column"]), (&json!(3), &json!("views:mobile")));
    assert_eq!(client.get(&format!("{path}?column=views%3Adesk")).ok()["value"], 4);
    assert_eq!(client.get(path).ok()["exists"], false);
    let problem = client.get(&format!("{path}?column=mobile")).problem(400, "bad-operation");
    assert_eq!(problem["detail"], "a column is written family:qualifier");
}
