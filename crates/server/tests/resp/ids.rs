//! Every reply to an operation with an id, before and after a restart.

use std::time::Duration;

use jeton_core::{Format, Formats, OpId, TableSettings};
use jeton_server::Options;

use crate::client::{command, show};
use crate::server::{Server, eventually, opaque};

#[test]
fn an_id_counts_once_whatever_comes_between() {
    let mut server = Server::start();
    server.table("any", opaque());
    let id = OpId::uuid7_from(server.millis(), 1);
    let mut client = server.client();
    client.check(&format!("JADD a 5 ID {id} => [5 applied]\nINCR a => 6"));
    for (restarted, word) in [(false, "applied"), (true, "replayed")] {
        client = server.reconnect(client, restarted);
        // The first result, not the present value. Another table has ids of its own.
        client.check(&format!(
            "JADD a 5 ID {id} => [5 replayed]
             jadd a 5 id {} => [5 replayed]
             JADD a 6 ID {id} => -IDMISMATCH *
             JADD a 5 ID {id} MAX 100 => -IDMISMATCH *
             JSET a 5 ID {id} => -IDMISMATCH *
             JDEL a ID {id} => -IDMISMATCH *
             GET a => \"6\"
             JADD any/a 5 ID {id} => [5 {word}]",
            id.to_string().to_uppercase(),
        ));
    }
}

#[test]
fn a_refusal_by_a_bound_is_permanent() {
    let (mut server, mut client) = Server::with_any();
    client.check(
        "JADD any/a 5 ID 1 MIN 0 MAX 10 => [5 applied]
         JADD any/a 6 ID 2 MAX 10 => [5 refused]
         JADD any/a -6 ID 3 MIN 0 => [5 refused]
         JADD any/a 5 ID 4 MIN 0 MAX 10 => [10 applied]
         JADD any/a 9223372036854775807 ID 5 MAX 10 => [10 refused]
         JRESET any/a ID 6 => [0 applied]",
    );
    for restarted in [false, true] {
        client = server.reconnect(client, restarted);
        // The bound would allow it now, but the id was refused.
        client.check(
            "JADD any/a 6 ID 2 MAX 10 => [5 refused-replayed]
             JADD any/a -6 ID 3 MIN 0 => [5 refused-replayed]
             JADD any/a 6 ID 2 MAX 11 => -IDMISMATCH *
             JGET any/a => 0",
        );
    }
    client.check("JADD any/a 1 ID 9 MIN 5 MAX 4 => -ERR *\nJOP any/a 9 => [unknown]");
}

#[test]
fn rejected_operations_are_not_stored() {
    let (_server, mut client) = Server::with_any();
    client.check(
        "SET any/a 9223372036854775807 => OK
         JADD any/a 1 ID 1 => -ERR increment or decrement would overflow
         JOP any/a 1 => [unknown]
         SET any/a 1 => OK
         JADD any/a 1 ID 1 => [2 applied]
         SET any/b text => OK
         JADD any/b 1 ID 2 => -ERR value is not an integer or out of range
         JRESET any/b ID 2 => [0 applied]
         JSET any/b text ID 3 => [nil applied]
         JGET any/b => \"text\"
         JSET any/b 7 ID 4 => [7 applied]
         JGET any/b => 7
         JDEL any/b ID 5 => [nil applied]
         JDEL any/b ID 5 => [nil replayed]
         JGET any/b => nil
         JADD any/b x ID 6 => -ERR value is not an integer or out of range
         JADD any/a 1 ID => -ERR syntax error
         JADD any/a 1 FOO 1 => -ERR syntax error
         JADD any/a 1 ID 1 ID 2 => -ERR syntax error
         JADD any/a 1 ID 7 MIN => -ERR syntax error
         JADD any/a 1 ID 7 MIN 1 MIN 2 => -ERR syntax error
         JSET any/a 1 ID 7 MIN 1 => -ERR syntax error
         JRESET any/a ID => -ERR syntax error
         JADD any/a => -ERR wrong number of arguments for 'jadd' command
         JADD any/a 1 ID 7 MIN x => -ERR value is not an integer or out of range",
    );
    // Without an id, if the table allows it.
    client.check("JADD any/a 1 => [3 applied]\nJADD any/a 1 => [4 applied]");
}

#[test]
fn ids_outside_the_window_are_rejected() {
    let mut server = Server::start();
    let settings = TableSettings { dated_window: Duration::from_secs(3600), ..TableSettings::default() };
    server.table("dated", settings);
    let now = server.millis();
    let mut client = server.client();
    let (old, future) = (OpId::uuid7_from(now - 3_700_000, 1), OpId::uuid7_from(now + 120_000, 2));
    for restarted in [false, true] {
        client = server.reconnect(client, restarted);
        let reply = client.run(&format!("JADD dated/a 1 ID {old}"));
        assert!(reply.starts_with("-IDEXPIRED ") && reply.contains("3600s"), "{reply}");
        assert!(reply.contains("not counted"), "{reply}");
        let reply = client.run(&format!("JADD dated/a 1 ID {future}"));
        assert!(reply.starts_with("-IDFUTURE ") && reply.contains("60s"), "{reply}");
        let reply = client.run("JADD dated/a 1");
        assert!(reply.starts_with("-IDREQUIRED ") && reply.contains("requires an id"), "{reply}");
        client.check(&format!(
            "INCR dated/a => -IDREQUIRED *
             SET dated/a 1 => -IDREQUIRED *
             SET dated/a 1 NX => -IDREQUIRED *
             DEL dated/a => -IDREQUIRED *
             MSET dated/a 1 => -IDREQUIRED *
             JADD dated/a 1 ID hello => -IDFORMAT *
             JADD dated/a 1 ID 936da01f-9abd-4d9d-80c7-02af85c822a8 => -IDFORMAT *
             JGET dated/a => nil
             GET dated/a => nil
             JOP dated/a {old} => [forgotten]"
        ));
        let reply = client.call(&[b"JADD", &b"dated/a"[..], b"1", b"ID", b"\xff"]);
        assert!(show(&reply).starts_with("-IDFORMAT "), "{reply:?}");
    }
}

