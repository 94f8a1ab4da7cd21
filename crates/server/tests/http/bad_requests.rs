//! Invalid requests.

use serde_json::json;

use crate::harness::{TestServer, uuid};

const ADD: &str = "/v1/tables/default/counters/c:add";

#[test]
fn an_invalid_body_gets_a_detailed_error() {
    let (_server, mut client) = TestServer::with_client();
    let id = uuid();
    for (body, detail) in [
        (
            "{\"detla\": 1}".to_owned(),
            "unknown member `detla`, expected one of `table`, `row`, `row_base64`, `column`, `op`, `delta`, `min`, `max`, \
             `value`, `text`, `base64`, `id` at line 1 column 8; did you mean `delta`?",
        ),
        ("{}".to_owned(), "the op \"add\" needs `delta`"),
        ("{\"delta\": 1, \"value\": 1}".to_owned(), "`value` has no meaning for the op \"add\""),
        ("{\"delta\": 1, \"op\": \"add\"}".to_owned(), "the path has table, row and op: omit `op`"),
        (
            format!("{{\"delta\": 1.5, \"id\": \"{id}\"}}"),
            "invalid type: floating point `1.5`, expected a whole number from -9223372036854775808 to 9223372036854775807 at line 1 column 13",
        ),
        (
            "{\"delta\": 1, \"delta\": 2}".to_owned(),
            "a member that is there twice: `delta` at line 1 column 20",
        ),
        ("{\"delta\": 1,}".to_owned(), "trailing comma at line 1 column 13"),
        ("[1]".to_owned(), "expected a JSON object: {...}"),
        (
            format!("{{\"delta\": 1, \"min\": 2, \"max\": 1, \"id\": \"{id}\"}}"),
            "the bounds exclude every value: min 2 is above max 1",
        ),
    ] {
        let reply = client.post(ADD, &body);
        assert_eq!(reply.status, 400);
        assert_eq!(reply.json()["detail"], detail, "{body}");
    }
    assert_eq!(client.get("/v1/tables/default/counters/c").ok()["exists"], false);
}

#[test]
fn the_content_type_is_required() {
    let (_server, mut client) = TestServer::with_client();
    let body = json!({"delta": 1, "id": uuid()}).to_string();
    let problem = client.call("POST", ADD, &[], body.as_bytes()).problem(415, "media-type");
    assert_eq!(problem["detail"], "the request has no content type: send Content-Type: application/json");
    // A form of another site could send these.
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        client.call_with("POST", ADD, kind, &body).problem(415, "media-type");
    }
    let cross = [("content-type", "application/json"), ("sec-fetch-site", "cross-site")];
    client.call("POST", ADD, &cross, body.as_bytes()).problem(403, "forbidden");
    client.call_with("POST", ADD, "application/json; charset=utf-8", &body).ok();
}

#[test]
fn unknown_paths_and_invalid_queries_are_rejected() {
    let (_server, mut client) = TestServer::with_client();
    client.get("/v2").problem(404, "not-found");
    let reply = client.call("PATCH", "/v1/tables/default", &[], b"");
    reply.problem(405, "method-not-allowed");
    assert_eq!(reply.header("allow"), Some("GET,HEAD,PUT,DELETE"));
    let misspelt = client.get("/v1/tables/default/counters?prefx=a");
    let detail =
        "The query has the unknown name `prefx`; did you mean `prefix`? Known are: row, column, prefix";
    misspelt.problem_with(400, "bad-request", detail);
    for query in
        ["limit=0", "limit=1001", "limit=x", "limit=1&limit=2", "row=a&prefix=b", "column=a:b", "prefix=%2"]
    {
        client.get(&format!("/v1/tables/default/counters?{query}")).problem(400, "bad-request");
    }
    client.post("/v1/tables/default/counters/c", json!({})).problem(404, "not-found");
    client
        .post("/v1/tables/nowhere/counters/c:add", json!({"delta": 1, "id": uuid()}))
        .problem(404, "unknown-table");
}

#[test]
fn a_token_in_the_wrong_place_is_not_repeated() {
    let (_server, mut client) = TestServer::with_client();
    let token = "jeton_0123abcd_0123456789abcdefghjkmnpqrstvwxyz";
    for reply in [
        client.get(&format!("/v1/{token}")),
        client.get(&format!("/v1/tables/{token}")),
        client.get(&format!("/v1/tables/default/counters?{token}=1")),
        client.post(ADD, json!({ token: 1 })),
    ] {
        assert!(reply.status >= 400 && !reply.text().contains("0123456789abcdefghj"), "{}", reply.text());
    }
}
