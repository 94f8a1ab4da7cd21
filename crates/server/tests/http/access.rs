//! Who may do what.

use jeton_auth::{Access, Grant, Limits, Rate, TableRule, TokenStore};
use jeton_core::Format;
use jeton_server::Metric;
use serde_json::json;

use crate::client::{Client, Reply};
use crate::harness::{Start, World, uuid};

/// Tokens by name, and the access that knows them.
struct Keys {
    book: TokenStore,
    tokens: Vec<(String, String)>,
}

impl Keys {
    fn new() -> Self {
        Self { book: TokenStore::new(), tokens: Vec::new() }
    }

    fn add(&mut self, name: &str, pattern: &str, rights: &str, limits: Limits) {
        let mut grant = Grant::new(name);
        grant.tables = vec![TableRule { pattern: pattern.parse().unwrap(), rights: rights.parse().unwrap() }];
        grant.limits = limits;
        let seed = self.tokens.len() as u8 + 1;
        let random = std::array::from_fn(|at| seed.wrapping_mul(31).wrapping_add(at as u8));
        let token = self.book.add(grant, &random, 1).unwrap();
        self.tokens.push((name.into(), token.reveal()));
    }

    fn get(&self, name: &str) -> &str {
        &self.tokens.iter().find(|(known, _)| known == name).unwrap().1
    }

    fn world(&self) -> World {
        let world = Start::default().access(Access::from_book(&self.book)).go();
        world.table("clicks", &[Format::Uuid7]);
        world.table("stock", &[Format::Uuid7, Format::Event]);
        world
    }
}

fn ask(client: &mut Client, token: Option<&str>, method: &str, path: &str, body: &str) -> Reply {
    let shown = token.map(|token| format!("Bearer {token}"));
    let kind = if path.ends_with("import") { "application/x-ndjson" } else { "application/json" };
    let mut headers = vec![("content-type", kind)];
    if let Some(shown) = &shown {
        headers.push(("authorization", shown));
    }
    client.ask(method, path, &headers, body.as_bytes())
}

#[test]
fn every_address_asks_for_its_right() {
    let mut keys = Keys::new();
    for right in ["read", "add", "admin"] {
        keys.add(right, "clicks", right, Limits::default());
    }
    let world = keys.world();
    let mut client = world.client();
    let id = || uuid();
    let add = || json!({"delta": 1, "id": id()}).to_string();
    let counter = "/v1/tables/clicks/counters/c";
    let any = "read add admin";
    let matrix = [
        ("GET", counter.to_owned(), String::new(), "read"),
        ("GET", "/v1/tables/clicks/counters".into(), String::new(), "read"),
        ("GET", "/v1/tables/clicks/counters?row=c".into(), String::new(), "read"),
        ("GET", format!("/v1/tables/clicks/operations/{}", uuid()), String::new(), "read"),
        ("GET", format!("/v1/operations/{}?table=clicks", uuid()), String::new(), "read"),
        ("GET", "/v1/tables/clicks".into(), String::new(), any),
        ("POST", format!("{counter}:add"), add(), "add"),
        ("POST", format!("{counter}:set"), json!({"value": 1, "id": id()}).to_string(), "admin"),
        ("POST", format!("{counter}:reset"), json!({"id": id()}).to_string(), "admin"),
        ("POST", format!("{counter}:delete"), json!({"id": id()}).to_string(), "admin"),
        ("POST", format!("{counter}:put"), json!({"text": "", "id": id()}).to_string(), "admin"),
        ("POST", format!("{counter}:reset"), json!({"id": id()}).to_string(), "admin"),
        (
            "POST",
            "/v1/tables/clicks/operations".into(),
            json!({"id": id(), "changes": [{"row": "c", "delta": 1}]}).to_string(),
            "add",
        ),
        (
            "POST",
            "/v1/tables/clicks/operations".into(),
            json!({"id": id(), "changes": [{"row": "c", "op": "reset"}]}).to_string(),
            "admin",
        ),
        ("PUT", "/v1/tables/clicks".into(), "{}".into(), "admin"),
        ("POST", "/v1/tables/clicks/import".into(), String::new(), "add admin"),
    ];
    for (method, path, body, allowed) in matrix {
        for right in ["read", "add", "admin"] {
            let reply = ask(&mut client, Some(keys.get(right)), method, &path, &body);
            if allowed.contains(right) {
                assert!(reply.status < 300, "{right} {method} {path}: {}", reply.text());
            } else {
                reply.problem(403, "forbidden");
            }
            // In another table it is worth nothing, whether there is one or not.
            for other in ["stock", "nowhere"] {
                let path = path.replace("clicks", other);
                let reply = ask(&mut client, Some(keys.get(right)), method, &path, &body);
                reply.problem(403, "forbidden");
            }
        }
        let reply = ask(&mut client, None, method, &path, &body);
        reply.problem(401, "unauthorized");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"jeton\""));
    }
    assert!(world.service.metrics.get(Metric::Denied) > 0);
    // Whoever has one of two rights that will do is not denied the other.
    let denied = world.service.metrics.get(Metric::Denied);
    ask(&mut client, Some(keys.get("add")), "POST", "/v1/tables/clicks/import", "");
    assert_eq!(world.service.metrics.get(Metric::Denied), denied);
}

