//! `jeton add`, `get`, `watch` and `table`.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::sync::mpsc;

use crate::program::command;
use crate::server::{Server, fake_server, folder, has, run_in};

const ID: &str = "--id";

/// An id of today.
fn id(server: &Server) -> String {
    let json: serde_json::Value =
        serde_json::from_str(&server.must(&["add", "ids", "--json"])).expect("JSON");
    json["id"].as_str().expect("an id").to_owned()
}

#[test]
fn every_new_id_counts() {
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    let ids = server.must(&["id", "3"]);
    for (id, count) in ids.lines().zip(1..) {
        assert_eq!(server.must(&["add", "home", ID, id]), format!("{count} applied"));
    }
    assert_eq!(server.must(&["get", "home"]), "3");
    assert_eq!(server.run(&["id", "0"]).code, Some(2));
}

#[test]
fn an_id_counts_once_and_every_status_is_printed() {
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    assert_eq!(server.must(&["table", "create", "clicks"]).lines().next(), Some("clicks"));
    let first = id(&server);
    assert_eq!(server.must(&["add", "clicks/home", "5", ID, &first]), "5 applied");
    assert_eq!(server.must(&["add", "clicks/home", "5", ID, &first]), "5 replayed");
    assert_eq!(server.must(&["add", "clicks/home", "-2"]), "3 applied");
    assert_eq!(server.must(&["get", "clicks/home"]), "3");
    assert_eq!(
        server.must(&["get", "clicks/home", "clicks/none", "--default", "-1"]),
        "clicks/home 3\nclicks/none -1"
    );

    let run = server.run(&["add", "clicks/home", "6", ID, &first]);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""));
    has(&run.err, &["the id was used for another operation", "fix: "]);
    let refused = server.run(&["add", "clicks/home", "-4", "--min", "0"]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), "3 refused\n"));
    assert_eq!(server.must(&["add", "clicks/home", "-3", "--min", "0", "--max", "9"]), "0 applied");

    let json: serde_json::Value =
        serde_json::from_str(&server.must(&["add", "clicks/home", "7", "--json"])).unwrap();
    assert_eq!(
        (&json["value"], &json["status"], &json["key"]),
        (&7.into(), &"applied".into(), &"clicks/home".into())
    );

    for (arguments, words) in [
        (&["add", "nowhere/x"][..], "the table does not exist"),
        (&["add", "clicks/x", ID, "not-a-uuid"], "does not accept this id format"),
        (&["add", "clicks/"], "is not a valid key"),
        (
            &["add", "clicks/home", ID, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"],
            "older than the window of the table",
        ),
    ] {
        server.run(arguments).fails(&[words, "fix: "]);
    }
}

#[test]
fn get_distinguishes_zero_from_no_counter() {
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    assert_eq!(server.must(&["add", "zero", "0"]), "0 applied");
    assert_eq!(server.must(&["get", "zero"]), "0");
    for (arguments, out) in
        [(&["get", "nosuch"][..], "(none)\n"), (&["get", "zero", "nosuch"], "zero 0\nnosuch (none)\n")]
    {
        let run = server.run(arguments);
        assert_eq!((run.code, run.out.as_str()), (Some(1), out));
        has(&run.err, &["no such counter: nosuch", "fix: ", "--default 0"]);
    }
    assert_eq!(server.must(&["get", "nosuch", "--default", "0"]), "0");
    let run = server.run(&["get", "nosuch", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.code, &json["value"], &json["exists"]), (Some(1), &().into(), &false.into()));
    let json = server.must(&["get", "nosuch", "--json", "--default", "7"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["value"], &json["exists"]), (&7.into(), &false.into()));
}

