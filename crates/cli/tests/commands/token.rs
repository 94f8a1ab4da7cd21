//! `jeton token`, and a server that uses the file.

use crate::program::{Run, until};
use crate::server::{Server, folder, has, run_in};

fn secret(run: &Run) -> String {
    assert_eq!(run.code, Some(0), "{}", run.err);
    let secret = run.out.trim_end().to_owned();
    assert!(
        secret.starts_with("jeton_") && secret.len() == 47 && run.out.lines().count() == 1,
        "{}",
        run.out
    );
    assert!(!run.err.contains(&secret), "a secret on standard error");
    secret
}

#[test]
fn a_running_server_reloads_tokens_and_checks_rights() {
    let folder = folder();
    let token = |arguments: &[&str]| run_in(folder.path(), &[], &[&["token"][..], arguments].concat());
    let adder = secret(&token(&["create", "--name", "adder", "--table", "default", "--right", "add"]));
    let server = Server::start(folder.path(), &["--tokens", "jeton-tokens.json"]);
    has(
        &server.greeting.join("\n"),
        &["tokens     jeton-tokens.json", "REDISCLI_AUTH=\"$JETON_TOKEN\" redis-cli"],
    );

    server.run(&["add", "home"]).fails(&["the server requires a token", "fix: set JETON_TOKEN"]);
    let with = |secret: &str, arguments: &[&str]| server.run_with(&[("JETON_TOKEN", secret)], arguments);
    assert_eq!(with(&adder, &["add", "home"]).out, "1 applied\n");
    with(&adder, &["get", "home"]).fails(&["does not have this right", "\"read\""]);
    std::fs::write(folder.path().join("secret"), format!("{adder}\n")).unwrap();
    assert_eq!(server.run(&["add", "home", "--token-file", "secret"]).out, "2 applied\n");

    let reader = secret(&token(&[
        "create",
        "--name",
        "reader",
        "--table",
        "*",
        "--right",
        "read",
        "--expires",
        "30d",
        "--rate",
        "1000",
    ]));
    until("the new token is in force", || with(&reader, &["get", "home"]).code == Some(0));
    let list = token(&["list"]).out;
    has(&list, &["adder", "add in default", "reader", "read in *", "1000/s", "never"]);
    assert!(!list.contains(&adder[15..]), "no secret");

    let rotated = secret(&token(&["rotate", "reader"]));
    until("the new secret is in force", || with(&rotated, &["get", "home"]).code == Some(0));
    assert_eq!(with(&reader, &["get", "home"]).code, Some(0), "the old secret is still valid");
    let last = secret(&token(&["rotate", "reader", "--old-for", "0s"]));
    until("the old secrets are invalid", || with(&reader, &["get", "home"]).code == Some(1));
    assert_eq!(with(&rotated, &["get", "home"]).code, Some(1));
    assert_eq!(with(&last, &["get", "home"]).code, Some(0));

    assert_eq!(token(&["revoke", "reader"]).code, Some(0));
    until("the token is revoked", || with(&last, &["get", "home"]).code == Some(1));
    has(&with(&last, &["get", "home"]).err, &["not valid"]);

    let ended = server.stop();
    for secret in [&adder, &reader, &rotated, &last] {
        let file = std::fs::read_to_string(folder.path().join("jeton-tokens.json")).unwrap();
        assert!(!ended.err.contains(&secret[15..]) && !file.contains(&secret[15..]), "a secret was written");
    }
}

