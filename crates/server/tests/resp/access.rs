//! Access tokens, rights in tables, quotas and rate limits.

use std::time::{Duration, Instant};

use jeton_auth::{Access, Grant, Limits, RANDOM_BYTES, Rate, TableRule, TokenFile, TokenStore};
use jeton_server::Options;

use crate::client::{Client, words};
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
    client.check(
        "HELLO 3 => -NOAUTH HELLO must be called*
         AUTH wrong => -WRONGPASS *
         AUTH default wrong => -WRONGPASS *
         HELLO 3 AUTH default wrong => -WRONGPASS *
         GET a => -NOAUTH Authentication required.
         FOO => -ERR unknown command*",
    );
    // Unauthenticated clients have lower limits.
    for (sent, reply) in [
        ("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        ("*2\r\n$4\r\nAUTH\r\n$20000\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
    ] {
        let mut flooder = server.client();
        flooder.send(sent.as_bytes());
        assert_eq!(flooder.read_to_end(), reply.as_bytes());
    }
    // A failed AUTH keeps the present authentication.
    let token = &tokens[0];
    client.check(&format!(
        "AUTH {token} => OK
         INCR a => 1
         RESET => RESET
         INCR a => -NOAUTH Authentication required.
         HELLO 3 AUTH default {token} SETNAME me => {{*
         CLIENT GETNAME => \"me\"
         INCR a => 2
         AUTH wrong => -WRONGPASS *
         INCR a => 3"
    ));
}

#[test]
fn auth_applies_to_later_commands_of_a_pipeline() {
    let (server, tokens) = guarded(&[grant("all", &[("*", "read add admin")])]);
    let mut client = server.client();
    let keys: Vec<String> = (0..30).map(|number| format!("k{number}")).collect();
    let (auth, read) = (format!("AUTH {}", tokens[0]), format!("MGET {}", keys.join(" ")));
    let nothing = format!("[{}]", ["nil"; 30].join(" "));
    let rejected = "-NOAUTH Authentication required.";
    assert_eq!(client.pipeline(&["GET a", &auth, &read]), [rejected, "OK", &nothing]);
    assert_eq!(client.pipeline(&["INCR a", "RESET", "INCR a"]), ["1", "RESET", rejected]);
}

#[test]
fn counter_quota_limits_creation() {
    let all = [("*", "read add admin")];
    let limits = Limits { counters: Some(3), ..Limits::default() };
    let (server, tokens) = guarded(&[Grant { limits, ..grant("few", &all) }, grant("free", &all)]);
    let (mut few, mut free) = (authenticated(&server, &tokens[0]), authenticated(&server, &tokens[1]));
    let used =
        || server.service().access.used().into_iter().find(|used| used.name == "few").unwrap().counters;
    // Refused and rejected operations create nothing.
    few.check(
        "INCR {t}a => 1
         INCR {t}a => 2
         GET {t}b => nil
         JADD other/x 1 ID i1 MIN 5 => [0 refused]
         JADD other/x 1 ID i1 MIN 5 => [0 refused-replayed]
         JADD other/x 1 ID i1 => -IDMISMATCH *",
    );
    assert_eq!(used(), 1);
    // Within a pipeline the first commands pass, and one counter is charged once.
    let replies =
        few.pipeline(&["INCR {t}b", "INCR {t}b", "INCR {t}c", "INCR {t}d", "INCR {t}a", "GET {t}d"]);
    let refused = "-QUOTA this token may create 3 counters; the request exceeds this quota";
    assert_eq!(replies, ["1", "2", "1", refused, "3", "nil"]);
    assert_eq!(used(), 3);
    // No other command can create a counter,
    let creating = "SET {t}d 1;SET {t}d text;SET {t}d 1 NX;MSET {t}d 1 {t}e 2;MSET d 1 e 2;APPEND {t}d x;INCREX {t}d;\
                    JSET other/d 1 ID i2;JRESET other/d ID i3;JMADD ID i4 other/{t}d 1 other/{t}e 1";
    for request in creating.split(';') {
        assert_eq!(few.run(request), refused, "{request}");
    }
    let replies = few.pipeline(&["MULTI", "INCR {t}a", "INCR {t}d", "EXEC"]);
    assert_eq!(replies, ["OK", "QUEUED", "QUEUED", refused]);
    free.check("EXISTS {t}d {t}e d e other/d other/{t}d => 0");
    // also not after deleting one, in the same pipeline or later.
    assert_eq!(few.pipeline(&["JDEL {t}c", "INCR {t}c"])[1], refused);
    few.check("DEL {t}b => 1\nINCR {t}b => -QUOTA *");
    // Existing counters of others can be changed.
    free.check("INCR {t}d => 1");
    few.check("INCR {t}d => 2\nSET {t}a 9 => OK\nMSET {t}a 1 {t}d 2 => OK");
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
                JOP a 01980000-0000-7000-8000-000000000000";
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
    clients.iter_mut().for_each(|client| client.check("PING => PONG"));
    // A transaction without the right has no effect.
    clients[1].check("MULTI => OK\nINCR {t}a => QUEUED\nGET {t}a => QUEUED\nEXEC => -NOPERM *");
    clients[3].check("INCR other/a => 1");
    clients[0].check("GET {t}a => nil\nGET none/a => -NOPERM *");
    // A client without a right does not learn whether a table exists.
    assert_eq!(clients[0].run("GET other/a"), clients[0].run("GET none/a"));
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
    client.check("PING => PONG\nMULTI => OK\nINCR {t}a => QUEUED\nDISCARD => OK");
    assert_eq!(free.run("INCR {t}a"), (5 + made + 1).to_string());
    assert!(server.service().metrics.get(jeton_server::Metric::Throttled) >= 5);
}

#[test]
fn info_names_only_tables_with_rights() {
    let server_admin = Grant { server: true, ..Grant::new("server") };
    let (server, tokens) =
        guarded(&[grant("reader", &[("other", "read")]), Grant::new("none"), server_admin]);
    for (token, seen) in tokens.iter().zip([[false, true], [false, false], [true, true]]) {
        let info = authenticated(&server, token).run("INFO");
        assert_eq!(["default", "other"].map(|name| info.contains(&format!("table_{name}:"))), seen, "{info}");
    }
}

#[test]
fn a_revoked_token_ends_open_connections() {
    let folder = tempfile::tempdir().unwrap();
    let file = TokenFile::new(folder.path().join("tokens.toml"));
    let all = grant("all", &[("*", "read add admin")]);
    let token = file.edit(|store| store.add(all, &[7; RANDOM_BYTES], NOW)).unwrap().reveal();
    let server = Server::with_access(Options::default(), Access::from_file(file.path()).unwrap());
    let mut client = authenticated(&server, &token);
    client.check("INCR a => 1\nMULTI => OK\nINCR a => QUEUED");
    file.edit(|store| store.remove("all")).unwrap();
    assert!(server.service().access.reload_if_changed().unwrap());
    for request in "EXEC;PING;INFO;COMMAND;CONFIG GET *;CLIENT ID;INCR a;GET a;SCAN 0".split(';') {
        assert_eq!(client.run(request), "-NOAUTH Authentication required.", "{request}");
    }
}

#[test]
fn failed_authentication_delays_the_connection() {
    let (server, tokens) = guarded(&[grant("all", &[("*", "read add admin")])]);
    let (mut guesser, start) = (server.client(), Instant::now());
    for request in ["AUTH wrong", "HELLO 3 AUTH default wrong", "AUTH default wrong"] {
        assert!(guesser.run(request).starts_with("-WRONGPASS "), "{request}");
    }
    // 50 + 100 + 200 ms.
    assert!(start.elapsed() >= Duration::from_millis(350), "{:?}", start.elapsed());
    assert_eq!(server.service().metrics.get(jeton_server::Metric::RespAuthFailures), 3);
    assert_eq!(guesser.run(&format!("AUTH {}", tokens[0])), "OK");
}