#[test]
fn a_table_is_deleted_after_its_name_is_given_again() {
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    server.must(&["table", "create", "clicks"]);
    server.must(&["add", "clicks/home", "5"]);
    let answer = |answer: &str| {
        let mut child = command(&["table", "delete", "clicks", "--http", &server.http()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        let done = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (done.status.code(), text(done.stdout), text(done.stderr))
    };
    for other in ["", "y\n", "click\n"] {
        let (code, out, err) = answer(other);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
        has(&err, &["The table clicks has 1 counters", "nothing was deleted", "--yes"]);
    }
    assert_eq!(server.must(&["get", "clicks/home"]), "5");
    let (code, out, err) = answer("clicks\n");
    assert_eq!(code, Some(0), "{err}");
    has(&out, &["clicks is deleted", "can be used again from 20"]);
    server.run(&["get", "clicks/home"]).fails(&["the table does not exist"]);
    server
        .run(&["table", "create", "clicks"])
        .fails(&["The name belonged to a deleted table", "reserved until"]);
    server.run(&["table", "delete", "clicks"]).fails(&["does not exist"]);
    server.run(&["table", "delete", "default", "--yes"]).fails(&["default table"]);

    server.must(&["table", "create", "views"]);
    let json = server.must(&["table", "delete", "views", "--yes", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["name"], "views");
    assert_eq!(server.must(&["table", "list"]).lines().count(), 2, "a heading and the default table");
}

#[test]
fn add_reports_a_missing_server_and_an_unknown_outcome() {
    let folder = folder();
    let (commands, received) = mpsc::channel();
    // Closes the connection after each command: the outcome is unknown.
    let address = fake_server(move |command| commands.send(command.to_vec()).map_or(None, |()| None));
    let arguments = ["add", "clicks/home", "5", "--min", "-3", "--resp", &address, "--timeout", "1s"];
    run_in(folder.path(), &[], &arguments).fails(&[
        "the outcome is unknown",
        "jeton add clicks/home 5 --id 0",
        "--min -3",
    ]);
    let received: Vec<Vec<String>> = received.try_iter().collect();
    assert!(
        received.len() > 1 && received[0][0] == "JADD" && received[0][5..] == ["MIN", "-3"],
        "{received:?}"
    );
    assert!(received.iter().all(|command| *command == received[0]), "a retry has the same id: {received:?}");

    run_in(folder.path(), &[], &["get", "home", "--resp", "127.0.0.1:1"])
        .fails(&["no server responds at 127.0.0.1:1", "jeton serve"]);
}

#[test]
fn watch_prints_changes_of_a_prefix() {
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    let mut watch = command(&["watch", "default/ho", "--count", "2", "--http", &server.http()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut began = String::new();
    BufReader::new(watch.stderr.take().unwrap()).read_line(&mut began).unwrap();
    assert!(began.starts_with("watching"), "{began}");
    for (key, delta) in [("home", "5"), ("other", "1"), ("house", "-7")] {
        server.must(&["add", key, delta]);
    }
    let mut out = String::new();
    watch.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    let changes: Vec<&str> = out.lines().map(|line| line.split_once("  ").unwrap().1).collect();
    assert_eq!(changes, ["default/home  5", "default/house  -7"]);

    server.run(&["watch", "nowhere"]).fails(&["nowhere", "fix: "]);
}

#[test]
fn tables_are_created_shown_and_changed() {
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    has(
        &server.must(&[
            "table",
            "create",
            "clicks",
            "--dated-window",
            "2h",
            "--format",
            "uuid7",
            "--format",
            "ulid",
        ]),
        &["uuid7, ulid", "2h"],
    );
    server
        .run(&["table", "create", "clicks"])
        .fails(&["the table clicks already exists", "jeton table set clicks"]);
    let changed = server.must(&["table", "set", "clicks", "--durability", "relaxed"]);
    has(&changed, &["relaxed", "2h", "uuid7, ulid"]);
    server.must(&["table", "set", "clicks", "--mode", "probabilistic", "--target", "0.001"]);
    server.must(&["table", "set", "clicks", "--mode", "exact"]);
    let json: serde_json::Value =
        serde_json::from_str(&server.must(&["table", "show", "clicks", "--json"])).unwrap();
    assert_eq!(
        (&json["settings"]["mode"], &json["settings"]["durability"]),
        (&"exact".into(), &"relaxed".into())
    );
    has(&server.must(&["table", "list"]), &["NAME", "clicks", "default"]);
    for (arguments, words) in [
        (&["table", "show", "nope"][..], "there is no table nope"),
        (&["table", "set", "nope", "--skew", "1s"], "there is no table nope"),
        (&["table", "set", "clicks", "--dated-window", "soon"], "dated_window"),
        (&["table", "create", "Bad!"], "Bad!"),
    ] {
        server.run(arguments).fails(&[words, "fix: "]);
    }
}
