//! Pipelines, and commands that arrive in pieces.

use std::thread;
use std::time::Duration;

use crate::client::{show, words};
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
            let replies = [(); 5].map(|()| show(&client.read()));
            let count = (number + 1).to_string();
            assert_eq!(replies, [&*count, &format!("\"{count}\""), "OK", "\"hello\"", "1"]);
        }
    });
    assert_eq!(client.run("GET {t}a"), "\"2000\"");
    assert!(client.run("NONSENSE").starts_with("-ERR unknown command"));
    // Each command has a latency, whether it ran in a batch or on its own.
    let metrics = &server.service().metrics;
    let counts = metrics.commands().filter_map(|(name, latencies)| Some((name, latencies.snapshot()?.count)));
    let expected =
        [("DEL", 2000), ("ECHO", 2000), ("GET", 2001), ("INCR", 2000), ("SET", 2000), ("unknown", 1)];
    assert_eq!(counts.collect::<Vec<_>>(), expected);
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
    let replies = [(); 4].map(|()| show(&client.read()));
    assert_eq!(replies, ["OK", "12", "\"12\"", "\"hello\""]);
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
        let commands = "SET _ 1;INCR _;APPEND _ 0;INCRBY _ 5;GETSET _ x;STRLEN _;DEL _;EXISTS _;INCR _";
        let commands = commands.replace('_', &key);
        let replies = client.pipeline(&commands.split(';').collect::<Vec<_>>());
        assert_eq!(replies, ["OK", "2", "2", "25", "\"25\"", "1", "1", "0", "1"]);
    }
}

#[test]
fn many_keys_in_one_command() {
    let (_server, mut client) = Server::with_client();
    let keys: String = (0..20_000).map(|number| format!(" k{number}")).collect();
    let pairs: String = (0..20_000).map(|number| format!(" k{number} 7")).collect();
    let values = ["\"7\""; 20_000].join(" ");
    client.check(&format!(
        "MSET{pairs} => OK
         MGET{keys} => [{values}]
         EXISTS{keys} => 20000
         DEL{keys} => 20000
         DBSIZE => 0"
    ));
}
