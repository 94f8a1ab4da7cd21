//! Limits, and clients that are slow, silent or do not read.

use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use jeton_server::{Metric, Options, resp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{Client, TIMEOUT, show, words};
use crate::server::{Server, eventually};

/// Read timeout of the servers in these tests.
const READ_TIMEOUT: Duration = Duration::from_millis(300);

fn short_timeout_server() -> Server {
    let options =
        Options { request_read_timeout: READ_TIMEOUT, client_memory_max: 1 << 30, ..Options::default() };
    Server::with(options)
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
    let limits =
        [Metric::RequestBytesHit, Metric::ArgumentsHit, Metric::ArgumentBytesHit, Metric::InlineBytesHit];
    assert_eq!(limits.map(|limit| server.service().metrics.get(limit)), [2, 1, 1, 2]);
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
        // Small arguments need memory too.
        (format!("SET {{t}}a{}", " EX 1".repeat(500)), "-ERR a transaction has at most 500000 bytes"),
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

/// Runs `request` on eight connections at the same time, which read nothing, and returns the memory that
/// the process needed on top, other tests included.
fn memory_of_eight_clients(server: &Server, request: &[u8]) -> usize {
    let before = most_resident_bytes();
    let serving: Vec<_> = (0..8)
        .map(|_| {
            let (client, stream) = tokio::io::duplex(16 << 20);
            let serving = resp::serve_connection(server.service().clone(), stream, "peer".into());
            (client, serving)
        })
        .collect();
    server.block_on(async {
        let tasks = serving.into_iter().map(|(mut client, serving)| async move {
            let ended = tokio::spawn(serving);
            client.write_all(request).await.unwrap();
            client.shutdown().await.unwrap();
            tokio::time::timeout(TIMEOUT, ended).await.expect("the connection is closed").unwrap();
            drop(client);
        });
        futures_util::future::join_all(tasks).await;
    });
    most_resident_bytes().saturating_sub(before)
}

#[test]
fn commands_with_many_arguments_cost_little_memory() {
    let server = short_timeout_server();
    let mut command = vec!["COMMAND", "INFO"];
    command.resize(900_000, "GET");
    let grown = memory_of_eight_clients(&server, &crate::client::command(&command));
    assert!(grown < 400 << 20, "{} MiB more", grown >> 20);
    let mut client = server.client();
    let reply = show(&client.call(&command[..1025]));
    assert_eq!(reply, "-ERR this command has at most 1024 arguments");
    assert!(show(&client.call(&command[..1024])).starts_with('['));
}

#[test]
fn large_replies_of_transactions_cost_little_memory() {
    let server = short_timeout_server();
    assert_eq!(server.client().run(&format!("SET {{t}}big {}", "x".repeat(65_536))), "OK");
    let request = [words("MULTI"), words(&format!("MGET{}", " {t}big".repeat(4095))), words("EXEC")].concat();
    let grown = memory_of_eight_clients(&server, &request);
    assert!(grown < 250 << 20, "{} MiB more", grown >> 20);
    let mut client = server.client();
    client.send(&request);
    let replies = [(); 3].map(|()| show(&client.read()));
    assert_eq!(replies, ["OK", "QUEUED", "-ERR the reply is longer than 67108864 bytes: request fewer keys"]);
    assert_eq!(client.run("GET {t}none"), "nil", "the connection stays open");
}

/// The start of a command with arguments of 512 KiB, without its end.
fn partial_command(arguments: usize) -> Vec<u8> {
    let mut command = format!("*{}\r\n", arguments + 1).into_bytes();
    (0..arguments).for_each(|_| command.extend(format!("$524288\r\n{}\r\n", "x".repeat(512 << 10)).bytes()));
    command
}

#[test]
fn the_largest_connections_are_closed_at_the_budget() {
    let server = Server::with(Options { client_memory_max: 64 << 20, ..Options::default() });
    let memory = server.service().client_memory.clone();
    let mut small = server.client();
    let mut clients: Vec<_> = (0..12).map(|_| server.client()).collect();
    for client in &mut clients {
        // A client that is closed meanwhile may get a reset.
        let _may_fail = client.stream.write_all(&partial_command(10));
    }
    eventually("enough are closed", || memory.closed() >= 3 && memory.charged() <= 64 << 20);
    let mut open = 0;
    for client in &mut clients {
        client.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut reply = Vec::new();
        match client.stream.read_to_end(&mut reply) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => open += 1,
            _ => {
                let reply = String::from_utf8(reply).unwrap();
                assert!(reply.starts_with("-ERR closed: the clients exceed client_memory_max"), "{reply}");
            }
        }
    }
    assert_eq!(open + memory.closed(), 12);
    assert_eq!(small.run("PING"), "PONG");
    drop(clients);
    eventually("nothing is charged", || memory.charged() == 0);
}

#[test]
fn a_connection_above_its_limit_is_closed() {
    let server = Server::with(Options { client_memory_max: 4 << 20, ..Options::default() });
    let mut client = server.client();
    client.send(b"PING\r\n");
    client.send(&partial_command(3));
    assert_eq!(client.read_raw(), b"+PONG\r\n");
    let reply = show(&client.read());
    assert!(reply.starts_with("-ERR closed: this connection needs "), "{reply}");
    assert_eq!(client.read_to_end(), b"");
    assert_eq!(server.service().client_memory.closed(), 1);
    // A reply that would be too large is an error.
    let mut client = server.client();
    assert_eq!(client.run(&format!("SET {{t}}big {}", "x".repeat(65_536))), "OK");
    client.check(&format!(
        "MGET{} => -ERR the reply is longer than 262144 bytes: request fewer keys
         CONFIG GET client_memory_max => [\"client_memory_max\" \"4194304\"]
         CONFIG GET maxmemory-clients => [\"maxmemory-clients\" \"4194304\"]",
        " {t}big".repeat(300)
    ));
}

#[test]
fn idle_connections_release_large_buffers() {
    let (server, mut client) = Server::with_client();
    let memory = &server.service().client_memory;
    assert_eq!(client.run(&format!("SET {{t}}big {}", "x".repeat(65_536))), "OK");
    let large = partial_command(9);
    client.send(&large);
    eventually("the buffer is charged", || memory.charged() > 4 << 20);
    client.send(b"$1\r\na\r\n");
    assert!(show(&client.read()).starts_with("-ERR unknown command"));
    assert!(client.run(&format!("MGET{}", " {t}big".repeat(200))).len() > 12 << 20);
    assert_eq!(client.run(&format!("EXISTS{}", " {t}big".repeat(20_000))), "20000");
    eventually("the buffers are released", || memory.charged() < 200 << 10);
    assert_eq!(client.run("PING"), "PONG");
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
