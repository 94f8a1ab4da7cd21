//! Conditional commands and transactions are atomic under concurrency.

use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use crate::client::Client;
use crate::server::Server;

const CLIENTS: i64 = 8;
const ROUNDS: i64 = 60;

/// Repeats a command while the server replies `BUSY`.
fn retry_busy(client: &mut Client, act: impl Fn(&mut Client) -> String) -> String {
    loop {
        match act(client) {
            reply if reply.starts_with("-BUSY ") => {}
            reply => return reply,
        }
    }
}

fn number(reply: &str) -> i64 {
    reply.trim_matches('"').parse().unwrap()
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
            let commands = ["MULTI", "INCR {t}a", "INCRBY {t}b 2", "GET {t}a", "EXEC"];
            let reply = retry_busy(client, |client| client.pipeline(&commands).remove(4));
            let a = reply.trim_matches(['[', ']']).split(' ').next().and_then(|a| a.parse::<i64>().ok());
            let a = a.unwrap_or_else(|| panic!("{reply}"));
            assert_eq!(reply, format!("[{a} {} \"{a}\"]", 2 * a), "client {number}");
            // A read-only transaction is atomic too.
            let replies = client.pipeline(&["MULTI", "GET {t}b", "GET {t}a", "EXEC"]);
            let values: Vec<i64> = replies[3].split('"').filter_map(|value| value.parse().ok()).collect();
            assert_eq!(values[0], 2 * values[1]);
        }
    });
    let sum = CLIENTS * ROUNDS;
    assert_eq!(server.client().run("MGET {t}a {t}b"), format!("[\"{sum}\" \"{}\"]", 2 * sum));
}

#[test]
fn concurrent_getset_loses_nothing() {
    let server = Server::start();
    let taken = AtomicI64::new(0);
    each_client(&server, |client, _| {
        for _ in 0..ROUNDS {
            client.run("INCRBY pot 3");
            let old = retry_busy(client, |client| client.run("GETSET pot 0"));
            taken.fetch_add(number(&old), Ordering::Relaxed);
        }
    });
    assert_eq!(taken.into_inner() + number(&server.client().run("GET pot")), 3 * CLIENTS * ROUNDS);
}

#[test]
fn only_one_client_creates_a_key() {
    let server = Server::start();
    let first = AtomicI64::new(0);
    each_client(&server, |client, number| {
        for round in 0..ROUNDS {
            let command = match round % 3 {
                0 => format!("SETNX k{round} {number}"),
                1 => format!("SET k{round} {number} NX"),
                _ => format!("DEL k{}", round - 1),
            };
            if ["1", "OK"].contains(&&*retry_busy(client, |client| client.run(&command))) {
                first.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    // A key that is set again after a delete is deleted again or still present.
    let keys = number(&server.client().run("DBSIZE"));
    let count = first.into_inner();
    assert_eq!((count - keys) % 2, 0, "{count} creations, {keys} keys: each key is deleted once or present");
}

#[test]
fn concurrent_append_loses_nothing() {
    let server = Server::start();
    each_client(&server, |client, number| {
        for _ in 0..ROUNDS {
            retry_busy(client, |client| client.run(&format!("APPEND text {number}")));
        }
    });
    let mut client = server.client();
    assert_eq!(client.run("STRLEN text"), (CLIENTS * ROUNDS).to_string());
    let text = client.run("GET text");
    for number in 0..CLIENTS {
        assert_eq!(text.matches(&number.to_string()).count() as i64, ROUNDS);
    }
}
