//! Branches of transactions: held, settled, listed.

use jeton_core::Format;
use serde_json::{Value, json};

use crate::client::{Client, Reply};
use crate::harness::{World, uuid};
use crate::watch::{event, watch};

/// Additions to the counters of these rows, which are in several partitions.
fn adding(rows: &[(&str, i64)]) -> Value {
    let one = |(row, delta): &(&str, i64)| json!({"table": "stock", "row": row, "delta": delta, "min": 0});
    json!({"operations": rows.iter().map(one).collect::<Vec<_>>()})
}

fn hold(client: &mut Client, name: &str, rows: &[(&str, i64)]) -> Reply {
    client.put(&format!("/v1/branches/{name}"), adding(rows))
}

fn settle(client: &mut Client, name: &str, how: &str) -> Reply {
    client.post(&format!("/v1/branches/{name}/{how}"), "")
}

fn value(client: &mut Client, row: &str) -> i64 {
    client.get(&format!("/v1/tables/stock/counters/{row}")).ok()["value"].as_i64().unwrap_or(0)
}

fn names(client: &mut Client) -> Vec<String> {
    let list = client.get("/v1/branches").ok();
    assert_eq!(list["more"], false);
    let of = |branch: &Value| branch["branch"].as_str().unwrap().to_owned();
    list["branches"].as_array().unwrap().iter().map(of).collect()
}

fn stocked() -> World {
    let world = World::new();
    world.table("stock", &[Format::Uuid7]);
    world
}

/// Rows of many partitions, so that a branch has parts in most places.
const ROWS: [(&str, i64); 6] = [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5), ("f", 6)];

#[test]
fn a_branch_counts_everywhere_when_it_is_committed_and_nowhere_when_it_is_aborted() {
    for (how, state, factor) in [("commit", "committed", 1), ("abort", "aborted", 0)] {
        let world = stocked();
        let mut client = world.client();
        let held = hold(&mut client, "b%201", &ROWS).ok();
        assert_eq!(held, json!({"branch": "b 1", "state": "held", "fresh": true}));
        assert_eq!(hold(&mut client, "b%201", &ROWS).ok()["fresh"], false);
        hold(&mut client, "b%201", &[("a", 7)]).problem(422, "id-mismatch");
        for (row, _) in ROWS {
            assert_eq!(value(&mut client, row), 0, "before it is settled");
        }
        let world = world.restart();
        let mut client = world.client();
        assert_eq!(names(&mut client), ["b 1"]);
        let list = client.get("/v1/branches").ok();
        let listed = &list["branches"][0];
        assert_eq!(listed["operations"], 6);
        assert!(listed["age_ms"].is_u64(), "{list}");
        assert!(listed["holds"].as_array().unwrap().contains(&json!("stock/c: +3")), "{list}");
        let settled = settle(&mut client, "b%201", how).ok();
        assert_eq!(settled, json!({"branch": "b 1", "state": state, "fresh": true}));
        assert_eq!(settle(&mut client, "b%201", how).ok()["fresh"], false);
        let other = if how == "commit" { "abort" } else { "commit" };
        assert_eq!(settle(&mut client, "b%201", other).problem(409, "branch-settled")["ending"], how);
        assert_eq!(hold(&mut client, "b%201", &ROWS).problem(409, "branch-settled")["ending"], how);
        for (row, delta) in ROWS {
            assert_eq!(value(&mut client, row), delta * factor);
        }
        assert!(names(&mut client).is_empty());
    }
}

#[test]
fn an_abort_that_overtakes_its_vote_keeps_it_out() {
    let world = stocked();
    let mut client = world.client();
    settle(&mut client, "never", "commit").problem(404, "unknown-branch");
    assert_eq!(settle(&mut client, "late", "abort").ok()["fresh"], true);
    hold(&mut client, "late", &ROWS).problem(409, "branch-settled");
    assert!(names(&mut client).is_empty());
}

#[test]
fn what_one_partition_refuses_is_held_nowhere_after_the_abort() {
    let world = stocked();
    let mut client = world.client();
    let mut rows = ROWS.to_vec();
    rows.push(("g", -1));
    let problem = hold(&mut client, "b", &rows).problem(409, "beyond-bound");
    assert_eq!(problem["value"], 0);
    // It never voted yes, so nobody can commit it, though parts of it may be held.
    settle(&mut client, "b", "commit").problem(404, "unknown-branch");
    settle(&mut client, "b", "abort").ok();
    assert!(names(&mut client).is_empty());
    for (row, _) in rows {
        assert_eq!(value(&mut client, row), 0);
    }
}

#[test]
fn what_is_held_is_kept_from_others() {
    let world = stocked();
    let mut client = world.client();
    let add = "/v1/tables/stock/counters/a:add";
    client.post(add, json!({"delta": 10, "id": uuid()})).ok();
    hold(&mut client, "b", &[("a", -8)]).ok();
    let passing = hold(&mut client, "c", &[("a", -3)]);
    passing.problem(503, "held");
    assert_eq!(passing.header("retry-after"), Some("1"));
    let id = uuid();
    client.post(add, json!({"delta": -3, "id": id})).problem(503, "held");
    client.post(add, json!({"delta": -2, "id": uuid()})).ok();
    client.post("/v1/tables/stock/counters/a:delete", json!({"id": uuid()})).problem(503, "held");
    settle(&mut client, "b", "abort").ok();
    assert_eq!(client.post(add, json!({"delta": -3, "id": id})).ok()["replayed"], false);
    assert_eq!(value(&mut client, "a"), 5);
}

#[test]
fn a_commit_is_seen_by_those_who_watch() {
    let world = stocked();
    let mut watcher = watch(&world, "?table=stock");
    let mut client = world.client();
    hold(&mut client, "b", &[("a", 4), ("b", 5)]).ok();
    settle(&mut client, "b", "commit").ok();
    let mut seen: Vec<(String, i64)> = (0..2)
        .map(|_| event(&mut watcher).2)
        .map(|data| (data["row"].as_str().unwrap().to_owned(), data["value"].as_i64().unwrap()))
        .collect();
    seen.sort();
    assert_eq!(seen, [("a".to_owned(), 4), ("b".to_owned(), 5)]);
}

#[test]
fn what_cannot_be_a_branch_is_refused() {
    let world = stocked();
    let mut client = world.client();
    let long = "x".repeat(201);
    hold(&mut client, &long, &ROWS).problem(400, "bad-operation");
    hold(&mut client, "b", &[]).problem(400, "bad-operation");
    hold(&mut client, "b", &[("a", 1); 257]).problem(400, "bad-operation");
    for (body, problem) in [
        (json!({"operations": [{"row": "a", "delta": 1}]}), "bad-json"),
        (json!({"operations": [{"table": "stock", "row": "a", "op": "reset"}]}), "bad-json"),
        (json!({"operations": [{"table": "stock", "row": "a", "delta": 1, "id": "x"}]}), "bad-json"),
        (
            json!({"operations": [{"table": "stock", "row": "a", "delta": 1, "min": 2, "max": 1}]}),
            "bad-operation",
        ),
    ] {
        client.put("/v1/branches/b", body).problem(400, problem);
    }
    let nowhere = json!({"operations": [{"table": "nowhere", "row": "a", "delta": 1}]});
    client.put("/v1/branches/b", nowhere).problem(404, "unknown-table");
    assert!(names(&mut client).is_empty());
}
