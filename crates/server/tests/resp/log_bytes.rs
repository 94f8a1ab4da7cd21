//! Commands that keep most of a large value log the request, not the value.

use crate::server::Server;

const VALUE_BYTES: usize = 60 << 10;
const LOGGED_BYTES_MAX: u64 = 1 << 10;

#[test]
fn expiry_and_append_do_not_log_the_value() {
    let (server, mut client) = Server::with_client();
    let value = "x".repeat(VALUE_BYTES);
    assert_eq!(client.run(&format!("SET key {value}")), "OK");
    let far = 4_000_000_000_u64;
    for (command, reply) in [
        ("APPEND key y".to_string(), (VALUE_BYTES + 1).to_string()),
        ("EXPIRE key 100".into(), "1".into()),
        ("EXPIRE key 100 NX".into(), "0".into()),
        ("EXPIRE key 200 XX".into(), "1".into()),
        ("EXPIRE key 300 GT".into(), "1".into()),
        ("EXPIRE key 200 LT".into(), "1".into()),
        ("EXPIRE key 100 XX LT".into(), "1".into()),
        ("PEXPIRE key 100000".into(), "1".into()),
        ("PERSIST key".into(), "1".into()),
        ("PERSIST key".into(), "0".into()),
        ("EXPIRE key 100 GT".into(), "0".into()),
        ("EXPIRE key 100 LT".into(), "1".into()),
        (format!("EXPIREAT key {far}"), "1".into()),
        (format!("PEXPIREAT key {far}000"), "1".into()),
        ("APPEND key z".into(), (VALUE_BYTES + 2).to_string()),
        ("PEXPIREAT key 1".into(), "1".into()),
        ("EXISTS key".into(), "0".into()),
    ] {
        let before = server.service().engine.stats().logged_bytes;
        assert_eq!(client.run(&command), reply, "{command}");
        let logged = server.service().engine.stats().logged_bytes - before;
        assert!(logged < LOGGED_BYTES_MAX, "{command} logged {logged} bytes");
    }
}

/// Inside a transaction the present value is a condition: it is logged once, and not a second time as the new
/// value.
#[test]
fn expiry_in_a_transaction_logs_the_value_once() {
    let (server, mut client) = Server::with_client();
    let value = "x".repeat(VALUE_BYTES);
    assert_eq!(client.run(&format!("SET key {value}")), "OK");
    let before = server.service().engine.stats().logged_bytes;
    assert_eq!(client.pipeline(&["MULTI", "EXPIRE key 100", "EXEC"]), ["OK", "QUEUED", "[1]"]);
    let logged = server.service().engine.stats().logged_bytes - before;
    assert!(logged < VALUE_BYTES as u64 + LOGGED_BYTES_MAX, "logged {logged} bytes");
}

#[test]
fn expiry_and_append_survive_a_restart() {
    let (mut server, mut client) = Server::with_client();
    client.check(
        "SET a 1 => OK
         APPEND a 2 => 2
         PEXPIREAT a 4000000000000 NX => 1
         APPEND b text => 4
         PEXPIREAT b 4000000000000 => 1
         PERSIST b => 1",
    );
    server.reconnect(client, true).check(
        "INCR a => 13
         PEXPIRETIME a => 4000000000000
         GET b => \"text\"
         TTL b => -1",
    );
}

/// The value of an event is the counter. The result of an append is a length and must not be reported as one.
#[test]
fn the_change_feed_reports_counters_not_lengths() {
    let server = Server::start();
    let mut events = server.service().changes.subscribe();
    let mut client = server.client();
    for (command, value) in [
        ("SET a 1", Some(1)),
        ("APPEND a 2", Some(12)),
        ("EXPIRE a 100 NX", Some(12)),
        ("GETSET a 7", Some(7)),
        ("APPEND a x", None),
        ("EXPIRE a 100", None),
        ("PERSIST a", None),
        ("DEL a", None),
    ] {
        client.run(command);
        let event = events.try_recv().unwrap_or_else(|error| panic!("{command}: {error}"));
        assert_eq!(event.value, value, "{command}");
        assert!(events.try_recv().is_err(), "{command}: one change, one event");
    }
}
