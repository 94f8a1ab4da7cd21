//! Tokens, rights, quotas and rate limits.

use std::time::{Duration, Instant};

use jeton_auth::{Grant, Limits, Rate};
use jeton_server::Metric;
use serde_json::{Value, json};

use crate::client::{Client, Reply, assert_members, column};
use crate::harness::{TestServer, grant, uuid};

const RIGHTS: [&str; 3] = ["read", "add", "admin"];
const ADD: &str = "/v1/tables/clicks/counters/c:add";
const IMPORT: &str = "/v1/tables/clicks/import";

/// Sends a body; none if it is null.
fn call(client: &mut Client, method: &str, path: &str, body: &Value) -> Reply {
    let media_type = if path.ends_with("import") { "application/x-ndjson" } else { "application/json" };
    client.call_with(method, path, media_type, if body.is_null() { String::new() } else { body.to_string() })
}

/// An addition of one under a new id.
fn one() -> Value {
    json!({"delta": 1, "id": uuid()})
}

#[test]
fn every_path_requires_its_right() {
    let server = TestServer::with_tokens(RIGHTS.map(|right| grant(right, "clicks", right)));
    let counter = "/v1/tables/clicks/counters/c";
    let operations = "/v1/tables/clicks/operations";
    let matrix = [
        ("GET", counter.to_owned(), json!(null), "read"),
        ("GET", "/v1/tables/clicks/counters".into(), json!(null), "read"),
        ("GET", "/v1/tables/clicks/counters?row=c".into(), json!(null), "read"),
        ("GET", format!("{operations}/{}?row=c", uuid()), json!(null), "read"),
        ("GET", format!("/v1/operations/{}?table=clicks&row=c", uuid()), json!(null), "read"),
        ("GET", "/v1/tables/clicks".into(), json!(null), "read add admin"),
        ("POST", format!("{counter}:add"), one(), "add"),
        ("POST", format!("{counter}:set"), json!({"value": 1, "id": uuid()}), "admin"),
        ("POST", format!("{counter}:reset"), json!({"id": uuid()}), "admin"),
        ("POST", format!("{counter}:delete"), json!({"id": uuid()}), "admin"),
        ("POST", format!("{counter}:put"), json!({"text": "", "id": uuid()}), "admin"),
        ("POST", format!("{counter}:reset"), json!({"id": uuid()}), "admin"),
        ("POST", operations.into(), json!({"id": uuid(), "changes": [{"row": "c", "delta": 1}]}), "add"),
        ("POST", operations.into(), json!({"id": uuid(), "changes": [{"row": "c", "op": "reset"}]}), "admin"),
        ("PUT", "/v1/tables/clicks".into(), json!({}), "admin"),
        ("POST", IMPORT.into(), json!(null), "add admin"),
        // The last: with its right, the table is gone.
        ("DELETE", "/v1/tables/clicks?confirm=clicks".into(), json!(null), "admin"),
    ];
    for (method, path, body, allowed) in matrix {
        for right in RIGHTS {
            let mut client = server.client_as(right);
            let reply = call(&mut client, method, &path, &body);
            if allowed.contains(right) {
                assert!(reply.status < 300, "{right} {method} {path}: {}", reply.text());
            } else {
                reply.problem(403, "forbidden");
            }
            // The right does not apply to other tables, existing or not.
            for other in ["stock", "nowhere"] {
                let path = path.replace("clicks", other);
                call(&mut client, method, &path, &body).problem(403, "forbidden");
            }
        }
        let reply = call(&mut server.client(), method, &path, &body);
        reply.problem(401, "unauthorized");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"jeton\""));
    }
    let denied = server.service.metrics.get(Metric::Denied);
    assert!(denied > 0);
    // A client with one of two sufficient rights is not counted as denied.
    call(&mut server.client_as("add"), "POST", IMPORT, &json!(null));
    assert_eq!(server.service.metrics.get(Metric::Denied), denied);
}

#[test]
fn prepare_and_finish_of_a_branch_require_their_rights() {
    let grants = [grant("one", "clicks", "add"), grant("all", "*", "add"), grant("admin", "*", "read admin")];
    let administrator = Grant { server: true, ..Grant::new("server") };
    let server = TestServer::with_tokens(grants.into_iter().chain([administrator]));
    let both = json!({"operations": [
        {"table": "clicks", "row": "a", "delta": 1}, {"table": "stock", "row": "a", "delta": 1}
    ]});
    for (name, status) in [("one", 403), ("admin", 403), ("server", 403), ("all", 200)] {
        let reply = server.client_as(name).put("/v1/branches/b", &both);
        assert_eq!(reply.status, status, "{name}: {}", reply.text());
    }
    for (method, path) in
        [("GET", "/v1/branches"), ("POST", "/v1/branches/b/commit"), ("POST", "/v1/branches/c/abort")]
    {
        for name in ["one", "all", "admin"] {
            call(&mut server.client_as(name), method, path, &json!(null)).problem(403, "forbidden");
        }
        call(&mut server.client(), method, path, &json!(null)).problem(401, "unauthorized");
        call(&mut server.client_as("server"), method, path, &json!(null)).ok();
    }
}

