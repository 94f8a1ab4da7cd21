//! `jeton config`.

use crate::server::{folder, has, run_in};

#[test]
fn config_prints_the_origin_of_every_value() {
    let folder = folder();
    std::fs::write(folder.path().join("jeton.toml"), "shards = 3\nlog_level = \"debug\"\n").unwrap();
    let variables = [("JETON_LOG_LEVEL", "warn"), ("JETON_CONNECTIONS_MAX", "77")];
    let run = run_in(folder.path(), &variables, &["config", "--connections-max", "99", "--insecure"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let line = |key: &str| {
        let line = run.out.lines().find(|line| line.starts_with(&format!("{key} "))).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("connections_max"), "connections_max 99 flag --connections-max");
    assert_eq!(line("log_level"), "log_level warn environment JETON_LOG_LEVEL");
    assert_eq!(line("shards"), "shards 3 jeton.toml line 1");
    assert_eq!(line("data"), "data jeton-data default");
    assert_eq!(line("insecure"), "insecure true flag --insecure");

    let run = run_in(folder.path(), &variables, &["config", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json["connections_max"]["value"], "77");
    assert_eq!(json["connections_max"]["source"], "environment");
    assert_eq!(json["shards"]["place"], "jeton.toml:1");
}

#[test]
fn the_example_file_is_valid() {
    let folder = folder();
    let example = run_in(folder.path(), &[], &["config", "--example"]).out;
    std::fs::write(folder.path().join("mine.toml"), example.replace("# shards =", "shards =")).unwrap();
    let run = run_in(folder.path(), &[], &["config", "--config", "mine.toml"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    has(&run.out, &["mine.toml line"]);
}

#[test]
fn a_mistyped_key_fails_every_command() {
    let folder = folder();
    std::fs::write(folder.path().join("jeton.toml"), "adress = 1\ndta = \"x\"\n").unwrap();
    for arguments in [&["config"][..], &["serve"], &["token", "list"], &["backup", "x"]] {
        run_in(folder.path(), &[], arguments).fails(&[
            "jeton.toml line 1",
            "why: there is no setting \"adress\"",
            "fix: ",
        ]);
    }
    std::fs::write(folder.path().join("jeton.toml"), "dta = \"x\"\n").unwrap();
    has(&run_in(folder.path(), &[], &["config"]).err, &["did you mean data?"]);
}
