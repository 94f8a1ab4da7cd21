//! Tokens, rights, quotas and rate limits.

use jeton_auth::{Access, Grant, Limits, Rate, TableRule, TokenStore};
use jeton_core::Format;
use jeton_server::Metric;
use serde_json::json;

use crate::client::{Client, Reply, assert_members, column};
use crate::harness::{Start, TestServer, uuid};

/// Tokens by name.
struct Tokens {
    store: TokenStore,
    tokens: Vec<(String, String)>,
}

impl Tokens {
    fn new() -> Self {
        Self { store: TokenStore::new(), tokens: Vec::new() }
    }

    fn add(&mut self, name: &str, pattern: &str, rights: &str, limits: Limits) {
        let mut grant = Grant::new(name);
        grant.tables = vec![TableRule { pattern: pattern.parse().unwrap(), rights: rights.parse().unwrap() }];
        grant.limits = limits;
        let seed = self.tokens.len() as u8 + 1;
        let random = std::array::from_fn(|at| seed.wrapping_mul(31).wrapping_add(at as u8));
        let token = self.store.add(grant, &random, 1).unwrap();
        self.tokens.push((name.into(), token.reveal()));
    }

    fn get(&self, name: &str) -> &str {
        &self.tokens.iter().find(|(known, _)| known == name).unwrap().1
    }

    fn server(&self) -> TestServer {
        let server = Start::default().access(Access::from_book(&self.store)).start();
        server.table("clicks", &[Format::Uuid7]);
        server.table("stock", &[Format::Uuid7, Format::Event]);
        server
    }
}

fn call(client: &mut Client, token: Option<&str>, method: &str, path: &str, body: &str) -> Reply {
    let credential = token.map(|token| format!("Bearer {token}"));
    let kind = if path.ends_with("import") { "application/x-ndjson" } else { "application/json" };
    let mut headers = vec![("content-type", kind)];
    headers.extend(credential.iter().map(|credential| ("authorization", credential.as_str())));
    client.call(method, path, &headers, body.as_bytes())
}

#[test]
fn every_path_requires_its_right() {
    let mut tokens = Tokens::new();
    for right in ["read", "add", "admin"] {
        tokens.add(right, "clicks", right, Limits::default());
    }
    let server = tokens.server();
    let mut client = server.client();
    let counter = "/v1/tables/clicks/counters/c";
    let operations = "/v1/tables/clicks/operations";
    let any = "read add admin";
    let matrix = [
        ("GET", counter.to_owned(), json!(null), "read"),
        ("GET", "/v1/tables/clicks/counters".into(), json!(null), "read"),
        ("GET", "/v1/tables/clicks/counters?row=c".into(), json!(null), "read"),
        ("GET", format!("{operations}/{}", uuid()), json!(null), "read"),
        ("GET", format!("/v1/operations/{}?table=clicks", uuid()), json!(null), "read"),
        ("GET", "/v1/tables/clicks".into(), json!(null), any),
        ("POST", format!("{counter}:add"), json!({"delta": 1, "id": uuid()}), "add"),
        ("POST", format!("{counter}:set"), json!({"value": 1, "id": uuid()}), "admin"),
        ("POST", format!("{counter}:reset"), json!({"id": uuid()}), "admin"),
        ("POST", format!("{counter}:delete"), json!({"id": uuid()}), "admin"),
        ("POST", format!("{counter}:put"), json!({"text": "", "id": uuid()}), "admin"),
        ("POST", format!("{counter}:reset"), json!({"id": uuid()}), "admin"),
        ("POST", operations.into(), json!({"id": uuid(), "changes": [{"row": "c", "delta": 1}]}), "add"),
        ("POST", operations.into(), json!({"id": uuid(), "changes": [{"row": "c", "op": "reset"}]}), "admin"),
        ("PUT", "/v1/tables/clicks".into(), json!({}), "admin"),
        ("POST", "/v1/tables/clicks/import".into(), json!(null), "add admin"),
    ];
    for (method, path, body, allowed) in matrix {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        for right in ["read", "add", "admin"] {
            let reply = call(&mut client, Some(tokens.get(right)), method, &path, &body);
            if allowed.contains(right) {
                assert!(reply.status < 300, "{right} {method} {path}: {}", reply.text());
            } else {
                reply.problem(403, "forbidden");
            }
            // The right does not apply to other tables, existing or not.
            for other in ["stock", "nowhere"] {
                let path = path.replace("clicks", other);
                let reply = call(&mut client, Some(tokens.get(right)), method, &path, &body);
                reply.problem(403, "forbidden");
            }
        }
        let reply = call(&mut client, None, method, &path, &body);
        reply.problem(401, "unauthorized");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"jeton\""));
    }
    assert!(server.service.metrics.get(Metric::Denied) > 0);
    // A client with one of two sufficient rights is not counted as denied.
    let denied = server.service.metrics.get(Metric::Denied);
    call(&mut client, Some(tokens.get("add")), "POST", "/v1/tables/clicks/import", "");
    assert_eq!(server.service.metrics.get(Metric::Denied), denied);
}

