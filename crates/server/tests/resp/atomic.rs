//! Commands that look before they change, and transactions: each is done at one instant, however many do them.

use std::thread;

use jeton_resp::reply_parser::Value;

use crate::client::{Client, show, words};
use crate::server::Server;

const CLIENTS: i64 = 8;
const ROUNDS: i64 = 60;

/// Does something as long as others are faster.
fn insist(client: &mut Client, act: impl Fn(&mut Client) -> Value) -> Value {
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
fn transactions_of_many_are_one_after_the_other() {
    let server = Server::start();
    each_client(&server, |client, number| {
        for _ in 0..ROUNDS {
            let said = insist(client, |client| {
                client.send(
                    &[
                        words("MULTI"),
                        words("INCR {t}a"),
                        words("INCRBY {t}b 2"),
                        words("GET {t}a"),
                        words("EXEC"),
                    ]
                    .concat(),
                );
                (0..4).for_each(|_| drop(client.read()));
                client.read()
            });
            let Value::Array(said) = said else { panic!("{said:?}") };
            let [Value::Integer(a), Value::Integer(b), Value::Bulk(read)] = &said[..] else {
                panic!("{said:?}")
            };
            assert_eq!(*b, 2 * a, "client {number}");
            assert_eq!(*read, a.to_string().into_bytes());
            // What only looks is of one instant too.
            client.send(&[words("MULTI"), words("GET {t}b"), words("GET {t}a"), words("EXEC")].concat());
            (0..3).for_each(|_| drop(client.read()));
            let Value::Array(read) = client.read() else { panic!("two values") };
            let number = |at: usize| show(&read[at]).trim_matches('"').parse::<i64>().unwrap();
            assert_eq!(number(0), 2 * number(1));
        }
    });
    let sum = CLIENTS * ROUNDS;
    assert_eq!(server.client().ask("MGET {t}a {t}b"), format!("[\"{sum}\" \"{}\"]", 2 * sum));
}

#[test]
fn nothing_is_lost_when_many_take_and_leave() {
    let server = Server::start();
    let taken = std::sync::atomic::AtomicI64::new(0);
    each_client(&server, |client, _| {
        for _ in 0..ROUNDS {
            client.ask("INCRBY pot 3");
            let old = insist(client, |client| client.call(&["GETSET", "pot", "0"]));
            let old: i64 = show(&old).trim_matches('"').parse().unwrap();
            taken.fetch_add(old, std::sync::atomic::Ordering::Relaxed);
        }
    });
    let left: i64 = server.client().ask("GET pot").trim_matches('"').parse().unwrap();
    assert_eq!(taken.into_inner() + left, 3 * CLIENTS * ROUNDS);
}

#[test]
fn only_one_is_the_first() {
    let server = Server::start();
    let first = std::sync::atomic::AtomicI64::new(0);
    each_client(&server, |client, number| {
        for round in 0..ROUNDS {
            let said = match round % 3 {
                0 => insist(client, |client| {
                    client.call(&["SETNX", &format!("k{round}"), &number.to_string()])
                }),
                1 => insist(client, |client| {
                    client.call(&["SET", &format!("k{round}"), &number.to_string(), "NX"])
                }),
                _ => insist(client, |client| client.call(&["DEL", &format!("k{}", round - 1)])),
            };
            if matches!(said, Value::Integer(1) | Value::Simple(_)) {
                first.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
    });
    // Keys that are set again after they were deleted are set by somebody once more, and deleted once more or still there.
    let keys: i64 = server.client().ask("DBSIZE").parse().unwrap();
    let count = first.into_inner();
    assert_eq!(
        (count - keys) % 2,
        0,
        "{count} firsts and {keys} keys: each set is deleted once, or is there"
    );
}

#[test]
fn appending_by_many_loses_nothing() {
    let server = Server::start();
    each_client(&server, |client, number| {
        for _ in 0..ROUNDS {
            insist(client, |client| client.call(&["APPEND", "text", &number.to_string()]));
        }
    });
    let mut client = server.client();
    assert_eq!(client.ask("STRLEN text"), (CLIENTS * ROUNDS).to_string());
    let text = client.ask("GET text");
    for number in 0..CLIENTS {
        assert_eq!(text.matches(&number.to_string()).count() as i64, ROUNDS);
    }
}
