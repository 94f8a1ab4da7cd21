//! `jeton import`: every line counts once.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;

use crate::program::command;
use crate::server::{Server, fake_server, folder, has, run_in};

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("it is written");
}

fn with_table(folder: &Path) -> Server {
    let server = Server::start(folder, &[]);
    server.must(&["table", "create", "sales", "--format", "opaque", "--opaque-window", "1h"]);
    server
}

#[test]
fn a_file_that_is_imported_twice_counts_once() {
    let folder = folder();
    let server = with_table(folder.path());
    let mut text = String::new();
    for line in 0..1500 {
        writeln!(text, "{{\"key\": \"sales/{}\", \"delta\": {line}, \"id\": \"order-{line}\"}}", line % 3)
            .unwrap();
    }
    write(folder.path(), "orders.ndjson", &text);
    let total = || server.must(&["get", "sales/0", "sales/1", "sales/2"]);
    let sums: Vec<i64> = (0..3).map(|row| (0..1500).filter(|line| line % 3 == row).sum()).collect();
    let expected = format!("sales/0 {}\nsales/1 {}\nsales/2 {}", sums[0], sums[1], sums[2]);

    has(&server.must(&["import", "orders.ndjson"]), &["1,500 applied", "0 failed"]);
    assert_eq!(total(), expected);
    has(&server.must(&["import", "orders.ndjson"]), &["0 applied", "0 replayed", "1,500 done before"]);
    has(&server.must(&["import", "orders.ndjson", "--again"]), &["0 applied", "1,500 replayed"]);
    assert_eq!(total(), expected);

    text.push_str("{\"table\": \"sales\", \"row\": \"new\", \"id\": \"order-new\"}\n");
    write(folder.path(), "orders.ndjson", &text);
    has(&server.must(&["import", "orders.ndjson"]), &["1 applied", "1,500 done before"]);
    assert_eq!(server.must(&["get", "sales/new"]), "1");

    write(folder.path(), "orders.ndjson", &text.replacen("\"delta\": 7,", "\"delta\": 8,", 1));
    server.run(&["import", "orders.ndjson"]).fails(&["has changed since the checkpoint", "--again"]);
}

#[test]
fn derived_ids_are_the_same_in_every_run() {
    let folder = folder();
    let server = with_table(folder.path());
    // Two lines with the same text are two lines.
    write(folder.path(), "sales.csv", "row,delta\r\na,2\r\na,2\r\n\"b\",3\r\n");
    let arguments = ["import", "sales.csv", "--table", "sales"];
    has(&server.must(&arguments), &["3 applied"]);
    std::fs::remove_file(folder.path().join("sales.csv.jeton-import")).unwrap();
    let run = server.run(&arguments);
    has(&run.out, &["0 applied, 3 replayed"]);
    has(&run.err, &["remembers them for 1h"]);
    assert_eq!(server.must(&["get", "sales/a", "sales/b"]), "sales/a 4\nsales/b 3");
    has(
        &server.must(&["import", "sales.csv", "--table", "sales", "--name", "another", "--again"]),
        &["3 applied"],
    );

    server.must(&["table", "create", "both", "--format", "opaque", "--format", "uuid7"]);
    write(folder.path(), "both.csv", "key\nboth/x\n");
    has(&server.must(&["import", "both.csv"]), &["1 applied"]);

    server.must(&["table", "create", "strict"]);
    write(folder.path(), "strict.csv", "key\nstrict/x\n");
    server.run(&["import", "strict.csv"]).fails(&[
        "line 2 has no id",
        "accepts only uuid7",
        "--format opaque",
    ]);
}

#[test]
fn failed_lines_are_listed_and_sent_again() {
    let folder = folder();
    let server = with_table(folder.path());
    let text = "{\"key\": \"sales/a\", \"id\": \"1\"}\nnonsense\n\n{\"key\": \"nowhere/a\", \"id\": \"2\"}\n{\"key\": \"sales/a\", \"id\": \"3\"}\n";
    write(folder.path(), "mixed.ndjson", text);
    let run = server.run(&["import", "mixed.ndjson"]);
    assert_eq!(run.code, Some(1));
    has(&run.out, &["2 applied", "2 failed"]);
    has(&run.err, &["line 2: not JSON", "line 4: NOTABLE", "2 lines were not applied"]);

    let corrected = text
        .replace("nonsense", "{\"key\": \"sales/a\", \"delta\": 5, \"id\": \"4\"}")
        .replace("nowhere", "sales");
    write(folder.path(), "mixed.ndjson", &corrected);
    has(&server.must(&["import", "mixed.ndjson"]), &["2 applied, 0 replayed", "3 done before", "0 failed"]);
    assert_eq!(server.must(&["get", "sales/a"]), "8");
    let json: serde_json::Value =
        serde_json::from_str(&server.must(&["import", "mixed.ndjson", "--json"])).unwrap();
    assert_eq!((&json["skipped"], &json["applied"], &json["lines"]), (&5.into(), &0.into(), &5.into()));
}

#[test]
fn import_reads_a_pipe_and_rejects_a_wrong_file() {
    let folder = folder();
    let server = with_table(folder.path());
    let (resp, http) = (server.resp(), server.http());
    let mut child = command(&["import", "-", "--resp", &resp, "--http", &http])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"{\"key\": \"sales/p\", \"id\": \"1\"}\n{\"key\": \"sales/p\"}")
        .unwrap();
    let out = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    has(&out, &["2 applied"]);

    write(folder.path(), "wrong.ndjson", &"x\n".repeat(5000));
    server.run(&["import", "wrong.ndjson"]).fails(&["more than 1000 lines failed", "and 981 more"]);
    has(&server.run(&["import", "missing.ndjson"]).err, &["missing.ndjson cannot be read"]);
}

#[test]
fn an_unknown_outcome_stops_the_import() {
    let folder = folder();
    let lines = ["a", "b", "c"].map(|id| format!("{{\"key\": \"k\", \"id\": \"{id}\"}}\n"));
    write(folder.path(), "three.ndjson", &lines.concat());
    let mut ids = Vec::new();
    let (sent, received) = mpsc::channel();
    let address = fake_server(move |command| {
        ids.push(command[4].clone());
        sent.send(command[4].clone()).expect("the test receives");
        // The second operation fails once, and may have been applied.
        let is_first = ids.iter().filter(|id| *id == "b").count() == 1;
        Some(if command[4] == "b" && is_first { "-STORAGE no\r\n" } else { "*2\r\n:1\r\n+applied\r\n" })
    });
    let import = || run_in(folder.path(), &[], &["import", "three.ndjson", "--resp", &address]);
    import().fails(&["the server became unavailable during the import", "fix: run the same command again"]);
    has(&import().out, &["1 applied", "2 done before", "0 failed"]);
    assert_eq!(received.try_iter().collect::<Vec<_>>(), ["a", "b", "c", "b"]);
}
