//! Lists of counters by page.

use std::collections::BTreeSet;

use serde_json::json;

use crate::client::{Client, column};
use crate::harness::{TestServer, uuid};

fn fill(client: &mut Client, rows: impl Iterator<Item = String>) {
    let item = |row| json!({"table": "default", "row": row, "delta": 1, "id": uuid()});
    assert!(client.batch(rows.map(item)).iter().all(|result| result["applied"] == true));
}

fn delete(client: &mut Client, rows: std::ops::Range<usize>) {
    let item = |at| json!({"table": "default", "row": format!("row-{at}"), "op": "delete", "id": uuid()});
    assert!(client.batch(rows.map(item)).iter().all(|result| result["applied"] == true));
}

/// All rows, and the number of pages.
fn all(client: &mut Client, query: &str) -> (Vec<String>, usize) {
    let (mut rows, mut pages, mut after) = (Vec::new(), 0, String::new());
    loop {
        let page = client.get(&format!("/v1/tables/default/counters?{query}{after}")).ok();
        rows.extend(column(&page["counters"], "row").into_iter().map(|row| row.as_str().unwrap().to_owned()));
        pages += 1;
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return (rows, pages),
        }
    }
}

#[test]
fn pages_have_every_counter_once() {
    let (_server, mut client) = TestServer::with_client();
    let expected: BTreeSet<String> = (0..1000).map(|at| format!("row-{at}")).collect();
    fill(&mut client, expected.iter().cloned());
    fill(&mut client, ["other".to_owned()].into_iter());
    let (rows, pages) = all(&mut client, "prefix=row-&limit=97");
    assert_eq!((rows.len(), pages), (1000, 11));
    assert_eq!(rows.into_iter().collect::<BTreeSet<_>>(), expected);
    let (rows, pages) = all(&mut client, "limit=1000");
    assert_eq!((rows.len(), pages), (1001, 2));
    assert_eq!(all(&mut client, "prefix=row-99&limit=5").0.len(), 11);
    assert_eq!(all(&mut client, "prefix=nothing").0.len(), 0);
    // The default page has 100 counters.
    let page = client.get("/v1/tables/default/counters").ok();
    assert_eq!(page["counters"].as_array().unwrap().len(), 100);
}

#[test]
fn empty_cells_are_not_listed() {
    let (_server, mut client) = TestServer::with_client();
    fill(&mut client, (0..60).map(|at| format!("row-{at}")));
    // The list flushes them to the value store.
    assert_eq!(all(&mut client, "limit=7").0.len(), 60);
    delete(&mut client, 0..50);
    let (rows, _) = all(&mut client, "limit=7");
    assert_eq!(rows.len(), 10, "{rows:?}");
    // A counter that is deleted between two pages is not on the next one, although the value store has it.
    let first = client.get("/v1/tables/default/counters?limit=3").ok();
    delete(&mut client, 50..60);
    let next = first["next"].as_str().unwrap();
    let rest = client.get(&format!("/v1/tables/default/counters?limit=3&after={next}")).ok();
    assert_eq!(rest, json!({"counters": [], "next": null}));
}

#[test]
fn a_cursor_of_another_table_or_prefix_is_rejected() {
    let (_server, mut client) = TestServer::with_table("other", &[jeton_core::Format::Uuid7]);
    fill(&mut client, (0..30).map(|at| format!("row-{at}")));
    let page = client.get("/v1/tables/default/counters?limit=3").ok();
    let next = page["next"].as_str().unwrap();
    client.get(&format!("/v1/tables/default/counters?limit=3&after={next}")).ok();
    for query in [
        format!("/v1/tables/other/counters?after={next}"),
        format!("/v1/tables/default/counters?prefix=x&after={next}"),
        format!("/v1/tables/default/counters?after={}", &next[1..]),
        "/v1/tables/default/counters?after=AAAA".to_owned(),
        "/v1/tables/default/counters?after=%21".to_owned(),
        "/v1/tables/default/counters?after=".to_owned(),
    ] {
        client.get(&query).problem_with(400, "bad-request", "`after` is not `next` of a page");
    }
}
