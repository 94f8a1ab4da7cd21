//! Limits, and clients that are slow, silent or greedy.

use std::io::{ErrorKind, Write};
use std::thread;
use std::time::{Duration, Instant};

use jeton_resp::reply_parser::Value;
use jeton_server::{Metric, Options, resp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{Client, PATIENCE, words};
use crate::server::{Server, eventually};

/// How long slow clients are waited for here.
const WORD: Duration = Duration::from_millis(300);

fn impatient() -> Server {
    Server::with(Options { request_read_timeout: WORD, ..Options::default() })
}

/// Waits for the end of a connection, and how long that took.
fn closed(client: &mut Client) -> Duration {
    let start = Instant::now();
    assert_eq!(client.read_to_end(), b"");
    start.elapsed()
}

#[test]
fn what_is_too_long_is_told_at_once() {
    let server = Server::with(Options { request_bytes_max: 100_000, ..Options::default() });
    for (sent, expected) in [
        // Told before the rest of it came.
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
    let answer = client.ask(&format!("GET {}", "k".repeat(1025)));
    assert_eq!(answer, "-ERR the row is longer than 1024 bytes");
    let answer = client.ask(&format!("SET k {}", "v".repeat(65_537)));
    assert_eq!(answer, "-ERR a cell has at most 65536 bytes, not 65537");
    assert_eq!(client.ask(&format!("SET k {} NX", "v".repeat(65_537))), answer);
    assert_eq!(client.ask(&format!("SET k {}", "v".repeat(65_536))), "OK");
    assert_eq!(client.ask("APPEND k v"), "-ERR a cell has at most 65536 bytes");
    assert_eq!(client.ask("PING"), "PONG");
}

#[test]
fn a_client_that_still_sends_hears_why_it_is_closed() {
    let server = Server::start();
    for (sent, told) in [
        (&b"*2\r\n$4\r\nECHO\r\n$90000000\r\n"[..], "-ERR Protocol error: invalid bulk length\r\n"),
        (b"QUIT\r\n", "+OK\r\n"),
    ] {
        // Not over TCP: some systems throw away what was told when a connection is closed on somebody who still sends, and this one does not.
        let (mut client, stream) = tokio::io::duplex(1000);
        let serving = resp::serve_connection(server.service().clone(), stream, "nobody".into());
        server.block_on(async move {
            let serving = tokio::spawn(serving);
            client.write_all(sent).await.unwrap();
            let mut heard = Vec::new();
            client.read_to_end(&mut heard).await.unwrap();
            assert_eq!(String::from_utf8(heard).unwrap(), told);
            client.write_all(&[b'x'; 100_000]).await.expect("somebody takes it");
            drop(client);
            serving.await.unwrap();
        });
    }
}

#[test]
fn a_transaction_has_an_end() {
    let server = Server::start();
    let mut client = server.client();
    client.send(&words("MULTI"));
    (0..1025).for_each(|_| client.send(&words("INCR {t}a")));
    assert_eq!(client.read(), Value::Simple(b"OK".into()));
    (0..1024).for_each(|_| assert_eq!(client.read(), Value::Simple(b"QUEUED".into())));
    assert_eq!(client.read(), Value::Error(b"ERR a transaction has at most 1024 commands".into()));
    assert!(client.ask("EXEC").starts_with("-EXECABORT "));
    assert_eq!(client.ask("GET {t}a"), "nil");
}

#[test]
fn a_transaction_is_not_a_way_to_fill_the_memory() {
    let server = Server::with(Options { request_bytes_max: 500_000, ..Options::default() });
    let mut client = server.client();
    for (asked, told) in [
        (format!("SET {{t}}a {}", "x".repeat(60_000)), "-ERR a transaction has at most 500000 bytes"),
        (format!("MGET{}", " {t}a".repeat(1000)), "-ERR a transaction names at most 4096 keys"),
    ] {
        assert_eq!(client.ask("MULTI"), "OK");
        let refused = (0..20).map(|_| client.ask(&asked)).find(|told| told != "QUEUED");
        assert_eq!(refused.as_deref(), Some(told));
        assert!(client.ask("EXEC").starts_with("-EXECABORT "));
    }
}

#[test]
fn too_many_connections_are_turned_away() {
    let server = Server::with(Options { connections_max: 3, ..Options::default() });
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.ask("PING"), "PONG"));
    let mut turned_away = server.client();
    assert_eq!(turned_away.read_to_end(), b"-ERR max number of clients reached\r\n");
    assert_eq!(server.service().metrics.get(Metric::TurnedAway), 1);
    clients.pop();
    eventually("there is room again", || {
        let mut client = server.client();
        client.send(&words("PING"));
        client.read() == Value::Simple(b"PONG".into())
    });
    assert_eq!(clients[0].ask("PING"), "PONG");
}

