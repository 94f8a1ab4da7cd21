//! Branches of transactions: prepare, commit, abort, list.

use jeton_core::Format;
use serde_json::{Value, json};

use crate::client::{Client, Reply};
use crate::harness::{TestServer, uuid};
use crate::watch::{event, watch};

/// The body of a branch with these additions.
fn adding(rows: &[(&str, i64)]) -> Value {
    let one = |(row, delta): &(&str, i64)| json!({"table": "stock", "row": row, "delta": delta, "min": 0});
    json!({"operations": rows.iter().map(one).collect::<Vec<_>>()})
}

fn prepare(client: &mut Client, name: &str, rows: &[(&str, i64)]) -> Reply {
    client.put(&format!("/v1/branches/{name}"), adding(rows))
}

fn finish(client: &mut Client, name: &str, how: &str) -> Reply {
    client.post(&format!("/v1/branches/{name}/{how}"), "")
}

fn names(client: &mut Client) -> Vec<String> {
    let list = client.get("/v1/branches").ok();
    assert_eq!(list["more"], false);
    let of = |branch: &Value| branch["branch"].as_str().unwrap().to_owned();
    list["branches"].as_array().unwrap().iter().map(of).collect()
}

fn start() -> (TestServer, Client) {
    TestServer::with_table("stock", &[Format::Uuid7])
}

/// Rows in several partitions.
const ROWS: [(&str, i64); 6] = [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5), ("f", 6)];

#[test]
fn a_branch_counts_after_commit_and_not_after_abort() {
    for (how, state, factor) in [("commit", "committed", 1), ("abort", "aborted", 0)] {
        let (server, mut client) = start();
        let held = prepare(&mut client, "b%201", &ROWS).ok();
        assert_eq!(held, json!({"branch": "b 1", "state": "held", "fresh": true}));
        assert_eq!(prepare(&mut client, "b%201", &ROWS).ok()["fresh"], false);
        prepare(&mut client, "b%201", &[("a", 7)]).problem(422, "id-mismatch");
        for (row, _) in ROWS {
            assert_eq!(client.value("stock", row), 0, "before commit or abort");
        }
        let server = server.restart();
        let mut client = server.client();
        assert_eq!(names(&mut client), ["b 1"]);
        let list = client.get("/v1/branches").ok();
        let listed = &list["branches"][0];
        assert_eq!(listed["operations"], 6);
        assert!(listed["age_ms"].is_u64(), "{list}");
        assert!(listed["holds"].as_array().unwrap().contains(&json!("stock/c: +3")), "{list}");
        let finished = finish(&mut client, "b%201", how).ok();
        assert_eq!(finished, json!({"branch": "b 1", "state": state, "fresh": true}));
        assert_eq!(finish(&mut client, "b%201", how).ok()["fresh"], false);
        let other = if how == "commit" { "abort" } else { "commit" };
        assert_eq!(finish(&mut client, "b%201", other).problem(409, "branch-settled")["ending"], how);
        assert_eq!(prepare(&mut client, "b%201", &ROWS).problem(409, "branch-settled")["ending"], how);
        for (row, delta) in ROWS {
            assert_eq!(client.value("stock", row), delta * factor);
        }
        assert!(names(&mut client).is_empty());
    }
}

#[test]
fn a_prepare_after_the_abort_is_rejected() {
    let (_server, mut client) = start();
    finish(&mut client, "never", "commit").problem(404, "unknown-branch");
    assert_eq!(finish(&mut client, "late", "abort").ok()["fresh"], true);
    prepare(&mut client, "late", &ROWS).problem(409, "branch-settled");
    assert!(names(&mut client).is_empty());
}

#[test]
fn after_an_abort_no_partition_is_prepared() {
    let (_server, mut client) = start();
    let mut rows = ROWS.to_vec();
    rows.push(("g", -1));
    let problem = prepare(&mut client, "b", &rows).problem(409, "beyond-bound");
    assert_eq!(problem["value"], 0);
    // The vote was no, so a commit fails, although some partitions may be prepared.
    finish(&mut client, "b", "commit").problem(404, "unknown-branch");
    finish(&mut client, "b", "abort").ok();
    assert!(names(&mut client).is_empty());
    for (row, _) in rows {
        assert_eq!(client.value("stock", row), 0);
    }
}

#[test]
fn reserved_ranges_are_not_available_to_others() {
    let (_server, mut client) = start();
    let add = "/v1/tables/stock/counters/a:add";
    client.post(add, json!({"delta": 10, "id": uuid()})).ok();
    prepare(&mut client, "b", &[("a", -8)]).ok();
    let refused = prepare(&mut client, "c", &[("a", -3)]);
    refused.problem(503, "held");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let id = uuid();
    client.post(add, json!({"delta": -3, "id": id})).problem(503, "held");
    client.post(add, json!({"delta": -2, "id": uuid()})).ok();
    client.post("/v1/tables/stock/counters/a:delete", json!({"id": uuid()})).problem(503, "held");
    finish(&mut client, "b", "abort").ok();
    assert_eq!(client.post(add, json!({"delta": -3, "id": id})).ok()["replayed"], false);
    assert_eq!(client.value("stock", "a"), 5);
}

#[test]
fn a_commit_is_published_to_the_change_feed() {
    let (server, mut client) = start();
    let mut watcher = watch(&server, "?table=stock");
    prepare(&mut client, "b", &[("a", 4), ("b", 5)]).ok();
    finish(&mut client, "b", "commit").ok();
    let mut seen: Vec<(String, i64)> = (0..2)
        .map(|_| event(&mut watcher).2)
        .map(|data| (data["row"].as_str().unwrap().to_owned(), data["value"].as_i64().unwrap()))
        .collect();
    seen.sort();
    assert_eq!(seen, [("a".to_owned(), 4), ("b".to_owned(), 5)]);
}

#[test]
fn invalid_branches_are_rejected() {
    let (_server, mut client) = start();
    let long = "x".repeat(201);
    prepare(&mut client, &long, &ROWS).problem(400, "bad-operation");
    prepare(&mut client, "b", &[]).problem(400, "bad-operation");
    prepare(&mut client, "b", &[("a", 1); 257]).problem(400, "bad-operation");
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