#[test]
fn prepare_and_finish_of_a_branch_require_their_rights() {
    let mut tokens = Tokens::new();
    for (name, pattern, rights) in
        [("one", "clicks", "add"), ("all", "*", "add"), ("admin", "*", "read admin")]
    {
        tokens.add(name, pattern, rights, Limits::default());
    }
    let mut grant = Grant::new("server");
    grant.server = true;
    let token = tokens.store.add(grant, &std::array::from_fn(|_| 77), 1).unwrap();
    tokens.tokens.push(("server".into(), token.reveal()));
    let server = tokens.server();
    let mut client = server.client();
    let both = json!({"operations": [
        {"table": "clicks", "row": "a", "delta": 1}, {"table": "stock", "row": "a", "delta": 1}
    ]})
    .to_string();
    for (name, may) in [("one", false), ("admin", false), ("server", false), ("all", true)] {
        let reply = call(&mut client, Some(tokens.get(name)), "PUT", "/v1/branches/b", &both);
        assert_eq!(reply.status, if may { 200 } else { 403 }, "{name}: {}", reply.text());
    }
    for (method, path) in
        [("GET", "/v1/branches"), ("POST", "/v1/branches/b/commit"), ("POST", "/v1/branches/c/abort")]
    {
        for name in ["one", "all", "admin"] {
            call(&mut client, Some(tokens.get(name)), method, path, "").problem(403, "forbidden");
        }
        call(&mut client, None, method, path, "").problem(401, "unauthorized");
        call(&mut client, Some(tokens.get("server")), method, path, "").ok();
    }
}

#[test]
fn the_counter_quota_applies_to_branches() {
    let mut tokens = Tokens::new();
    tokens.add("two", "clicks", "add", Limits { counters: Some(2), ..Limits::default() });
    let server = tokens.server();
    let mut client = server.client();
    let mut hold = |name: &str, rows: &[&str]| {
        let one = |row: &&str| json!({"table": "clicks", "row": row, "delta": 1});
        let body = json!({"operations": rows.iter().map(one).collect::<Vec<_>>()}).to_string();
        call(&mut client, Some(tokens.get("two")), "PUT", &format!("/v1/branches/{name}"), &body)
    };
    hold("b", &["a", "b", "c"]).problem(403, "quota");
    hold("c", &["a", "a"]).ok();
    // A retry creates nothing.
    hold("c", &["a", "a"]).ok();
    hold("d", &["b"]).ok();
    hold("e", &["c"]).problem(403, "quota");
}

#[test]
fn lists_batches_and_streams_are_filtered_by_rights() {
    let mut tokens = Tokens::new();
    tokens.add("reader", "clicks", "read", Limits::default());
    tokens.add("adder", "*", "add", Limits::default());
    let server = tokens.server();
    let mut client = server.client();
    let mut assert_tables = |token: &str, names: &[&str]| {
        let body = call(&mut client, Some(tokens.get(token)), "GET", "/v1/tables", "").ok();
        assert_eq!(column(&body["tables"], "name"), names);
    };
    assert_tables("reader", &["clicks"]);
    assert_tables("adder", &["default", "clicks", "stock"]);
    // Each operation of a batch requires its right.
    let item =
        |table: &str, op: &str| json!({"table": table, "row": "c", "op": op, "delta": 1, "id": uuid()});
    let mut reset = item("clicks", "reset");
    reset.as_object_mut().unwrap().remove("delta");
    let batch = json!({"operations": [item("clicks", "add"), reset, item("nowhere", "add")]}).to_string();
    let body = call(&mut client, Some(tokens.get("adder")), "POST", "/v1/batch", &batch).ok();
    assert_eq!(column(&body["results"], "status"), [200, 403, 404]);
    let body = call(&mut client, Some(tokens.get("reader")), "POST", "/v1/batch", &batch).ok();
    assert_eq!(body["results"][2]["status"], 403);

    // A stream has the tables that the client may read.
    let mut watcher = server.client();
    let shown = format!("Bearer {}", tokens.get("reader"));
    watcher.send("GET", "/v1/watch", &[("authorization", &shown)], b"");
    watcher.head();
    watcher.chunk();
    for table in ["stock", "clicks"] {
        let id = if table == "stock" { format!("uuid7:{}", uuid()) } else { uuid() };
        let body = json!({"delta": 1, "id": id}).to_string();
        let path = format!("/v1/tables/{table}/counters/c:add");
        call(&mut client, Some(tokens.get("adder")), "POST", &path, &body).ok();
    }
    let seen = String::from_utf8(watcher.chunk()).unwrap();
    assert!(seen.contains("\"table\":\"clicks\""), "{seen}");
}