/// A server with a token of this quota, and one that may finish branches.
fn server_with_quota(counters: Option<u64>) -> TestServer {
    let limits = Limits { counters, ..Limits::default() };
    let administrator = Grant { server: true, ..Grant::new("server") };
    TestServer::with_tokens([Grant { limits, ..grant("few", "clicks", "add") }, administrator])
}

fn counters_used(server: &TestServer) -> u64 {
    server.service.access.used().iter().map(|one| one.counters).sum()
}

/// Prepares a branch that adds 1 to each row.
fn prepare(client: &mut Client, name: &str, rows: &[&str]) -> Reply {
    let one = |row: &&str| json!({"table": "clicks", "row": row, "delta": 1});
    let body = json!({"operations": rows.iter().map(one).collect::<Vec<_>>()});
    client.put(&format!("/v1/branches/{name}"), body)
}

fn finish(server: &TestServer, name: &str, end: &str) {
    server.client_as("server").post(&format!("/v1/branches/{name}/{end}"), json!({})).ok();
}

#[test]
fn the_counter_quota_applies_to_branches() {
    let server = server_with_quota(Some(2));
    let mut client = server.client_as("few");
    prepare(&mut client, "b", &["a", "b", "c"]).problem(403, "quota");
    finish(&server, "b", "abort");
    assert_eq!(counters_used(&server), 0);
    prepare(&mut client, "c", &["a", "a"]).ok();
    assert_eq!(counters_used(&server), 1);
    prepare(&mut client, "d", &["b"]).ok();
    // A retry at the quota creates nothing.
    assert_eq!(prepare(&mut client, "d", &["b"]).ok()["fresh"], false);
    prepare(&mut client, "e", &["c"]).problem(403, "quota");
    finish(&server, "d", "commit");
    assert_eq!(counters_used(&server), 2);
}

#[test]
fn a_counter_that_two_branches_create_is_charged_once() {
    let server = server_with_quota(Some(10));
    let mut client = server.client_as("few");
    for name in ["one", "two", "three"] {
        prepare(&mut client, name, &["a", name]).ok();
    }
    client.post(ADD, one()).ok();
    // Each may be the only one that commits.
    assert_eq!(counters_used(&server), 7);
    finish(&server, "one", "commit");
    finish(&server, "two", "commit");
    finish(&server, "two", "commit");
    assert_eq!(counters_used(&server), 6);
    finish(&server, "three", "abort");
    assert_eq!(counters_used(&server), 4, "a, one, two, and the row of the operation");
}

#[test]
fn counters_are_counted_without_a_quota() {
    let server = server_with_quota(None);
    let mut client = server.client_as("few");
    client.post(ADD, one()).ok();
    prepare(&mut client, "b", &["a"]).ok();
    finish(&server, "b", "commit");
    assert_eq!(counters_used(&server), 2);
}

#[test]
fn an_aborted_branch_is_refunded_once() {
    let limits = Limits { counters: Some(2), ..Limits::default() };
    let administrator = Grant { server: true, ..Grant::new("server") };
    let server = TestServer::with_tokens([Grant { limits, ..grant("two", "clicks", "add") }, administrator]);
    let used = || server.service.access.used().iter().map(|one| one.counters).sum::<u64>();
    let (mut client, mut server_client) = (server.client_as("two"), server.client_as("server"));
    let body = json!({"operations": [
        {"table": "clicks", "row": "a", "delta": 1}, {"table": "clicks", "row": "b", "delta": 1}
    ]});
    let mut finish = |name: &str, end: &str| {
        server_client.post(&format!("/v1/branches/{name}/{end}"), json!({})).ok();
    };
    client.put("/v1/branches/one", &body).ok();
    assert_eq!(used(), 2);
    finish("one", "abort");
    finish("one", "abort");
    assert_eq!(used(), 0);
    // Its name is used up: a prepare that fails is refunded.
    client.put("/v1/branches/one", &body).problem(409, "branch-settled");
    assert_eq!(used(), 0);
    client.put("/v1/branches/two", &body).ok();
    finish("two", "commit");
    assert_eq!(used(), 2);
    client.post(ADD, one()).problem(403, "quota");
}

