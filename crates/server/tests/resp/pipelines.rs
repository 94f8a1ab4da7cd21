//! Pipelines, and commands that arrive in pieces.

use std::thread;
use std::time::Duration;

use jeton_resp::reply_parser::Value;

use crate::client::{command, words};
use crate::server::Server;

#[test]
fn ten_thousand_commands_in_one_write() {
    let (server, mut client) = Server::with_client();
    let commands: Vec<u8> = (0..10_000)
        .flat_map(|number| match number % 5 {
            0 => words("INCR {t}a"),
            1 => words("GET {t}a"),
            2 => words("SET {t}b x NX"),
            3 => words("ECHO hello"),
            _ => words("DEL {t}b"),
        })
        .collect();
    // Sent while replies are read, so that client and server do not deadlock.
    let mut sending = client.stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || std::io::Write::write_all(&mut sending, &commands).unwrap());
        for number in 0..2000 {
            assert_eq!(client.read(), Value::Integer(number + 1));
            assert_eq!(client.read(), Value::Bulk((number + 1).to_string().into()));
            assert_eq!(client.read(), Value::Simple(b"OK".into()));
            assert_eq!(client.read(), Value::Bulk(b"hello".into()));
            assert_eq!(client.read(), Value::Integer(1));
        }
    });
    assert_eq!(client.run("GET {t}a"), "\"2000\"");
    assert!(client.run("NONSENSE").starts_with("-ERR unknown command"));
    // Each command has a latency, whether it ran in a batch or on its own.
    let mut counts = Vec::new();
    let visited: Result<(), ()> = server.service().metrics.visit_commands(|name, latencies| {
        counts.extend(latencies.snapshot().map(|found| (name.to_owned(), found.count)));
        Ok(())
    });
    visited.unwrap();
    let expected =
        [("DEL", 2000), ("ECHO", 2000), ("GET", 2001), ("INCR", 2000), ("SET", 2000), ("unknown", 1)];
    assert_eq!(counts, expected.map(|(name, number)| (name.to_owned(), number)));
}

#[test]
fn commands_in_single_bytes() {
    let (_server, mut client) = Server::with_client();
    let bytes = [words("SET a 5"), words("INCRBY a 7"), b"GET a\r\n".to_vec(), words("ECHO hello")].concat();
    for byte in bytes {
        client.send(&[byte]);
        // One byte per packet.
        thread::sleep(Duration::from_micros(200));
    }
    assert_eq!(client.read(), Value::Simple(b"OK".into()));
    assert_eq!(client.read(), Value::Integer(12));
    assert_eq!(client.read(), Value::Bulk(b"12".into()));
    assert_eq!(client.read(), Value::Bulk(b"hello".into()));
}

#[test]
fn replies_use_the_version_of_their_command() {
    let (_server, mut client) = Server::with_client();
    // The version changes within one pipeline.
    let greeting =
        [words("GET none"), words("HELLO 3"), words("GET none"), words("RESET"), words("GET none")].concat();
    client.send(&greeting);
    assert_eq!(client.read_raw(), b"$-1\r\n");
    assert!(client.read_raw().starts_with(b"%7\r\n"));
    assert_eq!(client.read_raw(), b"_\r\n");
    assert_eq!(client.read_raw(), b"+RESET\r\n");
    assert_eq!(client.read_raw(), b"$-1\r\n");
}

#[test]
fn commands_of_a_connection_run_in_order() {
    let (_server, mut client) = Server::with_client();
    for round in 0..50 {
        let key = format!("key{round}");
        let all = [
            vec!["SET", &key, "1"],
            vec!["INCR", &key],
            vec!["APPEND", &key, "0"],
            vec!["INCRBY", &key, "5"],
            vec!["GETSET", &key, "x"],
            vec!["STRLEN", &key],
            vec!["DEL", &key],
            vec!["EXISTS", &key],
            vec!["INCR", &key],
        ];
        let bytes: Vec<u8> = all.iter().flat_map(|one| command(one)).collect();
        client.send(&bytes);
        let replies: Vec<String> = all.iter().map(|_| crate::client::show(&client.read())).collect();
        assert_eq!(replies, ["OK", "2", "2", "25", "\"25\"", "1", "1", "0", "1"]);
    }
}

#[test]
fn many_keys_in_one_command() {
    let (_server, mut client) = Server::with_client();
    let keys: Vec<String> = (0..20_000).map(|number| format!("k{number}")).collect();
    let mut set = vec!["MSET"];
    keys.iter().for_each(|key| set.extend([key.as_str(), "7"]));
    assert_eq!(client.call(&set), Value::Simple(b"OK".into()));
    let mut get = vec!["MGET"];
    get.extend(keys.iter().map(String::as_str));
    assert_eq!(client.call(&get), Value::Array(vec![Value::Bulk(b"7".into()); keys.len()]));
    get[0] = "EXISTS";
    assert_eq!(client.call(&get), Value::Integer(keys.len() as i64));
    get[0] = "DEL";
    assert_eq!(client.call(&get), Value::Integer(keys.len() as i64));
    assert_eq!(client.run("DBSIZE"), "0");
}
