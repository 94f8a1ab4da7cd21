//! Tables other than the default, and tables with weaker guarantees.

use jeton_core::{Durability, Mode, TableSettings};

use crate::server::{Server, opaque};

#[test]
fn a_slash_names_a_table() {
    let (_server, mut client) = Server::with_any();
    client.check(
        "SET a 1 => OK
         SET any/a 2 => OK
         SET any/a/b 3 => OK
         MGET a default/a any/a any/a/b => [\"1\" \"1\" \"2\" \"3\"]
         GET none/a => -NOTABLE there is no table 'none'; the text before*
         SET none/a 1 => -NOTABLE *
         INCR none/a => -NOTABLE *
         DEL none/a => -NOTABLE *
         EXISTS a none/a => -NOTABLE *
         MGET a none/a => -NOTABLE *
         JADD none/a 1 => -NOTABLE *
         SET none/a 1 NX => -NOTABLE *
         GET /a => -NOTABLE there is no table ''*
         GET any/ => -ERR the row is empty
         MULTI => OK
         INCR {t}a => QUEUED
         INCR any/{t}a => QUEUED
         EXEC => -CROSSSLOT *
         MGET {t}a any/{t}a => [nil nil]",
    );
}

#[test]
fn two_names_of_a_key_are_one_key() {
    let (_server, mut client) = Server::with_client();
    let transaction =
        "MULTI;INCR a;INCR default/a;GET a;SET default/a 7;GET a;DEL a;EXISTS default/a;INCR default/a";
    for request in transaction.split(';') {
        client.run(request);
    }
    client.check(
        "EXEC => [1 2 \"2\" OK \"7\" 1 0 1]
         GET a => \"1\"
         MSETNX {t}a 1 default/{t}a 2 => 1
         MGET {t}a default/{t}a => [\"2\" \"2\"]
         DEL {t}a default/{t}a => 1",
    );
}

#[test]
fn replies_report_weaker_guarantees() {
    let mut server = Server::start();
    server.table("relaxed", TableSettings { durability: Durability::Relaxed, ..opaque() });
    server.table("probably", TableSettings { mode: Mode::Probabilistic { target: 1e-6 }, ..opaque() });
    let mut client = server.client();
    client.check(
        "JADD relaxed/a 5 ID 1 => [5 applied relaxed]
         JADD relaxed/a 5 ID 1 => [5 replayed relaxed]
         JMADD ID 2 relaxed/a 5 => [[10] applied relaxed]
         JADD relaxed/a 5 ID 3 MAX 1 => [10 refused relaxed]
         JSET relaxed/a 5 ID 4 => [5 applied relaxed]
         JADD relaxed/a 6 ID 1 => -IDMISMATCH *
         JADD probably/a 5 ID 1 => [5 applied]
         JOP probably/a 1 => [probably-seen]
         JOP probably/a 2 => [unknown]",
    );
    for restarted in [false, true] {
        client = server.reconnect(client, restarted);
        client.check(
            "JADD probably/a 5 ID 1 => [nil probably-seen]
             JMADD ID 1 probably/a 5 => [nil probably-seen]
             GET probably/a => \"5\"",
        );
    }
}

#[test]
fn oversized_transactions_are_rejected() {
    let (_server, mut client) = Server::with_client();
    // An operation has at most 256 changes: two per key, and three with an expiry time.
    for (keys, ends, fits) in
        [(128, "", true), (129, "", false), (85, " EX 100", true), (86, " EX 100", false)]
    {
        assert_eq!(client.run("MULTI"), "OK");
        for key in 0..keys {
            assert_eq!(client.run(&format!("SET {{t}}{key} v{ends}")), "QUEUED");
        }
        let reply = client.run("EXEC");
        if fits {
            assert_eq!(reply.matches("OK").count(), keys, "{reply}");
            let all: Vec<String> = (0..keys).map(|key| format!("{{t}}{key}")).collect();
            assert_eq!(client.run(&format!("DEL {}", all.join(" "))), keys.to_string());
        } else {
            assert!(reply.starts_with("-ERR too much to change at once: "), "{keys}: {reply}");
            assert_eq!(client.run("EXISTS {t}0 {t}1"), "0");
        }
    }
}
