//! Scans over all keys during concurrent writes.

use std::collections::BTreeSet;

use jeton_resp::reply_parser::Value;
use jeton_server::Options;

use crate::client::{Client, command, words};
use crate::server::Server;

/// A page of a scan: the next cursor and the keys.
fn page(client: &mut Client, cursor: &str, options: &str) -> (String, Vec<String>) {
    client.send(&words(&format!("SCAN {cursor} {options}")));
    let Value::Array(parts) = client.read() else { panic!("a cursor and keys") };
    let [cursor, Value::Array(keys)] = &parts[..] else { panic!("{parts:?}") };
    let text = |value: &Value| String::from_utf8(value.as_bytes().unwrap().to_vec()).unwrap();
    (text(cursor), keys.iter().map(text).collect())
}

fn scan_all(client: &mut Client, options: &str) -> Vec<String> {
    let (mut cursor, mut all) = page(client, "0", options);
    while cursor != "0" {
        let (next, keys) = page(client, &cursor, options);
        cursor = next;
        all.extend(keys);
    }
    all
}

fn set_all(client: &mut Client, keys: impl Iterator<Item = String>) {
    let commands: Vec<Vec<u8>> = keys.map(|key| command(&["SET", &key, "1"])).collect();
    client.send(&commands.concat());
    commands.iter().for_each(|_| assert_eq!(client.read(), Value::Simple(b"OK".into())));
}

#[test]
fn a_scan_reports_every_key_that_stays() {
    let (server, mut client) = Server::with_client();
    let (mut kept, mut temporary) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..3000 {
        kept.insert(format!("kept{number}"));
        temporary.insert(format!("temporary{number}"));
    }
    set_all(&mut client, kept.iter().chain(&temporary).cloned());
    assert_eq!(client.run("DBSIZE"), "6000");

    let mut other = server.client();
    let (mut cursor, mut reply) = page(&mut client, "0", "COUNT 50");
    let mut to_delete = temporary.iter();
    let mut added = 0;
    let mut deleted = BTreeSet::new();
    while cursor != "0" {
        // Another client deletes and adds keys between the pages.
        for key in to_delete.by_ref().take(40) {
            assert_eq!(other.run(&format!("DEL {key}")), "1");
            deleted.insert(key.clone());
        }
        set_all(&mut other, (0..40).map(|number| format!("added{}", added + number)));
        added += 40;
        let before = deleted.clone();
        let (next, keys) = page(&mut client, &cursor, "COUNT 50");
        assert!(keys.len() <= 50);
        for key in &keys {
            assert!(!before.contains(key), "{key} was deleted before");
        }
        reply.extend(keys);
        cursor = next;
    }
    let reply: BTreeSet<String> = reply.into_iter().collect();
    for key in &kept {
        assert!(reply.contains(key), "{key} was not reported");
    }
    assert!(deleted.len() > 1000 && added > 1000, "{} {added}", deleted.len());
    let now = 6000 - deleted.len() + added;
    assert_eq!(client.run("DBSIZE"), now.to_string());
    let all = scan_all(&mut client, "COUNT 4000");
    assert_eq!(all.len(), now);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), now, "no key twice");
}

#[test]
fn match_and_type_filter_keys() {
    let server = Server::start();
    server.table("other", crate::server::opaque());
    let mut client = server.client();
    set_all(&mut client, (0..300).map(|number| format!("user:{number}")));
    set_all(&mut client, (0..50).map(|number| format!("item[{number}]")));
    set_all(&mut client, (0..9).map(|number| format!("other/{number}")));
    assert_eq!(client.run("DBSIZE"), "350");
    for (options, keys) in [
        ("MATCH user:* COUNT 7", 300),
        ("MATCH user:1?", 10),
        ("MATCH [i]tem* COUNT 20", 50),
        ("TYPE string", 350),
        ("TYPE hash", 0),
        ("MATCH nothing*", 0),
        ("MATCH other*", 0),
    ] {
        assert_eq!(scan_all(&mut client, options).len(), keys, "{options}");
    }
    assert_eq!(scan_all(&mut client, "MATCH *:1 COUNT 1000"), ["user:1"]);
    assert_eq!(scan_all(&mut client, "MATCH user:7"), ["user:7"]);
    assert_eq!(scan_all(&mut client, "MATCH item\\[1\\] COUNT 20"), ["item[1]"]);
    // Expired keys are not reported.
    assert_eq!(client.run("PEXPIREAT user:7 1"), "1");
    assert_eq!(scan_all(&mut client, "MATCH user:7").len(), 0);
    let reply = client.run("SCAN 123456789");
    assert_eq!(reply, "-ERR invalid cursor: it was dropped; start again at 0");
}

#[test]
fn reported_names_resolve_to_their_keys() {
    let (_server, mut client) = Server::with_client();
    assert_eq!(client.run("MSET default/a/b 1 deep 2"), "OK");
    for options in ["", "MATCH d*", "MATCH default/*", "MATCH default/a*", "MATCH *"] {
        let all = scan_all(&mut client, options);
        assert!(all.contains(&"default/a/b".to_string()), "{options}: {all:?}");
        for key in all {
            assert_eq!(client.run(&format!("EXISTS {key}")), "1");
        }
    }
    assert_eq!(scan_all(&mut client, "MATCH a*").len(), 0);
}

#[test]
fn flush_needs_the_option() {
    let server = Server::with(Options::default());
    let mut client = server.client();
    client.check(
        "SET a 1 => OK
         FLUSHALL => -ERR deleting all counters is not allowed here*
         FLUSHDB => -ERR deleting all counters is not allowed here*
         flushall async => -ERR deleting all counters is not allowed here*
         GET a => \"1\"",
    );
    let server = Server::start();
    server.table("other", crate::server::opaque());
    let mut client = server.client();
    set_all(&mut client, (0..2500).map(|number| number.to_string()));
    client.check("SET other/a 1 => OK\nFLUSHALL => OK\nDBSIZE => 0\nGET other/a => \"1\"");
    assert_eq!(scan_all(&mut client, "").len(), 0);
}