#[test]
fn token_usage_survives_restart_crash_and_backup() {
    let folder = folder();
    let token = |arguments: &[&str]| run_in(folder.path(), &[], &[&["token"][..], arguments].concat());
    let few = [
        &["create", "--name", "few", "--table", "*", "--right", "add", "--right", "admin"][..],
        &["--counters-max", "3", "--tables-max", "1"],
    ];
    let few = secret(&token(&few.concat()));
    has(&token(&["list"]).out, &["1 tables, 3 counters"]);
    let start = || Server::start(folder.path(), &["--tokens", "jeton-tokens.json"]);
    let add = |server: &Server, key: &str| server.run_with(&[("JETON_TOKEN", &few)], &["add", key]);
    let table =
        |server: &Server, name: &str| server.run_with(&[("JETON_TOKEN", &few)], &["table", "create", name]);
    let used = || std::fs::read_to_string(folder.path().join("data/tokens-used.json")).unwrap_or_default();

    // A shutdown saves the usage,
    let server = start();
    assert_eq!(add(&server, "a").out, "1 applied\n");
    assert_eq!(table(&server, "mine").code, Some(0));
    assert_eq!(server.stop().code, Some(0));
    has(&used(), &["\"few\"", "\"tables\": 1", "\"counters\": 1"]);
    // and a running server saves it about every second.
    let server = start();
    assert_eq!(add(&server, "b").out, "1 applied\n");
    until("the usage is saved", || used().contains("\"counters\": 2"));
    server.signal(rustix::process::Signal::KILL);
    server.wait();
    let server = start();
    has(&table(&server, "more").err, &["this token may create 1 tables"]);
    assert_eq!(add(&server, "c").out, "1 applied\n");
    add(&server, "d").fails(&["the quota of the token is used up", "this token may create 3 counters"]);
    assert_eq!(add(&server, "a").out, "2 applied\n");
    server.stop();

    // A backup contains the usage. An unreadable file is an error.
    assert_eq!(run_in(folder.path(), &[], &["backup", "copy/data", "--data", "data"]).code, Some(0));
    let copied = std::fs::read_to_string(folder.path().join("copy/data/tokens-used.json")).unwrap();
    assert_eq!(copied, used());
    std::fs::write(folder.path().join("data/tokens-used.json"), "{").unwrap();
    let ports = ["--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let serve = ["serve", "--data", "data", "--tokens", "jeton-tokens.json"];
    run_in(folder.path(), &[], &[&serve[..], &ports].concat()).fails(&[
        "the usage of tokens is not readable",
        "tokens-used.json",
        "fix: repair",
    ]);
}

#[test]
fn errors_of_the_user_name_a_fix() {
    let folder = folder();
    let token = |arguments: &[&str]| run_in(folder.path(), &[], &[&["token"][..], arguments].concat());
    for (arguments, code, words) in [
        (&["create", "--name", "x"][..], 1, "a token needs tables"),
        (&["create", "--name", "x", "--table", "t"], 1, "a token needs tables"),
        (&["create", "--name", "x", "--table", "t", "--right", "write"], 2, "it is read, add or admin"),
        (&["create", "--name", "x", "--table", "T!", "--right", "add"], 2, "a pattern is"),
        (&["create", "--name", "x", "--table", "t", "--right", "add", "--expires", "soon"], 2, "30d"),
        (&["list"], 1, "cannot read jeton-tokens.json"),
        (&["revoke", "x"], 1, "no token named"),
        (&["rotate", "x"], 1, "no token named"),
    ] {
        let run = token(arguments);
        assert_eq!(run.code, Some(code), "{arguments:?}: {}{}", run.out, run.err);
        has(&run.err, &[words]);
        assert_eq!(run.out, "", "{arguments:?}");
    }
    let run = token(&["create", "--name", "x", "--table", "t", "--right", "add", "--json", "--server"]);
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert!(json["token"].as_str().unwrap().contains(json["id"].as_str().unwrap()));
    let json: serde_json::Value = serde_json::from_str(&token(&["list", "--json"]).out).unwrap();
    assert_eq!(json["tokens"][0]["tables"][0]["rights"], "add");
    assert_eq!(json["tokens"][0]["server"], true);
    has(&token(&["create", "--name", "x", "--table", "t", "--right", "add"]).err, &["a token named"]);
}
