//! The Python client on a cluster, if Python is installed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::nodes::Cluster;

const ADDITIONS: usize = 100;

const SCRIPT: &str = r#"
import asyncio, sys
import jeton

addresses, additions = sys.argv[1].split(","), int(sys.argv[2])
options = {"deadline": 30.0, "attempt_timeout": 1.0}

with jeton.Client(addresses, **options) as client:
    for number in range(additions):
        client.add("python", 1)
        print(number, flush=True)

async def aio():
    async with jeton.AsyncClient(addresses, **options) as client:
        for number in range(additions):
            await client.add("python", 1)
            print(number, flush=True)

asyncio.run(aio())
"#;

#[test]
fn the_python_client_counts_once_while_nodes_die() {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    if Command::new(&python).arg("--version").output().is_err() {
        println!("skipped: there is no {python}");
        return;
    }
    let mut cluster = Cluster::start(3);
    cluster.await_spread();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python/src");
    let mut child = Command::new(python)
        .args(["-c", SCRIPT, &cluster.addresses(0).join(","), &ADDITIONS.to_string()])
        .env("PYTHONPATH", source)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut done = 0;
    for line in lines {
        line.unwrap();
        done += 1;
        if done == ADDITIONS / 2 {
            cluster.nodes[0].end(Signal::KILL);
        }
        if done == ADDITIONS {
            cluster.launch(0);
            cluster.await_ready(0);
        }
        if done == ADDITIONS + ADDITIONS / 2 {
            cluster.nodes[0].end(Signal::KILL);
        }
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(done, 2 * ADDITIONS);
    let run = cluster.run(2, &["get", "python"]);
    assert_eq!((run.out.trim(), run.code), ("200", Some(0)), "{}", run.err);
}