#[test]
fn to_vote_takes_the_right_to_add_in_all_tables_and_to_settle_that_of_the_server() {
    let mut keys = Keys::new();
    for (name, pattern, rights) in
        [("one", "clicks", "add"), ("all", "*", "add"), ("admin", "*", "read admin")]
    {
        keys.add(name, pattern, rights, Limits::default());
    }
    let mut grant = Grant::new("server");
    grant.server = true;
    let token = keys.book.add(grant, &std::array::from_fn(|_| 77), 1).unwrap();
    keys.tokens.push(("server".into(), token.reveal()));
    let world = keys.world();
    let mut client = world.client();
    let both = json!({"operations": [
        {"table": "clicks", "row": "a", "delta": 1}, {"table": "stock", "row": "a", "delta": 1}
    ]})
    .to_string();
    for (name, may) in [("one", false), ("admin", false), ("server", false), ("all", true)] {
        let reply = ask(&mut client, Some(keys.get(name)), "PUT", "/v1/branches/b", &both);
        assert_eq!(reply.status, if may { 200 } else { 403 }, "{name}: {}", reply.text());
    }
    for (method, path) in
        [("GET", "/v1/branches"), ("POST", "/v1/branches/b/commit"), ("POST", "/v1/branches/c/abort")]
    {
        for name in ["one", "all", "admin"] {
            ask(&mut client, Some(keys.get(name)), method, path, "").problem(403, "forbidden");
        }
        ask(&mut client, None, method, path, "").problem(401, "unauthorized");
        ask(&mut client, Some(keys.get("server")), method, path, "").ok();
    }
}

#[test]
fn a_branch_creates_no_more_counters_than_the_token_may() {
    let mut keys = Keys::new();
    keys.add("two", "clicks", "add", Limits { counters: Some(2), ..Limits::default() });
    let world = keys.world();
    let mut client = world.client();
    let mut hold = |name: &str, rows: &[&str]| {
        let one = |row: &&str| json!({"table": "clicks", "row": row, "delta": 1});
        let body = json!({"operations": rows.iter().map(one).collect::<Vec<_>>()}).to_string();
        ask(&mut client, Some(keys.get("two")), "PUT", &format!("/v1/branches/{name}"), &body)
    };
    hold("b", &["a", "b", "c"]).problem(403, "quota");
    hold("c", &["a", "a"]).ok();
    // The same again creates nothing.
    hold("c", &["a", "a"]).ok();
    hold("d", &["b"]).ok();
    hold("e", &["c"]).problem(403, "quota");
}