#[test]
fn sequenced_ids_of_a_session() {
    let mut server = Server::start();
    let formats = Formats::only(Format::Sequenced).and(Format::Opaque);
    server.table("many", TableSettings { formats, ..opaque() });
    let mut client = server.client();
    client.check(
        "JADD many/a 1 ID sequenced:me/5/1 => [1 applied]
         JADD many/a 1 ID sequenced:me/5/300 => [2 applied]",
    );
    (301..556).for_each(|seq| client.check(&format!("JADD many/a 0 ID sequenced:me/5/{seq} => [2 applied]")));
    for restarted in [false, true] {
        client = server.reconnect(client, restarted);
        // The last 256 operations of a session are stored.
        client.check(
            "JADD many/a 1 ID sequenced:me/5/300 => [2 replayed]
             JADD many/a 2 ID sequenced:me/5/300 => -IDMISMATCH *
             JADD many/a 1 ID sequenced:me/5/1 => -IDEXPIRED *
             JADD many/a 1 ID sequenced:me/4/556 => -FENCED *
             JADD many/a 1 ID sequenced:me/99999999999999/1 => -NOSESSION *
             JADD many/a 1 ID me/5/301 => -IDFORMAT *
             JADD many/a 1 ID uuid7:x => -IDFORMAT *
             JOP many/a sequenced:me/5/1 => [forgotten]
             JOP many/a sequenced:me/5/300 => [applied [2] *",
        );
    }
    client.check(
        "JADD many/a 1 ID sequenced:me/6/1 => [3 applied]
         JADD many/a 1 ID sequenced:me/5/301 => -FENCED *
         JADD many/a 1 ID opaque:me/5/301 => [4 applied]",
    );
}

#[test]
fn many_counters_under_one_id() {
    let (mut server, mut client) = Server::with_any();
    // All changes or none, in one table, with one hash tag.
    client.check(
        "JMADD ID 1 any/{t}a 1 any/{t}b -2 any/{t}a 3 => [[1 -2 4] applied]
         JMADD ID 1 any/{t}a 1 any/{t}b -2 any/{t}a 3 => [[1 -2 4] replayed]
         JMADD ID 1 any/{t}a 1 any/{t}b -2 => -IDMISMATCH *
         SET any/{t}c text => OK
         JMADD ID 2 any/{t}a 1 any/{t}c 1 => -ERR value is not an integer or out of range
         SET any/{t}d 9223372036854775807 => OK
         JMADD ID 2 any/{t}a 1 any/{t}d 1 => -ERR increment or decrement would overflow
         MGET any/{t}a any/{t}b any/{t}d => [\"4\" \"-2\" \"9223372036854775807\"]
         JMADD ID 2 any/1 1 any/2 1 any/3 1 any/4 1 any/5 1 any/6 1 any/7 1 any/8 1 => -CROSSSLOT *
         JMADD ID 2 any/{t}a 1 default/{t}a 1 => -CROSSSLOT *
         MGET any/1 any/2 any/3 => [nil nil nil]
         JMADD ID 3 any/a => -ERR *
         JMADD ID 3 => -ERR *
         JMADD x 3 any/a 1 => -ERR *
         JMADD ID 3 any/a 1 any/b => -ERR *",
    );
    server.reconnect(client, true).check(
        "JMADD ID 1 any/{t}a 1 any/{t}b -2 any/{t}a 3 => [[1 -2 4] replayed]
         MGET any/{t}a any/{t}b => [\"4\" \"-2\"]",
    );
}

#[test]
fn jop_reports_the_status_of_an_id() {
    let (server, mut client) = Server::with_any();
    let before = server.millis();
    client.check(
        "JOP any/a 1 => [unknown]
         JADD any/a 5 ID 1 => [5 applied]
         JADD any/a 5 ID 2 MAX 7 => [5 refused]
         JOP any/a 2 => [refused [5] *
         JMADD ID 3 any/{x}1 1 any/{x}2 2 => [[1 2] applied]
         jop any/{x}3 3 => [applied [1 2] *",
    );
    let reply = client.run("JOP any/a 1");
    let millis = reply.strip_prefix("[applied [5] ").and_then(|rest| rest.strip_suffix(']')).expect("a time");
    assert!((before..=server.millis()).contains(&millis.parse::<u64>().unwrap()), "{reply}");
    // The same id on several rows is several operations, whether the rows share a partition or not.
    for row in 0..1_000 {
        client.check(&format!("JADD any/{row} 1 ID 4 => [1 applied]"));
    }
    client.check(
        "JADD any/7 1 ID 4 => [1 replayed]
         JADD any/7 2 ID 4 => -IDMISMATCH *
         JADD any/{7} 1 ID 4 => -IDMISMATCH *
         JOP any/{7}8 4 => [applied [1] *
         JOP any/1000 4 => [unknown]",
    );
    // In the default table.
    let id = OpId::uuid7_from(server.millis(), 9);
    client.check(&format!(
        "JOP a {id} => [unknown]
         JADD a 1 ID {id} => [1 applied]
         JOP a {id} => [applied [1] *
         JOP a x => -IDFORMAT *
         JOP 1 => -ERR syntax error: use JOP key id
         JOP 1 TABLE any => -ERR syntax error: use JOP key id
         JOP none/a 1 => -NOTABLE *"
    ));
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
