//! Keys that expire during a test.

use crate::redis::Both;
use crate::server::eventually;

#[test]
fn a_key_is_absent_after_its_expiry_time() {
    let both = Both::start();
    let mut pair = both.pair(2);
    for (set, request, gone) in [
        ("SET {t}a 1 PX 30", "GET {t}a", "nil"),
        ("PSETEX {t}a 30 1", "EXISTS {t}a", "0"),
        ("MSET {t}a 1", "PEXPIRE {t}a 30", "0"),
        ("SET {t}a 1 PX 30", "TTL {t}a", "-2"),
        ("SET {t}a 1 PX 30", "TYPE {t}a", "none"),
        ("SET {t}a 5 PX 30", "SETNX {t}a 1", "1"),
        ("SET {t}a 5 PX 30", "DBSIZE", "0"),
    ] {
        pair.each(|client| {
            assert_eq!(client.run(set), "OK", "{set}");
            if request.starts_with("PEXPIRE") {
                assert_eq!(client.run(request), "1");
                eventually(request, || client.run("STRLEN {t}a") == gone);
            } else {
                eventually(request, || client.run(request) == gone);
            }
            // A new value has no expiry time.
            client.run("DEL {t}a");
            assert_eq!(client.run("INCR {t}a"), "1");
            assert_eq!(client.run("TTL {t}a"), "-1");
            client.run("DEL {t}a");
        });
    }
}

#[test]
fn writes_after_expiry_start_from_an_empty_key() {
    let both = Both::start();
    let mut pair = both.pair(2);
    pair.each(|client| {
        // A short-lived counter, as used by rate limiters.
        client.check("SET a 100 PX 20 => OK");
        eventually("a new counter", || client.run("INCR a").parse::<i64>().unwrap() < 100);
        client.check("TTL a => -1\nSET b x PX 20 => OK");
        eventually("no longer a text", || client.run("INCR b") == "1");
        client.check("SET c x PX 20 => OK");
        eventually("nothing to append to", || client.run("EXISTS c") == "0");
        client.check("APPEND c y => 1\nDEL a b c => 3");
    });
}
