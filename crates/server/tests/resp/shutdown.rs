//! Shutdown of the server.

use std::thread;

use jeton_resp::reply_parser::Value;

use crate::client::words;
use crate::server::Server;

#[test]
fn requests_in_flight_are_answered() {
    let mut server = Server::start();
    let port = server.port();
    let acknowledged: i64 = thread::scope(|scope| {
        let counting: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    let mut client = crate::client::Client::connect(port);
                    let mut acknowledged = 0;
                    loop {
                        // The connection closes at any moment, after the requests in flight are answered.
                        if std::io::Write::write_all(&mut client.stream, &words("INCR a").repeat(20)).is_err()
                        {
                            return acknowledged;
                        }
                        for _ in 0..20 {
                            match client.try_read() {
                                Some((Value::Integer(_), _)) => acknowledged += 1,
                                Some((other, _)) => panic!("{other:?}"),
                                None => return acknowledged,
                            }
                        }
                    }
                })
            })
            .collect();
        let mut client = server.client();
        crate::server::eventually("all count", || {
            client.run("GET a").trim_matches('"').parse::<i64>().is_ok_and(|count| count > 500)
        });
        drop(client);
        server.restart();
        counting.into_iter().map(|one| one.join().unwrap()).sum()
    });
    let count: i64 = server.client().run("GET a").trim_matches('"').parse().unwrap();
    assert_eq!(count, acknowledged, "exactly the acknowledged increments are applied");
    assert!(acknowledged > 400);
}

#[test]
fn idle_connections_are_closed() {
    let mut server = Server::start();
    let mut idle: Vec<_> = (0..20).map(|_| server.client()).collect();
    idle.iter_mut().for_each(|client| assert_eq!(client.run("PING"), "PONG"));
    idle[0].send(b"*2\r\n$4\r\nECHO\r\n$5\r\nhe");
    server.restart();
    for client in &mut idle {
        assert_eq!(client.read_to_end(), b"");
    }
}
