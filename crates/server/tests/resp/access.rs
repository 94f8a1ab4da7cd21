//! Who may do what: tokens, rights in tables, rates.

use jeton_auth::{Access, Grant, Limits, RANDOM_BYTES, Rate, TableRule, TokenStore};
use jeton_server::Options;

use crate::client::{Client, show, words};
use crate::server::{Server, opaque};

const NOW: u64 = 1_700_000_000_000;

fn rule(pattern: &str, rights: &str) -> TableRule {
    TableRule { pattern: pattern.parse().unwrap(), rights: rights.parse().unwrap() }
}

fn grant(name: &str, rules: &[(&str, &str)]) -> Grant {
    Grant {
        tables: rules.iter().map(|(pattern, rights)| rule(pattern, rights)).collect(),
        ..Grant::new(name)
    }
}

/// A server with these tokens, as they are shown.
fn guarded(grants: &[Grant]) -> (Server, Vec<String>) {
    let mut book = TokenStore::new();
    let tokens = grants.iter().enumerate().map(|(number, grant)| {
        let random: [u8; RANDOM_BYTES] = std::array::from_fn(|place| (place * 7 + number * 31 + 1) as u8);
        book.add(grant.clone(), &random, NOW).unwrap().reveal()
    });
    let tokens = tokens.collect();
    let options = Options { allow_flush: true, ..Options::default() };
    let server = Server::with_access(options, Access::from_book(&book));
    server.table("other", opaque());
    (server, tokens)
}

fn known(server: &Server, token: &str) -> Client {
    let mut client = server.client();
    assert_eq!(client.ask(&format!("AUTH {token}")), "OK");
    client
}

