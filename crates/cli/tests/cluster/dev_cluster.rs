//! `jeton dev-cluster`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use jeton_testbed as testbed;
use rustix::process::{Pid, Signal, kill_process};

use crate::nodes::jeton;
use crate::program::command;

#[test]
fn dev_cluster_runs_what_it_prints() {
    let folder = testbed::folder().unwrap();
    // Two nodes need 13 ports from here on, below those of other tests.
    let port = (10_000 + std::process::id() % 9_900).to_string();
    let mut child = command(&["dev-cluster", "--nodes", "2", "--port", &port])
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut text: Vec<String> = Vec::new();
    while !text.last().is_some_and(|line| line.starts_with("Ctrl-C")) {
        text.push(lines.next().unwrap_or_else(|| panic!("it ended: {text:?}")));
    }
    let command = |words: &str| -> Vec<String> {
        let line =
            text.iter().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {text:?}"));
        let line = line.split("   #").next().unwrap();
        line.split_whitespace().skip(1).map(str::to_owned).collect()
    };
    let run = |words: &str| {
        let arguments = command(words);
        let run = jeton(folder.path(), &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(run.code, Some(0), "{arguments:?}: {}", run.err);
        run.out
    };
    assert_eq!(run("# add on node 1"), "1 applied\n");
    assert!(run("jeton cluster").contains("alive"));
    assert_eq!(run("# read on node 2"), "1\n");
    assert_eq!(run("# retry elsewhere"), "1 replayed\n");
    let files = text.iter().find_map(|line| line.trim().strip_prefix("files")).unwrap().trim().to_owned();
    assert!(Path::new(&files).join("node-2").is_dir(), "{text:?}");

    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!Path::new(&files).exists());
    assert!(std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_err());
}
