//! `jeton doctor`.

use std::os::unix::fs::PermissionsExt;

use crate::server::{Server, folder, has, run_in};

const PORTS: [&str; 4] = ["--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"];

#[test]
fn doctor_passes_on_this_machine_and_leaves_no_files() {
    let folder = folder();
    let run = run_in(folder.path(), &[], &[&["doctor"][..], &PORTS].concat());
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.err);
    for about in [
        "settings",
        "data",
        "free space",
        "file system",
        "sync",
        "clock",
        "tokens",
        "resp",
        "http",
        "open files",
    ] {
        assert!(run.out.lines().any(|line| line[6..].starts_with(about)), "{about} is not in:\n{}", run.out);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");

    let run = run_in(folder.path(), &[], &[&["doctor", "--json"][..], &PORTS].concat());
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert!(json["checks"].as_array().unwrap().iter().all(|check| check["level"] != "fail"), "{json}");
}

#[test]
fn doctor_fails_with_a_fix() {
    let folder = folder();
    std::fs::write(folder.path().join("tokens.json"), "{}").unwrap();
    std::fs::set_permissions(folder.path().join("tokens.json"), std::fs::Permissions::from_mode(0o644))
        .unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    for (more, words) in [
        (&["--resp", "0.0.0.0:0", "--http", "127.0.0.1:0"][..], "without tokens"),
        (&["--tokens", "tokens.json"], "chmod 600"),
        (&["--resp-tls", "127.0.0.1:0"], "TLS needs a certificate"),
        (&["--shards", "1000"], "shards must be"),
        (&["--data", "file/below"], "cannot be written"),
        (&["--log-level", "loud"], "error, warn, info"),
    ] {
        let run = run_in(folder.path(), &[], &[&["doctor"][..], more].concat());
        assert_eq!(run.code, Some(1), "{more:?}\n{}", run.out);
        has(&run.out, &["fail ", words, "fix: "]);
    }
}

#[test]
fn doctor_accepts_a_running_server() {
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    let (resp, http) = (server.resp(), server.http());
    let run = run_in(folder.path(), &[], &["doctor", "--data", "data", "--resp", &resp, "--http", &http]);
    assert_eq!(run.code, Some(0), "{}", run.out);
    has(&run.out, &[&format!("process {}", server.pid()), "is in use by the running server"]);
    let run = run_in(folder.path(), &[], &["doctor", "--data", "other", "--resp", &resp, "--http", &http]);
    assert_eq!(run.code, Some(1), "another process has the address:\n{}", run.out);
}
