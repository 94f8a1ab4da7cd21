//! Limits, and clients that are slow, silent or do not read.

use std::io::{ErrorKind, Write};
use std::thread;
use std::time::{Duration, Instant};

use jeton_server::{Metric, Options, resp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{Client, TIMEOUT, words};
use crate::server::{Server, eventually};

/// Read timeout of the servers in these tests.
const READ_TIMEOUT: Duration = Duration::from_millis(300);

fn short_timeout_server() -> Server {
    Server::with(Options { request_read_timeout: READ_TIMEOUT, ..Options::default() })
}

/// Waits until the server closes the connection and returns the time it took.
fn closed(client: &mut Client) -> Duration {
    let start = Instant::now();
    assert_eq!(client.read_to_end(), b"");
    start.elapsed()
}

#[test]
fn oversized_requests_are_rejected_at_their_header() {
    let server = Server::with(Options { request_bytes_max: 100_000, ..Options::default() });
    for (sent, expected) in [
        // Rejected before the rest arrives.
        ("*2\r\n$4\r\nECHO\r\n$100001\r\n".to_string(), "-ERR Protocol error: too big request\r\n"),
        ("*50000\r\n".into(), "-ERR Protocol error: too big request\r\n"),
        ("*1048577\r\n".into(), "-ERR Protocol error: invalid multibulk length\r\n"),
        ("*2\r\n$4\r\nECHO\r\n$600000\r\n".into(), "-ERR Protocol error: invalid bulk length\r\n"),
        ("a".repeat(70_000), "-ERR Protocol error: too big inline request\r\n"),
        (format!("*{}", "1".repeat(70_000)), "-ERR Protocol error: too big mbulk count string\r\n"),
    ] {
        let mut client = server.client();
        client.send(sent.as_bytes());
        assert_eq!(String::from_utf8(client.read_raw()).unwrap(), expected);
        assert_eq!(client.read_to_end(), b"");
    }
    let mut client = server.client();
    let (key, fits, large) = ("k".repeat(1025), "v".repeat(65_536), "v".repeat(65_537));
    client.check(&format!(
        "GET {key} => -ERR the row is longer than 1024 bytes
         SET k {large} => -ERR a cell has at most 65536 bytes, not 65537
         SET k {large} NX => -ERR a cell has at most 65536 bytes, not 65537
         SET k {fits} => OK
         APPEND k v => -ERR a cell has at most 65536 bytes
         PING => PONG"
    ));
}

#[test]
fn lingering_close_delivers_the_last_reply() {
    let server = Server::start();
    for (sent, reply) in [
        (&b"*2\r\n$4\r\nECHO\r\n$90000000\r\n"[..], "-ERR Protocol error: invalid bulk length\r\n"),
        (b"QUIT\r\n", "+OK\r\n"),
    ] {
        // Not over TCP: whether a reset discards the last reply depends on the system.
        let (mut client, stream) = tokio::io::duplex(1000);
        let serving = resp::serve_connection(server.service().clone(), stream, "peer".into());
        server.block_on(async move {
            let serving = tokio::spawn(serving);
            client.write_all(sent).await.unwrap();
            let mut received = Vec::new();
            client.read_to_end(&mut received).await.unwrap();
            assert_eq!(String::from_utf8(received).unwrap(), reply);
            client.write_all(&[b'x'; 100_000]).await.expect("the server drains it");
            drop(client);
            serving.await.unwrap();
        });
    }
}

#[test]
fn transactions_have_at_most_1024_commands() {
    let (_server, mut client) = Server::with_client();
    let mut commands = vec!["INCR {t}a"; 1026];
    commands[0] = "MULTI";
    let mut replies = client.pipeline(&commands);
    assert_eq!(replies.pop().as_deref(), Some("-ERR a transaction has at most 1024 commands"));
    assert!(replies[0] == "OK" && replies[1..].iter().all(|reply| reply == "QUEUED"), "{replies:?}");
    assert!(client.run("EXEC").starts_with("-EXECABORT "));
    assert_eq!(client.run("GET {t}a"), "nil");
}

#[test]
fn queued_commands_are_bounded_in_bytes_and_keys() {
    let server = Server::with(Options { request_bytes_max: 500_000, ..Options::default() });
    let mut client = server.client();
    for (request, reply) in [
        (format!("SET {{t}}a {}", "x".repeat(60_000)), "-ERR a transaction has at most 500000 bytes"),
        (format!("MGET{}", " {t}a".repeat(1000)), "-ERR a transaction names at most 4096 keys"),
    ] {
        assert_eq!(client.run("MULTI"), "OK");
        let refused = (0..20).map(|_| client.run(&request)).find(|reply| reply != "QUEUED");
        assert_eq!(refused.as_deref(), Some(reply));
        assert!(client.run("EXEC").starts_with("-EXECABORT "));
    }
}

#[test]
fn connections_above_the_limit_are_rejected() {
    let server = Server::with(Options { connections_max: 3, ..Options::default() });
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.run("PING"), "PONG"));
    let mut turned_away = server.client();
    assert_eq!(turned_away.read_to_end(), b"-ERR max number of clients reached\r\n");
    assert_eq!(server.service().metrics.get(Metric::TurnedAway), 1);
    clients.pop();
    eventually("another connection is accepted", || server.client().run("PING") == "PONG");
    assert_eq!(clients[0].run("PING"), "PONG");
}

