//! Copies of the store, asked for while it serves.

use std::sync::atomic::{AtomicBool, Ordering};

use jeton_auth::{Access, Grant, TableRule, TokenStore, UsageFile};
use jeton_server::http;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{Client, Reply};
use crate::harness::{Start, World, uuid};

const BACKUP: &str = "/v1/admin/backup";
const ROWS: usize = 7;

/// Adds one under each id, in bursts; says what became of each.
fn add(client: &mut Client, ids: &[String]) -> Vec<Value> {
    let item = |(at, id): (usize, &String)| json!({"table": "default", "row": format!("r{}", at % ROWS), "delta": 1, "id": id});
    let items: Vec<Value> = ids.iter().enumerate().map(item).collect();
    let body = client.post("/v1/batch", json!({"operations": items})).ok();
    let results = body["results"].as_array().unwrap().clone();
    assert!(results.iter().all(|result| result["applied"] == true), "{body}");
    results
}

fn total(client: &mut Client) -> u64 {
    let rows: Vec<String> = (0..ROWS).map(|row| format!("row=r{row}")).collect();
    let body = client.get(&format!("/v1/tables/default/counters?{}", rows.join("&"))).ok();
    body["counters"].as_array().unwrap().iter().map(|counter| counter["value"].as_u64().unwrap()).sum()
}

fn ids() -> Vec<String> {
    (0..ROWS * 3).map(|_| uuid()).collect()
}

#[test]
fn a_copy_made_under_load_has_all_that_was_acknowledged_and_knows_its_ids() {
    let world = World::new();
    let before: Vec<String> = (0..10).flat_map(|_| ids()).collect();
    add(&mut world.client(), &before);
    let copy = tempfile::tempdir().unwrap();
    let (enough, asked) = (AtomicBool::new(false), AtomicBool::new(false));
    let during = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let (mut client, mut sent) = (world.client(), Vec::new());
            while !enough.load(Ordering::SeqCst) {
                let some = ids();
                add(&mut client, &some);
                sent.push(some);
                asked.store(true, Ordering::SeqCst);
            }
            sent
        });
        while !asked.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let done = world.client().post(BACKUP, json!({"to": copy.path()})).ok();
        enough.store(true, Ordering::SeqCst);
        assert_eq!(done["to"], json!(copy.path().canonicalize().unwrap()));
        assert!(done["log_entries"].as_u64().unwrap() > 0, "{done}");
        load.join().unwrap()
    });
    drop(world);

    let world = Start::default().folder(copy).go();
    let mut client = world.client();
    let held = total(&mut client);
    let known =
        |results: Vec<Value>| results.iter().filter(|result| result["replayed"] == true).count() as u64;
    assert_eq!(
        known(add(&mut client, &before)),
        before.len() as u64,
        "acknowledged before the copy was asked for"
    );
    let sent: usize = during.iter().map(Vec::len).sum();
    let of_load: u64 = during.iter().map(|some| known(add(&mut client, some))).sum();
    assert_eq!(before.len() as u64 + of_load, held, "every id that is known was counted, and no other");
    assert_eq!(total(&mut client), (before.len() + sent) as u64);
}

#[test]
fn a_copy_is_refused_where_it_may_not_be_made() {
    let root = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let world = Start::default().options(|options| options.backup_dir = Some(root.path().into())).go();
    let mut client = world.client();
    let mut ask = |body: Value| client.post(BACKUP, body);
    std::fs::create_dir(root.path().join("full")).unwrap();
    std::fs::write(root.path().join("full/file"), "").unwrap();
    for to in [root.path().join("full"), other.path().to_owned(), world.service.engine.folder().join("x")] {
        let problem = ask(json!({"to": to})).problem(409, "backup-target");
        assert!(problem["detail"].as_str().unwrap().contains(to.to_str().unwrap()), "{problem}");
    }
    ask(json!({"to": "relative"})).problem(400, "bad-request");
    ask(json!({})).problem(400, "bad-json");
    let to = root.path().join("new");
    ask(json!({"to": to, "of": other.path()})).problem(409, "backup-target");
    assert!(!to.exists() && std::fs::read_dir(other.path()).unwrap().next().is_none(), "something was begun");
    let of = world.service.engine.folder().canonicalize().unwrap();
    ask(json!({"to": to, "of": of})).ok();
    ask(json!({"to": to})).problem(409, "backup-target");
}

#[test]
fn a_copy_is_for_who_may_administer_the_server() {
    let mut book = TokenStore::new();
    let mut token = |name: &str, server: bool, seed: u8| {
        let rule = TableRule { pattern: "*".parse().unwrap(), rights: "read add admin".parse().unwrap() };
        let grant = Grant { server, tables: vec![rule], ..Grant::new(name) };
        book.add(grant, &std::array::from_fn(|at| at as u8 ^ seed), 1).unwrap().reveal()
    };
    let (user, admin) = (token("user", false, 1), token("admin", true, 2));
    let world = Start::default().access(Access::from_book(&book)).go();
    let folder = tempfile::tempdir().unwrap();
    let ask = |token: &str| -> Reply {
        let shown = format!("Bearer {token}");
        let headers = [("content-type", "application/json"), ("authorization", shown.as_str())];
        let body = json!({"to": folder.path().join("copy")}).to_string();
        world.client().ask("POST", BACKUP, &headers, body.as_bytes())
    };
    ask(&user).problem(403, "forbidden");
    assert!(!folder.path().join("copy").exists());
    ask(&admin).ok();
    let used = UsageFile::new(folder.path().join("copy").join(UsageFile::NAME)).read().unwrap();
    assert_eq!(used, world.service.access.used(), "what tokens have created is not in the copy");
}

/// Asks for a copy as if from this address.
fn asked_from(world: &World, peer: &str, to: &std::path::Path) -> String {
    let body = json!({"to": to}).to_string();
    let request = format!(
        "POST {BACKUP} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    world.block_on(async {
        let server = http::Server::new(world.service.clone());
        let (mut ours, theirs) = tokio::io::duplex(1 << 20);
        ours.write_all(request.as_bytes()).await.unwrap();
        server.serve_connection(server.place().unwrap(), theirs, peer.parse().unwrap()).await;
        let mut answer = String::new();
        ours.read_to_string(&mut answer).await.unwrap();
        answer
    })
}

#[test]
fn other_machines_ask_for_copies_only_where_that_was_foreseen() {
    let root = tempfile::tempdir().unwrap();
    let to = root.path().join("copy");
    let world = World::new();
    for peer in ["192.0.2.1:1", "[2001:db8::1]:1"] {
        let answer = asked_from(&world, peer, &to);
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert!(!to.exists());
    }
    let answer = asked_from(&world, "[::ffff:127.0.0.1]:1", &to);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let world = Start::default().options(|options| options.backup_dir = Some(root.path().into())).go();
    let answer = asked_from(&world, "192.0.2.1:1", &root.path().join("another"));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}
