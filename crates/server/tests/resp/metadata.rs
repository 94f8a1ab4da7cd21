//! `COMMAND` reports the same metadata as Redis for commands of the same name.

use jeton_resp::reply_parser::Value;

use crate::client::show;
use crate::redis::Both;
use crate::server::Server;

/// Commands of Jeton only, or newer than the Redis used for comparison.
const OURS: &[&str] = &["increx", "jadd", "jdel", "jget", "jmadd", "jop", "jreset", "jset"];

#[test]
fn client_libraries_find_their_fields() {
    let (server, mut client) = Server::with_client();
    client.check(
        "CLIENT SETNAME me => OK
         CLIENT SETINFO LIB-NAME redis-py => OK
         CLIENT SETINFO lib-ver 5.0 => OK
         CLIENT SETINFO lib-foo 5.0 => -ERR Unrecognized option 'lib-foo'
         KEYS * => -ERR KEYS is not supported: it would block the server; use SCAN
         watch a => -ERR WATCH is not supported: use commands with an id*",
    );
    let list = client.call(&["CLIENT", "LIST"]).as_bytes().unwrap().to_vec();
    let list = String::from_utf8(list).unwrap();
    for field in ["name=me ", "user=default ", "resp=2 ", "lib-name=redis-py ", "lib-ver=5.0\n", " db=0 "] {
        assert!(list.contains(field), "{field}: {list}");
    }
    let id = client.run("CLIENT ID");
    assert_eq!(client.call(&["CLIENT", "LIST", "ID", &id]).as_bytes().unwrap().len(), list.len());
    let info = String::from_utf8(client.call(&["INFO"]).as_bytes().unwrap().to_vec()).unwrap();
    let number = |name: &str| {
        let line =
            info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default();
        line.parse::<u64>().unwrap_or_else(|_| panic!("{name}: {info}"))
    };
    assert_eq!(number("arch_bits"), u64::from(usize::BITS));
    assert_eq!(number("tcp_port"), u64::from(server.port()));
    assert!(number("used_memory") > 0 && number("server_time_usec") > 0);
    for zero in ["cluster_enabled", "maxmemory", "loading", "rdb_bgsave_in_progress", "uptime_in_days"] {
        assert_eq!(number(zero), 0, "{zero}");
    }
    let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap();
    assert!(run_id.len() == 40 && run_id.bytes().all(|digit| digit.is_ascii_hexdigit()), "{run_id}");
    assert_eq!(client.run("CONFIG GET port"), format!("[\"port\" \"{}\"]", server.port()));
    let cluster = client.call(&["INFO", "cluster"]);
    assert_eq!(cluster.as_bytes(), Some(&b"# Cluster\r\ncluster_enabled:0\r\n\r\n"[..]));
}

/// Name, arity, flags, first key, last key, step, categories.
const FIELDS: usize = 7;

#[test]
fn command_metadata_matches_redis() {
    let both = Both::start();
    for version in [2, 3] {
        let mut pair = both.pair(version);
        let Value::Array(names) = pair.jeton.call(&["COMMAND", "LIST"]) else { panic!("a list") };
        assert_eq!(pair.jeton.call(&["COMMAND", "COUNT"]), Value::Integer(names.len() as i64));
        assert!(names.len() > 50);
        for name in &names {
            let name = name.as_bytes().unwrap();
            let [redis, jeton] = [&mut pair.redis, &mut pair.jeton].map(|client| {
                let Value::Array(mut one) = client.call(&[b"COMMAND", &b"INFO"[..], name]) else {
                    panic!("a list")
                };
                one.pop().unwrap()
            });
            let Value::Array(jeton) = jeton else { panic!("{} is described", name.escape_ascii()) };
            assert_eq!(jeton.len(), 10);
            match redis {
                Value::Array(redis) => {
                    for (redis, jeton) in redis[..FIELDS].iter().zip(&jeton) {
                        assert_eq!(show(jeton), show(redis), "{}", name.escape_ascii());
                    }
                }
                other => {
                    assert_eq!(other, Value::Null);
                    assert!(OURS.contains(&std::str::from_utf8(name).unwrap()), "{}", name.escape_ascii());
                }
            }
        }
        let Value::Array(all) = pair.jeton.call(&["COMMAND"]) else { panic!("a list") };
        assert_eq!(all.len(), names.len());
        let docs = pair.jeton.call(&["COMMAND", "DOCS", "jadd", "get", "nothing"]);
        let reply = match docs {
            Value::Array(flat) => flat.len() / 2,
            Value::Map(pairs) => pairs.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(reply, 2);
    }
}