#[test]
fn incomplete_commands_time_out() {
    let server = short_timeout_server();
    // Nothing at all; half a command; half a line; a command and half of another.
    for sent in ["", "*2\r\n$4\r\nECHO\r\n$5\r\nhe", "PI", "*"] {
        let mut client = server.client();
        client.send(sent.as_bytes());
        let took = closed(&mut client);
        assert!(took >= READ_TIMEOUT / 2, "{sent:?} was closed after {took:?}");
    }
    let mut client = server.client();
    client.send(b"PING\r\nPI");
    assert_eq!(client.read_raw(), b"+PONG\r\n");
    closed(&mut client);
    // A connection may be idle after a complete command.
    let mut idle = server.client();
    assert_eq!(idle.run("PING"), "PONG");
    thread::sleep(READ_TIMEOUT * 2);
    assert_eq!(idle.run("PING"), "PONG");
    eventually("all others are closed", || server.service().metrics.get(Metric::RespOpen) == 1);
}

#[test]
fn single_bytes_do_not_extend_the_timeout() {
    let server = short_timeout_server();
    let mut client = server.client();
    let start = Instant::now();
    let mut bytes = words("ECHO 0123456789012345678901234567890123456789").into_iter().cycle();
    let ended = loop {
        let byte = bytes.next().unwrap();
        match client.stream.write_all(&[byte]) {
            // The first command is never completed.
            Ok(()) if byte != b'9' => thread::sleep(READ_TIMEOUT / 10),
            Ok(()) => {}
            Err(_) => break true,
        }
        if start.elapsed() > TIMEOUT {
            break false;
        }
    };
    assert!(ended, "not closed within {TIMEOUT:?}");
}

#[test]
fn clients_that_do_not_read_are_closed() {
    let server = short_timeout_server();
    let mut client = server.client();
    assert_eq!(client.run(&format!("SET big {}", "x".repeat(60_000))), "OK");
    let mut flooder = server.client();
    flooder.stream.set_write_timeout(Some(READ_TIMEOUT)).unwrap();
    let start = Instant::now();
    let ended = loop {
        match flooder.stream.write(&words("GET big").repeat(100)) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break true,
        }
        if start.elapsed() > TIMEOUT {
            break false;
        }
    };
    assert!(ended, "still open after {TIMEOUT:?}");
    assert_eq!(client.run("PING"), "PONG");
}

#[test]
fn clients_that_do_not_read_cost_little_memory() {
    let server = short_timeout_server();
    let mut client = server.client();
    assert_eq!(client.run(&format!("SET big {}", "x".repeat(20_000))), "OK");
    let before = most_resident_bytes();
    // A large command grows the buffer, so that many small ones arrive at once. The client reads nothing.
    let large = words(&format!("PING {} {}", "x".repeat(500_000), "x".repeat(60_000)));
    for request in ["GET big\r\n".repeat(60_000), "COMMAND\r\n".repeat(60_000)] {
        let (mut flooder, stream) = tokio::io::duplex(4 << 20);
        let serving = resp::serve_connection(server.service().clone(), stream, "peer".into());
        server.block_on(async {
            flooder.write_all(&large).await.unwrap();
            flooder.write_all(request.as_bytes()).await.unwrap();
            tokio::time::timeout(TIMEOUT, serving).await.expect("the connection is closed");
        });
        drop(flooder);
    }
    // The same with one command.
    let reply = client.run(&format!("MGET{}", " big".repeat(20_000)));
    assert_eq!(reply, "-ERR the reply is longer than 67108864 bytes: request fewer keys");
    let grown = most_resident_bytes().saturating_sub(before);
    assert!(grown < 250 << 20, "{} MiB more", grown >> 20);
}

