//! `COMMAND` reports the same metadata as Redis for commands of the same name.

use jeton_resp::reply_parser::Value;

use crate::client::show;
use crate::redis::Both;

/// Commands of Jeton only, or newer than the Redis used for comparison.
const OURS: &[&str] = &["increx", "jadd", "jdel", "jget", "jmadd", "jop", "jreset", "jset"];

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