#[test]
fn lists_show_what_may_be_known() {
    let mut keys = Keys::new();
    keys.add("reader", "clicks", "read", Limits::default());
    keys.add("adder", "*", "add", Limits::default());
    let world = keys.world();
    let mut client = world.client();
    let names = |reply: Reply| -> Vec<String> {
        let body = reply.ok();
        body["tables"]
            .as_array()
            .unwrap()
            .iter()
            .map(|table| table["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(ask(&mut client, Some(keys.get("reader")), "GET", "/v1/tables", "")), ["clicks"]);
    assert_eq!(
        names(ask(&mut client, Some(keys.get("adder")), "GET", "/v1/tables", "")),
        ["default", "clicks", "stock"]
    );
    // In a batch, each item asks for itself.
    let item =
        |table: &str, op: &str| json!({"table": table, "row": "c", "op": op, "delta": 1, "id": uuid()});
    let mut reset = item("clicks", "reset");
    reset.as_object_mut().unwrap().remove("delta");
    let batch = json!({"operations": [item("clicks", "add"), reset, item("nowhere", "add")]}).to_string();
    let body = ask(&mut client, Some(keys.get("adder")), "POST", "/v1/batch", &batch).ok();
    let statuses: Vec<_> =
        body["results"].as_array().unwrap().iter().map(|result| result["status"].clone()).collect();
    assert_eq!(statuses, [200, 403, 404]);
    let body = ask(&mut client, Some(keys.get("reader")), "POST", "/v1/batch", &batch).ok();
    assert_eq!(body["results"][2]["status"], 403);

    // A watcher sees the tables it may read.
    let mut watcher = world.client();
    let shown = format!("Bearer {}", keys.get("reader"));
    watcher.send("GET", "/v1/watch", &[("authorization", &shown)], b"");
    watcher.head();
    watcher.piece();
    for table in ["stock", "clicks"] {
        let body =
            json!({"delta": 1, "id": if table == "stock" { format!("uuid7:{}", uuid()) } else { uuid() }})
                .to_string();
        ask(
            &mut client,
            Some(keys.get("adder")),
            "POST",
            &format!("/v1/tables/{table}/counters/c:add"),
            &body,
        )
        .ok();
    }
    let seen = String::from_utf8(watcher.piece()).unwrap();
    assert!(seen.contains("\"table\":\"clicks\""), "{seen}");
}

#[test]
fn a_wrong_token_is_told_so_and_never_repeated() {
    let mut keys = Keys::new();
    keys.add("all", "*", "read add admin", Limits::default());
    let world = keys.world();
    let mut client = world.client();
    let good = keys.get("all").to_owned();
    let last = if good.ends_with('0') { "1" } else { "0" };
    let wrong = format!("{}{last}", &good[..good.len() - 1]);
    for token in [wrong.as_str(), "jeton_short", "hunter2"] {
        let reply = ask(&mut client, Some(token), "GET", "/v1/tables", "");
        reply.problem(401, "token-invalid");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"jeton\", error=\"invalid_token\""));
        assert!(!reply.text().contains(token), "{}", reply.text());
    }
    client.ask("GET", "/v1/tables", &[("authorization", "Basic YTpi")], b"").problem(401, "unauthorized");
    client.ask("GET", "/v1/tables", &[("authorization", &format!("bearer  {good}"))], b"").ok();
    // What is not about data wants no token.
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json", "/problems/unauthorized", "/"] {
        assert_eq!(client.get(path).status, 200, "{path}");
    }
}