#[test]
fn a_counter_that_two_clients_create_is_charged_once() {
    const ROWS: usize = 2_000;
    let limits = Limits { counters: Some(10_000), ..Limits::default() };
    let server = TestServer::with_tokens([Grant { limits, ..grant("many", "*", "add") }]);
    let item = |row: usize| json!({"table": "clicks", "row": format!("{row}"), "delta": 1, "id": uuid()});
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| server.client_as("many").batch((0..ROWS).map(item)));
        }
    });
    assert_eq!(server.service.access.used().iter().map(|one| one.counters).sum::<u64>(), ROWS as u64);
}

#[test]
fn a_retry_at_the_quota_gets_the_first_result() {
    let limits = Limits { counters: Some(1), ..Limits::default() };
    let server = TestServer::with_tokens([
        Grant { limits, ..grant("one", "clicks", "add") },
        grant("admin", "clicks", "read add admin"),
    ]);
    let (mut client, add) = (server.client_as("one"), one());
    client.post(ADD, &add).ok();
    server.client_as("admin").post(&ADD.replace(":add", ":delete"), json!({"id": uuid()})).ok();
    assert_eq!(client.post(ADD, &add).ok()["replayed"], true);
    client.post(ADD, one()).problem(403, "quota");
    assert_eq!(server.service.access.used().iter().map(|one| one.counters).sum::<u64>(), 1);
}

#[test]
fn lists_batches_and_streams_are_filtered_by_rights() {
    let server = TestServer::with_tokens([grant("reader", "clicks", "read"), grant("adder", "*", "add")]);
    let (mut reader, mut adder) = (server.client_as("reader"), server.client_as("adder"));
    assert_eq!(column(&reader.get("/v1/tables").ok()["tables"], "name"), ["clicks"]);
    assert_eq!(column(&adder.get("/v1/tables").ok()["tables"], "name"), ["default", "clicks", "stock"]);
    // Each operation of a batch requires its right.
    let batch = [
        json!({"table": "clicks", "row": "c", "delta": 1, "id": uuid()}),
        json!({"table": "clicks", "row": "c", "op": "reset", "id": uuid()}),
        json!({"table": "nowhere", "row": "c", "delta": 1, "id": uuid()}),
    ];
    assert_eq!(column(&json!(adder.batch(batch.clone())), "status"), [200, 403, 404]);
    assert_eq!(reader.batch(batch)[2]["status"], 403);

    // A stream has the tables that the client may read.
    reader.send("GET", "/v1/watch", &[], b"");
    reader.head();
    reader.chunk();
    let id = format!("uuid7:{}", uuid());
    adder.post("/v1/tables/stock/counters/c:add", json!({"delta": 1, "id": id})).ok();
    adder.post(ADD, one()).ok();
    let seen = String::from_utf8(reader.chunk()).unwrap();
    assert!(seen.contains("\"table\":\"clicks\""), "{seen}");
}

#[test]
fn an_invalid_token_is_rejected_and_not_repeated() {
    let server = TestServer::with_tokens([grant("all", "*", "read add admin")]);
    let mut client = server.client();
    let good = server.client_as("all").token.unwrap();
    let last = if good.ends_with('0') { "1" } else { "0" };
    let wrong = format!("{}{last}", &good[..good.len() - 1]);
    let start = Instant::now();
    for token in [wrong.as_str(), "jeton_short", "hunter2"] {
        client.token = Some(token.into());
        let reply = client.get("/v1/tables");
        reply.problem(401, "token-invalid");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"jeton\", error=\"invalid_token\""));
        assert!(!reply.text().contains(token), "{}", reply.text());
    }
    // 50 + 100 + 200 ms.
    assert!(start.elapsed() >= Duration::from_millis(350), "{:?}", start.elapsed());
    assert_eq!(server.service.metrics.get(Metric::HttpAuthFailures), 3);
    client.token = None;
    client.call("GET", "/v1/tables", &[("authorization", "Basic YTpi")], b"").problem(401, "unauthorized");
    client.call("GET", "/v1/tables", &[("authorization", &format!("bearer  {good}"))], b"").ok();
    // Pages, health and metrics require no token.
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json", "/problems/unauthorized", "/"] {
        assert_eq!(client.get(path).status, 200, "{path}");
    }
}