#[test]
fn strangers_may_say_who_they_are_and_nothing_else() {
    let (server, tokens) = guarded(&[grant("all", &[("*", "read add admin")])]);
    let mut client = server.client();
    for asked in [
        "PING",
        "GET a",
        "INCR a",
        "MULTI",
        "EXEC",
        "INFO",
        "COMMAND",
        "JADD a 1",
        "SCAN 0",
        "CONFIG GET *",
        "CLIENT ID",
    ] {
        assert_eq!(client.ask(asked), "-NOAUTH Authentication required.", "{asked}");
    }
    assert!(client.ask("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    for asked in ["AUTH wrong", "AUTH default wrong", "HELLO 3 AUTH default wrong"] {
        assert!(client.ask(asked).starts_with("-WRONGPASS "), "{asked}");
    }
    assert_eq!(client.ask("GET a"), "-NOAUTH Authentication required.");
    assert!(client.ask("FOO").starts_with("-ERR unknown command"));
    // A stranger's commands are short.
    let mut greedy = server.client();
    greedy.send(b"*11\r\n");
    assert_eq!(greedy.read_to_end(), b"-ERR Protocol error: unauthenticated multibulk length\r\n");
    let mut greedy = server.client();
    greedy.send(b"*2\r\n$4\r\nAUTH\r\n$20000\r\n");
    assert_eq!(greedy.read_to_end(), b"-ERR Protocol error: unauthenticated bulk length\r\n");

    assert_eq!(client.ask(&format!("AUTH {}", tokens[0])), "OK");
    assert_eq!(client.ask("INCR a"), "1");
    assert_eq!(client.ask("RESET"), "RESET");
    assert_eq!(client.ask("INCR a"), "-NOAUTH Authentication required.");
    assert!(client.ask(&format!("HELLO 3 AUTH default {} SETNAME me", tokens[0])).starts_with('{'));
    assert_eq!(client.ask("CLIENT GETNAME"), "\"me\"");
    assert_eq!(client.ask("INCR a"), "2");
    // A wrong one does not take away what the right one gave.
    assert!(client.ask("AUTH wrong").starts_with("-WRONGPASS "));
    assert_eq!(client.ask("INCR a"), "3");
}

#[test]
fn who_says_who_it_is_may_say_more_in_the_same_breath() {
    let (server, tokens) = guarded(&[grant("all", &[("*", "read add admin")])]);
    let mut client = server.client();
    let keys: Vec<String> = (0..30).map(|number| format!("k{number}")).collect();
    let ask =
        [words("GET a"), words(&format!("AUTH {}", tokens[0])), words(&format!("MGET {}", keys.join(" ")))];
    client.send(&ask.concat());
    assert_eq!(client.read_raw(), b"-NOAUTH Authentication required.\r\n");
    assert_eq!(client.read_raw(), b"+OK\r\n");
    assert!(client.read_raw().starts_with(b"*30\r\n"));
    client.send(&[words("INCR a"), words("RESET"), words("INCR a")].concat());
    assert_eq!(client.read_raw(), b":1\r\n");
    assert_eq!(client.read_raw(), b"+RESET\r\n");
    assert_eq!(client.read_raw(), b"-NOAUTH Authentication required.\r\n");
}

#[test]
fn a_token_creates_no_more_counters_than_it_may() {
    let all = [("*", "read add admin")];
    let limits = Limits { counters: Some(3), ..Limits::default() };
    let (server, tokens) = guarded(&[Grant { limits, ..grant("few", &all) }, grant("free", &all)]);
    let (mut few, mut free) = (known(&server, &tokens[0]), known(&server, &tokens[1]));
    let used =
        || server.service().access.used().into_iter().find(|used| used.name == "few").unwrap().counters;
    assert_eq!(few.ask("INCR {t}a"), "1");
    assert_eq!(few.ask("INCR {t}a"), "2");
    assert_eq!(few.ask("GET {t}b"), "nil");
    // What a bound refuses, or cannot be, creates nothing.
    assert_eq!(few.ask("JADD other/x 1 ID i1 MIN 5"), "[0 refused]");
    assert_eq!(few.ask("JADD other/x 1 ID i1 MIN 5"), "[0 refused-replayed]");
    assert!(few.ask("JADD other/x 1 ID i1").starts_with("-IDMISMATCH "));
    assert_eq!(used(), 1);
    // Of what comes together the first pass, and one counter is charged once.
    let together = ["INCR {t}b", "INCR {t}b", "INCR {t}c", "INCR {t}d", "INCR {t}a", "GET {t}d"].map(words);
    few.send(&together.concat());
    let told: Vec<String> = (0..6).map(|_| show(&few.read())).collect();
    assert_eq!(told[..3], ["1", "2", "1"]);
    let refused = "-QUOTA this token may create 3 counters, and these would be more";
    assert_eq!(told[3..], [refused, "3", "nil"]);
    assert_eq!(used(), 3);
    // There is no other way to make one,
    for asked in [
        "SET {t}d 1",
        "SET {t}d text",
        "SET {t}d 1 NX",
        "MSET {t}d 1 {t}e 2",
        "MSET d 1 e 2",
        "APPEND {t}d x",
        "INCREX {t}d",
        "JSET other/d 1 ID i2",
        "JRESET other/d ID i3",
        "JMADD ID i4 other/{t}d 1 other/{t}e 1",
    ] {
        assert_eq!(few.ask(asked), refused, "{asked}");
    }
    assert_eq!(few.ask("MULTI"), "OK");
    assert_eq!(few.ask("INCR {t}a"), "QUEUED");
    assert_eq!(few.ask("INCR {t}d"), "QUEUED");
    assert_eq!(few.ask("EXEC"), refused);
    assert_eq!(free.ask("EXISTS {t}d {t}e d e other/d other/{t}d"), "0");
    // nor by deleting one first, in the same breath or not.
    few.send(&[words("JDEL {t}c"), words("INCR {t}c")].concat());
    few.read();
    assert_eq!(show(&few.read()), refused);
    assert_eq!(few.ask("DEL {t}b"), "1");
    assert_eq!(few.ask("INCR {t}b"), refused);
    // What others made can be changed, and a retry gets its answer.
    assert_eq!(free.ask("INCR {t}d"), "1");
    assert_eq!(few.ask("INCR {t}d"), "2");
    assert_eq!(few.ask("SET {t}a 9"), "OK");
    assert_eq!(few.ask("MSET {t}a 1 {t}d 2"), "OK");
    assert_eq!(used(), 3);
    assert!(server.service().metrics.get(jeton_server::Metric::Quota) >= 10);
}

#[test]
fn each_verb_needs_its_right() {
    let (server, tokens) = guarded(&[
        grant("reader", &[("default", "read")]),
        grant("adder", &[("default", "add")]),
        grant("admin", &[("default", "admin")]),
        grant("elsewhere", &[("other", "read add admin")]),
    ]);
    let mut clients: Vec<Client> = tokens.iter().map(|token| known(&server, token)).collect();
    let read = "GET a;JGET a;MGET a b;EXISTS a;TTL a;PTTL a;EXPIRETIME a;TYPE a;STRLEN a;GETRANGE a 0 1;TOUCH a;SCAN 0;DBSIZE;\
                JOP 01980000-0000-7000-8000-000000000000";
    let add = "INCR a;DECR a;INCRBY a 1;DECRBY a 1;INCREX a;JADD a 1;JMADD ID x a 1";
    let admin = "SET a 1;SET a 1 XX;SETNX a 1;SETEX a 1 1;PSETEX a 1 1;MSET a 1;MSETNX a 1;GETSET a 1;GETDEL a;GETEX a;APPEND a 1;\
                 DEL a;UNLINK a;EXPIRE a 1;PEXPIRE a 1;EXPIREAT a 1;PEXPIREAT a 1;PERSIST a;JSET a 1;JRESET a;JDEL a;FLUSHALL;FLUSHDB";
    for (right, verbs) in [(0, read), (1, add), (2, admin)] {
        for asked in verbs.split(';') {
            for (number, client) in clients.iter_mut().enumerate() {
                let answer = client.ask(asked.trim());
                assert_eq!(answer.starts_with("-NOPERM "), number != right, "{asked} by {number}: {answer}");
            }
        }
    }
    for client in &mut clients {
        assert_eq!(client.ask("PING"), "PONG");
    }
    // In a transaction as well, and none of it is made.
    let adder = &mut clients[1];
    for (asked, answer) in [("MULTI", "OK"), ("INCR {t}a", "QUEUED"), ("GET {t}a", "QUEUED")] {
        assert_eq!(adder.ask(asked), answer);
    }
    assert!(adder.ask("EXEC").starts_with("-NOPERM "));
    assert_eq!(clients[0].ask("GET {t}a"), "nil");
    assert_eq!(clients[3].ask("INCR other/a"), "1");
    // Whether there is such a table, nobody learns who has no right to it.
    assert_eq!(clients[0].ask("GET other/a"), clients[0].ask("GET none/a"));
    assert!(clients[0].ask("GET none/a").starts_with("-NOPERM "));
}

#[test]
fn a_token_has_a_rate() {
    let rate = Some(Rate { per_second: 1, burst: 20 });
    let limits = Limits { operations: rate, ..Limits::default() };
    let (server, tokens) = guarded(&[
        Grant { limits, ..grant("slow", &[("*", "read add admin")]) },
        grant("free", &[("*", "read add admin")]),
    ]);
    let mut free = known(&server, &tokens[1]);
    let mut client = known(&server, &tokens[0]);
    for number in 1..=5 {
        assert_eq!(client.ask("INCR {t}a"), number.to_string());
    }
    // More at once than there will ever be.
    let keys: Vec<String> = (0..21).map(|number| format!("{{t}}{number}")).collect();
    for verb in ["MGET", "DEL", "EXISTS"] {
        let answer = client.ask(&format!("{verb} {}", keys.join(" ")));
        assert!(answer.starts_with("-BUSY ") && answer.contains("at most 20"), "{verb}: {answer}");
    }
    // A transaction costs what is in it, and is given up if that is too much.
    assert_eq!(client.ask("MULTI"), "OK");
    (0..30).for_each(|_| assert_eq!(client.ask("INCR {t}a"), "QUEUED"));
    assert!(client.ask("EXEC").starts_with("-BUSY "));
    assert_eq!(client.ask("EXEC"), "-ERR EXEC without MULTI");
    assert_eq!(free.ask("GET {t}a"), "\"5\"");
    // Commands that come together are spent for one by one: the first of them pass.
    client.send(&words("INCR {t}a").repeat(30));
    let told: Vec<bool> = (0..30).map(|_| client.read().as_integer().is_some()).collect();
    let passed = told.iter().filter(|passed| **passed).count();
    assert!((10..30).contains(&passed), "{told:?}");
    assert!(told[..10].iter().all(|passed| *passed) && !told[29], "{told:?}");
    assert_eq!(free.ask(&format!("DECRBY {{t}}a {passed}")), "5");
    // The rest of the burst, and then no more; but what needs no counters goes on, and transactions begin.
    let mut made = 0;
    let refused = loop {
        match client.ask("INCR {t}a") {
            answer if answer.starts_with('-') => break answer,
            _ => made += 1,
        }
    };
    assert!(refused.starts_with("-BUSY over the rate of this token, try again in"), "{refused}");
    assert!(made <= 20, "{made}");
    assert_eq!(client.ask("PING"), "PONG");
    assert_eq!(client.ask("MULTI"), "OK");
    assert_eq!(client.ask("INCR {t}a"), "QUEUED");
    assert_eq!(client.ask("DISCARD"), "OK");
    assert_eq!(free.ask("INCR {t}a"), (5 + made + 1).to_string());
    assert!(server.service().metrics.get(jeton_server::Metric::Throttled) >= 5);
}