#[test]
fn who_says_nothing_or_half_a_word_is_closed() {
    let server = impatient();
    // Nothing at all; half a command; half a line; a command and half of another.
    for sent in ["", "*2\r\n$4\r\nECHO\r\n$5\r\nhe", "PI", "*"] {
        let mut client = server.client();
        client.send(sent.as_bytes());
        let took = closed(&mut client);
        assert!(took >= WORD / 2, "{sent:?} was closed after {took:?}");
    }
    let mut client = server.client();
    client.send(b"PING\r\nPI");
    assert_eq!(client.read_raw(), b"+PONG\r\n");
    closed(&mut client);
    // Whoever has said something whole may be silent.
    let mut idle = server.client();
    assert_eq!(idle.ask("PING"), "PONG");
    thread::sleep(WORD * 2);
    assert_eq!(idle.ask("PING"), "PONG");
    eventually("all others are gone", || server.service().metrics.get(Metric::RespOpen) == 1);
}

#[test]
fn a_byte_now_and_then_is_not_a_word() {
    let server = impatient();
    let mut client = server.client();
    let start = Instant::now();
    let mut bytes = words("ECHO 0123456789012345678901234567890123456789").into_iter().cycle();
    let ended = loop {
        let byte = bytes.next().unwrap();
        match client.stream.write_all(&[byte]) {
            // The first word is never ended.
            Ok(()) if byte != b'9' => thread::sleep(WORD / 10),
            Ok(()) => {}
            Err(_) => break true,
        }
        if start.elapsed() > PATIENCE {
            break false;
        }
    };
    assert!(ended, "a connection was held for {PATIENCE:?} by a command without end");
}

#[test]
fn who_does_not_read_is_closed() {
    let server = impatient();
    let mut client = server.client();
    assert_eq!(client.ask(&format!("SET big {}", "x".repeat(60_000))), "OK");
    let mut greedy = server.client();
    greedy.stream.set_write_timeout(Some(WORD)).unwrap();
    let start = Instant::now();
    let ended = loop {
        match greedy.stream.write(&words("GET big").repeat(100)) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break true,
        }
        if start.elapsed() > PATIENCE {
            break false;
        }
    };
    assert!(ended, "still open after {PATIENCE:?}");
    assert_eq!(client.ask("PING"), "PONG");
}

#[test]
fn the_greedy_cost_little() {
    let server = impatient();
    let mut client = server.client();
    assert_eq!(client.ask(&format!("SET big {}", "x".repeat(20_000))), "OK");
    let before = most_resident_bytes();
    // A large command makes room for many small ones behind it, all of which are there at once; and nothing is ever read.
    let large = words(&format!("PING {} {}", "x".repeat(500_000), "x".repeat(60_000)));
    for asked in ["GET big\r\n".repeat(60_000), "COMMAND\r\n".repeat(60_000)] {
        let (mut greedy, stream) = tokio::io::duplex(4 << 20);
        let serving = resp::serve_connection(server.service().clone(), stream, "nobody".into());
        server.block_on(async {
            greedy.write_all(&large).await.unwrap();
            greedy.write_all(asked.as_bytes()).await.unwrap();
            tokio::time::timeout(PATIENCE, serving).await.expect("whoever does not read is closed");
        });
        drop(greedy);
    }
    // Or in one command.
    let told = client.ask(&format!("MGET{}", " big".repeat(20_000)));
    assert_eq!(told, "-ERR the answer is longer than 67108864 bytes: ask for fewer keys at a time");
    let grown = most_resident_bytes().saturating_sub(before);
    assert!(grown < 250 << 20, "{} MiB more", grown >> 20);
}

/// The most memory that this process ever had. What other tests of it took at the same time is in it as well.
fn most_resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[test]
fn the_idle_do_not_disturb_the_active() {
    let server = Server::start();
    let mut idle: Vec<Client> = (0..500).map(|_| server.client()).collect();
    let mut active = server.client();
    for number in 1..=1000 {
        assert_eq!(active.ask("INCR a"), number.to_string());
    }
    assert_eq!(server.service().metrics.get(Metric::RespOpen), 501);
    for client in &mut idle {
        client.send(&words("INCR a"));
    }
    let mut seen: Vec<i64> = idle.iter_mut().map(|client| client.read().as_integer().unwrap()).collect();
    seen.sort_unstable();
    assert_eq!(seen, (1001..=1500).collect::<Vec<_>>());
    drop(idle);
    eventually("they are gone", || server.service().metrics.get(Metric::RespOpen) == 1);
}
