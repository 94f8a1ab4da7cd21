//! Access tokens, rights in tables, quotas and rate limits.

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

/// A server with access tokens for these grants.
fn guarded(grants: &[Grant]) -> (Server, Vec<String>) {
    let mut store = TokenStore::new();
    let tokens = grants.iter().enumerate().map(|(number, grant)| {
        let random: [u8; RANDOM_BYTES] = std::array::from_fn(|place| (place * 7 + number * 31 + 1) as u8);
        store.add(grant.clone(), &random, NOW).unwrap().reveal()
    });
    let tokens = tokens.collect();
    let options = Options { allow_flush: true, ..Options::default() };
    let server = Server::with_access(options, Access::from_store(&store));
    server.table("other", opaque());
    (server, tokens)
}

fn authenticated(server: &Server, token: &str) -> Client {
    let mut client = server.client();
    assert_eq!(client.run(&format!("AUTH {token}")), "OK");
    client
}

#[test]
fn unauthenticated_clients_may_only_authenticate() {
    let (server, tokens) = guarded(&[grant("all", &[("*", "read add admin")])]);
    let mut client = server.client();
    let commands = "PING;GET a;INCR a;MULTI;EXEC;INFO;COMMAND;JADD a 1;SCAN 0;CONFIG GET *;CLIENT ID";
    for request in commands.split(';') {
        assert_eq!(client.run(request), "-NOAUTH Authentication required.", "{request}");
    }
    assert!(client.run("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    for request in ["AUTH wrong", "AUTH default wrong", "HELLO 3 AUTH default wrong"] {
        assert!(client.run(request).starts_with("-WRONGPASS "), "{request}");
    }
    assert_eq!(client.run("GET a"), "-NOAUTH Authentication required.");
    assert!(client.run("FOO").starts_with("-ERR unknown command"));
    // Unauthenticated clients have lower limits.
    let mut flooder = server.client();
    flooder.send(b"*11\r\n");
    assert_eq!(flooder.read_to_end(), b"-ERR Protocol error: unauthenticated multibulk length\r\n");
    let mut flooder = server.client();
    flooder.send(b"*2\r\n$4\r\nAUTH\r\n$20000\r\n");
    assert_eq!(flooder.read_to_end(), b"-ERR Protocol error: unauthenticated bulk length\r\n");

    assert_eq!(client.run(&format!("AUTH {}", tokens[0])), "OK");
    assert_eq!(client.run("INCR a"), "1");
    assert_eq!(client.run("RESET"), "RESET");
    assert_eq!(client.run("INCR a"), "-NOAUTH Authentication required.");
    assert!(client.run(&format!("HELLO 3 AUTH default {} SETNAME me", tokens[0])).starts_with('{'));
    assert_eq!(client.run("CLIENT GETNAME"), "\"me\"");
    assert_eq!(client.run("INCR a"), "2");
    // A failed AUTH keeps the present authentication.
    assert!(client.run("AUTH wrong").starts_with("-WRONGPASS "));
    assert_eq!(client.run("INCR a"), "3");
}

#[test]
fn auth_applies_to_later_commands_of_a_pipeline() {
    let (server, tokens) = guarded(&[grant("all", &[("*", "read add admin")])]);
    let mut client = server.client();
    let keys: Vec<String> = (0..30).map(|number| format!("k{number}")).collect();
    let pipeline =
        [words("GET a"), words(&format!("AUTH {}", tokens[0])), words(&format!("MGET {}", keys.join(" ")))];
    client.send(&pipeline.concat());
    assert_eq!(client.read_raw(), b"-NOAUTH Authentication required.\r\n");
    assert_eq!(client.read_raw(), b"+OK\r\n");
    assert!(client.read_raw().starts_with(b"*30\r\n"));
    client.send(&[words("INCR a"), words("RESET"), words("INCR a")].concat());
    assert_eq!(client.read_raw(), b":1\r\n");
    assert_eq!(client.read_raw(), b"+RESET\r\n");
    assert_eq!(client.read_raw(), b"-NOAUTH Authentication required.\r\n");
}

#[test]
fn counter_quota_limits_creation() {
    let all = [("*", "read add admin")];
    let limits = Limits { counters: Some(3), ..Limits::default() };
    let (server, tokens) = guarded(&[Grant { limits, ..grant("few", &all) }, grant("free", &all)]);
    let (mut few, mut free) = (authenticated(&server, &tokens[0]), authenticated(&server, &tokens[1]));
    let used =
        || server.service().access.used().into_iter().find(|used| used.name == "few").unwrap().counters;
    assert_eq!(few.run("INCR {t}a"), "1");
    assert_eq!(few.run("INCR {t}a"), "2");
    assert_eq!(few.run("GET {t}b"), "nil");
    // Refused and rejected operations create nothing.
    assert_eq!(few.run("JADD other/x 1 ID i1 MIN 5"), "[0 refused]");
    assert_eq!(few.run("JADD other/x 1 ID i1 MIN 5"), "[0 refused-replayed]");
    assert!(few.run("JADD other/x 1 ID i1").starts_with("-IDMISMATCH "));
    assert_eq!(used(), 1);
    // Within a pipeline the first commands pass, and one counter is charged once.
    let together = ["INCR {t}b", "INCR {t}b", "INCR {t}c", "INCR {t}d", "INCR {t}a", "GET {t}d"].map(words);
    few.send(&together.concat());
    let reply: Vec<String> = (0..6).map(|_| show(&few.read())).collect();
    assert_eq!(reply[..3], ["1", "2", "1"]);
    let refused = "-QUOTA this token may create 3 counters, and these would be more";
    assert_eq!(reply[3..], [refused, "3", "nil"]);
    assert_eq!(used(), 3);
    // No other command can create a counter,
    let creating = "SET {t}d 1;SET {t}d text;SET {t}d 1 NX;MSET {t}d 1 {t}e 2;MSET d 1 e 2;APPEND {t}d x;INCREX {t}d;\
                    JSET other/d 1 ID i2;JRESET other/d ID i3;JMADD ID i4 other/{t}d 1 other/{t}e 1";
    for request in creating.split(';') {
        assert_eq!(few.run(request), refused, "{request}");
    }
    assert_eq!(few.run("MULTI"), "OK");
    assert_eq!(few.run("INCR {t}a"), "QUEUED");
    assert_eq!(few.run("INCR {t}d"), "QUEUED");
    assert_eq!(few.run("EXEC"), refused);
    assert_eq!(free.run("EXISTS {t}d {t}e d e other/d other/{t}d"), "0");
    // also not after deleting one, in the same pipeline or later.
    few.send(&[words("JDEL {t}c"), words("INCR {t}c")].concat());
    few.read();
    assert_eq!(show(&few.read()), refused);
    assert_eq!(few.run("DEL {t}b"), "1");
    assert_eq!(few.run("INCR {t}b"), refused);
    // Existing counters of others can be changed.
    assert_eq!(free.run("INCR {t}d"), "1");
    assert_eq!(few.run("INCR {t}d"), "2");
    assert_eq!(few.run("SET {t}a 9"), "OK");
    assert_eq!(few.run("MSET {t}a 1 {t}d 2"), "OK");
    assert_eq!(used(), 3);
    assert!(server.service().metrics.errors(jeton_core::ErrorCode::Quota) >= 10);
}

#[test]
fn each_command_needs_its_right() {
    let (server, tokens) = guarded(&[
        grant("reader", &[("default", "read")]),
        grant("adder", &[("default", "add")]),
        grant("admin", &[("default", "admin")]),
        grant("elsewhere", &[("other", "read add admin")]),
    ]);
    let mut clients: Vec<Client> = tokens.iter().map(|token| authenticated(&server, token)).collect();
    let read = "GET a;JGET a;MGET a b;EXISTS a;TTL a;PTTL a;EXPIRETIME a;TYPE a;STRLEN a;GETRANGE a 0 1;TOUCH a;SCAN 0;DBSIZE;\
                JOP 01980000-0000-7000-8000-000000000000";
    let add = "INCR a;DECR a;INCRBY a 1;DECRBY a 1;INCREX a;JADD a 1;JMADD ID x a 1";
    let admin = "SET a 1;SET a 1 XX;SETNX a 1;SETEX a 1 1;PSETEX a 1 1;MSET a 1;MSETNX a 1;GETSET a 1;GETDEL a;GETEX a;APPEND a 1;\
                 DEL a;UNLINK a;EXPIRE a 1;PEXPIRE a 1;EXPIREAT a 1;PEXPIREAT a 1;PERSIST a;JSET a 1;JRESET a;JDEL a;FLUSHALL;FLUSHDB";
    for (right, verbs) in [(0, read), (1, add), (2, admin)] {
        for request in verbs.split(';') {
            for (number, client) in clients.iter_mut().enumerate() {
                let reply = client.run(request.trim());
                assert_eq!(reply.starts_with("-NOPERM "), number != right, "{request} by {number}: {reply}");
            }
        }
    }
    for client in &mut clients {
        assert_eq!(client.run("PING"), "PONG");
    }
    // A transaction without the right has no effect.
    let adder = &mut clients[1];
    for (request, reply) in [("MULTI", "OK"), ("INCR {t}a", "QUEUED"), ("GET {t}a", "QUEUED")] {
        assert_eq!(adder.run(request), reply);
    }
    assert!(adder.run("EXEC").starts_with("-NOPERM "));
    assert_eq!(clients[0].run("GET {t}a"), "nil");
    assert_eq!(clients[3].run("INCR other/a"), "1");
    // A client without a right does not learn whether a table exists.
    assert_eq!(clients[0].run("GET other/a"), clients[0].run("GET none/a"));
    assert!(clients[0].run("GET none/a").starts_with("-NOPERM "));
}

#[test]
fn rate_limit_applies_per_command() {
    let rate = Some(Rate { per_second: 1, burst: 20 });
    let limits = Limits { operations: rate, ..Limits::default() };
    let (server, tokens) = guarded(&[
        Grant { limits, ..grant("slow", &[("*", "read add admin")]) },
        grant("free", &[("*", "read add admin")]),
    ]);
    let mut free = authenticated(&server, &tokens[1]);
    let mut client = authenticated(&server, &tokens[0]);
    for number in 1..=5 {
        assert_eq!(client.run("INCR {t}a"), number.to_string());
    }
    // More operations than the burst size.
    let keys: Vec<String> = (0..21).map(|number| format!("{{t}}{number}")).collect();
    for verb in ["MGET", "DEL", "EXISTS"] {
        let reply = client.run(&format!("{verb} {}", keys.join(" ")));
        assert!(reply.starts_with("-BUSY ") && reply.contains("at most 20"), "{verb}: {reply}");
    }
    // A transaction costs the sum of its commands and is discarded above the limit.
    assert_eq!(client.run("MULTI"), "OK");
    (0..30).for_each(|_| assert_eq!(client.run("INCR {t}a"), "QUEUED"));
    assert!(client.run("EXEC").starts_with("-BUSY "));
    assert_eq!(client.run("EXEC"), "-ERR EXEC without MULTI");
    assert_eq!(free.run("GET {t}a"), "\"5\"");
    // Commands of a pipeline are charged one by one: the first pass.
    client.send(&words("INCR {t}a").repeat(30));
    let reply: Vec<bool> = (0..30).map(|_| client.read().as_integer().is_some()).collect();
    let passed = reply.iter().filter(|passed| **passed).count();
    assert!((10..30).contains(&passed), "{reply:?}");
    assert!(reply[..10].iter().all(|passed| *passed) && !reply[29], "{reply:?}");
    assert_eq!(free.run(&format!("DECRBY {{t}}a {passed}")), "5");
    // The rest of the burst is used up. Commands without keys still work, and so does MULTI.
    let mut made = 0;
    let refused = loop {
        match client.run("INCR {t}a") {
            reply if reply.starts_with('-') => break reply,
            _ => made += 1,
        }
    };
    assert!(refused.starts_with("-BUSY over the rate limit of this token, try again in"), "{refused}");
    assert!(made <= 20, "{made}");
    assert_eq!(client.run("PING"), "PONG");
    assert_eq!(client.run("MULTI"), "OK");
    assert_eq!(client.run("INCR {t}a"), "QUEUED");
    assert_eq!(client.run("DISCARD"), "OK");
    assert_eq!(free.run("INCR {t}a"), (5 + made + 1).to_string());
    assert!(server.service().metrics.get(jeton_server::Metric::Throttled) >= 5);
}
