//! Every reply to an operation with an id, before and after a restart.

use std::time::Duration;

use jeton_core::{Format, Formats, TableSettings};
use jeton_server::Options;

use crate::client::{Client, command, show};
use crate::server::{Server, eventually, opaque, uuid};

/// Sends a command, expects an error with this code, and returns its message.
fn refused(client: &mut Client, request: &str, code: &str) -> String {
    let reply = client.run(request);
    let rest = reply.strip_prefix(&format!("-{code} "));
    rest.unwrap_or_else(|| panic!("{request}: {reply} instead of {code}")).to_string()
}

#[test]
fn an_id_counts_once_whatever_comes_between() {
    let mut server = Server::start();
    server.table("any", opaque());
    let id = uuid(server.millis(), 1);
    let mut client = server.client();
    assert_eq!(client.run(&format!("JADD a 5 ID {id}")), "[5 applied]");
    assert_eq!(client.run("INCR a"), "6");
    for restarted in [false, true] {
        client = server.reconnect(client, restarted);
        // The first result, not the present value.
        assert_eq!(client.run(&format!("JADD a 5 ID {id}")), "[5 replayed]");
        assert_eq!(client.run(&format!("jadd a 5 id {}", id.to_uppercase())), "[5 replayed]");
        refused(&mut client, &format!("JADD a 6 ID {id}"), "IDMISMATCH");
        refused(&mut client, &format!("JADD a 5 ID {id} MAX 100"), "IDMISMATCH");
        refused(&mut client, &format!("JSET a 5 ID {id}"), "IDMISMATCH");
        refused(&mut client, &format!("JDEL a ID {id}"), "IDMISMATCH");
        assert_eq!(client.run("GET a"), "\"6\"");
        // Another table has ids of its own.
        let word = if restarted { "replayed" } else { "applied" };
        assert_eq!(client.run(&format!("JADD any/a 5 ID {id}")), format!("[5 {word}]"));
    }
}

#[test]
fn a_refusal_by_a_bound_is_permanent() {
    let (mut server, mut client) = Server::with_any();
    assert_eq!(client.run("JADD any/a 5 ID 1 MIN 0 MAX 10"), "[5 applied]");
    assert_eq!(client.run("JADD any/a 6 ID 2 MAX 10"), "[5 refused]");
    assert_eq!(client.run("JADD any/a -6 ID 3 MIN 0"), "[5 refused]");
    assert_eq!(client.run("JADD any/a 5 ID 4 MIN 0 MAX 10"), "[10 applied]");
    assert_eq!(client.run("JADD any/a 9223372036854775807 ID 5 MAX 10"), "[10 refused]");
    assert_eq!(client.run("JRESET any/a ID 6"), "[0 applied]");
    for restarted in [false, true] {
        client = server.reconnect(client, restarted);
        // The bound would allow it now, but the id was refused.
        assert_eq!(client.run("JADD any/a 6 ID 2 MAX 10"), "[5 refused-replayed]");
        assert_eq!(client.run("JADD any/a -6 ID 3 MIN 0"), "[5 refused-replayed]");
        refused(&mut client, "JADD any/a 6 ID 2 MAX 11", "IDMISMATCH");
        assert_eq!(client.run("JGET any/a"), "0");
    }
    refused(&mut client, "JADD any/a 1 ID 9 MIN 5 MAX 4", "ERR");
    assert_eq!(client.run("JOP 9 TABLE any"), "[unknown]");
}

#[test]
fn rejected_operations_are_not_stored() {
    let (_server, mut client) = Server::with_any();
    assert_eq!(client.run("SET any/a 9223372036854775807"), "OK");
    assert_eq!(client.run("JADD any/a 1 ID 1"), "-ERR increment or decrement would overflow");
    assert_eq!(client.run("JOP 1 TABLE any"), "[unknown]");
    assert_eq!(client.run("SET any/a 1"), "OK");
    assert_eq!(client.run("JADD any/a 1 ID 1"), "[2 applied]");
    assert_eq!(client.run("SET any/b text"), "OK");
    assert_eq!(client.run("JADD any/b 1 ID 2"), "-ERR value is not an integer or out of range");
    assert_eq!(client.run("JRESET any/b ID 2"), "[0 applied]");
    assert_eq!(client.run("JSET any/b text ID 3"), "[nil applied]");
    assert_eq!(client.run("JGET any/b"), "\"text\"");
    assert_eq!(client.run("JSET any/b 7 ID 4"), "[7 applied]");
    assert_eq!(client.run("JGET any/b"), "7");
    assert_eq!(client.run("JDEL any/b ID 5"), "[nil applied]");
    assert_eq!(client.run("JDEL any/b ID 5"), "[nil replayed]");
    assert_eq!(client.run("JGET any/b"), "nil");
    assert_eq!(client.run("JADD any/b x ID 6"), "-ERR value is not an integer or out of range");
    let malformed = "JADD any/a 1 ID;JADD any/a 1 FOO 1;JADD any/a 1 ID 1 ID 2;JADD any/a 1 ID 7 MIN;\
                     JADD any/a 1 ID 7 MIN 1 MIN 2;JSET any/a 1 ID 7 MIN 1;JRESET any/a ID";
    for wrong in malformed.split(';') {
        assert_eq!(client.run(wrong), "-ERR syntax error", "{wrong}");
    }
    assert_eq!(client.run("JADD any/a"), "-ERR wrong number of arguments for 'jadd' command");
    assert_eq!(client.run("JADD any/a 1 ID 7 MIN x"), "-ERR value is not an integer or out of range");
    // Without an id, if the table allows it.
    assert_eq!(client.run("JADD any/a 1"), "[3 applied]");
    assert_eq!(client.run("JADD any/a 1"), "[4 applied]");
}

