//! Sends the same commands to Redis and to Jeton: the replies must be the same bytes.
//!
//! The cases are text files with one command per line:
//!
//! | line | meaning |
//! |---|---|
//! | `== title` | deletes all keys and opens a new connection |
//! | `SET a "b c"` | a command; in quotes are `\n`, `\r`, `\t`, `\\`, `\"` and `\xff` |
//! | `~5 TTL a` | a number that may differ by at most 5 |
//! | `! reason; SET a b` | the replies must differ, for this reason |
//! | `% text` | sends these bytes with escapes; compares one reply |
//! | `%% text` | sends these bytes with escapes; compares all bytes until the connection is closed |
//! | `a*70000` in a command | the byte repeated 70000 times |

use std::fmt::Write as _;

use crate::client::command;
use crate::redis::{Both, Pair};

const CASES: &[(&str, &str)] = &[
    ("strings", include_str!("cases/strings.txt")),
    ("expiry", include_str!("cases/expiry.txt")),
    ("keys", include_str!("cases/keys.txt")),
    ("transactions", include_str!("cases/transactions.txt")),
    ("connection", include_str!("cases/connection.txt")),
    ("protocol", include_str!("cases/protocol.txt")),
];

#[test]
fn replies_match_redis() {
    let both = Both::start();
    let mut wrong = String::new();
    let mut compared = 0;
    for version in [2, 3] {
        for (name, text) in CASES {
            let mut pair = both.pair(version);
            for (number, line) in text.lines().enumerate() {
                if line.trim().is_empty() || line.starts_with('#') {
                    continue;
                }
                if line.starts_with("==") {
                    both.flush();
                    pair = both.pair(version);
                    continue;
                }
                compared += 1;
                if let Err(difference) = compare(&mut pair, line) {
                    writeln!(wrong, "{name}.txt:{} in RESP{version}: {line}\n{difference}", number + 1)
                        .unwrap();
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(compared > 1000, "only {compared} commands were compared");
}

fn compare(pair: &mut Pair, line: &str) -> Result<(), String> {
    let shown = |redis: &[u8], jeton: &[u8]| {
        Err(format!("    redis: {}\n    jeton: {}", redis.escape_ascii(), jeton.escape_ascii()))
    };
    if let Some(text) = line.strip_prefix("%% ") {
        pair.each(|client| client.send(&unescape(text)));
        pair.each(|client| client.end());
        let (redis, jeton) = (pair.redis.read_to_end(), pair.jeton.read_to_end());
        return if redis == jeton { Ok(()) } else { shown(&redis, &jeton) };
    }
    if let Some(text) = line.strip_prefix("% ") {
        let [redis, jeton] = pair.run(&unescape(text));
        return if redis == jeton { Ok(()) } else { shown(&redis, &jeton) };
    }
    if let Some(rest) = line.strip_prefix("! ") {
        let (reason, request) = rest.split_once("; ").expect("a reason and a command");
        let [redis, jeton] = pair.run(&command(&split(request)));
        assert!(!reason.is_empty());
        return if redis != jeton {
            Ok(())
        } else {
            Err(format!("    the same, by now: {}", redis.escape_ascii()))
        };
    }
    if let Some(rest) = line.strip_prefix('~') {
        let (tolerance, request) = rest.split_once(' ').expect("a number and a command");
        let [redis, jeton] = pair.run(&command(&split(request)));
        let near = match (integer(&redis), integer(&jeton)) {
            (Some(redis), Some(jeton)) => {
                redis.abs_diff(jeton) <= tolerance.parse::<u64>().expect("a number")
            }
            _ => false,
        };
        return if near { Ok(()) } else { shown(&redis, &jeton) };
    }
    let [redis, jeton] = pair.run(&command(&split(line)));
    if redis == jeton { Ok(()) } else { shown(&redis, &jeton) }
}

/// The number of an integer reply.
pub fn integer(raw: &[u8]) -> Option<i64> {
    std::str::from_utf8(raw.strip_prefix(b":")?).ok()?.trim_end().parse().ok()
}

/// Splits a line into words; a quoted text is one word.
fn split(line: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (word, after) = if let Some(quoted) = rest.strip_prefix('"') {
            let mut end = 0;
            let bytes = quoted.as_bytes();
            while bytes[end] != b'"' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            (unescape(&quoted[..end]), &quoted[end + 1..])
        } else {
            let end = rest.find(' ').unwrap_or(rest.len());
            (repeated(&rest[..end]), &rest[end..])
        };
        words.push(word);
        rest = after.trim_start();
    }
    words
}

/// `a*5` is `aaaaa`; everything else is itself.
fn repeated(word: &str) -> Vec<u8> {
    match word.split_once('*') {
        Some((one, times))
            if one.len() == 1 && !times.is_empty() && times.bytes().all(|b| b.is_ascii_digit()) =>
        {
            one.repeat(times.parse().expect("digits")).into_bytes()
        }
        _ => word.into(),
    }
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next().expect("something after a backslash") {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let mut digit =
                    || char::from(bytes.next().expect("a digit")).to_digit(16).expect("a digit") as u8;
                digit() << 4 | digit()
            }
            other => other,
        });
    }
    out
}
