//! `jeton backup` and `jeton restore`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::server::{Server, folder, has, run_in};

#[test]
fn a_backup_is_a_complete_store() {
    let folder = folder();
    let run = |arguments: &[&str]| run_in(folder.path(), &[], arguments);
    let server = Server::start(folder.path(), &[]);
    server.must(&["add", "home", "41"]);
    server.stop();

    let made = run(&["backup", "copy", "--data", "data"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    has(&made.out, &["copy is a complete copy of data"]);
    has(&run(&["backup", "copy", "--data", "data"]).err, &["is not empty"]);

    // What is written to the store after the copy is not in the copy.
    let server = Server::start(folder.path(), &[]);
    server.must(&["add", "home", "1"]);
    server.stop();

    let restored = run(&["restore", "copy", "again/data"]);
    assert_eq!(restored.code, Some(0), "{}", restored.err);
    has(&restored.out, &["is restored and opens", "default", "jeton serve --data again/data"]);
    let server = Server::start(&folder.path().join("again"), &[]);
    assert_eq!(server.must(&["get", "home"]), "41");
}

#[test]
fn a_running_server_makes_the_backup() {
    let folder = folder();
    let server = Server::start(folder.path(), &["--backup-dir", "."]);
    server.must(&["add", "home", "41"]);
    let made = server.must(&["backup", "data/../copy", "--data", "data"]);
    has(&made, &["is a complete copy of data"]);
    // The error of the server is part of the message.
    server.run(&["backup", "copy", "--data", "data"]).fails(&[
        "is in use by",
        &format!("process {}", server.pid()),
        "is not empty",
    ]);
    // A server with another store makes no copy.
    std::fs::create_dir(folder.path().join("other")).unwrap();
    let other = Server::start(&folder.path().join("other"), &[]);
    other.must(&["add", "home", "7"]);
    server
        .run(&["backup", "wrong", "--data", "other/data"])
        .fails(&["the store of this server is in", "other/data"]);
    // A server without a backup directory makes no copy.
    other.run(&["backup", "wrong", "--data", "data"]).fails(&["backup_dir", "--backup-dir"]);
    assert!(!other.folder.join("wrong").exists());
    // Without a server there is no copy.
    server.run(&["backup", "wrong", "--data", "data", "--http", "127.0.0.1:1"]).fails(&[
        "at 127.0.0.1:1",
        "fix: ",
        "--http",
    ]);
    assert!(!folder.path().join("wrong").exists(), "something was begun");

    server.must(&["add", "home", "1"]);
    let restored = run_in(folder.path(), &[], &["restore", "copy", "again/data"]);
    assert_eq!(restored.code, Some(0), "{}", restored.err);
    let copy = Server::start(&folder.path().join("again"), &[]);
    assert_eq!(copy.must(&["get", "home"]), "41");
    assert_eq!(server.must(&["get", "home"]), "42");
}

/// Asserts that only the owner can use a directory and all that is in it.
fn is_private(path: &Path) {
    let mode = std::fs::metadata(path).expect("it exists").permissions().mode() & 0o7777;
    assert_eq!(mode & 0o077, 0, "{} has mode {mode:03o}", path.display());
    for entry in std::fs::read_dir(path).into_iter().flatten() {
        is_private(&entry.expect("it is listed").path());
    }
}

#[test]
fn stores_and_backups_are_private() {
    let folder = folder();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    let server = Server::start(folder.path(), &["--backup-dir", "."]);
    server.must(&["add", "home", "1"]);
    server.must(&["backup", "copy", "--data", "data"]);
    let ended = server.stop();
    has(&ended.err, &["data (mode 755)"]);
    let restored = run_in(folder.path(), &[], &["restore", "copy", "again"]);
    assert_eq!(restored.code, Some(0), "{}", restored.err);
    for name in ["data", "copy", "again"] {
        is_private(&folder.path().join(name));
    }
}

#[test]
fn restore_rejects_incomplete_copies_and_full_targets() {
    let folder = folder();
    let run = |arguments: &[&str]| run_in(folder.path(), &[], arguments);
    std::fs::create_dir_all(folder.path().join("half/log")).unwrap();
    std::fs::write(folder.path().join("half/INCOMPLETE"), "").unwrap();
    std::fs::create_dir_all(folder.path().join("full/log")).unwrap();
    for (arguments, words) in [
        (&["restore", "half", "new"][..], "is an incomplete copy"),
        (&["restore", "nothing", "new"], "there is no backup"),
        (&["restore", "full", "half"], "half is not empty"),
        (&["backup", "new", "--data", "nothing"], "there is nothing to copy"),
    ] {
        run(arguments).fails(&[words, "fix: "]);
    }
    assert!(!folder.path().join("new").exists() && !folder.path().join("nothing").exists());
}