#[test]
fn an_invalid_token_is_rejected_and_not_repeated() {
    let mut tokens = Tokens::new();
    tokens.add("all", "*", "read add admin", Limits::default());
    let server = tokens.server();
    let mut client = server.client();
    let good = tokens.get("all").to_owned();
    let last = if good.ends_with('0') { "1" } else { "0" };
    let wrong = format!("{}{last}", &good[..good.len() - 1]);
    for token in [wrong.as_str(), "jeton_short", "hunter2"] {
        let reply = call(&mut client, Some(token), "GET", "/v1/tables", "");
        reply.problem(401, "token-invalid");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"jeton\", error=\"invalid_token\""));
        assert!(!reply.text().contains(token), "{}", reply.text());
    }
    client.call("GET", "/v1/tables", &[("authorization", "Basic YTpi")], b"").problem(401, "unauthorized");
    client.call("GET", "/v1/tables", &[("authorization", &format!("bearer  {good}"))], b"").ok();
    // Pages, health and metrics require no token.
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json", "/problems/unauthorized", "/"] {
        assert_eq!(client.get(path).status, 200, "{path}");
    }
}

#[test]
fn the_counter_quota_applies_to_every_route() {
    let mut tokens = Tokens::new();
    tokens.add("few", "*", "read add admin", Limits { counters: Some(4), ..Limits::default() });
    let server = tokens.server();
    let token = Some(tokens.get("few"));
    let used = || server.service.access.used()[0].counters;
    let mut client = server.client();
    let item = |row: &str| json!({"table": "clicks", "row": row, "delta": 1, "id": uuid()});
    let add = json!({"delta": 1, "id": uuid()}).to_string();
    call(&mut client, token, "POST", "/v1/tables/clicks/counters/a:add", &add).ok();
    assert_eq!(used(), 1);
    // All or none of an operation.
    let change = |row: &str| json!({"row": row, "delta": 1, "op": "add"});
    let rows = |names: &[&str]| {
        json!({"id": uuid(), "changes": names.iter().map(|row| change(row)).collect::<Vec<_>>()}).to_string()
    };
    let path = "/v1/tables/clicks/operations";
    call(&mut client, token, "POST", path, &rows(&["{t}1", "{t}2", "{t}3", "{t}4"])).problem(403, "quota");
    assert_eq!(used(), 1);
    call(&mut client, token, "POST", path, &rows(&["{t}1", "{t}2"])).ok();
    assert_eq!(used(), 3);
    // The operations of a batch are charged one by one.
    let body = json!({"operations": [item("b"), item("c"), item("a"), item("b")]}).to_string();
    let results = call(&mut client, token, "POST", "/v1/batch", &body).ok();
    assert_eq!(column(&results["results"], "status"), [200, 403, 200, 200], "{results}");
    assert_eq!(results["results"][1]["type"], "/problems/quota");
    let line = json!({"row": "d", "delta": 1, "id": uuid()}).to_string();
    let reply = call(&mut client, token, "POST", "/v1/tables/clicks/import", &line);
    assert!(reply.text().contains("/problems/quota"), "{}", reply.text());
    // A retry is not charged.
    let retry = call(&mut client, token, "POST", "/v1/tables/clicks/counters/a:add", &add).ok();
    assert_eq!(retry["replayed"], true);
    assert_eq!(used(), 4);
}

#[test]
fn requests_above_the_rate_limit_get_retry_after() {
    let mut tokens = Tokens::new();
    let operations = Some(Rate { per_second: 1, burst: 3 });
    tokens.add("slow", "*", "read add", Limits { operations, ..Limits::default() });
    let operations = Some(Rate { per_second: 1000, burst: 7 });
    tokens.add("steady", "*", "add", Limits { operations, ..Limits::default() });
    let limits = Limits { tables: Some(1), ..Limits::default() };
    tokens.add("creator", "*", "admin", limits);
    let server = tokens.server();
    let mut client = server.client();
    let counter = "/v1/tables/clicks/counters/c";
    let mut token = Some(tokens.get("slow"));
    for _ in 0..3 {
        call(&mut client, token, "GET", counter, "").ok();
    }
    let body = json!({"delta": 1, "id": uuid()}).to_string();
    let reply = call(&mut client, token, "POST", &format!("{counter}:add"), &body);
    reply.problem(429, "throttled");
    assert_eq!(reply.header("retry-after"), Some("1"));
    let rows = "row=a&row=b&row=c&row=d";
    let reply = call(&mut client, token, "GET", &format!("/v1/tables/clicks/counters?{rows}"), "");
    reply.problem(429, "throttled");
    // More than the burst: a retry cannot succeed.
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!(server.service.metrics.get(Metric::Throttled), 2);

    // An import waits for its rate limit.
    token = Some(tokens.get("steady"));
    let file: String =
        (0..100).map(|_| json!({"row": "i", "delta": 1, "id": uuid()}).to_string() + "\n").collect();
    let reply = call(&mut client, token, "POST", "/v1/tables/clicks/import", &file);
    let last: serde_json::Value = serde_json::from_str(reply.text().lines().last().unwrap()).unwrap();
    assert_members(&last, json!({"applied": 100, "done": true}));

    token = Some(tokens.get("creator"));
    assert_eq!(call(&mut client, token, "PUT", "/v1/tables/one", "{}").status, 201);
    call(&mut client, token, "PUT", "/v1/tables/two", "{}").problem(403, "quota");
    call(&mut client, token, "PUT", "/v1/tables/one", "{}").ok();
}
