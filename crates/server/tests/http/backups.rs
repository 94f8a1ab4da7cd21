//! Online backups.

use std::sync::atomic::{AtomicBool, Ordering};

use jeton_auth::{Grant, UsageFile};
use serde_json::{Value, json};

use crate::client::Client;
use crate::harness::{TestServer, grant, uuid};

const BACKUP: &str = "/v1/admin/backup";
const ROWS: usize = 7;

/// Adds one under each id in a batch, and returns the results.
fn add(client: &mut Client, ids: &[String]) -> Vec<Value> {
    let item = |(at, id): (usize, &String)| json!({"table": "default", "row": format!("r{}", at % ROWS), "delta": 1, "id": id});
    let results = client.batch(ids.iter().enumerate().map(item));
    assert!(results.iter().all(|result| result["applied"] == true), "{results:?}");
    results
}

fn total(client: &mut Client) -> u64 {
    let rows: Vec<String> = (0..ROWS).map(|row| format!("row=r{row}")).collect();
    let body = client.get(&format!("/v1/tables/default/counters?{}", rows.join("&"))).ok();
    body["counters"].as_array().unwrap().iter().map(|counter| counter["value"].as_u64().unwrap()).sum()
}

/// A server that makes backups below this directory.
fn with_root(root: &tempfile::TempDir) -> TestServer {
    TestServer::with_options(|options| options.backup_dir = Some(root.path().into()))
}

fn ids() -> Vec<String> {
    (0..ROWS * 3).map(|_| uuid()).collect()
}

#[test]
fn a_backup_under_load_has_all_acknowledged_operations() {
    let root = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir_in(root.path()).unwrap();
    let server = with_root(&root);
    let before: Vec<String> = (0..10).flat_map(|_| ids()).collect();
    add(&mut server.client(), &before);
    let (enough, started) = (AtomicBool::new(false), AtomicBool::new(false));
    let during = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let (mut client, mut sent) = (server.client(), Vec::new());
            while !enough.load(Ordering::SeqCst) {
                let some = ids();
                add(&mut client, &some);
                sent.push(some);
                started.store(true, Ordering::SeqCst);
            }
            sent
        });
        while !started.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let done = server.client().post(BACKUP, json!({"to": copy.path()})).ok();
        enough.store(true, Ordering::SeqCst);
        assert_eq!(done["to"], json!(copy.path().canonicalize().unwrap()));
        assert!(done["log_entries"].as_u64().unwrap() > 0, "{done}");
        load.join().unwrap()
    });
    drop(server);

    let server = TestServer::in_folder(copy);
    let mut client = server.client();
    let counted = total(&mut client);
    let known =
        |results: Vec<Value>| results.iter().filter(|result| result["replayed"] == true).count() as u64;
    assert_eq!(known(add(&mut client, &before)), before.len() as u64, "acknowledged before the backup");
    let sent: usize = during.iter().map(Vec::len).sum();
    let of_load: u64 = during.iter().map(|some| known(add(&mut client, some))).sum();
    assert_eq!(before.len() as u64 + of_load, counted, "exactly the known ids were counted");
    assert_eq!(total(&mut client), (before.len() + sent) as u64);
}

#[test]
fn a_backup_is_rejected_outside_the_allowed_directories() {
    let root = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let server = with_root(&root);
    let mut client = server.client();
    let mut backup = |body: Value| client.post(BACKUP, body);
    std::fs::create_dir(root.path().join("full")).unwrap();
    std::fs::write(root.path().join("full/file"), "").unwrap();
    for to in [
        root.path().join("full"),
        other.path().to_owned(),
        server.service.engine.local().unwrap().folder().join("x"),
    ] {
        let problem = backup(json!({"to": to})).problem(409, "backup-target");
        assert!(problem["detail"].as_str().unwrap().contains(to.to_str().unwrap()), "{problem}");
    }
    backup(json!({"to": "../new"})).problem(400, "bad-request");
    backup(json!({})).problem(400, "bad-json");
    let to = root.path().join("new");
    backup(json!({"to": to, "of": other.path()})).problem(409, "backup-target");
    assert!(!to.exists() && std::fs::read_dir(other.path()).unwrap().next().is_none(), "nothing is written");
    let of = server.service.engine.local().unwrap().folder().canonicalize().unwrap();
    backup(json!({"to": to, "of": of})).ok();
    backup(json!({"to": to})).problem(409, "backup-target");
    let done = backup(json!({"to": "relative"})).ok();
    assert_eq!(done["to"], json!(root.path().canonicalize().unwrap().join("relative")));
}

#[test]
fn a_backup_requires_the_right_to_administer() {
    let admin = Grant { server: true, ..Grant::new("admin") };
    let server = TestServer::with_tokens([grant("user", "*", "read add admin"), admin]);
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("copy");
    server.client_as("user").post(BACKUP, json!({"to": to})).problem(403, "forbidden");
    assert!(!to.exists());
    server.client_as("admin").post(BACKUP, json!({"to": to})).ok();
    let used = UsageFile::new(to.join(UsageFile::NAME)).read().unwrap();
    assert_eq!(used, server.service.access.used(), "the backup has the usage of tokens");
}

#[test]
fn a_backup_requires_a_backup_directory() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, mut client) = TestServer::with_client();
    for to in [folder.path().join("copy"), "copy".into()] {
        client.post(BACKUP, json!({"to": to})).problem_with(409, "backup-target", "backup_dir");
    }
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing is written");
}
