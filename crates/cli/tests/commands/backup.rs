//! `jeton backup` and `jeton restore`.

use crate::server::{Server, folder, has, run_in};

#[test]
fn a_copy_is_complete_and_can_be_served() {
    let folder = folder();
    let run = |arguments: &[&str]| run_in(folder.path(), &[], arguments);
    let server = Server::start(folder.path(), &[]);
    server.must(&["add", "home", "41"]);
    let in_use = run(&["backup", "copy", "--data", "data"]);
    assert_eq!(in_use.code, Some(1));
    has(&in_use.err, &["is in use by", &format!("process {}", server.pid()), "stop the server"]);
    assert!(!folder.path().join("copy").exists(), "nothing was begun");
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
    has(&restored.out, &["is restored and was opened", "default", "jeton serve --data again/data"]);
    let server = Server::start(&folder.path().join("again"), &[]);
    assert_eq!(server.must(&["get", "home"]), "41");
}

#[test]
fn what_is_no_complete_copy_is_not_restored_and_nothing_is_overwritten() {
    let folder = folder();
    let run = |arguments: &[&str]| run_in(folder.path(), &[], arguments);
    std::fs::create_dir_all(folder.path().join("half/log")).unwrap();
    std::fs::write(folder.path().join("half/INCOMPLETE"), "").unwrap();
    std::fs::create_dir_all(folder.path().join("full/log")).unwrap();
    for (arguments, words) in [
        (&["restore", "half", "new"][..], "never completed"),
        (&["restore", "nothing", "new"], "this is no backup"),
        (&["restore", "full", "half"], "half is not empty"),
        (&["backup", "new", "--data", "nothing"], "there is nothing to copy"),
    ] {
        let run = run(arguments);
        assert_eq!(run.code, Some(1), "{arguments:?}");
        has(&run.err, &[words, "fix: "]);
    }
    assert!(!folder.path().join("new").exists() && !folder.path().join("nothing").exists());
}
