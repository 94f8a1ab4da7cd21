//! Conditional commands and transactions are atomic under concurrency.

use std::thread;

use jeton_resp::reply_parser::Value;

use crate::client::{Client, show, words};
use crate::server::Server;

const CLIENTS: i64 = 8;
const ROUNDS: i64 = 60;

/// Repeats a command while the server replies `BUSY`.
fn retry_busy(client: &mut Client, act: impl Fn(&mut Client) -> Value) -> Value {
    loop {
        match act(client) {
            Value::Error(text) if text.starts_with(b"BUSY ") => {}
            value => return value,
        }
    }
}

fn each_client(server: &Server, act: impl Fn(&mut Client, i64) + Sync) {
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let act = &act;
            scope.spawn(move || act(&mut server.client(), number));
        }
    });
}

#[test]
fn concurrent_transactions_are_serialized() {
    let server = Server::start();
    each_client(&server, |client, number| {
        for _ in 0..ROUNDS {
            let reply = retry_busy(client, |client| {
                let commands = ["MULTI", "INCR {t}a", "INCRBY {t}b 2", "GET {t}a", "EXEC"];
                client.send(&commands.map(words).concat());
                (0..4).for_each(|_| drop(client.read()));
                client.read()
            });
            let Value::Array(reply) = reply else { panic!("{reply:?}") };
            let [Value::Integer(a), Value::Integer(b), Value::Bulk(read)] = &reply[..] else {
                panic!("{reply:?}")
            };
            assert_eq!(*b, 2 * a, "client {number}");
            assert_eq!(*read, a.to_string().into_bytes());
            // A read-only transaction is atomic too.
            client.send(&[words("MULTI"), words("GET {t}b"), words("GET {t}a"), words("EXEC")].concat());
            (0..3).for_each(|_| drop(client.read()));
            let Value::Array(read) = client.read() else { panic!("two values") };
            let number = |at: usize| show(&read[at]).trim_matches('"').parse::<i64>().unwrap();
            assert_eq!(number(0), 2 * number(1));
        }
    });
    let sum = CLIENTS * ROUNDS;
    assert_eq!(server.client().run("MGET {t}a {t}b"), format!("[\"{sum}\" \"{}\"]", 2 * sum));
}

#[test]
fn concurrent_getset_loses_nothing() {
    let server = Server::start();
    let taken = std::sync::atomic::AtomicI64::new(0);
    each_client(&server, |client, _| {
        for _ in 0..ROUNDS {
            client.run("INCRBY pot 3");
            let old = retry_busy(client, |client| client.call(&["GETSET", "pot", "0"]));
            let old: i64 = show(&old).trim_matches('"').parse().unwrap();
            taken.fetch_add(old, std::sync::atomic::Ordering::Relaxed);
        }
    });
    let left: i64 = server.client().run("GET pot").trim_matches('"').parse().unwrap();
    assert_eq!(taken.into_inner() + left, 3 * CLIENTS * ROUNDS);
}

#[test]
fn only_one_client_creates_a_key() {
    let server = Server::start();
    let first = std::sync::atomic::AtomicI64::new(0);
    each_client(&server, |client, number| {
        for round in 0..ROUNDS {
            let command = match round % 3 {
                0 => format!("SETNX k{round} {number}"),
                1 => format!("SET k{round} {number} NX"),
                _ => format!("DEL k{}", round - 1),
            };
            let words: Vec<&str> = command.split(' ').collect();
            let reply = retry_busy(client, |client| client.call(&words));
            if matches!(reply, Value::Integer(1) | Value::Simple(_)) {
                first.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
    });
    // A key that is set again after a delete is deleted again or still present.
    let keys: i64 = server.client().run("DBSIZE").parse().unwrap();
    let count = first.into_inner();
    assert_eq!((count - keys) % 2, 0, "{count} creations, {keys} keys: each key is deleted once or present");
}

#[test]
fn concurrent_append_loses_nothing() {
    let server = Server::start();
    each_client(&server, |client, number| {
        for _ in 0..ROUNDS {
            retry_busy(client, |client| client.call(&["APPEND", "text", &number.to_string()]));
        }
    });
    let mut client = server.client();
    assert_eq!(client.run("STRLEN text"), (CLIENTS * ROUNDS).to_string());
    let text = client.run("GET text");
    for number in 0..CLIENTS {
        assert_eq!(text.matches(&number.to_string()).count() as i64, ROUNDS);
    }
}