/// Peak memory of this process, other tests included.
fn most_resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[test]
fn idle_connections_do_not_delay_active_ones() {
    let server = Server::start();
    let mut idle: Vec<Client> = (0..500).map(|_| server.client()).collect();
    let mut active = server.client();
    for number in 1..=1000 {
        assert_eq!(active.run("INCR a"), number.to_string());
    }
    assert_eq!(server.service().metrics.get(Metric::RespOpen), 501);
    for client in &mut idle {
        client.send(&words("INCR a"));
    }
    let mut seen: Vec<i64> = idle.iter_mut().map(|client| client.read().as_integer().unwrap()).collect();
    seen.sort_unstable();
    assert_eq!(seen, (1001..=1500).collect::<Vec<_>>());
    drop(idle);
    eventually("idle connections are closed", || server.service().metrics.get(Metric::RespOpen) == 1);
}

#[test]
fn long_patterns_are_rejected() {
    let (_server, mut client) = Server::with_client();
    assert_eq!(client.run("SET a 1"), "OK");
    let (fits, long) = ("[a-z]*".repeat(682), "[a-z]*".repeat(683));
    for request in ["SCAN 0 MATCH", "CONFIG GET", "COMMAND LIST FILTERBY PATTERN"] {
        let reply = client.run(&format!("{request} {fits}"));
        assert!(!reply.starts_with('-'), "{request}: {reply}");
        assert_eq!(client.run(&format!("{request} {long}")), "-ERR a pattern has at most 4096 bytes");
    }
}

#[test]
fn commands_with_too_many_keys_change_nothing() {
    let (_server, mut client) = Server::with_client();
    let keys = |number: usize, suffix: &str| -> String {
        (0..number).map(|key| format!(" k{key}{suffix}")).collect()
    };
    for (verb, suffix) in [("MSET", " 1"), ("MSETNX", " 1"), ("DEL", ""), ("MGET", ""), ("EXISTS", "")] {
        let reply = client.run(&format!("{verb}{}", keys(20_001, suffix)));
        assert_eq!(reply, "-ERR a command names at most 20000 keys", "{verb}");
    }
    assert_eq!(client.run("DBSIZE"), "0");
    assert_eq!(client.run(&format!("MSET{}", keys(20_000, " 1"))), "OK");
    assert_eq!(client.run(&format!("EXISTS{}", keys(20_000, ""))), "20000");
    assert_eq!(client.run(&format!("DEL{}", keys(20_000, ""))), "20000");
    let reply = client.run(&format!("COMMAND INFO{}", " get".repeat(1024)));
    assert_eq!(reply, "-ERR this command has at most 1024 arguments");
}

#[test]
fn http_requests_are_not_executed() {
    let (server, mut client) = Server::with_client();
    let heads = [
        "POST / HTTP/1.1",
        "pOsT /",
        "GET / HTTP/1.1",
        "GET /a\"b HTTP/1.0",
        "PUT /a HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "PRI * HTTP/2.0",
        "host: localhost",
        "PING\r\nHost: localhost",
    ];
    for head in heads {
        let mut page = server.client();
        page.send(format!("{head}\r\nAccept: */*\r\n\r\nSET pwned yes\r\n").as_bytes());
        let reply = String::from_utf8(page.read_to_end()).unwrap();
        let reply = reply.strip_prefix("+PONG\r\n").unwrap_or(&reply);
        assert_eq!(reply, "-ERR Protocol error: this is an HTTP request to the port of RESP\r\n", "{head}");
    }
    assert_eq!(server.service().metrics.get(Metric::HttpOnResp), heads.len() as u64);
    assert_eq!(client.run("GET pwned"), "nil");
    client.send(b"SET HTTP POST\r\nGET HTTP\r\n");
    assert_eq!(client.read_raw(), b"+OK\r\n");
    assert_eq!(client.read_raw(), b"$4\r\nPOST\r\n");
}