#[test]
fn a_token_creates_no_more_counters_than_it_may() {
    let mut keys = Keys::new();
    keys.add("few", "*", "read add admin", Limits { counters: Some(4), ..Limits::default() });
    let world = keys.world();
    let token = Some(keys.get("few"));
    let used = || world.service.access.used()[0].counters;
    let mut client = world.client();
    let item = |row: &str| json!({"table": "clicks", "row": row, "delta": 1, "id": uuid()});
    let add = json!({"delta": 1, "id": uuid()}).to_string();
    ask(&mut client, token, "POST", "/v1/tables/clicks/counters/a:add", &add).ok();
    assert_eq!(used(), 1);
    // All or none of an operation.
    let change = |row: &str| json!({"row": row, "delta": 1, "op": "add"});
    let rows = |names: &[&str]| {
        json!({"id": uuid(), "changes": names.iter().map(|row| change(row)).collect::<Vec<_>>()}).to_string()
    };
    let path = "/v1/tables/clicks/operations";
    ask(&mut client, token, "POST", path, &rows(&["{t}1", "{t}2", "{t}3", "{t}4"])).problem(403, "quota");
    assert_eq!(used(), 1);
    ask(&mut client, token, "POST", path, &rows(&["{t}1", "{t}2"])).ok();
    assert_eq!(used(), 3);
    // Each for itself in a batch.
    let body = json!({"operations": [item("b"), item("c"), item("a"), item("b")]}).to_string();
    let results = ask(&mut client, token, "POST", "/v1/batch", &body).ok();
    let status: Vec<_> =
        results["results"].as_array().unwrap().iter().map(|one| one["status"].clone()).collect();
    assert_eq!(status, [200, 403, 200, 200], "{results}");
    assert_eq!(results["results"][1]["type"], "/problems/quota");
    let line = json!({"row": "d", "delta": 1, "id": uuid()}).to_string();
    let reply = ask(&mut client, token, "POST", "/v1/tables/clicks/import", &line);
    assert!(reply.text().contains("/problems/quota"), "{}", reply.text());
    // A retry is one, and gets its answer.
    assert_eq!(
        ask(&mut client, token, "POST", "/v1/tables/clicks/counters/a:add", &add).ok()["replayed"],
        true
    );
    assert_eq!(used(), 4);
}

#[test]
fn a_rate_is_kept_and_says_when_to_come_again() {
    let mut keys = Keys::new();
    let operations = Some(Rate { per_second: 1, burst: 3 });
    keys.add("slow", "*", "read add", Limits { operations, ..Limits::default() });
    let operations = Some(Rate { per_second: 1000, burst: 7 });
    keys.add("steady", "*", "add", Limits { operations, ..Limits::default() });
    let limits = Limits { tables: Some(1), ..Limits::default() };
    keys.add("maker", "*", "admin", limits);
    let world = keys.world();
    let mut client = world.client();
    let counter = "/v1/tables/clicks/counters/c";
    let mut token = Some(keys.get("slow"));
    for _ in 0..3 {
        ask(&mut client, token, "GET", counter, "").ok();
    }
    let body = json!({"delta": 1, "id": uuid()}).to_string();
    let reply = ask(&mut client, token, "POST", &format!("{counter}:add"), &body);
    reply.problem(429, "throttled");
    assert_eq!(reply.header("retry-after"), Some("1"));
    let rows = "row=a&row=b&row=c&row=d";
    let reply = ask(&mut client, token, "GET", &format!("/v1/tables/clicks/counters?{rows}"), "");
    reply.problem(429, "throttled");
    // More than ever allowed at once: waiting does not help, and nothing says that it would.
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!(world.service.metrics.get(Metric::Throttled), 2);

    // An import waits for its rate instead.
    token = Some(keys.get("steady"));
    let file: String =
        (0..100).map(|_| json!({"row": "i", "delta": 1, "id": uuid()}).to_string() + "\n").collect();
    let reply = ask(&mut client, token, "POST", "/v1/tables/clicks/import", &file);
    let last: serde_json::Value = serde_json::from_str(reply.text().lines().last().unwrap()).unwrap();
    assert_eq!((&last["applied"], &last["done"]), (&json!(100), &json!(true)), "{last}");

    token = Some(keys.get("maker"));
    assert_eq!(ask(&mut client, token, "PUT", "/v1/tables/one", "{}").status, 201);
    ask(&mut client, token, "PUT", "/v1/tables/two", "{}").problem(403, "quota");
    ask(&mut client, token, "PUT", "/v1/tables/one", "{}").ok();
}