#[test]
fn ids_outside_the_window_are_rejected() {
    let mut server = Server::start();
    let settings = TableSettings { dated_window: Duration::from_secs(3600), ..TableSettings::default() };
    server.table("dated", settings);
    let now = server.millis();
    let mut client = server.client();
    let (old, future) = (uuid(now - 3_700_000, 1), uuid(now + 120_000, 2));
    for restarted in [false, true] {
        client = server.reconnect(client, restarted);
        let reply = refused(&mut client, &format!("JADD dated/a 1 ID {old}"), "IDEXPIRED");
        assert!(reply.contains("3600s") && reply.contains("not counted"), "{reply}");
        let reply = refused(&mut client, &format!("JADD dated/a 1 ID {future}"), "IDFUTURE");
        assert!(reply.contains("60s"), "{reply}");
        let reply = refused(&mut client, "JADD dated/a 1", "IDREQUIRED");
        assert!(reply.contains("requires an id"), "{reply}");
        for request in ["INCR dated/a", "SET dated/a 1", "SET dated/a 1 NX", "DEL dated/a", "MSET dated/a 1"]
        {
            refused(&mut client, request, "IDREQUIRED");
        }
        refused(&mut client, "JADD dated/a 1 ID hello", "IDFORMAT");
        refused(&mut client, "JADD dated/a 1 ID 936da01f-9abd-4d9d-80c7-02af85c822a8", "IDFORMAT");
        let reply = client.call(&[b"JADD", &b"dated/a"[..], b"1", b"ID", b"\xff"]);
        assert!(show(&reply).starts_with("-IDFORMAT "), "{reply:?}");
        assert_eq!(client.run("JGET dated/a"), "nil");
        assert_eq!(client.run("GET dated/a"), "nil");
        assert_eq!(client.run(&format!("JOP {old} TABLE dated")), "[forgotten]");
    }
}

#[test]
fn sequenced_ids_of_a_session() {
    let mut server = Server::start();
    let formats = Formats::only(Format::Sequenced).and(Format::Opaque);
    server.table("many", TableSettings { formats, ..opaque() });
    let mut client = server.client();
    assert_eq!(client.run("JADD many/a 1 ID sequenced:me/5/1"), "[1 applied]");
    assert_eq!(client.run("JADD many/a 1 ID sequenced:me/5/300"), "[2 applied]");
    for restarted in [false, true] {
        client = server.reconnect(client, restarted);
        assert_eq!(client.run("JADD many/a 1 ID sequenced:me/5/300"), "[2 replayed]");
        refused(&mut client, "JADD many/a 2 ID sequenced:me/5/300", "IDMISMATCH");
        // The last 256 operations of a session are stored.
        refused(&mut client, "JADD many/a 1 ID sequenced:me/5/1", "IDEXPIRED");
        refused(&mut client, "JADD many/a 1 ID sequenced:me/4/301", "FENCED");
        refused(&mut client, "JADD many/a 1 ID sequenced:me/99999999999999/1", "NOSESSION");
        refused(&mut client, "JADD many/a 1 ID me/5/301", "IDFORMAT");
        refused(&mut client, "JADD many/a 1 ID uuid7:x", "IDFORMAT");
        assert_eq!(client.run("JOP sequenced:me/5/1 TABLE many"), "[forgotten]");
        let known = client.run("JOP sequenced:me/5/300 TABLE many");
        assert!(known.starts_with("[applied [2] "), "{known}");
    }
    assert_eq!(client.run("JADD many/a 1 ID sequenced:me/6/1"), "[3 applied]");
    refused(&mut client, "JADD many/a 1 ID sequenced:me/5/301", "FENCED");
    assert_eq!(client.run("JADD many/a 1 ID opaque:me/5/301"), "[4 applied]");
}