#[test]
fn metrics_name_only_tables_with_rights() {
    let admin = Grant { server: true, ..Grant::new("server") };
    let server = TestServer::with_tokens([grant("reader", "clicks", "read"), admin]);
    let seen = |mut client: Client| {
        let reply = client.get("/metrics");
        let text = reply.text();
        assert!(text.contains("jeton_commands_total 0"), "{text}");
        ["clicks", "stock"].map(|table| text.contains(&format!("table=\"{table}\"")))
    };
    assert_eq!(seen(server.client()), [false, false]);
    assert_eq!(seen(server.client_as("reader")), [true, false]);
    assert_eq!(seen(server.client_as("server")), [true, true]);
    let mut wrong = server.client();
    wrong.token = Some("hunter2".into());
    wrong.get("/metrics").problem(401, "token-invalid");
}

#[test]
fn the_counter_quota_applies_to_every_route() {
    let limits = Limits { counters: Some(4), ..Limits::default() };
    let server = TestServer::with_tokens([Grant { limits, ..grant("few", "*", "read add admin") }]);
    let used = || server.service.access.used()[0].counters;
    let mut client = server.client_as("few");
    let add = one();
    client.post(ADD, &add).ok();
    assert_eq!(used(), 1);
    // All or none of an operation.
    let rows = |names: &[&str]| {
        let change = |row: &&str| json!({"row": row, "delta": 1});
        json!({"id": uuid(), "changes": names.iter().map(change).collect::<Vec<_>>()})
    };
    let path = "/v1/tables/clicks/operations";
    client.post(path, rows(&["{t}1", "{t}2", "{t}3", "{t}4"])).problem(403, "quota");
    assert_eq!(used(), 1);
    client.post(path, rows(&["{t}1", "{t}2"])).ok();
    assert_eq!(used(), 3);
    // The operations of a batch are charged one by one, in the order in which the shards decide them: one of
    // two new counters is left.
    let item = |row| json!({"table": "clicks", "row": row, "delta": 1, "id": uuid()});
    let results = json!(client.batch(["b", "d", "c", "b"].map(item)));
    let statuses = column(&results, "status");
    let is_b = *statuses[0] == 200;
    let [b, d] = if is_b { [200, 403] } else { [403, 200] };
    assert_eq!(statuses, [b, d, 200, b], "{results}");
    assert_eq!(results[usize::from(is_b)]["type"], "/problems/quota");
    let reply = call(&mut client, "POST", IMPORT, &json!({"row": "e", "delta": 1, "id": uuid()}));
    assert!(reply.text().contains("/problems/quota"), "{}", reply.text());
    // A retry is not charged.
    assert_eq!(client.post(ADD, &add).ok()["replayed"], true);
    assert_eq!(used(), 4);
}

#[test]
fn requests_above_the_rate_limit_get_retry_after() {
    let limited = |name: &str, rights: &str, per_second, burst| {
        let operations = Some(Rate { per_second, burst });
        Grant { limits: Limits { operations, ..Limits::default() }, ..grant(name, "*", rights) }
    };
    let limits = Limits { tables: Some(1), ..Limits::default() };
    let creator = Grant { limits, ..grant("creator", "*", "admin") };
    let grants = [limited("slow", "read add", 1, 3), limited("steady", "add", 1000, 7), creator];
    let server = TestServer::with_tokens(grants);
    let mut client = server.client_as("slow");
    for _ in 0..3 {
        client.get("/v1/tables/clicks/counters/c").ok();
    }
    let reply = client.post(ADD, one());
    reply.problem(429, "throttled");
    assert_eq!(reply.header("retry-after"), Some("1"));
    let reply = client.get("/v1/tables/clicks/counters?row=a&row=b&row=c&row=d");
    reply.problem(429, "throttled");
    // More than the burst: a retry cannot succeed.
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!(server.service.metrics.get(Metric::Throttled), 2);

    // An import waits for its rate limit.
    let line = |_| json!({"row": "i", "delta": 1, "id": uuid()}).to_string() + "\n";
    let file: String = (0..100).map(line).collect();
    let reply = server.client_as("steady").call_with("POST", IMPORT, "application/x-ndjson", file);
    let last: Value = serde_json::from_str(reply.text().lines().last().unwrap()).unwrap();
    assert_members(&last, json!({"applied": 100, "done": true}));

    let mut creator = server.client_as("creator");
    assert_eq!(creator.put("/v1/tables/one", "{}").status, 201);
    creator.put("/v1/tables/two", "{}").problem(403, "quota");
    creator.put("/v1/tables/one", "{}").ok();
}
