//! What a cluster does not support, and databases that it does not accept.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;

use jeton_testbed::{self as testbed, Postgres};

use crate::nodes::{Cluster, ask, jeton, new_database};
use crate::program::Run;

#[test]
fn unsupported_requests_get_a_reason() {
    let cluster = Cluster::start(1);
    let node = &cluster.nodes[0];
    for (method, path, body) in [
        ("GET", "/v1/watch", ""),
        ("POST", "/v1/admin/backup", "{\"to\": \"copy\"}"),
        ("DELETE", "/v1/tables/other?confirm=other", ""),
    ] {
        assert!(ask(&node.http, "PUT", "/v1/tables/other", "{}").unwrap().0 < 300);
        let (status, body) = ask(&node.http, method, path, body).unwrap();
        assert!(status == 501 && body.contains("/problems/not-in-cluster"), "{path}: {status} {body}");
    }
    let mut stream = TcpStream::connect(&node.resp).unwrap();
    stream.write_all(b"FLUSHALL\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    assert!(line.starts_with("-ERR a cluster does not delete all counters"), "{line}");
}

fn serve(folder: &Path, url: &str) -> Run {
    let addresses = ["--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--cluster-peers", "127.0.0.1:0"];
    jeton(folder, &[&["serve", "--cluster", url][..], &addresses].concat())
}

#[test]
fn unsuitable_databases_are_refused() {
    let folder = testbed::folder().unwrap();
    // Only init creates tables.
    serve(folder.path(), &new_database())
        .fails(&["the tables of the registers are missing", "jeton init --cluster"]);
    let nowhere = format!("postgres://{}/d", testbed::free_address().unwrap());
    serve(folder.path(), &nowhere)
        .fails(&["cannot connect to PostgreSQL", "check that the database is running"]);
    serve(folder.path(), "mysql://h/d").fails(&["invalid connection URL", "postgres://user@host/database"]);
    let careless = Postgres::start(&folder.path().join("careless"), &[("fsync", "off")]).unwrap();
    jeton(folder.path(), &["init", "--cluster", &careless.url()]).fails(&["fsync is off"]);
    serve(folder.path(), &careless.url()).fails(&["fsync is off", "correct the settings of the server"]);
}