#[test]
fn many_counters_under_one_id() {
    let (mut server, mut client) = Server::with_any();
    assert_eq!(client.run("JMADD ID 1 any/{t}a 1 any/{t}b -2 any/{t}a 3"), "[[1 -2 4] applied]");
    assert_eq!(client.run("JMADD ID 1 any/{t}a 1 any/{t}b -2 any/{t}a 3"), "[[1 -2 4] replayed]");
    refused(&mut client, "JMADD ID 1 any/{t}a 1 any/{t}b -2", "IDMISMATCH");
    // All or none.
    assert_eq!(client.run("SET any/{t}c text"), "OK");
    let reply = client.run("JMADD ID 2 any/{t}a 1 any/{t}c 1");
    assert_eq!(reply, "-ERR value is not an integer or out of range");
    assert_eq!(client.run("SET any/{t}d 9223372036854775807"), "OK");
    let reply = client.run("JMADD ID 2 any/{t}a 1 any/{t}d 1");
    assert_eq!(reply, "-ERR increment or decrement would overflow");
    assert_eq!(client.run("MGET any/{t}a any/{t}b any/{t}d"), "[\"4\" \"-2\" \"9223372036854775807\"]");
    // All keys must be in one table and partition.
    let reply = client.run("JMADD ID 2 any/1 1 any/2 1 any/3 1 any/4 1 any/5 1 any/6 1 any/7 1 any/8 1");
    assert!(reply.starts_with("-CROSSSLOT "), "{reply}");
    let reply = client.run("JMADD ID 2 any/{t}a 1 default/{t}a 1");
    assert!(reply.starts_with("-CROSSSLOT "), "{reply}");
    assert_eq!(client.run("MGET any/1 any/2 any/3"), "[nil nil nil]");
    for wrong in ["JMADD ID 3 any/a", "JMADD ID 3", "JMADD x 3 any/a 1", "JMADD ID 3 any/a 1 any/b"] {
        assert!(client.run(wrong).starts_with("-ERR "), "{wrong}");
    }
    drop(client);
    server.restart();
    let mut client = server.client();
    assert_eq!(client.run("JMADD ID 1 any/{t}a 1 any/{t}b -2 any/{t}a 3"), "[[1 -2 4] replayed]");
    assert_eq!(client.run("MGET any/{t}a any/{t}b"), "[\"4\" \"-2\"]");
}

#[test]
fn jop_reports_the_status_of_an_id() {
    let (server, mut client) = Server::with_any();
    let before = server.millis();
    assert_eq!(client.run("JOP 1 TABLE any"), "[unknown]");
    assert_eq!(client.run("JADD any/a 5 ID 1"), "[5 applied]");
    assert_eq!(client.run("JADD any/a 5 ID 2 MAX 7"), "[5 refused]");
    let reply = client.run("JOP 1 TABLE any");
    let millis = reply.strip_prefix("[applied [5] ").and_then(|rest| rest.strip_suffix(']')).expect("a time");
    assert!((before..=server.millis()).contains(&millis.parse::<u64>().unwrap()), "{reply}");
    assert!(client.run("JOP 2 TABLE any").starts_with("[refused [5] "));
    assert_eq!(client.run("JMADD ID 3 any/{x}1 1 any/{x}2 2"), "[[1 2] applied]");
    assert!(client.run("jop 3 table any").starts_with("[applied [1 2] "));
    // The same id on rows of several partitions is several operations; within one partition it is a mismatch.
    let mut applied = 0;
    for row in 0..20 {
        match client.run(&format!("JADD any/{row} 1 ID 4")) {
            reply if reply == "[1 applied]" => applied += 1,
            reply => assert!(reply.starts_with("-IDMISMATCH "), "{reply}"),
        }
    }
    assert!(applied > 2);
    let reply = client.run("JOP 4 TABLE any");
    assert!(reply.starts_with("[[applied [1] "), "{reply}");
    assert_eq!(reply.matches("applied").count(), applied, "{reply}");
    // In the default table.
    let id = uuid(server.millis(), 9);
    assert_eq!(client.run(&format!("JOP {id}")), "[unknown]");
    assert_eq!(client.run(&format!("JADD a 1 ID {id}")), "[1 applied]");
    assert!(client.run(&format!("JOP {id}")).starts_with("[applied [1] "));
    assert!(client.run("JOP x").starts_with("-IDFORMAT "));
    assert_eq!(client.run("JOP 1 TABLE"), "-ERR syntax error");
    assert_eq!(client.run("JOP 1 FOO any"), "-ERR syntax error");
    assert!(client.run("JOP 1 TABLE none").starts_with("-NOTABLE "));
}

#[test]
fn an_unknown_outcome_is_retried_with_the_same_id() {
    let mut server = Server::with(Options { request_timeout: Duration::ZERO, ..Options::default() });
    server.table("any", opaque());
    let mut client = server.client();
    // Some requests may complete in time, because timers are coarse.
    let mut rounds = 0;
    eventually("one is too late", || {
        let first = rounds * 1000;
        rounds += 1;
        let round = (first..first + 1000).map(|id| command(&["JADD", "any/a", "1", "ID", &id.to_string()]));
        client.send(&round.collect::<Vec<_>>().concat());
        let reply: Vec<String> = (0..1000).map(|_| show(&client.read())).collect();
        reply.iter().any(|reply| reply.starts_with("-IDBUSY ") && reply.ends_with("retry with the same id"))
    });
    assert_eq!(client.run("PING"), "PONG");
    drop(client);
    server.restart_with(Options::default());
    let mut client = server.client();
    for id in 0..rounds * 1000 {
        let reply = client.run(&format!("JADD any/a 1 ID {id}"));
        assert!(reply.ends_with(" replayed]") || reply.ends_with(" applied]"), "{reply}");
    }
    assert_eq!(client.run("GET any/a"), format!("\"{}\"", rounds * 1000));
}
