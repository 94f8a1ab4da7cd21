//! Watching changes.

use serde_json::{Value, json};

use crate::client::Client;
use crate::harness::{World, uuid};

/// The next event, without comments.
pub fn event(client: &mut Client) -> (String, String, Value) {
    loop {
        let piece = String::from_utf8(client.piece()).unwrap();
        assert!(!piece.starts_with(": still here"), "nothing more comes");
        let field = |name: &str| {
            piece
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                .unwrap_or_default()
                .to_owned()
        };
        if !field("event").is_empty() {
            return (field("event"), field("id"), serde_json::from_str(&field("data")).unwrap());
        }
    }
}

pub fn watch(world: &World, query: &str) -> Client {
    let mut watcher = world.client();
    watcher.send("GET", &format!("/v1/watch{query}"), &[], b"");
    let head = watcher.head();
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    // It is said when nothing will be missed any more.
    assert_eq!(watcher.piece(), b": watching\n\n");
    watcher
}

#[test]
fn changes_are_seen_in_order_and_once() {
    let world = World::new();
    let mut watcher = watch(&world, "");
    let mut client = world.client();
    let mut slots = Vec::new();
    for at in 1..=50 {
        let (id, body) = (uuid(), "/v1/tables/default/counters/c:add");
        let reply = client.post(body, json!({"delta": 2, "id": id})).ok();
        // A retry is no change, nor is what a bound refuses.
        client.post(body, json!({"delta": 2, "id": id})).ok();
        client.post(body, json!({"delta": 2, "max": 0, "id": uuid()})).ok();
        slots.push((at * 2, format!("{}-{}", reply["partition"], reply["slot"])));
    }
    for (value, id) in slots {
        let (name, seen, data) = event(&mut watcher);
        assert_eq!((name.as_str(), seen), ("change", id));
        assert_eq!((&data["table"], &data["row"]), (&json!("default"), &json!("c")));
        assert_eq!((&data["value"], &data["value_text"]), (&json!(value), &json!(value.to_string())));
    }
}

#[test]
fn only_what_was_asked_for_is_seen() {
    let world = World::new();
    world.table("other", &[jeton_core::Format::Uuid7]);
    let mut watcher = watch(&world, "?table=other&prefix=a%2F");
    let mut client = world.client();
    for path in ["default/counters/a%2F1", "other/counters/b", "other/counters/a", "other/counters/a%2F2"] {
        client.post(&format!("/v1/tables/{path}:add"), json!({"delta": 1, "id": uuid()})).ok();
    }
    let body =
        json!({"operations": [{"table": "other", "row": "a/3", "column": "x:y", "delta": 1, "id": uuid()}]});
    client.post("/v1/batch", body).ok();
    let (_, _, data) = event(&mut watcher);
    assert_eq!((&data["table"], &data["row"]), (&json!("other"), &json!("a/2")));
    let (_, _, data) = event(&mut watcher);
    assert_eq!((&data["row"], &data["column"]), (&json!("a/3"), &json!("x:y")));
    world.client().get("/v1/watch?table=nowhere").problem(404, "unknown-table");
}

#[test]
fn who_is_too_slow_is_told_how_much_was_missed() {
    let world = World::new();
    let mut watcher = watch(&world, "");
    // Nobody reads while so much happens that neither the connection nor the server can hold it: rows are long.
    let mut client = world.client();
    let mut made = 0;
    for _ in 0..12 {
        let row = "x".repeat(1000);
        let item = |at: usize| json!({"table": "default", "row": format!("{row}{}", at % 100), "delta": 1, "id": uuid()});
        let items: Vec<Value> = (0..5000).map(item).collect();
        let body = client.post("/v1/batch", json!({"operations": items})).ok();
        let results = body["results"].as_array().unwrap();
        // So many long rows at once may be more than the log can take: what was turned away was not changed.
        made += results.iter().filter(|result| result["applied"] == true).count() as u64;
    }
    let (mut seen, mut missed) = (0, 0);
    while seen + missed < made {
        match event(&mut watcher) {
            (name, _, data) if name == "lagged" => missed += data["missed"].as_u64().unwrap(),
            _ => seen += 1,
        }
    }
    assert!(missed > 0);
    assert_eq!(seen + missed, made);
}
